//! The message-passing probe around its rounds: ranks as threads, memory, report.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use super::mesh::{MeshShape, Ways, connect};
use super::orders::Round;
use super::patterns::{Buffers, PatternTask, filling};
use super::post::MessagePost;
use super::wait::Rules;
use crate::arena::Arena;
use crate::clock::monotonic_facts;
use crate::context::Context;
use crate::detail::{Detail, MpiDetail, MpiPattern, MpiPoint};
use crate::error::WorkError;
use crate::job::ProbeReport;
use crate::params::MpiParams;
use crate::pin::{allowed_cpus, pin_by_turn};
use crate::rendezvous::{HelloWord, Patience, members};
use crate::workers::{self, Muster};
use units::facts::OwnCost;
use units::histogram::DenseHistogram;
use units::{Bytes, Nanos};

/// Measures every pattern and size together with the other instances.
///
/// # Errors
/// There are not two ranks, an instance did not come or went away, a message arrived changed, or the job was to end.
pub fn measure(params: &MpiParams, context: &Context<'_>) -> Result<ProbeReport, WorkError> {
    let shape = MeshShape::of(context.part, params.ranks_per_instance)?;
    let peers = if shape.instances > 1 { members(context.part, "mpi")?.1 } else { &[] };
    let agreed = serde_json::to_string(params)
        .map_err(|error| WorkError::Unfit(format!("the probe's parameters cannot be written: {error}")))?;
    let word = HelloWord::new(context.seed, &format!("mpi {agreed}"));
    let patience = Patience::of_job(context.bounds);
    let (ways, mailbox_bytes) = connect(shape, peers, word, &patience)?;
    let instance = Instance {
        shape,
        word,
        tasks: tasks(params),
        duration: params.duration_ms.to_duration(),
        patience,
        ways: ways.into_iter().map(|ways| Mutex::new(Some(ways))).collect(),
        broken: AtomicBool::new(false),
        reason: OnceLock::new(),
    };
    let outcome = workers::run(shape.each, context.bounds, |local, muster| instance.rank(local, muster));
    let outcome = outcome.map_err(|error| instance.first_reason(error))?;
    let notes = notes(shape, outcome.results.iter().filter_map(|own| own.note.clone()).collect());
    let buffers: u64 = outcome.results.iter().map(|own| own.memory.get()).sum();
    let points = outcome.results.into_iter().next().map_or_else(Vec::new, |own| own.points);
    let clock = monotonic_facts();
    let cost = OwnCost {
        per_sample_ns: clock.read_ns,
        cpu_time_ns: outcome.cpu_time,
        memory_bytes: Bytes::from_bytes(buffers + mailbox_bytes as u64),
    };
    let detail = MpiDetail { ranks: shape.ranks(), ranks_per_instance: shape.each, points };
    Ok(ProbeReport::new(clock, cost, Detail::Mpi(detail), notes))
}

/// Every pattern and size; what is written twice in the parameters is made once.
fn tasks(params: &MpiParams) -> Vec<PatternTask> {
    let mut sizes: Vec<u32> = Vec::new();
    for size in &params.message_bytes {
        if !sizes.contains(size) {
            sizes.push(*size);
        }
    }
    [MpiPattern::PingPong, MpiPattern::AllToAll]
        .into_iter()
        .flat_map(|pattern| sizes.iter().map(move |size| PatternTask { pattern, size: *size as usize }))
        .collect()
}

/// What the ranks of this instance share.
struct Instance<'a> {
    shape: MeshShape,
    word: HelloWord,
    tasks: Vec<PatternTask>,
    duration: Duration,
    patience: Patience<'a>,
    /// Taken by each rank as it begins.
    ways: Vec<Mutex<Option<Ways>>>,
    broken: AtomicBool,
    reason: OnceLock<String>,
}

/// What a rank brings home.
struct Own {
    points: Vec<MpiPoint>,
    memory: Bytes,
    note: Option<String>,
}

impl Instance<'_> {
    fn rank(&self, local: u32, muster: &Muster<'_>) -> Result<Own, WorkError> {
        let outcome = self.try_rank(local, muster);
        if let Err(error) = &outcome {
            // The first reason explains those of the others, which follow from it.
            let _ = self.reason.set(error.to_string());
            self.broken.store(true, Ordering::Relaxed);
        }
        outcome
    }

    /// The reason of the rank that gave up first.
    fn first_reason(&self, error: WorkError) -> WorkError {
        match (&error, self.reason.get()) {
            (WorkError::Unfit(_), Some(reason)) => WorkError::Unfit(reason.clone()),
            _ => error,
        }
    }

    fn try_rank(&self, local: u32, muster: &Muster<'_>) -> Result<Own, WorkError> {
        let rank = self.shape.rank(self.shape.instance, local);
        let ways = self
            .ways
            .get(local as usize)
            .map(|ways| ways.lock().unwrap_or_else(PoisonError::into_inner).take());
        let (outs, ins) = ways
            .flatten()
            .ok_or_else(|| WorkError::Unfit(format!("rank {rank} has no ways to the others")))?;
        let pinned = pin_by_turn(rank);
        let largest = self.tasks.iter().map(|task| task.size).max().unwrap_or(1);
        let mut message = Arena::new(Bytes::from_bytes(largest as u64))?;
        let mut buffer = Arena::new(Bytes::from_bytes(largest as u64))?;
        let memory = Bytes::from_bytes(message.size().get() + buffer.size().get());
        filling(self.word, rank).fill(message.bytes_mut());
        let mut buffers = Buffers { message: message.bytes_mut(), buffer: buffer.bytes_mut() };
        let mut post =
            MessagePost { rank, outs, ins, rules: Rules { patience: self.patience, broken: &self.broken } };
        muster.wait()?;
        let mut times = DenseHistogram::new();
        let mut points = Vec::new();
        for (number, task) in (1u64..).zip(&self.tasks) {
            times.clear();
            let outcome = Round::new(&mut post, &mut buffers, self.word, number, *task)
                .make(self.duration, &mut times)?;
            if rank == 0 {
                points.push(MpiPoint {
                    pattern: task.pattern,
                    message_bytes: u32::try_from(task.size).unwrap_or(u32::MAX),
                    iterations: outcome.iterations,
                    elapsed_ns: Nanos::from_duration(outcome.elapsed),
                    iteration_ns: times.to_histogram(),
                });
            }
        }
        // Nobody hangs up before everybody is through.
        super::patterns::barrier(&mut post, self.word, 0)?;
        Ok(Own { points, memory, note: pinned.note })
    }
}

fn notes(shape: MeshShape, mut pins: Vec<String>) -> Vec<String> {
    pins.dedup();
    pins.truncate(8);
    let ways = match (shape.instances, shape.each) {
        (1, _) => "messages go through memory inside the instance",
        (_, 1) => "messages go over TCP between the instances",
        _ => "messages go over TCP between instances and through memory inside one",
    };
    let cpus = allowed_cpus().len().max(1);
    let crowded = (shape.each as usize > cpus)
        .then(|| format!("{} ranks share {cpus} CPUs of an instance and take turns", shape.each));
    [format!("{} ranks; {ways}; who waits spins, then yields", shape.ranks())]
        .into_iter()
        .chain(crowded)
        .chain(pins)
        .collect()
}
