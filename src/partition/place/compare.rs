//! What was asked against what was given. Pure: every value that was asked for is looked at, nothing else.

use super::priority;
use super::threads;
use crate::model::partition::Difference;
use crate::model::partition::DiskSpec;
use crate::model::partition::Given;
use crate::model::partition::NumberList;
use crate::model::partition::Priority;
use crate::model::partition::Resources;
use crate::model::units::Bytes;

/// What is not as it was asked; empty when all is. `node_cpus` are those of the node that was asked for, where no CPUs
/// were named.
pub fn differences(
    asked: &Resources,
    node_cpus: Option<&NumberList>,
    disks: &[DiskSpec],
    given: &Given,
) -> Vec<Difference> {
    let mut found = Found::default();
    cpus(asked, node_cpus, given, &mut found);
    memory(asked, given, &mut found);
    found.exactly("cpu_weight", asked.cpu_weight, given.cpu_weight);
    found.exactly("cpu_cap_percent", asked.cpu_cap_percent, given.cpu_cap_percent);
    found.unless_equal("disks", &disks.len().to_string(), &given.disks.len().to_string());
    for (number, (asked, given)) in disks.iter().zip(&given.disks).enumerate() {
        let bytes = |limit: Option<Bytes>| limit.map(Bytes::get);
        found.limit(
            &format!("disks.{number}.bytes_per_s"),
            bytes(asked.bytes_per_s),
            bytes(given.bytes_per_s),
        );
        found.limit(
            &format!("disks.{number}.operations_per_s"),
            asked.operations_per_s,
            given.operations_per_s,
        );
    }
    found.0
}

#[derive(Default)]
struct Found(Vec<Difference>);

impl Found {
    fn unless_equal(&mut self, what: &str, asked: &str, given: &str) {
        if asked != given {
            self.add(what, asked, given);
        }
    }

    /// What was not asked for may be anything.
    fn exactly(&mut self, what: &str, asked: Option<u32>, given: Option<u32>) {
        if asked.is_some() {
            self.unless_equal(what, &word(asked), &word(given));
        }
    }

    /// A limit that nobody asked for would be one, too.
    fn limit(&mut self, what: &str, asked: Option<u64>, given: Option<u64>) {
        self.unless_equal(what, &word(asked), &word(given));
    }

    fn add(&mut self, what: &str, asked: &str, given: &str) {
        self.0.push(Difference { what: what.to_owned(), asked: asked.to_owned(), given: given.to_owned() });
    }
}

fn word<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "none".to_owned(), |value| value.to_string())
}

fn cpus(asked: &Resources, node_cpus: Option<&NumberList>, given: &Given, found: &mut Found) {
    found.unless_equal("cpus", &asked.cpus.to_string(), &given.cpus.len().to_string());
    let sets = threads::wanted(asked, node_cpus);
    for (number, (set, cpu)) in sets.iter().zip(&given.cpus).enumerate() {
        if let Some(set) = set {
            found.unless_equal(&format!("cpus.{number}.allowed"), &set.to_string(), &cpu.allowed.to_string());
        }
        if asked.priority != Priority::Usual {
            let wanted = priority::words(asked.priority);
            found.unless_equal(&format!("cpus.{number}.scheduling"), &wanted, &cpu.scheduling);
        }
    }
}

fn memory(asked: &Resources, given: &Given, found: &mut Found) {
    let have = &given.memory;
    found.unless_equal(
        "memory.size",
        &asked.memory.to_bytes().to_string(),
        &have.size.to_bytes().to_string(),
    );
    if asked.memory != have.size && asked.memory.to_bytes().to_string() == have.size.to_bytes().to_string() {
        // Sizes print rounded.
        let mib = |size: u64| format!("{size} MiB");
        found.add("memory.size", &mib(asked.memory.get()), &mib(have.size.get()));
    }
    if asked.hugepages && !have.hugepages {
        found.add("memory.hugepages", "huge pages", "pages of the usual size");
    }
    let total = || have.present_bytes.iter().map(|(_, bytes)| bytes.get()).fold(0, u64::saturating_add);
    if let Some(node) = asked.node {
        found.unless_equal("memory.nodes", &node.to_string(), &have.nodes.to_string());
        let wanted = asked.memory.to_bytes().get();
        let there =
            have.present_bytes.iter().find(|(number, _)| *number == node).map_or(0, |(_, bytes)| bytes.get());
        if there != wanted || total() != wanted {
            let each = have
                .present_bytes
                .iter()
                .map(|(number, bytes)| format!("{} B on node {number}", bytes.get()));
            let all = each.collect::<Vec<_>>().join(", ");
            let given = if all.is_empty() { "none yet" } else { &all };
            found.add("memory.present", &format!("{wanted} B on node {node}"), given);
        }
    } else if asked.hugepages && total() != asked.memory.to_bytes().get() {
        let given = format!("{} B", total());
        found.add("memory.present", &format!("{} B", asked.memory.to_bytes().get()), &given);
    }
}
