//! A peer that says anything at all, in any order: no panic, nothing written behind a receive, no more memory than allowed.
//! (The stable twin of what a fuzzer would do; the numbers come from a seed.)

mod common;

use std::cell::RefCell;
use std::rc::Rc;

use bulkhead_fi::engine::matching::Wanted;
use bulkhead_fi::engine::{Engine, Look};
use bulkhead_fi::fault::Fault;
use bulkhead_fi::transport::Transport;
use bulkhead_fi::wire::{HEADER, MOST_EAGER, MOST_PIECE, Message, VERSION};
use common::{Room, outgoing};

/// Steele, Lea and Flood's split mix (2014).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() % end as u64).expect("below an index")
    }
}

/// The hostile way: every answer is drawn, mostly almost right.
struct Hostile {
    random: Random,
    greeted: bool,
    /// Numbers that it saw the victim use.
    known: [u64; 4],
    offset: u64,
}

impl Hostile {
    fn id(&mut self) -> u64 {
        match self.random.below(3) {
            0 => self.known[self.random.below(4)],
            1 => self.random.next() % 64,
            _ => self.random.next(),
        }
    }

    fn message(&mut self) -> (Message, usize) {
        let (tag, data) = (self.random.next() % 3, Some(self.random.next()));
        let payload = self.random.below(MOST_EAGER + 100);
        match self.random.below(100) {
            0..=19 => {
                (Message::Announce { tag, data, length: self.random.next() % 100_000, id: self.id() }, 0)
            }
            20 => {
                (Message::Invite { id: self.id(), to: self.id(), accepted: self.random.next() % 70_000 }, 0)
            }
            21 => (Message::Credit { returned: self.random.next() % 4096 }, 0),
            22 | 23 => {
                let offset = if self.random.below(4) == 0 { self.random.next() } else { self.offset };
                self.offset = self.random.next() % 2 * 1000;
                (Message::Piece { to: self.id(), offset }, self.random.below(3) * 1000)
            }
            24..=60 => (Message::Eager { tag, data }, payload),
            _ => (Message::Eager { tag, data: None }, payload % 64),
        }
    }
}

impl Transport for Hostile {
    fn connect(&mut self) -> Result<bool, Fault> {
        Ok(self.random.below(2) == 0)
    }

    fn obstacle(&self) -> String {
        "it does not want to".to_owned()
    }

    fn send(&mut self, header: &[u8; HEADER], payload: &[u8]) -> Result<bool, Fault> {
        let message = Message::decode(header, payload.len()).expect("the victim speaks well");
        if let Message::Announce { id, .. } | Message::Invite { to: id, .. } = message {
            self.known[self.random.below(4)] = id;
        }
        Ok(self.random.below(4) > 0)
    }

    fn next(&mut self) -> Result<Option<([u8; HEADER], usize)>, Fault> {
        if !self.greeted && self.random.below(50) > 0 {
            self.greeted = true;
            return Ok(Some((Message::Hello { run: 7, rank: 1, version: VERSION }.encode(), 0)));
        }
        if self.random.below(3) == 0 {
            return Ok(None);
        }
        let (message, mut payload) = self.message();
        let mut header = message.encode();
        if self.random.below(200) == 0 {
            header[self.random.below(HEADER)] ^= 1 << self.random.below(8);
        }
        if self.random.below(1000) == 0 {
            payload = self.random.below(2 * MOST_PIECE);
        }
        Ok(Some((header, payload)))
    }

    fn take(&mut self, into: &mut [u8], rest: &mut [u8]) -> Result<bool, Fault> {
        into.fill(1);
        rest.fill(2);
        Ok(self.random.below(4) > 0)
    }

    fn check(&mut self) -> Result<(), Fault> {
        if self.random.below(100) == 0 { Err(Fault::new("enough")) } else { Ok(()) }
    }
}

thread_local! {
    static COMPLAINTS: Rc<RefCell<Vec<String>>> = Rc::default();
}

fn complain(words: &str) {
    COMPLAINTS.with(|all| all.borrow_mut().push(words.to_owned()));
}

/// One life of a victim; returns how many messages it received and whether it broke with the peer.
fn life(seed: u64) -> (u64, bool) {
    static BYTES: [u8; 70_000] = [3; 70_000];
    let hostile = Hostile { random: Random(seed), greeted: false, known: [0; 4], offset: 0 };
    let ways = vec![None, Some(Box::new(hostile) as Box<dyn Transport>)];
    let (mut engine, mut random) = (Engine::new(0, 7, ways, complain), Random(!seed));
    engine.open_queue();
    let (mut rooms, mut received) = (Vec::<Room>::new(), 0);
    let before = COMPLAINTS.with(|all| all.borrow().len());
    for context in 0..400 {
        let source = (random.below(2) == 0).then_some(1);
        let wanted =
            Wanted { source, tag: random.next() % 3, ignore: if random.below(3) == 0 { 3 } else { 0 } };
        match random.below(8) {
            0 | 1 => {
                rooms.push(Room::new(random.below(40_000)));
                engine.receive(wanted, rooms.last_mut().expect("just pushed").receive(context));
            }
            2 => engine.look(&wanted, context, Look::Discard),
            3 => {
                engine.look(&wanted, context, Look::Claim);
                let _nothing_there = engine.claim(context, None);
            }
            4 => drop(engine.cancel(random.below(400))),
            5 | 6 => {
                let bytes = &BYTES[..random.below(BYTES.len())];
                let name = (bytes.len() > MOST_EAGER || random.below(2) == 0).then_some(context);
                let _gone = engine.send(1, outgoing(bytes, random.next() % 3, None, name));
            }
            _ => {}
        }
        for _ in 0..random.below(20) {
            engine.progress();
        }
        let queue = engine.queue(0).expect("opened");
        while let Some(completion) = queue.pop() {
            received += completion.flags >> 10 & 1;
        }
        while queue.pop_failed().is_some() {}
    }
    for room in &rooms {
        room.bytes();
    }
    (received, COMPLAINTS.with(|all| all.borrow().len()) > before)
}

#[test]
fn whatever_a_peer_says_the_engine_goes_on_or_breaks_with_it() {
    let lives: Vec<(u64, bool)> = (0..1500).map(life).collect();
    let (received, broken) =
        (lives.iter().map(|life| life.0).sum::<u64>(), lives.iter().filter(|life| life.1).count());
    // Both must have happened often, or this tests nothing.
    assert!(received > 1500 && broken > 700, "{received} received, {broken} broken");
}
