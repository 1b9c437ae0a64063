//! How much silence is allowed of an agent, and where.

use std::time::Duration;

/// Without a sign of life for this long, an agent hangs. Signs of life come every second; ten of them are enough to
/// outlast a host that swaps or a guest that is translated. [`Allowances::stretched`] stretches it.
pub const SILENCE_ALLOWED: Duration = Duration::from_secs(10);
/// The agent gives up at the job's deadline; the host this much later, so that the agent can say why.
pub const DEADLINE_GRACE: Duration = Duration::from_secs(5);
/// How long a job without a probe may take to end after it was told to.
pub const STOP_GRACE: Duration = Duration::from_secs(10);

/// How much silence is allowed where.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Allowances {
    /// Without a sign of life while a job runs.
    pub silence: Duration,
    /// After the deadline of a job.
    pub after_deadline: Duration,
    /// After a job without a probe was told to stop.
    pub after_stop: Duration,
}

impl Default for Allowances {
    fn default() -> Self {
        Self { silence: SILENCE_ALLOWED, after_deadline: DEADLINE_GRACE, after_stop: STOP_GRACE }
    }
}

impl Allowances {
    /// Every allowance `factor` times as long, at least as long as it is.
    #[must_use]
    pub fn stretched(self, factor: u32) -> Self {
        let factor = factor.max(1);
        Self {
            silence: self.silence * factor,
            after_deadline: self.after_deadline * factor,
            after_stop: self.after_stop * factor,
        }
    }
}
