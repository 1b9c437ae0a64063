//! The summary on a terminal: verdict first, then the table, then what it rests on. 80 columns, legible without
//! colour: every colour only repeats a word or a mark.

use std::fmt::Write as _;

use model::journal::{PlatformState, probe_words};
use model::results::{CellResult, RunResults, Verdict, VerdictLevel};
use probes::job::{Dose, DosePart, PlacedDose};
use units::names::LoadKind;

use super::figures::{
    self, Finding, Row, Which, comparison_text, difference_mark, finding, level_mark, made_slower_words,
    made_up_words, measured_labels, rows, sound,
};
use super::page::clocks::mark as clock_mark;
use super::page::share::guaranteed;
use super::text::{Paint, TextCell, TextTable, paragraph, printable, width, wrap};
use super::utc::format_utc;
use super::{fit, isolation, who};

/// How the terminal wants it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Style {
    /// Columns of the terminal, 40 at least are used.
    pub width: usize,
    /// Whether colour may be used.
    pub colour: bool,
}

impl Style {
    /// Columns that texts are made for, 40 … 160.
    pub fn columns(self) -> usize {
        self.width.clamp(40, 160)
    }
}

/// Longest label that is shown whole.
const LABEL_MOST: usize = 40;
/// Longest sentence that is shown whole.
const SENTENCE_MOST: usize = 600;
/// Failures shown; the rest is counted.
const FAILURES_MOST: usize = 12;

/// The whole summary; `brief` has what fits on a screen.
pub fn summary(results: &RunResults, style: Style) -> String {
    let mut out = String::new();
    let mut notes = Footnotes::default();
    head(&mut out, results, style);
    verdicts(&mut out, results, style);
    fit::classes(&mut out, results, style);
    policies(&mut out, results, style);
    dirty(&mut out, results, style);
    lost(&mut out, results, style);
    headline_table(&mut out, results, style, &mut notes);
    isolation::matrices(&mut out, results, style);
    doses(&mut out, results, style);
    who::attributions(&mut out, results, style);
    notes.write(&mut out, style);
    together(&mut out, results, style);
    clocks(&mut out, results, style);
    failures(&mut out, results, style);
    provenance(&mut out, results, style);
    out
}

pub(super) fn heading(out: &mut String, text: &str, style: Style) {
    out.push('\n');
    for line in wrap(text, style.columns()) {
        let _ = writeln!(out, "{}", Paint::Bold.on(&line, style.colour));
    }
}

pub(super) fn head(out: &mut String, results: &RunResults, style: Style) {
    let first = format!(
        "Bulkhead {} · experiment {} · {}",
        printable(&results.bulkhead_version, 20),
        printable(&results.experiment.name, LABEL_MOST),
        format_utc(results.started_unix_ns)
    );
    for line in wrap(&first, style.columns()) {
        let _ = writeln!(out, "{}", Paint::Bold.on(&line, style.colour));
    }
    if !results.complete {
        let text = "interrupted: some measurements are missing. Continue it with --resume";
        let _ = writeln!(out, "{}", Paint::Yellow.on(text, style.colour));
    }
    let warnings = [("! MADE UP: ", made_up_words(results)), ("! MADE SLOWER: ", made_slower_words(results))];
    for (mark, text) in warnings.into_iter().filter_map(|(mark, text)| Some((mark, text?))) {
        let text = paragraph(mark, &printable(&text, SENTENCE_MOST), style.columns());
        for line in text.lines() {
            let _ = writeln!(out, "{}", Paint::Yellow.on(line, style.colour));
        }
    }
}

const fn level_paint(level: VerdictLevel) -> Paint {
    match level {
        VerdictLevel::Free => Paint::Green,
        VerdictLevel::Costly | VerdictLevel::Unknown => Paint::Yellow,
        VerdictLevel::Heavy => Paint::Red,
    }
}

fn verdicts(out: &mut String, results: &RunResults, style: Style) {
    let baseline = printable(results.experiment.baseline_label(), LABEL_MOST);
    heading(out, &format!("Verdict, compared with {baseline}"), style);
    for verdict in &results.verdicts {
        verdict_text(out, verdict, style);
    }
    for platform in &results.platforms {
        if let Some(reason) = &platform.unavailable {
            let first = format!("  -  {}: ", printable(&platform.label, LABEL_MOST));
            out.push_str(&paragraph(
                &first,
                &format!("not available: {}", printable(reason, SENTENCE_MOST)),
                style.columns(),
            ));
        }
    }
    if results.verdicts.is_empty() {
        out.push_str("  ?  no platform was compared with another, so there is no verdict\n");
    }
}

fn verdict_text(out: &mut String, verdict: &Verdict, style: Style) {
    let paint = level_paint(verdict.level);
    let first = format!("  {}  ", level_mark(verdict.level));
    let label = printable(&verdict.platform, LABEL_MOST);
    let sentence = printable(&verdict.sentence, SENTENCE_MOST);
    let sentence = if sentence.contains(&label) { sentence } else { format!("{label}: {sentence}") };
    let text = paragraph(&first, &sentence, style.columns());
    for line in text.lines() {
        let _ = writeln!(out, "{}", paint.on(line, style.colour));
    }
    for figure in &verdict.because {
        out.push_str(&paragraph("       ", &printable(figure, SENTENCE_MOST), style.columns()));
    }
}

fn dirty(out: &mut String, results: &RunResults, style: Style) {
    if results.dirty.is_empty() {
        return;
    }
    let text = "! DIRTY: this host was not quiet or not stable; the figures may not repeat";
    let _ = writeln!(out, "\n{}", Paint::Yellow.on(text, style.colour));
    for reason in &results.dirty {
        out.push_str(&paragraph("  - ", &printable(reason, SENTENCE_MOST), style.columns()));
    }
}

/// Lines of the journal that could not be read.
fn lost(out: &mut String, results: &RunResults, style: Style) {
    if results.lost.is_empty() {
        return;
    }
    let text = "! LOST: lines of the journal cannot be read; what they held is in no figure. --resume measures it anew";
    out.push('\n');
    for line in wrap(text, style.columns()) {
        let _ = writeln!(out, "{}", Paint::Yellow.on(&line, style.colour));
    }
    for lost in results.lost.iter().take(FAILURES_MOST) {
        let line = format!("line {}: {}", lost.line, printable(&lost.reason, SENTENCE_MOST));
        out.push_str(&paragraph("  - ", &line, style.columns()));
    }
    if let Some(more) = results.lost.len().checked_sub(FAILURES_MOST).filter(|more| *more > 0) {
        let _ = writeln!(out, "  - and {more} more");
    }
}

/// Reasons that do not fit into a table's cell, numbered, each once.
#[derive(Debug, Default)]
pub(super) struct Footnotes {
    reasons: Vec<String>,
}

impl Footnotes {
    /// `n/a [3]`, with the reason kept for later.
    pub(super) fn refer(&mut self, word: &str, reason: &str) -> String {
        let reason = printable(reason, SENTENCE_MOST);
        let position = self.reasons.iter().position(|known| *known == reason).unwrap_or_else(|| {
            self.reasons.push(reason);
            self.reasons.len() - 1
        });
        format!("{word} [{}]", position + 1)
    }

    pub(super) fn write(&self, out: &mut String, style: Style) {
        for (index, reason) in self.reasons.iter().enumerate() {
            out.push_str(&paragraph(&format!("  [{}] ", index + 1), reason, style.columns()));
        }
    }
}

fn cell_text(results: &RunResults, row: &Row, platform: &str, notes: &mut Footnotes) -> TextCell {
    let metric = match finding(results, row, platform) {
        Finding::Metric(metric) => metric,
        Finding::Failed(reason) => {
            return TextCell { text: notes.refer("failed", &reason), paint: Paint::Red };
        }
        Finding::Absent(reason) => return TextCell::plain(notes.refer("n/a", &reason)),
    };
    let comparison = metric.against_baseline.as_ref();
    let estimate = match sound(&metric.estimate) {
        Ok(estimate) => estimate,
        Err(reason) => {
            let word = figures::most_text(row.unit, metric.at_most);
            return TextCell::plain(notes.refer(&word, &reason.to_string()));
        }
    };
    let Some(comparison) = comparison else {
        let value = figures::value_text(row.unit, estimate.value);
        return TextCell::plain(format!("{value} {}", figures::spread_text(row.unit, estimate)));
    };
    match comparison_text(comparison) {
        Ok(text) => {
            let mark = difference_mark(comparison.difference);
            let paint = match mark {
                "▲" => Paint::Green,
                "▼" => Paint::Red,
                _ => Paint::None,
            };
            TextCell { text: format!("{text} {}", if mark.is_empty() { " " } else { mark }), paint }
        }
        Err(reason) => {
            let value = figures::value_text(row.unit, estimate.value);
            TextCell::plain(notes.refer(&value, &format!("no ratio: {reason}")))
        }
    }
}

/// Splits platforms into groups whose tables fit; the first platform of `fixed` is repeated in each.
pub(super) fn tables_that_fit(
    fixed: &[String],
    others: &[String],
    style: Style,
    mut build: impl FnMut(&[String]) -> TextTable,
) -> Vec<TextTable> {
    let mut tables = Vec::new();
    let mut rest = others;
    loop {
        let mut taken = rest.len();
        let table = loop {
            let (now, _) = rest.split_at(taken);
            let table = build(&[fixed, now].concat());
            if taken <= 1 || table.total_width(style.columns()) <= style.columns() {
                break table;
            }
            taken -= 1;
        };
        tables.push(table);
        rest = rest.get(taken.max(1)..).unwrap_or(&[]);
        if rest.is_empty() {
            return tables;
        }
    }
}

fn build_table(results: &RunResults, rows: &[Row], labels: &[String], notes: &mut Footnotes) -> TextTable {
    let mut table = TextTable::default();
    let head = labels.iter().map(|label| {
        // Ratios end in room for a mark; their heads stand above the figures.
        let room = if label == results.experiment.baseline_label() { "" } else { "  " };
        TextCell { text: format!("{}{room}", printable(label, LABEL_MOST)), paint: Paint::Bold }
    });
    table.rows.push(std::iter::once(TextCell::default()).chain(head).collect());
    let mut group = None;
    for row in rows {
        if group != Some((row.probe, row.layout)) {
            group = Some((row.probe, row.layout));
            let text = probe_words(row.probe, row.layout);
            table.rows.push(vec![TextCell { text, paint: Paint::Bold }]);
        }
        let title = TextCell::plain(format!("  {}", printable(&row.title, 80)));
        let cells = labels.iter().map(|label| cell_text(results, row, label, notes));
        table.rows.push(std::iter::once(title).chain(cells).collect());
    }
    table
}

const LEGEND: &str =
    "▼ worse  ▲ better  ◆ different  ? too little data  (no mark: no difference found); intervals at 95 %";

fn headline_table(out: &mut String, results: &RunResults, style: Style, notes: &mut Footnotes) {
    let rows = rows(results, None, Which::Headline);
    if rows.is_empty() {
        heading(out, "Figures", style);
        out.push_str("  none: no measurement was done\n");
        return;
    }
    let baseline = results.experiment.baseline_label();
    let (fixed, others): (Vec<_>, Vec<_>) =
        measured_labels(results).into_iter().partition(|label| label == baseline);
    heading(out, "Figures: the baseline's own, the others as multiples of it", style);
    for table in tables_that_fit(&fixed, &others, style, |labels| build_table(results, &rows, labels, notes))
    {
        out.push_str(&table.render(style.columns(), style.colour));
        out.push('\n');
    }
    out.push_str(&paragraph("  ", LEGEND, style.columns()));
    let surest = results.cells.iter().filter_map(|cell| cell.confidence).fold(0.0, f64::max);
    if surest > 0.0 {
        let percent = units::three_digits(surest * 100.0);
        let words = format!(
            "A platform's own values have intervals at up to {percent} %: verdicts were looked at more than once."
        );
        out.push_str(&paragraph("  ", &words, style.columns()));
    }
}

/// Neighbours whose doses are shown; with more of them the report has all.
const DOSES_OF: usize = 3;

/// The dose of each neighbour in the first cell of each platform; the report has them all.
fn doses(out: &mut String, results: &RunResults, style: Style) {
    let active =
        figures::neighbours(results).into_iter().filter(|neighbour| neighbour.kind != LoadKind::Idle);
    for neighbour in active.take(DOSES_OF) {
        for label in measured_labels(results).iter().take(8) {
            let beside =
                |cell: &&CellResult| cell.cell.neighbour == Some(neighbour) && cell.cell.platform == *label;
            for dose in results.cells.iter().find(beside).iter().flat_map(|cell| &cell.doses) {
                let line =
                    format!("{}@{} beside {label}: {}", neighbour.kind, neighbour.place, dose_words(dose));
                out.push_str(&paragraph("  dose ", &printable(&line, SENTENCE_MOST), style.columns()));
            }
        }
    }
}

/// A dose in words: `2 threads, 1.20e9 rounds/s, 1.98 CPUs`; the parts of a mixed load in parentheses, and how it was
/// done, with the interrupts that came of it, at the end.
pub fn dose_words(dose: &PlacedDose) -> String {
    let dose = &dose.dose;
    let mut rate = rate_words(dose.rate_per_s, &dose.unit);
    let parts: Vec<String> = dose.parts.iter().take(8).map(|part| part_words(dose, part)).collect();
    if !parts.is_empty() {
        rate = format!("{rate} ({})", parts.join(", "));
    }
    let threads = if dose.threads == 1 { "thread" } else { "threads" };
    let elapsed = dose.elapsed_ns.as_f64();
    let cpus = if elapsed > 0.0 {
        format!("{} CPUs busy", figures::ratio_number(dose.cpu_time_ns.as_f64() / elapsed))
    } else {
        "CPU time not known".to_owned()
    };
    let way = dose.way.as_ref().map(|way| format!(", {way}")).unwrap_or_default();
    format!("{} {threads}, {rate}, {cpus}{way}{}", dose.threads, interrupt_words(dose))
}

/// Interrupts of the card and soft ones are told apart; what is not known is left out.
fn interrupt_words(dose: &Dose) -> String {
    let known = [
        (dose.interrupts_per_s, "interrupts", "of its network card"),
        (dose.soft_interrupts_per_s, "soft interrupts", "for packets"),
    ];
    let told =
        known.map(|(rate, unit, which)| rate.map(|rate| format!(", {} {which}", rate_words(rate, unit))));
    told.into_iter().flatten().collect()
}

/// A part of the same load is that load in another unit; others are named.
fn part_words(dose: &Dose, part: &DosePart) -> String {
    let rate = rate_words(part.rate_per_s, &part.unit);
    if part.kind == dose.kind { rate } else { format!("{} {rate}", part.kind) }
}

fn rate_words(rate_per_s: f64, unit: &str) -> String {
    if unit == "bytes" && rate_per_s.is_finite() {
        units::metric::Unit::BytesPerSecond.format(rate_per_s)
    } else {
        format!("{} {unit}/s", figures::ratio_number(rate_per_s))
    }
}

fn together(out: &mut String, results: &RunResults, style: Style) {
    let text = super::together::text(results, style);
    if !text.is_empty() {
        heading(out, "Several at once, against one alone", style);
        out.push_str(&text);
    }
}

/// Only where something was compared; a sentence per platform.
fn clocks(out: &mut String, results: &RunResults, style: Style) {
    if results.clocks.iter().all(|clock| clock.measurements == 0) {
        return;
    }
    heading(out, "Clocks, compared with the host's", style);
    for clock in &results.clocks {
        let first = format!("  {}  ", clock_mark(clock.level));
        let sentence = printable(&clock.sentence, SENTENCE_MOST);
        out.push_str(&paragraph(&first, &sentence, style.columns()));
    }
}

/// By which policy each platform shares the CPUs, and what that guarantees; only where it was measured.
fn policies(out: &mut String, results: &RunResults, style: Style) {
    if results.policies.is_empty() {
        return;
    }
    heading(out, "How are the CPUs shared?", style);
    for verdict in &results.policies {
        let first = if verdict.policy.is_some() { "  =  " } else { "  ?  " };
        let sentence = printable(&verdict.sentence, SENTENCE_MOST);
        let guaranteed = guaranteed(verdict).map(|text| format!(" {text}")).unwrap_or_default();
        out.push_str(&paragraph(first, &format!("{sentence}{guaranteed}"), style.columns()));
    }
}

fn failures(out: &mut String, results: &RunResults, style: Style) {
    if results.failures.is_empty() {
        return;
    }
    heading(out, &format!("Failed measurements: {}", results.failures.len()), style);
    for failed in results.failures.iter().take(FAILURES_MOST) {
        let beside = failed
            .cell
            .neighbour
            .map_or_else(String::new, |neighbour| format!(" beside a {}", neighbour.words()));
        let text = format!(
            "{} on {}{beside}, round {}: {}: {}",
            failed.cell.probe_words(),
            failed.cell.platform,
            failed.round + 1,
            figures::failure_words(failed.failure.kind),
            failed.failure.reason
        );
        out.push_str(&paragraph("  x ", &printable(&text, SENTENCE_MOST), style.columns()));
        if let Some(last) = failed.failure.console.last() {
            out.push_str(&paragraph("      console: ", &printable(last, 200), style.columns()));
        }
    }
    if results.failures.len() > FAILURES_MOST {
        let more = results.failures.len() - FAILURES_MOST;
        let _ = writeln!(out, "  and {more} more; results.json and the report have them all");
    }
}

fn provenance(out: &mut String, results: &RunResults, style: Style) {
    heading(out, "How it was measured", style);
    let host = &results.host;
    let mut line = |name: &str, text: &str| {
        out.push_str(&paragraph(&format!("  {name:<10} "), &printable(text, SENTENCE_MOST), style.columns()));
    };
    let model = host.cpu_model.clone().unwrap_or_else(|| host.architecture.clone());
    let hypervisor = host.hypervisor.as_ref().map_or(String::new(), |name| format!(", under {name}"));
    line("host", &format!("{model}, {} CPUs{hypervisor}", host.cpus));
    line("kernel", host.kernel.as_deref().unwrap_or("not known"));
    for platform in &results.platforms {
        let words = platform_words(platform);
        if !words.is_empty() {
            let name = printable(&platform.label, 10);
            line(if width(&name) == 0 { "platform" } else { &name }, &words);
        }
    }
    let seed = results.experiment.seed.map_or_else(|| "not recorded".to_owned(), |seed| seed.to_string());
    line("order", &format!("interleaved at random, seed {seed}"));
    let rounds = figures::rounds(results);
    line("rounds", &format!("up to {rounds} per cell, {} spent measuring", results.measured_ns));
}

/// What a platform turned out to be, in one line.
fn platform_words(platform: &PlatformState) -> String {
    let mut words: Vec<String> =
        platform.properties.iter().map(|(name, value)| format!("{name} {value}")).collect();
    if let Some(start) = platform.start_ns {
        words.push(format!("agent answered after {start}"));
    }
    words.join(", ")
}
