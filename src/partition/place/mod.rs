//! Puts a partition's CPUs and memory where they were asked for, and reads back what was given.

use crate::model::partition::{Difference, DiskSpec, Given, Resources};
use crate::platforms::vm::qmp::Qmp;

/// Refuses what this host does not have, before anything is made.
pub fn possible(_resources: &Resources) -> Result<(), String> {
    Ok(())
}

/// Places the threads of a paused QEMU.
pub fn place(_resources: &Resources, _pid: u32, _control: &mut Qmp) -> Result<(), String> {
    Ok(())
}

/// Reads back what it was given.
pub fn read_back(_pid: u32, _control: &mut Qmp) -> Result<Given, String> {
    Ok(Given::default())
}

/// What is not as it was asked; empty when all is.
pub fn differences(_asked: &Resources, _disks: &[DiskSpec], _given: &Given) -> Vec<Difference> {
    Vec::new()
}
