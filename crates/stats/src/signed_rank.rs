//! Wilcoxon's signed-rank test (Wilcoxon 1945): are values symmetric about zero, or mostly on one side of it?
//!
//! The values are ranked by their distance from zero; the ranks of the positive ones are summed. When the values are
//! symmetric about zero, each rank is on the positive side with probability one half, whatever the distribution, so the
//! sum's distribution is counted out exactly. A value that lies far out is just the largest rank: it can neither make a
//! difference alone nor hide one. Ties share their mean rank; values that are zero say nothing and are left out.
//!
//! Exact up to [`MOST_EXACT`] values; beyond, the normal approximation with continuity correction, which is good to
//! three digits there.

use super::distributions::student_upper_tail;

/// Up to this many values the distribution is counted out: at most 60 · 61 sums, doubled for shared ranks.
const MOST_EXACT: usize = 60;

/// The smallest likelihood the test can give for so many values.
pub fn fewest(values: usize) -> f64 {
    0.5f64.powi(i32::try_from(values).unwrap_or(i32::MAX).saturating_sub(1)).min(1.0)
}

/// How many of so many values may lie on the other side of zero, their ranks half as large again as the smallest, so that the
/// likelihood is still at most this; none when even none may.
pub fn most_against(values: usize, likelihood: f64) -> Option<usize> {
    let ranks: Vec<usize> = (1..=values).map(|rank| 2 * rank).collect();
    let total: usize = ranks.iter().sum();
    let share = sums(&ranks, total);
    // Symmetric: as likely to be so small as to be so large.
    let passes = |against: &usize| {
        2.0 * share.iter().take(2 * (3 * against * (against + 1)).div_ceil(4) + 1).sum::<f64>() <= likelihood
    };
    (0..=values / 2).take_while(passes).last()
}

/// The likelihood (two-sided) that values symmetric about zero lie on one side of it as much as these do; 1 when there
/// are none.
pub fn likelihood(values: &[f64]) -> f64 {
    let (ranks, positive) = doubled_ranks(values);
    if ranks.is_empty() {
        return 1.0;
    }
    let total: usize = ranks.iter().sum();
    let extreme = positive.max(total - positive);
    if ranks.len() <= MOST_EXACT {
        counted_out(&ranks, total, extreme)
    } else {
        approximated(&ranks, total, extreme)
    }
}

/// Twice the rank of each value that is not zero, so that shared ranks stay whole; and the sum over positive values.
fn doubled_ranks(values: &[f64]) -> (Vec<usize>, usize) {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.abs() > 0.0).collect();
    sorted.sort_by(|a, b| a.abs().total_cmp(&b.abs()));
    let (mut ranks, mut positive) = (Vec::with_capacity(sorted.len()), 0);
    for tied in sorted.chunk_by(|a, b| a.abs().total_cmp(&b.abs()).is_eq()) {
        // Ranks from + 1 … from + n have the mean from + (n + 1) / 2.
        let rank = 2 * ranks.len() + tied.len() + 1;
        positive += rank * tied.iter().filter(|value| **value > 0.0).count();
        ranks.extend(std::iter::repeat_n(rank, tied.len()));
    }
    (ranks, positive)
}

/// Share of all choices of signs whose positive ranks sum to `extreme` or more, both sides.
fn counted_out(ranks: &[usize], total: usize, extreme: usize) -> f64 {
    let tail: f64 = sums(ranks, total).iter().skip(extreme).sum();
    (2.0 * tail).min(1.0)
}

/// Share of all choices of signs whose positive ranks have each sum.
fn sums(ranks: &[usize], total: usize) -> Vec<f64> {
    let mut share = vec![0.0; total + 1];
    if let Some(none) = share.first_mut() {
        *none = 1.0;
    }
    for rank in ranks {
        for sum in (0..=total).rev() {
            let with = sum.checked_sub(*rank).and_then(|rest| share.get(rest)).copied().unwrap_or(0.0);
            if let Some(slot) = share.get_mut(sum) {
                *slot = 0.5 * (*slot + with);
            }
        }
    }
    share
}

fn approximated(ranks: &[usize], total: usize, extreme: usize) -> f64 {
    let squares: f64 = ranks.iter().map(|rank| (*rank as f64).powi(2)).sum();
    let beyond = extreme as f64 - total as f64 / 2.0 - 1.0;
    // With so much freedom Student's distribution is the normal one.
    (2.0 * student_upper_tail(beyond.max(0.0) / (squares.sqrt() / 2.0), 1e7)).min(1.0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Every choice of signs gone through.
    fn by_brute_force(values: &[f64]) -> f64 {
        let (ranks, positive) = doubled_ranks(values);
        let total: usize = ranks.iter().sum();
        let extreme = positive.max(total - positive);
        let choices = 1u32 << ranks.len();
        let sum = |choice: u32| -> usize {
            ranks.iter().enumerate().filter(|(index, _)| choice >> index & 1 == 1).map(|(_, rank)| rank).sum()
        };
        let found = (0..choices).map(sum).filter(|sum| *sum >= extreme || total - *sum >= extreme).count();
        found as f64 / f64::from(choices)
    }

    proptest! {
        #[test]
        fn counting_out_is_going_through_every_choice(values in prop::collection::vec(-4i8..=4, 1..11)) {
            let values: Vec<f64> = values.into_iter().map(f64::from).collect();
            prop_assert!((likelihood(&values) - by_brute_force(&values)).abs() < 1e-12 || values.iter().all(|v| *v == 0.0));
        }
    }

    #[test]
    fn values_all_on_one_side_reach_the_smallest_likelihood() {
        let values: Vec<f64> = (0..12).map(|index| 1.0 + 0.01 * f64::from(index)).collect();
        assert!((likelihood(&values) - fewest(12)).abs() < 1e-15);
        // One far out changes nothing, one small one on the other side doubles it.
        let mut broken = values.clone();
        broken[3] = 900.0;
        assert!((likelihood(&broken) - fewest(12)).abs() < 1e-15);
        broken[0] = -0.001;
        assert!((likelihood(&broken) - 2.0 * fewest(12)).abs() < 1e-15);
    }

    #[test]
    fn as_many_may_be_on_the_other_side_as_printed_tables_allow() {
        // Critical sums at 5 %, two-sided: none for 5 values, 0 for 6, 3 for 8, 8 for 10; 0.1 % for 12: 1.
        let most = [(5, 0.05), (6, 0.05), (8, 0.05), (10, 0.05), (12, 0.001)];
        let found = most.map(|(values, likelihood)| most_against(values, likelihood));
        assert_eq!(found, [None, Some(0), Some(1), Some(2), Some(0)]);
    }

    #[test]
    fn the_approximation_meets_the_exact_distribution() {
        let values: Vec<f64> = (1..=60).map(|n| f64::from(n) * if n % 3 == 0 { -1.0 } else { 1.0 }).collect();
        let (ranks, positive) = doubled_ranks(&values);
        let total: usize = ranks.iter().sum();
        let (exact, near) = (counted_out(&ranks, total, positive), approximated(&ranks, total, positive));
        assert!((exact / near - 1.0).abs() < 0.05, "{exact} and {near}");
    }
}
