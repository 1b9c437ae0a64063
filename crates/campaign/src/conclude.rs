//! From a journal to results: after a run, and again whenever someone asks.

use std::path::Path;

use super::analysis::analyse;
use super::error::CampaignError;
use super::journal;
use super::rundir::{
    JOURNAL_FILE, RESULTS_FILE, RunDir, RunDirError, check_results_version, io_error, read_experiment,
    results_bytes,
};
use ::analysis::joint::whole_detail;
use ::analysis::suitability;
use model::classes::ClassSet;
use model::journal::Cell;
use model::results::RunResults;
use probes::ProbeKind;
use probes::detail::{Detail, ShareDetail};

/// Computes the results of a run, holds them against `classes`, writes `results.json` and removes what only a running campaign
/// needs. To be called after every [`super::run`], also an interrupted one.
///
/// # Errors
/// When the journal cannot be read, has no header yet, or the results cannot be written.
pub fn conclude(rundir: &RunDir, classes: &ClassSet) -> Result<RunResults, CampaignError> {
    let contents = rundir.read_journal()?;
    let mut results = analyse(rundir.experiment(), &contents)
        .ok_or_else(|| CampaignError::Empty(rundir.path().to_owned()))?;
    results.classes = suitability::judge(&results, classes);
    let json = serde_json::to_vec(&results).map_err(|error| RunDirError::Damaged {
        path: rundir.path().join(RESULTS_FILE),
        reason: format!("the results cannot be written as JSON: {error}"),
    })?;
    rundir.publish(RESULTS_FILE, &json)?;
    rundir.tidy()?;
    Ok(results)
}

/// Results of a run, for comparing: of a run directory computed afresh from its journal, of a `results.json` and of a
/// simulated scenario's folder as they are. The version is checked in all cases.
///
/// # Errors
/// When there is no run, or its files are damaged or of another version.
pub fn read_results(path: &Path) -> Result<RunResults, CampaignError> {
    if path.is_dir() {
        check_results_version(&path.join(RESULTS_FILE))?;
        return read_simulated(path)?.map_or_else(|| read_run(path), Ok);
    }
    read_file(path)
}

/// Results of a simulated scenario's folder, which has no journal; none when it is not one.
///
/// # Errors
/// When its results are damaged or of another version.
pub fn read_simulated(dir: &Path) -> Result<Option<RunResults>, CampaignError> {
    let file = dir.join(RESULTS_FILE);
    if dir.join(JOURNAL_FILE).exists() || !file.is_file() {
        return Ok(None);
    }
    read_file(&file).map(|results| Some(results).filter(|results| results.simulation.is_some()))
}

fn read_file(path: &Path) -> Result<RunResults, CampaignError> {
    check_results_version(path)?;
    let bytes = results_bytes(path).map_err(io_error("read", path))?;
    let results = serde_json::from_slice(&bytes)
        .map_err(|error| RunDirError::Damaged { path: path.to_owned(), reason: error.to_string() })?;
    Ok(results)
}

/// Computes the results of a run directory afresh from its journal and changes nothing; also while it is being run.
///
/// # Errors
/// When the directory holds no run, or its files are damaged or of another version.
pub fn read_run(dir: &Path) -> Result<RunResults, CampaignError> {
    let experiment = read_experiment(dir)?;
    let contents = journal::read(&dir.join(JOURNAL_FILE))?;
    analyse(&experiment, &contents).ok_or_else(|| CampaignError::Empty(dir.to_owned()))
}

/// Every round of the share probe of a run, cell by cell, in order; nothing where there is no journal: of a `results.json` alone.
///
/// # Errors
/// When the journal is damaged.
pub fn read_shares(path: &Path) -> Result<Vec<(Cell, Vec<ShareDetail>)>, CampaignError> {
    let mut cells: Vec<(Cell, Vec<ShareDetail>)> = Vec::new();
    if !path.is_dir() {
        return Ok(cells);
    }
    let mut measurements = journal::read(&path.join(JOURNAL_FILE))?.measurements;
    measurements.sort_by_key(|measurement| measurement.round);
    for measurement in measurements.iter().filter(|done| done.cell.probe == ProbeKind::Share) {
        let Some(Detail::Share(share)) = whole_detail(measurement) else { continue };
        match cells.iter_mut().find(|(cell, _)| *cell == measurement.cell) {
            Some((_, rounds)) => rounds.push(share),
            None => cells.push((measurement.cell.clone(), vec![share])),
        }
    }
    Ok(cells)
}
