//! What does a channel between partitions give? Two partitions and two processes, measured in one run.
//!
//! ```text
//!  host: bench ──lines──► worker (process) ◄─ring─► its second process                   host
//!          ├───lines──► worker (partition a) ◄─ring─► its second process               one guest
//!          │                 ▲   ▲
//!          │            ring │   │ TCP                                                 channel, tcp
//!          │                 ▼   ▼
//!          └───lines──► worker (partition b)
//! ```
//! One series at a time: of all these only two spin at once, each on a CPU of its own, the same two in every series.

pub mod bench;
pub mod gather;
mod handle;
mod lines;
pub mod worker;
mod workers;
