//! The bench: mappings first, then rounds, each with every way at every size in random order, one series at a time.

use std::path::{Path, PathBuf};
use std::time::Duration;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::gather::Workers;
use super::handle::{NoAnswer, WorkerHandle};
use super::worker::RING_BYTES;
use super::workers::{CHANNEL_A, CHANNEL_B, FOLLOWER_ADDRESS};
use analysis::channel_bench as figures;
use model::channel_bench::{
    BenchLimits, CHANNEL_BENCH_VERSION, ChannelBench, Mapping, SeriesFailure, Taken, Way,
};
use model::channel_worker::{MappingOrder, Seen, SeriesOrder, Through, WorkerAnswer, WorkerOrder, WorkerWay};
use platforms::Cancel;
use units::Reason;

/// Longest time that a single message may take.
const MESSAGE_PATIENCE: Duration = Duration::from_secs(10);
/// Longest time that a series may take beside its limits: a few messages that run out of patience.
const ANSWER_PATIENCE: Duration = Duration::from_secs(45);
/// How often a mapping is measured.
const MAPPING_REPEATS: u32 = 15;
/// Port at which the partition that follows listens, in its own network.
const PORT: u16 = 7000;

/// What is to be measured.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Seed of the order.
    pub seed: u64,
    /// Rounds.
    pub rounds: u32,
    /// Sizes of messages.
    pub sizes: Vec<u64>,
    /// How much each series measures.
    pub limits: BenchLimits,
    /// Host CPUs of who leads and who follows; empty where there are no two.
    pub cpus: Vec<u32>,
}

impl Plan {
    /// Ways that can be gone.
    pub fn ways(with_partitions: bool) -> Vec<Way> {
        Way::ALL.into_iter().filter(|way| with_partitions || way.is_on_host()).collect()
    }
}

/// A bench at work.
struct Bench<'a> {
    plan: &'a Plan,
    workers: &'a mut Workers,
    /// Number of the last order.
    number: u64,
}

/// Measures everything; `done` is told the number of finished series and of all.
///
/// An interruption ends it early, with what was measured until then.
pub fn run(
    plan: &Plan,
    workers: &mut Workers,
    cancel: &Cancel,
    done: &mut dyn FnMut(usize, usize),
) -> ChannelBench {
    let ways = Plan::ways(workers.partitions.is_some());
    let engine = workers.partitions.as_ref().and_then(|(a, _)| a.engine.clone());
    let mut bench = Bench { plan, workers, number: 0 };
    let (mappings, lost) = bench.mappings();
    let mut taken: Vec<Taken> = Vec::new();
    let series = orders(plan, &ways);
    let mut interrupted = cancel.is_cancelled();
    for (round, way, bytes) in &series {
        if interrupted {
            break;
        }
        let outcome = match bench.series(*way, *bytes) {
            Ok(seen) => Ok(seen),
            Err(NoAnswer::Failed(reason)) => Err(reason),
            Err(NoAnswer::Interrupted) => {
                interrupted = true;
                break;
            }
        };
        taken.push(Taken { round: *round, way: *way, bytes: *bytes, outcome });
        done(taken.len(), series.len());
        interrupted = cancel.is_cancelled();
    }
    let mut failures = lost;
    failures.extend(figures::failures(&taken));
    ChannelBench {
        schema_version: CHANNEL_BENCH_VERSION,
        bulkhead_version: env!("CARGO_PKG_VERSION").to_owned(),
        seed: plan.seed,
        rounds: plan.rounds,
        interrupted,
        engine,
        host_cpus: plan.cpus.clone(),
        ring_bytes: RING_BYTES,
        limits: plan.limits,
        mappings,
        clocks: figures::clocks(&taken),
        series: figures::series(&taken),
        marks: figures::marks(&taken),
        floors: figures::floors(&taken),
        failures,
    }
}

/// All series in their order: rounds one after the other, in each the sizes in random order, at each the ways.
fn orders(plan: &Plan, ways: &[Way]) -> Vec<(u32, Way, u64)> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(plan.seed);
    let mut all = Vec::new();
    for round in 0..plan.rounds {
        let mut sizes = plan.sizes.clone();
        sizes.shuffle(&mut random);
        for bytes in sizes {
            let mut ways: Vec<Way> = ways.iter().copied().filter(|way| way.carries(bytes)).collect();
            ways.shuffle(&mut random);
            all.extend(ways.into_iter().map(|way| (round, way, bytes)));
        }
    }
    all
}

impl Bench<'_> {
    fn next(&mut self) -> u64 {
        self.number += 1;
        self.number
    }

    /// Every mapping beside ordinary memory of the same process; and which could not be measured.
    fn mappings(&mut self) -> (Vec<Mapping>, Vec<SeriesFailure>) {
        let section = || Some(section_path(CHANNEL_A));
        let mut places = vec![("host, shared memory", None, true)];
        if self.workers.partitions.is_some() {
            places.insert(0, ("partition a, the section it writes", section(), true));
            places.insert(1, ("partition b, the same section, read-only", section(), false));
        }
        let (mut mappings, mut failures) = (Vec::new(), Vec::new());
        for (at, (place, path, writable)) in places.into_iter().enumerate() {
            let number = self.next();
            let leads = at == 0;
            let order = MappingOrder { number, path, writable, repeats: MAPPING_REPEATS, cpu: None };
            let cpu = |host: bool| self.plan.cpu(leads, host);
            let partitions = self.workers.partitions.as_mut();
            let (handle, cpu) = match (partitions, at) {
                (Some((a, _)), 0) => (&mut a.handle, cpu(false)),
                (Some((_, b)), 1) => (&mut b.handle, cpu(false)),
                _ => (&mut self.workers.host.handle, cpu(true)),
            };
            match ask(handle, &WorkerOrder::Mapping(MappingOrder { cpu, ..order }), number) {
                Ok(WorkerAnswer::Mappings { repeats, .. }) => {
                    mappings.push(figures::mapping(place.to_owned(), &repeats));
                }
                Ok(_) => failures.push(mapping_failure(place, "gave another kind of answer")),
                Err(NoAnswer::Failed(reason)) => failures.push(mapping_failure(place, &reason.to_string())),
                Err(NoAnswer::Interrupted) => break,
            }
        }
        (mappings, failures)
    }

    /// One way at one size.
    fn series(&mut self, way: Way, bytes: u64) -> Result<Seen, NoAnswer> {
        let number = self.next();
        let on_host = way.is_on_host();
        let order = |worker_way: WorkerWay, leads: bool| SeriesOrder {
            number,
            way: worker_way,
            leads,
            bytes,
            limits: self.plan.limits.of(way),
            cpu: self.plan.cpu(leads, on_host),
            second_cpu: self.plan.cpu(false, on_host),
            patience_ms: u64::try_from(MESSAGE_PATIENCE.as_millis()).unwrap_or(u64::MAX),
        };
        let between = |through: Through| {
            let shared = |own: &str, peer: &str, leads: bool| {
                let (own, peer) = (section_path(own), section_path(peer));
                order(WorkerWay::Shared { through, own, peer }, leads)
            };
            (shared(CHANNEL_A, CHANNEL_B, true), shared(CHANNEL_B, CHANNEL_A, false))
        };
        let address = format!("{FOLLOWER_ADDRESS}:{PORT}");
        let tcp = WorkerWay::Tcp { address };
        let pair = |through: Through| order(WorkerWay::Pair(through), true);
        let copy = order(WorkerWay::Copy, true);
        let over_tcp = (order(tcp.clone(), true), order(tcp, false));
        let host = &mut self.workers.host;
        let outcome = match (way, self.workers.partitions.as_mut()) {
            (Way::Host, _) => alone(&mut host.handle, pair(Through::Ring)),
            (Way::HostFlag, _) => alone(&mut host.handle, pair(Through::Flag)),
            (Way::HostCopy, _) => alone(&mut host.handle, copy),
            (Way::OneGuest, Some((a, _))) => alone(&mut a.handle, pair(Through::Ring)),
            (Way::GuestCopy, Some((a, _))) => alone(&mut a.handle, copy),
            (Way::Channel, Some((a, b))) => together(&mut a.handle, &mut b.handle, between(Through::Ring)),
            (Way::Flag, Some((a, b))) => together(&mut a.handle, &mut b.handle, between(Through::Flag)),
            (Way::Tcp, Some((a, b))) => together(&mut a.handle, &mut b.handle, over_tcp),
            (_, None) => Err(NoAnswer::Failed("there are no partitions".into())),
        };
        outcome.map_err(|error| self.explained(way, error))
    }

    /// Adds how a worker ended, if one has.
    fn explained(&mut self, way: Way, error: NoAnswer) -> NoAnswer {
        if error == NoAnswer::Interrupted {
            return error;
        }
        let mut lost: Vec<String> = Vec::new();
        if way.is_on_host() {
            self.workers.host.explain();
            lost.extend(self.workers.host.handle.lost().map(Reason::to_string));
        } else if let Some((a, b)) = self.workers.partitions.as_mut() {
            for worker in [a, b] {
                worker.explain();
                lost.extend(worker.handle.lost().map(Reason::to_string));
            }
        }
        if lost.is_empty() { error } else { NoAnswer::Failed(lost.join("; ").into()) }
    }
}

impl Plan {
    /// CPU of who leads or follows, as the host or a guest counts: its virtual CPUs are bound one to one.
    fn cpu(&self, leads: bool, on_host: bool) -> Option<u32> {
        let at = usize::from(!leads);
        let host = self.cpus.get(at).copied()?;
        if on_host { Some(host) } else { u32::try_from(at).ok() }
    }
}

/// Where a partition finds a section.
fn section_path(name: &str) -> PathBuf {
    Path::new("/dev/bulkhead").join(name)
}

fn mapping_failure(place: &str, reason: &str) -> SeriesFailure {
    let reason = format!("{place}: {reason}");
    SeriesFailure { way: Way::Channel, size_bytes: None, round: 0, reason }
}

fn ask(handle: &mut WorkerHandle, order: &WorkerOrder, number: u64) -> Result<WorkerAnswer, NoAnswer> {
    handle.order(order)?;
    handle.answer(number, ANSWER_PATIENCE)
}

fn alone(handle: &mut WorkerHandle, order: SeriesOrder) -> Result<Seen, NoAnswer> {
    let number = order.number;
    seen(ask(handle, &WorkerOrder::Series(order), number)?)
}

/// Who follows is told first, and always heard out: its answer must not be taken for that of the next series.
fn together(
    leader: &mut WorkerHandle,
    follower: &mut WorkerHandle,
    (begin, answer): (SeriesOrder, SeriesOrder),
) -> Result<Seen, NoAnswer> {
    if let Some(lost) = leader.lost() {
        return Err(NoAnswer::Failed(lost.clone()));
    }
    let number = begin.number;
    follower.order(&WorkerOrder::Series(answer))?;
    let first = ask(leader, &WorkerOrder::Series(begin), number);
    let second = follower.answer(number, ANSWER_PATIENCE);
    match (first, second) {
        (Ok(answer), Ok(_)) => seen(answer),
        (Err(NoAnswer::Failed(one)), Err(NoAnswer::Failed(other))) => {
            Err(NoAnswer::Failed(format!("{one}; {other}").into()))
        }
        (Err(error), _) | (_, Err(error)) => Err(error),
    }
}

fn seen(answer: WorkerAnswer) -> Result<Seen, NoAnswer> {
    match answer {
        WorkerAnswer::Outcome { seen, .. } => Ok(seen),
        _ => Err(NoAnswer::Failed("a worker gave another kind of answer".into())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_at_every_size_comes_once_in_each_round_and_a_seed_repeats_the_order() {
        let limits = BenchLimits { trips: 1, trips_ms: 1, batch_ms: 1, stream_ms: 1, tcp_factor: 2 };
        let plan = Plan { seed: 7, rounds: 3, sizes: vec![1, 8, 64], limits, cpus: vec![2, 3] };
        let ways = Plan::ways(true);
        let all = orders(&plan, &ways);
        assert_eq!(all, orders(&plan, &ways));
        assert_ne!(all, orders(&Plan { seed: 8, ..plan.clone() }, &ways));
        let mut sorted = all.clone();
        sorted.sort_unstable();
        sorted.dedup();
        // The flags carry one size.
        let wanted = 3 * (3 * 6 + 2);
        assert_eq!((all.len(), sorted.len()), (wanted, wanted));
        assert!(all.is_sorted_by_key(|(round, ..)| *round));
        assert_eq!(
            (plan.cpu(true, true), plan.cpu(false, true), plan.cpu(false, false)),
            (Some(2), Some(3), Some(1))
        );
        assert_eq!(Plan::ways(false), [Way::Host, Way::HostCopy, Way::HostFlag]);
    }
}
