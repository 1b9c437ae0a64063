//! Pictures of the frame probe: each frame at its due time, with the line it must stay below.

use maud::{Markup, html};

use model::results::RunResults;
use probes::ProbeKind;
use probes::detail::{Detail, FramesDetail, due_times_passed};
use units::Nanos;
use units::metric::Unit;

use super::super::super::chart::axis::{Axis, Quantity, Scale};
use super::super::super::chart::palette::Ink;
use super::super::super::chart::plot::{Rule, Series};
use super::super::super::figures::{details, value_text};
use super::super::parts::{Drawing, behind, figure, line, plain_table, xs, ys};

const NS: Quantity = Quantity::Of(Unit::Nanoseconds);
/// Most due times that are drawn of one platform.
const MOST_DRAWN: usize = 1_000_000;

struct Frames<'a> {
    ink: usize,
    label: String,
    detail: &'a FramesDetail,
}

pub(in super::super) fn pictures(results: &RunResults) -> Markup {
    let all: Vec<Frames<'_>> = details(results, ProbeKind::Frames)
        .into_iter()
        .filter_map(|(ink, label, detail)| match detail {
            Detail::Frames(detail) => Some(Frames { ink, label, detail }),
            _ => None,
        })
        .collect();
    let legend: Vec<(Ink, String)> =
        all.iter().map(|frames| (Ink(frames.ink), frames.label.clone())).collect();
    html! {
        div.solid { (figure("How long each frame let people wait", "From each due time until a new picture was there. What reaches the dashed line \
            was not there when the next one was due; every frame missed that way has a point of its own.",
            &legend, &time_line(&all).draw("Time from each frame's due time until it was done, over time"))) }
        (behind("Table: frames", &table(&all)))
    }
}

/// Due time and wait of every frame, those that were missed included.
fn waits(detail: &FramesDetail) -> Vec<(f64, f64)> {
    let period = detail.period_ns;
    let made = detail.numbers().zip(&detail.frame_ns);
    let each = made.flat_map(|(number, frame)| {
        (0..=due_times_passed(*frame, period)).take(MOST_DRAWN).map(move |passed| {
            let before = Nanos::from_nanos(passed.saturating_mul(period.get()));
            let due = number.saturating_add(passed).saturating_mul(period.get());
            (Nanos::from_nanos(due).as_f64(), frame.saturating_sub(before).as_f64())
        })
    });
    each.take(MOST_DRAWN).collect()
}

fn time_line(all: &[Frames<'_>]) -> Drawing {
    let series: Vec<Series> = all.iter().map(|frames| line(frames.ink, waits(frames.detail))).collect();
    let period = all.iter().map(|frames| frames.detail.period_ns.as_f64()).reduce(f64::min);
    Drawing {
        x: Axis::enclosing(Scale::FromZero, NS, "time since the first frame was due", xs(&series)),
        y: Axis::enclosing(
            Scale::Log,
            NS,
            "done after its due time (logarithmic)",
            ys(&series).chain(period),
        ),
        series,
        rules: period.map(|period| Rule::Level(period, "next frame is due".to_owned())).into_iter().collect(),
    }
}

fn table(all: &[Frames<'_>]) -> Markup {
    let rows: Vec<Vec<String>> = all
        .iter()
        .map(|frames| {
            let sorted = |times: &[Nanos]| {
                let mut sorted = times.to_vec();
                sorted.sort_unstable();
                sorted
            };
            let middle = |times: &[Nanos]| {
                sorted(times).get(times.len() / 2).map_or_else(
                    || "n/a: no frames".to_owned(),
                    |time| value_text(Unit::Nanoseconds, time.as_f64()),
                )
            };
            let longest = frames.detail.frame_ns.iter().max().copied().unwrap_or_default();
            vec![
                frames.label.clone(),
                frames.detail.frame_ns.len().to_string(),
                frames.detail.missed.to_string(),
                middle(&frames.detail.work_ns),
                middle(&frames.detail.frame_ns),
                value_text(Unit::Nanoseconds, longest.as_f64()),
            ]
        })
        .collect();
    plain_table(
        &["Platform", "Made", "Missed", "Work, median", "Done after due time, median", "Longest"],
        &rows,
    )
}
