//! How long a job may last: until the host says stop, or until its deadline, whichever comes first.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::error::WorkError;
use units::Millis;

/// The two limits of a job. Every loop of a probe asks [`Bounds::check`] now and then.
#[derive(Debug, Clone, Copy)]
pub struct Bounds<'a> {
    stop: &'a AtomicBool,
    began: Instant,
    deadline: Millis,
}

impl<'a> Bounds<'a> {
    /// The job begins now.
    pub fn starting_now(stop: &'a AtomicBool, deadline: Millis) -> Self {
        Self { stop, began: Instant::now(), deadline }
    }

    /// Whether the host asked to end. One relaxed load: cheap enough for a measuring loop.
    #[inline]
    pub fn is_stopped(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// How much time is left.
    pub fn left(&self) -> Duration {
        self.deadline.to_duration().saturating_sub(self.began.elapsed())
    }

    /// An error when the job is to end.
    ///
    /// # Errors
    /// [`WorkError::Stopped`] or [`WorkError::Deadline`].
    pub fn check(&self) -> Result<(), WorkError> {
        if self.is_stopped() {
            Err(WorkError::Stopped)
        } else if self.left().is_zero() {
            Err(WorkError::Deadline { deadline: self.deadline })
        } else {
            Ok(())
        }
    }

    /// The error that ends a loop which has already seen that a limit is reached.
    pub fn broken(&self) -> WorkError {
        self.check().err().unwrap_or(WorkError::Deadline { deadline: self.deadline })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stop_comes_before_the_deadline() {
        let stop = AtomicBool::new(false);
        assert!(Bounds::starting_now(&stop, Millis::from_millis(60_000)).check().is_ok());
        let late = Bounds::starting_now(&stop, Millis::from_millis(0));
        assert!(matches!(late.check(), Err(WorkError::Deadline { .. })));
        stop.store(true, Ordering::Relaxed);
        assert_eq!(late.check().unwrap_err().to_string(), "stopped");
    }
}
