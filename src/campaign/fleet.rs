//! The instances of a run: started when first used, kept for the whole run, without CPUs while it is not their turn.
//!
//! ```text
//!            checkout                       give_back
//!  (none) ───start────► in use ───pause───► parked ───checkout (resume)──► in use
//!     ▲                   │ broke             │ broke
//!     └────── end ────────┴───────────────────┘            three starts failed in a row: never tried again
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::demand::Room;
use super::event::{Event, Role};
use crate::model::experiment::PlatformSpec;
use crate::model::journal::{Failure, FailureKind};
use crate::platforms::{Broken, Cancel, Instance, InstanceSpec, Platform};

/// Starts that may fail in a row before a seat is given up.
const MOST_FAILED_STARTS: u32 = 3;

/// Where an instance sits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Seat {
    /// The measured instance of a platform, by its place in the experiment.
    Measured(usize),
    /// The second instance of a platform.
    Neighbour(usize),
    /// The native instance that carries loads on the host.
    Host,
}

#[derive(Default)]
struct Occupant {
    parked: Option<Box<dyn Instance>>,
    failed_starts: u32,
    given_up: Option<String>,
    next_job: u64,
}

/// Platforms and their instances.
pub(super) struct Fleet {
    platforms: Vec<(PlatformSpec, Box<dyn Platform>)>,
    host: Option<Box<dyn Platform>>,
    seats: BTreeMap<Seat, Occupant>,
    rooms: Rooms,
    scratch: PathBuf,
    cancel: Cancel,
}

/// What instances of each role need.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rooms {
    /// Measured instances.
    pub(super) measured: Room,
    /// Second instances.
    pub(super) neighbour: Room,
    /// The instance that carries loads on the host.
    pub(super) host: Room,
}

impl Fleet {
    pub(super) fn new(
        platforms: Vec<(PlatformSpec, Box<dyn Platform>)>,
        host: Option<Box<dyn Platform>>,
        rooms: Rooms,
        scratch: PathBuf,
        cancel: Cancel,
    ) -> Self {
        Self { platforms, host, seats: BTreeMap::new(), rooms, scratch, cancel }
    }

    /// Never tries this seat again.
    pub(super) fn give_up(&mut self, seat: Seat, reason: String) {
        self.seats.entry(seat).or_default().given_up = Some(reason);
    }

    /// Number of the next job on this seat's link, from 1.
    pub(super) fn next_job(&mut self, seat: Seat) -> u64 {
        let occupant = self.seats.entry(seat).or_default();
        occupant.next_job += 1;
        occupant.next_job
    }

    /// A running instance; it is the caller's until given back. One that is dropped instead is ended.
    pub(super) fn checkout(
        &mut self,
        seat: Seat,
        on_event: &mut dyn FnMut(&Event),
    ) -> Result<Box<dyn Instance>, Broken> {
        let occupant = self.seats.entry(seat).or_default();
        if let Some(reason) = &occupant.given_up {
            return Err(start_failure(reason.clone()).into());
        }
        match occupant.parked.take() {
            Some(mut instance) => match instance.resume() {
                Ok(()) => Ok(instance),
                Err(broken) => {
                    instance.end();
                    Err(broken)
                }
            },
            None => self.start(seat, on_event),
        }
    }

    fn start(&mut self, seat: Seat, on_event: &mut dyn FnMut(&Event)) -> Result<Box<dyn Instance>, Broken> {
        let (platform, role) = (self.label(seat), role_of(seat));
        let spec = self.instance_spec(seat)?;
        on_event(&Event::InstanceStarting { platform: platform.clone(), role });
        let cancel = self.cancel.clone();
        let started = self.platform(seat)?.start(&spec, &cancel);
        let occupant = self.seats.entry(seat).or_default();
        match started {
            Ok(instance) => {
                occupant.failed_starts = 0;
                occupant.next_job = 0;
                on_event(&Event::InstanceStarted { platform, role, start_time: instance.start_time() });
                Ok(instance)
            }
            Err(Broken::Failed(failure)) => {
                occupant.failed_starts += 1;
                if occupant.failed_starts >= MOST_FAILED_STARTS {
                    occupant.given_up = Some(format!(
                        "not tried: {platform} could not be started {MOST_FAILED_STARTS} times in a row, the last time: {}",
                        failure.reason
                    ));
                }
                Err(failure.into())
            }
            Err(Broken::Interrupted) => Err(Broken::Interrupted),
        }
    }

    fn label(&self, seat: Seat) -> String {
        match seat {
            Seat::Measured(index) | Seat::Neighbour(index) => {
                self.platforms.get(index).map(|(spec, _)| spec.label.clone()).unwrap_or_default()
            }
            Seat::Host => "host".to_owned(),
        }
    }

    fn platform(&mut self, seat: Seat) -> Result<&mut Box<dyn Platform>, Broken> {
        match seat {
            Seat::Measured(index) | Seat::Neighbour(index) => {
                self.platforms.get_mut(index).map(|(_, platform)| platform)
            }
            Seat::Host => self.host.as_mut(),
        }
        .ok_or_else(|| start_failure("no platform was set up to carry it".to_owned()).into())
    }

    fn instance_spec(&self, seat: Seat) -> Result<InstanceSpec, Broken> {
        let (number, room) = match seat {
            Seat::Measured(_) => (0, self.rooms.measured),
            Seat::Neighbour(_) => (1, self.rooms.neighbour),
            Seat::Host => (1, self.rooms.host),
        };
        // No label has a dot, so the host's folder cannot be a platform's.
        let name = if seat == Seat::Host {
            "host.load".to_owned()
        } else {
            format!("{}.{number}", self.label(seat))
        };
        let scratch = self.scratch.join(name);
        fresh_folder(&scratch)?;
        Ok(InstanceSpec {
            number,
            memory_wanted: room.memory,
            disk_wanted: room.disk,
            scratch,
            rank: number,
            host: 0,
            port: None,
        })
    }

    /// Parks an instance that is in order. One that cannot be paused is ended: it would disturb the others.
    pub(super) fn give_back(&mut self, seat: Seat, mut instance: Box<dyn Instance>) {
        if instance.pause().is_ok() {
            self.seats.entry(seat).or_default().parked = Some(instance);
        } else {
            instance.end();
        }
    }

    /// Ends every instance.
    pub(super) fn end(&mut self) {
        for occupant in self.seats.values_mut() {
            if let Some(mut instance) = occupant.parked.take() {
                instance.end();
            }
        }
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.end();
    }
}

const fn role_of(seat: Seat) -> Role {
    match seat {
        Seat::Measured(_) => Role::Measured,
        Seat::Neighbour(_) => Role::Neighbour,
        Seat::Host => Role::HostLoad,
    }
}

fn start_failure(reason: String) -> Failure {
    Failure { kind: FailureKind::Start, reason, console: Vec::new() }
}

fn fresh_folder(path: &Path) -> Result<(), Broken> {
    let removed = match fs::remove_dir_all(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        other => other,
    };
    removed.and_then(|()| fs::create_dir_all(path)).map_err(|error| {
        start_failure(format!("cannot make the folder {} for its files: {error}", path.display())).into()
    })
}
