//! The engine: all lanes and what they share, behind one lock. It moves only when it is called: by the program, and where that
//! calls nothing and something is left to do, by a thread in the background.
//!
//! ```text
//!  send ──► lane, or ourselves ──► …           poll ──► every lane: connect, send, receive
//!  receive ──► message there? ──► completion      └──► completions
//!                   └─ no ──► posted
//! ```

pub mod completion;
pub mod core;
pub mod lane;
pub mod matching;

use std::time::{Duration, Instant};

use crate::fault::Fault;
use crate::transport::Transport;
use crate::wire::Message;
use completion::{Completion, Queue};
use core::{Arrived, Body, Core, Load, Outgoing, Receive, Receiving};
use lane::{Hello, Lane};
use matching::{Label, Wanted};

/// Copies of injected messages that may wait to be sent, in bytes. More than that, and the program has to try again.
const MOST_COPIED: usize = 16 << 20;

/// Rounds between two looks whether the peers live.
const ROUNDS_PER_CHECK: u32 = 2048;

/// Error numbers of this system, which are libfabric's.
const ABORTED: i32 = libc::ECONNABORTED;
const CANCELED: i32 = libc::ECANCELED;
const NO_MESSAGE: i32 = libc::ENOMSG;

/// Why a call did nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// Too much waits to be sent: poll, then try again.
    Again,
    /// The peer is gone, or there is no such peer.
    Gone,
    /// There is nothing of that name.
    Unknown,
}

/// What to do with a message that a look finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// Leave it.
    Only,
    /// Put it aside for one receive.
    Claim,
    /// Throw it away.
    Discard,
}

/// All communication of one rank.
pub struct Engine {
    rank: u32,
    core: Core,
    lanes: Vec<Option<Lane>>,
    rounds: u32,
    complain: fn(&str),
}

impl Engine {
    /// `lanes` has a way to each rank that can be reached, and none to ourselves. `complain` tells people.
    pub fn new(rank: u32, run: u64, lanes: Vec<Option<Box<dyn Transport>>>, complain: fn(&str)) -> Self {
        let hello = Hello { run, rank };
        let lanes = (0..).zip(lanes).map(|(peer, way)| way.map(|way| Lane::new(peer, hello, way))).collect();
        Self { rank, core: Core::new(), lanes, rounds: 0, complain }
    }

    /// Opens a completion queue and returns its number.
    pub fn open_queue(&mut self) -> usize {
        self.core.queues.push(Queue::default());
        self.core.queues.len() - 1
    }

    /// Says where completions of sends, or of receives, go.
    pub fn bind(&mut self, queue: usize, sends: bool, receives: bool) {
        if sends {
            self.core.send_queue = queue;
        }
        if receives {
            self.core.receive_queue = queue;
        }
    }

    /// A completion queue.
    pub fn queue(&mut self, number: usize) -> Option<&mut Queue> {
        self.core.queues.get_mut(number)
    }

    /// Adds ways to ranks after the queues were opened.
    pub fn attach(&mut self, rank: u32, run: u64, ways: Vec<Option<Box<dyn Transport>>>) {
        let queues = std::mem::take(&mut self.core.queues);
        let (sends, receives) = (self.core.send_queue, self.core.receive_queue);
        *self = Self::new(rank, run, ways, self.complain);
        self.core.queues = queues;
        self.bind(sends, true, false);
        self.bind(receives, false, true);
    }

    /// Another way to a rank than was thought, before anything was said to it.
    pub fn reroute(&mut self, rank: u32, run: u64, way: Box<dyn Transport>) {
        let hello = Hello { run, rank: self.rank };
        if let Some(lane) = self.lanes.get_mut(rank as usize).filter(|_| rank != self.rank) {
            *lane = Some(Lane::new(rank, hello, way));
        }
    }

    /// Sends a message to a rank.
    ///
    /// # Errors
    /// The peer is gone, or too many injected messages wait.
    pub fn send(&mut self, peer: u32, outgoing: Outgoing) -> Result<(), Refusal> {
        if outgoing.inject && self.core.copied > MOST_COPIED {
            return Err(Refusal::Again);
        }
        if peer == self.rank {
            self.send_to_self(outgoing);
            return Ok(());
        }
        let lane = self.lanes.get_mut(peer as usize).and_then(Option::as_mut).ok_or(Refusal::Gone)?;
        if lane.dead.is_some() {
            return Err(Refusal::Gone);
        }
        let sent = lane.send(&mut self.core, outgoing);
        self.mind(peer, sent);
        Ok(())
    }

    fn send_to_self(&mut self, mut outgoing: Outgoing) {
        let label = Label { source: self.rank, tag: outgoing.tag };
        if let Some(receive) = self.core.matcher.arrive(&label) {
            return self.hand_over(&outgoing, receive, label);
        }
        self.core.keep(&mut outgoing);
        let arrived = Arrived { data: outgoing.data, body: Body::Local(outgoing) };
        self.core.matcher.keep(label, arrived);
    }

    fn hand_over(&mut self, outgoing: &Outgoing, mut receive: Receive, label: Label) {
        match &outgoing.load {
            Load::User(source) => {
                receive.target.fill(source);
            }
            Load::Copied(bytes) => fill(&mut receive, bytes),
        }
        let length = outgoing.load.bytes().len();
        self.core.received(&receive, label, outgoing.data, length);
        self.core.sent(outgoing, 0);
    }

    /// Receives a message that is there, or posts the receive.
    pub fn receive(&mut self, wanted: Wanted, receive: Receive) {
        if let Some((label, arrived)) = self.core.matcher.take(&wanted) {
            self.deliver(label, arrived, receive);
        } else if wanted.source.is_some_and(|source| self.is_gone(source)) {
            self.core.failed(receive.context, wanted.tag, ABORTED);
        } else {
            self.core.matcher.post(wanted, receive);
        }
    }

    fn is_gone(&self, rank: u32) -> bool {
        let lane = self.lanes.get(rank as usize).and_then(Option::as_ref);
        rank != self.rank && lane.is_none_or(|lane| lane.dead.is_some())
    }

    fn deliver(&mut self, label: Label, arrived: Arrived, mut receive: Receive) {
        let Arrived { data, body } = arrived;
        self.give_back(label.source, &body);
        match body {
            Body::Here(bytes) => {
                fill(&mut receive, &bytes);
                self.core.received(&receive, label, data, bytes.len());
            }
            Body::Local(outgoing) => self.hand_over(&outgoing, receive, label),
            Body::Announced { .. } if self.is_gone(label.source) => {
                self.core.failed(receive.context, label.tag, ABORTED);
            }
            Body::Announced { id, length } => {
                let length = usize::try_from(length).unwrap_or(usize::MAX);
                let Some(lane) = self.lanes.get_mut(label.source as usize).and_then(Option::as_mut) else {
                    return;
                };
                let invited = lane.invite(&mut self.core, receive, label, data, (id, length));
                self.mind(label.source, invited);
            }
        }
    }

    fn give_back(&mut self, source: u32, body: &Body) {
        if let Some(lane) = self.lanes.get_mut(source as usize).and_then(Option::as_mut) {
            let given = lane.give_back(&mut self.core, body);
            self.mind(source, given);
        }
    }

    /// Looks for a message; the answer is a completion, or the failure "no message".
    pub fn look(&mut self, wanted: &Wanted, context: usize, look: Look) {
        self.progress();
        let Some((label, arrived)) = self.core.matcher.peek(wanted) else {
            self.core.failed(context, wanted.tag, NO_MESSAGE);
            return;
        };
        let (label, data, length) = (*label, arrived.data, arrived.body.length());
        match look {
            Look::Only => {}
            Look::Claim => {
                self.core.matcher.claim(wanted, context);
            }
            Look::Discard => {
                if let Some((label, arrived)) = self.core.matcher.take(wanted) {
                    self.discard(label, arrived);
                }
            }
        }
        self.core.seen(context, label, data, length);
    }

    /// Receives the message that was put aside under this name, or throws it away if there is no receive.
    ///
    /// # Errors
    /// There is no such message.
    pub fn claim(&mut self, context: usize, receive: Option<Receive>) -> Result<(), Refusal> {
        let (label, arrived) = self.core.matcher.claimed(context).ok_or(Refusal::Unknown)?;
        if let Some(receive) = receive {
            self.deliver(label, arrived, receive);
            return Ok(());
        }
        let (data, length) = (arrived.data, arrived.body.length());
        self.discard(label, arrived);
        self.core.seen(context, label, data, length);
        Ok(())
    }

    fn discard(&mut self, label: Label, arrived: Arrived) {
        self.give_back(label.source, &arrived.body);
        match arrived.body {
            Body::Here(_) => {}
            Body::Local(outgoing) => self.core.sent(&outgoing, 0),
            Body::Announced { id, .. } => {
                let message = Message::Invite { id, to: 0, accepted: 0 };
                let lane = self.lanes.get_mut(label.source as usize).and_then(Option::as_mut);
                if let Some(lane) = lane.filter(|lane| lane.dead.is_none()) {
                    let told = lane.control(&mut self.core, &message);
                    self.mind(label.source, told);
                }
            }
        }
    }

    /// Takes back a posted receive; its end is the failure "canceled".
    ///
    /// # Errors
    /// No receive of that name is posted: it has its message, or it was never there.
    pub fn cancel(&mut self, context: usize) -> Result<(), Refusal> {
        let receive = self.core.matcher.cancel(|receive| receive.context == context);
        let receive = receive.ok_or(Refusal::Unknown)?;
        self.core.failed(receive.context, 0, CANCELED);
        Ok(())
    }

    /// One round over all lanes. Whether anything moved.
    pub fn progress(&mut self) -> bool {
        self.rounds = self.rounds.wrapping_add(1);
        let check = self.rounds.is_multiple_of(ROUNDS_PER_CHECK);
        let mut moved = false;
        for peer in 0..self.lanes.len() {
            let Some(Some(lane)) = self.lanes.get_mut(peer) else { continue };
            if lane.dead.is_some() {
                continue;
            }
            match lane.poll(&mut self.core) {
                Ok(true) => moved = true,
                Ok(false) if !check => {}
                Ok(false) => {
                    let checked = lane.check();
                    self.mind(u32::try_from(peer).unwrap_or(u32::MAX), checked);
                }
                Err(fault) => self.mind(u32::try_from(peer).unwrap_or(u32::MAX), Err(fault)),
            }
        }
        moved
    }

    /// Whether something is left to do that is not up to what the program calls next: a way to a rank, or a send.
    pub fn has_left(&self) -> bool {
        !self.core.sends.is_empty() || self.lanes.iter().flatten().any(Lane::has_left)
    }

    /// The same after a send to this rank.
    #[inline]
    pub fn has_left_for(&self, peer: u32) -> bool {
        let lane = self.lanes.get(peer as usize).and_then(Option::as_ref);
        !self.core.sends.is_empty() || lane.is_some_and(Lane::has_left)
    }

    /// A round that tries to connect to each rank that is not connected yet. Whether anything moved.
    pub fn go_on(&mut self) -> bool {
        self.lanes.iter_mut().flatten().for_each(Lane::hurry);
        self.progress()
    }

    /// Goes on until nothing waits to be sent, at most for so long.
    pub fn drain(&mut self, timeout: Duration) {
        let started = Instant::now();
        let busy = |engine: &Self| {
            let lanes = engine.lanes.iter().flatten().any(|lane| lane.dead.is_none() && lane.is_busy());
            lanes || engine.core.copied > 0
        };
        while busy(self) && started.elapsed() < timeout {
            if !self.progress() {
                std::thread::sleep(Duration::from_micros(50));
            }
        }
    }

    /// Ends a lane that has a fault: everything under way with that peer fails.
    fn mind(&mut self, peer: u32, result: Result<(), Fault>) {
        let Err(fault) = result else { return };
        let Some(lane) = self.lanes.get_mut(peer as usize).and_then(Option::as_mut) else { return };
        if lane.dead.is_some() {
            return;
        }
        // What a peer sent before it ended counts.
        while fault.orderly && matches!(lane.receive(&mut self.core), Ok(true)) {}
        let before: usize = self.core.queues.iter().map(Queue::failures).sum();
        lane.dead = Some(fault.words.clone());
        let core = &mut self.core;
        lane.abandon(core, ABORTED);
        let sends: Vec<u64> =
            core.sends.iter().filter(|(_, at)| at.peer == peer).map(|(id, _)| *id).collect();
        for sending in sends.iter().filter_map(|id| core.sends.remove(id)).collect::<Vec<_>>() {
            core.sent(&sending.outgoing, ABORTED);
        }
        let theirs = |at: &Receiving| at.label.source == peer;
        let receives: Vec<u64> =
            core.receives.iter().filter(|(_, at)| theirs(at)).map(|(id, _)| *id).collect();
        let begun = receives.iter().filter_map(|id| core.receives.remove(id)).collect::<Vec<_>>();
        let mut failed: Vec<Receive> = begun.into_iter().map(|receiving| receiving.receive).collect();
        failed.extend(core.matcher.abandon(peer));
        if self.lanes.iter().flatten().all(|lane| lane.dead.is_some()) {
            failed.extend(core.matcher.abandon_all());
        }
        for receive in &failed {
            core.failed(receive.context, 0, ABORTED);
        }
        let after: usize = core.queues.iter().map(Queue::failures).sum();
        if !fault.orderly || after > before {
            let lost = after - before;
            let rank = self.rank;
            let lost = match lost {
                0 => "nothing was under way with it".to_owned(),
                1 => "1 operation with it fails".to_owned(),
                _ => format!("{lost} operations with it fail"),
            };
            (self.complain)(&format!("rank {rank} lost rank {peer}: {}; {lost}", fault.words));
        }
    }

    /// Number of receives posted, and of messages that wait for one.
    pub fn waiting(&self) -> (usize, usize) {
        self.core.matcher.waiting()
    }

    /// The next completion of a queue.
    pub fn pop(&mut self, queue: usize) -> Option<Completion> {
        self.core.queues.get_mut(queue).and_then(Queue::pop)
    }
}

fn fill(receive: &mut Receive, bytes: &[u8]) {
    let target = receive.target.bytes();
    let count = target.len().min(bytes.len());
    let (to, from) = (target.get_mut(..count), bytes.get(..count));
    if let (Some(to), Some(from)) = (to, from) {
        to.copy_from_slice(from);
    }
}
