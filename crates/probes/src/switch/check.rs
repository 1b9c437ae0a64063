//! What is believed of the switch probe's outcome, and whether it saw anything at all.

use super::detail::KINDS;
use crate::check::{Checked, MOST_VALUES, TEXT_CHARS, at_most, distinct, require, text};
use crate::detail::{SwitchDetail, SwitchPoint};

pub(crate) fn check(detail: &SwitchDetail) -> Checked {
    at_most("switch.points", detail.points.len(), KINDS.len())?;
    let mut kinds: Vec<_> = detail.points.iter().map(SwitchPoint::kind).collect();
    kinds.sort_unstable();
    distinct("switch.points", &kinds)?;
    detail.points.iter().try_for_each(point)
}

fn point(point: &SwitchPoint) -> Checked {
    at_most("switch.batches", point.batches.len(), MOST_VALUES)?;
    if let Some(reason) = &point.unsupported {
        text("switch.unsupported", reason, TEXT_CHARS)?;
        require(point.batches.is_empty(), "switch: an unsupported kind has batches")?;
    }
    let timed = point.batches.iter().all(|batch| batch.passes > 0 && batch.elapsed_ns.get() > 0);
    require(timed, "switch: a batch has no passes, or took no time")
}

pub(crate) fn saw_nothing(detail: &SwitchDetail) -> Option<String> {
    let mut tried = detail.points.iter().filter(|point| point.unsupported.is_none()).peekable();
    if tried.peek().is_none() {
        let why = detail.points.iter().find_map(|point| point.unsupported.as_deref());
        return Some(format!("no kind of switch could be measured: {}", why.unwrap_or("there was none")));
    }
    let idle = tried.find(|point| point.batches.is_empty())?;
    Some(format!("no batch was timed of {:?}: give the probe more time", idle.kind()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detail::SwitchBatch;
    use units::Nanos;

    fn one(passes: u64, elapsed: u64) -> SwitchPoint {
        let (between, through, place) = KINDS[0];
        let ns = Nanos::from_nanos;
        let batch = SwitchBatch { passes, elapsed_ns: ns(elapsed), alone_ns: ns(1) };
        SwitchPoint { between, through, place, unsupported: None, batches: vec![batch] }
    }

    #[test]
    fn honest_points_pass_and_lies_do_not() {
        let told = |points: Vec<SwitchPoint>| check(&SwitchDetail { points });
        assert_eq!(told(vec![one(2, 10)]), Ok(()));
        assert!(told(vec![one(2, 10), one(2, 10)]).unwrap_err().to_string().contains("twice"));
        assert!(told(vec![one(0, 10)]).is_err() && told(vec![one(2, 0)]).is_err());
        let refused = SwitchPoint { unsupported: Some("one CPU".to_owned()), ..one(2, 10) };
        assert!(told(vec![refused.clone()]).unwrap_err().to_string().contains("has batches"));
        let refused = SwitchPoint { batches: vec![], ..refused };
        assert_eq!(told(vec![refused.clone()]), Ok(()));
        let nothing = saw_nothing(&SwitchDetail { points: vec![refused] }).expect("nothing");
        assert!(nothing.contains("one CPU"), "{nothing}");
        assert!(saw_nothing(&SwitchDetail { points: vec![] }).is_some());
        assert!(
            saw_nothing(&SwitchDetail { points: vec![SwitchPoint { batches: vec![], ..one(2, 10) }] })
                .is_some()
        );
        assert_eq!(saw_nothing(&SwitchDetail { points: vec![one(2, 10)] }), None);
    }
}
