//! Ports of the host that partitions of a set want and somebody else has: found before anything of the set is started.

use std::path::Path;

use super::{folder, status};
use crate::session::bind_ports;
use model::partition::PortSpec;
use model::partition::set::{Fault, PartitionUnit, UnitSpec};

/// Ports that cannot be listened at. What this set's own partitions have is theirs, or free once they are started anew.
pub fn faults(set: &Path, unit: &PartitionUnit) -> Vec<Fault> {
    let ports = &unit.spec.ports;
    if ports.is_empty() {
        return Vec::new();
    }
    let own = held(set);
    let wanted = ports.iter().enumerate().filter(|(_, port)| !own.iter().any(|held| held.clashes(port)));
    // Nobody keeps it until its partition is started; who takes it in between is found then.
    let refused = wanted.filter_map(|(item, port)| Some((item, bind_ports(&[*port]).err()?)));
    let path = ["partition", unit.spec.name.as_str(), "ports"];
    refused.map(|(item, problem)| Fault::new(&path, problem).item(item)).collect()
}

/// Ports of the partitions that run in the set's folder.
fn held(set: &Path) -> Vec<PortSpec> {
    let kept = folder::kept(set).into_iter().map(|name| set.join(name));
    let running = kept.filter(|folder| !status::phase(folder).0.is_final());
    let units = running.filter_map(|folder| folder::read_unit(&folder));
    units
        .flat_map(|unit| match unit {
            UnitSpec::Partition(unit) => unit.spec.ports,
            UnitSpec::Switch(_) => Vec::new(),
        })
        .collect()
}
