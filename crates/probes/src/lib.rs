//! What is measured? Probes (measurement kernels), a folder each, and loads (neighbours with a measured dose).
//!
//! ```text
//!  Job ──► run::run_job ──► loads::Running (threads) ──────────────► Dose per load
//!                │                                                        │
//!                └──► measure ──► ProbeReport or the reason ───────────► JobReply ──► check ──► metrics_of
//! ```
//!
//! A probe is its folder, which implements [`probe::Probe`], and its two lines in this file; nothing else names it because it is
//! there. Of a folder only `run` and what it calls touch the world. Only [`clock`] touches the cycle counter, and only [`arena`]
//! and [`fresh_pages`] map memory.

// The probes.
pub mod build;
pub mod cpu;
pub mod disk;
pub mod exit;
pub mod fork;
pub mod frames;
pub mod ftq;
pub mod fwq;
pub mod gap;
pub mod linpack;
pub mod lock;
pub mod mem_bandwidth;
pub mod mem_latency;
pub mod mpi;
pub mod net;
pub mod pages;
pub mod share;
pub mod switch;
pub mod syscall;
pub mod wakeup;

// What a probe is, asked, and believed.
pub mod check;
pub mod context;
mod figures;
pub mod job;
mod list;
pub mod pretend;
pub mod probe;
mod rate;
pub mod run;
mod witnessed;

// Neighbours.
pub mod loads;

// What probes and loads are made with.
pub mod accounts;
pub mod alarm;
pub mod arena;
pub mod armed;
pub mod batches;
pub mod bounds;
pub mod clock;
pub mod error;
pub mod fresh_pages;
pub mod loopback;
pub mod machine;
mod outside;
pub mod pattern;
pub mod pin;
pub mod quantum;
pub mod realtime;
pub mod rendezvous;
pub mod scratch;
pub mod sizes;
pub mod streams;
pub mod workers;
pub mod worst;

use std::time::Duration;

use serde::{Deserialize, Serialize};
use units::Bytes;
use units::facts::{ClockFacts, MachineFacts};
use units::metric::Metric;
use units::scheduling::Scheduling;

use context::Context;
use error::WorkError;
use job::ProbeReport;
use list::probes;
pub use pretend::catalogue;
use probe::{About, Cost, Definition, Probe};
use units::bounds::OutOfBounds;

probes! {
    /// Gaps between two reads of the cycle counter: who takes the CPU away, and for how long.
    gap: Gap = "gap",
    /// Fixed work quantum: how long the same work takes, over and over.
    fwq: Fwq = "fwq",
    /// Fixed time quantum: how much work fits into equal spans of time, and the spectrum of what is missing.
    ftq: Ftq = "ftq",
    /// Timer wake-up latency of a sleeping thread; every missed period counts.
    wakeup: Wakeup = "wakeup",
    /// Fixed work per frame at 60 Hz, as an interactive program does it.
    frames: Frames = "frames",
    /// T threads of a fixed CPU-bound loop, T = 1 … 2 × CPUs.
    cpu: Cpu = "cpu",
    /// `getppid` in a loop.
    syscall: Syscall = "syscall",
    /// Context switch between two processes and two threads, through a pipe and a futex, on one CPU and on two.
    switch: Switch = "switch",
    /// fork, exec, wait in a loop.
    fork: Fork = "fork",
    /// Cost of one trap to the hypervisor (`cpuid`).
    exit: Exit = "exit",
    /// Waiting times of spinlocks: test-and-set and FIFO ticket.
    lock: Lock = "lock",
    /// LU solve with checked residual.
    linpack: Linpack = "linpack",
    /// A compile job.
    build: Build = "build",
    /// Dependent pointer chase over growing arrays.
    mem_latency: MemLatency = "mem-latency",
    /// Read, write and copy over growing arrays.
    mem_bandwidth: MemBandwidth = "mem-bandwidth",
    /// First touch of pages, cold and warm, and the node they come from.
    pages: Pages = "pages",
    /// Sequential and random access to a file or device, with stalls.
    disk: Disk = "disk",
    /// TCP and UDP between two instances: streams and request-response.
    net: Net = "net",
    /// Ping-pong and all-to-all between instances, as message-passing programs do it.
    mpi: Mpi = "mpi",
    /// What one instance gets of the CPUs when it needs some and the others want all.
    share: Share = "share",
}

impl ProbeKind {
    /// Whether several instances make this probe together; each of the others is made by one instance for itself.
    pub const fn is_made_together(self) -> bool {
        self.about().is_made_together
    }
}

impl ProbeSpec {
    /// Whether the probe is made by several instances together; the others are made by each instance for itself.
    pub const fn is_made_together(&self) -> bool {
        self.kind().is_made_together()
    }

    /// Whether the probe wants an instance that has just been started: it measures what only a fresh one shows.
    pub const fn wants_fresh_instance(&self) -> bool {
        self.kind().about().wants_fresh_instance
    }
}

impl Probes {
    /// Checks every bound; the error names the key, what was written and what is allowed.
    ///
    /// # Errors
    /// The first key outside its bounds.
    pub fn check(&self) -> Result<(), OutOfBounds> {
        self.specs().iter().try_for_each(ProbeSpec::check)
    }
}
