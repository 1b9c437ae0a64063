//! STUB: pictures of the probes linpack, build; their owner replaces this file.

use maud::{Markup, html};

use crate::model::results::RunResults;

pub(super) fn linpack(_results: &RunResults) -> Markup {
    html! {}
}

pub(super) fn build(_results: &RunResults) -> Markup {
    html! {}
}
