//! The HPC Challenge suite as Debian ships it: a small input for two processes, and what its output says about the
//! results and the messages' latency.

use std::fs;
use std::path::Path;

use super::hpcc_input::input;

/// Blocks of a small system.
const BLOCK: u32 = 64;

/// What a run found.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// Average one-way latency of 8 B between two processes, seconds.
    pub latency_s: f64,
    /// Average bandwidth of 2 MB messages, bytes per second.
    pub bandwidth_bytes_per_s: f64,
}

/// Writes the input into a launch's folder: a system of order `n` on a grid of `1 x ranks`.
pub fn prepare(folder: &Path, n: u32, ranks: u32) {
    fs::write(folder.join("hpccinf.txt"), input(n, BLOCK, ranks)).expect("the input file");
}

/// The output of a run in this folder.
pub fn output_in(folder: &Path) -> Result<String, String> {
    fs::read_to_string(folder.join("hpccoutf.txt")).map_err(|error| format!("hpccoutf.txt: {error}"))
}

/// Reads an output; an error says which result is wrong.
pub fn read(text: &str) -> Result<Found, String> {
    let value = |name: &str| -> Result<f64, String> {
        let mut pairs = text.lines().filter_map(|line| line.split_once('='));
        let found =
            pairs.find(|(key, _)| key.trim() == name).and_then(|(_, value)| value.trim().parse().ok());
        found.ok_or_else(|| format!("the output has no {name}"))
    };
    if value("Success")? < 1.0 {
        return Err("Success is 0".to_owned());
    }
    if let Some(line) = text.lines().find(|line| line.contains("FAILED")) {
        return Err(format!("a check failed: {}", line.trim()));
    }
    // PTRANS's five tests, and HPL's residual. PTRANS says the same again by the CPU's clock, unless that is too coarse
    // to have seen the test.
    for (begins, wanted) in [("WALL", 5), ("||Ax-b||", 1)] {
        let passed = text.lines().filter(|line| line.starts_with(begins) && line.contains("PASSED")).count();
        if passed < wanted {
            return Err(format!("{passed} checks that begin with {begins} passed, wanted at least {wanted}"));
        }
    }
    if let Some(wrong) = errors(text).into_iter().find(|(_, count)| *count != 0.0) {
        return Err(format!("{} is {}", wrong.0, wrong.1));
    }
    for (name, most) in [("PTRANS_residual", 1e-3), ("HPL_RnormI", 1e-3), ("MPIFFT_maxErr", 1e-9)] {
        let found = value(name)?;
        // Not "found > most": what is not a number must fail, too.
        if !(0.0..=most).contains(&found) {
            return Err(format!("{name} is {found}, wanted at most {most}"));
        }
    }
    Ok(Found {
        latency_s: value("AvgPingPongLatency_usec")? / 1e6,
        bandwidth_bytes_per_s: value("AvgPingPongBandwidth_GBytes")? * 1e9,
    })
}

/// All counts of errors: variables that are named so, and the sentences of the random access tests.
fn errors(text: &str) -> Vec<(String, f64)> {
    let named =
        text.lines().filter_map(|line| line.split_once('=')).filter(|(key, _)| key.contains("_Errors"));
    let counted = text.lines().filter_map(|line| {
        let rest = line.trim().strip_prefix("Found ")?;
        let (count, _) = rest.split_once(" errors")?;
        Some((line, count))
    });
    // What is no number is an error, too.
    named
        .chain(counted)
        .map(|(key, count)| (key.to_owned(), count.trim().parse().unwrap_or(f64::NAN)))
        .collect()
}
