//! From the text of a file to a system, or to the lines that are wrong and why.
//!
//! ```text
//!  text ─► tree of keys ─┬► host, link, each partition's needs ─► Beside ─┐
//!                        └► the rest, as the file of a set ─► ReadSet ────┴► System ─► check ─► faults ─► lines
//! ```

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::{Beside, HostShape, MOST_PLANNED, System};
use crate::partition::set::{Fault, FoundBy, ReadSet, SetError, SetErrors};
use units::Reason;

/// Largest file of a host that is read.
pub const MAX_HOST_BYTES: usize = 1024 * 1024;
/// Keys that a system has and a set has not.
const BESIDE: [&str; 2] = ["host", "link"];
/// The key of a partition that a set has not.
const NEEDS: &str = "needs";

/// What a file holds, right or wrong.
#[derive(Debug)]
pub struct ReadSystem {
    set: ReadSet,
    beside: Result<Beside, SetError>,
}

impl ReadSystem {
    /// Reads and checks a file; a system without a name is called `stem`.
    pub fn of(text: &str, stem: &str) -> Self {
        let (mut tree, twice) = match ReadSet::tree(text) {
            Ok(read) => read,
            Err(errors) => {
                return Self { set: ReadSet::default().besides(errors), beside: Ok(Beside::default()) };
            }
        };
        let beside = split(tree.get_mut());
        let span = tree.span();
        let beside =
            Beside::deserialize(toml::Deserializer::from(Spanned::new(span, beside))).map_err(|error| {
                let mut told = ReadSet::told(text, &error);
                told.problem = told.problem.replace("bulkhead schema set", "bulkhead schema system");
                told
            });
        Self { set: ReadSet::of_tree(tree, text, stem, MOST_PLANNED).besides(twice), beside }
    }

    /// The system.
    ///
    /// # Errors
    /// Everything that is wrong, with its lines.
    pub fn finish(mut self, text: &str) -> Result<System, SetErrors> {
        let beside = match self.beside {
            Ok(beside) => beside,
            Err(error) => {
                // Of a file whose hosts or needs could not be read, nothing else is told that may come from that.
                return Err(self.set.besides(vec![error]).into_errors());
            }
        };
        let Some(set) = self.set.set.clone() else { return Err(self.set.into_errors()) };
        let mut needs: BTreeMap<_, _> =
            set.partitions.keys().map(|name| (name.clone(), super::Needs::default())).collect();
        needs.extend(beside.needs);
        let system = System { set, needs, hosts: beside.hosts, links: beside.links };
        self.set.add(system.check(), FoundBy::File, text);
        self.set.finish().map(|_| system)
    }
}

impl System {
    /// Reads and checks a file; a system without a name is called `stem`.
    ///
    /// # Errors
    /// Everything that is wrong, with its lines.
    pub fn from_toml(text: &str, stem: &str) -> Result<Self, SetErrors> {
        ReadSystem::of(text, stem).finish(text)
    }

    /// This system and what another file adds to it: partitions with their needs, networks, channels. Its hosts stay as they are.
    ///
    /// # Errors
    /// Everything that is wrong with the file, or with both together, with lines of the file.
    pub fn more_from_toml(text: &str, stem: &str, to: &Self) -> Result<Self, SetErrors> {
        let more = ReadSystem::of(text, stem);
        let (Some(set), Ok(beside)) = (&more.set.set, &more.beside) else { return more.finish(text) };
        let mut all = to.clone();
        let mut faults = Vec::new();
        let mut twice = |kind: &str, name: &str| {
            faults.push(Fault::new(&[kind, name], "there is one of that name in the system already"));
        };
        for (name, entry) in &set.partitions {
            if all.set.partitions.insert(name.clone(), entry.clone()).is_some() {
                twice("partition", name);
            }
            all.needs.insert(name.clone(), beside.needs.get(name).cloned().unwrap_or_default());
        }
        for (name, network) in &set.networks {
            if all.set.networks.insert(name.clone(), network.clone()).is_some_and(|old| old != *network) {
                twice("network", name);
            }
        }
        for (name, channel) in &set.channels {
            if all.set.channels.insert(name.clone(), channel.clone()).is_some() {
                twice("channel", name);
            }
        }
        if !beside.hosts.is_empty() || !beside.links.is_empty() {
            faults.push(Fault::new(&["host"], "hosts are those of the first file"));
        }
        faults.extend(all.set.check_up_to(MOST_PLANNED));
        faults.extend(all.check());
        if faults.is_empty() { Ok(all) } else { Err(SetErrors::of(faults, text)) }
    }
}

impl HostShape {
    /// Reads and checks a file that `bulkhead doctor --host-file` wrote.
    ///
    /// # Errors
    /// Everything that is wrong with it; what cannot be read with its line.
    pub fn from_toml(text: &str) -> Result<Self, Reason> {
        if text.len() > MAX_HOST_BYTES {
            return Err(format!(
                "a host's file has at most {MAX_HOST_BYTES} bytes, this one has {}",
                text.len()
            )
            .into());
        }
        let shape: Self = toml::from_str(text).map_err(|error| ReadSet::told(text, &error).to_string())?;
        if shape.nodes.is_empty() {
            return Err("it has no [[node]], so it describes no host".into());
        }
        let faults: Vec<String> =
            shape.faults().iter().map(|(key, problem)| format!("{key}: {problem}")).collect();
        if faults.is_empty() { Ok(shape) } else { Err(faults.join("; ").into()) }
    }

    /// What [`Self::from_toml`] reads.
    ///
    /// # Errors
    /// A number is larger than TOML has.
    pub fn to_toml(&self) -> Result<String, Reason> {
        toml::to_string(self).map_err(|error| format!("the host cannot be written as TOML: {error}").into())
    }
}

/// Takes out what a set has not.
fn split<'a>(tree: &mut DeTable<'a>) -> DeTable<'a> {
    let mut beside = DeTable::new();
    let keys: Vec<_> = tree.keys().filter(|key| BESIDE.contains(&key.get_ref().as_ref())).cloned().collect();
    for key in keys {
        if let Some(value) = tree.remove(&key) {
            beside.insert(key, value);
        }
    }
    let Some(partitions) = tree.get_mut("partition") else { return beside };
    let DeValue::Table(partitions) = partitions.get_mut() else { return beside };
    let (mut needs, mut span) = (DeTable::new(), 0..0);
    for (name, partition) in partitions.iter_mut() {
        let DeValue::Table(partition) = partition.get_mut() else { continue };
        if let Some(value) = partition.remove(NEEDS) {
            span = value.span();
            needs.insert(name.clone(), value);
        }
    }
    beside.insert(Spanned::new(span.clone(), NEEDS.into()), Spanned::new(span, DeValue::Table(needs)));
    beside
}
