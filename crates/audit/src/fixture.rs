//! Small systems and plans for tests, written shortly.

use model::partition::NumberList;
use model::plan::{
    Goal, GoalValue, PLAN_SCHEMA_VERSION, Placed, Plan, PlannedHost, PlannedTalk, Seat, Spare,
};
use model::system::{KnownHost, Level, System};
use units::{Bytes, Mebibytes, Micros};

use crate::{Broken, Rule, broken_rules};

/// A host of two nodes at two sockets: each of four cores with two threads, of two last-level caches, and 8 GiB, half of it huge pages on
/// the second one. The first core is its own. A card and two disks.
pub(crate) const TWO_NODES: &str = r#"
reserve_cpus = 2
reserve_memory_mib = 1024
[[host.NAME.node]]
number = 0
socket = 0
cpus = "0-7"
memory_mib = 8192
caches = ["0-1,4-5", "2-3,6-7"]
cores = ["0,4", "1,5", "2,6", "3,7"]
[[host.NAME.node]]
number = 1
socket = 1
cpus = "8-15"
memory_mib = 8192
hugepages_mib = 4096
caches = ["8-9,12-13", "10-11,14-15"]
cores = ["8,12", "9,13", "10,14", "11,15"]
[[host.NAME.nic]]
name = "eth0"
node = 0
bytes_per_s = 1000
[[host.NAME.disk]]
name = "near"
node = 1
bytes_per_s = 1001
stall_ms = 500
stall_alone_ms = 100
[[host.NAME.disk]]
name = "anywhere"
bytes_per_s = 100
[host.NAME.facts]
start_ms = 20000
detect_ms = 2000
wakeup = [{ miss_rate = 0.001, latency_us = 50 }, { miss_rate = 0.0, latency_us = 200 }]
"#;

/// Hosts of [`TWO_NODES`], by name.
pub(crate) fn hosts(names: &[&str]) -> String {
    names
        .iter()
        .fold(String::new(), |all, name| all + &format!("[host.{name}]") + &TWO_NODES.replace("NAME", name))
}

/// A partition with these keys, and these needs.
pub(crate) fn partition(name: &str, keys: &str, needs: &str) -> String {
    format!("[partition.{name}]\nprogram = [\"/bin/true\"]\n{keys}\nneeds = {{ {needs} }}\n")
}

/// A system with its hosts.
pub(crate) struct Case {
    pub system: System,
    pub hosts: Vec<KnownHost>,
}

impl Case {
    /// Of its text.
    pub fn of(text: &str) -> Self {
        let system = System::from_toml(text, "plant").unwrap_or_else(|errors| panic!("{errors}\n{text}"));
        let hosts = system.hosts.iter().flat_map(|(name, entry)| entry.known(name, entry.shape())).collect();
        Self { system, hosts }
    }

    /// A plan in which these are there.
    pub fn plan(&self, partitions: Vec<Placed>) -> Plan {
        let hosts = crate::world::Host::all(&self.hosts);
        let planned = |name: &&str| PlannedHost {
            name: (*name).to_owned(),
            reserved_cpus: hosts[name].reserved(),
            from: None,
            set_file: partitions
                .iter()
                .any(|placed| placed.host == **name)
                .then(|| format!("{name}.set.toml")),
        };
        Plan {
            schema_version: PLAN_SCHEMA_VERSION,
            system: self.system.set.name.clone(),
            goals: Goal::ALL.map(|goal| GoalValue { goal, value: 0, least: 0 }).to_vec(),
            hosts: hosts.keys().map(planned).collect(),
            partitions,
            talks: Vec::new(),
            predictions: Vec::new(),
            failures: Vec::new(),
            assumed: Vec::new(),
            notes: Vec::new(),
        }
    }

    /// The rules that a plan breaks.
    pub fn broken(&self, plan: &Plan) -> Vec<Broken> {
        broken_rules(&self.system, &self.hosts, plan)
    }

    /// The plan keeps all rules, and changed it breaks this one and no other. What is told of it.
    pub fn breaks(&self, plan: &Plan, rule: Rule, change: impl FnOnce(&mut Plan)) -> Vec<String> {
        assert_eq!(self.broken(plan), [], "it is right at first");
        let mut changed = plan.clone();
        change(&mut changed);
        assert_ne!(*plan, changed, "something was changed");
        let broken = self.broken(&changed);
        let told: Vec<String> = broken.iter().map(ToString::to_string).collect();
        assert!(!broken.is_empty(), "{} was not found", rule.word());
        assert!(broken.iter().all(|broken| broken.rule == rule), "{} alone: {told:#?}", rule.word());
        told
    }
}

/// A part of a replica.
pub(crate) fn seat(node: u32, cpus: &str, mib: u64) -> Seat {
    Seat { node, cpus: cpus.parse().expect("a list"), memory_mib: Mebibytes::from_mib(mib) }
}

/// A replica with its place; the number of one of several is at the end of its name.
pub(crate) fn at(name: &str, host: &str, seats: &[Seat]) -> Placed {
    let (of, replica) = match name.rsplit_once('-').and_then(|(of, number)| Some((of, number.parse().ok()?)))
    {
        Some((of, replica)) => (of, replica),
        None => (name, 1),
    };
    Placed {
        name: name.to_owned(),
        of: of.to_owned(),
        replica,
        host: host.to_owned(),
        seats: seats.to_vec(),
        disk: None,
        nic: None,
        spare: None,
        elsewhere: None,
    }
}

/// With a disk.
pub(crate) fn disk(placed: Placed, name: &str) -> Placed {
    Placed { disk: Some(name.to_owned()), ..placed }
}

/// With a network card.
pub(crate) fn nic(placed: Placed, name: &str) -> Placed {
    Placed { nic: Some(name.to_owned()), ..placed }
}

/// With a spare.
pub(crate) fn spare(placed: Placed, host: &str, nodes: &[u32]) -> Placed {
    let nodes = NumberList::of(nodes.iter().copied());
    Placed { spare: Some(Spare { host: host.to_owned(), nodes }), ..placed }
}

/// A talk as a plan tells it.
pub(crate) fn talk(from: &str, to: &str, rate: u64, within: Level, latency_us: u64) -> PlannedTalk {
    PlannedTalk {
        from: from.to_owned(),
        to: to.to_owned(),
        bytes_per_s: Bytes::from_bytes(rate),
        within,
        latency_us: Micros::from_micros(latency_us),
    }
}
