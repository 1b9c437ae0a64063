//! What rights new files have, and who may keep set-ID bits.

mod kernel;

use std::fs;

use kernel::*;

/// `FALLOCATE` and `COPY_FILE_RANGE` do not say who writes, as `WRITE` does.
#[test]
fn room_and_copies_by_somebody_else_take_set_id_bits_away() {
    let mut guest = Guest::new();
    let tree = guest.walk("0");
    let (from, source) = guest.create(tree, "from", 2, 0o644).unwrap();
    guest.write(from, source, 0, b"content", 0).unwrap();
    let (node, handle) = guest.create(tree, "a", 2, 0o666).unwrap();
    let room = [longs(&[handle, 0, 4096]), words(&[0, 0])].concat();
    let copy = longs(&[source, 0, node, handle, 0, 7, 0]);
    for (what, at, body) in [(FALLOCATE, node, room), (COPY_FILE_RANGE, from, copy)] {
        for (user, left) in [(1234, 0o777), (0, 0o6777)] {
            guest.user = 0;
            guest.set(node, 7, 0o6777, (0, 0)).unwrap();
            guest.user = user;
            guest.ask(what, at, &body).unwrap();
            assert_eq!(guest.get(node).unwrap().mode & 0o7777, left, "{what} {user}");
        }
    }
}

/// Regression: where its group may not execute a file, the bit of its group stayed whoever wrote to it.
#[test]
fn the_groups_bit_of_what_it_may_not_execute_stays_for_its_group_alone() {
    const KILL: u32 = 1 << 2;
    let mut guest = Guest::new();
    let tree = guest.walk("0");
    let (node, handle) = guest.create(tree, "a", 2, 0o666).unwrap();
    let truncated = [words(&[1 << 3 | 1 << 11, 0]), longs(&[0; 6]), words(&[0; 8])].concat();
    for (group, left) in [(1234, 0o767), (77, 0o2767)] {
        for way in ["write", "truncate", "open"] {
            (guest.user, guest.group) = (0, 0);
            guest.set(node, 7, 0o2767, (0, 77)).unwrap();
            (guest.user, guest.group) = (1234, group);
            match way {
                "write" => guest.write(node, handle, 0, b"x", KILL).unwrap(),
                "truncate" => drop(guest.ask(SETATTR, node, &truncated).unwrap()),
                // O_WRONLY | O_TRUNC, and to be killed.
                _ => drop(guest.ask(OPEN, node, &words(&[0o1001, 1])).unwrap()),
            }
            assert_eq!(guest.get(node).unwrap().mode & 0o7777, left, "{way} {group}");
        }
    }
    // Root gives it away, and it stays; others' own groups do not have it.
    (guest.user, guest.group) = (0, 0);
    guest.set(node, 7, 0o2767, (0, 77)).unwrap();
    assert_eq!(guest.set(node, 6 | 1 << 11, 0, (5, 6)).unwrap().mode & 0o7777, 0o2767);
    (guest.user, guest.group) = (5, 7);
    assert_eq!(guest.set(node, 4 | 1 << 11, 0, (5, 7)).unwrap().mode & 0o7777, 0o767);
}

#[test]
fn the_umask_counts_where_no_folder_says_otherwise() {
    let mut guest = Guest::new();
    let tree = guest.walk("0");
    let mode = |entry: &[u8]| attributes(entry, 40).mode & 0o777;
    fs::create_dir(guest.path("0/shared")).unwrap();
    // One named user, as `setfacl -d -m u:1234:rwx` has it: version; tag, rights, number of each.
    let entry = |tag: u16, rights: u16, number: u32| {
        [&tag.to_le_bytes()[..], &rights.to_le_bytes(), &number.to_le_bytes()].concat()
    };
    let none = u32::MAX;
    let list =
        [entry(1, 7, none), entry(2, 7, 1234), entry(4, 7, none), entry(16, 7, none), entry(32, 5, none)];
    let list = [2u32.to_le_bytes().to_vec(), list.concat()].concat();
    let shared = guest.path("0/shared");
    rustix::fs::setxattr(&shared, "system.posix_acl_default", &list, rustix::fs::XattrFlags::empty())
        .unwrap();
    let shared = guest.walk("0/shared");
    for (folder, of_file, of_folder) in [(tree, 0o640, 0o750), (shared, 0o664, 0o775)] {
        let entry = guest.ask(MKDIR, folder, &named(words(&[0o777, 0o027]), "d")).unwrap();
        assert_eq!(mode(&entry), of_folder);
        let entry = guest.ask(MKNOD, folder, &named(words(&[0o100_666, 0, 0o027, 0]), "n")).unwrap();
        assert_eq!(mode(&entry), of_file);
        let entry = guest.ask(CREATE, folder, &named(words(&[0o102, 0o666, 0o027, 0]), "f")).unwrap();
        assert_eq!(mode(&entry), of_file);
    }
}
