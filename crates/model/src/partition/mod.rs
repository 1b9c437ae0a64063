//! A partition: an instance with resources of its own, in which one program runs or a disk image boots.
//!
//! ```text
//!  exec's options ─┐                       ┌─► asked (Resources) ──┐
//!                  ├─► PartitionSpec ──────┤                       ├─► differences ─► an error if there is one
//!  a set's file ───┘                       └─► boot ─► Given ──────┘
//! ```
//! Several of them with their networks are a [`set`].

mod env_file;
mod given;
mod image;
mod layer;
pub mod network;
mod port;
mod program;
mod resources;
pub mod session;
pub mod set;
mod volume;
mod wire;

pub use env_file::*;
pub use given::*;
pub use image::*;
pub use layer::*;
pub use port::*;
pub use program::*;
pub use resources::*;
pub use volume::*;
pub use wire::*;

use serde::{Deserialize, Serialize};

/// Longest name of a partition, a network or a set.
pub const LONGEST_NAME: usize = 48;

/// A partition as it is started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartitionSpec {
    /// Its name: letters, digits, `-`, `_` and `.`, at most [`LONGEST_NAME`].
    pub name: String,
    /// What runs in it.
    pub content: Content,
    /// What it is granted.
    pub resources: Resources,
    /// Its disks, in the guest's order.
    pub disks: Vec<DiskSpec>,
    /// Its network cards, in the guest's order.
    pub cards: Vec<CardSpec>,
    /// Memory that it shares with others, by name; the place in this list is the device's number.
    pub sections: Vec<SectionSpec>,
    /// Ports of the host that lead to ports of its program.
    #[serde(default)]
    pub ports: Vec<PortSpec>,
}

/// What runs in a partition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Content {
    /// A program from the host's file tree.
    Program(Box<Program>),
    /// Whatever the first disk boots; its console is kept, nothing is known of it but that it runs.
    Image,
}

/// Whether a name can be one of a partition, a network or a set.
pub fn is_name(name: &str) -> bool {
    let starts = name.chars().next().is_some_and(|c| c.is_ascii_alphanumeric());
    let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c));
    starts && plain && name.len() <= LONGEST_NAME
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_short_plain_words() {
        assert!(["a", "plc-1", "x_2.y"].into_iter().all(is_name));
        let long = "a".repeat(LONGEST_NAME + 1);
        assert!(!["", "-a", ".", "..", "a/b", "a b", "ä", long.as_str()].into_iter().any(is_name));
    }
}
