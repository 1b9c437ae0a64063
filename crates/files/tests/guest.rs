//! The server asked as a guest's kernel asks it, over a folder of this host.

mod kernel;

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

use files::{Answer, Fullness};
use kernel::*;

#[test]
fn what_is_written_is_the_hosts_and_read_again() {
    let mut guest = Guest::new();
    let tree = guest.walk("0");
    let (node, handle) = guest.create(tree, "a", 2, 0o640).unwrap();
    guest.write(node, handle, 0, b"hello", 0).unwrap();
    assert_eq!(fs::read(guest.path("0/a")).unwrap(), b"hello");
    assert_eq!(guest.read(node, handle), b"hello");
    assert_eq!(guest.get(node).unwrap().size, 5);
    let meta = fs::metadata(guest.path("0/a")).unwrap();
    assert_eq!((meta.mode() & 0o7777, meta.uid()), (0o640, guest.user));
}

#[test]
fn names_lead_nowhere_else_and_trees_are_those_that_were_given() {
    let mut guest = Guest::new();
    fs::create_dir(guest.path("2")).unwrap();
    for name in ["2", "00", "x", "..", "."] {
        assert!(guest.lookup(1, name).is_err(), "{name}");
    }
    let tree = guest.walk("0");
    for name in ["..", ".", "a/b", ""] {
        assert!(guest.lookup(tree, name).is_err(), "{name}");
        assert!(guest.create(tree, name, 2, 0o600).is_err(), "{name}");
    }
    // A link that leads out is a link.
    std::os::unix::fs::symlink("/etc", guest.path("0/out")).unwrap();
    let (out, what) = guest.lookup(tree, "out").unwrap();
    assert_eq!(what.mode & 0o170_000, 0o120_000);
    assert_eq!(guest.lookup(out, "passwd").unwrap_err(), 20);
    assert!(guest.open(out, 0).is_err());
}

#[test]
fn nothing_is_written_in_a_tree_that_is_only_read() {
    let mut guest = Guest::new();
    fs::write(guest.path("1/a"), "x").unwrap();
    let tree = guest.walk("1");
    let node = guest.walk("1/a");
    assert_eq!(guest.open(node, 1), Err(30));
    assert_eq!(guest.open(node, 0o1000), Err(30));
    assert_eq!(guest.create(tree, "b", 2, 0o600), Err(30));
    assert_eq!(guest.set(node, 1, 0o600, (0, 0)), Err(30));
    assert_eq!(guest.ask(UNLINK, tree, &named(Vec::new(), "a")), Err(30));
    let (_, said) = guest.open(node, 0).unwrap();
    assert_eq!(said & KEEP_CACHE, KEEP_CACHE);
}

#[test]
fn owners_and_set_id_bits_stay_among_guests() {
    let mut guest = Guest::new();
    let tree = guest.walk("0");
    let host = (guest.user, guest.group);
    (guest.user, guest.group) = (4321, 4322);
    let (node, handle) = guest.create(tree, "a", 2, 0o4755).unwrap();
    let seen = guest.get(node).unwrap();
    assert_eq!((seen.mode & 0o7777, seen.user, seen.group), (0o4755, 4321, 4322));
    let on_host = |guest: &Guest, path: &str| {
        let meta = fs::metadata(guest.path(path)).unwrap();
        (meta.mode() & 0o7777, meta.uid())
    };
    assert_eq!(on_host(&guest, "0/a"), (0o755, host.0));
    // A write by somebody else takes the bit away.
    guest.write(node, handle, 0, b"x", 4).unwrap();
    assert_eq!(guest.get(node).unwrap().mode & 0o7777, 0o755);
    guest.set(node, 1, 0o2711, (0, 0)).unwrap();
    assert_eq!((guest.get(node).unwrap().mode & 0o7777, on_host(&guest, "0/a").0), (0o2711, 0o711));
    // Back to the caller: nothing is left of it.
    let seen = guest.set(node, 7, 0o644, host).unwrap();
    assert_eq!((seen.user, seen.group, seen.mode & 0o7777), (host.0, host.1, 0o644));
    let list = guest.ask(LISTXATTR, node, &words(&[1000, 0])).unwrap();
    assert_eq!(list, b"");
    // A folder with a group of its own hands it on.
    let made = guest.ask(MKDIR, tree, &named(words(&[0o2775, 0]), "d")).unwrap();
    let folder = long(&made, 0);
    guest.group = 9;
    let below = guest.ask(MKDIR, folder, &named(words(&[0o755, 0]), "e")).unwrap();
    let below = attributes(&below, 40);
    assert_eq!((below.group, below.mode & 0o7777), (4322, 0o2755));
    assert_eq!(on_host(&guest, "0/d/e").0, 0o755);
}

#[test]
fn the_host_says_what_time_it_is() {
    let mut guest = Guest::new();
    let tree = guest.walk("0");
    let asked = named(words(&[64, 0]), files::clock::TIME);
    let since_1970 = || std::time::UNIX_EPOCH.elapsed().unwrap();
    let before = since_1970();
    let said = files::clock::since_1970(&guest.ask(GETXATTR, 1, &asked).unwrap()).unwrap();
    assert!(before <= said && said <= since_1970());
    assert_eq!(
        guest.ask(GETXATTR, tree, &asked),
        Err(95),
        "through what programs see there is no such attribute"
    );
}

#[test]
fn devices_are_refused_and_sockets_and_pipes_made() {
    let mut guest = Guest::new();
    let tree = guest.walk("0");
    let make = |guest: &mut Guest, name: &str, mode: u32| {
        guest.ask(MKNOD, tree, &named(words(&[mode, 0x103, 0, 0]), name)).map(drop)
    };
    assert_eq!(make(&mut guest, "c", 0o020_666), Err(1));
    assert_eq!(make(&mut guest, "b", 0o060_666), Err(1));
    assert_eq!((make(&mut guest, "p", 0o010_600), make(&mut guest, "s", 0o140_600)), (Ok(()), Ok(())));
    assert!(fs::metadata(guest.path("0/p")).unwrap().file_type().is_fifo());
    assert!(fs::metadata(guest.path("0/s")).unwrap().file_type().is_socket());
    // The guest's kernel serves them: here they are never opened.
    let pipe = guest.walk("0/p");
    assert!(guest.open(pipe, 0).is_err());
    assert_eq!(guest.set(pipe, 2, 0, (guest.user + 1, 0)), Err(1));
}

#[test]
fn the_guests_cache_goes_when_the_host_has_written() {
    let mut guest = Guest::new();
    let path = guest.path("0/a");
    let tree = guest.walk("0");
    let (node, handle) = guest.create(tree, "a", 2, 0o600).unwrap();
    guest.write(node, handle, 0, b"first", 0).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(40));
    guest.lookup(tree, "a").unwrap();
    let (_, said) = guest.open(node, 0).unwrap();
    assert_eq!(said & KEEP_CACHE, 0, "the host may have written within the tick of the clock");
    assert_eq!(guest.open(node, 0).unwrap().1 & KEEP_CACHE, KEEP_CACHE);
    fs::write(&path, "other").unwrap();
    // Its kernel asks again what the file is, and forgets what it was.
    assert_eq!(guest.open(node, 0), Err(STALE));
    assert_eq!(guest.lookup(2, "a").unwrap().0, node);
    assert_eq!(guest.open(node, 0).unwrap().1 & KEEP_CACHE, 0);
}

#[test]
fn a_name_that_leads_elsewhere_by_now_is_stale() {
    let mut guest = Guest::new();
    fs::create_dir(guest.path("0/d")).unwrap();
    fs::write(guest.path("0/d/a"), "old").unwrap();
    let node = guest.walk("0/d/a");
    fs::write(guest.path("0/d/b"), "new").unwrap();
    fs::rename(guest.path("0/d/b"), guest.path("0/d/a")).unwrap();
    assert_eq!(guest.open(node, 0), Err(STALE));
    let node = guest.walk("0/d/a");
    let (handle, _) = guest.open(node, 0).unwrap();
    assert_eq!(guest.read(node, handle), b"new");
    // Also when it is a folder above that has changed, which a walk after that attempt was told to believe in.
    assert_eq!(guest.walk("0/d/a"), node);
    fs::rename(guest.path("0/d"), guest.path("0/e")).unwrap();
    fs::create_dir(guest.path("0/d")).unwrap();
    assert_eq!(guest.open(node, 0), Err(STALE));
}

#[test]
fn what_is_open_goes_on_without_a_name() {
    let mut guest = Guest::new();
    let tree = guest.walk("0");
    let (node, handle) = guest.create(tree, "a", 2, 0o600).unwrap();
    guest.ask(UNLINK, tree, &named(Vec::new(), "a")).unwrap();
    guest.write(node, handle, 0, b"still", 0).unwrap();
    assert_eq!((guest.get(node).unwrap().size, guest.read(node, handle)), (5, b"still".to_vec()));
    assert_eq!(guest.set(node, 1, 0o640, (0, 0)).unwrap().mode & 0o777, 0o640);
    // Opened again through /proc.
    let (again, _) = guest.open(node, 0).unwrap();
    assert_eq!(guest.read(node, again), b"still");
    assert!(!guest.path("0/a").exists());
}

#[test]
fn what_a_file_is_renamed_to_is_found() {
    let mut guest = Guest::new();
    let tree = guest.walk("0");
    let (one, _) = guest.create(tree, "one", 2, 0o600).unwrap();
    let (two, handle) = guest.create(tree, "two", 2, 0o600).unwrap();
    guest.write(two, handle, 0, b"2", 0).unwrap();
    let both = |flags: u32| [[longs(&[tree]), words(&[flags, 0])].concat(), b"one\0two\0".to_vec()].concat();
    assert_eq!(guest.ask(RENAME2, tree, &both(1)), Err(17));
    guest.ask(RENAME2, tree, &both(2)).unwrap();
    assert_eq!(fs::read(guest.path("0/one")).unwrap(), b"2");
    assert_eq!((guest.lookup(tree, "one").unwrap().0, guest.lookup(tree, "two").unwrap().0), (two, one));
    guest.ask(RENAME2, tree, &both(0)).unwrap();
    assert_eq!(guest.lookup(tree, "one").unwrap_err(), 2);
    assert_eq!(guest.lookup(tree, "two").unwrap().0, two);
    assert!(guest.ask(RENAME2, tree, &both(4)).is_err(), "whiteouts are devices");
}

#[test]
fn locks_are_the_hosts() {
    use rustix::fs::{FlockOperation, flock};
    let mut guest = Guest::new();
    let tree = guest.walk("0");
    let (node, handle) = guest.create(tree, "a", 2, 0o600).unwrap();
    let host = File::open(guest.path("0/a")).unwrap();
    flock(&host, FlockOperation::NonBlockingLockExclusive).unwrap();
    assert_eq!(guest.lock(node, handle, 1, 1, 1), Err(11));
    flock(&host, FlockOperation::Unlock).unwrap();
    assert_eq!(guest.lock(node, handle, 1, 1, 1), Ok(()));
    assert!(flock(&host, FlockOperation::NonBlockingLockShared).is_err());
    // Records: owners exclude each other, and closing gives back.
    assert_eq!((guest.lock(node, handle, 1, 1, 0), guest.lock(node, handle, 2, 0, 0)), (Ok(()), Err(11)));
    guest.ask(FLUSH, node, &longs(&[handle, 0, 1])).unwrap();
    assert_eq!(guest.lock(node, handle, 2, 0, 0), Ok(()));
    guest.ask(RELEASE, node, &[longs(&[handle]), words(&[0, 0]), longs(&[0])].concat()).unwrap();
    flock(&host, FlockOperation::NonBlockingLockExclusive).unwrap();
}

#[test]
fn who_asks_for_a_lock_keeps_nothing_open() {
    let mut guest = Guest::new();
    let tree = guest.walk("0");
    let (node, handle) = guest.create(tree, "a", 2, 0o600).unwrap();
    let same_file = fs::canonicalize(guest.path("0/a")).unwrap();
    let open = || {
        let all = fs::read_dir("/proc/self/fd").unwrap().flatten();
        all.filter(|entry| fs::read_link(entry.path()).is_ok_and(|to| to == same_file)).count()
    };
    let before = open();
    for owner in 1..=5 {
        let body = [longs(&[handle, owner, 0, 9]), words(&[1, 5, 0, 0])].concat();
        let told = guest.ask(GETLK, node, &body).unwrap();
        assert_eq!(number(&told, 16), 2, "nobody holds one");
    }
    assert_eq!(open(), before);
}

#[test]
fn a_mode_that_is_set_to_what_it_was_takes_no_rights_away() {
    let mut guest = Guest::new();
    fs::write(guest.path("0/f"), "x").unwrap();
    fs::set_permissions(guest.path("0/f"), fs::Permissions::from_mode(0o4755)).unwrap();
    let node = guest.walk("0/f");
    guest.set(node, 1, 0o4755, (0, 0)).unwrap();
    assert_eq!(fs::metadata(guest.path("0/f")).unwrap().mode() & 0o7777, 0o4755);
}

#[test]
fn who_waits_for_a_lock_waits_elsewhere() {
    let mut guest = Guest::new();
    let tree = guest.walk("0");
    let (node, handle) = guest.create(tree, "a", 2, 0o600).unwrap();
    guest.lock(node, handle, 1, 1, 0).unwrap();
    let body = [longs(&[handle, 2, 0, 9]), words(&[1, 5, 0, 0])].concat();
    let request = guest.request(SETLKW, node, &body);
    let Answer::Later(job) = guest.files.handle(&request, 4096) else { panic!("it waits") };
    let waiting = std::thread::spawn(job);
    guest.lock(node, handle, 1, 2, 0).unwrap();
    assert_eq!(number(&waiting.join().unwrap(), 4), 0);
}

#[test]
fn who_waits_for_each_other_is_told() {
    let mut guest = Guest::new();
    let tree = guest.walk("0");
    let (one, first) = guest.create(tree, "a", 2, 0o600).unwrap();
    let (two, second) = guest.create(tree, "b", 2, 0o600).unwrap();
    guest.lock(one, first, 1, 1, 0).unwrap();
    guest.lock(two, second, 2, 1, 0).unwrap();
    let wait = |handle: u64, owner: u64| [longs(&[handle, owner, 0, 9]), words(&[1, 5, 0, 0])].concat();
    let request = guest.request(SETLKW, two, &wait(second, 1));
    let Answer::Later(job) = guest.files.handle(&request, 4096) else { panic!("it waits") };
    assert_eq!(guest.ask(SETLKW, one, &wait(first, 2)), Err(35));
    guest.lock(two, second, 2, 2, 0).unwrap();
    assert_eq!(number(&job(), 4), 0);
}

#[test]
fn attributes_of_users_are_the_hosts_and_others_are_not_there() {
    let mut guest = Guest::new();
    let tree = guest.walk("0");
    let (node, _) = guest.create(tree, "a", 2, 0o600).unwrap();
    let set = |guest: &mut Guest, name: &str| {
        guest.ask(SETXATTR, node, &[named(words(&[1, 0]), name), b"v".to_vec()].concat()).map(drop)
    };
    set(&mut guest, "user.x").unwrap();
    assert_eq!(guest.ask(GETXATTR, node, &named(words(&[10, 0]), "user.x")).unwrap(), b"v");
    assert_eq!(guest.ask(LISTXATTR, node, &words(&[100, 0])).unwrap(), b"user.x\0");
    for name in ["user.bulkhead", "trusted.x", "security.capability", "system.posix_acl_access"] {
        assert!(set(&mut guest, name).is_err(), "{name}");
        assert!(guest.ask(GETXATTR, node, &named(words(&[10, 0]), name)).is_err(), "{name}");
    }
}

#[test]
fn root_may_what_the_owners_mode_forbids() {
    let mut guest = Guest::new();
    fs::write(guest.path("0/a"), "x").unwrap();
    fs::set_permissions(guest.path("0/a"), fs::Permissions::from_mode(0o444)).unwrap();
    let node = guest.walk("0/a");
    let opened = guest.open(node, 1).or_else(|_| {
        guest.walk("0/a");
        guest.open(node, 1)
    });
    assert!(opened.is_ok(), "{opened:?}");
    assert_eq!(fs::metadata(guest.path("0/a")).unwrap().mode() & 0o777, 0o444);
}

#[test]
fn a_folder_is_listed_with_all_that_is_known() {
    let mut guest = Guest::new();
    let names: Vec<String> = (0..50).map(|number| format!("file-{number}")).collect();
    for name in &names {
        fs::write(guest.path("0").join(name), "x").unwrap();
    }
    let tree = guest.walk("0");
    let opened = guest.ask(OPENDIR, tree, &words(&[0, 0])).unwrap();
    let (handle, mut offset, mut found) = (long(&opened, 0), 0, Vec::new());
    loop {
        let body = [longs(&[handle, offset]), words(&[4096, 0]), longs(&[0]), words(&[0, 0])].concat();
        let listed = guest.ask(READDIRPLUS, tree, &body).unwrap();
        assert!(listed.len() <= 4096);
        let mut rest = listed.as_slice();
        while !rest.is_empty() {
            let length = number(rest, 128 + 16) as usize;
            let name = Path::new(OsStr::from_bytes(&rest[152..152 + length])).to_path_buf();
            if long(rest, 0) != 0 {
                assert_eq!((attributes(rest, 40).size, number(rest, 128 + 20)), (1, 8));
                found.push(name.to_string_lossy().into_owned());
            }
            offset = long(rest, 128 + 8);
            rest = &rest[128 + (24 + length).next_multiple_of(8)..];
        }
        if listed.is_empty() {
            break;
        }
    }
    found.sort();
    let mut names = names;
    names.sort();
    assert_eq!(found, names);
}

#[test]
fn what_a_folder_of_the_host_has_stays_with_its_mode() {
    let mut guest = Guest::new();
    let folder = guest.path("0/d");
    fs::create_dir(&folder).unwrap();
    let node = guest.walk("0/d");
    let is_on_host = || fs::metadata(&folder).unwrap().mode() & 0o7777;
    // The sticky bit is the host's own, as long as it is asked for.
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o1777)).unwrap();
    for mode in [0o1770, 0o1777, 0o777, 0o755, 0o1755] {
        assert_eq!(guest.set(node, 1, mode, (0, 0)).unwrap().mode & 0o7777, mode);
        assert_eq!(is_on_host(), mode, "{mode:o}");
    }
    let tree = guest.walk("0");
    let made = guest.ask(MKDIR, tree, &named(words(&[0o1755, 0]), "e")).unwrap();
    assert_eq!(attributes(&made, 40).mode & 0o7777, 0o1755);
    assert_eq!(fs::metadata(guest.path("0/e")).unwrap().mode() & 0o7777, 0o1755);
    // The set-group-ID bit cannot be given anew: it stays with the mode it has, or goes.
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o2775)).unwrap();
    assert_eq!(guest.set(node, 1, 0o2755, (0, 0)), Err(1));
    assert_eq!(guest.set(node, 1, 0o2775, (0, 0)).unwrap().mode & 0o7777, 0o2775);
    assert_eq!(is_on_host(), 0o2775);
    assert_eq!(guest.set(node, 1, 0o755, (0, 0)).unwrap().mode & 0o7777, 0o755);
    assert_eq!(is_on_host(), 0o755);
}

/// As natively: also where a mode or an owner is set to what it is.
#[test]
fn whatever_is_set_moves_the_time_of_the_last_change() {
    let mut guest = Guest::new();
    fs::write(guest.path("0/f"), "x").unwrap();
    fs::create_dir(guest.path("0/d")).unwrap();
    std::os::unix::fs::symlink("f", guest.path("0/l")).unwrap();
    for name in ["0/f", "0/d", "0/l"] {
        let changed = |guest: &Guest| {
            let found = fs::symlink_metadata(guest.path(name)).unwrap();
            (found.ctime(), found.ctime_nsec())
        };
        let (node, mode) = (guest.walk(name), fs::symlink_metadata(guest.path(name)).unwrap().mode() & 0o777);
        // The mode, the owner, and neither: what chown(-1, -1) is to the guest's kernel.
        for valid in [1, 2, 0].into_iter().filter(|valid| *valid != 1 || name != "0/l") {
            let before = changed(&guest);
            std::thread::sleep(std::time::Duration::from_millis(20));
            guest.set(node, valid, mode, (guest.user, guest.group)).unwrap();
            assert!(changed(&guest) > before, "{name}, {valid}");
        }
    }
}

/// More folders, one in the other, than a stack would bear, of which none is known any more.
#[test]
fn folders_are_as_deep_as_a_guest_likes() {
    const FOLDERS: usize = 4000;
    let mut guest = Guest::new();
    let mut at = guest.walk("0");
    for _ in 0..FOLDERS {
        at = long(&guest.ask(MKDIR, at, &named(words(&[0o755, 0]), "d")).unwrap(), 0);
    }
    let shown = guest.walk("1");
    for number in 0..9000 {
        let name = format!("{number}");
        fs::write(guest.path("1").join(&name), "").unwrap();
        guest.lookup(shown, &name).unwrap();
    }
    guest.create(at, "deepest", 2, 0o600).unwrap();
    assert_eq!(guest.lookup(at, "deepest").unwrap().1.mode & 0o7777, 0o600);
}

/// What is being listed takes memory of the host's: so much in all, and no more.
#[test]
fn a_guest_lists_so_much_at_once_and_no_more() {
    let mut guest = Guest::new();
    let tree = guest.walk("0");
    for number in 0..4000 {
        fs::write(guest.path("0").join(format!("{number:0250}")), "").unwrap();
    }
    let mut opened = Vec::new();
    let refused = loop {
        let handle = long(&guest.ask(OPENDIR, tree, &words(&[0, 0])).unwrap(), 0);
        opened.push(handle);
        let body = [longs(&[handle, 0]), words(&[4096, 0]), longs(&[0]), words(&[0, 0])].concat();
        match guest.ask(READDIRPLUS, tree, &body) {
            Ok(_) => assert!(opened.len() < 1000, "there is no end to it"),
            Err(refused) => break refused,
        }
    };
    assert_eq!(refused, 12);
    assert!(opened.len() > 20, "{}", opened.len());
    for handle in opened {
        guest.ask(RELEASEDIR, tree, &[longs(&[handle]), vec![0; 16]].concat()).unwrap();
    }
    let handle = long(&guest.ask(OPENDIR, tree, &words(&[0, 0])).unwrap(), 0);
    let body = [longs(&[handle, 0]), words(&[4096, 0]), longs(&[0]), words(&[0, 0])].concat();
    assert!(guest.ask(READDIRPLUS, tree, &body).unwrap().len() > 2000);
}

#[test]
fn rubbish_is_refused() {
    let mut guest = Guest::new();
    for opcode in 0..60 {
        for node in [0, 1, 2, u64::MAX] {
            for body in [&[][..], &[0; 7], &[0xff; 48], &[0; 200], &[0xff; 5000]] {
                let request = guest.request(opcode, node, body);
                if let Answer::Now(answer) = guest.files.handle(&request, 64) {
                    assert!(answer.len() <= 80, "{opcode}");
                }
                // A length that lies.
                let mut lying = request;
                lying[0] ^= 1;
                let _ = guest.files.handle(&lying, 64);
            }
        }
    }
}

#[test]
fn a_full_disk_refuses_what_takes_room_and_has_room_again() {
    const NO_ROOM: i32 = 28;
    let mut guest = Guest::new();
    let fullness = Fullness::default();
    guest.full_when(fullness.clone());
    let tree = guest.walk("0");
    let (node, handle) = guest.create(tree, "old", 2, 0o644).unwrap();
    guest.write(node, handle, 0, &[1; 8192], 0).unwrap();
    let free = |guest: &mut Guest| long(&guest.ask(STATFS, tree, &[]).unwrap(), 16);
    assert!(free(&mut guest) > 0);

    fullness.begin(Duration::from_secs(600));
    assert_eq!(free(&mut guest), 0);
    assert_eq!(guest.create(tree, "new", 2, 0o644), Err(NO_ROOM));
    assert_eq!(guest.ask(MKDIR, tree, &named(words(&[0o755, 0]), "folder")), Err(NO_ROOM));
    assert_eq!(guest.write(node, handle, 8000, &[2; 8192], 0), Err(NO_ROOM), "behind its end");
    guest.write(node, handle, 4096, &[2; 4096], 0).unwrap();
    let read = guest.read(node, handle);
    assert_eq!((read.first(), read.get(4096)), (Some(&1), Some(&2)));

    fullness.begin(Duration::ZERO);
    guest.write(node, handle, 8000, &[2; 8192], 0).unwrap();
    guest.create(tree, "new", 2, 0o644).unwrap();
    assert!(free(&mut guest) > 0);
}
