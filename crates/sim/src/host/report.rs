//! Books of the host after a simulation, and whether they balance.

use super::view::{State, View};
use crate::time::{Span, Time};

/// A CPU's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CpuReport {
    /// Somebody ran.
    pub run: Span,
    /// Virtual CPUs were switched.
    pub switching: Span,
    /// Nobody ran.
    pub idle: Span,
    /// Switches.
    pub switches: u64,
    /// How often a virtual CPU came here from another CPU.
    pub migrations: u64,
}

/// A virtual CPU's time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VcpuReport {
    /// It was on a CPU, switches at its expense included.
    pub run: Span,
    /// It waited for one.
    pub steal: Span,
    /// It had nothing to do.
    pub halted: Span,
    /// How often it was brought onto a CPU.
    pub dispatches: u64,
}

/// All books.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostReport {
    /// How long was simulated.
    pub wall: Span,
    /// CPU by CPU.
    pub cpus: Vec<CpuReport>,
    /// Virtual CPU by virtual CPU.
    pub vcpus: Vec<VcpuReport>,
    /// Events that were handled.
    pub events: u64,
}

impl HostReport {
    /// The books of a host whose current stretches have just been closed.
    pub(super) fn of(view: &View, events: u64) -> Self {
        let cpus = view.cpus.iter().map(|cpu| CpuReport {
            run: cpu.run,
            switching: cpu.switching,
            idle: cpu.idle,
            switches: cpu.switches,
            migrations: cpu.migrations,
        });
        let vcpus = view.vcpus.iter().map(|vcpu| VcpuReport {
            run: vcpu.run,
            steal: vcpu.steal,
            halted: vcpu.halted,
            dispatches: vcpu.dispatches,
        });
        Self { wall: view.now.since(Time::ZERO), cpus: cpus.collect(), vcpus: vcpus.collect(), events }
    }
}

/// Conservation: per CPU run + switching + idle = wall, per virtual CPU run + steal + halted = wall, and what the ones gave
/// the others got, on a host whose current stretches have just been closed. The first that does not hold, in words.
pub(super) fn imbalance(view: &View) -> Option<String> {
    let wall = view.now.since(Time::ZERO);
    for (number, cpu) in view.cpus.iter().enumerate() {
        let sum = cpu.run + cpu.switching + cpu.idle;
        if sum != wall {
            return Some(format!("CPU {number}: run, switching and idle make {sum}, the wall clock {wall}"));
        }
    }
    for (number, vcpu) in view.vcpus.iter().enumerate() {
        let sum = vcpu.run + vcpu.steal + vcpu.halted;
        if sum != wall {
            return Some(format!("virtual CPU {number}: run, steal and halted make {sum}, not {wall}"));
        }
    }
    let given = view.cpus.iter().fold(Span::ZERO, |sum, cpu| sum + cpu.run + cpu.switching);
    let got = view.vcpus.iter().fold(Span::ZERO, |sum, vcpu| sum + vcpu.run);
    (given != got).then(|| format!("the CPUs gave {given}, the virtual CPUs got {got}"))
}

/// A CPU that idles although somebody waits who may use it, in words.
pub(super) fn idle_for_nothing(view: &View) -> Option<String> {
    let waits = view.vcpus.iter().enumerate().filter(|(_, vcpu)| vcpu.state == State::Ready);
    waits
        .filter_map(|(number, vcpu)| {
            let affinity = &view.affinities[vcpu.affinity as usize];
            view.idle.first_common(affinity).map(|cpu| (number, cpu))
        })
        .map(|(number, cpu)| format!("CPU {cpu} idles at {} while virtual CPU {number} waits", view.now))
        .next()
}
