//! One direction, mode and block size: operations one after the other until the file is full or the time is over.

use std::io;
use std::time::Duration;

use super::trace::{Trace, Traced};
use crate::bounds::Bounds;
use crate::detail::{DiskDirection, DiskPhase};
use crate::error::WorkError;
use crate::params::DiskMode;
use crate::scratch::Scratch;
use units::histogram::Histogram;
use units::{Bytes, Nanos};

/// What a phase does, where, and for how long.
#[derive(Debug, Clone, Copy)]
pub struct DiskTask<'a> {
    /// Where.
    pub scratch: &'a Scratch,
    /// How.
    pub mode: DiskMode,
    /// At most up to here in the file: a multiple of the block size.
    pub end: u64,
    /// At most this long.
    pub duration: Duration,
    /// When to end at the latest.
    pub bounds: Bounds<'a>,
}

/// What became of a phase.
pub(super) enum Moved {
    All(Traced),
    Unsupported(String),
}

impl DiskTask<'_> {
    /// Writes blocks of this content.
    ///
    /// # Errors
    /// The disk is full, the system refused, or the job was to end.
    pub fn write(&self, block: &[u8]) -> Result<DiskPhase, WorkError> {
        let mut trace = Trace::starting_now();
        let wrote = self.each_block(block.len() as u64, &mut trace, "writing", |offset| {
            self.scratch.write(block, offset)?;
            if self.mode == DiskMode::Fsync { self.scratch.sync() } else { Ok(()) }
        })?;
        let moved = if let Some(reason) = wrote {
            Moved::Unsupported(reason)
        } else {
            // The final fsync is inside the time, but it is no operation: it moves what others have handed over.
            self.scratch.sync().map_err(|error| self.scratch.explain("syncing", error))?;
            Moved::All(trace.finish())
        };
        Ok(self.phase(DiskDirection::Write, block.len() as u64, moved))
    }

    /// Reads blocks into this one; what is read was written before.
    ///
    /// # Errors
    /// The system refused, or the job was to end.
    pub fn read(&self, block: &mut [u8]) -> Result<DiskPhase, WorkError> {
        self.scratch.forget_cache()?;
        let mut trace = Trace::starting_now();
        let size = block.len() as u64;
        let read = self.each_block(size, &mut trace, "reading", |offset| self.scratch.read(block, offset))?;
        let moved = read.map_or_else(|| Moved::All(trace.finish()), Moved::Unsupported);
        Ok(self.phase(DiskDirection::Read, size, moved))
    }

    /// Returns why it is unsupported, if it is.
    fn each_block(
        &self,
        size: u64,
        trace: &mut Trace,
        doing: &str,
        mut operation: impl FnMut(u64) -> io::Result<()>,
    ) -> Result<Option<String>, WorkError> {
        self.bounds.check()?;
        let left = self.bounds.left();
        let (mut offset, mut elapsed) = (0, Duration::ZERO);
        while offset + size <= self.end && (offset == 0 || elapsed < self.duration) {
            match operation(offset) {
                // The one look at the clock per operation: both limits are held against it.
                Ok(()) => elapsed = trace.ended_after(size),
                Err(error) if offset == 0 && self.is_refusal(&error) => return Ok(Some(refusal(&error))),
                Err(error) => return Err(self.scratch.explain(doing, error)),
            }
            offset += size;
            if self.bounds.is_stopped() || elapsed >= left {
                return Err(self.bounds.broken());
            }
        }
        Ok(None)
    }

    pub(super) fn is_refusal(&self, error: &io::Error) -> bool {
        self.mode == DiskMode::Direct && error.kind() == io::ErrorKind::InvalidInput
    }

    pub(super) fn phase(&self, direction: DiskDirection, size: u64, moved: Moved) -> DiskPhase {
        let block_bytes = Bytes::from_bytes(size);
        match moved {
            Moved::All(traced) => DiskPhase {
                direction,
                mode: self.mode,
                block_bytes,
                unsupported: None,
                bytes: traced.bytes,
                elapsed_ns: traced.elapsed_ns,
                latency_ns: traced.latency_ns,
                windows: traced.windows,
                stalls: traced.stalls,
                witnessed: traced.witnessed,
            },
            Moved::Unsupported(reason) => unsupported(direction, self.mode, block_bytes, reason),
        }
    }
}

pub(super) fn refusal(error: &io::Error) -> String {
    format!("the kernel refuses O_DIRECT with this block size here: {error}")
}

/// A phase that could not run.
pub fn unsupported(
    direction: DiskDirection,
    mode: DiskMode,
    block_bytes: Bytes,
    reason: String,
) -> DiskPhase {
    DiskPhase {
        direction,
        mode,
        block_bytes,
        unsupported: Some(reason),
        bytes: Bytes::default(),
        elapsed_ns: Nanos::ZERO,
        latency_ns: Histogram::default(),
        windows: Vec::new(),
        stalls: Vec::new(),
        witnessed: Vec::new(),
    }
}
