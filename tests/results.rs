//! Tests of what is made of measurements: statistics, simulation, report, command line, and of the house itself. One subject is
//! `cargo test --release --test results stats_pairs::`.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr, reason = "tests panic and print")]

mod browser;
mod simulate_fixture;
#[path = "../benches/verdict/mod.rs"]
mod verdict;

mod accounts;
mod architecture;
mod cli;
mod crosscheck;
mod disk_report;
mod figures;
mod fit;
mod peers_report;
mod plan;
mod plan_examples;
mod plan_page;
mod plan_text;
mod policy_score;
mod report_page;
mod report_text;
mod scenarios;
mod schema1;
mod simulate;
mod simulate_docs;
mod stats_coverage;
mod stats_exceedance;
mod stats_metrics;
mod stats_pairs;
mod stats_power;
mod stats_properties;
mod stats_spectrum;
mod stats_tail;
mod stats_timing;
mod verdicts;
mod verify_page;
