//! A plan on a terminal: what it is worth, who sits where, what a failure takes, what was assumed. 80 columns, legible without colour.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use model::partition::NumberList;
use model::plan::{
    Elsewhere, Goal, GoalValue, NeedUnit, OtherPlace, Placed, Plan, Predicted, RefusedPlace, Rule, Survivor,
};
use model::system::Level;
use units::{Bytes, three_digits};

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

/// How many needs are predicted to get less than they want, though the rules hold.
pub(crate) fn short_needs(plan: &Plan) -> usize {
    plan.predictions.iter().filter(|one| one.margin_percent().is_some_and(|margin| margin < 0.0)).count()
}

/// Whether all needs hold, with so many that are predicted to fall short.
pub(crate) fn holding(short: usize) -> String {
    match short {
        0 => "All needs hold".to_owned(),
        1 => "All rules hold, but one need is predicted to fall short".to_owned(),
        several => format!("All rules hold, but {several} needs are predicted to fall short"),
    }
}

/// The whole plan, or one screen of it.
pub fn terminal(plan: &Plan, style: Style, full: bool) -> String {
    let mut out = String::new();
    let columns = style.columns();
    let used = plan.hosts.iter().filter(|host| host.set_file.is_some()).count();
    let is_best = plan.goals.iter().all(is_proven);
    let answer = format!(
        "{}: {} on {} of {}. {}{}.",
        printable(&plan.system),
        count(plan.partitions.len(), "partition"),
        used,
        count(plan.hosts.len(), "host"),
        holding(short_needs(plan)),
        if is_best { "; no plan is better" } else { "; whether a better one exists is not known" }
    );
    out.push_str(&paragraph("", &answer, columns));
    out.push('\n');
    goals(&mut out, plan);
    hosts(&mut out, plan, full);
    talks(&mut out, plan, full);
    predictions(&mut out, plan, full);
    failures(&mut out, plan, columns, full);
    why(&mut out, plan, columns, full);
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
        NeedUnit::PerMille => format!("{} %", three_digits(number as f64 / 10.0)),
    }
}

/// Between what and what a need is predicted to lie.
pub fn between(one: &Predicted) -> String {
    let high = need_number(one.unit, one.high);
    if one.low == one.high {
        return high;
    }
    let low = need_number(one.unit, one.low);
    // The unit once, where it is the same.
    match (low.split_once(' '), high.split_once(' ')) {
        (Some((number, unit)), Some((_, same))) if unit == same => format!("{number} to {high}"),
        _ => format!("{low} to {high}"),
    }
}

/// What is left of what is wanted, or how much is lacking.
pub fn left(one: &Predicted) -> String {
    match one.margin_percent() {
        None => String::new(),
        Some(margin) if margin < 0.0 => format!("{:.0} % short", -margin),
        Some(margin) => format!("{margin:.0} % left"),
    }
}

/// Predictions, the closest to what is wanted first; then those of which nothing is wanted.
pub fn closest_first(plan: &Plan) -> Vec<&Predicted> {
    let mut all: Vec<&Predicted> = plan.predictions.iter().collect();
    let margin = |one: &Predicted| one.margin_percent().unwrap_or(f64::INFINITY);
    all.sort_by(|a, b| margin(a).total_cmp(&margin(b)));
    all
}

fn predictions(out: &mut String, plan: &Plan, full: bool) {
    if plan.predictions.is_empty() {
        return;
    }
    let most = if full { usize::MAX } else { MOST_SAID };
    let all = closest_first(plan);
    out.push_str("What needs are predicted to get, the closest first\n");
    let mut rows: Vec<Vec<String>> = Vec::new();
    for one in all.iter().take(most) {
        rows.push(vec![
            format!("  {} {}", printable(&one.name), printable(&one.need)),
            between(one),
            one.wanted.map_or_else(String::new, |wanted| format!("of {}", need_number(one.unit, wanted))),
            left(one),
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

/// Nodes of a host.
pub(crate) fn place_words(host: &str, nodes: &NumberList) -> String {
    let word = if nodes.numbers().len() == 1 { "node" } else { "nodes" };
    format!("{} {word} {nodes}", printable(host))
}

/// What it would cost to be there.
pub(crate) fn cost_words(plan: &Plan, place: &OtherPlace) -> String {
    let one = |goal: Goal, value: u64| {
        let planned = plan.goals.iter().find(|planned| planned.goal == goal).map_or(0, |goal| goal.value);
        let more = if value > planned { "more" } else { "less" };
        let number = goal_number(goal, value.abs_diff(planned));
        match goal {
            Goal::Moves => format!("{number} {more} moved"),
            Goal::Hosts => format!("{number} {more} in use"),
            Goal::SocketsSpanned => format!("{number} {more} spanned"),
            Goal::BetweenHosts => format!("{number} {more} between hosts"),
            Goal::BetweenNodes => format!("{number} {more} between memory nodes"),
            Goal::FullestNode => format!("fullest memory node {value} %, not {planned} %"),
        }
    };
    if place.goals.is_empty() {
        return "as good".to_owned();
    }
    place.goals.iter().map(|other| one(other.goal, other.value)).collect::<Vec<_>>().join(", ")
}

/// Places that are not possible, and by which rules.
pub(crate) fn refused_words(elsewhere: &Elsewhere) -> String {
    // In the order of the first place of each.
    let mut by: Vec<(&str, &[Rule], Vec<&NumberList>)> = Vec::new();
    for RefusedPlace { host, nodes, rules } in &elsewhere.refused {
        match by.iter_mut().find(|(of, by, _)| of == host && by == rules) {
            Some((_, _, places)) => places.push(nodes),
            None => by.push((host, rules, vec![nodes])),
        }
    }
    let one = |(host, rules, places): (&str, &[Rule], Vec<&NumberList>)| {
        let all = NumberList::of(places.iter().flat_map(|nodes| nodes.numbers().to_vec()));
        let is_each_one = places.iter().all(|nodes| nodes.numbers().len() == 1);
        let place = if is_each_one || places.len() == 1 {
            place_words(host, &all)
        } else {
            format!("{} places of {}", places.len(), place_words(host, &all))
        };
        let rules: Vec<&str> = rules.iter().map(|rule| rule.word()).collect();
        format!("{place} ({})", if rules.is_empty() { "several rules".to_owned() } else { rules.join(", ") })
    };
    by.into_iter().map(one).collect::<Vec<_>>().join(", ")
}

/// What was not found out of other places.
pub(crate) fn left_words(elsewhere: &Elsewhere) -> Option<String> {
    let mut words = Vec::new();
    if elsewhere.looked_at < elsewhere.places {
        words.push(format!("looked at {} of {} places", elsewhere.looked_at, elsewhere.places));
    }
    if elsewhere.not_known > 0 {
        words.push(format!("not known of {}: its search was ended", elsewhere.not_known));
    }
    (!words.is_empty()).then(|| words.join(", "))
}

/// Replicas of which it is known where else they could be; and names of those for which there is nothing to choose.
pub(crate) fn elsewhere_of(plan: &Plan) -> (Vec<(&Placed, &Elsewhere)>, Vec<&str>) {
    let known = plan.partitions.iter().filter_map(|placed| Some((placed, placed.elsewhere.as_ref()?)));
    let (some, none): (Vec<_>, Vec<_>) = known.partition(|(_, elsewhere)| elsewhere.places > 0);
    (some, none.into_iter().map(|(placed, _)| placed.name.as_str()).collect())
}

/// Where a replica is.
pub(crate) fn own_place(placed: &Placed) -> String {
    place_words(&placed.host, &NumberList::of(placed.seats.iter().map(|seat| seat.node)))
}

fn why(out: &mut String, plan: &Plan, columns: usize, full: bool) {
    let (some, none) = elsewhere_of(plan);
    if some.is_empty() {
        return;
    }
    if !full {
        out.push_str("Why each is there, and what the next best place would cost: --full, plan.html\n\n");
        return;
    }
    out.push_str("Why there: where else each could be while all others stay (rules: docs/plan.md)\n");
    let name = |placed: &Placed| printable(&placed.name);
    let widest = some.iter().map(|(placed, _)| width(&name(placed))).max().unwrap_or(0);
    for (placed, elsewhere) in some {
        let next = match &elsewhere.best {
            Some(best) => format!(
                "best of {}; next best {}: {}",
                elsewhere.possible + 1,
                place_words(&best.host, &best.nodes),
                cost_words(plan, best)
            ),
            None if elsewhere.not_known == 0 => "nowhere else".to_owned(),
            None => "whether anywhere else is not known".to_owned(),
        };
        let name = name(placed);
        let first = format!("  {name}{}  ", " ".repeat(widest - width(&name)));
        out.push_str(&paragraph(&first, &format!("{}, {next}", own_place(placed)), columns));
        let refused = refused_words(elsewhere);
        let refused = (!refused.is_empty()).then(|| format!("not possible: {refused}"));
        for words in refused.into_iter().chain(left_words(elsewhere)) {
            out.push_str(&paragraph(&" ".repeat(width(&first)), &words, columns));
        }
    }
    if !none.is_empty() {
        let names = super::text::printable(&none.join(", "), SENTENCE_MOST);
        out.push_str(&paragraph("  ", &format!("Only one place there is for {names}."), columns));
    }
    out.push('\n');
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
