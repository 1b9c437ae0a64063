//! STUB: made-up data of the probes ftq, wakeup, frames; their owner replaces this file.

use super::pretend::Maker;
use crate::model::detail::Detail;
use crate::model::params::{FramesParams, FtqParams, WakeupParams};

pub(super) fn ftq(_maker: &mut Maker, _params: &FtqParams) -> Result<Detail, String> {
    Err("not made up yet".to_owned())
}

pub(super) fn wakeup(_maker: &mut Maker, _params: &WakeupParams) -> Result<Detail, String> {
    Err("not made up yet".to_owned())
}

pub(super) fn frames(_maker: &mut Maker, _params: &FramesParams) -> Result<Detail, String> {
    Err("not made up yet".to_owned())
}
