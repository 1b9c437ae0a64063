//! STUB: made-up data of the probes exit, lock, pages; their owner replaces this file.

use super::pretend::Maker;
use crate::model::detail::Detail;
use crate::model::params::{ExitParams, LockParams, PagesParams};

pub(super) fn exit(_maker: &mut Maker, _params: &ExitParams) -> Result<Detail, String> {
    Err("not made up yet".to_owned())
}

pub(super) fn lock(_maker: &mut Maker, _params: &LockParams) -> Result<Detail, String> {
    Err("not made up yet".to_owned())
}

pub(super) fn pages(_maker: &mut Maker, _params: &PagesParams) -> Result<Detail, String> {
    Err("not made up yet".to_owned())
}
