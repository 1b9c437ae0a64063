//! A network namespace for one container, with a cable into its host's bridge, complete before a runtime enters it.

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;

use super::address::Mac;
use super::links::Links;
use super::namespace::{fresh, inside};
use super::{BRIDGE, Port, fresh_name, quiet};

/// Name of the container's end of the cable.
const FAR_END: &str = "eth0";

/// A namespace with its cable. Dropping it unplugs and removes the cable; the namespace goes with the last process in
/// it.
#[derive(Debug)]
pub struct Plug {
    namespace: OwnedFd,
    host: Arc<OwnedFd>,
    near_end: String,
}

impl Plug {
    /// Makes a namespace that has `port`'s address.
    ///
    /// # Errors
    /// When the kernel refuses.
    pub fn make(port: &Port) -> io::Result<Self> {
        let IpAddr::V4(address) = port.address else {
            return Err(io::Error::other(format!("an IPv4 address was wanted, got {}", port.address)));
        };
        let near_end = fresh_name();
        let namespace = fresh()?;
        inside(&port.namespace, || {
            Links::here()?.add_cable(&near_end, FAR_END, Mac::of(address), &namespace)
        })?;
        // From here on a failure removes the cable again.
        let plug = Self { namespace, host: port.namespace.clone(), near_end };
        inside(&plug.namespace, || {
            quiet();
            let mut links = Links::here()?;
            links.raise("lo")?;
            links.add_address(FAR_END, address, port.prefix)?;
            links.raise(FAR_END)
        })?;
        inside(&port.namespace, || Links::here()?.plug(&plug.near_end, BRIDGE))?;
        Ok(plug)
    }

    /// Under this path an OCI runtime, which is another process, finds the namespace while this process holds it.
    pub fn path(&self) -> PathBuf {
        PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), self.namespace.as_raw_fd()))
    }
}

impl Drop for Plug {
    fn drop(&mut self) {
        // The kernel removes it with the container's namespace as well, only some time later.
        let _ = inside(&self.host, || Links::here()?.remove(&self.near_end));
    }
}
