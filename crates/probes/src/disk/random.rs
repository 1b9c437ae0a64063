//! Random reads: single blocks anywhere in what was written, one after the other.

use std::time::Duration;

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::phase::{DiskTask, Moved, refusal};
use super::trace::Trace;
use crate::detail::{DiskDirection, DiskPhase};
use crate::error::WorkError;
use crate::params::DiskMode;

impl DiskTask<'_> {
    /// Reads blocks of this size at random places before [`DiskTask::end`]. In buffered mode each block is dropped from the
    /// page cache after it was read, inside the time: a second read of it must not come from memory.
    ///
    /// # Errors
    /// The system refused, or the job was to end.
    pub fn read_anywhere(
        &self,
        block: &mut [u8],
        random: &mut Xoshiro256PlusPlus,
    ) -> Result<DiskPhase, WorkError> {
        let size = block.len() as u64;
        let blocks = (self.end / size.max(1)).max(1);
        self.scratch.forget_cache()?;
        self.scratch.expect_random_reads();
        let mut trace = Trace::starting_now();
        let left = self.bounds.left();
        let (mut is_first, mut elapsed) = (true, Duration::ZERO);
        while is_first || elapsed < self.duration {
            let offset = random.random_range(0..blocks) * size;
            let read = self.scratch.read(block, offset).and_then(|()| {
                if self.mode == DiskMode::Direct { Ok(()) } else { self.scratch.forget(offset, size) }
            });
            match read {
                // The one look at the clock per read: both limits are held against it.
                Ok(()) => elapsed = trace.ended_after(size),
                Err(error) if is_first && self.is_refusal(&error) => {
                    let refused = Moved::Unsupported(refusal(&error));
                    return Ok(self.phase(DiskDirection::RandomRead, size, refused));
                }
                Err(error) => return Err(self.scratch.explain("reading anywhere in", error)),
            }
            is_first = false;
            if self.bounds.is_stopped() || elapsed >= left {
                return Err(self.bounds.broken());
            }
        }
        Ok(self.phase(DiskDirection::RandomRead, size, Moved::All(trace.finish())))
    }
}
