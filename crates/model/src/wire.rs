//! Messages between host and agent. How they are framed is the link's business (`platforms::link`).
//!
//! ```text
//!   host                         agent
//!    │ ◄──────── Hello ──────────│   version, facts
//!    │ ───────── Run ───────────►│
//!    │ ◄──────── AskClock ───────│   before and after the probe, several times, unless the clock is asked by UDP
//!    │ ───────── Clock ─────────►│
//!    │ ◄──────── Running ────────│   loads are up, the probe starts
//!    │ ───────── Start ─────────►│   (jobs with a part: begin at this moment)
//!    │ ◄──────── Heartbeat ──────│   while the job runs
//!    │ ───────── Stop ──────────►│   (jobs without a probe)
//!    │ ◄──────── Done ───────────│
//!    │ ───────── Bye ───────────►│   the agent ends
//! ```

use serde::{Deserialize, Serialize};

use probes::job::{Job, JobReply};
use units::Nanos;
use units::facts::MachineFacts;

/// Version of the messages; both ends must agree.
pub const PROTOCOL_VERSION: u32 = 2;

/// From the host to an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum ToAgent {
    /// Do this.
    Run {
        /// The job.
        job: Box<Job>,
    },
    /// End the loads of this job and reply.
    Stop {
        /// Number of the job.
        id: u64,
    },
    /// Begin the probe of this job at this moment.
    Start {
        /// Number of the job.
        id: u64,
        /// Host's `CLOCK_MONOTONIC`.
        at_ns: Nanos,
    },
    /// Answer to [`ToHost::AskClock`].
    Clock {
        /// Number of the question.
        question: u64,
        /// Host's `CLOCK_MONOTONIC` when the question arrived.
        received_ns: Nanos,
        /// Host's `CLOCK_MONOTONIC` when the answer left.
        sent_ns: Nanos,
    },
    /// Nothing more to do: end.
    Bye,
}

/// From an agent to the host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum ToHost {
    /// First message of an agent.
    Hello {
        /// [`PROTOCOL_VERSION`] of the agent.
        protocol: u32,
        /// Version of its binary.
        version: String,
        /// What it sees of its machine.
        facts: Box<MachineFacts>,
    },
    /// The loads of this job are running and its probe starts now.
    Running {
        /// Number of the job.
        id: u64,
    },
    /// What does the host's clock say?
    AskClock {
        /// Number of the question, counted up by the agent.
        question: u64,
    },
    /// The agent is alive and the job still runs.
    Heartbeat {
        /// Number of the job.
        id: u64,
    },
    /// The job is done.
    Done {
        /// Number of the job.
        id: u64,
        /// What came of it.
        reply: Box<JobReply>,
    },
}
