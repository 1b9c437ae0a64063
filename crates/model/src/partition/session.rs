//! What the host and PID 1 of a partition tell each other about sessions: further programs, connections and looks inside
//! while the partition's own program runs. All sessions share one port, each by its number.
//!
//! ```text
//!   host                                guest
//!    │ ──────────── Open ───────────────►│   a program, a connection, or a look
//!    │ ◄────────── Started ──────────────│   or Refused, which is the end; a connection's input may be sent before
//!    │ ◄══════ data, Credit, End ═══════►│   at most WINDOW_BYTES of a stream are on their way
//!    │ ──── Signal, Resize, Close ──────►│   Close: nobody wants it any more
//!    │ ◄────────── Passed ───────────────│   for each signal
//!    │ ◄─────── MemoryRanOut ────────────│   if a process was killed for want of memory while its program ran
//!    │ ◄─────────── Ended ───────────────│   after the last byte; the number is not used again
//!
//!   packet:  0         4      5        9         9 + length
//!            │ session │ kind │ length │ payload …│   numbers little-endian; kind 0: words as JSON, 1 … 3: a stream's bytes
//! ```

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::program::{Inherited, TerminalSize, UserIds, Word};
use super::wire::{ProgramEnd, Stream, Victim};
use units::Reason;

/// Bytes of a stream that may be on their way: sent, and not yet granted anew by [`SessionWord::Credit`].
pub const WINDOW_BYTES: usize = 64 * 1024;
/// Bytes that were taken and are granted anew at once: a word for each small piece would cost as much as the piece. Three quarters of the
/// window stay granted, so nobody waits for the rest.
pub const GRANT_BYTES: usize = WINDOW_BYTES / 4;
/// Most connections through a partition's ports at once; who comes then waits until one ends. Each takes seven descriptors of its supervisor.
pub const MOST_CONNECTIONS: usize = 100;
/// Most sessions of a partition at once: whatever goes on at its ports, programs and looks have room.
pub const MOST_SESSIONS: usize = MOST_CONNECTIONS + 64;
/// Longest word, as JSON, in bytes: the command line of a program is the longest.
pub const LONGEST_WORD: usize = 1 << 20;
/// Bytes in front of the payload.
const HEADER_BYTES: usize = 9;

/// A program that is to run beside the partition's own, in its file tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Further {
    /// Its words, the program first.
    pub argv: Vec<Word>,
    /// Variables beside those of the partition's own program, or in their place.
    pub env: Vec<(Word, Word)>,
    /// Folder it starts in; unset means where the partition's own program started.
    pub workdir: Option<PathBuf>,
    /// Who runs it; unset means who runs the partition's own program.
    pub user: Option<UserIds>,
    /// The terminal it gets, if it gets one.
    pub terminal: Option<TerminalSize>,
    /// What it has from who starts it; unset means what the partition's own program has.
    pub inherited: Option<Inherited>,
}

/// What can be looked at from within.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Look {
    /// Whether somebody listens at this TCP port.
    Tcp(u16),
    /// Whether there is a file of this name.
    File(PathBuf),
}

/// What a session is opened for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ask {
    /// A program.
    Run(Box<Further>),
    /// A connection to a TCP port within.
    Connect(u16),
    /// A look, which ends with 0 for yes and 1 for no.
    Look(Look),
}

/// A word of a session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum SessionWord {
    /// Begin.
    Open {
        /// What.
        ask: Ask,
    },
    /// It has begun.
    Started,
    /// It cannot be begun.
    Refused {
        /// 125 … 127, as shells use them.
        code: u8,
        /// Why.
        reason: String,
    },
    /// So many more bytes of this stream may be sent.
    Credit {
        /// Which.
        stream: Stream,
        /// How many.
        bytes: u32,
    },
    /// From its source: no more bytes come. From where it goes: nobody reads them any more.
    End {
        /// Which.
        stream: Stream,
    },
    /// Send the program this signal, by its number.
    Signal {
        /// 1 … 64.
        number: i32,
    },
    /// The signal was passed on.
    Passed {
        /// Its number.
        number: i32,
    },
    /// The program's terminal has another size.
    Resize {
        /// The new size.
        size: TerminalSize,
    },
    /// Nobody wants it any more: end what it runs.
    Close,
    /// The kernel killed processes for want of memory while its program ran.
    MemoryRanOut {
        /// The largest of them.
        victim: Victim,
    },
    /// All of it has ended.
    Ended {
        /// How.
        how: ProgramEnd,
    },
}

/// What a packet holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionContent {
    /// A word.
    Word(SessionWord),
    /// Bytes of a stream.
    Bytes(Stream, Vec<u8>),
}

/// A packet: which session, and what of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    /// Number of the session.
    pub session: u32,
    /// What it holds.
    pub content: SessionContent,
}

const STREAMS: [Stream; 3] = [Stream::Input, Stream::Output, Stream::Error];

/// Writes a packet down.
///
/// # Errors
/// A word that is longer than allowed.
pub fn pack(session: u32, content: &SessionContent) -> Result<Vec<u8>, Reason> {
    let (kind, payload) = match content {
        SessionContent::Word(word) => (0, serde_json::to_vec(word).map_err(|error| error.to_string())?),
        SessionContent::Bytes(stream, bytes) => (
            match stream {
                Stream::Input => 1,
                Stream::Output => 2,
                Stream::Error => 3,
            },
            bytes.clone(),
        ),
    };
    let most = most_bytes(kind);
    let length = u32::try_from(payload.len()).ok().filter(|_| payload.len() <= most);
    let length = length.ok_or_else(|| format!("{} bytes at once, allowed are {most}", payload.len()))?;
    let mut packet = Vec::with_capacity(HEADER_BYTES + payload.len());
    packet.extend_from_slice(&session.to_le_bytes());
    packet.push(kind);
    packet.extend_from_slice(&length.to_le_bytes());
    packet.extend_from_slice(&payload);
    Ok(packet)
}

const fn most_bytes(kind: u8) -> usize {
    if kind == 0 { LONGEST_WORD } else { WINDOW_BYTES }
}

/// Turns pushed bytes into packets. It never holds more than one packet and what was pushed last.
#[derive(Debug, Default)]
pub struct Unpacker {
    waiting: Vec<u8>,
}

impl Unpacker {
    /// Takes bytes in; pull packets after every push.
    pub fn push(&mut self, bytes: &[u8]) {
        self.waiting.extend_from_slice(bytes);
    }

    /// The next whole packet; none when more bytes are needed.
    ///
    /// # Errors
    /// The bytes are no packet; whoever sent them is not to be believed any more.
    pub fn next_packet(&mut self) -> Result<Option<Packet>, Reason> {
        let Some((session, kind, length)) = self.header() else { return Ok(None) };
        if usize::from(kind) > STREAMS.len() {
            return Err(format!("a packet of kind 0 to {} was wanted, got {kind}", STREAMS.len()).into());
        }
        let most = most_bytes(kind);
        if length > most {
            return Err(format!(
                "a packet of kind {kind} may have {most} bytes, this one announces {length}"
            )
            .into());
        }
        let whole = HEADER_BYTES + length;
        let Some(payload) = self.waiting.get(HEADER_BYTES..whole) else { return Ok(None) };
        let stream = usize::from(kind).checked_sub(1).and_then(|index| STREAMS.get(index).copied());
        let content = match stream {
            Some(stream) => SessionContent::Bytes(stream, payload.to_vec()),
            None => SessionContent::Word(
                serde_json::from_slice(payload).map_err(|error| format!("no word of a session: {error}"))?,
            ),
        };
        self.waiting.drain(..whole);
        Ok(Some(Packet { session, content }))
    }

    fn header(&self) -> Option<(u32, u8, usize)> {
        let number = |at: usize| {
            let bytes = self.waiting.get(at..at + 4)?.try_into().ok()?;
            Some(u32::from_le_bytes(bytes))
        };
        let (session, kind, length) = (number(0)?, *self.waiting.get(4)?, number(5)?);
        Some((session, kind, usize::try_from(length).ok()?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_come_back_however_they_are_cut() {
        let further = Further {
            argv: vec![b"ls".to_vec(), vec![255]],
            env: Vec::new(),
            workdir: None,
            user: None,
            terminal: None,
            inherited: Some(Inherited { umask: Some(0o077), ..Inherited::default() }),
        };
        let all = [
            SessionContent::Word(SessionWord::Open { ask: Ask::Run(Box::new(further)) }),
            SessionContent::Bytes(Stream::Error, vec![7; WINDOW_BYTES]),
            SessionContent::Bytes(Stream::Input, Vec::new()),
            SessionContent::Word(SessionWord::Ended { how: ProgramEnd::Exit(3) }),
        ];
        let bytes: Vec<u8> = all.iter().flat_map(|content| pack(9, content).expect("packed")).collect();
        for piece in [1, 7, 4096, bytes.len()] {
            let (mut unpacker, mut got) = (Unpacker::default(), Vec::new());
            for piece in bytes.chunks(piece) {
                unpacker.push(piece);
                while let Some(packet) = unpacker.next_packet().expect("packets") {
                    assert_eq!(packet.session, 9);
                    got.push(packet.content);
                }
            }
            assert_eq!(got, all);
        }
    }

    #[test]
    fn what_is_too_long_or_no_packet_is_refused() {
        assert!(pack(1, &SessionContent::Bytes(Stream::Output, vec![0; WINDOW_BYTES + 1])).is_err());
        for (kind, length, payload) in [(4, 0, ""), (1, 1 << 17, ""), (0, 1 << 21, ""), (0, 2, "{}")] {
            let mut unpacker = Unpacker::default();
            let length: u32 = length;
            unpacker
                .push(&[&[0, 0, 0, 0, kind], length.to_le_bytes().as_slice(), payload.as_bytes()].concat());
            assert!(unpacker.next_packet().is_err(), "{kind} {length}");
        }
    }
}
