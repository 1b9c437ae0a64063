//! A run on one screen: what it costs, fit for what, who hurts whom, what is wrong with the run. At most [`MOST_LINES`] lines of 80
//! columns for the platforms that a run usually has; everything else is in the whole summary and in the page.

use model::classes::{ClassVerdict, Suitability};
use model::isolation::{IsolationCell, IsolationRow};
use model::results::{RunResults, Verdict, VerdictLevel};
use units::metric::{Better, Difference, Estimate};

use super::figures::{measured_labels, neighbour_words, ratio_text, sound};
use super::fit::{class_names, class_table, judged_platforms, suitability_mark, suitability_words};
use super::isolation::{Heat, heat, row_name};
use super::terminal::{Style, head, heading, tables_that_fit};
use super::text::{paragraph, printable, wrap};

/// Lines of the screen.
pub const MOST_LINES: usize = 40;
/// Figures of a platform, neighbours that hurt, and reasons that make a run dirty: the worst are shown.
const WORST: usize = 3;
/// Lines of a reason; the rest is cut off.
const REASON_LINES: usize = 2;
/// Longest label, and longest sentence, that is shown whole.
const LABEL_MOST: usize = 24;
const SENTENCE_MOST: usize = 400;

/// The screen.
pub fn screen(results: &RunResults, style: Style) -> String {
    let mut out = String::new();
    head(&mut out, results, style);
    costs(&mut out, results, style);
    table(&mut out, results, style);
    let mut rest = String::new();
    harm(&mut rest, results, style);
    wrong(&mut rest, results, style);
    unmeasured(&mut rest, results, style);
    let left = MOST_LINES.saturating_sub(out.lines().count() + rest.lines().count() + 1);
    reasons(&mut out, results, style, left);
    out + &rest
}

fn costs(out: &mut String, results: &RunResults, style: Style) {
    let baseline = printable(results.experiment.baseline_label(), LABEL_MOST);
    heading(out, &format!("What it costs, compared with {baseline}"), style);
    let others = results.verdicts.len();
    let room =
        results.verdicts.iter().map(|verdict| label(&verdict.platform).chars().count()).max().unwrap_or(0);
    for verdict in &results.verdicts {
        let first = format!("  {:<room$}  {:<9}  ", label(&verdict.platform), cost_word(results, verdict));
        let most = if others > WORST { 1 } else { WORST };
        let figures = worst_figures(results, &verdict.platform);
        let mut lines: Vec<String> = figures.into_iter().take(most).map(|(_, text)| text).collect();
        if lines.is_empty() {
            lines.push(printable(without_label(verdict), SENTENCE_MOST));
        }
        let lead = " ".repeat(first.chars().count());
        for (number, line) in lines.iter().enumerate() {
            cut(out, if number == 0 { &first } else { &lead }, line, REASON_LINES, style);
        }
    }
    if results.verdicts.is_empty() {
        out.push_str("  ?  no platform was compared with another, so there is no verdict\n");
    }
}

fn label(platform: &str) -> String {
    printable(platform, LABEL_MOST)
}

fn without_label(verdict: &Verdict) -> &str {
    verdict.sentence.strip_prefix(&format!("{}: ", verdict.platform)).unwrap_or(&verdict.sentence)
}

fn cost_word(results: &RunResults, verdict: &Verdict) -> &'static str {
    let is_there = measured_labels(results).contains(&verdict.platform);
    match verdict.level {
        _ if !is_there => "not there",
        VerdictLevel::Free => "free",
        VerdictLevel::Costly | VerdictLevel::Heavy => "costs",
        VerdictLevel::Unknown => "undecided",
    }
}

/// How many times worse it is for sure: the end of the interval that is nearer to no difference.
fn sure_cost(better: Better, ratio: &Estimate) -> f64 {
    match better {
        Better::Lower => ratio.low,
        Better::Higher => 1.0 / ratio.high,
        Better::Neither => ratio.low.max(1.0 / ratio.high),
    }
}

/// Figures that are worse than the baseline's, one per probe, without a neighbour, the surest cost first.
fn worst_figures(results: &RunResults, platform: &str) -> Vec<(f64, String)> {
    let mut all: Vec<(f64, String)> = Vec::new();
    for result in results
        .cells
        .iter()
        .filter(|result| result.cell.platform == platform && result.cell.neighbour.is_none())
    {
        let worse = result.metrics.iter().filter(|metric| metric.headline).filter_map(|metric| {
            let comparison = metric.against_baseline.as_ref()?;
            let is_worse = matches!(comparison.difference, Difference::Worse | Difference::Different);
            let ratio = sound(&comparison.ratio).ok().filter(|_| is_worse)?;
            let text = format!("{}: {} {}", result.cell.probe_words(), metric.title, ratio_text(ratio));
            Some((sure_cost(metric.better, ratio), printable(&text, SENTENCE_MOST)))
        });
        all.extend(worse.max_by(|a, b| a.0.total_cmp(&b.0)));
    }
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    all
}

fn table(out: &mut String, results: &RunResults, style: Style) {
    if results.classes.is_empty() {
        return;
    }
    heading(out, "Fit for what?", style);
    let platforms = judged_platforms(results);
    for table in
        tables_that_fit(&[], &class_names(results), style, |names| class_table(results, names, &platforms))
    {
        out.push_str(&table.render(style.columns(), style.colour));
    }
}

/// Why a platform is unsuited, then why it is undecided, as far as there is room; alike ones once.
fn reasons(out: &mut String, results: &RunResults, style: Style, lines: usize) {
    let (mut told, mut left) = (Vec::new(), lines);
    for level in [Suitability::Unsuited, Suitability::Unknown] {
        for verdict in results.classes.iter().filter(|verdict| verdict.level == level) {
            if told.contains(&(&verdict.class, &verdict.reason)) {
                continue;
            }
            let mut text = String::new();
            reason(&mut text, results, verdict, style);
            let Some(rest) = left.checked_sub(text.lines().count()) else { return };
            left = rest;
            out.push_str(&text);
            told.push((&verdict.class, &verdict.reason));
        }
    }
}

fn reason(out: &mut String, results: &RunResults, verdict: &ClassVerdict, style: Style) {
    let alike = results.classes.iter().filter(|other| {
        (&other.class, &other.reason, other.level) == (&verdict.class, &verdict.reason, verdict.level)
    });
    let labels: Vec<String> = alike.map(|verdict| label(&verdict.platform)).collect();
    let text = format!(
        "{} on {} {}: {}",
        label(&verdict.class),
        labels.join(", "),
        suitability_words(verdict.level),
        printable(&verdict.reason, SENTENCE_MOST)
    );
    cut(out, &format!("  {}  ", suitability_mark(verdict.level)), &text, REASON_LINES, style);
}

fn harm(out: &mut String, results: &RunResults, style: Style) {
    let mut all: Vec<(f64, String)> = Vec::new();
    for matrix in &results.isolation {
        for row in &matrix.rows {
            for (neighbour, cell) in matrix.neighbours.iter().zip(&row.cells) {
                let Some((sure, ratio)) = sure_harm(cell) else { continue };
                let figure = figure_words(row);
                let beside = neighbour_words(*neighbour);
                let text = format!("{}: {figure} beside a {beside}: {ratio} worse", label(&matrix.platform));
                all.push((sure, printable(&text, SENTENCE_MOST)));
            }
        }
    }
    if results.isolation.is_empty() {
        return;
    }
    heading(out, "Who hurts whom?", style);
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    for (_, text) in all.iter().take(WORST) {
        cut(out, "  !  ", text, REASON_LINES, style);
    }
    if all.is_empty() {
        out.push_str("  =  no neighbour was found to hurt\n");
    }
}

fn figure_words(row: &IsolationRow) -> String {
    format!("{}, {}", row_name(row), row.judged.title)
}

fn sure_harm(cell: &IsolationCell) -> Option<(f64, String)> {
    let times = cell.judged.as_ref()?.times_worse?;
    (times.is_sound() && matches!(heat(cell), Heat::Worse(_))).then(|| (times.low, ratio_text(&times)))
}

/// What is wrong with the run, in a line or two each.
fn wrong(out: &mut String, results: &RunResults, style: Style) {
    let mut all: Vec<String> = Vec::new();
    if let Some(first) = results.dirty.first() {
        all.push(format!("dirty, the figures may not repeat: {first}{}", and_more(results.dirty.len())));
    }
    if let Some(first) = results.lost.first() {
        let more = and_more(results.lost.len());
        all.push(format!("lines of the journal are lost: line {}: {}{more}", first.line, first.reason));
    }
    if let Some(first) = results.failures.first() {
        all.push(format!(
            "{} measurements broke, first {} on {}: {}",
            results.failures.len(),
            first.cell.probe_words(),
            first.cell.platform,
            first.failure.reason
        ));
    }
    for clock in results.clocks.iter().filter(|clock| clock.level == model::clocks::ClockLevel::Lies) {
        all.push(clock.sentence.clone());
    }
    if !all.is_empty() {
        out.push('\n');
    }
    for text in &all {
        cut(out, "  !  ", &printable(text, SENTENCE_MOST), REASON_LINES, style);
    }
}

fn and_more(count: usize) -> String {
    if count > 1 { format!("; and {} more", count - 1) } else { String::new() }
}

/// What classes look at and the run has not.
fn unmeasured(out: &mut String, results: &RunResults, style: Style) {
    let mut probes: Vec<&str> = Vec::new();
    for missing in results.classes.iter().flat_map(|verdict| &verdict.missing) {
        if !probes.contains(&missing.probe.as_str()) {
            probes.push(missing.probe.as_str());
        }
    }
    if !probes.is_empty() {
        let text = format!("not measured: {}; bulkhead measure --experiment full has all", probes.join(", "));
        cut(out, "  ?  ", &text, REASON_LINES, style);
    }
}

/// A paragraph of at most so many lines; what is cut off ends in `…`.
fn cut(out: &mut String, first: &str, text: &str, lines: usize, style: Style) {
    let columns = style.columns().saturating_sub(first.chars().count()).max(20);
    let mut all = wrap(text, columns);
    if all.len() > lines {
        all.truncate(lines);
        if let Some(last) = all.last_mut() {
            let kept: String = last.chars().take(columns.saturating_sub(2)).collect();
            let whole = if kept == *last {
                &kept
            } else {
                kept.rsplit_once(' ').map_or(kept.as_str(), |(whole, _)| whole)
            };
            *last = format!("{} …", whole.trim_end());
        }
    }
    out.push_str(&paragraph(first, &all.join(" "), style.columns()));
}
