//! Programs that threads of simulated guests run. One file each; its header says what a sample is.

mod endless;
mod fixed;
mod fwq;
mod gap;

pub use endless::Endless;
pub use fixed::Fixed;
pub use fwq::Fwq;
pub use gap::Gap;

use crate::model::scenario::ProgramSpec;
use crate::sim::guest::Program;
use crate::sim::scenario::micros;
use crate::sim::time::Span;

/// The program that a scenario names, for a guest with so many locks.
pub fn make(spec: &ProgramSpec, _locks: u32) -> Box<dyn Program> {
    match spec {
        ProgramSpec::Endless => Box::new(Endless),
        ProgramSpec::Fixed { work_us } => Box::new(Fixed::new(micros(*work_us))),
        ProgramSpec::Fwq { work_us, samples, jitter_us } => {
            Box::new(Fwq::new(micros(*work_us), *samples, micros(*jitter_us)))
        }
        ProgramSpec::Gap { piece_us, duration_ms } => {
            Box::new(Gap::new(micros(*piece_us), Span::from_millis(duration_ms.get())))
        }
        // Written by the next commits.
        _ => Box::new(Endless),
    }
}
