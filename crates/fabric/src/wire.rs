//! What peers say to each other: a header of 40 bytes, then at most a chunk of payload.
//!
//! ```text
//!  sender                                     receiver
//!  Hello ───────────────────────────────────► first, in each direction: same run, right rank
//!  Eager + payload ─────────────────────────► matched, or kept in memory (bounded: Credit gives it back)
//!  Announce ────────────────────────────────► matched, or remembered
//!         ◄──────────────────────────────── Invite: a receive is there, with room for so much
//!  Piece + payload, Piece + payload … ──────► straight into the receive's buffer
//! ```
//!
//! A header comes from a peer that may want to harm us: it is read once, and everything in it is checked here or, where
//! it names something under way, by the lane.

use crate::fault::Fault;
/// Bytes of a header. With a ring's own 16 bytes, a message of 8 bytes fills one cache line.
pub const HEADER: usize = 40;

/// Longest message that is sent without asking, in bytes.
pub const MOST_EAGER: usize = 16 << 10;

/// Longest piece of an announced message, in bytes. Between two pieces other messages may pass.
pub const MOST_PIECE: usize = 256 << 10;

/// Longest message, in bytes.
pub const MOST_MESSAGE: u64 = 1 << 40;

/// Version of this protocol; both sides must agree.
pub const VERSION: u32 = 1;

/// Bytes of payload that a hello may carry: the token of a TCP peer.
pub const MOST_HELLO: usize = 16;

const MARK: u64 = 0xb10c;
/// [`Message::Eager`] in a header.
const EAGER: u64 = 2;
/// Says that there are data for the completion.
const FLAG: u64 = 1 << 8;

/// A header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message {
    /// Who speaks, in which run. Always first.
    Hello {
        /// Hash of the run's identity.
        run: u64,
        /// Rank of the sender.
        rank: u32,
        /// Version of its protocol.
        version: u32,
    },
    /// A whole message.
    Eager {
        /// Its tag.
        tag: u64,
        /// Data that the completion carries.
        data: Option<u64>,
    },
    /// A message that is sent when it is asked for.
    Announce {
        /// Its tag.
        tag: u64,
        /// Data that the completion carries.
        data: Option<u64>,
        /// Its bytes.
        length: u64,
        /// How the sender knows it.
        id: u64,
    },
    /// Asks for an announced message.
    Invite {
        /// How the sender knows it.
        id: u64,
        /// How the receiver knows it.
        to: u64,
        /// How many of its bytes.
        accepted: u64,
    },
    /// A part of a message that was asked for.
    Piece {
        /// How the receiver knows it.
        to: u64,
        /// Where in the message it belongs.
        offset: u64,
    },
    /// How much eager memory was given back since the link came up, in bytes.
    Credit {
        /// The sum.
        returned: u64,
    },
}

impl Message {
    /// The 40 bytes.
    pub fn encode(&self) -> [u8; HEADER] {
        let flag = |data: &Option<u64>| u64::from(data.is_some());
        let (kind, flags, words) = match self {
            Self::Hello { run, rank, version } => {
                (1, 0, [*run, u64::from(*rank) | u64::from(*version) << 32, 0, 0])
            }
            Self::Eager { tag, data } => (EAGER, flag(data), [*tag, data.unwrap_or(0), 0, 0]),
            Self::Announce { tag, data, length, id } => {
                (3, flag(data), [*tag, data.unwrap_or(0), *length, *id])
            }
            Self::Invite { id, to, accepted } => (4, 0, [*id, *to, *accepted, 0]),
            Self::Piece { to, offset } => (5, 0, [*to, *offset, 0, 0]),
            Self::Credit { returned } => (6, 0, [*returned, 0, 0, 0]),
        };
        let mut bytes = [0; HEADER];
        let all = std::iter::once(kind | flags << 8 | MARK << 48).chain(words);
        for (to, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(all) {
            *to = word.to_le_bytes();
        }
        bytes
    }

    /// Tag and data of a whole message, if the header is one's and it may have so many bytes of payload: what
    /// [`Message::decode`] would say, for the kind that comes most.
    #[inline]
    pub fn eager(bytes: &[u8; HEADER], payload: usize) -> Option<(u64, Option<u64>)> {
        let [head, tag, data, ..] = bytes.as_chunks::<8>().0 else { return None };
        let head = u64::from_le_bytes(*head);
        let has_data = head & FLAG != 0;
        let is_eager = head & !FLAG == EAGER | MARK << 48 && payload <= MOST_EAGER;
        is_eager.then(|| (u64::from_le_bytes(*tag), has_data.then(|| u64::from_le_bytes(*data))))
    }

    /// Reads a header that is followed by so many bytes of payload.
    ///
    /// # Errors
    /// Says which value was impossible.
    pub fn decode(bytes: &[u8; HEADER], payload: usize) -> Result<Self, Fault> {
        let mut words = [0; HEADER / 8];
        for (word, from) in words.iter_mut().zip(bytes.as_chunks::<8>().0) {
            *word = u64::from_le_bytes(*from);
        }
        let [head, one, two, three, four] = words;
        if head >> 48 != MARK || head & 0x0000_ffff_ffff_fe00 != 0 {
            return Err(format!("wanted the mark of a message, got {head:#018x}").into());
        }
        let data = (head >> 8 & 1 == 1).then_some(two);
        let (message, most) = match head & 0xff {
            1 => {
                let (rank, version) = (low_half(two), low_half(two >> 32));
                (Self::Hello { run: one, rank, version }, MOST_HELLO)
            }
            EAGER => (Self::Eager { tag: one, data }, MOST_EAGER),
            3 => (Self::Announce { tag: one, data, length: three, id: four }, 0),
            4 => (Self::Invite { id: one, to: two, accepted: three }, 0),
            5 => (Self::Piece { to: one, offset: two }, MOST_PIECE),
            6 => (Self::Credit { returned: one }, 0),
            kind => return Err(format!("wanted a kind of message from 1 to 6, got {kind}").into()),
        };
        if payload > most {
            return Err(format!("wanted at most {most} bytes of payload, got {payload}").into());
        }
        match message {
            Self::Announce { length, .. } if length > MOST_MESSAGE => {
                Err(format!("wanted an announced message of at most {MOST_MESSAGE} bytes, got {length}")
                    .into())
            }
            _ => Ok(message),
        }
    }
}

fn low_half(word: u64) -> u32 {
    u32::try_from(word & u64::from(u32::MAX)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn every_kind_comes_back_as_it_was() {
        let all = [
            Message::Hello { run: 7, rank: 3, version: VERSION },
            Message::Eager { tag: u64::MAX, data: Some(0) },
            Message::Eager { tag: 0, data: None },
            Message::Announce { tag: 5, data: Some(9), length: MOST_MESSAGE, id: 1 << 63 },
            Message::Invite { id: 1, to: 2, accepted: 3 },
            Message::Piece { to: 4, offset: 5 },
            Message::Credit { returned: 6 },
        ];
        for message in all {
            assert_eq!(Message::decode(&message.encode(), 0), Ok(message));
        }
    }

    proptest! {
        #[test]
        fn noise_is_refused_or_understood_but_nothing_else(bytes: [u8; HEADER], payload: usize) {
            if let Ok(message) = Message::decode(&bytes, payload) {
                prop_assert!(payload <= MOST_PIECE);
                prop_assert_eq!(Message::decode(&message.encode(), payload), Ok(message));
            }
        }

        #[test]
        fn the_short_look_says_what_the_long_one_says(
            tag: u64,
            data: Option<u64>,
            payload in 0..2 * MOST_EAGER,
            flipped in 0..HEADER * 8,
            flips: bool,
        ) {
            let mut bytes = Message::Eager { tag, data }.encode();
            if flips {
                bytes[flipped / 8] ^= 1 << (flipped % 8);
            }
            let long = Message::decode(&bytes, payload).ok();
            match (Message::eager(&bytes, payload), long) {
                (Some((tag, data)), long) => prop_assert_eq!(Some(Message::Eager { tag, data }), long),
                (None, long) => prop_assert!(!matches!(long, Some(Message::Eager { .. })), "{:?}", long),
            }
        }
    }
}
