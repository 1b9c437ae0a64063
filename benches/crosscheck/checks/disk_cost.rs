//! What fio and the disk probe themselves take of the CPU per operation: 4 KiB reads of a file in memory, where no disk
//! is waited for. The file is one hole but for its end, so every read copies the same page of zeros: what copies of a
//! whole file cost depends on how much of the cache the neighbours leave, by more than what is looked for here. What
//! the kernel must do, measured by a bare loop of the same system calls, is subtracted from the CPU time, user and
//! kernel, of both.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bulkhead::probes::bounds::Bounds;
use bulkhead::probes::clock::thread_cpu_time;
use bulkhead::probes::disk::phase::DiskTask;
use bulkhead::probes::params::DiskMode;
use bulkhead::probes::scratch::Scratch;
use bulkhead::stats::summary::median;
use bulkhead::units::Millis;
use bulkhead::units::metric::Unit;

use super::disk::FIO;
use crate::parse::fio;
use crate::rounds::{Check, World};
use crate::table::Row;

const IN_MEMORY: &str = "/dev/shm";
const BLOCK: usize = 4096;
const BLOCKS: u64 = 8192;
/// Where the file's only block is.
const LAST: u64 = (BLOCKS - 1) * BLOCK as u64;
/// The bare loop and the probe go through the file this often, each pass measured by itself.
const TIMES: u64 = 48;

#[derive(Default)]
pub struct DiskCost {
    /// Cost of the bare loop each time, nanoseconds per operation.
    bare: Vec<f64>,
}

impl DiskCost {
    /// Nanoseconds per operation of the bare loop, the median of some passes.
    fn bare(&mut self) -> Result<f64, String> {
        let mut reads = Bare::make()?;
        let costs =
            (0..TIMES).map(|_| per_operation(|| reads.pass())).collect::<Result<Vec<f64>, String>>()?;
        let cost = median(&costs).ok_or("the bare loop made no pass")?;
        self.bare.push(cost);
        Ok(cost)
    }
}

/// The same system calls on a file of the same size, and nothing else.
struct Bare {
    file: File,
    block: Vec<u8>,
}

impl Bare {
    fn make() -> Result<Self, String> {
        let failed = |error: std::io::Error| format!("a file in {IN_MEMORY}: {error}");
        let file = tempfile::tempfile_in(IN_MEMORY).map_err(failed)?;
        let block = vec![7; BLOCK];
        file.write_all_at(&block, LAST).map_err(failed)?;
        let mut made = Self { file, block };
        made.pass()?;
        Ok(made)
    }

    fn pass(&mut self) -> Result<(), String> {
        let mut read = |number| self.file.read_exact_at(&mut self.block, number * BLOCK as u64);
        (0..BLOCKS).try_for_each(&mut read).map_err(|error| format!("a file in {IN_MEMORY}: {error}"))
    }
}

/// CPU time of this thread per operation, when `pass` goes through the file once.
fn per_operation(mut pass: impl FnMut() -> Result<(), String>) -> Result<f64, String> {
    let now = || thread_cpu_time().map_err(|error| error.to_string());
    let before = now()?;
    pass()?;
    Ok(now()?.saturating_sub(before).as_f64() / BLOCKS as f64)
}

impl Check for DiskCost {
    fn name(&self) -> &'static str {
        "disk-cost"
    }

    fn rows(&self) -> Vec<Row> {
        vec![Row::at_most("own CPU per read / fio", Unit::Nanoseconds, 0.6)]
    }

    fn pairs_per_round(&self) -> u32 {
        2
    }

    fn theirs(&mut self, world: &World) -> Result<Vec<f64>, String> {
        let before = self.bare()?;
        let file = Path::new(IN_MEMORY).join(format!("crosscheck-fio-{}", std::process::id()));
        let made = File::create(&file).and_then(|made| made.write_all_at(&[7; BLOCK], LAST));
        made.map_err(|error| format!("{}: {error}", file.display()))?;
        let name = format!("--filename={}", file.display());
        let size = format!("--size={}", BLOCKS * BLOCK as u64);
        let arguments = [
            "--output-format=json",
            "--name=read",
            "--ioengine=psync",
            "--rw=read",
            "--bs=4k",
            &size,
            "--time_based",
            "--runtime=1",
            "--thread",
            &name,
        ];
        let printed = FIO.run(&arguments, world.folder(), Duration::from_secs(60));
        let _ = std::fs::remove_file(&file);
        let phases = fio::parse(&printed?)?;
        let phase = phases.first().ok_or("fio told of no job")?;
        // The kernel's part just before and just after.
        let bare = f64::midpoint(before, self.bare()?);
        Ok(vec![phase.cpu_ns_per_operation - bare])
    }

    fn ours(&mut self, _world: &World) -> Result<Vec<f64>, String> {
        let stop = AtomicBool::new(false);
        let scratch = Scratch::open(Some(Path::new(IN_MEMORY))).map_err(|error| error.to_string())?;
        let task = DiskTask {
            scratch: &scratch,
            mode: DiskMode::Buffered,
            end: BLOCKS * BLOCK as u64,
            duration: Duration::from_secs(60),
            bounds: Bounds::starting_now(&stop, Millis::from_millis(120_000)),
        };
        let mut block = vec![7; BLOCK];
        scratch.write(&block, LAST).map_err(|error| error.to_string())?;
        let mut read = || task.read(&mut block).map(|_| ()).map_err(|error| error.to_string());
        read()?;
        let mut bare = Bare::make()?;
        // In turn, so that what slows the machine down for a while is in both.
        let more = |_| Ok(per_operation(&mut read)? - per_operation(|| bare.pass())?);
        let more = (0..TIMES).map(more).collect::<Result<Vec<f64>, String>>()?;
        // Less than nothing where noise is larger than the cost: that is what was measured.
        Ok(vec![median(&more).ok_or("the probe made no pass")?])
    }

    fn remarks(&self) -> Vec<String> {
        let bare = median(&self.bare);
        bare.map(|bare| format!("the kernel's own part, subtracted from both: {bare:.0} ns per read"))
            .into_iter()
            .collect()
    }
}
