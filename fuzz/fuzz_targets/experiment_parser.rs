//! Any text a user may hand over as an experiment: parsed or refused, never a panic; what is accepted reads back the same.
#![no_main]

use bulkhead::model::experiment::Experiment;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(experiment) = Experiment::from_toml(text) {
        let written = experiment.to_toml().expect("what was read can be written");
        assert_eq!(Experiment::from_toml(&written).expect("what was written can be read"), experiment);
        assert!(!experiment.cells().is_empty());
    }
});
