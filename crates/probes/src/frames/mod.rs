//! Frames of an interactive program: at every due time of a fixed rate the same work has to be done. A frame that is not
//! done when the next one is due is seen: the picture stands still. Source: Lourot's work on sharing a desktop.
//!
//! ```text
//!  due      0       1       2       3       4       5
//!           │▓▓▓▓   │▓▓▓▓   │▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓▓   │▓▓▓▓   │
//!                           └─ done after 3 and 4 ┘   frames 3 and 4 are missed; the next one is made at 5
//! ```
//!
//! The thread is an ordinary one and is not pinned, as those of such programs.

pub(crate) mod check;
pub mod detail;
pub(crate) mod metrics;
pub mod params;
pub(crate) mod pretend;
pub mod run;

use units::facts::MachineFacts;
use units::histogram::Histogram;

use self::detail::FramesDetail;
use self::params::FramesParams;
use crate::probe::{About, Cost, Lengths, Probe, more_rounds};

/// The probe.
#[derive(Debug, Clone, Copy)]
pub struct Frames;

impl Probe for Frames {
    type Params = FramesParams;
    type Detail = FramesDetail;

    const ABOUT: About = About::new(
        "Frames of an interactive program",
        "A program has the same work to do for every frame, at 60 frames per second. A frame that is done after the \
         next one is due is one that a person sees stutter.",
    );

    fn with_more_work(params: &FramesParams, percent: f64) -> Option<FramesParams> {
        Some(FramesParams { iterations: more_rounds(params.iterations, percent), ..params.clone() })
    }

    fn cost(params: &FramesParams, _facts: &MachineFacts) -> Cost {
        Cost { by_clock: f64::from(params.frames) / f64::from(params.rate_hz.max(1)), by_work: 0.0 }
    }

    fn tail(detail: &FramesDetail, metric: &str) -> Option<(Histogram, f64)> {
        metrics::tail(detail, metric)
    }

    fn lengths(detail: &FramesDetail) -> Option<Lengths> {
        Some(metrics::lengths(detail))
    }
}
