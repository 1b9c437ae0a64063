//! What changed between two simulations: every figure of every case that both have, what changed most first.
//!
//! Replications of equal seeds are pairs: only what was changed differs. A change counts when the 95 % interval of the mean difference
//! excludes none; where nothing is drawn, any difference does. Missed deadlines come first; then changes are ranked by points: a per
//! cent of a value, or a hundredth of a share. What was nothing before, or is now, counts as much as all of a share.

use std::fmt::Write as _;

use super::{CONFIDENCE, SENTENCE_MOST, short, unfinished_words};
use crate::figures::{difference_mark, value_text};
use crate::terminal::{Style, heading};
use crate::text::{Paint, TextCell, TextTable, paragraph, printable};
use model::simulation::{SimulatedFigure, Simulation};
use stats::summary::mean_with_half_width;
use units::metric::{Better, Difference, Unit};

/// Changes that are shown.
const SHOWN_MOST: usize = 20;
/// Longest label that is shown whole.
const LABEL_MOST: usize = 44;

/// A figure of a case in both.
struct Change<'a> {
    case: &'a str,
    figure: &'a SimulatedFigure,
    before: f64,
    after: f64,
    /// What the interval allows to say.
    difference: Difference,
}

impl Change<'_> {
    /// By how much it matters: whether deadlines were missed, then points.
    fn matters(&self) -> (bool, f64) {
        let points = match self.figure.unit {
            Unit::Share => (self.after - self.before).abs() * 100.0,
            _ if self.before * self.after > 0.0 => (self.after / self.before).ln().abs() * 100.0,
            _ => 100.0,
        };
        (self.figure.id.ends_with(".missed_share"), points)
    }
}

/// The comparison; none where one of the two is no simulation.
pub fn text(before: Option<&Simulation>, after: Option<&Simulation>, style: Style) -> Option<String> {
    let (before, after) = (before?, after?);
    let mut changes = changes(before, after);
    changes.sort_by(|a, b| {
        let ((missed, points), (other_missed, other_points)) = (a.matters(), b.matters());
        other_missed.cmp(&missed).then(other_points.total_cmp(&points))
    });
    let count = |wanted: Difference| changes.iter().filter(|change| change.difference == wanted).count();
    let mut out = String::new();
    heading(&mut out, "What changed, the most first", style);
    for (name, run) in [("first", before), ("second", after)] {
        if let Some(words) = unfinished_words(run) {
            out.push_str(&paragraph(
                "  ! ",
                &format!("the {name} was interrupted: {words}"),
                style.columns(),
            ));
        }
    }
    let shown: Vec<&Change<'_>> = changes.iter().filter(|change| is_change(change)).collect();
    if shown.is_empty() {
        out.push_str("  nothing\n");
    } else {
        out.push_str(&table(&shown, before.cases.len() > 1).render(style.columns(), style.colour));
    }
    if shown.len() > SHOWN_MOST {
        let _ = writeln!(out, "  and {} more: --json has all", shown.len() - SHOWN_MOST);
    }
    let words = format!(
        "{} figures worse, {} better, {} otherwise different, {} without a change, {} not decided. Missed deadlines come first; then a per \
         cent of a value counts as much as a hundredth of a share.",
        count(Difference::Worse),
        count(Difference::Better),
        count(Difference::Different),
        count(Difference::NotFound),
        count(Difference::Unknown),
    );
    out.push_str(&paragraph("  ", &words, style.columns()));
    let only = |these: &Simulation, those: &Simulation| {
        these.cases.iter().filter(|case| those.cases.iter().all(|other| other.label != case.label)).count()
    };
    let (first, second) = (only(before, after), only(after, before));
    if first + second > 0 {
        let _ = writeln!(out, "  {first} cases are in the first only, {second} in the second only");
    }
    Some(out)
}

const fn is_change(change: &Change<'_>) -> bool {
    matches!(change.difference, Difference::Better | Difference::Worse | Difference::Different)
}

fn changes<'a>(before: &'a Simulation, after: &'a Simulation) -> Vec<Change<'a>> {
    let mut changes = Vec::new();
    for case in &before.cases {
        let Some(other) = after.cases.iter().find(|other| other.label == case.label) else { continue };
        for figure in &case.figures {
            let Some(then) = other.figure(&figure.id) else { continue };
            let numbers = |figure: &'a SimulatedFigure| figure.values.iter().map(|(number, _)| *number);
            let is_paired = before.seed == after.seed && numbers(figure).eq(numbers(then));
            let is_certain = before.once.contains(&case.label) && after.once.contains(&case.label);
            if let Some((old, new, difference)) = difference(figure, then, is_paired, is_certain) {
                changes.push(Change { case: &case.label, figure, before: old, after: new, difference });
            }
        }
    }
    changes
}

/// Means of both, and what may be said of their difference; nothing is random where `is_certain`.
fn difference(
    before: &SimulatedFigure,
    after: &SimulatedFigure,
    is_paired: bool,
    is_certain: bool,
) -> Option<(f64, f64, Difference)> {
    let values =
        |figure: &SimulatedFigure| figure.values.iter().map(|(_, value)| *value).collect::<Vec<f64>>();
    let (old, new) = (values(before), values(after));
    let (first, first_half) = mean_with_half_width(&old, CONFIDENCE)?;
    let (second, second_half) = mean_with_half_width(&new, CONFIDENCE)?;
    let half = if is_paired {
        let each: Vec<f64> = old.iter().zip(&new).map(|(old, new)| new - old).collect();
        mean_with_half_width(&each, CONFIDENCE)?.1
    } else {
        first_half.zip(second_half).map(|(a, b)| a.hypot(b))
    };
    let half = half.or_else(|| is_certain.then_some(0.0));
    let by = second - first;
    let difference = match half {
        _ if by == 0.0 => Difference::NotFound,
        None => Difference::Unknown,
        Some(half) if by.abs() <= half => Difference::NotFound,
        Some(_) => match (before.better, by > 0.0) {
            (Better::Neither, _) => Difference::Different,
            (Better::Lower, true) | (Better::Higher, false) => Difference::Worse,
            (Better::Lower, false) | (Better::Higher, true) => Difference::Better,
        },
    };
    Some((first, second, difference))
}

fn table(changes: &[&Change<'_>], has_cases: bool) -> TextTable {
    let bold = |text: &str| TextCell { text: text.to_owned(), paint: Paint::Bold };
    let mut table =
        TextTable { rows: vec![["", "first", "second", ""].map(bold).to_vec()], ..TextTable::default() };
    for change in changes.iter().take(SHOWN_MOST) {
        let case = if has_cases { format!("{}: ", change.case) } else { String::new() };
        let label = printable(&format!("{case}{}", short(&change.figure.id)), LABEL_MOST);
        let [before, after] =
            [change.before, change.after].map(|value| value_text(change.figure.unit, value));
        let paint = match change.difference {
            Difference::Worse => Paint::Red,
            Difference::Better => Paint::Green,
            _ => Paint::None,
        };
        let mark = TextCell { text: format!("{} {}", difference_mark(change.difference), by(change)), paint };
        let plain = [format!("  {label}"), before, after].map(TextCell::plain);
        table.rows.push(plain.into_iter().chain([mark]).collect());
    }
    table
}

/// `+3.2 points` of shares, `1.21 ×` of anything else.
fn by(change: &Change<'_>) -> String {
    let text = match change.figure.unit {
        Unit::Share => format!("{:+.3} points", (change.after - change.before) * 100.0),
        _ if change.before == 0.0 => "from nothing".to_owned(),
        _ => format!("{:.4} ×", change.after / change.before),
    };
    printable(&text, SENTENCE_MOST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::simulation::CaseOutcome;
    use probes::ProbeKind;

    fn figure(id: &str, unit: Unit, values: &[f64]) -> SimulatedFigure {
        SimulatedFigure {
            id: id.to_owned(),
            title: id.to_owned(),
            unit,
            better: Better::Lower,
            probe: ProbeKind::Wakeup,
            is_exact: None,
            values: (0..).zip(values.iter().copied()).collect(),
        }
    }

    fn simulation(figures: Vec<SimulatedFigure>) -> Simulation {
        let case = CaseOutcome {
            label: "x".to_owned(),
            settings: std::collections::BTreeMap::new(),
            figures,
            waits: Vec::new(),
            time_line: None,
            troubles: Vec::new(),
            notes: Vec::new(),
            events: 1,
        };
        Simulation {
            scenario: "x".to_owned(),
            about: String::new(),
            seed: 1,
            replications: 3,
            cases: vec![case],
            calibrated: false,
            calibrated_from: None,
            published: Vec::new(),
            assumptions: Vec::new(),
            phases: Vec::new(),
            once: Vec::new(),
            unfinished: None,
        }
    }

    #[test]
    fn misses_from_none_to_all_come_first_and_noise_is_no_change() {
        let before = simulation(vec![
            figure("vm.A.wall_ns", Unit::Nanoseconds, &[100.0, 101.0, 102.0]),
            figure("vm.A.steal_ns", Unit::Nanoseconds, &[10.0, 30.0, 20.0]),
            figure("vm.A.missed_share", Unit::Share, &[0.0, 0.0, 0.0]),
        ]);
        let after = simulation(vec![
            figure("vm.A.wall_ns", Unit::Nanoseconds, &[101.0, 102.0, 103.0]),
            figure("vm.A.steal_ns", Unit::Nanoseconds, &[30.0, 20.0, 12.0]),
            figure("vm.A.missed_share", Unit::Share, &[1.0, 1.0, 1.0]),
        ]);
        let all = changes(&before, &after);
        let found: Vec<Difference> = all.iter().map(|change| change.difference).collect();
        assert_eq!(found, [Difference::Worse, Difference::NotFound, Difference::Worse]);
        let text = text(Some(&before), Some(&after), Style { width: 80, colour: false }).unwrap();
        let missed = text.find("A.missed_share").unwrap();
        assert!(missed < text.find("A.wall_ns").unwrap() && !text.contains("A.steal_ns"), "{text}");
        assert!(text.contains("+100.000 points") && text.contains("2 figures worse, 0 better"), "{text}");
    }

    #[test]
    fn one_replication_decides_nothing_and_equal_ones_did_not_change() {
        let one = |value: f64| simulation(vec![figure("vm.A.wall_ns", Unit::Nanoseconds, &[value])]);
        assert_eq!(changes(&one(1.0), &one(2.0))[0].difference, Difference::Unknown);
        assert_eq!(changes(&one(1.0), &one(1.0))[0].difference, Difference::NotFound);
        assert!(text(Some(&one(1.0)), None, Style { width: 80, colour: false }).is_none());
    }
}
