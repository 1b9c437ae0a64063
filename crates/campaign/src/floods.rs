//! The way out for loads that send packets: which instances are plugged in for it, where it ends, and its words.
//!
//! ```text
//!  container ── veth ──┐
//!  VM ── card ── tap ──┴── bridge of its host, whose kernel takes or drops what comes
//!  native, in a layout of several hosts ── cable ── bridge of another host
//!  ssh, in a layout of several hosts ── its network ── another host
//!  native or ssh alone: none, the load stays on the loopback device
//! ```
//! Members of a layout use the network of their layout; the measured instance and its neighbour that of one host of their
//! own. A network that cannot be had is no failure: the dose says where the packets went.

use std::net::{SocketAddr, SocketAddrV4};

use super::fleet::{Fleet, Seat};
use model::experiment::{Experiment, NicModel, PlatformSpec};
use platforms::Reach;
use platforms::lab::Port;
use platforms::lab::address::PORTS_EACH;
use platforms::vm::network;
use probes::job::Line;
use units::layout::Layout;
use units::names::{LoadKind, LoadPlace, PlatformKind};

/// Where an experiment has loads that send packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Floods {
    /// In the measured instances.
    pub(super) measured: bool,
    /// In second instances.
    pub(super) neighbour: bool,
}

impl Floods {
    /// Those of this experiment.
    pub(super) fn of(experiment: &Experiment) -> Self {
        let at = |place| experiment.loads.iter().any(|load| load.place == place && load.kind.sends_packets());
        Self { measured: at(LoadPlace::Same), neighbour: at(LoadPlace::Second) }
    }
}

impl Fleet {
    /// Where the instance on this seat is plugged in; none when it needs no network, or none can be had.
    pub(super) fn port_of(&mut self, seat: Seat) -> Option<Port> {
        match seat {
            Seat::Member { layout, .. } => {
                let networked = self.rooms.of(layout).is_some_and(|(member, _)| member.networked);
                networked.then(|| self.reached_at(seat).ok().flatten()?.1).flatten()
            }
            Seat::Measured(platform) if self.rooms.floods.measured => self.port_of_one(seat, platform),
            Seat::Neighbour(platform) if self.rooms.floods.neighbour => self.port_of_one(seat, platform),
            Seat::Measured(_) | Seat::Neighbour(_) | Seat::Host => None,
        }
    }

    /// The place of an instance that is no member of a layout, where it has an address of its own.
    fn port_of_one(&mut self, seat: Seat, platform: usize) -> Option<Port> {
        let (_, platform) = self.platforms.get(platform)?;
        let reach = platform.reach();
        if reach != Reach::Lab {
            return None;
        }
        self.networks.port(seat, Layout::SINGLE, 0, reach).ok()
    }

    /// The way out for packets of a load in the instance on this seat; none where they have to stay in it.
    pub(super) fn line(&mut self, seat: Seat, load: LoadKind) -> Option<Line> {
        let index = match seat {
            _ if !load.sends_packets() => return None,
            Seat::Measured(index) | Seat::Neighbour(index) | Seat::Member { platform: index, .. } => index,
            Seat::Host => return None,
        };
        let sink = match self.port_of(seat) {
            Some(port) => port.sink,
            None => self.sink_elsewhere(seat),
        }?;
        let (spec, _) = self.platforms.get(index)?;
        let (way, has_card) = words(spec);
        Some(Line { sink, way, has_card })
    }

    /// The last port but one of the next instance on another host, for platforms whose network is their own.
    fn sink_elsewhere(&mut self, seat: Seat) -> Option<SocketAddrV4> {
        let Seat::Member { platform, layout, rank } = seat else { return None };
        let (_, kind) = self.platforms.get(platform)?;
        let next = (rank + 1) % layout.instances();
        if kind.reach() != Reach::Own || layout.host_of(next) == layout.host_of(rank) {
            return None;
        }
        let (address, _) = self.reached_at(Seat::Member { platform, layout, rank: next }).ok().flatten()?;
        let SocketAddr::V4(address) = address else { return None };
        let port = address.port().checked_add(PORTS_EACH - 2)?;
        Some(SocketAddrV4::new(*address.ip(), port))
    }
}

/// The way in words, and whether it may begin at a network card.
fn words(spec: &PlatformSpec) -> (String, bool) {
    let (way, has_card) = match spec.kind {
        PlatformKind::Vm => {
            let card = network::device(spec.nic.unwrap_or(NicModel::Virtio));
            return (format!("{card} to the host"), true);
        }
        PlatformKind::Container => ("veth to the host", false),
        PlatformKind::Ssh => ("the network to another host", true),
        PlatformKind::Native | PlatformKind::Fake | PlatformKind::Sim => ("veth to another host", false),
    };
    (way.to_owned(), has_card)
}
