//! Names that the guest believes and that lead elsewhere by now: nothing is done to what they led to.

mod kernel;

use std::fs::{self, File};
use std::thread::sleep;
use std::time::Duration;

use kernel::*;

const LINK: u32 = 13;
const MODE: u32 = 1;
const NO_ENTRY: i32 = 2;
const WRITE_ANEW: i32 = 0o1001;

/// What a task that never asked before is answered.
fn anew<T>(guest: &mut Guest, ask: impl FnOnce(&mut Guest) -> Result<T, i32>) -> Result<T, i32> {
    guest.thread += 1;
    ask(guest)
}

fn replace(guest: &Guest, name: &str, content: &str) {
    let (new, old) = (guest.path("0/new"), guest.path("0").join(name));
    fs::write(&new, content).expect("the test's own files");
    fs::rename(new, old).expect("the test's own files");
}

#[test]
fn what_was_rotated_away_is_not_opened_under_its_old_name() {
    for is_open in [true, false] {
        let mut guest = Guest::new();
        fs::write(guest.path("0/log"), "old").unwrap();
        let tree = guest.walk("0");
        let node = guest.walk("0/log");
        if is_open {
            guest.open(node, 1).unwrap();
        }
        fs::rename(guest.path("0/log"), guest.path("0/log.1")).unwrap();
        guest.walk("0/log.1");
        assert_eq!(anew(&mut guest, |guest| guest.open(node, 1)), Err(STALE), "{is_open}");
        assert_eq!(guest.lookup(tree, "log").unwrap_err(), NO_ENTRY);
    }
}

#[test]
fn what_is_emptied_is_what_the_name_leads_to() {
    for is_open in [true, false] {
        let mut guest = Guest::new();
        fs::write(guest.path("0/a"), "precious").unwrap();
        let tree = guest.walk("0");
        let node = guest.walk("0/a");
        if is_open {
            guest.open(node, 0).unwrap();
        }
        fs::rename(guest.path("0/a"), guest.path("0/a.old")).unwrap();
        fs::write(guest.path("0/a"), "new").unwrap();
        guest.walk("0/a.old");
        assert_eq!(anew(&mut guest, |guest| guest.open(node, WRITE_ANEW)), Err(STALE), "{is_open}");
        // As its kernel goes on: the name is looked up again.
        let (other, _) = guest.lookup(tree, "a").unwrap();
        assert_ne!(other, node);
        guest.open(other, WRITE_ANEW).unwrap();
        assert_eq!(fs::read(guest.path("0/a.old")).unwrap(), b"precious");
        assert_eq!(fs::read(guest.path("0/a")).unwrap(), b"");
    }
}

#[test]
fn of_three_names_the_one_that_leads_elsewhere_is_noticed() {
    let mut guest = Guest::new();
    fs::write(guest.path("0/a"), "old").unwrap();
    for name in ["b", "c"] {
        fs::hard_link(guest.path("0/a"), guest.path("0").join(name)).unwrap();
    }
    let node = guest.walk("0/a");
    assert_eq!((guest.walk("0/b"), guest.walk("0/c")), (node, node));
    // All of them lead there: whichever it was.
    assert!(anew(&mut guest, |guest| guest.open(node, 0)).is_ok());
    replace(&guest, "a", "other");
    assert_eq!(anew(&mut guest, |guest| guest.open(node, 0)), Err(STALE));
}

/// Thousands of names of one file (snapshots, stores of packages): each is made at the cost of few.
#[test]
fn of_many_names_few_are_believed_and_none_is_refused() {
    let mut guest = Guest::new();
    fs::write(guest.path("0/a"), "x").unwrap();
    let tree = guest.walk("0");
    let node = guest.walk("0/a");
    let believed: Vec<bool> = (0..30)
        .map(|made_before| {
            let name = format!("n{made_before}");
            let made = guest.ask(LINK, tree, &named(longs(&[node]), &name)).expect(&name);
            assert!(anew(&mut guest, |guest| guest.open(node, 0)).is_ok(), "{name}");
            (long(&made, 16), number(&made, 32)) != (0, 0)
        })
        .collect();
    assert!(believed.iter().filter(|is_believed| **is_believed).count() < 6, "{believed:?}");
}

#[test]
fn what_is_set_by_name_is_set_where_the_name_leads() {
    let mut guest = Guest::new();
    fs::write(guest.path("0/f"), "old").unwrap();
    let tree = guest.walk("0");
    let node = guest.walk("0/f");
    let (handle, _) = guest.open(node, 1).unwrap();
    replace(&guest, "f", "other");
    let value = [words(&[1, 0]), b"user.k\0v".to_vec()].concat();
    let linked = named(longs(&[node]), "f.l");
    let asked = named(words(&[64, 0]), "user.k");
    for (what, body) in [(SETXATTR, value), (GETXATTR, asked), (LISTXATTR, words(&[64, 0])), (LINK, linked)] {
        let at = if what == LINK { tree } else { node };
        assert_eq!(anew(&mut guest, |guest| guest.ask(what, at, &body)), Err(STALE), "{what}");
    }
    assert_eq!(anew(&mut guest, |guest| guest.set(node, MODE, 0o600, (0, 0))), Err(STALE));
    // Its kernel looks the name up again, and finds the other.
    let (other, _) = guest.lookup(tree, "f").unwrap();
    assert_ne!(other, node);
    // It also asks for what it may have to take away.
    let capability = named(words(&[20, 0]), "security.capability");
    assert!(guest.ask(GETXATTR, other, &capability).is_err());
    replace(&guest, "f", "third");
    guest.set(other, MODE, 0o600, (0, 0)).unwrap();
    // What is open is meant where that is said, and as soon as no name of it is believed.
    guest.thread += 1;
    let size = [words(&[8 | 64, 0]), longs(&[handle, 1, 0, 0, 0, 0]), words(&[0; 8])].concat();
    guest.ask(SETATTR, node, &size).unwrap();
    assert_eq!(guest.get(node).unwrap().size, 1);
    sleep(Duration::from_millis(1200));
    guest.set(node, MODE, 0o640, (0, 0)).unwrap();
    assert_eq!(guest.get(node).unwrap().mode & 0o777, 0o640);
    assert_eq!(fs::read(guest.path("0/f")).unwrap(), b"third");
}

/// Regression: only the last name was asked for, so what was set was set in the folder that the host had moved away.
#[test]
fn what_is_set_by_path_is_set_where_the_whole_path_leads() {
    let mut guest = Guest::new();
    fs::create_dir(guest.path("0/d")).unwrap();
    fs::write(guest.path("0/d/f"), "old").unwrap();
    guest.walk("0/d");
    let node = guest.walk("0/d/f");
    fs::rename(guest.path("0/d"), guest.path("0/e")).unwrap();
    assert_eq!(anew(&mut guest, |guest| guest.set(node, MODE, 0o600, (0, 0))), Err(STALE));
    let value = [words(&[1, 0]), b"user.k\0v".to_vec()].concat();
    assert_eq!(anew(&mut guest, |guest| guest.ask(SETXATTR, node, &value)), Err(STALE));
    // As soon as no name of it is believed, it is what is open.
    sleep(Duration::from_millis(1200));
    anew(&mut guest, |guest| guest.set(node, MODE, 0o600, (0, 0))).unwrap();
}

/// A walk that ended at a missing name allows nothing to what comes next.
#[test]
fn what_was_refused_is_refused_under_its_next_name() {
    let mut guest = Guest::new();
    fs::write(guest.path("0/c"), "x").unwrap();
    let tree = guest.walk("0");
    let node = guest.walk("0/c");
    guest.open(node, 0).unwrap();
    fs::rename(guest.path("0/c"), guest.path("0/a")).unwrap();
    guest.thread = 2;
    assert_eq!(guest.walk("0/a"), node);
    guest.thread = 1;
    assert_eq!(guest.open(node, 0), Err(STALE));
    assert_eq!(guest.lookup(tree, "c").unwrap_err(), NO_ENTRY);
    fs::remove_file(guest.path("0/a")).unwrap();
    assert_eq!(guest.open(node, 0), Err(STALE));
}

#[test]
fn what_is_found_at_a_second_attempt_is_asked_for_each_time() {
    let mut guest = Guest::new();
    fs::write(guest.path("0/a"), "x").unwrap();
    let tree = guest.walk("0");
    let node = guest.walk("0/a");
    replace(&guest, "a", "other");
    assert_eq!(guest.open(node, 0), Err(STALE));
    let found = guest.ask(LOOKUP, tree, &named(Vec::new(), "a")).unwrap();
    assert_eq!((long(&found, 16), number(&found, 32)), (0, 0));
}

#[test]
fn the_name_of_what_is_open_is_asked_for_each_time() {
    let mut guest = Guest::new();
    fs::write(guest.path("0/a"), "x").unwrap();
    let tree = guest.walk("0");
    let validity = |guest: &mut Guest| long(&guest.ask(LOOKUP, tree, &named(Vec::new(), "a")).unwrap(), 16);
    assert_eq!(validity(&mut guest), 1);
    let node = guest.walk("0/a");
    let (handle, _) = guest.open(node, 0).unwrap();
    assert_eq!(validity(&mut guest), 0);
    let closed = [longs(&[handle]), words(&[0, 0]), longs(&[0])].concat();
    guest.ask(RELEASE, node, &closed).unwrap();
    assert_eq!(validity(&mut guest), 1);
}

#[test]
fn what_the_guest_renames_itself_goes_on_under_its_new_name() {
    let mut guest = Guest::new();
    let tree = guest.walk("0");
    let (node, _) = guest.create(tree, "a", 2, 0o600).unwrap();
    let names = [longs(&[tree]), words(&[0, 0]), b"a\0b\0".to_vec()].concat();
    guest.ask(RENAME2, tree, &names).unwrap();
    guest.set(node, MODE, 0o640, (0, 0)).unwrap();
    assert!(guest.open(node, 0).is_ok() || guest.lookup(tree, "b").is_ok() && guest.open(node, 0).is_ok());
    guest.ask(UNLINK, tree, &named(Vec::new(), "b")).unwrap();
    // Without a name it is still what is open.
    guest.set(node, MODE, 0o600, (0, 0)).unwrap();
    assert_eq!(guest.get(node).unwrap().mode & 0o777, 0o600);
}

/// A file that was opened by itself stays what it is; what the host has put in its place is out of reach.
#[test]
fn a_file_opened_by_itself_that_the_host_has_replaced_is_stale() {
    let mut guest = Guest::new();
    fs::remove_dir(guest.path("0")).unwrap();
    fs::write(guest.path("0"), "content").unwrap();
    let node = guest.walk("0");
    let (handle, _) = guest.open(node, 0).unwrap();
    // Held as by the mount that shows it.
    let held = File::open(guest.path("0")).unwrap();
    fs::remove_file(guest.path("0")).unwrap();
    for _ in 0..2 {
        assert_eq!(guest.open(node, 1), Err(STALE));
    }
    assert_eq!(guest.read(node, handle), b"content");
    drop(held);
}

/// What a program is told: its kernel asks once more when something is stale.
fn tried_twice<T>(guest: &mut Guest, ask: impl Fn(&mut Guest) -> Result<T, i32>) -> Result<T, i32> {
    anew(guest, &ask).or_else(|error| if error == STALE { ask(guest) } else { Err(error) })
}

/// Makes a file in a working folder, which its kernel does not ask for.
fn make_in(guest: &mut Guest, folder: u64, name: &str) -> Result<u64, i32> {
    tried_twice(guest, |guest| match guest.lookup(folder, name) {
        Err(NO_ENTRY) => guest.create(folder, name, 1, 0o600).map(|(node, _)| node),
        found => found.map(|(node, _)| node),
    })
}

/// The node of what is alone in a folder, as its listing tells it.
fn only_one_in(guest: &mut Guest, path: &str) -> u64 {
    let folder = guest.walk(path);
    let handle = long(&guest.ask(OPENDIR, folder, &words(&[0, 0])).expect("it is a folder"), 0);
    let body = [longs(&[handle, 0]), words(&[4096, 0]), longs(&[0]), words(&[0, 0])].concat();
    let listed = guest.ask(READDIRPLUS, folder, &body).expect("it is open");
    let entries = listed.chunks(160).map(|entry| long(entry, 0));
    entries.max().expect("there is something")
}

/// Regression: where the host had moved somebody's working folder, or one above it, nothing could be made or listed there.
#[test]
fn a_working_folder_stays_one_wherever_the_host_moves_it() {
    for (moved, is_listed) in [("0/a", false), ("0/a/b", false), ("0/a/b", true)] {
        let mut guest = Guest::new();
        fs::create_dir_all(guest.path("0/a/b")).unwrap();
        // It was only looked up, or listed: nobody is told whose working folder something is.
        let folder = if is_listed { only_one_in(&mut guest, "0/a") } else { guest.walk("0/a/b") };
        fs::rename(guest.path(moved), guest.path("0/moved")).unwrap();
        let now = guest.path("0").join(if moved == "0/a" { "moved/b" } else { "moved" });
        for name in ["one", "two"] {
            make_in(&mut guest, folder, name).expect(moved);
            assert!(now.join(name).is_file(), "{moved}");
        }
        assert_eq!(anew(&mut guest, |guest| guest.lookup(folder, "none").map(drop)), Err(STALE));
        assert_eq!(tried_twice(&mut guest, |guest| guest.lookup(folder, "none").map(drop)), Err(NO_ENTRY));
        tried_twice(&mut guest, |guest| guest.ask(OPENDIR, folder, &words(&[0, 0]))).expect(moved);
        // As soon as its name is not believed any more, whoever asks there has come by none: `mkdir` is not asked for twice.
        sleep(Duration::from_millis(1200));
        assert_eq!(anew(&mut guest, |guest| guest.lookup(folder, "none").map(drop)), Err(NO_ENTRY));
        anew(&mut guest, |guest| guest.create(folder, "three", 1, 0o600)).expect(moved);
    }
}

/// Regression: who asked in a working folder that is gone made others believe in it, who came by its path to a new one.
#[test]
fn a_working_folder_that_is_gone_is_empty_and_its_path_leads_to_the_new_one() {
    let mut guest = Guest::new();
    fs::create_dir_all(guest.path("0/a/b")).unwrap();
    let above = guest.walk("0/a");
    let folder = guest.walk("0/a/b");
    fs::remove_dir(guest.path("0/a/b")).unwrap();
    fs::create_dir(guest.path("0/a/b")).unwrap();
    fs::write(guest.path("0/a/b/new"), "x").unwrap();
    assert_eq!(make_in(&mut guest, folder, "one"), Err(NO_ENTRY));
    tried_twice(&mut guest, |guest| guest.ask(OPENDIR, folder, &words(&[0, 0]))).unwrap();
    // By its path, of which the kernel believes all.
    for what in [OPENDIR, LOOKUP] {
        let body = if what == LOOKUP { named(Vec::new(), "new") } else { words(&[0, 0]) };
        assert_eq!(anew(&mut guest, |guest| guest.ask(what, folder, &body).map(drop)), Err(STALE));
        let (other, _) = guest.lookup(above, "b").unwrap();
        assert_ne!(other, folder);
        guest.lookup(other, "new").unwrap();
    }
}
