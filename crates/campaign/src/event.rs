//! What the runner tells while it runs. It only tells: progress bar, log and tests are consumers, none is asked.

use std::time::Duration;

use super::decide::Decided;
use super::eta::Eta;
use model::journal::{Cell, Failure, PlatformState};
use model::prediction::Prediction;
use model::results::LostLine;
use units::Nanos;

/// Why a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// Every figure is decided; where verdicts were to be, they are, or never will be.
    Settled,
    /// `repeat.max` rounds were made.
    RoundsUsedUp,
    /// `repeat.budget_s` was spent.
    BudgetUsedUp,
    /// The user interrupted.
    Interrupted,
}

impl Stop {
    /// For people.
    pub const fn as_sentence(self) -> &'static str {
        match self {
            Self::Settled => "every figure is decided",
            Self::RoundsUsedUp => "repeat.max rounds were made",
            Self::BudgetUsedUp => "repeat.budget_s was spent",
            Self::Interrupted => "interrupted; what was finished is kept",
        }
    }
}

/// What an instance is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// It is measured.
    Measured,
    /// It is one of several that measure at once: its number among them, from 0.
    Member(u32),
    /// It carries the load in a second instance.
    Neighbour,
    /// It carries the load on the host.
    HostLoad,
}

/// One thing that happened.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A run is continued.
    Resumed {
        /// Measurements it has already.
        measurements: usize,
        /// What the killed run had left behind and was removed now.
        swept: Vec<String>,
        /// Lines of its journal that cannot be read.
        lost: Vec<LostLine>,
    },
    /// A platform is about to be looked at; trying KVM takes seconds.
    PlatformSurveying {
        /// Its label.
        platform: String,
    },
    /// A platform was looked at.
    PlatformSurveyed {
        /// What was found.
        state: Box<PlatformState>,
    },
    /// The baseline cannot be measured here; another platform takes its place.
    BaselineReplaced {
        /// Label wanted.
        wanted: String,
        /// Label used.
        used: String,
        /// Why.
        reason: String,
    },
    /// Nothing is known of a platform's speed: it works for a moment before the time is predicted.
    PilotStarted {
        /// Label of the platform.
        platform: String,
    },
    /// How long the run, or the rest of it, will take.
    Predicted {
        /// The prediction.
        predicted: Prediction,
    },
    /// How long it took.
    Took {
        /// What was predicted.
        predicted: Prediction,
        /// From the prediction until every instance was ended.
        took: Duration,
    },
    /// What was learnt for the next prediction cannot be kept.
    NotLearnt {
        /// Why.
        reason: String,
    },
    /// An instance is being started.
    InstanceStarting {
        /// Label of its platform.
        platform: String,
        /// What it is for.
        role: Role,
    },
    /// Its agent answered.
    InstanceStarted {
        /// Label of its platform.
        platform: String,
        /// What it is for.
        role: Role,
        /// How long that took.
        start_time: Nanos,
    },
    /// A measurement begins.
    MeasurementStarted {
        /// What is measured.
        cell: Cell,
        /// In which round.
        round: u32,
        /// Its number in the run, from 1.
        index: usize,
        /// Measurements in all that are certain by now; grows when further rounds are needed.
        planned_total: usize,
        /// How long the rest will take; none before anything was measured.
        eta: Option<Eta>,
    },
    /// A measurement is done and in the journal.
    MeasurementDone {
        /// What was measured.
        cell: Cell,
        /// In which round.
        round: u32,
        /// How long it took.
        duration: Duration,
    },
    /// One of the instances of a measurement broke; the others came through.
    InstanceBroke {
        /// What was measured.
        cell: Cell,
        /// In which round.
        round: u32,
        /// Which one, and how it broke.
        failure: Failure,
    },
    /// A measurement broke, and that is in the journal.
    MeasurementFailed {
        /// What was measured.
        cell: Cell,
        /// In which round.
        round: u32,
        /// How it broke.
        failure: Failure,
    },
    /// How far it is; told now and then.
    Decided {
        /// Groups whose main figure is known as precisely as asked.
        figures: usize,
        /// Of so many.
        of_figures: usize,
        /// Verdicts on classes of work.
        verdicts: Decided,
    },
    /// The run ends.
    Finished {
        /// Why.
        stop: Stop,
    },
}
