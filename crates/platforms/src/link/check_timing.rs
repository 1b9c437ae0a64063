//! Rules for what the probes ftq, wakeup, frames send.

use super::check::{Checked, MOST_VALUES, at_most, histogram, stretches};
use model::detail::{FramesDetail, FtqDetail, WORST_KEPT, WakeupDetail, WakeupThread};
use model::units::Nanos;

/// Most threads of the wake-up probe.
const MOST_THREADS: usize = 1024;

pub(super) fn ftq(detail: &FtqDetail) -> Checked {
    some_time("ftq.quantum_ns", detail.quantum_ns)?;
    at_most("ftq.work", detail.work.len(), MOST_VALUES)
}

pub(super) fn wakeup(detail: &WakeupDetail) -> Checked {
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
        return Err(format!("wakeup: {} activations were due, {response} have a response time", thread.due));
    }
    if service.checked_add(thread.missed) != Some(thread.due) {
        return Err(format!(
            "wakeup: {service} wake-ups and {} missed activations are not the {} that were due",
            thread.missed, thread.due
        ));
    }
    Ok(())
}

pub(super) fn frames(detail: &FramesDetail) -> Checked {
    some_time("frames.period_ns", detail.period_ns)?;
    at_most("frames.frame_ns", detail.frame_ns.len(), MOST_VALUES)?;
    if detail.frame_ns.len() != detail.work_ns.len() {
        return Err(format!(
            "frames: {} frames have {} times of work",
            detail.frame_ns.len(),
            detail.work_ns.len()
        ));
    }
    // Also keeps a claim of frames that no time was there for from being believed.
    let passed = detail
        .frame_ns
        .iter()
        .map(|frame| model::detail::due_times_passed(*frame, detail.period_ns))
        .fold(0, u64::saturating_add);
    if detail.missed > passed {
        return Err(format!("frames: {} missed, but only {passed} due times passed", detail.missed));
    }
    let ill = detail.frame_ns.iter().zip(&detail.work_ns).find(|(frame, work)| work > frame);
    match ill {
        Some((frame, work)) => {
            Err(format!("frames: work of {work} in a frame done {frame} after it was due"))
        }
        None => Ok(()),
    }
}

fn some_time(name: &str, time: Nanos) -> Checked {
    if time.get() > 0 { Ok(()) } else { Err(format!("{name} is 0")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::histogram::Histogram;

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
        assert_eq!(wakeup(&wakeups(honest())), Ok(()));
        let forged = [
            WakeupThread { missed: 0, ..honest() },
            WakeupThread { missed: u64::MAX, ..honest() },
            WakeupThread { due: 4, ..honest() },
            WakeupThread { response_ns: Histogram::default(), ..honest() },
        ];
        for thread in forged {
            assert!(wakeup(&wakeups(thread.clone())).is_err(), "{thread:?}");
        }
        assert!(wakeup(&WakeupDetail { period_ns: Nanos::ZERO, ..wakeups(honest()) }).is_err());
        assert!(wakeup(&WakeupDetail { priority: Some(100), ..wakeups(honest()) }).is_err());
    }

    #[test]
    fn frames_that_do_not_add_up_are_refused() {
        let nanos = |times: &[u64]| times.iter().map(|time| Nanos::from_nanos(*time)).collect::<Vec<_>>();
        let made = |frame: &[u64], work: &[u64], missed| FramesDetail {
            period_ns: Nanos::from_nanos(100),
            iterations: 1,
            frame_ns: nanos(frame),
            work_ns: nanos(work),
            missed,
        };
        assert_eq!(frames(&made(&[50, 250], &[40, 60], 2)), Ok(()));
        assert_eq!(frames(&made(&[50, 250], &[40, 60], 1)), Ok(()), "the last one may come after the end");
        assert!(frames(&made(&[50, 250], &[40, 60], 3)).is_err());
        assert!(frames(&made(&[50, 250], &[40], 2)).is_err());
        assert!(frames(&made(&[50, 250], &[60, 60], 2)).is_err());
    }

    #[test]
    fn quanta_without_a_length_are_refused() {
        let quanta =
            |length| FtqDetail { quantum_ns: Nanos::from_nanos(length), cpu: None, work: vec![1; 100] };
        assert_eq!(ftq(&quanta(1)), Ok(()));
        assert!(ftq(&quanta(0)).is_err());
    }
}
