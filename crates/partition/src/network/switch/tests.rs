//! The switch against a model that keeps everything and is written for clarity alone, and its parts against their rules.

use std::collections::BTreeMap;
use std::time::Duration;

use proptest::prelude::*;

use super::bucket::Bucket;
use super::core::{PlugNumber, Rules, Switch, TRUNK};
use super::queue::{QUEUE_BYTES, Queue};
use super::table::{AGEING, Table};
use super::wire::{Decoder, LONGEST_FRAME};
use super::{SwitchOrder, Trunk};

fn on_wire(frame: &[u8]) -> Vec<u8> {
    [&u32::try_from(frame.len()).unwrap().to_be_bytes(), frame].concat()
}

fn frames(stream: &[u8]) -> Vec<Vec<u8>> {
    let mut decoder = Decoder::default();
    decoder.feed(stream);
    std::iter::from_fn(|| decoder.frame().unwrap().map(<[u8]>::to_vec)).collect()
}

/// Station `n`; 0 is everybody.
fn address(station: u8) -> [u8; 6] {
    if station == 0 { [0xff; 6] } else { [2, 0, 0, 0, 0, station] }
}

fn frame(to: u8, from: u8, size: usize) -> Vec<u8> {
    let mut frame = [&address(to)[..], &address(from), &[0x88, 0xb5]].concat();
    frame.resize(size.max(14), from);
    frame
}

/// What happens at a switch.
#[derive(Debug, Clone)]
enum Act {
    In(PlugNumber),
    Out(PlugNumber),
    Frame {
        plug: PlugNumber,
        to: u8,
        from: u8,
        size: usize,
    },
    /// Seconds go by.
    Pass(u64),
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let frame = (0..6_u8, 0..8_u8, 0..8_u8, 0..100_usize);
    let frame = frame.prop_map(|(plug, to, from, size)| Act::Frame { plug, to, from, size });
    let act = prop_oneof![
        1 => (0..6_u8).prop_map(Act::In),
        1 => (0..6_u8).prop_map(Act::Out),
        12 => frame,
        1 => (0..400_u64).prop_map(Act::Pass),
    ];
    proptest::collection::vec(act, 0..200)
}

/// The whole history; every question is answered by reading it from its end.
#[derive(Default)]
struct Model {
    inside: Vec<PlugNumber>,
    /// When, where (not known any more once the plug was left), whom.
    heard: Vec<(Duration, Option<PlugNumber>, [u8; 6])>,
    out: BTreeMap<PlugNumber, Vec<Vec<u8>>>,
}

impl Model {
    fn frame(&mut self, plug: PlugNumber, frame: &[u8], now: Duration) {
        let to: [u8; 6] = frame[..6].try_into().unwrap();
        let from: [u8; 6] = frame[6..12].try_into().unwrap();
        if !self.inside.contains(&plug) || from[0] & 1 == 1 {
            return;
        }
        self.heard.push((now, Some(plug), from));
        let last = self.heard.iter().rev().find(|(_, _, address)| *address == to);
        let known =
            last.filter(|(when, ..)| now.saturating_sub(*when) <= AGEING).and_then(|(_, plug, _)| *plug);
        for target in self.inside.iter().filter(|target| **target != plug) {
            if known.is_none_or(|plug| plug == *target) {
                self.out.entry(*target).or_default().push(frame.to_vec());
            }
        }
    }

    fn leave(&mut self, plug: PlugNumber) {
        self.inside.retain(|inside| *inside != plug);
        let there = self.heard.iter_mut().filter(|(_, heard, _)| *heard == Some(plug));
        there.for_each(|(_, heard, _)| *heard = None);
    }
}

proptest! {
    #[test]
    fn every_frame_goes_where_the_model_says(acts in acts()) {
        let (mut switch, mut model) = (Switch::default(), Model::default());
        let mut out: BTreeMap<PlugNumber, Vec<Vec<u8>>> = BTreeMap::new();
        let mut now = Duration::ZERO;
        for act in acts {
            match act {
                Act::In(plug) => {
                    switch.plug_in(plug, Rules::default());
                    model.leave(plug);
                    model.inside.push(plug);
                }
                Act::Out(plug) => {
                    switch.unplug(plug);
                    model.leave(plug);
                }
                Act::Frame { plug, to, from, size } => {
                    let frame = frame(to, from, size);
                    switch.receive(plug, &on_wire(&frame), now).unwrap();
                    model.frame(plug, &frame, now);
                }
                Act::Pass(seconds) => now += Duration::from_secs(seconds),
            }
            for plug in 0..6 {
                let waiting = switch.waiting(plug).to_vec();
                switch.sent(plug, waiting.len());
                let came = frames(&waiting);
                if !came.is_empty() {
                    out.entry(plug).or_default().extend(came);
                }
            }
        }
        prop_assert_eq!(out, model.out);
    }

    #[test]
    fn a_stream_in_any_pieces_is_the_same_frames(
        sizes in proptest::collection::vec(0..3000_usize, 0..30),
        cuts in proptest::collection::vec(1..5000_usize, 1..40),
    ) {
        let sent: Vec<Vec<u8>> = sizes.iter().map(|size| vec![7; *size]).collect();
        let stream: Vec<u8> = sent.iter().flat_map(|frame| on_wire(frame)).collect();
        let (mut decoder, mut got, mut rest) = (Decoder::default(), Vec::new(), stream.as_slice());
        for cut in cuts.iter().cycle().take_while(|_| !stream.is_empty()) {
            let (piece, later) = rest.split_at((*cut).min(rest.len()));
            decoder.feed(piece);
            while let Some(frame) = decoder.frame().unwrap() {
                got.push(frame.to_vec());
            }
            rest = later;
            if rest.is_empty() {
                break;
            }
        }
        prop_assert_eq!(got, sent);
    }

    #[test]
    fn strangers_bytes_break_nothing(
        pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..300), 0..50)
    ) {
        let mut switch = Switch::default();
        switch.plug_in(1, Rules::default());
        switch.plug_in(2, Rules { address: Some(address(2)), bytes_per_s: Some(1) });
        for piece in pieces {
            let _ = switch.receive(1, &piece, Duration::ZERO);
            let _ = switch.receive(2, &piece, Duration::ZERO);
        }
        let (one, two) = (switch.waiting(1).len(), switch.waiting(2).len());
        prop_assert!(one <= QUEUE_BYTES && two <= QUEUE_BYTES);
    }

    #[test]
    fn a_plug_never_sends_beyond_its_rate(
        rate in 1_000..10_000_000_u64,
        steps in proptest::collection::vec((14..9000_usize, 0..50_u64), 1..300),
    ) {
        let mut bucket = Bucket::new(Some(rate));
        let (mut now, mut passed) = (Duration::ZERO, 0_usize);
        for (size, wait) in steps {
            now += Duration::from_millis(wait);
            if bucket.wait(now).is_zero() {
                bucket.take(size, now);
                passed += size;
                let allowed = rate as f64 * (now.as_secs_f64() + 0.1) + size as f64 + 1.0;
                prop_assert!(passed as f64 <= allowed, "{passed} of {allowed}");
            }
        }
    }
}

#[test]
fn a_plug_gets_all_of_its_rate() {
    let (mut switch, rate) = (Switch::default(), 100_000_u64);
    switch.plug_in(1, Rules { bytes_per_s: Some(rate), ..Rules::default() });
    switch.plug_in(2, Rules::default());
    let stream: Vec<u8> = std::iter::repeat_n(on_wire(&frame(2, 1, 1000)), 1000).flatten().collect();
    switch.receive(1, &stream, Duration::ZERO).unwrap();
    let mut came = frames(switch.waiting(2)).len();
    assert!((10..=11).contains(&came), "a tenth of a second's worth at once, not {came}");
    let mut now = Duration::ZERO;
    while let Some(wait) = switch.holds_back(1, now) {
        now += wait;
        switch.sent(2, switch.waiting(2).len());
        switch.resume(1, now).unwrap();
        came += frames(switch.waiting(2)).len();
    }
    assert_eq!(came, 1000, "nothing is lost by waiting");
    assert!((9.8..10.0).contains(&now.as_secs_f64()), "a million bytes took {now:?}");
}

#[test]
fn a_frame_longer_than_any_closes_its_plug_only() {
    let mut switch = Switch::default();
    (1..=2).for_each(|plug| switch.plug_in(plug, Rules::default()));
    let mut longest = frame(2, 1, LONGEST_FRAME);
    switch.receive(1, &on_wire(&longest), Duration::ZERO).unwrap();
    assert_eq!(frames(switch.waiting(2)), [longest.clone()]);
    longest.push(0);
    assert!(switch.receive(1, &on_wire(&longest), Duration::ZERO).is_err());
    assert!(switch.receive(1, b"", Duration::ZERO).is_err(), "it stays broken");
    switch.unplug(1);
    switch.plug_in(1, Rules::default());
    assert!(switch.receive(1, b"\0\0", Duration::ZERO).is_ok(), "whoever comes next begins anew");
}

#[test]
fn what_is_no_frame_for_others_goes_nowhere_and_is_counted() {
    let mut switch = Switch::default();
    switch.plug_in(1, Rules { address: Some(address(1)), ..Rules::default() });
    switch.plug_in(2, Rules::default());
    let pause = [&[1, 0x80, 0xc2, 0, 0, 1][..], &address(1), &[0x88, 0x08]].concat();
    let from_a_group = [&address(2)[..], &address(0), &[8, 0]].concat();
    for bytes in [vec![], vec![0; 13], pause, from_a_group, frame(2, 7, 60)] {
        switch.receive(1, &on_wire(&bytes), Duration::ZERO).unwrap();
    }
    assert!(switch.waiting(2).is_empty());
    let counts = switch.counts()[&1];
    assert_eq!((counts.received_frames, counts.invalid_frames, counts.foreign_frames), (5, 4, 1));
    switch.receive(1, &on_wire(&frame(2, 1, 60)), Duration::ZERO).unwrap();
    assert_eq!(frames(switch.waiting(2)).len(), 1);
}

#[test]
fn who_does_not_read_loses_its_own_frames_only() {
    let mut switch = Switch::default();
    (1..=3).for_each(|plug| switch.plug_in(plug, Rules::default()));
    let broadcast = on_wire(&frame(0, 1, 1500));
    for _ in 0..1000 {
        switch.receive(1, &broadcast, Duration::ZERO).unwrap();
        switch.sent(3, switch.waiting(3).len());
    }
    assert!(switch.waiting(2).len() <= QUEUE_BYTES);
    let counts = switch.counts();
    assert_eq!(counts[&2].sent_frames + counts[&2].lost_frames, 1000);
    assert!(counts[&2].lost_frames > 600, "{:?}", counts[&2]);
    assert_eq!((counts[&3].sent_frames, counts[&3].lost_frames), (1000, 0));
    let left = frames(switch.waiting(2));
    assert!(left.iter().all(|frame| frame.len() == 1500), "whole frames only");
}

#[test]
fn made_up_addresses_do_not_push_out_those_of_others() {
    let mut table = Table::default();
    table.learn([2, 0, 0, 0, 0, 9], 2, 64, Duration::ZERO);
    for number in 0..100_000_u32 {
        let [a, b, c, d] = number.to_be_bytes();
        table.learn([4, 0, a, b, c, d], 1, 64, Duration::from_secs(1));
    }
    assert_eq!(table.find([2, 0, 0, 0, 0, 9], Duration::from_secs(1)), Some(2));
    assert_eq!(table.find([4, 0, 0, 0, 0, 63], Duration::from_secs(1)), Some(1));
    assert_eq!(table.find([4, 0, 0, 0, 0, 64], Duration::from_secs(1)), None);
    // Once the old ones are, there is room again.
    table.learn([6, 0, 0, 0, 0, 1], 1, 64, AGEING + Duration::from_secs(2));
    assert_eq!(table.find([6, 0, 0, 0, 0, 1], AGEING + Duration::from_secs(2)), Some(1));
}

#[test]
fn a_queue_that_is_read_in_pieces_stays_small_and_whole() {
    let (mut queue, mut stream, mut pushed) = (Queue::default(), Vec::new(), 0);
    for round in 0..20_000_usize {
        pushed += usize::from(queue.push(&frame(1, 2, 60 + round % 1400)));
        let take = queue.waiting().len().min(900);
        stream.extend_from_slice(&queue.waiting()[..take]);
        queue.sent(take);
    }
    stream.extend_from_slice(queue.waiting());
    assert_eq!(frames(&stream).len(), pushed);
}

#[test]
fn the_order_comes_back_from_its_words() {
    let order = SwitchOrder {
        folder: "/x y/a".into(),
        prefix: Some([2, 0x4b, 10, 77, 1]),
        rates: BTreeMap::from([(3, 1_000_000), (200, 1)]),
        trunk: Some(Trunk::To("/x y/trunk".into())),
        state: Some("/x y/a.json".into()),
    };
    let words = order.words();
    assert_eq!(SwitchOrder::parse(&words[1..]).unwrap(), order);
    assert_eq!(order.rules(3).address, Some([2, 0x4b, 10, 77, 1, 3]));
    assert_eq!(order.rules(TRUNK).address, None, "behind it are many");
    let refused = |words: &[&str]| {
        let words: Vec<_> = words.iter().map(Into::into).collect();
        SwitchOrder::parse(&words).unwrap_err()
    };
    assert!(refused(&[]).to_string().contains("--folder"));
    assert!(refused(&["--folder"]).to_string().contains("a value after"));
    assert!(refused(&["--socket", "x"]).to_string().contains("unknown word"));
    for bad in ["3", "0=5", "3=0", "256=1", "a=b"] {
        assert!(refused(&["--folder", "/x", "--rate", bad]).to_string().contains("BYTES_PER_S"), "{bad}");
    }
    for bad in ["", "02:4b", "02:4b:0a:4d:01:01", "01:00:00:00:00", "02:4b:0a:4d:+1"] {
        assert!(refused(&["--folder", "/x", "--prefix", bad]).to_string().contains("five bytes"), "{bad}");
    }
}
