//! Numbers and addresses in a set's networks: those that were written, then the lowest free ones, by name.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::Ipv4Addr;
use std::str::FromStr;

use super::{Fault, Faults, PartitionSet, USER_NETWORK};
use crate::partition::network::NamedAddress;
use units::{Bytes, Reason};

/// Highest number of a partition in a network.
pub const HIGHEST_MEMBER: u8 = 250;
/// QEMU's own network, which a partition may have beside others.
const QEMUS_OWN: Subnet = Subnet { base: u32::from_be_bytes([10, 0, 2, 0]), prefix: 24 };

/// Where a partition without a network of the set finds itself, as on Debian.
const ITSELF: Ipv4Addr = Ipv4Addr::new(127, 0, 1, 1);

/// IPv4 addresses of a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Subnet {
    base: u32,
    prefix: u8,
}

impl Subnet {
    /// The address of the partition with this number, with prefix length: `10.77.1.2/24`.
    pub fn address(&self, number: u8) -> String {
        format!("{}/{}", self.host(number), self.prefix)
    }

    /// The same without it.
    pub fn host(self, number: u8) -> Ipv4Addr {
        Ipv4Addr::from(self.base + u32::from(number))
    }

    const fn overlaps(self, other: Self) -> bool {
        let prefix = if self.prefix < other.prefix { self.prefix } else { other.prefix };
        let mask = u32::MAX << (32 - prefix as u32);
        self.base & mask == other.base & mask
    }
}

impl FromStr for Subnet {
    type Err = Reason;

    fn from_str(text: &str) -> Result<Self, Reason> {
        let wanted =
            || format!("wanted addresses such as 10.77.1.0/24 with a prefix of 8 to 24, got \"{text}\"");
        let (base, prefix) = text.split_once('/').ok_or_else(wanted)?;
        let base: Ipv4Addr = base.parse().map_err(|_| wanted())?;
        let prefix: u8 = prefix.parse().ok().filter(|prefix| (8..=24).contains(prefix)).ok_or_else(wanted)?;
        let first = base.octets().first().copied().unwrap_or_default();
        if matches!(first, 0 | 127 | 224..) {
            return Err(format!("{text} are no addresses that machines can have").into());
        }
        let subnet = Self { base: u32::from(base), prefix };
        if subnet.base & !(u32::MAX << (32 - u32::from(prefix))) != 0 {
            return Err(
                format!("{text} has bits beyond its prefix: the first address ends with zeros").into()
            );
        }
        Ok(subnet)
    }
}

impl fmt::Display for Subnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", Ipv4Addr::from(self.base), self.prefix)
    }
}

/// A partition in a network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Member {
    /// Its number, 1 … 250.
    pub number: u8,
    /// What it may send at most, in bytes per second.
    pub bytes_per_s: Option<Bytes>,
}

/// A network with all that is plugged into it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wiring {
    /// Its addresses.
    pub subnet: Subnet,
    /// Its partitions, by name.
    pub members: BTreeMap<String, Member>,
}

impl Wiring {
    /// Who is in it, by name, for those that are to find them.
    pub fn names(&self) -> Vec<NamedAddress> {
        // Whoever is called so must not take the place of every program's own machine.
        let members = self.members.iter().filter(|(name, _)| *name != "localhost");
        let named = |(name, member): (&String, &Member)| NamedAddress {
            address: self.subnet.host(member.number),
            name: name.clone(),
        };
        members.map(named).collect()
    }
}

impl PartitionSet {
    /// All networks with who is in them, by name.
    ///
    /// # Errors
    /// Addresses that are there twice, or no addresses at all.
    pub fn wiring(&self) -> Result<BTreeMap<String, Wiring>, Fault> {
        let mut faults = Faults::default();
        let wiring = self.wire(&mut faults);
        Vec::from(faults).into_iter().next().map_or(Ok(wiring), Err)
    }

    /// The same with all that is wrong; what is at fault is left out.
    pub(super) fn wire(&self, faults: &mut Faults) -> BTreeMap<String, Wiring> {
        let subnets = self.subnets(faults);
        let wired = |(name, subnet): (String, Subnet)| {
            let members = self.members(&name, faults);
            (name, Wiring { subnet, members })
        };
        subnets.into_iter().map(wired).collect()
    }

    /// By which names partition `name` finds whom: all that share a network with it, and itself.
    ///
    /// # Errors
    /// As [`Self::wiring`].
    pub fn names_for(&self, name: &str) -> Result<Vec<NamedAddress>, Fault> {
        let wiring = self.wiring()?;
        let shared = wiring.values().filter(|wires| wires.members.contains_key(name));
        let mut names: Vec<NamedAddress> = shared.flat_map(Wiring::names).collect();
        if names.is_empty() {
            names.push(NamedAddress { address: ITSELF, name: name.to_owned() });
        }
        Ok(names)
    }

    fn subnets(&self, faults: &mut Faults) -> BTreeMap<String, Subnet> {
        let mut taken: BTreeMap<String, Subnet> = BTreeMap::new();
        for (name, entry) in &self.networks {
            match entry.subnet.as_ref().map(|text| usable(text, &taken)) {
                Some(Ok(subnet)) => {
                    taken.insert(name.clone(), subnet);
                }
                Some(Err(problem)) => faults.add(&["network", name, "subnet"], problem),
                None => {}
            }
        }
        for (name, _) in self.networks.iter().filter(|(_, entry)| entry.subnet.is_none()) {
            let mut usual = (1..=u8::MAX)
                .map(|third| Subnet { base: u32::from_be_bytes([10, 77, third, 0]), prefix: 24 });
            let free = usual.find(|subnet| !taken.values().any(|there| there.overlaps(*subnet)));
            let Some(subnet) = free else {
                faults.add(&["network", name], "no addresses are left: write subnet = \"…\"");
                continue;
            };
            taken.insert(name.clone(), subnet);
        }
        taken
    }

    fn members(&self, network: &str, faults: &mut Faults) -> BTreeMap<String, Member> {
        let mut members = BTreeMap::new();
        let mut taken: BTreeMap<u8, &str> = BTreeMap::new();
        let mut waiting = BTreeSet::new();
        for (name, entry) in &self.partitions {
            for plug in entry.plugs().filter(|plug| plug.network == network) {
                let Some(number) = plug.number else {
                    waiting.insert((name.as_str(), plug.bytes_per_s));
                    continue;
                };
                if let Some(other) = taken.insert(number, name) {
                    let problem =
                        format!("number {number} of network \"{network}\" is that of partition \"{other}\"");
                    faults.add(&["partition", name, "card"], problem);
                }
                members.insert(name.clone(), Member { number, bytes_per_s: plug.bytes_per_s });
            }
        }
        for (name, bytes_per_s) in waiting {
            let free = (1..=HIGHEST_MEMBER).find(|number| !taken.contains_key(number));
            let Some(number) = free else {
                let problem = format!("network \"{network}\" is full: it has room for {HIGHEST_MEMBER}");
                faults.add(&["partition", name, "networks"], problem);
                continue;
            };
            taken.insert(number, name);
            members.insert(name.to_owned(), Member { number, bytes_per_s });
        }
        members
    }
}

/// The addresses that a network asks for, if they are nobody else's.
fn usable(text: &str, taken: &BTreeMap<String, Subnet>) -> Result<Subnet, Reason> {
    let subnet: Subnet = text.parse()?;
    if subnet.overlaps(QEMUS_OWN) {
        return Err(format!("{subnet} are addresses of network \"{USER_NETWORK}\"").into());
    }
    match taken.iter().find(|(_, there)| there.overlaps(subnet)) {
        Some((other, there)) => {
            Err(format!("{subnet} and {there} of network \"{other}\" are in part the same addresses").into())
        }
        None => Ok(subnet),
    }
}
