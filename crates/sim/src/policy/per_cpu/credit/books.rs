//! What Xen's credit scheduler knows of virtual CPUs and of CPUs.

use crate::host::{CpuId, VcpuId};
use crate::time::{Span, Time};

/// How soon somebody runs; less is sooner.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Priority {
    /// It has woken while it was under its share.
    Boost,
    /// It has had less than its share.
    Under,
    /// It has had more.
    Over,
}

/// What distinguishes one such scheduler from another.
#[derive(Debug, Clone, Copy)]
pub struct CreditKeys {
    /// The slice, and the accounting period.
    pub slice: Span,
    /// Whether who wakes while under is preferred.
    pub boost: bool,
    /// Who has just begun to run is left alone for so long.
    pub rate_limit: Span,
    /// Whether a weight counts for each virtual CPU.
    pub per_vcpu: bool,
}

/// What the policy knows of a virtual CPU.
#[derive(Debug, Clone, Copy)]
pub struct Account {
    /// Nanoseconds it may still run; debt when negative.
    pub credit: i64,
    /// How soon it runs.
    pub priority: Priority,
    /// Up to when its credit is burnt, while it runs.
    pub burnt: Time,
    /// Since when it has had its CPU.
    pub began: Time,
    /// Whether it earns credit.
    pub active: bool,
    /// The CPU in whose queue it waits, or on which it runs.
    pub home: CpuId,
    /// Where it is to go when it leaves its CPU.
    pub moves: Option<CpuId>,
}

/// What the policy knows of a CPU.
#[derive(Debug, Clone, Default)]
pub struct Seat {
    /// Who has just left it, until it picks.
    pub left: Option<VcpuId>,
    /// When it looked round last.
    pub balanced: Option<Time>,
    /// Who in its queue has another priority than that he stands at.
    pub stale: Vec<VcpuId>,
}

/// What the policy's clock goes off for.
#[derive(Debug, Clone, Copy)]
pub(super) enum Clock {
    /// A CPU looks at who runs there.
    Tick(CpuId),
    /// Credits are dealt out.
    Account,
}
