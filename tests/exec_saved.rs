//! `bulkhead exec --save`: what a program changes of its files is kept, with real guests.

use crate::exec_fixture::saved;
use crate::{exec_fixture, image_fixture};

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use exec_fixture::normal_user::NormalUser;
use exec_fixture::{
    Here, assert_code, complaint, end_of, finish, finish_within, guests_start, text, wait_for,
};
use image_fixture::{image, index, system_layer};
use nix::unistd::geteuid;
use saved::{Saved, plain};
use serde_json::json;
use skips::{Need, skip};

/// Changes of every kind: to what the host shows, beside it, and to what is the layer's alone.
const CHANGE: &str = r#"set -e; cd "$0"
echo changed >> a; rm b; rm -r dir; mkdir dir; echo new > dir/new; echo two >> c; echo two >> d; echo two >> linked
python3 - <<'END'
import os
try:
    os.rename("moved", "elsewhere")
    print("renamed")
except OSError as error:
    print(os.strerror(error.errno))
END
mkdir /srv/own; cd /srv/own; echo one > one; ln one two; ln -s one three; mkfifo pipe; mknod null c 1 3
echo x > tool; chown 12:13 tool; chmod 4711 tool; mkdir sticky; chmod 1777 sticky
python3 -c 'import os; os.setxattr("one", "user.note", b"noted")'
cp /bin/sh /usr/local/bin/own-shell; echo hosts > /etc/own; rm /etc/profile; echo temporary > /tmp/own"#;
/// What is found of that.
const LOOK: &str = r#"cd "$0"
cat a also; ls b; ls dir; cat dir/new; ls moved late; cat late
cd /srv/own; cat one; stat -c '%h %a %u %g' two tool; readlink three; stat -c '%F %a' pipe null sticky; : > null
python3 -c 'import os; print(os.getxattr("one", "user.note").decode())'
cat /etc/own /tmp/own; ls /etc/profile; own-shell -c 'echo found'
cd "$0"; stat -c %i a c d | sort -u | wc -l; stat -c %i one /srv/own/one | sort -u | wc -l"#;

#[test]
fn what_a_program_changes_is_kept_and_what_it_deletes_stays_deleted() {
    if !guests_start() {
        return;
    }
    let saved = Saved::new();
    let shown = saved.here.path("shown");
    fs::create_dir_all(shown.join("dir")).expect("the test's own files");
    fs::create_dir_all(shown.join("moved")).expect("the test's own files");
    for name in ["a", "b", "c", "d", "one", "late", "dir/old"] {
        fs::write(shown.join(name), format!("{name}\n")).expect("the test's own files");
    }
    fs::write(shown.join("linked"), "one\n").expect("the test's own files");
    fs::hard_link(shown.join("linked"), shown.join("also")).expect("the test's own files");
    fs::set_permissions(saved.here.files.path(), fs::Permissions::from_mode(0o755)).expect("ours");
    let words = |script| ["--ro", plain(&shown), "--user", "root", "--", "sh", "-c", script, plain(&shown)];
    let output = saved.run(&words(CHANGE));
    // A folder of the tree below cannot be renamed in one go: programs copy it then, as between file systems.
    assert_eq!(text(&output), "Invalid cross-device link\n", "{}", complaint(&output));
    // What it did not change is the host's of today.
    fs::write(shown.join("late"), "later\n").expect("the test's own files");
    let report = saved.here.path("report.json");
    let report_to = format!("--report={}", report.display());
    for _ in 0..2 {
        let output = saved.run(&[&[report_to.as_str()], &words(LOOK)[..]].concat());
        assert_code(&output, 0);
        let wanted = "a\nchanged\none\nnew\nnew\nmoved late\nlater\none\n2 644 0 0\n1 4711 12 13\none\nfifo 644\ncharacter special file 644\n\
                      directory 1777\nnoted\nhosts\ntemporary\nfound\n3\n2\n";
        assert_eq!(text(&output).replace("late\n\nmoved:\n", "moved late\n"), wanted);
        let said = complaint(&output);
        assert!(said.contains("'b': No such") && said.contains("'/etc/profile': No such"), "{said}");
    }
    let said = fs::read_to_string(report).expect("a report");
    assert!(said.contains("it has a saved layer") && said.contains("\"restored\": false"), "{said}");
    // The host's own are as they were, and another start sees those.
    assert_eq!(fs::read_to_string(shown.join("a")).expect("there"), "a\n");
    assert!(shown.join("b").exists() && shown.join("dir/old").exists());
    let without = saved.here.run(&["--ro", plain(&shown), "--", "cat", plain(&shown.join("a"))]);
    assert_eq!(text(&without), "a\n");
    gives_nobody_rights(&saved.state);
    let room = fs::metadata(saved.image()).expect("there").blocks() * 512;
    assert!(room < 64 << 20, "{room} bytes of the host's disk for next to nothing");
    saved.here.assert_nothing_left();
}

/// Set-ID bits, owners and devices are within the image, which is its owner's alone.
fn gives_nobody_rights(state: &Path) {
    let mut found = Vec::new();
    let mut folders = vec![state.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("ours").flatten() {
            let meta = entry.metadata().expect("there");
            if meta.is_dir() {
                folders.push(entry.path());
            }
            let mode = if meta.is_dir() { 0o40700 } else { 0o100_600 };
            assert_eq!((meta.uid(), meta.mode()), (geteuid().as_raw(), mode), "{}", entry.path().display());
            found.push(entry.file_name().to_string_lossy().into_owned());
        }
    }
    found.sort();
    assert_eq!(found, ["layer", "layer.img", "layer.json", "lock"]);
    assert_eq!(fs::metadata(state).expect("there").mode(), 0o40700);
}

#[test]
fn a_set_user_id_program_in_the_layer_gives_nobody_rights_on_the_host() {
    if !guests_start() {
        return;
    }
    let saved = Saved::new();
    saved.says(
        &["--user", "root"],
        "cp /usr/bin/id /usr/local/bin/mine; chmod 6755 /usr/local/bin/mine; mknod /srv/disk b 254 0",
    );
    gives_nobody_rights(&saved.state);
    // Within, it is what it says; for another user, too.
    let within = saved.says(&["--user", "12:13"], "mine -u; stat -c '%a %u' /usr/local/bin/mine");
    assert_eq!(within, "0\n6755 0\n");
    gives_nobody_rights(&saved.state);
}

#[test]
fn an_images_layer_is_that_images_alone() {
    if !guests_start() {
        return;
    }
    let saved = Saved::new();
    let layouts = saved.here.path("layouts");
    let layout = |name: &str, word: &str| {
        let layout = layouts.join(name);
        let layer = system_layer(&["sh", "cat", "rm", "ls"])
            .file("etc/resolv.conf", 0o644, "nameserver 192.0.2.1\n")
            .file("word", 0o644, word);
        index(&layout, &[image(&layout, &json!({ "Entrypoint": ["/bin/sh", "-c"] }), &[layer.archive()])]);
        layout
    };
    let (one, other) = (layout("one", "one\n"), layout("other", "other\n"));
    let run = |words: &[&str]| saved.run(&[&["--image", plain(&one)], words].concat());
    let first = run(&[
        "--net",
        "user",
        "--",
        "cat /etc/resolv.conf; echo kept > /kept; rm /word; echo added >> /etc/resolv.conf",
    ]);
    assert_code(&first, 0);
    assert_eq!(text(&first), "nameserver 10.0.2.3\n");
    // Who resolves names is of each start, and the layer's own file is as it was.
    let second = run(&["--", "cat /kept /etc/resolv.conf; ls /word"]);
    assert_eq!(text(&second), "kept\nnameserver 192.0.2.1\n", "{}", complaint(&second));
    let said =
        saved.refuses(&["--image", plain(&other), "--", "cat /kept"], "means nothing over the image sha256:");
    assert!(said.contains("start it over that, or name another folder"), "{said}");
    saved.refuses(&["--", "true"], "means nothing over the system");
    saved.refuses(&["--files", plain(&other), "--", "/bin/true"], "means nothing over the folder");
    assert_eq!(text(&run(&["--", "cat /kept"])), "kept\n");
    image_fixture::forget(&bulkhead::cli::cache_folder(), &layouts);
    saved.here.assert_nothing_left();
}

/// The next start comes at once, while what was killed may still be ending.
#[test]
fn killed_after_a_sync_nothing_that_was_acknowledged_is_lost() {
    if !guests_start() {
        return;
    }
    let saved = Saved::new();
    let script = "import os, sys\n\
                  os.makedirs('/srv/rows', exist_ok=True)\n\
                  there = sorted(int(name) for name in os.listdir('/srv/rows'))\n\
                  print('there', *there, flush=True)\n\
                  folder = os.open('/srv/rows', os.O_RDONLY)\n\
                  for row in range(len(there), 100000):\n\
                  \x20   with open(f'/srv/rows/{row}', 'w') as file:\n\
                  \x20       file.write(str(row) * 1000); file.flush(); os.fsync(file.fileno())\n\
                  \x20   os.fsync(folder)\n\
                  \x20   assert open(f'/srv/rows/{row}').read() == str(row) * 1000\n\
                  \x20   print('row', row, flush=True)\n";
    let numbers =
        |text: &str| text.split(' ').filter_map(|word| word.parse().ok()).collect::<BTreeSet<u64>>();
    let mut acknowledged = BTreeSet::new();
    for round in 0..3_u64 {
        let words = ["--save", plain(&saved.state), "--", "python3", "-c", script];
        let mut child = saved.here.command(&words).spawn().expect("it starts");
        let mut said = String::new();
        let out = child.stdout.as_mut().expect("a pipe");
        while said.matches("row ").count() < 6 || !said.ends_with('\n') {
            let mut byte = [0];
            let count = out.read(&mut byte).expect("a pipe is read");
            assert_eq!(count, 1, "it ended: {said}");
            said.push(char::from(byte[0]));
        }
        std::thread::sleep(Duration::from_millis(70 * round));
        child.kill().expect("our child");
        child.wait().expect("our child");
        child.stdout.as_mut().expect("a pipe").read_to_string(&mut said).expect("a pipe is read");
        let (first, rows) = said.split_once('\n').expect("a line");
        let missing: Vec<u64> = acknowledged.difference(&numbers(first)).copied().collect();
        assert!(missing.is_empty(), "acknowledged and lost: {missing:?}");
        let whole = rows.rsplit_once('\n').expect("lines").0;
        acknowledged.extend(numbers(&whole.replace('\n', " ")));
    }
    // What was being written when it was killed may be half there; of what was acknowledged nothing is.
    let check = "cd /srv/rows; for row in *; do [ $(wc -c < $row) -eq $((${#row} * 1000)) ] && echo -n \"$row \"; done";
    let whole = numbers(&saved.says(&[], &format!("{check}; true")));
    assert!(acknowledged.len() >= 18 && acknowledged.is_subset(&whole), "{acknowledged:?}, whole {whole:?}");
    saved.here.assert_nothing_left();
}

#[test]
fn a_second_one_at_once_is_refused_by_name() {
    if !guests_start() {
        return;
    }
    let saved = Saved::new();
    let words =
        ["--save", plain(&saved.state), "--", "sh", "-c", "echo first > /srv/word; echo there; read line"];
    let mut first = saved.here.command(&words).stdin(Stdio::piped()).spawn().expect("it starts");
    wait_for(&mut first, "there");
    let pid = first.id();
    let second = saved.run(&["--", "cat", "/srv/word"]);
    assert_code(&second, 125);
    let wanted = format!("partition sh of process {pid} has it, and two at once would destroy it");
    assert!(complaint(&second).contains(&wanted), "{}", complaint(&second));
    // Nor does anybody get at it as a disk, whom QEMU tells so.
    let disk = saved.here.run(&["--disk", plain(&saved.image()), "--", "true"]);
    assert_code(&disk, 125);
    assert!(complaint(&disk).contains("lock"), "{}", complaint(&disk));
    first.stdin.take().expect("a pipe").write_all(b"\n").expect("written");
    assert_eq!(end_of(&mut first).code(), Some(0));
    assert_eq!(saved.says(&[], "cat /srv/word"), "first\n");
    saved.here.assert_nothing_left();
}

#[test]
fn what_cannot_be_saved_is_refused_before_anything_is_made() {
    let saved = Saved::new();
    let state = plain(&saved.state).to_owned();
    saved.refuses(&["--files", "none", "--", "/bin/true"], "has none to change");
    saved.refuses(
        &["--rw", plain(saved.here.files.path()), "--", "true"],
        "the program could write under its own feet",
    );
    saved.refuses(&["--save-size", "12MiB", "--", "true"], "--save-size 12MiB: a saved layer has 64 to");
    saved.refuses(&["--save-size", "12", "--", "true"], "a size such as 512MiB");
    assert!(!saved.state.exists());
    let without = saved.here.run(&["--save-size", "1GiB", "--", "true"]);
    assert!(complaint(&without).contains("--save <DIR>"), "{}", complaint(&without));
    let beside = saved.here.run(&["--in", "x", "--save", &state, "--", "true"]);
    assert!(complaint(&beside).contains("cannot be used with"), "{}", complaint(&beside));
    fs::create_dir(&saved.state).expect("the test's own files");
    fs::write(saved.state.join("thesis.tex"), "").expect("the test's own files");
    saved.refuses(&["--", "true"], "there is none in this folder, but thesis.tex is");
    fs::remove_file(saved.state.join("thesis.tex")).expect("there");
    fs::set_permissions(&saved.state, fs::Permissions::from_mode(0o777)).expect("ours");
    saved.refuses(&["--", "true"], "can be written to by everybody");
    fs::set_permissions(&saved.state, fs::Permissions::from_mode(0o755)).expect("ours");
    if !geteuid().is_root() {
        return skip(Need::Root, "only root can give a folder away, and hide a program");
    }
    std::os::unix::fs::chown(&saved.state, Some(12345), None).expect("root may");
    saved.refuses(&["--", "true"], "belongs to user 12345");
    std::os::unix::fs::chown(&saved.state, Some(0), None).expect("root may");
    // As on a host where it is not installed.
    let hide = "for at in /usr/sbin/mke2fs /sbin/mke2fs; do mount --bind /dev/null $at; done; exec \"$@\"";
    let exec = saved.here.command(&["--save", state.as_str(), "--", "true"]);
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", hide, "sh"]).arg(exec.get_program()).args(exec.get_args());
    command
        .env("TMPDIR", saved.here.temporary())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let output = finish(command.spawn().expect("unshare runs"));
    assert_code(&output, 125);
    assert!(complaint(&output).contains("apt install e2fsprogs"), "{}", complaint(&output));
    assert_eq!(fs::read_dir(&saved.state).expect("ours").count(), 0);
}

#[test]
fn a_normal_user_has_layers_of_its_own() {
    if !guests_start() {
        return;
    }
    if !geteuid().is_root() {
        return skip(Need::Root, "only root can be somebody else");
    }
    let here = Here::new();
    let user = NormalUser::new(&here);
    let state = user.temporary.join("state");
    let words = ["--save", plain(&state), "--user", "root", "--", "sh", "-c"];
    let run = |script: &str| {
        finish(user.exec(&[], &[&words[..], &[script]].concat()).current_dir("/").spawn().expect("it starts"))
    };
    let first = run("echo kept > /etc/kept; chown 5:6 /etc/kept; rm /etc/profile");
    assert_code(&first, 0);
    let second = run("cat /etc/kept; stat -c '%u %g' /etc/kept; ls /etc/profile");
    assert_eq!(text(&second), "kept\n5 6\n", "{}", complaint(&second));
    let meta = fs::metadata(state.join("layer/layer.img")).expect("there");
    assert_eq!((meta.uid(), meta.mode() & 0o7777), (exec_fixture::normal_user::NOBODY, 0o600));
    // Root is not that user.
    let roots = here.run(&["--save", plain(&state), "--", "true"]);
    assert_code(&roots, 125);
    assert!(complaint(&roots).contains("belongs to user 65534"), "{}", complaint(&roots));
}

/// Words for the guests' kernel that there is here, without one of its modules.
fn kernel_without(here: &Here, name: &str) -> Option<[String; 4]> {
    let kernel = exec_fixture::fetched_kernel()?;
    let modules = bulkhead::cli::cache_folder().join("kernel/lib/modules");
    let release = fs::read_dir(modules).ok()?.flatten().next()?.path();
    let copied = here.path(&format!("without-{name}"));
    let run = |command: &mut Command| command.status().expect("it starts").success();
    assert!(run(Command::new("cp").arg("-r").arg(&release).arg(&copied)));
    assert!(run(Command::new("find").arg(&copied).args(["-name", &format!("{name}.ko*"), "-delete"])));
    let words = ["--kernel", plain(&kernel), "--modules", plain(&copied)];
    Some(words.map(str::to_owned))
}

#[test]
fn a_layer_lies_over_9p_as_well_and_a_kernel_without_ext4_is_told() {
    if !guests_start() {
        return;
    }
    let saved = Saved::new();
    let Some(words) = kernel_without(&saved.here, "virtiofs") else {
        return skip(Need::Modules, "the guests' kernel is not in the cache");
    };
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let over_9p = [&["--bind", "/etc:/mnt"], &words[..]].concat();
    let first = "grep -c ' /mnt 9p ' /proc/mounts; echo kept > /etc/kept; echo more >> /etc/hostname; rm /etc/profile";
    assert_eq!(saved.says(&over_9p, first), "1\n");
    // One layer, whatever carries the tree below.
    for front in [&over_9p[..], &[]] {
        let look = "cat /etc/kept; tail -n 1 /etc/hostname; test -e /etc/profile || echo gone";
        assert_eq!(saved.says(front, look), "kept\nmore\ngone\n");
    }
    let without = kernel_without(&saved.here, "ext4").expect("as before");
    let without: Vec<&str> = without.iter().map(String::as_str).collect();
    let output = saved.run(&[&without, &["--", "true"][..]].concat());
    assert_code(&output, 125);
    assert!(complaint(&output).contains("\"ext4\""), "{}", complaint(&output));
}

/// What a layer gives otherwise than the host's own file system, a saved one and a throw-away one: the third column of the table in
/// docs/partitions.md. All else is as natively.
const SAVED: [(&str, &str); 7] = [
    ("anonymous_file", "ENOTSUP"),
    ("rename_leaves_a_whiteout", "EINVAL"),
    ("inode_numbers_agree", "False"),
    ("reading_that_may_not_wait", "ENOTSUP"),
    ("appending_by_a_flag_of_one_write", "b'Z123456789'"),
    ("growing_over_what_was_stored_behind_the_end", "67"),
    ("being_told_of_what_is_made_with_its_number", "ENOTSUP"),
];
const THROWN_AWAY: [(&str, &str); 8] = [
    ("extents_of_a_file", "ENOTSUP"),
    ("range_is_zeroed", "ENOTSUP"),
    ("direct_write_and_read", "EINVAL"),
    ("attributes_of_users", "ENOTSUP"),
    ("missing_attribute", "ENOTSUP"),
    ("attribute_is_created_once", "ENOTSUP"),
    ("attributes_of_a_file_without_rights", "ENOTSUP"),
    ("seeking_beyond_what_a_file_can_hold", "1152921504606846976"),
];

/// Lines `name: result`.
fn results(output: &Output) -> BTreeMap<String, String> {
    let said = text(output);
    let pairs = said.lines().filter_map(|line| line.split_once(": "));
    pairs.map(|(name, result)| (name.to_owned(), result.to_owned())).collect()
}

#[test]
fn operations_in_a_layer_give_what_they_give_natively_but_for_these() {
    if !guests_start() {
        return;
    }
    if !geteuid().is_root() {
        return skip(Need::Root, "half of the operations are about other users");
    }
    let saved = Saved::new();
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files/operations.py");
    let native = saved.here.path("native");
    fs::create_dir(&native).expect("the test's own files");
    fs::set_permissions(&native, fs::Permissions::from_mode(0o755)).expect("ours");
    let natively =
        results(&Command::new("python3").arg(&program).arg(&native).output().expect("python3 runs"));
    assert!(natively.len() >= 80, "{natively:?}");
    let mut wrong = Vec::new();
    let thrown_away = [&SAVED[..], &THROWN_AWAY].concat();
    for (front, otherwise) in [(&["--save", plain(&saved.state)][..], &SAVED[..]), (&[], &thrown_away)] {
        let words = [front, &["--ro", plain(&program), "--", "python3", plain(&program), "/srv"]].concat();
        let child = saved.here.command(&words).spawn().expect("it starts");
        let output = finish_within(child, Duration::from_secs(300));
        assert_code(&output, 0);
        let within = results(&output);
        let otherwise: BTreeMap<&str, &str> = otherwise.iter().copied().collect();
        for (name, natively) in &natively {
            let wanted = otherwise.get(name.as_str()).copied().unwrap_or(natively);
            let here = within.get(name).map_or("nothing", String::as_str);
            if here != wanted {
                wrong.push(format!("{front:?} {name}: natively {natively}, here {here}, wanted {wanted}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
