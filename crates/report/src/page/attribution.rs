//! "Who took the time?": lost time shared out among sources, with the evidence and what nobody owns to; and the time
//! lines of an instance and its host, one above the other.

use maud::{Markup, html};

use analysis::timeline::{Timeline, timeline};
use model::attribution::Attribution;
use model::results::{CellResult, RunResults};
use probes::ProbeKind;
use probes::detail::Detail;
use units::Nanos;
use units::metric::Unit;

use super::super::chart::axis::{Axis, Quantity, Scale};
use super::super::chart::lanes::{Block, Lane, Lanes};
use super::super::chart::palette::Ink;
use super::super::chart::svg::Picture;
use super::super::figures::platform_labels;
use super::super::who::{LOSSES, Loss, unknown_words};
use super::notes::Notes;
use super::parts::{Folded, bounded, figure, fold, place_of, plain_table, scrolling};

/// Colours for sources; more of them share the last one.
const COLOURS: usize = 7;
/// Sources named in a bar; the rest is put together.
const NAMED: usize = 12;
/// Time lines beside neighbours that are drawn.
const LINES_BESIDE: usize = 12;

/// What evidence ends in: it is said once for all.
const ROUND: &str = " (the round in which it took most";
/// Kinds of evidence for a source, and reasons why something is not known, that are listed.
const EVIDENCE_LISTED: usize = 3;
const UNKNOWN_LISTED: usize = 6;
/// Longest gaps of a time line that are listed; its picture has them all.
const GAPS_LISTED: usize = 5;

/// A loss with the cells that have it.
type Shared<'a> = Vec<(&'a CellResult, &'a Attribution)>;

/// The bars and the time lines; left out when neither is there.
pub(super) fn section(results: &RunResults) -> Option<Folded> {
    let losses: Vec<(Loss, Shared<'_>)> = LOSSES
        .into_iter()
        .map(|loss| (loss, loss.cells(results).collect::<Shared<'_>>()))
        .filter(|(_, shared)| shared.iter().any(|(_, told)| told.lost_ns > Nanos::ZERO))
        .collect();
    let lines: Vec<(&CellResult, Timeline)> = results
        .cells
        .iter()
        .filter(|cell| cell.cell.probe == ProbeKind::Gap)
        .filter_map(|cell| Some((cell, timeline(cell.sides.as_ref()?)?)))
        .collect();
    if losses.is_empty() && lines.is_empty() {
        return None;
    }
    let line = format!(
        "lost time shared out among tick, interrupts, hypervisor and threads, with the evidence; {} time lines of instance and host",
        lines.len()
    );
    let body = html! {
        @for (loss, shared) in losses { (shared_out(&loss, shared)) }
        @if !lines.is_empty() { (time_lines(results, &lines)) }
    };
    Some((line, body))
}

/// One kind of loss: its bars, and behind them the evidence.
fn shared_out(loss: &Loss, shared: Shared<'_>) -> Markup {
    let sources = sources(&shared);
    let (alone, beside): (Shared<'_>, Shared<'_>) =
        shared.into_iter().partition(|(cell, _)| cell.cell.neighbour.is_none());
    html! {
        h3 { (loss.question) }
        p { (loss.about) }
        (legend(&sources))
        (bars(loss, &alone, &sources))
        @if !beside.is_empty() {
            details { summary { "Beside neighbours" } (bars(loss, &beside, &sources)) }
        }
        (fold("Why this is believed, and what could not be asked", &evidence(loss, &alone, &beside)))
    }
}

/// Names of all sources, those that took most first.
fn sources(shared: &[(&CellResult, &Attribution)]) -> Vec<String> {
    let mut sums: Vec<(String, f64)> = Vec::new();
    for source in shared.iter().flat_map(|(_, attribution)| &attribution.sources) {
        match sums.iter_mut().find(|(name, _)| *name == source.name) {
            Some((_, sum)) => *sum += source.share,
            None => sums.push((source.name.clone(), source.share)),
        }
    }
    sums.sort_by(|a, b| b.1.total_cmp(&a.1));
    sums.into_iter().map(|(name, _)| name).collect()
}

/// Class of a source's colour.
fn colour(sources: &[String], name: &str) -> String {
    let index = sources.iter().position(|known| known == name).unwrap_or(COLOURS);
    format!("q{}", index.min(COLOURS - 1))
}

fn legend(sources: &[String]) -> Markup {
    html! {
        ul.legend {
            @for name in sources.iter().take(NAMED) { li { span.swatch.(colour(sources, name)) {} (bounded(name)) } }
            @if sources.len() > NAMED { li { span.swatch.(format!("q{}", COLOURS - 1)) {} "other sources" } }
            li { span.swatch.qx {} "not attributed" }
        }
    }
}

/// How much of the observed time was lost; none when it is not known.
fn lost_share(cell: &CellResult, attribution: &Attribution) -> Option<f64> {
    let Some(Detail::Gap(gap)) = &cell.detail else { return None };
    let share = attribution.lost_ns.as_f64() / gap.observed_ns.as_f64();
    share.is_finite().then_some(share.min(1.0))
}

/// `vm cpu@second`.
fn place(cell: &CellResult) -> String {
    let (platform, beside) = place_of(&cell.cell);
    if beside.is_empty() { platform } else { format!("{platform} {beside}") }
}

fn bars(loss: &Loss, shared: &[(&CellResult, &Attribution)], sources: &[String]) -> Markup {
    html! {
        div.stacks {
            @for (cell, attribution) in shared {
                div.stack {
                    p {
                        strong { (place(cell)) } " "
                        @if attribution.lost_ns == Nanos::ZERO { (loss.nothing) } @else { (attribution.lost_ns) " " (loss.verb) }
                        @if let Some(share) = lost_share(cell, attribution) { ", " (Unit::Share.format(share)) " of the time" }
                    }
                    @if attribution.lost_ns > Nanos::ZERO { (bar(attribution, sources)) }
                }
            }
        }
    }
}

fn bar(attribution: &Attribution, sources: &[String]) -> Markup {
    let lost = attribution.lost_ns.as_f64().max(1.0);
    let part = |nanos: Nanos| (nanos.as_f64() / lost).clamp(0.0, 1.0);
    let segments: Vec<(String, &str, f64)> = attribution
        .sources
        .iter()
        .take(NAMED)
        .map(|source| (colour(sources, &source.name), source.name.as_str(), part(source.lost_ns)))
        .collect();
    let shown: f64 = segments.iter().map(|segment| segment.2).sum();
    let rest = part(attribution.unattributed_ns);
    let words: Vec<String> = segments
        .iter()
        .map(|(_, name, share)| format!("{name} {}", Unit::Share.format(*share)))
        .chain([format!("not attributed {}", Unit::Share.format(rest))])
        .collect();
    let other = (1.0 - shown - rest).max(0.0);
    let all = segments
        .iter()
        .map(|(class, name, share)| (class.as_str(), *name, *share))
        .chain([("q6", "other sources", other), ("qx", "not attributed", rest)]);
    html! {
        div.bar role="img" aria-label=(bounded(&words.join(", "))) {
            @for (class, name, share) in all.filter(|(_, _, share)| *share >= 0.001) {
                span.(class) style=(format!("width:{:.2}%", share * 100.0))
                    title=(bounded(&format!("{name}: {}", Unit::Share.format(share)))) {
                    @if share >= 0.09 { (format!("{:.0} %", share * 100.0)) }
                }
            }
        }
    }
}

/// How much each source took where, then why this is believed of each source, and what could not be asked, each once.
fn evidence(
    loss: &Loss,
    alone: &[(&CellResult, &Attribution)],
    beside: &[(&CellResult, &Attribution)],
) -> Markup {
    let all = || alone.iter().chain(beside).filter(|(_, told)| told.lost_ns > Nanos::ZERO);
    let sources = sources(&all().copied().collect::<Vec<_>>());
    let took = |told: &Attribution, name: &str| {
        told.sources
            .iter()
            .find(|source| source.name == name)
            .map_or_else(String::new, |source| source.lost_ns.to_string())
    };
    let row = |(cell, told): &(&CellResult, &Attribution)| {
        let row = sources.iter().map(|name| took(told, name));
        std::iter::once(place(cell)).chain(row).chain([told.unattributed_ns.to_string()]).collect()
    };
    let rows: Vec<Vec<String>> = all().map(row).collect();
    let names: Vec<String> = sources.iter().map(|name| bounded(name)).collect();
    let heads: Vec<&str> =
        std::iter::once("Where").chain(names.iter().map(String::as_str)).chain(["not attributed"]).collect();
    let mut unknown = Notes::new(&format!("{}-unknown", loss.probe));
    for (cell, told) in all() {
        for reason in &told.unknown {
            unknown.say(&unknown_words(reason), Some(place_of(&cell.cell)));
        }
    }
    html! {
        (scrolling("Who took how much", &plain_table(&heads, &rows)))
        p.small { "Evidence is of the round in which a source took most." }
        @for name in &sources { (believed(loss, name, &all().copied().collect::<Vec<_>>())) }
        @if !unknown.is_empty() { h4 { "Not known" } (unknown.first(UNKNOWN_LISTED)) } @else {
            p.small { "What is not attributed, no counter of the instance's kernel accounts for." }
        }
    }
}

/// Why a source is believed to have taken time.
fn believed(loss: &Loss, name: &str, shared: &[(&CellResult, &Attribution)]) -> Markup {
    let mut why = Notes::new(&format!("{}-{name}", loss.probe));
    for source in shared.iter().flat_map(|(_, told)| &told.sources).filter(|source| source.name == name) {
        let told = source.evidence.split_once(ROUND).map_or(source.evidence.as_str(), |(told, _)| told);
        why.say(told, None);
    }
    html! { h4 { (bounded(name)) } (why.first(EVIDENCE_LISTED)) }
}

fn time_lines(results: &RunResults, lines: &[(&CellResult, Timeline)]) -> Markup {
    let labels = platform_labels(results);
    let ink =
        |cell: &CellResult| Ink(labels.iter().position(|label| *label == cell.cell.platform).unwrap_or(0));
    let (alone, beside): (Vec<_>, Vec<_>) = lines.iter().partition(|(cell, _)| cell.cell.neighbour.is_none());
    html! {
        h3 { "Instance and host side by side" }
        p {
            "Above, the longest gaps that the instance saw, put on the host's clock; below, what its host saw of the instance's "
            "threads at the same time. A gap above a slice in which they waited was the host giving the CPU to somebody else."
        }
        @for (cell, line) in alone { (lanes(cell, line, ink(cell))) }
        @if !beside.is_empty() {
            details {
                summary { "Beside neighbours" }
                @for (cell, line) in beside.iter().take(LINES_BESIDE) { (lanes(cell, line, ink(cell))) }
            }
        }
    }
}

fn lanes(cell: &CellResult, line: &Timeline, ink: Ink) -> Markup {
    let title = place(cell);
    let caption = format!(
        "The round with the longest gap. Gaps stand where they belong within ± {}.",
        Nanos::from_nanos(units::metric::saturate(line.error_ns))
    );
    let name = format!("Time lines of {title} and its host");
    html! {
        (figure(&title, &caption, &[], &picture(line, ink, &name)))
        (scrolling_table(cell, line))
    }
}

fn picture(both: &Timeline, ink: Ink, name: &str) -> Picture {
    let caption = "time since the probe began, on the host's clock";
    let Some(axis) =
        Axis::enclosing(Scale::FromZero, Quantity::Of(Unit::Nanoseconds), caption, [0.0, both.end_ns])
    else {
        return Picture::Nothing("the span of the probe is not known".to_owned());
    };
    let lengths = both.gaps.iter().map(|(from, to)| to - from);
    let longest = lengths.fold(0.0, f64::max);
    // A microsecond is where the lost time begins to be counted.
    let high = |length: f64| {
        ((length.max(1.0) / 1e3).log10().max(0.0) + 0.15) / ((longest / 1e3).log10().max(0.0) + 0.15)
    };
    let gaps =
        both.gaps.iter().map(|(from, to)| Block { from: *from, to: *to, height: high(to - from), ink: None });
    let most =
        |value: &dyn Fn(&analysis::timeline::Slice) -> f64| both.slices.iter().map(value).fold(0.0, f64::max);
    let (running, waiting) =
        (most(&|slice| slice.running_cpus).max(1.0), most(&|slice| slice.waiting).max(1.0));
    let blocks = |value: &dyn Fn(&analysis::timeline::Slice) -> f64, top: f64| -> Vec<Block> {
        both.slices
            .iter()
            .map(|slice| Block {
                from: slice.from_ns.max(0.0),
                to: slice.to_ns.min(both.end_ns),
                height: value(slice) / top,
                ink: None,
            })
            .collect()
    };
    let lane = |caption: &str, top: String, pale: bool, blocks: Vec<Block>| Lane {
        caption: caption.to_owned(),
        top,
        pale,
        blocks,
    };
    let count = |value: f64| {
        let plural = if value > 1.0 { "s" } else { "" };
        format!("{} CPU{plural}", units::three_digits(value))
    };
    Lanes {
        name: name.to_owned(),
        axis,
        ink,
        lanes: vec![
            lane(
                "instance: gaps, higher is longer (logarithmic)",
                Unit::Nanoseconds.format(longest),
                false,
                gaps.collect(),
            ),
            lane(
                "host: its threads running",
                count(running),
                true,
                blocks(&|slice| slice.running_cpus, running),
            ),
            lane(
                "host: its threads waiting for a CPU",
                count(waiting),
                true,
                blocks(&|slice| slice.waiting, waiting),
            ),
        ],
    }
    .draw()
}

/// The longest gaps with what the host saw in the slices they touch.
fn scrolling_table(cell: &CellResult, line: &Timeline) -> Markup {
    let mut gaps = line.gaps.clone();
    gaps.sort_by(|a, b| (b.1 - b.0).total_cmp(&(a.1 - a.0)));
    let rows: Vec<Vec<String>> = gaps
        .iter()
        .take(GAPS_LISTED)
        .map(|(from, to)| {
            let touched = line.slices.iter().filter(|slice| slice.from_ns < *to && slice.to_ns > *from);
            let (mut length, mut run, mut wait) = (0.0, 0.0, 0.0);
            for slice in touched {
                let span = slice.to_ns - slice.from_ns;
                length += span;
                run += slice.running_cpus * span;
                wait += slice.waiting * span;
            }
            let mean = |sum: f64| {
                if length > 0.0 { units::three_digits(sum / length) } else { "not seen".to_owned() }
            };
            let ns = |value: f64| Unit::Nanoseconds.format(value.max(0.0));
            vec![ns(to - from), ns(*from), mean(run), mean(wait)]
        })
        .collect();
    let head = ["Gap", "Began after", "Threads running meanwhile", "Threads waiting meanwhile"];
    let table = plain_table(&head, &rows);
    let label = format!("Table: longest gaps of {} and its host", place(cell));
    html! { details { summary { (label) } (scrolling(&label, &table)) } }
}
