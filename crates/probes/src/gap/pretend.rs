//! Made-up outcomes of the gap probe, for the fake platform.

use rand::RngExt;
use units::histogram::DenseHistogram;
use units::{Hertz, Nanos};

use crate::detail::{GapDetail, Stretch, WORST_KEPT};
use crate::params::GapParams;
use crate::pretend::{Maker, TICKS_PER_NS};

pub(crate) fn pretend(maker: &mut Maker, params: &GapParams) -> GapDetail {
    maker.gap(params)
}

impl Maker {
    /// Ten-nanosecond reads, a 3 µs timer tick 250 times a second, and now and then something long.
    fn gap(&mut self, params: &GapParams) -> GapDetail {
        let observed_ns = params.reads.map_or(params.duration_ms.get() * 1_000_000, |reads| reads * 10);
        let batches = u64::from(params.batches.max(1));
        let batch_ns = observed_ns / batches;
        let mut worst = Vec::new();
        let mut dense = DenseHistogram::new();
        let mut histograms = Vec::new();
        for batch in 0..batches {
            dense.clear();
            let mut taken_ns = 0;
            for tick in 0..(batch_ns / 4_000_000).max(1) {
                let long = self.random.random::<f64>() < 0.01;
                let length = self.nanos(if long { 60_000.0 } else { 3_000.0 }).min(batch_ns.max(1));
                dense.record(length * TICKS_PER_NS);
                taken_ns += length;
                worst.push(Stretch {
                    start_ns: Nanos::from_nanos(batch * batch_ns + tick * 4_000_000),
                    length_ns: Nanos::from_nanos(length),
                });
            }
            dense.record_many(10 * TICKS_PER_NS, batch_ns.saturating_sub(taken_ns) / 10);
            histograms.push(dense.to_histogram());
        }
        worst.sort_by_key(|stretch| std::cmp::Reverse(stretch.length_ns));
        worst.truncate(WORST_KEPT);
        GapDetail {
            counter_hz: Hertz::from_hz(1_000_000_000 * TICKS_PER_NS),
            observed_ns: Nanos::from_nanos(observed_ns),
            cpu: Some(0),
            batches: histograms,
            worst,
        }
    }
}
