//! STUB: pictures of the probes ftq, wakeup, frames; their owner replaces this file.

use maud::{Markup, html};

use crate::model::results::RunResults;

pub(super) fn ftq(_results: &RunResults) -> Markup {
    html! {}
}

pub(super) fn wakeup(_results: &RunResults) -> Markup {
    html! {}
}

pub(super) fn frames(_results: &RunResults) -> Markup {
    html! {}
}
