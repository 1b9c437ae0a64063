//! How long a member waits for the others.

use std::time::{Duration, Instant};

use crate::bounds::Bounds;
use crate::error::WorkError;

/// How often who waits looks whether to go on.
pub const LOOK: Duration = Duration::from_millis(50);

/// The end of all waiting for others. It lies before the job's own deadline, so that the reason that names the one who
/// did not come reaches the host, and not only that time was up.
#[derive(Debug, Clone, Copy)]
pub struct Patience<'a> {
    bounds: Bounds<'a>,
    began: Instant,
    until: Instant,
}

impl<'a> Patience<'a> {
    /// Nine tenths of what the job has left.
    pub fn of_job(bounds: Bounds<'a>) -> Self {
        let began = Instant::now();
        let left = bounds.left();
        // A deadline beyond what the clock can say is as good as a year.
        let until = began.checked_add(left.mul_f64(0.9)).unwrap_or(began + Duration::from_secs(365 * 86_400));
        Self { bounds, began, until }
    }

    /// Whether the host asked to end. One relaxed load: cheap enough for a measured loop.
    #[inline]
    pub fn is_stopped(&self) -> bool {
        self.bounds.is_stopped()
    }

    /// How much of it is left.
    pub fn left(&self) -> Duration {
        self.until.saturating_duration_since(Instant::now())
    }

    /// How long to sleep at once: until the next look, or the end.
    pub fn nap(&self) -> Duration {
        LOOK.min(self.left()).max(Duration::from_millis(1))
    }

    /// Goes on, or says what was waited for in vain; `what` reads after "waited 9.0 s for".
    ///
    /// # Errors
    /// [`WorkError::Stopped`], or that patience has run out.
    pub fn check(&self, what: impl FnOnce() -> String) -> Result<(), WorkError> {
        if self.bounds.is_stopped() {
            return Err(WorkError::Stopped);
        }
        if self.left().is_zero() {
            let waited = self.began.elapsed().as_secs_f64();
            return Err(WorkError::Unfit(format!(
                "waited in vain, {waited:.1} s after the probe began, for {}; see whether the other instances run and reach \
                 each other, or give the probe more time",
                what()
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use units::Millis;

    #[test]
    fn patience_ends_before_the_deadline_and_names_what_was_waited_for() {
        let stop = AtomicBool::new(false);
        let bounds = Bounds::starting_now(&stop, Millis::from_millis(1000));
        let patience = Patience::of_job(bounds);
        assert!(patience.left() < Duration::from_millis(901));
        while patience.check(|| "a friend".to_owned()).is_ok() {
            std::thread::sleep(Duration::from_millis(5));
        }
        let error = patience.check(|| "a friend".to_owned()).unwrap_err().to_string();
        assert!(error.contains("for a friend"), "{error}");
    }

    #[test]
    fn an_endless_deadline_is_no_overflow() {
        let stop = AtomicBool::new(false);
        let patience = Patience::of_job(Bounds::starting_now(&stop, Millis::from_millis(u64::MAX)));
        assert!(patience.check(String::new).is_ok());
    }
}
