//! Tests of measuring: platforms, probes, loads, campaigns. One program for all of them, because each would hold everything that it
//! tests; one subject is `cargo test --release --test measure crash::`.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr, reason = "tests panic and print")]

mod doubles;
#[path = "conformance/leftovers.rs"]
mod leftovers;
mod peers_fixture;
mod share_fixture;
mod ssh_fixture;
#[path = "../benches/verdict/mod.rs"]
mod verdict;

mod agent_failures;
mod agent_jobs;
mod calibration_real;
mod campaign_analysis;
mod campaign_journal;
mod campaign_plan;
mod campaign_run;
mod campaign_rundir;
mod conformance;
mod container_walls;
mod crash;
mod crash_real;
mod disk_real;
mod ftq_injected;
mod ground_truth;
mod job_probes;
mod lab;
mod layouts;
mod loads_effect;
mod loads_real;
mod many;
mod outside_time;
mod peers;
mod peers_failures;
mod policy_real;
mod prediction;
mod probe_sanity;
mod reaper;
mod ssh;
mod storage_real;
mod timing_probes;
mod timing_run;
mod traps;
mod until_decided;
mod vm_failures;
