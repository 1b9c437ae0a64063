//! The gap probe around its loop: a pinned thread, the rate of the counter measured over the run, the report.

use super::observe::observe;
use super::pace::{ByReads, ByTime};
use super::record::{Record, short_tables};
use crate::clock::{Anchor, counter_facts, thread_cpu_time, ticks_to_ns};
use crate::context::Context;
use crate::detail::{Detail, GapDetail};
use crate::error::WorkError;
use crate::job::ProbeReport;
use crate::params::GapParams;
use crate::pin::{Pinned, pin_to_last_cpu};
use crate::workers;
use units::facts::OwnCost;
use units::histogram::Histogram;
use units::{Hertz, Ticks};

/// Measures the gaps.
///
/// # Errors
/// The job was to end, or the cycle counter cannot be used.
pub fn measure(params: &GapParams, context: &Context<'_>) -> Result<ProbeReport, WorkError> {
    workers::run_one(context.bounds, || measure_here(params, context))
}

/// Measures in the calling thread, which stays pinned.
fn measure_here(params: &GapParams, context: &Context<'_>) -> Result<ProbeReport, WorkError> {
    let pinned = pin_to_last_cpu();
    let rough = Anchor::take()?.rate_since()?;
    let mut short = short_tables(params.batches);
    let mut record = Record::new(params.batches);
    let cpu_before = thread_cpu_time()?;
    let anchor = Anchor::take()?;
    let observed = if let Some(reads) = params.reads {
        observe(ByReads::new(reads, params.batches, rough, context.bounds), &mut short, &mut record)
    } else {
        let batch = batch_ticks(params, rough);
        observe(ByTime::new(batch, rough, context.bounds), &mut short, &mut record)
    };
    let cpu_time_ns = thread_cpu_time()?.saturating_sub(cpu_before);
    if observed.cut_short {
        return Err(context.bounds.broken());
    }
    let rate = anchor.rate_since()?;
    let batches = record.histograms(&short);
    let cost = OwnCost {
        per_sample_ns: ticks_to_ns(median(&batches), rate),
        cpu_time_ns,
        memory_bytes: Record::memory(params.batches),
    };
    let notes = notes(&pinned, &record);
    let detail = GapDetail {
        counter_hz: rate,
        observed_ns: Ticks::from_ticks(observed.last - observed.first).to_nanos(rate),
        cpu: pinned.cpu,
        batches,
        worst: record.worst(observed.first, rate),
    };
    Ok(ProbeReport::new(counter_facts(rate), cost, Detail::Gap(detail), notes))
}

fn batch_ticks(params: &GapParams, rate: Hertz) -> u64 {
    let all = u128::from(params.duration_ms.get()) * u128::from(rate.get()) / 1000;
    u64::try_from(all / u128::from(params.batches.max(1))).unwrap_or(u64::MAX)
}

/// Median gap in ticks: what one round of the loop takes when nothing disturbs it.
fn median(batches: &[Histogram]) -> f64 {
    let all = Histogram::merge_all(batches);
    let half = all.count() / 2;
    let mut seen = 0;
    let middle = all.buckets().iter().find(|bucket| {
        seen += bucket.count;
        seen > half
    });
    middle.map_or(0.0, |bucket| bucket.sum as f64 / bucket.count as f64)
}

fn notes(pinned: &Pinned, record: &Record) -> Vec<String> {
    let backward = record.backward();
    let steps = (backward > 0).then(|| {
        format!("the cycle counter went backwards {backward} times; those steps count as gaps of zero")
    });
    pinned.note.iter().cloned().chain(steps).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::bounds::Bounds;
    use units::Millis;

    #[test]
    fn every_tick_of_the_run_is_in_the_histograms() {
        let stop = AtomicBool::new(false);
        let bounds = Bounds::starting_now(&stop, Millis::from_millis(60_000));
        let rate = Anchor::take().unwrap().rate_since().unwrap();
        let (mut short, mut record) = (short_tables(8), Record::new(8));
        let observed = observe(ByTime::new(rate.get() / 400, rate, bounds), &mut short, &mut record);
        assert!(!observed.cut_short);
        let sum: u128 = record.histograms(&short).iter().map(Histogram::sum).sum();
        assert_eq!(sum, u128::from(observed.last - observed.first));
    }

    #[test]
    fn reads_are_counted_exactly_and_spread_evenly() {
        let stop = AtomicBool::new(false);
        let bounds = Bounds::starting_now(&stop, Millis::from_millis(60_000));
        let rate = Hertz::from_hz(1_000_000_000);
        let (mut short, mut record) = (short_tables(8), Record::new(8));
        let reads = 8 * 300_000 + 3;
        observe(ByReads::new(reads, 8, rate, bounds), &mut short, &mut record);
        let counts: Vec<u64> = record.histograms(&short).iter().map(Histogram::count).collect();
        assert_eq!(counts.iter().sum::<u64>(), reads);
        assert!(counts.iter().all(|count| (300_000..=300_001).contains(count)), "{counts:?}");
    }
}
