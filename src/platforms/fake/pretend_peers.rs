//! STUB: made-up data of the probes net, mpi; their owner replaces this file.

use super::pretend::Maker;
use crate::model::detail::Detail;
use crate::model::params::{MpiParams, NetParams};

pub(super) fn net(_maker: &mut Maker, _params: &NetParams) -> Result<Detail, String> {
    Err("not made up yet".to_owned())
}

pub(super) fn mpi(_maker: &mut Maker, _params: &MpiParams) -> Result<Detail, String> {
    Err("not made up yet".to_owned())
}
