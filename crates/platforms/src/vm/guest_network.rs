//! Network cards of a guest, guest side: drivers, addresses, and waiting until each has a carrier. Without cards it
//! does nothing at all.
//!
//! ```text
//!  10.77.1.2 ── bond0 ─┬─ eth0 ── switch of link 0      carries everything while it has a carrier
//!                      └─ eth1 ── switch of link 1      takes over then, and tells the switches so
//! ```

use std::net::Ipv4Addr;
use std::path::Path;
use std::time::Duration;
use std::{fs, io};

use super::guest::{GuestBond, GuestConfig, GuestNic};
use super::guest_agent::wait_for;
use super::guest_modules;
use super::pid1::{in_context, say};
use crate::lab::links::Links;
use crate::lab::quiet;
use units::Reason;

const INTERFACES: &str = "/sys/class/net";
/// Longest text of an interface that is read.
const MAX_TEXT_CHARS: usize = 60;
/// Between two looks at the carriers of joined cards. A dead switch is noticed in half of it on average; each look is an
/// interruption of the guest.
const MONITOR: Duration = Duration::from_millis(100);

/// Brings the cards up and says what the guest sees of them, one line each: `eth0 virtio_net 02:4b:0a:4d:01:01`.
pub fn bring_up(config: &GuestConfig) -> Result<Vec<String>, Reason> {
    if config.nics.is_empty() && config.bonds.is_empty() {
        return Ok(Vec::new());
    }
    guest_modules::load(&config.nic_modules)?;
    quiet();
    answer_on_the_right_card();
    let mut links = Links::here().map_err(in_context("rtnetlink"))?;
    links.raise("lo").map_err(in_context("loopback"))?;
    let mut names = Vec::new();
    for nic in &config.nics {
        let name = wait_for(&format!("the network card {}", nic.mac), || find(&nic.mac))?;
        configure(&mut links, &name, nic).map_err(in_context("a network card"))?;
        names.push(name);
    }
    if !config.bonds.is_empty() {
        // The driver makes one of its own accord when it is loaded; nobody knows what is in it.
        let _ = links.remove("bond0");
    }
    for (number, bond) in config.bonds.iter().enumerate() {
        let name = format!("bond{number}");
        join(&mut links, &name, bond)?;
        names.push(name);
    }
    // All of them negotiate at once.
    for name in &names {
        wait_for(&format!("the carrier of {name}"), || (read(name, "carrier")? == "1").then_some(()))?;
    }
    Ok(names.iter().map(|name| describe(name)).collect())
}

/// Programs expect to reach themselves, cards or not.
pub fn bring_up_loopback() {
    if let Err(error) = Links::here().and_then(|mut links| links.raise("lo")) {
        say(&format!("loopback: {error}"));
    }
}

/// Sends everything that is for no card's own network to `router`.
pub fn find_way_out(router: Ipv4Addr) -> Result<(), Reason> {
    let mut links = Links::here().map_err(in_context("rtnetlink"))?;
    links.add_default_route(router).map_err(in_context("the way out"))
}

/// Cards on one bridge: Linux would answer for the address of one on all of them, and the quickest would carry what
/// is meant for the first (`arp_ignore`, `arp_announce` in the kernel's `ip-sysctl.rst`).
fn answer_on_the_right_card() {
    for (key, value) in [("arp_ignore", "1"), ("arp_announce", "2")] {
        if let Err(error) = fs::write(format!("/proc/sys/net/ipv4/conf/all/{key}"), value) {
            say(&format!("{key}: {error}"));
        }
    }
}

fn configure(links: &mut Links, name: &str, nic: &GuestNic) -> io::Result<()> {
    links.add_address(name, nic.address, nic.prefix)?;
    links.raise(name)
}

/// Makes one card of several. They are found before the first is joined: from then on it has the bond's address.
fn join(links: &mut Links, name: &str, bond: &GuestBond) -> Result<(), Reason> {
    let cards = bond.macs.iter().map(|mac| wait_for(&format!("the network card {mac}"), || find(mac)));
    let cards = cards.collect::<Result<Vec<String>, Reason>>()?;
    let made = links.add_standby(name, MONITOR).and_then(|()| {
        cards.iter().try_for_each(|card| links.enslave(card, name))?;
        links.add_address(name, bond.address, bond.prefix)?;
        links.raise(name)
    });
    made.map_err(in_context("joined network cards"))
}

/// The interface with this hardware address.
fn find(mac: &str) -> Option<String> {
    let names = fs::read_dir(INTERFACES).ok()?.filter_map(Result::ok);
    let mut names = names.filter_map(|entry| entry.file_name().into_string().ok());
    names.find(|name| read(name, "address").as_deref() == Some(mac))
}

fn describe(name: &str) -> String {
    let driver = fs::read_link(Path::new(INTERFACES).join(name).join("device/driver")).ok();
    let driver =
        driver.as_deref().and_then(Path::file_name).map(|driver| driver.to_string_lossy().into_owned());
    let mac = read(name, "address").unwrap_or_default();
    format!("{name} {} {mac}", driver.unwrap_or_else(|| "without a driver".to_owned()))
}

fn read(name: &str, attribute: &str) -> Option<String> {
    let text = fs::read_to_string(Path::new(INTERFACES).join(name).join(attribute)).ok()?;
    Some(text.trim().chars().take(MAX_TEXT_CHARS).collect())
}
