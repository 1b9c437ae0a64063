//! STUB: pictures of the probes net, mpi; their owner replaces this file.

use maud::{Markup, html};

use crate::model::results::RunResults;

pub(super) fn net(_results: &RunResults) -> Markup {
    html! {}
}

pub(super) fn mpi(_results: &RunResults) -> Markup {
    html! {}
}
