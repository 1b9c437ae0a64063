//! Who ran where, when and at what: for time lines of short runs.

use super::view::{CpuId, VcpuId};
use crate::time::Time;
use model::simulation::StretchMode;

/// What a virtual CPU was at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// A program's own code.
    User,
    /// The guest's kernel.
    Kernel,
    /// Waiting for a lock.
    Spin,
    /// Being brought onto the CPU.
    Switch,
}

impl From<Mode> for StretchMode {
    fn from(mode: Mode) -> Self {
        match mode {
            Mode::User => Self::User,
            Mode::Kernel => Self::Kernel,
            Mode::Spin => Self::Spin,
            Mode::Switch => Self::Switch,
        }
    }
}

/// A stretch of time on a CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    /// Where.
    pub cpu: CpuId,
    /// Who.
    pub vcpu: VcpuId,
    /// Its begin.
    pub from: Time,
    /// Its end.
    pub to: Time,
    /// What it was at.
    pub mode: Mode,
}

/// The first stretches of a simulation.
#[derive(Debug, Clone, Default)]
pub struct Trace {
    most: usize,
    /// In the order of their ends.
    pub stretches: Vec<Stretch>,
    /// How many there was no room for.
    pub left_out: u64,
}

impl Trace {
    /// Keeps at most so many stretches.
    pub const fn new(most: usize) -> Self {
        Self { most, stretches: Vec::new(), left_out: 0 }
    }

    /// Takes down a stretch; joins it to the one before where nothing changed.
    pub(super) fn add(&mut self, stretch: Stretch) {
        if self.most == 0 || stretch.from >= stretch.to {
            return;
        }
        let same = |last: &&mut Stretch| {
            (last.cpu, last.vcpu, last.mode, last.to)
                == (stretch.cpu, stretch.vcpu, stretch.mode, stretch.from)
        };
        if let Some(last) = self.stretches.iter_mut().rev().take(4).find(same) {
            last.to = stretch.to;
        } else if self.stretches.len() < self.most {
            self.stretches.push(stretch);
        } else {
            self.left_out += 1;
        }
    }
}
