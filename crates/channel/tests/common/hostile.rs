//! A peer that wants to harm us: it writes whatever it likes into its own section, between any two steps of ours.
//!
//! The victim is party 1, the hostile peer party 2, an honest friend party 3. The hostile peer knows all the rules: it
//! shakes hands properly, guesses the victim's next session, builds frames that are right but for one field, and
//! otherwise scribbles. Numbers come from outside, so that a fuzzer can choose them.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::thread;
use std::time::Duration;

use channel::{Endpoint, Layout, Memory, PeerSection, Progress, Section, Short};

const CAPACITY: u64 = 4096;
const STATE_AT: u64 = 64;
const BEAT_AT: u64 = 128;
/// The hostile peer's only link block and ring.
const BLOCK_AT: u64 = 4096;
const TAIL_AT: u64 = BLOCK_AT;
const SESSION_AT: u64 = BLOCK_AT + 8;
const HEAD_AT: u64 = BLOCK_AT + 128;
const ACK_AT: u64 = BLOCK_AT + 136;
const RING_AT: u64 = 20480;
/// Room given to the victim's calls; the bytes behind it must stay as they are.
const ROOM: usize = 6000;
const CANARY: u8 = 0xa5;

/// Where the numbers come from.
pub type Numbers<'a> = dyn FnMut() -> u64 + 'a;

pub struct Scene {
    victim: Endpoint,
    hostile: File,
    /// The section as its proper owner left it, ready.
    proper: Vec<u8>,
    generation: u64,
    victim_generation: u64,
    victim_sessions: u64,
    session: u64,
    tail: u64,
    sequence: u32,
    friends: [Endpoint; 2],
    _sections: [Section; 2],
    buffer: Vec<u8>,
    pub received: u64,
    pub refused: u64,
    pub links: u64,
}

fn sealed(number: u32, peers: &[u32]) -> (Memory, File, Layout) {
    let layout = peers.iter().fold(Layout::new(number), |layout, peer| layout.ring(*peer, CAPACITY));
    let memory = Memory::sealed(&format!("section {number}"), layout.bytes()).expect("memory");
    let file = memory.file().expect("a file").try_clone().expect("a second descriptor");
    (memory, file, layout)
}

fn view(file: &File) -> PeerSection {
    let file = file.try_clone().expect("a descriptor");
    PeerSection::new(Memory::from_file(file, "a peer's section", false).expect("mapped"))
        .expect("large enough")
}

impl Scene {
    pub fn new() -> Self {
        let soon = Duration::from_secs(60);
        let (memory, victim_file, layout) = sealed(1, &[2, 3]);
        let section = Section::create_in(memory, &layout).expect("the victim's section");
        let (memory, friend_file, layout) = sealed(3, &[1]);
        let friend = Section::create_in(memory, &layout).expect("the friend's section");
        let (memory, hostile, layout) = sealed(2, &[1]);
        let owner = Section::create_in(memory, &layout).expect("the hostile peer's section");
        let generation = owner.generation();
        drop(owner);
        let mut proper = vec![0; usize::try_from(RING_AT).expect("small")];
        hostile.read_exact_at(&mut proper, 0).expect("read");
        proper[64..72].copy_from_slice(&(generation << 8 | 2).to_le_bytes());
        let (there, its_view) = (friend.clone(), view(&victim_file));
        let other = thread::spawn(move || Endpoint::connect(&there, 1, &its_view, soon).expect("connected"));
        let here = Endpoint::connect(&section, 3, &view(&friend_file), soon).expect("connected");
        let friends = [here, other.join().expect("no panic")];
        let mut scene = Self {
            // Replaced at once: the link to the hostile peer is the victim's second session.
            victim: connect_to_hostile(
                &section,
                &hostile,
                &proper,
                generation,
                section.generation() << 16 | 2,
            ),
            hostile,
            proper,
            generation,
            victim_generation: section.generation(),
            victim_sessions: 2,
            session: generation << 16 | 1,
            tail: 0,
            sequence: 0,
            friends,
            _sections: [section, friend],
            buffer: vec![CANARY; ROOM + 64],
            received: 0,
            refused: 0,
            links: 1,
        };
        scene.buffer[..ROOM].fill(0);
        scene
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        self.hostile.write_all_at(bytes, at).expect("written");
    }

    fn word(&self, at: u64, word: u64) {
        self.write(at, &word.to_le_bytes());
    }

    /// One step of the hostile peer and one of the victim.
    pub fn step(&mut self, next: &mut Numbers<'_>) {
        match next() % 16 {
            0 => self.scribble(next),
            1 => self.lie(next),
            2 => self.word(BEAT_AT, next()),
            3..=9 => self.frame(next),
            10 => self.word(HEAD_AT, self.tail.wrapping_add(next() % 64 * 8)),
            _ => {}
        }
        self.victim_acts(next);
    }

    /// Random bytes at a random place that matters.
    fn scribble(&mut self, next: &mut Numbers<'_>) {
        let choice = next();
        let at = match choice % 4 {
            0 => choice / 4 % 640 * 4,
            1 => BLOCK_AT + choice / 4 % 192,
            2 => RING_AT + choice / 4 % CAPACITY.saturating_sub(32),
            _ => choice / 4 % (RING_AT + CAPACITY - 32),
        };
        let bytes = [next().to_le_bytes(), next().to_le_bytes()].concat();
        self.write(at, &bytes[..=usize::try_from(choice >> 60).expect("small")]);
    }

    /// A value that could almost be, where the victim looks often.
    fn lie(&mut self, next: &mut Numbers<'_>) {
        let at = [TAIL_AT, SESSION_AT, HEAD_AT, ACK_AT, STATE_AT, 0, 8, 16, 24]
            [usize::try_from(next() % 9).expect("small")];
        let near =
            [0, self.tail, self.session, self.generation << 8, u64::MAX, 1 << 63, self.session | 1 << 63];
        let base = near[usize::try_from(next() % near.len() as u64).expect("small")];
        self.word(at, base.wrapping_add(next() % 65).wrapping_sub(32));
    }

    /// A frame like a proper sender's, mostly; the tail with it.
    fn frame(&mut self, next: &mut Numbers<'_>) {
        let choice = next();
        let length = u32::try_from(choice % 1100).expect("small");
        let later = (choice >> 16).is_multiple_of(8);
        let total = if (choice >> 20).is_multiple_of(4) {
            length + u32::try_from(choice >> 24 & 0xfff).expect("small")
        } else {
            length
        };
        let kind = if later { 2 } else { 1 };
        if !later {
            self.sequence = self.sequence.wrapping_add(1);
        }
        let mut words = [
            kind | (self.session & 0xff_ffff) << 8 | u64::from(length) << 32,
            u64::from(self.sequence) | u64::from(total) << 32,
        ];
        if (choice >> 40).is_multiple_of(8) {
            words[usize::from(choice >> 43 & 1 == 1)] ^= 1 << (choice >> 44 & 63);
        }
        let at = RING_AT + self.tail % CAPACITY;
        self.word(at, words[0]);
        self.word(at + 8, words[1]);
        self.tail = self.tail.wrapping_add(16 + u64::from(length.next_multiple_of(16)));
        self.word(TAIL_AT, self.tail);
    }

    /// The victim does one thing, whatever the state of the link, and connects anew when it is broken.
    fn victim_acts(&mut self, next: &mut Numbers<'_>) {
        let choice = next();
        let room = usize::try_from(choice >> 8).expect("64 bits") % ROOM;
        let (cut, length) = (room / 3, usize::try_from(choice >> 32).expect("64 bits") % 3000);
        let (buffer, beyond) = self.buffer.split_at_mut(ROOM);
        let (front, back) = buffer[..room].split_at_mut(cut);
        let sent = &[7; 3000][..length];
        let received = |progress| if let Progress::Whole(length) = progress { Some(length) } else { None };
        let result = match choice % 8 {
            0 => self.victim.try_send(sent).map(|_| None),
            1 => self.victim.sender().try_send_part(&[sent, sent]).map(|_| None),
            2 => self.victim.receiver().try_receive(&mut [front, back]),
            3 => {
                let mut words = [0; 16];
                let most = room.min(16);
                self.victim.receiver().try_receive_short(&mut words[..most]).map(|short| match short {
                    Short::Message(length) => {
                        assert!(length <= most * 8, "{length} bytes received into {most} words");
                        assert!(words[length.div_ceil(8)..].iter().all(|word| *word == 0), "words behind it");
                        self.received += 1;
                        None
                    }
                    Short::Nothing | Short::Longer => None,
                })
            }
            4 | 5 => self.victim.receiver().try_receive_part(&mut [front, back]).map(received),
            6 => self.victim.receiver().peek().and_then(|peek| {
                peek.map_or(Ok(0), |mut peek| peek.read(cut, front)).map(|read| {
                    assert!(read <= front.len());
                    None
                })
            }),
            _ => self.victim.sender().check_peer().map(|()| None),
        };
        assert!(beyond.iter().all(|byte| *byte == CANARY), "bytes behind the buffer were written");
        match result {
            Ok(Some(length)) => {
                assert!(length <= room, "{length} bytes received into {room}");
                self.received += 1;
            }
            Ok(None) => {}
            Err(channel::Error::BufferTooSmall { needed, got }) => assert!(needed > got && got == room),
            Err(_) => {
                self.refused += 1;
                // The hostile peer heals itself now and then, to break something deeper the next time.
                if next().is_multiple_of(4) {
                    self.heal();
                }
                self.victim_sessions += 1;
                self.links += u64::from(self.victim.reconnect(Duration::ZERO).is_ok());
            }
        }
    }

    /// The proper header, and a handshake that guesses the session the victim will take next.
    fn heal(&mut self) {
        let count = (self.session & 0xffff).wrapping_add(1).clamp(1, 0xffff);
        self.session = self.generation << 16 | if count == 0xffff { 1 } else { count };
        (self.tail, self.sequence) = (0, 0);
        let guess = self.victim_generation << 16 | ((self.victim_sessions + 1) & 0xffff);
        heal(&self.hostile, &self.proper, self.session, guess);
    }

    /// Whether the victim and its friend still understand each other perfectly.
    pub fn check_friends(&mut self, number: u64) {
        let [here, there] = &mut self.friends;
        for (from, to) in [(0, 1), (1, 0)] {
            let sent = number.wrapping_add(from).to_le_bytes();
            let (sender, receiver) =
                if from == 0 { (&mut *here, &mut *there) } else { (&mut *there, &mut *here) };
            assert!(sender.try_send(&sent).expect("a good link"), "{from} to {to}");
            let mut got = [0; 8];
            assert_eq!(receiver.try_receive(&mut got).expect("a good link"), Some(8));
            assert_eq!(got, sent);
        }
    }
}

fn heal(hostile: &File, proper: &[u8], session: u64, acknowledged: u64) {
    let mut section = proper.to_owned();
    for (at, word) in [(TAIL_AT, 0), (SESSION_AT, session), (HEAD_AT, 0), (ACK_AT, acknowledged)] {
        let at = usize::try_from(at).expect("small");
        section[at..at + 8].copy_from_slice(&word.to_le_bytes());
    }
    hostile.write_all_at(&section[..usize::try_from(ACK_AT).expect("small") + 8], 0).expect("written");
}

fn connect_to_hostile(
    section: &Section,
    hostile: &File,
    proper: &[u8],
    generation: u64,
    guess: u64,
) -> Endpoint {
    heal(hostile, proper, generation << 16 | 1, guess);
    Endpoint::connect(section, 2, &view(hostile), Duration::ZERO).expect("the guess was right")
}
