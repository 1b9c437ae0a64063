//! Messages between partitions or processes of one host, at memory speed, through memory that only its owner can write.
//!
//! ```text
//!     party 1                                             party 2
//!  ┌────────────┐      section of 1 (1 writes, 2 reads)      ┌────────────┐
//!  │  Endpoint  │     ┌──────────────────────────────┐     │  Endpoint  │
//!  │   Sender ──┼───► │ state · heartbeat · ring to 2│ ────┼─► Receiver │
//!  │            │     │            · ring to 3 …     │     │            │
//!  │            │     └──────────────────────────────┘     │            │
//!  │            │      section of 2 (2 writes, 1 reads)      │            │
//!  │            │     ┌──────────────────────────────┐     │            │
//!  │ Receiver ◄─┼──── │ ring to 1 · heartbeat · state│ ◄───┼── Sender   │
//!  └────────────┘     └──────────────────────────────┘     └────────────┘
//! ```
//!
//! Each party owns one *section*: a file, a sealed memory file, or a PCI resource such as ivshmem's. Nobody else can
//! write it, so a ring's data and the place written up to lie in the sender's section, the place read up to in the
//! receiver's. Everything that a peer wrote is read once and bounded: a hostile peer can delay or garble its own
//! messages, nothing else. (One exception where a section is a plain file: who can cut a file short ends the processes
//! that have it mapped. Parties that do not trust each other use [`Memory::sealed`] or devices.)
//!
//! In a partition of Bulkhead the section of channel NAME is `/dev/bulkhead/NAME`, a device's memory: its writer takes it
//! over with [`Section::create_in`] and [`Memory::writable`], readers see it with [`PeerSection::new`] and
//! [`Memory::readable`].
//!
//! * Messages have 0 to 16 MiB; what is longer than the ring is streamed while the peer reads.
//! * A peer's end, death and restart are seen: [`Error::PeerGone`], [`Error::PeerRestarted`].
//! * Who must not wait connects with [`Connecting`] and uses what begins with `try`.
//! * Waiting spins for a few dozen microseconds, then yields, then sleeps, and always has a deadline.
//!
//! ```
//! use channel::{Endpoint, Layout, Section};
//! use std::time::Duration;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let folder = tempfile::tempdir()?;
//! let (first, second) = (folder.path().join("1"), folder.path().join("2"));
//! let soon = Duration::from_secs(10);
//!
//! // Each party makes its own section …
//! let section = Section::create(&first, &Layout::new(1).ring(2, 64 << 10))?;
//! let other = Section::create(&second, &Layout::new(2).ring(1, 64 << 10))?;
//! // … and opens the other's. Here a thread plays the other party.
//! let its_view = Section::open(&first)?;
//! let party = std::thread::spawn(move || -> Result<(), channel::Error> {
//!     let mut endpoint = Endpoint::connect(&other, 1, &its_view, soon)?;
//!     let mut buffer = [0; 16];
//!     let length = endpoint.receive(&mut buffer, soon)?;
//!     endpoint.send(&buffer[..length], soon)
//! });
//! let mut endpoint = Endpoint::connect(&section, 2, &Section::open(&second)?, soon)?;
//! endpoint.send(b"hello", soon)?;
//! let mut buffer = [0; 16];
//! assert_eq!(endpoint.receive(&mut buffer, soon)?, 5);
//! assert_eq!(&buffer[..5], b"hello");
//! # party.join().expect("no panic")?;
//! # Ok(())
//! # }
//! ```
//!
//! [`Stream`] makes a link a stream of bytes, [`Client`] and [`Server`] one of requests and responses. Callers that
//! must not wait, or that know where a message's bytes belong, use [`Sender`] and [`Receiver`]: gathered and scattered
//! parts, partial progress, and a look at a message before it is taken.

// What a peer wrote may never end this program: slices are asked, not indexed.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::expect_used, clippy::panic))]
// Under the model checker only the rings run.
#![cfg_attr(loom, allow(dead_code, unused_imports))]

mod atomic;
mod endpoint;
mod error;
mod guard;
mod layout;
mod link;
mod memory;
mod receiver;
mod request;
mod ring;
mod section;
mod sender;
mod state;
mod stream;
mod wait;
mod words;

pub use endpoint::{Connecting, Endpoint};
pub use error::{Error, Gone, Result};
pub use guard::GONE_AFTER;
pub use layout::{LEAST_BYTES, Layout, MOST_LINKS, MOST_MESSAGE, VERSION};
pub use memory::Memory;
pub use receiver::{Peek, Receiver};
pub use request::{Client, Server};
pub use ring::{Progress, Short};
pub use section::{PeerSection, Section};
pub use sender::Sender;
pub use state::{Change, State, StateWord, Step};
pub use stream::Stream;
