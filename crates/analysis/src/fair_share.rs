//! How much is left beside others, measured by what a fair division leaves: 1/n of a thing that n want.

use model::journal::Cell;
use units::layout::Layout;
use units::metric::{Better, Estimate};
use units::names::LoadKind;

/// How many want the same: a neighbour and the one that is measured, or all instances on one host.
pub(super) fn parties(cell: &Cell) -> u32 {
    match cell.neighbour {
        Some(neighbour) if neighbour.kind == LoadKind::Idle => 1,
        Some(_) => 2,
        None => cell.layout.map_or(1, Layout::per_host),
    }
}

/// Disturbed over undisturbed as a multiple of the fair share 1/n: 1 is fair, more is better. A figure for which small
/// is good counts as its inverse.
pub(super) fn fair_share(ratio: &Estimate, better: Better, parties: u32) -> Estimate {
    let n = f64::from(parties);
    let share = |end: f64| if better == Better::Higher { n * end } else { n / end.max(f64::MIN_POSITIVE) };
    let ends = [share(ratio.low), share(ratio.high)];
    Estimate {
        value: share(ratio.value),
        low: ends[0].min(ends[1]),
        high: ends[0].max(ends[1]),
        confidence: ratio.confidence,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_the_throughput_and_twice_the_time_are_fair_for_two() {
        let ratio = |value: f64, low: f64, high: f64| Estimate { value, low, high, confidence: 0.95 };
        let throughput = fair_share(&ratio(0.5, 0.4, 0.6), Better::Higher, 2);
        assert_eq!((throughput.value, throughput.low, throughput.high), (1.0, 0.8, 1.2));
        let time = fair_share(&ratio(2.0, 1.6, 4.0), Better::Lower, 2);
        assert_eq!((time.value, time.low, time.high), (1.0, 0.5, 1.25));
    }
}
