//! The network probe around its phases: who is whose partner, memory, rendezvous, report.

use std::net::SocketAddr;

use super::control::Message;
use super::datagrams;
use super::follow::follow;
use super::lead::lead;
use super::link::Link;
use super::pair::{Pair, pattern};
use super::plan::{LARGEST_DATAGRAM, phases};
use super::streams::CHUNK;
use super::usage::{kernel, totals_are_ours};
use crate::arena::Arena;
use crate::clock::{monotonic_facts, thread_cpu_time};
use crate::context::Context;
use crate::detail::{Detail, NetDetail};
use crate::error::WorkError;
use crate::job::{Part, Peer, ProbeReport};
use crate::params::{NetParams, Protocol};
use crate::rendezvous::{Door, Hello, HelloWord, Patience, knock, members};
use crate::workers;
use units::Bytes;
use units::facts::OwnCost;

/// Measures the network between this instance and its partner.
///
/// # Errors
/// The job has no partner for this instance, the partner did not come or went away, the network broke, or the job was to
/// end.
pub fn measure(params: &NetParams, context: &Context<'_>) -> Result<ProbeReport, WorkError> {
    let (part, peers) = members(context.part, "net")?;
    if part.ranks < 2 {
        return Err(WorkError::Unfit(
            "the net probe needs two instances; measure it in a layout such as 1x2 or 2x1".to_owned(),
        ));
    }
    workers::run_one(context.bounds, || measure_here(params, context, part, peers))
}

/// Where this instance and its partner are.
struct Places {
    own: u32,
    other: u32,
    here: SocketAddr,
    there: SocketAddr,
}

/// The partner of this instance; none for the last of an odd number.
fn places(part: &Part, peers: &[Peer]) -> Option<Places> {
    let other = part.rank ^ 1;
    let at = |rank: u32| peers.get(rank as usize).map(|peer| peer.address);
    Some(Places { own: part.rank, other, here: at(part.rank)?, there: at(other)? })
}

fn measure_here(
    params: &NetParams,
    context: &Context<'_>,
    part: &Part,
    peers: &[Peer],
) -> Result<ProbeReport, WorkError> {
    let patience = Patience::of_job(context.bounds);
    let mut notes = Vec::new();
    let Some(places) = places(part, peers) else {
        notes.push(format!("instance {} has no partner and rested", part.rank));
        return report(NetDetail::default(), Bytes::from_bytes(0), notes);
    };
    let largest = params.message_bytes.iter().copied().max().unwrap_or(1) as usize;
    // A datagram longer than any that is sent must be seen as longer.
    let room = largest.max(CHUNK).max(LARGEST_DATAGRAM as usize + 1);
    let mut message = Arena::new(Bytes::from_bytes(largest.max(8) as u64))?;
    let mut buffer = Arena::new(Bytes::from_bytes(room as u64))?;
    let memory = Bytes::from_bytes(message.size().get() + buffer.size().get());
    let agreed = serde_json::to_string(params)
        .map_err(|error| WorkError::Unfit(format!("the probe's parameters cannot be written: {error}")))?;
    let word = HelloWord::new(context.seed, &format!("net {agreed}"));
    pattern(word, places.own).fill(message.bytes_mut());
    let arenas = (message.bytes_mut(), buffer.bytes_mut());
    let points = together(params, word, &places, patience, arenas, &mut notes)?;
    add_notes(&mut notes, part, params);
    report(NetDetail { points, others: Vec::new() }, memory, notes)
}

/// Meets the partner and makes all phases; the second of a pair has no points.
fn together(
    params: &NetParams,
    word: HelloWord,
    places: &Places,
    patience: Patience<'_>,
    (message, buffer): (&mut [u8], &mut [u8]),
    notes: &mut Vec<String>,
) -> Result<Vec<crate::detail::NetPoint>, WorkError> {
    let phases = phases(params);
    let first = places.own < places.other;
    let mut door = if first { None } else { Some(Door::open(places.here, word)?) };
    let wants_udp = params.protocols.contains(&Protocol::Udp);
    let socket = wants_udp.then(|| datagrams::open(places.here, places.there)).transpose()?;
    let who = format!("instance {}", places.other);
    let stream = match &mut door {
        None => {
            let hello = Hello { word, from: places.own, to: places.other, channel: 0 };
            knock(places.there, &hello, &patience, &who)?
        }
        Some(door) => {
            let hello = Hello { word, from: places.other, to: places.own, channel: 0 };
            let who = format!("{who} to come to {}", places.here);
            door.admit(|came| *came == hello, &patience, &who)?.0
        }
    };
    let link = Link::new(stream, patience, places.other)?;
    let mut pair = Pair {
        link,
        word,
        own: places.own,
        other: places.other,
        datagrams: socket,
        message,
        buffer,
        duration: params.duration_ms.to_duration(),
        whole: false,
    };
    compare_kernels(&mut pair, notes)?;
    match &mut door {
        None => lead(&mut pair, &phases, places.there),
        Some(door) => {
            follow(&mut pair, &phases, door)?;
            if door.turned_away() > 0 {
                notes.push(format!("{} strangers were turned away at the door", door.turned_away()));
            }
            Ok(Vec::new())
        }
    }
}

/// Finds out whether the kernel's totals of CPU time may be used.
fn compare_kernels(pair: &mut Pair<'_>, notes: &mut Vec<String>) -> Result<(), WorkError> {
    let mine = kernel();
    pair.link.say(&mine)?;
    match pair.link.hear("name its kernel")? {
        theirs @ Message::Kernel { .. } => match totals_are_ours(&mine, &theirs) {
            Ok(()) => pair.whole = true,
            Err(reason) => notes.push(format!("CPU time of the whole instance is left out: {reason}")),
        },
        heard => return Err(pair.link.out_of_step("name its kernel", &heard)),
    }
    Ok(())
}

fn add_notes(notes: &mut Vec<String>, part: &Part, params: &NetParams) {
    if part.ranks > 2 && part.rank == 0 {
        notes.push(format!(
            "{} pairs of instances measured at the same time; figures that name no pair are those of the first",
            part.ranks / 2
        ));
    }
    if part.rank == 0 && params.protocols.contains(&Protocol::Udp) {
        notes.push(format!(
            "UDP: a question that was not answered within {} ms counts as lost",
            datagrams::LOST_AFTER.as_millis()
        ));
    }
}

fn report(detail: NetDetail, memory_bytes: Bytes, notes: Vec<String>) -> Result<ProbeReport, WorkError> {
    let clock = monotonic_facts();
    let cost = OwnCost { per_sample_ns: clock.read_ns, cpu_time_ns: thread_cpu_time()?, memory_bytes };
    Ok(ProbeReport::new(clock, cost, Detail::Net(detail), notes))
}
