//! How the queues of CPUs are evened out: idle CPUs pull, all CPUs look round now and then; and cores whose threads are all idle
//! fetch one of two who share a core.
//!
//! ```text
//!  core 0  A │ B      wakes: at home if that is idle, else on an idle core, else beside who runs at home, else on any idle CPU
//!  core 1    │        four intervals later: B goes to core 1
//! ```
//! Source of the latter: Linux' `select_idle_sibling`, `select_idle_core` and `select_idle_smt` for who wakes; for who runs, its
//! load balancing between cores (`prefer_sibling`), in which a CPU that has failed to pull more than `cache_nice_tries` + 2 = 3
//! times has the running one moved (active balancing). Both conditions were looked up in patches to `kernel/sched/fair.c`, not in
//! the whole file. Simplified: of several shared cores the next one is relieved, of its threads the first whose task may move. The
//! other rules are those of the file above.

use super::PerCpuEevdf;
use crate::host::{CpuId, CpuSet, VcpuId, View};
use crate::time::{Span, Time};

/// CPUs even out their loads once per this and CPU of the domain when they are busy.
pub(super) const BUSY: Span = Span::from_millis(16);
/// The same for CPUs that are idle.
const IDLE: Span = Span::from_millis(1);
/// A domain counts as so wide at most.
pub(super) const WIDEST: u64 = 64;
/// Loads in per cent of one's own from which on something is moved.
const WORTH: i128 = 117;
/// Most that are moved at once.
const MOST_MOVED: usize = 32;
/// How often who runs beside another is left there.
const PATIENCE: u32 = 3;

/// An idle CPU for `vcpu`, which ran at `home` last.
pub(super) fn idle_cpu(vcpu: VcpuId, home: CpuId, view: &View) -> Option<CpuId> {
    if view.idle.contains(home.0) {
        return Some(home);
    }
    if view.idle.is_empty() {
        return None;
    }
    let mut whole = view.whole_cores(&view.idle);
    whole.intersect(view.affinity(vcpu));
    let mut idle = view.idle.clone();
    idle.intersect(view.affinity(vcpu));
    let sibling = view.sibling(home).map(|other| other.0).filter(|other| idle.contains(*other));
    whole.next_after(home.0).or(sibling).or_else(|| idle.next_after(home.0)).map(CpuId)
}

impl PerCpuEevdf {
    /// `cpu` has nothing to do and fetches somebody from where the load is highest.
    pub(super) fn pull(&mut self, cpu: CpuId, view: &View) -> bool {
        let waiting = self.waiting.as_ref();
        let mut found = None;
        self.busy.walk(self.busiest, &mut |peer| {
            found = waiting.and_then(|waiting| waiting.first_on(peer, cpu, view));
            found = found.filter(|vcpu| self.sent != Some(*vcpu));
            found.is_none()
        });
        if let Some(vcpu) = found {
            self.migrate(vcpu, cpu, view);
        }
        found.is_some()
    }

    /// `cpu` evens out its load and the highest.
    pub(super) fn even_out(&mut self, cpu: CpuId, view: &View) {
        let mut peer = None;
        self.busy.walk(self.busiest, &mut |other| {
            peer = (other != cpu.0).then_some(other);
            peer.is_none()
        });
        let Some(peer) = peer else { return };
        let load = |at: usize| self.cpus[at].sum.weight;
        let (own, high) = (load(cpu.index()), load(peer as usize));
        let mean = (0..self.cpus.len()).map(load).sum::<i128>() / self.cpus.len().max(1) as i128;
        if own >= mean || high * 100 <= own * WORTH {
            self.cpus[cpu.index()].failed = 0;
            return;
        }
        let (mut surplus, failed) = ((high - mean).min(mean - own), self.cpus[cpu.index()].failed);
        let (mut left, mut moved) =
            (self.waiting.as_ref().map_or(0, |waiting| waiting.len(peer)), Vec::new());
        let all = self.waiting.as_ref().map(|waiting| waiting.all(peer)).unwrap_or_default();
        for vcpu in all.into_iter().filter(|vcpu| view.may_run(*vcpu, cpu)).take(MOST_MOVED) {
            let Some(id) = self.members[vcpu.index()].group else { continue };
            let group = &self.groups[id as usize];
            let part = group.entity.weight / i128::from(group.count.max(1));
            if surplus <= 0 || left == 0 {
                break;
            }
            if part >> failed.min(64) > surplus {
                continue;
            }
            (surplus, left) = (surplus - part, left - 1);
            moved.push(vcpu);
        }
        let local = &mut self.cpus[cpu.index()];
        local.failed = if moved.is_empty() { failed + 1 } else { 0 };
        if !moved.is_empty() && view.idle.contains(cpu.0) {
            self.later.push(cpu);
        }
        for vcpu in moved {
            self.migrate(vcpu, cpu, view);
        }
    }

    /// `cpu` has its core to itself and finds two who share one: after some times in vain, one of them is to come, and its CPU
    /// is answered.
    pub(super) fn relieve(&mut self, cpu: CpuId, view: &View) -> Option<CpuId> {
        if view.smt == 1 {
            return None;
        }
        let mut busy = CpuSet::first(u32::try_from(view.cpus.len()).unwrap_or(0));
        busy.subtract(&view.idle);
        let (mut shared, is_alone) = (busy.pairs(0), view.whole_cores(&view.idle).contains(cpu.0));
        let found = loop {
            let Some(from) = shared.next_after(cpu.0).filter(|_| is_alone) else { break None };
            let running = view.cpus[from as usize].running.filter(|running| view.may_run(*running, cpu));
            if let Some(running) = running {
                break Some((running, CpuId(from)));
            }
            shared.remove(from);
        };
        let local = &mut self.cpus[cpu.index()];
        local.failed_core = if found.is_some() { local.failed_core + 1 } else { 0 };
        let (running, from) = found.filter(|_| local.failed_core > PATIENCE)?;
        local.failed_core = 0;
        self.members[running.index()].moves = Some(cpu);
        Some(from)
    }

    /// When `cpu` evens out next.
    pub(super) fn set_clock(&mut self, cpu: CpuId, at: Time) {
        self.cpus[cpu.index()].due = at;
        self.clock.push(at, cpu);
    }

    /// `cpu` has nothing to do from now on and evens out as idle ones do, where CPUs are threads of cores.
    pub(super) fn hasten(&mut self, cpu: CpuId, view: &View) {
        if view.smt == 1 || view.cpus.len() == 1 {
            return;
        }
        let at = view.now + self.interval(cpu, view);
        if at < self.cpus[cpu.index()].due {
            self.set_clock(cpu, at);
            self.sooner = Some(self.sooner.map_or(at, |sooner| sooner.min(at)));
        }
    }

    /// How long until `cpu` evens out next.
    pub(super) fn interval(&mut self, cpu: CpuId, view: &View) -> Span {
        let each = if view.idle.contains(cpu.0) { IDLE } else { BUSY };
        Span::from_nanos(each.nanos() * (view.cpus.len() as u64).min(WIDEST)) + self.slop.draw()
    }
}
