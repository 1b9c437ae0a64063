//! Images, unpacked: what the specification says of layers, and what strangers could try.

mod fixture;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use fixture::{Layer, ROOTS, Who, image, image_of, index, named};
use flate2::Compression;
use flate2::write::GzEncoder;
use images::{Chosen, Digest, ImageError, Layout, LeftOut, Owner, Platform, unpack};
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use serde_json::json;
use tar::EntryType;

/// A layout, and a root beside what lies around it.
struct Here {
    folder: tempfile::TempDir,
    /// Who was said to have what.
    owners: RefCell<BTreeMap<PathBuf, Owner>>,
}

impl Here {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("the test's own files");
        fs::create_dir(folder.path().join("root")).expect("the test's own files");
        fs::write(folder.path().join("precious"), "x").expect("the test's own files");
        Self { folder, owners: RefCell::default() }
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    fn layout(&self) -> PathBuf {
        self.folder.path().join("layout")
    }

    fn put(&self, layers: &[Vec<u8>]) {
        let one = image(&self.layout(), &json!({ "WorkingDir": "/srv/app" }), layers);
        index(&self.layout(), &[one]);
    }

    fn choose(&self) -> Result<(Layout, Chosen), ImageError> {
        let layout = Layout::open(&self.layout())?;
        let chosen = layout.choose(None, &Platform::own())?;
        Ok((layout, chosen))
    }

    fn unpack(&self, layers: &[Vec<u8>]) -> Result<LeftOut, ImageError> {
        self.put(layers);
        self.unpack_there()
    }

    fn unpack_there(&self) -> Result<LeftOut, ImageError> {
        let (layout, chosen) = self.choose()?;
        let root = File::open(self.root()).expect("the root");
        let keep = |file: std::os::fd::BorrowedFd<'_>, owner: Owner| {
            let path = fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
            self.owners.borrow_mut().insert(path, owner);
            Ok(())
        };
        unpack(&layout, &chosen, root.into(), &keep, &|| true)
    }

    /// What is there, sorted, folders with a slash.
    fn seen(&self) -> Vec<String> {
        let mut seen = Vec::new();
        let mut folders = vec![self.root()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).expect("readable").flatten() {
                let path = entry.path();
                let is_folder = entry.file_type().expect("a type").is_dir();
                let shown = path.strip_prefix(self.root()).expect("within").display().to_string();
                seen.push(if is_folder { shown + "/" } else { shown });
                if is_folder {
                    folders.push(path);
                }
            }
        }
        seen.sort();
        seen
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.root().join(path)).expect(path)
    }

    /// Nothing around the root was touched.
    fn assert_untouched(&self) {
        let names = fs::read_dir(self.folder.path()).expect("ours").flatten();
        let mut names: Vec<_> = names.map(|entry| entry.file_name()).collect();
        names.sort();
        assert_eq!(names, ["layout", "precious", "root"]);
        assert_eq!(fs::read_to_string(self.folder.path().join("precious")).expect("there"), "x");
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

#[test]
fn layers_lie_on_each_other_packed_or_not() {
    let here = Here::new();
    let long = format!("usr/{}/file", "long".repeat(40));
    let first = Layer::default()
        .folder("./")
        .folder("usr/")
        .folder("usr/bin")
        .link("bin", "usr/bin")
        .file("usr/bin/one", 0o755, "1")
        .name("usr/bin/again", "bin/one")
        .file("usr/bin/old", 0o644, "old")
        .file(&long, 0o600, "long")
        .entry(EntryType::Fifo, b"pipe", b"", ROOTS, b"")
        .entry(EntryType::Char, b"dev/null", b"", ROOTS, b"");
    // As if bin were the folder: it leads there.
    let second = Layer::default().file("bin/two", 0o4111, "2").file("usr/bin/old", 0o644, "new");
    let third = Layer::default()
        .pax("path", "etc/shadow")
        .pax("mtime", "1234567890.5")
        .entry(
            EntryType::Regular,
            b"x",
            b"",
            Who { user: 3_000_000_000 >> 12, group: 42, mode: 0 },
            b"root:*",
        )
        .pax("SCHILY.xattr.security.capability", "abc")
        .pax("SCHILY.xattr.user.mime", "abc")
        .file("usr/bin/ping", 0o755, "p")
        // Regression: a record ended at the first newline.
        .pax("path", "srv/two\nlines")
        .file("x", 0o644, "");
    let packed = [
        gzip(&first.archive()),
        second.archive(),
        compress_to_vec(third.archive().as_slice(), CompressionLevel::Fastest),
    ];
    assert_eq!(
        here.unpack(&packed).expect("unpacked"),
        LeftOut { devices: 1, capabilities: 1, attributes: 1 }
    );
    let wanted = "bin dev/ etc/ etc/shadow pipe srv/ srv/app/ usr/ usr/bin/ usr/bin/again usr/bin/old usr/bin/one usr/bin/ping usr/bin/two";
    let mut wanted: Vec<String> = wanted.split(' ').map(str::to_owned).collect();
    wanted.extend([
        format!("{}/", Path::new(&long).parent().expect("a folder").display()),
        long.clone(),
        "srv/two\nlines".to_owned(),
    ]);
    wanted.sort();
    assert_eq!(here.seen(), wanted);
    assert_eq!(
        [here.text("usr/bin/old"), here.text("usr/bin/again"), here.text(&long)],
        ["new", "1", "long"]
    );
    let meta = |path: &str| fs::symlink_metadata(here.root().join(path)).expect(path);
    // Plain bits, and readable for whoever serves it; the rest is a notion.
    assert_eq!(meta("usr/bin/one").ino(), meta("usr/bin/again").ino());
    assert_eq!(meta("usr/bin/two").permissions().mode() & 0o7777, 0o511);
    assert_eq!(meta("etc/shadow").permissions().mode() & 0o7777, 0o400);
    assert_eq!((meta("etc/shadow").mtime(), meta("usr/bin/one").mtime()), (1_234_567_890, 1_000_000_000));
    let owners = here.owners.borrow();
    let real = here.root().canonicalize().expect("there");
    assert_eq!(owners[&real.join("usr/bin/two")], Owner { user: 0, group: 0, mode: 0o4111 });
    assert_eq!(owners[&real.join("etc/shadow")], Owner { user: 3_000_000_000 >> 12, group: 42, mode: 0 });
    here.assert_untouched();
}

#[test]
fn whiteouts_take_away_what_lies_below_and_nothing_of_their_own_layer() {
    let here = Here::new();
    let first = Layer::default()
        .file("a/gone", 0o644, "")
        .file("a/stays", 0o644, "")
        .file("b/deep/er/gone", 0o644, "")
        .file("b/deep/kept", 0o644, "lower")
        .file("b/gone", 0o644, "")
        .link("b/link", "../a")
        .file("c", 0o644, "")
        .file("d/x", 0o644, "");
    let second = Layer::default()
        .file("a/.wh.gone", 0o644, "")
        .file("a/.wh.never", 0o644, "")
        .file("b/deep/kept", 0o644, "upper")
        .file("b/.wh..wh..opq", 0o644, "")
        .file("b/after", 0o644, "")
        .file(".wh.c", 0o644, "")
        .file("d", 0o644, "a file now")
        .file(".wh..wh.plnk", 0o644, "");
    here.unpack(&[first.archive(), second.archive()]).expect("unpacked");
    assert_eq!(
        here.seen(),
        ["a/", "a/stays", "b/", "b/after", "b/deep/", "b/deep/kept", "d", "srv/", "srv/app/"]
    );
    assert_eq!([here.text("b/deep/kept"), here.text("d")], ["upper", "a file now"]);
}

/// However often a stranger says it: looking again at what the layer itself made took hours.
#[test]
fn a_folder_is_emptied_of_lower_layers_once() {
    let here = Here::new();
    let lower = Layer::default().file("a/b/gone", 0o644, "").file("a/gone", 0o644, "");
    let mut upper = Layer::default();
    for number in 0..10_000 {
        upper = upper.file(&format!("a/b/{number}"), 0o644, "").file("a/b/.wh..wh..opq", 0o644, "");
        upper = upper.file("a/.wh.b", 0o644, "");
    }
    let upper = upper.file("a/.wh..wh..opq", 0o644, "").archive();
    let begun = std::time::Instant::now();
    here.unpack(&[lower.archive(), upper]).expect("unpacked");
    assert!(begun.elapsed() < std::time::Duration::from_secs(60), "{:?}", begun.elapsed());
    assert_eq!(here.seen().len(), 2 + 10_000 + 2);
    assert!(!here.seen().iter().any(|path| path.ends_with("gone")));
}

#[test]
fn no_name_and_no_link_leads_out() {
    let outside = |entry: Layer| {
        let here = Here::new();
        let told = here.unpack(&[entry.archive()]);
        here.assert_untouched();
        (told.err().map(|error| error.to_string()), here)
    };
    let up = |path: &str| outside(Layer::default().file(path, 0o644, "y")).0.expect("refused");
    assert!(up("../precious").contains("leads out of the image"));
    assert!(up("a/../../precious").contains("leads out of the image"));
    // From the root, whatever the host has there.
    let (told, here) = outside(Layer::default().file("/precious", 0o644, "y"));
    assert_eq!((told, here.text("precious")), (None, "y".to_owned()));
    // Through links that lead up, or away: they lead to the image's own root.
    for target in ["..", "../../..", "/"] {
        let layer = Layer::default().link("way", target).file("way/precious", 0o644, "y");
        let (told, here) = outside(layer);
        assert_eq!((told, here.text("precious")), (None, "y".to_owned()), "{target}");
    }
    let elsewhere = tempfile::tempdir().expect("the test's own files");
    fs::write(elsewhere.path().join("precious"), "x").expect("the test's own files");
    let away = elsewhere.path().display().to_string();
    for layer in [
        Layer::default().link("way", &away).file("way/new", 0o644, "y"),
        Layer::default().link("way", &away).file("way/.wh.precious", 0o644, ""),
        Layer::default().link("way", &away).file("way/.wh..wh..opq", 0o644, ""),
        Layer::default().name("way", &format!("{away}/precious")),
        Layer::default().link("l", &format!("{away}/precious")).name("way", "l").file("way", 0o644, "y"),
        Layer::default().link("way", &format!("{away}/precious")).file("way", 0o644, "y"),
        Layer::default().link("way", "/proc/self/cwd").file("way/x", 0o644, "y"),
        Layer::default().name("way", "../precious"),
        Layer::default().file(".wh...", 0o644, ""),
        Layer::default().file("a/.wh.", 0o644, ""),
    ] {
        outside(layer);
        assert_eq!(fs::read_dir(elsewhere.path()).expect("there").count(), 1);
        assert_eq!(fs::read_to_string(elsewhere.path().join("precious")).expect("there"), "x");
    }
}

#[test]
fn what_lies_behind_a_link_to_what_is_still_to_come_is_made_there() {
    for (target, lies) in [
        ("usr/share", "usr/share/f"),
        ("/usr/share", "usr/share/f"),
        ("../../usr/./share", "usr/share/f"),
        ("next", "there/f"),
    ] {
        let here = Here::new();
        let below = Layer::default().link("way", target).link("next", "there");
        here.unpack(&[below.archive(), Layer::default().file("way/f", 0o644, "y").archive()]).expect(target);
        assert_eq!(here.text(lies), "y", "{target}");
        here.assert_untouched();
    }
    let here = Here::new();
    let circle = Layer::default().link("a", "b").link("b", "a").file("a/f", 0o644, "y");
    assert!(here.unpack(&[circle.archive()]).is_err());
    here.assert_untouched();
}

/// The kernel does not answer for a path with `..` while it moves names, whosever they are.
#[test]
fn what_others_rename_meanwhile_makes_nothing_fail() {
    let elsewhere = tempfile::tempdir().expect("the test's own files");
    let (one, other) = (elsewhere.path().join("one"), elsewhere.path().join("other"));
    fs::write(&one, "").expect("the test's own files");
    let is_over = AtomicBool::new(false);
    let mut layer = Layer::default().link("way", "../../..");
    for number in 0..20_000 {
        layer = layer.file(&format!("way/{}", number % 100), 0o644, "");
    }
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                fs::rename(&one, &other)
                    .and_then(|()| fs::rename(&other, &one))
                    .expect("the test's own files");
            }
        });
        let here = Here::new();
        let told = here.unpack(&[layer.archive()]);
        is_over.store(true, Ordering::Relaxed);
        told.expect("unpacked");
        assert_eq!(here.seen().len(), 100 + 3);
    });
}

#[test]
fn what_is_damaged_or_too_much_is_refused_with_the_reason() {
    let told = |bytes: Vec<u8>| Here::new().unpack(&[bytes]).expect_err("refused").to_string();
    let archive = Layer::default().file("a", 0o644, [7; 5000]).archive();
    let mut damaged = archive.clone();
    damaged[3] ^= 1;
    assert!(told(damaged).contains("sum is wrong"));
    let sparse = Layer::default().pax("GNU.sparse.major", "1").file("a", 0o644, "1\n0\n5\n").archive();
    assert!(told(sparse).contains("a sparse file"));
    assert!(told(archive[..2000].to_vec()).contains("cut off within a file"));
    assert!(told(archive[..300].to_vec()).contains("cut off within a header"));
    assert!(told(b"no archive at all".to_vec()).contains("cut off"));
    assert!(told(gzip(&archive)[..100].to_vec()).contains("layer "));
    let huge = Layer::default().pax("size", "99999999999999").file("a", 0o644, "").archive();
    assert!(told(huge).contains("64 GiB"));
    let sparse = Layer::default().entry(EntryType::GNUSparse, b"s", b"", ROOTS, b"").archive();
    assert!(told(sparse).contains("type 'S'"));
    let long = Layer::default().entry(EntryType::GNULongName, b"l", b"", ROOTS, &[b'x'; 9000]).archive();
    assert!(told(long).contains("allowed are 4097"));
    let shown = told(Layer::default().file("../\u{1b}[2J", 0o644, "").archive());
    assert!(!shown.contains('\u{1b}'), "{shown:?}");

    // A layer that holds something else than the config says.
    let of = |layer: &[u8], unpacked: &[Digest]| {
        let here = Here::new();
        let one = image_of(&here.layout(), &json!({}), &[layer.to_vec()], unpacked);
        index(&here.layout(), &[one]);
        here.unpack_there()
    };
    // More than what ends the archive belongs to it.
    let padded = [archive.clone(), vec![0; 300_000]].concat();
    let inner = Digest::of(&padded);
    for layer in [padded.clone(), gzip(&padded)] {
        of(&layer, std::slice::from_ref(&inner)).expect("as it says");
        let said = of(&layer, &[Digest::of(&archive)]).expect_err("another").to_string();
        assert!(said.contains("the image's config says"), "{said}");
    }
    let said = of(&padded, &[inner.clone(), inner]).expect_err("two").to_string();
    assert!(said.contains("2 layers (diff_ids), the manifest of 1"), "{said}");

    // A blob that is not what its digest says.
    let here = Here::new();
    here.put(std::slice::from_ref(&archive));
    let blobs = || fs::read_dir(here.layout().join("blobs/sha256")).expect("there").flatten();
    let layer = blobs().find(|entry| entry.metadata().is_ok_and(|meta| meta.len() == archive.len() as u64));
    let path = layer.expect("there").path();
    let mut other = archive.clone();
    other[600] ^= 1;
    fs::write(&path, &other).expect("the test's own files");
    assert!(here.unpack_there().expect_err("another").to_string().contains("damaged"));
    fs::write(&path, b"x").expect("the test's own files");
    assert!(here.unpack_there().expect_err("shorter").to_string().contains("was to have"));
    fs::remove_file(&path).expect("the test's own files");
    symlink("/dev/zero", &path).expect("the test's own files");
    assert!(here.unpack_there().is_err(), "a link");
}

#[test]
fn an_image_is_chosen_by_name_and_by_machine() {
    let here = Here::new();
    let layout = here.layout();
    let layer = |text: &str| Layer::default().file("which", 0o644, text).archive();
    let one = image(&layout, &json!({}), &[layer("one")]);
    let two = image(&layout, &json!({}), &[layer("two")]);
    let own = Platform::own();
    let mut for_us = two.clone();
    for_us["platform"] = json!({ "architecture": own.architecture, "os": "linux" });
    let mut for_others = one.clone();
    for_others["platform"] = json!({ "architecture": "s390x", "os": "linux" });
    let nested = json!({ "schemaVersion": 2, "manifests": [for_others, for_us] });
    let nested =
        fixture::blob(&layout, "application/vnd.oci.image.index.v1+json", nested.to_string().as_bytes());
    index(&layout, &[named(one.clone(), "1.0"), named(nested, "2.0")]);
    let open = Layout::open(&layout).expect("a layout");
    let chosen = |name| open.choose(name, &own).map(|chosen| chosen.digest.to_string());
    let digest = |descriptor: &serde_json::Value| descriptor["digest"].as_str().expect("one").to_owned();
    assert_eq!(chosen(Some("1.0")).expect("there"), digest(&one));
    assert_eq!(chosen(Some("2.0")).expect("there"), digest(&two));
    let told = chosen(None).expect_err("which?").to_string();
    assert!(told.contains("\"1.0\", \"2.0\""), "{told}");
    let told = chosen(Some("3.0")).expect_err("none").to_string();
    assert!(told.contains("\"3.0\" is not in the layout; there is: \"1.0\", \"2.0\""), "{told}");
    index(&layout, &[for_others]);
    let told = Layout::open(&layout).expect("a layout").choose(None, &own).expect_err("not ours").to_string();
    assert!(told.contains("only for linux/s390x"), "{told}");
    // An index that leads to itself cannot be written; many of them can.
    let mut at = one;
    for _ in 0..9 {
        let index = json!({ "schemaVersion": 2, "manifests": [at] });
        at = fixture::blob(&layout, "application/vnd.oci.image.index.v1+json", index.to_string().as_bytes());
    }
    index(&layout, &[at]);
    let told = Layout::open(&layout).expect("a layout").choose(None, &own).expect_err("too deep").to_string();
    assert!(told.contains("4 indexes"), "{told}");
}

/// What `docker save` of Docker 28 writes beside a layout's own files, and its names.
#[test]
fn what_docker_saves_is_a_layout() {
    let here = Here::new();
    let layout = here.layout();
    let mut one =
        image(&layout, &json!({ "Cmd": ["/bin/sh"] }), &[Layer::default().file("a", 0o644, "").archive()]);
    one["annotations"] = json!({
        "io.containerd.image.name": "docker.io/library/alpine:3.20", "org.opencontainers.image.ref.name": "3.20",
    });
    index(&layout, &[one]);
    fs::write(layout.join("manifest.json"), "[]").expect("the test's own files");
    fs::write(layout.join("repositories"), "{}").expect("the test's own files");
    let open = Layout::open(&layout).expect("a layout");
    for name in [None, Some("3.20"), Some("docker.io/library/alpine:3.20")] {
        let chosen = open.choose(name, &Platform::own()).expect("there");
        assert_eq!(chosen.config.command(&[]), [b"/bin/sh".to_vec()], "{name:?}");
    }
    assert!(open.choose(Some("latest"), &Platform::own()).is_err());
}

/// Deeper than descriptors can be open, through links that make short paths of it.
#[test]
fn deep_folders_of_strangers_are_replaced_all_the_same() {
    let here = Here::new();
    let mut first = Layer::default();
    let step = "d/".repeat(200);
    for round in 0..10 {
        let (at, next) = (format!("way{round}"), format!("way{}", round + 1));
        let folder = if round == 0 { format!("top/{step}") } else { format!("{at}/{step}") };
        first = first.folder(&folder);
        let target = format!("/top/{}", "d/".repeat(200 * (round + 1)));
        first = if target.len() < 4000 { first.link(&next, &target) } else { first };
    }
    let second = Layer::default().file("top", 0o644, "a file now");
    here.unpack(&[first.archive(), second.archive()]).expect("unpacked");
    assert_eq!(here.text("top"), "a file now");
    here.assert_untouched();
}

#[test]
fn names_need_not_be_text() {
    let here = Here::new();
    let odd = b"caf\xe9".as_slice();
    let layer = Layer::default().entry(EntryType::Regular, odd, b"", ROOTS, b"x");
    here.unpack(&[layer.archive()]).expect("unpacked");
    assert!(here.root().join(std::ffi::OsStr::from_bytes(odd)).exists());
}
