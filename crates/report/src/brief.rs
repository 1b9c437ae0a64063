//! A run on one screen: what it costs, fit for what, who hurts whom, what is wrong with the run. At most [`MOST_LINES`] lines of 80
//! columns for the platforms that a run usually has, forty with those that say where the rest is; everything else is in the whole
//! summary and in the page.

use std::fmt::Write as _;

use model::classes::{ClassVerdict, Suitability};
use model::clocks::ClockLevel;
use model::isolation::{IsolationCell, IsolationRow};
use model::journal::{Cell, Neighbour};
use model::results::{CellResult, RunResults, Verdict, VerdictLevel};
use units::metric::{Better, Comparison, Difference, Estimate};

use super::figures::{measured_labels, ratio_text, sound, spread_text, value_text};
use super::fit::{class_names, class_table, judged_platforms, suitability_mark, verdict_words};
use super::isolation::{Heat, heat, row_name};
use super::page::anchor;
use super::page::parts::with_short_neighbours;
use super::terminal::{Style, head, heading, tables_that_fit};
use super::text::{paragraph, printable, split, width, wrap};

/// Lines of the screen.
pub const MOST_LINES: usize = 35;
/// Lines of a sentence; the rest is cut off.
const SENTENCE_LINES: usize = 2;
/// From so many times on a ratio says less than the two values: a quantile has jumped from one kind of disturbance to another.
const ANOTHER_WORLD: f64 = 100.0;
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
    // A line for each reason of a verdict.
    let reserved = deciding(results).len();
    let fits = AMOUNTS.into_iter().map(parts).find(|both| lines(both) + reserved <= MOST_LINES);
    let both = fits.unwrap_or_else(|| parts(AMOUNTS[AMOUNTS.len() - 1]));
    let left = MOST_LINES.saturating_sub(lines(&both));
    let (mut out, rest) = both;
    reasons(&mut out, results, style, left);
    out + &rest
}

fn costs(out: &mut String, results: &RunResults, style: Style, most: Amount) {
    let baseline = printable(results.experiment.baseline_label(), LABEL_MOST);
    heading(out, &format!("What it costs, compared with {baseline}"), style);
    let widest = results.verdicts.iter().map(|verdict| width(&label(&verdict.platform))).max().unwrap_or(0);
    for verdict in &results.verdicts {
        let name = label(&verdict.platform);
        let fill = " ".repeat(widest - width(&name));
        let first = format!("  {name}{fill}  {:<9}  ", cost_word(results, verdict));
        let figures = worst_figures(results, &verdict.platform);
        let mut lines = worst(figures.into_iter().map(|cost| cost.text()).collect(), most.worst);
        if lines.is_empty() {
            lines.push(printable(without_label(verdict), SENTENCE_MOST));
        } else if let Some(dark) = dark_words(results, &verdict.platform) {
            lines.push(dark);
        }
        let lead = " ".repeat(width(&first));
        for (number, line) in lines.iter().enumerate() {
            cut(out, if number == 0 { &first } else { &lead }, line, most.lines, style);
        }
    }
    if results.verdicts.is_empty() {
        out.push_str("  ?  no platform was compared with another, so there is no verdict\n");
    }
}

/// Probes of which it is not known what they cost: no ratio, or one so wide that a quarter more would not have been seen.
pub(super) fn dark_words(results: &RunResults, platform: &str) -> Option<String> {
    let cells = results.cells.iter().filter(|cell| {
        cell.cell.platform == platform && cell.cell.neighbour.is_none() && cell.cell.layout.is_none()
    });
    let is_dark = |cell: &&CellResult| {
        let main = cell.metrics.iter().find(|metric| metric.headline);
        main.and_then(|metric| metric.against_baseline.as_ref()).is_none_or(Comparison::is_undecided)
    };
    let dark: Vec<&str> = cells.filter(is_dark).map(|cell| cell.cell.probe.as_str()).collect();
    (!dark.is_empty()).then(|| format!("not known: {}", dark.join(", ")))
}

/// The first texts, and how many more there are.
fn worst(all: Vec<String>, most: usize) -> Vec<String> {
    let more = all.len().saturating_sub(most);
    let more = (more > 0).then(|| format!("and {more} more"));
    all.into_iter().take(most).chain(more).collect()
}

fn label(platform: &str) -> String {
    printable(platform, LABEL_MOST)
}

/// The verdict's sentence without the platform, which stands beside it.
pub(super) fn without_label(verdict: &Verdict) -> &str {
    verdict.sentence.strip_prefix(&format!("{}: ", verdict.platform)).unwrap_or(&verdict.sentence)
}

/// What a platform costs, in a word.
pub(super) fn cost_word(results: &RunResults, verdict: &Verdict) -> &'static str {
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

/// A figure that is worse than the baseline's, or that a neighbour makes worse.
pub(super) struct Worse<'a> {
    /// Where it was measured.
    pub cell: Cell,
    /// Id of its metric.
    pub metric: &'a str,
    /// Whose figure it is: `disk: write, fsync after each block`.
    pub name: String,
    /// How many times worse, in words with the interval.
    pub by: String,
    /// How many times worse it is for sure.
    sure: f64,
}

impl Worse<'_> {
    /// `17 × [16.2…17.4]  fwq: same work, median`: what may be cut off comes last.
    fn text(&self) -> String {
        printable(&format!("{}  {}", self.by, self.name), SENTENCE_MOST)
    }
}

fn surest_first(mut all: Vec<Worse<'_>>) -> Vec<Worse<'_>> {
    all.sort_by(|a, b| b.sure.total_cmp(&a.sure));
    all
}

/// Figures that are worse than the baseline's, one per probe, without a neighbour; the surest cost first.
pub(super) fn worst_figures<'a>(results: &'a RunResults, platform: &str) -> Vec<Worse<'a>> {
    let mut all: Vec<Worse<'_>> = Vec::new();
    for result in results
        .cells
        .iter()
        .filter(|result| result.cell.platform == platform && result.cell.neighbour.is_none())
    {
        let worse = result.metrics.iter().filter(|metric| metric.headline).filter_map(|metric| {
            let comparison = metric.against_baseline.as_ref()?;
            let is_worse = matches!(comparison.difference, Difference::Worse | Difference::Different);
            let ratio = sound(&comparison.ratio).ok().filter(|_| is_worse)?;
            Some(Worse {
                cell: result.cell.clone(),
                metric: &metric.id,
                name: printable(&format!("{}: {}", result.cell.probe_words(), metric.title), SENTENCE_MOST),
                by: ratio_text(ratio),
                sure: sure_cost(metric.better, ratio),
            })
        });
        all.extend(worse.max_by(|a, b| a.sure.total_cmp(&b.sure)));
    }
    surest_first(all)
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

/// Why platforms are unfit for a class, alike ones together.
pub(super) struct Deciding<'a> {
    /// The first verdict of those that say the same.
    pub verdict: &'a ClassVerdict,
    /// The platforms that it is said of.
    pub platforms: Vec<String>,
}

impl Deciding<'_> {
    /// `hpc on vm unsuited: …`
    pub(super) fn text(&self) -> String {
        format!(
            "{} on {} {}: {}",
            label(&self.verdict.class),
            self.platforms.join(", "),
            verdict_words(self.verdict),
            printable(&self.verdict.reason, SENTENCE_MOST)
        )
    }
}

/// Why platforms are unsuited, then why they are undecided.
pub(super) fn deciding(results: &RunResults) -> Vec<Deciding<'_>> {
    let mut all: Vec<Deciding<'_>> = Vec::new();
    for level in [Suitability::Unsuited, Suitability::Unknown] {
        for verdict in results.classes.iter().filter(|verdict| verdict.level == level) {
            let alike = |told: &&mut Deciding<'_>| {
                (&told.verdict.class, &told.verdict.reason, verdict_words(told.verdict))
                    == (&verdict.class, &verdict.reason, verdict_words(verdict))
            };
            match all.iter_mut().find(alike) {
                Some(told) => told.platforms.push(label(&verdict.platform)),
                None => all.push(Deciding { verdict, platforms: vec![label(&verdict.platform)] }),
            }
        }
    }
    all
}

/// What decides, as far as there is room, and how many there are besides.
fn reasons(out: &mut String, results: &RunResults, style: Style, lines: usize) {
    let text = |told: &Deciding<'_>, most: usize| {
        let mut text = String::new();
        let words = with_short_neighbours(results, &told.text());
        cut(&mut text, &format!("  {}  ", suitability_mark(told.verdict.level)), &words, most, style);
        text
    };
    let all = deciding(results);
    let length = |most: usize| all.iter().map(|told| text(told, most).lines().count()).sum::<usize>();
    let most = if length(SENTENCE_LINES) <= lines { SENTENCE_LINES } else { 1 };
    let room = if length(most) <= lines { all.len() } else { lines.saturating_sub(1) };
    for told in all.iter().take(room) {
        out.push_str(&text(told, most));
    }
    if room < all.len() && lines > 0 {
        let _ = writeln!(out, "     and {} more: --full", all.len() - room);
    }
}

/// What neighbours do to the figures of a run.
pub(super) struct Harm<'a> {
    /// What they make worse, the surest first.
    pub hurt: Vec<(Worse<'a>, Neighbour)>,
    /// Figures in which no harm was found.
    same: usize,
    /// Figures that could not be compared.
    open: usize,
}

impl<'a> Harm<'a> {
    /// All of it; none where nothing was measured beside a neighbour.
    pub(super) fn of(results: &'a RunResults) -> Option<Self> {
        let mut harm = Self { hurt: Vec::new(), same: 0, open: 0 };
        for matrix in &results.isolation {
            for row in &matrix.rows {
                let judged = is_judged(row);
                for (neighbour, cell) in matrix.neighbours.iter().zip(&row.cells) {
                    match worse_by(&matrix.platform, (row, judged), *neighbour, cell) {
                        Some(worse) => harm.hurt.push((worse, *neighbour)),
                        None if matches!(heat(cell), Heat::Same | Heat::Better) => harm.same += 1,
                        None if heat(cell) == Heat::NotMeasured => {}
                        None => harm.open += 1,
                    }
                }
            }
        }
        harm.hurt.sort_by(|a, b| b.0.sure.total_cmp(&a.0.sure));
        (!harm.hurt.is_empty() || harm.same + harm.open > 0).then_some(harm)
    }

    /// Mark and sentence where nothing is worse.
    pub(super) fn none_found(&self) -> (&'static str, String) {
        let text = format!(
            "no harm was found in {} figures beside neighbours; {} could not be compared",
            self.same, self.open
        );
        (if self.same > 0 { "=" } else { "?" }, text)
    }
}

fn harm(out: &mut String, results: &RunResults, style: Style, most: Amount) {
    let Some(harm) = Harm::of(results) else { return };
    heading(out, "Who hurts whom?", style);
    if harm.hurt.is_empty() {
        let (mark, text) = harm.none_found();
        cut(out, &format!("  {mark}  "), &text, most.lines, style);
    }
    let text = |(worse, neighbour): (Worse<'_>, Neighbour)| {
        let (platform, beside) = (label(&worse.cell.platform), anchor::beside(neighbour));
        // What may be cut off comes last.
        let text = format!("{platform}: {} beside {beside}: {}", worse.by, worse.name);
        printable(&text, SENTENCE_MOST)
    };
    for text in worst(harm.hurt.into_iter().map(text).collect(), most.worst) {
        cut(out, "  !  ", &text, most.lines, style);
    }
}

const fn is_harm(difference: Difference) -> bool {
    matches!(difference, Difference::Worse | Difference::Different)
}

/// Whether some neighbour makes a row's judged figure worse. Then that is what all of its neighbours are held against: ratios of
/// different figures cannot be ranked.
fn is_judged(row: &IsolationRow) -> bool {
    row.cells.iter().filter_map(|cell| cell.judged.as_ref()).any(|harm| is_harm(harm.difference))
}

/// What a neighbour makes worse in a cell, the judged figure of the row or else the main one, and by how much for sure.
fn worse_by<'a>(
    platform: &str,
    (row, judged): (&'a IsolationRow, bool),
    neighbour: Neighbour,
    cell: &IsolationCell,
) -> Option<Worse<'a>> {
    let figure_and_harm = match &row.main {
        Some(main) if !judged => cell.main.as_ref().map(|harm| (main, harm)),
        _ => cell.judged.as_ref().map(|harm| (&row.judged, harm)),
    };
    figure_and_harm.and_then(|(figure, harm)| {
        if !is_harm(harm.difference) {
            return None;
        }
        let times = harm.times_worse.filter(Estimate::is_sound);
        let by = match (times, &harm.undisturbed, &harm.disturbed) {
            (None, ..) => "worse by an unknown factor".to_owned(),
            (Some(times), Some(before), Some(beside)) if times.low >= ANOTHER_WORLD => {
                let text = |one: &Estimate| value_text(figure.unit, one.value);
                let (before, after, spread) = (text(before), text(beside), spread_text(figure.unit, beside));
                format!("{before} becomes {after} {spread}")
            }
            (Some(times), ..) => format!("{} worse", ratio_text(&times)),
        };
        Some(Worse {
            cell: Cell {
                probe: row.probe,
                neighbour: Some(neighbour),
                platform: platform.to_owned(),
                layout: row.layout,
            },
            metric: &figure.id,
            name: printable(&format!("{}, {}", row_name(row), figure.title), SENTENCE_MOST),
            by,
            sure: times.map_or(1.0, |times| times.low),
        })
    })
}

/// What is wrong with the run, in a sentence each.
pub(super) fn doubts(results: &RunResults) -> Vec<String> {
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
    all.into_iter().map(|text| printable(&text, SENTENCE_MOST)).collect()
}

fn wrong(out: &mut String, results: &RunResults, style: Style, most: Amount) {
    let all = doubts(results);
    if !all.is_empty() {
        out.push('\n');
    }
    for text in &all {
        cut(out, "  !  ", text, most.lines, style);
    }
}

fn and_more(count: usize) -> String {
    if count > 1 { format!("; and {} more", count - 1) } else { String::new() }
}

/// What classes look at and the run has not, in a sentence; none where nothing is missing.
pub(super) fn missing_words(results: &RunResults) -> Option<String> {
    let mut all: Vec<String> = Vec::new();
    for missing in results.classes.iter().flat_map(|verdict| &verdict.missing) {
        let words = missing.words();
        if !all.contains(&words) {
            all.push(words);
        }
    }
    let text = format!("not measured: {}; bulkhead measure --experiment full has all", all.join(", "));
    (!all.is_empty()).then(|| printable(&text, SENTENCE_MOST))
}

fn unmeasured(out: &mut String, results: &RunResults, style: Style) {
    if let Some(text) = missing_words(results) {
        cut(out, "  ?  ", &text, SENTENCE_LINES, style);
    }
}

/// A paragraph of at most so many lines; what is cut off ends in `…`.
fn cut(out: &mut String, first: &str, text: &str, lines: usize, style: Style) {
    let columns = style.columns().saturating_sub(width(first)).max(20);
    let mut all = wrap(text, columns);
    if all.len() > lines {
        all.truncate(lines);
        if let Some(last) = all.last_mut() {
            let kept = split(last, columns.saturating_sub(2)).0.to_owned();
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
