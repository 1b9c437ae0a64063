//! Saved layers of `bulkhead exec --save` that are damaged or full, and disks on a full host, with real guests: each is told, and none is
//! taken for a good or a new one.

use crate::exec_fixture;
use crate::exec_fixture::saved;

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use exec_fixture::{assert_code, complaint, finish, guests_start, text};
use nix::unistd::geteuid;
use saved::{Saved, plain};
use skips::{Need, skip};

/// What the host's tools say of a layer that is the test's own.
fn debugfs(image: &Path, request: &str) -> String {
    let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
    let output = Command::new("debugfs").args(["-R", request]).arg(image).env("PATH", path).output();
    String::from_utf8_lossy(&output.expect("debugfs comes with mke2fs").stdout).into_owned()
}

#[test]
fn a_damaged_file_system_ends_the_partition_is_refused_from_then_on_and_can_be_repaired() {
    if !guests_start() {
        return;
    }
    let saved = Saved::new();
    saved.says(
        &["--save-size", "256MiB"],
        "mkdir /srv/kept; echo word > /srv/kept/word; echo other > /srv/other",
    );
    // The journal is empty once it was mounted again: what is changed now is not put back by it.
    saved.says(&[], "true");
    let said = debugfs(&saved.image(), "blocks /upper/srv/kept");
    let block: u64 = said.split_whitespace().next().and_then(|word| word.parse().ok()).expect(&said);
    let file = fs::File::options().write(true).open(saved.image()).expect("ours");
    file.write_all_at(&[0xff; 4096], block * 4096).expect("written");
    // What is not damaged is there until what is damaged is met; then it does not go on, nor read-only either.
    let script = "cat /srv/other; cat /srv/kept/word; echo went on";
    let met = saved.refuses(&["--", "sh", "-c", script], "panic forced after error");
    assert!(!met.contains("went on"), "{met}");
    let refused =
        saved.refuses(&["--", "cat", "/srv/other"], "the saved layer is damaged: a guest has found");
    let (_, command) = refused.split_once("repair it in a partition: bulkhead exec ").expect(&refused);
    let words: Vec<&str> = command.lines().next().expect("a line").split(' ').collect();
    let repaired = saved.here.run(&words);
    // e2fsck says with 1 that it has mended something.
    assert_code(&repaired, 1);
    assert_eq!(saved.says(&[], "cat /srv/other"), "other\n");
    // Without its first block it is none, and is not taken for an empty one.
    file.write_all_at(&[0; 4096], 0).expect("written");
    saved.refuses(&["--", "cat", "/srv/other"], "the saved layer is damaged: there is no ext4 file system");
    file.set_len(1 << 20).expect("cut");
    saved.refuses(&["--", "cat", "/srv/other"], "its disk has 1048576 bytes, and was made with 268435456");
}

#[test]
fn a_full_layer_is_a_full_disk_to_the_program_and_room_that_is_freed_goes_back() {
    if !guests_start() {
        return;
    }
    let saved = Saved::new();
    let fill = "dd if=/dev/zero of=/srv/big bs=1M count=80 2>&1 | grep -o 'No space left on device'; sync /srv/big; stat -c %s /srv/big";
    let said = saved.says(&["--save-size", "64MiB"], fill);
    let size: u64 = said
        .strip_prefix("No space left on device\n")
        .and_then(|size| size.trim().parse().ok())
        .expect(&said);
    assert!((40 << 20..64 << 20).contains(&size), "{size}");
    let room = || fs::metadata(saved.image()).expect("there").blocks() * 512;
    assert!(room() > 40 << 20, "{}", room());
    assert_eq!(
        saved.says(&[], "stat -c %s /srv/big; rm /srv/big; sync; echo fits > /srv/small"),
        format!("{size}\n")
    );
    assert_eq!(saved.says(&[], "cat /srv/small"), "fits\n");
    assert!(room() < 20 << 20, "{}", room());
    saved
        .refuses(&["--save-size", "128MiB", "--", "true"], "it was made with 64 MiB, and 128 MiB are wanted");
}

/// Runs an `exec` as a script says, where the folder of the state is a file system with room for 24 MiB.
fn without_room(saved: &Saved, script: &str, exec: &[&str]) -> Output {
    fs::create_dir(&saved.state).expect("the test's own files");
    let script = format!("mount -t tmpfs -o size=24m,mode=700 none \"$0\"; {script}");
    let exec = saved.here.command(exec);
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", &script, plain(&saved.state)]).arg(exec.get_program());
    command.args(exec.get_args()).env("TMPDIR", saved.here.temporary());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    finish(command.spawn().expect("unshare runs"))
}

/// Nobody is told that all is well when the host could not keep it; once it can, what was synced is there.
#[test]
fn a_host_without_room_is_told_and_not_taken_for_success() {
    if !guests_start() {
        return;
    }
    if !geteuid().is_root() {
        return skip(Need::Root, "only root mounts");
    }
    let saved = Saved::new();
    let within = saved.state.join("layer-of-it");
    let script = "cat /srv/kept 2> /dev/null && rm -f /srv/big; echo kept > /srv/kept; sync; \
                  dd if=/dev/urandom of=/srv/big bs=1M count=50 2> /dev/null; exit 0";
    let exec = ["--save", plain(&within), "--save-size", "128MiB", "--", "sh", "-c", script];
    let twice = "\"$@\"; first=$?; mount -o remount,size=200m \"$0\"; \"$@\"; echo $first $?";
    let output = without_room(&saved, twice, &exec);
    assert_eq!(text(&output), "kept\n125 0\n", "{}", complaint(&output));
    let said = complaint(&output);
    assert!(said.contains("is full") && said.contains("make room and start again"), "{said}");
    saved.here.assert_nothing_left();
}

/// Regression: the guest stood still for good.
#[test]
fn a_disk_on_a_host_without_room_fails_as_a_disk_does() {
    if !guests_start() {
        return;
    }
    if !geteuid().is_root() {
        return skip(Need::Root, "only root mounts");
    }
    let saved = Saved::new();
    let disk = saved.state.join("disk");
    let script =
        "dd if=/dev/urandom of=/dev/vda bs=1M count=50 conv=fsync 2>&1 | grep -o 'Input/output error'";
    let exec = ["--user", "root", "--disk", plain(&disk), "--", "sh", "-c", script];
    let output = without_room(&saved, "truncate -s 64M \"$0/disk\"; \"$@\"", &exec);
    assert_eq!(text(&output), "Input/output error\n", "{}", complaint(&output));
    saved.here.assert_nothing_left();
}
