//! Failure rehearsals in a guest; see [`Rehearsal`].

use std::fs;
use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;

use nix::sys::signal::{Signal, raise};

use super::guest::Rehearsal;
use super::pid1::say;

/// One piece of memory that is taken at a time.
const PIECE_BYTES: usize = 16 * 1024 * 1024;

/// Breaks this guest when its first job comes; a wrong clock is set once more when the second one comes. Returns where
/// the failure does not end the agent.
pub fn perform(how: Rehearsal, jobs_before: u32, link: &OwnedFd) {
    match (how, jobs_before) {
        (_, 0) => break_now(how, link),
        (Rehearsal::WrongClock, 1) => super::wrong_clock::set_back(),
        _ => {}
    }
}

fn break_now(how: Rehearsal, link: &OwnedFd) {
    say(&format!("rehearsal: {how:?}"));
    match how {
        Rehearsal::Panic => {
            if let Err(error) = fs::write("/proc/sysrq-trigger", "c") {
                say(&format!("rehearsal: sysrq-trigger: {error}"));
            }
        }
        Rehearsal::Hang | Rehearsal::Silent => {
            if let Err(error) = raise(Signal::SIGSTOP) {
                say(&format!("rehearsal: SIGSTOP: {error}"));
            }
        }
        Rehearsal::Garbage => {
            let written = link.try_clone().and_then(|link| File::from(link).write_all(&[0x5a; 4096]));
            if let Err(error) = written {
                say(&format!("rehearsal: writing to the link: {error}"));
            }
        }
        Rehearsal::WrongClock => super::wrong_clock::make_wrong(),
        Rehearsal::Exit => leave(),
        Rehearsal::Oom => take_all_memory(),
    }
}

#[expect(clippy::exit, reason = "this is what is rehearsed")]
fn leave() -> ! {
    std::process::exit(3)
}

fn take_all_memory() -> ! {
    let mut taken: Vec<Vec<u8>> = Vec::new();
    loop {
        // Ones, because untouched zeroes would take nothing.
        taken.push(vec![1; PIECE_BYTES]);
        std::hint::black_box(&taken);
    }
}
