//! Whether anything in a scenario is random. What is not needs one replication: all others would be the same.
//!
//! What nobody has thought of here counts as random, which costs time and is never wrong. A test runs the examples of the documentation
//! that are said not to be random with two seeds, and wants the same figures.

use model::scenario::{MemorySpec, NodesSpec, NoiseSpec, ProgramSpec, Scenario, VmSpec, WorkersSpec};

/// Whether two replications can differ.
pub(super) fn is_random(scenario: &Scenario) -> bool {
    scenario.host.as_ref().is_some_and(|host| host.is_staggered() || scenario.vms.iter().any(of_vm))
        || scenario.nodes.as_ref().is_some_and(of_nodes)
        || scenario.memory.as_ref().is_some_and(of_memory)
}

/// Who gets a lock may be drawn, and what programs draw themselves.
fn of_vm(vm: &VmSpec) -> bool {
    vm.locks.count > 0 || !vm.threads.iter().all(|thread| never_draws(&thread.run))
}

fn never_draws(run: &ProgramSpec) -> bool {
    use ProgramSpec::{Endless, Fixed, Ftq, Fwq, Gap, Io, Periodic};
    matches!(run, Endless {} | Fixed { .. } | Gap { .. } | Ftq { .. } | Io { random: false, .. })
        || matches!(run, Fwq { jitter_us, .. } if jitter_us.get() == 0)
        || matches!(run, Periodic(task) if task.jitter_us.get() == 0 && task.apart_us.get() == 0)
}

/// All noise is drawn, or begins at a phase that is.
fn of_nodes(nodes: &NodesSpec) -> bool {
    nodes.noise != NoiseSpec::None {}
}

/// Pages are mixed where they are given back, and translations dropped at random unless all or none are.
fn of_memory(memory: &MemorySpec) -> bool {
    let mixes = memory.mixing > 0.0 && memory.workers == WorkersSpec::Processes;
    let drops = memory.refault_share > 0.0 && memory.refault_share < 1.0;
    memory.runs > 1 && (mixes || drops)
}
