//! STUB: made-up data of the probes linpack, build; their owner replaces this file.

use super::pretend::Maker;
use crate::model::detail::Detail;
use crate::model::params::{BuildParams, LinpackParams};

pub(super) fn linpack(_maker: &mut Maker, _params: &LinpackParams) -> Result<Detail, String> {
    Err("not made up yet".to_owned())
}

pub(super) fn build(_maker: &mut Maker, _params: &BuildParams) -> Result<Detail, String> {
    Err("not made up yet".to_owned())
}
