//! Frames of every kind from a plug with an address: its own pass, those in another one's name go nowhere and are counted.

use std::time::Duration;

use proptest::prelude::*;

use super::core::{Rules, Switch};

const OWN: [u8; 6] = [2, 0x4b, 10, 77, 1, 7];
const OTHER: [u8; 6] = [2, 0x4b, 10, 77, 1, 9];
const ALL: [u8; 6] = [0xff; 6];
const OWN4: [u8; 4] = [10, 77, 1, 7];
const OTHER4: [u8; 4] = [10, 77, 1, 9];
/// `fe80::4b:aff:fe4d:107`, as Linux makes it of the hardware address.
const OWN6: [u8; 16] = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0x4b, 10, 0xff, 0xfe, 77, 1, 7];
const OTHER6: [u8; 16] = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0x4b, 10, 0xff, 0xfe, 77, 1, 9];

fn to(destination: [u8; 6], parts: &[&[u8]]) -> Vec<u8> {
    let mut frame = [&destination[..], &OWN, &parts.concat()].concat();
    frame.resize(frame.len().max(60), 0);
    frame
}

fn ipv4(source: [u8; 4]) -> Vec<u8> {
    [&[8, 0, 0x45, 0, 0, 20, 0, 0, 0, 0, 64, 17, 0, 0], &source[..], &OTHER4].concat()
}

fn arp(kind: [u8; 2], hardware: [u8; 6], address: [u8; 4]) -> Vec<u8> {
    [&kind[..], &[0, 1, 8, 0, 6, 4, 0, 2], &hardware, &address, &OTHER, &OTHER4].concat()
}

fn ipv6(source: [u8; 16], next: u8, rest: &[&[u8]]) -> Vec<u8> {
    [&[0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, next, 255], &source[..], &OTHER6, &rest.concat()].concat()
}

/// A neighbour's message about an address.
fn about(kind: u8, address: [u8; 16]) -> Vec<u8> {
    [&[kind, 0, 0, 0, 0, 0, 0, 0], &address[..]].concat()
}

/// How many frames came through, and how many were counted as invalid and as another one's.
fn sent(frame: &[u8]) -> (u64, u64, u64) {
    let mut switch = Switch::default();
    switch.plug_in(7, Rules { address: Some(OWN), ..Rules::default() });
    switch.plug_in(9, Rules::default());
    let length = u32::try_from(frame.len()).unwrap().to_be_bytes();
    switch.receive(7, &[&length, frame].concat(), Duration::ZERO).unwrap();
    let counts = switch.counts();
    (counts[&9].sent_frames, counts[&7].invalid_frames, counts[&7].foreign_frames)
}

const PASSES: (u64, u64, u64) = (1, 0, 0);
const INVALID: (u64, u64, u64) = (0, 1, 0);
const FOREIGN: (u64, u64, u64) = (0, 0, 1);

#[test]
fn an_internet_address_is_held_to_its_plug() {
    assert_eq!(sent(&to(OTHER, &[&ipv4(OWN4)])), PASSES);
    assert_eq!(sent(&to(OTHER, &[&ipv4(OTHER4)])), FOREIGN);
    assert_eq!(sent(&to(ALL, &[&ipv4([0; 4])])), PASSES, "whoever asks for an address has none");
    assert_eq!(sent(&to(OTHER, &[&ipv4([0; 4])])), FOREIGN, "but asks everybody");
    assert_eq!(sent(&to(OTHER, &[&ipv6(OWN6, 17, &[])])), PASSES);
    assert_eq!(sent(&to(OTHER, &[&ipv6(OTHER6, 17, &[])])), FOREIGN);
    assert_eq!(sent(&to(ALL, &[&ipv6([0; 16], 58, &[&about(143, OWN6)])])), PASSES);
    assert_eq!(sent(&to(OTHER, &[&ipv6([0; 16], 17, &[])])), FOREIGN);
    let global = [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0x4b, 10, 0xff, 0xfe, 77, 1, 7];
    assert_eq!(sent(&to(OTHER, &[&ipv6(global, 17, &[])])), FOREIGN, "nobody gives out such addresses");
}

#[test]
fn nobody_answers_arp_in_anothers_name() {
    for kind in [[8, 6], [0x80, 0x35]] {
        assert_eq!(sent(&to(OTHER, &[&arp(kind, OWN, OWN4)])), PASSES);
        assert_eq!(sent(&to(ALL, &[&arp(kind, OWN, [0; 4])])), PASSES, "is it free?");
        assert_eq!(sent(&to(OTHER, &[&arp(kind, OWN, OTHER4)])), FOREIGN);
        assert_eq!(sent(&to(OTHER, &[&arp(kind, OTHER, OWN4)])), FOREIGN);
        assert_eq!(sent(&to(OTHER, &[&arp(kind, OTHER, OTHER4)])), FOREIGN);
    }
    let mut strange = arp([8, 6], OWN, OWN4);
    strange[6] = 8;
    assert_eq!(sent(&to(ALL, &[&strange])), INVALID, "hardware addresses of eight bytes");
}

#[test]
fn nobody_speaks_for_another_neighbour() {
    let says = |kind: u8, address: [u8; 16]| sent(&to(OTHER, &[&ipv6(OWN6, 58, &[&about(kind, address)])]));
    assert_eq!(says(136, OWN6), PASSES);
    assert_eq!(says(136, OTHER6), FOREIGN, "I am 9");
    assert_eq!(says(135, OTHER6), PASSES, "who is 9?");
    assert_eq!((says(133, OWN6), says(128, OWN6)), (PASSES, PASSES), "is a router there? an echo");
    assert_eq!((says(134, OWN6), says(137, OWN6)), (FOREIGN, FOREIGN), "nobody here is a router");
    let asks = |address: [u8; 16]| sent(&to(ALL, &[&ipv6([0; 16], 58, &[&about(135, address)])]));
    assert_eq!((asks(OWN6), asks(OTHER6)), (PASSES, FOREIGN), "to have an address, its own is asked for");
    // Headers in front hide nothing; as many as that have no use.
    let header = |next: u8| [next, 0, 1, 4, 0, 0, 0, 0];
    let lie = about(136, OTHER6);
    for first in [0, 43, 51, 60] {
        let behind = |message: &[u8]| {
            let mut one = header(58);
            one[1] = u8::from(first == 51);
            let words: &[u8] = if first == 51 { &[0; 4] } else { &[] };
            sent(&to(OTHER, &[&ipv6(OWN6, first, &[&one, words, message])]))
        };
        assert_eq!((behind(&lie), behind(&about(136, OWN6))), (FOREIGN, PASSES), "behind {first}");
    }
    let many = [header(0)].repeat(20).concat();
    assert_eq!(sent(&to(OTHER, &[&ipv6(OWN6, 0, &[&many, &header(58), &lie])])), FOREIGN);
    let mut beyond = header(58);
    beyond[1] = 200;
    assert_eq!(sent(&to(OTHER, &[&ipv6(OWN6, 0, &[&beyond])])), INVALID, "it ends before its header");
}

#[test]
fn tags_are_no_way_around() {
    let (vlan, provider, older) = ([0x81, 0, 0, 0], [0x88, 0xa8, 0, 5], [0x91, 0, 0, 5]);
    for tags in [&[vlan][..], &[provider], &[older], &[provider, vlan], &[vlan, vlan]] {
        let tags = tags.concat();
        assert_eq!(sent(&to(OTHER, &[&tags, &ipv4(OWN4)])), PASSES, "{tags:x?}");
        assert_eq!(sent(&to(OTHER, &[&tags, &ipv4(OTHER4)])), FOREIGN, "{tags:x?}");
        assert_eq!(sent(&to(OTHER, &[&tags, &arp([8, 6], OWN, OTHER4)])), FOREIGN, "{tags:x?}");
        assert_eq!(sent(&to(OTHER, &[&tags, &ipv6(OTHER6, 17, &[])])), FOREIGN, "{tags:x?}");
        assert_eq!(sent(&to(OTHER, &[&tags, &[0x88, 0x92]])), PASSES, "a field bus with its priority");
    }
    assert_eq!(sent(&to(OTHER, &[&vlan, &vlan, &vlan, &ipv4(OWN4)])), FOREIGN, "three are too many");
}

#[test]
fn other_types_pass_and_lengths_do_not() {
    assert_eq!(sent(&to(OTHER, &[&[0x88, 0xb5]])), PASSES);
    let snap = [&[0, 46, 0xaa, 0xaa, 3, 0, 0, 0], &ipv4(OTHER4)[..]].concat();
    assert_eq!(sent(&to(OTHER, &[&snap])), FOREIGN);
}

#[test]
fn a_frame_that_ends_within_its_head_goes_nowhere() {
    let long = ipv6(OWN6, 58, &[&about(136, OWN6)]);
    for whole in [ipv4(OWN4), arp([8, 6], OWN, OWN4), long, [&[0x81, 0, 0, 0], &ipv4(OWN4)[..]].concat()] {
        let frame = [&OTHER[..], &OWN, &whole].concat();
        assert_eq!(sent(&frame), PASSES);
        for end in 14..frame.len() {
            let counted = sent(&frame[..end]);
            assert_eq!(counted, INVALID, "{end} of {} bytes", frame.len());
        }
    }
    for (kind, first) in [([8, 0], 0x65), ([0x86, 0xdd], 0x45)] {
        let frame = to(OTHER, &[&kind, &[first], &[0; 40]]);
        assert_eq!(sent(&frame), INVALID, "the version is another");
    }
}

proptest! {
    /// Whatever a plug sends: what arrives names no other one where a receiver looks for it.
    #[test]
    fn nothing_that_arrives_names_another_one(
        tags in proptest::collection::vec(prop_oneof![Just([0x81, 0]), Just([0x88, 0xa8]), Just([0x91, 0])], 0..4),
        kind in prop_oneof![Just([8, 0]), Just([8, 6]), Just([0x86, 0xdd]), any::<[u8; 2]>()],
        packet in proptest::collection::vec(prop_oneof![4 => any::<u8>(), 1 => Just(OTHER4[3])], 0..90),
        place in 0..80_usize,
        whose in prop_oneof![Just(&OTHER4[..]), Just(&OTHER6[..]), Just(&OWN4[..]), Just(&OWN6[..])],
    ) {
        let mut packet = packet;
        for (at, byte) in whose.iter().enumerate() {
            packet.resize(packet.len().max(place + at + 1), 0);
            packet[place + at] = *byte;
        }
        let tags: Vec<u8> = tags.iter().flat_map(|tag| [tag[0], tag[1], 0, 0]).collect();
        let frame = [&OTHER[..], &OWN, &tags, &kind, &packet].concat();
        if sent(&frame) == PASSES {
            let source = match kind {
                [8, 0] => packet.get(12..16).map(|source| source == OTHER4),
                [8, 6] => packet.get(14..18).map(|source| source == OTHER4),
                [0x86, 0xdd] => packet.get(8..24).map(|source| source == OTHER6),
                _ => Some(false),
            };
            prop_assert_eq!(source, Some(false));
        }
    }
}
