//! The rings between two threads, small enough for an interpreter that looks for undefined behaviour and data races:
//! `cargo +nightly miri test -p bulkhead-channel --lib ring` (`make miri`).

use std::sync::Arc;
use std::thread;

use super::{Consumer, Frame, Kind, Producer, Progress};
use crate::layout::SESSION;
use crate::memory::Memory;
use crate::words::{Foreign, Own};

const RING_WORDS: usize = 64;
const BLOCK_WORDS: usize = 32;
const SENDER: u64 = 5 << 16 | 1;
const RECEIVER: u64 = 7 << 16 | 1;

fn rings() -> (Producer, Consumer) {
    let sender = Arc::new(Memory::heap((RING_WORDS + BLOCK_WORDS) * 8));
    let receiver = Arc::new(Memory::heap(BLOCK_WORDS * 8));
    let own = |memory, from, words| Own::new(memory, from, words).expect("inside");
    let foreign = |memory, from, words| Foreign::new(memory, from, words).expect("inside");
    let (block, ring) = (own(&sender, RING_WORDS, BLOCK_WORDS), own(&sender, 0, RING_WORDS));
    block.store(SESSION, SENDER);
    let control = own(&receiver, 0, BLOCK_WORDS);
    control.store(SESSION, RECEIVER);
    let producer = Producer::new(ring, block, foreign(&receiver, 0, BLOCK_WORDS), SENDER, RECEIVER);
    let theirs = foreign(&sender, RING_WORDS, BLOCK_WORDS);
    let capacity = RING_WORDS as u64 * 8;
    (producer, Consumer::new(foreign(&sender, 0, RING_WORDS), capacity, theirs, control, SENDER))
}

#[test]
fn two_threads_exchange_messages_of_many_lengths() {
    let (mut producer, mut consumer) = rings();
    let lengths = (0..40_usize).map(|number| number * 37 % 700);
    let sent = lengths.clone();
    let sending = thread::spawn(move || {
        for (number, length) in sent.enumerate() {
            let message: Vec<u8> = (0..length).map(|at| (number + at).to_le_bytes()[0]).collect();
            let (front, back) = message.split_at(length / 3);
            while !matches!(producer.send_part(&[front, back]).expect("well"), Progress::Whole(_)) {
                thread::yield_now();
            }
        }
    });
    let mut buffer = [0; 700];
    for (number, length) in lengths.enumerate() {
        let (front, back) = buffer.split_at_mut(length / 2);
        let got = loop {
            match consumer.receive(&mut [&mut *front, &mut *back]).expect("well") {
                Progress::Whole(got) => break got,
                _ => thread::yield_now(),
            }
        };
        assert_eq!(got, length);
        assert!(
            buffer.iter().take(length).enumerate().all(|(at, byte)| *byte == (number + at).to_le_bytes()[0])
        );
    }
    sending.join().expect("no panic");
}

#[test]
fn nothing_outside_a_window_is_touched() {
    let memory = Arc::new(Memory::heap(16 * 8));
    assert!(Own::new(&memory, 10, 7).is_none() && Foreign::new(&memory, usize::MAX, 2).is_none());
    let (own, all) =
        (Own::new(&memory, 4, 4).expect("inside"), Foreign::new(&memory, 0, 16).expect("inside"));
    own.store(4, 1);
    own.store(usize::MAX, 1);
    own.store_bytes(3, &[1; 64]);
    own.store_bytes(9, &[1; 8]);
    own.store_bytes(0, &[2; 100]);
    let outside = (0..16).filter(|at| !(4..8).contains(at)).any(|at| all.load(at) != 0);
    assert!(!outside);
    let window = Foreign::new(&memory, 4, 4).expect("inside");
    let mut bytes = [7; 200];
    window.load_bytes(0, &mut bytes);
    window.load_bytes(5, &mut bytes);
    assert_eq!(window.load(4), 0);
}

#[test]
fn every_header_is_read_back_as_written_or_refused() {
    for kind in [Kind::First, Kind::Next] {
        for value in [0, 1, 0x00ff_ffff] {
            for wide in [0, 1, u32::MAX] {
                let frame = Frame { kind, stamp: value, length: wide, sequence: wide, number: wide };
                assert_eq!(Frame::decode(frame.encode()), Ok(frame));
            }
        }
    }
    for low in (0..=255_u64).filter(|low| !(1..=2).contains(low)) {
        assert!(Frame::decode([low, 0]).is_err());
    }
}
