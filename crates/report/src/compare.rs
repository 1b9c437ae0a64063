//! Two runs side by side, on the terminal and as a page: what changed, and what the intervals allow to say about it.

use std::fmt::Write as _;

use maud::{Markup, html};

use model::results::RunResults;
use units::metric::{Answer, Better, Difference};

use super::change::MetricChange;
use super::chart::axis::{Axis, Quantity, Scale};
use super::chart::bars::{BarRow, Bars, Form, Item};
use super::chart::palette::Ink;
use super::chart::svg::Picture;
use super::figures::{
    difference_mark, made_slower_words, made_up_words, platform_labels, ratio_text, sound, spread_text,
    value_text,
};
use super::page::document::{Section, page};
use super::page::parts::{called, cell_words, class_of, figure, scrolling};
use super::terminal::{Footnotes, Style, heading};
use super::text::{Paint, TextCell, TextTable, paragraph, printable};
use super::utc::format_utc;

/// How the ratio is made, for those who want to know how far to trust it.
const METHOD: &str = "The runs were not interleaved, so the ratio is the median of all pairwise ratios of their rounds \
    with its 95 % Mann–Whitney interval (unpaired). It cannot tell a change of the program from a change of the hour. Of \
    twenty figures that did not change, one may show a difference by chance.";

/// Number of better, worse, otherwise different, unchanged and undecided headline metrics.
fn tally(comparison: &[MetricChange]) -> String {
    let both = |change: &&MetricChange| change.headline && change.rounds.0 > 0 && change.rounds.1 > 0;
    let count = |wanted: Difference| {
        comparison.iter().filter(both).filter(|change| change.difference == wanted).count()
    };
    let headline = comparison.iter().filter(|change| change.headline).count();
    format!(
        "{} worse, {} better, {} different, {} without a difference found, {} undecided, {} in one run only",
        count(Difference::Worse),
        count(Difference::Better),
        count(Difference::Different),
        count(Difference::NotFound),
        count(Difference::Unknown),
        headline - comparison.iter().filter(both).count()
    )
}

/// What makes a comparison doubtful.
fn doubts(a: &RunResults, b: &RunResults) -> Vec<String> {
    let mut doubts = Vec::new();
    for (name, run) in [("first", a), ("second", b)] {
        doubts.extend(run.dirty.iter().map(|reason| format!("the {name} run is dirty: {reason}")));
        let made = [made_up_words(run), made_slower_words(run)];
        doubts.extend(made.into_iter().flatten().map(|words| format!("the {name} run: {words}")));
        if !run.complete {
            doubts.push(format!("the {name} run was interrupted"));
        }
    }
    let differs = [
        ("host CPU", a.host.cpu_model != b.host.cpu_model),
        ("number of CPUs", a.host.cpus != b.host.cpus),
        ("host kernel", a.host.kernel != b.host.kernel),
        ("parameters of the probes", a.experiment.probes != b.experiment.probes),
        ("program version", a.bulkhead_version != b.bulkhead_version),
    ];
    doubts.extend(
        differs.iter().filter(|(_, differs)| *differs).map(|(what, _)| format!("the {what} differs")),
    );
    doubts
}

/// When it was measured; what was simulated says its seed instead, and is the same whenever that is done.
fn which(run: &RunResults) -> String {
    match &run.simulation {
        Some(simulation) => format!("(simulated, seed {})", simulation.seed),
        None => format!("of {}", format_utc(run.started_unix_ns)),
    }
}

/// The comparison for a terminal: doubts first, then headline metrics of every cell.
pub fn compare_text(a: &RunResults, b: &RunResults, comparison: &[MetricChange], style: Style) -> String {
    let mut out = String::new();
    let title = |run: &RunResults| format!("{} {}", printable(&run.experiment.name, 40), which(run));
    let _ = writeln!(out, "{}", Paint::Bold.on("Two runs compared", style.colour));
    out.push_str(&paragraph("  first   ", &title(a), style.columns()));
    out.push_str(&paragraph("  second  ", &title(b), style.columns()));
    out.push('\n');
    out.push_str(&paragraph("  = ", &format!("Headline figures: {}.", tally(comparison)), style.columns()));
    for doubt in doubts(a, b) {
        out.push_str(&paragraph("  ! ", &printable(&doubt, 400), style.columns()));
    }
    let mut notes = Footnotes::default();
    for group in groups(comparison) {
        if let Some(first) = group.first() {
            let beside =
                first.cell.neighbour.map_or_else(String::new, |n| format!(" beside a {}", n.words()));
            heading(&mut out, &format!("{}{beside}", printable(&first.cell.platform, 40)), style);
        }
        out.push_str(&group_table(&group, &mut notes).render(style.columns(), style.colour));
    }
    out.push('\n');
    notes.write(&mut out, style);
    out.push_str(&paragraph(
        "  ",
        "▼ worse  ▲ better  ◆ different  (no mark: no difference found)",
        style.columns(),
    ));
    out.push_str(&paragraph("  ", METHOD, style.columns()));
    out
}

/// Headline changes by platform and neighbour, in order of first appearance.
fn groups(comparison: &[MetricChange]) -> Vec<Vec<&MetricChange>> {
    let mut groups: Vec<Vec<&MetricChange>> = Vec::new();
    for change in comparison.iter().filter(|change| change.headline) {
        let same = |group: &&mut Vec<&MetricChange>| {
            group.first().is_some_and(|first| {
                first.cell.platform == change.cell.platform && first.cell.neighbour == change.cell.neighbour
            })
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.push(change),
            None => groups.push(vec![change]),
        }
    }
    groups
}

fn group_table(group: &[&MetricChange], notes: &mut Footnotes) -> TextTable {
    let head = ["", "first", "second", "second/first  "].map(TextCell::plain).to_vec();
    let mut table = TextTable { rows: vec![head], ..TextTable::default() };
    for change in group {
        let mut value = |answer: &Answer| match sound(answer) {
            Ok(estimate) => TextCell::plain(value_text(change.unit, estimate.value)),
            Err(reason) => TextCell::plain(notes.refer("n/a", &reason.to_string())),
        };
        let (before, after) = (value(&change.before), value(&change.after));
        let ratio = match sound(&change.ratio) {
            Ok(ratio) => {
                let mark = difference_mark(change.difference);
                TextCell::plain(format!("{} {}", ratio_text(ratio), if mark.is_empty() { " " } else { mark }))
            }
            Err(reason) => TextCell::plain(notes.refer("n/a", &reason.to_string())),
        };
        let title =
            TextCell::plain(format!("{}: {}", change.cell.probe_words(), printable(&change.title, 60)));
        table.rows.push(vec![title, before, after, ratio]);
    }
    table
}

/// The comparison as a page.
pub fn compare_html(a: &RunResults, b: &RunResults, comparison: &[MetricChange]) -> String {
    let header = html! {
        header {
            div {
                h1 { "Two runs compared" }
                p.soft {
                    "First: " (a.experiment.name) " " (which(a)) ". Second: " (b.experiment.name) " " (which(b)) "."
                }
            }
            button #theme type="button" hidden { "Light / dark" }
        }
    };
    let mut labels = platform_labels(a);
    labels.extend(platform_labels(b).into_iter().filter(|label| !platform_labels(a).contains(label)));
    let sections = [
        Section::open("summary", "Summary", Some(summary(a, b, comparison))),
        Section::open("comparison", "Ratios", Some(picture(comparison, &labels))),
        Section::open("figures", "All figures", Some(table(comparison))),
    ];
    page("Bulkhead: two runs compared", &header, &sections, labels.len())
}

fn summary(a: &RunResults, b: &RunResults, comparison: &[MetricChange]) -> Markup {
    let doubts = doubts(a, b);
    html! {
        p { "Headline figures of the second run against the first: " strong { (tally(comparison)) } "." }
        @if !doubts.is_empty() {
            div.banner.costly role="note" {
                strong { "Compare with care." }
                ul { @for doubt in &doubts { li { (doubt) } } }
            }
        }
        p.soft { (METHOD) }
    }
}

fn picture(comparison: &[MetricChange], labels: &[String]) -> Markup {
    let drawn = |change: &&MetricChange| change.headline && change.cell.neighbour.is_none();
    let mut rows: Vec<BarRow> = Vec::new();
    for change in comparison.iter().filter(drawn) {
        let Ok(ratio) = sound(&change.ratio) else { continue };
        let Some(ink) = labels.iter().position(|label| *label == change.cell.platform) else { continue };
        let arrow = if change.better == Better::Higher { " ↑" } else { "" };
        let title = format!("{}: {}{arrow}", change.cell.probe_words(), change.title);
        let item = Item { ink: Ink(ink), value: ratio.value, interval: (ratio.low, ratio.high) };
        match rows.iter_mut().find(|row| row.title == title) {
            Some(row) => row.items.push(item),
            None => rows.push(BarRow { title, items: vec![item] }),
        }
    }
    let values = rows.iter().flat_map(|row| &row.items).flat_map(|i| [i.value, i.interval.0, i.interval.1]);
    let axis = Axis::enclosing(
        Scale::Log,
        Quantity::Ratio,
        "second run / first run (logarithmic)",
        values.chain([0.9, 1.0, 1.1]),
    );
    let picture = match axis {
        Some(axis) if !rows.is_empty() => Bars {
            name: "Ratios of the second run to the first".to_owned(),
            axis,
            rows,
            form: Form::Dots(1.0),
        }
        .draw(),
        _ => Picture::Nothing("no figure is in both runs with enough rounds".to_owned()),
    };
    let legend: Vec<(Ink, String)> = labels
        .iter()
        .enumerate()
        .filter(|(_, label)| comparison.iter().any(|change| change.cell.platform == **label))
        .map(|(index, label)| (Ink(index), label.clone()))
        .collect();
    figure(
        "Second run against first",
        "On the line: unchanged. For times, gaps and latencies the right side is worse; for rates and throughput (marked ↑) it is better. Headline figures without neighbours.",
        &legend,
        &picture,
    )
}

fn table(comparison: &[MetricChange]) -> Markup {
    let rows = html! {
        table {
            thead { tr { @for name in ["Measurement", "Figure", "First", "Second", "Second / first"] { th scope="col" { (name) } } } }
            tbody { @for change in comparison { (row(change)) } }
        }
    };
    scrolling("All figures of both runs", &rows)
}

fn row(change: &MetricChange) -> Markup {
    html! {
        tr {
            th scope="row" { (cell_words(&change.cell)) }
            td { (change.title) }
            @for answer in [&change.before, &change.after] {
                @match sound(answer) {
                    Ok(estimate) => {
                        td data-metric=(change.id) data-value=(estimate.value) {
                            span.num { (value_text(change.unit, estimate.value)) }
                            span.sub { (spread_text(change.unit, estimate)) }
                        }
                    }
                    Err(reason) => { td.why { "n/a" span.sub { (reason) } } }
                }
            }
            @match sound(&change.ratio) {
                Ok(ratio) => { td.(class_of(change.difference)) { span.num { (ratio_text(ratio)) } " " (called(change.difference)) } }
                Err(reason) => { td.why { "n/a" span.sub { (reason) } } }
            }
        }
    }
}
