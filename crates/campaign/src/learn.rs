//! Takes down how long a session's starts and measurements really take, for the next run's prediction.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use super::durations::Durations;
use super::foresee::Spreads;
use super::rundir::{RunDirError, io_error};
use model::prediction::Prediction;

/// What one session learns.
pub(super) struct Learner {
    path: Option<PathBuf>,
    took: BTreeMap<String, Vec<Duration>>,
    spreads: BTreeMap<String, f64>,
    predicted: Option<(Prediction, Instant)>,
}

impl Learner {
    /// Learns for the file at `path`, if there is one.
    pub(super) fn new(path: Option<PathBuf>) -> Self {
        Self { path, took: BTreeMap::new(), spreads: BTreeMap::new(), predicted: None }
    }

    /// What earlier runs learnt.
    pub(super) fn known(&self) -> Durations {
        self.path.as_deref().map(Durations::read).unwrap_or_default()
    }

    /// The session begins to measure now.
    pub(super) fn begin(&mut self, prediction: Prediction) {
        self.predicted = Some((prediction, Instant::now()));
    }

    /// Something under this key took so long.
    pub(super) fn add(&mut self, key: Option<String>, took: Duration) {
        if let Some(key) = key {
            self.took.entry(key).or_default().push(took);
        }
    }

    /// The pairs of the whole run scattered so, by key.
    pub(super) fn add_spreads(&mut self, spreads: BTreeMap<String, f64>) {
        self.spreads.extend(spreads);
    }

    /// What was predicted and how long it has taken so far.
    pub(super) fn so_far(&self) -> Option<(Prediction, Duration)> {
        self.predicted.map(|(prediction, began)| (prediction, began.elapsed()))
    }

    /// Writes down what was learnt. That this cannot be done is no reason to lose a run.
    pub(super) fn save(&self) -> Result<(), RunDirError> {
        let Some(path) = self.path.as_deref().filter(|_| !self.took.is_empty()) else { return Ok(()) };
        // Read again: another run may have learnt meanwhile.
        let mut durations = Durations::read(path);
        durations.learn(&self.took);
        durations.write(path).map_err(io_error("write", path))?;
        if self.spreads.is_empty() {
            return Ok(());
        }
        Spreads::learn(path, &self.spreads).map_err(io_error("write a file beside", path))
    }
}
