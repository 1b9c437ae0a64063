//! What would be measured, in which order, and how long it would take; nothing is measured.

use std::path::Path;
use std::time::Duration;

use super::durations::Durations;
use super::error::CampaignError;
use super::event::Event;
use super::foresee::{Sight, Spreads, sights};
use super::history::History;
use super::predict::{Oracle, plan_of};
use super::survey::{settle_baseline, survey};
use model::experiment::{Experiment, PlatformSpec};
use model::journal::{Cell, PlatformState};
use model::prediction::Prediction;
use platforms::{Cancel, Platform};
use units::facts::MachineFacts;

/// A run that was not made.
#[derive(Debug, Clone, PartialEq)]
pub struct Preview {
    /// What the platforms would be.
    pub platforms: Vec<PlatformState>,
    /// The first round in its order, with how long each measurement takes and whether that is known from earlier runs.
    pub first_round: Vec<(Cell, Duration, bool)>,
    /// How long all of it would take, starting the instances included.
    pub predicted: Prediction,
    /// Which differences it would see, per probe and platform that is compared.
    pub sights: Vec<Sight>,
}

/// Looks at the platforms and plans. Unlike a run it has no platform work: of a platform that was never measured here only
/// typical costs are known.
///
/// # Errors
/// When nothing can be measured here.
pub fn preview(
    experiment: &Experiment,
    mut platforms: Vec<(PlatformSpec, Box<dyn Platform>)>,
    host: &MachineFacts,
    durations: &Path,
    cancel: &Cancel,
    on_event: &mut dyn FnMut(&Event),
) -> Result<Preview, CampaignError> {
    let states = survey(&mut platforms, None, cancel, on_event);
    let baseline = settle_baseline(experiment, &states, on_event)?;
    let spreads = Spreads::beside(durations);
    let durations = Durations::read(durations);
    let oracle = Oracle::new(experiment, host, &states, &durations);
    let plan = plan_of(experiment, host, &states, &baseline);
    let order = plan.order(0);
    let predicted = oracle.predict(&plan, &History::default(), 0, &order);
    let costs = oracle.costs(&order);
    let first_round = order
        .into_iter()
        .map(|cell| {
            let (duration, is_known) = costs.get(&cell).copied().unwrap_or_default();
            (cell, duration, is_known)
        })
        .collect();
    let sights = sights(experiment, &plan, &oracle, &spreads);
    Ok(Preview { platforms: states, first_round, predicted, sights })
}
