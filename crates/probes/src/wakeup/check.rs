//! What is believed of the wakeup probe's outcome, and whether it saw anything at all.

use crate::check::{Checked, at_most, because, histogram, some_time, stretches};
use crate::detail::{WORST_KEPT, WakeupDetail, WakeupThread};

/// Most threads of the wake-up probe.
const MOST_THREADS: usize = 1024;

pub(crate) fn check(detail: &WakeupDetail) -> Checked {
    some_time("wakeup.period_ns", detail.period_ns)?;
    at_most("wakeup.priority", detail.priority.unwrap_or(0) as usize, 99)?;
    at_most("wakeup.threads", detail.threads.len(), MOST_THREADS)?;
    detail.threads.iter().try_for_each(thread)
}

fn thread(thread: &WakeupThread) -> Checked {
    histogram("wakeup.service_ns", &thread.service_ns)?;
    histogram("wakeup.response_ns", &thread.response_ns)?;
    stretches("wakeup.worst", &thread.worst)?;
    at_most("wakeup.witnessed", thread.witnessed.len(), WORST_KEPT)?;
    let (service, response) = (thread.service_ns.count(), thread.response_ns.count());
    if response != thread.due {
        return Err(
            format!("wakeup: {} activations were due, {response} have a response time", thread.due).into()
        );
    }
    if service.checked_add(thread.missed) != Some(thread.due) {
        return Err(format!(
            "wakeup: {service} wake-ups and {} missed activations are not the {} that were due",
            thread.missed, thread.due
        )
        .into());
    }
    Ok(())
}

pub(crate) fn saw_nothing(detail: &WakeupDetail) -> Option<String> {
    because(
        detail.threads.is_empty() || detail.threads.iter().any(|thread| thread.due == 0),
        "no activation came due on one of the CPUs",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Nanos;
    use units::histogram::Histogram;

    fn honest() -> WakeupThread {
        WakeupThread {
            cpu: None,
            began_ns: None,
            due: 3,
            missed: 1,
            service_ns: Histogram::from_values([10, 150]),
            response_ns: Histogram::from_values([10, 150, 50]),
            worst: vec![],
            witnessed: vec![],
        }
    }

    fn wakeups(thread: WakeupThread) -> WakeupDetail {
        WakeupDetail { period_ns: Nanos::from_nanos(100), priority: Some(80), threads: vec![thread] }
    }

    #[test]
    fn wake_ups_that_do_not_add_up_are_refused() {
        assert_eq!(check(&wakeups(honest())), Ok(()));
        let forged = [
            WakeupThread { missed: 0, ..honest() },
            WakeupThread { missed: u64::MAX, ..honest() },
            WakeupThread { due: 4, ..honest() },
            WakeupThread { response_ns: Histogram::default(), ..honest() },
        ];
        for thread in forged {
            assert!(check(&wakeups(thread.clone())).is_err(), "{thread:?}");
        }
        assert!(check(&WakeupDetail { period_ns: Nanos::ZERO, ..wakeups(honest()) }).is_err());
        assert!(check(&WakeupDetail { priority: Some(100), ..wakeups(honest()) }).is_err());
    }
}
