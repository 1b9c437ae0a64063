//! Tables of CPU time: per CPU, cells that a VM or one of its virtual CPUs owns, over and over. Written down, as in ARINC 653,
//! or planned from what VMs reserve and how long they may wait, as in Tableau ([`super::planner`]).
//!
//! ```text
//!  CPU 0 ├─ A.0 ─┼── B ──┼─ A.0 ─┼───┤├─ A.0 ─┼── B ──┼ …      B: whoever of B is ready
//!  CPU 1 ├── B ──┼ C.0 ┼─────────────┤├── B ──┼ C.0 ┼ …
//!        0                      length
//! ```

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::host::{HostSpec, PolicySpec, VmSpec};
use super::planner;
use super::{Impossible, bounded};
use units::{Micros, Nanos};

/// Most cells that are written down.
const MOST_CELLS: u64 = 100_000;
/// Longest table: a minute.
const MINUTE_US: u64 = 60_000_000;

/// A cell of a table, as written in a scenario.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CellSpec {
    /// The CPU.
    pub cpu: u32,
    /// Name of the VM that owns it; copies are named `NAME-1` and so on.
    pub vm: String,
    /// Which of its virtual CPUs; whichever is ready unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vcpu: Option<u32>,
    /// Its beginning, from that of the table.
    pub from_us: Micros,
    /// Its end.
    pub to_us: Micros,
}

/// A cell of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableCell {
    /// The VM that owns it: its number, copies counted out.
    pub vm: usize,
    /// Which of its virtual CPUs; whichever is ready unless given.
    pub vcpu: Option<u32>,
    /// Its beginning, from that of the table.
    pub from: Nanos,
    /// Its end.
    pub to: Nanos,
}

/// A table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// It repeats after so long; above 0.
    pub length: Nanos,
    /// CPU by CPU its cells, in order, none over another.
    pub cpus: Vec<Vec<TableCell>>,
}

/// A VM, copies counted out.
#[derive(Debug, Clone, Copy)]
pub(super) struct Instance<'a> {
    /// Number of its entry.
    pub(super) entry: usize,
    pub(super) spec: &'a VmSpec,
    /// From 1 on; 0 for the only one.
    copy: u32,
}

impl Instance<'_> {
    fn is_called(&self, name: &str) -> bool {
        match self.copy {
            0 => self.spec.name == name,
            copy => name.strip_prefix(self.spec.name.as_str()).is_some_and(|rest| rest == format!("-{copy}")),
        }
    }
}

pub(super) fn instances(vms: &[VmSpec]) -> Vec<Instance<'_>> {
    let copies = |(entry, spec): (usize, &'_ VmSpec)| {
        let first = u32::from(spec.count > 1);
        (0..spec.count).map(move |copy| (entry, copy + first))
    };
    let all = vms.iter().enumerate().flat_map(copies);
    all.filter_map(|(entry, copy)| Some(Instance { entry, spec: vms.get(entry)?, copy })).collect()
}

/// The table of a host with this policy; none for other policies.
///
/// # Errors
/// What is wrong with the cells, or which VM finds no place for what it reserves.
pub fn table(host: &HostSpec, vms: &[VmSpec]) -> Result<Option<Table>, Impossible> {
    let PolicySpec::Table { length_us, cells, second_level_us } = &host.policy else { return Ok(None) };
    let instances = instances(vms);
    let table = match (length_us, cells.is_empty()) {
        (None, true) => planner::plan(host, vms, &instances)?,
        (Some(length), false) => {
            bounded("host.policy.length_us".into(), length.get(), 1, MINUTE_US)?;
            written(host, vms, &instances, *length, cells)?
        }
        _ => {
            let problem =
                "wanted length_us and cells, or neither: then the table is planned from what VMs reserve";
            return Err(Impossible::new("host.policy.length_us", problem));
        }
    };
    everybody_runs(&table, &instances, second_level_us.get() > 0)?;
    Ok(Some(table))
}

fn nanos(time: Micros) -> Nanos {
    Nanos::from_nanos(time.get().saturating_mul(1000))
}

/// A table as written.
fn written(
    host: &HostSpec,
    vms: &[VmSpec],
    instances: &[Instance<'_>],
    length: Micros,
    cells: &[CellSpec],
) -> Result<Table, Impossible> {
    bounded("host.policy.cell".into(), cells.len() as u64, 1, MOST_CELLS)?;
    if let Some(entry) = vms.iter().position(|vm| vm.reserved_cpus > 0.0 || vm.latency_us.is_some()) {
        let problem = "cells are written down, so nothing is planned: wanted cells alone, or reserved_cpus and latency_us alone";
        return Err(Impossible::new(format!("vm.{entry}.latency_us"), problem));
    }
    let dedicated: Vec<u32> = vms.iter().flat_map(VmSpec::dedicated_cpus).copied().collect();
    let mut table = Table { length: nanos(length), cpus: vec![Vec::new(); host.cpus as usize] };
    for (number, cell) in cells.iter().enumerate() {
        let wrong = |key: &str, problem: String| {
            Err(Impossible::new(format!("host.policy.cell.{number}.{key}"), problem))
        };
        let Some(vm) = instances.iter().position(|instance| instance.is_called(&cell.vm)) else {
            return wrong("vm", format!("there is no VM named \"{}\"", cell.vm));
        };
        let spec = instances[vm].spec;
        if cell.vcpu.is_some_and(|vcpu| vcpu >= spec.vcpus) {
            return wrong("vcpu", format!("\"{}\" has virtual CPUs 0 to {}", cell.vm, spec.vcpus - 1));
        }
        let places = spec.places(host.cpus, &dedicated);
        let may = match cell.vcpu.filter(|_| spec.pinned) {
            Some(vcpu) => places.get(vcpu as usize) == Some(&cell.cpu),
            None => places.contains(&cell.cpu),
        };
        let Some(cpu) = table.cpus.get_mut(cell.cpu as usize).filter(|_| may) else {
            return wrong("cpu", format!("\"{}\" may not use CPU {}", cell.vm, cell.cpu));
        };
        if cell.from_us >= cell.to_us || cell.to_us > length {
            return wrong("to_us", format!("wanted from_us < to_us ≤ {} (length_us)", length.get()));
        }
        cpu.push(TableCell { vm, vcpu: cell.vcpu, from: nanos(cell.from_us), to: nanos(cell.to_us) });
    }
    for (number, cells) in table.cpus.iter_mut().enumerate() {
        cells.sort_by_key(|cell| cell.from);
        if let Some(at) = overlap(cells) {
            let problem = format!("two cells of CPU {number} overlap at {at}");
            return Err(Impossible::new("host.policy.cell", problem));
        }
    }
    nowhere_twice(&table, instances)?;
    Ok(table)
}

/// Where two cells overlap that are in order.
fn overlap(cells: &[TableCell]) -> Option<Nanos> {
    let mut pairs = cells.iter().zip(cells.iter().skip(1));
    pairs.find(|(one, next)| next.from < one.to).map(|(_, next)| next.from)
}

/// No virtual CPU may own cells on two CPUs at the same time.
fn nowhere_twice(table: &Table, instances: &[Instance<'_>]) -> Result<(), Impossible> {
    // One virtual CPU: whoever of its VM is ready is always that one.
    let who = |cell: &TableCell| {
        let only = (instances.get(cell.vm)?.spec.vcpus == 1).then_some(0);
        Some((cell.vm, cell.vcpu.or(only)?))
    };
    let mut cells: Vec<(usize, u32, TableCell)> = table
        .cpus
        .iter()
        .flatten()
        .filter_map(|cell| who(cell).map(|(vm, vcpu)| (vm, vcpu, *cell)))
        .collect();
    cells.sort_by_key(|(vm, vcpu, cell)| (*vm, *vcpu, cell.from));
    let mut pairs = cells.iter().zip(cells.iter().skip(1));
    let twice = pairs.find(|(one, next)| (one.0, one.1) == (next.0, next.1) && next.2.from < one.2.to);
    twice.map_or(Ok(()), |((vm, vcpu, _), (.., cell))| {
        let name = instances.get(*vm).map_or("", |instance| instance.spec.name.as_str());
        let problem = format!("virtual CPU {vcpu} of \"{name}\" has cells on two CPUs at {}", cell.from);
        Err(Impossible::new("host.policy.cell", problem))
    })
}

/// Who owns no cell, and is given nothing that is left, never runs.
fn everybody_runs(table: &Table, instances: &[Instance<'_>], gives: bool) -> Result<(), Impossible> {
    let owners: BTreeSet<(usize, Option<u32>)> =
        table.cpus.iter().flatten().map(|cell| (cell.vm, cell.vcpu)).collect();
    for (number, instance) in instances.iter().enumerate() {
        let (vm, entry) = (instance.spec, instance.entry);
        let owns = |vcpu: u32| owners.contains(&(number, None)) || owners.contains(&(number, Some(vcpu)));
        if (gives && !vm.capped) || (0..vm.vcpus).all(owns) {
            continue;
        }
        let problem = if vm.capped {
            "it has no cell for each of its virtual CPUs and is capped, so they would never run; wanted cells or \
             reserved_cpus, or capped = false"
        } else {
            "it has no cell for each of its virtual CPUs, so they would never run; wanted cells or reserved_cpus, or \
             host.policy.second_level_us: then it gets what is left"
        };
        return Err(Impossible::new(format!("vm.{entry}.name"), problem));
    }
    Ok(())
}
