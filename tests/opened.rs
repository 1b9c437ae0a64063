//! What a partition may not be given to write, and what has no name that it can be told: refused before anything starts.

#[path = "exec_kit/mod.rs"]
mod exec_kit;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use bulkhead::platforms::ledger::Ledger;
use exec_kit::{Here, assert_code, complaint, guests_start};

fn opened(here: &Here, path: &Path, program: &[&str]) -> std::process::Output {
    let mut words: Vec<OsString> = vec!["--rw".into(), path.into(), "--".into()];
    words.extend(program.iter().map(OsString::from));
    here.run(&words)
}

/// Memory of channels lies there: who may write it ends and deceives other partitions.
#[test]
fn shared_memory_is_not_opened_while_there_are_channels() {
    if !guests_start() {
        return;
    }
    let here = Here::new();
    // As `up` makes one: new, with a name of ours, 0700.
    let memory = tempfile::Builder::new().prefix("bulkhead-opened-").tempdir_in("/dev/shm");
    let memory = memory.expect("the test's own files");
    fs::set_permissions(memory.path(), fs::Permissions::from_mode(0o700)).expect("the test's own files");
    fs::write(memory.path().join("channel"), [7; 4096]).expect("the test's own files");
    for path in [Path::new("/dev/shm"), memory.path(), &memory.path().join("channel")] {
        let output = opened(&here, path, &["true"]);
        assert_code(&output, 125);
        let said = complaint(&output);
        assert!(said.contains("bulkhead's own") && said.contains("/dev/shm"), "{said}");
    }
    assert_eq!(fs::read(memory.path().join("channel")).expect("it is there"), [7; 4096]);
    here.assert_nothing_left();
}

/// What is undone after a crash stands there: who may write it has it undo something else.
#[test]
fn a_tree_with_a_run_in_it_is_not_opened() {
    if !guests_start() {
        return;
    }
    let here = Here::new();
    let (top, run) = (here.path("top"), here.path("top/below/run"));
    fs::create_dir_all(&run).expect("the test's own files");
    // As a run's is.
    fs::set_permissions(&run, fs::Permissions::from_mode(0o700)).expect("the test's own files");
    drop(Ledger::open(&run).expect("a run's folder"));
    // From above, itself, by another name, from within, and a single file.
    fs::create_dir(run.join("within")).expect("the test's own files");
    std::os::unix::fs::symlink(&run, here.path("link")).expect("the test's own files");
    let places =
        ["top", "top/below", "top/below/run", "link", "top/below/run/within", "top/below/run/started.jsonl"];
    for path in &places.map(|name| here.path(name)) {
        let output = opened(&here, path, &["true"]);
        assert_code(&output, 125);
        assert!(complaint(&output).contains("bulkhead's own"), "{}", complaint(&output));
    }
    fs::remove_dir_all(&run).expect("the test's own files");
    assert_code(&opened(&here, &top, &["true"]), 0);
    here.assert_nothing_left();
}

#[test]
fn a_name_that_is_no_text_is_told_escaped() {
    if !guests_start() {
        return;
    }
    let here = Here::new();
    let odd = here.files.path().join(OsStr::from_bytes(b"n\xffme"));
    let file = odd.join("file");
    fs::create_dir(&odd).expect("the test's own files");
    fs::write(&file, "there\n").expect("the test's own files");
    for path in [&odd, &file] {
        let output = opened(&here, path, &["true"]);
        assert_code(&output, 125);
        let said = complaint(&output);
        assert!(said.contains("n\\xFFme") && said.contains("UTF-8"), "{said}");
    }
    let output = here.run(&[OsStr::new("--ro"), odd.as_os_str(), OsStr::new("--"), OsStr::new("true")]);
    assert_code(&output, 125);
    assert!(complaint(&output).contains("n\\xFFme"), "{}", complaint(&output));
    let bind = OsString::from_vec([odd.as_os_str().as_bytes(), b":/srv/odd"].concat());
    let output = here.run(&[OsStr::new("--bind"), &bind, OsStr::new("--"), OsStr::new("true")]);
    assert_code(&output, 125);
    assert!(complaint(&output).contains("n\\xFFme"), "{}", complaint(&output));
    // Within an opened tree any name goes.
    let open = here.path("open");
    fs::create_dir(&open).expect("the test's own files");
    let shown = open.to_str().expect("text");
    let script =
        format!("cd {shown} && mkdir \"$(printf 'a\\377')\" && echo in > \"$(printf 'a\\377/b\\376')\"");
    assert_code(&opened(&here, &open, &["sh", "-c", &script]), 0);
    let within = open.join(OsStr::from_bytes(b"a\xff/b\xfe"));
    assert_eq!(fs::read_to_string(within).expect("it is there"), "in\n");
    here.assert_nothing_left();
}
