//! What a scenario says of the measured run that its parameters were estimated from.

use serde::{Deserialize, Serialize};

use super::{Impossible, bounded_f64};

/// From which run a scenario's parameters were estimated, and what has to be known of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct CalibratedSpec {
    /// The run's experiment.
    pub run: String,
    /// Why the run is dirty: others worked on the host. Empty where it was clean. What a dirty run predicts is called dirty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub dirty: Vec<String>,
    /// What was measured but is in no parameter, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub not_estimated: Vec<String>,
}

/// Checks both ends of an interval at `path`: finite, in order, within the bounds.
pub(super) fn check_ends(
    path: &str,
    ends: Option<[f64; 2]>,
    (least, most): (f64, f64),
) -> Result<(), Impossible> {
    let Some([low, high]) = ends else { return Ok(()) };
    bounded_f64(path.to_owned(), low, least, most)?;
    bounded_f64(path.to_owned(), high, least, most)?;
    if low > high {
        return Err(Impossible::new(
            path,
            format!("{low} … {high} is no interval: wanted the lower end first"),
        ));
    }
    Ok(())
}
