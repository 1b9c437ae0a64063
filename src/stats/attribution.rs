//! Who took the time that a gap probe lost.

use crate::model::accounts::Accounts;
use crate::model::attribution::Attribution;
use crate::model::detail::GapDetail;
use crate::model::histogram::Histogram;
use crate::model::units::{Nanos, Ticks};

/// Says who took the lost time, as far as it can be known.
pub fn attribute(gap: &GapDetail, _accounts: &Accounts) -> Attribution {
    let gaps = Histogram::merge_all(&gap.batches);
    let microsecond = Ticks::from_ticks(gap.counter_hz.get() / 1_000_000);
    let lost = super::influence::influence(&gaps, microsecond) * gap.observed_ns.as_f64();
    let lost_ns = Nanos::from_nanos(crate::model::metric::saturate(lost));
    Attribution { lost_ns, sources: Vec::new(), unattributed_ns: lost_ns }
}
