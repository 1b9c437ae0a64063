//! Network cards of a guest, host side: a tap device each in its host's namespace, bridged there, and what QEMU and
//! the guest are told of it.
//!
//! ```text
//!  guest: eth0 ══ card (virtio, e1000, rtl8139) ══ QEMU ══ descriptor ══ tap ── bridge of its host
//!         eth1 ══ the same, with an address in a network of its own ────────────┘
//! ```

use std::fs::OpenOptions;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};

use super::guest::GuestNic;
use super::qemu::{Engine, NicArgument};
use crate::lab::address::{Mac, of_card};
use crate::lab::{Port, tap};
use model::platform::{NicModel, PlatformSpec};

/// Does a paravirtual card's work in the host's kernel instead of in QEMU.
const VHOST_DEVICE: &str = "/dev/vhost-net";

/// What the settings say of a guest's network cards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cards {
    /// Their kind.
    pub model: NicModel,
    /// How many.
    pub count: u32,
}

/// The cards of one guest, made.
#[derive(Debug, Default)]
pub struct Nics {
    /// For QEMU's command line; the descriptors' numbers are those of `descriptors`.
    pub arguments: Vec<NicArgument>,
    /// For the guest.
    pub guest: Vec<GuestNic>,
    /// To be inherited by QEMU. The devices go when the last copy is closed.
    pub descriptors: Vec<OwnedFd>,
}

impl Cards {
    /// From the settings of a platform.
    pub fn of(spec: &PlatformSpec) -> Self {
        Self { model: spec.nic.unwrap_or(NicModel::Virtio), count: spec.nics.unwrap_or(1) }
    }

    /// In words for people: `virtio-net x 1`.
    pub fn describe(self, engine: Engine) -> String {
        let vhost = if self.has_vhost(engine) { ", carried by the host's kernel (vhost)" } else { "" };
        format!(
            "{} x {}{vhost}; in layouts and for loads that need a network",
            device(self.model),
            self.count
        )
    }

    /// Only under KVM: without it the guest's rings cannot be watched by the host's kernel.
    fn has_vhost(self, engine: Engine) -> bool {
        let may = self.model == NicModel::Virtio && engine == Engine::Kvm;
        may && open_vhost().is_ok()
    }

    /// Makes the tap devices of a guest that is plugged in at `port`.
    ///
    /// # Errors
    /// When one cannot be made; none is left then.
    pub fn plug(self, port: &Port, engine: Engine) -> io::Result<Nics> {
        let IpAddr::V4(first) = port.address else {
            return Err(io::Error::other(format!("an IPv4 address was wanted, got {}", port.address)));
        };
        let mut nics = Nics::default();
        for number in 0..self.count {
            let address = of_card(first, number);
            let mac = Mac::of(address).to_string();
            let tap = tap::open(port, self.model == NicModel::Virtio)?;
            let vhost = if self.has_vhost(engine) { Some(open_vhost()?) } else { None };
            nics.arguments.push(NicArgument {
                device: device(self.model),
                tap: tap.as_raw_fd(),
                vhost: vhost.as_ref().map(AsRawFd::as_raw_fd),
                mac: mac.clone(),
            });
            nics.guest.push(GuestNic { mac, address, prefix: port.prefix });
            nics.descriptors.push(tap);
            nics.descriptors.extend(vhost);
        }
        Ok(nics)
    }
}

fn open_vhost() -> io::Result<OwnedFd> {
    Ok(OpenOptions::new().read(true).write(true).open(VHOST_DEVICE)?.into())
}

/// QEMU's name of the device.
pub const fn device(model: NicModel) -> &'static str {
    match model {
        NicModel::Virtio => "virtio-net-pci",
        NicModel::E1000 => "e1000",
        NicModel::Rtl8139 => "rtl8139",
    }
}

/// Its driver in Linux. QEMU's Realtek card is an 8139C+, which `8139too` leaves to `8139cp`.
pub const fn driver(model: NicModel) -> &'static str {
    match model {
        NicModel::Virtio => "virtio_net",
        NicModel::E1000 => "e1000",
        NicModel::Rtl8139 => "8139cp",
    }
}
