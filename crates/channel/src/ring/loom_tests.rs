//! Every interleaving, and every order of memory that the language allows, of the rings' core:
//! `RUSTFLAGS="--cfg loom" cargo test --release -p bulkhead-channel --lib loom` (`make loom`).
//!
//! One order the checker does not know: a load that sees a store which comes later in time. So it cannot miss the fences
//! around `head` (release before it is stored, acquire after it is loaded), which keep a receiver's loads of data from
//! being overtaken by the sender's next lap; those rest on the argument in `mod.rs` alone.

use std::sync::Arc;

use loom::thread;

use super::{Consumer, Fault, Producer, Progress, Short};
use crate::atomic::release;
use crate::layout::{CLOSED, HEAD, SESSION, TAIL};
use crate::memory::Memory;
use crate::words::{Foreign, Own};

/// Far smaller than a real ring, so that it is full after two small messages.
const RING_WORDS: usize = 8;
const BLOCK_WORDS: usize = 32;
const SENDER: u64 = 5 << 16 | 1;
const RECEIVER: u64 = 7 << 16 | 1;

/// A sender's section (ring and link block) and a receiver's (link block).
struct Sections {
    sender: Arc<Memory>,
    receiver: Arc<Memory>,
}

impl Sections {
    fn new() -> Self {
        let made = Self {
            sender: Arc::new(Memory::heap((RING_WORDS + BLOCK_WORDS) * 8)),
            receiver: Arc::new(Memory::heap(BLOCK_WORDS * 8)),
        };
        made.sender_block().store(SESSION, SENDER);
        made.receiver_block().store(SESSION, RECEIVER);
        made
    }

    fn sender_block(&self) -> Own {
        Own::new(&self.sender, RING_WORDS, BLOCK_WORDS).expect("inside")
    }

    fn receiver_block(&self) -> Own {
        Own::new(&self.receiver, 0, BLOCK_WORDS).expect("inside")
    }

    fn producer(&self) -> Producer {
        let ring = Own::new(&self.sender, 0, RING_WORDS).expect("inside");
        let theirs = Foreign::new(&self.receiver, 0, BLOCK_WORDS).expect("inside");
        Producer::new(ring, self.sender_block(), theirs, SENDER, RECEIVER)
    }

    fn consumer(&self) -> Consumer {
        let ring = Foreign::new(&self.sender, 0, RING_WORDS).expect("inside");
        let theirs = Foreign::new(&self.sender, RING_WORDS, BLOCK_WORDS).expect("inside");
        Consumer::new(ring, RING_WORDS as u64 * 8, theirs, self.receiver_block(), SENDER)
    }
}

fn check(preemptions: usize, body: impl Fn() + Sync + Send + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(preemptions);
    model.check(body);
}

/// Three messages of a frame each through a ring of two frames: order, contents, full and empty.
#[test]
fn messages_arrive_whole_and_in_order() {
    check(3, || {
        let sections = Sections::new();
        let (mut producer, mut consumer) = (sections.producer(), sections.consumer());
        let sending = thread::spawn(move || {
            for number in 1..=3_u64 {
                while !producer.send_whole(&[&number.to_le_bytes()]).expect("well") {
                    thread::yield_now();
                }
            }
        });
        for number in 1..=3_u64 {
            let mut got = [0; 8];
            while consumer.receive(&mut [&mut got]).expect("well") == Progress::Nothing {
                thread::yield_now();
            }
            assert_eq!(u64::from_le_bytes(got), number);
        }
        sending.join().expect("no panic");
    });
}

/// The same the short way, and the short way to one end only: both write and read the same frames.
#[test]
fn short_messages_arrive_whole_and_in_order() {
    for (sends_short, receives_short) in [(true, true), (true, false), (false, true)] {
        check(3, move || {
            let sections = Sections::new();
            let (mut producer, mut consumer) = (sections.producer(), sections.consumer());
            let sending = thread::spawn(move || {
                for number in 1..=3_u64 {
                    while !(if sends_short {
                        producer.send_short(&[number], &[]).expect("well")
                    } else {
                        producer.send_whole(&[&number.to_le_bytes()]).expect("well")
                    }) {
                        thread::yield_now();
                    }
                }
            });
            for number in 1..=3_u64 {
                assert_eq!(receive_one(&mut consumer, receives_short), number);
            }
            sending.join().expect("no panic");
        });
    }
}

fn receive_one(consumer: &mut Consumer, short: bool) -> u64 {
    loop {
        let (mut word, mut bytes) = ([0], [0; 8]);
        if short && consumer.receive_short(&mut word).expect("well") == Short::Message(8) {
            return word[0];
        }
        if !short && consumer.receive(&mut [&mut bytes]).expect("well") == Progress::Whole(8) {
            return u64::from_le_bytes(bytes);
        }
        thread::yield_now();
    }
}

/// A message of two fragments is received in parts, never with bytes that were not yet written.
#[test]
fn fragments_join_to_the_message() {
    check(3, || {
        let sections = Sections::new();
        let (mut producer, mut consumer) = (sections.producer(), sections.consumer());
        let sending = thread::spawn(move || {
            while !matches!(producer.send_part(&[&[9; 24]]).expect("well"), Progress::Whole(24)) {
                thread::yield_now();
            }
        });
        let mut got = [0; 24];
        while !matches!(consumer.receive(&mut [&mut got]).expect("well"), Progress::Whole(24)) {
            thread::yield_now();
        }
        assert_eq!(got, [9; 24]);
        sending.join().expect("no panic");
    });
}

/// The sender begins a new session over the same memory: the receiver gets the old message or learns of the restart,
/// never a mixture.
#[test]
fn a_restart_is_never_taken_for_a_message() {
    check(3, || {
        let sections = Sections::new();
        let (mut producer, mut consumer) = (sections.producer(), sections.consumer());
        assert!(producer.send_whole(&[&[1; 8]]).expect("well"));
        let block = sections.sender_block();
        let ring = Own::new(&sections.sender, 0, RING_WORDS).expect("inside");
        let theirs = Foreign::new(&sections.receiver, 0, BLOCK_WORDS).expect("inside");
        let restarting = thread::spawn(move || {
            block.store(SESSION, SENDER + 1);
            release();
            block.store(TAIL, 0);
            block.store(HEAD, 0);
            let mut again = Producer::new(ring, block, theirs, SENDER + 1, RECEIVER);
            assert!(again.send_whole(&[&[2; 8]]).expect("well"));
        });
        let mut got = [0; 8];
        match consumer.receive(&mut [&mut got]) {
            Ok(progress) => assert_eq!((progress, got), (Progress::Whole(8), [1; 8])),
            Err(fault) => assert_eq!(fault, Fault::Restarted),
        }
        restarting.join().expect("no panic");
    });
}

/// The sender sends and closes: the receiver gets the message first, then the end.
#[test]
fn the_end_comes_after_the_last_message() {
    check(3, || {
        let sections = Sections::new();
        let (mut producer, mut consumer) = (sections.producer(), sections.consumer());
        let block = sections.sender_block();
        let sending = thread::spawn(move || {
            assert!(producer.send_whole(&[&[3; 8]]).expect("well"));
            release();
            block.store(SESSION, SENDER | CLOSED);
        });
        let mut got = [0; 8];
        loop {
            match consumer.receive(&mut [&mut got]).expect("the message comes before the end") {
                Progress::Whole(8) => break,
                _ => thread::yield_now(),
            }
        }
        assert_eq!(got, [3; 8]);
        sending.join().expect("no panic");
        assert_eq!(consumer.receive(&mut [&mut got]), Err(Fault::Closed));
    });
}
