//! The frame of a page: head, security policy, style, navigation, script.
//!
//! The policy forbids every request, and every script but the one below, which is named by its SHA-256. Everything
//! that varies goes through `maud`, which escapes it.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use model::results::RunResults;

use super::super::chart::palette;
use super::super::figures;
use super::{
    attribution, clocks, comparison, failures, fit, isolation, neighbours, probes, provenance, simulation,
    summary, together,
};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
/// `openssl dgst -sha256 -binary page.js | base64`; the browser test fails when it does not match.
const SCRIPT_SHA256: &str = "b1D9OcnAoUy/qicT+NCD2R6DLlgU/wJGD8u4sjh8FGw=";

/// Colours for VMs and combinations of settings.
const SIMULATED_INKS: usize = 16;

/// The report of a run, measured or simulated.
pub fn html(results: &RunResults) -> String {
    if let Some(simulated) = &results.simulation {
        let title = format!("Bulkhead: {}", simulated.scenario);
        return page(
            &title,
            &simulation::header(results, simulated),
            &simulation::sections(simulated),
            SIMULATED_INKS,
        );
    }
    let sections = [
        Section { id: "summary", title: "Summary".to_owned(), body: Some(summary::section(results)) },
        Section { id: "fit", title: "Fit for what?".to_owned(), body: fit::section(results) },
        Section { id: "comparison", title: "Comparison".to_owned(), body: comparison::section(results) },
        Section { id: "isolation", title: "Who hurts whom?".to_owned(), body: isolation::section(results) },
        Section { id: "who", title: "Who took the time?".to_owned(), body: attribution::section(results) },
    ]
    .into_iter()
    .chain(probes::sections(results))
    .chain([
        Section {
            id: "neighbours",
            title: "Beside neighbours".to_owned(),
            body: neighbours::section(results),
        },
        Section { id: "together", title: "Several at once".to_owned(), body: together::section(results) },
        Section { id: "clocks", title: "Clocks".to_owned(), body: clocks::section(results) },
        Section { id: "failures", title: "Failures".to_owned(), body: failures::section(results) },
        Section {
            id: "provenance",
            title: "How it was measured".to_owned(),
            body: Some(provenance::section(results)),
        },
    ])
    .collect::<Vec<_>>();
    let title = format!("Bulkhead: {}", results.experiment.name);
    page(&title, &summary::header(results), &sections, figures::platform_labels(results).len())
}

/// A section of a page.
pub(crate) struct Section {
    /// Its anchor, also the navigation's.
    pub id: &'static str,
    /// Its heading.
    pub title: String,
    /// What it says; nothing means that the section is left out.
    pub body: Option<Markup>,
}

/// A whole page of these sections, with colours for so many series.
pub(crate) fn page(title: &str, header: &Markup, sections: &[Section], inks: usize) -> String {
    let policy = format!(
        "default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{SCRIPT_SHA256}'; img-src data:; \
         base-uri 'none'; form-action 'none'"
    );
    let shown = || sections.iter().filter_map(|section| Some((section, section.body.as_ref()?)));
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy);
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="referrer" content="no-referrer";
                title { (title) }
                // An empty icon of its own keeps browsers from asking for one.
                link rel="icon" href="data:,";
                style { (PreEscaped(style(inks))) }
            }
            body {
                a.skip href="#summary" { "Skip to the summary" }
                (header)
                nav aria-label="Sections" {
                    ul { @for (section, _) in shown() { li { a href={ "#" (section.id) } { (section.title) } } } }
                }
                main {
                    @for (section, body) in shown() {
                        section id=(section.id) aria-labelledby={ "h-" (section.id) } {
                            h2 id={ "h-" (section.id) } { (section.title) }
                            (body)
                        }
                    }
                }
                footer { p { "Made by Bulkhead. This file holds everything it shows and asks nobody for anything." } }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    };
    page.into_string()
}

fn style(inks: usize) -> String {
    let (light, dark) = (palette::variables(inks, false), palette::variables(inks, true));
    format!(
        "{STYLE}:root{{{light}}}@media screen{{:root[data-theme=dark]{{{dark}}}}}\
         @media screen and (prefers-color-scheme:dark){{:root:not([data-theme=light]){{{dark}}}}}{}",
        palette::rules(inks)
    )
}
