//! Sessions with a partition that runs, on the host: further programs, connections to its ports, looks inside.
//!
//! ```text
//!  exec --in ── sessions.sock ──┐
//!  ready, health ─── the same ──┼─► Hub ══ one port ══► PID 1      door.rs: who comes in, and where
//!  a TCP port of the host ──────┘                                  client.rs: a session, from its own end
//! ```
//! The socket lies in a folder that its owner alone can enter, and who connects must be that user or root.

mod client;
mod door;
mod hub;

pub use client::{SessionKind, converse};
pub use door::{bind_ports, connect, listen};
pub use hub::Hub;
