//! Saved layers in sets, with real guests.

use crate::set_fixture;

use std::fs;
use std::time::{Duration, Instant};

use bulkhead::model::partition::set::Phase;
use set_fixture::{Bench, PATIENCE, guests_are_there};

/// What partition `db` has said last, once it has.
#[track_caller]
fn until_db_says(bench: &Bench, last: &str) {
    let until = Instant::now() + PATIENCE;
    while !bench.call(&["logs", "db"]).out.ends_with(last) {
        assert!(Instant::now() < until, "{last:?}: {:?}, {:?}", bench.call(&["logs", "db"]), bench.ps());
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_partitions_changes_outlive_its_restarts_and_its_set() {
    if !guests_are_there() {
        return;
    }
    let bench = Bench::real();
    let state = bench.path("kept");
    let shown = state.display();
    let program = "echo start >> /srv/starts; sync /srv/starts; echo gone > /srv/gone; sync; rm /srv/gone; wc -l < /srv/starts; grep -c other /etc/hosts; exec sleep 1000";
    let text = format!(
        "[network.n]\n[partition.db]\nprogram = [\"sh\", \"-c\", \"{program}\"]\nsave = \"{shown}\"\nsave_size_mib = 128\n\
         networks = [\"n\"]\nready = {{ file = \"/srv/starts\" }}\n\
         [partition.other]\nprogram = [\"sleep\", \"1000\"]\nnetworks = [\"n\"]\n\
         [channel.c]\nwriter = \"db\"\nreaders = [\"other\"]\nsize_mib = 1\n"
    );
    let file = bench.file("plant.toml", &text);
    let told = bench.up(&file);
    assert_eq!(told.code, Some(0), "{told:?}");
    bench.wait_for("db", Phase::Running);
    until_db_says(&bench, "1\n1\n");
    // Nobody else has it meanwhile, and no `up` of today touches it.
    let words = [
        "exec",
        "--accel",
        "tcg",
        "--memory",
        "320MiB",
        "--save",
        state.to_str().expect("plain"),
        "--",
        "true",
    ];
    let second = bench.call(&words);
    assert!(second.code == Some(125) && second.err.contains("partition db of process"), "{second:?}");
    assert_eq!(bench.up(&file).code, Some(0));
    assert_eq!(bench.call(&["restart", "db"]).code, Some(0));
    bench.wait_for("db", Phase::Running);
    until_db_says(&bench, "2\n1\n");
    assert_eq!(bench.call(&["down"]).code, Some(0));
    assert_eq!(bench.left(), Vec::<String>::new());
    assert!(state.join("layer/layer.img").is_file(), "it is nobody's to remove");
    // What other partitions are called is of each start: without a network nobody is known, and the file is the host's.
    let alone = text.replace("networks = [\"n\"]\n", "").replace("[network.n]\n", "");
    let file = bench.file("plant.toml", &alone);
    assert_eq!(bench.up(&file).code, Some(0));
    bench.wait_for("db", Phase::Running);
    until_db_says(&bench, "3\n0\n");
    assert_eq!(bench.call(&["down"]).code, Some(0));
    assert_eq!(bench.left(), Vec::<String>::new());
}

/// Its QEMU may live a moment longer, and what is started in its place waits for that.
#[test]
fn a_supervisor_that_is_killed_loses_nothing_that_was_synced() {
    if !guests_are_there() {
        return;
    }
    let bench = Bench::real();
    let state = bench.path("kept");
    let program = "echo start >> /srv/starts; sync /srv/starts /srv; wc -l < /srv/starts; exec sleep 1000";
    let text = format!(
        "[partition.db]\nprogram = [\"sh\", \"-c\", \"{program}\"]\nsave = \"{}\"\nrestart = \"always\"\n\
         ready = {{ file = \"/srv/starts\" }}\n",
        state.display()
    );
    let file = bench.file("plant.toml", &text);
    let told = bench.up(&file);
    assert_eq!(told.code, Some(0), "{told:?}");
    let first = bench.wait_for("db", Phase::Running);
    // Only then it is synced.
    until_db_says(&bench, "1\n");
    let supervisor = i32::try_from(first.supervisor_pid.expect("it has one")).expect("a number");
    nix::sys::signal::kill(nix::unistd::Pid::from_raw(supervisor), nix::sys::signal::Signal::SIGKILL)
        .expect("it lives");
    until_db_says(&bench, "2\n");
    assert_eq!(bench.call(&["down"]).code, Some(0));
    assert_eq!(bench.left(), Vec::<String>::new());
}

#[test]
fn what_a_set_says_wrong_of_saved_layers_is_told_with_its_line() {
    let bench = Bench::real();
    let busy = bench.path("busy");
    fs::create_dir(&busy).expect("the test's own files");
    fs::write(busy.join("thesis.tex"), "").expect("the test's own files");
    let program = "program = [\"/bin/true\"]";
    for (text, line, part) in [
        (format!("{program}\nsave = \"here\""), 4, "save: wanted a path from /"),
        (format!("{program}\nsave = \"/x\"\nfiles = \"none\""), 4, "with files = \"none\" it has none"),
        (
            format!("{program}\nsave = \"/x\"\nsave_size_mib = 63"),
            5,
            "save_size_mib: a saved layer has 64 to",
        ),
        (format!("{program}\nsave_size_mib = 64"), 4, "which is not there"),
        ("image = true\nsave = \"/x\"\ndisk = [{ file = \"/y\" }]".to_owned(), 4, "this is an image"),
        (
            format!("{program}\nsave = \"/x\"\n[partition.q]\n{program}\nsave = \"/x\""),
            7,
            "keeps what \"p\" changes",
        ),
        (format!("{program}\nsave = \"{}\"", busy.display()), 4, "but thesis.tex is: name an empty folder"),
    ] {
        // The first line is the bench's own.
        let told = bench.up(&bench.file("plant.toml", &format!("[partition.p]\n{text}\n")));
        assert_eq!(told.code, Some(2), "{text}: {told:?}");
        let wanted = format!("line {line}: ");
        assert!(told.err.contains(part) && told.err.contains(&wanted), "{text}: {told:?}");
    }
    let emitted = bench.file("plant.toml", &format!("[partition.p]\n{program}\nsave = \"/tmp/x\"\n"));
    let out = bench.path("out");
    let [file, to] = [&emitted, &out].map(|path| path.to_str().expect("plain"));
    let told = bench.call(&["up", file, "--emit", "qemu", "--out", to]);
    assert!(told.code == Some(2) && told.err.contains("under another manager"), "{told:?}");
    assert!(!out.exists());
    assert_eq!(bench.left(), Vec::<String>::new());
}
