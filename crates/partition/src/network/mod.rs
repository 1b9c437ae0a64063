//! Networks between partitions: a switch per link, and what partitions need to be plugged in there.
//!
//! ```text
//!  partition ── card0 ── 7.sock ── switch of link 0 ─┬─ other partitions
//!            └─ card1 ── 7.sock ── switch of link 1 ─┴─ (the same ones)      the switches' trunk joins both
//! ```
//! [`switch`] is the switch, [`own_switch`] that of a run that belongs to no set, [`cards`] a partition's end, [`heartbeat`]
//! says whether a switch works, [`watch`] lets a guest know when none does.

mod cards;
pub mod heartbeat;
pub mod own_switch;
pub mod switch;
pub mod watch;

pub use cards::{Cards, USER_ADDRESS, USER_RESOLVER, USER_ROUTER, cards, hardware_prefix};
