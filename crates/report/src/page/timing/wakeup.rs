//! Pictures of the wake-up probe: how late how often, and when it was latest.

use maud::{Markup, html};

use model::results::RunResults;
use probes::ProbeKind;
use probes::detail::{Detail, WakeupDetail};
use stats::summary::{histogram_max, histogram_quantile};
use units::histogram::Histogram;
use units::metric::Unit;

use super::super::super::chart::axis::{Axis, Quantity, Scale};
use super::super::super::chart::palette::Ink;
use super::super::super::chart::plot::{Rule, Series, Stroke};
use super::super::super::figures::{details, value_text};
use super::super::parts::{Drawing, behind, capped, figure, line, plain_table, xs, ys};

const NS: Quantity = Quantity::Of(Unit::Nanoseconds);
/// Marks on the curve of service times.
const MARKS: usize = 16;
/// Latest wake-ups listed per platform.
const WORST_LISTED: usize = 5;

struct Wakeups<'a> {
    ink: usize,
    label: String,
    detail: &'a WakeupDetail,
    service: Histogram,
    response: Histogram,
}

fn all(results: &RunResults) -> Vec<Wakeups<'_>> {
    let sound = |detail: &WakeupDetail| {
        let mut threads = detail.threads.iter();
        threads.all(|thread| thread.service_ns.is_well_formed() && thread.response_ns.is_well_formed())
    };
    details(results, ProbeKind::Wakeup)
        .into_iter()
        .filter_map(|(ink, label, detail)| match detail {
            // A forged or broken histogram is not drawn: its figures could be anything.
            Detail::Wakeup(detail) if sound(detail) => Some(Wakeups {
                ink,
                label,
                detail,
                service: Histogram::merge_all(detail.threads.iter().map(|thread| &thread.service_ns)),
                response: Histogram::merge_all(detail.threads.iter().map(|thread| &thread.response_ns)),
            }),
            _ => None,
        })
        .collect()
}

pub(in super::super) fn pictures(results: &RunResults) -> Markup {
    let all = all(results);
    let legend: Vec<(Ink, String)> =
        all.iter().map(|wakeups| (Ink(wakeups.ink), wakeups.label.clone())).collect();
    html! {
        div.solid { (figure("How late, and how often", "Read it from the left: at a time t the line says which share of all activations \
            waited for longer than t. The marks say the same of the wake-ups that really happened, which is all that most tools \
            show; where the line runs above the marks, activations came due while the thread could not run.",
            &legend, &tails(&all).draw("Share of activations that waited for longer than a time, with wake-ups as marks"))) }
        (behind("Table: how late", &quantiles(&all)))
        (figure("When the latest wake-ups came", "The latest wake-ups of each platform at their due time.",
            &legend, &time_line(&all).draw("Time line of the latest wake-ups")))
        @let listed: usize = all.iter().flat_map(|wakeups| &wakeups.detail.threads).map(|thread| thread.worst.len()).sum();
        @let rows: Vec<Vec<String>> = all.iter().flat_map(worst_rows).collect();
        @let table = html! {
            (plain_table(&["Platform", "Late by", "Due after", "CPU"], &rows))
            (capped(rows.len(), listed))
        };
        (behind("Table: latest wake-ups", &table))
    }
}

/// Which share of the values is at least as large, at each value there is.
fn tail(histogram: &Histogram) -> Vec<(f64, f64)> {
    let all = histogram.count() as f64;
    let mut left = all;
    let points = histogram.buckets().iter().map(|bucket| {
        let share = left / all;
        left -= bucket.count as f64;
        // A logarithmic axis has no place for 0 ns.
        ((bucket.sum as f64 / bucket.count.max(1) as f64).max(1.0), share)
    });
    points.collect()
}

fn tails(all: &[Wakeups<'_>]) -> Drawing {
    let mut series: Vec<Series> = Vec::new();
    for wakeups in all {
        series.push(line(wakeups.ink, tail(&wakeups.response)));
        series.push(Series {
            ink: Ink(wakeups.ink),
            stroke: Stroke::Marks,
            points: marks(tail(&wakeups.service)),
        });
    }
    let rule = |share: f64, words: &str| Rule::Level(share, words.to_owned());
    Drawing {
        x: Axis::enclosing(Scale::Log, NS, "late by more than", xs(&series)),
        y: Axis::enclosing(Scale::Log, Quantity::Of(Unit::Share), "share", ys(&series).chain([1.0])),
        series,
        rules: vec![rule(0.01, "1 in 100"), rule(0.001, "1 in 1000")],
    }
}

/// A few points, at about equal distances in the logarithm of the share, and the last one.
fn marks(points: Vec<(f64, f64)>) -> Vec<(f64, f64)> {
    let Some(last) = points.last().copied() else { return points };
    let step = (last.1.ln() / MARKS as f64).min(-f64::MIN_POSITIVE);
    let mut kept: Vec<(f64, f64)> = points
        .chunk_by(|a, b| (a.1.ln() / step).floor().total_cmp(&(b.1.ln() / step).floor()).is_eq())
        .filter_map(|run| run.first().copied())
        .collect();
    if kept.last() != Some(&last) {
        kept.push(last);
    }
    kept
}

fn quantiles(all: &[Wakeups<'_>]) -> Markup {
    let mut rows = Vec::new();
    for wakeups in all {
        for (what, histogram) in [("activations", &wakeups.response), ("wake-ups", &wakeups.service)] {
            let count = histogram.count();
            let ns = |value: Option<f64>| {
                value.map_or_else(
                    || "n/a: nothing recorded".to_owned(),
                    |ns| value_text(Unit::Nanoseconds, ns),
                )
            };
            let at = |share: f64| {
                // As in the figures: ten of them must lie beyond.
                if count as f64 * (1.0 - share) < 10.0 * (1.0 - 1e-9) {
                    "n/a: too few".to_owned()
                } else {
                    ns(histogram_quantile(histogram, share))
                }
            };
            let most = ns(histogram_max(histogram).map(|most| most as f64));
            rows.push(vec![
                format!("{}, {what}", wakeups.label),
                count.to_string(),
                at(0.5),
                at(0.99),
                at(0.999),
                at(0.9999),
                most,
            ]);
        }
    }
    plain_table(&["Platform", "Number", "Median", "99 %", "99.9 %", "99.99 %", "Latest"], &rows)
}

fn time_line(all: &[Wakeups<'_>]) -> Drawing {
    let series: Vec<Series> = all
        .iter()
        .map(|wakeups| Series {
            ink: Ink(wakeups.ink),
            stroke: Stroke::Stems,
            points: wakeups
                .detail
                .threads
                .iter()
                .flat_map(|thread| &thread.worst)
                .map(|worst| (worst.start_ns.as_f64(), worst.length_ns.as_f64()))
                .collect(),
        })
        .collect();
    Drawing {
        x: Axis::enclosing(Scale::FromZero, NS, "due time since the start of the probe", xs(&series)),
        y: Axis::enclosing(Scale::Log, NS, "late by", ys(&series)),
        series,
        rules: Vec::new(),
    }
}

fn worst_rows(wakeups: &Wakeups<'_>) -> Vec<Vec<String>> {
    let mut worst: Vec<_> = wakeups
        .detail
        .threads
        .iter()
        .flat_map(|thread| thread.worst.iter().map(|worst| (worst, thread.cpu)))
        .collect();
    worst.sort_by_key(|(worst, _)| std::cmp::Reverse(worst.length_ns));
    worst
        .into_iter()
        .take(WORST_LISTED)
        .map(|(worst, cpu)| {
            let cpu = cpu.map_or_else(|| "not pinned".to_owned(), |cpu| cpu.to_string());
            vec![wakeups.label.clone(), worst.length_ns.to_string(), worst.start_ns.to_string(), cpu]
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tail_begins_with_everything_and_ends_with_the_last_one() {
        let points = tail(&Histogram::from_values([10, 10, 20, 40]));
        assert_eq!(points, [(10.0, 1.0), (20.0, 0.5), (40.0, 0.25)]);
        assert_eq!(tail(&Histogram::default()), []);
        let kept = marks(tail(&Histogram::from_values(1..100_000)));
        assert!(kept.len() <= MARKS + 2 && kept.len() > MARKS / 2, "{}", kept.len());
        assert_eq!(marks(points.clone()).last(), points.last());
    }
}
