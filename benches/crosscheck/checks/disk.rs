//! fio beside the disk probe: one fresh file, written and then read from begin to end, then read anywhere for a while, with
//! `O_DIRECT` and one system call at a time; throughput of 64 KiB blocks, operations of 4 KiB blocks.
//!
//! fio's own ways that the probe does not have are turned off: the file is not allocated beforehand, and blocks are not
//! scrambled. What both do stays: every latency is recorded, the final fsync counts, the cache is dropped before reading.
//! fio's main thread wakes every 10 ms meanwhile (`strace -f`: 96 `clock_nanosleep` a second), so the probe has a companion.

use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bulkhead::probes::arena::Arena;
use bulkhead::probes::bounds::Bounds;
use bulkhead::probes::detail::DiskPhase;
use bulkhead::probes::disk::phase::DiskTask;
use bulkhead::probes::error::WorkError;
use bulkhead::probes::params::DiskMode;
use bulkhead::probes::scratch::Scratch;
use bulkhead::units::metric::Unit;
use bulkhead::units::{Kibibytes, Mebibytes, Millis};
use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::companion::Companion;
use crate::parse::fio;
use crate::rounds::{Check, World};
use crate::table::Row;
use crate::tool::Tool;

pub const FIO: Tool = Tool { name: "fio", package: "fio" };
/// Longer than any of this takes on a slow disk.
const PATIENCE: Duration = Duration::from_secs(120);
/// Block size in KiB and file size in MiB.
const KINDS: [(u64, u64); 2] = [(64, 256), (4, 32)];
/// Blocks of this size are read at random, too, for so long.
const RANDOM_KIB: u64 = 4;
const RANDOM: Duration = Duration::from_millis(500);

pub struct Disk;

impl Check for Disk {
    fn name(&self) -> &'static str {
        "disk"
    }

    fn rows(&self) -> Vec<Row> {
        vec![
            Row::within("disk write 64 KiB direct / fio", Unit::BytesPerSecond, 0.03),
            Row::within("disk read 64 KiB direct / fio", Unit::BytesPerSecond, 0.03),
            Row::within("disk write 4 KiB direct / fio", Unit::PerSecond, 0.03),
            Row::within("disk read 4 KiB direct / fio", Unit::PerSecond, 0.03),
            Row::within("random read 4 KiB direct / fio", Unit::PerSecond, 0.03),
        ]
    }

    fn pairs_per_round(&self) -> u32 {
        3
    }

    fn theirs(&mut self, world: &World) -> Result<Vec<f64>, String> {
        let mut figures = Vec::new();
        for (block, size) in KINDS {
            let file = world.scratch.join("crosscheck-fio");
            let outcome = all_ways(world, &file, block, size);
            let _ = std::fs::remove_file(&file);
            for phase in outcome? {
                figures.push(if block == RANDOM_KIB { phase.operations_per_s } else { phase.bytes_per_s });
            }
        }
        Ok(figures)
    }

    fn ours(&mut self, world: &World) -> Result<Vec<f64>, String> {
        let mut figures = Vec::new();
        let _companion = Companion::start(|| ());
        for (block, size) in KINDS {
            for phase in own_phases(world, block, size).map_err(|error| error.to_string())? {
                if let Some(reason) = phase.unsupported {
                    return Err(reason);
                }
                let seconds = phase.elapsed_ns.as_secs_f64();
                let moved =
                    if block == RANDOM_KIB { phase.latency_ns.count() as f64 } else { phase.bytes.as_f64() };
                figures.push(moved / seconds);
            }
        }
        Ok(figures)
    }
}

/// The probe's own phases, without what else it looks at.
fn own_phases(world: &World, block: u64, size: u64) -> Result<Vec<DiskPhase>, WorkError> {
    let mut buffer = Arena::new(Kibibytes::from_kib(block).to_bytes())?;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(1);
    random.fill_bytes(buffer.bytes_mut());
    let scratch = Scratch::open(Some(&world.scratch))?;
    let direct = scratch.set_direct(true);
    direct.map_err(|error| WorkError::system(format!("use O_DIRECT on a {}", scratch.target()), error))?;
    let stop = AtomicBool::new(false);
    let task = DiskTask {
        scratch: &scratch,
        mode: DiskMode::Direct,
        end: Mebibytes::from_mib(size).to_bytes().get(),
        duration: PATIENCE,
        bounds: Bounds::starting_now(&stop, Millis::from_millis(2 * PATIENCE.as_secs() * 1000)),
    };
    let mut phases = vec![task.write(buffer.bytes_mut())?, task.read(buffer.bytes_mut())?];
    if block == RANDOM_KIB {
        let shorter = DiskTask { duration: RANDOM, ..task };
        phases.push(shorter.read_anywhere(buffer.bytes_mut(), &mut random)?);
    }
    Ok(phases)
}

/// A run of fio each: in one with all jobs it would lay out the file for the reading ones before the writing one begins.
fn all_ways(world: &World, file: &Path, block: u64, size: u64) -> Result<Vec<fio::Phase>, String> {
    let (file, block_size, size) =
        (format!("--filename={}", file.display()), format!("--bs={block}k"), format!("--size={size}m"));
    let common = [
        "--output-format=json",
        "--ioengine=psync",
        "--direct=1",
        "--fallocate=none",
        "--scramble_buffers=0",
        "--thread",
        "--name=job",
        &file,
        &block_size,
        &size,
    ];
    let runtime = format!("--runtime={}ms", RANDOM.as_millis());
    let ways: [&[&str]; 3] = [
        &["--rw=write", "--end_fsync=1"],
        &["--rw=read"],
        &["--rw=randread", "--norandommap", "--time_based", &runtime],
    ];
    let wanted = if block == RANDOM_KIB { 3 } else { 2 };
    let mut phases = Vec::new();
    for way in ways.iter().take(wanted) {
        let arguments: Vec<&str> = common.iter().chain(way.iter()).copied().collect();
        phases.extend(fio::parse(&FIO.run(&arguments, world.folder(), PATIENCE)?)?);
    }
    if phases.len() == wanted {
        Ok(phases)
    } else {
        Err(format!("fio told of {} jobs instead of {wanted}", phases.len()))
    }
}
