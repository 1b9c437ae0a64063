//! What does a channel between partitions give? Two partitions and two processes, measured in one run.
//!
//! ```text
//!  host: bench ──lines──► party (process) ◄─ring─► its second process                     host
//!          ├───lines──► party (partition a) ◄─ring─► its second process                   one guest
//!          │                 ▲   ▲
//!          │            ring │   │ TCP                                                     channel, tcp
//!          │                 ▼   ▼
//!          └───lines──► party (partition b)
//! ```
//! One series at a time: of all these only two spin at once, each on a CPU of its own, the same two in every series.

pub mod bench;
mod desk;
pub mod gather;
mod lines;
mod parties;
pub mod party;
