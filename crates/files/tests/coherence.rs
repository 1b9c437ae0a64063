//! What a lock means to the guest's cache, and what host and guest do not share.

mod kernel;

use std::fs::{self, File};
use std::time::{Duration, Instant};

use files::Answer;
use kernel::*;
use nix::fcntl::{FcntlArg, fcntl};

/// For how many seconds the guest may believe what GETATTR says.
fn validity(guest: &mut Guest, node: u64) -> u64 {
    long(&guest.ask(GETATTR, node, &[0; 16]).expect("an answer"), 0)
}

/// Nanoseconds of the last change as GETATTR tells them.
fn modified(guest: &mut Guest, node: u64) -> u32 {
    number(&guest.ask(GETATTR, node, &[0; 16]).expect("an answer"), 16 + 52)
}

/// Locks a range of a host's file, as fcntl(2) has it.
fn host_lock(file: &File, kind: i32, start: i64, length: i64) -> bool {
    let wanted = nix::libc::flock {
        l_type: i16::try_from(kind).expect("an answer"),
        l_whence: 0,
        l_start: start,
        l_len: length,
        l_pid: 0,
    };
    fcntl(file, FcntlArg::F_OFD_SETLK(&wanted)).is_ok()
}

#[test]
fn what_is_locked_is_asked_for_each_time() {
    let mut guest = Guest::new();
    fs::write(guest.path("0/a"), "content").unwrap();
    let node = guest.walk("0/a");
    assert_eq!(validity(&mut guest, node), 1);
    let (handle, _) = guest.open(node, 0).unwrap();
    // Nothing is cached, so nobody waits.
    assert_eq!(guest.lock(node, handle, 1, 0, 0), Ok(()));
    assert_eq!(validity(&mut guest, node), 0);
    assert_eq!(long(&guest.ask(LOOKUP, 2, &named(Vec::new(), "a")).unwrap(), 24), 0);
}

#[test]
fn the_first_lock_is_answered_when_what_was_told_before_has_expired() {
    let mut guest = Guest::new();
    fs::write(guest.path("0/a"), "content").unwrap();
    let node = guest.walk("0/a");
    let (handle, _) = guest.open(node, 0).unwrap();
    guest.read(node, handle);
    let begin = Instant::now();
    let body = [longs(&[handle, 1, 0, 9]), words(&[0, 5, 0, 0])].concat();
    let request = guest.request(SETLK, node, &body);
    let Answer::Later(job) = guest.files.handle(&request, 4096) else { panic!("it comes at once") };
    assert_eq!(number(&job(), 4), 0);
    // It was told a moment before `begin`.
    assert!(begin.elapsed() > Duration::from_millis(500), "{:?}", begin.elapsed());
    // The next one has nothing to wait for.
    let request = guest.request(SETLK, node, &body);
    assert!(matches!(guest.files.handle(&request, 4096), Answer::Now(_)));
}

#[test]
fn what_is_opened_to_be_read_and_written_is_looked_up_first() {
    let mut guest = Guest::new();
    fs::write(guest.path("0/a"), "content").unwrap();
    let node = guest.walk("0/a");
    assert_eq!(guest.open(node, 2), Err(STALE));
    guest.lookup(2, "a").unwrap();
    assert!(guest.open(node, 2).is_ok());
    assert_eq!(validity(&mut guest, node), 0);
}

#[test]
fn within_a_tick_of_the_clock_each_telling_differs() {
    let mut guest = Guest::new();
    let tree = guest.walk("0");
    let (node, handle) = guest.create(tree, "a", 2, 0o600).unwrap();
    guest.lock(node, handle, 1, 1, 0).unwrap();
    // On a machine that hangs the tick is over at once.
    let differ = (0..1000).any(|_| {
        guest.write(node, handle, 0, b"x", 0).unwrap();
        modified(&mut guest, node) != modified(&mut guest, node)
    });
    assert!(differ);
    std::thread::sleep(Duration::from_millis(60));
    assert_eq!(modified(&mut guest, node), modified(&mut guest, node));
}

#[test]
fn memory_between_processes_is_one_kernels() {
    const READ_LOCK: u32 = 0;
    const WRITE_LOCK: u32 = 1;
    let mut guest = Guest::new();
    let tree = guest.walk("0");
    let (node, handle) = guest.create(tree, "db-shm", 2, 0o600).unwrap();
    let host = File::options().read(true).write(true).open(guest.path("0/db-shm")).unwrap();
    // Readers within share; outside nobody has anything, wherever it lies.
    assert_eq!(guest.lock(node, handle, 1, READ_LOCK, 0), Ok(()));
    assert_eq!(guest.lock(node, handle, 2, READ_LOCK, 0), Ok(()));
    assert_eq!(guest.lock(node, handle, 2, WRITE_LOCK, 0), Err(11));
    assert!(!host_lock(&host, nix::libc::F_RDLCK, 120, 1));
    for owner in [1, 2] {
        assert!(!host_lock(&host, nix::libc::F_RDLCK, 120, 1), "somebody within still has it");
        guest.ask(FLUSH, node, &longs(&[handle, 0, owner])).unwrap();
    }
    assert!(host_lock(&host, nix::libc::F_RDLCK, 120, 1));
    // And the other way.
    assert_eq!(guest.lock(node, handle, 1, READ_LOCK, 0), Err(11));
    let asked = [longs(&[handle, 1, 0, 9]), words(&[WRITE_LOCK, 5, 0, 0])].concat();
    assert_eq!(number(&guest.ask(31, node, &asked).unwrap(), 16), WRITE_LOCK);
    let request = guest.request(SETLKW, node, &asked);
    let Answer::Later(job) = guest.files.handle(&request, 4096) else { panic!("it waits") };
    let waiting = std::thread::spawn(job);
    drop(host);
    assert_eq!(number(&waiting.join().unwrap(), 4), 0);
    assert_eq!(guest.lock(node, handle, 2, READ_LOCK, 0), Err(11));
}

#[test]
fn a_name_that_became_a_link_is_looked_up_anew() {
    let mut guest = Guest::new();
    fs::write(guest.path("0/a"), "content").unwrap();
    fs::write(guest.path("0/b"), "other").unwrap();
    let node = guest.walk("0/a");
    fs::remove_file(guest.path("0/a")).unwrap();
    std::os::unix::fs::symlink("b", guest.path("0/a")).unwrap();
    assert_eq!(guest.open(node, 0).err(), Some(STALE));
}

#[test]
fn a_locked_file_tells_of_each_close() {
    const NO_FLUSH: u32 = 1 << 5;
    let mut guest = Guest::new();
    fs::write(guest.path("0/a"), "content").unwrap();
    let node = guest.walk("0/a");
    let (handle, flags) = guest.open(node, 0).unwrap();
    assert_eq!(flags & NO_FLUSH, NO_FLUSH);
    assert_eq!(guest.lock(node, handle, 1, 0, 0), Ok(()));
    assert_eq!(guest.open(node, 0).unwrap().1 & NO_FLUSH, 0);
}
