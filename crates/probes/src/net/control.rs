//! What the two instances of a pair say to each other beside the data: small frames on a connection of their own.
//!
//! A frame is its length (two bytes, little-endian, at most [`LONGEST`]), a byte for its kind, and its fields, all
//! numbers little-endian. The other side is not trusted: nothing it sends can make this side panic, wait for ever or
//! take more than [`LONGEST`] bytes of memory.

use units::{Bytes, Nanos};

/// Longest body of a frame.
pub const LONGEST: usize = 600;
/// Longest reason that is told.
const REASON_BYTES: usize = 500;

/// What one side counted in a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExchangeTally {
    /// How long its part took; for a receiver since the first byte.
    pub elapsed_ns: Nanos,
    /// Messages sent.
    pub sent: u64,
    /// Messages that arrived.
    pub arrived: u64,
    /// Bytes that arrived.
    pub bytes: Bytes,
    /// CPU time of the thread that moved them.
    pub cpu_ns: Nanos,
    /// CPU time of the whole instance.
    pub system_ns: Option<Nanos>,
}

/// A frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// Which kernel runs here, and whether what it counts is this instance's alone.
    Kernel {
        /// Its `boot_id`; 0 when it does not say.
        boot: u128,
        /// Whether this is the kernel's outermost system, not a container in it.
        outermost: bool,
    },
    /// The phase with this number comes next.
    Begin(u32),
    /// Everything is open for it.
    Ready(u32),
    /// The stream may come.
    Go(u32),
    /// The stream, or the questions, are over.
    Enough(u32),
    /// What the second instance counted in it.
    Done(u32, ExchangeTally),
    /// The sender of this gives up.
    Failed(String),
}

/// Bytes that are no frame of this protocol.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the other instance sent a frame that does not exist ({0})")]
pub struct BadFrame(&'static str);

impl Message {
    /// The whole frame, its length included.
    pub fn encode(&self) -> Vec<u8> {
        let mut body = Vec::with_capacity(64);
        match self {
            Self::Kernel { boot, outermost } => {
                body.push(1);
                body.extend(boot.to_le_bytes());
                body.push(u8::from(*outermost));
            }
            Self::Begin(phase) => put(&mut body, 2, *phase),
            Self::Ready(phase) => put(&mut body, 3, *phase),
            Self::Go(phase) => put(&mut body, 4, *phase),
            Self::Enough(phase) => put(&mut body, 5, *phase),
            Self::Done(phase, tally) => {
                put(&mut body, 6, *phase);
                let numbers = [
                    tally.elapsed_ns.get(),
                    tally.sent,
                    tally.arrived,
                    tally.bytes.get(),
                    tally.cpu_ns.get(),
                    tally.system_ns.map_or(0, Nanos::get),
                ];
                body.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
                body.push(u8::from(tally.system_ns.is_some()));
            }
            Self::Failed(reason) => {
                body.push(7);
                let end = (0..=reason.len().min(REASON_BYTES)).rfind(|end| reason.is_char_boundary(*end));
                body.extend(reason.as_bytes().iter().take(end.unwrap_or(0)));
            }
        }
        let length = u16::try_from(body.len()).unwrap_or(u16::MAX);
        length.to_le_bytes().into_iter().chain(body).collect()
    }

    /// Reads the body of a frame.
    ///
    /// # Errors
    /// It is none.
    pub fn decode(body: &[u8]) -> Result<Self, BadFrame> {
        let (kind, rest) = body.split_first().ok_or(BadFrame("it is empty"))?;
        let mut fields = Fields(rest);
        let message = match kind {
            1 => Self::Kernel { boot: u128::from_le_bytes(fields.take()?), outermost: fields.flag()? },
            2 => Self::Begin(fields.phase()?),
            3 => Self::Ready(fields.phase()?),
            4 => Self::Go(fields.phase()?),
            5 => Self::Enough(fields.phase()?),
            6 => Self::Done(fields.phase()?, fields.tally()?),
            7 => return failed(rest),
            _ => return Err(BadFrame("its kind is unknown")),
        };
        if fields.0.is_empty() { Ok(message) } else { Err(BadFrame("it is too long")) }
    }
}

fn put(body: &mut Vec<u8>, kind: u8, phase: u32) {
    body.push(kind);
    body.extend(phase.to_le_bytes());
}

fn failed(text: &[u8]) -> Result<Message, BadFrame> {
    if text.len() > REASON_BYTES {
        return Err(BadFrame("its reason is too long"));
    }
    let text = std::str::from_utf8(text).map_err(|_| BadFrame("its reason is no text"))?;
    Ok(Message::Failed(text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()))
}

/// What is left of a body.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], BadFrame> {
        let (field, rest) = self.0.split_first_chunk::<N>().ok_or(BadFrame("it is too short"))?;
        self.0 = rest;
        Ok(*field)
    }

    fn phase(&mut self) -> Result<u32, BadFrame> {
        Ok(u32::from_le_bytes(self.take()?))
    }

    fn number(&mut self) -> Result<u64, BadFrame> {
        Ok(u64::from_le_bytes(self.take()?))
    }

    fn flag(&mut self) -> Result<bool, BadFrame> {
        match self.take()? {
            [0] => Ok(false),
            [1] => Ok(true),
            _ => Err(BadFrame("a flag is neither yes nor no")),
        }
    }

    fn tally(&mut self) -> Result<ExchangeTally, BadFrame> {
        let elapsed_ns = Nanos::from_nanos(self.number()?);
        let (sent, arrived) = (self.number()?, self.number()?);
        let bytes = Bytes::from_bytes(self.number()?);
        let cpu_ns = Nanos::from_nanos(self.number()?);
        let system = Nanos::from_nanos(self.number()?);
        let known = self.flag()?;
        if !known && system != Nanos::ZERO {
            return Err(BadFrame("a time that is not known has a value"));
        }
        Ok(ExchangeTally { elapsed_ns, sent, arrived, bytes, cpu_ns, system_ns: known.then_some(system) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples() -> Vec<Message> {
        let tally =
            ExchangeTally { sent: u64::MAX, system_ns: Some(Nanos::ZERO), ..ExchangeTally::default() };
        vec![
            Message::Kernel { boot: u128::MAX - 7, outermost: true },
            Message::Begin(0),
            Message::Ready(u32::MAX),
            Message::Go(1),
            Message::Enough(2),
            Message::Done(3, tally),
            Message::Done(4, ExchangeTally { system_ns: None, ..tally }),
            Message::Failed("no room".to_owned()),
        ]
    }

    #[test]
    fn every_message_comes_back_from_its_frame() {
        for message in samples() {
            let frame = message.encode();
            let (length, body) = frame.split_first_chunk::<2>().unwrap();
            assert_eq!(usize::from(u16::from_le_bytes(*length)), body.len());
            assert!(body.len() <= LONGEST);
            assert_eq!(Message::decode(body), Ok(message));
        }
    }

    #[test]
    fn what_is_cut_or_prolonged_is_refused() {
        for message in samples().into_iter().filter(|message| !matches!(message, Message::Failed(_))) {
            let frame = message.encode();
            for end in 2..frame.len() {
                assert!(Message::decode(&frame[2..end]).is_err(), "{message:?} cut at {end}");
            }
            let longer: Vec<u8> = frame.iter().skip(2).copied().chain([0]).collect();
            assert!(Message::decode(&longer).is_err(), "{message:?}");
        }
    }

    #[test]
    fn long_reasons_are_cut_at_a_letter_and_hold_no_control_characters() {
        let frame = Message::Failed("ä".repeat(400)).encode();
        let Ok(Message::Failed(reason)) = Message::decode(&frame[2..]) else { panic!("no reason") };
        assert_eq!(reason, "ä".repeat(250));
        let Ok(Message::Failed(reason)) = Message::decode(b"\x07a\x1bb") else { panic!("no reason") };
        assert_eq!(reason, "a b");
    }
}
