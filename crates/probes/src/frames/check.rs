//! What is believed of the frames probe's outcome, and whether it saw anything at all.

use crate::check::{Checked, MOST_VALUES, at_most, because, some_time};
use crate::detail::FramesDetail;

pub(crate) fn check(detail: &FramesDetail) -> Checked {
    some_time("frames.period_ns", detail.period_ns)?;
    at_most("frames.frame_ns", detail.frame_ns.len(), MOST_VALUES)?;
    if detail.frame_ns.len() != detail.work_ns.len() {
        return Err(format!(
            "frames: {} frames have {} times of work",
            detail.frame_ns.len(),
            detail.work_ns.len()
        )
        .into());
    }
    // Also keeps a claim of frames that no time was there for from being believed.
    let passed = detail
        .frame_ns
        .iter()
        .map(|frame| crate::detail::due_times_passed(*frame, detail.period_ns))
        .fold(0, u64::saturating_add);
    if detail.missed > passed {
        return Err(format!("frames: {} missed, but only {passed} due times passed", detail.missed).into());
    }
    let ill = detail.frame_ns.iter().zip(&detail.work_ns).find(|(frame, work)| work > frame);
    match ill {
        Some((frame, work)) => {
            Err(format!("frames: work of {work} in a frame done {frame} after it was due").into())
        }
        None => Ok(()),
    }
}

pub(crate) fn saw_nothing(detail: &FramesDetail) -> Option<String> {
    because(detail.frame_ns.is_empty(), "no frame was finished")
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::Nanos;

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
        assert_eq!(check(&made(&[50, 250], &[40, 60], 2)), Ok(()));
        assert_eq!(check(&made(&[50, 250], &[40, 60], 1)), Ok(()), "the last one may come after the end");
        assert!(check(&made(&[50, 250], &[40, 60], 3)).is_err());
        assert!(check(&made(&[50, 250], &[40], 2)).is_err());
        assert!(check(&made(&[50, 250], &[60, 60], 2)).is_err());
    }
}
