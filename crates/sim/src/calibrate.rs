//! Calibration: from a measured run to a scenario, whose parameters were estimated from it, with the load that it was not given.
//!
//! ```text
//!  loads of the share probe ─┬─ all but one ─► shares: policy, others ─► fit: quantum, turn, switch ─┬─► scenario.toml
//!                            │                 within: how sure each parameter, each prediction is ──┤   a case per load
//!                            └─ the fullest, held out: published figures beside what is predicted ───┘
//! ```
//! In a VM a thread also waits for the others on its virtual CPU. So the quantum of the host is looked for where no virtual
//! CPU has two threads, and the turn of the guest's own scheduler after that, where some have.
//!
//! The scenario is simulated like any other: `bulkhead simulate --from RUN` does nothing else with it.

mod fit;
mod load;
mod measured;
mod shares;
mod within;
mod write;

use measured::{Measured, Phase};
use model::journal::Cell;
use model::results::RunResults;
use probes::detail::{Detail, ShareDetail};
use units::Reason;
use units::names::PlatformKind;

use fit::Model;
use within::{Parameters, Predicted};

/// All rounds of a joint measurement of the share probe, in order.
pub type Rounds = (Cell, Vec<ShareDetail>);

/// What is wanted of a calibration.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Seed of everything random.
    pub seed: u64,
    /// Threads of the first instance and of each other one in the load that is held out; the fullest unless given.
    pub held_out: Option<(u32, u32)>,
}

/// A platform with its model.
struct Calibrated<'a> {
    measured: &'a Measured,
    held: &'a Phase,
    model: Model,
    parameters: Parameters,
    predicted: Predicted,
}

/// Calibrates a model for every platform of a run: the text of a scenario with all loads as cases, the one that was held out as
/// published figures. `rounds` are those of the run's journal; where they are not known, all are taken for one.
///
/// # Errors
/// The run has no share probe with at least three loads in which all instances worked, or not the one that is to be held out.
pub fn calibrate(run: &RunResults, rounds: &[Rounds], wanted: Wanted) -> Result<String, Reason> {
    let (mut all, mut left_out) = (Vec::new(), Vec::new());
    for cell in &run.cells {
        let Some(Detail::Share(pooled)) = &cell.detail else { continue };
        let kind =
            run.platforms.iter().find(|state| state.label == cell.cell.platform).map(|state| state.kind);
        let label = match cell.cell.layout {
            Some(layout) => format!("{} {layout}", cell.cell.platform),
            None => cell.cell.platform.clone(),
        };
        let known = rounds.iter().find(|(known, _)| *known == cell.cell).map(|(_, rounds)| rounds.as_slice());
        let known = known.filter(|rounds| !rounds.is_empty());
        let alone = std::slice::from_ref(pooled);
        let is_vm = kind == Some(PlatformKind::Vm);
        match Measured::of(label.clone(), run.host.cpus, is_vm, known.unwrap_or(alone)) {
            Some(measured) => all.push(measured),
            None => left_out.push(format!(
                "{label}: its rounds are not of the same loads, or of more than can be simulated"
            )),
        }
    }
    let mut calibrated = Vec::new();
    for measured in &all {
        match platform(measured, wanted) {
            Ok(platform) => calibrated.push(platform),
            Err(why) => left_out.push(why.to_string()),
        }
    }
    if calibrated.is_empty() {
        let why = if left_out.is_empty() { String::new() } else { format!(" ({})", left_out.join("; ")) };
        return Err(format!(
            "the run has no share probe with three loads or more in which all instances worked{why}: measure one with \
             [probe.share] in a layout such as 1x2"
        )
        .into());
    }
    Ok(write::scenario(run, &calibrated, left_out, wanted.seed))
}

fn platform(measured: &Measured, wanted: Wanted) -> Result<Calibrated<'_>, Reason> {
    let (held, rest) = measured.hold_out(wanted.held_out)?;
    let model = fit::learn(measured, &rest, wanted.seed)
        .ok_or_else(|| format!("{}: no policy can be fitted to what was measured", measured.label))?;
    let parameters = within::parameters(measured, &model, &rest, wanted.seed);
    let predicted = within::predicted(measured, &model, &rest, wanted.seed);
    Ok(Calibrated { measured, held, model, parameters, predicted })
}

#[cfg(test)]
mod tests;
