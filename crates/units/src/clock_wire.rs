//! Datagrams between an instance and its host's clock. One question, one answer, both 40 bytes: the way there and the
//! way back take equally long, which the error bar of [`super::outside`] counts on, and an answer is never longer than
//! what asked for it.
//!
//! ```text
//!  byte  0      4         6      8       16       24            32        40      numbers in network byte order
//!        ├──────┼─────────┼──────┼───────┼────────┼─────────────┼─────────┤
//!        │ BHCK │ version │ kind │ nonce │ number │ received_ns │ sent_ns │      kind 1: question, both times zero
//!        └──────┴─────────┴──────┴───────┴────────┴─────────────┴─────────┘      kind 2: answer
//! ```
//! Source of the method: Mills, RFC 5905 section 8 (on-wire protocol).

use super::quantity::Nanos;

/// Length of every datagram, in bytes.
pub const LENGTH: usize = 40;
/// Version of the datagrams; both ends must agree.
pub const VERSION: u16 = 1;

const MAGIC: [u8; 4] = *b"BHCK";
const KIND_QUESTION: u16 = 1;
const KIND_ANSWER: u16 = 2;

/// What does the host's clock say?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockQuestion {
    /// Chosen by who asks, at random, and given back: answers to someone else's question, or to one of an earlier
    /// measurement, are recognised.
    pub nonce: u64,
    /// Number of the question, counted up by who asks: late answers are recognised.
    pub number: u64,
}

/// The host's clock, twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockAnswer {
    /// [`ClockQuestion::nonce`] of what is answered.
    pub nonce: u64,
    /// [`ClockQuestion::number`] of what is answered.
    pub number: u64,
    /// Host's `CLOCK_MONOTONIC` when the question was read.
    pub received_ns: Nanos,
    /// Host's `CLOCK_MONOTONIC` right before the answer was written; not before `received_ns`.
    pub sent_ns: Nanos,
}

impl ClockQuestion {
    /// As a datagram.
    pub fn encode(&self) -> [u8; LENGTH] {
        encode(KIND_QUESTION, [self.nonce, self.number, 0, 0])
    }

    /// From a datagram; none for anything else than a whole question of this version.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let [nonce, number, 0, 0] = decode(KIND_QUESTION, bytes)? else { return None };
        Some(Self { nonce, number })
    }

    /// Whether `answer` answers this very question.
    pub const fn is_answered_by(&self, answer: &ClockAnswer) -> bool {
        self.nonce == answer.nonce && self.number == answer.number
    }
}

impl ClockAnswer {
    /// The answer to `question`.
    pub const fn to(question: &ClockQuestion, received_ns: Nanos, sent_ns: Nanos) -> Self {
        Self { nonce: question.nonce, number: question.number, received_ns, sent_ns }
    }

    /// As a datagram.
    pub fn encode(&self) -> [u8; LENGTH] {
        encode(KIND_ANSWER, [self.nonce, self.number, self.received_ns.get(), self.sent_ns.get()])
    }

    /// From a datagram; none for anything else than a whole answer of this version whose clock did not run backwards.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let [nonce, number, received, sent] = decode(KIND_ANSWER, bytes)?;
        let (received_ns, sent_ns) = (Nanos::from_nanos(received), Nanos::from_nanos(sent));
        (sent >= received).then_some(Self { nonce, number, received_ns, sent_ns })
    }
}

fn encode(kind: u16, numbers: [u64; 4]) -> [u8; LENGTH] {
    let [nonce, number, received, sent] = numbers;
    let mut bytes = [0; LENGTH];
    let head = MAGIC.into_iter().chain(VERSION.to_be_bytes()).chain(kind.to_be_bytes());
    let tail = [nonce, number, received, sent].into_iter().flat_map(u64::to_be_bytes);
    for (place, byte) in bytes.iter_mut().zip(head.chain(tail)) {
        *place = byte;
    }
    bytes
}

/// The four numbers of a datagram of this kind.
fn decode(kind: u16, bytes: &[u8]) -> Option<[u64; 4]> {
    let bytes: &[u8; LENGTH] = bytes.try_into().ok()?;
    let (head, tail) = bytes.split_first_chunk::<8>()?;
    let [m0, m1, m2, m3, v0, v1, k0, k1] = *head;
    let is_ours = [m0, m1, m2, m3] == MAGIC
        && u16::from_be_bytes([v0, v1]) == VERSION
        && u16::from_be_bytes([k0, k1]) == kind;
    let (numbers, _) = tail.as_chunks::<8>();
    let [nonce, number, received, sent] = numbers else { return None };
    is_ours.then(|| [nonce, number, received, sent].map(|number| u64::from_be_bytes(*number)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUESTION: ClockQuestion = ClockQuestion { nonce: 0x0102_0304_0506_0708, number: 9 };

    fn answer() -> ClockAnswer {
        ClockAnswer::to(&QUESTION, Nanos::from_nanos(10), Nanos::from_nanos(u64::MAX))
    }

    #[test]
    fn datagrams_come_back_and_are_not_taken_for_each_other() {
        assert_eq!(ClockQuestion::decode(&QUESTION.encode()), Some(QUESTION));
        assert_eq!(ClockAnswer::decode(&answer().encode()), Some(answer()));
        assert_eq!(ClockQuestion::decode(&answer().encode()), None);
        assert_eq!(ClockAnswer::decode(&QUESTION.encode()), None);
        assert!(QUESTION.is_answered_by(&answer()));
        assert!(!ClockQuestion { number: 8, ..QUESTION }.is_answered_by(&answer()));
        assert!(!ClockQuestion { nonce: 1, ..QUESTION }.is_answered_by(&answer()));
    }

    #[test]
    fn the_layout_is_what_the_picture_says() {
        let bytes = answer().encode();
        assert_eq!(bytes[..8], *b"BHCK\0\x01\0\x02");
        assert_eq!(bytes[8..16], [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!((bytes[23], bytes[31]), (9, 10));
        assert_eq!(bytes[32..], [255; 8]);
    }

    #[test]
    fn a_clock_that_runs_backwards_another_version_and_other_lengths_are_refused() {
        let backwards =
            ClockAnswer { received_ns: Nanos::from_nanos(2), sent_ns: Nanos::from_nanos(1), ..answer() };
        assert_eq!(ClockAnswer::decode(&backwards.encode()), None);
        let mut later = QUESTION.encode();
        later[5] += 1;
        assert_eq!(ClockQuestion::decode(&later), None);
        let bytes = QUESTION.encode();
        assert_eq!(ClockQuestion::decode(&bytes[..LENGTH - 1]), None);
        assert_eq!(ClockQuestion::decode(&[&bytes[..], &[0]].concat()), None);
        assert_eq!(ClockQuestion::decode(&[]), None);
    }
}
