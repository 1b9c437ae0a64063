//! Water-filling: CPUs are dealt out in proportion to weights, nobody gets more than it needs, and what it leaves goes
//! to the others. The exact result of every work-conserving fair scheduler in the long run.
//!
//! ```text
//!   need   ▁▁▁ ▂▂▂ ███        level rises until the CPUs are used up
//!   got    ▁▁▁ ▂▂▂ ▄▄▄   ◄── level × weight, or the need if that is less
//! ```

/// One who wants CPUs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Claim {
    /// CPUs it can use at most.
    pub need: f64,
    /// Its weight; nothing for a weight that is not positive.
    pub weight: f64,
}

/// What each claim gets of `cpus` CPUs, in order. The sum is the smaller of `cpus` and all needs together.
pub fn fill(claims: &[Claim], cpus: f64) -> Vec<f64> {
    let mut got = vec![0.0; claims.len()];
    let mut left = cpus.max(0.0);
    let mut open: Vec<usize> = claims
        .iter()
        .enumerate()
        .filter(|(_, claim)| claim.need > 0.0 && claim.weight > 0.0)
        .map(|(index, _)| index)
        .collect();
    let claim = |index: usize| claims.get(index).copied().unwrap_or(Claim { need: 0.0, weight: 0.0 });
    while !open.is_empty() && left > 0.0 {
        let weights: f64 = open.iter().map(|index| claim(*index).weight).sum();
        let level = left / weights;
        let is_sated = |index: usize| claim(index).need <= level * claim(index).weight;
        let satisfied = open.iter().any(|index| is_sated(*index));
        for index in open.iter().copied().filter(|index| is_sated(*index) == satisfied) {
            let share = if satisfied { claim(index).need } else { level * claim(index).weight };
            if let Some(slot) = got.get_mut(index) {
                *slot = share;
            }
            left -= share;
        }
        if !satisfied {
            break;
        }
        open.retain(|index| !is_sated(*index));
    }
    got
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn claims(list: &[(f64, f64)]) -> Vec<Claim> {
        list.iter().map(|(need, weight)| Claim { need: *need, weight: *weight }).collect()
    }

    #[test]
    fn who_needs_little_gets_it_and_the_rest_is_shared() {
        assert_eq!(fill(&claims(&[(1.0, 1.0), (8.0, 1.0), (8.0, 1.0)]), 8.0), [1.0, 3.5, 3.5]);
        assert_eq!(fill(&claims(&[(8.0, 3.0), (8.0, 1.0)]), 8.0), [6.0, 2.0]);
        assert_eq!(fill(&claims(&[(1.0, 1.0), (2.0, 1.0)]), 8.0), [1.0, 2.0]);
        assert!(fill(&[], 8.0).is_empty());
    }

    proptest! {
        /// Brute force: pour drop by drop, each drop to whoever has least for its weight and is not sated.
        #[test]
        fn pouring_drop_by_drop_gives_the_same(
            list in prop::collection::vec((0.0f64..10.0, 0.1f64..5.0), 1..6), cpus in 0.1f64..16.0
        ) {
            let claims = claims(&list);
            let filled = fill(&claims, cpus);
            let drop = 0.002;
            let mut poured = vec![0.0; claims.len()];
            let mut left = cpus;
            while left > 0.0 {
                let thirsty = (0..claims.len()).filter(|i| poured[*i] + drop <= claims[*i].need);
                let Some(next) = thirsty.min_by(|a, b| {
                    (poured[*a] / claims[*a].weight).total_cmp(&(poured[*b] / claims[*b].weight))
                }) else { break };
                poured[next] += drop;
                left -= drop;
            }
            for (a, b) in filled.iter().zip(&poured) {
                prop_assert!((a - b).abs() < 0.1, "{filled:?} {poured:?}");
            }
            let all: f64 = claims.iter().map(|claim| claim.need).sum();
            prop_assert!((filled.iter().sum::<f64>() - cpus.min(all)).abs() < 1e-9);
        }
    }
}
