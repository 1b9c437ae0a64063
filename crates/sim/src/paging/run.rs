//! One run after the other on the same guests: who gets which page, and what that costs.

use super::pools::{GuestPool, HostPool, NodeId};
use crate::random::Stream;
use crate::time::Span;
use model::scenario::{MemorySpec, VmsSpec, WorkersSpec};
use units::Nanos;

/// Streams of this room begin with this number.
const PAGING: u64 = 6;
/// Shares are kept in billionths, so that time is counted in whole numbers.
const WHOLE: u128 = 1_000_000_000;

/// What a run yielded.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Outcome {
    /// Pages that workers used, each counted by who uses it.
    pub pages: u64,
    /// Faults that the guests saw.
    pub faults: u64,
    /// Of these, how many reached the host.
    pub host_faults: u64,
    /// Pages the host has moved.
    pub moved: u64,
    /// Pages used on another node, in parts of one over the number of a guest's workers.
    remote_parts: u128,
    /// All pages used, in the same parts.
    parts: u128,
    /// Time spent in the host for faults, of all workers.
    pub host_time: Span,
    /// Time of the slowest worker.
    pub time: Span,
}

impl Outcome {
    /// Share of the used pages that lie on another node than their user.
    pub fn remote_share(&self) -> f64 {
        if self.parts == 0 { 0.0 } else { self.remote_parts as f64 / self.parts as f64 }
    }
}

/// A worker during a run.
#[derive(Debug, Clone)]
struct Worker {
    node: NodeId,
    faults: u64,
    host_faults: u64,
    moved: u64,
    /// Own pages on its node, and on others.
    near: u64,
    far: u64,
}

/// A guest and its workers.
#[derive(Debug, Clone)]
struct Guest {
    pool: GuestPool,
    workers: Vec<NodeId>,
    /// Pages that all of its workers use, by node.
    shared: Vec<u64>,
}

/// The host with its guests.
pub struct Host<'a> {
    spec: &'a MemorySpec,
    seed: u64,
    pool: HostPool,
    guests: Vec<Guest>,
}

impl<'a> Host<'a> {
    /// Guests that were just started.
    pub fn new(spec: &'a MemorySpec, seed: u64) -> Self {
        let per_node = spec.workers_in_all / spec.nodes.max(1);
        let node = |number: u32| NodeId(u8::try_from(number).unwrap_or(u8::MAX));
        let guest = |nodes: std::ops::Range<u32>| {
            let pages = spec.pages_per_node.saturating_mul(nodes.len() as u64);
            Guest {
                pool: GuestPool::new(u32::try_from(pages).unwrap_or(u32::MAX)),
                workers: nodes.flat_map(|number| (0..per_node).map(move |_| node(number))).collect(),
                shared: vec![0; spec.nodes as usize],
            }
        };
        let guests = match spec.vms {
            VmsSpec::OneOverAll => vec![guest(0..spec.nodes)],
            VmsSpec::OnePerNode => (0..spec.nodes).map(|number| guest(number..number + 1)).collect(),
        };
        Self { spec, seed, pool: HostPool::new(spec.nodes, spec.pages_per_node), guests }
    }

    /// All workers touch all their pages, and end. The first run has number 0.
    pub fn run(&mut self, number: u32) -> Outcome {
        let mut outcome = Outcome::default();
        for (which, guest) in (0..).zip(&mut self.guests) {
            let mut stream = Stream::new(self.seed, &[PAGING, which, u64::from(number)]);
            let keeps = self.spec.workers == WorkersSpec::Threads;
            if number > 0 && !keeps && self.spec.mixing > 0.0 {
                guest.pool.mix(self.spec.mixing, &mut stream);
            }
            let faults = number == 0 || !keeps;
            let workers = guest.touch(self.spec, &mut self.pool, faults, number > 0, &mut stream);
            guest.account(self.spec, &workers, &mut outcome);
        }
        outcome
    }

    /// Free pages of the host and used ones of the guests, by node.
    #[cfg(test)]
    pub fn balance(&self) -> Vec<(u64, u64)> {
        let nodes = self.spec.nodes;
        let used = |node: usize| self.guests.iter().map(|guest| guest.pool.homes(nodes)[node]).sum();
        self.pool.free().iter().enumerate().map(|(node, free)| (*free, used(node))).collect()
    }
}

/// The last pages of each thread's are those that all use.
fn shared_pages(spec: &MemorySpec) -> u64 {
    let shared = u128::from(spec.pages_per_worker) * billionths(spec.shared_share) / WHOLE;
    u64::try_from(shared).unwrap_or(spec.pages_per_worker)
}

fn billionths(share: f64) -> u128 {
    u128::from(units::metric::saturate(share * WHOLE as f64))
}

impl Guest {
    /// Every worker touches its pages for the first time in this run, in turn, a page each.
    fn touch(
        &mut self,
        spec: &MemorySpec,
        host: &mut HostPool,
        faults: bool,
        is_warm: bool,
        stream: &mut Stream,
    ) -> Vec<Worker> {
        let new =
            |node: &NodeId| Worker { node: *node, faults: 0, host_faults: 0, moved: 0, near: 0, far: 0 };
        let mut workers: Vec<Worker> = self.workers.iter().map(new).collect();
        let private = spec.pages_per_worker - shared_pages(spec);
        self.shared.fill(0);
        let mut place = 0;
        for number in 0..spec.pages_per_worker {
            for worker in &mut workers {
                let Some((page, home)) = self.pool.page(place) else { return workers };
                place += 1;
                worker.faults += u64::from(faults);
                let home = match home {
                    None => {
                        worker.host_faults += 1;
                        let Some(given) = host.take(worker.node) else { continue };
                        self.pool.settle(page, given);
                        given
                    }
                    Some(home) if faults && is_warm && stream.unit() < spec.refault_share => {
                        worker.host_faults += 1;
                        let moves = spec.migration && home != worker.node;
                        if moves && host.exchange(home, worker.node) {
                            self.pool.settle(page, worker.node);
                            worker.moved += 1;
                            worker.node
                        } else {
                            home
                        }
                    }
                    Some(home) => home,
                };
                if number >= private {
                    self.shared[usize::from(home.0)] += 1;
                } else if home == worker.node {
                    worker.near += 1;
                } else {
                    worker.far += 1;
                }
            }
        }
        workers
    }

    /// Adds up what the workers did. Uses of shared pages go to all of them alike, so each worker uses its equal part of
    /// those on each node: everything is counted in parts of one over the number of workers.
    fn account(&self, spec: &MemorySpec, workers: &[Worker], outcome: &mut Outcome) {
        let count = workers.len().max(1) as u128;
        let all_shared: u64 = self.shared.iter().sum();
        let per_page = u128::from(spec.touches_per_page);
        let misses = per_page * billionths(spec.miss_share);
        let cost = |nanos: Nanos, times: u64| u128::from(nanos.get()) * u128::from(times);
        for worker in workers {
            let shared_near = self.shared.get(usize::from(worker.node.0)).copied().unwrap_or(0);
            let near = u128::from(worker.near) * count + u128::from(shared_near);
            let far = u128::from(worker.far) * count + u128::from(all_shared - shared_near);
            let waits = near * u128::from(spec.local_ns.get()) + far * u128::from(spec.remote_ns.get());
            let computes = (near + far) * per_page * u128::from(spec.compute_ns.get()) / count;
            // A page that is moved is copied by the host, for which it needs about as long as for another fault.
            let host = cost(spec.host_fault_ns, worker.host_faults + worker.moved);
            let time = cost(spec.guest_fault_ns, worker.faults)
                + host
                + computes
                + waits.saturating_mul(misses) / WHOLE / count;
            outcome.pages += spec.pages_per_worker;
            outcome.faults += worker.faults;
            outcome.host_faults += worker.host_faults;
            outcome.moved += worker.moved;
            outcome.remote_parts += far;
            outcome.parts += near + far;
            outcome.host_time += span(host);
            outcome.time = outcome.time.max(span(time));
        }
    }
}

fn span(nanos: u128) -> Span {
    Span::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}
