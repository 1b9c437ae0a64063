//! Picture of the threads-versus-time probe: measured times, the fitted flat-then-linear line, and its knee.

use maud::{Markup, html};

use model::results::RunResults;
use probes::ProbeKind;
use probes::detail::{CpuDetail, Detail};
use stats::threads::{ThreadFit, fit_threads};
use units::metric::Unit;
use units::three_digits;

use super::super::chart::axis::{Axis, Quantity, Scale};
use super::super::chart::palette::Ink;
use super::super::chart::plot::{Rule, Series, Stroke};
use super::super::figures::{details, value_text};
use super::parts::{Drawing, behind, figure, line, plain_table, xs, ys};

struct Threads<'a> {
    ink: usize,
    label: String,
    detail: &'a CpuDetail,
    medians: Vec<(u32, f64)>,
    fit: Option<ThreadFit>,
}

fn all(results: &RunResults) -> Vec<Threads<'_>> {
    details(results, ProbeKind::Cpu)
        .into_iter()
        .filter_map(|(ink, label, detail)| match detail {
            Detail::Cpu(detail) => {
                let medians: Vec<(u32, f64)> = detail
                    .points
                    .iter()
                    .filter_map(|point| Some((point.threads, median(&point.elapsed_ns)?)))
                    .collect();
                let fit = fit_threads(&medians);
                Some(Threads { ink, label, detail, medians, fit })
            }
            _ => None,
        })
        .collect()
}

fn median(times: &[units::Nanos]) -> Option<f64> {
    let mut sorted = times.to_vec();
    sorted.sort_unstable();
    sorted.get(sorted.len() / 2).map(|time| time.as_f64())
}

pub(super) fn pictures(results: &RunResults) -> Markup {
    let all = all(results);
    let legend: Vec<(Ink, String)> =
        all.iter().map(|threads| (Ink(threads.ink), threads.label.clone())).collect();
    html! {
        (figure("Time until all threads are done", "Marks are the measured times of every repetition, lines the fit: flat \
            up to the knee (upright dashed line), then in proportion to the number of threads.",
            &legend, &drawing(&all).draw("Time against number of threads, with fitted lines")))
        (behind("Table: fits and times", &html! { (fits(&all)) (times(&all)) }))
    }
}

fn drawing(all: &[Threads<'_>]) -> Drawing {
    let mut series = Vec::new();
    let mut rules = Vec::new();
    for threads in all {
        let measured =
            threads.detail.points.iter().flat_map(|point| {
                point.elapsed_ns.iter().map(|time| (f64::from(point.threads), time.as_f64()))
            });
        series.push(Series { ink: Ink(threads.ink), stroke: Stroke::Marks, points: measured.collect() });
        if let (Some(fit), Some(last)) = (&threads.fit, threads.medians.last()) {
            series.push(line(threads.ink, fitted(fit, f64::from(last.0))));
            rules.push(Rule::Upright(Ink(threads.ink), fit.units));
        }
    }
    Drawing {
        x: Axis::enclosing(Scale::FromZero, Quantity::Of(Unit::Count), "threads", xs(&series)),
        y: Axis::enclosing(Scale::FromZero, Quantity::Of(Unit::Nanoseconds), "time", ys(&series)),
        series,
        rules,
    }
}

/// Flat up to the knee, then linear up to the largest number of threads.
fn fitted(fit: &ThreadFit, last: f64) -> Vec<(f64, f64)> {
    let knee = fit.units.clamp(1.0, last.max(1.0));
    let mut points = vec![(1.0, fit.flat_ns), (knee, fit.flat_ns)];
    if last > knee {
        points.push((last, fit.flat_ns + fit.slope_ns_per_thread * (last - knee)));
    }
    points
}

fn fits(all: &[Threads<'_>]) -> Markup {
    let rows: Vec<Vec<String>> = all
        .iter()
        .map(|threads| match &threads.fit {
            Some(fit) => vec![
                threads.label.clone(),
                threads.detail.cpus.to_string(),
                three_digits(fit.units),
                value_text(Unit::Nanoseconds, fit.flat_ns),
                value_text(Unit::Nanoseconds, fit.slope_ns_per_thread),
                format!("{} %", three_digits(fit.relative_misfit * 100.0)),
            ],
            None => vec![
                threads.label.clone(),
                threads.detail.cpus.to_string(),
                "n/a: too few points for a fit".to_owned(),
            ],
        })
        .collect();
    plain_table(
        &[
            "Platform",
            "CPUs it says it has",
            "CPUs it grants (knee)",
            "Flat time",
            "Per further thread",
            "Misfit",
        ],
        &rows,
    )
}

fn times(all: &[Threads<'_>]) -> Markup {
    let mut counts: Vec<u32> = all.iter().flat_map(|threads| threads.medians.iter().map(|m| m.0)).collect();
    counts.sort_unstable();
    counts.dedup();
    let head: Vec<&str> =
        std::iter::once("Threads").chain(all.iter().map(|threads| threads.label.as_str())).collect();
    let rows: Vec<Vec<String>> = counts
        .iter()
        .map(|count| {
            let time = |threads: &Threads<'_>| {
                let found = threads.medians.iter().find(|median| median.0 == *count);
                found.map_or_else(|| "not measured".to_owned(), |m| value_text(Unit::Nanoseconds, m.1))
            };
            std::iter::once(count.to_string()).chain(all.iter().map(time)).collect()
        })
        .collect();
    plain_table(&head, &rows)
}
