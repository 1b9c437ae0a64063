//! What a running job may ask of its host. Implemented by the agent over its link, and by tests.

use super::outside::ClockReading;
use super::quantity::Nanos;

/// When a job begins that waits for others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// There is no host that could say.
    AtOnce,
    /// At this moment of the host's `CLOCK_MONOTONIC`.
    At(Nanos),
    /// The job was to end before anything was said, or the host is gone.
    Never,
}

/// The host as seen from a running job.
pub trait Stage {
    /// Says that the loads are up and the probe is ready to begin.
    fn running(&mut self);

    /// Waits until the host says when to begin.
    fn await_start(&mut self) -> Start;

    /// Asks the host's clock over the link, `exchanges` times; none when it does not answer.
    fn ask_clock(&mut self, exchanges: u32) -> Option<ClockReading>;
}

/// A closure is a stage without a host: it hears that the job runs, every start is at once, no clock answers.
impl<F: FnMut()> Stage for F {
    fn running(&mut self) {
        self();
    }

    fn await_start(&mut self) -> Start {
        Start::AtOnce
    }

    fn ask_clock(&mut self, _exchanges: u32) -> Option<ClockReading> {
        None
    }
}
