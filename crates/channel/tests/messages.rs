//! Messages of every kind between two parties of one process, against a queue as the model.

mod common;

use std::collections::VecDeque;
use std::thread;

use channel::{Error, Gone, Progress};
use common::{HANG, NOW, message, pair, reconnect};
use proptest::prelude::*;

#[test]
fn every_size_arrives_as_sent_in_both_directions() {
    let folder = tempfile::tempdir().expect("a folder");
    let [mut one, mut two] = pair(folder.path(), 64 << 10).ends;
    let sizes =
        [0, 1, 7, 8, 9, 15, 16, 17, 255, 4095, 4096, 16383, 16384, 16385, 65535, 65536, 1 << 20, 4 << 20];
    let echo = thread::spawn(move || {
        let mut buffer = vec![0; 4 << 20];
        for _ in sizes {
            let length = two.receive(&mut buffer, HANG).expect("a message");
            two.send(&buffer[..length], HANG).expect("sent back");
        }
    });
    let mut buffer = vec![0; 4 << 20];
    for (number, size) in sizes.into_iter().enumerate() {
        let sent = message(number as u64, size);
        one.send(&sent, HANG).expect("sent");
        let length = one.receive(&mut buffer, HANG).expect("the echo");
        assert!(buffer[..length] == sent, "{size} bytes came back as {length}, or changed");
    }
    echo.join().expect("no panic");
}

#[test]
fn parts_are_gathered_and_scattered_at_every_cut() {
    let folder = tempfile::tempdir().expect("a folder");
    let [mut one, mut two] = pair(folder.path(), 4096).ends;
    let whole = message(3, 53);
    for cut in 0..=whole.len() {
        for second in cut..=whole.len() {
            let parts = [&whole[..cut], &whole[cut..second], &whole[second..]];
            assert!(one.sender().try_send(&parts).expect("sent"));
            let mut peek = two.receiver().peek().expect("a look").expect("a message");
            assert_eq!((peek.length(), peek.there()), (53, 53));
            let mut header = [0; 64];
            assert_eq!(peek.read(cut, &mut header).expect("bytes"), 53 - cut);
            assert_eq!(header[..53 - cut], whole[cut..]);
            let (mut head, mut tail) = (vec![0; second], vec![0; 60]);
            let got = two.receiver().try_receive(&mut [&mut head, &mut tail]).expect("received");
            assert_eq!(got, Some(53));
            assert_eq!([&head[..], &tail[..53 - second]].concat(), whole);
        }
    }
}

#[test]
fn what_is_longer_than_the_ring_goes_through_without_waiting_in_parts() {
    let folder = tempfile::tempdir().expect("a folder");
    let [mut one, mut two] = pair(folder.path(), 4096).ends;
    let sent = message(5, 100_000);
    assert!(matches!(one.try_send(&sent), Err(Error::TooLong { length: 100_000, most: 4000..=4096 })));
    let mut buffer = vec![0; 100_000];
    let (mut out, mut rounds) = (Progress::Nothing, 0);
    loop {
        if !matches!(out, Progress::Whole(_)) {
            out = one.sender().try_send_part(&[&sent]).expect("a part");
        }
        // Every other part through the copy that is kept aside.
        if rounds % 2 == 0 {
            match two.receiver().try_receive_part(&mut [&mut buffer]).expect("a part") {
                Progress::Whole(length) => break assert_eq!(length, sent.len()),
                Progress::Part { done, total } => assert!(done < total && total == sent.len()),
                Progress::Nothing => {}
            }
        } else if let Some(length) = two.try_receive(&mut buffer).expect("a part") {
            break assert_eq!(length, sent.len());
        } else {
            assert!(matches!(
                two.try_receive(&mut [0; 9]),
                Err(Error::BufferTooSmall { needed: 100_000, got: 9 })
            ));
        }
        rounds += 1;
        assert!(rounds < 1000, "it must come to an end");
    }
    assert!(rounds > 20, "4 KiB at a time: {rounds} rounds");
    assert!(buffer == sent);
}

#[test]
fn a_message_given_up_midway_is_dropped_and_the_next_arrives() {
    let folder = tempfile::tempdir().expect("a folder");
    let [mut one, mut two] = pair(folder.path(), 4096).ends;
    let error = one.send(&message(1, 50_000), NOW).expect_err("nobody reads");
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    let mut buffer = vec![0; 60_000];
    assert_eq!(two.try_receive(&mut buffer).expect("a part"), None);
    assert!(one.try_send(&message(2, 300)).expect("room again"));
    assert_eq!(two.try_receive(&mut buffer).expect("the next"), Some(300));
    assert!(buffer[..300] == message(2, 300));
    assert_eq!(two.receiver().dropped(), 1);
}

#[test]
fn a_message_too_long_for_the_buffer_stays_until_a_larger_one_comes() {
    let folder = tempfile::tempdir().expect("a folder");
    let [mut one, mut two] = pair(folder.path(), 4096).ends;
    assert!(one.try_send(&message(1, 100)).expect("sent"));
    for _ in 0..3 {
        let error = two.receive(&mut [0; 99], HANG).expect_err("too small");
        assert!(matches!(error, Error::BufferTooSmall { needed: 100, got: 99 }), "{error}");
    }
    assert_eq!(two.receive(&mut [0; 100], HANG).expect("received"), 100);
}

#[test]
fn a_full_ring_refuses_and_a_peer_that_reads_makes_room() {
    let folder = tempfile::tempdir().expect("a folder");
    let [mut one, mut two] = pair(folder.path(), 4096).ends;
    let mut sent = 0;
    while one.try_send(&message(sent, 240)).expect("sent") {
        sent += 1;
    }
    assert_eq!(sent, 16, "4096 bytes of frames of 256");
    assert!(matches!(one.sender().flush(NOW), Err(Error::Timeout { .. })));
    let mut buffer = [0; 240];
    for number in 0..sent {
        assert_eq!(two.try_receive(&mut buffer).expect("received"), Some(240));
        assert_eq!(buffer[..], message(number, 240));
    }
    assert_eq!(two.try_receive(&mut buffer).expect("nothing"), None);
    one.sender().flush(HANG).expect("everything was read");
    let most = usize::try_from(one.sender().most_at_once()).expect("small");
    assert!(one.try_send(&message(9, most)).expect("the largest at once fits"));
}

#[test]
fn who_closes_is_read_to_the_end_and_then_gone() {
    let folder = tempfile::tempdir().expect("a folder");
    let common::Pair { sections, ends: [mut one, mut two] } = pair(folder.path(), 4096);
    assert!(one.try_send(b"last words").expect("sent"));
    assert!(one.try_send(b"and more").expect("sent"));
    drop(one);
    drop(sections);
    let mut buffer = [0; 64];
    assert_eq!(two.receive(&mut buffer, HANG).expect("still there"), 10);
    assert_eq!(two.receive(&mut buffer, HANG).expect("still there"), 8);
    for _ in 0..2 {
        let error = two.receive(&mut buffer, HANG).expect_err("closed");
        assert!(matches!(error, Error::PeerGone { peer: 1, how: Gone::Closed }), "{error}");
    }
    assert!(matches!(two.try_send(b"hello?"), Err(Error::PeerGone { peer: 1, .. })));
}

#[test]
fn reconnecting_forgets_what_was_under_way_and_the_other_side_sees_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let common::Pair { sections: _sections, mut ends } = pair(folder.path(), 4096);
    for round in 0..50 {
        let [one, two] = &mut ends;
        assert!(one.try_send(&message(round, 500)).expect("sent"));
        assert!(two.try_send(&message(round, 700)).expect("sent"));
        reconnect(&mut ends);
        let [one, two] = &mut ends;
        assert_eq!(one.try_receive(&mut [0; 4096]).expect("nothing"), None);
        assert!(one.try_send(b"new").expect("sent"));
        let mut buffer = [0; 3];
        assert_eq!(two.try_receive(&mut buffer).expect("received"), Some(3));
        assert_eq!(&buffer, b"new");
    }
    let [one, mut two] = ends;
    drop(one);
    assert!(matches!(two.try_receive(&mut [0; 9]), Err(Error::PeerGone { .. })));
}

#[derive(Debug, Clone)]
enum Act {
    Send(usize),
    SendPart(usize),
    GiveUp,
    Receive,
    ReceivePart,
    Peek,
}

fn act() -> impl Strategy<Value = Act> {
    let length = prop_oneof![0..40_usize, 0..1100_usize, 3000..4200_usize];
    prop_oneof![
        4 => length.clone().prop_map(Act::Send),
        2 => (0..20_000_usize).prop_map(Act::SendPart),
        1 => Just(Act::GiveUp),
        5 => Just(Act::Receive),
        2 => Just(Act::ReceivePart),
        2 => Just(Act::Peek),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn a_link_is_a_queue_of_messages(acts in prop::collection::vec(act(), 1..200)) {
        let folder = tempfile::tempdir().expect("a folder");
        let [mut one, mut two] = pair(folder.path(), 4096).ends;
        let mut model: VecDeque<Vec<u8>> = VecDeque::new();
        let mut open: Option<Vec<u8>> = None;
        let mut buffer = vec![0; 20_000];
        let check = |length: usize, buffer: &[u8], model: &mut VecDeque<Vec<u8>>| {
            let wanted = model.pop_front().expect("nothing was sent that could arrive");
            assert!(buffer[..length] == wanted, "{} bytes wanted, {length} got, or changed", wanted.len());
        };
        for (number, act) in acts.into_iter().enumerate() {
            match act {
                Act::Send(length) => {
                    let sent = message(number as u64, length);
                    match one.try_send(&sent) {
                        Ok(true) => { open = None; model.push_back(sent); }
                        Ok(false) => prop_assert!(open.is_some() || !model.is_empty() || two.receiver().peek().is_ok()),
                        Err(Error::TooLong { most, .. }) => prop_assert!(length as u64 > most),
                        Err(error) => prop_assert!(false, "{}", error),
                    }
                }
                Act::SendPart(length) => {
                    let sent = open.take().unwrap_or_else(|| message(number as u64, length));
                    match one.sender().try_send_part(&[&sent[..sent.len() / 3], &sent[sent.len() / 3..]]).expect("a link") {
                        Progress::Whole(_) => model.push_back(sent),
                        _ => open = Some(sent),
                    }
                }
                Act::GiveUp => { one.sender().give_up(); open = None; }
                Act::Receive => if let Some(length) = two.try_receive(&mut buffer).expect("a link") {
                    check(length, &buffer, &mut model);
                },
                Act::ReceivePart => if let Progress::Whole(length) =
                    two.receiver().try_receive_part(&mut [&mut buffer]).expect("a link") {
                    check(length, &buffer, &mut model);
                },
                Act::Peek => if let Some(mut peek) = two.receiver().peek().expect("a link") {
                    let mut first = vec![0; peek.there()];
                    prop_assert_eq!(peek.read(0, &mut first).expect("bytes"), first.len());
                    if let Some(wanted) = model.front() {
                        prop_assert!(wanted.len() != peek.length() || wanted.starts_with(&first));
                    }
                },
            }
        }
        if let Some(rest) = open {
            one.sender().give_up();
            drop(rest);
        }
        while let Some(length) = two.try_receive(&mut buffer).expect("a link") {
            check(length, &buffer, &mut model);
        }
        prop_assert!(model.is_empty(), "{} messages were lost", model.len());
    }
}

#[test]
fn a_longer_message_is_found_behind_one_that_was_given_up() {
    let folder = tempfile::tempdir().expect("a folder");
    let [mut one, mut two] = pair(folder.path(), 4096).ends;
    let mut buffer = vec![0; 8192];
    assert!(one.try_send(&message(1, 3000)).expect("a link"));
    let begun = message(2, 1500);
    let progress = one.sender().try_send_part(&[&begun]).expect("a link");
    assert!(matches!(progress, Progress::Part { .. }), "{progress:?}");
    assert_eq!(two.try_receive(&mut buffer).expect("a link"), Some(3000));
    assert_eq!(two.try_receive(&mut buffer).expect("a link"), None);
    one.sender().give_up();
    let longer = message(3, 2000);
    assert!(one.try_send(&longer).expect("a link"));
    assert_eq!(two.try_receive(&mut buffer).expect("a link"), Some(2000));
    assert!(buffer[..2000] == longer);
}

#[test]
fn two_parties_connect_without_ever_waiting() {
    let folder = tempfile::tempdir().expect("a folder");
    let sections = common::sections(folder.path(), 4096);
    let mut first =
        channel::Connecting::begin(&sections[0], 2, &common::open(folder.path(), 2)).expect("a link");
    assert!(first.step().expect("the peer is ready").is_none(), "the peer has not connected yet");
    let mut second =
        channel::Connecting::begin(&sections[1], 1, &common::open(folder.path(), 1)).expect("a link");
    let (mut here, mut there) = (None, None);
    for _ in 0..4 {
        here = here.or_else(|| first.step().expect("well"));
        there = there.or_else(|| second.step().expect("well"));
        if here.is_some() && there.is_some() {
            break;
        }
    }
    let (mut here, mut there) = (here.expect("up"), there.expect("up"));
    assert!(here.try_send(b"hello").expect("well"));
    let mut buffer = [0; 8];
    assert_eq!(there.try_receive(&mut buffer).expect("well"), Some(5));
}

#[test]
fn short_messages_are_messages_like_any_other() {
    use channel::Short;
    let folder = tempfile::tempdir().expect("a folder");
    let mut pair = pair(folder.path(), 4096);
    let [here, there] = &mut pair.ends;
    let mut into = [0; 16];
    assert_eq!(there.receiver().try_receive_short(&mut into).expect("well"), Short::Nothing);
    assert!(here.sender().try_send_short(&[1; 100], &[1; 225]).is_err(), "more than a short message has");
    // Often enough for every place in the ring, in all four ways of sending and receiving.
    for number in 0..4000_u64 {
        let bytes = message(number, usize::try_from(number % 129).expect("small"));
        if number % 3 == 0 {
            assert!(here.try_send(&bytes).expect("well"));
        } else {
            // Some as words, the rest as bytes.
            let (whole, _) = bytes.as_chunks::<8>();
            let head = usize::try_from(number % 5).expect("small").min(whole.len());
            let words: Vec<u64> = whole.iter().take(head).map(|word| u64::from_le_bytes(*word)).collect();
            assert!(here.sender().try_send_short(&words, &bytes[head * 8..]).expect("well"));
        }
        let mut buffer = [0; 200];
        if number % 2 == 0 {
            assert_eq!(
                there.receiver().try_receive_short(&mut into).expect("well"),
                Short::Message(bytes.len())
            );
            for (to, word) in buffer.chunks_mut(8).zip(into) {
                to.copy_from_slice(&word.to_le_bytes());
            }
        } else {
            assert_eq!(there.try_receive(&mut buffer).expect("well"), Some(bytes.len()));
        }
        assert!(buffer[..bytes.len()] == bytes, "message {number}");
    }
    // What is longer is left; where there is no room, nothing is sent.
    assert!(here.try_send(&[7; 129]).expect("well"));
    assert_eq!(there.receiver().try_receive_short(&mut into).expect("well"), Short::Longer);
    assert_eq!(there.try_receive(&mut [0; 200]).expect("well"), Some(129));
    while here.sender().try_send_short(&[7], &[]).expect("well") {}
    assert_eq!(there.receiver().try_receive_short(&mut into).expect("well"), Short::Message(8));
}
