//! A plan on a terminal: what it is worth, who sits where, what a failure takes, what was assumed. 80 columns, legible without colour.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use model::plan::{Goal, GoalValue, NeedUnit, Placed, Plan, Predicted, Survivor};
use model::system::Level;
use units::Bytes;

use super::terminal::Style;
use super::text::{paragraph, width};

/// Longest name that is shown whole.
const MOST_SHOWN: usize = 48;
/// Longest sentence that is shown whole.
const SENTENCE_MOST: usize = 600;
/// Rows that are shown of each table unless all are wanted.
const MOST_ROWS: usize = 40;
/// Sentences that are shown of each list.
const MOST_SAID: usize = 12;

fn printable(text: &str) -> String {
    super::text::printable(text, MOST_SHOWN)
}

/// Rows whose columns stand below each other; those of these numbers end at one place, as numbers do.
fn table(rows: &[Vec<String>], right: &[usize]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widest = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| width(cell)).max();
    let widths: Vec<usize> = (0..columns).map(|column| widest(column).unwrap_or(0)).collect();
    let mut out = String::new();
    for row in rows {
        let cells: Vec<String> = row
            .iter()
            .enumerate()
            .map(|(column, text)| {
                let fill = " ".repeat(widths[column] - width(text));
                if right.contains(&column) { format!("{fill}{text}") } else { format!("{text}{fill}") }
            })
            .collect();
        let _ = writeln!(out, "{}", cells.join("  ").trim_end());
    }
    out
}

/// What the goals are called, and what they are counted in.
pub const fn goal_words(goal: Goal) -> &'static str {
    match goal {
        Goal::Moves => "partitions moved",
        Goal::Hosts => "hosts in use",
        Goal::SocketsSpanned => "sockets spanned",
        Goal::BetweenHosts => "traffic between hosts",
        Goal::BetweenNodes => "traffic between memory nodes",
        Goal::FullestNode => "fullest memory node",
    }
}

/// A goal's number with its unit.
pub fn goal_number(goal: Goal, number: u64) -> String {
    match goal {
        Goal::Moves | Goal::Hosts | Goal::SocketsSpanned => number.to_string(),
        Goal::BetweenHosts | Goal::BetweenNodes => rate(number),
        Goal::FullestNode => format!("{number} %"),
    }
}

/// Bytes per second with their unit.
pub(crate) fn rate(bytes: u64) -> String {
    if bytes == 0 { "none".to_owned() } else { format!("{}/s", Bytes::from_bytes(bytes)) }
}

/// Whether nothing less is possible, as far as is proven.
pub(crate) const fn is_proven(goal: &GoalValue) -> bool {
    goal.value == goal.least
}

/// What is proven of a goal's value, in words.
pub(crate) fn proof(goal: &GoalValue) -> String {
    if is_proven(goal) {
        "proven: no plan has less".to_owned()
    } else if goal.least > 0 {
        let over = 100.0 * (goal.value as f64 / goal.least as f64 - 1.0);
        format!("not proven: within {} % of the best", over.ceil())
    } else {
        "not proven".to_owned()
    }
}

/// The whole plan, or one screen of it.
pub fn terminal(plan: &Plan, style: Style, full: bool) -> String {
    let mut out = String::new();
    let columns = style.columns();
    let used = plan.hosts.iter().filter(|host| host.set_file.is_some()).count();
    let is_best = plan.goals.iter().all(is_proven);
    let answer = format!(
        "{}: {} on {} of {}. All needs hold{}.",
        printable(&plan.system),
        count(plan.partitions.len(), "partition"),
        used,
        count(plan.hosts.len(), "host"),
        if is_best { "; no plan is better" } else { "; whether a better one exists is not known" }
    );
    out.push_str(&paragraph("", &answer, columns));
    out.push('\n');
    goals(&mut out, plan);
    hosts(&mut out, plan, full);
    talks(&mut out, plan, full);
    predictions(&mut out, plan, full);
    failures(&mut out, plan, columns, full);
    said(&mut out, "Not measured, assumed", &plan.assumed, columns, full);
    said(&mut out, "To know", &plan.notes, columns, full);
    out
}

/// A number of things.
pub(crate) fn count(number: usize, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

fn goals(out: &mut String, plan: &Plan) {
    let mut rows: Vec<Vec<String>> = Vec::new();
    for goal in &plan.goals {
        // What cannot be anything else is not worth a line.
        if goal.value == 0 && goal.least == 0 {
            continue;
        }
        rows.push(vec![String::from(goal_words(goal.goal)), goal_number(goal.goal, goal.value), proof(goal)]);
    }
    out.push_str(&table(&rows, &[1]));
    out.push('\n');
}

fn hosts(out: &mut String, plan: &Plan, full: bool) {
    let mut left = if full { usize::MAX } else { MOST_ROWS };
    for host in plan.hosts.iter().filter(|host| host.set_file.is_some()) {
        if left == 0 {
            continue;
        }
        let kept = if host.reserved_cpus.numbers().is_empty() {
            String::new()
        } else {
            format!(", CPUs {} its own", host.reserved_cpus)
        };
        let _ = writeln!(out, "{}{kept}", printable(&host.name));
        let mut rows: Vec<Vec<String>> = Vec::new();
        let here = plan.partitions.iter().filter(|placed| placed.host == host.name);
        for placed in here.take(left) {
            left -= 1;
            rows.push(vec![
                format!("  {}", printable(&placed.name)),
                nodes(placed),
                cpus(placed),
                memory(placed),
                devices(placed),
            ]);
        }
        out.push_str(&table(&rows, &[3]));
    }
    let hidden = plan.partitions.len().saturating_sub(if full { usize::MAX } else { MOST_ROWS });
    if hidden > 0 {
        let _ = writeln!(out, "  and {hidden} more: --full, or plan.json");
    }
    out.push('\n');
}

fn nodes(placed: &Placed) -> String {
    let numbers = model::partition::NumberList::of(placed.seats.iter().map(|seat| seat.node));
    format!("{} {numbers}", if placed.seats.len() == 1 { "node" } else { "nodes" })
}

fn cpus(placed: &Placed) -> String {
    let all = placed.seats.iter().flat_map(|seat| seat.cpus.numbers().to_vec());
    format!("CPUs {}", model::partition::NumberList::of(all))
}

fn memory(placed: &Placed) -> String {
    let mib: u64 = placed.seats.iter().map(|seat| seat.memory_mib.get()).sum();
    format!("{mib} MiB")
}

fn devices(placed: &Placed) -> String {
    let mut words: Vec<String> = Vec::new();
    words.extend(placed.disk.iter().map(|disk| format!("disk {}", printable(disk))));
    words.extend(placed.nic.iter().map(|nic| format!("nic {}", printable(nic))));
    words.extend(
        placed.spare.iter().map(|spare| format!("spare {} node {}", printable(&spare.host), spare.nodes)),
    );
    words.join(", ")
}

/// How two are joined.
pub const fn within_words(within: Level) -> &'static str {
    match within {
        Level::Core | Level::Cache | Level::Node => "same node: channel",
        Level::Socket => "same socket: channel or switch",
        Level::Host => "same host: channel or switch",
        Level::Switch => "network",
    }
}

fn talks(out: &mut String, plan: &Plan, full: bool) {
    if plan.talks.is_empty() {
        return;
    }
    let most = if full { usize::MAX } else { MOST_SAID };
    let mut all: Vec<_> = plan.talks.iter().collect();
    all.sort_by_key(|talk| std::cmp::Reverse((talk.within, talk.bytes_per_s)));
    out.push_str("Who speaks with whom, the farthest first\n");
    let mut rows: Vec<Vec<String>> = Vec::new();
    for talk in all.iter().take(most) {
        rows.push(vec![
            format!("  {} - {}", printable(&talk.from), printable(&talk.to)),
            rate(talk.bytes_per_s.get()),
            String::from(within_words(talk.within)),
            format!("{} µs", talk.latency_us.get()),
        ]);
    }
    out.push_str(&table(&rows, &[1, 3]));
    more(out, all.len(), most);
}

fn more(out: &mut String, all: usize, most: usize) {
    if all > most {
        let _ = writeln!(out, "  and {} more: --full, or plan.json", all - most);
    }
    out.push('\n');
}

/// A need's number with its unit.
pub fn need_number(unit: NeedUnit, number: u64) -> String {
    match unit {
        NeedUnit::Us => format!("{number} µs"),
        NeedUnit::Ms => format!("{number} ms"),
        NeedUnit::BytesPerS => rate(number),
    }
}

/// How much of what is wanted is left, in percent.
pub fn margin(one: &Predicted) -> f64 {
    let (wanted, predicted) = (one.wanted as f64, one.predicted as f64);
    match one.unit {
        NeedUnit::BytesPerS => 100.0 * (predicted / wanted.max(1.0) - 1.0),
        NeedUnit::Us | NeedUnit::Ms => 100.0 * (1.0 - predicted / wanted.max(1.0)),
    }
}

fn predictions(out: &mut String, plan: &Plan, full: bool) {
    if plan.predictions.is_empty() {
        return;
    }
    let most = if full { usize::MAX } else { MOST_SAID };
    let mut all: Vec<&Predicted> = plan.predictions.iter().collect();
    all.sort_by(|a, b| margin(a).total_cmp(&margin(b)));
    out.push_str("What needs are predicted to get, the closest first\n");
    let mut rows: Vec<Vec<String>> = Vec::new();
    for one in all.iter().take(most) {
        rows.push(vec![
            format!("  {} {}", printable(&one.name), printable(&one.need)),
            need_number(one.unit, one.predicted),
            format!("wanted {}", need_number(one.unit, one.wanted)),
            format!("{:.0} % left", margin(one)),
            String::from(if one.is_assumed { "assumed" } else { "" }),
        ]);
    }
    out.push_str(&table(&rows, &[1, 3]));
    more(out, all.len(), most);
}

/// Replicas with their hosts.
pub(crate) fn hosts_of(plan: &Plan) -> BTreeMap<&str, &str> {
    plan.partitions.iter().map(|placed| (placed.name.as_str(), placed.host.as_str())).collect()
}

/// How a partition survives: by a replica that runs where it is anyway, or started again.
pub(crate) fn survivor_words(hosts: &BTreeMap<&str, &str>, one: &Survivor) -> String {
    if hosts.get(one.by.as_str()) == Some(&one.on.as_str()) {
        format!("{} goes on as {} on {}", one.of, one.by, one.on)
    } else {
        format!("{} is started on {}", one.by, one.on)
    }
}

fn failures(out: &mut String, plan: &Plan, columns: usize, full: bool) {
    let most = if full { usize::MAX } else { MOST_SAID };
    let (mut said, hosts) = (Vec::new(), hosts_of(plan));
    for failure in &plan.failures {
        if failure.lost.is_empty() {
            let names: Vec<String> = failure.survive.iter().map(|one| survivor_words(&hosts, one)).collect();
            said.push((false, format!("{}: nothing is lost; {}", failure.part, names.join(", "))));
        } else {
            said.push((
                true,
                format!("{}: {} gone, and nobody takes over", failure.part, failure.lost.join(", ")),
            ));
        }
    }
    let single = said.iter().filter(|(is_lost, _)| *is_lost).count();
    if said.is_empty() {
        return;
    }
    said.sort_by_key(|(is_lost, _)| !is_lost);
    let head = if single == 0 {
        "No single point of failure among hosts, switches, disks and cards".to_owned()
    } else {
        format!("Single points of failure: {single}")
    };
    let _ = writeln!(out, "{head}");
    for (_, words) in said.iter().take(most) {
        out.push_str(&paragraph("  ", &super::text::printable(words, SENTENCE_MOST), columns));
    }
    more(out, said.len(), most);
}

fn said(out: &mut String, head: &str, lines: &[String], columns: usize, full: bool) {
    if lines.is_empty() {
        return;
    }
    let most = if full { usize::MAX } else { MOST_SAID };
    let _ = writeln!(out, "{head}");
    for line in lines.iter().take(most) {
        out.push_str(&paragraph("  ", &super::text::printable(line, SENTENCE_MOST), columns));
    }
    more(out, lines.len(), most);
}
