//! The experiments that come with the program: readable files in `experiments/`, embedded.

use model::experiment::{Experiment, ExperimentError};
use units::names::UnknownName;

const SHIPPED: [(&str, &str); 3] = [
    ("default", include_str!("../../../experiments/default.toml")),
    ("full", include_str!("../../../experiments/full.toml")),
    ("quick", include_str!("../../../experiments/quick.toml")),
];

/// Why a shipped experiment cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum ShippedError {
    /// There is none of this name.
    #[error("{0}; or give the path of a TOML file")]
    Unknown(#[from] UnknownName),
    /// It is not valid.
    #[error("shipped experiment: {0}")]
    Invalid(#[from] ExperimentError),
}

/// Names of the shipped experiments.
pub fn names() -> impl Iterator<Item = &'static str> {
    SHIPPED.iter().map(|(name, _)| *name)
}

/// Text of a shipped experiment, comments included.
///
/// # Errors
/// When there is none of this name; the nearest is named.
pub fn text(name: &str) -> Result<&'static str, UnknownName> {
    let known: Vec<&str> = names().collect();
    SHIPPED
        .iter()
        .find(|(known, _)| *known == name)
        .map(|(_, text)| *text)
        .ok_or_else(|| UnknownName::new("experiment", name, &known))
}

/// A shipped experiment.
///
/// # Errors
/// When there is none of this name; the nearest is named.
pub fn get(name: &str) -> Result<Experiment, ShippedError> {
    Ok(Experiment::from_toml(text(name)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use probes::ProbeKind;
    use units::names::{LoadKind, PlatformKind};

    #[test]
    fn every_shipped_experiment_is_valid_and_measures_on_every_real_platform() {
        for name in names() {
            let experiment = get(name).unwrap();
            assert_eq!(experiment.name, name);
            let kinds: Vec<PlatformKind> = experiment.platforms.iter().map(|spec| spec.kind).collect();
            assert_eq!(kinds, [PlatformKind::Native, PlatformKind::Container, PlatformKind::Vm]);
            let probes = experiment.probes.specs().len();
            assert!(probes >= 8 && (name != "full" || probes == ProbeKind::ALL.len()), "{name}: {probes}");
            assert_eq!(experiment.baseline_label(), "native");
        }
    }

    #[test]
    fn the_full_one_measures_every_probe_beside_every_load() {
        let full = get("full").unwrap();
        let cells = full.cells();
        for probe in ProbeKind::ALL {
            for load in LoadKind::ALL {
                let wanted = |cell: &&model::journal::Cell| {
                    cell.probe == *probe && cell.neighbour.is_some_and(|neighbour| neighbour.kind == *load)
                };
                assert_eq!(cells.iter().filter(wanted).count() % 3, 0);
                assert!(cells.iter().filter(wanted).count() >= 3, "{probe} beside {load}");
            }
        }
    }

    #[test]
    fn the_default_has_every_load_and_its_control() {
        let kinds: Vec<LoadKind> = get("default").unwrap().loads.iter().map(|load| load.kind).collect();
        assert_eq!(kinds, [LoadKind::Idle, LoadKind::Cpu, LoadKind::Memory, LoadKind::Disk]);
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_nearest() {
        let error = get("quik").unwrap_err().to_string();
        assert!(error.contains("did you mean \"quick\"?"), "{error}");
    }
}
