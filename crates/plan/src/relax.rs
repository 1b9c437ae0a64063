//! What would be enough: for each need of a conflict the least change with which all of the system has a plan.

use std::collections::BTreeSet;

use model::system::{DeadlineNeed, DiskNeed, HostEntry, KnownHost, Level, Needs, NetworkNeed, System, Talk};
use units::{Bytes, Mebibytes, Micros, Millis};

use crate::conflict::is_possible;
use crate::need::{Need, NeedKey};
use crate::planner::Question;

/// A change with which there is a plan.
#[derive(Debug, Clone, PartialEq)]
pub struct Relaxation {
    /// In a user's words: "db has 6144 MiB instead of 8192".
    pub words: String,
    /// By how much it changes what was asked, 0 … 1: of all that is asked for there.
    pub cost: f64,
}

/// The longest latencies and times that are tried.
const LONGEST_US: u64 = 10_000_000;
const LONGEST_MS: u64 = 600_000;
/// Levels from the strictest.
const LEVELS: [Level; 6] =
    [Level::Switch, Level::Host, Level::Socket, Level::Node, Level::Cache, Level::Core];

/// What is asked, without the needs of other conflicts.
#[derive(Clone, Copy)]
struct Asked<'a> {
    question: &'a Question<'a>,
    but: &'a BTreeSet<Need>,
}

/// The changes of one conflict's needs, the smallest first; those of other conflicts, `but`, are left aside.
pub fn relaxations(question: &Question<'_>, needs: &[Need], but: &BTreeSet<Need>) -> Vec<Relaxation> {
    let asked = Asked { question, but };
    let mut all: Vec<Relaxation> = needs.iter().filter_map(|need| one(asked, need)).collect();
    all.extend(another_host(asked));
    all.sort_by(|a, b| a.cost.total_cmp(&b.cost));
    all
}

fn holds(asked: Asked<'_>, system: &System) -> bool {
    let changed = Question { system, ..*asked.question };
    is_possible(&changed, asked.but) == Some(true)
}

/// The largest number below `had`, from 0, with which it holds.
fn most(asked: Asked<'_>, had: u64, set: impl Fn(&mut System, u64)) -> Option<u64> {
    let at = |number: u64| {
        let mut system = asked.question.system.clone();
        set(&mut system, number);
        holds(asked, &system)
    };
    let (mut good, mut bad) = (0, had);
    if had == 0 || !at(0) {
        return None;
    }
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        if at(middle) {
            good = middle;
        } else {
            bad = middle;
        }
    }
    Some(good)
}

/// The least number above `had` with which it holds.
fn least(asked: Asked<'_>, had: u64, limit: u64, set: impl Fn(&mut System, u64)) -> Option<u64> {
    let at = |number: u64| {
        let mut system = asked.question.system.clone();
        set(&mut system, number);
        holds(asked, &system)
    };
    let (mut bad, mut good) = (had, limit);
    if had >= limit || !at(limit) {
        return None;
    }
    while good - bad > 1 {
        let middle = bad + (good - bad) / 2;
        if at(middle) {
            good = middle;
        } else {
            bad = middle;
        }
    }
    Some(good)
}

/// A number that was one of 32 bits before.
fn small(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn share_lost(had: u64, has: u64) -> f64 {
    1.0 - has as f64 / (had as f64).max(1.0)
}

fn share_gained(had: u64, has: u64) -> f64 {
    1.0 - had as f64 / (has as f64).max(1.0)
}

/// The system without a need, whatever it is.
fn waive(asked: Asked<'_>, need: &Need, words: String) -> Option<Relaxation> {
    let mut waived = asked.but.clone();
    waived.insert(need.clone());
    (is_possible(asked.question, &waived) == Some(true)).then_some(Relaxation { words, cost: 1.0 })
}

fn one(asked: Asked<'_>, need: &Need) -> Option<Relaxation> {
    let system = asked.question.system;
    let name = need.partition.as_str();
    if need.key == NeedKey::Channel {
        return waive(asked, need, format!("channel {name} is given up"));
    }
    let entry = system.set.partitions.get(name)?;
    let needs = system.needs.get(name)?;
    match &need.key {
        NeedKey::Cpus => {
            let had = u64::from(entry.cpus);
            let has = most(asked, had, |system, cpus| {
                system.set.partitions.entry(name.to_owned()).and_modify(|entry| entry.cpus = small(cpus));
            })?;
            let cpus = if has == 1 { "CPU" } else { "CPUs" };
            let words = format!("{name} has {has} {cpus} instead of {had}");
            (has > 0).then(|| Relaxation { words, cost: share_lost(had, has) })
        }
        NeedKey::Memory => {
            let had = entry.memory_mib.get();
            let has = most(asked, had, |system, mib| {
                let memory = Mebibytes::from_mib(mib);
                system.set.partitions.entry(name.to_owned()).and_modify(|entry| entry.memory_mib = memory);
            })?;
            let words = format!("{name} has {has} MiB instead of {had}");
            (has >= model::partition::LEAST_MEMORY.get())
                .then(|| Relaxation { words, cost: share_lost(had, has) })
        }
        NeedKey::Apart => fewer_replicas(asked, name, needs).or_else(|| looser_apart(asked, name, needs)),
        NeedKey::Isolation => looser_isolation(asked, need, needs),
        NeedKey::Near => waive(asked, need, format!("{name} may be far from its device")),
        NeedKey::Hosts => {
            waive(asked, need, format!("{name} may be on other hosts than {}", needs.hosts.join(", ")))
        }
        NeedKey::Alone => {
            waive(asked, need, format!("{name} gives up ports, folders or disks that another one has"))
        }
        NeedKey::Downtime => longer_away(asked, need, needs),
        NeedKey::Deadline => later(asked, need, needs),
        NeedKey::Disk => less_disk(asked, need, needs),
        NeedKey::Network => less_network(asked, need, needs),
        NeedKey::Talk(other) => quieter(asked, need, needs, other),
        NeedKey::Channel => None,
    }
}

/// Another value of a partition's needs.
fn change(system: &mut System, name: &str, to: impl FnOnce(&mut Needs)) {
    system.needs.entry(name.to_owned()).and_modify(to);
}

fn longer_away(asked: Asked<'_>, need: &Need, needs: &Needs) -> Option<Relaxation> {
    let name = need.partition.as_str();
    let had = needs.max_downtime_ms?.get();
    let has = least(asked, had, LONGEST_MS, |system, ms| {
        change(system, name, |needs| needs.max_downtime_ms = Some(Millis::from_millis(ms)));
    });
    match has {
        Some(has) => Some(Relaxation {
            words: format!("{name} may be away for {has} ms instead of {had}"),
            cost: share_gained(had, has),
        }),
        None => waive(asked, need, format!("{name} may be away for as long as its host is")),
    }
}

fn later(asked: Asked<'_>, need: &Need, needs: &Needs) -> Option<Relaxation> {
    let name = need.partition.as_str();
    let deadline = needs.deadline?;
    let had = deadline.within_us.get();
    let has = least(asked, had, LONGEST_US, |system, us| {
        let later = DeadlineNeed { within_us: Micros::from_micros(us), ..deadline };
        change(system, name, |needs| needs.deadline = Some(later));
    });
    match has {
        Some(has) => Some(Relaxation {
            words: format!("{name} is done within {has} µs instead of {had}"),
            cost: share_gained(had, has),
        }),
        None => {
            waive(asked, need, format!("{name} has no deadline: no host says how late it wakes anybody up"))
        }
    }
}

fn less_network(asked: Asked<'_>, need: &Need, needs: &Needs) -> Option<Relaxation> {
    let name = need.partition.as_str();
    let network = needs.network?;
    let had = network.bytes_per_s;
    let has = most(asked, had.get(), |system, rate| {
        let less = NetworkNeed { bytes_per_s: Bytes::from_bytes(rate), ..network };
        change(system, name, |needs| needs.network = Some(less));
    });
    rate(asked, need, &format!("{name} asks of a network card for"), had, has)
}

fn rate(asked: Asked<'_>, need: &Need, words: &str, had: Bytes, has: Option<u64>) -> Option<Relaxation> {
    match has.filter(|has| *has > 0) {
        Some(has) => Some(Relaxation {
            words: format!("{words} {} per second instead of {had}", Bytes::from_bytes(has)),
            cost: share_lost(had.get(), has),
        }),
        None => waive(asked, need, format!("{words} nothing, instead of {had} per second")),
    }
}

fn less_disk(asked: Asked<'_>, need: &Need, needs: &Needs) -> Option<Relaxation> {
    let name = need.partition.as_str();
    let disk = needs.disk?;
    let had = disk.bytes_per_s;
    let has = most(asked, had.get(), |system, rate| {
        let less = DiskNeed { bytes_per_s: Bytes::from_bytes(rate), ..disk };
        system.needs.entry(name.to_owned()).and_modify(|needs| needs.disk = Some(less));
    });
    if let (None, Some(stall)) = (has, disk.longest_stall_ms) {
        let longer = least(asked, stall.get(), LONGEST_MS, |system, ms| {
            let more = DiskNeed { longest_stall_ms: Some(Millis::from_millis(ms)), ..disk };
            system.needs.entry(name.to_owned()).and_modify(|needs| needs.disk = Some(more));
        });
        if let Some(longer) = longer {
            let words = format!("{name} bears stalls of {longer} ms instead of {}", stall.get());
            return Some(Relaxation { words, cost: share_gained(stall.get(), longer) });
        }
    }
    rate(asked, need, &format!("{name} asks of a disk for"), had, has)
}

fn quieter(asked: Asked<'_>, need: &Need, needs: &Needs, other: &str) -> Option<Relaxation> {
    let name = need.partition.as_str();
    let talk = *needs.talks_to.get(other)?;
    let say = |system: &mut System, talk: Talk| {
        change(system, name, |needs| {
            needs.talks_to.insert(other.to_owned(), talk);
        });
    };
    if let Some(had) = talk.latency_us {
        let longer = least(asked, had.get(), LONGEST_US, |system, us| {
            say(system, Talk { latency_us: Some(Micros::from_micros(us)), ..talk });
        });
        if let Some(longer) = longer {
            let words =
                format!("messages of {name} to {other} may take {longer} µs instead of {}", had.get());
            return Some(Relaxation { words, cost: share_gained(had.get(), longer) });
        }
    }
    let has = most(asked, talk.bytes_per_s.get(), |system, rate| {
        say(system, Talk { bytes_per_s: Bytes::from_bytes(rate), ..talk });
    });
    rate(asked, need, &format!("{name} says to {other}"), talk.bytes_per_s, has)
}

fn fewer_replicas(asked: Asked<'_>, name: &str, needs: &Needs) -> Option<Relaxation> {
    let had = u64::from(needs.replicas);
    let has = most(asked, had, |system, count| {
        system.needs.entry(name.to_owned()).and_modify(|needs| needs.replicas = small(count));
    })?;
    let replicas = if has == 1 { "replica" } else { "replicas" };
    let words = format!("{name} has {has} {replicas} instead of {had}");
    (has > 0).then(|| Relaxation { words, cost: share_lost(had, has) })
}

fn looser_apart(asked: Asked<'_>, name: &str, needs: &Needs) -> Option<Relaxation> {
    let had = needs.apart();
    weaker(had, false).find_map(|level| {
        let mut system = asked.question.system.clone();
        system.needs.entry(name.to_owned()).and_modify(|needs| needs.apart = Some(level));
        let words = format!("replicas of {name} are apart by {} instead of {}", level.word(), had.word());
        holds(asked, &system).then_some(Relaxation { words, cost: 0.5 })
    })
}

fn looser_isolation(asked: Asked<'_>, need: &Need, needs: &Needs) -> Option<Relaxation> {
    let had = needs.isolation?;
    let name = need.partition.as_str();
    let all = needs.isolated_from.is_empty();
    weaker(had, all)
        .find_map(|level| {
            let mut system = asked.question.system.clone();
            system.needs.entry(name.to_owned()).and_modify(|needs| needs.isolation = Some(level));
            let words = format!("{name} has its {} for itself instead of its {}", level.word(), had.word());
            holds(asked, &system).then_some(Relaxation { words, cost: 0.5 })
        })
        .or_else(|| waive(asked, need, format!("{name} may have a {} in common with others", had.word())))
}

/// Levels that ask for less, the strictest first; cores only of everybody.
fn weaker(than: Level, with_cores: bool) -> impl Iterator<Item = Level> {
    LEVELS.into_iter().filter(move |level| *level < than && (with_cores || *level != Level::Core))
}

/// One more host of a kind that is there.
fn another_host(asked: Asked<'_>) -> Vec<Relaxation> {
    let mut found = Vec::new();
    for (name, entry) in &asked.question.system.hosts {
        let is_one = |host: &&KnownHost| entry.name_of(name, 1) == host.name;
        let Some(like) = asked.question.hosts.iter().find(is_one) else { continue };
        let mut hosts = asked.question.hosts.to_vec();
        let another = KnownHost {
            name: format!("{name}-more"),
            switch: another_switch(entry, like, name),
            ..like.clone()
        };
        hosts.push(another);
        let changed = Question { hosts: &hosts, ..*asked.question };
        if is_possible(&changed, asked.but) == Some(true) {
            let words = format!("there is one more host such as {}", like.name);
            found.push(Relaxation { words, cost: 0.9 });
        }
    }
    found
}

fn another_switch(entry: &HostEntry, like: &KnownHost, name: &str) -> String {
    if entry.switch.is_some() { like.switch.clone() } else { format!("{name}-more/") }
}
