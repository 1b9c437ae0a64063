//! The supervisor: a process of its own for each partition and each switch of a set. It starts what it keeps, writes down how
//! that stands, starts it again as the policy says, and ends it when it is told to. Nothing else knows of the partition;
//! when the supervisor is killed, the kernel ends its partition with it, and only that. A supervisor that is started in its place
//! (`watch.rs`) takes that for an end like any other.
//!
//! ```text
//!  `go` on stdin ─► unit.json ─► Starting ─► Running ─► its end ─► last word ─► exit
//!      │ end of pipe: exit           ▲                     │
//!      ▼                             └── back-off ◄── policy
//!  (whoever started it died)                  SIGTERM: signal, grace, kill
//! ```

use std::fs::{self, File};
use std::io::Read;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use super::logs::Log;
use super::{folder, process, ready, resolve, root, switch, watch};
use crate::run::{Event, Failed, Order, Orders, Outcome, Streams, Surroundings};
use model::partition::network::NamedAddress;
use model::partition::set::{KeptState, LastEnd, OutOfMemory, PartitionUnit, Phase, Restart, UnitSpec};
use model::partition::{PartitionSpec, ProgramEnd};
use platforms::ledger::Ledger;
use platforms::{Cancel, ledger};
use units::{Hertz, Nanos, Reason};

/// Says that whoever started the supervisor has written it down.
pub const GO: u8 = b'g';
/// How long a program may take to end after the signal that asks it to.
pub const STOP_GRACE: Duration = Duration::from_secs(10);
/// What has run so long was a good start: restarts are counted anew.
pub const GOOD_RUN: Duration = Duration::from_secs(60);
/// Before the first restart; doubled before each further one.
const FIRST_BACK_OFF: Duration = Duration::from_secs(1);
/// Between restarts at most.
const LONGEST_BACK_OFF: Duration = Duration::from_secs(30);
/// How often it is looked whether to stop.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(20);
/// What asks a program to end.
const SIGTERM: i32 = 15;
/// What the kernel ends a process with for want of memory.
const SIGKILL: i32 = 9;

/// What runs a partition: [`crate::run::run`], or a test's stand-in.
pub type Runner<'a> =
    dyn Fn(&PartitionSpec, Streams, &Surroundings, Orders, &mut dyn FnMut(Event)) -> Outcome + Sync + 'a;

/// What a supervisor works with.
pub struct Means<'a> {
    /// Set when it is to end.
    pub cancel: &'a Cancel,
    /// This program.
    pub exe: &'a Path,
    /// Rate of the cycle counter.
    pub counter_hz: Option<Hertz>,
    /// What runs a partition.
    pub run: &'a Runner<'a>,
}

/// When something is started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Policy {
    pub restart: Restart,
    pub limit: u32,
    pub back_off: Duration,
}

/// A supervisor at work.
pub(super) struct Supervisor<'a> {
    pub folder: &'a Path,
    pub means: &'a Means<'a>,
    state: Mutex<KeptState>,
    ran: AtomicBool,
    /// Its program has ended, and is not looked after any more, though it is not over.
    delivers: AtomicBool,
    /// Why what runs now is to end, although nobody asked for it.
    unwell: Mutex<Option<String>>,
}

/// What the supervisor does: waits at `go`, then keeps what lies in `folder` until that has ended.
///
/// # Errors
/// When the folder does not say what is to be kept, or cannot be written to.
pub fn keep(folder: &Path, go: OwnedFd, means: &Means<'_>) -> Result<(), Reason> {
    // What it starts is no more than it is, whatever bits a file carries.
    rustix::thread::set_no_new_privs(true).map_err(|error| format!("no new privileges: {error}"))?;
    let mut said = Vec::new();
    let _ = File::from(go).take(1).read_to_end(&mut said);
    if said != [GO] {
        return Ok(());
    }
    root::check_private(folder).map_err(|error| error.to_string())?;
    let unit = folder::read_unit(folder);
    let unit = unit.ok_or_else(|| format!("{} does not say what is to be kept", folder.display()))?;
    let own = process::own().ok_or("this process cannot be found in /proc")?;
    let before = folder::read_state(folder);
    let (restarts, in_a_row) = before.as_ref().map_or((0, 0), |before| (before.restarts, before.in_a_row));
    let state = KeptState {
        phase: Phase::Starting,
        since_unix_ns: now(),
        supervisor: own,
        process: None,
        files: None,
        engine: None,
        given: None,
        booted: false,
        restarts,
        in_a_row,
        last: None,
        out_of_memory: None,
    };
    folder::write_state(folder, &state).map_err(|error| format!("{}: {error}", folder.display()))?;
    let ran = before.as_ref().is_some_and(|before| before.phase != Phase::Starting || restarts > 0);
    let supervisor = Supervisor {
        folder,
        means,
        state: Mutex::new(state),
        ran: AtomicBool::new(ran),
        delivers: AtomicBool::new(false),
        unwell: Mutex::default(),
    };
    std::thread::scope(|scope| {
        let (_until_the_end, over) = channel();
        scope.spawn(move || watch::keep_watched(folder, means.exe, &over));
        supervisor.keep_what(&unit, before.as_ref().map(loss));
    });
    Ok(())
}

/// The end of what was kept by a supervisor that was killed, and how long it had lasted.
fn loss(before: &KeptState) -> (LastEnd, Duration) {
    let reason = "its supervisor was killed".to_owned();
    let lasted = match before.phase {
        Phase::Running => now().saturating_sub(before.since_unix_ns).to_duration(),
        _ => Duration::ZERO,
    };
    (LastEnd { at_unix_ns: now(), program: None, reason, console: Vec::new() }, lasted)
}

impl Supervisor<'_> {
    /// Changes the state and writes it down.
    pub(super) fn note(&self, change: impl FnOnce(&mut KeptState)) {
        let mut state = self.state();
        let before = state.phase;
        change(&mut state);
        if state.phase != before {
            state.since_unix_ns = now();
        }
        // A full disk must not end the partition; the old state is shown then.
        let _ = folder::write_state(self.folder, &state);
    }

    /// It runs.
    pub(super) fn note_running(&self) {
        self.ran.store(true, Ordering::SeqCst);
        self.note(|state| state.phase = Phase::Running);
    }

    fn keep_what(&self, unit: &UnitSpec, lost: Option<(LastEnd, Duration)>) {
        match unit {
            UnitSpec::Partition(unit) => {
                let policy =
                    Policy { restart: unit.restart, limit: unit.restart_limit, back_off: FIRST_BACK_OFF };
                self.keep_on(policy, lost, &|| self.run_partition(unit));
            }
            UnitSpec::Switch(unit) => {
                let policy = Policy { restart: Restart::Always, limit: u32::MAX, back_off: FIRST_BACK_OFF };
                self.keep_on(policy, lost, &|| switch::run(self, unit));
            }
        }
    }

    fn keep_on(&self, policy: Policy, mut lost: Option<(LastEnd, Duration)>, once: &dyn Fn() -> LastEnd) {
        loop {
            let begun = Instant::now();
            let (end, lasted) = lost.take().unwrap_or_else(|| (once(), begun.elapsed()));
            let (phase, in_a_row) = self.judge(policy, end, lasted);
            self.note(|state| {
                state.phase = phase;
                state.in_a_row = in_a_row;
            });
            if phase != Phase::Waiting {
                return;
            }
            let doubled = policy.back_off.saturating_mul(1 << in_a_row.min(10));
            if !self.rest(doubled.min(LONGEST_BACK_OFF)) {
                return self.note(|state| state.phase = Phase::Stopped);
            }
            self.note(|state| {
                state.restarts = state.restarts.saturating_add(1);
                state.in_a_row = in_a_row.saturating_add(1);
                state.phase = Phase::Starting;
            });
        }
    }

    /// What follows an end, and how often it was started again in a row by then.
    fn judge(&self, policy: Policy, end: LastEnd, lasted: Duration) -> (Phase, u32) {
        let well = end.program == Some(ProgramEnd::Exit(0));
        let resting = if end.program.is_some() { Phase::Ended } else { Phase::Failed };
        let mut in_a_row = 0;
        self.note(|state| {
            state.process = None;
            state.booted = false;
            state.last = Some(end);
            in_a_row = if lasted > GOOD_RUN { 0 } else { state.in_a_row };
        });
        if self.means.cancel.is_cancelled() {
            return (Phase::Stopped, in_a_row);
        }
        let wanted = match policy.restart {
            Restart::Never => false,
            Restart::OnFailure => !well,
            Restart::Always => true,
        };
        // What never ran would not run the next time, and `up` waits for an answer.
        if !wanted || !self.ran.load(Ordering::SeqCst) {
            return (resting, in_a_row);
        }
        if in_a_row < policy.limit {
            return (Phase::Waiting, in_a_row);
        }
        self.note(|state| {
            if let Some(last) = &mut state.last {
                last.reason = format!("{}; started again {in_a_row} times without a good run", last.reason);
            }
        });
        (Phase::Failed, in_a_row)
    }

    /// False when it was told to stop meanwhile.
    fn rest(&self, time: Duration) -> bool {
        let until = Instant::now() + time;
        while Instant::now() < until {
            if self.means.cancel.is_cancelled() {
                return false;
            }
            std::thread::sleep(LOOK_EVERY);
        }
        !self.means.cancel.is_cancelled()
    }

    fn run_partition(&self, unit: &PartitionUnit) -> LastEnd {
        *self.unwell() = None;
        self.note(|state| state.out_of_memory = None);
        self.delivers.store(false, Ordering::SeqCst);
        let outcome = self.try_partition(unit);
        if let Some(reason) = self.unwell().take() {
            return LastEnd { at_unix_ns: now(), program: None, reason, console: Vec::new() };
        }
        match outcome {
            Outcome::Ended(how) => {
                let how_it_ended = match how {
                    ProgramEnd::Exit(code) => format!("its program ended with {code}"),
                    ProgramEnd::Signal(number) => format!("its program was ended by signal {number}"),
                };
                let (at_unix_ns, out_of_memory) = (now(), self.state().out_of_memory.clone());
                let reason =
                    how_it_ended + &out_of_memory.map_or_else(String::new, |it| blamed(&it, how, at_unix_ns));
                LastEnd { at_unix_ns, program: Some(how), reason, console: Vec::new() }
            }
            Outcome::Failed(Failed { reason, console, .. }) => {
                LastEnd { at_unix_ns: now(), program: None, reason, console }
            }
        }
    }

    fn state(&self) -> MutexGuard<'_, KeptState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unwell(&self) -> MutexGuard<'_, Option<String>> {
        self.unwell.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn try_partition(&self, unit: &PartitionUnit) -> Outcome {
        let failed = |what: &str, error: &dyn std::fmt::Display| {
            Outcome::Failed(Failed::own(format!("{what} in {}: {error}", self.folder.display())))
        };
        // Nothing may be left of the time before; then the list can begin anew and does not grow.
        let left = ledger::sweep(self.folder);
        if left.is_empty() {
            let _ = fs::remove_file(self.folder.join(ledger::FILE_NAME));
        }
        let ledger = match Ledger::open(self.folder) {
            Ok(ledger) => ledger,
            Err(error) => return failed("the list of started things cannot be kept", &error),
        };
        let logs = File::open("/dev/null").and_then(|input| {
            let output = Log::open(self.folder.join("stdout.log"))?;
            Ok((input, output, Log::open(self.folder.join("stderr.log"))?))
        });
        let (input, (_out_log, output), (_error_log, error)) = match logs {
            Ok(made) => made,
            Err(error) => return failed("logs cannot be kept", &error),
        };
        let tools = unit.tools.clone();
        let surroundings = Surroundings {
            exe: self.means.exe.to_owned(),
            cache: tools.cache,
            ledger,
            counter_hz: self.means.counter_hz,
            accelerator: tools.accelerator,
            qemu: tools.qemu,
            kernel: tools.kernel,
            modules: tools.modules,
            boot_deadline: tools.boot_deadline_s.map(|seconds| Duration::from_secs(seconds.into())),
            names: self.names(&unit.spec.name),
            restores: false,
            door: Some(self.folder.join(resolve::DOOR)),
        };
        let (orders, inbox) = channel();
        let (started, over) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // Dropped when the partition is over, with the last order given.
                let orders = orders;
                self.end_when_told(&started, &over, &|order| {
                    let _ = orders.send(order);
                });
            });
            scope.spawn(|| self.look_after(unit, &started, &over));
            let mut tell = |event| self.hear(event, unit, &started);
            let streams = Streams { input: input.into(), output, error };
            let outcome = (self.means.run)(&unit.spec, streams, &surroundings, inbox, &mut tell);
            over.store(true, Ordering::SeqCst);
            outcome
        })
    }

    /// Who is called how in the set as it is now; nobody when the folder does not lie in that of a set.
    fn names(&self, partition: &str) -> Vec<NamedAddress> {
        let set = self.folder.parent().and_then(Path::parent).and_then(folder::read_set);
        set.and_then(|record| record.set.names_for(partition).ok()).unwrap_or_default()
    }

    /// Looks whether it is ready, then whether it is well, where that was asked for.
    fn look_after(&self, unit: &PartitionUnit, started: &AtomicBool, over: &AtomicBool) {
        let has_ended = || over.load(Ordering::SeqCst) || self.delivers.load(Ordering::SeqCst);
        let is_over = || has_ended() || self.means.cancel.is_cancelled();
        let wait = |time: Duration| {
            let until = Instant::now() + time;
            while Instant::now() < until && !is_over() {
                std::thread::sleep(LOOK_EVERY);
            }
            !is_over()
        };
        if unit.ready.is_none() && unit.health.is_none() {
            return;
        }
        while !started.load(Ordering::SeqCst) {
            if !wait(LOOK_EVERY) {
                return;
            }
        }
        let door = self.folder.join(resolve::DOOR);
        if let Some(ready) = &unit.ready {
            match ready::until_ready(&door, ready, &wait) {
                Some(Ok(())) if !is_over() => self.note_running(),
                Some(Err(_)) if is_over() => return,
                Some(Err(why)) => return *self.unwell() = Some(why.into()),
                _ => return,
            }
        }
        if let Some(health) = &unit.health
            && let Some(why) = ready::until_unwell(&door, health, &wait)
            && !is_over()
        {
            *self.unwell() = Some(why);
        }
    }

    fn hear(&self, event: Event, unit: &PartitionUnit, started: &AtomicBool) {
        match event {
            Event::Trying
            | Event::Restored
            | Event::NotRestored { .. }
            | Event::Booted { .. }
            | Event::Passed { .. }
            | Event::Unwritable { .. } => {}
            Event::Created { pid, files, engine } => self.note(|state| {
                state.process = process::named(pid);
                state.files = files.and_then(process::named);
                state.engine = Some(engine.to_owned());
            }),
            Event::Delivers => self.delivers.store(true, Ordering::SeqCst),
            Event::MemoryRanOut(victim) => self.note(|state| {
                let reason = victim.words(unit.spec.resources.memory);
                state.out_of_memory = Some(OutOfMemory { at_unix_ns: now(), reason });
            }),
            Event::Placed(given) => self.note(|state| state.given = Some(*given)),
            Event::Started => {
                self.note(|state| state.booted = true);
                if unit.ready.is_none() {
                    self.note_running();
                }
                started.store(true, Ordering::SeqCst);
            }
        }
    }

    /// Asks the program to end when the supervisor is told to, or it is unwell, and does not ask for ever.
    fn end_when_told(&self, started: &AtomicBool, over: &AtomicBool, give: &dyn Fn(Order)) {
        let mut asked: Option<Instant> = None;
        let mut killed = false;
        while !over.load(Ordering::SeqCst) {
            if (self.means.cancel.is_cancelled() || self.unwell().is_some()) && !killed {
                let since = *asked.get_or_insert_with(|| {
                    // What is unwell may be started again, also when its supervisor is killed now.
                    if self.means.cancel.is_cancelled() {
                        self.note(|state| state.phase = Phase::Stopping);
                    }
                    if started.load(Ordering::SeqCst) {
                        give(Order::Signal(SIGTERM));
                    }
                    Instant::now()
                });
                if !started.load(Ordering::SeqCst) || since.elapsed() > STOP_GRACE {
                    give(Order::Kill);
                    killed = true;
                }
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

/// What a program's end has to do with memory that ran out before: who was killed was killed for that; else it is said when it was.
fn blamed(out_of_memory: &OutOfMemory, how: ProgramEnd, ended_unix_ns: Nanos) -> String {
    let before = ended_unix_ns.saturating_sub(out_of_memory.at_unix_ns).to_duration().as_secs();
    if how == ProgramEnd::Signal(SIGKILL) || before == 0 {
        return format!(": {}", out_of_memory.reason);
    }
    format!("; {before} s before, {}", out_of_memory.reason)
}

/// The host's clock, since 1970.
pub fn now() -> Nanos {
    Nanos::from_duration(SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default())
}

#[cfg(test)]
#[path = "supervisor_tests.rs"]
mod tests;
