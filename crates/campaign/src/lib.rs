//! Which measurements, in which order? Matrix, journal, resume, stop rule, and what the journal adds up to.
//!
//! ```text
//!  Experiment ─► RunDir ─► run ──────────────► conclude ─► RunResults
//!                           │ ▲                    ▲
//!                   append  ▼ │ resume             │ read
//!                         journal.jsonl ───────────┘
//! ```
//!
//! Everything decided during a run (what is next, which group is done, whether the budget is used up) is a function of
//! the experiment and the journal, so a run that was killed and resumed makes the decisions it would have made anyway.

pub mod analysis;
pub mod conclude;
pub mod cost;
pub mod decide;
pub mod demand;
pub mod durations;
pub mod effect;
mod error;
pub mod eta;
pub mod event;
mod fleet;
mod floods;
pub mod foresee;
pub mod history;
mod host_cpu;
mod host_memory;
pub mod joint;
pub mod journal;
mod latest;
mod learn;
mod measure;
mod network;
mod pilot;
pub mod plan;
pub mod predict;
pub mod preview;
pub mod rundir;
mod rundir_lock;
pub mod runner;
mod seed;
pub mod shipped;
mod survey;

pub use conclude::{conclude, read_results, read_run, read_shares, read_simulated};
pub use error::CampaignError;
pub use event::{Event, Stop};
pub use rundir::RunDir;
pub use runner::{RunEnd, Setup, run};
