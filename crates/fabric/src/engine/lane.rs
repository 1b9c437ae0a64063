//! A lane: everything between us and one peer.
//!
//! ```text
//!  messages in order ─┐                          ┌─► a posted receive's buffer
//!                     ├─► one at a time ═══════► ─┼─► memory, until a receive is posted (bounded by credit)
//!  invited streams ───┘   (pieces in turns)      └─► pieces, to the buffer of the receive that invited
//! ```

mod control;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use super::core::{Arrived, Body, Core, Outgoing, Receive, Receiving, Sending};
use super::matching::Label;
use crate::fault::Fault;
use crate::transport::Transport;
use crate::wire::{HEADER, MOST_EAGER, MOST_PIECE, Message, VERSION};

/// Bytes of eager messages from one peer that we hold while no receive is posted. What exceeds it is announced.
const EAGER_BUDGET: u64 = 16 << 20;

/// What holding a message costs besides its bytes.
const EAGER_OVERHEAD: u64 = 64;

/// Most announced messages of one peer that wait for a receive; each takes about 100 bytes of ours.
const MOST_ANNOUNCED: usize = 1 << 20;

/// Messages taken from one peer before the others have their turn.
const MOST_AT_ONCE: usize = 64;

/// Polls between two attempts to connect.
const POLLS_PER_ATTEMPT: u32 = 16;

/// How long a peer may take to connect when something waits for it.
const CONNECT_WITHIN: Duration = Duration::from_secs(60);

/// What is being sent or is to be sent next.
#[derive(Debug)]
enum Item {
    /// A header, and for an eager message its send.
    Message([u8; HEADER], Option<Outgoing>),
    /// A piece of the send with this number: its header, where it begins and ends.
    Piece(u64, [u8; HEADER], usize, usize),
}

/// What is being received.
#[derive(Debug)]
enum Sink {
    Posted { receive: Receive, label: Label, data: Option<u64> },
    Memory { bytes: Vec<u8>, label: Label, data: Option<u64> },
    Piece { to: u64, offset: usize },
    Control(Message),
}

/// Who we are, for the first message.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Hello {
    pub(crate) run: u64,
    pub(crate) rank: u32,
}

/// The lane to one peer.
pub(crate) struct Lane {
    rank: u32,
    hello: Hello,
    transport: Box<dyn Transport>,
    up: bool,
    greeted: bool,
    polls: u32,
    /// Since when something waits for the peer to connect.
    waiting_since: Option<Instant>,
    messages: VecDeque<Item>,
    /// Sends that were invited and are not all sent.
    streams: VecDeque<u64>,
    open: Option<Item>,
    incoming: Option<(usize, Sink)>,
    /// Where bytes go that do not fit.
    excess: Vec<u8>,
    /// Eager bytes sent in all, and of these given back by the peer.
    eager_sent: u64,
    eager_returned: u64,
    /// Eager bytes held for the peer; given back in all, and of these told.
    held: u64,
    returned: u64,
    told: u64,
    announced: usize,
    /// Why nothing more can be sent, or nothing more comes.
    pub(crate) dead: Option<String>,
}

fn cost(length: usize) -> u64 {
    length as u64 + EAGER_OVERHEAD
}

impl Lane {
    pub(crate) fn new(rank: u32, hello: Hello, transport: Box<dyn Transport>) -> Self {
        Self {
            rank,
            hello,
            transport,
            up: false,
            greeted: false,
            polls: 0,
            waiting_since: None,
            messages: VecDeque::new(),
            streams: VecDeque::new(),
            open: None,
            incoming: None,
            excess: Vec::new(),
            eager_sent: 0,
            eager_returned: 0,
            held: 0,
            returned: 0,
            told: 0,
            announced: 0,
            dead: None,
        }
    }

    /// Whether there is more to do than to take what comes.
    pub(crate) fn has_left(&self) -> bool {
        self.dead.is_none() && (!self.up || self.is_busy())
    }

    /// The next round tries to connect.
    pub(crate) fn hurry(&mut self) {
        self.polls = POLLS_PER_ATTEMPT - 1;
    }

    /// Whether something waits to be sent.
    pub(crate) fn is_busy(&self) -> bool {
        self.open.is_some() || !self.messages.is_empty() || !self.streams.is_empty()
    }

    /// Sends a message, at once if that is possible.
    pub(crate) fn send(&mut self, core: &mut Core, mut outgoing: Outgoing) -> Result<(), Fault> {
        let (tag, data, length) = (outgoing.tag, outgoing.data, outgoing.load.bytes().len());
        let free = EAGER_BUDGET - (self.eager_sent - self.eager_returned).min(EAGER_BUDGET);
        if length > MOST_EAGER || cost(length) > free {
            let id = core.new_id();
            core.keep(&mut outgoing);
            core.sends.insert(id, Sending { peer: self.rank, outgoing, invited: None, done: 0 });
            return self.control(core, &Message::Announce { tag, data, length: length as u64, id });
        }
        self.eager_sent += cost(length);
        let header = Message::Eager { tag, data }.encode();
        let idle = self.up && !self.is_busy();
        let whole = if idle { self.transport.send(&header, outgoing.load.bytes()) } else { Ok(false) };
        if let Ok(true) = whole {
            core.sent(&outgoing, 0);
            return Ok(());
        }
        core.keep(&mut outgoing);
        let item = Item::Message(header, Some(outgoing));
        if idle {
            // It may have been sent in part.
            self.open = Some(item);
            return whole.map(|_| ());
        }
        self.messages.push_back(item);
        self.flush(core).map(|_| ())
    }

    /// Sends a header alone.
    pub(crate) fn control(&mut self, core: &mut Core, message: &Message) -> Result<(), Fault> {
        self.messages.push_back(Item::Message(message.encode(), None));
        self.flush(core).map(|_| ())
    }

    /// Asks for an announced message, which has this number and length, now that a receive is there.
    pub(crate) fn invite(
        &mut self,
        core: &mut Core,
        receive: Receive,
        label: Label,
        data: Option<u64>,
        (id, length): (u64, usize),
    ) -> Result<(), Fault> {
        let accepted = length.min(receive.target.len());
        let to = core.new_id();
        if accepted == 0 {
            core.received(&receive, label, data, length);
        } else {
            core.receives.insert(to, Receiving { receive, label, data, length, accepted, done: 0 });
        }
        self.control(core, &Message::Invite { id, to, accepted: accepted as u64 })
    }

    /// An eager message has left our memory, or an announced one was taken.
    pub(crate) fn give_back(&mut self, core: &mut Core, body: &Body) -> Result<(), Fault> {
        match body {
            Body::Here(bytes) => self.release(core, bytes.len()),
            Body::Announced { .. } => {
                self.announced = self.announced.saturating_sub(1);
                Ok(())
            }
            Body::Local(_) => Ok(()),
        }
    }

    fn release(&mut self, core: &mut Core, length: usize) -> Result<(), Fault> {
        self.held = self.held.saturating_sub(cost(length));
        self.returned += cost(length);
        self.tell_returned(core)
    }

    /// Tells the peer what it may use again, now and then.
    fn tell_returned(&mut self, core: &mut Core) -> Result<(), Fault> {
        if self.returned - self.told >= EAGER_BUDGET / 4 && self.dead.is_none() {
            self.told = self.returned;
            return self.control(core, &Message::Credit { returned: self.returned });
        }
        Ok(())
    }

    /// One round: connect, send, receive. Whether anything moved.
    pub(crate) fn poll(&mut self, core: &mut Core) -> Result<bool, Fault> {
        if !self.up {
            self.polls = self.polls.wrapping_add(1);
            if !self.polls.is_multiple_of(POLLS_PER_ATTEMPT) {
                return Ok(false);
            }
            return self.attempt();
        }
        let sent = self.is_busy() && self.flush(core)?;
        Ok(self.receive(core)? || sent)
    }

    fn attempt(&mut self) -> Result<bool, Fault> {
        if self.transport.connect()? {
            self.up = true;
            let Hello { run, rank } = self.hello;
            let hello = Message::Hello { run, rank, version: VERSION };
            self.messages.push_front(Item::Message(hello.encode(), None));
            return Ok(true);
        }
        if self.is_busy() {
            let since = *self.waiting_since.get_or_insert_with(Instant::now);
            if since.elapsed() > CONNECT_WITHIN {
                let obstacle = self.transport.obstacle();
                return Err(Fault::new(format!("not connected within {CONNECT_WITHIN:?}: {obstacle}")));
            }
        }
        Ok(false)
    }

    /// Looks whether the peer lives.
    pub(crate) fn check(&mut self) -> Result<(), Fault> {
        if self.up { self.transport.check() } else { Ok(()) }
    }

    /// Sends what can be sent now. Whether anything was.
    fn flush(&mut self, core: &mut Core) -> Result<bool, Fault> {
        let mut moved = false;
        while self.up {
            let next = self.open.take().or_else(|| self.messages.pop_front()).or_else(|| self.piece(core));
            let Some(item) = next else { break };
            let whole = match &item {
                Item::Message(header, outgoing) => {
                    let payload = outgoing.as_ref().map_or(&[][..], |outgoing| outgoing.load.bytes());
                    self.transport.send(header, payload)
                }
                Item::Piece(id, header, from, to) => {
                    let bytes = core.sends.get(id).map_or(&[][..], |sending| sending.outgoing.load.bytes());
                    self.transport.send(header, bytes.get(*from..*to).unwrap_or_default())
                }
            };
            match whole {
                Ok(true) => self.is_sent(core, item),
                Ok(false) => {
                    self.open = Some(item);
                    break;
                }
                Err(fault) => {
                    self.open = Some(item);
                    return Err(fault);
                }
            }
            moved = true;
        }
        Ok(moved)
    }

    /// The next piece of the stream whose turn it is.
    fn piece(&mut self, core: &Core) -> Option<Item> {
        let id = self.streams.pop_front()?;
        let sending = core.sends.get(&id)?;
        let (to, accepted) = sending.invited?;
        let end = accepted.min(sending.done + MOST_PIECE);
        let header = Message::Piece { to, offset: sending.done as u64 }.encode();
        Some(Item::Piece(id, header, sending.done, end))
    }

    fn is_sent(&mut self, core: &mut Core, item: Item) {
        match item {
            Item::Message(_, None) => {}
            Item::Message(_, Some(outgoing)) => core.sent(&outgoing, 0),
            Item::Piece(id, _, _, to) => {
                let Some(sending) = core.sends.get_mut(&id) else { return };
                sending.done = to;
                if sending.invited.is_some_and(|(_, accepted)| to < accepted) {
                    self.streams.push_back(id);
                } else if let Some(sending) = core.sends.remove(&id) {
                    core.sent(&sending.outgoing, 0);
                }
            }
        }
    }

    /// Everything that waits to be sent ends with an error; the numbers of announced sends are the engine's affair.
    pub(crate) fn abandon(&mut self, core: &mut Core, error: i32) {
        let waiting = self.open.take().into_iter().chain(self.messages.drain(..));
        for item in waiting {
            if let Item::Message(_, Some(outgoing)) = item {
                core.sent(&outgoing, error);
            }
        }
        self.streams.clear();
        if let Some((_, Sink::Posted { receive, label, .. })) = self.incoming.take() {
            core.failed(receive.context, label.tag, error);
        }
    }

    /// Takes what has come. Whether anything had.
    pub(crate) fn receive(&mut self, core: &mut Core) -> Result<bool, Fault> {
        for round in 0..MOST_AT_ONCE {
            if self.incoming.is_none() {
                let Some((header, payload)) = self.transport.next()? else { return Ok(round > 0) };
                if let Some((tag, data)) = Message::eager(&header, payload).filter(|_| self.greeted) {
                    if !self.receive_eager(core, tag, data, payload)? {
                        return Ok(round > 0);
                    }
                    if core.has_received() {
                        break;
                    }
                    continue;
                }
                let message = Message::decode(&header, payload)?;
                let sink = self.begin(core, message, payload)?;
                self.incoming = Some((payload, sink));
            }
            if !self.go_on(core)? {
                return Ok(round > 0);
            }
            // Who waits for this one should not wait until we have looked for another.
            if core.has_received() {
                break;
            }
        }
        Ok(true)
    }

    /// A whole message begins. True when all of it is where it belongs; what is not goes on as [`Lane::incoming`].
    fn receive_eager(
        &mut self,
        core: &mut Core,
        tag: u64,
        data: Option<u64>,
        payload: usize,
    ) -> Result<bool, Fault> {
        let held = self.held + cost(payload);
        if held > EAGER_BUDGET {
            let words = format!("wanted at most {EAGER_BUDGET} bytes without invitation, got {held}");
            return Err(Fault::new(words));
        }
        let label = Label { source: self.rank, tag };
        let Some(mut receive) = core.matcher.arrive(&label) else {
            self.held = held;
            self.incoming = Some((payload, Sink::Memory { bytes: vec![0; payload], label, data }));
            return self.go_on(core);
        };
        if payload <= receive.target.len() {
            let into = receive.target.bytes().get_mut(..payload).unwrap_or_default();
            if self.transport.take(into, &mut [])? {
                core.received(&receive, label, data, payload);
                self.returned += cost(payload);
                return self.tell_returned(core).map(|()| true);
            }
        }
        self.held = held;
        self.incoming = Some((payload, Sink::Posted { receive, label, data }));
        self.go_on(core)
    }

    /// Goes on with the message that is coming, and ends it if all of it is there.
    fn go_on(&mut self, core: &mut Core) -> Result<bool, Fault> {
        if !self.take(core)? {
            return Ok(false);
        }
        if let Some((payload, sink)) = self.incoming.take() {
            self.finish(core, sink, payload)?;
        }
        Ok(true)
    }

    /// Goes on with the message that is coming; true when all of it is there.
    fn take(&mut self, core: &mut Core) -> Result<bool, Fault> {
        let Some((payload, sink)) = &mut self.incoming else { return Ok(false) };
        let into: &mut [u8] = match sink {
            Sink::Posted { receive, .. } => {
                let bytes = receive.target.bytes();
                let fits = bytes.len().min(*payload);
                bytes.get_mut(..fits).unwrap_or_default()
            }
            Sink::Memory { bytes, .. } => bytes,
            Sink::Piece { to, offset } => {
                let bytes = core.receives.get_mut(to).map(|receiving| receiving.receive.target.bytes());
                let end = offset.saturating_add(*payload);
                bytes.and_then(|bytes| bytes.get_mut(*offset..end)).unwrap_or_default()
            }
            Sink::Control(_) => &mut [],
        };
        let excess = payload.saturating_sub(into.len());
        if self.excess.len() < excess {
            self.excess.resize(excess, 0);
        }
        self.transport.take(into, self.excess.get_mut(..excess).unwrap_or_default())
    }

    /// Decides where a message goes, before its payload is taken.
    fn begin(&mut self, core: &mut Core, message: Message, payload: usize) -> Result<Sink, Fault> {
        if !self.greeted && !matches!(message, Message::Hello { .. }) {
            return Err(Fault::new("wanted a hello first, got something else"));
        }
        match message {
            Message::Piece { to, offset } => {
                let wrong =
                    || Fault::new(format!("a piece at {offset} of a message that is not expected there"));
                let receiving = core.receives.get(&to).filter(|at| at.label.source == self.rank);
                let receiving = receiving.ok_or_else(wrong)?;
                let left = receiving.accepted.saturating_sub(receiving.done);
                if offset != receiving.done as u64 || payload > left || payload == 0 {
                    return Err(wrong());
                }
                Ok(Sink::Piece { to, offset: receiving.done })
            }
            other => Ok(Sink::Control(other)),
        }
    }

    /// All of a message is there.
    fn finish(&mut self, core: &mut Core, sink: Sink, payload: usize) -> Result<(), Fault> {
        match sink {
            Sink::Posted { receive, label, data } => {
                core.received(&receive, label, data, payload);
                self.release(core, payload)
            }
            Sink::Memory { bytes, label, data } => {
                // A receive may have been posted while the message was coming.
                let Some(mut receive) = core.matcher.arrive(&label) else {
                    core.matcher.keep(label, Arrived { data, body: Body::Here(bytes) });
                    return Ok(());
                };
                for (to, from) in receive.target.bytes().iter_mut().zip(&bytes) {
                    *to = *from;
                }
                core.received(&receive, label, data, payload);
                self.release(core, payload)
            }
            Sink::Piece { to, .. } => {
                let Some(receiving) = core.receives.get_mut(&to) else { return Ok(()) };
                receiving.done += payload;
                if receiving.done == receiving.accepted
                    && let Some(at) = core.receives.remove(&to)
                {
                    core.received(&at.receive, at.label, at.data, at.length);
                }
                Ok(())
            }
            Sink::Control(message) => self.obey(core, message),
        }
    }
}
