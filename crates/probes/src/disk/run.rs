//! The disk probe around its phases: for each block size and mode a fresh file, written, then read; on the last one
//! random reads and shifted writes.

use rand::{Rng, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::phase::{DiskTask, unsupported};
use super::shifted::LARGEST_BLOCK;
use super::{layout, shifted};
use crate::arena::Arena;
use crate::clock::{monotonic_facts, thread_cpu_time};
use crate::context::Context;
use crate::detail::{Alignment, AlignmentVerdict, Detail, DiskDetail, DiskDirection, DiskPhase};
use crate::error::WorkError;
use crate::job::ProbeReport;
use crate::params::{DiskMode, DiskParams};
use crate::scratch::Scratch;
use units::facts::OwnCost;
use units::{Bytes, Kibibytes};

/// What the last phase that wrote has left: a file, or the begin of a device, with content up to here.
struct Laid {
    scratch: Scratch,
    span: u64,
}

/// Measures every block size and mode, then random reads and shifted writes on what was written last.
///
/// # Errors
/// There is no scratch place, it is full, the system refused, or the job was to end.
pub fn measure(params: &DiskParams, context: &Context<'_>) -> Result<ProbeReport, WorkError> {
    let cpu_before = thread_cpu_time()?;
    let sizes = params.block_sizes_kib.iter().chain([&params.random_block_kib]);
    let largest = sizes.map(|size| size.to_bytes().get()).max().unwrap_or(0).max(LARGEST_BLOCK);
    let mut buffer = Arena::new(Bytes::from_bytes(largest))?;
    // Random content: a disk or file system that compresses gains nothing.
    let mut random = Xoshiro256PlusPlus::seed_from_u64(context.seed);
    random.fill_bytes(buffer.bytes_mut());
    let (mut phases, mut notes, mut laid) = (Vec::new(), Vec::new(), None);
    for size in &params.block_sizes_kib {
        for mode in &params.modes {
            // A fresh file each time: all of them allocate, and none rewrites what another has laid out. The one
            // before is given back first, so that there is never more than one.
            drop(laid.take());
            let scratch = open(params, context)?;
            add_notes(&mut notes, &scratch, *mode);
            let both = both_ways(params, context, &scratch, *mode, *size, &mut buffer)?;
            let span = both.iter().find(|phase| phase.direction == DiskDirection::Write);
            laid = Some(Laid { span: span.map_or(0, |phase| phase.bytes.get()), scratch });
            phases.extend(both);
        }
    }
    let laid = match laid.filter(|laid| laid.span >= enough(params)) {
        Some(laid) => laid,
        None => lay(params, context, &mut buffer)?,
    };
    phases.extend(anywhere(params, context, &laid, &mut buffer, &mut random, &mut notes)?);
    let alignment = alignment(params, context, &laid, &mut buffer, &mut notes)?;
    let clock = monotonic_facts();
    let cost = OwnCost {
        per_sample_ns: clock.read_ns,
        cpu_time_ns: thread_cpu_time()?.saturating_sub(cpu_before),
        memory_bytes: buffer.size(),
    };
    let target = laid.scratch.target().to_owned();
    let detail = DiskDetail { target, phases, alignment: Some(alignment) };
    Ok(ProbeReport::new(clock, cost, Detail::Disk(detail), notes))
}

fn open(params: &DiskParams, context: &Context<'_>) -> Result<Scratch, WorkError> {
    let scratch = Scratch::open(context.surroundings.scratch.as_deref())?;
    scratch.check_room(params.file_size_mib.to_bytes())?;
    Ok(scratch)
}

/// Less than this was written too little for random reads.
fn enough(params: &DiskParams) -> u64 {
    params.file_size_mib.to_bytes().get() / 8
}

/// Writes a fresh file, where the last phase could not: a phase that is not reported.
fn lay(params: &DiskParams, context: &Context<'_>, buffer: &mut Arena) -> Result<Laid, WorkError> {
    let scratch = open(params, context)?;
    let largest = Bytes::from_bytes(LARGEST_BLOCK).to_usize();
    let block = buffer.bytes_mut().get(..largest).unwrap_or_default();
    let room = params.file_size_mib.to_bytes().get().min(scratch.device_size().unwrap_or(u64::MAX));
    let task = DiskTask {
        scratch: &scratch,
        mode: DiskMode::Buffered,
        end: room / LARGEST_BLOCK * LARGEST_BLOCK,
        duration: params.duration_ms.to_duration(),
        bounds: context.bounds,
    };
    let span = task.write(block)?.bytes.get();
    Ok(Laid { scratch, span })
}

/// Random reads; past the page cache where that is possible.
fn anywhere(
    params: &DiskParams,
    context: &Context<'_>,
    laid: &Laid,
    buffer: &mut Arena,
    random: &mut Xoshiro256PlusPlus,
    notes: &mut Vec<String>,
) -> Result<Option<DiskPhase>, WorkError> {
    let size = params.random_block_kib.to_bytes();
    let Laid { scratch, span } = laid;
    let Some(block) = buffer.bytes_mut().get_mut(..size.to_usize()).filter(|block| !block.is_empty()) else {
        return Ok(None);
    };
    let (mode, duration) = (DiskMode::Direct, params.duration_ms.to_duration() / 2);
    if size.get() > *span {
        let why = "less than one block was written before".to_owned();
        return Ok(Some(unsupported(DiskDirection::RandomRead, mode, size, why)));
    }
    if *span < params.file_size_mib.to_bytes().get() {
        let covered = Bytes::from_bytes(*span);
        notes.push(format!("random reads cover the {covered} that were written in time, not the whole file"));
    }
    let task = DiskTask { scratch, mode, end: *span, duration, bounds: context.bounds };
    let direct = match scratch.set_direct(true) {
        Ok(()) => Some(task.read_anywhere(block, random)?).filter(|phase| phase.unsupported.is_none()),
        Err(_) => None,
    };
    if direct.is_some() {
        return Ok(direct);
    }
    scratch.set_direct(false).map_err(|error| scratch.explain("preparing", error))?;
    notes.push(
        "random reads go through the page cache, because O_DIRECT is refused: each block is dropped from this \
         instance's cache after it was read (posix_fadvise), but caches below may still have it"
            .to_owned(),
    );
    DiskTask { mode: DiskMode::Buffered, ..task }.read_anywhere(block, random).map(Some)
}

/// How all of it lies on the device, and what writing off its blocks costs.
fn alignment(
    params: &DiskParams,
    context: &Context<'_>,
    laid: &Laid,
    buffer: &mut Arena,
    notes: &mut Vec<String>,
) -> Result<Alignment, WorkError> {
    let mut found = layout::look(&laid.scratch);
    let half = params.duration_ms.to_duration() / 2;
    if laid.scratch.is_in_memory() {
        found.not_shifted = Some("nothing reaches a disk".to_owned());
        return Ok(found);
    }
    match shifted::measure(&laid.scratch, laid.span, &found, buffer.bytes_mut(), half, context.bounds)? {
        Ok(writes) => found.shifted = Some(writes),
        Err(why) => found.not_shifted = Some(why.into()),
    }
    if found.verdict == AlignmentVerdict::Misaligned {
        notes.push(format!("misaligned: {}", found.why));
    }
    Ok(found)
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
        DiskTask { scratch, mode, end, duration: params.duration_ms.to_duration(), bounds: context.bounds };
    let written = task.write(block)?;
    if !has_read {
        return Ok(vec![written]);
    }
    let read = match &written.unsupported {
        Some(reason) => unsupported(DiskDirection::Read, mode, block_bytes, reason.clone()),
        None => DiskTask { end: written.bytes.get(), ..task }.read(block)?,
    };
    Ok(vec![written, read])
}
