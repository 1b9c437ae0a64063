//! What a partition's network cards are to QEMU and to the guest.
//!
//! ```text
//!  CardSpec::User                      ─► a card at QEMU's own network, 10.0.2.15, gateway 10.0.2.2
//!  CardSpec::Switch, one socket        ─► a plug, a card with an address
//!  CardSpec::Switch, several sockets   ─► as many plugs, one address: a bond with hot standby
//! ```

use std::net::Ipv4Addr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::heartbeat::beat_file;
use model::partition::CardSpec;
use platforms::lab::address::Mac;
use platforms::vm::guest::{GuestBond, GuestNic};
use platforms::vm::qemu::{LONGEST_SOCKET_PATH, PlugArgument};
use units::Reason;

/// Addresses of QEMU's own network (its manual, "Network emulation").
pub const USER_ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 15);
/// The router of QEMU's own network.
pub const USER_ROUTER: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);
/// Who resolves names in QEMU's own network.
pub const USER_RESOLVER: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 3);
/// See [`USER_ADDRESS`].
const USER_PREFIX: u8 = 24;
/// Most links of a network.
const MOST_LINKS: usize = 2;

/// A partition's cards.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cards {
    /// For [`Extras::plugs`](platforms::vm::qemu::Extras::plugs); with any of them goes a
    /// [`plug_control`](platforms::vm::qemu::Extras::plug_control), and somebody who keeps it
    /// ([`super::watch::watch`]).
    pub plugs: Vec<PlugArgument>,
    /// Where the switch of each plug shows that it works. Only for cards with another link to take: the frames of others
    /// do better to wait until their switch goes on.
    pub beats: Vec<Option<PathBuf>>,
    /// For [`Extras::user_network`](platforms::vm::qemu::Extras::user_network).
    pub user_network: Option<String>,
    /// For the guest.
    pub nics: Vec<GuestNic>,
    /// For the guest.
    pub bonds: Vec<GuestBond>,
    /// Modules the guest needs for them, with all that those need; none without cards.
    pub modules: Vec<&'static str>,
}

/// Works out a partition's cards.
///
/// # Errors
/// What cannot be, in words for the user.
pub fn cards(specs: &[CardSpec]) -> Result<Cards, Reason> {
    let mut cards = Cards::default();
    for spec in specs {
        match spec {
            CardSpec::User if cards.user_network.is_some() => {
                return Err("one card at QEMU's own network was wanted, got two".into());
            }
            CardSpec::User => cards.add_user(),
            CardSpec::Switch { network, sockets, number, address } => {
                cards
                    .add_switch(sockets, *number, address)
                    .map_err(|error| format!("network \"{network}\": {error}"))?;
            }
        }
    }
    if !specs.is_empty() {
        cards.modules.extend(["virtio_pci", "virtio_net"]);
    }
    if !cards.bonds.is_empty() {
        cards.modules.push("bonding");
    }
    Ok(cards)
}

/// First five bytes of the hardware addresses in a network: the sixth is the partition's number. `address` is that of
/// any partition in it, `10.77.1.2/24`.
///
/// # Errors
/// When it is no such address.
pub fn hardware_prefix(address: &str) -> Result<[u8; 5], Reason> {
    let (address, _) = split(address)?;
    let [prefix @ .., _] = Mac::of(address).bytes();
    Ok(prefix)
}

impl Cards {
    fn add_user(&mut self) {
        let mac = Mac::of(USER_ADDRESS).to_string();
        self.user_network = Some(mac.clone());
        self.nics.push(GuestNic { mac, address: USER_ADDRESS, prefix: USER_PREFIX });
    }

    fn add_switch(&mut self, sockets: &[PathBuf], number: u8, address: &str) -> Result<(), Reason> {
        let (address, prefix) = split(address)?;
        if address.octets().last() != Some(&number) {
            return Err(format!(
                "an address that ends with the partition's number {number} was wanted, got {address}"
            )
            .into());
        }
        if !(1..=MOST_LINKS).contains(&sockets.len()) {
            return Err(format!("1 to {MOST_LINKS} links were wanted, got {}", sockets.len()).into());
        }
        let mut macs = Vec::new();
        for (link, socket) in (0..).zip(sockets) {
            check_path(socket)?;
            let mac = of_link(Mac::of(address), link);
            let beat = socket.parent().filter(|_| sockets.len() > 1).map(beat_file);
            self.beats.push(beat);
            self.plugs.push(PlugArgument { socket: socket.clone(), listener: None, mac: mac.clone() });
            macs.push(mac);
        }
        match <[String; 1]>::try_from(macs) {
            Ok([mac]) => self.nics.push(GuestNic { mac, address, prefix }),
            Err(macs) => self.bonds.push(GuestBond { macs, address, prefix }),
        }
        Ok(())
    }
}

/// Hardware address of the card at a link: cards that are joined are told apart by the second byte until they are.
fn of_link(mac: Mac, link: u8) -> String {
    let mut bytes = mac.bytes();
    bytes[1] = bytes[1].wrapping_add(link);
    bytes.map(|byte| format!("{byte:02x}")).join(":")
}

fn split(text: &str) -> Result<(Ipv4Addr, u8), Reason> {
    let pair = text
        .split_once('/')
        .and_then(|(address, prefix)| Some((address.parse().ok()?, prefix.parse().ok()?)));
    pair.filter(|(_, prefix)| (1..=30).contains(prefix)).ok_or_else(|| {
        format!("an address with the length of its prefix such as 10.77.1.2/24 was wanted, got {text}").into()
    })
}

fn check_path(socket: &Path) -> Result<(), Reason> {
    let bytes = socket.as_os_str().as_bytes().len();
    if bytes > LONGEST_SOCKET_PATH {
        return Err(format!(
            "the path of a socket may have {LONGEST_SOCKET_PATH} bytes, {} has {bytes}: choose shorter names, or a \
             shorter XDG_RUNTIME_DIR",
            socket.display()
        ).into());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn switch(sockets: &[&str], number: u8, address: &str) -> CardSpec {
        CardSpec::Switch {
            network: "plant".to_owned(),
            sockets: sockets.iter().map(Into::into).collect(),
            number,
            address: address.to_owned(),
        }
    }

    #[test]
    fn each_kind_of_card_is_what_it_says() {
        let specs = [
            CardSpec::User,
            switch(&["/r/0/7.sock"], 7, "10.77.1.7/24"),
            switch(&["/r/1", "/r/2"], 3, "10.77.2.3/24"),
        ];
        let cards = cards(&specs).unwrap();
        assert_eq!(cards.user_network.as_deref(), Some("02:4b:0a:00:02:0f"));
        let macs: Vec<&str> = cards.plugs.iter().map(|plug| plug.mac.as_str()).collect();
        assert_eq!(macs, ["02:4b:0a:4d:01:07", "02:4b:0a:4d:02:03", "02:4c:0a:4d:02:03"]);
        let addresses: Vec<Ipv4Addr> = cards.nics.iter().map(|nic| nic.address).collect();
        assert_eq!(addresses, [USER_ADDRESS, Ipv4Addr::new(10, 77, 1, 7)]);
        assert_eq!(cards.bonds[0].macs, macs[1..]);
        assert_eq!(cards.beats, [None, Some("/r/beat".into()), Some("/r/beat".into())]);
        assert_eq!(cards.modules, ["virtio_pci", "virtio_net", "bonding"]);
        assert_eq!(hardware_prefix("10.77.2.1/24").unwrap(), [2, 0x4b, 10, 77, 2]);
        assert_eq!(super::cards(&[]).unwrap(), Cards::default());
    }

    #[test]
    fn what_cannot_be_is_said() {
        let refused = |spec: CardSpec| cards(&[spec]).unwrap_err();
        assert!(refused(switch(&["/r"], 7, "10.77.1.8/24")).to_string().contains("number 7"));
        assert!(refused(switch(&["/r"], 7, "10.77.1.7")).to_string().contains("10.77.1.2/24"));
        assert!(refused(switch(&[], 7, "10.77.1.7/24")).to_string().contains("1 to 2 links"));
        assert!(refused(switch(&["/r", "/r", "/r"], 7, "10.77.1.7/24")).to_string().contains("got 3"));
        let long = format!("/{}", "x".repeat(200));
        assert!(refused(switch(&[&long], 7, "10.77.1.7/24")).to_string().contains("shorter names"));
        assert!(cards(&[CardSpec::User, CardSpec::User]).unwrap_err().to_string().contains("got two"));
    }
}
