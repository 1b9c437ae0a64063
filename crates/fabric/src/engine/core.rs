//! What all lanes share: matching, operations under way, completion queues.

use std::collections::HashMap;

use super::completion::{Completion, Queue};
use super::matching::{Label, Matcher};
use crate::window::{Source, Target};

/// libfabric's flags of completions.
const FI_TAGGED: u64 = 1 << 3;
const FI_RECV: u64 = 1 << 10;
const FI_SEND: u64 = 1 << 11;
const FI_REMOTE_CQ_DATA: u64 = 1 << 17;

/// libfabric's number for a message that was longer than its receive.
pub(crate) const TRUNCATED: i32 = 265;

/// What is sent: the program's memory, or a copy of ours.
#[derive(Debug)]
pub enum Load {
    /// The program's, until the operation completes.
    User(Source),
    /// Ours.
    Copied(Box<[u8]>),
}

impl Load {
    /// Nothing.
    pub fn none() -> Self {
        Self::Copied(Box::default())
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::User(source) => source.bytes(),
            Self::Copied(bytes) => bytes,
        }
    }
}

/// A send as the program asks for it.
#[derive(Debug)]
pub struct Outgoing {
    /// What.
    pub load: Load,
    /// With which tag.
    pub tag: u64,
    /// With which data for the completion.
    pub data: Option<u64>,
    /// The program's name for it, if it wants a completion.
    pub context: Option<usize>,
    /// Whether the memory is the program's again as soon as the call returns.
    pub inject: bool,
}

/// A receive as the program asks for it.
#[derive(Debug)]
pub struct Receive {
    /// Where to.
    pub target: Target,
    /// The program's name for it.
    pub context: usize,
}

/// A message without a receive.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) data: Option<u64>,
    pub(crate) body: Body,
}

#[derive(Debug)]
pub(crate) enum Body {
    /// All of it.
    Here(Vec<u8>),
    /// Its sender waits for an invitation.
    Announced { id: u64, length: u64 },
    /// From ourselves, in the program's memory.
    Local(Outgoing),
}

impl Body {
    pub(crate) fn length(&self) -> usize {
        match self {
            Self::Here(bytes) => bytes.len(),
            Self::Announced { length, .. } => usize::try_from(*length).unwrap_or(usize::MAX),
            Self::Local(outgoing) => outgoing.load.bytes().len(),
        }
    }
}

/// An announced send: waits for its invitation, then travels in pieces.
#[derive(Debug)]
pub(crate) struct Sending {
    pub(crate) peer: u32,
    pub(crate) outgoing: Outgoing,
    /// How the receiver knows it and how many bytes it takes, once it has invited.
    pub(crate) invited: Option<(u64, usize)>,
    pub(crate) done: usize,
}

/// A receive whose message comes in pieces.
#[derive(Debug)]
pub(crate) struct Receiving {
    pub(crate) receive: Receive,
    pub(crate) label: Label,
    pub(crate) data: Option<u64>,
    /// Bytes of the message, and of it that come.
    pub(crate) length: usize,
    pub(crate) accepted: usize,
    pub(crate) done: usize,
}

/// The shared state.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) matcher: Matcher<Receive, Arrived>,
    pub(crate) sends: HashMap<u64, Sending>,
    pub(crate) receives: HashMap<u64, Receiving>,
    pub(crate) queues: Vec<Queue>,
    /// Which queues take the completions of sends and of receives.
    pub(crate) send_queue: usize,
    pub(crate) receive_queue: usize,
    /// Bytes of copies that wait to be sent.
    pub(crate) copied: usize,
    last_id: u64,
}

impl Core {
    pub(crate) fn new() -> Self {
        Self {
            matcher: Matcher::default(),
            sends: HashMap::new(),
            receives: HashMap::new(),
            queues: Vec::new(),
            send_queue: 0,
            receive_queue: 0,
            copied: 0,
            last_id: 0,
        }
    }

    pub(crate) fn new_id(&mut self) -> u64 {
        self.last_id = self.last_id.wrapping_add(1);
        self.last_id
    }

    /// Whether a receive has ended that the program does not know of yet.
    #[inline]
    pub(crate) fn has_received(&self) -> bool {
        self.queues.get(self.receive_queue).is_some_and(|queue| !queue.is_empty())
    }

    fn push(&mut self, queue: usize, completion: Completion) {
        if let Some(queue) = self.queues.get_mut(queue) {
            queue.push(completion);
        }
    }

    /// A send ended; `error` is zero if well.
    pub(crate) fn sent(&mut self, outgoing: &Outgoing, error: i32) {
        if let Load::Copied(bytes) = &outgoing.load {
            self.copied = self.copied.saturating_sub(bytes.len());
        }
        // Nobody waits for the end of a send without a name.
        let Some(context) = outgoing.context else { return };
        let completion = Completion {
            context,
            flags: FI_SEND | FI_TAGGED,
            tag: outgoing.tag,
            error,
            ..Default::default()
        };
        self.push(self.send_queue, completion);
    }

    /// A receive got its message of `length` bytes, as far as it fits.
    pub(crate) fn received(&mut self, receive: &Receive, label: Label, data: Option<u64>, length: usize) {
        let overflow = length.saturating_sub(receive.target.len());
        let completion = Completion {
            length: length - overflow,
            buffer: receive.target.address(),
            overflow,
            error: if overflow > 0 { TRUNCATED } else { 0 },
            ..labelled(receive.context, label, data)
        };
        self.push(self.receive_queue, completion);
    }

    /// A look at a message found one, or a message was thrown away as asked.
    pub(crate) fn seen(&mut self, context: usize, label: Label, data: Option<u64>, length: usize) {
        let completion = Completion { length, ..labelled(context, label, data) };
        self.push(self.receive_queue, completion);
    }

    /// A receive ended with an error.
    pub(crate) fn failed(&mut self, context: usize, tag: u64, error: i32) {
        let flags = FI_RECV | FI_TAGGED;
        self.push(self.receive_queue, Completion { context, flags, tag, error, ..Default::default() });
    }

    /// The program's memory cannot be used after the call: a copy, counted until it is sent.
    pub(crate) fn keep(&mut self, outgoing: &mut Outgoing) {
        if outgoing.inject && matches!(outgoing.load, Load::User(_)) {
            outgoing.load = Load::Copied(outgoing.load.bytes().into());
            self.copied += outgoing.load.bytes().len();
        }
    }
}

fn labelled(context: usize, label: Label, data: Option<u64>) -> Completion {
    let carries = if data.is_some() { FI_REMOTE_CQ_DATA } else { 0 };
    Completion {
        context,
        flags: FI_RECV | FI_TAGGED | carries,
        data: data.unwrap_or(0),
        tag: label.tag,
        source: Some(label.source),
        ..Default::default()
    }
}
