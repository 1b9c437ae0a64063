//! Images of containers and volumes in sets, with real guests.

use crate::{image_fixture, set_fixture};

use std::path::Path;

use bulkhead::model::partition::set::Phase;
use image_fixture::{image, index, system_layer};
use serde_json::json;
use set_fixture::{Bench, Said, guests_are_there};

/// The program, with volumes of the test's own.
fn call(bench: &Bench, words: &[&str]) -> Said {
    set_fixture::said(
        &bench.command(words).env("XDG_DATA_HOME", bench.path("data")).output().expect("it runs"),
    )
}

#[test]
fn partitions_of_a_set_run_images_and_share_a_volume_that_lasts() {
    if !guests_are_there() {
        return;
    }
    let bench = Bench::real();
    let layout = bench.path("layouts/shell");
    let config = json!({ "Entrypoint": ["/bin/sh", "-c"], "Cmd": ["echo from the image"], "Env": ["A=image", "B=image"], "WorkingDir": "/w" });
    index(&layout, &[image(&layout, &config, &[system_layer(&["sh", "cat", "sleep", "mv"]).archive()])]);
    let text = format!(
        "[partition.web]\nimage = \"{0}\"\nvolumes = [\"data:/srv/data\"]\nenv = {{ B = \"set\" }}\n\
         program = [\"pwd; echo $A $B; echo from web > /srv/data/new; mv /srv/data/new /srv/data/word; exec sleep 1000\"]\n\
         ready = {{ file = \"/srv/data/word\" }}\n\
         [partition.db]\nimage = \"{0}\"\nvolumes = [\"data:/data\"]\nafter = [\"web\"]\nready = {{ file = \"/data/last\" }}\n\
         program = [\"cat /data/word; echo from db > /data/last; exec sleep 1000\"]\n\
         [partition.cmd]\nimage = \"{0}\"\n",
        layout.display()
    );
    let file = bench.file("plant.toml", &text);
    let told = call(&bench, &["up", file.to_str().expect("plain")]);
    assert_eq!(told.code, Some(0), "{told:?}");
    bench.wait_for("web", Phase::Running);
    assert_eq!(bench.call(&["logs", "web"]).out, "/w\nimage set\n");
    assert_eq!(bench.call(&["logs", "cmd"]).out, "from the image\n");
    let wanted = bench.path("wanted.toml");
    std::fs::write(&wanted, "set = \"plant\"\n[requirement.R]\ntext = \"x\"\npartition = \"web\"\nmetric = \"placement.running\"\nexactly = 1\n")
        .expect("the test's own files");
    let wanted = wanted.to_str().expect("plain");
    let evidence = bench.path("evidence");
    let told = bench.call(&["verify", wanted, "--out", evidence.to_str().expect("plain")]);
    assert_eq!(told.code, Some(0), "{told:?}");
    let told = std::fs::read_to_string(evidence.join("verify.json")).expect("it is written");
    assert!(told.contains("\"image.web\": \"sha256:"), "what it saw rests on the image: {told}");
    let used = call(&bench, &["volume", "rm", "data"]);
    assert!(used.code == Some(2) && used.err.contains("in use"), "{used:?}");
    assert_eq!(bench.call(&["down"]).code, Some(0));
    assert_eq!(bench.left(), Vec::<String>::new());
    let files = bench.path("data/bulkhead/volumes/data/files");
    assert_eq!(std::fs::read_to_string(files.join("last")).expect("it lasts"), "from db\n");
    let removed = call(&bench, &["volume", "rm", "data"]);
    assert_eq!(removed.code, Some(0), "{removed:?}");
    assert!(!files.exists());
    image_fixture::forget(&bulkhead::cli::cache_folder(), Path::new(&bench.path("layouts")));
}

#[test]
fn a_file_that_is_wrong_about_images_or_volumes_is_told_with_its_line() {
    let bench = Bench::real();
    for (text, part) in [
        ("image = \"relative\"", "wanted a path from /"),
        ("image = \"/no/such\"", "there is no such folder"),
        ("image = 3", "or a string: a folder, or oci:NAME"),
        ("image = \"oci:a b\"", "oci:NAME with a name such as"),
        ("image = \"/srv\"\nro = [\"/etc\"]", "bind shows some"),
        ("image = true\nvolumes = [\"a:/b\"]", "this is an image"),
        ("program = [\"true\"]\nvolumes = [\"a\"]", "wanted NAME:/PATH"),
        ("program = [\"true\"]\nvolumes = [\"a:/b\", \"c:/b\"]", "there is another one at /b"),
    ] {
        let file = bench.file("plant.toml", &format!("[partition.p]\n{text}\n"));
        let told = call(&bench, &["up", file.to_str().expect("plain")]);
        assert!(told.code == Some(2) && told.err.contains(part), "{text}: {told:?}");
    }
    assert_eq!(bench.left(), Vec::<String>::new());
}
