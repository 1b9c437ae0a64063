//! The agent link: frames over any pair of byte streams, the host's end, and what is believed of what arrives.
//!
//! ```text
//!  ToAgent/ToHost ── JSON ──► payload ── frame ──► bytes ══ pipe, socket, virtio-serial, tty ══► Decoder ──► payload
//!                                                                                                     check ──► believed
//! ```

mod check;
pub mod frame;
pub mod host;
pub mod stream;

pub use check::check_message;
pub use frame::{Decoder, LinkError, TO_AGENT_LIMIT, TO_HOST_LIMIT, decode, encode};
pub use host::HostEnd;
