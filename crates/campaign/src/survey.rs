//! Which platforms can be measured here? Asked once per session; the first answer decides which cells the run has.
//!
//! A platform that was unavailable when the run began stays out of it, even when it could be measured after a resume:
//! otherwise it would have no partners in the rounds already made. A platform that was measured and is now gone keeps
//! its cells; they are recorded as failed.

use super::error::CampaignError;
use super::event::Event;
use model::experiment::{Experiment, PlatformSpec};
use model::journal::PlatformState;
use platforms::{Cancel, Platform};

/// Property under which a resumed run says that a platform has gone since.
const GONE: &str = "gone since the run began";

/// Looks at every platform, or, after a resume, at those that were available before.
pub(super) fn survey(
    platforms: &mut [(PlatformSpec, Box<dyn Platform>)],
    before: Option<&[PlatformState]>,
    cancel: &Cancel,
    on_event: &mut dyn FnMut(&Event),
) -> Vec<PlatformState> {
    let mut states = Vec::new();
    for (spec, platform) in platforms {
        if cancel.is_cancelled() {
            break;
        }
        let old = before.and_then(|states| states.iter().find(|state| state.label == spec.label));
        let state = match old {
            Some(old) if old.unavailable.is_some() => old.clone(),
            _ => {
                on_event(&Event::PlatformSurveying { platform: spec.label.clone() });
                let found = platform.survey(cancel);
                let state = PlatformState { label: spec.label.clone(), kind: spec.kind, ..found };
                old.map_or_else(|| state.clone(), |old| carried_on(old, state.clone()))
            }
        };
        on_event(&Event::PlatformSurveyed { state: Box::new(state.clone()) });
        states.push(state);
    }
    states
}

/// The state of a platform that was measured before the resume.
fn carried_on(old: &PlatformState, mut new: PlatformState) -> PlatformState {
    if let Some(reason) = new.unavailable.take() {
        let mut state = old.clone();
        state.properties.retain(|(name, _)| name != GONE);
        state.properties.push((GONE.to_owned(), reason));
        return state;
    }
    new.facts = new.facts.or_else(|| old.facts.clone());
    new.start_ns = new.start_ns.or(old.start_ns);
    new
}

/// Why a platform that was measured before cannot be any more; none while it can.
pub(super) fn gone(state: &PlatformState) -> Option<&str> {
    state.properties.iter().find(|(name, _)| name == GONE).map(|(_, reason)| reason.as_str())
}

/// Labels of the platforms that are measured, in the experiment's order.
pub(crate) fn measured(states: &[PlatformState]) -> Vec<String> {
    states.iter().filter(|state| state.unavailable.is_none()).map(|state| state.label.clone()).collect()
}

/// The platform the others are compared with: the experiment's baseline, or the first available one.
pub(crate) fn baseline(experiment: &Experiment, states: &[PlatformState]) -> Option<String> {
    let measured = measured(states);
    let wanted = experiment.baseline_label();
    measured.iter().find(|label| *label == wanted).or_else(|| measured.first()).cloned()
}

/// The baseline, or why there is none; says so when it is not the one that was wanted.
pub(super) fn settle_baseline(
    experiment: &Experiment,
    states: &[PlatformState],
    on_event: &mut dyn FnMut(&Event),
) -> Result<String, CampaignError> {
    let why = |state: &PlatformState| state.unavailable.clone().unwrap_or_default();
    let Some(used) = baseline(experiment, states) else {
        let reasons = states.iter().map(|state| format!("{}: {}", state.label, why(state))).collect();
        return Err(CampaignError::NothingAvailable(reasons));
    };
    let wanted = experiment.baseline_label();
    if used != wanted {
        let reason = states.iter().find(|state| state.label == wanted).map(why).unwrap_or_default();
        on_event(&Event::BaselineReplaced { wanted: wanted.to_owned(), used: used.clone(), reason });
    }
    Ok(used)
}
