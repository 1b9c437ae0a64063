//! What a lock means to the guest's cache, and what host and guest do not share.

mod kernel;

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, Instant};

use files::Answer;
use kernel::*;
use nix::fcntl::{FcntlArg, fcntl};

const UNLOCK: u32 = 2;
const WRITE_LOCK: u32 = 1;

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
fn within_a_tick_of_the_clock_the_first_telling_after_a_lock_differs() {
    let mut guest = Guest::new();
    let tree = guest.walk("0");
    let (node, handle) = guest.create(tree, "a", 2, 0o600).unwrap();
    let relocked = |guest: &mut Guest| {
        let before = modified(guest, node);
        guest.lock(node, handle, 1, UNLOCK, 0).unwrap();
        guest.lock(node, handle, 1, WRITE_LOCK, 0).unwrap();
        let after = modified(guest, node);
        // As long as it is locked, nobody else changes it.
        assert_eq!(modified(guest, node), after);
        after != before
    };
    relocked(&mut guest);
    // On a machine that hangs the tick is over at once.
    let differ = (0..1000).any(|_| {
        guest.write(node, handle, 0, b"x", 0).unwrap();
        relocked(&mut guest)
    });
    assert!(differ);
    std::thread::sleep(Duration::from_millis(60));
    relocked(&mut guest);
    assert!(!relocked(&mut guest));
}

/// What was read before it was locked may be of before the host's last change, too.
#[test]
fn within_a_tick_of_the_clock_the_telling_after_the_first_lock_differs() {
    let mut guest = Guest::new();
    let tree = guest.walk("0");
    let differ = (0..100).any(|number| {
        let (node, handle) = guest.create(tree, &format!("{number}"), 2, 0o600).unwrap();
        let before = modified(&mut guest, node);
        guest.lock(node, handle, 1, WRITE_LOCK, 0).unwrap();
        modified(&mut guest, node) != before
    });
    assert!(differ);
}

#[test]
fn a_time_in_the_future_is_told_as_it_is() {
    let mut guest = Guest::new();
    let tree = guest.walk("0");
    let (node, handle) = guest.create(tree, "a", 2, 0o600).unwrap();
    guest.lock(node, handle, 1, WRITE_LOCK, 0).unwrap();
    let file = File::options().write(true).open(guest.path("0/a")).unwrap();
    let tomorrow = std::time::SystemTime::now() + Duration::from_secs(86_400);
    file.set_times(std::fs::FileTimes::new().set_modified(tomorrow)).unwrap();
    std::thread::sleep(Duration::from_millis(60));
    let told = [(); 4].map(|()| modified(&mut guest, node));
    let set = u32::try_from(file.metadata().unwrap().mtime_nsec()).unwrap();
    assert_eq!(told, [set; 4]);
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

/// What it is told of a name: for how many nanoseconds the name and the attributes are believed.
fn validities(guest: &mut Guest, node: u64, name: &str) -> (u64, u64) {
    let entry = guest.ask(LOOKUP, node, &named(Vec::new(), name)).expect("the test's own files");
    let time = |seconds: usize, rest: usize| long(&entry, seconds) * SECOND + u64::from(number(&entry, rest));
    (time(16, 32), time(24, 36))
}

const SECOND: u64 = 1_000_000_000;

/// Puts another file in its place.
fn replace(guest: &Guest, path: &str, content: &str) {
    fs::write(guest.path("0/new"), content).expect("the test's own files");
    fs::rename(guest.path("0/new"), guest.path(path)).expect("the test's own files");
}

#[test]
fn what_was_looked_up_again_is_opened_whatever_the_host_does_meanwhile() {
    let mut guest = Guest::new();
    fs::create_dir(guest.path("0/d")).unwrap();
    fs::write(guest.path("0/d/a"), "1").unwrap();
    let node = guest.walk("0/d/a");
    let folder = guest.walk("0/d");
    replace(&guest, "0/d/a", "2");
    assert_eq!(guest.open(node, 0), Err(STALE));
    assert_eq!(validities(&mut guest, folder, "a"), (0, 0));
    let node = guest.lookup(folder, "a").unwrap().0;
    replace(&guest, "0/d/a", "3");
    assert_eq!(guest.get(node).unwrap().size, 1);
    let (handle, _) = guest.open(node, 0).unwrap();
    replace(&guest, "0/d/a", "4");
    assert_eq!(guest.read(node, handle), b"2");
    assert_eq!(guest.open(node, 0), Err(STALE), "that was another attempt");
    // The same for what is only written to, and for a folder above.
    let node = guest.walk("0/d/a");
    assert!(guest.open(node, 0).is_ok());
    for flags in [0, 1, 2, 0o2001] {
        fs::write(guest.path("0/d/a"), format!("five {flags}")).unwrap();
        assert_eq!(guest.open(node, flags), Err(STALE));
        guest.walk("0/d/a");
        fs::write(guest.path("0/d/a"), format!("and six {flags}")).unwrap();
        let (handle, said) = guest.open(node, flags).unwrap();
        assert_eq!(said & KEEP_CACHE, 0);
        assert_eq!(guest.ask(RELEASE, node, &[longs(&[handle]), vec![0; 16]].concat()), Ok(Vec::new()));
    }
    swap_folder(&guest);
    assert_eq!(guest.open(node, 0), Err(STALE));
    let folder = guest.walk("0/d");
    swap_folder(&guest);
    let node = guest.lookup(folder, "a").unwrap().0;
    swap_folder(&guest);
    assert!(guest.open(node, 0).is_ok());
}

/// Another folder under its name.
fn swap_folder(guest: &Guest) {
    fs::rename(
        guest.path("0/d"),
        tempfile::tempdir_in(guest.path("0")).expect("the test's own files").keep(),
    )
    .expect("the test's own files");
    fs::create_dir(guest.path("0/d")).expect("the test's own files");
    fs::write(guest.path("0/d/a"), "swapped").expect("the test's own files");
}

#[test]
fn each_task_has_attempts_of_its_own() {
    let mut guest = Guest::new();
    fs::write(guest.path("0/a"), "1").unwrap();
    let node = guest.walk("0/a");
    fs::write(guest.path("0/a"), "two").unwrap();
    assert_eq!(guest.open(node, 0), Err(STALE));
    guest.thread = 2;
    assert_eq!(guest.open(node, 0), Err(STALE));
    guest.thread = 1;
    // By no name, as through /proc.
    assert!(guest.open(node, 0).is_ok());
    fs::write(guest.path("0/a"), "three").unwrap();
    assert_eq!(guest.open(node, 0), Err(STALE));
    guest.walk("0/a");
    // It gave up, and does something else.
    guest.ask(STATFS, node, &[]).unwrap();
    fs::write(guest.path("0/a"), "and four").unwrap();
    assert_eq!(guest.open(node, 0), Err(STALE));
}

#[test]
fn where_a_link_leads_is_asked_for_each_time() {
    let mut guest = Guest::new();
    let link = guest.path("0/l");
    std::os::unix::fs::symlink("one", &link).unwrap();
    std::os::unix::fs::symlink("one", guest.path("1/l")).unwrap();
    let (tree, shown) = (guest.walk("0"), guest.walk("1"));
    assert_eq!(validities(&mut guest, tree, "l").0, 0);
    assert!(validities(&mut guest, shown, "l").0 > SECOND, "nobody is to change it");
    // What is kept of a link is kept for its node: another one has another, also where the host gives it the same number.
    for target in ["two", "one", "six"] {
        let node = guest.walk("0/l");
        fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink(target, &link).unwrap();
        let now = guest.walk("0/l");
        assert_ne!(now, node);
        assert_eq!(guest.ask(READLINK, now, &[]).unwrap(), target.as_bytes());
        assert_eq!(guest.walk("0/l"), now);
    }
}

#[test]
fn what_is_made_or_missing_is_so_where_the_names_lead_now() {
    let mut guest = Guest::new();
    fs::create_dir(guest.path("0/d")).unwrap();
    let folder = guest.walk("0/d");
    guest.create(folder, "before", 2, 0o600).unwrap();
    swap_folder(&guest);
    assert_eq!(guest.lookup(folder, "a").err(), Some(STALE));
    let folder = guest.walk("0/d");
    assert!(guest.lookup(folder, "a").is_ok());
    for _ in 0..3 {
        assert_eq!(guest.lookup(folder, "b").err(), Some(2));
    }
    // Whoever looks again and again is not on the same walk: it is told anew how long the folder's name may be believed.
    assert_eq!(guest.walk("0/d"), folder);
    swap_folder(&guest);
    assert_eq!(guest.lookup(folder, "b").err(), Some(STALE));
    guest.ask(STATFS, 1, &[]).unwrap();
    assert_eq!(guest.create(folder, "b", 2, 0o600).err(), Some(STALE));
    let folder = guest.walk("0/d");
    assert!(guest.create(folder, "b", 2, 0o600).is_ok());
    assert!(guest.path("0/d/b").exists());
}

#[test]
fn one_of_several_names_may_be_anothers_by_now() {
    let mut guest = Guest::new();
    fs::write(guest.path("0/a"), "content").unwrap();
    fs::hard_link(guest.path("0/a"), guest.path("0/b")).unwrap();
    let node = guest.walk("0/a");
    assert_eq!(guest.walk("0/b"), node);
    fs::hard_link(guest.path("0/a"), guest.path("0/c")).unwrap();
    guest.walk("0/b");
    replace(&guest, "0/a", "other");
    // Which name it was is not told.
    guest.walk("0/b");
    assert_eq!(guest.open(node, 0), Err(STALE));
    assert_ne!(guest.walk("0/a"), node);
}

/// Changes of times are not enough: the second to the same page makes none.
#[test]
fn what_the_host_may_write_through_a_mapping_is_not_kept() {
    let mut guest = Guest::new();
    fs::write(guest.path("0/a"), [0; 8192]).unwrap();
    std::thread::sleep(Duration::from_millis(60));
    let node = guest.walk("0/a");
    for _ in 0..3 {
        assert_eq!(guest.open(node, 0).unwrap().1 & KEEP_CACHE, 0);
    }
    // What the guest made itself is, as long as nobody else writes.
    let tree = guest.walk("0");
    let (node, handle) = guest.create(tree, "b", 2, 0o600).unwrap();
    guest.write(node, handle, 0, b"content", 0).unwrap();
    std::thread::sleep(Duration::from_millis(60));
    guest.walk("0/b");
    guest.open(node, 0).unwrap();
    assert_eq!(guest.open(node, 0).unwrap().1 & KEEP_CACHE, KEEP_CACHE);
}

#[test]
fn a_working_folder_that_was_moved_is_used_by_no_name() {
    let mut guest = Guest::new();
    fs::create_dir(guest.path("0/d")).unwrap();
    let folder = guest.walk("0/d");
    let (node, _) = guest.create(folder, "mine", 2, 0o600).unwrap();
    swap_folder(&guest);
    assert_eq!(guest.lookup(folder, "missing").err(), Some(STALE));
    // It cannot be looked up again: the walk begins there.
    assert_eq!(guest.lookup(folder, "missing").err(), Some(2));
    assert!(guest.create(folder, "b", 2, 0o600).is_ok());
    assert!(!guest.path("0/d/b").exists());
    // What is there is opened at the second attempt at the latest, and the folder keeps its name for others.
    for _ in 0..2 {
        assert_eq!(guest.lookup(folder, "mine").unwrap().0, node);
        assert_eq!(guest.open(node, 0).err(), Some(STALE));
        assert_eq!(guest.lookup(folder, "mine").unwrap().0, node);
        assert!(guest.open(node, 0).is_ok());
    }
    // Whoever comes by its name is led to what is there now.
    assert_ne!(guest.walk("0/d"), folder);
}

/// The guest's kernel takes whatever error for an answer there, and looks again on the same walk.
#[test]
fn what_is_gone_with_its_folder_is_missing_first_and_stale_then() {
    let mut guest = Guest::new();
    fs::create_dir(guest.path("0/d")).unwrap();
    let folder = guest.walk("0/d");
    guest.create(folder, "a", 2, 0o600).unwrap();
    fs::remove_file(guest.path("0/d/a")).unwrap();
    swap_folder(&guest);
    assert_eq!(guest.lookup(folder, "a").err(), Some(2));
    assert_eq!(guest.lookup(folder, "a").err(), Some(STALE));
    let node = guest.walk("0/d/a");
    assert!(guest.open(node, 0).is_ok());
}

#[test]
fn the_readers_of_a_database_that_is_one_file_are_memory_as_well() {
    let mut guest = Guest::new();
    let tree = guest.walk("0");
    let lock = |guest: &mut Guest, node: u64, handle: u64, kind: u32| {
        let body = [longs(&[handle, 1, 0, 0]), words(&[kind, 5, 0, 0])].concat();
        guest.ask(SETLK, node, &body).map(drop)
    };
    // Made by the guest, found by it, and something else that is called so.
    for (name, content, is_memory) in
        [("a-lock", &b""[..], true), ("b-lock", b"\xde\xc0\xef\xberest", true), ("c-lock", b"12345", false)]
    {
        fs::write(guest.path("0").join(name), content).unwrap();
        let node = guest.lookup(tree, name).unwrap().0;
        let (handle, _) = guest
            .open(node, 2)
            .or_else(|_| guest.lookup(tree, name).and_then(|_| guest.open(node, 2)))
            .unwrap();
        let host = File::options().read(true).write(true).open(guest.path("0").join(name)).unwrap();
        assert!(host_lock(&host, nix::libc::F_RDLCK, 0, 1));
        // Readers of both sides at once would each have their own memory.
        assert_eq!(lock(&mut guest, node, handle, 0), if is_memory { Err(11) } else { Ok(()) }, "{name}");
        assert!(host_lock(&host, nix::libc::F_UNLCK, 0, 1));
        assert_eq!(lock(&mut guest, node, handle, 0), Ok(()), "{name}");
        assert_eq!(host_lock(&host, nix::libc::F_RDLCK, 0, 1), !is_memory, "{name}");
        guest.ask(FLUSH, node, &longs(&[handle, 0, 1])).unwrap();
        assert!(host_lock(&host, nix::libc::F_WRLCK, 0, 1), "{name}");
    }
}

/// Within a tick of the clock the times do not tell who has written last, nor who maps it; a file that the guest has made is watched.
#[test]
fn what_others_may_have_mapped_while_the_guest_wrote_is_not_kept() {
    for (is_made, is_touched, length) in [
        (true, false, 1 << 20),
        (true, true, 1 << 20),
        (true, true, 9),
        (false, false, 1 << 20),
        (false, false, 9),
    ] {
        let mut guest = Guest::new();
        if !is_made {
            fs::write(guest.path("0/a"), "").unwrap();
        }
        let tree = guest.walk("0");
        let (node, handle) = guest.create(tree, "a", nix::libc::O_WRONLY, 0o644).unwrap();
        guest.write(node, handle, 0, &vec![7; length], 0).unwrap();
        if is_touched {
            let read = std::process::Command::new("cat").arg(guest.path("0/a")).output().unwrap();
            assert_eq!(read.stdout.len(), length);
        }
        guest.ask(RELEASE, node, &longs(&[handle, 0, 0])).unwrap();
        // At once, and again and again when the clock has moved on: what is mapped by then is written to without a word.
        for _ in 0..3 {
            let (_, answer) = guest.open(node, nix::libc::O_RDONLY).unwrap();
            assert_eq!(answer & KEEP_CACHE != 0, is_made && !is_touched, "{is_made} {is_touched} {length}");
            std::thread::sleep(Duration::from_millis(60));
        }
    }
}
