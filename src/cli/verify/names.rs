//! What a file of requirements alone cannot know: whether the set that is up has what they are about, and is the one in the file.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::Path;

use anyhow::{anyhow, bail};

use crate::cli::file;
use model::partition::set::{Faults, PartitionEntry, PartitionSet, SetErrors};
use model::requirement::{
    DeclaredLoad, InjectedFailure, KEY, ON_HOST, OneOrMore, RequiredLoad, Requirement, RequirementFile,
};
use units::names::hint;
use verify::in_place::between::ends;
use verify::look::LookedAt;

/// All that requirements name is there.
///
/// # Errors
/// What is not, each with its line.
pub(super) fn are_there(
    wanted: &RequirementFile,
    looked: &LookedAt,
    text: &str,
    path: &Path,
) -> anyhow::Result<()> {
    let mut faults = Faults::default();
    for (id, one) in &wanted.requirements {
        let mut names = Names { id, set: &looked.set, faults: &mut faults };
        names.partitions(one);
        names.networks(one);
        names.ports(one);
        names.domains(one);
        names.disks(one);
        names.cables(one);
        names.between(one);
    }
    let errors = SetErrors::of(faults.into(), text);
    if errors.0.is_empty() { Ok(()) } else { Err(anyhow!(errors.in_file(path))) }
}

/// The names in a requirement.
struct Names<'a> {
    id: &'a str,
    set: &'a PartitionSet,
    faults: &'a mut Faults,
}

impl Names<'_> {
    fn add(&mut self, key: &str, problem: String) {
        self.faults.add(&[KEY, self.id, key], problem);
    }

    fn partitions(&mut self, one: &Requirement) {
        let pair = one.pair.iter().flatten().map(|name| ("pair", name.clone()));
        let loads = one.load.iter().flat_map(RequiredLoad::declared).filter_map(|load| load.place.clone());
        let loads = loads.filter(|place| place != ON_HOST).map(|place| ("load", place));
        let failing = failures(one).iter().filter_map(|part| part.partition().map(str::to_owned));
        let failing = failing.map(|name| ("failure", name));
        let named = one.partition.iter().map(|name| ("partition", name.clone()));
        for (key, name) in named.chain(pair).chain(loads).chain(failing) {
            if !self.set.partitions.contains_key(&name) {
                let known: Vec<&str> = self.set.partitions.keys().map(String::as_str).collect();
                let hint = hint(&name, &known);
                self.add(key, format!("set {} has no partition \"{name}\"{hint}", self.set.name));
            }
        }
    }

    fn networks(&mut self, one: &Requirement) {
        let failing = failures(one).iter().filter_map(InjectedFailure::network);
        let failing = failing.map(|(name, link)| ("failure", name.to_owned(), link));
        for (key, name, link) in one.network.iter().map(|name| ("network", name.clone(), 0)).chain(failing) {
            match self.set.networks.get(&name) {
                None => {
                    let known: Vec<&str> = self.set.networks.keys().map(String::as_str).collect();
                    let hint = hint(&name, &known);
                    self.add(key, format!("set {} has no network \"{name}\"{hint}", self.set.name));
                }
                Some(network) if link >= u32::from(network.links) => {
                    let links = network.links;
                    self.add(key, format!("network {name} has {links} links, counted from 0"));
                }
                Some(_) => {}
            }
        }
    }

    fn ports(&mut self, one: &Requirement) {
        let ports: BTreeSet<SocketAddr> =
            self.set.partitions.values().flat_map(|one| &one.ports).map(|port| port.host).collect();
        for at in one.client.iter().flat_map(|client| client.at.all()) {
            let is_own = |port: &SocketAddr| {
                port.port() == at.port() && (port.ip().is_unspecified() || port.ip() == at.ip())
            };
            if ports.iter().any(is_own) {
                let whose =
                    self.set.partitions.iter().find(|(_, of)| of.ports.iter().any(|port| is_own(&port.host)));
                let whose = whose.map(|(name, _)| name);
                if let (Some(name), Some(whose)) = (&one.partition, whose)
                    && name != whose
                {
                    self.add(
                        "client",
                        format!("{at} is a port of {whose}, and the requirement is about {name}"),
                    );
                }
                continue;
            }
            let known: Vec<String> = ports.iter().map(ToString::to_string).collect();
            let known =
                if known.is_empty() { "has none".to_owned() } else { format!("has {}", known.join(", ")) };
            self.add(
                "client",
                format!(
                    "{at} is none of the ports of set {}, which {known}: whoever answers there is not it",
                    self.set.name
                ),
            );
        }
    }

    /// Two that are measured between find each other.
    fn between(&mut self, one: &Requirement) {
        let (Some(pair), Some(_)) = (&one.pair, one.probe()) else { return };
        if !pair.iter().all(|name| self.set.partitions.contains_key(name)) {
            return;
        }
        if let Err(why) = ends(self.set, pair, one.over.as_deref()) {
            self.add(if one.over.is_some() { "over" } else { "pair" }, why.to_string());
        }
    }

    /// Failure domains have partitions, and loads do not run in those that fail.
    fn domains(&mut self, one: &Requirement) {
        let set = self.set;
        let of = |name: &str| set.partitions.get(name).and_then(|one| one.failure_domain.as_deref());
        let domains: Vec<&str> = set.partitions.keys().filter_map(|name| of(name)).collect();
        for failure in failures(one) {
            let InjectedFailure::Domain(domain) = failure else { continue };
            if !domains.contains(&domain.as_str()) {
                let hint = hint(domain, &domains);
                let problem =
                    format!("no partition of set {} has failure_domain = \"{domain}\"{hint}", set.name);
                self.add("failure", problem);
            }
            let loads = one.load.iter().flat_map(RequiredLoad::declared);
            let falls = |load: &&DeclaredLoad| load.place.as_deref().and_then(of) == Some(domain);
            if let Some(load) = loads.into_iter().find(falls) {
                let problem = format!(
                    "{load} does not outlast the failure of {domain}: write KIND@host, or KIND@PARTITION of another one"
                );
                self.add("load", problem);
            }
        }
    }

    fn disks(&mut self, one: &Requirement) {
        let writes = |one: &PartitionEntry| !one.rw.is_empty() || !one.volumes.is_empty();
        for failure in failures(one) {
            let InjectedFailure::Disk(name) = failure else { continue };
            if self.set.partitions.get(name).is_some_and(|one| !writes(one)) {
                let problem = format!(
                    "{name} writes to no folder of this host (rw, volumes): it has no disk that could be full"
                );
                self.add("failure", problem);
            }
        }
    }

    /// Whose cable is pulled out is in that network.
    fn cables(&mut self, one: &Requirement) {
        let Ok(wiring) = self.set.wiring() else { return };
        for failure in failures(one) {
            let InjectedFailure::Cable(network, _, name) = failure else { continue };
            let is_apart = wiring.get(network).is_some_and(|wired| !wired.members.contains_key(name));
            if self.set.partitions.contains_key(name) && is_apart {
                self.add("failure", format!("{name} is not in network {network}: it has no cable there"));
            }
        }
    }
}

fn failures(one: &Requirement) -> &[InjectedFailure] {
    one.failure.as_ref().map_or(&[], OneOrMore::all)
}

fn has_partitions(text: &str) -> bool {
    text.parse::<toml::Table>().is_ok_and(|table| table.contains_key("partition"))
}

/// Where the file has partitions of its own: the set that is up is the one in it.
///
/// # Errors
/// Which are others.
pub(super) fn as_in_the_file(text: &str, path: &Path, looked: &LookedAt) -> anyhow::Result<()> {
    let wanted = match PartitionSet::from_toml(text, &file::stem(path)) {
        Ok(wanted) => wanted,
        // It is no set's file, but has requirements alone.
        Err(_) if !has_partitions(text) => return Ok(()),
        Err(errors) => return Err(anyhow!(errors.in_file(path))),
    };
    let up = &looked.set;
    if wanted.name != up.name || wanted.partitions.is_empty() {
        return Ok(());
    }
    let names: BTreeSet<&String> = wanted.partitions.keys().chain(up.partitions.keys()).collect();
    let differs = |name: &&String| wanted.partitions.get(*name) != up.partitions.get(*name);
    let mut others: Vec<&str> = names.into_iter().filter(differs).map(String::as_str).collect();
    if wanted.networks != up.networks {
        others.push("its networks");
    }
    if others.is_empty() {
        return Ok(());
    }
    bail!(
        "{}: set {} is up as it was before this file was changed: {}; bulkhead up makes it as the file says, then verify",
        path.display(),
        up.name,
        others.join(", ")
    )
}
