//! What the tests share: two connected parties in this process, numbers from a seed, and messages that can be checked.
#![allow(dead_code, reason = "each test uses what it needs")]

use std::path::Path;
use std::thread;
use std::time::Duration;

use channel::{Endpoint, Error, Layout, PeerSection, Section};

/// Only reached when something hangs.
pub const HANG: Duration = Duration::from_secs(60);
pub const NOW: Duration = Duration::ZERO;

/// Steele, Lea and Flood's split mix (2014): small, seeded, good enough for tests.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub fn index(&mut self, end: usize) -> usize {
        usize::try_from(self.below(end as u64)).expect("below an index")
    }
}

/// A message whose every byte depends on its number and place.
pub fn message(number: u64, length: usize) -> Vec<u8> {
    let byte = |at: u64| number.wrapping_mul(31).wrapping_add(at * 7 + at / 251).to_le_bytes()[0];
    (0..length as u64).map(byte).collect()
}

/// Two parties, 1 and 2, with sections in a folder.
pub struct Pair {
    pub sections: [Section; 2],
    pub ends: [Endpoint; 2],
}

pub fn sections(folder: &Path, capacity: u64) -> [Section; 2] {
    let make = |me: u32, peer: u32| {
        Section::create(&folder.join(me.to_string()), &Layout::new(me).ring(peer, capacity))
            .expect("a section")
    };
    [make(1, 2), make(2, 1)]
}

pub fn open(folder: &Path, number: u32) -> PeerSection {
    Section::open(&folder.join(number.to_string())).expect("the peer's section")
}

pub fn pair(folder: &Path, capacity: u64) -> Pair {
    let sections = sections(folder, capacity);
    let ends = connect(folder, &sections).map(|end| end.expect("connected"));
    Pair { sections, ends }
}

/// Both sides connect, each in a thread of its own.
pub fn connect(folder: &Path, sections: &[Section; 2]) -> [Result<Endpoint, Error>; 2] {
    let side = |at: usize, peer: u32| {
        let (section, peer_section) = (sections[at].clone(), open(folder, peer));
        thread::spawn(move || Endpoint::connect(&section, peer, &peer_section, HANG))
    };
    [side(0, 2), side(1, 1)].map(|thread| thread.join().expect("no panic"))
}

/// Both sides reconnect.
pub fn reconnect(ends: &mut [Endpoint; 2]) {
    thread::scope(|scope| {
        for end in ends {
            scope.spawn(|| end.reconnect(HANG).expect("reconnected"));
        }
    });
}
