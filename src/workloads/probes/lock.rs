//! STUB: the probe `lock`; its owner replaces this file.

use super::context::Context;
use crate::model::job::ProbeReport;
use crate::model::params::LockParams;
use crate::workloads::error::WorkError;

/// Measures.
///
/// # Errors
/// Why it could not be measured.
pub fn measure(_params: &LockParams, _context: &Context<'_>) -> Result<ProbeReport, WorkError> {
    Err(WorkError::Unfit("not built yet".to_owned()))
}
