//! The first instance of a pair: it leads through the phases and reports them.

use std::net::SocketAddr;

use nix::time::{ClockId, clock_gettime};

use super::control::{ExchangeTally, Message};
use super::pair::Pair;
use super::plan::{Phase, Role};
use crate::detail::{NetDirection, NetPoint, NetSpan};
use crate::error::WorkError;
use crate::params::Protocol;
use crate::rendezvous::knock;
use units::Nanos;
use units::histogram::DenseHistogram;

/// Makes every phase; `door` is where the second instance listens.
///
/// # Errors
/// One could not be made; the second instance has been told.
pub fn lead(pair: &mut Pair<'_>, phases: &[Phase], door: SocketAddr) -> Result<Vec<NetPoint>, WorkError> {
    let mut round_trips = DenseHistogram::new();
    let points = phases.iter().map(|phase| match phase.unsupported() {
        Some(reason) => Ok(NetPoint { unsupported: Some(reason), ..phase.point() }),
        None => one(pair, phase, door, &mut round_trips),
    });
    points.collect::<Result<_, _>>().inspect_err(|error| pair.link.give_up(error))
}

fn one(
    pair: &mut Pair<'_>,
    phase: &Phase,
    door: SocketAddr,
    round_trips: &mut DenseHistogram,
) -> Result<NetPoint, WorkError> {
    let (number, role) = (phase.number, phase.role(true));
    pair.link.say(&Message::Begin(number))?;
    let data = match phase.protocol {
        Protocol::Tcp => {
            let hello = pair.data_hello(phase, pair.own, pair.other);
            Some(knock(door, &hello, &pair.link.patience, &pair.link.other)?)
        }
        Protocol::Udp => None,
    };
    pair.make_ready(phase, data.as_ref())?;
    pair.link.expect(&Message::Ready(number), "get ready")?;
    if role == Role::Receive {
        pair.link.say(&Message::Go(number))?;
    }
    round_trips.clear();
    let began_ns = now();
    let mine = pair.play(role, phase, data.as_ref(), round_trips)?;
    let span = Some(NetSpan { began_ns, ended_ns: now() });
    drop(data);
    if role != Role::Send {
        pair.link.say(&Message::Enough(number))?;
    }
    let what = "tell what it counted";
    match pair.link.hear(what)? {
        Message::Done(done, theirs) if done == number => {
            Ok(NetPoint { span, ..point(phase, &mine, &theirs, round_trips) })
        }
        heard => Err(pair.link.out_of_step(what, &heard)),
    }
}

/// `CLOCK_MONOTONIC`.
fn now() -> Nanos {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Nanos::ZERO, |time| Nanos::from_duration(time.into()))
}

/// Puts together what the two have counted: time and arrivals of the receiver, messages sent of the sender.
fn point(
    phase: &Phase,
    mine: &ExchangeTally,
    theirs: &ExchangeTally,
    round_trips: &DenseHistogram,
) -> NetPoint {
    let (receiver, sender) = match phase.direction {
        NetDirection::Out => (theirs, mine),
        NetDirection::In => (mine, theirs),
        NetDirection::Both => (mine, mine),
    };
    NetPoint {
        elapsed_ns: receiver.elapsed_ns,
        sent: sender.sent,
        arrived: receiver.arrived,
        bytes: receiver.bytes,
        round_trip_ns: round_trips.to_histogram(),
        first_cpu_ns: mine.cpu_ns,
        second_cpu_ns: theirs.cpu_ns,
        first_system_ns: mine.system_ns,
        second_system_ns: theirs.system_ns,
        ..phase.point()
    }
}
