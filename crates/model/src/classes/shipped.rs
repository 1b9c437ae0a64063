//! The classes that come with the program: readable files in `classes/`, embedded.

use super::ClassSet;
use crate::experiment::ExperimentError;

const SHIPPED: [(&str, &str); 4] = [
    ("real-time", include_str!("../../../../classes/real-time.toml")),
    ("hpc", include_str!("../../../../classes/hpc.toml")),
    ("htc", include_str!("../../../../classes/htc.toml")),
    ("interactive", include_str!("../../../../classes/interactive.toml")),
];

/// Names and texts of the shipped files, in the order they are shown. Each file holds the class of its name.
pub const fn shipped_texts() -> &'static [(&'static str, &'static str)] {
    &SHIPPED
}

/// All shipped classes in one set.
///
/// # Errors
/// When a shipped file is broken, which a test excludes.
pub fn shipped() -> Result<ClassSet, ExperimentError> {
    SHIPPED
        .iter()
        .try_fold(ClassSet::default(), |set, (_, text)| Ok(set.extended_by(ClassSet::from_toml(text)?)))
}
