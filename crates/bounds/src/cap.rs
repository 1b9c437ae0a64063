//! Caps: the most that a VM gets, which guarantees it nothing by itself. Linux' `cpu.max` (Turner, Rao, Rao 2010), the cap of
//! Xen's credit scheduler per accounting period of 30 ms, `limit_cpus` of the simulator's policies.

use units::Nanos;

use crate::answer::{Malformed, NoBound, NoGuarantee};
use crate::exact::{Time, nanos};
use crate::supply::Supply;

/// A VM's cap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cap {
    quota: Nanos,
    period: Nanos,
    cpus: u64,
}

impl Cap {
    /// At most `quota` of CPU time per `period`, drawn by `cpus` virtual CPUs at a time.
    ///
    /// # Errors
    /// A period of 0 ns, or no CPUs.
    pub const fn new(quota: Nanos, period: Nanos, cpus: u64) -> Result<Self, Malformed> {
        if period.get() == 0 {
            return Err(Malformed::NoPeriod);
        }
        if cpus == 0 {
            return Err(Malformed::None { what: "virtual CPUs" });
        }
        Ok(Self { quota, period, cpus })
    }

    /// The most CPU time that all its virtual CPUs together get in any window of this length, so the most that it takes from
    /// others: what is left of one quota at the end of its period, and the next one at once. Without what a kernel may leave
    /// on the queues of its CPUs (Linux: up to 1 ms each, documentation `sched-bwc`). Saturates.
    pub fn most_in(&self, window: Nanos) -> Nanos {
        let [quota, period, cpus] = [self.quota.get(), self.period.get(), self.cpus].map(Time::from);
        // In CPU time that could be had: a window of w offers w × CPUs.
        let offered = Time::from(window.get()) * cpus;
        let per_period = period * cpus;
        let quota = quota.min(per_period);
        let first = offered.min(quota);
        let rest = offered - first;
        nanos(first + (rest / per_period) * quota + (rest % per_period).min(quota))
    }

    /// What one virtual CPU is guaranteed where nobody else wants its CPU: the cap alone makes it wait.
    ///
    /// # Errors
    /// Several draw from one quota that is not enough for all.
    pub fn supply(&self) -> Result<Supply, NoBound> {
        let all = Time::from(self.period.get()) * Time::from(self.cpus);
        if Time::from(self.quota.get()) >= all {
            return Ok(Supply::whole_cpu());
        }
        if self.cpus > 1 {
            return Err(NoBound::NoGuarantee(NoGuarantee::SharedQuota));
        }
        // The period is not 0: `new` saw to that.
        Ok(Supply::quota(self.quota, self.period).unwrap_or(Supply::whole_cpu()))
    }
}
