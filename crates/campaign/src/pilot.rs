//! A pilot: a moment of work on a platform of which nothing is known, so that it can be said how long the run will take.

use super::cost::Flavour;
use super::demand::deadline_of;
use super::event::Event;
use super::fleet::{Fleet, Seat};
use super::predict::{pilot, slowness};
use platforms::Cancel;
use probes::detail::Detail;
use probes::job::Job;

/// Has a platform of which nothing is known work for a moment; how many times as slow as typical it is. None when that
/// did not work: the measurements will say why.
pub(super) fn run_pilot(
    fleet: &mut Fleet,
    index: usize,
    flavour: Flavour,
    cancel: &Cancel,
    on_event: &mut dyn FnMut(&Event),
) -> Option<f64> {
    let seat = Seat::Measured(index);
    let mut instance = fleet.checkout(seat, on_event).ok()?;
    let probe = pilot();
    let deadline_ms = deadline_of(&probe, instance.facts(), 1);
    let id = fleet.next_job(seat);
    let job = Job { id, probe: Some(probe), deadline_ms, ..Job::default() };
    let Ok(reply) = instance.begin(&job, cancel).and_then(|()| instance.finish(cancel)) else {
        instance.end();
        return None;
    };
    fleet.give_back(seat, instance);
    let report = reply.report.and_then(Result::ok)?;
    let Detail::Fwq(fwq) = report.detail else { return None };
    slowness(&fwq.samples_ns, fwq.iterations, flavour)
}
