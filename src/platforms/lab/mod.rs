//! STUB (the interface stands, its owner builds it): networks between instances of one machine.
//!
//! ```text
//!   namespace "host 0"                     namespace "host 1"            one network namespace per host of a layout
//!   ┌─ bridge 10.77.0.1/16 ─┐   cable     ┌─ bridge 10.77.0.2/16 ─┐
//!   │  │        │           └─────────────┘           │        │  │
//!   │ tap      veth                                  tap      veth │
//!   └──┼────────┼──────────┘              └───────────┼────────┼───┘
//!      VM     container   native: a process in the namespace itself
//! ```
//! Namespaces are held by descriptors only: when this process ends, however it ends, the kernel takes all of it away.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// The network of a layout. Dropping it takes it down.
#[derive(Debug)]
pub struct Lab {}

/// Where an instance is plugged in. Clones name the same place.
#[derive(Debug, Clone)]
pub struct Port {
    /// Number of the host it is on.
    pub host: u32,
    /// The instance's own address (native instances of one host share the bridge's).
    pub address: IpAddr,
    /// Length of the network's prefix.
    pub prefix: u8,
    /// First of the hundred TCP and UDP ports that are the instance's own.
    pub first_port: u16,
    /// Where the host's clock answers datagrams.
    pub clock: SocketAddr,
    /// The network namespace of its host.
    pub namespace: Arc<OwnedFd>,
}

impl Lab {
    /// Builds the network of `hosts` hosts.
    ///
    /// # Errors
    /// What is missing or not allowed here, in words for the user.
    pub fn build(_hosts: u32) -> Result<Self, String> {
        Err("STUB".to_owned())
    }

    /// A place for one more instance on `host`. Native instances share their host's address, so `shares_address` is
    /// true for them; the others get one of their own.
    ///
    /// # Errors
    /// Why there is none.
    pub fn port(&mut self, _host: u32, _shares_address: bool) -> Result<Port, String> {
        Err("STUB".to_owned())
    }
}
