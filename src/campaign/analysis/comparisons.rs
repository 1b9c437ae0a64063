//! Ratios from pairs of the same round: against the baseline, and against the same platform without the neighbour.
//!
//! A run makes many comparisons; at 95 % each, one in twenty would find a difference where there is none. So the
//! confidence of each is raised until the headline comparisons that answer one question together are right with 95 %
//! (see [`crate::stats::pairs::family_confidence`]): "what does it cost?" (against the baseline) is one family, "who
//! hurts whom?" (against the undisturbed) the other. The other metrics are held to the same confidence, so that the details
//! do not find what the summary does not.

use std::collections::BTreeMap;

use super::table::Table;
use crate::model::journal::Cell;
use crate::model::metric::Metric;
use crate::model::results::Comparison;
use crate::stats::pairs::{compare, family_confidence};

/// Confidence of estimates, and of all headline comparisons together.
pub(super) const CONFIDENCE: f64 = 0.95;

/// Compares cells of a table.
pub(super) struct Comparer<'a> {
    table: &'a Table<'a>,
    baseline: &'a str,
    /// Of each comparison with the baseline.
    cost_confidence: f64,
    /// Of each comparison with the undisturbed.
    isolation_confidence: f64,
}

impl<'a> Comparer<'a> {
    /// For these cells; counts the headline comparisons among them first.
    pub(super) fn new(table: &'a Table<'a>, cells: &[Cell], baseline: &'a str) -> Self {
        let mut comparer =
            Self { table, baseline, cost_confidence: CONFIDENCE, isolation_confidence: CONFIDENCE };
        let family = |other: &dyn Fn(&Cell) -> Option<Cell>| {
            let comparisons: usize =
                cells.iter().map(|cell| comparer.headline_comparisons(cell, other(cell))).sum();
            family_confidence(CONFIDENCE, comparisons.max(1))
        };
        let cost = family(&|cell| comparer.baseline_of(cell));
        let isolation = family(&undisturbed);
        (comparer.cost_confidence, comparer.isolation_confidence) = (cost, isolation);
        comparer
    }

    fn headline_comparisons(&self, cell: &Cell, other: Option<Cell>) -> usize {
        let Some(other) = other else { return 0 };
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

    fn baseline_of(&self, cell: &Cell) -> Option<Cell> {
        (cell.platform != self.baseline).then(|| Cell { platform: self.baseline.to_owned(), ..cell.clone() })
    }

    fn compare(&self, this: &Cell, other: &Cell, metric: &Metric, confidence: f64) -> Comparison {
        compare(&self.pairs(this, other, &metric.id), metric.better, confidence)
    }

    /// `(this, other)` of each round in which both yielded a value.
    fn pairs(&self, this: &Cell, other: &Cell, id: &str) -> Vec<(f64, f64)> {
        let samples = |cell| self.table.row(cell).map(|row| row.samples(id)).unwrap_or_default();
        let others: BTreeMap<u32, f64> = samples(other).into_iter().collect();
        samples(this).into_iter().filter_map(|(round, value)| Some((value, *others.get(&round)?))).collect()
    }
}

fn undisturbed(cell: &Cell) -> Option<Cell> {
    cell.neighbour.map(|_| Cell { neighbour: None, ..cell.clone() })
}
