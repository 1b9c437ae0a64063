//! The networks of layouts: built on first use, one per layout, kept for the whole run. Every seat keeps its place in
//! its network when its instance is started again.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use super::fleet::Seat;
use platforms::Reach;
use platforms::lab::{Lab, Port};
use probes::job::Peer;
use units::Reason;
use units::layout::Layout;

/// First port of the first instance of a host whose network is its own; each further instance there gets the next
/// hundred. Below the range from which Linux takes ports by itself.
const FIRST_OWN_PORT: u16 = 20_000;

/// Networks by layout, and who is plugged in where.
#[derive(Default)]
pub(super) struct Networks {
    labs: BTreeMap<Layout, Result<Lab, Reason>>,
    ports: BTreeMap<Seat, Port>,
}

impl Networks {
    /// The place of a seat in the network of its layout.
    ///
    /// # Errors
    /// Why there is no such network here.
    pub(super) fn port(
        &mut self,
        seat: Seat,
        layout: Layout,
        host: u32,
        reach: Reach,
    ) -> Result<Port, Reason> {
        if let Some(port) = self.ports.get(&seat) {
            return Ok(port.clone());
        }
        let lab = self.labs.entry(layout).or_insert_with(|| Lab::build(layout.hosts()));
        let lab = lab.as_mut().map_err(|why| format!("no network for layout {layout}: {why}"))?;
        let port = lab
            .port(host, reach == Reach::LabSharedAddress)
            .map_err(|why| format!("no place in the network of layout {layout}: {why}"))?;
        self.ports.insert(seat, port.clone());
        Ok(port)
    }
}

/// The address of an instance in a network of its platform's own.
pub(super) fn own_address(address: IpAddr, layout: Layout, rank: u32) -> SocketAddr {
    let on_this_host = rank / layout.hosts();
    // 256 instances of 100 ports each end below 46 000.
    let port = u16::try_from(on_this_host * 100).unwrap_or(0).saturating_add(FIRST_OWN_PORT);
    SocketAddr::new(address, port)
}

/// An instance as its peers reach it.
pub(super) const fn peer(host: u32, address: SocketAddr) -> Peer {
    Peer { host, address }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instances_of_one_host_do_not_share_ports() {
        let layout = Layout::new(2, 2).unwrap();
        let address: IpAddr = [10, 0, 0, 1].into();
        let ports = [0, 1, 2, 3].map(|rank| own_address(address, layout, rank).port());
        assert_eq!(ports, [20_000, 20_000, 20_100, 20_100]);
        let crowded = Layout::new(1, 256).unwrap();
        assert_eq!(own_address(address, crowded, 255).port(), 45_500);
    }
}
