//! STUB: made-up data of the probes share; their owner replaces this file.

use super::pretend::Maker;
use crate::model::detail::Detail;
use crate::model::params::ShareParams;

pub(super) fn share(_maker: &mut Maker, _params: &ShareParams) -> Result<Detail, String> {
    Err("not made up yet".to_owned())
}
