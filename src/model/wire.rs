//! Messages between host and agent. How they are framed is the link's business (`platforms::link`).
//!
//! ```text
//!   host                         agent
//!    │ ◄──────── Hello ──────────│   version, facts
//!    │ ───────── Run ───────────►│
//!    │ ◄──────── Running ────────│   loads are up, the probe starts
//!    │ ◄──────── Heartbeat ──────│   while the job runs
//!    │ ───────── Stop ──────────►│   (jobs without a probe)
//!    │ ◄──────── Done ───────────│
//!    │ ───────── Bye ───────────►│   the agent ends
//! ```

use serde::{Deserialize, Serialize};

use super::facts::MachineFacts;
use super::job::{Job, JobReply};

/// Version of the messages; both ends must agree.
pub const PROTOCOL_VERSION: u32 = 1;

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
