//! Members of a joint measurement, each a thread of the test with ports of its own on loopback.
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::thread;

use bulkhead::probes::check::check_report;
use bulkhead::probes::job::{Job, Part, Peer, ProbeReport};
use bulkhead::probes::params::ProbeSpec;
use bulkhead::probes::run::{Surroundings, run_job};
use bulkhead::units::Millis;

pub mod proxy;

/// Ports of one instance.
pub const PORTS: u16 = 100;
/// Below the range from which the kernel takes ports by itself.
static NEXT_PORT: AtomicU16 = AtomicU16::new(0);

/// Addresses of the members and what they are told.
#[derive(Debug, Clone)]
pub struct Members {
    pub peers: Vec<Peer>,
    pub seed: u64,
    pub deadline: Millis,
}

impl Members {
    /// So many on loopback, all on one host.
    pub fn on_loopback(count: usize) -> Self {
        let peers = (0..count).map(|_| Peer { host: 0, address: free_address() }).collect();
        Self { peers, seed: 42, deadline: Millis::from_millis(120_000) }
    }

    pub fn with_deadline(self, millis: u64) -> Self {
        Self { deadline: Millis::from_millis(millis), ..self }
    }

    /// The job of a member.
    pub fn job(&self, rank: usize, probe: &ProbeSpec) -> Job {
        let number = |count: usize| u32::try_from(count).expect("few members");
        Job {
            id: 1,
            probe: Some(probe.clone()),
            seed: self.seed,
            deadline_ms: self.deadline,
            part: Some(Part {
                rank: number(rank),
                ranks: number(self.peers.len()),
                peers: self.peers.clone(),
            }),
            ..Job::default()
        }
    }

    /// One member, until its job is over.
    pub fn run_one(&self, rank: usize, probe: &ProbeSpec, stop: &AtomicBool) -> Result<ProbeReport, String> {
        let surroundings = Surroundings { scratch: None, exe: PathBuf::from("/bin/true") };
        let reply = run_job(&self.job(rank, probe), &surroundings, stop, &mut || {});
        reply.report.expect("there was a probe").map_err(String::from)
    }

    /// All members at once.
    pub fn run(&self, probe: &ProbeSpec) -> Vec<Result<ProbeReport, String>> {
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let started: Vec<_> = (0..self.peers.len())
                .map(|rank| {
                    let stop = &stop;
                    scope.spawn(move || self.run_one(rank, probe, stop))
                })
                .collect();
            started.into_iter().map(|member| member.join().expect("no panic")).collect()
        })
    }
}

/// An address whose ports nobody uses; each call gives another one.
pub fn free_address() -> SocketAddr {
    // Tests of several processes run at once: the process number keeps them apart, a trial bind makes sure.
    let start = u16::try_from(std::process::id() % 180).expect("below 180") * PORTS;
    loop {
        let turn = NEXT_PORT.fetch_add(1, Ordering::Relaxed) % 180;
        let port = 12_000 + (start + turn * PORTS) % 18_000;
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        if TcpListener::bind(address).is_ok() {
            return address;
        }
    }
}

/// A report that passes the host's checks.
pub fn report_of(outcome: &Result<ProbeReport, String>) -> &ProbeReport {
    let report = outcome.as_ref().expect("it was measured");
    assert_eq!(check_report(report), Ok(()));
    report
}
