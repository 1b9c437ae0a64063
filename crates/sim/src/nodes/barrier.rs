//! Barriers made of messages, after `LogGP` (Alexandrov, Ionescu, Schauser, Scheiman 1995).
//!
//! ```text
//!  sender    ─[ o ]──(s−1)G──┐ last byte out; the next message's first byte leaves g later at the earliest
//!                            └─ L ─┐
//!  receiver                        └─[ o ]─ taken; the next message is taken up g after this one was, at the earliest
//! ```
//! The CPU is needed for o only, which noise may stretch; the rest is the network's. (s−1)G is rounded up once, to whole
//! nanoseconds, for the message as a whole.
//!
//! **Dissemination** (Hensgen, Finkel, Manber 1988): in round k node i sends to i + 2^k and waits for i − 2^k, all modulo
//! N; after ⌈log2 N⌉ rounds everybody has heard of everybody. **Tree**: node i has the children 2i+1 and 2i+2; they report
//! upwards, in the order of arrival (lower number first), and are told downwards, lower number first.
//!
//! No event queue is needed: what a node sends in round k depends on nothing but its own round k − 1, so going through
//! the rounds, and within a round through the nodes, gives the very times that ordered events would give.

use super::interruptions::{NodeCpu, Place, Quiet};
use crate::brake::Brake;
use crate::time::{Span, Time};
use model::scenario::LogGp;

/// Costs of a message, in time.
#[derive(Debug, Clone, Copy)]
pub struct Costs {
    overhead: Span,
    gap: Span,
    bytes: Span,
    latency: Span,
}

impl Costs {
    /// Those that a scenario states.
    pub fn of(costs: &LogGp) -> Self {
        let picoseconds = costs.bytes.saturating_sub(1).saturating_mul(costs.per_byte_ps);
        Self {
            overhead: costs.overhead_ns.into(),
            gap: costs.gap_ns.into(),
            bytes: Span::from_nanos(picoseconds.div_ceil(1000)),
            latency: costs.latency_ns.into(),
        }
    }

    /// One message between two idle nodes: 2o + L + (s−1)G.
    pub fn message(&self) -> Span {
        self.overhead + self.overhead + self.latency + self.bytes
    }

    /// Whether messages that follow each other like the rounds of a dissemination never wait for the gap.
    pub fn gap_is_hidden(&self) -> bool {
        self.gap <= self.overhead + self.overhead + self.latency
    }
}

/// ⌈log2 N⌉: rounds of a dissemination among N nodes.
pub const fn rounds(nodes: u32) -> u32 {
    if nodes <= 1 { 0 } else { (nodes - 1).ilog2() + 1 }
}

/// A node between its steps.
#[derive(Debug, Clone, Copy)]
pub struct Node {
    /// When its program goes on.
    pub ready: Time,
    /// When the first byte of its next message may leave.
    may_send: Time,
    /// When it may take up the next message.
    may_take: Time,
    /// The noise it meets next.
    pub place: Place,
}

impl Node {
    /// One that begins now.
    pub const fn new(ready: Time, place: Place) -> Self {
        Self { ready, may_send: Time::ZERO, may_take: Time::ZERO, place }
    }

    /// Sends a message; says when it arrives.
    #[inline]
    fn send(&mut self, cpu: &impl NodeCpu, costs: &Costs) -> Time {
        self.ready = cpu.run(&mut self.place, self.ready, costs.overhead);
        let out = self.ready.max(self.may_send) + costs.bytes;
        self.may_send = out + costs.gap;
        out + costs.latency
    }

    /// Waits for a message and takes it.
    #[inline]
    fn take(&mut self, cpu: &impl NodeCpu, costs: &Costs, arrival: Time) {
        let from = self.ready.max(arrival).max(self.may_take);
        self.may_take = from + costs.gap;
        self.ready = cpu.run(&mut self.place, from, costs.overhead);
    }
}

/// Messages under way: one place per node, twice.
#[derive(Debug, Default)]
pub struct Mail {
    now: Vec<Time>,
    next: Vec<Time>,
}

impl Mail {
    /// Room for so many nodes.
    pub fn for_nodes(nodes: usize) -> Self {
        Self { now: vec![Time::ZERO; nodes], next: vec![Time::ZERO; nodes] }
    }
}

/// Messages of one barrier among so many nodes: of a tree, or of a dissemination.
pub const fn messages(nodes: u32, is_tree: bool) -> u64 {
    if is_tree { 2 * (nodes as u64).saturating_sub(1) } else { nodes as u64 * rounds(nodes) as u64 }
}

/// One dissemination barrier; says how many messages it took. Left half done when the brake is pulled.
pub fn dissemination(
    nodes: &mut [Node],
    mail: &mut Mail,
    costs: &Costs,
    cpu: &impl NodeCpu,
    brake: &Brake,
) -> u64 {
    let count = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
    let rounds = rounds(count);
    if rounds == 0 {
        return 0;
    }
    for (node, arrival) in nodes.iter_mut().zip(&mut mail.now) {
        *arrival = node.send(cpu, costs);
    }
    for round in (0..rounds).take_while(|_| !brake.is_pulled()) {
        // Node i takes what i − 2^k has sent: the list of senders, rotated.
        let distance = 1_usize << round;
        let (first, last) = mail.now.split_at(nodes.len() - distance);
        let arrivals = last.iter().chain(first);
        if round + 1 < rounds {
            // A node sends again as soon as it has taken, which nobody else has to wait for: both in one go.
            for ((node, arrival), next) in nodes.iter_mut().zip(arrivals).zip(&mut mail.next) {
                node.take(cpu, costs, *arrival);
                *next = node.send(cpu, costs);
            }
            std::mem::swap(&mut mail.now, &mut mail.next);
        } else {
            for (node, arrival) in nodes.iter_mut().zip(arrivals) {
                node.take(cpu, costs, *arrival);
            }
        }
    }
    messages(count, false)
}

/// The same where all nodes are alike and nothing interrupts them: one stands for all.
pub fn dissemination_of_equals(node: &mut Node, nodes: u32, costs: &Costs) {
    for _ in 0..rounds(nodes) {
        let arrival = node.send(&Quiet, costs);
        node.take(&Quiet, costs, arrival);
    }
}

/// One barrier over a binary tree; says how many messages it took.
pub fn tree(nodes: &mut [Node], mail: &mut Mail, costs: &Costs, cpu: &impl NodeCpu) -> u64 {
    let count = nodes.len();
    // Children have higher numbers, so backwards everybody's children have reported before its turn.
    for (number, node) in nodes.iter_mut().enumerate().rev() {
        let (left, right) = (2 * number + 1, 2 * number + 2);
        match (mail.now.get(left), mail.now.get(right)) {
            (Some(left), Some(right)) => {
                node.take(cpu, costs, *left.min(right));
                node.take(cpu, costs, *left.max(right));
            }
            (Some(left), None) => node.take(cpu, costs, *left),
            _ => {}
        }
        if number > 0 {
            mail.now[number] = node.send(cpu, costs);
        }
    }
    for (number, node) in nodes.iter_mut().enumerate() {
        if number > 0 {
            node.take(cpu, costs, mail.next[number]);
        }
        for child in [2 * number + 1, 2 * number + 2] {
            if let Some(place) = mail.next.get_mut(child) {
                *place = node.send(cpu, costs);
            }
        }
    }
    messages(u32::try_from(count).unwrap_or(u32::MAX), true)
}
