//! A run on one screen: what it costs, fit for what, who hurts whom, what is wrong with the run. At most [`MOST_LINES`] lines of 80
//! columns for the platforms that a run usually has; everything else is in the whole summary and in the page.

use model::classes::{ClassVerdict, Suitability};
use model::clocks::ClockLevel;
use model::isolation::{IsolationCell, IsolationRow};
use model::results::{RunResults, Verdict, VerdictLevel};
use units::metric::{Better, Difference, Estimate};

use super::figures::{measured_labels, neighbour_words, ratio_text, sound};
use super::fit::{class_names, class_table, judged_platforms, suitability_mark, verdict_words};
use super::isolation::{Heat, heat, row_name};
use super::terminal::{Style, head, heading, tables_that_fit};
use super::text::{paragraph, printable, wrap};

/// Lines of the screen.
pub const MOST_LINES: usize = 40;
/// Lines of a sentence; the rest is cut off.
const SENTENCE_LINES: usize = 2;
/// Longest label, and longest sentence, that is shown whole.
const LABEL_MOST: usize = 24;
const SENTENCE_MOST: usize = 400;

/// How much of each part is shown.
#[derive(Clone, Copy)]
struct Amount {
    /// The worst figures of a platform, neighbours that hurt, and things that are wrong with the run.
    worst: usize,
    /// Lines of each.
    lines: usize,
}

/// From the most to the least.
const AMOUNTS: [Amount; 4] = [
    Amount { worst: 3, lines: SENTENCE_LINES },
    Amount { worst: 3, lines: 1 },
    Amount { worst: 2, lines: 1 },
    Amount { worst: 1, lines: 1 },
];

/// The screen.
pub fn screen(results: &RunResults, style: Style) -> String {
    let parts = |most: Amount| {
        let (mut first, mut rest) = (String::new(), String::new());
        head(&mut first, results, style);
        costs(&mut first, results, style, most);
        table(&mut first, results, style);
        harm(&mut rest, results, style, most);
        wrong(&mut rest, results, style, most);
        unmeasured(&mut rest, results, style);
        (first, rest)
    };
    let lines = |(first, rest): &(String, String)| first.lines().count() + rest.lines().count();
    let fits = AMOUNTS.into_iter().map(parts).find(|both| lines(both) < MOST_LINES);
    let both = fits.unwrap_or_else(|| parts(AMOUNTS[AMOUNTS.len() - 1]));
    let left = MOST_LINES.saturating_sub(lines(&both));
    let (mut out, rest) = both;
    reasons(&mut out, results, style, left);
    out + &rest
}

fn costs(out: &mut String, results: &RunResults, style: Style, most: Amount) {
    let baseline = printable(results.experiment.baseline_label(), LABEL_MOST);
    heading(out, &format!("What it costs, compared with {baseline}"), style);
    let widest =
        results.verdicts.iter().map(|verdict| label(&verdict.platform).chars().count()).max().unwrap_or(0);
    for verdict in &results.verdicts {
        let first = format!("  {:<widest$}  {:<9}  ", label(&verdict.platform), cost_word(results, verdict));
        let figures = worst_figures(results, &verdict.platform);
        let mut lines = worst(figures, most.worst);
        if lines.is_empty() {
            lines.push(printable(without_label(verdict), SENTENCE_MOST));
        }
        let lead = " ".repeat(first.chars().count());
        for (number, line) in lines.iter().enumerate() {
            cut(out, if number == 0 { &first } else { &lead }, line, most.lines, style);
        }
    }
    if results.verdicts.is_empty() {
        out.push_str("  ?  no platform was compared with another, so there is no verdict\n");
    }
}

/// The texts of the largest, the largest first, and how many more there are.
fn worst(mut all: Vec<(f64, String)>, most: usize) -> Vec<String> {
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    let more = all.len().saturating_sub(most);
    let more = (more > 0).then(|| format!("and {more} more"));
    all.into_iter().take(most).map(|(_, text)| text).chain(more).collect()
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
        VerdictLevel::Unknown => "undecided",
        // Measurements that broke make it heavy as well.
        VerdictLevel::Heavy if worst_figures(results, &verdict.platform).is_empty() => "broke",
        VerdictLevel::Costly | VerdictLevel::Heavy => "costs",
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

/// Figures that are worse than the baseline's, one per probe, without a neighbour; each with its surest cost.
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
            let words = verdict_words(verdict);
            if told.contains(&(&verdict.class, &verdict.reason, words.clone())) {
                continue;
            }
            let mut text = String::new();
            reason(&mut text, results, verdict, style);
            let Some(rest) = left.checked_sub(text.lines().count()) else { return };
            left = rest;
            out.push_str(&text);
            told.push((&verdict.class, &verdict.reason, words));
        }
    }
}

fn reason(out: &mut String, results: &RunResults, verdict: &ClassVerdict, style: Style) {
    let alike = results.classes.iter().filter(|other| {
        (&other.class, &other.reason, verdict_words(other))
            == (&verdict.class, &verdict.reason, verdict_words(verdict))
    });
    let labels: Vec<String> = alike.map(|verdict| label(&verdict.platform)).collect();
    let text = format!(
        "{} on {} {}: {}",
        label(&verdict.class),
        labels.join(", "),
        verdict_words(verdict),
        printable(&verdict.reason, SENTENCE_MOST)
    );
    cut(out, &format!("  {}  ", suitability_mark(verdict.level)), &text, SENTENCE_LINES, style);
}

fn harm(out: &mut String, results: &RunResults, style: Style, most: Amount) {
    let (mut hurt, mut same, mut open) = (Vec::new(), 0, 0);
    for matrix in &results.isolation {
        for row in &matrix.rows {
            for (neighbour, cell) in matrix.neighbours.iter().zip(&row.cells) {
                match worse_by(row, cell) {
                    Some((sure, what)) => {
                        let beside = neighbour_words(*neighbour);
                        let text = format!("{}: {what} beside a {beside}", label(&matrix.platform));
                        hurt.push((sure, printable(&text, SENTENCE_MOST)));
                    }
                    None if matches!(heat(cell), Heat::Same | Heat::Better) => same += 1,
                    None if heat(cell) == Heat::NotMeasured => {}
                    None => open += 1,
                }
            }
        }
    }
    if hurt.is_empty() && same + open == 0 {
        return;
    }
    heading(out, "Who hurts whom?", style);
    if hurt.is_empty() {
        let mark = if same > 0 { "  =  " } else { "  ?  " };
        let text =
            format!("no harm was found in {same} figures beside neighbours; {open} could not be compared");
        cut(out, mark, &text, most.lines, style);
    }
    for text in worst(hurt, most.worst) {
        cut(out, "  !  ", &text, most.lines, style);
    }
}

/// What a neighbour makes worse in a cell, the judged figure or else the main one, and by how much for sure.
fn worse_by(row: &IsolationRow, cell: &IsolationCell) -> Option<(f64, String)> {
    let judged = cell.judged.as_ref().map(|harm| (&row.judged, harm));
    let main = row.main.as_ref().zip(cell.main.as_ref());
    judged.into_iter().chain(main).find_map(|(figure, harm)| {
        if !matches!(harm.difference, Difference::Worse | Difference::Different) {
            return None;
        }
        let times = harm.times_worse.filter(Estimate::is_sound);
        let by = times.map_or_else(
            || "worse by an unknown factor".to_owned(),
            |times| format!("{} worse", ratio_text(&times)),
        );
        let name = row_name(row);
        Some((times.map_or(1.0, |times| times.low), format!("{name}, {}: {by}", figure.title)))
    })
}

/// What is wrong with the run, in a line or two each.
fn wrong(out: &mut String, results: &RunResults, style: Style, most: Amount) {
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
    let lies = || results.clocks.iter().filter(|clock| clock.level == ClockLevel::Lies);
    if let Some(first) = lies().next() {
        all.push(format!("{}{}", first.sentence, and_more(lies().count())));
    }
    if !all.is_empty() {
        out.push('\n');
    }
    for text in &all {
        cut(out, "  !  ", &printable(text, SENTENCE_MOST), most.lines, style);
    }
}

fn and_more(count: usize) -> String {
    if count > 1 { format!("; and {} more", count - 1) } else { String::new() }
}

/// What classes look at and the run has not.
fn unmeasured(out: &mut String, results: &RunResults, style: Style) {
    let mut all: Vec<String> = Vec::new();
    for missing in results.classes.iter().flat_map(|verdict| &verdict.missing) {
        let words = missing.words();
        if !all.contains(&words) {
            all.push(words);
        }
    }
    if !all.is_empty() {
        let text = format!("not measured: {}; bulkhead measure --experiment full has all", all.join(", "));
        cut(out, "  ?  ", &text, SENTENCE_LINES, style);
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
