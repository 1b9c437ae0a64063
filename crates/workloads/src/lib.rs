//! What runs? Probes (measurement kernels) and loads (neighbours with a measured dose).
//!
//! ```text
//!  Job ──► run::run_job ──► loads::Running (threads) ──────────────► Dose per load
//!                │                                                        │
//!                └──► probes::measure ──► ProbeReport or the reason ──► JobReply
//! ```
//!
//! Probes bring home raw data only; what it means is computed on the host (`stats`). Only [`clock`] touches the
//! cycle counter, and only [`arena`] and [`fresh_pages`] map memory.

pub mod accounts;
pub mod alarm;
pub mod arena;
pub mod bounds;
pub mod clock;
pub mod crew;
pub mod error;
pub mod fresh_pages;
pub mod loads;
pub mod loopback;
pub mod machine;
mod outside;
pub mod pattern;
pub mod pin;
pub mod probes;
pub mod realtime;
pub mod rendezvous;
pub mod run;
pub mod scratch;
