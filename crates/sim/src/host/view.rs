//! What a policy may see of the host: who is there, who runs, who waits, and what is idle.

use super::cpus::CpuSet;
use crate::packed::Packed;
use crate::time::{Span, Time};

macro_rules! id {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub u32);

        impl $name {
            /// Its place in a list.
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

id!(
    /// A CPU of the host.
    CpuId
);
id!(
    /// A virtual CPU, counted over all VMs.
    VcpuId
);
id!(
    /// A VM.
    VmId
);

/// What a virtual CPU does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// It has nothing to do.
    Halted,
    /// It could run, but does not: this is steal.
    Ready,
    /// It runs there.
    Running(CpuId),
}

/// A virtual CPU.
#[derive(Debug, Clone)]
pub struct Vcpu {
    /// Its VM.
    pub vm: VmId,
    /// What it does.
    pub state: State,
    /// Since when.
    pub since: Time,
    /// Where it ran last: [`Self::last_cpu`].
    pub(super) last: Packed,
    /// Whether it was in its guest's kernel (holding a lock, say) when it was last taken off a CPU.
    pub in_kernel: bool,
    /// Which of [`View::affinities`] holds the CPUs it may use.
    pub affinity: u32,
    /// Time it ran, the current stretch left out.
    pub run: Span,
    /// Time it waited for a CPU, the current wait left out.
    pub steal: Span,
    /// Time it had nothing to do, the current stretch left out.
    pub halted: Span,
    /// How often it was brought onto a CPU.
    pub dispatches: u64,
}

impl Vcpu {
    /// Where it ran last.
    pub fn last_cpu(&self) -> Option<CpuId> {
        self.last.get().map(CpuId)
    }
}

/// A VM, as far as policies go.
#[derive(Debug, Clone, PartialEq)]
pub struct Vm {
    /// Its virtual CPUs are `first` to `first + count − 1`.
    pub first: VcpuId,
    /// How many it has.
    pub count: u32,
    /// Weight against others; 1 unless given.
    pub weight: f64,
    /// CPUs' worth of time that it is to get whenever it wants it; 0 unless given.
    pub reserved_cpus: f64,
    /// CPUs' worth of time that it never gets more of.
    pub limit_cpus: Option<f64>,
    /// When its first period of a budget, a limit or a reservation is over, if that is stated.
    pub phase: Option<Span>,
}

impl Vm {
    /// Its virtual CPUs.
    pub fn vcpus(&self) -> impl Iterator<Item = VcpuId> + use<> {
        (self.first.0..self.first.0 + self.count).map(VcpuId)
    }
}

/// A CPU of the host.
#[derive(Debug, Clone, Default)]
pub struct Cpu {
    /// Who runs on it.
    pub running: Option<VcpuId>,
    /// Who ran on it last.
    pub last: Option<VcpuId>,
    /// Since when it does what it does.
    pub since: Time,
    /// Time somebody ran on it, the current stretch left out.
    pub run: Span,
    /// Time it took to switch between virtual CPUs.
    pub switching: Span,
    /// Time nobody used, the current stretch left out.
    pub idle: Span,
    /// Switches.
    pub switches: u64,
    /// How often a virtual CPU was brought here that ran elsewhere the last time.
    pub migrations: u64,
}

/// The host as its policy sees it.
#[derive(Debug, Clone)]
pub struct View {
    /// The moment.
    pub now: Time,
    /// Its CPUs.
    pub cpus: Vec<Cpu>,
    /// All virtual CPUs, VM by VM.
    pub vcpus: Vec<Vcpu>,
    /// Its VMs.
    pub vms: Vec<Vm>,
    /// Sets of CPUs that virtual CPUs are bound to.
    pub affinities: Vec<CpuSet>,
    /// How many who are bound to each of these sets are ready.
    pub(super) ready: Vec<u32>,
    /// CPUs on which nobody runs.
    pub idle: CpuSet,
    /// Hardware threads of a core: 1, or 2 where CPUs 2i and 2i + 1 are one.
    pub smt: u32,
    /// Whether the CPUs' timers, and the VMs' periods, all begin at the same moment.
    pub in_step: bool,
}

impl View {
    /// This virtual CPU.
    pub fn vcpu(&self, vcpu: VcpuId) -> &Vcpu {
        &self.vcpus[vcpu.index()]
    }

    /// The VM of this virtual CPU.
    pub fn vm_of(&self, vcpu: VcpuId) -> VmId {
        self.vcpus[vcpu.index()].vm
    }

    /// Whether it may run there.
    pub fn may_run(&self, vcpu: VcpuId, cpu: CpuId) -> bool {
        self.affinity(vcpu).contains(cpu.0)
    }

    /// Where it may run.
    pub fn affinity(&self, vcpu: VcpuId) -> &CpuSet {
        &self.affinities[self.vcpus[vcpu.index()].affinity as usize]
    }

    /// An idle CPU for it: where it ran last if that is idle, otherwise the lowest it may use.
    pub fn idle_cpu_for(&self, vcpu: VcpuId) -> Option<CpuId> {
        let last = self.vcpu(vcpu).last_cpu();
        let free = |cpu: &CpuId| self.idle.contains(cpu.0) && self.may_run(vcpu, *cpu);
        last.filter(free).or_else(|| self.idle.first_common(self.affinity(vcpu)).map(CpuId))
    }

    /// The other hardware thread of a CPU's core, if there is one.
    pub fn sibling(&self, cpu: CpuId) -> Option<CpuId> {
        Some(CpuId(cpu.0 ^ 1)).filter(|other| self.smt > 1 && other.index() < self.cpus.len())
    }

    /// Those of a set of CPUs of whose core all threads are in it; none where a core has only one.
    pub fn whole_cores(&self, of: &CpuSet) -> CpuSet {
        if self.smt == 1 { CpuSet::default() } else { of.pairs(u32::try_from(self.cpus.len()).unwrap_or(0)) }
    }

    /// How many are ready that may use a CPU.
    pub fn ready_on(&self, cpu: CpuId) -> u32 {
        let sets = self.affinities.iter().zip(&self.ready);
        sets.filter(|(set, _)| set.contains(cpu.0)).map(|(_, ready)| ready).sum()
    }

    /// Brings a virtual CPU into another state.
    pub(super) fn turn(&mut self, vcpu: VcpuId, state: State) {
        let it = &mut self.vcpus[vcpu.index()];
        let ready = &mut self.ready[it.affinity as usize];
        *ready -= u32::from(it.state == State::Ready);
        *ready += u32::from(state == State::Ready);
        it.state = state;
    }

    /// How long it has run in all, the current stretch included.
    pub fn ran(&self, vcpu: VcpuId) -> Span {
        let it = self.vcpu(vcpu);
        match it.state {
            State::Running(_) => it.run + self.now.since(it.since),
            State::Halted | State::Ready => it.run,
        }
    }
}
