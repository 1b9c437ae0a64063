//! What is a saved layer, whose it is, and what is refused.

use std::os::unix::fs::{PermissionsExt, symlink};

use nix::unistd::{chown, geteuid};
use tempfile::TempDir;

use super::*;
use model::partition::Files;
use units::Mebibytes;

fn program(folder: &Path) -> Program {
    let layer = Some(LayerSpec { folder: folder.to_owned(), size_mib: Some(Mebibytes::from_mib(64)) });
    Program { layer, ..Program::default() }
}

/// A layer that was made, and what asks for it.
fn made() -> (TempDir, Program) {
    let dir = tempfile::tempdir().unwrap();
    let program = program(&dir.path().join("state"));
    drop(take(&program, "the test").unwrap().expect("a layer"));
    (dir, program)
}

#[track_caller]
fn refused(program: &Program, part: &str) {
    for told in [check(program), take(program, "the test").map(drop)] {
        let told = told.expect_err(part);
        assert!(told.to_string().contains(part) && told.to_string().starts_with("saved layer /"), "{told}");
    }
}

#[test]
fn it_is_made_once_as_a_whole_and_for_its_owner_alone() {
    let (dir, program) = made();
    let state = dir.path().join("state");
    let mode = |path: &str| fs::metadata(state.join(path)).unwrap().permissions().mode() & 0o7777;
    assert_eq!(
        ["", "layer", "lock", "layer/layer.img", "layer/layer.json"].map(mode),
        [0o700, 0o700, 0o600, 0o600, 0o600]
    );
    let image = fs::read(state.join("layer/layer.img")).unwrap();
    assert_eq!((image.len(), &image[1024 + 0x38..1024 + 0x3a]), (64 << 20, [0x53, 0xef].as_slice()));
    // Half made things of another time, also of one that was killed, go.
    fs::rename(state.join("layer"), state.join("layer.new")).unwrap();
    fs::write(state.join("layer.new/more"), "").unwrap();
    assert_eq!(check(&program), Ok(()));
    drop(take(&program, "the test").unwrap());
    assert!(!state.join("layer.new").exists());
    // What is there is taken as it is.
    fs::write(state.join("layer/layer.img"), &image).unwrap();
    drop(
        take(
            &Program { layer: Some(LayerSpec { size_mib: None, folder: state.clone() }), ..program },
            "the test",
        )
        .unwrap(),
    );
    assert!(fs::read(state.join("layer/layer.img")).unwrap() == image);
}

/// Whoever is killed is survived by its QEMU for a moment, which writes.
#[test]
fn it_is_held_as_long_as_anybody_can_write() {
    let (_dir, program) = made();
    let layer = take(&program, "partition \u{1b}one").unwrap().expect("a layer");
    let (mut extras, mut inherited) = (Extras::default(), Vec::new());
    layer.attach(&mut extras, &mut inherited).unwrap();
    drop(layer);
    let told = take(&program, "two").map(drop).unwrap_err();
    assert!(told.to_string().contains("one has it") && !told.to_string().contains('\u{1b}'), "{told}");
    drop(inherited);
    take(&program, "two").unwrap();
}

#[test]
fn what_others_could_have_written_is_no_layer() {
    let (dir, program) = made();
    let state = dir.path().join("state");
    for (path, mode, part) in [
        ("", 0o770, "can be written to by its group"),
        ("layer", 0o750, "can be entered by its group"),
        ("layer/layer.img", 0o602, "can be written to by everybody"),
        ("layer/layer.json", 0o622, "can be written to by everybody"),
        ("lock", 0o660, "can be written to by its group"),
    ] {
        let path = state.join(path);
        let before = fs::metadata(&path).unwrap().permissions();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let told = take(&program, "the test").map(drop).unwrap_err();
        assert!(told.to_string().contains(part), "{told}");
        fs::set_permissions(&path, before).unwrap();
    }
    let link = dir.path().join("link");
    symlink(&state, &link).unwrap();
    refused(&self::program(&link), "symbolic link");
    let (image, aside) = (state.join("layer/layer.img"), dir.path().join("aside"));
    fs::rename(&image, &aside).unwrap();
    symlink(&aside, &image).unwrap();
    refused(&program, "symbolic link");
    fs::rename(&aside, &image).unwrap();
    drop(take(&program, "the test").unwrap());
    if !geteuid().is_root() {
        return skips::skip(skips::Need::Root, "only root can give a folder away");
    }
    for path in [&state, &image] {
        chown(path, Some(12345.into()), None).unwrap();
        refused(&program, "belongs to user 12345");
        chown(path, Some(geteuid()), None).unwrap();
    }
}

#[test]
fn what_is_damaged_or_another_ones_is_refused_and_never_begun_anew() {
    let (dir, program) = made();
    let state = dir.path().join("state");
    let (image, record) = (state.join("layer/layer.img"), state.join("layer/layer.json"));
    let (good, said) = (fs::read(&image).unwrap(), fs::read_to_string(&record).unwrap());
    let changed = |from: &str, to: &str| {
        let text = said.replace(from, to);
        assert_ne!(text, said);
        fs::write(&record, text).unwrap();
    };
    let breaks: [(&dyn Fn(), &str); 7] = [
        (
            &|| fs::write(&image, &good[..good.len() / 2]).unwrap(),
            "33554432 bytes, and was made with 67108864",
        ),
        (&|| fs::remove_file(&image).unwrap(), "its disk is not there, so it is damaged"),
        (&|| fs::remove_file(&record).unwrap(), "layer.json is not there"),
        (&|| fs::write(&record, "{").unwrap(), "layer.json: EOF"),
        (
            &|| changed("\"schema_version\": 1", "\"schema_version\": 2, \"new\": 3"),
            "has version 2, and this program reads 1",
        ),
        (
            &|| changed("\"system\"", "\"all\""),
            "it lies over all of the host's files (files \"all\"), and means nothing over the system",
        ),
        (&|| changed("\"system\"", "{ \"image\": \"sha256:12\" }"), "it lies over the image sha256:12"),
    ];
    for (break_it, part) in breaks {
        break_it();
        refused(&program, part);
        fs::write(&record, &said).unwrap();
        if !fs::read(&image).is_ok_and(|now| now == good) {
            fs::write(&image, &good).unwrap();
            fs::set_permissions(&image, fs::Permissions::from_mode(0o600)).unwrap();
        }
        fs::set_permissions(&record, fs::Permissions::from_mode(0o600)).unwrap();
    }
    drop(take(&program, "the test").unwrap());
    let larger = LayerSpec { size_mib: Some(Mebibytes::from_mib(65)), folder: state };
    refused(&Program { layer: Some(larger), ..program }, "made with 64 MiB, and 65 MiB are wanted");
}

#[test]
fn what_cannot_have_one_is_told_before_anything_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let state = dir.path().join("state");
    refused(&Program { files: Files::None, ..program(&state) }, "has none to change");
    refused(&Program { writable: vec![dir.path().to_owned()], ..program(&state) }, "opened for writing");
    let little = LayerSpec { folder: state.clone(), size_mib: Some(Mebibytes::from_mib(63)) };
    refused(&Program { layer: Some(little), ..Program::default() }, "has 64 to");
    assert!(!state.exists());
    fs::write(dir.path().join("mine\u{1b}"), "").unwrap();
    let told = check(&program(dir.path())).unwrap_err();
    assert!(
        told.to_string().contains("but mine")
            && told.to_string().contains("empty folder")
            && !told.to_string().contains('\u{1b}'),
        "{told}"
    );
    refused(&program(&state.join("below")), "in which it is to be made, is not there");
    assert!(check(&program(Path::new("/etc/passwd"))).is_err());
}

#[test]
fn a_guests_last_words_tell_what_to_do() {
    let folder = Path::new("/x");
    let console = |text: &str| vec!["[    1.0] something".to_owned(), text.to_owned()];
    assert_eq!(advice(folder, &console("Kernel panic - not syncing: sysrq")), None);
    for text in ["EXT4-fs error (device vda)", "bulkhead: guest failed: the saved layer is damaged"] {
        let told = advice(folder, &console(text)).expect(text);
        assert!(told.contains("e2fsck -fy"), "{told}");
    }
}
