//! Pictures of the share probe: what the first instance got against what it needed, what the named policy says, how
//! well each policy explains it, and what is guaranteed.

use maud::{Markup, html};

use analysis::policy::words;
use model::policy::{Guarantee, PolicyVerdict, SharePoint};
use model::results::RunResults;
use units::metric::Unit;
use units::three_digits;

use super::super::chart::axis::{Axis, Quantity, Scale};
use super::super::chart::palette::Ink;
use super::super::chart::plot::{Series, Stroke};
use super::super::figures::platform_labels;
use super::parts::{Drawing, behind, figure, line, plain_table, xs, ys};

pub(super) fn share(results: &RunResults) -> Markup {
    let labels = platform_labels(results);
    html! {
        @for verdict in &results.policies {
            p {
                strong { (verdict.sentence) }
                @if let Some(sure) = guaranteed(verdict) { " " (sure) }
            }
            @if !verdict.humps.is_empty() { p { (slices(verdict)) } }
        }
        @for ((layout, other_threads), caption) in curves(results) {
            @let drawn = curve(results, &labels, &layout, other_threads);
            (figure(&format!("What the first of {layout} gets while each other one runs {other_threads} threads"),
                caption, &legend(results, &labels),
                &drawn.draw("CPUs obtained against threads that want to run")))
        }
        @if !results.policies.is_empty() {
            (behind("Table: how well each policy explains it", &fits(results)))
            (behind("Table: what an instance gets beside others that want all", &guarantees(results)))
            (behind("Table: all points", &points(results)))
        }
    }
}

const CAPTION: &str = "Marks are measured, lines say what the named policy would give. Without a named policy there is no line.";

/// Every layout and number of other threads for which there is a curve.
fn curves(results: &RunResults) -> Vec<((String, u32), &'static str)> {
    let mut all: Vec<(String, u32)> = Vec::new();
    for point in results.policies.iter().flat_map(|verdict| &verdict.points) {
        let key = (point.layout.to_string(), point.other_threads);
        if point.first_threads > 0 && point.other_threads > 0 && !all.contains(&key) {
            all.push(key);
        }
    }
    all.into_iter().take(8).map(|key| (key, CAPTION)).collect()
}

fn ink(labels: &[String], platform: &str) -> usize {
    labels.iter().position(|label| label == platform).unwrap_or(0)
}

fn legend(results: &RunResults, labels: &[String]) -> Vec<(Ink, String)> {
    let entry = |verdict: &PolicyVerdict| (Ink(ink(labels, &verdict.platform)), verdict.platform.clone());
    results.policies.iter().map(entry).collect()
}

fn curve(results: &RunResults, labels: &[String], layout: &str, other_threads: u32) -> Drawing {
    let mut series = Vec::new();
    for verdict in &results.policies {
        let here: Vec<&SharePoint> = verdict
            .points
            .iter()
            .filter(|point| point.layout.to_string() == layout && point.other_threads == other_threads)
            .filter(|point| point.first_threads > 0)
            .collect();
        let ink = ink(labels, &verdict.platform);
        let at = |value: f64, point: &SharePoint| (f64::from(point.first_threads), value);
        series.push(Series {
            ink: Ink(ink),
            stroke: Stroke::Marks,
            points: here.iter().map(|point| at(point.first_cpus, point)).collect(),
        });
        let predicted: Vec<(f64, f64)> =
            here.iter().filter_map(|point| Some(at(point.predicted_first_cpus?, point))).collect();
        if !predicted.is_empty() {
            series.push(line(ink, predicted));
        }
    }
    Drawing {
        x: Axis::enclosing(
            Scale::FromZero,
            Quantity::Of(Unit::Count),
            "threads of the first instance",
            xs(&series),
        ),
        y: Axis::enclosing(Scale::FromZero, Quantity::Of(Unit::Count), "CPUs it gets", ys(&series)),
        series,
        rules: Vec::new(),
    }
}

/// What an instance is sure of beside one other and beside three, in a sentence; none where no policy was named.
pub(crate) fn guaranteed(verdict: &PolicyVerdict) -> Option<String> {
    let needed = verdict.guarantees.iter().map(|guarantee| guarantee.needed_cpus).max()?;
    let beside = |others: u32| {
        let is_wanted =
            |g: &&Guarantee| g.needed_cpus == needed && g.instances.checked_sub(1) == Some(others);
        let found = verdict.guarantees.iter().find(is_wanted)?;
        Some(three_digits(found.guaranteed_cpus))
    };
    let needed = if needed == 1 { "one CPU".to_owned() } else { format!("{needed} CPUs") };
    Some(format!(
        "An instance that needs {needed} gets {} beside one other that wants all, {} beside three.",
        beside(1)?,
        beside(3)?
    ))
}

/// The lengths of time slices in a sentence.
fn slices(verdict: &PolicyVerdict) -> String {
    let all: Vec<String> = verdict
        .humps
        .iter()
        .map(|hump| {
            format!("{} ({} %)", hump.length_ns, three_digits(f64::from(hump.share_per_mille) / 10.0))
        })
        .collect();
    format!(
        "On {}, threads that wait for a CPU are away for about {} of the time away.",
        verdict.platform,
        all.join(", ")
    )
}

fn fits(results: &RunResults) -> Markup {
    let rows: Vec<Vec<String>> = results
        .policies
        .iter()
        .flat_map(|verdict| {
            verdict.fits.iter().map(|fit| {
                vec![
                    verdict.platform.clone(),
                    words(fit.policy).to_owned(),
                    fit.parameter.map_or_else(|| "–".to_owned(), three_digits),
                    format!("{} %", three_digits(fit.misfit_share * 100.0)),
                ]
            })
        })
        .collect();
    plain_table(&["Platform", "Policy", "Parameter", "Off by"], &rows)
}

fn guarantees(results: &RunResults) -> Markup {
    let rows: Vec<Vec<String>> = results
        .policies
        .iter()
        .flat_map(|verdict| {
            verdict.guarantees.iter().map(|guarantee| {
                vec![
                    verdict.platform.clone(),
                    guarantee.instances.to_string(),
                    guarantee.needed_cpus.to_string(),
                    three_digits(guarantee.guaranteed_cpus),
                ]
            })
        })
        .collect();
    plain_table(
        &["Platform", "Instances", "CPUs it needs", "CPUs it gets beside others that want all"],
        &rows,
    )
}

fn points(results: &RunResults) -> Markup {
    let rows: Vec<Vec<String>> = results
        .policies
        .iter()
        .flat_map(|verdict| {
            verdict.points.iter().map(|point| {
                vec![
                    verdict.platform.clone(),
                    point.layout.to_string(),
                    point.first_threads.to_string(),
                    point.other_threads.to_string(),
                    three_digits(point.first_cpus),
                    point.predicted_first_cpus.map_or_else(|| "–".to_owned(), three_digits),
                    three_digits(point.other_cpus),
                ]
            })
        })
        .collect();
    plain_table(
        &[
            "Platform",
            "Layout",
            "Its threads",
            "Threads of each other",
            "CPUs it got",
            "Predicted",
            "CPUs of each other",
        ],
        &rows,
    )
}
