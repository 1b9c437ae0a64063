//! Requirements that a user wrote, and journals that anybody could have.

use std::path::Path;
use std::sync::OnceLock;

use bulkhead::model::requirement::{RequirementFile, Requirements};
use bulkhead::model::verification::{Basis, VERIFICATION_VERSION, Verification};
use bulkhead::report::terminal::Style;
use bulkhead::report::{verification, verification_page};
use bulkhead::units::Nanos;
use bulkhead::verify::conclude::conclude;
use bulkhead::verify::journal::read_from;
use bulkhead::verify::{junit, trace};

use super::assert_harmless;

/// What is read is written so that the same is read back, and has a test for each requirement that wants one.
pub fn requirements(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else { return false };
    match RequirementFile::from_toml(text, "plant") {
        Ok(file) => {
            let written = toml::to_string(&file).expect("it can be written");
            assert_eq!(RequirementFile::from_toml(&written, "").as_ref(), Ok(&file), "{written}");
            let wanted = file.requirements.values().filter(|one| one.metric.is_some()).count();
            let tested: usize =
                trace::of(&file.requirements).iter().map(|test| test.requirements.len()).sum();
            assert_eq!(wanted, tested);
            true
        }
        Err(errors) => {
            assert!(!errors.0.is_empty());
            assert_harmless(&errors.to_string());
            false
        }
    }
}

/// Whatever a journal says, it is refused with its line, or judged, and shown without harm.
pub fn verify_journal(bytes: &[u8]) -> bool {
    static WANTED: OnceLock<Requirements> = OnceLock::new();
    let wanted = WANTED.get_or_init(|| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/verify/requirements.toml");
        let text = std::fs::read_to_string(path).expect("it is there");
        RequirementFile::from_toml(&text, "").expect("it is right").requirements
    });
    let Ok(runs) = read_from(bytes, Path::new("journal.jsonl")) else { return false };
    let today = runs.last().map_or_else(Basis::new, |run| run.header.basis.clone());
    let (requirements, tests) = conclude(wanted, &runs, &today);
    assert_eq!(requirements.len(), wanted.len());
    let said = Verification {
        schema_version: VERIFICATION_VERSION,
        bulkhead_version: String::new(),
        set: "plant".to_owned(),
        started_unix_ns: Nanos::ZERO,
        took_ns: Nanos::ZERO,
        is_whole: true,
        basis: today,
        requirements,
        tests,
        history: Vec::new(),
    };
    assert_harmless(&verification::screen(&said, Style { width: 80, colour: false }, true));
    assert!(verification_page::html(&said).len() < 1 << 22);
    let _ = junit::xml(&said);
    !runs.is_empty()
}
