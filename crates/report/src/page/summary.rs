//! The top of the page: what a manager reads. Verdict cards in words, key figures, and what makes them doubtful.

use maud::{Markup, html};

use model::results::{RunResults, Verdict, VerdictLevel};
use probes::ProbeKind;
use units::metric::{Comparison, Difference, percent_up};

use super::super::figures::{
    Finding, Row, Which, difference_words, finding, level_mark, level_words, made_slower_words,
    made_up_words, ratio_number, rows, sound, value_text,
};
use super::super::utc::format_utc;

/// Key figures in a card.
const KEY_FIGURES: usize = 4;

/// Title and one line of facts.
pub(super) fn header(results: &RunResults) -> Markup {
    html! {
        header {
            div {
                h1 { "What running here costs: " (results.experiment.name) }
                p.soft {
                    (host_words(results)) " · " (format_utc(results.started_unix_ns)) " · "
                    (results.measured_ns) " of measuring"
                }
            }
            button #theme type="button" hidden { "Light / dark" }
        }
    }
}

fn host_words(results: &RunResults) -> String {
    let host = &results.host;
    let name = host.cpu_model.clone().unwrap_or_else(|| host.architecture.clone());
    if name.is_empty() { format!("{} CPUs", host.cpus) } else { format!("{name}, {} CPUs", host.cpus) }
}

/// Verdicts and warnings.
pub(super) fn section(results: &RunResults) -> Markup {
    let baseline = results.experiment.baseline_label();
    html! {
        (banners(results))
        p {
            "Each platform is compared with " strong { (baseline) }
            ": the same program on the same machine, measured in turns. A difference is called one only where all \
             that are called so together are right with 95 %."
        }
        div.cards {
            @for verdict in &results.verdicts { (card(results, verdict)) }
            @for platform in results.platforms.iter().filter(|platform| platform.unavailable.is_some()) {
                article.card.unknown {
                    h3 { (platform.label) span.badge { "– not available" } }
                    p { (platform.unavailable.as_deref().unwrap_or_default()) }
                }
            }
        }
        @if results.verdicts.is_empty() {
            p { "No platform was compared with another in this run, so there is no verdict." }
        }
        details {
            summary { "What the verdicts mean" }
            ul {
                li { strong { "= next to free" } ": no difference was found, or none above 5 %." }
                li { strong { "+ costs something" } ": differences between 5 % and twofold." }
                li { strong { "! costs a lot" } ": a twofold difference or more, or measurements that broke." }
                li { strong { "? not known" } ": too little data. Measure longer." }
            }
        }
    }
}

fn banners(results: &RunResults) -> Markup {
    html! {
        @if !results.complete {
            div.banner.costly role="note" {
                strong { "Interrupted." } " Some measurements are missing; the run can be continued with "
                code { "--resume" } "."
            }
        }
        @if let Some(words) = made_up_words(results) {
            div.banner.heavy role="note" { strong { "Made up." } " " (words) "." }
        }
        @if let Some(words) = made_slower_words(results) {
            div.banner.heavy role="note" { strong { "Made slower." } " " (words) "." }
        }
        @if !results.dirty.is_empty() {
            div.banner.costly role="note" {
                strong { "Dirty run." }
                " This host was not quiet or not stable while it was measured; the figures may not repeat."
                ul { @for reason in &results.dirty { li { (reason) } } }
            }
        }
        @if !results.lost.is_empty() {
            div.banner.costly role="note" {
                strong { (results.lost.len()) " lost " (if results.lost.len() == 1 { "line" } else { "lines" }) "." }
                " They cannot be read in the journal, and what they held is in no figure; "
                code { "--resume" } " measures it anew."
                ul { @for lost in &results.lost { li { "line " (lost.line) ": " (lost.reason) } } }
            }
        }
        @if !results.failures.is_empty() {
            div.banner.heavy role="note" {
                strong { (results.failures.len()) " failed " (plural(results.failures.len())) "." }
                " Nothing was put in their place. " a href="#failures" { "See why" } "."
            }
        }
    }
}

const fn plural(count: usize) -> &'static str {
    if count == 1 { "measurement" } else { "measurements" }
}

const fn level_class(level: VerdictLevel) -> &'static str {
    match level {
        VerdictLevel::Free => "free",
        VerdictLevel::Costly => "costly",
        VerdictLevel::Heavy => "heavy",
        VerdictLevel::Unknown => "unknown",
    }
}

fn card(results: &RunResults, verdict: &Verdict) -> Markup {
    let keys = key_figures(results, &verdict.platform);
    html! {
        article.card.(level_class(verdict.level)) {
            h3 {
                (verdict.platform)
                span.badge { (level_mark(verdict.level)) " " (level_words(verdict.level)) }
            }
            p { (verdict.sentence) }
            @if !keys.is_empty() {
                dl {
                    @for key in &keys {
                        div { dt { (key.name) } dd { b { (key.value) } @if let Some(words) = &key.overhead { span { (words) } } } }
                    }
                }
            }
            @if !verdict.because.is_empty() {
                details {
                    summary { "Figures behind it" }
                    ul { @for figure in &verdict.because { li { (figure) } } }
                }
            }
        }
    }
}

/// A figure in a card.
struct KeyFigure {
    name: String,
    value: String,
    overhead: Option<String>,
}

/// Headline figures of the probes that speak of overhead and predictability, in plain words.
fn key_figures(results: &RunResults, platform: &str) -> Vec<KeyFigure> {
    let spoken = |row: &Row| {
        row.layout.is_none() && matches!(row.probe, ProbeKind::Cpu | ProbeKind::Gap | ProbeKind::Fork)
    };
    rows(results, None, Which::Headline)
        .iter()
        .filter(|row| spoken(row))
        .filter_map(|row| key_figure(results, row, platform))
        .take(KEY_FIGURES)
        .collect()
}

fn key_figure(results: &RunResults, row: &Row, platform: &str) -> Option<KeyFigure> {
    let Finding::Metric(metric) = finding(results, row, platform) else { return None };
    let value = value_text(row.unit, sound(&metric.estimate).ok()?.value);
    let overhead = metric.against_baseline.as_ref().map(overhead_words);
    Some(KeyFigure { name: row.title.clone(), value, overhead })
}

/// `+34 % (31 … 38)`, or a multiple from twofold on.
fn overhead_words(comparison: &Comparison) -> String {
    let Ok(ratio) = sound(&comparison.ratio) else { return difference_words(Difference::Unknown).to_owned() };
    if comparison.difference == Difference::NotFound {
        let seen = comparison.detectable_percent.filter(|percent| (0.0..1e6).contains(percent));
        let seen = seen.map(|percent| format!("; one of {} would have been seen", percent_up(percent)));
        return format!("{}{}", difference_words(Difference::NotFound), seen.unwrap_or_default());
    }
    let percent = |ratio: f64| (ratio - 1.0) * 100.0;
    if (0.5..2.0).contains(&ratio.value) {
        let digits = usize::from(percent(ratio.value).abs() < 10.0);
        format!(
            "{:+.digits$} % ({:+.digits$} … {:+.digits$})",
            percent(ratio.value),
            percent(ratio.low),
            percent(ratio.high)
        )
    } else {
        format!(
            "{} × ({} … {})",
            ratio_number(ratio.value),
            ratio_number(ratio.low),
            ratio_number(ratio.high)
        )
    }
}

#[cfg(test)]
mod tests {
    use units::metric::{Answer, Estimate};

    use super::*;

    fn words(value: f64, low: f64, high: f64, difference: Difference) -> String {
        let ratio = Answer::Estimate(Estimate { value, low, high, confidence: 0.95 });
        overhead_words(&Comparison {
            ratio,
            pairs: 9,
            difference,
            of_family: None,
            detectable_percent: Some(2.31),
        })
    }

    #[test]
    fn overhead_reads_as_percent_then_as_a_multiple() {
        assert_eq!(words(1.34, 1.31, 1.38, Difference::Worse), "+34 % (+31 … +38)");
        assert_eq!(words(0.972, 0.96, 0.98, Difference::Better), "-2.8 % (-4.0 … -2.0)");
        assert_eq!(words(8.4, 8.0, 9.0, Difference::Worse), "8.40 × (8 … 9)");
        assert_eq!(
            words(1.01, 0.9, 1.1, Difference::NotFound),
            "no difference found; one of 2.4 % would have been seen"
        );
    }
}
