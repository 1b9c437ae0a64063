//! How messages travel to one peer: through rings on the same host, over TCP to another. Nothing here waits.

pub mod ring;
pub mod tcp;

use crate::fault::Fault;
use crate::wire::HEADER;

/// A way to one peer. All calls return at once.
pub trait Transport: Send {
    /// Goes on with connecting; true once messages can travel. Called now and then until it is.
    fn connect(&mut self) -> Result<bool, Fault>;

    /// What is known about why `connect` is not done yet.
    fn obstacle(&self) -> String;

    /// Sends a message, or as much of it as there is room for; true when all of it is on its way.
    ///
    /// Until then it is called again with the same message and no other.
    fn send(&mut self, header: &[u8; HEADER], payload: &[u8]) -> Result<bool, Fault>;

    /// Header and bytes of payload of the next message, if one has begun to come. To be followed by `take`.
    fn next(&mut self) -> Result<Option<([u8; HEADER], usize)>, Fault>;

    /// Receives the payload of the message that `next` announced into two buffers, as one, which hold exactly that
    /// many bytes; true when it is complete, until then it is called again with the same buffers.
    fn take(&mut self, into: &mut [u8], rest: &mut [u8]) -> Result<bool, Fault>;

    /// Looks whether the peer lives. Called now and then while nothing comes.
    fn check(&mut self) -> Result<(), Fault>;
}
