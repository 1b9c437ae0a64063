//! Everything that can be wrong with a system whatever its hosts turn out to be: needs that no host could meet.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Cpu, HostEntry, HostFacts, HostShape, Interval, KnownHost, Level, MOST_HOSTS, MOST_PLANNED,
    MOST_REPLICAS, Needs, NodeShape, System,
};
use crate::partition::is_name;
use crate::partition::set::{Fault, Faults};
use units::names::hint;
use units::{Bytes, Mebibytes};

/// Most memory nodes of a host.
const MOST_NODES: usize = 64;
/// Most cards, and most disks, of a host.
const MOST_DEVICES: usize = 64;
/// Most links.
const MOST_LINKS: usize = 4096;
/// Largest rate that is believed, so that sums of them are exact.
const LARGEST_RATE: Bytes = Bytes::from_bytes(1 << 46);
/// What is wrong with an interval.
const TURNED: &str = "an interval's low is above its high";
/// Largest memory of a node that is believed.
const LARGEST_MEMORY: Mebibytes = Mebibytes::from_mib(1 << 26);

impl System {
    /// Everything that is wrong and can be told from the file alone, beyond what is wrong with its set.
    pub fn check(&self) -> Vec<Fault> {
        let mut faults = Faults::default();
        self.check_hosts(&mut faults);
        self.check_links(&mut faults);
        for (name, needs) in &self.needs {
            let Some(entry) = self.set.partitions.get(name) else {
                faults.add(&["partition", name, "needs"], "there is no such partition");
                continue;
            };
            let at = |key: &'static str| ["partition", name.as_str(), "needs", key];
            check_counts(name, needs, entry.cpus, &mut faults);
            self.check_others(name, needs, &mut faults);
            check_isolation(name, needs, &mut faults);
            for host in &needs.hosts {
                if !self.host_names().any(|there| there == *host) && !self.hosts.contains_key(host) {
                    faults.add(&at("hosts"), unknown("host", host, self.hosts.keys()));
                }
            }
            for replica in 1..=needs.replicas.min(MOST_REPLICAS) {
                let called = self.replica_name(name, replica);
                if called != *name && self.set.partitions.contains_key(&called) {
                    let problem =
                        format!("replica {replica} would have the name of the partition \"{called}\"");
                    faults.add(&at("replicas"), problem);
                }
                if !is_name(&called) {
                    faults.add(&at("replicas"), format!("\"{called}\" is no name of a partition"));
                }
            }
        }
        let replicas: u64 = self.needs.values().map(|needs| u64::from(needs.replicas)).sum();
        if replicas > MOST_PLANNED as u64 {
            let problem =
                format!("{replicas} replicas in all are more than the {MOST_PLANNED} that can be planned");
            faults.add(&["partition"], problem);
        }
        self.check_fixed(&mut faults);
        faults.into()
    }

    /// Names of all hosts, those of a `count` each.
    pub fn host_names(&self) -> impl Iterator<Item = String> {
        self.hosts
            .iter()
            .flat_map(|(name, entry)| (1..=entry.number_of()).map(move |number| entry.name_of(name, number)))
    }

    fn check_hosts(&self, faults: &mut Faults) {
        let count = self.host_names().count();
        if count == 0 {
            faults.add(&["host"], "there is no host: write [host.a] with from = \"here\", or its nodes");
        }
        if count > MOST_HOSTS {
            faults
                .add(&["host"], format!("{count} hosts are more than the {MOST_HOSTS} that can be planned"));
        }
        let mut seen = BTreeSet::new();
        for (name, entry) in &self.hosts {
            let path = ["host", name.as_str()];
            if !is_name(name) {
                faults.add(&path, "a name has letters, digits, '-', '_' and '.', 48 at most");
            }
            for number in 1..=entry.number_of() {
                let called = entry.name_of(name, number);
                if !seen.insert(called.clone()) {
                    faults.add(&path, format!("there are two hosts called \"{called}\""));
                }
            }
            if entry.count.is_some_and(|count| count as usize > MOST_HOSTS) {
                faults
                    .add(&["host", name, "count"], format!("more than the {MOST_HOSTS} that can be planned"));
            }
            if entry.count == Some(0) {
                faults.add(&["host", name, "count"], "0 hosts are none: leave it out");
            }
            match (&entry.from, entry.nodes.is_empty()) {
                (None, true) => {
                    faults.add(
                        &path,
                        "say what it is: from = \"here\", \"ssh:NAME\" or a file, or [[host.…node]]",
                    );
                }
                (Some(_), false) => {
                    faults.add(&["host", name, "from"], "its nodes are written here as well: one of the two");
                }
                _ => {}
            }
            if entry.from.is_some() && entry.count.is_some_and(|count| count > 1) && entry.is_a_machine() {
                faults
                    .add(&["host", name, "count"], "one machine cannot be several: describe them by a file");
            }
            for (key, problem) in entry.shape().faults() {
                faults.add(&["host", name, key], problem);
            }
        }
    }

    fn check_links(&self, faults: &mut Faults) {
        if self.links.len() > MOST_LINKS {
            faults.add(&["link"], format!("{} links are more than {MOST_LINKS}", self.links.len()));
        }
        let names: BTreeSet<String> = self.host_names().collect();
        let mut seen = BTreeSet::new();
        for (item, link) in self.links.iter().enumerate() {
            let [a, b] = &link.between;
            for host in [a, b] {
                if !names.contains(host) {
                    faults.add_item(&["link"], item, unknown("host", host, names.iter()));
                }
            }
            if a == b {
                faults.add_item(&["link"], item, format!("\"{a}\" cannot be joined with itself"));
            }
            if !seen.insert([a.min(b), a.max(b)]) {
                faults.add_item(&["link"], item, format!("\"{a}\" and \"{b}\" are joined twice"));
            }
            if link.bytes_per_s.is_some_and(|rate| rate > LARGEST_RATE) {
                faults.add_item(
                    &["link"],
                    item,
                    format!("bytes_per_s: more than {LARGEST_RATE} is not believed"),
                );
            }
        }
    }

    fn check_others(&self, name: &str, needs: &Needs, faults: &mut Faults) {
        let names = self.set.partitions.keys();
        for other in needs.talks_to.keys() {
            let at = ["partition", name, "needs", "talks_to", other.as_str()];
            if other == name && needs.replicas < 2 {
                faults.add(&at, "it cannot speak with itself");
            } else if !self.set.partitions.contains_key(other) {
                faults.add(&at, unknown("partition", other, names.clone()));
            }
        }
        for talk in needs.talks_to.values() {
            if talk.bytes_per_s > LARGEST_RATE {
                let problem = format!("bytes_per_s: more than {LARGEST_RATE} is not believed");
                faults.add(&["partition", name, "needs", "talks_to"], problem);
            }
        }
        for (item, other) in needs.isolated_from.iter().enumerate() {
            if !self.set.partitions.contains_key(other) {
                let problem = unknown("partition", other, names.clone());
                faults.add_item(&["partition", name, "needs", "isolated_from"], item, problem);
            }
        }
    }

    /// What belongs to one partition cannot belong to each replica.
    fn check_fixed(&self, faults: &mut Faults) {
        for (name, entry) in &self.set.partitions {
            let mut fault = |key: &str, problem: &str| faults.add(&["partition", name, key], problem);
            if entry.pin.is_some() || entry.node.is_some() {
                let key = if entry.pin.is_some() { "pin" } else { "node" };
                fault(key, "that is what is planned: leave it out");
            }
            if entry.cpu_weight.is_some() {
                fault("cpu_weight", "needs.share_percent says what it must have; the weight follows");
            }
            if entry.guest_nodes != 1 {
                fault("guest_nodes", "that is what is planned: leave it out");
            }
            let numbered = entry.cards.iter().any(|card| card.number.is_some());
            if numbered && self.replicas(name) > 1 {
                fault("card", "replicas cannot have the same number in a network: leave the number out");
            }
        }
        for (name, channel) in &self.set.channels {
            for partition in std::iter::once(&channel.writer).chain(&channel.readers) {
                if self.replicas(partition) > 1 {
                    let problem = format!("\"{partition}\" has replicas: whose would the channel be?");
                    faults.add(&["channel", name], problem);
                }
            }
        }
    }
}

fn check_isolation(name: &str, needs: &Needs, faults: &mut Faults) {
    let mut fault = |key: &str, problem: &str| faults.add(&["partition", name, "needs", key], problem);
    if !needs.isolated_from.is_empty() && needs.isolation.is_none() {
        fault("isolated_from", "from what? isolation = \"cache\" (or node, socket, host, switch) says that");
    }
    if !needs.isolated_from.is_empty() && needs.isolation == Some(Level::Core) {
        fault("isolated_from", "whole cores are nobody else's: leave it out");
    }
    if needs.isolated_from.iter().any(|other| other == name) && needs.replicas < 2 {
        fault("isolated_from", "there is no other replica of it");
    }
    if needs.isolation == Some(Level::Core) && needs.cpu == Cpu::Shared {
        fault("isolation", "shared CPUs are not its own: cpu = \"whole\"");
    }
    if needs.apart == Some(Level::Core) {
        fault("apart", "cores are never in common unless CPUs are: cache, node, socket, host or switch");
    }
    if needs.apart.is_some() && needs.replicas < 2 {
        fault("apart", "there is one replica: replicas = 2");
    }
}

fn check_counts(name: &str, needs: &Needs, cpus: u32, faults: &mut Faults) {
    let mut fault = |key: &str, problem: String| faults.add(&["partition", name, "needs", key], problem);
    if !(1..=MOST_REPLICAS).contains(&needs.replicas) {
        fault("replicas", format!("wanted 1 to {MOST_REPLICAS}, got {}", needs.replicas));
    }
    match (needs.cpu, needs.share_percent) {
        (Cpu::Whole, Some(_)) => {
            fault("share_percent", "whole CPUs are its own: cpu = \"shared\"".to_owned());
        }
        (Cpu::Shared, None) => fault("cpu", "how much of each? share_percent = 50".to_owned()),
        (_, Some(percent)) if !(1..=100).contains(&percent) => {
            fault("share_percent", format!("wanted 1 to 100, got {percent}"));
        }
        _ => {}
    }
    if let Some(deadline) = &needs.deadline {
        let [period, runtime, within] =
            [deadline.period_us, deadline.runtime_us, deadline.within_us].map(units::Micros::get);
        if needs.cpu == Cpu::Shared {
            fault("deadline", "shared CPUs keep no deadline: cpu = \"whole\"".to_owned());
        }
        if runtime == 0 || runtime > within {
            fault("deadline", format!("runtime_us: wanted 1 to {within} (within_us), got {runtime}"));
        }
        if runtime > period {
            fault("deadline", format!("runtime_us {runtime} is more than its period_us {period}"));
        }
        if !(deadline.miss_rate > 0.0 && deadline.miss_rate < 1.0) {
            fault("deadline", format!("miss_rate: wanted above 0 and below 1, got {}", deadline.miss_rate));
        }
    }
    if needs.disk.is_some_and(|disk| disk.bytes_per_s > LARGEST_RATE) {
        fault("disk", format!("bytes_per_s: more than {LARGEST_RATE} is not believed"));
    }
    if needs.network.is_some_and(|network| network.bytes_per_s > LARGEST_RATE) {
        fault("network", format!("bytes_per_s: more than {LARGEST_RATE} is not believed"));
    }
    for device in &needs.near {
        let is_asked = match device {
            super::Device::Nic => needs.network.is_some(),
            super::Device::Disk => needs.disk.is_some(),
        };
        if !is_asked {
            let key = if *device == super::Device::Nic { "network" } else { "disk" };
            fault("near", format!("near what? {key} = {{ bytes_per_s = … }} says what it needs of one"));
        }
    }
    if cpus == 0 {
        fault("cpu", "it has no CPU".to_owned());
    }
}

fn unknown<'a>(what: &str, got: &str, there: impl Iterator<Item = &'a String>) -> String {
    let names: Vec<&str> = there.map(String::as_str).collect();
    format!("there is no {what} \"{got}\"{}", hint(got, &names))
}

impl HostEntry {
    /// Whether it is a machine that can be asked, not a description.
    fn is_a_machine(&self) -> bool {
        self.from.as_deref().is_some_and(|from| from == "here" || from.starts_with("ssh:"))
    }

    /// How many there are, as far as they are looked at.
    fn number_of(&self) -> u32 {
        self.count.unwrap_or(1).min(u32::try_from(MOST_HOSTS).unwrap_or(u32::MAX))
    }

    /// What one of them is called.
    pub fn name_of(&self, name: &str, number: u32) -> String {
        if self.count.is_some() { format!("{name}-{number}") } else { name.to_owned() }
    }

    /// What is written here of what it is made of.
    pub fn shape(&self) -> HostShape {
        HostShape {
            nodes: self.nodes.clone(),
            nics: self.nics.clone(),
            disks: self.disks.clone(),
            facts: self.facts.clone(),
        }
    }

    /// All hosts of this entry, made of `shape`.
    pub fn known(&self, name: &str, mut shape: HostShape) -> Vec<KnownHost> {
        shape.nodes.sort_by_key(|node| node.number);
        let one = |number| {
            let called = self.name_of(name, number);
            // A switch cannot be called so in a file: names have no '/'.
            let switch = self.switch.clone().unwrap_or_else(|| format!("{called}/"));
            KnownHost {
                name: called,
                switch,
                reserve_cpus: self.reserve_cpus,
                reserve_memory: self.reserve_memory_mib,
                shape: shape.clone(),
            }
        };
        (1..=self.number_of()).map(one).collect()
    }
}

impl HostShape {
    /// What is wrong with it, by its keys.
    pub fn faults(&self) -> Vec<(&'static str, String)> {
        let mut faults = Vec::new();
        if self.nodes.len() > MOST_NODES {
            faults.push(("node", format!("{} memory nodes are more than {MOST_NODES}", self.nodes.len())));
        }
        let (mut numbers, mut cpus) = (BTreeSet::new(), BTreeSet::new());
        for node in &self.nodes {
            if !numbers.insert(node.number) {
                faults.push(("node", format!("there are two nodes {}", node.number)));
            }
            if let Some(cpu) = node.cpus.numbers().iter().find(|cpu| !cpus.insert(**cpu)) {
                faults.push(("node", format!("CPU {cpu} belongs to two nodes")));
            }
            faults.extend(node.problem().map(|problem| ("node", format!("node {}: {problem}", node.number))));
        }
        let named = |names: Vec<&str>| names.iter().collect::<BTreeSet<_>>().len() == names.len();
        if !named(self.nics.iter().map(|nic| nic.name.as_str()).collect()) || self.nics.len() > MOST_DEVICES {
            faults.push(("nic", format!("two have the same name, or there are more than {MOST_DEVICES}")));
        }
        if !named(self.disks.iter().map(|disk| disk.name.as_str()).collect())
            || self.disks.len() > MOST_DEVICES
        {
            faults.push(("disk", format!("two have the same name, or there are more than {MOST_DEVICES}")));
        }
        // Without nodes it is what is written beside a file or a machine, which has them.
        let is_there =
            |node: Option<u32>| node.is_none_or(|node| numbers.is_empty() || numbers.contains(&node));
        for nic in &self.nics {
            if !is_there(nic.node) || nic.bytes_per_s > LARGEST_RATE {
                faults
                    .push(("nic", format!("{}: its node is not there, or its rate beyond belief", nic.name)));
            }
        }
        for disk in &self.disks {
            if !is_there(disk.node) || disk.bytes_per_s.high() > LARGEST_RATE {
                faults.push((
                    "disk",
                    format!("{}: its node is not there, or its rate beyond belief", disk.name),
                ));
            }
        }
        for disk in &self.disks {
            let is_turned = |stall: Option<Interval<_>>| stall.is_some_and(Interval::is_upside_down);
            if disk.bytes_per_s.is_upside_down() || is_turned(disk.stall_ms) || is_turned(disk.stall_alone_ms)
            {
                faults.push(("disk", format!("{}: {TURNED}", disk.name)));
            }
        }
        faults.extend(self.facts.problem().map(|problem| ("facts", problem)));
        let rates = self.facts.wakeup.iter().map(|wakeup| wakeup.miss_rate);
        if rates.into_iter().any(|rate| !(0.0..1.0).contains(&rate)) {
            faults.push(("facts", "wakeup.miss_rate: wanted 0 or more, and below 1".to_owned()));
        }
        faults
    }
}

impl HostFacts {
    fn problem(&self) -> Option<String> {
        let times = [self.channel_us, self.channel_far_us, self.network_us].into_iter().flatten();
        let mut times = times.chain(self.wakeup.iter().map(|wakeup| wakeup.latency_us));
        let mut longer = [self.start_ms, self.detect_ms].into_iter().flatten();
        let is_granted_wrong = self
            .granted_per_mille
            .is_some_and(|granted| granted.is_upside_down() || granted.low() == 0 || granted.high() > 1000);
        if times.any(Interval::is_upside_down) || longer.any(Interval::is_upside_down) {
            return Some(TURNED.to_owned());
        }
        is_granted_wrong.then(|| "granted_per_mille: wanted 1 to 1000, low before high".to_owned())
    }
}

impl NodeShape {
    fn problem(&self) -> Option<String> {
        if self.memory_mib > LARGEST_MEMORY {
            return Some(format!("{} MiB of memory are beyond belief", self.memory_mib.get()));
        }
        if self.hugepages_mib > self.memory_mib {
            return Some("it has more huge pages than memory".to_owned());
        }
        covers(&self.cpus, &self.caches)
            .map(|why| format!("caches: {why}"))
            .or_else(|| {
                let threads: BTreeSet<usize> = self.cores.iter().map(|core| core.numbers().len()).collect();
                if threads.len() > 1 {
                    return Some("cores: all must have the same number of threads".to_owned());
                }
                covers(&self.cpus, &self.cores).map(|why| format!("cores: {why}"))
            })
            .or_else(|| {
                let torn = self.cores.iter().any(|core| {
                    let holders = self
                        .caches
                        .iter()
                        .filter(|cache| core.numbers().iter().any(|cpu| cache.numbers().contains(cpu)));
                    holders.count() > 1
                });
                torn.then(|| "a core has threads at two caches".to_owned())
            })
    }
}

/// What is wrong with these parts of all CPUs; none at all are right.
fn covers(cpus: &crate::partition::NumberList, parts: &[crate::partition::NumberList]) -> Option<String> {
    if parts.is_empty() {
        return None;
    }
    let mut times: BTreeMap<u32, u32> = BTreeMap::new();
    for cpu in parts.iter().flat_map(crate::partition::NumberList::numbers) {
        *times.entry(*cpu).or_default() += 1;
    }
    let all: BTreeSet<u32> = cpus.numbers().iter().copied().collect();
    if parts.iter().any(|part| part.numbers().is_empty()) {
        return Some("one is empty".to_owned());
    }
    if let Some((cpu, _)) = times.iter().find(|(_, times)| **times > 1) {
        return Some(format!("CPU {cpu} is in two"));
    }
    let named: BTreeSet<u32> = times.keys().copied().collect();
    (named != all).then(|| format!("they have other CPUs than the node ({cpus})"))
}
