//! A switch of a network as its supervisor runs it: this program in a process of its own, which dies with the supervisor.

use std::path::Path;
use std::process::Stdio;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::process;
use super::supervisor::{LOOK_EVERY, Supervisor, now};
use crate::network::heartbeat::{BEAT_EVERY, Heartbeat, beat_file};
use crate::network::switch::{SwitchOrder, Trunk};
use model::partition::set::{LastEnd, SwitchUnit};
use platforms::held_process::mark;
use platforms::spawn::ending;
use platforms::wall;

/// How long a switch may take until it is ready.
const READY_DEADLINE: Duration = Duration::from_secs(20);
/// In which the switch says what it counted.
const READY_FILE: &str = "switch.json";
/// Looks without a beat after which a switch that hangs is started anew: 5 s. A standby has long taken over then.
const GIVEN_UP_AFTER: u32 = 50;
/// How long it may take to end.
const END_GRACE: Duration = Duration::from_secs(2);

/// Runs the switch until it ends or the supervisor is told to stop.
pub(super) fn run(supervisor: &Supervisor<'_>, unit: &SwitchUnit) -> LastEnd {
    let end = |reason: String| LastEnd { at_unix_ns: now(), program: None, reason, console: Vec::new() };
    // There when the switch is ready; left by one that was killed.
    let ready = unit.link.join(READY_FILE);
    let _ = std::fs::remove_file(&ready);
    let mut command = order(unit, &ready).walled(supervisor.means.exe);
    command.stdin(Stdio::null());
    mark(&mut command, supervisor.folder);
    let mut child = match wall::start(command) {
        Ok(child) => child,
        Err(error) => return end(format!("the switch cannot be started: {error}")),
    };
    let name = process::named(child.id());
    supervisor.note(|state| state.process.clone_from(&name));
    let until = Instant::now() + READY_DEADLINE;
    let mut is_ready = false;
    let mut told: Option<Instant> = None;
    let mut heartbeat = Heartbeat::of(beat_file(&unit.link), GIVEN_UP_AFTER);
    let mut look_at = Instant::now();
    let reason = loop {
        match child.try_wait() {
            Ok(Some(status)) => break format!("the switch {}", ending(status)),
            Ok(None) => {}
            Err(error) => break format!("the switch cannot be waited for: {error}"),
        }
        if !is_ready && ready.exists() {
            is_ready = true;
            supervisor.note_running();
        }
        if !is_ready && Instant::now() > until {
            break format!("the switch was not ready within {} s", READY_DEADLINE.as_secs());
        }
        // Until then there may be beats of one that was killed.
        if is_ready && Instant::now() >= look_at {
            look_at = Instant::now() + BEAT_EVERY;
            if !heartbeat.look() {
                break format!(
                    "the switch did not work on for {} s",
                    (BEAT_EVERY * GIVEN_UP_AFTER).as_secs()
                );
            }
        }
        if supervisor.means.cancel.is_cancelled() {
            if let (None, Some(name)) = (told, &name) {
                // One that cannot be asked is killed when the grace is over.
                let _ = process::signal(name, supervisor.folder, Signal::SIGTERM);
            }
            if told.get_or_insert_with(Instant::now).elapsed() > END_GRACE {
                break "the switch did not end when asked".to_owned();
            }
        }
        std::thread::sleep(LOOK_EVERY);
    };
    // Gone already, or not to be waited for.
    let _ = child.kill();
    let _ = child.wait();
    let _ = std::fs::remove_file(&ready);
    end(reason)
}

/// What it is to do.
fn order(unit: &SwitchUnit, ready: &Path) -> SwitchOrder {
    let trunk_at = unit.trunk_at.clone().map(Trunk::At);
    SwitchOrder {
        folder: unit.link.clone(),
        prefix: unit.prefix,
        rates: unit.rates.iter().copied().collect(),
        trunk: trunk_at.or_else(|| unit.trunk_to.clone().map(Trunk::To)),
        state: Some(ready.to_owned()),
    }
}
