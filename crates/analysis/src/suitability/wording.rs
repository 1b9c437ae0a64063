//! Verdicts in words: what was measured, what was demanded, what decided, what would change it.

use std::collections::BTreeSet;

use model::classes::{Against, ClassSpec, Held, OpenCell, Suitability, Weight};
use model::journal::{Cell, Neighbour};
use model::prediction::minutes;
use probes::ProbeKind;
use units::Nanos;
use units::metric::{Estimate, Unit};
use units::three_digits;

use super::condition::{Bound, Judged};
use super::level::Outcome;
use super::observe::{Observation, Seen};

/// `, beside a cpu load in a second instance`, ` with 4 instances`; empty alone.
fn circumstances(cell: &Cell) -> String {
    let layout = cell.layout.map_or_else(String::new, |layout| format!(" in layout {layout}"));
    let beside = cell.neighbour.map_or_else(String::new, |n| format!(" beside a {}", n.words()));
    format!("{layout}{beside}")
}

/// Three digits, with an exponent where they would be many.
fn short(value: f64) -> String {
    if value == 0.0 || (1e-4..1e6).contains(&value.abs()) {
        three_digits(value)
    } else {
        format!("{value:.1e}")
    }
}

fn value_text(unit: Option<Unit>, value: f64) -> String {
    match unit {
        Some(unit) => unit.format(value),
        None => short(value),
    }
}

fn interval(unit: Option<Unit>, estimate: &Estimate) -> String {
    let (low, high) = (value_text(unit, estimate.low), value_text(unit, estimate.high));
    if low == high { String::new() } else { format!(" [{low} … {high}]") }
}

const fn ratio_words(against: Against) -> &'static str {
    match against {
        Against::Value => "",
        Against::Baseline => " × the baseline",
        Against::Undisturbed => " × undisturbed",
        Against::FairShare => " × its fair share",
    }
}

/// What was measured, with its interval; or why nothing was.
pub(super) fn measured(observation: &Observation, against: Against) -> String {
    let what = format!("{}: {}", observation.cell.probe, observation.title);
    let place = circumstances(&observation.cell);
    match &observation.value {
        Seen::Value(estimate) if estimate.confidence >= 1.0 => format!("{what}: it is the baseline itself"),
        Seen::Value(estimate) => format!(
            "{what}: {}{}{}{place}",
            value_text(observation.unit, estimate.value),
            ratio_words(against),
            interval(observation.unit, estimate)
        ),
        Seen::Beyond(share) => {
            format!("{}{place}: {}; {}", observation.cell.probe, share.words, share.allowed_words)
        }
        Seen::Unsupported(reason) => format!("{what}{place}: no figure, because {reason}"),
        Seen::Perished(reason) => {
            format!("{}{place}: the instance did not survive: {reason}", observation.cell.probe)
        }
        Seen::Nothing { why, todo, .. } => format!("{why}{place}: {todo}"),
    }
}

/// `at most 10 ms for 99.9 % of the activations`.
pub(super) fn bound(bound: Bound, unit: Option<Unit>, against: Against, miss_rate: Option<f64>) -> String {
    let side = if bound.at_most { "at most" } else { "at least" };
    let share = miss_rate.map_or_else(String::new, |rate| {
        if rate > 0.0 { format!(", {} may be late", one_in(rate)) } else { ", always".to_owned() }
    });
    format!("{side} {}{}{share}", value_text(unit, bound.limit), ratio_words(against))
}

/// `1 in 1000`.
fn one_in(rate: f64) -> String {
    format!("1 in {}", three_digits((1.0 / rate).round()))
}

const fn level_words(level: Suitability) -> &'static str {
    match level {
        Suitability::Suited => "suited",
        Suitability::Limited => "suited with limits",
        Suitability::Unsuited => "unsuited",
        Suitability::Unknown => "undecided",
    }
}

/// `vm, hpc: unsuited: …`, `vm, real-time: undecided (needs 40 s more): …`.
pub(super) fn sentence(
    class: &ClassSpec,
    platform: &str,
    level: Suitability,
    needs: Option<Nanos>,
    reason: &str,
) -> String {
    let needs = needs.map_or_else(String::new, |needs| format!(" (needs {} more)", minutes(needs)));
    format!("{platform}, {}: {}{needs}: {reason}", class.name, level_words(level))
}

/// What decided, and how many conditions stand in the same way.
pub(super) fn reason(all: &[Judged], outcome: &Outcome) -> String {
    let Some(judged) = outcome.decided_by.and_then(|index| all.get(index)) else {
        return "no condition could be looked at".to_owned();
    };
    let result = &judged.result;
    let reason = match result.held {
        Held::Yes => format!("nearest to its bound is {} ({})", result.measured, result.bound),
        Held::No if judged.is_share => result.measured.clone(),
        Held::No => format!("{}; wanted {}", result.measured, result.bound),
        Held::Unclear if judged.todo.is_some() => format!("{}; wanted {}", result.measured, result.bound),
        Held::Unclear if judged.is_share => format!("{}{}", result.measured, on_the_bound(judged)),
        Held::Unclear => format!(
            "{}; wanted {}, which the interval does not decide{}",
            result.measured,
            result.bound,
            on_the_bound(judged)
        ),
        Held::NotMeasured => result.measured.clone(),
    };
    format!("{reason}{}", others(all, outcome))
}

/// What the time is for that an undecided verdict needs, before the reason; nothing where it needs none.
pub(super) fn needed(needs: &[OpenCell]) -> String {
    let Some((first, rest)) = needs.split_first() else { return String::new() };
    let what = format!("{}{}", first.cell.probe, circumstances(&first.cell));
    match rest.len() {
        0 if first.leans_broken => format!("more of {what} may show it unsuited; "),
        0 => format!("more of {what} decides it; "),
        more => format!("more of {what} and {more} more decide it; "),
    }
}

/// Says so when no measuring decides it.
fn on_the_bound(judged: &Judged) -> &'static str {
    let is_on_it = judged.result.open.iter().any(|open| open.needs_ns.is_none());
    if is_on_it { "; it lies on the bound, so no measuring decides it soon" } else { "" }
}

/// How many other conditions stand in the same way.
fn others(all: &[Judged], outcome: &Outcome) -> String {
    let count = |weight: Option<Weight>, held: &[Held]| {
        all.iter()
            .enumerate()
            .filter(|(index, _)| Some(*index) != outcome.decided_by)
            .filter(|(_, judged)| weight.is_none_or(|weight| judged.result.weight == weight))
            .filter(|(_, judged)| held.contains(&judged.result.held))
            .count()
    };
    let open = [Held::Unclear, Held::NotMeasured];
    let (more, what) = match outcome.level {
        Suitability::Unsuited => (count(Some(Weight::Required), &[Held::No]), "required and broken"),
        Suitability::Unknown => (count(Some(Weight::Required), &open), "required and undecided"),
        Suitability::Limited => (count(Some(Weight::Wanted), &[Held::No]), "wanted and broken"),
        Suitability::Suited => (count(Some(Weight::Wanted), &open), "wanted and undecided"),
    };
    match more {
        0 => String::new(),
        1 => format!("; 1 more condition is {what}"),
        more => format!("; {more} more conditions are {what}"),
    }
}

/// The command that measures all that a class looks at. The experiment `full` has every probe and every kind of neighbour.
pub(super) fn command(class: &ClassSpec) -> String {
    let named = class.conditions.iter().flat_map(|condition| {
        condition
            .metric
            .iter()
            .chain(condition.tail.iter().map(|entry| &entry.metric))
            .map(|metric| metric.probe)
    });
    let mut words = vec!["bulkhead", "measure", "--experiment", "full"];
    for probe in named.map(ProbeKind::as_str) {
        if !words.contains(&probe) {
            words.extend(["--probe", probe]);
        }
    }
    words.join(" ")
}

/// What would change the verdict.
pub(super) fn would_change(
    class: &ClassSpec,
    all: &[Judged],
    outcome: &Outcome,
    needs: Option<Nanos>,
    without: Option<&(BTreeSet<Neighbour>, Suitability)>,
) -> String {
    let Some(judged) = outcome.decided_by.and_then(|index| all.get(index)) else {
        return "No condition could be looked at: measure more of its probes.".to_owned();
    };
    match outcome.level {
        Suitability::Unsuited => mend(class, all, judged, without),
        Suitability::Limited => format!("To be suited without limits, {}.", moved(judged)),
        Suitability::Unknown => find_out(judged, needs),
        Suitability::Suited => keep(judged),
    }
}

/// What would make an unsuited platform fit.
fn mend(
    class: &ClassSpec,
    all: &[Judged],
    worst: &Judged,
    without: Option<&(BTreeSet<Neighbour>, Suitability)>,
) -> String {
    let mut ways = Vec::new();
    if let Some((neighbours, level)) = without {
        let whom: Vec<String> = neighbours.iter().map(|n| format!("a {}", n.words())).collect();
        if level.is_met() {
            ways.push(format!("Kept away from {} it is {}.", whom.join(" and "), level_words(*level)));
        }
    }
    let broken = || all.iter().filter(|judged| judged.is_broken() && judged.decides());
    let met = broken().map(|judged| judged.deadline_met_ns).collect::<Option<Vec<f64>>>();
    if let (Some(deadline), Some(met)) =
        (class.deadline, met.and_then(|all| all.into_iter().reduce(f64::max)))
    {
        ways.push(format!(
            "With the same miss rate a deadline of {} or more is met instead of {}.",
            Unit::Nanoseconds.format(met),
            Unit::Nanoseconds.format(deadline.deadline_us.as_f64() * 1e3)
        ));
    }
    if ways.is_empty() {
        ways.push(match broken().count() {
            0 | 1 => format!("To be suited, {}.", moved(worst)),
            2 => format!("First of all, {}; 1 more condition is broken.", moved(worst)),
            more => format!("First of all, {}; {} more conditions are broken.", moved(worst), more - 1),
        });
    }
    ways.join(" ")
}

/// `“in time” would have to get better by a factor of 1.4, to at most 10 ms`.
fn moved(judged: &Judged) -> String {
    let result = &judged.result;
    match result.factor {
        Some(factor) if factor > 1.0 => format!(
            "“{}” would have to get better by a factor of {}, to {}",
            result.title,
            short(factor),
            result.bound
        ),
        _ => format!("“{}” would have to hold ({})", result.title, result.bound),
    }
}

fn find_out(judged: &Judged, needs: Option<Nanos>) -> String {
    match (&judged.todo, needs) {
        (Some(todo), _) => format!("To find out, {todo}."),
        (None, Some(needs)) => format!(
            "About {} more of measuring decide it, if the figures stay what they are; --until-decided measures so long.",
            minutes(needs)
        ),
        (None, None) => format!(
            "More rounds or a longer probe, so that the interval lies on one side of the bound ({}).",
            judged.result.bound
        ),
    }
}

fn keep(judged: &Judged) -> String {
    let result = &judged.result;
    match result.factor {
        Some(factor) if factor > 0.0 => format!(
            "It would no longer be suited if “{}” got worse by a factor of {} ({}).",
            result.title,
            short(1.0 / factor),
            result.bound
        ),
        _ => format!("It would no longer be suited if “{}” broke ({}).", result.title, result.bound),
    }
}
