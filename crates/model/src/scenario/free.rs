//! The parameters of a case one by one: who gave each its value, what is too small to be asked for, and by how much one is
//! changed to see how much depends on it.

use std::collections::BTreeSet;

use toml::Value;

use super::blame::numbered;
use super::change::as_table;
use super::{Case, LongWaitSpec, NoiseSpec, Scenario, VmSpec, WorkersSpec};

/// Tables of a scenario that hold parameters of its model.
const MODEL: [&str; 5] = ["limits", "host", "vm", "nodes", "memory"];
/// Keys that say who is there, what everybody is promised, and how long is looked: the question, not an answer's assumption.
const QUESTION: [&str; 11] = [
    "count",
    "priority",
    "pinned",
    "dedicated",
    "weight",
    "reserved_cpus",
    "latency_us",
    "capped",
    "rounds",
    "simulated_s",
    "events",
];

/// A parameter and its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameter {
    /// Its path, with numbers for members of lists.
    pub path: String,
    /// Its value.
    pub value: Value,
    /// Whether somebody wrote it down; it is the default otherwise.
    pub is_written: bool,
}

impl Case {
    /// Every parameter that can be heard in what the case yields, defaults included.
    pub fn parameters(&self) -> Vec<Parameter> {
        let Ok(root) = as_table(&self.scenario) else { return Vec::new() };
        let parameter = |(path, value): (String, Value)| {
            let is_written = self.written.contains(&path);
            Parameter { path, value, is_written }
        };
        leaves(&root).into_iter().filter(|(path, _)| self.scenario.hears(path)).map(parameter).collect()
    }

    /// A path with numbers for members of lists.
    pub fn numbered(&self, path: &str) -> String {
        as_table(&self.scenario).map_or_else(|_| path.to_owned(), |root| numbered(&root, path))
    }

    /// A path with the names of VMs in place of their numbers.
    pub fn named(&self, path: &str) -> String {
        let Some((number, rest)) = path.strip_prefix("vm.").and_then(|rest| rest.split_once('.')) else {
            return path.to_owned();
        };
        let vm = number.parse().ok().and_then(|number: usize| self.scenario.vms.get(number));
        vm.map_or_else(|| path.to_owned(), |vm| format!("vm.{}.{rest}", vm.name))
    }
}

/// Paths of everything that is written in the tables of the model.
pub(super) fn written(root: &Value) -> BTreeSet<String> {
    leaves(root).into_iter().map(|(path, _)| path).collect()
}

/// Whether a key belongs to the question.
pub fn is_question(path: &str) -> bool {
    QUESTION.contains(&path.rsplit('.').next().unwrap_or(path))
}

fn leaves(root: &Value) -> Vec<(String, Value)> {
    let mut found = Vec::new();
    for (key, value) in MODEL.iter().filter_map(|key| Some((key, root.get(key)?))) {
        collect((*key).to_owned(), value, &mut found);
    }
    found.retain(|(path, _)| !(path.starts_with("vm.") && path.rsplit('.').next() == Some("name")));
    found
}

fn collect(path: String, value: &Value, found: &mut Vec<(String, Value)>) {
    match value {
        Value::Table(table) => {
            table.iter().for_each(|(key, value)| collect(format!("{path}.{key}"), value, found));
        }
        Value::Array(list) if list.iter().any(Value::is_table) => {
            list.iter().enumerate().for_each(|(at, value)| collect(format!("{path}.{at}"), value, found));
        }
        _ => found.push((path, value.clone())),
    }
}

impl Scenario {
    /// Whether what a case yields can depend on the parameter at this path.
    fn hears(&self, path: &str) -> bool {
        let has_locks = |vm: &VmSpec| vm.locks.count > 0;
        let gives_up = |vm: &VmSpec| has_locks(vm) && vm.locks.on_long_wait != LongWaitSpec::Spin;
        let tells = |vm: &VmSpec| has_locks(vm) && vm.locks.on_long_wait == LongWaitSpec::TellHost;
        let parts: Vec<&str> = path.split('.').collect();
        let own = |is: &dyn Fn(&VmSpec) -> bool| {
            let number = parts.get(1).and_then(|number| number.parse::<usize>().ok());
            number.and_then(|number| self.vms.get(number)).is_some_and(is)
        };
        let (nodes, memory) = (self.nodes.as_ref(), self.memory.as_ref());
        match parts.as_slice() {
            ["host", "mhz" | "grace_us"] => self.vms.iter().any(has_locks),
            ["host", "cache_cpus" | "migrate_near_share"] => self.migrates_at_a_cost(),
            ["host", "policy", "queue_cpus"] => {
                self.host.as_ref().is_some_and(|host| host.policy.is_per_cpu())
            }
            ["host", "help"] => self.vms.iter().any(tells),
            ["vm", _, "locks", "long_wait_cycles"] => own(&gives_up),
            ["vm", _, "locks", "halt_cycles"] => own(&|vm: &VmSpec| has_locks(vm) && vm.locks.kind.halts()),
            ["vm", _, "locks", _] => own(&has_locks),
            ["vm", _, "interrupts", _] => own(&VmSpec::shoots_down),
            ["vm", _, "turn_us"] => own(&shares_vcpus),
            ["nodes", "together"] => nodes.is_some_and(|nodes| nodes.noise != NoiseSpec::None {}),
            ["memory", "shared_share"] => memory.is_some_and(|memory| memory.workers == WorkersSpec::Threads),
            _ => true,
        }
    }
}

impl Scenario {
    fn migrates_at_a_cost(&self) -> bool {
        let of_vm = |vm: &VmSpec| vm.migrate_ns.is_some_and(|cost| cost.get() > 0);
        self.host.as_ref().is_some_and(|host| host.migrate_ns.get() > 0) || self.vms.iter().any(of_vm)
    }
}

/// Whether threads of a VM take turns on a virtual CPU.
fn shares_vcpus(vm: &VmSpec) -> bool {
    let threads: u64 = vm.threads.iter().map(|thread| u64::from(thread.count.unwrap_or(vm.vcpus))).sum();
    threads > u64::from(vm.vcpus) || vm.threads.iter().any(|thread| thread.bound.is_some())
}

/// A small change of the value at a path, and what it is in words: the other one of yes and no, a step from zero, half of
/// any other number. None for what is neither.
pub fn small_change(path: &str, value: &Value) -> Option<(Value, String)> {
    let step = match path.rsplit('_').next().unwrap_or_default() {
        "ns" | "ps" => 1000,
        "us" => 100,
        _ => 1,
    };
    let put = |value: Value| {
        let words = format!("set to {value}");
        Some((value, words))
    };
    match value {
        Value::Boolean(is) => put(Value::Boolean(!is)),
        Value::Integer(0) => put(Value::Integer(step)),
        Value::Integer(1) => put(Value::Integer(2)),
        Value::Integer(odd) if odd % 2 != 0 => put(Value::Integer(odd / 2)),
        Value::Integer(even) => Some((Value::Integer(even / 2), "times 0.5".to_owned())),
        Value::Float(zero) if zero.abs() < f64::MIN_POSITIVE => put(Value::Float(0.01)),
        Value::Float(other) => Some((Value::Float(other / 2.0), "times 0.5".to_owned())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::cases;
    use super::*;

    const TWO: &str = "name = \"x\"\n[host]\ncpus = 2\npolicy = { name = \"equal-per-vm\", quantum_us = 100 }\n[[vm]]\n\
                       name = \"A\"\nvcpus = 2\nthread = [{ count = 3, run = { program = \"endless\" } }]\n[[vm]]\nname = \"B\"\n\
                       vcpus = 1\nthread = [{ run = { program = \"endless\" } }]\n";

    #[test]
    fn defaults_are_told_from_what_is_written_and_what_nobody_hears_is_left_out() {
        let case = cases(TWO, &[("vm.B.weight".to_owned(), Value::Float(2.0))]).unwrap().remove(0);
        let all = case.parameters();
        let is_written = |path: &str| all.iter().find(|one| one.path == path).map(|one| one.is_written);
        assert_eq!(is_written("host.policy.quantum_us"), Some(true));
        assert_eq!(is_written("host.switch_ns"), Some(false));
        assert_eq!((is_written("vm.0.weight"), is_written("vm.1.weight")), (Some(false), Some(true)));
        // Three threads share two virtual CPUs in A, nobody shares in B; there are no locks.
        assert_eq!((is_written("vm.0.turn_us"), is_written("vm.1.turn_us")), (Some(false), None));
        for unheard in ["host.mhz", "host.help", "vm.0.locks.kind", "vm.0.name"] {
            assert_eq!(is_written(unheard), None, "{unheard}");
        }
        assert_eq!(
            (case.numbered("vm.B.weight").as_str(), case.named("vm.1.weight").as_str()),
            ("vm.1.weight", "vm.B.weight")
        );
        assert!(is_question("vm.1.weight") && !is_question("host.switch_ns"));
    }

    #[test]
    fn a_change_is_small_and_tells_what_it_is() {
        let change = |path: &str, value: Value| {
            small_change(path, &value).map(|(value, words)| (value.to_string(), words))
        };
        for (path, value, to, words) in [
            ("host.staggered", Value::Boolean(true), "false", "set to false"),
            ("host.switch_ns", Value::Integer(0), "1000", "set to 1000"),
            ("host.grace_us", Value::Integer(0), "100", "set to 100"),
            ("host.mhz", Value::Integer(2000), "1000", "times 0.5"),
            ("memory.mixing", Value::Float(0.0), "0.01", "set to 0.01"),
            ("memory.mixing", Value::Float(0.5), "0.25", "times 0.5"),
        ] {
            assert_eq!(change(path, value), Some((to.to_owned(), words.to_owned())), "{path}");
        }
        assert_eq!(change("host.help", Value::String("none".to_owned())), None);
    }
}
