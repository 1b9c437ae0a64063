//! Deadlines: how each real-time task of a simulated scenario kept its own. A row for each task and case, the worst first. And the worst
//! phases, where they were searched.

use model::simulation::{CaseOutcome, PhaseOutcome, SimulatedFigure, Simulation};
use units::metric::Unit;

use super::{figure_text, short};
use crate::figures::value_text;
use crate::text::{Paint, TextCell, TextTable, printable};

/// The figure that every task has; what is before it names the task.
const DEADLINE: &str = ".deadline_ns";
/// Longest label that is shown whole.
const LABEL_MOST: usize = 28;

/// One task in one case.
pub(crate) struct Row<'a> {
    /// The case.
    pub(crate) case: &'a str,
    /// The task, `vm.A.thread.0`.
    pub(crate) task: &'a str,
    outcome: &'a CaseOutcome,
}

/// What is said of the bounds below the rows.
pub(crate) const BOUNDS: &str = "Bound: proven for every phase and draw; exact, so that one of them reaches it, unless it has a ≤: then the \
                                 worst case may be less. None (–) where the notes say why.";

/// What the columns of a row are.
pub(crate) const HEAD: [&str; 7] = ["deadline", "bound", "worst", "99.9 %", "99 %", "late by", "missed"];

/// All tasks, those that missed most first, then those nearest to their deadline.
pub(crate) fn rows(simulation: &Simulation) -> Vec<Row<'_>> {
    let mut rows: Vec<Row<'_>> = simulation.cases.iter().flat_map(tasks_of).collect();
    let key =
        |row: &Row<'_>| (row.worst("missed_share"), row.worst("response_max_ns") / row.worst("deadline_ns"));
    rows.sort_by(|a, b| {
        let ((missed, near), (other_missed, other_near)) = (key(a), key(b));
        other_missed.total_cmp(&missed).then(other_near.total_cmp(&near))
    });
    rows
}

fn tasks_of(outcome: &CaseOutcome) -> impl Iterator<Item = Row<'_>> {
    let tasks = outcome.figures.iter().filter_map(|figure| figure.id.strip_suffix(DEADLINE));
    tasks.map(move |task| Row { case: &outcome.label, task, outcome })
}

impl Row<'_> {
    fn figure(&self, what: &str) -> Option<&SimulatedFigure> {
        self.outcome.figure(&format!("{}.{what}", self.task))
    }

    /// The largest of all replications; 0 where there is none.
    fn worst(&self, what: &str) -> f64 {
        let values = self.figure(what).into_iter().flat_map(|figure| &figure.values);
        values.map(|(_, value)| *value).fold(0.0, f64::max)
    }

    fn worst_text(&self, what: &str) -> String {
        self.figure(what).map_or_else(|| "–".to_owned(), |figure| value_text(figure.unit, self.worst(what)))
    }

    /// The bound, with a sign where the worst case may be less.
    fn bound_text(&self) -> String {
        let bound = self.worst_text("response_bound_ns");
        let is_exact = self.figure("response_bound_ns").and_then(|figure| figure.is_exact);
        if is_exact == Some(false) { format!("≤ {bound}") } else { bound }
    }

    /// Whether a job was late.
    pub(crate) fn is_missed(&self) -> bool {
        self.worst("missed_share") > 0.0
    }

    /// What stands below [`HEAD`]: the worst of all replications, the others as means over them.
    pub(crate) fn cells(&self) -> [String; 7] {
        self.cells_with(&|what| figure_text(self.figure(what)))
    }

    /// The same without intervals.
    fn narrow_cells(&self) -> [String; 7] {
        let mean = |figure: &SimulatedFigure| {
            let sum: f64 = figure.values.iter().map(|(_, value)| *value).sum();
            value_text(figure.unit, sum / figure.values.len() as f64)
        };
        self.cells_with(&|what| {
            let some = self.figure(what).filter(|figure| !figure.values.is_empty());
            some.map_or_else(|| "–".to_owned(), mean)
        })
    }

    fn cells_with(&self, mean: &dyn Fn(&str) -> String) -> [String; 7] {
        let late = if self.worst("tardiness_max_ns") > 0.0 {
            self.worst_text("tardiness_max_ns")
        } else {
            "–".to_owned()
        };
        [
            self.worst_text("deadline_ns"),
            self.bound_text(),
            self.worst_text("response_max_ns"),
            mean("response_p99_9_ns"),
            mean("response_p99_ns"),
            late,
            mean("missed_share"),
        ]
    }
}

/// The task, with its case where there are several.
fn label(simulation: &Simulation, case: &str, task: &str) -> TextCell {
    let case = if simulation.cases.len() > 1 { format!("{case}: ") } else { String::new() };
    TextCell::plain(format!("  {}", printable(&format!("{case}{}", short(task)), LABEL_MOST)))
}

/// The first of them as a table, and how many there are besides; without intervals where it would be wider than so many columns.
pub(super) fn table(simulation: &Simulation, most: usize, columns: usize) -> Option<(TextTable, usize)> {
    let rows = rows(simulation);
    let shown = rows.get(..most.min(rows.len())).unwrap_or_default();
    let wide = table_of(simulation, shown, true);
    let table = if wide.total_width(columns) > columns { table_of(simulation, shown, false) } else { wide };
    (!rows.is_empty()).then(|| (table, rows.len() - shown.len()))
}

fn table_of(simulation: &Simulation, rows: &[Row<'_>], is_wide: bool) -> TextTable {
    let bold = |text: &str| TextCell { text: text.to_owned(), paint: Paint::Bold };
    let mut table = TextTable::default();
    table.rows.push(std::iter::once(TextCell::default()).chain(HEAD.map(bold)).collect());
    for row in rows {
        let paint = if row.is_missed() { Paint::Red } else { Paint::None };
        let label = label(simulation, row.case, row.task);
        let cells = if is_wide { row.cells() } else { row.narrow_cells() };
        let cells = cells.map(|text| TextCell { text, paint });
        table.rows.push(std::iter::once(label).chain(cells).collect());
    }
    table
}

/// What the columns of a searched phase are.
pub(crate) const PHASE_HEAD: [&str; 3] = ["as written", "worst found", "missed at most"];

/// A searched phase: its label, the response as the scenario is written, the worst, and the share that missed.
pub(crate) fn phase_cells(simulation: &Simulation, phase: &PhaseOutcome) -> [String; 3] {
    let case = simulation.cases.iter().find(|case| case.label == phase.case);
    let written = case.map(|outcome| Row { case: &outcome.label, task: &phase.task, outcome });
    [
        written.map_or_else(|| "–".to_owned(), |row| row.worst_text("response_max_ns")),
        value_text(Unit::Nanoseconds, phase.response_max_ns.as_f64()),
        value_text(Unit::Share, phase.missed_share_max),
    ]
}

/// The worst phases as a table.
pub(super) fn phase_table(simulation: &Simulation, most: usize) -> TextTable {
    let bold = |text: &str| TextCell { text: text.to_owned(), paint: Paint::Bold };
    let mut table = TextTable::default();
    table.rows.push(std::iter::once(TextCell::default()).chain(PHASE_HEAD.map(bold)).collect());
    for phase in simulation.phases.iter().take(most) {
        let paint = if phase.missed_share_max > 0.0 { Paint::Red } else { Paint::None };
        let label = label(simulation, &phase.case, &phase.task);
        let cells = phase_cells(simulation, phase).map(|text| TextCell { text, paint });
        table.rows.push(std::iter::once(label).chain(cells).collect());
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulation::{Choice, text};
    use crate::terminal::Style;
    use crate::text::ascii;
    use serde_json::{Value, json};

    #[test]
    fn a_bound_that_may_not_be_reached_has_a_sign_and_it_is_said_what_that_means() {
        let of = |id: &str, ms: f64, is_exact: Value| {
            let mut figure = json!({ "id": id, "title": id, "unit": "nanoseconds", "better": "lower", "probe": "wakeup",
                                     "values": [[0, ms * 1e6]] });
            figure["is_exact"] = is_exact;
            figure
        };
        let shown = |is_exact: Value| {
            let figures = [
                of("vm.A.thread.0.deadline_ns", 20.0, Value::Null),
                of("vm.A.thread.0.response_bound_ns", 13.0, is_exact),
            ];
            let case = json!({ "label": "x", "settings": {}, "figures": figures, "events": 1 });
            let simulation: Simulation = serde_json::from_value(json!({ "scenario": "x", "about": "", "seed": 1, "replications": 1,
                                                                        "cases": [case], "published": [], "assumptions": [] }))
                .unwrap();
            text(&simulation, Choice::DEFAULT, Style { width: 100, colour: false })
        };
        let (exact, upper, unknown) = (shown(true.into()), shown(false.into()), shown(Value::Null));
        assert!(exact.contains(" 13 ms") && !exact.contains("≤ 13 ms"), "{exact}");
        assert!(upper.contains("≤ 13 ms") && ascii(&upper).contains("<= 13 ms"), "{upper}");
        let words = upper.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(BOUNDS), "{upper}");
        // Of an older file nothing is known.
        assert_eq!(unknown, exact);
    }
}
