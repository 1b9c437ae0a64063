//! The switch without its sockets: bytes of each plug in, bytes for each plug out. Pure; moments are counted from when
//! the switch began.

use std::collections::BTreeMap;
use std::time::Duration;

use super::bucket::Bucket;
use super::queue::Queue;
use super::source::Source;
use super::table::{Address, Table};
use super::wire::{Decoder, SHORTEST_FRAME, TooLong};
use model::partition::network::PlugCounts;

/// Number of a plug: that of the partition in its network, 1 … 255, or [`TRUNK`].
pub type PlugNumber = u8;
/// The plug that leads to the other switch of a doubled network.
pub const TRUNK: PlugNumber = 0;

/// Addresses that are remembered of a plug that may use any.
const MOST_OF_A_PLUG: usize = 64;
/// The same of the trunk, behind which there are up to 250 plugs.
const MOST_OF_THE_TRUNK: usize = 4096;
/// Bit of the first byte of an address that is no single station's.
const GROUP: u8 = 1;

/// How long after a standstill what comes from a plug may be of before it, at most: what waits there is read in milliseconds.
const OLD_FOR: Duration = Duration::from_millis(200);

/// What a plug may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rules {
    /// The one hardware address its frames may come from, and with it the internet addresses (`Source::of`); any if not
    /// set.
    pub address: Option<Address>,
    /// Bytes of frames per second that are taken from it at most.
    pub bytes_per_s: Option<u64>,
}

/// A plug with somebody in it.
#[derive(Debug)]
struct Plug {
    /// Whom its frames may come from; anybody if not set.
    source: Option<Source>,
    bucket: Bucket,
    decoder: Decoder,
    queue: Queue,
    /// Until when its frames are of before a standstill, and dropped.
    old_until: Duration,
}

/// The switch.
#[derive(Debug, Default)]
pub struct Switch {
    plugs: BTreeMap<PlugNumber, Plug>,
    table: Table,
    /// Also of plugs that nobody is in any more.
    counts: BTreeMap<PlugNumber, PlugCounts>,
}

/// Why a frame goes nowhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Loss {
    Invalid,
    Foreign,
}

impl Switch {
    /// Somebody is in a plug now, with nothing left of whoever was before.
    pub fn plug_in(&mut self, number: PlugNumber, rules: Rules) {
        self.unplug(number);
        let bucket = Bucket::new(rules.bytes_per_s);
        let source = rules.address.map(Source::of);
        let (decoder, queue) = (Decoder::default(), Queue::default());
        let plug = Plug { source, bucket, decoder, queue, old_until: Duration::ZERO };
        self.plugs.insert(number, plug);
        self.counts.entry(number).or_default().connections += 1;
    }

    /// Nobody is in a plug any more. What waits for it is lost, what was learned of it forgotten.
    pub fn unplug(&mut self, number: PlugNumber) {
        self.plugs.remove(&number);
        self.table.forget(number);
    }

    /// The switch stood still for so long that cards may have left it for the other one. What waits at its plugs was sent before, and
    /// would tell both switches that they are still here: it is dropped, and all is sent to all until they are heard anew.
    pub fn stood_still(&mut self, now: Duration) {
        // Without another one nobody can leave.
        if self.is_in(TRUNK) {
            self.table.clear();
            for (_, plug) in self.plugs.iter_mut().filter(|(number, _)| **number != TRUNK) {
                plug.old_until = now + OLD_FOR;
            }
        }
    }

    /// Nothing waits at a plug: what it sends from now on is new.
    pub fn drained(&mut self, number: PlugNumber) {
        if let Some(plug) = self.plugs.get_mut(&number).filter(|plug| !plug.decoder.has_frame()) {
            plug.old_until = Duration::ZERO;
        }
    }

    /// Takes bytes from a plug and forwards what frames it can.
    ///
    /// # Errors
    /// When they are no frames: the plug is to be closed.
    pub fn receive(&mut self, from: PlugNumber, bytes: &[u8], now: Duration) -> Result<(), TooLong> {
        if let Some(plug) = self.plugs.get_mut(&from) {
            plug.decoder.feed(bytes);
        }
        self.resume(from, now)
    }

    /// Forwards the frames of a plug that waited for its allowance, as far as it goes.
    ///
    /// # Errors
    /// As [`Switch::receive`].
    pub fn resume(&mut self, from: PlugNumber, now: Duration) -> Result<(), TooLong> {
        // Out of the map meanwhile, so that its frames can be lent to the others.
        let Some(mut plug) = self.plugs.remove(&from) else { return Ok(()) };
        let mut outcome = Ok(());
        let is_old = now < plug.old_until;
        while is_old || plug.bucket.wait(now).is_zero() {
            match plug.decoder.frame() {
                Ok(Some(_)) if is_old => self.counts.entry(from).or_default().lost_frames += 1,
                Ok(Some(frame)) => {
                    plug.bucket.take(frame.len(), now);
                    self.forward(from, plug.source.as_ref(), frame, now);
                }
                Ok(None) => break,
                Err(error) => {
                    outcome = Err(error);
                    break;
                }
            }
        }
        self.plugs.insert(from, plug);
        outcome
    }

    /// How long a plug has to wait until it may send on; none when no frame of it waits, so it is to be read from.
    pub fn holds_back(&self, number: PlugNumber, now: Duration) -> Option<Duration> {
        let plug = self.plugs.get(&number)?;
        let wait = plug.bucket.wait(now);
        (!wait.is_zero() || plug.decoder.has_frame()).then_some(wait)
    }

    /// What waits to be sent to a plug.
    pub fn waiting(&self, number: PlugNumber) -> &[u8] {
        self.plugs.get(&number).map(|plug| plug.queue.waiting()).unwrap_or_default()
    }

    /// Notes that so many of the waiting bytes were sent.
    pub fn sent(&mut self, number: PlugNumber, bytes: usize) {
        if let Some(plug) = self.plugs.get_mut(&number) {
            plug.queue.sent(bytes);
        }
    }

    /// Whether somebody is in a plug.
    pub fn is_in(&self, number: PlugNumber) -> bool {
        self.plugs.contains_key(&number)
    }

    /// What was counted, with whether somebody is in the plug, for every plug that ever was.
    pub fn counts(&self) -> BTreeMap<PlugNumber, PlugCounts> {
        let with_state = |(number, counts): (&PlugNumber, &PlugCounts)| {
            (*number, PlugCounts { connected: self.is_in(*number), ..*counts })
        };
        self.counts.iter().map(with_state).collect()
    }

    fn forward(&mut self, from: PlugNumber, own: Option<&Source>, frame: &[u8], now: Duration) {
        let counts = self.counts.entry(from).or_default();
        counts.received_frames += 1;
        counts.received_bytes += u64::try_from(frame.len()).unwrap_or(u64::MAX);
        let (to, source) = match checked(frame, own) {
            Ok(addresses) => addresses,
            Err(Loss::Invalid) => return counts.invalid_frames += 1,
            Err(Loss::Foreign) => return counts.foreign_frames += 1,
        };
        let most = if from == TRUNK { MOST_OF_THE_TRUNK } else { MOST_OF_A_PLUG };
        self.table.learn(source, from, most, now);
        let known = if is_group(to) { None } else { self.table.find(to, now) };
        match known {
            // They hear each other without us.
            Some(plug) if plug == from => {}
            Some(plug) => self.send(plug, frame),
            None => {
                let all: Vec<PlugNumber> = self.plugs.keys().copied().collect();
                for plug in all {
                    self.send(plug, frame);
                }
            }
        }
    }

    fn send(&mut self, number: PlugNumber, frame: &[u8]) {
        let Some(plug) = self.plugs.get_mut(&number) else { return };
        let sent = plug.queue.push(frame);
        let counts = self.counts.entry(number).or_default();
        if sent {
            counts.sent_frames += 1;
            counts.sent_bytes += u64::try_from(frame.len()).unwrap_or(u64::MAX);
        } else {
            counts.lost_frames += 1;
        }
    }
}

/// Destination and source of a frame that may be forwarded.
fn checked(frame: &[u8], own: Option<&Source>) -> Result<(Address, Address), Loss> {
    let (to, rest) = frame.split_first_chunk::<6>().ok_or(Loss::Invalid)?;
    let (source, _) = rest.split_first_chunk::<6>().ok_or(Loss::Invalid)?;
    if frame.len() < SHORTEST_FRAME || is_group(*source) || is_for_switches(*to) {
        return Err(Loss::Invalid);
    }
    if let Some(own) = own {
        own.check(*source, frame, is_group(*to))?;
    }
    Ok((*to, *source))
}

const fn is_group(address: Address) -> bool {
    address[0] & GROUP != 0
}

/// What switches say to each other and never forward: spanning trees, requests to pause (IEEE 802.1Q, table 8-1).
fn is_for_switches(address: Address) -> bool {
    let [start @ .., last] = address;
    start == [0x01, 0x80, 0xc2, 0x00, 0x00] && last < 0x10
}
