//! What a simulation depends on: every parameter with its value, where that is from, and how far the predicted figures move
//! when it is changed. The page shares its words.

use super::super::terminal::{Style, heading};
use super::super::text::{paragraph, printable};
use super::{LABEL_MOST, NARROW, SENTENCE_MOST, value_text};
use model::scenario::FigureLabel;
use model::simulation::{AssumptionOutcome, Origin, PublishedOutcome, Simulation};
use units::three_digits;

/// Figures that a sentence tells of.
const FIGURES_MOST: usize = 4;

/// All parameters on a terminal.
pub(super) fn listing(out: &mut String, simulation: &Simulation, style: Style) {
    if simulation.assumptions.is_empty() {
        return;
    }
    heading(out, heading_words(simulation), style);
    for parameter in simulation.assumptions.iter().filter(|parameter| is_told_by_itself(parameter)) {
        let words = format!("{}: {}", assignment(parameter), reason(parameter));
        out.push_str(&paragraph("  ", &words, style.columns()));
        for line in sensitivity(simulation, parameter) {
            out.push_str(&paragraph("    ", &line, style.columns()));
        }
    }
    for (words, parameters) in in_groups(simulation) {
        let all: Vec<String> = parameters.into_iter().map(assignment).collect();
        out.push_str(&paragraph("  ", &format!("{words}: {}", all.join(", ")), style.columns()));
    }
}

/// What the section is called.
pub(in super::super) const fn heading_words(simulation: &Simulation) -> &'static str {
    if simulation.calibrated {
        "Estimated from the run, and how far predictions depend on it"
    } else {
        "Parameters: where their values are from, how far predictions depend on them"
    }
}

/// `host.switch_ns = 0`, `host.policy.quantum_us = 3100 [2800 … 3400]`.
pub(in super::super) fn assignment(parameter: &AssumptionOutcome) -> String {
    let ends = parameter.interval.map(|ends| ends.map(three_digits));
    let ends = ends.map(|[low, high]| format!(" [{low} … {high}]")).unwrap_or_default();
    format!("{} = {}{ends}", printable(&parameter.key, LABEL_MOST), printable(&parameter.value, LABEL_MOST))
}

/// Where its value is from.
pub(in super::super) fn reason(parameter: &AssumptionOutcome) -> String {
    match parameter.origin {
        Origin::Default => "the default; the scenario does not say".to_owned(),
        Origin::Set => "set by the scenario without a word on it".to_owned(),
        Origin::Assumed | Origin::Estimated => printable(&parameter.why, SENTENCE_MOST),
    }
}

/// Whether there is more to say of it than its value.
pub(in super::super) fn is_told_by_itself(parameter: &AssumptionOutcome) -> bool {
    let is_spoken_of = matches!(parameter.origin, Origin::Assumed | Origin::Estimated);
    is_spoken_of || parameter.changes().next().is_some()
}

/// All others, by what they have in common.
pub(in super::super) fn in_groups(simulation: &Simulation) -> Vec<(String, Vec<&AssumptionOutcome>)> {
    let mut groups: Vec<(String, Vec<&AssumptionOutcome>)> = Vec::new();
    for parameter in simulation.assumptions.iter().filter(|parameter| !is_told_by_itself(parameter)) {
        let words = match (parameter.origin, &parameter.untried) {
            (Origin::Default, None) => "Defaults".to_owned(),
            (Origin::Default, Some(why)) => format!("Defaults not changed ({})", printable(why, LABEL_MOST)),
            _ => "Set by the scenario without a word on them".to_owned(),
        };
        match groups.iter_mut().find(|(known, _)| *known == words) {
            Some((_, group)) => group.push(parameter),
            None => groups.push((words, vec![parameter])),
        }
    }
    groups
}

/// What becomes of the predicted figures when a parameter is changed: a sentence per change.
pub(in super::super) fn sensitivity(simulation: &Simulation, parameter: &AssumptionOutcome) -> Vec<String> {
    let predicted = predictions(simulation);
    let sentence = |(change, values): (String, &[Option<f64>])| {
        let change = printable(&change, LABEL_MOST);
        let known: Vec<(&PublishedOutcome, f64, f64)> = predicted
            .iter()
            .filter_map(|(at, figure)| Some((*figure, figure.simulated?, (*values.get(*at)?)?)))
            .collect();
        let moved: Vec<String> = known
            .iter()
            .filter(|(figure, own, value)| is_moved(figure, *own, *value))
            .map(|(figure, own, value)| move_words(simulation, figure, *own, *value))
            .collect();
        match (known.len(), moved.len()) {
            (0, _) => format!("{change}: no figure to look at"),
            (1, 0) => format!("{change}: the prediction stays"),
            (_, 0) => format!("{change}: all {} predictions stay", known.len()),
            (all, count) => {
                let told = moved.get(..FIGURES_MOST.min(count)).unwrap_or_default().join("; ");
                let more = match count.saturating_sub(FIGURES_MOST) {
                    0 => String::new(),
                    more => format!("; {more} more move"),
                };
                let others = if all > count { format!("; {} stay", all - count) } else { String::new() };
                format!("{change}: {told}{more}{others}")
            }
        }
    };
    let untried = parameter.untried.iter().map(|why| format!("not tried: {}", printable(why, SENTENCE_MOST)));
    parameter.changes().map(sentence).chain(untried).collect()
}

/// The figures that are predicted, with their numbers, and among those the ones of which something is demanded; where
/// there are none, all.
fn predictions(simulation: &Simulation) -> Vec<(usize, &PublishedOutcome)> {
    let all = || simulation.published.iter().enumerate();
    let free: Vec<_> = all().filter(|(_, figure)| figure.label == FigureLabel::Predicted).collect();
    let demanded: Vec<_> = free.iter().copied().filter(|(_, figure)| figure.demand.is_some()).collect();
    [demanded, free].into_iter().find(|list| !list.is_empty()).unwrap_or_else(|| all().collect())
}

/// Whether a figure moves further than its own interval, and than what is worth telling.
fn is_moved(figure: &PublishedOutcome, own: f64, value: f64) -> bool {
    let far = (value - own).abs();
    far > NARROW * own.abs() && far > figure.half_width.unwrap_or(0.0)
}

/// `spinning beside loops 8.1 % → 12 %, not as demanded`.
fn move_words(simulation: &Simulation, figure: &PublishedOutcome, own: f64, value: f64) -> String {
    let is_unique = simulation.published.iter().filter(|other| other.title == figure.title).count() == 1;
    let case = if is_unique { String::new() } else { format!(" ({})", printable(&figure.case, LABEL_MOST)) };
    let is_lost = figure.holds == Some(true) && figure.demand.is_some_and(|demand| !demand.is_met_by(value));
    format!(
        "{}{case} {} → {}{}",
        printable(&figure.title, SENTENCE_MOST),
        value_text(figure.unit, own),
        value_text(figure.unit, value),
        if is_lost { ", not as demanded" } else { "" }
    )
}
