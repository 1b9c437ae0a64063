//! The switch of a network between partitions: a process of ours without any rights, no bridge and no tap devices.
//!
//! ```text
//!   folder of the link, 0700                 the switch: one thread, one `poll`
//!   1.sock ◄── dials ── plug 1 ─► Decoder ─► Bucket ─► checks, Table ─► Queue ─► plug 2 ── dials ──► 2.sock
//!   (QEMU listens)        …                                          └► Queue ─► trunk ══ the other link's switch
//! ```
//! QEMU listens and the switch dials, for two reasons. Which plug speaks is known from the socket's name, so nobody can
//! pass for another. And only the listening end of QEMU 7.2's `-netdev stream` takes a second connection after the
//! first has gone: a switch that was started anew finds all its plugs again.
//!
//! [`Switch`] is the whole of it but for the sockets, and pure: bytes and moments in, bytes out. [`process`] moves them.

mod bucket;
pub mod cable;
mod core;
mod dial;
pub mod order;
pub mod process;
mod queue;
mod source;
#[cfg(test)]
mod source_tests;
mod table;
#[cfg(test)]
mod tests;
mod wire;

pub use core::{PlugNumber, Rules, Switch, TRUNK};
pub use order::{SwitchOrder, Trunk};
pub use wire::{Decoder, LONGEST_FRAME, SHORTEST_FRAME, TooLong};

/// Name of a plug's socket in the folder of its link: `7.sock`.
pub fn socket_name(number: u8) -> String {
    format!("{number}.sock")
}

/// The plug whose socket has this name.
fn number_of(name: &str) -> Option<u8> {
    let number: u8 = name.strip_suffix(".sock")?.parse().ok()?;
    (number > 0 && name == socket_name(number)).then_some(number)
}
