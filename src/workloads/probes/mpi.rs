//! STUB: the probe `mpi`; its owner replaces this file.

use super::context::Context;
use crate::model::job::ProbeReport;
use crate::model::params::MpiParams;
use crate::workloads::error::WorkError;

/// Measures.
///
/// # Errors
/// Why it could not be measured.
pub fn measure(_params: &MpiParams, _context: &Context<'_>) -> Result<ProbeReport, WorkError> {
    Err(WorkError::Unfit("not built yet".to_owned()))
}
