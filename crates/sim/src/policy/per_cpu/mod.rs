//! Policies as they are in real hosts: each CPU has a queue of its own, and takes work from others.
//!
//! ```text
//!  CPU 0  runs A.0   queue B.1 C.0          an idle CPU steals (credit), pulls (EEVDF), or is pushed work (credit2)
//!  CPU 1  idle       queue ─
//! ```
//! Read in the sources of Xen (4.21 in development, `xen/common/sched/credit.c` and `credit2.c`) and in the documentation of
//! Linux' fair scheduler; written anew.

mod caps;
mod credit;
mod credit2;
mod eevdf;
mod queues;

pub use credit::{CreditKeys, PerCpuCredit};
pub use credit2::Credit2;
pub use eevdf::PerCpuEevdf;

use crate::host::{CpuId, CpuSet, Vcpu, View};
use crate::random::Stream;
use crate::time::Span;

/// Timers of real CPUs go off so much late at most: Xen lets them wait for others, `timer_slop` is 50 µs unless given.
const SLOP: Span = Span::from_micros(50);

/// By how much timers are late: not at all where CPUs are in step, else by chance, so that no phase of theirs lasts.
#[derive(Debug, Clone)]
struct Slop(Option<Stream>);

impl Slop {
    fn new(in_step: bool) -> Self {
        Self((!in_step).then(|| Stream::new(0, &[5])))
    }

    fn draw(&mut self) -> Span {
        self.0.as_mut().map_or(Span::ZERO, |stream| Span::from_nanos(stream.below(SLOP.nanos())))
    }
}

/// Virtual CPUs that are made one after the other begin on one CPU after the other, as far as they may; where CPUs are threads of
/// cores, on one core after the other first, as Xen's and Linux' placement does by looking for the core with most idle threads.
fn homes(view: &View) -> Vec<CpuId> {
    let mut next = vec![0; view.affinities.len()];
    let sets: Vec<Vec<u32>> = view.affinities.iter().map(|set| one_per_core(set, view)).collect();
    let home = |vcpu: &Vcpu| {
        let (at, set) = (&mut next[vcpu.affinity as usize], &sets[vcpu.affinity as usize]);
        let cpu = set.get(*at).or(set.first());
        *at = (*at + 1) % set.len().max(1);
        CpuId(cpu.copied().unwrap_or(0))
    };
    view.vcpus.iter().map(home).collect()
}

/// The CPUs of a set, in order: the first thread that it has of each core, then the second.
fn one_per_core(set: &CpuSet, view: &View) -> Vec<u32> {
    let is_second =
        |cpu: &u32| view.sibling(CpuId(*cpu)).is_some_and(|other| other.0 < *cpu && set.contains(other.0));
    let (second, mut first): (Vec<u32>, Vec<u32>) = set.iter().partition(is_second);
    first.extend(second);
    first
}
