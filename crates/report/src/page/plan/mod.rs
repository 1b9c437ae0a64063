//! `plan.html`: where partitions go, to look at. One file, no request, every name escaped.
//!
//! ```text
//!  System, KnownHosts, Plan ─► Book: who sits where, each with a number and a hue
//!                               └► summary · hosts (host ─► node ─► shapes: drawings)
//!                                  · traffic · tables: partitions, why there, talks, needs, failures, notes
//! ```

mod host;
mod node;
mod shapes;
mod tables;
mod traffic;

use std::collections::BTreeMap;

use maud::{Markup, html};

use model::partition::set::PartitionEntry;
use model::plan::{Placed, Plan};
use model::system::{Cpu, KnownHost, Level, Needs, System};

use super::super::plan::{count, goal_number, goal_words, holding, is_proven, proof, short_needs};
use super::document::{Section, page};
use super::parts::{bounded, fold, plain_table, scrolling};

/// Hosts that are all drawn open.
const OPEN_HOSTS: usize = 8;
/// CPUs that are drawn, of all hosts together; the rest is in tables.
const SQUARES_MOST: usize = 16_384;

/// The page of a plan.
pub fn html(system: &System, hosts: &[KnownHost], plan: &Plan) -> String {
    let book = Book::new(system, hosts, plan);
    let sections = [
        Section::open("summary", "Summary", Some(summary(&book))),
        Section::open("hosts", "Who sits where", Some(host_section(&book))),
        Section::open("why", "Why there", tables::why(plan)),
        Section::open("talks", "Who speaks with whom", tables::talks(&book)),
        Section::open("needs", "What needs are predicted to get", tables::predictions(plan)),
        Section::open("failures", "What a failure takes", tables::failures(plan)),
        Section::open("assumed", "Not measured, assumed", tables::said(&plan.assumed)),
        Section::open("notes", "To know", tables::said(&plan.notes)),
    ];
    page(&format!("Bulkhead: plan of {}", bounded(&plan.system)), &header(&book), &sections, 0)
}

/// A replica with the number and hue that it has in all drawings.
#[derive(Clone, Copy)]
struct Sitter<'a> {
    /// From 1, in the order of the plan.
    number: usize,
    /// 0 … 6: one for all replicas of a partition.
    hue: usize,
    placed: &'a Placed,
    needs: Option<&'a Needs>,
    entry: Option<&'a PartitionEntry>,
}

impl Sitter<'_> {
    fn is_shared(&self) -> bool {
        self.needs.is_some_and(|needs| needs.cpu == Cpu::Shared)
    }

    fn has_whole_cores(&self) -> bool {
        self.needs.is_some_and(|needs| needs.isolation == Some(Level::Core))
    }

    /// Hundredths of CPUs that it has, or is to have of shared ones.
    fn hundredths(&self) -> u64 {
        let share = self.needs.and_then(|needs| needs.share_percent);
        match (share, self.entry) {
            (Some(share), Some(entry)) if self.is_shared() => u64::from(entry.cpus) * u64::from(share),
            _ => self.placed.seats.iter().flat_map(|seat| seat.cpus.numbers()).map(|_| 100).sum(),
        }
    }

    /// Whether its memory is of the huge pages.
    fn is_huge(&self) -> bool {
        self.entry.is_some_and(|entry| entry.hugepages)
    }

    fn name(&self) -> String {
        short(&self.placed.name)
    }
}

/// A name as long as drawings and tables bear.
fn short(name: &str) -> String {
    super::super::text::printable(name, 64)
}

/// Who sits where.
struct Book<'a> {
    plan: &'a Plan,
    hosts: &'a [KnownHost],
    /// By host.
    sitters: BTreeMap<&'a str, Vec<Sitter<'a>>>,
    /// By the host where room is kept for them.
    spares: BTreeMap<&'a str, Vec<Sitter<'a>>>,
}

impl<'a> Book<'a> {
    fn new(system: &'a System, hosts: &'a [KnownHost], plan: &'a Plan) -> Self {
        let kinds: BTreeMap<&str, usize> =
            system.set.partitions.keys().enumerate().map(|(at, name)| (name.as_str(), at % 7)).collect();
        let (mut sitters, mut spares): (BTreeMap<_, Vec<_>>, BTreeMap<_, Vec<_>>) = Default::default();
        for (at, placed) in plan.partitions.iter().enumerate() {
            let sitter = Sitter {
                number: at + 1,
                hue: kinds.get(placed.of.as_str()).copied().unwrap_or(6),
                placed,
                needs: system.needs.get(&placed.of),
                entry: system.set.partitions.get(&placed.of),
            };
            sitters.entry(placed.host.as_str()).or_default().push(sitter);
            if let Some(spare) = &placed.spare {
                spares.entry(spare.host.as_str()).or_default().push(sitter);
            }
        }
        Self { plan, hosts, sitters, spares }
    }

    fn at(&self, host: &str) -> &[Sitter<'a>] {
        self.sitters.get(host).map_or(&[], Vec::as_slice)
    }

    fn spares_at(&self, host: &str) -> &[Sitter<'a>] {
        self.spares.get(host).map_or(&[], Vec::as_slice)
    }

    /// Which of the hosts it is.
    fn place_of(&self, host: &str) -> Option<usize> {
        self.hosts.iter().position(|one| one.name == host)
    }

    /// Whether hosts are so few that all stand open.
    fn is_open(&self) -> bool {
        self.hosts.len() <= OPEN_HOSTS
    }

    fn used_hosts(&self) -> usize {
        self.plan.hosts.iter().filter(|host| host.set_file.is_some()).count()
    }
}

fn header(book: &Book<'_>) -> Markup {
    let plan = book.plan;
    html! {
        header {
            div {
                h1 { "Plan of " (bounded(&plan.system)) }
                p.soft {
                    (count(plan.partitions.len(), "partition")) " on " (book.used_hosts()) " of "
                    (count(plan.hosts.len(), "host"))
                }
            }
            button #theme type="button" hidden { "Light / dark" }
        }
    }
}

fn summary(book: &Book<'_>) -> Markup {
    let plan = book.plan;
    let is_best = plan.goals.iter().all(is_proven);
    let lacking = short_needs(plan);
    let is_good = is_best && lacking == 0;
    let rows: Vec<Vec<String>> = plan
        .goals
        .iter()
        .map(|goal| vec![goal_words(goal.goal).to_owned(), goal_number(goal.goal, goal.value), proof(goal)])
        .collect();
    html! {
        div.banner.free[is_good].costly[!is_good] role="note" {
            strong { (holding(lacking)) "." } " "
            @if is_best { "No plan is better: that is proven, goal by goal." }
            @else { "Whether a better plan exists is not known for every goal." }
        }
        ul.answers {
            @if let Some(line) = tables::closest(plan) { li { (line) } }
            @if let Some(line) = tables::single_points(plan) { li { (line) } }
            @if !plan.assumed.is_empty() {
                li { a href="#assumed" { (count(plan.assumed.len(), "figure")) } " not measured but assumed." }
            }
        }
        div.words { (scrolling("Goals", &plain_table(&["Goal, the most important first", "This plan", "Proof"], &rows))) }
    }
}

fn host_section(book: &Book<'_>) -> Markup {
    let mut left = SQUARES_MOST;
    let drawn = html! {
        @for (at, host) in book.hosts.iter().enumerate() { (host::section(book, at, host, &mut left)) }
    };
    html! {
        (shapes::patterns())
        (host::key())
        @if book.is_open() { (drawn) }
        @else {
            (host::overview(book))
            (fold(&format!("All {} hosts, drawn", book.hosts.len()), &drawn))
        }
        (tables::partitions(book))
    }
}
