//! Frames on a stream, as QEMU's `-netdev stream` writes them: four bytes of length, most significant first, and the
//! frame itself, without its checksum (QEMU's `net/net.c`, `net_fill_rstate`).
//!
//! ```text
//!  ┌────────────┬───────────────────────────────────────────────┐
//!  │ length u32 │ destination 6 · source 6 · type 2 · payload … │
//!  └────────────┴───────────────────────────────────────────────┘
//! ```

/// Shortest frame: the header alone.
pub const SHORTEST_FRAME: usize = 14;
/// Longest frame: the largest IP packet behind a header with two VLAN tags.
pub const LONGEST_FRAME: usize = 65_535 + SHORTEST_FRAME + 8;
/// Bytes of the length.
pub const LENGTH_BYTES: usize = 4;

/// A frame is announced that is longer than any. The stream can only be closed: where the next one starts is unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a frame of {0} bytes was announced, the longest has {LONGEST_FRAME}")]
pub struct TooLong(pub u32);

/// Cuts a stream into frames. Holds one unfinished frame and what it was fed last.
#[derive(Debug, Default)]
pub struct Decoder {
    bytes: Vec<u8>,
    start: usize,
}

impl Decoder {
    /// Takes bytes of the stream.
    pub fn feed(&mut self, bytes: &[u8]) {
        // What was read is dropped here only, so that frames can be looked at in place.
        self.bytes.drain(..self.start);
        self.start = 0;
        self.bytes.extend_from_slice(bytes);
    }

    /// The next whole frame.
    ///
    /// # Errors
    /// When the stream is no sequence of frames; every further call says so again.
    pub fn frame(&mut self) -> Result<Option<&[u8]>, TooLong> {
        let rest = self.bytes.get(self.start..).unwrap_or_default();
        let Some((head, rest)) = rest.split_first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
        let announced = u32::from_be_bytes(*head);
        let length = usize::try_from(announced).ok().filter(|length| *length <= LONGEST_FRAME);
        let length = length.ok_or(TooLong(announced))?;
        if rest.len() < length {
            return Ok(None);
        }
        let first = self.start + LENGTH_BYTES;
        self.start = first + length;
        Ok(self.bytes.get(first..self.start))
    }

    /// Whether a whole frame, or the news that there can be none, waits.
    pub fn has_frame(&self) -> bool {
        let rest = self.bytes.get(self.start..).unwrap_or_default();
        rest.split_first_chunk::<LENGTH_BYTES>().is_some_and(|(head, rest)| {
            let announced = usize::try_from(u32::from_be_bytes(*head)).unwrap_or(usize::MAX);
            announced > LONGEST_FRAME || rest.len() >= announced
        })
    }
}
