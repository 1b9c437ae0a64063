//! Which CPU makes room for who begins to wait, as `runq_tickle` of Xen's credit2 has it.
//!
//! ```text
//!  home, or the next CPU, of a core that is idle whole ─► home, or the next CPU, that is idle ─► who runs at home with less credit
//!                                                                       └─► who runs with least, and 0.5 ms less
//! ```

use super::books::Credit2Account;
use super::runners::{Query, Runner};
use super::{CREDIT, Credit2, RATE_LIMIT, RESIST, TOLERANCE};
use crate::host::{CpuId, CpuSet, VcpuId, View};

impl Credit2 {
    /// A CPU that should pick anew because `vcpu` waits, if any.
    pub(super) fn tickle(&mut self, vcpu: VcpuId, view: &View) -> Option<CpuId> {
        let it = self.accounts[vcpu.index()];
        let group = &self.groups[it.queue as usize];
        let (affinity, home, heaviest) = (view.affinity(vcpu), it.home, group.heaviest());
        let may_home = group.cpus.contains(home.0) && affinity.contains(home.0);
        if view.smt == 1 && may_home && view.idle.contains(home.0) {
            return Some(home);
        }
        let mut may = group.cpus.clone();
        may.intersect(affinity);
        if let Some(cpu) = self.idle_cpu(home, &may, view) {
            return Some(cpu);
        }
        let mut runners = std::mem::take(&mut self.runners);
        let of = |vcpu: VcpuId| {
            let Credit2Account { began, credit, burnt, weight, .. } = self.accounts[vcpu.index()];
            Runner { began, credit, burnt, weight, now: self.credit(vcpu, view.now) }
        };
        let ran = RATE_LIMIT.less(TOLERANCE);
        let at_home = view.cpus[home.index()].running.filter(|_| may_home).map(of);
        let is_taken =
            at_home.is_some_and(|other| view.now.since(other.began) > ran && other.now < it.credit);
        let query = Query { queue: it.queue, may: &may, ran, heaviest, floor: -CREDIT };
        let mut others = || runners.least(query, view, &of).filter(|(credit, _)| it.credit - credit > RESIST);
        let found = if is_taken { Some(home) } else { others().map(|(_, cpu)| cpu) };
        self.runners = runners;
        found
    }

    /// Of these CPUs an idle one: home, or the next after it. Where CPUs are threads of cores, as in Xen one of a core of which
    /// nobody uses any, if there is one (`smt_idle` in `runq_tickle`), and none to which somebody else is on his way.
    fn idle_cpu(&mut self, home: CpuId, may: &CpuSet, view: &View) -> Option<CpuId> {
        let mut idle = view.idle.clone();
        idle.subtract(&self.told);
        let mut whole = view.whole_cores(&idle);
        whole.intersect(may);
        idle.intersect(may);
        let set = if whole.is_empty() { idle } else { whole };
        let cpu = if set.contains(home.0) { Some(home.0) } else { set.next_after(home.0) };
        if let Some(cpu) = cpu.filter(|_| view.smt > 1) {
            self.told.insert(cpu);
        }
        cpu.map(CpuId)
    }
}
