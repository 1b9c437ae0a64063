//! What each load does, in rounds short enough that it can be stopped soon.

use std::path::Path;

use crate::model::names::LoadKind;
use crate::model::units::{Bytes, Mebibytes};
use crate::workloads::arena::Arena;
use crate::workloads::error::WorkError;
use crate::workloads::machine::{available_memory, last_level_cache};
use crate::workloads::probes::quantum::{MIX_WORDS, arithmetic};
use crate::workloads::probes::streams::Width;
use crate::workloads::scratch::Scratch;

/// Rounds of arithmetic between two looks at the stop flag: under a millisecond.
const CPU_ROUNDS: u64 = 100_000;
/// Largest array of the memory load, per thread.
const MEMORY_MOST: u64 = 256 << 20;
/// Words written between two looks at the stop flag: 1 MiB.
const MEMORY_WORDS: usize = 128 * 1024;
/// The disk load writes round and round through this much, per thread.
const DISK_RING: u64 = 64 << 20;
/// Size of its writes.
const DISK_BLOCK: u64 = 1 << 20;

/// A load in one thread.
pub trait Stressor {
    /// A bounded piece of work; returns how much was done, in the unit of [`unit`].
    ///
    /// # Errors
    /// It cannot go on.
    fn round(&mut self) -> Result<u64, WorkError>;
}

/// Unit of what a load does.
pub const fn unit(kind: LoadKind) -> &'static str {
    match kind {
        LoadKind::Idle | LoadKind::Cpu => "rounds",
        LoadKind::Memory | LoadKind::Disk => "bytes",
        LoadKind::Network | LoadKind::Interrupt => "packets",
        LoadKind::Fork => "processes",
        LoadKind::Lock => "turns",
        LoadKind::Mixed => "rounds",
    }
}

/// Makes the stressor of thread `number` of `threads`; none for the control, which has no threads.
///
/// # Errors
/// The machine lacks what the load needs.
pub fn make(
    kind: LoadKind,
    number: u32,
    threads: u32,
    scratch: Option<&Path>,
) -> Result<Option<Box<dyn Stressor>>, WorkError> {
    Ok(match kind {
        LoadKind::Idle => None,
        LoadKind::Cpu => Some(Box::new(Arithmetic { words: [1; MIX_WORDS] })),
        LoadKind::Memory => Some(Box::new(Streaming::new(threads)?)),
        LoadKind::Disk => Some(Box::new(Writing::new(number, scratch)?)),
        LoadKind::Network | LoadKind::Interrupt | LoadKind::Fork | LoadKind::Lock | LoadKind::Mixed => {
            return Err(WorkError::Unfit(format!("STUB: the {kind} load is not built yet")));
        }
    })
}

struct Arithmetic {
    words: [u64; MIX_WORDS],
}

impl Stressor for Arithmetic {
    fn round(&mut self) -> Result<u64, WorkError> {
        arithmetic(CPU_ROUNDS, &mut self.words);
        Ok(CPU_ROUNDS)
    }
}

/// Streaming writes through an array beyond the last-level cache, where memory allows.
struct Streaming {
    arena: Arena,
    width: Width,
    place: usize,
    value: u64,
}

impl Streaming {
    fn new(threads: u32) -> Result<Self, WorkError> {
        let beyond = last_level_cache().map_or(MEMORY_MOST, |cache| cache.get().saturating_mul(2));
        let quarter =
            available_memory().map_or(u64::MAX, |memory| memory.get() / 4 / u64::from(threads.max(1)));
        let size = beyond.min(MEMORY_MOST).min(quarter).max(Mebibytes::from_mib(1).to_bytes().get());
        Ok(Self { arena: Arena::new(Bytes::from_bytes(size))?, width: Width::widest(), place: 0, value: 0 })
    }
}

impl Stressor for Streaming {
    fn round(&mut self) -> Result<u64, WorkError> {
        let words = self.arena.words_mut();
        let end = (self.place + MEMORY_WORDS).min(words.len());
        let piece = words.get_mut(self.place..end).unwrap_or_default();
        self.value = self.value.wrapping_add(1);
        let bytes = piece.len() as u64 * 8;
        self.width.write(piece, self.value);
        self.place = if end == words.len() { 0 } else { end };
        Ok(bytes)
    }
}

/// Sequential writes with fsync through a ring.
struct Writing {
    scratch: Scratch,
    block: Vec<u8>,
    /// Where the ring begins: behind the probe's blocks on a device.
    begin: u64,
    ring: u64,
    place: u64,
}

impl Writing {
    fn new(number: u32, scratch: Option<&Path>) -> Result<Self, WorkError> {
        let scratch = Scratch::open(scratch)?;
        let (begin, ring) = match scratch.device_size() {
            None => (0, DISK_RING),
            Some(size) => ring_on_device(size, number),
        };
        if ring < DISK_BLOCK {
            return Err(WorkError::Unfit(format!("the {} is too small for the disk load", scratch.target())));
        }
        // Not all alike, so that nothing compresses it to nothing.
        let block =
            (0..DISK_BLOCK).map(|byte| (byte.wrapping_mul(0x9e37_79b9) >> 13).to_le_bytes()[0]).collect();
        Ok(Self { scratch, block, begin, ring, place: 0 })
    }
}

/// Counted from the end of the device; threads for whom there is no room left share the first one's ring.
fn ring_on_device(size: u64, number: u32) -> (u64, u64) {
    let blocks = size / DISK_BLOCK;
    let ring = DISK_RING.min(blocks / 2 * DISK_BLOCK);
    let behind = ring.saturating_mul(u64::from(number) + 1);
    let begin = (blocks * DISK_BLOCK).checked_sub(behind).unwrap_or(blocks * DISK_BLOCK - ring);
    (begin, ring)
}

impl Stressor for Writing {
    fn round(&mut self) -> Result<u64, WorkError> {
        let wrote =
            self.scratch.write(&self.block, self.begin + self.place).and_then(|()| self.scratch.sync());
        wrote.map_err(|error| self.scratch.explain("writing as a load to", error))?;
        self.place = (self.place + DISK_BLOCK) % (self.ring - self.ring % DISK_BLOCK);
        Ok(DISK_BLOCK)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_on_a_device_lie_inside_it() {
        for size in [0, DISK_BLOCK, 3 * DISK_BLOCK + 5, 100 << 20, 1 << 30] {
            for number in 0..20 {
                let (begin, ring) = ring_on_device(size, number);
                assert!(begin + ring <= size, "{size} {number}: {begin} + {ring}");
            }
        }
        assert_eq!(ring_on_device(1 << 30, 1).0, (1 << 30) - 2 * DISK_RING);
    }

    #[test]
    fn the_disk_load_stays_in_its_ring_and_says_what_it_wrote() {
        let folder = tempfile::tempdir().unwrap();
        let mut writing = Writing::new(0, Some(folder.path())).unwrap();
        writing.place = DISK_RING - DISK_BLOCK;
        assert_eq!(writing.round().unwrap(), DISK_BLOCK);
        assert_eq!(writing.place, 0);
    }
}
