//! Measures: for each kind a pair, a number of passes that fills a batch, and then batches with the calls alone between them.
//!
//! ```text
//!   threads      two workers: 0 leads, 1 answers until it is over
//!   processes    one worker leads; a forked process answers, and ends with it; a thread waits for its end
//! ```

#![expect(unsafe_code, reason = "a process with another address space is made by fork")]

use std::time::{Duration, Instant};
use std::{io, thread};

use nix::sched::{CpuSet, sched_setaffinity};
use nix::sys::wait::waitpid;
use nix::unistd::Pid;
use units::facts::OwnCost;
use units::{Bytes, Nanos};

use super::detail::{KINDS, SwitchBetween, SwitchKind, SwitchPlace};
use super::handover::{Handover, Side};
use crate::bounds::Bounds;
use crate::clock::monotonic_facts;
use crate::context::Context;
use crate::detail::{Detail, SwitchBatch, SwitchDetail, SwitchPoint};
use crate::error::WorkError;
use crate::fork::run::children_cpu_time;
use crate::job::ProbeReport;
use crate::params::SwitchParams;
use crate::pin::{allowed_cpus, pin_to};
use crate::workers::{self, Muster};

/// Batches of each kind.
pub const BATCHES: u32 = 16;
/// Why there is nothing on two CPUs.
pub const ONE_CPU: &str = "only one CPU is granted";
/// Passes of the first batch that is tried; even, so that the turn comes back.
const FEWEST: u64 = 16;
/// Turns between two looks at the job's limits: some milliseconds.
const TIMES_PER_LOOK: u64 = 1024;
/// Most passes of a batch.
const MOST: u64 = 1 << 30;

/// Measures every kind.
///
/// # Errors
/// The job was to end, or a pipe, a thread or a process could not be made.
pub fn measure(params: &SwitchParams, context: &Context<'_>) -> Result<ProbeReport, WorkError> {
    let before = children_cpu_time()?;
    let mut cpu_time = Nanos::ZERO;
    let (mut points, mut notes) = (Vec::new(), Vec::new());
    for kind in KINDS {
        let (between, through, place) = kind;
        let mut point = SwitchPoint { between, through, place, unsupported: None, batches: Vec::new() };
        if let Some(pair) = Pair::of(kind, params, context.bounds)? {
            let made = pair.measure()?;
            cpu_time = cpu_time.saturating_add(made.cpu_time);
            point.batches = made.batches;
            notes.extend(made.note);
        } else {
            point.unsupported = Some(ONE_CPU.to_owned());
        }
        points.push(point);
    }
    notes.dedup();
    let clock = monotonic_facts();
    let batches = KINDS.len() as u64 * u64::from(BATCHES);
    let cost = OwnCost {
        per_sample_ns: clock.read_ns,
        cpu_time_ns: cpu_time.saturating_add(children_cpu_time()?.saturating_sub(before)),
        memory_bytes: Bytes::from_bytes(batches * size_of::<SwitchBatch>() as u64),
    };
    Ok(ProbeReport::new(clock, cost, Detail::Switch(SwitchDetail { points }), notes))
}

/// What a pair brings home.
struct Made {
    batches: Vec<SwitchBatch>,
    cpu_time: Nanos,
    note: Option<String>,
}

/// Two who hand a turn to each other.
struct Pair<'a> {
    between: SwitchBetween,
    /// Of who leads and who answers; none where the kernel does not say which there are.
    cpus: [Option<usize>; 2],
    turn: Handover,
    /// Of the same kind; nobody waits for it.
    alone: Handover,
    batch: Duration,
    bounds: Bounds<'a>,
}

impl<'a> Pair<'a> {
    /// None where there are not enough CPUs for it.
    fn of(kind: SwitchKind, params: &SwitchParams, bounds: Bounds<'a>) -> Result<Option<Self>, WorkError> {
        let (between, through, place) = kind;
        // Interrupts and daemons favour the first CPU.
        let allowed = allowed_cpus();
        let last = allowed.last().copied();
        let cpus = match (place, allowed.as_slice()) {
            (SwitchPlace::SameCpu, _) => [last, last],
            (SwitchPlace::TwoCpus, [.., other, _]) => [last, Some(*other)],
            (SwitchPlace::TwoCpus, _) => return Ok(None),
        };
        let batch = params.duration_ms.to_duration() / BATCHES;
        let (turn, alone) = (Handover::new(through)?, Handover::new(through)?);
        Ok(Some(Self { between, cpus, turn, alone, batch, bounds }))
    }

    fn measure(&self) -> Result<Made, WorkError> {
        let outcome = match self.between {
            SwitchBetween::Threads => {
                workers::run(2, self.bounds, |number, muster| self.thread(number, muster))
            }
            SwitchBetween::Processes => {
                workers::run(1, self.bounds, |_, _| self.beside_a_process().map(Some))
            }
        }?;
        let led = outcome.results.into_iter().flatten().next();
        let (batches, note) = led.ok_or_else(|| WorkError::Unfit("nobody led the pair".to_owned()))?;
        Ok(Made { batches, cpu_time: outcome.cpu_time, note })
    }

    /// One of two threads; what it brings home when it leads.
    fn thread(&self, number: u32, muster: &Muster<'_>) -> Result<Option<Led>, WorkError> {
        if number == 0 {
            let led = muster.wait().and_then(|()| self.lead());
            // Also where nobody leads: who answers may be there already.
            self.turn.over();
            return led.map(Some);
        }
        muster.wait()?;
        let _ = self.cpus[1].map(pin_to);
        self.answer();
        Ok(None)
    }

    /// Leads, with a process that answers.
    fn beside_a_process(&self) -> Result<Led, WorkError> {
        let mut own = CpuSet::new();
        let is_known = self.cpus[1].is_some_and(|cpu| own.set(cpu).is_ok());
        // SAFETY: the child of a process with threads may only make async-signal-safe calls; it makes system calls, takes no
        // memory, and ends without coming back.
        let child = unsafe { libc::fork() };
        if child < 0 {
            return Err(WorkError::system("fork", io::Error::last_os_error()));
        }
        if child == 0 {
            if is_known {
                let _ = sched_setaffinity(Pid::from_raw(0), &own);
            }
            // SAFETY: prctl(2) with numbers alone: it ends when the thread does that made it.
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
            self.answer();
            // SAFETY: ends the child at once, without the handlers of the parent.
            unsafe { libc::_exit(0) };
        }
        thread::scope(|scope| {
            let reap = || {
                let _ = waitpid(Pid::from_raw(child), None);
                // Who was killed hands over no turn.
                self.turn.over();
            };
            let led = match thread::Builder::new().spawn_scoped(scope, reap) {
                Ok(_) => self.lead(),
                Err(error) => {
                    self.turn.over();
                    reap();
                    Err(WorkError::system("start a thread", error))
                }
            };
            self.turn.over();
            led
        })
    }

    /// Answers until it is over.
    fn answer(&self) {
        while self.turn.take(Side::Answer) && self.turn.give(Side::Answer) {}
    }

    fn lead(&self) -> Result<Led, WorkError> {
        let note = self.cpus[0].and_then(|cpu| pin_to(cpu).note);
        Ok((self.batches()?, note))
    }

    fn batches(&self) -> Result<Vec<SwitchBatch>, WorkError> {
        let mut passes = FEWEST;
        while timed(|| self.there_and_back(passes))?.to_duration() * 2 < self.batch && passes < MOST {
            passes *= 2;
        }
        let one = |_| {
            let elapsed_ns = timed(|| self.there_and_back(passes))?;
            let alone_ns = timed(|| self.repeat(passes, || self.alone.alone()))?;
            Ok(SwitchBatch { passes, elapsed_ns, alone_ns })
        };
        (0..BATCHES).map(one).collect()
    }

    fn there_and_back(&self, passes: u64) -> Result<(), WorkError> {
        self.repeat(passes / 2, || self.turn.give(Side::Lead) && self.turn.take(Side::Lead))
    }

    /// As often, unless the job is to end or nobody answers any more.
    fn repeat(&self, times: u64, mut hand_over: impl FnMut() -> bool) -> Result<(), WorkError> {
        for time in 0..times {
            if time.is_multiple_of(TIMES_PER_LOOK) {
                self.bounds.check()?;
            }
            if !hand_over() {
                let ended = "who answers in the switch probe ended before it was told to";
                return Err(WorkError::Unfit(ended.to_owned()));
            }
        }
        Ok(())
    }
}

/// Batches, and why who leads was not pinned.
type Led = (Vec<SwitchBatch>, Option<String>);

fn timed(work: impl FnOnce() -> Result<(), WorkError>) -> Result<Nanos, WorkError> {
    let before = Instant::now();
    work()?;
    let elapsed = u64::try_from(before.elapsed().as_nanos()).unwrap_or(u64::MAX);
    Ok(Nanos::from_nanos(elapsed.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::armed::Armed;
    use crate::context::Surroundings;
    use std::sync::atomic::{AtomicBool, Ordering};
    use units::Millis;

    fn measured(duration_ms: u64, stop: &AtomicBool) -> Result<ProbeReport, WorkError> {
        let surroundings = Surroundings { scratch: None, exe: "/proc/self/exe".into() };
        let bounds = Bounds::starting_now(stop, Millis::from_millis(300_000));
        let context = Context {
            surroundings: &surroundings,
            bounds,
            seed: 1,
            part: None,
            fresh: false,
            armed: &Armed::default(),
        };
        measure(&SwitchParams { duration_ms: Millis::from_millis(duration_ms) }, &context)
    }

    #[test]
    fn every_kind_is_measured_here_and_switching_takes_longer_than_its_calls() {
        let report = measured(40, &AtomicBool::new(false)).expect("measured");
        let Detail::Switch(detail) = &report.detail else { panic!("another detail") };
        let has_two = allowed_cpus().len() > 1;
        for point in &detail.points {
            let is_wanted = has_two || point.place == SwitchPlace::SameCpu;
            assert_eq!(point.unsupported.is_none(), is_wanted, "{:?}", point.kind());
            assert_eq!(point.batches.len(), if is_wanted { BATCHES as usize } else { 0 });
            assert!(point.batches.iter().all(|batch| batch.passes.is_multiple_of(2)));
            let sum = |of: fn(&SwitchBatch) -> Nanos| {
                point.batches.iter().map(|batch| of(batch).get()).sum::<u64>()
            };
            if point.place == SwitchPlace::SameCpu {
                let (with, alone) = (sum(|batch| batch.elapsed_ns), sum(|batch| batch.alone_ns));
                assert!(with > alone, "{:?}: {with} ns against {alone} ns", point.kind());
            }
        }
    }

    #[test]
    fn who_is_stopped_ends_before_and_within_a_batch() {
        let stop = AtomicBool::new(true);
        assert!(matches!(measured(3_600_000, &stop), Err(WorkError::Stopped)));
        let stop = AtomicBool::new(false);
        let bounds = Bounds::starting_now(&stop, Millis::from_millis(300_000));
        let pair =
            Pair::of(KINDS[0], &SwitchParams::default(), bounds).expect("made").expect("one CPU is enough");
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(Duration::from_millis(50));
                stop.store(true, Ordering::Relaxed);
            });
            assert!(matches!(pair.repeat(u64::MAX, || true), Err(WorkError::Stopped)));
        });
    }

    #[test]
    fn a_partner_that_goes_ends_the_probe_with_the_reason() {
        let stop = AtomicBool::new(false);
        let bounds = Bounds::starting_now(&stop, Millis::from_millis(300_000));
        let params = SwitchParams { duration_ms: Millis::from_millis(3_600_000) };
        for kind in [KINDS[0], KINDS[2], KINDS[4]] {
            let pair = Pair::of(kind, &params, bounds).expect("made").expect("one CPU is enough");
            let failed = thread::scope(|scope| {
                let measuring = scope.spawn(|| pair.measure().map(|_| ()));
                thread::sleep(Duration::from_millis(50));
                // What is said for a process that was killed.
                pair.turn.over();
                measuring.join().expect("no panic")
            });
            assert!(failed.unwrap_err().to_string().contains("ended before"), "{kind:?}");
        }
    }
}
