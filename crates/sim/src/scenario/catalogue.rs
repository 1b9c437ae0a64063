//! Every figure that a simulation can yield, and which of them a scenario can: known before anything runs, so that a name
//! nobody yields is refused at once.
//!
//! ```text
//!  Kind: what a figure is ─┬─► figures, nodes, paging: its value        yielded
//!                          └─► all: `vm.VM.cpus`                        documented in docs/simulate-reference.md
//!                              Yields: `vm.A.cpus` of these scenarios   looked up before the run
//! ```
//! A test runs every example of the documentation and wants each figure that comes out of one to be listed here.

use super::figures as host;
use super::goals;
use super::names::Names;
use crate::{nodes, paging, programs};
use model::scenario::{HostSpec, NodesSpec, ProgramSpec, Scenario, VmSpec};
use units::Reason;
use units::metric::{Better, Unit};
use units::names::{fits, nearest};

/// What names a figure and what it is.
pub(crate) struct Kind(pub(crate) &'static str, pub(crate) &'static str, pub(crate) Unit, pub(crate) Better);

/// A figure that some scenario yields.
#[derive(Debug, Clone, PartialEq)]
pub struct Known {
    /// Its id, with `VM` for the name of a VM and `N` for the number of a thread's entry: `vm.VM.thread.N.missed_share`.
    pub id: String,
    /// What it says.
    pub title: &'static str,
    /// Unit of the value.
    pub unit: Unit,
    /// Good direction.
    pub better: Better,
    /// What yields it.
    pub of: &'static str,
}

/// Figures that the same VMs yield.
struct OfVms {
    /// Which VMs.
    of: &'static str,
    is_one: fn(&Scenario, &VmSpec) -> bool,
    kinds: &'static [&'static Kind],
}

/// Figures that the same hosts yield.
struct OfHosts {
    /// Which hosts.
    of: &'static str,
    is_one: fn(&Scenario) -> bool,
    kinds: &'static [&'static Kind],
}

/// What hosts with VMs yield, besides VMs and tasks.
const HOST: [OfHosts; 3] = [
    OfHosts { of: "`[host]`", is_one: |_| true, kinds: &[&host::USED, &host::SWITCHING, &host::MIGRATIONS] },
    OfHosts {
        of: "a host with a `table`, of VMs with `latency_us` that run `gap`",
        is_one: goals::of_waits,
        kinds: &[&goals::LATENCY_WORST],
    },
    OfHosts {
        of: "a host with a `table`, of VMs with `reserved_cpus` that want all they can get",
        is_one: goals::of_shares,
        kinds: &[&goals::RESERVED_LEAST],
    },
];

/// Whether CPUs slow each other.
fn is_shared(scenario: &Scenario) -> bool {
    let slows = |host: &HostSpec| host.memory_mb_s.is_some() || (host.smt > 1 && host.smt_speed < 1.0);
    scenario.host.as_ref().is_some_and(slows)
}

/// What VMs yield.
const VMS: [OfVms; 8] = [
    OfVms {
        of: "every VM",
        is_one: |_, _| true,
        kinds: &[&host::CPUS, &host::HOST_SHARE, &host::CPU, &host::STEAL, &host::DISPATCHES],
    },
    OfVms {
        of: "a VM whose programs all end",
        is_one: |_, vm| vm.threads.iter().all(|thread| programs::make(&thread.run, 0, 0).is_finite()),
        kinds: &[&host::FIRST, &host::WALL],
    },
    OfVms {
        of: "a VM with locks, or with `unmap`",
        is_one: |_, vm| vm.locks.count > 0 || vm.shoots_down(),
        kinds: &[&host::SPIN, &host::SPIN_SHARE],
    },
    OfVms {
        of: "a VM with locks",
        is_one: |_, vm| vm.locks.count > 0,
        kinds: &[&host::LOCK_WAIT, &host::KICKS],
    },
    OfVms {
        of: "a VM on a host whose CPUs slow each other (`smt`, `memory_mb_s`)",
        is_one: |scenario, _| is_shared(scenario),
        kinds: &[&host::SPEED],
    },
    OfVms {
        of: "a VM with `memory_mb_s` at a thread, on a host whose CPUs slow each other",
        is_one: |scenario, vm| is_shared(scenario) && vm.threads.iter().any(|thread| thread.memory_mb_s > 0),
        kinds: &[&host::MEMORY],
    },
    OfVms {
        of: "a VM whose first program is `gap`",
        is_one: |_, vm| vm.threads.first().is_some_and(|one| matches!(one.run, ProgramSpec::Gap { .. })),
        kinds: &[&host::BOUND, &host::AWAY],
    },
    OfVms {
        of: "a VM with a program that is not `endless`",
        is_one: |_, vm| vm.threads.iter().any(|thread| thread.run != ProgramSpec::Endless {}),
        kinds: &[
            &host::DONE,
            &host::MISSED,
            &host::LEFT_OUT,
            &host::LEAST,
            &host::MEAN,
            &host::MEDIAN,
            &host::P99,
            &host::MOST,
            &host::DEVIATION,
        ],
    },
];

/// What the real-time tasks of VMs yield.
const TASKS: [&Kind; 8] = [
    &host::DEADLINE,
    &host::RESPONSE_MAX,
    &host::RESPONSE_P99_9,
    &host::RESPONSE_P99,
    &host::RESPONSE_BOUND,
    &host::TARDINESS,
    &host::MISSED,
    &host::ABORTED,
];

fn known(whose: &str, kind: &Kind, of: &'static str) -> Known {
    let Kind(id, title, unit, better) = kind;
    Known { id: format!("{whose}.{id}"), title, unit: *unit, better: *better, of }
}

/// Every figure that there is, those of hosts first.
pub fn all() -> Vec<Known> {
    let mut all: Vec<Known> = Vec::new();
    for group in &HOST {
        all.extend(group.kinds.iter().map(|kind| known("host", kind, group.of)));
    }
    for group in &VMS {
        all.extend(group.kinds.iter().map(|kind| known("vm.VM", kind, group.of)));
    }
    all.extend(TASKS.iter().map(|kind| known("vm.VM.thread.N", kind, "threads with `periodic`")));
    all.extend(nodes::FIGURES.iter().map(|kind| known("nodes", kind, "`[nodes]`")));
    for which in ["cold", "warm"] {
        let whose = format!("paging.{which}");
        all.extend(paging::OF_A_RUN.iter().map(|kind| known(&whose, kind, "`[memory]`")));
    }
    all.extend(
        paging::OF_BOTH.iter().map(|kind| known("paging", kind, "`[memory]` with `runs` of 2 or more")),
    );
    all
}

/// The figures that some scenarios can yield.
pub struct Yields<'a> {
    of: Vec<&'a Scenario>,
}

impl<'a> Yields<'a> {
    /// Those of these scenarios.
    pub fn of(scenarios: impl Iterator<Item = &'a Scenario>) -> Self {
        Self { of: scenarios.collect() }
    }

    /// Ids, each as often as there are scenarios with it. Of a host with many VMs that is a lot, so they are made one by one.
    fn ids(&self) -> impl Iterator<Item = String> {
        self.of.iter().flat_map(|scenario| {
            let host = scenario.host.iter().flat_map(|_| {
                let groups = HOST.iter().filter(|group| (group.is_one)(scenario));
                groups.flat_map(|group| ids("host", group.kinds)).collect::<Vec<_>>()
            });
            let nodes = scenario.nodes.iter().flat_map(of_nodes);
            let paging = scenario.memory.iter().flat_map(|memory| {
                let is_warm = memory.runs > 1;
                let runs = ["paging.cold"].into_iter().chain(is_warm.then_some("paging.warm"));
                let both = is_warm.then(|| ids("paging", &paging::OF_BOTH)).into_iter().flatten();
                runs.flat_map(|whose| ids(whose, &paging::OF_A_RUN)).chain(both)
            });
            host.chain(of_vms(scenario)).chain(nodes).chain(paging)
        })
    }

    /// Whether one of them fits this pattern, in which `*` stands for any text.
    ///
    /// # Errors
    /// None does: why, or which is the nearest, in words.
    pub fn have(&self, pattern: &str) -> Result<(), Reason> {
        if self.ids().any(|id| fits(pattern, &id)) {
            return Ok(());
        }
        let (known, vm) = shape(pattern);
        let is_there =
            |vm| self.of.iter().any(|scenario| Names::of(scenario).vms.iter().any(|name| name == vm));
        if let Some(known) = all().into_iter().find(|figure| figure.id == known)
            && vm.is_none_or(is_there)
        {
            return Err(format!("only {} yields it", known.of.replace('`', "")).into());
        }
        let all: Vec<String> = self.ids().collect();
        let all: Vec<&str> = all.iter().map(String::as_str).collect();
        // Of the same VM before others, whose figures have the same names.
        let (whose, end) = pattern.rfind('.').map_or(("", pattern), |at| pattern.split_at(at + 1));
        let own: Vec<&str> = all.iter().filter_map(|id| id.strip_prefix(whose)).collect();
        let own = nearest(end, &own).map(|end| format!("{whose}{end}"));
        let near = own.or_else(|| nearest(pattern, &all).map(str::to_owned));
        let words = near.map(|id| format!("did you mean '{id}'?"));
        Err(words.unwrap_or_else(|| "--figure '*' shows all that there are".to_owned()).into())
    }
}

/// An id as [`Known`] writes it, and the VM that it names.
fn shape(id: &str) -> (String, Option<&str>) {
    match id.split('.').collect::<Vec<_>>().as_slice() {
        ["vm", vm, "thread", _, end] => (format!("vm.VM.thread.N.{end}"), Some(vm)),
        ["vm", vm, end] => (format!("vm.VM.{end}"), Some(vm)),
        _ => (id.to_owned(), None),
    }
}

/// Whether this is the name of a figure, if not in these scenarios: its VM may not be there.
pub(super) fn is_one_somewhere(id: &str) -> bool {
    let (known, _) = shape(id);
    all().iter().any(|figure| figure.id == known)
}

fn ids(whose: &str, kinds: &[&Kind]) -> Vec<String> {
    kinds.iter().map(|kind| format!("{whose}.{}", kind.0)).collect()
}

fn of_vms(scenario: &Scenario) -> impl Iterator<Item = String> {
    let groups = |vm: &VmSpec| VMS.iter().filter(|group| (group.is_one)(scenario, vm)).collect::<Vec<_>>();
    // What the VMs of an entry yield is the same.
    let of_specs: Vec<(Vec<&OfVms>, Vec<usize>)> =
        scenario.vms.iter().map(|vm| (groups(vm), tasks(vm))).collect();
    let Names { vms, spec_of } = Names::of(scenario);
    vms.into_iter().zip(spec_of).flat_map(move |(name, spec)| {
        let whose = format!("vm.{name}");
        let (groups, tasks) = of_specs.get(spec).cloned().unwrap_or_default();
        let own = groups.into_iter().flat_map(|group| ids(&whose, group.kinds)).collect::<Vec<_>>();
        let tasks = tasks.into_iter().flat_map(|entry| ids(&format!("{whose}.thread.{entry}"), &TASKS));
        own.into_iter().chain(tasks.collect::<Vec<_>>())
    })
}

/// Entries of a VM's threads that are real-time tasks.
fn tasks(vm: &VmSpec) -> Vec<usize> {
    let entries = vm.threads.iter().enumerate();
    let tasks = entries.filter(|(_, thread)| matches!(thread.run, ProgramSpec::Periodic(_)));
    tasks.map(|(number, _)| number).collect()
}

/// Theory knows the time of some programs only.
fn of_nodes(spec: &NodesSpec) -> Vec<String> {
    let is_known = nodes::closed_form(spec).is_some();
    let kinds = nodes::FIGURES.iter().filter(|kind| is_known || kind.0 != nodes::CLOSED_FORM.0);
    ids("nodes", &kinds.copied().collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::scenario::cases;

    #[test]
    fn names_are_known_before_the_run_and_the_nearest_is_told() {
        let text = "name = \"x\"\nhost = { cpus = 2, policy = \"credit\" }\n[[vm]]\nname = \"A\"\nvcpus = 1\nthread = [{ run = { \
                    program = \"endless\" } }, { run = { program = \"periodic\", period_us = 5, work_us = 1, jobs = 2 } }]\n[[vm]]\n\
                    name = \"B\"\ncount = 2\nvcpus = 1\nlocks = { count = 1 }\nthread = [{ run = { program = \"gap\", piece_us = 1, \
                    duration_ms = 1 } }]\n";
        let cases = cases(text, &[]).unwrap();
        let yields = Yields::of(cases.iter().map(|case| &case.scenario));
        for there in
            ["vm.A.cpus", "vm.B-2.spin_share", "vm.B-1.bound_95_ns", "vm.A.thread.1.missed_share", "*.wall*"]
        {
            assert_eq!(yields.have(there), Ok(()), "{there}");
        }
        let why = |id: &str| yields.have(id).unwrap_err().to_string();
        assert_eq!(why("vm.A.cpuss"), "did you mean 'vm.A.cpus'?");
        assert_eq!(why("vm.A.wall_ns"), "only a VM whose programs all end yields it");
        assert_eq!(why("vm.C.wall_ns"), "did you mean 'vm.B-2.wall_ns'?");
        // A has a program without an end and no locks; its first thread is no task; there are two VMs B.
        for not in
            ["vm.A.wall_ns", "vm.A.spin_ns", "vm.A.thread.0.missed_share", "vm.B.cpus", "nodes.wait_ns"]
        {
            assert!(yields.have(not).is_err(), "{not}");
        }
        assert!(is_one_somewhere("vm.X.cpus") && !is_one_somewhere("vm.A.cpuss"));
    }
}
