//! What virtual CPUs of a VM do to each other, as written in a scenario: locks of the guest's kernel, and interrupts that all
//! have to acknowledge. How each is simulated, and from which sources, is said in `crates/sim/src/guest`.

use serde::{Deserialize, Serialize};

use super::host::VmSpec;
use super::program::ProgramSpec;
use super::{Impossible, bounded};
use units::Nanos;

/// A virtual CPU halts after so many cycles: the 2^15 turns of Linux' loops (`SPIN_THRESHOLD`), each with a pause that takes
/// some 16 cycles with what is around it on x86 before Skylake (140 since).
const HALT_CYCLES: u64 = 1 << 19;

/// The locks of a guest's kernel, all of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct LockSpec {
    /// How many there are.
    pub count: u32,
    /// In which order waiting threads get one, and what they do meanwhile.
    pub kind: LockKindSpec,
    /// What a virtual CPU does that has spun for so many cycles; 0: it goes on spinning. KVM and Xen let Intel's CPUs notice
    /// after 4096 (`ple_window`), if pauses are at most 128 apart (`ple_gap`), which those of locks are.
    pub long_wait_cycles: u64,
    /// What that is.
    pub on_long_wait: LongWaitSpec,
    /// When a virtual CPU tells the host, it spins so many times longer before it does so again, until it is taken off its
    /// CPU; 2 in KVM since Linux 3.18 (`ple_window_grow`), 1 in Xen, and unless given.
    #[serde(skip_serializing_if = "is_one")]
    pub exit_growth: u32,
    /// After so many cycles of spinning a virtual CPU halts, with `pv-ticket` and `pv-queued`.
    #[serde(skip_serializing_if = "is_halt_cycles")]
    pub halt_cycles: u64,
    /// CPU time of a virtual CPU to halt and come back; 0 unless given.
    #[serde(skip_serializing_if = "is_nothing")]
    pub halt_ns: Nanos,
    /// CPU time of who wakes one that has halted (the hypercall, the interrupt); 0 unless given.
    #[serde(skip_serializing_if = "is_nothing")]
    pub kick_ns: Nanos,
    /// From then until who was woken wants a CPU; 0 unless given.
    #[serde(skip_serializing_if = "is_nothing")]
    pub wake_ns: Nanos,
    /// CPU time of telling the host (a hypercall, a pause-loop exit); 0 unless given.
    #[serde(skip_serializing_if = "is_nothing")]
    pub exit_ns: Nanos,
    /// Time for the lock's cache line to go from one CPU to another. Where all who wait poll that line (`test-and-set`,
    /// `ticket`, `pv-ticket`), each of them reads it anew when the lock is given back, and the next one gets to see it after
    /// half of the others on average (Boyd-Wickizer and others, Non-scalable locks are dangerous, 2012); 0 unless given.
    #[serde(skip_serializing_if = "is_nothing")]
    pub line_ns: Nanos,
}

impl Default for LockSpec {
    fn default() -> Self {
        Self {
            count: 0,
            kind: LockKindSpec::TestAndSet,
            long_wait_cycles: 65_536,
            on_long_wait: LongWaitSpec::Spin,
            exit_growth: 1,
            halt_cycles: HALT_CYCLES,
            halt_ns: Nanos::from_nanos(0),
            kick_ns: Nanos::from_nanos(0),
            wake_ns: Nanos::from_nanos(0),
            exit_ns: Nanos::from_nanos(0),
            line_ns: Nanos::from_nanos(0),
        }
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
const fn is_nothing(time: &Nanos) -> bool {
    time.get() == 0
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
const fn is_one(count: &u32) -> bool {
    *count == 1
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks by reference")]
const fn is_halt_cycles(cycles: &u64) -> bool {
    *cycles == HALT_CYCLES
}

/// Kinds of locks: in which order waiting threads get one, and what they do meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum LockKindSpec {
    /// In none: one of those that spin just now. Linux before 2.6.25; since 4.2 in guests that know of no paravirtual locks.
    TestAndSet,
    /// The foremost of the queue that spins just now; who comes while it is free takes it. `CONFIG_PARAVIRT_UNFAIR_LOCKS`,
    /// proposed for Linux in 2014 and not taken.
    UnfairQueued,
    /// First come, first served; all poll one word. Linux on x86 from 2.6.25 to 4.1, Xen's own locks since 4.6.
    Ticket,
    /// First come, first served; each polls a word of its own. Linux on x86 since 4.2 (`qspinlock`) on bare machines.
    Mcs,
    /// A ticket lock whose waiters halt after a while; who gives it back wakes the next. Linux 3.12 to 4.1 in guests of KVM
    /// and Xen (`CONFIG_PARAVIRT_SPINLOCKS`).
    PvTicket,
    /// A queue whose waiters halt after a while, and at once when the one before has; the first is woken when the lock is given
    /// back, and who comes meanwhile takes it. Linux since 4.2, with newcomers since 4.5, in guests of KVM and Xen.
    PvQueued,
    /// A mutex: who waits spins as long as the owner runs, then sleeps, and other threads run; one that was woken in vain is
    /// handed the lock. Linux since 4.10.
    Mutex,
}

impl LockKindSpec {
    /// Whether who waits halts by itself after a while.
    pub const fn halts(self) -> bool {
        matches!(self, Self::PvTicket | Self::PvQueued)
    }
}

/// What a virtual CPU does that has spun for long.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum LongWaitSpec {
    /// Goes on spinning.
    Spin,
    /// Tells the host, by a hypercall or because the CPU counts pauses.
    TellHost,
    /// Halts until the lock is handed to it (paravirtual locks).
    Halt,
}

impl LockSpec {
    /// Checks it; `path` makes paths of keys.
    pub(super) fn check(&self, path: &dyn Fn(&str) -> String) -> Result<(), Impossible> {
        bounded(path("locks.count"), self.count.into(), 0, 65_536)?;
        if self.on_long_wait != LongWaitSpec::Spin {
            bounded(path("locks.long_wait_cycles"), self.long_wait_cycles, 100, 1_000_000_000_000)?;
        }
        if self.on_long_wait == LongWaitSpec::Halt && (self.kind.halts() || self.kind == LockKindSpec::Mutex)
        {
            let problem = "who waits for this kind of lock halts or sleeps by itself (with halt_cycles, if it spins first); \
                           wanted \"spin\" or \"tell-host\"";
            return Err(Impossible::new(path("locks.on_long_wait"), problem));
        }
        bounded(path("locks.halt_cycles"), self.halt_cycles, 100, 1_000_000_000_000)?;
        bounded(path("locks.exit_growth"), self.exit_growth.into(), 1, 100)?;
        let costs = [
            ("halt_ns", self.halt_ns),
            ("kick_ns", self.kick_ns),
            ("wake_ns", self.wake_ns),
            ("exit_ns", self.exit_ns),
            ("line_ns", self.line_ns),
        ];
        costs.iter().try_for_each(|(key, cost)| at_most_a_second(path(&format!("locks.{key}")), *cost))
    }
}

fn at_most_a_second(path: String, cost: Nanos) -> Result<(), Impossible> {
    bounded(path, cost.get(), 0, 1_000_000_000)
}

/// Interrupts that virtual CPUs of a VM send to each other, and whose acknowledgements they wait for.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields, default)]
pub struct InterruptSpec {
    /// Whether one that is preempted is not waited for: it flushes its TLB when it runs again. Linux since 4.16 in guests of KVM
    /// (`KVM_FEATURE_PV_TLB_FLUSH`).
    pub pv_flush: bool,
    /// CPU time of who sends one, for each that it is sent to; 0 unless given.
    pub send_ns: Nanos,
    /// CPU time of who gets one until it has acknowledged; 0 unless given.
    pub handle_ns: Nanos,
}

impl InterruptSpec {
    /// Whether nobody wrote anything else down.
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }

    /// Checks it; `path` makes paths of keys.
    pub(super) fn check(&self, path: &dyn Fn(&str) -> String) -> Result<(), Impossible> {
        at_most_a_second(path("interrupts.send_ns"), self.send_ns)?;
        at_most_a_second(path("interrupts.handle_ns"), self.handle_ns)
    }
}

impl VmSpec {
    /// Whether its virtual CPUs interrupt each other.
    pub fn shoots_down(&self) -> bool {
        self.threads.iter().any(|thread| matches!(thread.run, ProgramSpec::Unmap { .. }))
    }
}
