//! A host drawn: sockets with their memory nodes, then disks and network cards with who has what of them.

use std::collections::BTreeMap;

use maud::{Markup, html};

use model::plan::PlannedHost;
use model::system::{KnownHost, NodeShape};

use super::super::super::plan::{count, rate};
use super::shapes::{GAP, Part, Shape, bar, framed, line, packed, picture, stacked};
use super::{Book, Sitter, node, short};

/// The most width of a host.
const MOST: u32 = 1160;
/// Width of a disk's or card's bar.
const DEVICE: u32 = 260;
/// Names below a drawing.
const NAMES_MOST: usize = 400;

/// What the squares mean.
pub(super) fn key() -> Markup {
    let swatch = |class: &str, label: &str| {
        html! { svg.swatch-svg viewBox="0 0 24 24" width="20" height="20" aria-hidden="true" {
            g { rect class=(class) x="0.5" y="0.5" width="23" height="23" {} text.tag x="12" y="16" { (label) } }
        } }
    };
    html! {
        ul.legend.plankey {
            li { (swatch("c0", "1")) "a partition, by its number" }
            li { (swatch("pool", "×3")) "CPU shared by 3" }
            li { (swatch("own", "h")) "the host's own" }
            li { (swatch("free", "")) "free" }
            li { (swatch("free", "·")) "empty: its core is kept for one" }
            li { (swatch("spare", "1")) "room kept for when a host dies" }
        }
    }
}

/// All hosts at a glance, each a link.
pub(super) fn overview(book: &Book<'_>) -> Markup {
    html! {
        ul.tiles aria-label="Hosts" {
            @for (at, host) in book.hosts.iter().enumerate() {
                @let load = Load::of(book, host);
                li {
                    a href={ "#" (id(at)) } { (short(&host.name)) }
                    span.tilebar title={ "CPUs: " (load.cpus_percent()) " %" } { span.q0 style={ "width:" (load.cpus_percent()) "%" } {} }
                    span.tilebar title={ "memory: " (load.memory_percent()) " %" } { span.q2 style={ "width:" (load.memory_percent()) "%" } {} }
                    span.soft {
                        @if book.at(&host.name).is_empty() { "nobody" }
                        @else { (book.at(&host.name).len()) " here · CPUs " (load.cpus_percent()) " % · memory " (load.memory_percent()) " %" }
                    }
                }
            }
        }
    }
}

/// A host: what is on it, its drawing, and who the numbers are.
pub(super) fn section(book: &Book<'_>, at: usize, host: &KnownHost, left: &mut usize) -> Markup {
    let is_open = book.is_open();
    let here = book.at(&host.name);
    let planned = book.plan.hosts.iter().find(|planned| planned.name == host.name);
    let load = Load::of(book, host);
    let squares: usize = host.shape.nodes.iter().map(|node| node.cpus.numbers().len()).sum();
    let fits = squares <= *left;
    if fits {
        *left -= squares;
    }
    html! {
        details.host id=(id(at)) open[is_open && (!here.is_empty() || book.hosts.len() == 1)] {
            summary {
                h3 { (short(&host.name)) }
                span.line {
                    @if here.is_empty() { "nobody" } @else {
                        (count(here.len(), "partition")) ", CPUs " (load.cpus_percent()) " %, memory " (load.memory_percent()) " %"
                    }
                    (where_from(planned))
                }
            }
            @if fits { (picture(&drawn(book, host), &format!("Host {}: who sits where", short(&host.name)))) }
            @else { p.soft { "Not drawn: the page would be too large. The table below has everybody." } }
            (names(here))
        }
    }
}

fn where_from(planned: Option<&PlannedHost>) -> Markup {
    html! {
        @if let Some(from) = planned.and_then(|planned| planned.from.as_deref()) { " · " (short(from)) }
        @if let Some(set) = planned.and_then(|planned| planned.set_file.as_deref()) { " · " (short(set)) }
    }
}

/// Where links to the host at this place lead: its name may hold what no address does.
pub(super) fn id(at: usize) -> String {
    format!("host-{}", at + 1)
}

fn names(here: &[Sitter<'_>]) -> Markup {
    html! {
        ul.legend.plankey {
            @for sitter in here.iter().take(NAMES_MOST) {
                li {
                    svg.swatch-svg viewBox="0 0 36 24" width="30" height="20" aria-hidden="true" {
                        g { rect class={ "c" (sitter.hue) } x="0.5" y="0.5" width="35" height="23" {} text.tag x="18" y="16" { (sitter.number) } }
                    }
                    (sitter.name())
                }
            }
            @if here.len() > NAMES_MOST { li.soft { "and " (here.len() - NAMES_MOST) " more" } }
        }
    }
}

/// What of a host is used, of what is not its own.
struct Load {
    /// Hundredths of a CPU: whole ones count 100, shared ones their share.
    cpus: u64,
    cpus_of: u64,
    /// MiB.
    memory: u64,
    memory_of: u64,
}

impl Load {
    fn of(book: &Book<'_>, host: &KnownHost) -> Self {
        let here = book.at(&host.name);
        let length = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        let planned = book.plan.hosts.iter().find(|planned| planned.name == host.name);
        let own = planned.map_or(0, |planned| length(planned.reserved_cpus.numbers().len()));
        let all: u64 = host.shape.nodes.iter().map(|node| length(node.cpus.numbers().len())).sum();
        let memory: u64 = host.shape.nodes.iter().map(|node| node.memory_mib.get()).sum();
        let seats = || here.iter().flat_map(|one| &one.placed.seats);
        Self {
            cpus: here.iter().map(Sitter::hundredths).sum(),
            cpus_of: all.saturating_sub(own).saturating_mul(100),
            memory: seats().map(|seat| seat.memory_mib.get()).sum(),
            memory_of: memory.saturating_sub(host.reserve_memory.get()),
        }
    }

    fn cpus_percent(&self) -> u64 {
        self.cpus.saturating_mul(100) / self.cpus_of.max(1)
    }

    fn memory_percent(&self) -> u64 {
        self.memory.saturating_mul(100) / self.memory_of.max(1)
    }
}

fn drawn(book: &Book<'_>, host: &KnownHost) -> Shape {
    let mut sockets: BTreeMap<u32, Vec<&NodeShape>> = BTreeMap::new();
    for node in &host.shape.nodes {
        sockets.entry(node.socket).or_default().push(node);
    }
    let sockets = sockets.iter().map(|(number, nodes)| {
        let nodes: Vec<Shape> = nodes.iter().map(|node| node::drawn(book, host, node)).collect();
        // Two beside each other, so that two sockets fit beside each other, too.
        let most = nodes.iter().map(|node| node.width).max().unwrap_or(0) * 2 + GAP;
        let inside = stacked(vec![line(&format!("socket {number}"), "head"), packed(nodes, most, GAP)], 2);
        framed(&inside, "socket", &format!("Socket {number}"))
    });
    let sockets = packed(sockets.collect(), MOST, 2 * GAP);
    let devices = devices(book.at(&host.name), host);
    let mut rows = vec![sockets];
    if !devices.is_empty() {
        rows.push(packed(devices, MOST, 3 * GAP));
    }
    stacked(rows, 2 * GAP)
}

/// Disks and cards, each a bar of what it can give.
fn devices(here: &[Sitter<'_>], host: &KnownHost) -> Vec<Shape> {
    let mut shapes = Vec::new();
    for disk in &host.shape.disks {
        // Four fifths are given away, as the rule `disk` says.
        let given = disk.bytes_per_s.low().get() / 5 * 4;
        let of = |sitter: &Sitter<'_>| {
            let need = sitter.needs.and_then(|needs| needs.disk.as_ref());
            need.filter(|_| sitter.placed.disk.as_ref() == Some(&disk.name))
                .map(|need| need.bytes_per_s.get())
        };
        shapes.push(device(&format!("disk {}", short(&disk.name)), disk.node, given, here, of));
    }
    for nic in &host.shape.nics {
        let of = |sitter: &Sitter<'_>| {
            let need = sitter.needs.and_then(|needs| needs.network.as_ref());
            need.filter(|_| sitter.placed.nic.as_ref() == Some(&nic.name)).map(|need| need.bytes_per_s.get())
        };
        shapes.push(device(&format!("nic {}", short(&nic.name)), nic.node, nic.bytes_per_s.get(), here, of));
    }
    shapes
}

fn device(
    name: &str,
    node: Option<u32>,
    total: u64,
    here: &[Sitter<'_>],
    of: impl Fn(&Sitter<'_>) -> Option<u64>,
) -> Shape {
    let part = |sitter: &Sitter<'_>| {
        let amount = of(sitter)?;
        Some(Part {
            amount,
            class: format!("c{}", sitter.hue),
            label: sitter.number.to_string(),
            title: format!("{}: {}", sitter.name(), rate(amount)),
        })
    };
    let parts: Vec<Part> = here.iter().filter_map(part).collect();
    let used: u64 = parts.iter().map(|part| part.amount).sum();
    let node = node.map_or_else(String::new, |node| format!(", node {node}"));
    let words = format!("{} of {}", rate(used), rate(total));
    stacked(
        vec![line(&format!("{name}{node}"), "head"), line(&words, "small"), bar(total, &parts, DEVICE)],
        2,
    )
}
