//! What the guest has written itself stays in its cache: who takes the times, when, and when not.

mod kernel;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::Command;
use std::thread::{JoinHandle, sleep};
use std::time::Duration;

use files::Answer;
use files::written::{VALUE_BYTES, WRITTEN, wanted};
use kernel::*;

const MIB: u64 = 1 << 20;
/// PID 1's thread that asks, and that of a program.
const ASKS: u32 = 9;
const WRITES: u32 = 1;
/// SETATTR's: the mode.
const MODE: u32 = 1;
/// Longer than a tick of the clock of the host's files.
const SETTLED: Duration = Duration::from_millis(40);

/// A file of so many MiB, written by the guest and closed a moment ago.
fn written(guest: &mut Guest, mib: u64) -> u64 {
    let tree = guest.walk("0");
    let (node, handle) = guest.create(tree, "a", 1, 0o640).expect("an answer");
    let chunk = vec![7; usize::try_from(MIB).expect("an answer")];
    for at in 0..mib {
        guest.write(node, handle, at * MIB, &chunk, 0).expect("an answer");
    }
    guest.ask(RELEASE, node, &longs(&[handle, 0, 0])).expect("an answer");
    sleep(SETTLED);
    node
}

/// PID 1 asks for the next file.
fn listen(guest: &mut Guest) -> JoinHandle<Result<Vec<u8>, i32>> {
    guest.thread = ASKS;
    let size = u32::try_from(VALUE_BYTES).expect("an answer");
    let next = guest.ask_later(GETXATTR, 1, &named(words(&[size, 0]), WRITTEN));
    guest.thread = WRITES;
    next
}

/// Whether the answer to GETATTR is held back; then it must come.
fn is_held_back(guest: &mut Guest, node: u64) -> Option<JoinHandle<Vec<u8>>> {
    let request = guest.request(GETATTR, node, &[0; 16]);
    match guest.files.handle(&request, 1 << 20) {
        Answer::Later(job) => Some(std::thread::spawn(job)),
        _ => None,
    }
}

#[test]
fn the_times_are_taken_before_the_answer_comes() {
    let mut guest = Guest::new();
    let next = listen(&mut guest);
    let node = written(&mut guest, 5);
    let before = fs::metadata(guest.path("0/a")).unwrap();
    let held = is_held_back(&mut guest, node).expect("five MiB of its own");
    let asked = wanted(&next.join().unwrap().unwrap()).unwrap();
    assert_eq!((asked.node, asked.mode & 0o7777), (node, 0o640));
    // Only the thread that was asked, and only with that mode; others' requests are what they are.
    guest.thread = ASKS;
    assert_eq!(guest.set(node, MODE, asked.mode, (0, 0)).unwrap().mode, asked.mode);
    guest.thread = WRITES;
    assert_eq!(fs::metadata(guest.path("0/a")).unwrap().ctime(), before.ctime(), "nothing was changed");
    let _again = listen(&mut guest);
    assert_eq!(number(&held.join().unwrap(), 4), 0);
    // Told once, it is told as ever, until as much was written again.
    assert!(is_held_back(&mut guest, node).is_none());
}

/// Its name is looked up while it is open: believed for no time, it would be forgotten with the last who uses it.
#[test]
fn the_name_of_what_is_taken_is_believed_for_a_moment_though_it_is_open() {
    let mut guest = Guest::new();
    let next = listen(&mut guest);
    let node = written(&mut guest, 5);
    let (opened, _) = guest.open(node, nix::libc::O_RDONLY).expect("an answer");
    let held = is_held_back(&mut guest, node).expect("five MiB of its own");
    next.join().unwrap().unwrap();
    let tree = guest.walk("0");
    // Seconds, then nanoseconds.
    let name = |guest: &mut Guest| {
        let found = guest.ask(LOOKUP, tree, b"a\0").expect("it is there");
        (long(&found, 16), number(&found, 32))
    };
    assert_eq!(name(&mut guest), (0, 0));
    guest.thread = ASKS;
    assert_eq!(name(&mut guest), (0, 1));
    guest.thread = WRITES;
    assert_eq!(name(&mut guest), (0, 0));
    let _again = listen(&mut guest);
    held.join().unwrap();
    guest.ask(RELEASE, node, &longs(&[opened, 0, 0])).expect("an answer");
}

/// Emptied and written again it is still the guest's own, and what somebody else has opened is not.
#[test]
fn what_is_emptied_is_still_its_own() {
    for is_touched in [false, true] {
        let mut guest = Guest::new();
        let _next = listen(&mut guest);
        let node = written(&mut guest, 5);
        let (read, _) = guest.open(node, nix::libc::O_RDONLY).expect("an answer");
        guest.ask(RELEASE, node, &longs(&[read, 0, 0])).expect("an answer");
        if is_touched {
            assert!(Command::new("cat").arg(guest.path("0/a")).output().unwrap().status.success());
        }
        let (handle, _) = guest.open(node, nix::libc::O_WRONLY | nix::libc::O_TRUNC).expect("an answer");
        for at in 0..5 {
            guest.write(node, handle, at * MIB, &vec![8; 1 << 20], 0).expect("an answer");
        }
        guest.ask(RELEASE, node, &longs(&[handle, 0, 0])).expect("an answer");
        sleep(SETTLED);
        assert_eq!(is_held_back(&mut guest, node).is_some(), !is_touched);
    }
}

#[test]
fn who_else_has_opened_it_may_have_changed_it() {
    let mut guest = Guest::new();
    let _next = listen(&mut guest);
    let node = written(&mut guest, 5);
    assert!(Command::new("cat").arg(guest.path("0/a")).output().unwrap().status.success());
    assert!(is_held_back(&mut guest, node).is_none());
}

#[test]
fn what_has_other_times_is_not_what_the_guest_wrote() {
    let mut guest = Guest::new();
    let _next = listen(&mut guest);
    let node = written(&mut guest, 5);
    // This process's own opening is taken for the server's.
    let file = fs::File::options().write(true).open(guest.path("0/a")).unwrap();
    file.set_modified(std::time::SystemTime::now() - Duration::from_secs(9)).unwrap();
    sleep(SETTLED);
    assert!(is_held_back(&mut guest, node).is_none());
}

#[test]
fn what_the_host_changes_meanwhile_is_not_taken() {
    let mut guest = Guest::new();
    let next = listen(&mut guest);
    let node = written(&mut guest, 5);
    let _held = is_held_back(&mut guest, node).expect("five MiB of its own");
    let asked = wanted(&next.join().unwrap().unwrap()).unwrap();
    let mut theirs = Command::new("sh");
    theirs.arg("-c").arg("printf x | dd of=\"$1\" conv=notrunc status=none").arg("sh").arg(guest.path("0/a"));
    assert!(theirs.status().unwrap().success());
    guest.thread = ASKS;
    assert_eq!(guest.set(node, MODE, asked.mode, (0, 0)), Err(nix::libc::EAGAIN));
}

#[test]
fn nobody_waits_for_what_is_small_or_nobody_takes() {
    let mut guest = Guest::new();
    let node = written(&mut guest, 5);
    // Held back for a moment at most, since nobody listens.
    let begun = std::time::Instant::now();
    if let Some(held) = is_held_back(&mut guest, node) {
        assert_eq!(number(&held.join().unwrap(), 4), 0);
    }
    assert!(begun.elapsed() < Duration::from_secs(30));
    fs::remove_file(guest.path("0/a")).unwrap();
    let _next = listen(&mut guest);
    let small = written(&mut guest, 3);
    assert!(is_held_back(&mut guest, small).is_none());
}

#[test]
fn who_listens_and_does_nothing_holds_nobody_up() {
    let mut guest = Guest::new();
    let next = listen(&mut guest);
    let node = written(&mut guest, 5);
    let held = is_held_back(&mut guest, node).expect("five MiB of its own");
    next.join().unwrap().unwrap();
    assert_eq!(number(&held.join().unwrap(), 4), 0);
    // One listens at a time, and takes what is as long as it is.
    let _again = listen(&mut guest);
    let size = u32::try_from(VALUE_BYTES).unwrap();
    guest.thread = ASKS;
    assert_eq!(guest.ask(GETXATTR, 1, &named(words(&[size, 0]), WRITTEN)), Err(nix::libc::EBUSY));
    assert_eq!(guest.ask(GETXATTR, 1, &named(words(&[3, 0]), WRITTEN)), Err(nix::libc::ERANGE));
}

/// A program that asks would wait without an end, and could not be ended itself.
#[test]
fn only_who_asked_first_is_answered_and_not_through_what_programs_see() {
    let mut guest = Guest::new();
    let _next = listen(&mut guest);
    let tree = guest.walk("0");
    let size = u32::try_from(VALUE_BYTES).unwrap();
    let asked = named(words(&[size, 0]), WRITTEN);
    for thread in [WRITES, ASKS] {
        guest.thread = thread;
        assert_eq!(guest.ask(GETXATTR, tree, &asked), Err(nix::libc::EOPNOTSUPP));
    }
    guest.thread = WRITES;
    assert_eq!(guest.ask(GETXATTR, 1, &asked), Err(nix::libc::EOPNOTSUPP));
}

#[test]
fn the_end_is_told_to_who_listens() {
    let mut guest = Guest::new();
    let next = listen(&mut guest);
    drop(guest);
    assert_eq!(next.join().unwrap(), Ok(Vec::new()));
}

/// The answer to a SETATTR alone makes the guest's kernel drop nothing: of what the host has changed it must not be the last word.
#[test]
fn a_change_of_mode_does_not_hide_that_the_host_has_written() {
    let mut guest = Guest::new();
    fs::write(guest.path("0/a"), "first").unwrap();
    let node = guest.walk("0/a");
    sleep(SETTLED);
    fs::write(guest.path("0/a"), "other").unwrap();
    let body = [words(&[MODE, 0]), longs(&[0; 6]), words(&[0, 0, 0, 0o600, 0, 0, 0, 0])].concat();
    let told = guest.ask(SETATTR, node, &body).unwrap();
    let asked = guest.ask(GETATTR, node, &[0; 16]).unwrap();
    assert_eq!(long(&told, 0) | u64::from(number(&told, 8)), 0, "it is asked for again at once");
    assert_ne!(number(&told, 16 + 52), number(&asked, 16 + 52), "and is another time then");
    // Where nobody else has written it is told as it is.
    let told = guest.ask(SETATTR, node, &body).unwrap();
    let asked = guest.ask(GETATTR, node, &[0; 16]).unwrap();
    assert_eq!((long(&told, 0), number(&told, 16 + 52)), (1, number(&asked, 16 + 52)));
}
