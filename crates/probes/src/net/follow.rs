//! The second instance of a pair: it opens what a phase needs and does its part.

use super::control::Message;
use super::pair::Pair;
use super::plan::{Phase, Role};
use crate::error::WorkError;
use crate::params::Protocol;
use crate::rendezvous::{Door, Hello};
use units::histogram::DenseHistogram;

/// Makes every phase.
///
/// # Errors
/// One could not be made; the first instance has been told.
pub fn follow(pair: &mut Pair<'_>, phases: &[Phase], door: &mut Door) -> Result<(), WorkError> {
    let mut unused = DenseHistogram::new();
    let mut possible = phases.iter().filter(|phase| phase.unsupported().is_none());
    possible
        .try_for_each(|phase| one(pair, phase, door, &mut unused))
        .inspect_err(|error| pair.link.give_up(error))
}

fn one(
    pair: &mut Pair<'_>,
    phase: &Phase,
    door: &mut Door,
    unused: &mut DenseHistogram,
) -> Result<(), WorkError> {
    let (number, role) = (phase.number, phase.role(false));
    pair.link.expect(&Message::Begin(number), "begin the next exchange")?;
    let data = match phase.protocol {
        Protocol::Tcp => {
            let expected = pair.data_hello(phase, pair.other, pair.own);
            let welcome = |hello: &Hello| *hello == expected;
            let who = format!("{} to connect for {}", pair.link.other, phase.words());
            Some(door.admit(welcome, &pair.link.patience, &who)?.0)
        }
        Protocol::Udp => None,
    };
    pair.make_ready(phase, data.as_ref())?;
    pair.link.say(&Message::Ready(number))?;
    if role == Role::Send {
        pair.link.expect(&Message::Go(number), "be ready for the stream")?;
    }
    let tally = pair.play(role, phase, data.as_ref(), unused)?;
    drop(data);
    if role != Role::Receive {
        pair.link.expect(&Message::Enough(number), "end the exchange")?;
    }
    pair.link.say(&Message::Done(number, tally))
}
