//! Rates by number of threads: what the probes of system calls and of forks have in common.

use serde::{Deserialize, Serialize};
use units::histogram::Histogram;
use units::metric::Figure;
use units::{Millis, Nanos};

use crate::check::{Checked, MOST_POINTS, MOST_VALUES, at_most, histogram};
use crate::figures::figure;
use crate::pretend::Maker;

/// How often something was done by a number of threads, in one batch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RatePoint {
    /// Threads running at once.
    pub threads: u32,
    /// For each batch in order: operations done by all threads together.
    pub operations: Vec<u64>,
    /// For each batch in order: how long its operations took a thread.
    pub elapsed_ns: Vec<Nanos>,
}

/// Outcome of the system-call and fork probes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RateDetail {
    /// One entry per number of threads, ascending.
    pub points: Vec<RatePoint>,
    /// Latency of single operations in nanoseconds; empty where timing each would cost more than it shows.
    pub latency_ns: Histogram,
}

/// Time per operation seen by a thread: alone, and with the largest number of threads.
pub fn costs(detail: &RateDetail) -> (Figure, Figure) {
    let alone = detail.points.iter().find(|point| point.threads == 1);
    let crowded = detail.points.iter().max_by_key(|point| point.threads);
    let of = |point: Option<&RatePoint>, missing: &str| figure(point.and_then(cost), missing);
    (
        of(alone, "one thread alone finished no operation in half of its batches or more"),
        of(crowded, "the largest number of threads finished no operation in half of its batches or more"),
    )
}

/// With fewer operations for each batch and thread a batch says nothing of its own.
const FEWEST: f64 = 4.0;

/// Median over the batches of the time an operation takes its thread; of few operations all of their time over all of them. A batch of
/// a length in which none ended took for ever: left out, the busier a machine, the faster it would look.
fn cost(point: &RatePoint) -> Option<f64> {
    let threads = f64::from(point.threads);
    let total = point.operations.iter().map(|count| *count as f64).sum::<f64>();
    if total < FEWEST * threads * point.operations.len() as f64 {
        let took = point.elapsed_ns.iter().map(|elapsed| elapsed.as_f64()).sum::<f64>();
        return (total > 0.0 && took > 0.0).then_some(took * threads / total);
    }
    let batches = point.operations.iter().zip(&point.elapsed_ns);
    let mut each: Vec<f64> = batches
        .filter(|(_, elapsed)| elapsed.get() > 0)
        .map(|(operations, elapsed)| elapsed.as_f64() * f64::from(point.threads) / *operations as f64)
        .collect();
    each.sort_by(f64::total_cmp);
    let (below, above) = (each.get(each.len().checked_sub(1)? / 2)?, each.get(each.len() / 2)?);
    Some(f64::midpoint(*below, *above)).filter(|cost| cost.is_finite())
}

pub fn check(rate: &RateDetail) -> Checked {
    at_most("points", rate.points.len(), MOST_POINTS)?;
    histogram("latency_ns", &rate.latency_ns)?;
    rate.points.iter().try_for_each(|point| {
        at_most("operations", point.operations.len(), MOST_VALUES)?;
        if point.operations.len() == point.elapsed_ns.len() {
            Ok(())
        } else {
            Err(format!(
                "{} batches of operations have {} elapsed times",
                point.operations.len(),
                point.elapsed_ns.len()
            )
            .into())
        }
    })
}

/// A number of threads with which no operation ended in any window.
pub fn saw_nothing(rate: &RateDetail, what: &str) -> Option<String> {
    if rate.points.is_empty() {
        return Some(format!("no {what} was counted with any number of threads"));
    }
    let point = rate.points.iter().find(|point| is_idle(point))?;
    let windows = point.operations.len();
    Some(format!(
        "no {what} ended in {windows} of {windows} windows with {} threads: the machine is too busy for windows so \
         short, give the probe more time (duration_ms)",
        point.threads
    ))
}

fn is_idle(point: &RatePoint) -> bool {
    point.operations.iter().all(|count| *count == 0)
}

impl Maker {
    pub(crate) fn rate(&mut self, duration: Millis, max_threads: Option<u32>, native_ns: f64) -> RateDetail {
        let batches = 10;
        let batch_ns = (duration.get() * 1_000_000 / batches).max(1);
        let points = (1..=max_threads.unwrap_or(self.cpus)).map(|threads| {
            let at_once = f64::from(threads.min(self.cpus));
            let mut operations = Vec::new();
            for _ in 0..batches {
                let each = self.nanos(native_ns);
                operations.push(units::metric::saturate(batch_ns as f64 / each as f64 * at_once).max(1));
            }
            let elapsed_ns = operations.iter().map(|_| Nanos::from_nanos(batch_ns)).collect();
            RatePoint { threads, operations, elapsed_ns }
        });
        let points = points.collect();
        // Timing a single system call would cost more than it shows.
        let latency_ns = if native_ns > 10_000.0 {
            Histogram::from_values((0..200).map(|_| self.nanos(native_ns)))
        } else {
            Histogram::default()
        };
        RateDetail { points, latency_ns }
    }
}
