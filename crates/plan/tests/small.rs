//! Random systems small enough to try all plans: whether there is one, and what the best is worth. Each plan keeps every rule by
//! another's check, each certificate is accepted, each conflict is as small as it can be.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    clippy::cast_possible_truncation,
    clippy::needless_for_each,
    reason = "tests panic and print; what they make is small"
)]

mod brute;

use std::collections::BTreeSet;
use std::fmt::Write as _;

use audit::certificate::{Verdict, check, goals_match, places_match};
use model::partition::NumberList;
use model::plan::{OtherPlace, OtherValue, Plan, Rule};
use model::system::{KnownHost, System};
use plan::{Answer, MOST_CONFLICTS, Need, Question, conflicts, is_possible, plan, relaxations};
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use brute::Brute;

type Random = Xoshiro256PlusPlus;

fn host(text: &mut String, random: &mut Random, name: &str, nodes: u32) {
    let reserve = *[0, 0, 1].choose(random).unwrap();
    let _ = write!(
        text,
        "[host.{name}]\nreserve_cpus = {reserve}\nreserve_memory_mib = {}\n",
        random.random_range(0..300)
    );
    if random.random_bool(0.4) {
        text.push_str("switch = \"s\"\n");
    }
    let _ = write!(
        text,
        "facts = {{ network_us = {}, detect_ms = {}, start_ms = {}",
        random.random_range(100..900),
        random.random_range(1..3000),
        random.random_range(1000..9000)
    );
    if random.random_bool(0.7) {
        let _ = write!(
            text,
            ", wakeup = [{{ miss_rate = 0.01, latency_us = {} }}]",
            random.random_range(10..200)
        );
    }
    text.push_str(" }\n");
    let per_node = *[2, 3, 4].choose(random).unwrap();
    for node in 0..nodes {
        let first = node * per_node;
        let last = first + per_node - 1;
        let memory = random.random_range(900..3200);
        let huge = if random.random_bool(0.3) { random.random_range(100..600) } else { 0 };
        let _ = write!(
            text,
            "[[host.{name}.node]]\nnumber = {node}\nsocket = {}\ncpus = \"{first}-{last}\"\nmemory_mib = {memory}\nhugepages_mib = {huge}\n",
            node / 2
        );
        if per_node == 4 && random.random_bool(0.5) {
            let _ = writeln!(text, "caches = [\"{first}-{}\", \"{}-{last}\"]", first + 1, first + 2);
        }
        if per_node % 2 == 0 && random.random_bool(0.4) {
            let pairs: Vec<String> = (0..per_node / 2)
                .map(|pair| format!("\"{}-{}\"", first + 2 * pair, first + 2 * pair + 1))
                .collect();
            let _ = writeln!(text, "cores = [{}]", pairs.join(", "));
        }
    }
    for disk in 0..random.random_range(1..3) {
        let node = if random.random_bool(0.5) {
            format!("node = {}\n", random.random_range(0..nodes))
        } else {
            String::new()
        };
        let _ = write!(
            text,
            "[[host.{name}.disk]]\nname = \"d{disk}\"\nbytes_per_s = {}\nstall_ms = 900\nstall_alone_ms = 300\n{node}",
            random.random_range(60..300)
        );
    }
    for nic in 0..random.random_range(0..3).max(random.random_range(0..2)) {
        let node = if random.random_bool(0.5) {
            format!("node = {}\n", random.random_range(0..nodes))
        } else {
            String::new()
        };
        let _ = write!(
            text,
            "[[host.{name}.nic]]\nname = \"n{nic}\"\nbytes_per_s = {}\nreceivers = 1\n{node}",
            random.random_range(60..300)
        );
    }
}

/// `often` makes needs rarer the smaller it is.
fn partition(text: &mut String, random: &mut Random, at: usize, count: usize, hosts: usize, often: f64) {
    let huge = random.random_bool(0.15 * often);
    let _ = write!(
        text,
        "[partition.p{at}]\nprogram = [\"/bin/true\"]\ncpus = {}\nmemory_mib = {}\nhugepages = {huge}\n",
        *(if often > 0.9 { &[1, 1, 2, 2, 3, 4, 6] } else { &[1, 1, 1, 1, 2, 2, 4] }).choose(random).unwrap(),
        random.random_range(128..900)
    );
    if random.random_bool(0.1 * often) {
        text.push_str("ports = [\"8080:80\"]\n");
    }
    let _ = writeln!(text, "[partition.p{at}.needs]");
    let other = |random: &mut Random| random.random_range(0..count);
    let is_shared = random.random_bool(0.25 * often);
    if is_shared {
        let _ = write!(text, "cpu = \"shared\"\nshare_percent = {}\n", random.random_range(10..100));
    }
    if random.random_bool(0.2 * often) {
        text.push_str("replicas = 2\n");
        if random.random_bool(0.6) {
            let _ = writeln!(
                text,
                "apart = \"{}\"",
                ["cache", "node", "socket", "host", "switch"].choose(random).unwrap()
            );
        }
    }
    if random.random_bool(0.25 * often) {
        let level = *["core", "cache", "cache", "node", "socket", "host"].choose(random).unwrap();
        if !(level == "core" && is_shared) {
            let _ = writeln!(text, "isolation = \"{level}\"");
            let whom = other(random);
            if level != "core" && random.random_bool(0.7) && whom != at {
                let _ = writeln!(text, "isolated_from = [\"p{whom}\"]");
            }
        }
    }
    if random.random_bool(0.15 * often) {
        let _ = writeln!(text, "hosts = [\"{}\"]", ["a", "b"][random.random_range(0..hosts)]);
    }
    devices(text, random, often);
    times(text, random, is_shared, often);
    for _ in 0..random.random_range(0..3) {
        let whom = other(random);
        if whom != at && !text.contains(&format!("p{at}.needs.talks_to.p{whom}]")) {
            let _ = write!(
                text,
                "[partition.p{at}.needs.talks_to.p{whom}]\nbytes_per_s = {}\n",
                random.random_range(1..90)
            );
            if random.random_bool(0.3) {
                let _ = writeln!(text, "latency_us = {}", [3, 7, 50, 400, 1000].choose(random).unwrap());
            }
        }
    }
}

/// Disks, cards and what must be near to them.
fn devices(text: &mut String, random: &mut Random, often: f64) {
    let mut near = Vec::new();
    if random.random_bool(0.2 * often) {
        let _ = writeln!(
            text,
            "disk = {{ bytes_per_s = {}, longest_stall_ms = {} }}",
            random.random_range(5..60),
            [200, 500, 1000].choose(random).unwrap()
        );
        near.push("\"disk\"");
    }
    if random.random_bool(0.2 * often) {
        let _ = writeln!(
            text,
            "network = {{ bytes_per_s = {}, receives = {} }}",
            random.random_range(5..60),
            random.random_bool(0.5)
        );
        near.push("\"nic\"");
    }
    if !near.is_empty() && random.random_bool(0.5) {
        let _ = writeln!(text, "near = [{}]", near.join(", "));
    }
}

/// Deadlines and downtimes.
fn times(text: &mut String, random: &mut Random, is_shared: bool, often: f64) {
    if !is_shared && random.random_bool(0.15 * often) {
        let _ = writeln!(
            text,
            "deadline = {{ period_us = 1000, runtime_us = 100, within_us = {}, miss_rate = 0.01 }}",
            random.random_range(120..280)
        );
    }
    if random.random_bool(0.12 * often) {
        let _ = writeln!(text, "max_downtime_ms = {}", random.random_range(1000..12000));
    }
}

/// A small system, and where it was random.
fn small(seed: u64) -> String {
    let mut random = Random::seed_from_u64(seed);
    let random = &mut random;
    let mut text = String::new();
    let hosts = random.random_range(1..=2usize);
    for name in ["a", "b"].into_iter().take(hosts) {
        let nodes = random.random_range(1..=if hosts == 1 { 3 } else { 2 });
        host(&mut text, random, name, nodes);
    }
    if hosts == 2 && random.random_bool(0.3) {
        let _ = write!(
            text,
            "[[link]]\nbetween = [\"a\", \"b\"]\nbytes_per_s = {}\nlatency_us = {}\n",
            random.random_range(10..150),
            random.random_range(20..600)
        );
    }
    let count = random.random_range(2..=6);
    let often = *[0.3, 0.6, 1.0].choose(random).unwrap();
    for at in 0..count {
        partition(&mut text, random, at, count, hosts, often);
    }
    if random.random_bool(0.15) && !text.contains("replicas") {
        text.push_str("[channel.c]\nwriter = \"p0\"\nreaders = [\"p1\"]\nsize_mib = 64\n");
    }
    text
}

fn known(system: &System) -> Vec<KnownHost> {
    system.hosts.iter().flat_map(|(name, host)| host.known(name, host.shape())).collect()
}

/// Seeds that are tried; `BULKHEAD_SEEDS=from:to` tries others.
fn seeds(usual: u64) -> std::ops::Range<u64> {
    let asked = std::env::var("BULKHEAD_SEEDS").ok();
    let range = asked.as_deref().and_then(|text| text.split_once(':'));
    range.map_or(0..usual, |(from, to)| from.parse().unwrap()..to.parse().unwrap())
}

/// Another plan to begin with: some are elsewhere, some were not there.
fn earlier(plan: &Plan, hosts: &[KnownHost], seed: u64) -> Plan {
    let mut random = Random::seed_from_u64(seed);
    let mut plan = plan.clone();
    plan.partitions.retain(|_| random.random_bool(0.8));
    for placed in &mut plan.partitions {
        if random.random_bool(0.5) {
            let host = hosts.choose(&mut random).unwrap();
            placed.host = if random.random_bool(0.1) { "gone".to_owned() } else { host.name.clone() };
            for seat in &mut placed.seats {
                seat.node = random.random_range(0..host.shape.nodes.len()) as u32;
            }
        }
    }
    plan
}

struct Tried {
    system: System,
    hosts: Vec<KnownHost>,
}

impl Tried {
    fn of(seed: u64) -> Option<Self> {
        let system = System::from_toml(&small(seed), "small").ok()?;
        let hosts = known(&system);
        Some(Self { system, hosts })
    }

    fn question<'a>(&'a self, from: Option<&'a Plan>) -> Question<'a> {
        Question { system: &self.system, hosts: &self.hosts, from, proof: true, is_over: &|| false }
    }

    /// Plans, and holds what comes out against what trying all has found.
    fn holds(&self, from: Option<&Plan>, best: Option<[u64; 6]>) -> Option<Plan> {
        match (plan(&self.question(from)), best) {
            (Answer::Impossible { certificate }, None) => {
                assert_eq!(check(certificate.unwrap_or_default().as_bytes()), Ok(Verdict::Infeasible));
                None
            }
            (Answer::Planned(planned), Some(best)) => {
                let plan = planned.plan;
                assert_eq!(audit::broken_rules(&self.system, &self.hosts, &plan), [], "{plan:#?}");
                assert_eq!(audit::goals(&self.system, &self.hosts, &plan, from), best, "{plan:#?}");
                assert_eq!(audit::wrong_claims(&self.system, &self.hosts, &plan, from), [""; 0]);
                assert!(plan.goals.iter().all(|goal| goal.value == goal.least), "{:?}", plan.goals);
                let certificate = planned.certificate.unwrap_or_default();
                let Ok(Verdict::Optimal { goals, places }) = check(certificate.as_bytes()) else {
                    panic!("{:?}\n{certificate}", check(certificate.as_bytes()));
                };
                assert_eq!(goals_match(&plan, &goals), [""; 0]);
                assert_eq!(places_match(&plan, &places), [""; 0]);
                Some(plan)
            }
            (answer, best) => panic!("by trying {best:?}, planned {answer:#?}"),
        }
    }
}

/// Says which system a panic is about.
struct About(u64);

impl Drop for About {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("seed {}:\n{}", self.0, small(self.0));
        }
    }
}

#[test]
fn the_best_plan_is_that_of_trying_all() {
    let (mut tried, mut possible, mut moved) = (0, 0, 0);
    for seed in seeds(6000) {
        let Some(case) = Tried::of(seed) else { continue };
        let brute = Brute::new(&case.system, &case.hosts);
        let Ok(best) = brute.best(None) else { continue };
        tried += 1;
        let _about = About(seed);
        let found = case.holds(None, best);
        let Some(plan) = found else { continue };
        possible += 1;
        let from = earlier(&plan, &case.hosts, seed);
        let best = brute.best(Some(&from)).unwrap();
        moved += usize::from(best.is_some_and(|best| best[0] > 0));
        case.holds(Some(&from), best);
    }
    println!(
        "{possible} of {tried} systems have a plan, {moved} with moves; all are as good as what trying all finds"
    );
    assert!(tried > 1000 && possible > 400 && moved > 100 || std::env::var("BULKHEAD_SEEDS").is_ok());
}

/// Most ways in which disks, cards and spares are chosen anew for one other place.
const MOST_WAYS: usize = 400;

/// Rules beside which others are not asked for.
const ENOUGH: [Rule; 6] = [Rule::Placed, Rule::Deadline, Rule::Cpus, Rule::Pool, Rule::Core, Rule::Memory];
/// Rules by which two must not meet.
const MEETINGS: [Rule; 3] = [Rule::Isolation, Rule::Apart, Rule::Alone];
/// Rules that are named whenever they refuse a place by themselves.
const ASKED: [Rule; 11] = [
    Rule::Isolation,
    Rule::Apart,
    Rule::Alone,
    Rule::Channel,
    Rule::Disk,
    Rule::Network,
    Rule::Uplink,
    Rule::Link,
    Rule::Latency,
    Rule::Near,
    Rule::Downtime,
];

/// Of one replica: each other place is possible, or refused, as trying all says. How many there are of each.
fn elsewhere(case: &Tried, brute: &Brute<'_>, plan: &Plan, name: &str, from: Option<&Plan>) -> [usize; 3] {
    let placed = plan.partitions.iter().find(|placed| placed.name == name).unwrap();
    let said = placed.elsewhere.as_ref().unwrap();
    assert_eq!((said.places, said.not_known), (said.looked_at, 0), "{name}: {said:#?}");
    let (mut counts, mut best) = ([0; 3], None);
    for host in &case.hosts {
        let all: Vec<u32> = host.shape.nodes.iter().map(|node| node.number).collect();
        for bits in 1..1u32 << all.len() {
            let nodes = NumberList::of(all.iter().copied().filter(|number| bits >> number & 1 == 1));
            let own = NumberList::of(placed.seats.iter().map(|seat| seat.node));
            let is_own = host.name == placed.host && nodes == own;
            if nodes.numbers().len() != placed.seats.len() || is_own {
                continue;
            }
            let other = brute.elsewhere(plan, name, &host.name, &nodes).unwrap();
            if other.ways() > MOST_WAYS {
                return [0; 3];
            }
            let mut refused = said.refused.iter();
            let refused = refused.find(|one| one.host == host.name && one.nodes == nodes);
            let worth = other.worth(from);
            let about = format!("{name} on {} {nodes}: {worth:?}, {refused:?}", host.name);
            assert_eq!(worth.is_none(), refused.is_some(), "{about}");
            best = best
                .into_iter()
                .chain(worth.map(|worth| (worth, &host.name, nodes.numbers().to_vec())))
                .min();
            counts[0] += usize::from(worth.is_some());
            let Some(refused) = refused else { continue };
            counts[1] += 1;
            counts[2] += usize::from(refused.rules.is_empty());
            for rule in &refused.rules {
                assert!(!other.can_keep(*rule), "{about}: {} is kept", rule.word());
            }
            // Who fits into no such node, or has no CPUs there, is asked nothing else.
            let is_all = refused.rules.iter().all(|rule| !ENOUGH.contains(rule));
            // Two who must not meet by several rules are told of one of them.
            let is_named = |rule: &Rule| {
                refused.rules.contains(rule)
                    || MEETINGS.contains(rule) && MEETINGS.iter().any(|one| refused.rules.contains(one))
            };
            for rule in ASKED.into_iter().filter(|rule| is_all && !is_named(rule)) {
                assert!(other.can_keep(rule), "{about}: {} is not kept, either", rule.word());
            }
            if refused.rules.is_empty() {
                let broken = Rule::ALL.into_iter().find(|rule| !other.can_keep(*rule));
                assert_eq!(broken, None, "{about}");
            }
        }
    }
    assert_eq!((counts[0] as u64, counts[1]), (said.possible, said.refused.len()), "{name}: {said:#?}");
    let found = best.map(|(worth, host, nodes)| {
        let goals = plan.goals.iter().zip(worth).filter(|(planned, value)| planned.value != *value);
        let goals = goals.map(|(planned, value)| OtherValue { goal: planned.goal, value }).collect();
        OtherPlace { host: host.clone(), nodes: NumberList::of(nodes), goals }
    });
    assert_eq!(said.best, found, "{name}");
    counts
}

#[test]
fn other_places_are_those_of_trying_all() {
    let (mut systems, mut counts) = (0, [0; 3]);
    for seed in seeds(6000) {
        let Some(case) = Tried::of(seed) else { continue };
        let brute = Brute::new(&case.system, &case.hosts);
        let _about = About(seed);
        let Answer::Planned(planned) = plan(&case.question(None)) else { continue };
        let from = seed.is_multiple_of(3).then(|| earlier(&planned.plan, &case.hosts, seed));
        let Answer::Planned(planned) = plan(&case.question(from.as_ref())) else { panic!() };
        let plan = planned.plan;
        assert_eq!(audit::wrong_elsewhere(&case.system, &case.hosts, &plan, from.as_ref()), [""; 0]);
        systems += 1;
        for placed in &plan.partitions {
            let more = elsewhere(&case, &brute, &plan, &placed.name, from.as_ref());
            counts.iter_mut().zip(more).for_each(|(count, more)| *count += more);
        }
    }
    let [possible, refused, together] = counts;
    println!(
        "{systems} systems: {possible} other places are possible, {refused} are not, {together} of these by no rule alone"
    );
    assert!(systems > 500 && possible > 500 && refused > 500 || std::env::var("BULKHEAD_SEEDS").is_ok());
}

#[test]
fn a_conflict_is_as_small_as_it_can_be() {
    let (mut count, mut changes) = (0, 0);
    for seed in seeds(600) {
        let Some(case) = Tried::of(seed) else { continue };
        let question = case.question(None);
        if is_possible(&question, &BTreeSet::new()) == Some(true) {
            continue;
        }
        let all: BTreeSet<Need> = Need::all(&case.system).into_iter().collect();
        if is_possible(&question, &all) == Some(false) {
            // Not even partitions that need nothing fit.
            continue;
        }
        let found = conflicts(&question);
        assert!(!found.is_empty(), "seed {seed}");
        let mut but: BTreeSet<Need> = BTreeSet::new();
        for one in &found {
            count += 1;
            assert!(one.is_minimal && !one.needs.is_empty(), "seed {seed}");
            let all: BTreeSet<Need> = Need::all(&case.system).into_iter().collect();
            let others: BTreeSet<Need> = all.into_iter().filter(|need| !one.needs.contains(need)).collect();
            assert_eq!(is_possible(&question, &others), Some(false), "seed {seed}");
            for need in &one.needs {
                let mut without = others.clone();
                without.insert(need.clone());
                assert_eq!(is_possible(&question, &without), Some(true), "seed {seed}: without {need}");
            }
            but.extend(one.needs.iter().cloned());
        }
        let is_all = is_possible(&question, &but) == Some(true);
        assert!(is_all || found.len() == MOST_CONFLICTS, "seed {seed}: there are more");
        let others: BTreeSet<Need> = found[1..].iter().flat_map(|one| one.needs.clone()).collect();
        for relaxation in relaxations(&question, &found[0].needs, &others) {
            changes += 1;
            assert!(!relaxation.words.is_empty() && (0.0..=1.0).contains(&relaxation.cost), "seed {seed}");
        }
    }
    println!("{count} conflicts, each as small as it can be; {changes} changes that are enough");
    assert!(count > 150 && changes > 150 || std::env::var("BULKHEAD_SEEDS").is_ok());
}
