//! The frame of a page: head, security policy, style, navigation, script.
//!
//! The policy forbids every request, and every script but the one below, which is named by its SHA-256. Everything
//! that varies goes through `maud`, which escapes it.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use model::results::RunResults;

use super::super::chart::palette;
use super::super::figures;
use super::parts::Folded;
use super::{
    attribution, clocks, comparison, failures, fit, front, glossary, isolation, probes, provenance,
    simulation, together,
};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");
/// `openssl dgst -sha256 -binary page.js | base64`; the browser test fails when it does not match.
const SCRIPT_SHA256: &str = "Kldqf0BMKEsSAwWrYi1C1fjnCw8KxZNHmo8dg9A8VXs=";

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
        Section::open("summary", "Summary", Some(front::section(results))),
        Section::folded("comparison", "What it costs", comparison::section(results)),
        Section::folded("fit", "Fit for what?", fit::section(results)),
        Section::folded("isolation", "Who hurts whom?", isolation::section(results)),
        Section::open("figures", "Figures", probes::section(results)),
        Section::folded("who", "Who took the time?", attribution::section(results)),
        Section::folded("together", "Several at once", together::section(results)),
        Section::folded("clocks", "Clocks", clocks::section(results)),
        Section::folded("failures", "Failures", failures::section(results)),
        Section::folded("provenance", "How it was measured", Some(provenance::section(results))),
        Section::folded("words", "What the words mean", Some(glossary::section(results))),
    ];
    let title = format!("Bulkhead: {}", results.experiment.name);
    page(&title, &front::header(results), &sections, figures::platform_labels(results).len())
}

/// A section of a page.
pub(crate) struct Section {
    /// Its anchor, also the navigation's.
    id: &'static str,
    /// Its heading.
    title: String,
    /// What is behind its fold, in a line; without one it is not folded.
    line: Option<String>,
    /// What it says; nothing means that the section is left out.
    body: Option<Markup>,
}

impl Section {
    /// A section that is open.
    pub(crate) fn open(id: &'static str, title: &str, body: Option<Markup>) -> Self {
        Self { id, title: title.to_owned(), line: None, body }
    }

    /// One that is folded away.
    fn folded(id: &'static str, title: &str, folded: Option<Folded>) -> Self {
        let (line, body) = folded.unzip();
        Self { id, title: title.to_owned(), line, body }
    }

    fn shown(&self, body: &Markup) -> Markup {
        let heading = html! { h2 id={ "h-" (self.id) } { (self.title) } };
        html! {
            section.fold[self.line.is_some()] id=(self.id) aria-labelledby={ "h-" (self.id) } {
                @match &self.line {
                    Some(line) => { details { summary { (heading) span.line { (line) } } (body) } }
                    None => { (heading) (body) }
                }
            }
        }
    }
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
                // Folds are an index of their own.
                @if sections.iter().all(|section| section.line.is_none()) {
                    nav aria-label="Sections" {
                        ul { @for (section, _) in shown() { li { a href={ "#" (section.id) } { (section.title) } } } }
                    }
                }
                main { @for (section, body) in shown() { (section.shown(body)) } }
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
