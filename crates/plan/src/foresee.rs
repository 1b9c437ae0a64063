//! What each need is predicted to get where its replica is, and what each failure of a part takes with it.

use std::collections::{BTreeMap, BTreeSet};

use model::plan::{NeedUnit, PartFailure, Predicted, Survivor};
use model::system::Interval;
use units::Millis;

use crate::assemble::Places;
use crate::problem::Problem;

/// The host of a replica; none while it is nowhere.
fn host_of(problem: &Problem, places: &Places, piece: usize) -> Option<usize> {
    places.nodes[piece].first().map(|node| problem.site.nodes[*node].host)
}

/// Need by need.
pub fn predictions(problem: &Problem, places: &Places) -> Vec<Predicted> {
    let mut all = Vec::new();
    for piece in 0..problem.pieces.len() {
        let Some(host) = host_of(problem, places, piece) else { continue };
        let here = &problem.site.hosts[host];
        let needs = &problem.needs[problem.pieces[piece].partition];
        let mut note = |need: &str, unit, wanted, between: Interval<u64>, is_assumed| {
            let (name, need) = (problem.pieces[piece].name.clone(), need.to_owned());
            let (low, high) = (between.low(), between.high());
            all.push(Predicted { name, need, unit, wanted: Some(wanted), low, high, is_assumed });
        };
        if let Some(deadline) = needs.deadline {
            let late = here.facts.wakeup.iter().filter(|wakeup| wakeup.miss_rate <= deadline.miss_rate);
            if let Some(least) = late.map(|wakeup| wakeup.latency_us).min_by_key(|late| late.high()) {
                let response = least.map(|late| late.get().saturating_add(deadline.runtime_us.get()));
                note("deadline", NeedUnit::Us, deadline.within_us.get(), response, false);
            }
        }
        // What is left of a device for this one, with all that the others have of it.
        let left = |rates: Interval<u64>, taken: i64, own: i64| {
            rates.map(|rate| rate.saturating_sub((taken - own).max(0).unsigned_abs()))
        };
        if let (Some(disk), Some(need)) =
            (places.disk[piece].and_then(|disk| here.disks.get(disk)), needs.disk)
        {
            let all = with_same(problem, places, piece, &places.disk);
            let taken = all.iter().map(|other| problem.disk_rate(*other)).sum();
            let left = left(disk.rates, taken, problem.disk_rate(piece));
            note("disk", NeedUnit::BytesPerS, need.bytes_per_s.get(), left, false);
            if let Some(stall) = need.longest_stall_ms {
                let longest = disk.stall(all.len() == 1);
                note("disk.longest_stall_ms", NeedUnit::Ms, stall.get(), longest, !disk.is_measured);
            }
        }
        if let (Some(card), Some(need)) =
            (places.card[piece].and_then(|card| here.cards.get(card)), needs.network)
        {
            let all = with_same(problem, places, piece, &places.card);
            let taken = all.iter().map(|other| problem.network_rate(*other)).sum();
            let left = left(card.rates, taken, problem.network_rate(piece));
            note("network", NeedUnit::BytesPerS, need.bytes_per_s.get(), left, false);
        }
        if let Some(most) = needs.max_downtime_ms {
            let (away, is_assumed) = away(problem, places, piece);
            note("max_downtime_ms", NeedUnit::Ms, most.get(), away, is_assumed);
        }
    }
    all.extend(latencies(problem, places));
    all
}

/// Who has the same device of the same host, itself included.
fn with_same(problem: &Problem, places: &Places, piece: usize, devices: &[Option<usize>]) -> Vec<usize> {
    let host = host_of(problem, places, piece);
    let has = |other: &usize| host_of(problem, places, *other) == host && devices[*other] == devices[piece];
    (0..problem.pieces.len()).filter(has).collect()
}

fn latencies(problem: &Problem, places: &Places) -> Vec<Predicted> {
    let mut all = Vec::new();
    for talk in &problem.talks {
        let Some(most) = talk.latency else { continue };
        let (a, b) = talk.pieces;
        let way = problem.site.way(&places.nodes[a], &places.nodes[b]);
        all.push(Predicted {
            name: problem.pieces[a].name.clone(),
            need: format!("talks_to.{}", problem.pieces[b].name),
            unit: NeedUnit::Us,
            wanted: Some(most.unsigned_abs()),
            low: way.latency.low(),
            high: way.latency.high(),
            is_assumed: way.is_assumed,
        });
    }
    all
}

/// How long a replica's work is away when its host dies, and whether that rests on something that was not measured.
fn away(problem: &Problem, places: &Places, piece: usize) -> (Interval<u64>, bool) {
    let detect = problem.site.detect();
    let hosts = &problem.site.hosts;
    let is_guessed = hosts.iter().any(|host| host.facts.detect_ms.is_none());
    match places.spare[piece].first() {
        Some(node) => {
            let host = &hosts[problem.site.nodes[*node].host];
            let start = host.start();
            let all = Interval::between(
                detect.low().saturating_add(start.low()),
                detect.high().saturating_add(start.high()),
            );
            (all, is_guessed || host.facts.start_ms.is_none())
        }
        None => (detect, is_guessed),
    }
}

/// Part by part.
pub fn failures(problem: &Problem, places: &Places, names: &[String]) -> Vec<PartFailure> {
    let site = &problem.site;
    let mut all = Vec::new();
    let mut fail = |part: String, hit: BTreeSet<usize>, dead: &dyn Fn(usize) -> bool| {
        if !hit.is_empty() {
            all.push(failure(problem, places, names, part, &hit, dead));
        }
    };
    for (number, host) in site.hosts.iter().enumerate() {
        let on = |piece: &usize| host_of(problem, places, *piece) == Some(number);
        let hit: BTreeSet<usize> = (0..problem.pieces.len()).filter(on).collect();
        fail(format!("host {}", host.name), hit.clone(), &|other| other == number);
        let devices = |of: &[Option<usize>], device: usize| -> BTreeSet<usize> {
            hit.iter().copied().filter(|piece| of[*piece] == Some(device)).collect()
        };
        // Room is kept free for when a host dies, not for when one of its devices does.
        for (device, disk) in host.disks.iter().enumerate() {
            fail(format!("disk {}/{}", host.name, disk.name), devices(&places.disk, device), &|_| true);
        }
        for (device, card) in host.cards.iter().enumerate() {
            fail(format!("nic {}/{}", host.name, card.name), devices(&places.card, device), &|_| true);
        }
    }
    let mut switches: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (number, host) in site.hosts.iter().enumerate() {
        switches.entry(host.switch).or_default().push(number);
    }
    for hosts in switches.into_values().filter(|hosts| hosts.len() > 1) {
        let on = |piece: &usize| host_of(problem, places, *piece).is_some_and(|host| hosts.contains(&host));
        let hit: BTreeSet<usize> = (0..problem.pieces.len()).filter(on).collect();
        let words: Vec<&str> = hosts.iter().map(|host| site.hosts[*host].name.as_str()).collect();
        fail(format!("switch of {}", words.join(", ")), hit, &|host| hosts.contains(&host));
    }
    all
}

fn failure(
    problem: &Problem,
    places: &Places,
    names: &[String],
    part: String,
    hit: &BTreeSet<usize>,
    dead: &dyn Fn(usize) -> bool,
) -> PartFailure {
    let (mut lost, mut survive) = (Vec::new(), Vec::new());
    let partitions: BTreeSet<usize> = hit.iter().map(|piece| problem.pieces[*piece].partition).collect();
    let name_of =
        |host: Option<usize>| host.map_or(String::new(), |host| problem.site.hosts[host].name.clone());
    for partition in partitions {
        let of = |piece: &usize| problem.pieces[*piece].partition == partition;
        let left = (0..problem.pieces.len()).filter(of).find(|piece| !hit.contains(piece));
        let spare = hit.iter().copied().filter(of).find(|piece| {
            let host = places.spare[*piece].first().map(|node| problem.site.nodes[*node].host);
            host.is_some_and(|host| !dead(host))
        });
        match (left, spare) {
            (Some(piece), _) => survive.push(Survivor {
                of: names[partition].clone(),
                by: problem.pieces[piece].name.clone(),
                on: name_of(host_of(problem, places, piece)),
                away_ms: Millis::from_millis(problem.site.detect_ms().unsigned_abs()),
            }),
            (None, Some(piece)) => survive.push(Survivor {
                of: names[partition].clone(),
                by: problem.pieces[piece].name.clone(),
                on: name_of(places.spare[piece].first().map(|node| problem.site.nodes[*node].host)),
                away_ms: Millis::from_millis(away(problem, places, piece).0.high()),
            }),
            (None, None) => lost.push(names[partition].clone()),
        }
    }
    PartFailure { part, lost, survive }
}
