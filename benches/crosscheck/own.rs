//! Runs our probes as an agent would, in this process.

use std::path::Path;
use std::sync::atomic::AtomicBool;

use bulkhead::probes::detail::Detail;
use bulkhead::probes::job::{Job, Part, Peer, ProbeReport};
use bulkhead::probes::params::ProbeSpec;
use bulkhead::probes::run::{Surroundings, run_job};
use bulkhead::units::Millis;
use bulkhead::units::outside::ClockReading;
use bulkhead::units::stage::{Stage, Start};

/// No probe here may take longer.
const PATIENCE: Millis = Millis::from_millis(600_000);

/// A host without anything to say but "go".
struct Alone;

impl Stage for Alone {
    fn running(&mut self) {}

    fn await_start(&mut self) -> Start {
        Start::AtOnce
    }

    fn ask_clock(&mut self, _exchanges: u32) -> Option<ClockReading> {
        None
    }
}

/// Runs one probe alone.
pub fn run(probe: ProbeSpec, scratch: &Path) -> Result<Detail, String> {
    run_part(probe, scratch, None).map(|report| report.detail)
}

fn run_part(probe: ProbeSpec, scratch: &Path, part: Option<Part>) -> Result<ProbeReport, String> {
    probe.check().map_err(|error| error.to_string())?;
    let job = Job { id: 1, probe: Some(probe), seed: 42, deadline_ms: PATIENCE, part, ..Job::default() };
    let surroundings = Surroundings { scratch: Some(scratch.to_owned()), exe: "/proc/self/exe".into() };
    let reply = run_job(&job, &surroundings, &AtomicBool::new(false), &mut Alone);
    reply.report.unwrap_or_else(|| Err("the probe brought no report".into())).map_err(String::from)
}

/// Runs one probe in several instances at once, each a thread of this process; returns what the first one saw.
pub fn run_together(probe: &ProbeSpec, scratch: &Path, peers: &[Peer]) -> Result<Detail, String> {
    let ranks = u32::try_from(peers.len()).unwrap_or(u32::MAX);
    let outcomes: Vec<Result<ProbeReport, String>> = std::thread::scope(|scope| {
        let started: Vec<_> = (0..ranks)
            .map(|rank| {
                let part = Part { rank, ranks, peers: peers.to_vec() };
                scope.spawn(move || run_part(probe.clone(), scratch, Some(part)))
            })
            .collect();
        let joined = started.into_iter().map(std::thread::ScopedJoinHandle::join);
        joined.map(|outcome| outcome.unwrap_or_else(|_| Err("a probe panicked".to_owned()))).collect()
    });
    let mut first = None;
    for outcome in outcomes {
        let report = outcome?;
        first.get_or_insert(report.detail);
    }
    first.ok_or_else(|| "nobody took part".to_owned())
}
