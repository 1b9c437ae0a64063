//! What goes from one to another: rules `uplink`, `link`, `latency`.

use std::collections::BTreeMap;

use super::{Found, Rule};
use crate::talk::joins;
use crate::world::{Total, World};

/// A host's cards carry together what all who need one want, and all that leaves.
pub(super) fn uplink(world: &World<'_>, found: &mut Found) {
    let mut wanted: BTreeMap<&str, Total> = BTreeMap::new();
    for seen in &world.seen {
        if let Some(need) = seen.needs.network {
            *wanted.entry(seen.host_name()).or_default() += Total::from(need.bytes_per_s.get());
        }
    }
    for talk in world.talks() {
        let (from, to) = (talk.from.host_name(), talk.to.host_name());
        for host in [from, to].into_iter().filter(|_| from != to) {
            *wanted.entry(host).or_default() += Total::from(talk.rate);
        }
    }
    for (name, wanted) in wanted {
        let cards = world.hosts.get(name).map(|host| host.known.shape.nics.as_slice()).unwrap_or_default();
        if cards.is_empty() {
            continue;
        }
        let there: Total = cards.iter().map(|card| Total::from(card.bytes_per_s.get())).sum();
        if wanted > there {
            found.add(Rule::Uplink, &[], || {
                format!("{wanted} bytes/s go out of {name} and into it, and its cards carry {there} together")
            });
        }
    }
}

/// A link carries what goes between its hosts.
pub(super) fn link(world: &World<'_>, found: &mut Found) {
    let mut wanted: BTreeMap<(&str, &str), Total> = BTreeMap::new();
    for talk in world.talks() {
        let (from, to) = (talk.from.host_name(), talk.to.host_name());
        *wanted.entry((from.min(to), from.max(to))).or_default() += Total::from(talk.rate);
    }
    for link in &world.system.links {
        let Some(there) = link.bytes_per_s else { continue };
        let wanted = wanted.iter().find(|((a, b), _)| joins(link, a, b)).map_or(0, |(_, wanted)| *wanted);
        if wanted > Total::from(there.get()) {
            let [a, b] = &link.between;
            found.add(Rule::Link, &[], || {
                format!("{wanted} bytes/s go between {a} and {b}, and their link carries {}", there.get())
            });
        }
    }
}

/// Messages take no longer than they may.
pub(super) fn latency(world: &World<'_>, found: &mut Found) {
    for talk in world.talks() {
        let Some(most) = talk.need.latency_us.map(units::Micros::get) else { continue };
        let got = talk.latency_us(world);
        if got > most {
            let names = [talk.from.placed.name.as_str(), talk.to.placed.name.as_str()];
            found.add(Rule::Latency, &names, || {
                let within = talk.within().word();
                format!("wanted messages in {most} µs; they are within a {within}, where one takes {got} µs")
            });
        }
    }
}
