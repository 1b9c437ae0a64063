//! The HPC Challenge suite beside the probes of linear equations and memory throughput: HPL with the BLAS that it really
//! mapped, on one process and one thread, and STREAM's copy of arrays of the same size. netlib's reference BLAS is refused:
//! being quicker than it says nothing.
//!
//! STREAM's own rule is that each array has at least four times the last-level cache, and the suite makes its arrays as
//! large as HPL's matrix allows, a third each. So the order of the system follows from the cache of this machine.

use std::fs;
use std::time::Duration;

use bulkhead::probes::detail::{Detail, LinpackDetail, MemoryOperation};
use bulkhead::probes::params::{LinpackParams, MemBandwidthParams, ProbeSpec};
use bulkhead::stats::summary::median;
use bulkhead::units::metric::Unit;
use bulkhead::units::{Mebibytes, Millis};

use super::hpcc_input::input;
use super::{another, cache};
use crate::own;
use crate::parse::{blas, hpcc};
use crate::rounds::{Check, World};
use crate::table::Row;
use crate::tool::Tool;

const HPCC: Tool = Tool { name: "hpcc", package: "hpcc (with openmpi-bin and libopenblas0)" };
const PATIENCE: Duration = Duration::from_secs(1200);
/// Smallest order of the system. The suite's other tests grow with it, too.
const N_LEAST: u32 = 2500;
/// Largest one: what eight gigabytes of memory hold.
const N_MOST: u32 = 30_000;
/// Blocks HPL is quick with.
const NB: u32 = 128;

/// The suite, and the BLAS that it was seen with.
#[derive(Default)]
pub struct Suite {
    blas: Option<String>,
}

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
        let n = order(cache::last_level_bytes()?)?;
        fs::write(world.folder().join("hpccinf.txt"), input(n, NB, 1)).map_err(failed)?;
        let (_, maps) = HPCC.run_mapped(&[], world.folder(), PATIENCE)?;
        let blas = blas::parse(&maps).ok_or("hpcc has mapped no BLAS that is known here: nothing to name")?;
        if blas.is_reference {
            return Err(format!("hpcc ran with {}, which is no comparison; package libopenblas0", blas.name));
        }
        self.blas = Some(blas.name);
        let seen = hpcc::parse(&fs::read_to_string(&output).map_err(failed)?)?;
        cache::is_beyond(seen.array_bytes)?;
        Ok(vec![seen.hpl_per_s, seen.copy_bytes_per_s])
    }

    fn ours(&mut self, world: &World) -> Result<Vec<f64>, String> {
        let n = order(cache::last_level_bytes()?)?;
        // Two of STREAM's arrays, which are a third of HPL's matrix each.
        let copied = 2 * array_bytes(n);
        Ok(vec![solve(world, n)?, copy(world, copied.div_ceil(1 << 20))?])
    }

    fn remarks(&self) -> Vec<String> {
        let cache = cache::last_level_bytes().unwrap_or(0);
        let n = order(cache).unwrap_or(0);
        let (array, cache) = (array_bytes(n) >> 20, cache >> 20);
        vec![format!(
            "HPL ran with {}, order {n}; each array of STREAM has {array} MiB, the last-level cache {cache} MiB",
            self.blas.as_deref().unwrap_or("an unknown BLAS")
        )]
    }
}

/// Bytes of each of STREAM's arrays at this order.
fn array_bytes(n: u32) -> u64 {
    u64::from(n).pow(2) * 8 / 3
}

/// The smallest order, in hundreds, at which STREAM's arrays are large enough for this cache.
fn order(cache_bytes: u64) -> Result<u32, String> {
    (N_LEAST..=N_MOST).step_by(100).find(|n| array_bytes(*n) >= cache::BEYOND * cache_bytes).ok_or_else(
        || format!("a last-level cache of {} MiB wants arrays too large for HPL", cache_bytes >> 20),
    )
}

fn solve(world: &World, n: u32) -> Result<f64, String> {
    let params = LinpackParams { n, samples: 1, threads: 1 };
    match own::run(ProbeSpec::Linpack(params), &world.scratch)? {
        Detail::Linpack(detail) => {
            let times: Vec<f64> = detail.elapsed_ns.iter().map(|time| time.as_secs_f64()).collect();
            let time = median(&times).ok_or("no system was solved")?;
            Ok(LinpackDetail::operations(n) / time)
        }
        other => Err(another(&other)),
    }
}

/// Bytes per second of a copy by one thread within arrays of so many MiB in all.
pub fn copy(world: &World, mib: u64) -> Result<f64, String> {
    let size = Mebibytes::from_mib(mib);
    let params = MemBandwidthParams {
        min_size_kib: bulkhead::units::Kibibytes::from_kib(mib * 1024),
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
