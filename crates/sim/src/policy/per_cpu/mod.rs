//! Policies as they are in real hosts: each CPU has a queue of its own, and takes work from others.
//!
//! ```text
//!  CPU 0  runs A.0   queue B.1 C.0          an idle CPU steals (credit), pulls (EEVDF), or is pushed work (credit2)
//!  CPU 1  idle       queue ─
//! ```
//! Read in the sources of Xen (4.21 in development, `xen/common/sched/credit.c` and `credit2.c`) and in the documentation of
//! Linux' fair scheduler; written anew.

mod balance;
mod caps;
mod credit;
mod credit2;
mod credit2_books;
mod credit_books;
mod eevdf;
mod eevdf_books;
mod load;
mod peers;
mod queues;

pub use credit::PerCpuCredit;
pub use credit_books::CreditKeys;
pub use credit2::Credit2;
pub use eevdf::PerCpuEevdf;

use crate::host::{CpuId, Vcpu, View};
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

/// Virtual CPUs that are made one after the other begin on one CPU after the other, as far as they may.
fn homes(view: &View) -> Vec<CpuId> {
    let mut next = vec![0; view.affinities.len()];
    let sets: Vec<Vec<u32>> = view.affinities.iter().map(|set| set.iter().collect()).collect();
    let home = |vcpu: &Vcpu| {
        let (at, set) = (&mut next[vcpu.affinity as usize], &sets[vcpu.affinity as usize]);
        let cpu = set.get(*at).or(set.first());
        *at = (*at + 1) % set.len().max(1);
        CpuId(cpu.copied().unwrap_or(0))
    };
    view.vcpus.iter().map(home).collect()
}
