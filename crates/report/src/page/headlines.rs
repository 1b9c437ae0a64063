//! The picture of a probe that has none of its own: its headline figures of all platforms side by side.

use maud::Markup;
use model::results::RunResults;
use probes::ProbeKind;
use units::metric::{Better, Unit};

use super::super::chart::bars::{BarRow, Item};
use super::super::chart::palette::Ink;
use super::super::chart::svg::Picture;
use super::super::figures::{Finding, Row, Which, finding, platform_labels, rows, sound};
use super::parts::{bars, figure};

/// Headline figures of the unit of the first one, undisturbed.
pub(super) fn picture(results: &RunResults, probe: ProbeKind) -> Markup {
    let mut rows = rows(results, None, Which::Headline);
    rows.retain(|row| row.probe == probe);
    let first = rows.first().map(|row| row.unit);
    rows.retain(|row| Some(row.unit) == first);
    let labels = platform_labels(results);
    let legend: Vec<(Ink, String)> =
        labels.iter().enumerate().map(|(index, label)| (Ink(index), label.clone())).collect();
    let direction = match rows.first().map(|row| row.better) {
        Some(Better::Higher) => " Longer bars are better.",
        Some(Better::Lower) => " Shorter bars are better.",
        Some(Better::Neither) | None => "",
    };
    let caption =
        format!("Bars are estimates over all rounds; the line on a bar is the 95 % interval.{direction}");
    figure("Headline figures", &caption, &legend, &estimates(results, &rows, &legend))
}

fn estimates(results: &RunResults, rows: &[Row], platforms: &[(Ink, String)]) -> Picture {
    let row = |row: &Row| BarRow {
        title: row.title.clone(),
        items: platforms.iter().filter_map(|(ink, label)| item(results, row, *ink, label)).collect(),
    };
    let drawn = rows.iter().map(row).filter(|row| !row.items.is_empty()).collect();
    let unit = rows.first().map_or(Unit::Count, |row| row.unit);
    bars(drawn, unit, ("Headline figures", "estimate over all rounds"))
}

fn item(results: &RunResults, row: &Row, ink: Ink, label: &str) -> Option<Item> {
    let Finding::Metric(metric) = finding(results, row, label) else { return None };
    let estimate = sound(&metric.estimate).ok()?;
    Some(Item { ink, value: estimate.value, interval: (estimate.low, estimate.high) })
}
