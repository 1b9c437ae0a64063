//! The disk probe around its phases: for each block size and mode a fresh file, written, then read.

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::phase::{Task, unsupported};
use crate::model::detail::{Detail, DiskDetail, DiskDirection, DiskPhase};
use crate::model::facts::OwnCost;
use crate::model::job::ProbeReport;
use crate::model::params::{DiskMode, DiskParams};
use crate::model::units::Kibibytes;
use crate::workloads::arena::Arena;
use crate::workloads::clock::{monotonic_facts, thread_cpu_time};
use crate::workloads::error::WorkError;
use crate::workloads::probes::context::Context;
use crate::workloads::scratch::Scratch;

/// Measures every block size and mode.
///
/// # Errors
/// There is no scratch place, it is full, the system refused, or the job was to end.
pub fn measure(params: &DiskParams, context: &Context<'_>) -> Result<ProbeReport, WorkError> {
    let cpu_before = thread_cpu_time()?;
    let largest = params.block_sizes_kib.iter().map(|size| size.to_bytes()).max().unwrap_or_default();
    let mut buffer = Arena::new(largest)?;
    // Random content: a disk or file system that compresses gains nothing.
    Xoshiro256PlusPlus::seed_from_u64(context.seed).fill_bytes(buffer.bytes_mut());
    let (mut phases, mut notes, mut target) = (Vec::new(), Vec::new(), String::new());
    for size in &params.block_sizes_kib {
        for mode in &params.modes {
            // A fresh file each time: all of them allocate, and none rewrites what another has laid out.
            let scratch = Scratch::open(context.surroundings.scratch.as_deref())?;
            scratch.check_room(params.file_size_mib.to_bytes())?;
            scratch.target().clone_into(&mut target);
            add_notes(&mut notes, &scratch, *mode);
            phases.extend(both_ways(params, context, &scratch, *mode, *size, &mut buffer)?);
        }
    }
    let clock = monotonic_facts();
    let cost = OwnCost {
        per_sample_ns: clock.read_ns,
        cpu_time_ns: thread_cpu_time()?.saturating_sub(cpu_before),
        memory_bytes: buffer.size(),
    };
    Ok(ProbeReport::new(clock, cost, Detail::Disk(DiskDetail { target, phases }), notes))
}

fn add_notes(notes: &mut Vec<String>, scratch: &Scratch, mode: DiskMode) {
    let mut add = |note: String| {
        if !notes.contains(&note) {
            notes.push(note);
        }
    };
    if mode == DiskMode::Fsync {
        add("fsync mode has no read: it would be the same as the buffered one".into());
    }
    if scratch.is_in_memory() {
        add(format!("{}: nothing reaches a disk, these figures are memory's", scratch.target()));
    }
}

fn both_ways(
    params: &DiskParams,
    context: &Context<'_>,
    scratch: &Scratch,
    mode: DiskMode,
    size: Kibibytes,
    buffer: &mut Arena,
) -> Result<Vec<DiskPhase>, WorkError> {
    let block_bytes = size.to_bytes();
    let has_read = mode != DiskMode::Fsync;
    let directions =
        if has_read { &[DiskDirection::Write, DiskDirection::Read][..] } else { &[DiskDirection::Write] };
    let refused = |reason: String| -> Vec<DiskPhase> {
        let all = directions.iter();
        all.map(|direction| unsupported(*direction, mode, block_bytes, reason.clone())).collect()
    };
    if mode == DiskMode::Direct
        && let Err(error) = scratch.set_direct(true)
    {
        return Ok(refused(format!("no O_DIRECT on a {}: {error}", scratch.target())));
    }
    let room = params.file_size_mib.to_bytes().get().min(scratch.device_size().unwrap_or(u64::MAX));
    let end = room - room % block_bytes.get().max(1);
    if end == 0 {
        return Ok(refused(format!("the {} is smaller than one block", scratch.target())));
    }
    let block = buffer.bytes_mut().get_mut(..block_bytes.to_usize()).unwrap_or_default();
    let task =
        Task { scratch, mode, end, duration: params.duration_ms.to_duration(), bounds: context.bounds };
    let written = task.write(block)?;
    if !has_read {
        return Ok(vec![written]);
    }
    let read = match &written.unsupported {
        Some(reason) => unsupported(DiskDirection::Read, mode, block_bytes, reason.clone()),
        None => Task { end: written.bytes.get(), ..task }.read(block)?,
    };
    Ok(vec![written, read])
}
