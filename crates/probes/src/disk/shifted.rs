//! What it costs to write off block boundaries: sequential writes with `O_DIRECT`, in turns on the boundaries and
//! shifted off them, over two halves of the same file or device.
//!
//! ```text
//!  |<────────── first half ──────────>|<────────── second half ─────────>|
//!   16 on boundaries ►                   16 shifted by half a block ►
//!                    16 ►                                           16 ►     … and round again
//! ```
//!
//! The turns are short, so that whatever else the disk does meets both alike.

use std::io;
use std::time::{Duration, Instant};

use crate::bounds::Bounds;
use crate::detail::{Alignment, ShiftedWrites};
use crate::error::WorkError;
use crate::scratch::Scratch;
use units::{Bytes, Nanos, Reason};

/// Writes per turn.
const TURN: u64 = 16;
/// Block where the device names a smaller one, or none: what disks have worked in since 2010, whatever they claim.
const USUAL_BLOCK: u64 = 4096;
/// Largest block that is written.
pub const LARGEST_BLOCK: u64 = 1 << 20;
/// Smallest logical block there is.
const SECTOR: u64 = 512;

/// One of the two kinds of writes.
struct Side {
    begin: u64,
    blocks: u64,
    next: u64,
    bytes: u64,
    time: Duration,
}

impl Side {
    fn new(begin: u64, end: u64, block: u64) -> Self {
        let blocks = end.saturating_sub(begin) / block.max(1);
        Self { begin, blocks, next: 0, bytes: 0, time: Duration::ZERO }
    }

    fn turn(&mut self, scratch: &Scratch, block: &[u8]) -> io::Result<()> {
        let size = block.len() as u64;
        let began = Instant::now();
        for _ in 0..TURN {
            scratch.write(block, self.begin + self.next * size)?;
            self.next = (self.next + 1) % self.blocks;
            self.bytes += size;
        }
        self.time += began.elapsed();
        Ok(())
    }
}

/// Size of the writes, and how far the others are shifted; or why no write can be shifted there.
fn geometry(layout: &Alignment) -> Result<(u64, u64), Reason> {
    let physical = layout.physical_block_bytes.map_or(USUAL_BLOCK, Bytes::get);
    let logical = layout.logical_block_bytes.map_or(SECTOR, Bytes::get).max(1);
    let block = physical.max(USUAL_BLOCK);
    if block > LARGEST_BLOCK {
        return Err(
            format!("its physical blocks of {} are too large to try it", Bytes::from_bytes(block)).into()
        );
    }
    let shift = block / 2;
    if !shift.is_multiple_of(logical) {
        return Err(format!(
            "the device takes whole blocks of {} only, so nothing can be written off their boundaries",
            Bytes::from_bytes(logical)
        )
        .into());
    }
    Ok((block, shift))
}

/// Measures both for `duration` altogether, over the first `span` bytes, which were written before. The inner error says
/// why it cannot be tried here.
///
/// # Errors
/// The system refused what it did not refuse before, or the job was to end.
pub fn measure(
    scratch: &Scratch,
    span: u64,
    layout: &Alignment,
    content: &[u8],
    duration: Duration,
    bounds: Bounds<'_>,
) -> Result<Result<ShiftedWrites, Reason>, WorkError> {
    let (size, shift) = match geometry(layout) {
        Ok(geometry) => geometry,
        Err(reason) => return Ok(Err(reason)),
    };
    let half = span / 2 / size * size;
    let Some(block) = usize::try_from(size).ok().and_then(|size| content.get(..size)) else {
        return Ok(Err("there is no block of that size to write".into()));
    };
    // Where the whole begins inside a physical block, boundaries are elsewhere than at multiples of the block.
    let beyond = layout.offset_bytes.map_or(0, Bytes::get) % size;
    let lead = (size - beyond) % size;
    let mut aligned = Side::new(lead, half, size);
    let mut shifted = Side::new(half + lead + shift, span, size);
    if aligned.blocks < TURN || shifted.blocks < TURN {
        return Ok(Err(format!("{} are too little to write to in turns", Bytes::from_bytes(span)).into()));
    }
    if let Err(error) = scratch.set_direct(true) {
        return Ok(Err(format!("no O_DIRECT on a {}: {error}", scratch.target()).into()));
    }
    let began = Instant::now();
    while shifted.bytes == 0 || began.elapsed() < duration {
        if let Err(error) = aligned.turn(scratch, block).and_then(|()| shifted.turn(scratch, block)) {
            return if shifted.bytes == 0 && error.kind() == io::ErrorKind::InvalidInput {
                Ok(Err(
                    format!("the kernel refuses O_DIRECT writes off block boundaries here: {error}").into()
                ))
            } else {
                Err(scratch.explain("writing in turns to", error))
            };
        }
        bounds.check()?;
    }
    Ok(Ok(ShiftedWrites {
        block_bytes: Bytes::from_bytes(size),
        shift_bytes: Bytes::from_bytes(shift),
        aligned_bytes: Bytes::from_bytes(aligned.bytes),
        aligned_ns: Nanos::from_duration(aligned.time),
        shifted_bytes: Bytes::from_bytes(shifted.bytes),
        shifted_ns: Nanos::from_duration(shifted.time),
    }))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use crate::detail::AlignmentVerdict;
    use units::Millis;

    fn layout(logical: u64, physical: u64) -> Alignment {
        Alignment {
            device: None,
            partition_start_bytes: None,
            logical_block_bytes: Some(Bytes::from_bytes(logical)),
            physical_block_bytes: Some(Bytes::from_bytes(physical)),
            optimal_io_bytes: None,
            file_system_block_bytes: None,
            offset_bytes: None,
            verdict: AlignmentVerdict::Unknown,
            why: String::new(),
            shifted: None,
            not_shifted: None,
        }
    }

    #[test]
    fn half_a_block_is_the_shift_where_the_device_takes_it() {
        assert_eq!(geometry(&layout(512, 4096)), Ok((4096, 2048)));
        assert_eq!(geometry(&layout(512, 512)), Ok((4096, 2048)));
        assert_eq!(geometry(&layout(4096, 16384)), Ok((16384, 8192)));
        assert!(geometry(&layout(4096, 4096)).unwrap_err().to_string().contains("4 KiB only"));
        assert!(geometry(&layout(512, 1 << 30)).unwrap_err().to_string().contains("too large"));
    }

    #[test]
    fn both_sides_stay_in_their_half_and_the_file_keeps_its_size() {
        let folder = tempfile::tempdir().unwrap();
        let scratch = Scratch::open(Some(folder.path())).unwrap();
        let span = 256 * 1024;
        scratch.write(&vec![1; span], 0).unwrap();
        let stop = AtomicBool::new(false);
        let bounds = Bounds::starting_now(&stop, Millis::from_millis(60_000));
        let mut arena = crate::arena::Arena::new(Bytes::from_bytes(8192)).unwrap();
        arena.bytes_mut().fill(9);
        let time = Duration::from_millis(5);
        let content: &[u8] = arena.bytes_mut();
        match measure(&scratch, span as u64, &layout(512, 4096), content, time, bounds).unwrap() {
            Err(reason) => skips::skip(skips::Need::Direct, reason),
            Ok(writes) => {
                assert_eq!(writes.aligned_bytes, writes.shifted_bytes, "as many turns each");
                assert!(writes.ratio().unwrap() > 0.0);
                scratch.set_direct(false).unwrap();
                let mut back = vec![0; span];
                scratch.read(&mut back, 0).unwrap();
                let half = span / 2;
                assert!(back[half..half + 2048].iter().all(|byte| *byte == 1), "the shift is left out");
                assert!(back[half + 2048..half + 4096].iter().all(|byte| *byte == 9));
                assert!(back[..4096 * 16].iter().all(|byte| *byte == 9));
                assert!(scratch.read(&mut [0], span as u64).is_err(), "it has not grown");
            }
        }
        let few = measure(&scratch, 8192, &layout(512, 4096), &[0; 4096], time, bounds).unwrap();
        assert!(few.unwrap_err().to_string().contains("too little"));
    }
}
