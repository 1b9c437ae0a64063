//! Frames: how messages become bytes, and bytes messages again. No input or output here, so a fuzzer can drive it.
//!
//! ```text
//!   0        4           8          12        16                16 + length
//!   │ "BLKH" │ version   │ length   │ CRC-32  │ payload (JSON) … │
//! ```
//! All numbers are little-endian `u32`. The CRC covers version, length and payload. Nothing tries to find the next
//! frame after garbage: a peer that sends garbage once is not believed again.
//!
//! Memory: a decoder never holds more than two frames of its limit. Parsing a payload takes at most about 60 bytes
//! per value on top, and payloads with more than [`MAX_VALUES`] values are refused before they are parsed.

use serde::Serialize;
use serde::de::DeserializeOwned;

use model::wire::PROTOCOL_VERSION;

/// First bytes of every frame.
const MAGIC: [u8; 4] = *b"BLKH";
/// Bytes in front of the payload.
const HEADER_BYTES: usize = 16;
/// Longest payload an agent may send: a million work quanta of 12 digits fit.
pub const TO_HOST_LIMIT: usize = 16 * 1024 * 1024;
/// Longest payload the host may send.
pub const TO_AGENT_LIMIT: usize = 1024 * 1024;
/// Most JSON values in one payload.
pub const MAX_VALUES: usize = 2_000_000;
/// How much of what was got an error shows.
const SHOWN_BYTES: usize = 48;

/// Why the link did not deliver.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    /// The other end is gone.
    #[error("the other end closed the link")]
    Closed,
    /// Nothing came, or nothing could be sent, in time.
    #[error("the link was silent until the deadline")]
    Deadline,
    /// The user interrupted.
    #[error("interrupted")]
    Cancelled,
    /// Not a frame, or not a message.
    #[error("{wanted} was wanted, got {got}")]
    Garbage {
        /// What would have been right.
        wanted: String,
        /// What came instead, harmless to print.
        got: String,
    },
    /// A frame longer than allowed.
    #[error("a frame may have {limit} bytes, this one announces {got}")]
    TooLong {
        /// Allowed length.
        limit: usize,
        /// Announced length.
        got: usize,
    },
    /// The other end speaks another version.
    #[error(
        "protocol version {wanted} was wanted, the other end speaks {got}: use the same bulkhead on both ends"
    )]
    Version {
        /// Ours.
        wanted: u32,
        /// Theirs.
        got: u32,
    },
    /// A message that cannot be written down, for example because of a number that is not finite.
    #[error("this message cannot be sent: {0}")]
    Unsendable(String),
    /// The operating system refused to read or write.
    #[error("the link broke: {0}")]
    Broke(String),
}

/// Writes a message as one frame of at most `limit` payload bytes.
///
/// # Errors
/// When the message is too long or cannot be written as JSON.
pub fn encode<T: Serialize>(message: &T, limit: usize) -> Result<Vec<u8>, LinkError> {
    let mut frame = vec![0; HEADER_BYTES];
    serde_json::to_writer(&mut frame, message).map_err(|error| LinkError::Unsendable(error.to_string()))?;
    let got = frame.len() - HEADER_BYTES;
    let length = u32::try_from(got).ok().filter(|_| got <= limit).ok_or(LinkError::TooLong { limit, got })?;
    let crc = checksum(PROTOCOL_VERSION, length, frame.get(HEADER_BYTES..).unwrap_or_default());
    let fields = [MAGIC, PROTOCOL_VERSION.to_le_bytes(), length.to_le_bytes(), crc.to_le_bytes()]
        .into_iter()
        .flatten();
    frame.iter_mut().zip(fields).for_each(|(slot, byte)| *slot = byte);
    Ok(frame)
}

/// Reads a payload as a message. What nests deeper than 128 levels is refused by the parser.
///
/// # Errors
/// [`LinkError::Garbage`] when the payload is no such message.
pub fn decode<T: DeserializeOwned>(payload: &[u8]) -> Result<T, LinkError> {
    let values = payload.iter().filter(|byte| matches!(byte, b',' | b'[' | b'{')).count();
    if values > MAX_VALUES {
        return Err(LinkError::Garbage {
            wanted: format!("a message of at most {MAX_VALUES} values"),
            got: format!("{values} values"),
        });
    }
    serde_json::from_slice(payload)
        .map_err(|error| LinkError::Garbage { wanted: format!("a message ({error})"), got: shown(payload) })
}

fn checksum(version: u32, length: u32, payload: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(&version.to_le_bytes());
    hasher.update(&length.to_le_bytes());
    hasher.update(payload);
    hasher.finalize()
}

/// Bytes as text that is harmless on a terminal, cut to a few.
fn shown(bytes: &[u8]) -> String {
    let head = bytes.get(..SHOWN_BYTES).unwrap_or(bytes);
    let more = if head.len() < bytes.len() { format!(" … ({} bytes)", bytes.len()) } else { String::new() };
    format!("\"{}\"{more}", head.escape_ascii())
}

/// Turns pushed bytes into payloads.
#[derive(Debug)]
pub struct Decoder {
    limit: usize,
    buffer: Vec<u8>,
    /// Bytes of `buffer` that were handed out already.
    taken: usize,
    broken: Option<LinkError>,
}

impl Decoder {
    /// A decoder for frames of at most `limit` payload bytes.
    pub fn new(limit: usize) -> Self {
        Self { limit, buffer: Vec::new(), taken: 0, broken: None }
    }

    /// Takes bytes in. Pull frames after every push: more than two frames' worth at once is an error, and what
    /// comes after an error is dropped.
    pub fn push(&mut self, bytes: &[u8]) {
        if self.broken.is_some() {
            return;
        }
        self.buffer.drain(..self.taken);
        self.taken = 0;
        let most = 2 * (self.limit + HEADER_BYTES);
        if self.buffer.len() + bytes.len() > most {
            let got = self.buffer.len() + bytes.len();
            self.fail(LinkError::TooLong { limit: most, got });
            return;
        }
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole payload; `None` when more bytes are needed. After an error every call repeats it.
    ///
    /// # Errors
    /// When the bytes are no frame of ours; the decoder is of no use from then on.
    pub fn next_frame(&mut self) -> Result<Option<Vec<u8>>, LinkError> {
        if let Some(error) = &self.broken {
            return Err(error.clone());
        }
        match parse(self.buffer.get(self.taken..).unwrap_or_default(), self.limit) {
            Ok(None) => Ok(None),
            Ok(Some(payload)) => {
                let payload = payload.to_vec();
                self.taken += HEADER_BYTES + payload.len();
                if self.taken == self.buffer.len() {
                    // Do not keep sixteen mebibytes because of one long report.
                    self.buffer = Vec::new();
                    self.taken = 0;
                }
                Ok(Some(payload))
            }
            Err(error) => {
                self.fail(error.clone());
                Err(error)
            }
        }
    }

    /// Whether [`Self::next_frame`] has something to say: a frame or an error.
    pub fn is_whole(&self) -> bool {
        let waiting = self.buffer.get(self.taken..).unwrap_or_default();
        self.broken.is_some() || !matches!(parse(waiting, self.limit), Ok(None))
    }

    fn fail(&mut self, error: LinkError) {
        self.buffer = Vec::new();
        self.taken = 0;
        self.broken = Some(error);
    }
}

/// The payload at the start of `bytes`, if it is whole. Wrong bytes are found as early as they arrive, so a peer that
/// prints a short text instead of a frame is an error and not a silence.
fn parse(bytes: &[u8], limit: usize) -> Result<Option<&[u8]>, LinkError> {
    if bytes.iter().zip(MAGIC).any(|(got, wanted)| *got != wanted) {
        return Err(LinkError::Garbage { wanted: "a frame (\"BLKH…\")".to_owned(), got: shown(bytes) });
    }
    let Some(version) = number_at(bytes, 4) else { return Ok(None) };
    if version != PROTOCOL_VERSION {
        return Err(LinkError::Version { wanted: PROTOCOL_VERSION, got: version });
    }
    let Some(length) = number_at(bytes, 8) else { return Ok(None) };
    let payload_bytes = usize::try_from(length).unwrap_or(usize::MAX);
    if payload_bytes > limit {
        return Err(LinkError::TooLong { limit, got: payload_bytes });
    }
    let (Some(crc), Some(payload)) =
        (number_at(bytes, 12), bytes.get(HEADER_BYTES..HEADER_BYTES + payload_bytes))
    else {
        return Ok(None);
    };
    let computed = checksum(version, length, payload);
    if computed != crc {
        return Err(LinkError::Garbage {
            wanted: format!("a payload with checksum {crc:08x}"),
            got: format!("{computed:08x} for {}", shown(payload)),
        });
    }
    Ok(Some(payload))
}

fn number_at(bytes: &[u8], offset: usize) -> Option<u32> {
    let field = bytes.get(offset..offset + 4)?;
    Some(u32::from_le_bytes(field.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use model::wire::{ToAgent, ToHost};

    fn frames_of(decoder: &mut Decoder) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| decoder.next_frame().expect("good bytes")).collect()
    }

    proptest! {
        #[test]
        fn messages_survive_any_cut(ids in prop::collection::vec(any::<u64>(), 1..20), cut in 1usize..50) {
            let sent: Vec<ToAgent> = ids.into_iter().map(|id| ToAgent::Stop { id }).collect();
            let bytes: Vec<u8> =
                sent.iter().flat_map(|message| encode(message, TO_AGENT_LIMIT).expect("small")).collect();
            let mut decoder = Decoder::new(TO_AGENT_LIMIT);
            let mut got: Vec<ToAgent> = Vec::new();
            for chunk in bytes.chunks(cut) {
                decoder.push(chunk);
                got.extend(frames_of(&mut decoder).iter().map(|frame| decode(frame).expect("a message")));
            }
            prop_assert_eq!(got, sent);
            prop_assert!(decoder.buffer.is_empty());
        }

        #[test]
        fn any_bytes_are_refused_or_awaited_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut decoder = Decoder::new(100);
            decoder.push(&bytes);
            while let Ok(Some(frame)) = decoder.next_frame() {
                let _ = decode::<ToHost>(&frame);
            }
        }

        #[test]
        fn one_flipped_bit_is_noticed(bit in 0usize..8 * 40) {
            let mut bytes = encode(&ToAgent::Stop { id: 77 }, TO_AGENT_LIMIT).expect("small");
            let bit = bit % (bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
            let mut decoder = Decoder::new(TO_AGENT_LIMIT);
            decoder.push(&bytes);
            // A flipped length bit may also ask for more bytes than there are; it never yields a message.
            prop_assert!(!matches!(decoder.next_frame(), Ok(Some(_))));
        }
    }

    #[test]
    fn the_first_wrong_byte_is_an_error_that_shows_it() {
        let mut decoder = Decoder::new(TO_HOST_LIMIT);
        decoder.push(b"\x1b[2JKernel panic");
        let error = decoder.next_frame().unwrap_err();
        assert!(error.to_string().contains(r"\x1b[2JKernel panic"), "{error}");
        decoder.push(&encode(&ToAgent::Bye, 100).expect("small"));
        assert_eq!(decoder.next_frame(), Err(error), "a decoder that met garbage stays broken");
    }

    #[test]
    fn another_version_and_an_oversized_frame_are_named() {
        let mut frame = encode(&ToAgent::Bye, 100).expect("small");
        frame[4] = 9;
        let mut decoder = Decoder::new(100);
        decoder.push(&frame);
        assert_eq!(decoder.next_frame(), Err(LinkError::Version { wanted: PROTOCOL_VERSION, got: 9 }));

        let mut decoder = Decoder::new(10);
        decoder.push(&encode(&ToAgent::Bye, 100).expect("small"));
        assert_eq!(decoder.next_frame(), Err(LinkError::TooLong { limit: 10, got: 14 }));
        assert_eq!(encode(&ToAgent::Bye, 10), Err(LinkError::TooLong { limit: 10, got: 14 }));
    }

    #[test]
    fn a_flood_is_not_kept() {
        let mut decoder = Decoder::new(100);
        for _ in 0..1000 {
            decoder.push(&encode(&ToAgent::Bye, 100).expect("small"));
        }
        assert!(matches!(decoder.next_frame(), Err(LinkError::TooLong { .. })));
        assert_eq!(decoder.buffer.capacity(), 0);
    }

    #[test]
    fn deep_nesting_and_too_many_values_are_refused() {
        let deep = "[".repeat(1_000_000);
        assert!(matches!(decode::<ToHost>(deep.as_bytes()), Err(LinkError::Garbage { .. })));
        let nested = format!(r#"{{"type":"done","id":1,"reply":{}1{}}}"#, "[".repeat(200), "]".repeat(200));
        let error = decode::<ToHost>(nested.as_bytes()).unwrap_err();
        assert!(error.to_string().contains("recursion limit"), "{error}");
        let wide = format!("[{}0]", "0,".repeat(MAX_VALUES + 1));
        let error = decode::<ToHost>(wide.as_bytes()).unwrap_err();
        assert!(error.to_string().contains("values"), "{error}");
    }

    #[test]
    fn floats_come_back_as_the_same_bits() {
        let hard = [0.1, 1.0 / 3.0, f64::MIN_POSITIVE, 5e-324, f64::MAX, -0.0, 9_007_199_254_740_993.0, 1e23];
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let random = std::iter::repeat_with(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            f64::from_bits(state ^ (state >> 29))
        });
        for value in hard.into_iter().chain(random.filter(|value| value.is_finite()).take(20_000)) {
            let text = serde_json::to_vec(&value).expect("finite");
            let back: f64 = serde_json::from_slice(&text).expect("a number");
            assert_eq!(back.to_bits(), value.to_bits(), "{value:e}");
        }
    }
}
