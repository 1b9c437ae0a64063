//! The instances of a run: started when first used, kept for the whole run, without CPUs while it is not their turn.
//!
//! ```text
//!            checkout                       give_back
//!  (none) ───start────► in use ───pause───► parked ───checkout (resume)──► in use
//!     ▲                   │ broke             │ broke
//!     └────── end ────────┴───────────────────┘            three starts failed in a row: never tried again
//! ```
//!
//! The members of a layout sit on seats of their own. Those of another layout of the same platform are ended when
//! memory would get short.

use std::collections::BTreeMap;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::demand::Room;
use super::event::{Event, Role};
use super::floods::Floods;
use super::network::{Networks, own_address};
use model::experiment::PlatformSpec;
use model::journal::{Failure, FailureKind, InstanceLife};
use platforms::lab::Port;
use platforms::own_folder::remove_ours;
use platforms::{Broken, Cancel, Instance, InstanceSpec, Platform, Reach};
use units::layout::Layout;
use units::{Bytes, Nanos, Reason};

/// Starts that may fail in a row before a seat is given up.
const MOST_FAILED_STARTS: u32 = 3;

/// Where an instance sits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Seat {
    /// The measured instance of a platform, by its place in the experiment.
    Measured(usize),
    /// The second instance of a platform.
    Neighbour(usize),
    /// One of several instances of a platform that measure at once.
    Member {
        /// Place of the platform in the experiment.
        platform: usize,
        /// Their layout.
        layout: Layout,
        /// Number in the layout, from 0.
        rank: u32,
    },
    /// The native instance that carries loads on the host.
    Host,
}

impl Seat {
    /// Place of its platform in the experiment.
    const fn platform(self) -> Option<usize> {
        match self {
            Self::Measured(index) | Self::Neighbour(index) | Self::Member { platform: index, .. } => {
                Some(index)
            }
            Self::Host => None,
        }
    }
}

#[derive(Default)]
struct Occupant {
    parked: Option<Box<dyn Instance>>,
    failed_starts: u32,
    given_up: Option<String>,
    next_job: u64,
    life: InstanceLife,
    /// When the pause that lasts was asked for, and when it was confirmed.
    pausing: Option<(Instant, Instant)>,
}

impl Occupant {
    /// Its pause has ended: that was asked for at `asked`.
    fn paused_until(&mut self, asked: Instant) {
        let Some((from, confirmed)) = self.pausing.take() else { return };
        let add = |sum: &mut Nanos, time: Duration| *sum = sum.saturating_add(Nanos::from_duration(time));
        add(&mut self.life.paused_at_least_ns, asked.saturating_duration_since(confirmed));
        add(&mut self.life.paused_at_most_ns, from.elapsed());
    }
}

/// Platforms and their instances.
pub(super) struct Fleet {
    pub(super) platforms: Vec<(PlatformSpec, Box<dyn Platform>)>,
    host: Option<Box<dyn Platform>>,
    seats: BTreeMap<Seat, Occupant>,
    pub(super) networks: Networks,
    pub(super) rooms: Rooms,
    scratch: PathBuf,
    cancel: Cancel,
    /// How long each start took that nobody has asked for yet, by label of the platform.
    starts: Vec<(String, Duration)>,
    /// Number of the next start.
    next_start: u32,
}

/// What instances of each role need.
#[derive(Debug, Clone)]
pub(super) struct Rooms {
    /// Measured instances.
    pub(super) measured: Room,
    /// Second instances.
    pub(super) neighbour: Room,
    /// The instance that carries loads on the host.
    pub(super) host: Room,
    /// Where loads that send packets run, so that instances there get a way out.
    pub(super) floods: Floods,
    /// Members of each layout, in the experiment's order.
    pub(super) members: Vec<MemberRoom>,
}

/// What each member of a layout needs.
#[derive(Debug, Clone, Copy)]
pub(super) struct MemberRoom {
    /// The layout.
    pub(super) layout: Layout,
    /// Memory and disk.
    pub(super) room: Room,
    /// Whether a probe measured in it needs a network.
    pub(super) networked: bool,
}

impl Rooms {
    /// What members of this layout need, and the number of the first of them: 0 and 1 are the measured instance and
    /// its neighbour, the members of all layouts follow.
    pub(super) fn of(&self, layout: Layout) -> Option<(MemberRoom, u32)> {
        let mut number = 2;
        for member in &self.members {
            if member.layout == layout {
                return Some((*member, number));
            }
            number += member.layout.instances();
        }
        None
    }
}

impl Fleet {
    pub(super) fn new(
        platforms: Vec<(PlatformSpec, Box<dyn Platform>)>,
        host: Option<Box<dyn Platform>>,
        rooms: Rooms,
        scratch: PathBuf,
        cancel: Cancel,
    ) -> Self {
        let (seats, networks) = (BTreeMap::new(), Networks::default());
        Self { platforms, host, seats, networks, rooms, scratch, cancel, starts: Vec::new(), next_start: 0 }
    }

    /// Numbers starts from here on, so that no instance is taken for one of an earlier session.
    pub(super) fn number_starts_from(&mut self, first: u32) {
        self.next_start = first;
    }

    /// Which instance sits there, and for how long it was paused.
    pub(super) fn life(&self, seat: Seat) -> InstanceLife {
        self.seats.get(&seat).map(|occupant| occupant.life).unwrap_or_default()
    }

    /// How long the starts since the last call took, by label of the platform.
    pub(super) fn take_starts(&mut self) -> Vec<(String, Duration)> {
        std::mem::take(&mut self.starts)
    }

    /// Never tries the measured instances of this platform again, those of layouts included.
    pub(super) fn give_up_platform(&mut self, index: usize, reason: &str) {
        self.give_up(Seat::Measured(index), reason.to_owned());
        for member in self.rooms.members.clone() {
            self.give_up(Seat::Member { platform: index, layout: member.layout, rank: 0 }, reason.to_owned());
        }
    }

    /// Gives up every layout that has more hosts than its platform.
    pub(super) fn give_up_large_layouts(&mut self) {
        for index in 0..self.platforms.len() {
            let hosts = self.platforms.get(index).map_or(0, |(_, platform)| platform.hosts());
            for member in self.rooms.members.clone() {
                let wanted = member.layout.hosts();
                if wanted > hosts {
                    let label = self.label(Seat::Measured(index));
                    let reason = format!(
                        "layout {} needs {wanted} hosts, platform {label} has {hosts}: name more machines, or leave this \
                         layout out",
                        member.layout
                    );
                    self.give_up(Seat::Member { platform: index, layout: member.layout, rank: 0 }, reason);
                }
            }
        }
    }

    /// Ends the instance on this seat, if one is parked there.
    pub(super) fn vacate(&mut self, seat: Seat) {
        if let Some(mut instance) = self.seats.get_mut(&seat).and_then(|occupant| occupant.parked.take()) {
            instance.end();
        }
    }

    /// Ends members of other layouts when starting those of this one would take too much of the memory that is left:
    /// those of the same platform first, then all.
    pub(super) fn make_room(&mut self, platform: usize, layout: Layout) {
        let Some((member, _)) = self.rooms.of(layout) else { return };
        let parked = |seat: &Seat, occupant: &Occupant| match seat {
            Seat::Member { layout: other, platform: at, .. } if *other == layout && *at == platform => {
                occupant.parked.is_some()
            }
            _ => false,
        };
        let here = self.seats.iter().filter(|(seat, occupant)| parked(seat, occupant)).count() as u64;
        let missing = u64::from(layout.instances()).saturating_sub(here);
        let needed = member.room.memory.get().saturating_mul(missing);
        for only_this_platform in [true, false] {
            if !is_short(needed, available_memory()) {
                return;
            }
            let others: Vec<Seat> = self
                .seats
                .keys()
                .copied()
                .filter(|seat| match seat {
                    Seat::Member { platform: at, layout: other, .. } => {
                        (*at == platform) == only_this_platform && (*at, *other) != (platform, layout)
                    }
                    _ => false,
                })
                .collect();
            for seat in others {
                self.vacate(seat);
            }
        }
    }

    /// Where the others reach the member of a layout; none on platforms without a network.
    ///
    /// # Errors
    /// Why there is no network for it.
    pub(super) fn reached_at(&mut self, seat: Seat) -> Result<Option<(SocketAddr, Option<Port>)>, Reason> {
        let Seat::Member { platform, layout, rank } = seat else { return Ok(None) };
        let reach = self.platforms.get(platform).map_or(Reach::None, |(_, platform)| platform.reach());
        match reach {
            Reach::None => Ok(None),
            Reach::Lab | Reach::LabSharedAddress => {
                let port = self.networks.port(seat, layout, layout.host_of(rank), reach)?;
                Ok(Some((SocketAddr::new(port.address, port.first_port), Some(port))))
            }
            Reach::Own => {
                let spec =
                    self.instance_spec(seat, false).map_err(|_| "its files cannot be made".to_owned())?;
                let address = self.platforms.get(platform).and_then(|(_, platform)| platform.address(&spec));
                let address = address.ok_or_else(|| {
                    let label = self.label(seat);
                    format!("platform {label} does not say under which address its hosts reach each other: add addresses")
                })?;
                Ok(Some((own_address(address, layout, rank), None)))
            }
        }
    }

    /// Never tries this seat again.
    fn give_up(&mut self, seat: Seat, reason: String) {
        self.seats.entry(seat).or_default().given_up = Some(reason);
    }

    /// Number of the next job on this seat's link, from 1; the first one is given to an instance just started.
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
        let first = match seat {
            Seat::Member { platform, layout, .. } => Seat::Member { platform, layout, rank: 0 },
            other => other,
        };
        for seat in [first, seat] {
            if let Some(reason) = self.seats.get(&seat).and_then(|occupant| occupant.given_up.clone()) {
                return Err(start_failure(reason).into());
            }
        }
        let occupant = self.seats.entry(seat).or_default();
        match occupant.parked.take() {
            Some(mut instance) => match (Instant::now(), instance.resume()) {
                (asked, Ok(())) => {
                    occupant.paused_until(asked);
                    Ok(instance)
                }
                (_, Err(broken)) => {
                    instance.end();
                    Err(broken)
                }
            },
            None => self.start(seat, on_event),
        }
    }

    fn start(&mut self, seat: Seat, on_event: &mut dyn FnMut(&Event)) -> Result<Box<dyn Instance>, Broken> {
        let (platform, role) = (self.label(seat), role_of(seat));
        let spec = self.instance_spec(seat, true)?;
        on_event(&Event::InstanceStarting { platform: platform.clone(), role });
        let cancel = self.cancel.clone();
        let asked = Instant::now();
        let started = self.platform(seat)?.start(&spec, &cancel);
        if started.is_ok() {
            self.starts.push((platform.clone(), asked.elapsed()));
        }
        let start = self.next_start;
        self.next_start = start.saturating_add(1);
        let occupant = self.seats.entry(seat).or_default();
        match started {
            Ok(instance) => {
                occupant.failed_starts = 0;
                occupant.next_job = 0;
                occupant.life = InstanceLife { start, ..InstanceLife::default() };
                occupant.pausing = None;
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
        let Some(index) = seat.platform() else { return "host".to_owned() };
        self.platforms.get(index).map(|(spec, _)| spec.label.clone()).unwrap_or_default()
    }

    fn platform(&mut self, seat: Seat) -> Result<&mut Box<dyn Platform>, Broken> {
        match seat.platform() {
            Some(index) => self.platforms.get_mut(index).map(|(_, platform)| platform),
            None => self.host.as_mut(),
        }
        .ok_or_else(|| start_failure("no platform was set up to carry it".to_owned()).into())
    }

    /// What the instance on this seat is started with; `plugged` says whether it is plugged into its network, too.
    fn instance_spec(&mut self, seat: Seat, plugged: bool) -> Result<InstanceSpec, Broken> {
        let (number, room, host) = match seat {
            Seat::Measured(_) => (0, self.rooms.measured, 0),
            Seat::Neighbour(_) => (1, self.rooms.neighbour, 0),
            Seat::Host => (1, self.rooms.host, 0),
            Seat::Member { layout, rank, .. } => {
                let unknown = || start_failure(format!("layout {layout} is not in the experiment"));
                let (member, first) = self.rooms.of(layout).ok_or_else(unknown)?;
                (first + rank, member.room, layout.host_of(rank))
            }
        };
        let rank = match seat {
            Seat::Measured(_) => 0,
            Seat::Neighbour(_) | Seat::Host => 1,
            Seat::Member { rank, .. } => rank,
        };
        // A network that cannot be had is a failure of the probes that need it, not of the instance.
        let port = if plugged { self.port_of(seat) } else { None };
        // No label has a dot, so the host's folder cannot be a platform's.
        let name = if seat == Seat::Host {
            "host.load".to_owned()
        } else {
            format!("{}.{number}", self.label(seat))
        };
        let scratch = self.scratch.join(name);
        if plugged {
            fresh_folder(&scratch)?;
        }
        Ok(InstanceSpec {
            number,
            memory_wanted: room.memory,
            disk_wanted: room.disk,
            scratch,
            rank,
            host,
            port,
        })
    }

    /// Parks an instance that is in order. One that cannot be paused is ended: it would disturb the others.
    pub(super) fn give_back(&mut self, seat: Seat, mut instance: Box<dyn Instance>) {
        let asked = Instant::now();
        if instance.pause().is_ok() {
            let occupant = self.seats.entry(seat).or_default();
            occupant.pausing = Some((asked, Instant::now()));
            occupant.parked = Some(instance);
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
        Seat::Member { rank, .. } => Role::Member(rank),
        Seat::Neighbour(_) => Role::Neighbour,
        Seat::Host => Role::HostLoad,
    }
}

fn start_failure(reason: String) -> Failure {
    Failure { kind: FailureKind::Start, reason, console: Vec::new() }
}

/// Whether starting would take more than two thirds of the memory that is left.
fn is_short(needed: u64, available: Option<Bytes>) -> bool {
    available.is_some_and(|available| needed > available.get() / 3 * 2)
}

fn available_memory() -> Option<Bytes> {
    let text = fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kib: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(Bytes::from_bytes(kib.saturating_mul(1024)))
}

fn fresh_folder(path: &Path) -> Result<(), Broken> {
    let removed = match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => remove_ours(parent, name),
        _ => Err(std::io::ErrorKind::InvalidInput.into()),
    };
    removed.and_then(|_| fs::create_dir_all(path)).map_err(|error| {
        start_failure(format!("cannot make the folder {} for its files: {error}", path.display())).into()
    })
}
