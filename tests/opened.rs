//! What a partition may not be given to write, and what has no name that it can be told: refused before anything starts.

use crate::exec_fixture;

use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use bulkhead::model::partition::{LayerSpec, Program};
use bulkhead::partition::layer;
use bulkhead::platforms::ledger::Ledger;
use exec_fixture::{Here, assert_code, complaint, guests_start};
use nix::unistd::geteuid;
use skips::{Need, skip};

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

/// What is opened is written, all of it: nothing in it can be promised to be read only.
#[test]
fn what_is_to_be_read_only_is_not_opened_with_what_is_around_it() {
    if !guests_start() {
        return;
    }
    let here = Here::new();
    let (top, within, beside) = (here.path("top"), here.path("top/within"), here.path("beside"));
    fs::create_dir_all(&within).expect("the test's own files");
    fs::create_dir_all(&beside).expect("the test's own files");
    fs::write(within.join("file"), "x").expect("the test's own files");
    std::os::unix::fs::symlink(&within, here.path("link")).expect("the test's own files");
    let call = |shown: &Path| {
        let words: [&OsStr; 6] =
            ["--rw".as_ref(), top.as_ref(), "--ro".as_ref(), shown.as_ref(), "--".as_ref(), "true".as_ref()];
        here.run(&words)
    };
    for shown in [&top, &within, &within.join("file"), &here.path("link")] {
        let output = call(shown);
        assert_code(&output, 125);
        let said = complaint(&output);
        assert!(said.contains("was to be read only") && said.contains("opened for writing"), "{said}");
    }
    assert_code(&call(&beside), 0);
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

/// It is written as a disk by a guest that trusts it: nobody writes it as a file meanwhile.
#[test]
fn a_tree_with_a_saved_layer_in_it_is_not_opened() {
    if !guests_start() {
        return;
    }
    let here = Here::new();
    let state = here.path("top/state");
    fs::create_dir(here.path("top")).expect("the test's own files");
    let layer = LayerSpec { folder: state.clone(), size_mib: None };
    let program = Program { layer: Some(layer), ..Program::default() };
    drop(layer::take(&program, "the test").expect("it is made"));
    for path in
        ["top", "top/state", "top/state/layer", "top/state/layer/layer.img"].map(|name| here.path(name))
    {
        let output = opened(&here, &path, &["true"]);
        assert_code(&output, 125);
        assert!(complaint(&output).contains("bulkhead's own"), "{}", complaint(&output));
    }
    fs::remove_dir_all(&state).expect("the test's own files");
    assert_code(&opened(&here, &here.path("top"), &["true"]), 0);
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

/// Whose content is exchanged keeps what it carries: a guest that writes through a mapping would leave its own program with it.
#[test]
fn what_carries_rights_is_not_opened_in_any_way() {
    if !guests_start() {
        return;
    }
    let here = Here::new();
    let tree = here.path("tree");
    fs::create_dir(&tree).expect("the test's own files");
    let program = |name: &str| {
        let path = tree.join(name);
        fs::write(&path, [0; 512]).expect("the test's own files");
        path
    };
    let refused = |path: &Path, why: &str| {
        for way in ["--rw", "--disk"].into_iter().filter(|way| *way == "--rw" || path.is_file()) {
            let words = [OsStr::new(way), path.as_os_str(), OsStr::new("--"), OsStr::new("true")];
            let output = here.run(&words);
            assert_code(&output, 125);
            assert!(complaint(&output).contains(why), "{way}: {}", complaint(&output));
        }
    };
    let set_id = program("set-id");
    fs::set_permissions(&set_id, fs::Permissions::from_mode(0o4755)).expect("the test's own files");
    refused(&set_id, "owner's or group's rights (mode 4755)");
    refused(&tree, "owner's or group's rights (mode 4755)");
    fs::remove_file(&set_id).expect("the test's own files");
    if !geteuid().is_root() {
        return skip(Need::Root, "in part: only root gives capabilities to files");
    }
    let able = program("able");
    // Version 2, effective: CAP_SETUID (capabilities(7), `struct vfs_cap_data`).
    let mut capability = [0_u8; 20];
    capability[..8].copy_from_slice(&[1, 0, 0, 2, 1 << 7, 0, 0, 0]);
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(&able, "security.capability", &capability, flags).expect("root may");
    refused(&able, "carries capabilities");
    refused(&tree, "carries capabilities");
    here.assert_nothing_left();
}

/// All is looked at: a guest could put what it is after behind many others.
#[test]
fn many_files_hide_nothing() {
    if !guests_start() {
        return;
    }
    let here = Here::new();
    let tree = tempfile::tempdir_in("/dev/shm").expect("memory");
    for number in 0..50_100 {
        fs::write(tree.path().join(number.to_string()), "").expect("the test's own files");
    }
    assert_code(&opened(&here, tree.path(), &["true"]), 0);
    // Folders come after what lies beside them.
    let last = tree.path().join("below/last");
    fs::create_dir(tree.path().join("below")).expect("the test's own files");
    fs::write(&last, "").expect("the test's own files");
    fs::set_permissions(&last, fs::Permissions::from_mode(0o2755)).expect("the test's own files");
    let output = opened(&here, tree.path(), &["true"]);
    assert_code(&output, 125);
    assert!(
        complaint(&output).contains("last carries its owner's or group's rights"),
        "{}",
        complaint(&output)
    );
    here.assert_nothing_left();
}
