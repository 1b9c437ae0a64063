//! Names of the places of a page that links lead to. Ids of metrics come from files that may be forged, so a name keeps only
//! letters, digits and hyphens of them.

use model::journal::{Cell, Neighbour, probe_words};
use probes::ProbeKind;
use units::layout::Layout;

/// Longest name.
const MOST: usize = 120;

/// The text as a name: `p99_ns` becomes `p99-ns`.
pub(super) fn slug(text: &str) -> String {
    text.chars()
        .take(MOST)
        .map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' })
        .collect()
}

/// The row of a figure: `f-gap-max-gap-ns`, `f-gap-max-gap-ns-cpu-second` beside a neighbour.
pub(super) fn figure(
    probe: ProbeKind,
    layout: Option<Layout>,
    neighbour: Option<Neighbour>,
    metric: &str,
) -> String {
    let beside = neighbour.map_or_else(String::new, |neighbour| format!("-{}", beside(neighbour)));
    slug(&format!("f-{}-{metric}{beside}", probe_words(probe, layout)))
}

/// The row of a cell's figure.
pub(super) fn of_cell(cell: &Cell, metric: &str) -> String {
    figure(cell.probe, cell.layout, cell.neighbour, metric)
}

/// What a figure of a probe is: figures that differ in a number share it.
pub(super) fn definition(probe: ProbeKind, ids: &str) -> String {
    slug(&format!("d-{probe}-{}", ids.replace('*', "x")))
}

/// The conditions of a class of work.
pub(super) fn class(name: &str) -> String {
    slug(&format!("class-{name}"))
}

/// `cpu@second`: what tables call a neighbour; the page says once how it is read.
pub(crate) fn beside(neighbour: Neighbour) -> String {
    format!("{}@{}", neighbour.kind, neighbour.place)
}
