//! Any text a user may hand over as a scenario: read or refused, never a panic; every case of what is read can be begun.
#![no_main]

use bulkhead::model::scenario::cases;
use bulkhead::sim::scenario::{Options, Study};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|text: &str| {
    if let Ok(cases) = cases(text, &[]) {
        for case in &cases {
            case.scenario.check().expect("what was read can be simulated");
        }
        let _ = Study::new(cases, Options::default());
    }
});
