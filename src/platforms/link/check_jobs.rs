//! STUB: rules for what the probes linpack, build send; their owner replaces this file.

use super::check::Checked;
use crate::model::detail::{BuildDetail, LinpackDetail};

pub(super) fn linpack(_detail: &LinpackDetail) -> Checked {
    Ok(())
}

pub(super) fn build(_detail: &BuildDetail) -> Checked {
    Ok(())
}
