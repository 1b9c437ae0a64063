//! Programs that threads of simulated guests run. One file each; its header says what a sample is.

mod compile;
mod endless;
mod fixed;
mod ftq;
mod fwq;
mod gap;
mod io;
mod periodic;
mod samples;
#[cfg(test)]
mod tests;
mod unmap;

pub use compile::{Compile, CompilePlan};
pub use endless::Endless;
pub use fixed::Fixed;
pub use ftq::Ftq;
pub use fwq::Fwq;
pub use gap::Gap;
pub use io::Io;
pub use periodic::{Periodic, Task};
pub use samples::{Samples, room};
pub use unmap::Unmap;

use crate::guest::Program;
use crate::random::Stream;
use crate::scenario::micros;
use crate::time::Span;
use model::scenario::{ProgramSpec, TaskSpec};

/// The program that a scenario names, for a guest with so many locks; it keeps so many samples.
pub fn make(spec: &ProgramSpec, locks: u32, room: usize) -> Box<dyn Program> {
    let samples = Samples::new(room);
    match spec {
        ProgramSpec::Endless {} => Box::new(Endless),
        ProgramSpec::Fixed { work_us } => Box::new(Fixed::new(micros(*work_us))),
        ProgramSpec::Fwq { work_us, samples: count, jitter_us } => {
            Box::new(Fwq::new(micros(*work_us), *count, micros(*jitter_us), samples))
        }
        ProgramSpec::Gap { piece_us, duration_ms } => {
            Box::new(Gap::new(micros(*piece_us), Span::from_millis(duration_ms.get()), samples))
        }
        ProgramSpec::Ftq { quantum_us, samples: count } => {
            Box::new(Ftq::new(micros(*quantum_us), *count, samples))
        }
        ProgramSpec::Periodic(task) => Box::new(Periodic::new(task_of(task), samples)),
        ProgramSpec::Io { work_us, wait_us, random, rounds } => {
            Box::new(Io::new(micros(*work_us), micros(*wait_us), *random, *rounds, samples))
        }
        ProgramSpec::Compile { work_us, between_ns, kernel_ns, hold_ns, locks_per_entry, hot_share } => {
            Box::new(Compile::new(CompilePlan {
                work: micros(*work_us),
                between: (*between_ns).into(),
                kernel: (*kernel_ns).into(),
                hold: (*hold_ns).into(),
                locks_per_entry: *locks_per_entry,
                hot_share: *hot_share,
                locks,
            }))
        }
        ProgramSpec::Unmap { work_us, between_ns } => {
            Box::new(Unmap::new(micros(*work_us), (*between_ns).into(), samples))
        }
    }
}

fn task_of(spec: &TaskSpec) -> Task {
    Task {
        period: micros(spec.period_us),
        apart: micros(spec.apart_us),
        offset: micros(spec.offset_us),
        jitter: micros(spec.jitter_us),
        work: micros(spec.work_us),
        deadline: micros(spec.deadline_us()),
        is_aborted: spec.abort,
        jobs: spec.jobs.into(),
    }
}

/// An exponential length with this mean, in whole nanoseconds.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "positive, and saturating is right"
)]
fn exponential(mean: Span, random: &mut Stream) -> Span {
    Span::from_nanos(random.exponential(mean.as_f64()).round() as u64)
}
