//! Did the load do anything? A measurement beside a load without effect was made undisturbed and must not pass for one
//! under load.

use super::measure::failure;
use model::journal::{FailureKind, Outcome};
use probes::job::PlacedDose;
use units::Nanos;
use units::names::{LoadKind, LoadPlace};

/// After this long each part of a mixed load has had its turn, in a translated guest on a busy host as well.
const A_TURN_FOR_EACH: Nanos = Nanos::from_nanos(5_000_000_000);

/// A measurement beside a load that did nothing was made undisturbed: it does not count as one under load, in none of its
/// instances.
pub(super) fn under_load(outcome: Outcome, others: &[Outcome], doses: &[PlacedDose]) -> Outcome {
    let is_done = |outcome: &Outcome| matches!(outcome, Outcome::Done(_));
    match doses.iter().find_map(without_effect) {
        Some(reason) if is_done(&outcome) || others.iter().any(is_done) => {
            Outcome::Failed(failure(FailureKind::Neighbour, reason))
        }
        _ => outcome,
    }
}

/// Says so when a load did nothing. One that was mixed of several may leave a part out while its turn has not come,
/// but not for long.
fn without_effect(placed: &PlacedDose) -> Option<String> {
    let dose = &placed.dose;
    if dose.kind == LoadKind::Idle {
        return None;
    }
    let place = match placed.place {
        LoadPlace::Same => "in the measured instance",
        LoadPlace::Second => "in a second instance",
        LoadPlace::Host => "on the host",
    };
    let is_nothing = |rate_per_s: f64| rate_per_s.is_nan() || rate_per_s <= 0.0;
    let (who, unit) = if is_nothing(dose.rate_per_s) {
        (format!("the {} load", dose.kind), &dose.unit)
    } else if dose.elapsed_ns >= A_TURN_FOR_EACH {
        let part = dose.parts.iter().find(|part| is_nothing(part.rate_per_s))?;
        (format!("the {} part of the {} load", part.kind, dose.kind), &part.unit)
    } else {
        return None;
    };
    Some(format!(
        "{who} {place} did nothing: 0 {unit} with {} threads in {}, so this was not measured beside it; let the probe \
         run longer, or look at what keeps that load from working",
        dose.threads, dose.elapsed_ns
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use probes::job::{Dose, DosePart};

    fn dose(kind: LoadKind, rate_per_s: f64, elapsed_ms: u64, parts: &[f64]) -> PlacedDose {
        let of = |((kind, unit), rate_per_s): (&(LoadKind, &str), &f64)| DosePart {
            kind: *kind,
            rate_per_s: *rate_per_s,
            unit: (*unit).to_owned(),
        };
        let dose = Dose {
            kind,
            threads: 2,
            elapsed_ns: Nanos::from_nanos(elapsed_ms * 1_000_000),
            rate_per_s,
            unit: kind.unit().to_owned(),
            cpu_time_ns: Nanos::ZERO,
            way: None,
            interrupts_per_s: None,
            soft_interrupts_per_s: None,
            parts: kind.parts().iter().zip(parts).map(of).collect(),
        };
        PlacedDose { place: LoadPlace::Second, dose }
    }

    #[test]
    fn a_load_or_part_that_did_nothing_is_named() {
        assert_eq!(without_effect(&dose(LoadKind::Idle, 0.0, 9000, &[])), None);
        assert_eq!(without_effect(&dose(LoadKind::Cpu, 1e-3, 1, &[])), None);
        for nothing in [0.0, -1.0, f64::NAN] {
            let reason = without_effect(&dose(LoadKind::Cpu, nothing, 1, &[])).unwrap();
            assert!(reason.contains("the cpu load in a second instance did nothing: 0 rounds"), "{reason}");
        }
        let parts = [1.0, 1.0, 1.0, 0.0];
        assert_eq!(without_effect(&dose(LoadKind::Mixed, 3.0, 100, &parts)), None, "its turn may come");
        let reason = without_effect(&dose(LoadKind::Mixed, 3.0, 5001, &parts)).unwrap();
        assert!(reason.contains("the network part of the mixed load"), "{reason}");
    }

    #[test]
    fn a_failure_stays_what_it_was() {
        let broken = Outcome::Failed(failure(FailureKind::Died, "killed".to_owned()));
        assert_eq!(under_load(broken.clone(), &[], &[dose(LoadKind::Cpu, 0.0, 1, &[])]), broken);
    }
}
