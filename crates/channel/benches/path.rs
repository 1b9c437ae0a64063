//! What a message costs besides the memory: both ends in one thread, so that nothing waits for another processor.
//! `cargo bench -p bulkhead-channel --bench path -- ROUNDS BYTES…`
//!
//! The time is a first look. Instructions are counted by `valgrind --tool=callgrind` on the program that this builds, with
//! two numbers of rounds: what the second has more, by round, is a message's.
#![allow(clippy::print_stdout, reason = "a benchmark says what it found")]

use std::path::Path;
use std::time::{Duration, Instant};

use channel::{Connecting, Endpoint, Layout, PeerSection, Section};

const RING_BYTES: u64 = 1 << 20;
const PATIENCE: Duration = Duration::from_secs(10);

fn section(folder: &Path, writer: u32, reader: u32) -> (Section, PeerSection) {
    let path = folder.join(writer.to_string());
    let section = Section::create(&path, &Layout::new(writer).ring(reader, RING_BYTES)).expect("a section");
    (section, Section::open(&path).expect("a view of it"))
}

fn connected(folder: &Path) -> (Endpoint, Endpoint, [Section; 2]) {
    let ((a, view_a), (b, view_b)) = (section(folder, 1, 2), section(folder, 2, 1));
    let mut one = Connecting::begin(&a, 2, &view_b).expect("it begins");
    let mut other = Connecting::begin(&b, 1, &view_a).expect("it begins");
    let (mut left, mut right) = (None, None);
    loop {
        left = left.or_else(|| one.step().expect("a step"));
        right = right.or_else(|| other.step().expect("a step"));
        (left, right) = match (left, right) {
            (Some(left), Some(right)) => return (left, right, [a, b]),
            waiting => waiting,
        };
    }
}

fn main() {
    let mut numbers = std::env::args().filter_map(|word| word.parse().ok());
    let rounds: u32 = numbers.next().unwrap_or(1_000_000);
    let sizes: Vec<u32> = numbers.collect();
    let sizes = if sizes.is_empty() { vec![8, 64, 4096] } else { sizes };
    let folder = tempfile::tempdir_in("/dev/shm").expect("a folder");
    let (mut one, mut other, _sections) = connected(folder.path());
    for bytes in sizes {
        let (out, mut into) = (vec![7; bytes as usize], vec![0; bytes as usize]);
        let started = Instant::now();
        for _ in 0..rounds {
            one.send(&out, PATIENCE).expect("sent");
            other.receive(&mut into, PATIENCE).expect("received");
        }
        let each = started.elapsed().as_secs_f64() * 1e9 / f64::from(rounds);
        println!("{each:.1} ns per message of {bytes} bytes, sent and received in one thread");
    }
}
