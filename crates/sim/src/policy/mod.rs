//! Policies: who gets a CPU next, and for how long? One file each; its header says the policy and where it is described.
//!
//! ```text
//!            ready(vcpu) ─► a CPU that should look again (idle, or to be taken away from somebody)
//!  machine   pick(cpu)   ─► who runs there now and until when, or nobody
//!            ran(vcpu)   ─► so long it ran: the policy keeps its books
//!            tick        ─► the policy's own clock, if it has one
//! ```

mod budgets;
mod credit;
mod deadline;
mod eevdf;
mod entity;
mod equal_per_vm;
mod fair;
mod fair_queue;
mod forest;
mod gang;
mod lines;
mod meetings;
mod per_cpu;
mod per_thread;
mod proportional;
mod rivals;
mod rtds;
mod slots;
mod table;
#[cfg(test)]
mod tests;
mod timers;

pub use credit::Credit;
pub use deadline::Deadline;
pub use eevdf::Eevdf;
pub use equal_per_vm::equal_per_vm;
pub use fair::Fair;
pub use gang::Gang;
pub use per_cpu::{Credit2, CreditKeys, PerCpuCredit, PerCpuEevdf};
pub use per_thread::per_thread;
pub use proportional::proportional;
pub use rtds::Rtds;
pub use slots::Slots;
pub use table::Table;

use crate::host::{CpuId, MAX_CPUS, State, VcpuId, View};
use crate::scenario::{Names, micros};
use crate::time::{Span, Time};
use model::scenario::{PolicySpec, QueuesSpec, Scenario, WeightsSpec};

/// The policy that a scenario names.
pub fn make(spec: &PolicySpec, names: &Names, scenario: &Scenario) -> Box<dyn Policy> {
    match spec {
        PolicySpec::EqualPerVm { quantum_us } => Box::new(equal_per_vm(micros(*quantum_us))),
        PolicySpec::Proportional { quantum_us } => Box::new(proportional(micros(*quantum_us))),
        PolicySpec::PerThread { quantum_us } => Box::new(per_thread(micros(*quantum_us))),
        PolicySpec::Slots { slot_us, round, yield_when_idle, dynamic } => {
            Box::new(Slots::from_names(micros(*slot_us), round, *yield_when_idle, dynamic.as_ref(), names))
        }
        PolicySpec::Credit { slice_us, boost, ratelimit_us, queues, weights } => {
            let keys = CreditKeys {
                slice: micros(*slice_us),
                boost: *boost,
                rate_limit: micros(*ratelimit_us),
                per_vcpu: *weights == WeightsSpec::PerVcpu,
            };
            match queues {
                QueuesSpec::Single => Box::new(Credit::new(keys)),
                QueuesSpec::PerCpu => Box::new(PerCpuCredit::new(keys)),
            }
        }
        PolicySpec::Credit2 { slice_us, queues, queue_cpus } => {
            let width = if *queues == QueuesSpec::Single { MAX_CPUS } else { *queue_cpus };
            Box::new(Credit2::new(micros(*slice_us), width))
        }
        PolicySpec::Rtds {} => Box::new(Rtds::from_scenario(names, scenario)),
        PolicySpec::Eevdf { slice_us, period_us, queues } => {
            let (slice, period) = (micros(*slice_us), micros(*period_us));
            match queues {
                QueuesSpec::Single => Box::new(Eevdf::new(slice, period)),
                QueuesSpec::PerCpu => Box::new(PerCpuEevdf::new(slice, period)),
            }
        }
        PolicySpec::Table { .. } => Box::new(Table::from_scenario(scenario)),
        PolicySpec::Deadline { slice_us } => {
            Box::new(Deadline::from_scenario(micros(*slice_us), names, scenario))
        }
        PolicySpec::Gang { slice_us } => Box::new(Gang::new(micros(*slice_us))),
    }
}

/// Why a virtual CPU is ready.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// It was halted and has something to do again.
    Woken,
    /// It was running and its time was up, or another one was preferred.
    Preempted,
    /// It was running and gave its CPU away.
    Yielded,
}

/// Who runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pick {
    /// This virtual CPU, until then at most. It must be ready and allowed on the CPU, and is taken out of the policy's
    /// queues.
    Run(VcpuId, Time),
    /// Nobody, until somebody is ready or the policy's clock says so.
    Idle,
}

/// A way to share CPUs.
pub trait Policy: Send {
    /// Takes in who is there. Called once, before everything.
    fn begin(&mut self, view: &View);

    /// `vcpu` waits for a CPU from now on. Answers the CPU that should pick anew, if any: an idle one, or one whose
    /// virtual CPU has to make room.
    fn ready(&mut self, vcpu: VcpuId, why: Why, view: &View) -> Option<CpuId>;

    /// `vcpu`, which is ready, is run by somebody else's choice: takes it out of the queues.
    fn take(&mut self, vcpu: VcpuId, view: &View);

    /// Chooses who runs on `cpu`, which is free now. Whoever ran there was handed over with `ready` before, unless it
    /// halted.
    fn pick(&mut self, cpu: CpuId, view: &View) -> Pick;

    /// `vcpu` ran on `cpu` for so long and has just stopped, or is looked at while it goes on. Called before `ready`.
    fn ran(&mut self, vcpu: VcpuId, cpu: CpuId, span: Span, view: &View);

    /// `vcpu` has nothing to do from now on. Called after `ran`.
    fn halted(&mut self, _vcpu: VcpuId, _view: &View) {}

    /// When its clock is to be looked at for the first time.
    fn first_tick(&self) -> Option<Time> {
        None
    }

    /// Its clock: CPUs that should pick anew go into `again`; answers when it is to be called next.
    fn tick(&mut self, _view: &View, _again: &mut Vec<CpuId>) -> Option<Time> {
        None
    }

    /// A moment at which its clock is to be looked at besides, asked for after every event. `tick` is called then too,
    /// and its answer counts for nothing.
    fn extra_tick(&mut self) -> Option<Time> {
        None
    }

    /// Whether everybody's books are to be brought up to date before its clock is looked at. False where each CPU has a clock
    /// of its own: all of them at each tick of each would be too many.
    fn reads_all_books(&self) -> bool {
        true
    }

    /// Whether no CPU idles while somebody waits who may use it. False where limits, slots or gangs forbid it.
    fn is_work_conserving(&self) -> bool {
        true
    }

    /// Whether `vcpu`, which is ready and allowed on `cpu`, may run there in the place of `spinner` of its VM.
    fn may_stand_in(&self, _vcpu: VcpuId, _spinner: VcpuId, _cpu: CpuId, _view: &View) -> bool {
        true
    }

    /// Who should run in the place of `spinner`, which spins in vain and asked for help: another ready virtual CPU of its
    /// VM, with `kernel_first` one that was preempted in its kernel, then who has waited longest.
    fn help(&mut self, spinner: VcpuId, cpu: CpuId, kernel_first: bool, view: &View) -> Option<VcpuId> {
        let vm = &view.vms[view.vm_of(spinner).index()];
        let candidates = vm.vcpus().filter(|vcpu| {
            *vcpu != spinner
                && view.vcpu(*vcpu).state == State::Ready
                && view.may_run(*vcpu, cpu)
                && self.may_stand_in(*vcpu, spinner, cpu, view)
        });
        candidates.min_by_key(|vcpu| {
            let it = view.vcpu(*vcpu);
            (kernel_first && !it.in_kernel, it.since, *vcpu)
        })
    }
}
