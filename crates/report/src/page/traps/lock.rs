//! Pictures of the lock probe: waits by powers of two, how many and how much time, for both kinds of lock.

use maud::{Markup, html};

use model::results::RunResults;
use probes::ProbeKind;
use probes::detail::{Detail, LockDetail, LockKind, LockPoint};
use units::metric::Unit;

use super::super::super::chart::axis::{Axis, Scale};
use super::super::super::chart::palette::Ink;
use super::super::super::chart::plot::{Rule, Series};
use super::super::super::figures::{details, value_text};
use super::super::parts::{Drawing, behind, figure, line, plain_table, xs, ys};
use super::{COUNT, NS};

/// Kinds in the order of their pictures.
const KINDS: [(LockKind, &str); 2] =
    [(LockKind::Ticket, "Ticket lock"), (LockKind::TestAndSet, "Test-and-set lock")];
/// Waits from here on are no native ones.
const LONG_WAIT_BIT: i32 = 16;

struct Locks<'a> {
    ink: usize,
    label: String,
    detail: &'a LockDetail,
}

impl Locks<'_> {
    fn point(&self, kind: LockKind) -> Option<&LockPoint> {
        self.detail.points.iter().find(|point| point.kind == kind)
    }

    /// So many ticks as nanoseconds.
    fn ns(&self, ticks: f64) -> f64 {
        ticks * 1e9 / self.detail.counter_hz.as_f64()
    }

    /// The edge below a bin.
    fn edge(&self, bin: usize) -> f64 {
        self.ns(2f64.powi(i32::try_from(bin).unwrap_or(i32::MAX)))
    }
}

/// What is drawn of each bin.
#[derive(Clone, Copy, PartialEq, Eq)]
enum What {
    Waits,
    Time,
}

impl What {
    fn values(self, locks: &Locks<'_>, point: &LockPoint) -> Vec<f64> {
        match self {
            Self::Waits => point.waits.iter().map(|count| *count as f64).collect(),
            Self::Time => point.wait_ticks.iter().map(|ticks| locks.ns(*ticks as f64)).collect(),
        }
    }
}

pub(in super::super) fn pictures(results: &RunResults) -> Markup {
    let all: Vec<Locks<'_>> = details(results, ProbeKind::Lock)
        .into_iter()
        .filter_map(|(ink, label, detail)| match detail {
            Detail::Lock(detail) => Some(Locks { ink, label, detail }),
            _ => None,
        })
        .collect();
    let legend: Vec<(Ink, String)> = all.iter().map(|locks| (Ink(locks.ink), locks.label.clone())).collect();
    html! {
        p {
            "Waits left of the upright dashed line, 2^16 ticks of the counter, are usual on a machine of one's own; a second hump at \
             the right means that the thread that held the lock, or was next in line, had lost its CPU. Few long waits can take \
             most of the time."
        }
        @for (kind, name) in KINDS {
            @let counts = format!("{name}: how many waits of which length");
            (figure(&counts, "Waits by powers of two, both axes logarithmic.",
                &legend, &drawing(&all, kind, What::Waits).draw(&counts)))
            @let times = format!("{name}: how much time went into waits of which length");
            (figure(&times, "The same waits, weighted with their length.",
                &legend, &drawing(&all, kind, What::Time).draw(&times)))
        }
        (behind("Table: waits", &table(&all)))
        (behind("Table: waits by powers of two", &bin_table(&all)))
    }
}

fn drawing(all: &[Locks<'_>], kind: LockKind, what: What) -> Drawing {
    let mut series: Vec<Series> = Vec::new();
    let mut rules = Vec::new();
    for locks in all {
        let Some(point) = locks.point(kind) else { continue };
        series.extend(bars(locks, &what.values(locks, point)));
        rules.push(Rule::Upright(Ink(locks.ink), locks.ns(2f64.powi(LONG_WAIT_BIT))));
    }
    let (quantity, caption) = match what {
        What::Waits => (COUNT, "waits (logarithmic)"),
        What::Time => (NS, "time waited (logarithmic)"),
    };
    // A place for the dashed line also where all waits are short.
    let marks = rules.iter().filter_map(|rule| match rule {
        Rule::Upright(_, at) => Some(*at),
        Rule::Level(..) => None,
    });
    Drawing {
        x: Axis::enclosing(Scale::Log, NS, "length of the wait (logarithmic)", xs(&series).chain(marks)),
        y: Axis::enclosing(Scale::Log, quantity, caption, ys(&series)),
        series,
        rules,
    }
}

/// A step per bin, one outline per stretch of filled bins.
fn bars(locks: &Locks<'_>, values: &[f64]) -> Vec<Series> {
    let least = values.iter().copied().filter(|value| *value > 0.0).fold(f64::INFINITY, f64::min);
    let filled: Vec<(usize, f64)> =
        values.iter().copied().enumerate().filter(|(_, value)| *value > 0.0).collect();
    let outline = |stretch: &[(usize, f64)]| {
        let floor = least / 2.0;
        let start = stretch.first().map(|(bin, _)| (locks.edge(*bin), floor));
        let end = stretch.last().map(|(bin, _)| (locks.edge(bin + 1), floor));
        let tops = stretch
            .iter()
            .flat_map(|(bin, value)| [(locks.edge(*bin), *value), (locks.edge(bin + 1), *value)]);
        line(locks.ink, start.into_iter().chain(tops).chain(end).collect())
    };
    filled.chunk_by(|a, b| a.0 + 1 == b.0).map(outline).collect()
}

fn table(all: &[Locks<'_>]) -> Markup {
    let mut rows = Vec::new();
    for locks in all {
        for (kind, name) in KINDS {
            let Some(point) = locks.point(kind) else { continue };
            let waits: u128 = point.waits.iter().map(|count| u128::from(*count)).sum();
            let turns = |one: Option<&u64>| one.map_or_else(|| "n/a: no threads".to_owned(), u64::to_string);
            rows.push(vec![
                locks.label.clone(),
                name.to_owned(),
                format!("{} on {} CPUs", locks.detail.threads, locks.detail.cpus),
                waits.to_string(),
                value_text(Unit::Nanoseconds, locks.ns(point.longest_ticks as f64)),
                turns(point.turns.iter().min()),
                turns(point.turns.iter().max()),
            ]);
        }
    }
    let head = ["Platform", "Lock", "Threads", "Waits", "Longest", "Fewest turns of a thread", "Most"];
    plain_table(&head, &rows)
}

fn bin_table(all: &[Locks<'_>]) -> Markup {
    let mut rows = Vec::new();
    for locks in all {
        for (kind, name) in KINDS {
            let Some(point) = locks.point(kind) else { continue };
            let bins = point.waits.iter().zip(&point.wait_ticks).enumerate();
            for (bin, (count, ticks)) in bins.filter(|(_, (count, _))| **count > 0) {
                rows.push(vec![
                    format!("{name}, {}", locks.label),
                    format!("2^{bin}"),
                    value_text(Unit::Nanoseconds, locks.edge(bin)),
                    count.to_string(),
                    value_text(Unit::Nanoseconds, locks.ns(*ticks as f64)),
                ]);
            }
        }
    }
    plain_table(&["Lock", "From ticks", "From", "Waits", "Time waited"], &rows)
}
