//! Tap devices: network interfaces of a host whose other end is a descriptor, which QEMU gets
//! (`Documentation/networking/tuntap.rst` of the kernel). A device goes with the last copy of its descriptor.

#![expect(unsafe_code, reason = "the request that makes a tap device is an ioctl")]

use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;

use super::links::Links;
use super::namespace::inside;
use super::{BRIDGE, Port, fresh_name};

const DEVICE: &str = "/dev/net/tun";
const NAME_BYTES: usize = 16;

/// `struct ifreq`, as far as this request uses it.
#[repr(C)]
struct Request {
    name: [u8; NAME_BYTES],
    flags: libc::c_short,
    unused: [u8; 22],
}

nix::ioctl_write_ptr_bad!(
    /// `TUNSETIFF`: what the open file is to be.
    set_interface,
    nix::request_code_write!(b'T', 202, size_of::<libc::c_int>()),
    Request
);

/// Makes a tap device at `port` and plugs it into the bridge. `with_offloads` puts a header before every packet that
/// lets a paravirtual card leave checksums and segmentation to the receiver.
///
/// # Errors
/// When there is no `/dev/net/tun`, or the kernel refuses.
pub fn open(port: &Port, with_offloads: bool) -> io::Result<OwnedFd> {
    inside(&port.namespace, || {
        let tap = OpenOptions::new().read(true).write(true).custom_flags(libc::O_NONBLOCK).open(DEVICE);
        let tap = tap.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => io::Error::new(
                error.kind(),
                format!("no {DEVICE}: load the kernel module tun (modprobe tun), or hand the device into this container"),
            ),
            kind => io::Error::new(kind, format!("{DEVICE}: {error}")),
        })?;
        let name = fresh_name();
        attach(&tap, &name, with_offloads)?;
        Links::here()?.plug(&name, BRIDGE)?;
        Ok(tap.into())
    })
}

fn attach(tap: &File, name: &str, with_offloads: bool) -> io::Result<()> {
    let header = if with_offloads { libc::IFF_VNET_HDR } else { 0 };
    let flags =
        libc::c_short::try_from(libc::IFF_TAP | libc::IFF_NO_PI | header).map_err(io::Error::other)?;
    let mut request = Request { name: [0; NAME_BYTES], flags, unused: [0; 22] };
    // One byte less than there is room for: the name ends with a zero.
    for (place, byte) in request.name.iter_mut().take(NAME_BYTES - 1).zip(name.bytes()) {
        *place = byte;
    }
    // SAFETY: `Request` is laid out like `struct ifreq` and as long (40 bytes), and lives until the call returns.
    unsafe { set_interface(tap.as_raw_fd(), &raw const request) }.map(drop).map_err(|errno| {
        io::Error::new(io::Error::from(errno).kind(), format!("making a tap device: {errno}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_request_is_as_long_as_the_kernels() {
        assert_eq!(size_of::<Request>(), size_of::<libc::ifreq>());
        assert_eq!(std::mem::offset_of!(Request, flags), std::mem::offset_of!(libc::ifreq, ifr_ifru));
    }
}
