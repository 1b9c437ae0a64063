//! Traffic drawn: a table of places by places, each cell what goes between them. Places are memory nodes; where those are many, hosts.

use std::collections::{BTreeMap, BTreeSet};

use maud::{Markup, html};

use model::partition::NumberList;
use model::plan::Placed;

use super::super::super::plan::rate;
use super::super::parts::scrolling;
use super::{Book, short};

/// Places that a table bears.
const PLACES_MOST: usize = 16;

/// Bytes per second by the two places, each pair once, the first place the one that comes first.
struct Traffic {
    places: BTreeSet<String>,
    between: BTreeMap<(String, String), u64>,
}

impl Traffic {
    fn of(book: &Book<'_>, place: impl Fn(&Placed) -> String) -> Self {
        let where_is: BTreeMap<&str, String> =
            book.plan.partitions.iter().map(|placed| (placed.name.as_str(), place(placed))).collect();
        let mut traffic = Self { places: BTreeSet::new(), between: BTreeMap::new() };
        for talk in &book.plan.talks {
            let ends = (where_is.get(talk.from.as_str()), where_is.get(talk.to.as_str()));
            let (Some(from), Some(to)) = ends else { continue };
            let (first, second) = if from <= to { (from, to) } else { (to, from) };
            traffic.places.extend([from.clone(), to.clone()]);
            let sum = traffic.between.entry((first.clone(), second.clone())).or_default();
            *sum = sum.saturating_add(talk.bytes_per_s.get());
        }
        traffic
    }

    fn at(&self, one: &String, other: &String) -> u64 {
        let pair = if one <= other { (one.clone(), other.clone()) } else { (other.clone(), one.clone()) };
        self.between.get(&pair).copied().unwrap_or(0)
    }
}

/// The table; none where nobody speaks, all do at one place, or places are too many.
pub(super) fn drawn(book: &Book<'_>) -> Option<Markup> {
    let node = |placed: &Placed| {
        let nodes = NumberList::of(placed.seats.iter().map(|seat| seat.node));
        format!("{} node {nodes}", short(&placed.host))
    };
    let by_node = Traffic::of(book, node);
    let traffic = if by_node.places.len() <= PLACES_MOST {
        by_node
    } else {
        Traffic::of(book, |placed| short(&placed.host))
    };
    if traffic.places.len() < 2 || traffic.places.len() > PLACES_MOST {
        return None;
    }
    let most = traffic.between.values().copied().max().unwrap_or(0).max(1);
    let heat = |bytes: u64| match u128::from(bytes) * 3 / u128::from(most) {
        _ if bytes == 0 => "h0",
        0 => "h1",
        1 => "h2",
        _ => "h3",
    };
    let table = html! {
        table.map {
            thead { tr { td {} @for place in &traffic.places { th scope="col" { (place) } } } }
            tbody {
                @for row in &traffic.places {
                    tr {
                        th scope="row" { (row) }
                        @for column in &traffic.places {
                            @let bytes = traffic.at(row, column);
                            td class=(heat(bytes)) { @if bytes == 0 { "–" } @else { (rate(bytes)) } }
                        }
                    }
                }
            }
        }
    };
    Some(html! {
        p.soft { "What goes between places, both directions together; the darker, the more." }
        (scrolling("Traffic between places", &table))
    })
}
