//! The disk load: sequential writes with fsync, round and round through a ring.

use std::path::Path;

use super::stressors::{Done, Stressor};
use crate::error::WorkError;
use crate::scratch::Scratch;

/// The load writes round and round through this much, per thread.
const RING: u64 = 64 << 20;
/// Size of its writes.
const BLOCK: u64 = 1 << 20;

/// Sequential writes with fsync, one thread.
pub struct Writing {
    scratch: Scratch,
    block: Vec<u8>,
    /// Where the ring begins: behind the probe's blocks on a device.
    begin: u64,
    ring: u64,
    place: u64,
}

impl Writing {
    /// Thread `number` on a fresh scratch file, or in its ring on the device.
    ///
    /// # Errors
    /// There is no scratch place, or it is too small.
    pub fn new(number: u32, scratch: Option<&Path>) -> Result<Self, WorkError> {
        let scratch = Scratch::open(scratch)?;
        let (begin, ring) = match scratch.device_size() {
            None => (0, RING),
            Some(size) => ring_on_device(size, number),
        };
        if ring < BLOCK {
            return Err(WorkError::Unfit(format!("the {} is too small for the disk load", scratch.target())));
        }
        // Not all alike, so that nothing compresses it to nothing.
        let block = (0..BLOCK).map(|byte| (byte.wrapping_mul(0x9e37_79b9) >> 13).to_le_bytes()[0]).collect();
        Ok(Self { scratch, block, begin, ring, place: 0 })
    }
}

/// Counted from the end of the device; threads for whom there is no room left share the first one's ring.
fn ring_on_device(size: u64, number: u32) -> (u64, u64) {
    let blocks = size / BLOCK;
    let ring = RING.min(blocks / 2 * BLOCK);
    let behind = ring.saturating_mul(u64::from(number) + 1);
    let begin = (blocks * BLOCK).checked_sub(behind).unwrap_or(blocks * BLOCK - ring);
    (begin, ring)
}

impl Stressor for Writing {
    fn round(&mut self) -> Result<Done, WorkError> {
        let wrote =
            self.scratch.write(&self.block, self.begin + self.place).and_then(|()| self.scratch.sync());
        wrote.map_err(|error| self.scratch.explain("writing as a load to", error))?;
        self.place = (self.place + BLOCK) % (self.ring - self.ring % BLOCK);
        Ok(Done::of(BLOCK))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_on_a_device_lie_inside_it() {
        for size in [0, BLOCK, 3 * BLOCK + 5, 100 << 20, 1 << 30] {
            for number in 0..20 {
                let (begin, ring) = ring_on_device(size, number);
                assert!(begin + ring <= size, "{size} {number}: {begin} + {ring}");
            }
        }
        assert_eq!(ring_on_device(1 << 30, 1).0, (1 << 30) - 2 * RING);
    }

    #[test]
    fn the_disk_load_stays_in_its_ring_and_says_what_it_wrote() {
        let folder = tempfile::tempdir().unwrap();
        let mut writing = Writing::new(0, Some(folder.path())).unwrap();
        writing.place = RING - BLOCK;
        assert_eq!(writing.round().unwrap(), Done::of(BLOCK));
        assert_eq!(writing.place, 0);
    }
}
