//! Ratios from pairs of the same round: against the baseline, and against the same platform without the neighbour.
//!
//! The interval of a ratio is for that ratio alone: right with 95 %. A run makes many comparisons, of which one in twenty would then
//! find a difference where there is none. So what is *called* a difference is held to a confidence at which all headline
//! comparisons that answer one question together are right with 95 % (see [`stats::pairs::family_confidence`]): "what does it
//! cost?" (against the baseline) is one family, "who hurts whom?" (against the undisturbed) the other. The other metrics are held
//! to the same confidence, so that the details do not find what the summary does not.

use std::collections::BTreeMap;

use super::table::Table;
use analysis::joint::{MEMBER_SPREAD, START_SKEW};
use model::journal::{Cell, PlatformState};
use stats::pairs::{compare, family_confidence, scatter};
use units::metric::{Better, Comparison, Metric};
use units::names::PlatformKind;
use units::scheduling::incomparable;

/// Confidence of each estimate, and of all differences together that are called.
pub(crate) const CONFIDENCE: f64 = 0.95;

/// Compares cells of a table.
pub(super) struct Comparer<'a> {
    table: &'a Table<'a>,
    baseline: &'a str,
    /// Platforms whose layouts are spread over machines; those of the others all share this one.
    several_machines: Vec<String>,
    /// At which a difference from the baseline is called one.
    cost_confidence: f64,
    /// At which one from the undisturbed is.
    isolation_confidence: f64,
}

impl<'a> Comparer<'a> {
    /// For these cells; counts the headline comparisons among them first.
    pub(super) fn new(
        table: &'a Table<'a>,
        cells: &[Cell],
        baseline: &'a str,
        platforms: &[PlatformState],
    ) -> Self {
        let spread = platforms.iter().filter(|state| state.kind == PlatformKind::Ssh);
        let mut comparer = Self {
            table,
            baseline,
            several_machines: spread.map(|state| state.label.clone()).collect(),
            cost_confidence: CONFIDENCE,
            isolation_confidence: CONFIDENCE,
        };
        let family = |other: &dyn Fn(&Cell) -> Option<Cell>| {
            let comparisons: usize =
                cells.iter().map(|cell| comparer.headline_comparisons(cell, other(cell))).sum();
            family_confidence(CONFIDENCE, comparisons.max(1))
        };
        let cost = family(&|cell| comparer.baseline_of(cell));
        let isolation = family(&|cell| undisturbed(cell).or_else(|| alone(cell)));
        (comparer.cost_confidence, comparer.isolation_confidence) = (cost, isolation);
        comparer
    }

    fn headline_comparisons(&self, cell: &Cell, other: Option<Cell>) -> usize {
        let Some(other) = other.filter(|other| self.incomparable(cell, other).is_none()) else { return 0 };
        let headlines: Vec<&Metric> = self
            .table
            .row(cell)
            .map(|row| row.metrics().into_iter().filter(|metric| metric.headline).collect())
            .unwrap_or_default();
        headlines.iter().filter(|metric| !self.pairs(cell, &other, &metric.id).is_empty()).count()
    }

    /// This platform against the baseline; none for the baseline itself.
    pub(super) fn against_baseline(&self, cell: &Cell, metric: &Metric) -> Option<Comparison> {
        self.baseline_of(cell).map(|other| self.compare(cell, &other, metric, self.cost_confidence))
    }

    /// This platform with the neighbour against the same without; none without a neighbour.
    pub(super) fn against_undisturbed(&self, cell: &Cell, metric: &Metric) -> Option<Comparison> {
        undisturbed(cell).map(|other| self.compare(cell, &other, metric, self.isolation_confidence))
    }

    /// Several instances at once against one alone; none for one alone and for figures that one alone has not.
    pub(super) fn against_alone(&self, cell: &Cell, metric: &Metric) -> Option<Comparison> {
        let other = alone(cell)?;
        if [MEMBER_SPREAD, START_SKEW].contains(&metric.id.as_str()) {
            return None;
        }
        if let Some(reason) = self.incomparable(cell, &other) {
            return Some(Comparison::impossible(reason));
        }
        let fair = if metric.better == Better::Higher { self.sharing(cell) } else { 1.0 };
        let pairs: Vec<(f64, f64)> = self
            .pairs(cell, &other, &metric.id)
            .into_iter()
            .map(|(together, alone)| (together * fair, alone))
            .collect();
        Some(judged(&pairs, metric.better, self.isolation_confidence))
    }

    /// How many instances of a cell share one machine.
    fn sharing(&self, cell: &Cell) -> f64 {
        let Some(layout) = cell.layout else { return 1.0 };
        let has_machines = self.several_machines.contains(&cell.platform);
        f64::from(if has_machines { layout.per_host() } else { layout.instances() })
    }

    fn baseline_of(&self, cell: &Cell) -> Option<Cell> {
        (cell.platform != self.baseline).then(|| Cell { platform: self.baseline.to_owned(), ..cell.clone() })
    }

    /// Why two cells may not be compared; none when they may.
    fn incomparable(&self, this: &Cell, other: &Cell) -> Option<String> {
        incomparable(&self.table.row(this)?.scheduling(), &self.table.row(other)?.scheduling())
    }

    fn compare(&self, this: &Cell, other: &Cell, metric: &Metric, confidence: f64) -> Comparison {
        if let Some(reason) = self.incomparable(this, other) {
            return Comparison::impossible(reason);
        }
        judged(&self.pairs(this, other, &metric.id), metric.better, confidence)
    }

    /// `(this, other)` of each round in which both yielded a value.
    fn pairs(&self, this: &Cell, other: &Cell, id: &str) -> Vec<(f64, f64)> {
        let samples = |cell| self.table.row(cell).map(|row| row.samples(id)).unwrap_or_default();
        let others: BTreeMap<u32, f64> = samples(other).into_iter().collect();
        samples(this).into_iter().filter_map(|(round, value)| Some((value, *others.get(&round)?))).collect()
    }
}

/// The ratio for itself, and whether it is called a difference at the confidence of its family.
fn judged(pairs: &[(f64, f64)], better: Better, family: f64) -> Comparison {
    let Comparison { ratio, difference, .. } = compare(pairs, better, family);
    let of_family = ratio.estimate().copied();
    let own = compare(pairs, better, CONFIDENCE);
    let is_called = difference.is_called();
    // Few pairs may pass the test at the higher confidence alone.
    let includes_none = own.ratio.estimate().is_some_and(|own| own.contains(1.0));
    let ratio = if is_called && includes_none { ratio } else { own.ratio };
    let detectable_percent = scatter(pairs).and_then(|scatter| scatter.detectable_percent(family));
    Comparison { ratio, pairs: own.pairs, difference, of_family, detectable_percent }
}

fn alone(cell: &Cell) -> Option<Cell> {
    let is_comparable = cell.layout.is_some() && !cell.probe.is_made_together();
    is_comparable.then(|| Cell { layout: None, ..cell.clone() })
}

fn undisturbed(cell: &Cell) -> Option<Cell> {
    cell.neighbour.map(|_| Cell { neighbour: None, ..cell.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use analysis::joint::metrics_of_measurement;
    use model::journal::{Measurement, Outcome};
    use probes::ProbeKind;
    use probes::detail::{Detail, WakeupDetail, WakeupThread};
    use probes::job::ProbeReport;
    use units::facts::{ClockFacts, OwnCost};
    use units::histogram::Histogram;
    use units::metric::{Answer, Difference};
    use units::{Bytes, Nanos};

    /// Wake-ups of a round, a little later each round.
    fn woken(platform: &str, round: u32, priority: Option<u32>, late_ns: u64) -> Measurement {
        let late = Histogram::from_values((0..20_000).map(|wake| late_ns + u64::from(round) + wake % 7));
        let thread = WakeupThread {
            cpu: None,
            due: 20_000,
            missed: 0,
            service_ns: late.clone(),
            response_ns: late,
            worst: Vec::new(),
            began_ns: None,
            witnessed: Vec::new(),
        };
        let period_ns = Nanos::from_nanos(1_000_000);
        let detail = Detail::Wakeup(WakeupDetail { period_ns, priority, threads: vec![thread] });
        let clock = ClockFacts { name: String::new(), read_ns: 1.0, resolution_ns: 1.0 };
        let memory_bytes = Bytes::from_bytes(0);
        let cost = OwnCost { per_sample_ns: 1.0, cpu_time_ns: Nanos::ZERO, memory_bytes };
        let report = ProbeReport::new(clock, cost, detail, Vec::new());
        let cell =
            Cell { probe: ProbeKind::Wakeup, neighbour: None, platform: platform.to_owned(), layout: None };
        Measurement {
            cell,
            round,
            started_unix_ns: Nanos::ZERO,
            duration_ns: Nanos::ZERO,
            doses: Vec::new(),
            outcome: Outcome::Done(Box::new(report)),
            others: Vec::new(),
            start_skew_ns: None,
            host: None,
            instances: Vec::new(),
        }
    }

    fn against_native(of_vm: impl Fn(u32) -> Option<u32>) -> Comparison {
        let all: Vec<Measurement> = (0..8)
            .flat_map(|round| {
                [woken("native", round, Some(80), 3000), woken("vm", round, of_vm(round), 9000)]
            })
            .collect();
        let table = Table::of(&all);
        let cells: Vec<Cell> = all.iter().take(2).map(|measurement| measurement.cell.clone()).collect();
        let comparer = Comparer::new(&table, &cells, "native", &[]);
        let metrics = metrics_of_measurement(&all[1]).unwrap();
        let main = metrics.iter().find(|metric| metric.headline && metric.figure.value().is_some()).unwrap();
        comparer.against_baseline(&cells[1], main).unwrap()
    }

    #[test]
    fn wake_ups_of_different_priorities_are_not_compared() {
        let alike = against_native(|_| Some(80));
        assert_eq!((alike.difference, alike.pairs), (Difference::Worse, 8), "{alike:?}");
        let refused = against_native(|_| None);
        let reason = "not comparable: normal priority against FIFO 80".to_owned();
        assert_eq!(refused, Comparison::impossible(reason));
        // The rights were lost on the way, after a resume by somebody else for example.
        let mixed = against_native(|round| (round < 4).then_some(80));
        let Answer::Unsupported(reason) = mixed.ratio else { panic!("compared") };
        assert_eq!(reason, "not comparable: normal priority and FIFO 80 against FIFO 80");
    }
}
