//! What a message costs besides the memory: both ends in one thread, so that nothing waits for another processor.
#![allow(clippy::print_stdout, reason = "a benchmark says what it found")]
#![expect(unsafe_code, reason = "memory is lent as a program lends it")]

use std::time::Instant;

use bulkhead_fi::engine::Engine;
use bulkhead_fi::engine::core::{Load, Outgoing, Receive};
use bulkhead_fi::engine::matching::Wanted;
use bulkhead_fi::settings::Settings;
use bulkhead_fi::transport::Transport;
use bulkhead_fi::transport::ring::{Ring, own_section};
use bulkhead_fi::window::{Source, Target};

fn engine(folder: &std::path::Path, rank: &str) -> (Engine, channel::Section) {
    let settings = Settings::read(|name| match name {
        "BULKHEAD_FABRIC_SECTIONS" => Some(folder.display().to_string()),
        "OMPI_COMM_WORLD_RANK" => Some(rank.to_owned()),
        "OMPI_COMM_WORLD_SIZE" => Some("2".to_owned()),
        _ => None,
    });
    let settings = settings.expect("settings");
    let section = own_section(&settings).expect("a section");
    let ways = (0..2).map(|peer| -> Option<Box<dyn Transport>> {
        (peer != settings.rank).then(|| Box::new(Ring::new(&section, folder, peer)) as Box<dyn Transport>)
    });
    let mut engine = Engine::new(settings.rank, settings.run, ways.collect(), |words| panic!("{words}"));
    engine.open_queue();
    (engine, section)
}

fn main() {
    let rounds: usize = std::env::args().find_map(|word| word.parse().ok()).unwrap_or(1_000_000);
    let folder = tempfile::tempdir_in("/dev/shm").expect("a folder");
    let ((mut one, _a), (mut other, _b)) = (engine(folder.path(), "0"), engine(folder.path(), "1"));
    for _ in 0..1000 {
        one.progress();
        other.progress();
    }
    let (out, mut into) = (7_u64.to_le_bytes(), [0_u8; 8]);
    let started = Instant::now();
    for round in 0..rounds {
        // SAFETY: the memory outlives the receive, and nobody looks at it before that is over.
        let target = unsafe { Target::new(into.as_mut_ptr(), 8) };
        let wanted = Wanted { source: Some(0), tag: 5, ignore: 0 };
        other.receive(wanted, Receive { target, context: round });
        // SAFETY: nobody writes it.
        let source = unsafe { Source::new(out.as_ptr(), 8) };
        let load = Load::User(source);
        one.send(1, Outgoing { load, tag: 5, data: Some(1), context: None, inject: true }).expect("sent");
        while other.pop(0).is_none() {
            one.progress();
            other.progress();
        }
    }
    let each = started.elapsed().as_secs_f64() * 1e9 / rounds as f64;
    println!("{each:.1} ns per message of 8 bytes, both ends in one thread");
    let started = Instant::now();
    for _ in 0..rounds {
        other.progress();
    }
    let each = started.elapsed().as_secs_f64() * 1e9 / rounds as f64;
    println!("{each:.1} ns per round in which nothing comes, one lane");
}
