//! Who took the time of a cell: every round's lost time is shared out, then added up; and of the gap probe's round with the
//! longest gap, what the instance and its host saw at the same time.

use super::table::{Round, Row};
use analysis::attribution::attribute;
use model::attribution::{AttributedSource, Attribution};
use model::sides::{BothSides, SLICES_KEPT};
use probes::detail::{Detail, GapDetail};
use units::Nanos;
use units::accounts::{HostAccount, HostSlice};

/// Most sources that results keep one by one.
const SOURCES_KEPT: usize = 32;

/// Most reasons why something is not known.
const REASONS_KEPT: usize = 16;

/// Lost time of all rounds and who took it; none for other probes, and where no kernel's books were kept.
pub(super) fn attribution(row: &Row<'_>) -> Option<Attribution> {
    let rounds: Vec<Attribution> = row
        .rounds
        .iter()
        .filter_map(|round| attribute(&round.report.detail, round.report.accounts.as_ref()?))
        .collect();
    (!rounds.is_empty()).then(|| added_up(&rounds))
}

fn gap_of<'a>(round: &'a Round<'_>) -> Option<&'a GapDetail> {
    match &round.report.detail {
        Detail::Gap(gap) => Some(gap),
        _ => None,
    }
}

/// Sums by source. The evidence is that of the round in which the source took most.
fn added_up(rounds: &[Attribution]) -> Attribution {
    let mut sources: Vec<(AttributedSource, Nanos)> = Vec::new();
    for source in rounds.iter().flat_map(|round| &round.sources) {
        match sources.iter_mut().find(|(known, _)| known.name == source.name) {
            Some((known, most)) => {
                known.lost_ns = known.lost_ns.saturating_add(source.lost_ns);
                if source.lost_ns > *most {
                    *most = source.lost_ns;
                    known.evidence.clone_from(&source.evidence);
                }
            }
            None => sources.push((source.clone(), source.lost_ns)),
        }
    }
    let sum = |part: &dyn Fn(&Attribution) -> Nanos| {
        rounds.iter().map(part).fold(Nanos::ZERO, Nanos::saturating_add)
    };
    let lost_ns = sum(&|round| round.lost_ns);
    let mut sources: Vec<AttributedSource> = sources
        .into_iter()
        .map(|(source, _)| {
            let share = source.lost_ns.as_f64() / lost_ns.as_f64().max(1.0);
            let several = rounds.len() > 1;
            let evidence = if several {
                format!("{} (the round in which it took most, of {})", source.evidence, rounds.len())
            } else {
                source.evidence
            };
            AttributedSource { share, evidence, ..source }
        })
        .collect();
    sources.sort_by_key(|source| std::cmp::Reverse(source.lost_ns));
    sources.truncate(SOURCES_KEPT);
    let unknown = unknown(rounds.iter().flat_map(|round| &round.unknown));
    Attribution { lost_ns, sources, unattributed_ns: sum(&|round| round.unattributed_ns), unknown }
}

/// Each reason once. Of those that begin with the same words (`interrupts: `) the first one stands for all.
fn unknown<'a>(reasons: impl Iterator<Item = &'a String>) -> Vec<String> {
    let what =
        |reason: &str| reason.split_once(": ").map_or_else(|| reason.to_owned(), |(what, _)| what.to_owned());
    let mut kept: Vec<String> = Vec::new();
    for reason in reasons {
        if kept.len() < REASONS_KEPT && !kept.iter().any(|known| what(known) == what(reason)) {
            kept.push(reason.clone());
        }
    }
    kept
}

/// The round with the longest gap among those that were seen from both sides.
pub(super) fn sides(row: &Row<'_>) -> Option<BothSides> {
    let seen = row.rounds.iter().filter_map(|round| {
        let host = round.host.filter(|host| !host.slices.is_empty())?;
        Some((round, gap_of(round)?, round.report.outside?, host))
    });
    let longest = |gap: &GapDetail| gap.worst.iter().map(|gap| gap.length_ns).max();
    let (round, gap, outside, host) = seen.max_by_key(|(_, gap, _, _)| longest(gap))?;
    let slices = fewer(&host.slices);
    Some(BothSides {
        round: round.number,
        gaps: gap.worst.clone(),
        outside,
        host: HostAccount { slices, ..host.clone() },
    })
}

/// Neighbouring slices put together until they are few enough.
fn fewer(slices: &[HostSlice]) -> Vec<HostSlice> {
    let together = slices.len().div_ceil(SLICES_KEPT).max(1);
    slices
        .chunks(together)
        .filter_map(|chunk| {
            let last = chunk.last()?;
            let sum = |part: &dyn Fn(&HostSlice) -> Nanos| {
                chunk.iter().map(part).fold(Nanos::ZERO, Nanos::saturating_add)
            };
            Some(HostSlice {
                at_ns: last.at_ns,
                run_ns: sum(&|slice| slice.run_ns),
                wait_ns: sum(&|slice| slice.wait_ns),
                faults: chunk.iter().fold(0, |all, slice| all.saturating_add(slice.faults)),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ns(nanos: u64) -> Nanos {
        Nanos::from_nanos(nanos)
    }

    fn round(lost: u64, sources: &[(&str, u64)]) -> Attribution {
        let took: u64 = sources.iter().map(|(_, took)| took).sum();
        Attribution {
            lost_ns: ns(lost),
            sources: sources
                .iter()
                .map(|(name, took)| AttributedSource {
                    name: (*name).to_owned(),
                    lost_ns: ns(*took),
                    share: 0.0,
                    evidence: format!("{took}"),
                })
                .collect(),
            unattributed_ns: ns(lost - took),
            unknown: vec![format!("steal: not told in {lost}"), format!("interrupts: {took}")],
        }
    }

    #[test]
    fn rounds_add_up_to_what_was_lost() {
        let all = added_up(&[round(100, &[("tick", 60), ("steal", 10)]), round(300, &[("steal", 250)])]);
        assert_eq!((all.lost_ns, all.unattributed_ns), (ns(400), ns(80)));
        let shown: Vec<(&str, u64, f64)> =
            all.sources.iter().map(|s| (s.name.as_str(), s.lost_ns.get(), s.share)).collect();
        assert_eq!(shown, [("steal", 260, 0.65), ("tick", 60, 0.15)]);
        assert!(all.sources[0].evidence.starts_with("250 "), "{}", all.sources[0].evidence);
        assert_eq!(all.unknown, ["steal: not told in 100", "interrupts: 70"], "each once");
    }

    #[test]
    fn slices_put_together_keep_their_sums() {
        let slices: Vec<HostSlice> = (1..=5000)
            .map(|at| HostSlice { at_ns: ns(at * 10), run_ns: ns(7), wait_ns: ns(3), faults: 1 })
            .collect();
        let few = fewer(&slices);
        assert!(few.len() <= SLICES_KEPT && few.len() > SLICES_KEPT / 2, "{}", few.len());
        let run: u64 = few.iter().map(|slice| slice.run_ns.get()).sum();
        let faults: u64 = few.iter().map(|slice| slice.faults).sum();
        assert_eq!((run, faults, few.last().unwrap().at_ns), (35_000, 5000, ns(50_000)));
    }
}
