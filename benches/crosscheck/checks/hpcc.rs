//! The HPC Challenge suite beside the probes of linear equations and memory throughput: HPL with the distribution's BLAS
//! on one process and one thread, and STREAM's copy of arrays of the same size.

use std::fs;
use std::time::Duration;

use bulkhead::model::detail::{Detail, LinpackDetail, MemoryOperation};
use bulkhead::model::metric::Unit;
use bulkhead::model::params::{LinpackParams, MemBandwidthParams, ProbeSpec};
use bulkhead::model::units::{Mebibytes, Millis};
use bulkhead::stats::summary::median;

use super::another;
use super::hpcc_input::input;
use crate::own;
use crate::parse::hpcc;
use crate::rounds::{Check, World};
use crate::table::Row;
use crate::tool::Tool;

const HPCC: Tool = Tool { name: "hpcc", package: "hpcc (with openmpi-bin and libopenblas0)" };
const PATIENCE: Duration = Duration::from_secs(300);
/// Order of the system. The suite's other tests grow with it, too.
const N: u32 = 2500;
/// Blocks HPL is quick with.
const NB: u32 = 128;
/// Two of STREAM's arrays, which are a third of HPL's matrix each: 2 / 3 · 8 N² bytes.
const COPIED_MIB: u64 = 32;

pub struct Suite;

impl Check for Suite {
    fn name(&self) -> &'static str {
        "hpcc"
    }

    fn rows(&self) -> Vec<Row> {
        vec![
            Row::at_least("linear equations / HPL", Unit::PerSecond, 0.8),
            Row::at_least("memory copy / STREAM copy", Unit::BytesPerSecond, 0.97),
        ]
    }

    fn theirs(&mut self, world: &World) -> Result<Vec<f64>, String> {
        let failed = |error: std::io::Error| format!("hpcc's files: {error}");
        let output = world.folder().join("hpccoutf.txt");
        let _ = fs::remove_file(&output);
        fs::write(world.folder().join("hpccinf.txt"), input(N, NB, 1)).map_err(failed)?;
        HPCC.run(&[], world.folder(), PATIENCE)?;
        let seen = hpcc::parse(&fs::read_to_string(&output).map_err(failed)?)?;
        Ok(vec![seen.hpl_per_s, seen.copy_bytes_per_s])
    }

    fn ours(&mut self, world: &World) -> Result<Vec<f64>, String> {
        Ok(vec![solve(world)?, copy(world, COPIED_MIB)?])
    }
}

fn solve(world: &World) -> Result<f64, String> {
    let params = LinpackParams { n: N, samples: 3, threads: 1 };
    match own::run(ProbeSpec::Linpack(params), &world.scratch)? {
        Detail::Linpack(detail) => {
            let times: Vec<f64> = detail.elapsed_ns.iter().map(|time| time.as_secs_f64()).collect();
            let time = median(&times).ok_or("no system was solved")?;
            Ok(LinpackDetail::operations(N) / time)
        }
        other => Err(another(&other)),
    }
}

/// Bytes per second of a copy by one thread within arrays of so many MiB in all.
pub fn copy(world: &World, mib: u64) -> Result<f64, String> {
    let size = Mebibytes::from_mib(mib);
    let params = MemBandwidthParams {
        min_size_kib: bulkhead::model::units::Kibibytes::from_kib(mib * 1024),
        max_size_mib: Some(size),
        duration_ms: Millis::from_millis(250),
        threads: 1,
        ..MemBandwidthParams::default()
    };
    match own::run(ProbeSpec::MemBandwidth(params), &world.scratch)? {
        Detail::MemBandwidth(detail) => detail
            .points
            .iter()
            .find(|point| point.operation == MemoryOperation::Copy && point.size_bytes == size.to_bytes())
            .map(|point| point.bytes_per_s)
            .ok_or_else(|| format!("there is not enough memory to copy {}", size.to_bytes())),
        other => Err(another(&other)),
    }
}
