//! STUB: rules for what the probes ftq, wakeup, frames send; their owner replaces this file.

use super::check::Checked;
use crate::model::detail::{FramesDetail, FtqDetail, WakeupDetail};

pub(super) fn ftq(_detail: &FtqDetail) -> Checked {
    Ok(())
}

pub(super) fn wakeup(_detail: &WakeupDetail) -> Checked {
    Ok(())
}

pub(super) fn frames(_detail: &FramesDetail) -> Checked {
    Ok(())
}
