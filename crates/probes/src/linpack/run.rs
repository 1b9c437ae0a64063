//! Measures: see the folder.

use std::sync::{Mutex, PoisonError};
use std::time::Instant;

use super::factor::Factor;
use super::product::{Lanes, ProductShape};
use super::strips::Strips;
use super::system::System;
use crate::clock::monotonic_facts;
use crate::context::Context;
use crate::detail::{Detail, LinpackDetail};
use crate::error::WorkError;
use crate::job::ProbeReport;
use crate::params::LinpackParams;
use crate::workers::{self, Muster};
use units::facts::OwnCost;
use units::{Bytes, Nanos};

/// Measures every sample.
///
/// # Errors
/// The job was to end, there is not enough memory, or a solution was wrong.
pub fn measure(params: &LinpackParams, context: &Context<'_>) -> Result<ProbeReport, WorkError> {
    let n = params.n as usize;
    let factor = Factor { shape: ProductShape::of_order(n), lanes: Lanes::widest() };
    let strips = Strips::new(factor, params.threads)?;
    let solver = Solver { strips, side: Mutex::new(vec![0.0; n]), params, context };
    let outcome =
        workers::run(params.threads, context.bounds, |number, muster| solver.one_thread(number, muster))?;
    let samples: Vec<Solved> = outcome.results.into_iter().flatten().collect();
    let residual = samples.iter().map(|sample| sample.residual).fold(0.0, f64::max);
    let clock = monotonic_facts();
    let cost = OwnCost {
        per_sample_ns: clock.read_ns,
        cpu_time_ns: outcome.cpu_time,
        memory_bytes: Bytes::from_bytes(solver.strips.size().get() + n as u64 * 8),
    };
    let detail = LinpackDetail {
        n: params.n,
        threads: params.threads,
        elapsed_ns: samples.iter().map(|sample| sample.elapsed).collect(),
        residual,
    };
    let note = format!("single columns are eliminated with {} instructions", factor.lanes.name());
    Ok(ProbeReport::new(clock, cost, Detail::Linpack(detail), vec![note]))
}

/// One sample.
#[derive(Debug, Clone, Copy)]
struct Solved {
    elapsed: Nanos,
    residual: f64,
}

struct Solver<'a> {
    strips: Strips,
    side: Mutex<Vec<f64>>,
    params: &'a LinpackParams,
    context: &'a Context<'a>,
}

impl Solver<'_> {
    /// What the first thread saw; the others bring nothing home.
    fn one_thread(&self, number: u32, muster: &Muster<'_>) -> Result<Vec<Solved>, WorkError> {
        let threads = self.params.threads;
        let mut all = Vec::new();
        for sample in 0..self.params.samples {
            let system =
                System { n: self.params.n as usize, seed: self.context.seed.wrapping_add(u64::from(sample)) };
            if sample == 0 {
                self.strips.fill(system, number, threads);
                self.strips.warm_up(number, threads);
            }
            self.strips.fill(system, number, threads);
            muster.wait()?;
            let begin = Instant::now();
            self.strips.factorise(number, muster, self.context.bounds)?;
            muster.wait()?;
            if number == 0 {
                all.push(self.finish(system, begin)?);
            }
            muster.wait()?;
        }
        Ok(all)
    }

    fn finish(&self, system: System, begin: Instant) -> Result<Solved, WorkError> {
        let mut side = self.side.lock().unwrap_or_else(PoisonError::into_inner);
        // HPL factorises b along with A; making it here costs a ten-thousandth.
        system.right_side(&mut side);
        self.strips.solve(&mut side);
        let elapsed = Nanos::from_duration(begin.elapsed());
        let residual = system.residual(&side);
        if !LinpackDetail::is_right(residual) {
            return Err(WorkError::Unfit(format!(
                "the solution of {} equations is wrong: its scaled residual is {residual:.3e}, and below {} is right; \
                 memory, CPU or hypervisor do not compute as they should",
                system.n,
                LinpackDetail::RESIDUAL_BOUND
            )));
        }
        Ok(Solved { elapsed, residual })
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::armed::Armed;
    use crate::bounds::Bounds;
    use crate::context::Surroundings;
    use units::Millis;

    fn solve(n: u32, threads: u32, deadline_ms: u64) -> Result<LinpackDetail, WorkError> {
        let (surroundings, stop) =
            (Surroundings { scratch: None, exe: PathBuf::new() }, AtomicBool::new(false));
        let bounds = Bounds::starting_now(&stop, Millis::from_millis(deadline_ms));
        let context = Context {
            surroundings: &surroundings,
            bounds,
            seed: 5,
            part: None,
            fresh: false,
            armed: &Armed::default(),
        };
        match measure(&LinpackParams { n, samples: 2, threads }, &context)?.detail {
            Detail::Linpack(detail) => Ok(detail),
            other => panic!("{}", other.kind()),
        }
    }

    #[test]
    fn systems_of_every_kind_of_order_are_solved() {
        for (n, threads) in [(16, 1), (17, 3), (63, 2), (64, 1), (129, 4), (500, 1), (500, 3), (777, 2)] {
            let detail = solve(n, threads, 600_000).unwrap();
            assert_eq!(detail.elapsed_ns.len(), 2);
            assert!(detail.residual > 0.0 && detail.residual < 1.0, "n = {n}: {}", detail.residual);
        }
    }

    #[test]
    fn a_deadline_ends_it() {
        assert!(matches!(solve(2000, 2, 1), Err(WorkError::Deadline { .. })));
    }

    #[test]
    fn a_wrong_factor_is_found() {
        let system = System { n: 100, seed: 1 };
        let factor = Factor { shape: ProductShape::of_order(100), lanes: Lanes::widest() };
        let strips = Strips::new(factor, 1).unwrap();
        let mut side = vec![0.0; 100];
        strips.fill(system, 0, 1);
        system.right_side(&mut side);
        // Never factorised.
        strips.solve(&mut side);
        assert!(!LinpackDetail::is_right(system.residual(&side)));
    }
}
