//! Waits for locks that are taken back: who waits, who is answered how, and what is held afterwards.

#![expect(clippy::unwrap_used, reason = "what fails here fails the test")]

mod kernel;

use std::fs::File;
use std::thread::{JoinHandle, sleep};
use std::time::{Duration, Instant};

use files::waits::{INTERRUPT, LONGEST_LIST, Listed, WAITS, listed};
use kernel::*;
use nix::fcntl::{FcntlArg, fcntl};
use rustix::fs::{FlockOperation, flock};

/// Which lock: a record lock, or that of flock(2) (`FUSE_LK_FLOCK`).
const RECORD: u32 = 0;
const FLOCK: u32 = 1;
const READ_LOCK: u32 = 0;
const WRITE_LOCK: u32 = 1;
const NO_LOCK: u32 = 2;
/// Errors.
const INTR: i32 = 4;
const BUSY: i32 = 16;
const INVAL: i32 = 22;
const RANGE: i32 = 34;
const NOLCK: i32 = 37;

type Later = JoinHandle<Result<Vec<u8>, i32>>;

fn host(guest: &Guest, path: &str) -> File {
    File::options().read(true).write(true).open(guest.path(path)).unwrap()
}

/// Takes or gives back all locks of a file on the host, without waiting.
fn host_locks(file: &File, takes: bool) -> bool {
    let (kind, how) = if takes {
        (nix::libc::F_WRLCK, FlockOperation::NonBlockingLockExclusive)
    } else {
        (nix::libc::F_UNLCK, FlockOperation::Unlock)
    };
    let kind = i16::try_from(kind).unwrap();
    let wanted = nix::libc::flock { l_type: kind, l_whence: 0, l_start: 0, l_len: 0, l_pid: 0 };
    fcntl(file, FcntlArg::F_OFD_SETLK(&wanted)).is_ok() && flock(file, how).is_ok()
}

fn asked(handle: u64, owner: u64, kind: u32, flags: u32) -> Vec<u8> {
    [longs(&[handle, owner, 0, 9]), words(&[kind, 5, flags, 0])].concat()
}

/// A thread of the guest's begins to wait for a lock.
fn begin(guest: &mut Guest, thread: u32, node: u64, lock: &[u8]) -> Later {
    guest.thread = thread;
    guest.ask_later(SETLKW, node, lock)
}

/// What came of it, once it did.
fn ended(later: Later) -> Result<Vec<u8>, i32> {
    let until = Instant::now() + Duration::from_secs(60);
    while !later.is_finished() {
        assert!(Instant::now() < until, "it still waits");
        sleep(Duration::from_millis(1));
    }
    later.join().unwrap()
}

fn attribute(name: &str, size: usize) -> Vec<u8> {
    named(words(&[u32::try_from(size).unwrap(), 0]), name)
}

/// Who waits, as soon as somebody does.
fn who(guest: &mut Guest) -> Vec<Listed> {
    let list = guest.ask(GETXATTR, 1, &attribute(WAITS, LONGEST_LIST)).unwrap();
    assert_eq!(list.len() % 16, 0);
    listed(&list)
}

/// So many, once all of them have waited for a while.
fn all_of(guest: &mut Guest, count: usize) -> Vec<Listed> {
    loop {
        let found = who(guest);
        assert!(found.len() <= count, "{found:?}");
        if found.len() == count {
            return found;
        }
        sleep(Duration::from_millis(5));
    }
}

fn take_back(guest: &mut Guest, number: u64) -> Result<Vec<u8>, i32> {
    guest.ask(GETXATTR, 1, &attribute(&format!("{INTERRUPT}{number}"), 1))
}

/// Of a file that may be written to, of one that is memory between processes, of one that is only read.
fn files(guest: &mut Guest) -> Vec<(&'static str, u64, u64)> {
    let tree = guest.walk("0");
    let mut found = Vec::new();
    for (path, name) in [("0/a", "a"), ("0/db-shm", "db-shm")] {
        let (node, handle) = guest.create(tree, name, 2, 0o600).unwrap();
        found.push((path, node, handle));
    }
    std::fs::write(guest.path("1/a"), "x").unwrap();
    let node = guest.walk("1/a");
    let (handle, _) = guest.open(node, 0).unwrap();
    found.push(("1/a", node, handle));
    found
}

#[test]
fn a_wait_that_is_taken_back_is_answered_and_leaves_nothing_locked() {
    let mut guest = Guest::new();
    for (path, node, handle) in files(&mut guest) {
        // A description that is only open for reading locks no record for writing.
        let kind = if path == "1/a" { READ_LOCK } else { WRITE_LOCK };
        for (flags, owner) in [(RECORD, 7), (FLOCK, 8)] {
            let holder = host(&guest, path);
            assert!(host_locks(&holder, true));
            let waiting = begin(&mut guest, 4711, node, &asked(handle, owner, kind, flags));
            let found = who(&mut guest);
            assert_eq!(found.iter().map(|wait| wait.thread).collect::<Vec<_>>(), [4711], "{path} {flags}");
            assert_eq!(take_back(&mut guest, found[0].number), Ok(Vec::new()));
            assert_eq!(ended(waiting), Err(INTR), "{path} {flags}");
            // Neither the host's nor the guest's, and both may have it.
            assert!(host_locks(&holder, false));
            assert!(host_locks(&host(&guest, path), true), "{path} {flags}");
            assert_eq!(guest.lock(node, handle, owner, kind, flags), Ok(()), "{path} {flags}");
            assert_eq!(guest.lock(node, handle, owner, NO_LOCK, flags), Ok(()));
        }
    }
}

#[test]
fn within_a_guest_others_go_on_waiting_and_circles_are_those_of_who_still_waits() {
    let mut guest = Guest::new();
    let (one, two) = (files(&mut guest)[0], files_of_a_second(&mut guest));
    guest.lock(one.1, one.2, 1, WRITE_LOCK, RECORD).unwrap();
    guest.lock(two.0, two.1, 2, WRITE_LOCK, RECORD).unwrap();
    let second = begin(&mut guest, 22, one.1, &asked(one.2, 2, WRITE_LOCK, RECORD));
    let third = begin(&mut guest, 33, one.1, &asked(one.2, 3, WRITE_LOCK, RECORD));
    // Who waits for it is waited for.
    let circle = asked(two.1, 1, WRITE_LOCK, RECORD);
    assert_eq!(guest.ask(SETLKW, two.0, &circle), Err(35));
    let found = all_of(&mut guest, 2);
    let number = |thread| found.iter().find(|wait| wait.thread == thread).unwrap().number;
    take_back(&mut guest, number(22)).unwrap();
    assert_eq!(ended(second), Err(INTR));
    assert!(!third.is_finished());
    // There is no circle any more.
    let first = begin(&mut guest, 11, two.0, &circle);
    guest.ask(FLUSH, two.0, &longs(&[two.1, 0, 2])).unwrap();
    assert_eq!(ended(first), Ok(Vec::new()));
    guest.lock(one.1, one.2, 1, NO_LOCK, RECORD).unwrap();
    assert_eq!(ended(third), Ok(Vec::new()));
    assert_eq!(guest.lock(one.1, one.2, 2, WRITE_LOCK, RECORD), Err(11));
}

fn files_of_a_second(guest: &mut Guest) -> (u64, u64) {
    let tree = guest.walk("0");
    guest.create(tree, "second", 2, 0o600).unwrap()
}

#[test]
fn what_is_over_is_not_taken_back_and_the_next_wait_of_its_thread_is_another() {
    let mut guest = Guest::new();
    let (path, node, handle) = files(&mut guest)[0];
    let lock = asked(handle, 7, WRITE_LOCK, FLOCK);
    let mut before = None;
    for _ in 0..3 {
        let holder = host(&guest, path);
        assert!(host_locks(&holder, true));
        let waiting = begin(&mut guest, 7, node, &lock);
        let now = who(&mut guest)[0].number;
        if let Some(before) = before.replace(now) {
            assert_ne!(before, now);
            take_back(&mut guest, before).unwrap();
            assert!(!waiting.is_finished());
        }
        drop(holder);
        assert_eq!(ended(waiting), Ok(Vec::new()), "it has the lock");
        take_back(&mut guest, now).unwrap();
        assert!(!host_locks(&host(&guest, path), true));
        guest.lock(node, handle, 7, NO_LOCK, FLOCK).unwrap();
    }
}

#[test]
fn who_asks_when_nobody_waits_is_answered_when_somebody_does_or_all_is_over() {
    let mut guest = Guest::new();
    let (path, node, handle) = files(&mut guest)[0];
    let question = attribute(WAITS, LONGEST_LIST);
    let who_asks = guest.thread;
    let asking = guest.ask_later(GETXATTR, 1, &question);
    sleep(Duration::from_millis(100));
    assert!(!asking.is_finished());
    let holder = host(&guest, path);
    assert!(host_locks(&holder, true));
    let waiting = begin(&mut guest, 99, node, &asked(handle, 7, WRITE_LOCK, FLOCK));
    assert_eq!(listed(&ended(asking).unwrap())[0].thread, 99);
    drop(holder);
    assert_eq!(ended(waiting), Ok(Vec::new()));
    // The list is for whoever asked first.
    assert_eq!(guest.ask(GETXATTR, 1, &question), Err(nix::libc::EOPNOTSUPP));
    guest.thread = who_asks;
    // A few may ask at once; those who do not ask any more make room.
    let askings: Vec<Later> = (0..4).map(|_| guest.ask_later(GETXATTR, 1, &question)).collect();
    assert_eq!(guest.ask(GETXATTR, 1, &question), Err(BUSY));
    guest.ask(DESTROY, 0, &[]).unwrap();
    for asking in askings {
        assert_eq!(ended(asking), Ok(Vec::new()));
    }
    let asking = guest.ask_later(GETXATTR, 1, &question);
    drop(guest);
    assert_eq!(ended(asking), Ok(Vec::new()));
}

#[test]
fn what_is_asked_wrongly_is_refused_and_what_is_not_asked_for_is_not_there() {
    let mut guest = Guest::new();
    for wrong in ["", "x", "-1", "1 ", "18446744073709551616"] {
        let name = format!("{INTERRUPT}{wrong}");
        assert_eq!(guest.ask(GETXATTR, 1, &attribute(&name, 0)), Err(INVAL), "{name}");
    }
    assert_eq!(take_back(&mut guest, u64::MAX), Ok(Vec::new()));
    let length = guest.ask(GETXATTR, 1, &attribute(&format!("{INTERRUPT}7"), 0));
    assert_eq!(length, Ok(vec![0; 8]), "how long the answer would be");
    for size in [0, 15] {
        assert_eq!(guest.ask(GETXATTR, 1, &attribute(WAITS, size)), Err(RANGE));
    }
    let (_, node, _) = files(&mut guest)[0];
    assert_eq!(guest.ask(LISTXATTR, node, &words(&[100, 0])), Ok(Vec::new()));
    assert!(guest.ask(SETXATTR, node, &[attribute(WAITS, 1), b"v".to_vec()].concat()).is_err());
    assert!(guest.ask(GETXATTR, node, &attribute("trusted.bulkhead.wait", 100)).is_err());
}

#[test]
fn a_list_holds_as_many_as_fit_and_no_more_wait_than_it_may_hold() {
    let mut guest = Guest::new();
    let (path, node, handle) = files(&mut guest)[1];
    let holder = host(&guest, path);
    assert!(host_locks(&holder, true));
    let most = LONGEST_LIST / 16;
    let lock = |owner: usize| asked(handle, u64::try_from(owner).unwrap(), READ_LOCK, RECORD);
    let waiting: Vec<Later> = (0..most)
        .map(|owner| begin(&mut guest, u32::try_from(owner).unwrap() + 10, node, &lock(owner)))
        .collect();
    assert_eq!(guest.ask(SETLKW, node, &lock(most)), Err(NOLCK));
    let found = all_of(&mut guest, most);
    let few = guest.ask(GETXATTR, 1, &attribute(WAITS, 47)).unwrap();
    assert_eq!(listed(&few), found[..2]);
    for wait in found {
        take_back(&mut guest, wait.number).unwrap();
    }
    for one in waiting {
        assert_eq!(ended(one), Err(INTR));
    }
    // There is room again.
    let one = begin(&mut guest, 5, node, &lock(most));
    drop(holder);
    assert_eq!(ended(one), Ok(Vec::new()));
}

/// Whoever closes one descriptor of a file gives back all record locks of its process, but not what a thread of it waits for.
#[test]
fn what_a_thread_waited_for_while_another_closed_is_held() {
    let mut guest = Guest::new();
    let (path, node, handle) = files(&mut guest)[0];
    let holder = host(&guest, path);
    assert!(host_locks(&holder, true));
    let waiting = begin(&mut guest, 7, node, &asked(handle, 7, WRITE_LOCK, RECORD));
    guest.ask(FLUSH, node, &longs(&[handle, 0, 7])).unwrap();
    drop(holder);
    assert_eq!(ended(waiting), Ok(Vec::new()));
    let holder = host(&guest, path);
    assert!(!host_locks(&holder, true));
    assert_eq!(guest.lock(node, handle, 8, WRITE_LOCK, RECORD), Err(11));
    guest.ask(RELEASE, node, &[longs(&[handle]), words(&[0, 0]), longs(&[0])].concat()).unwrap();
    assert!(host_locks(&holder, true));
}
