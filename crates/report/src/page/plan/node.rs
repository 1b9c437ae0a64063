//! A memory node drawn: last-level caches, in them cores, in them CPUs; below who has its memory.

use maud::html;

use model::system::{KnownHost, NodeShape};

use super::shapes::{GAP, Part, Shape, bar, framed, line, packed, size, stacked};
use super::{Book, Sitter};

/// A CPU's square.
const SIDE: u32 = 24;
/// CPUs of a cache side by side.
const ACROSS: u32 = 8;
/// The least width of a node: its words fit.
const LEAST: u32 = 2 * SIDE * 4;
/// The most width of a node's caches.
const MOST: u32 = 2 * (SIDE + 4) * ACROSS;

/// Who is on a node, and what the host keeps of it.
struct Seen<'a> {
    node: &'a NodeShape,
    sitters: Vec<Sitter<'a>>,
    spares: Vec<Sitter<'a>>,
    reserved: &'a [u32],
    reserved_mib: u64,
}

/// Draws a node.
pub(super) fn drawn<'a>(book: &Book<'a>, host: &'a KnownHost, node: &'a NodeShape) -> Shape {
    let is_there = |sitter: &&Sitter<'a>| sitter.placed.seats.iter().any(|seat| seat.node == node.number);
    let keeps = |sitter: &&Sitter<'a>| {
        let spare = sitter.placed.spare.as_ref();
        spare.is_some_and(|spare| spare.nodes.numbers().contains(&node.number))
    };
    let is_first = host.shape.nodes.first().is_some_and(|first| first.number == node.number);
    let seen = Seen {
        node,
        sitters: book.at(&host.name).iter().filter(is_there).copied().collect(),
        spares: book.spares_at(&host.name).iter().filter(keeps).copied().collect(),
        reserved: book
            .plan
            .hosts
            .iter()
            .find(|planned| planned.name == host.name)
            .map_or(&[], |planned| planned.reserved_cpus.numbers()),
        reserved_mib: if is_first { host.reserve_memory.get() } else { 0 },
    };
    let caches = packed(caches(&seen), MOST, GAP);
    let width = caches.width.max(LEAST);
    let mut rows = vec![line(&format!("node {}", node.number), "head"), caches];
    let pool: Vec<&Sitter<'_>> = seen.sitters.iter().filter(|sitter| sitter.is_shared()).collect();
    if !pool.is_empty() {
        rows.push(chips("shared CPUs", &pool, "pool", width));
    }
    if !seen.spares.is_empty() {
        rows.push(chips("kept free for", &seen.spares.iter().collect::<Vec<_>>(), "spare", width));
    }
    rows.extend(memory(&seen, width));
    framed(&stacked(rows, GAP), "node", &format!("Memory node {}", node.number))
}

fn caches(seen: &Seen<'_>) -> Vec<Shape> {
    let all = [seen.node.cpus.clone()];
    let caches = if seen.node.caches.is_empty() { &all[..] } else { &seen.node.caches };
    caches
        .iter()
        .map(|cache| {
            let inside = cores(seen, cache.numbers());
            framed(
                &packed(inside, ACROSS * SIDE + 3 * ACROSS, 3),
                "cache",
                &format!("Last-level cache of CPUs {cache}"),
            )
        })
        .collect()
}

/// The cores of a cache: hardware threads beside each other.
fn cores(seen: &Seen<'_>, cpus: &[u32]) -> Vec<Shape> {
    let mut left: Vec<u32> = cpus.to_vec();
    let mut shapes = Vec::new();
    while let Some(first) = left.first().copied() {
        let core = seen.node.cores.iter().find(|core| core.numbers().contains(&first));
        let threads: Vec<u32> = match core {
            Some(core) => core.numbers().iter().copied().filter(|cpu| left.contains(cpu)).collect(),
            None => vec![first],
        };
        left.retain(|cpu| !threads.contains(cpu));
        let whole = core.map_or(&threads[..], |core| core.numbers());
        shapes.push(packed(threads.iter().map(|&cpu| square(seen, cpu, whole)).collect(), u32::MAX, 0));
    }
    shapes
}

/// A CPU.
fn square(seen: &Seen<'_>, cpu: u32, core: &[u32]) -> Shape {
    let on = |cpu: u32| {
        seen.sitters.iter().filter(move |sitter| {
            let mut seats = sitter.placed.seats.iter().filter(|seat| seat.node == seen.node.number);
            seats.any(|seat| seat.cpus.numbers().contains(&cpu))
        })
    };
    let here: Vec<&Sitter<'_>> = on(cpu).collect();
    let (class, label, words) = match here.as_slice() {
        [] if seen.reserved.contains(&cpu) => ("own".to_owned(), "h".to_owned(), "the host's own".to_owned()),
        [] => match core.iter().flat_map(|&other| on(other)).find(|sitter| sitter.has_whole_cores()) {
            Some(owner) => {
                ("free".to_owned(), "·".to_owned(), format!("empty, its core is kept for {}", owner.name()))
            }
            None => ("free".to_owned(), String::new(), "free".to_owned()),
        },
        [one] if !one.is_shared() => (format!("c{}", one.hue), one.number.to_string(), one.name()),
        [one] => (
            format!("c{} shared", one.hue),
            one.number.to_string(),
            format!("shared, so far by {} alone", one.name()),
        ),
        several => {
            let names: Vec<String> = several.iter().take(20).map(|sitter| sitter.name()).collect();
            let more = if several.len() > names.len() {
                format!(" and {} more", several.len() - names.len())
            } else {
                String::new()
            };
            (
                "pool".to_owned(),
                format!("×{}", several.len()),
                format!("shared by {}{more}", names.join(", ")),
            )
        }
    };
    let side = SIDE - 1;
    let body = html! {
        g {
            title { "CPU " (cpu) ": " (words) }
            rect class=(class) x="0.5" y="0.5" width=(side) height=(side) {}
            @if !label.is_empty() { text.tag x=(SIDE / 2) y="16" { (label) } }
        }
    };
    Shape { width: SIDE, height: SIDE, body }
}

/// Numbers of partitions after a word.
fn chips(word: &str, sitters: &[&Sitter<'_>], kind: &str, width: u32) -> Shape {
    let chip = |sitter: &&Sitter<'_>| {
        let label = sitter.number.to_string();
        let wide = (size(label.len()) * 7 + 8).max(SIDE - 4);
        let class = if kind == "spare" { "spare".to_owned() } else { format!("c{}", sitter.hue) };
        let why = if kind == "spare" { "room for it when its host dies" } else { "on the shared CPUs" };
        let body = html! {
            g {
                title { (sitter.name()) ": " (why) }
                rect class=(class) x="0.5" y="0.5" width=(wide) height=(LINE_OF_CHIPS) rx="3" {}
                text.tag x=(wide / 2) y="12" { (label) }
            }
        };
        Shape { width: wide + 1, height: LINE_OF_CHIPS + 1, body }
    };
    let mut shapes = vec![line(word, "small")];
    shapes.extend(sitters.iter().map(chip));
    packed(shapes, width, 3)
}

/// Height of the row of numbers.
const LINE_OF_CHIPS: u32 = 16;

/// A bar for memory, and one for huge pages where there are some.
fn memory(seen: &Seen<'_>, width: u32) -> Vec<Shape> {
    let huge_total = seen.node.hugepages_mib.get();
    let total = seen.node.memory_mib.get().saturating_sub(huge_total);
    let part = |sitter: &Sitter<'_>| {
        let seats = sitter.placed.seats.iter().filter(|seat| seat.node == seen.node.number);
        let mib: u64 = seats.map(|seat| seat.memory_mib.get()).sum();
        Part {
            amount: mib,
            class: format!("c{}", sitter.hue),
            label: sitter.number.to_string(),
            title: format!("{}: {mib} MiB", sitter.name()),
        }
    };
    let of = |is_huge: bool| seen.sitters.iter().filter(move |sitter| sitter.is_huge() == is_huge).map(part);
    let own = (seen.reserved_mib > 0).then(|| Part {
        amount: seen.reserved_mib,
        class: "own".to_owned(),
        label: "h".to_owned(),
        title: format!("the host's own: {} MiB", seen.reserved_mib),
    });
    let mut shapes = Vec::new();
    for (what, total, parts) in [
        ("memory", total, own.into_iter().chain(of(false)).collect::<Vec<Part>>()),
        ("huge pages", huge_total, of(true).collect()),
    ] {
        if total == 0 && parts.is_empty() {
            continue;
        }
        let used: u64 = parts.iter().map(|part| part.amount).sum();
        shapes.push(line(&format!("{what}: {used} of {total} MiB"), "small"));
        shapes.push(bar(total, &parts, width));
    }
    shapes
}
