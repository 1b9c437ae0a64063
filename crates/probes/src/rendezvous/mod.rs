//! How the instances of a layout find each other: one opens a door at its own address, the other knocks until it is
//! let in, and both say a word that only members of the same job know.
//!
//! ```text
//!  knock: connect ─ refused ─► wait, again …        door: listen ─► accept ─► hello? ── wrong, silent ─► turned away
//!            └─ connected ─► hello ─► token? ─► in                              └─ right ─► token ─► in
//! ```
//!
//! The word is made from the job's seed and parameters. It keeps out strangers, members of other runs and members that
//! were asked for something else; it is no secret and no protection against somebody who reads the network. Whatever a
//! stranger does (garbage, silence, hanging up), others are let in meanwhile.

pub mod door;
pub mod hello;
pub mod knock;
pub mod partners;
pub mod patience;
pub mod timed;

pub use self::door::Door;
pub use self::hello::{Hello, HelloWord};
pub use self::knock::knock;
pub use self::partners::members;
pub use self::patience::Patience;
