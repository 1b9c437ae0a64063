//! Everything that can go wrong, in words: what was wanted, what was got, what to do.

use std::time::Duration;
use std::{fmt, io};

use crate::state::State;

/// What every fallible function here returns.
pub type Result<T> = std::result::Result<T, Error>;

/// Why a peer can no longer be spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gone {
    /// It closed the link or its section; what it had sent before was delivered.
    Closed,
    /// Its heartbeat stood still for this long. If the heart beats again, the link goes on.
    Silent(Duration),
}

/// An error of this crate.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused.
    Io {
        /// What was being done, and to which file.
        doing: String,
        /// What the system said.
        source: io::Error,
    },
    /// The memory is too small, or smaller than its header announces.
    TooSmall {
        /// Which memory.
        what: String,
        /// Bytes that are needed or were announced.
        wanted: u64,
        /// Bytes that are there.
        got: u64,
    },
    /// The memory does not begin with a section's mark, or was overwritten.
    NotASection {
        /// Which memory.
        what: String,
        /// The mark that was found.
        got: u64,
    },
    /// The section was written by another version of this library.
    OtherVersion {
        /// Which memory.
        what: String,
        /// This library's version of the layout.
        wanted: u32,
        /// The section's.
        got: u32,
    },
    /// A section's header contradicts itself.
    Damaged {
        /// Which memory.
        what: String,
        /// What is wrong with it.
        how: String,
    },
    /// What the caller asked for cannot be laid out.
    BadLayout(String),
    /// The memory was opened for reading only, or another process writes it, or the link has an endpoint already.
    InUse(String),
    /// One side's section has no ring to the other.
    NoRing {
        /// Number of the side whose section lacks the ring.
        from: u32,
        /// Number of the side that the ring should lead to.
        to: u32,
    },
    /// A section belongs to another party than the one that was asked for.
    WrongPeer {
        /// The number asked for.
        wanted: u32,
        /// The number of the section's writer.
        got: u32,
    },
    /// The deadline passed. What was sent in part is dropped by the receiver when the next message begins.
    Timeout {
        /// What was waited for.
        doing: String,
        /// For how long.
        after: Duration,
    },
    /// The peer's section was not ready to be connected to.
    NotReady {
        /// Which memory.
        what: String,
        /// The state that it is in.
        state: State,
    },
    /// The peer began anew: what was under way is lost. `Endpoint::reconnect` starts over.
    PeerRestarted {
        /// The peer's number.
        peer: u32,
    },
    /// The peer has gone.
    PeerGone {
        /// The peer's number.
        peer: u32,
        /// How that was seen.
        how: Gone,
    },
    /// The peer wrote something impossible. Nothing more is taken from it until `Endpoint::reconnect`.
    Garbled {
        /// The peer's number.
        peer: u32,
        /// Which of its words.
        what: &'static str,
        /// The largest or only value that would have been possible.
        wanted: u64,
        /// What it had written.
        got: u64,
    },
    /// The message is longer than can be sent (at all, or without waiting).
    TooLong {
        /// Bytes of the message.
        length: u64,
        /// Bytes that are possible.
        most: u64,
    },
    /// The next message does not fit into the caller's buffer. It is still there.
    BufferTooSmall {
        /// Bytes of the message.
        needed: usize,
        /// Bytes of the buffer.
        got: usize,
    },
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { doing, source } => write!(out, "{doing}: {source}"),
            Self::TooSmall { what, wanted, got } => write!(
                out,
                "{what}: wanted {wanted} bytes, got {got}; the memory was cut or made too small, make it anew"
            ),
            Self::NotASection { what, got } => write!(
                out,
                "{what}: wanted the mark of a channel section, got {got:#018x}; is it the right file, has its owner started?"
            ),
            Self::OtherVersion { what, wanted, got } => write!(
                out,
                "{what}: wanted layout version {wanted}, got {got}; run the same version on both sides"
            ),
            Self::Damaged { what, how } => {
                write!(
                    out,
                    "{what}: its header is damaged: {how}; restart its owner, or make the memory anew"
                )
            }
            Self::BadLayout(why) => write!(out, "this section cannot be laid out: {why}"),
            Self::InUse(why) => out.write_str(why),
            Self::NoRing { from, to } => write!(
                out,
                "the section of {from} has no ring to {to}; name {to} in its layout (`Layout::ring`)"
            ),
            Self::WrongPeer { wanted, got } => write!(
                out,
                "wanted the section of {wanted}, got that of {got}; open the right one, and give each party its own number"
            ),
            Self::Timeout { doing, after } => write!(out, "{doing}: not within {after:?}"),
            Self::NotReady { what, state } => write!(
                out,
                "{what}: wanted a section that is ready, got one that is {state}; start or restart its owner"
            ),
            Self::PeerRestarted { peer } => write!(
                out,
                "peer {peer} began anew; what was under way is lost, reconnect to speak with its new run"
            ),
            Self::PeerGone { peer, how: Gone::Closed } => write!(out, "peer {peer} closed the link"),
            Self::PeerGone { peer, how: Gone::Silent(time) } => write!(
                out,
                "peer {peer} gave no heartbeat for {time:?}; it was killed or stopped, restart it and reconnect"
            ),
            Self::Garbled { peer, what, wanted, got } => write!(
                out,
                "peer {peer} wrote an impossible {what}: wanted {wanted} or less, got {got}; nothing more is taken from it until reconnected"
            ),
            Self::TooLong { length, most } => {
                write!(out, "a message of {length} bytes: at most {most} are possible here")
            }
            Self::BufferTooSmall { needed, got } => write!(
                out,
                "the next message has {needed} bytes, the buffer {got}; it is kept, receive it with a larger one"
            ),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

impl Error {
    /// An error of the operating system while `doing` something.
    pub(crate) fn io(doing: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Io { doing, source }
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> Self {
        let kind = match &error {
            Error::Io { source, .. } => source.kind(),
            Error::Timeout { .. } => io::ErrorKind::TimedOut,
            Error::PeerRestarted { .. } => io::ErrorKind::ConnectionReset,
            Error::PeerGone { .. } => io::ErrorKind::BrokenPipe,
            Error::Garbled { .. } | Error::Damaged { .. } => io::ErrorKind::InvalidData,
            _ => io::ErrorKind::Other,
        };
        Self::new(kind, error)
    }
}
