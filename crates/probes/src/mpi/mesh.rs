//! Connects every rank with every other one: mailboxes inside an instance, a TCP connection per pair of ranks between
//! instances. Instances knock at all doors of lower number and admit all of higher number; 0 only admits, so nobody waits
//! in a circle.

use std::collections::BTreeMap;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use super::mailbox::{mailbox, memory};
use super::post::{In, Out};
use crate::error::WorkError;
use crate::job::{Part, Peer};
use crate::rendezvous::{Door, Hello, HelloWord, Patience, knock};

/// Most connections of one instance: a process usually may open 1024 files.
const MOST_WIRES: u32 = 800;
/// Longest piece that mailboxes hand over: as libraries cut long messages, and small enough for a first-level cache.
const LONGEST_PIECE: usize = 32 << 10;
/// Shortest one.
const SHORTEST_PIECE: usize = 4 << 10;
/// Memory of all mailboxes of an instance together.
const MAILBOX_MEMORY: usize = 64 << 20;

/// Who is where: `ranks_per_instance` ranks in each instance, numbered through.
#[derive(Debug, Clone, Copy)]
pub struct MeshShape {
    /// Number of this instance.
    pub instance: u32,
    /// Instances in all.
    pub instances: u32,
    /// Ranks in each.
    pub each: u32,
}

impl MeshShape {
    /// The shape of a part, or why it cannot be.
    ///
    /// # Errors
    /// There is one rank only, or there are too many.
    pub fn of(part: Option<&Part>, each: u32) -> Result<Self, WorkError> {
        let (instance, instances) = part.map_or((0, 1), |part| (part.rank, part.ranks));
        let wires = u64::from(instances.saturating_sub(1)) * u64::from(each) * u64::from(each);
        if wires > MOST_WIRES.into() {
            return Err(WorkError::Unfit(format!(
                "{each} ranks in each of {instances} instances need {wires} connections per instance and {MOST_WIRES} are \
                 possible; use fewer ranks per instance"
            )));
        }
        if instances * each < 2 {
            return Err(WorkError::Unfit(
                "the mpi probe needs two ranks: measure it in a layout such as 1x2, or set ranks_per_instance".to_owned(),
            ));
        }
        Ok(Self { instance, instances, each })
    }

    /// Ranks in all.
    pub const fn ranks(self) -> u32 {
        self.instances * self.each
    }

    /// Number of a rank of an instance.
    pub const fn rank(self, instance: u32, local: u32) -> u32 {
        instance * self.each + local
    }
}

/// All ways of one rank to the others, and from them.
pub type Ways = (Vec<Out>, Vec<In>);

/// The ways of every rank of this instance, and how much memory they take.
///
/// # Errors
/// An instance did not come, or the system refused.
pub fn connect(
    shape: MeshShape,
    peers: &[Peer],
    word: HelloWord,
    patience: &Patience<'_>,
) -> Result<(Vec<Ways>, usize), WorkError> {
    let mut wires = between(shape, peers, word, patience)?;
    let pairs = (shape.each * shape.each.saturating_sub(1)) as usize;
    let piece = (MAILBOX_MEMORY / memory(1) / pairs.max(1)).clamp(SHORTEST_PIECE, LONGEST_PIECE);
    let mut boxes = BTreeMap::new();
    for from in 0..shape.each {
        for to in (0..shape.each).filter(|to| *to != from) {
            boxes.insert((from, to), mailbox(piece));
        }
    }
    let (mut outboxes, mut inboxes) = (BTreeMap::new(), BTreeMap::new());
    for (key, (outbox, inbox)) in boxes {
        outboxes.insert(key, outbox);
        inboxes.insert(key, inbox);
    }
    let ways = (0..shape.each).map(|local| {
        let (mut outs, mut ins) = (Vec::new(), Vec::new());
        for other in 0..shape.ranks() {
            let beside = other.wrapping_sub(shape.rank(shape.instance, 0));
            let wire = wires.remove(&(shape.rank(shape.instance, local), other)).map(Arc::new);
            outs.push(match (&wire, outboxes.remove(&(local, beside))) {
                (Some(wire), _) => Out::Wire(Arc::clone(wire)),
                (None, Some(outbox)) => Out::Box(outbox),
                (None, None) => Out::Nowhere,
            });
            ins.push(match (wire, inboxes.remove(&(beside, local))) {
                (Some(wire), _) => In::Wire(wire),
                (None, Some(inbox)) => In::Box(inbox),
                (None, None) => In::Nowhere,
            });
        }
        (outs, ins)
    });
    Ok((ways.collect(), memory(piece) * pairs))
}

/// One connection per pair of own and foreign rank.
type Wires = BTreeMap<(u32, u32), TcpStream>;

fn between(
    shape: MeshShape,
    peers: &[Peer],
    word: HelloWord,
    patience: &Patience<'_>,
) -> Result<Wires, WorkError> {
    let mut wires = Wires::new();
    let Some(here) = peers.get(shape.instance as usize).filter(|_| shape.instances > 1) else {
        return Ok(wires);
    };
    let mut door = Door::open(here.address, word)?;
    for (instance, peer) in (0..shape.instance).zip(peers) {
        visit(shape, instance, peer.address, word, patience, &mut wires)?;
    }
    let higher = shape.instances - 1 - shape.instance;
    let own = shape.rank(shape.instance, 0)..shape.rank(shape.instance + 1, 0);
    let above = own.end..shape.ranks();
    for _ in 0..higher * shape.each * shape.each {
        let who = format!("the other instances to come to {}", here.address);
        let welcome = |hello: &Hello| {
            own.contains(&hello.to)
                && above.contains(&hello.from)
                && !wires.contains_key(&(hello.to, hello.from))
        };
        let (stream, hello) = door.admit(welcome, patience, &who)?;
        wires.insert((hello.to, hello.from), ready(stream)?);
    }
    Ok(wires)
}

fn visit(
    shape: MeshShape,
    instance: u32,
    address: SocketAddr,
    word: HelloWord,
    patience: &Patience<'_>,
    wires: &mut Wires,
) -> Result<(), WorkError> {
    let who = format!("instance {instance}");
    for local in 0..shape.each {
        for foreign in 0..shape.each {
            let (from, to) = (shape.rank(shape.instance, local), shape.rank(instance, foreign));
            let stream = knock(address, &Hello { word, from, to, channel: 0 }, patience, &who)?;
            wires.insert((from, to), ready(stream)?);
        }
    }
    Ok(())
}

/// Makes a connection that has been let in fit for ranks: small messages leave at once, and nothing blocks.
fn ready(stream: TcpStream) -> Result<TcpStream, WorkError> {
    stream
        .set_nodelay(true)
        .and_then(|()| stream.set_nonblocking(true))
        .map_err(|error| WorkError::system("prepare a connection between two ranks", error))?;
    Ok(stream)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_that_cannot_be_are_refused_in_words() {
        let part = |ranks| Part { rank: 0, ranks, peers: Vec::new() };
        assert!(MeshShape::of(None, 1).unwrap_err().to_string().contains("needs two ranks"));
        assert!(MeshShape::of(Some(&part(1)), 1).is_err());
        assert_eq!(MeshShape::of(None, 2).unwrap().ranks(), 2);
        assert_eq!(MeshShape::of(Some(&part(8)), 8).unwrap().ranks(), 64);
        let error = MeshShape::of(Some(&part(256)), 2).unwrap_err().to_string();
        assert!(error.contains("1020 connections"), "{error}");
    }
}
