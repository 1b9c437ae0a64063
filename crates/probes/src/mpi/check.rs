//! What is believed of the mpi probe's outcome, and whether it saw anything at all.

use units::layout::MAX_INSTANCES;

use crate::check::{Checked, at_most, because, distinct, histogram, message, require};
use crate::detail::{MpiDetail, MpiPoint};

/// 2 patterns × 16 sizes.
const MOST_ROUNDS: usize = 32;

/// Most ranks in one instance.
const MOST_RANKS_EACH: u32 = 64;

pub(crate) fn check(detail: &MpiDetail) -> Checked {
    at_most("mpi.points", detail.points.len(), MOST_ROUNDS)?;
    let each = detail.ranks_per_instance;
    let fits = (1..=MOST_RANKS_EACH).contains(&each)
        && detail.ranks.is_multiple_of(each)
        && (2..=MAX_INSTANCES * MOST_RANKS_EACH).contains(&detail.ranks);
    require(fits, "mpi.ranks and mpi.ranks_per_instance contradict each other")?;
    detail.points.iter().try_for_each(mpi_point)?;
    let mut keys: Vec<_> = detail.points.iter().map(|point| (point.pattern, point.message_bytes)).collect();
    keys.sort_unstable();
    distinct("mpi.points", &keys)
}

fn mpi_point(point: &MpiPoint) -> Checked {
    message("mpi.message_bytes", point.message_bytes)?;
    histogram("mpi.iteration_ns", &point.iteration_ns)?;
    require(
        point.iteration_ns.count() == point.iterations,
        "mpi.iteration_ns does not hold one time per iteration",
    )?;
    require(
        point.iteration_ns.sum() <= u128::from(point.elapsed_ns.get()),
        "mpi: iterations took longer than all of them together",
    )
}

pub(crate) fn saw_nothing(detail: &MpiDetail) -> Option<String> {
    // Only one of those that pass messages has the times.
    because(
        !detail.points.is_empty() && detail.points.iter().all(|point| point.iterations == 0),
        "no message was exchanged",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detail::MpiPattern;
    use units::Nanos;
    use units::histogram::Histogram;

    #[test]
    fn rounds_are_held_to_their_times() {
        let good = MpiPoint {
            pattern: MpiPattern::PingPong,
            message_bytes: 1,
            iterations: 2,
            elapsed_ns: Nanos::from_nanos(100),
            iteration_ns: Histogram::from_values([40, 60]),
        };
        let check = |ranks, ranks_per_instance, points: Vec<MpiPoint>| {
            super::check(&MpiDetail { ranks, ranks_per_instance, points })
        };
        assert_eq!(check(4, 2, vec![good.clone()]), Ok(()));
        assert!(check(1, 1, vec![]).is_err() && check(3, 2, vec![]).is_err() && check(2, 0, vec![]).is_err());
        assert!(check(2, 1, vec![good.clone(), good.clone()]).is_err());
        assert!(check(2, 1, vec![MpiPoint { iterations: 3, ..good.clone() }]).is_err());
        assert!(check(2, 1, vec![MpiPoint { elapsed_ns: Nanos::from_nanos(99), ..good }]).is_err());
    }
}
