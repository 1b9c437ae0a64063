//! STUB: figures of the probes ftq, wakeup, frames; their owner replaces this file.

use crate::model::detail::{FramesDetail, FtqDetail, WakeupDetail};
use crate::model::metric::Metric;

pub(super) fn ftq(_detail: &FtqDetail) -> Vec<Metric> {
    Vec::new()
}

pub(super) fn wakeup(_detail: &WakeupDetail) -> Vec<Metric> {
    Vec::new()
}

pub(super) fn frames(_detail: &FramesDetail) -> Vec<Metric> {
    Vec::new()
}
