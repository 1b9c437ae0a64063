//! Sections that are not what they should be: every one is an error with words, none a hang or a crash.

mod common;

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use channel::{Endpoint, Error, LEAST_BYTES, Layout, Memory, PeerSection, Section, State};
use common::{NOW, Random, open, sections};

const BRIEF: Duration = Duration::from_millis(20);

/// What party 1 gets when it connects to the section of 2 after something was done to that file.
fn refusal(spoil: impl FnOnce(&File)) -> Error {
    let folder = tempfile::tempdir().expect("a folder");
    let [one, _two] = sections(folder.path(), 4096);
    let peer = open(folder.path(), 2);
    spoil(&OpenOptions::new().write(true).open(folder.path().join("2")).expect("the file"));
    Endpoint::connect(&one, 2, &peer, BRIEF).expect_err("it is spoiled")
}

fn write(at: u64, bytes: &[u8]) -> impl FnOnce(&File) {
    move |file| file.write_all_at(bytes, at).expect("written")
}

#[test]
fn a_peer_of_another_version_is_named_with_both_versions() {
    let error = refusal(write(8, &[9]));
    assert!(matches!(error, Error::OtherVersion { wanted: 1, got: 9, .. }), "{error}");
    assert!(error.to_string().contains("wanted layout version 1, got 9"), "{error}");
}

#[test]
fn a_header_of_noise_is_no_section() {
    let mut random = Random(7);
    let noise: Vec<u8> = (0..4096).map(|_| random.next().to_le_bytes()[0]).collect();
    let error = refusal(write(0, &noise));
    assert!(matches!(error, Error::Damaged { .. } | Error::NotASection { .. }), "{error}");
    let error = refusal(write(0, &noise[..64]));
    assert!(matches!(error, Error::NotASection { .. }), "{error}");
    for at in [12, 24, 28, 256, 264, 272] {
        let error = refusal(write(at, &[0xee]));
        assert!(matches!(error, Error::Damaged { .. }), "byte {at}: {error}");
    }
    let error = refusal(write(64, &[77]));
    assert!(error.to_string().contains("wanted a state word"), "{error}");
}

#[test]
fn a_section_smaller_than_announced_is_told_both_sizes() {
    let error = refusal(write(16, &(1_u64 << 40).to_le_bytes()));
    assert!(matches!(error, Error::TooSmall { wanted: 0x100_0000_0000, got: LEAST_BYTES, .. }), "{error}");
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("cut");
    for bytes in [0, 7, 4096, LEAST_BYTES - 8] {
        fs::write(&path, vec![0; usize::try_from(bytes).expect("small")]).expect("written");
        let error = Section::open(&path).expect_err("too small");
        assert!(matches!(error, Error::TooSmall { wanted: LEAST_BYTES, .. }), "{error}");
    }
}

#[test]
fn a_file_cut_while_waiting_ends_the_wait() {
    let folder = tempfile::tempdir().expect("a folder");
    let common::Pair { sections: _sections, ends: [mut one, _two] } = common::pair(folder.path(), 4096);
    let file = OpenOptions::new().write(true).open(folder.path().join("2")).expect("the file");
    // Of the header all pages stay: what is gone is the ring, which is not read before the size was looked at.
    file.set_len(20480).expect("cut");
    let error = one.sender().check_peer().expect_err("it was cut");
    assert!(matches!(error, Error::TooSmall { got: 20480, .. }), "{error}");
    file.set_len(LEAST_BYTES).expect("mended, so that its owner can end");
}

#[test]
fn missing_wrong_and_foreign_files_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let missing = Section::open(&folder.path().join("none")).expect_err("missing");
    assert!(missing.to_string().contains("none"), "{missing}");
    assert!(matches!(Section::open(folder.path()), Err(Error::Io { .. })));
    assert!(matches!(Section::open(Path::new("/dev/null")), Err(Error::Io { .. })));
    let link = folder.path().join("link");
    std::os::unix::fs::symlink(folder.path().join("1"), &link).expect("a link");
    let device = folder.path().join("device");
    std::os::unix::fs::symlink("/sys/devices/system/cpu/online", &device).expect("a link");
    let followed = Section::open(&device).expect_err("no resource").to_string();
    assert!(followed.starts_with("map "), "only a link to a device is followed: {followed}");
    let [one, two] = sections(folder.path(), 4096);
    assert!(matches!(Section::open(&link), Err(Error::Io { .. })), "links are not followed");
    let error = Endpoint::connect(&one, 2, &open(folder.path(), 1), BRIEF).expect_err("our own section");
    assert!(matches!(error, Error::NoRing { from: 1, to: 1 }), "{error}");
    let error = Endpoint::connect(&one, 3, &open(folder.path(), 2), BRIEF).expect_err("no ring to 3");
    assert!(matches!(error, Error::NoRing { from: 1, to: 3 }), "{error}");
    let third = Section::create(&folder.path().join("3"), &Layout::new(3).ring(1, 0)).expect("a section");
    let error = Endpoint::connect(&one, 2, &open(folder.path(), 3), BRIEF).expect_err("another party's");
    assert!(matches!(error, Error::WrongPeer { wanted: 2, got: 3 }), "{error}");
    drop((two, third));
}

#[test]
fn a_section_has_one_writer_and_a_link_one_endpoint() {
    let folder = tempfile::tempdir().expect("a folder");
    let common::Pair { sections: [one, _two], ends: [end, _other] } = common::pair(folder.path(), 4096);
    let again = Section::create(&folder.path().join("1"), &Layout::new(1).ring(2, 4096));
    assert!(matches!(again, Err(Error::InUse(_))), "{again:?}");
    let error = Endpoint::connect(&one, 2, &open(folder.path(), 2), NOW).expect_err("taken");
    assert!(matches!(error, Error::InUse(_)), "{error}");
    drop(end);
    let error = Endpoint::connect(&one, 2, &open(folder.path(), 2), NOW).expect_err("nobody connects");
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    let read_only = Memory::readable(&folder.path().join("2")).expect("mapped");
    assert!(matches!(Section::create_in(read_only, &Layout::new(2).ring(1, 0)), Err(Error::InUse(_))));
}

#[test]
fn layouts_that_cannot_be_are_refused() {
    for layout in [
        Layout::new(1),
        Layout::new(1).ring(2, 0).ring(2, 0),
        (0..65).fold(Layout::new(1), |l, n| l.ring(n, 0)),
    ] {
        let error = Section::create_in(Memory::heap(1 << 20), &layout).expect_err("impossible");
        assert!(matches!(error, Error::BadLayout(_)), "{error}");
    }
    let error =
        Section::create_in(Memory::heap(20000), &Layout::new(1).ring(2, 4096)).expect_err("too small");
    assert!(matches!(error, Error::TooSmall { wanted: LEAST_BYTES, got: 20000, .. }), "{error}");
    assert_eq!(Layout::capacity_for(20480 + 3 * 8192, 3), Some(8192));
    assert_eq!(Layout::capacity_for(20480 + 4095, 1), None);
    assert_eq!(Layout::capacity_for(1 << 20, 0), None);
}

#[test]
fn a_section_grows_older_with_every_start_even_over_noise_and_ends_as_gone() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("1");
    let layout = Layout::new(1).ring(2, 4096);
    let mut before = 0;
    for round in 0..6_u64 {
        if round > 3 {
            let file = OpenOptions::new().write(true).open(&path).expect("the file");
            file.write_all_at(&vec![0xff; 20480], 0).expect("noise");
        }
        let section = Section::create(&path, &layout).expect("a section");
        assert!(section.generation() > before);
        before = section.generation();
        let view: PeerSection = Section::open(&path).expect("readable");
        assert_eq!(view.state().expect("a word").state, State::Ready);
        section.drain();
        assert_eq!(view.state().expect("a word").state, State::Draining);
        drop(section);
        let word = view.state().expect("a word");
        assert_eq!((word.state, word.generation), (State::Gone, before));
        std::thread::sleep(Duration::from_millis(2));
    }
}
