//! Frames on their way out of a plug. What does not fit is lost there and then: a plug that does not read loses its own
//! frames and nobody else's.

use super::wire::LENGTH_BYTES;

/// Most bytes that wait for one plug.
pub const QUEUE_BYTES: usize = 512 * 1024;

/// Frames with their lengths, as they go onto the stream.
#[derive(Debug, Default)]
pub struct Queue {
    bytes: Vec<u8>,
    start: usize,
}

impl Queue {
    /// Adds a frame, whole or not at all; says whether it did.
    pub fn push(&mut self, frame: &[u8]) -> bool {
        let waiting = self.bytes.len() - self.start;
        let Ok(length) = u32::try_from(frame.len()) else { return false };
        if waiting + LENGTH_BYTES + frame.len() > QUEUE_BYTES {
            return false;
        }
        if self.start > QUEUE_BYTES || waiting == 0 {
            self.bytes.drain(..self.start);
            self.start = 0;
        }
        self.bytes.extend_from_slice(&length.to_be_bytes());
        self.bytes.extend_from_slice(frame);
        true
    }

    /// What waits.
    pub fn waiting(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }

    /// Notes that so many of the waiting bytes are on their way.
    pub fn sent(&mut self, bytes: usize) {
        self.start = self.bytes.len().min(self.start + bytes);
    }
}
