//! What Xen's credit2 scheduler knows of virtual CPUs and of the queues they share.

use std::collections::BTreeMap;

use super::load::Load;
use crate::host::{CpuId, CpuSet, VcpuId};
use crate::time::Time;

/// A virtual CPU.
#[derive(Debug, Clone, Copy)]
pub struct Credit2Account {
    /// What it may still run.
    pub credit: i64,
    /// Its VM's.
    pub weight: f64,
    /// Up to when its credit is burnt, while it runs.
    pub burnt: Time,
    /// Since when it has had its CPU.
    pub began: Time,
    /// Where it ran last.
    pub home: CpuId,
    /// Its queue.
    pub queue: u32,
    /// Its place among the members of its queue.
    pub place: usize,
    /// What it weighs.
    pub load: Load,
    /// The queue it is to go to when it leaves its CPU.
    pub moves: Option<u32>,
}

/// A queue of a group of CPUs.
#[derive(Debug, Clone, Default)]
pub struct Group {
    /// Its CPUs.
    pub cpus: CpuSet,
    /// Who belongs to it, waiting or not.
    pub members: Vec<VcpuId>,
    /// How many there are of each weight, by its bits: weights are positive, so their bits are in their order.
    pub weights: BTreeMap<u64, u32>,
    /// What it weighs.
    pub load: Load,
    /// The CPU that came in last.
    pub bias: u32,
}

impl Group {
    /// The highest weight of its members.
    pub fn heaviest(&self) -> f64 {
        self.weights.last_key_value().map_or(1.0, |(bits, _)| f64::from_bits(*bits))
    }
}
