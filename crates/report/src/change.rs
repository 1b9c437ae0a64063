//! What changed between two runs: the same cells and metrics, the ratio of the second to the first, with an interval.
//!
//! The runs are not interleaved, so nothing pairs their rounds. The ratio is the median of all pairwise ratios
//! (Hodges and Lehmann, *Estimates of location based on rank tests*, 1963, on logarithms), its interval comes from the
//! null distribution of the Mann–Whitney statistic: exact up to 20 rounds a side, the normal approximation beyond.
//! It needs no assumption about the shape of the distribution and bears outliers, but it cannot know what else
//! changed between the runs: the hour, the temperature, the neighbours. Each interval holds by itself at 95 %; of
//! twenty metrics that did not change, one may show a difference by chance.

use model::journal::Cell;
use model::results::{CellResult, MetricResult, RunResults, made_up};
use units::metric::{Answer, Better, Difference, Estimate, Unit};
use units::scheduling::incomparable;

use super::figures::{cell, sound};

/// Confidence of every interval made here.
const CONFIDENCE: f64 = 0.95;
/// Quantile of the normal distribution that belongs to it.
const NORMAL_QUANTILE: f64 = 1.959_964;
/// Up to so many rounds a side the exact distribution is used.
const EXACT_UP_TO: usize = 20;
/// Further rounds are not looked at, so that a forged file cannot take the memory away.
const SAMPLES_MOST: usize = 1000;

/// One metric of one cell in two runs.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
pub struct MetricChange {
    /// What was measured.
    pub cell: Cell,
    /// Id of the metric; empty when the whole cell is missing on a side and has no metrics on the other.
    pub id: String,
    /// What it says.
    pub title: String,
    /// Its unit.
    pub unit: Unit,
    /// Its good direction.
    pub better: Better,
    /// Whether it is one of the headline metrics.
    pub headline: bool,
    /// In the first run.
    pub before: Answer,
    /// In the second run.
    pub after: Answer,
    /// Second over first.
    pub ratio: Answer,
    /// Whether a side of it is made up, not measured.
    pub made_up: bool,
    /// Rounds behind each side.
    pub rounds: (u32, u32),
    /// What the interval allows to say.
    pub difference: Difference,
}

/// Compares every metric of every cell of two runs, in the order of the first; what only the second has comes last.
pub fn changes(a: &RunResults, b: &RunResults) -> Vec<MetricChange> {
    let mut all = Vec::new();
    for before in &a.cells {
        let after = cell(b, &before.cell);
        let why = after.and_then(|after| incomparable(&after.scheduled(), &before.scheduled()));
        all.extend(before.metrics.iter().map(|metric| {
            let after = after.and_then(|after| metric_of(after, &metric.id));
            change(&before.cell, Some(metric), after, why.as_ref())
        }));
    }
    for after in &b.cells {
        let before = cell(a, &after.cell);
        all.extend(
            after
                .metrics
                .iter()
                .filter(|metric| before.and_then(|before| metric_of(before, &metric.id)).is_none())
                .map(|metric| change(&after.cell, None, Some(metric), None)),
        );
    }
    all.retain(|change| !change.id.is_empty());
    let pretended = [a, b].map(|run| made_up(&run.platforms)).concat();
    for change in &mut all {
        change.made_up = pretended.contains(&change.cell.platform);
    }
    all
}

fn metric_of<'a>(cell: &'a CellResult, id: &str) -> Option<&'a MetricResult> {
    cell.metrics.iter().find(|metric| metric.id == id)
}

/// `why` they may not be compared, where both are there.
fn change(
    cell: &Cell,
    before: Option<&MetricResult>,
    after: Option<&MetricResult>,
    why: Option<&String>,
) -> MetricChange {
    let shown = before.or(after);
    let values = |metric: Option<&MetricResult>| -> Vec<f64> {
        metric.map_or_else(Vec::new, |metric| metric.samples.iter().map(|(_, value)| *value).collect())
    };
    let (old, new) = (values(before), values(after));
    let ratio = match (before, after) {
        (Some(_), None) => Answer::Unsupported("only in the first run".to_owned()),
        (None, _) => Answer::Unsupported("only in the second run".to_owned()),
        (Some(_), Some(_)) => why.map_or_else(|| ratio(&old, &new), |why| Answer::Unsupported(why.clone())),
    };
    let better = shown.map_or(Better::Neither, |metric| metric.better);
    let missing = || Answer::Unsupported("not in this run".to_owned());
    MetricChange {
        cell: cell.clone(),
        id: shown.map(|metric| metric.id.clone()).unwrap_or_default(),
        title: shown.map(|metric| metric.title.clone()).unwrap_or_default(),
        unit: shown.map_or(Unit::Count, |metric| metric.unit),
        better,
        headline: shown.is_some_and(|metric| metric.headline),
        before: before.map_or_else(missing, |metric| metric.estimate.clone()),
        after: after.map_or_else(missing, |metric| metric.estimate.clone()),
        difference: difference(&ratio, better),
        made_up: false,
        rounds: (count(&old), count(&new)),
        ratio,
    }
}

fn count(values: &[f64]) -> u32 {
    u32::try_from(values.len()).unwrap_or(u32::MAX)
}

/// What an interval of a ratio allows to say.
fn difference(ratio: &Answer, better: Better) -> Difference {
    let Ok(ratio) = sound(ratio) else { return Difference::Unknown };
    match better {
        _ if ratio.contains(1.0) => Difference::NotFound,
        Better::Neither => Difference::Different,
        Better::Lower if ratio.high < 1.0 => Difference::Better,
        Better::Higher if ratio.low > 1.0 => Difference::Better,
        Better::Lower | Better::Higher => Difference::Worse,
    }
}

/// Median of all pairwise ratios `new / old`, with its interval.
fn ratio(old: &[f64], new: &[f64]) -> Answer {
    let logs = |values: &[f64]| -> Option<Vec<f64>> {
        let kept = values.iter().take(SAMPLES_MOST);
        kept.map(|value| (value.is_finite() && *value > 0.0).then(|| value.ln())).collect()
    };
    let (Some(old), Some(new)) = (logs(old), logs(new)) else {
        return Answer::Unsupported("a ratio needs figures above zero in every round".to_owned());
    };
    let Some(rank) = interval_rank(old.len(), new.len()) else {
        return Answer::Unsupported(format!(
            "{} and {} rounds are too few for an interval at 95 %: four in each run are enough",
            old.len(),
            new.len()
        ));
    };
    let mut pairs: Vec<f64> =
        old.iter().flat_map(|before| new.iter().map(move |after| after - before)).collect();
    pairs.sort_by(f64::total_cmp);
    let at = |index: usize| pairs.get(index).copied().unwrap_or(f64::NAN).exp();
    let middle = pairs.len() / 2;
    let value = if pairs.len() % 2 == 1 { at(middle) } else { (at(middle - 1) * at(middle)).sqrt() };
    let estimate =
        Estimate { value, low: at(rank - 1), high: at(pairs.len() - rank), confidence: CONFIDENCE };
    Answer::Estimate(estimate)
}

/// The largest rank k ≥ 1 for which the k-th smallest and k-th largest pairwise difference enclose the true shift
/// with at least 95 % probability; none when even the extremes do not.
fn interval_rank(n: usize, m: usize) -> Option<usize> {
    if n == 0 || m == 0 {
        return None;
    }
    if n <= EXACT_UP_TO && m <= EXACT_UP_TO {
        return exact_rank(n, m);
    }
    let (n, m) = (n as f64, m as f64);
    let rank = n * m / 2.0 - NORMAL_QUANTILE * (n * m * (n + m + 1.0) / 12.0).sqrt();
    usize::try_from(units::metric::saturate(rank.floor())).ok().filter(|rank| *rank >= 1)
}

/// By counting the arrangements for each value of the Mann–Whitney statistic: they are the coefficients of
/// ∏ (1 − x^(m+i)) / (1 − x^i), i = 1 … n.
fn exact_rank(n: usize, m: usize) -> Option<usize> {
    let mut arrangements = vec![0.0; n * m + 1];
    if let Some(first) = arrangements.first_mut() {
        *first = 1.0;
    }
    let shifted = |values: &[f64], index: usize, by: usize| {
        index.checked_sub(by).and_then(|index| values.get(index).copied()).unwrap_or(0.0)
    };
    for i in 1..=n {
        for index in (0..arrangements.len()).rev() {
            let taken = shifted(&arrangements, index, m + i);
            arrangements.iter_mut().skip(index).take(1).for_each(|value| *value -= taken);
        }
        for index in 0..arrangements.len() {
            let added = shifted(&arrangements, index, i);
            arrangements.iter_mut().skip(index).take(1).for_each(|value| *value += added);
        }
    }
    let total: f64 = arrangements.iter().sum();
    let mut tail = 0.0;
    let allowed = total * (1.0 - CONFIDENCE) / 2.0;
    let rank = arrangements
        .iter()
        .take_while(|ways| {
            tail += **ways;
            tail <= allowed
        })
        .count();
    (rank >= 1).then_some(rank)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use rand::SeedableRng as _;

    use super::*;
    use crate::made_run;
    use probes::ProbeKind;
    use units::scheduling::Scheduling;

    fn estimate(old: &[f64], new: &[f64]) -> Estimate {
        *ratio(old, new).estimate().unwrap()
    }

    #[test]
    fn ranks_agree_with_printed_tables() {
        // Critical values of U at 5 %, two-sided: 4×4 → 0, 5×5 → 2, 6×8 → 8, 10×10 → 23, 20×20 → 127. The rank is
        // one more.
        for (n, m, critical) in [(4, 4, 0), (5, 5, 2), (6, 8, 8), (10, 10, 23), (20, 20, 127)] {
            assert_eq!(exact_rank(n, m), Some(critical + 1), "{n} × {m}");
        }
        assert_eq!(exact_rank(3, 3), None);
    }

    #[test]
    fn doubled_times_are_worse_and_the_ratio_says_two() {
        let old = [100.0, 101.0, 99.0, 102.0, 98.0];
        let new = old.map(|value| value * 2.0);
        let estimate = estimate(&old, &new);
        assert!((estimate.value - 2.0).abs() < 0.01, "{estimate}");
        assert_eq!(difference(&Answer::Estimate(estimate), Better::Lower), Difference::Worse);
        assert_eq!(difference(&Answer::Estimate(estimate), Better::Higher), Difference::Better);
        assert_eq!(difference(&Answer::Estimate(estimate), Better::Neither), Difference::Different);
    }

    #[test]
    fn runs_with_different_rights_are_not_compared_and_say_so() {
        let wakeup = made_run::cell("vm", ProbeKind::Wakeup, None);
        let run = |priority: Option<u32>| {
            let mut run = made_run::run();
            made_run::measured(&mut run, &wakeup, "response_p99_ns", 100.0);
            let way = priority.map_or(Scheduling::Normal, |priority| Scheduling::Fifo { priority });
            run.cells[0].scheduling = vec![way];
            run
        };
        let alike = changes(&run(Some(80)), &run(Some(80)));
        assert_eq!(alike[0].difference, Difference::NotFound);
        let apart = changes(&run(Some(80)), &run(None));
        let reason = "not comparable: normal priority against FIFO 80".to_owned();
        assert_eq!(
            (&apart[0].ratio, apart[0].difference),
            (&Answer::Unsupported(reason), Difference::Unknown)
        );
    }

    #[test]
    fn few_zero_or_forged_rounds_get_a_reason() {
        for (old, new) in [(vec![], vec![1.0]), (vec![1.0; 3], vec![1.0; 3]), (vec![0.0; 9], vec![1.0; 9])] {
            assert!(ratio(&old, &new).estimate().is_none());
        }
        assert!(ratio(&[f64::NAN; 9], &[1.0; 9]).estimate().is_none());
    }

    #[test]
    fn the_interval_covers_the_truth_as_often_as_it_says() {
        let mut random = rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(7);
        let mut draw = |scale: f64| -> Vec<f64> {
            (0..8).map(|_| scale * (-random.random::<f64>().max(1e-9).ln()).powf(0.2)).collect()
        };
        let covered =
            (0..4000).filter(|_| estimate(&draw(1.0), &draw(1.3)).contains(1.3)).count() as f64 / 4000.0;
        // Exact coverage at 8 × 8 is 95.0 % or a little more, because ranks are whole numbers.
        assert!((0.94..0.975).contains(&covered), "{covered}");
    }

    proptest! {
        #[test]
        fn the_ratio_lies_in_its_interval(old in prop::collection::vec(1e-3f64..1e9, 4..30),
                                          new in prop::collection::vec(1e-3f64..1e9, 4..30)) {
            let estimate = estimate(&old, &new);
            prop_assert!(estimate.low <= estimate.value * (1.0 + 1e-9));
            prop_assert!(estimate.value <= estimate.high * (1.0 + 1e-9));
        }
    }
}
