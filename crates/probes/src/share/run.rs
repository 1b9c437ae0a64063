//! Measures: see the folder.

use std::time::{Duration, Instant};

use crate::bounds::Bounds;
use crate::clock::{Anchor, counter_facts, thread_cpu_time, ticks};
use crate::context::Context;
use crate::detail::{Detail, ShareDetail, SharePhase};
use crate::error::WorkError;
use crate::job::ProbeReport;
use crate::params::{ShareParams, ShareStep};
use crate::pin::granted_cpus;
use crate::quantum::{MIX_WORDS, arithmetic};
use crate::workers;
use units::facts::OwnCost;
use units::histogram::{DenseHistogram, Histogram};
use units::{Bytes, Hertz, Nanos};

/// A piece that takes this much longer than it should was interrupted by someone who matters.
const AWAY: Duration = Duration::from_micros(50);
/// Length of a piece of work at least.
const PIECE: Duration = Duration::from_micros(4);
/// What one thread did in one phase.
struct Stint {
    rounds: u64,
    cpu_time: Nanos,
    away: Histogram,
    running: Histogram,
}

/// A phase on the clock grid: from `settles` on the threads work, from `begin_ticks` on it counts.
#[derive(Debug, Clone, Copy)]
struct Window {
    settles: Instant,
    begin_ticks: u64,
    end_ticks: u64,
}

/// The grid of all phases.
struct Grid {
    began: Instant,
    began_ticks: u64,
    rate: Hertz,
    params: ShareParams,
}

impl Grid {
    fn window(&self, index: usize) -> Window {
        let turns = u32::try_from(index).unwrap_or(u32::MAX);
        let settling = ShareParams::LEAD + self.params.phase() * turns;
        let counted = settling + self.params.settle_ms.to_duration();
        let begin_ticks = self.began_ticks.saturating_add(self.to_ticks(counted));
        Window {
            settles: self.began + settling,
            begin_ticks,
            end_ticks: begin_ticks.saturating_add(self.to_ticks(self.params.duration_ms.to_duration())),
        }
    }

    fn to_ticks(&self, duration: Duration) -> u64 {
        let ticks = duration.as_nanos() * u128::from(self.rate.get()) / 1_000_000_000;
        u64::try_from(ticks).unwrap_or(u64::MAX)
    }
}

/// Takes part in the measurement of all instances.
///
/// # Errors
/// There are no other instances, or the job was to end.
pub fn measure(params: &ShareParams, context: &Context<'_>) -> Result<ProbeReport, WorkError> {
    let began = Instant::now();
    let began_ticks = ticks();
    let Some(part) = context.part.filter(|part| part.ranks >= 2) else {
        return Err(WorkError::Unfit(
            "shares need two instances or more: measure this probe in a layout such as 1x2".to_owned(),
        ));
    };
    let cpus = granted_cpus();
    let rate = Anchor::take()?.rate_since()?;
    let grid = Grid { began, began_ticks, rate, params: params.clone() };
    let steps = ShareParams::steps(cpus);
    let mine = |step: &ShareStep| if part.rank == 0 { step.first } else { step.other };
    let threads = steps.iter().map(mine).max().unwrap_or(1);
    let piece = piece_rounds(rate);
    let outcome = workers::run(threads, context.bounds, |number, _muster| {
        let mut words = [u64::from(number) + 1; MIX_WORDS];
        let stints = steps.iter().enumerate().map(|(index, step)| {
            if number >= mine(step) {
                return Ok(None);
            }
            stint(grid.window(index), piece, &grid, &mut words, context.bounds).map(Some)
        });
        stints.collect::<Result<Vec<Option<Stint>>, WorkError>>()
    })?;
    let phases = steps.iter().enumerate().map(|(index, step)| phase(*step, index, &grid, &outcome.results));
    let detail = ShareDetail {
        rank: part.rank,
        ranks: part.ranks,
        cpus,
        counter_hz: rate,
        phases: phases.collect(),
        others: Vec::new(),
    };
    let clock = counter_facts(rate);
    let cost = OwnCost {
        per_sample_ns: clock.read_ns,
        cpu_time_ns: outcome.cpu_time,
        memory_bytes: Bytes::from_bytes(u64::from(threads) * (232 << 10)),
    };
    Ok(ProbeReport::new(clock, cost, Detail::Share(detail), Vec::new()))
}

/// Rounds of arithmetic in a piece of work of about [`PIECE`]: long against a counter read, short against [`AWAY`].
fn piece_rounds(rate: Hertz) -> u64 {
    let wanted = u128::from(rate.get()) * PIECE.as_nanos() / 1_000_000_000;
    let mut words = [1; MIX_WORDS];
    let mut rounds = 16;
    while rounds < 1 << 20 {
        let quickest = (0..5)
            .map(|_| {
                let before = ticks();
                arithmetic(rounds, &mut words);
                ticks().saturating_sub(before)
            })
            .min();
        if quickest.is_some_and(|ticks| u128::from(ticks) >= wanted) {
            break;
        }
        rounds *= 2;
    }
    rounds
}

/// Works in a window of time and notes when it ran and when it was away.
fn stint(
    window: Window,
    piece: u64,
    grid: &Grid,
    words: &mut [u64; MIX_WORDS],
    bounds: Bounds<'_>,
) -> Result<Stint, WorkError> {
    // Every page of these is touched now, not while time counts.
    let (mut away, mut running) = (DenseHistogram::new(), DenseHistogram::new());
    let threshold = grid.to_ticks(AWAY);
    sleep_until(window.settles, bounds)?;
    while ticks() < window.begin_ticks {
        bounds.check()?;
        arithmetic(piece, words);
    }
    let cpu_before = thread_cpu_time()?;
    let mut rounds = 0;
    // Whoever is late for the beginning was away from it on.
    let (mut previous, mut resumed) = (window.begin_ticks, window.begin_ticks);
    let mut now = ticks().max(window.begin_ticks);
    loop {
        let here = now.min(window.end_ticks);
        if here.saturating_sub(previous) > threshold {
            running.record(previous - resumed);
            away.record(here - previous);
            resumed = here;
        }
        previous = here;
        if now >= window.end_ticks {
            break;
        }
        if bounds.is_stopped() {
            return Err(bounds.broken());
        }
        arithmetic(piece, words);
        rounds += piece;
        now = ticks().max(previous);
    }
    running.record(previous - resumed);
    let cpu_time = thread_cpu_time()?.saturating_sub(cpu_before);
    Ok(Stint { rounds, cpu_time, away: away.to_histogram(), running: running.to_histogram() })
}

fn sleep_until(moment: Instant, bounds: Bounds<'_>) -> Result<(), WorkError> {
    const LOOK: Duration = Duration::from_millis(50);
    loop {
        bounds.check()?;
        let left = moment.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        std::thread::sleep(left.min(LOOK));
    }
}

/// All threads' stints of one phase together.
fn phase(step: ShareStep, index: usize, grid: &Grid, threads: &[Vec<Option<Stint>>]) -> SharePhase {
    let stints: Vec<&Stint> =
        threads.iter().filter_map(|stints| stints.get(index).and_then(Option::as_ref)).collect();
    let pooled = |pick: fn(&Stint) -> &Histogram| {
        let all: Vec<Histogram> = stints.iter().map(|stint| pick(stint).clone()).collect();
        Histogram::merge_all(&all)
    };
    SharePhase {
        first_threads: step.first,
        other_threads: step.other,
        elapsed_ns: Nanos::from_duration(grid.params.duration_ms.to_duration()),
        cpu_time_ns: stints.iter().fold(Nanos::ZERO, |sum, stint| sum.saturating_add(stint.cpu_time)),
        rounds: stints.iter().map(|stint| stint.rounds).sum(),
        away_ticks: pooled(|stint| &stint.away),
        running_ticks: pooled(|stint| &stint.running),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::armed::Armed;
    use crate::job::Part;
    use crate::run::Surroundings;
    use units::Millis;

    #[test]
    fn running_and_away_fill_every_window() {
        let stop = AtomicBool::new(false);
        let part = Part { rank: 0, ranks: 2, peers: Vec::new() };
        let surroundings = Surroundings { scratch: None, exe: "/proc/self/exe".into() };
        let context = Context {
            surroundings: &surroundings,
            bounds: Bounds::starting_now(&stop, Millis::from_millis(60_000)),
            seed: 1,
            part: Some(&part),
            fresh: false,
            armed: &Armed::default(),
        };
        let params = ShareParams { duration_ms: Millis::from_millis(50), settle_ms: Millis::from_millis(10) };
        let report = measure(&params, &context).unwrap();
        let Detail::Share(detail) = report.detail else { panic!("another probe's detail") };
        for phase in &detail.phases {
            let window = phase.elapsed_ns.as_f64() * detail.counter_hz.as_f64() / 1e9;
            let seen = (phase.away_ticks.sum() + phase.running_ticks.sum()) as f64;
            let wanted = window * f64::from(phase.first_threads);
            assert!((seen - wanted).abs() <= wanted * 1e-3 + 10.0, "{seen} of {wanted}");
            assert!(phase.first_threads > 0 || phase.rounds == 0);
            // On a busy machine a thread may sleep through a window; then it was away all the time.
            assert!(phase.rounds > 0 || phase.running_ticks.sum() == 0);
        }
        assert!(detail.phases.iter().any(|phase| phase.rounds > 0));
        let alone = Context { part: None, ..context };
        assert!(measure(&params, &alone).unwrap_err().to_string().contains("1x2"));
    }
}
