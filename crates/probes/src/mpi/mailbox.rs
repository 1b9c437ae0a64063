//! Handing messages from one thread to another through memory: a ring of slots with one sender and one receiver.
//!
//! ```text
//!   sender copies in ─►  │ full │ full │ empty │ empty │  ─► receiver copies out
//!                                        ▲ next to fill       ▲ next to empty: the oldest full one
//! ```
//!
//! The length of a slot's piece says whose turn it is: 0 the sender's, anything else the receiver's. It is published with
//! release and read with acquire, so the bytes are there when the length is. The lock around the bytes is therefore
//! always free for the one whose turn it is; `try_lock` never waits and only satisfies the type system.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// Slots of a ring: a sender may be so many pieces ahead.
const SLOTS: usize = 4;

/// A piece on its way. Slots lie on cache lines of their own.
#[derive(Debug)]
#[repr(align(128))]
struct Slot {
    length: AtomicUsize,
    bytes: Mutex<Box<[u8]>>,
}

/// The sender's end.
#[derive(Debug)]
pub struct Outbox {
    ring: Arc<[Slot]>,
    next: usize,
}

/// The receiver's end.
#[derive(Debug)]
pub struct Inbox {
    ring: Arc<[Slot]>,
    next: usize,
    /// Bytes of the oldest piece that have been taken already.
    taken: usize,
}

/// A ring whose pieces are at most `piece` bytes long; all its memory is touched. Its memory is 4 × `piece`.
pub fn mailbox(piece: usize) -> (Outbox, Inbox) {
    let slot = |_| {
        let mut bytes = vec![1; piece.max(1)].into_boxed_slice();
        bytes.fill(0);
        Slot { length: AtomicUsize::new(0), bytes: Mutex::new(bytes) }
    };
    let ring: Arc<[Slot]> = (0..SLOTS).map(slot).collect();
    (Outbox { ring: Arc::clone(&ring), next: 0 }, Inbox { ring, next: 0, taken: 0 })
}

/// Memory of a ring with such pieces.
pub const fn memory(piece: usize) -> usize {
    piece * SLOTS
}

impl Outbox {
    /// Puts in as much of `bytes` as one slot holds; returns how much that was, 0 when all slots are full.
    pub fn put(&mut self, bytes: &[u8]) -> usize {
        let Some(slot) = self.ring.get(self.next) else { return 0 };
        if slot.length.load(Ordering::Acquire) != 0 {
            return 0;
        }
        let Ok(mut room) = slot.bytes.try_lock() else { return 0 };
        let count = bytes.len().min(room.len());
        let (Some(to), Some(from)) = (room.get_mut(..count), bytes.get(..count)) else { return 0 };
        to.copy_from_slice(from);
        drop(room);
        slot.length.store(count, Ordering::Release);
        self.next = if count > 0 { (self.next + 1) % self.ring.len() } else { self.next };
        count
    }
}

impl Inbox {
    /// Takes as much as `buffer` and the oldest piece hold; returns how much that was, 0 when there is nothing.
    pub fn take(&mut self, buffer: &mut [u8]) -> usize {
        let Some(slot) = self.ring.get(self.next) else { return 0 };
        let length = slot.length.load(Ordering::Acquire);
        let count = buffer.len().min(length.saturating_sub(self.taken));
        if count == 0 {
            return 0;
        }
        let Ok(piece) = slot.bytes.try_lock() else { return 0 };
        let (Some(to), Some(from)) = (buffer.get_mut(..count), piece.get(self.taken..self.taken + count))
        else {
            return 0;
        };
        to.copy_from_slice(from);
        drop(piece);
        self.taken += count;
        if self.taken == length {
            self.taken = 0;
            self.next = (self.next + 1) % self.ring.len();
            slot.length.store(0, Ordering::Release);
        }
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_row_of_bytes_arrives_whole_in_order_between_threads() {
        const TOTAL: usize = 1_000_003;
        let (mut outbox, mut inbox) = mailbox(1000);
        let sent: Vec<u8> = (0..TOTAL).map(|i| u8::try_from(i % 251).unwrap()).collect();
        let expected = sent.clone();
        let sender = std::thread::spawn(move || {
            let mut rest = &sent[..];
            while !rest.is_empty() {
                let count = outbox.put(&rest[..rest.len().min(777)]);
                rest = &rest[count..];
                if count == 0 {
                    std::thread::yield_now();
                }
            }
        });
        let (mut got, mut buffer) = (Vec::new(), [0; 333]);
        while got.len() < TOTAL {
            let count = inbox.take(&mut buffer);
            got.extend_from_slice(&buffer[..count]);
            if count == 0 {
                std::thread::yield_now();
            }
        }
        sender.join().unwrap();
        assert!(got == expected);
        assert_eq!(inbox.take(&mut buffer), 0);
    }

    #[test]
    fn a_full_ring_takes_nothing_more_until_a_whole_piece_is_out() {
        let (mut outbox, mut inbox) = mailbox(4);
        assert_eq!(outbox.put(b"too long"), 4);
        for _ in 1..SLOTS {
            assert_eq!(outbox.put(b"next"), 4);
        }
        assert_eq!(outbox.put(b"more"), 0);
        let mut buffer = [0; 3];
        assert_eq!((inbox.take(&mut buffer), &buffer), (3, b"too"));
        assert_eq!(outbox.put(b"more"), 0);
        assert_eq!(inbox.take(&mut buffer), 1);
        assert_eq!(outbox.put(b"more"), 4);
    }
}
