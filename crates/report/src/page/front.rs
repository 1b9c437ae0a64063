//! The first screen: what it costs, fit for what, who hurts whom, and what makes it doubtful. It says what the terminal's one screen
//! says, from the same code, and every line leads to the part of the page that it comes from.

use maud::{Markup, html};

use model::results::{RunResults, Verdict, VerdictLevel};

use super::super::brief::{
    Harm, Worse, cost_word, dark_words, deciding, doubts, missing_words, without_label, worst_figures,
};
use super::super::figures::{level_mark, made_slower_words, made_up_words, measured_labels};
use super::super::fit::{class_names, judged_platforms, verdict_of};
use super::super::utc::format_utc;
use super::anchor;
use super::fit::short_badge;
use super::parts::{bounded, with_short_neighbours};

/// Figures of a platform, and neighbours that hurt, on the first screen.
const WORST: usize = 3;
/// Reasons of verdicts there.
const REASONS: usize = 4;

/// Title and one line of facts.
pub(super) fn header(results: &RunResults) -> Markup {
    let seed = results.experiment.seed.map_or_else(|| "not recorded".to_owned(), |seed| seed.to_string());
    html! {
        header {
            div {
                h1 { "What running here costs" }
                p.soft.small {
                    (host_words(results)) " · " (results.experiment.name) " · " (format_utc(results.started_unix_ns)) " · "
                    (results.measured_ns) " · seed " (seed) " · "
                    @if results.dirty.is_empty() { span.badge.free { "= clean" } } @else { a.badge.costly href="#provenance" { "! dirty" } }
                }
            }
            button #theme type="button" hidden aria-label="Light or dark" { "◐" }
        }
    }
}

fn host_words(results: &RunResults) -> String {
    let host = &results.host;
    let name = host.cpu_model.clone().unwrap_or_else(|| host.architecture.clone());
    if name.is_empty() { format!("{} CPUs", host.cpus) } else { format!("{name}, {} CPUs", host.cpus) }
}

/// The screen.
pub(super) fn section(results: &RunResults) -> Markup {
    html! {
        (banners(results))
        div.front {
            div.side { (costs(results)) (harm(results)) }
            div.side { (fitness(results)) (wrong(results)) }
        }
    }
}

/// What must be read before anything else.
fn banners(results: &RunResults) -> Markup {
    html! {
        @if !results.complete {
            div.banner.costly role="note" {
                strong { "Interrupted." } " Some measurements are missing; " code { "--resume" } " continues the run."
            }
        }
        @if let Some(words) = made_up_words(results) {
            div.banner.heavy role="note" { strong { "Made up." } " " (words) "." }
        }
        @if let Some(words) = made_slower_words(results) {
            div.banner.heavy role="note" { strong { "Made slower." } " " (words) "." }
        }
    }
}

const fn level_class(level: VerdictLevel) -> &'static str {
    match level {
        VerdictLevel::Free => "free",
        VerdictLevel::Costly => "costly",
        VerdictLevel::Heavy => "heavy",
        VerdictLevel::Unknown => "unknown",
    }
}

fn costs(results: &RunResults) -> Markup {
    html! {
        article.panel.costs aria-labelledby="h-costs" {
            h3 #h-costs { a href="#comparison" { "What it costs" } span.soft { ", compared with " (results.experiment.baseline_label()) } }
            @for verdict in &results.verdicts { (cost(results, verdict)) }
            @if results.verdicts.is_empty() { p { "No platform was compared with another, so there is no verdict." } }
        }
    }
}

fn cost(results: &RunResults, verdict: &Verdict) -> Markup {
    let worst = worst_figures(results, &verdict.platform);
    let is_there = measured_labels(results).contains(&verdict.platform);
    let tone = if is_there { level_class(verdict.level) } else { "unknown" };
    let mark = if is_there { level_mark(verdict.level) } else { "–" };
    html! {
        div.cost {
            p.who { strong { (verdict.platform) } " " span.badge.(tone) { (mark) " " (cost_word(results, verdict)) } }
            @if worst.is_empty() { p.soft { (bounded(without_label(verdict))) } } @else {
                ul {
                    @for figure in worst.iter().take(WORST) { li { (link(figure)) b { (figure.by) } } }
                    @if worst.len() > WORST { li.soft { a href="#comparison" { "and " (worst.len() - WORST) " more" } } }
                }
                @if let Some(dark) = dark_words(results, &verdict.platform) { p.soft.small { (dark) } }
            }
        }
    }
}

fn link(figure: &Worse<'_>) -> Markup {
    html! { a href={ "#" (anchor::of_cell(&figure.cell, figure.metric)) } title=(figure.name) { (figure.name) } }
}

fn fitness(results: &RunResults) -> Markup {
    let (classes, platforms) = (class_names(results), judged_platforms(results));
    html! {
        @if !classes.is_empty() {
            article.panel.fitness aria-labelledby="h-fitness" {
                h3 #h-fitness { a href="#fit" { "Fit for what?" } }
                table.fit {
                    thead { tr { td {} @for platform in &platforms { th scope="col" { (platform) } } } }
                    tbody {
                        @for class in &classes {
                            tr {
                                th scope="row" { a href={ "#" (anchor::class(class)) } { (bounded(class)) } }
                                @for platform in &platforms {
                                    td data-class=(class) data-platform=(platform) {
                                        @if let Some(verdict) = verdict_of(results, class, platform) { (short_badge(verdict)) }
                                    }
                                }
                            }
                        }
                    }
                }
                (reasons(results))
            }
        }
    }
}

/// What decides, as far as there is room; the conditions tell all of it.
fn reasons(results: &RunResults) -> Markup {
    let told = deciding(results);
    let more = told.len().saturating_sub(REASONS);
    html! {
        ul.reasons {
            @for told in told.iter().take(REASONS) { li { (with_short_neighbours(results, &bounded(&told.text()))) } }
            @if more > 0 { li.soft { a href="#fit" { "and " (more) " more" } } }
        }
    }
}

fn harm(results: &RunResults) -> Markup {
    html! {
        @if let Some(harm) = Harm::of(results) {
            article.panel.harm aria-labelledby="h-harm" {
                h3 #h-harm { a href="#isolation" { "Who hurts whom?" } }
                @if harm.hurt.is_empty() {
                    @let (mark, text) = harm.none_found();
                    p { (mark) " " (text) }
                }
                ul {
                    @for (worse, neighbour) in harm.hurt.iter().take(WORST) {
                        li {
                            span.pair { strong { (worse.cell.platform) } " beside " span.beside { (anchor::beside(*neighbour)) } }
                            (link(worse)) b { (worse.by) }
                        }
                    }
                    @if harm.hurt.len() > WORST { li.soft { a href="#isolation" { "and " (harm.hurt.len() - WORST) " more" } } }
                }
            }
        }
    }
}

fn wrong(results: &RunResults) -> Markup {
    let (doubts, missing) = (doubts(results), missing_words(results));
    html! {
        @if !doubts.is_empty() || missing.is_some() {
            article.panel.doubts aria-labelledby="h-doubts" {
                h3 #h-doubts { "What to keep in mind" }
                ul {
                    @for doubt in &doubts { li { "! " (doubt) } }
                    @if let Some(missing) = missing { li.soft { "? " (missing) } }
                }
            }
        }
    }
}
