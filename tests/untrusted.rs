//! Tests of what is foreign: hostile and broken bytes, files and programs, and one test for each bug that was mended.
//! One subject is `cargo test --release --test untrusted mutations::`.

#![allow(clippy::unwrap_used, clippy::print_stdout, clippy::print_stderr, reason = "tests panic and print")]

mod foreign;

mod foreign_files;
mod mutations;
mod mutations_clock;
mod regressions;
