//! "Fit for what?": a table of platforms by classes of work, what decides each verdict, what would change it, and every
//! condition behind it.

use maud::{Markup, html};

use model::classes::{ClassVerdict, ConditionResult, Held, Suitability};
use model::results::RunResults;

use super::super::fit::{
    class_names, held_words, judged_platforms, suitability_mark, verdict_of, verdict_words, weight_words,
};
use super::parts::{bounded, scrolling};

/// The section; left out when no class was asked about.
pub(super) fn section(results: &RunResults) -> Option<Markup> {
    if results.classes.is_empty() {
        return None;
    }
    let (classes, platforms) = (class_names(results), judged_platforms(results));
    Some(html! {
        p {
            "Each platform is held against what a class of work needs. A condition holds only when its whole 95 % interval \
             lies on the good side of the bound; where a tail has none, when the share beyond the deadline does at 95 % \
             confidence. Beside neighbours the worst one counts. Classes are data: "
            code { "bulkhead classes" } " prints them, " code { "--classes FILE" } " replaces or adds."
        }
        (scrolling("Platforms by classes of work", &overview(results, &classes, &platforms)))
        h3 { "What decides, and what would change it" }
        (scrolling("What decides", &deciding(results, &classes, &platforms)))
        @for class in &classes { (all_conditions(results, class, &platforms)) }
        details {
            summary { "What the verdicts mean" }
            ul {
                li { strong { "= suited" } ": every required condition holds, and no wanted one is broken." }
                li { strong { "+ with limits" } ": every required condition holds, a wanted one is broken." }
                li { strong { "! unsuited" } ": a required condition is broken." }
                li {
                    strong { "? undecided" } ": a required condition was not measured, or not well enough; where more measuring \
                    decides it, how much, if the figures stay what they are."
                }
            }
        }
    })
}

const fn tone(level: Suitability) -> &'static str {
    match level {
        Suitability::Suited => "free",
        Suitability::Limited => "costly",
        Suitability::Unsuited => "heavy",
        Suitability::Unknown => "unknown",
    }
}

fn badge(verdict: &ClassVerdict) -> Markup {
    html! { span.badge.(tone(verdict.level)) { (suitability_mark(verdict.level)) " " (verdict_words(verdict)) } }
}

fn overview(results: &RunResults, classes: &[String], platforms: &[String]) -> Markup {
    html! {
        table.words.fit {
            thead { tr { th scope="col" { "Platform" } @for class in classes { th scope="col" { (bounded(class)) } } } }
            tbody {
                @for platform in platforms {
                    tr {
                        th scope="row" { (platform) }
                        @for class in classes {
                            td data-class=(class) data-platform=(platform) {
                                @if let Some(verdict) = verdict_of(results, class, platform) { (badge(verdict)) }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn deciding(results: &RunResults, classes: &[String], platforms: &[String]) -> Markup {
    html! {
        table.words.deciding {
            thead { tr {
                th scope="col" { "Platform" } th scope="col" { "Verdict" } th scope="col" { "Decided by" }
                th scope="col" { "What would change it" }
            } }
            @for class in classes {
                @let verdicts = verdicts(results, class, platforms);
                @let title = verdicts.first().map_or(class.as_str(), |verdict| verdict.title.as_str());
                tbody.group {
                    tr { th scope="rowgroup" colspan="4" { (bounded(title)) } }
                    @for verdict in verdicts {
                        tr {
                            th scope="row" { (verdict.platform) }
                            td { (badge(verdict)) }
                            td.why { (bounded(&verdict.reason)) }
                            td.why.soft { (bounded(&verdict.would_change)) (missing(verdict)) }
                        }
                    }
                }
            }
        }
    }
}

/// What was left out, and the command that measures all the class looks at; nothing when nothing was.
fn missing(verdict: &ClassVerdict) -> Markup {
    html! {
        @if let (Some(words), Some(command)) = (verdict.missing_words(), &verdict.measure_with) {
            span.sub { (bounded(&words)) "; all it looks at is measured by " code { (bounded(command)) } }
        }
    }
}

fn verdicts<'a>(results: &'a RunResults, class: &str, platforms: &[String]) -> Vec<&'a ClassVerdict> {
    platforms.iter().filter_map(|platform| verdict_of(results, class, platform)).collect()
}

fn all_conditions(results: &RunResults, class: &str, platforms: &[String]) -> Markup {
    html! {
        details {
            summary { "Every condition of " (class) }
            @for verdict in verdicts(results, class, platforms) {
                h4 { (verdict.platform) " " (badge(verdict)) }
                (scrolling(&format!("Conditions of {class} on {}", verdict.platform), &conditions(verdict)))
            }
        }
    }
}

fn conditions(verdict: &ClassVerdict) -> Markup {
    let decided = verdict.decided_by.and_then(|index| usize::try_from(index).ok());
    html! {
        table.words {
            thead { tr {
                th scope="col" { "Condition" } th scope="col" { "Holds?" } th scope="col" { "Measured" } th scope="col" { "Wanted" }
            } }
            tbody {
                @for (index, condition) in verdict.conditions.iter().enumerate() {
                    tr { (condition_cells(condition, decided == Some(index))) }
                }
            }
        }
    }
}

fn condition_cells(condition: &ConditionResult, decides: bool) -> Markup {
    let class = match condition.held {
        Held::Yes => "better",
        Held::No => "worse",
        Held::Unclear | Held::NotMeasured => "soft",
    };
    html! {
        th scope="row" {
            (bounded(&condition.title))
            span.sub {
                (weight_words(condition.weight))
                @if let Some(number) = condition.requirement { ", requirement " (number) " of Danciu 2010" }
                @if decides { ", decides" }
            }
            span.sub { (bounded(&condition.why)) }
        }
        td { span.(class) { (held_words(condition.held)) } }
        td.why { (bounded(&condition.measured)) }
        td.why { (bounded(&condition.bound)) }
    }
}
