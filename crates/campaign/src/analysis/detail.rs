//! One raw outcome per cell for the pictures: gap histograms and share phases of all rounds pooled, otherwise the median
//! round's.

use super::table::{Round, Row};
use analysis::joint::{remarks, whole_detail};
use analysis::shares;
use probes::detail::{Detail, GapDetail, ShareDetail, Stretch, WORST_KEPT};
use probes::job::PlacedDose;
use units::histogram::Histogram;
use units::{Hertz, Nanos};

/// Most remarks that are kept of a cell.
const MOST_NOTES: usize = 32;

/// The raw outcome that stands for all rounds.
pub(super) fn detail(row: &Row<'_>) -> Option<Detail> {
    let gaps = gaps(row);
    if !gaps.is_empty() {
        return Some(Detail::Gap(pooled(&gaps)));
    }
    if let Some(pooled) = shares::pooled(shares_of(row)) {
        return Some(Detail::Share(pooled));
    }
    row.median_round().and_then(|round| whole_detail(round.measurement))
}

/// What the share probe saw in every round, in order.
fn shares_of(row: &Row<'_>) -> Vec<ShareDetail> {
    let whole = row.rounds.iter().filter_map(|round| match whole_detail(round.measurement)? {
        Detail::Share(share) => Some(share),
        _ => None,
    });
    whole.collect()
}

/// Gap outcomes of every round, in order.
pub(super) fn gaps<'a>(row: &'a Row<'_>) -> Vec<&'a GapDetail> {
    row.rounds
        .iter()
        .filter_map(|round| match &round.report.detail {
            Detail::Gap(gap) => Some(gap),
            _ => None,
        })
        .collect()
}

/// The middle one of the rates measured in each round.
pub(super) fn median_rate(gaps: &[&GapDetail]) -> Hertz {
    let mut rates: Vec<Hertz> = gaps.iter().map(|gap| gap.counter_hz).collect();
    rates.sort_unstable();
    rates.get(rates.len() / 2).copied().unwrap_or_default()
}

/// One histogram per round; the worst gaps of all, their time stamps counted through all rounds.
fn pooled(gaps: &[&GapDetail]) -> GapDetail {
    let mut observed_ns = Nanos::ZERO;
    let mut worst: Vec<Stretch> = Vec::new();
    for gap in gaps {
        worst.extend(gap.worst.iter().map(|stretch| Stretch {
            start_ns: stretch.start_ns.saturating_add(observed_ns),
            length_ns: stretch.length_ns,
        }));
        observed_ns = observed_ns.saturating_add(gap.observed_ns);
    }
    worst.sort_by(|a, b| b.length_ns.cmp(&a.length_ns).then(a.start_ns.cmp(&b.start_ns)));
    worst.truncate(WORST_KEPT);
    let first_cpu = gaps.first().and_then(|gap| gap.cpu);
    GapDetail {
        counter_hz: median_rate(gaps),
        observed_ns,
        cpu: first_cpu.filter(|cpu| gaps.iter().all(|gap| gap.cpu == Some(*cpu))),
        batches: gaps.iter().map(|gap| Histogram::merge_all(&gap.batches)).collect(),
        worst,
    }
}

/// Remarks of all rounds, each once, in the order they first came; those on instances that began apart or starved first.
pub(super) fn notes(row: &Row<'_>) -> Vec<String> {
    let joint = row.rounds.iter().flat_map(|round| remarks(round.measurement));
    let own = row.rounds.iter().flat_map(|round| round.report.notes.iter().cloned());
    let mut notes: Vec<String> = Vec::new();
    for note in joint.take(MOST_NOTES / 2).chain(own) {
        if notes.len() < MOST_NOTES && !notes.contains(&note) {
            notes.push(note);
        }
    }
    notes
}

/// Per load of the cell the dose whose rate is the median over the rounds.
pub(super) fn doses(row: &Row<'_>) -> Vec<PlacedDose> {
    let most = row.rounds.iter().map(|round| round.doses.len()).max().unwrap_or(0);
    (0..most).filter_map(|index| median_dose(&row.rounds, index)).collect()
}

fn median_dose(rounds: &[Round<'_>], index: usize) -> Option<PlacedDose> {
    let mut doses: Vec<&PlacedDose> = rounds.iter().filter_map(|round| round.doses.get(index)).collect();
    doses.sort_by(|a, b| a.dose.rate_per_s.total_cmp(&b.dose.rate_per_s));
    doses.get(doses.len().saturating_sub(1) / 2).copied().cloned()
}
