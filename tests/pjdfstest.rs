//! pjdfstest, the suite of file system calls that FreeBSD began, in a folder opened for writing, in one that is only read,
//! and in the guest's own memory: each of its files fails what it fails natively, save what is listed here; the lists are held both ways.
//!
//! The suite is `tests/pjdfstest/suite.tar.xz`: <https://github.com/pjd/pjdfstest> at `85a8aea9`, its scripts, its one program and its
//! licence (BSD, two clauses), nothing changed. Without `BULKHEAD_PJDFSTEST` one file in forty is run.
//!
//! All of it has not been run to its end yet: an hour and more under the translator. Of `--rw` the first 48 files were, and some of `mknod`: device nodes
//! are refused, so chmod/00, chmod/01, chmod/11, mknod/01 and mknod/11 fail there, and are to be listed when the whole has been seen.

#![allow(clippy::print_stdout, reason = "what was compared is what a figure is taken from")]

#[path = "exec_kit/mod.rs"]
mod exec_kit;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::Duration;

use exec_kit::{Here, assert_code, finish_within, guests_start, text};
use nix::unistd::geteuid;
use skips::{Need, skip};

/// A place where the suite is run, natively and in a partition.
struct Place {
    name: &'static str,
    /// What makes the same of the native folder `$1`.
    native: &'static str,
    /// Files with cases that fail otherwise in a partition than natively, with why.
    listed: &'static [(&'static str, &'static str)],
}

/// Opened for writing, read only, and in the guest's own memory.
const PLACES: [Place; 3] = [
    Place { name: "open", native: "true", listed: &[] },
    Place {
        name: "shown",
        native: "mount --bind \"$1\" \"$1\" && mount -o remount,bind,ro \"$1\"",
        listed: &[],
    },
    Place { name: "memory", native: "mount -t tmpfs none \"$1\"", listed: &[] },
];
/// All of it under the translator, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(4 * 3600);
/// One file in so many is run when not all are asked for.
const ONE_IN: usize = 40;

fn plain(path: &Path) -> &str {
    path.to_str().expect("a path of text")
}

/// Unpacks and compiles the suite.
fn make_suite(at: &Path) {
    let parts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pjdfstest");
    let run = |command: &mut Command| assert!(command.status().expect("it starts").success(), "{command:?}");
    run(Command::new("tar").arg("-xJf").arg(parts.join("suite.tar.xz")).arg("-C").arg(at));
    fs::copy(parts.join("driver.sh"), at.join("driver.sh")).expect("the test's own files");
    let compile = ["-O1", "-static", "-w", "-o", "pjdfstest", "pjdfstest.c", "-I"];
    run(Command::new("cc").args(compile).arg(&parts).current_dir(at));
}

/// What the driver said of each file.
fn failures(said: &str) -> BTreeMap<String, String> {
    let pairs = said.lines().filter_map(|line| line.split_once(':'));
    pairs.map(|(file, failed)| (file.to_owned(), failed.trim().to_owned())).collect()
}

/// The suite in a folder of the test's own, and which of its files are run.
struct Suite {
    folder: PathBuf,
    names: Vec<String>,
}

impl Suite {
    fn new(here: &Here) -> Self {
        let folder = here.path("suite");
        make_folder(&folder);
        make_suite(&folder);
        let listed = Command::new("sh")
            .args(["-c", "cd tests && find . -name '*.t' | sed 's|^./||' | sort"])
            .current_dir(&folder)
            .output()
            .expect("sh runs");
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        let is_all = std::env::var_os("BULKHEAD_PJDFSTEST").is_some();
        let chosen = listed.lines().enumerate().filter(|(at, _)| is_all || at.is_multiple_of(ONE_IN));
        let names: Vec<String> = chosen.map(|(_, name)| name.to_owned()).collect();
        if !is_all {
            let (run, all) = (names.len(), listed.lines().count());
            skip(
                Need::Long,
                format!("{run} of the suite's {all} files were run; BULKHEAD_PJDFSTEST=1 runs all"),
            );
        }
        fs::write(folder.join("list"), names.join("\n") + "\n").expect("the test's own files");
        Self { folder, names }
    }

    /// Words that run it in a folder.
    fn words(&self, place: &str) -> [String; 4] {
        let driver = self.folder.join("driver.sh");
        [plain(&driver), plain(&self.folder), plain(&self.folder.join("list")), place].map(str::to_owned)
    }

    /// What fails natively, where a mount of the test's own may make the folder like that of a partition.
    fn natively(&self, folder: &Path, place: &Place) -> BTreeMap<String, String> {
        let script = format!("{} && shift && exec sh \"$@\"", place.native);
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", &script, "sh", plain(folder)]).args(self.words(plain(folder)));
        failures(&String::from_utf8_lossy(&command.output().expect("unshare runs").stdout))
    }

    /// Begins it in a partition.
    fn begin_within(&self, here: &Here, place: &Place) -> Child {
        let open = here.path(place.name);
        let shown = format!("{}:/mnt", plain(&open));
        let (front, folder) = match place.name {
            "open" => (vec!["--rw", plain(&open)], plain(&open)),
            // What `--ro` shows has a layer over it, as the system has.
            "shown" => (vec!["--bind", shown.as_str()], "/mnt"),
            _ => (vec![], "/tmp"),
        };
        let mut words: Vec<String> = front.into_iter().map(str::to_owned).collect();
        words.extend(["--ro", plain(&self.folder), "--", "sh"].map(str::to_owned));
        words.extend(self.words(folder));
        here.command(&words).spawn().expect("it starts")
    }
}

fn make_folder(at: &Path) {
    fs::create_dir(at).expect("the test's own files");
    fs::set_permissions(at, fs::Permissions::from_mode(0o755)).expect("the test's own files");
}

#[test]
fn the_suite_fails_where_the_list_says() {
    if !guests_start() {
        return;
    }
    if !geteuid().is_root() {
        return skip(Need::Root, "the suite becomes other users");
    }
    let here = Here::new();
    fs::set_permissions(here.files.path(), fs::Permissions::from_mode(0o755)).expect("the test's own files");
    let suite = Suite::new(&here);
    let mut wrong = Vec::new();
    for place in PLACES {
        let native = here.path(&format!("native-{}", place.name));
        make_folder(&native);
        make_folder(&here.path(place.name));
        // Both wait for the clock most of the time.
        let guest = suite.begin_within(&here, &place);
        let natively = suite.natively(&native, &place);
        let output = finish_within(guest, PATIENCE);
        assert_code(&output, 0);
        let within = failures(&text(&output));
        assert_eq!(natively.len(), suite.names.len(), "each was run natively");
        for (file, natively) in &natively {
            let here = within.get(file).map_or("not run", String::as_str);
            let is_listed = place.listed.iter().any(|(listed, _)| listed == file);
            if (here == natively) == is_listed {
                let name = place.name;
                wrong.push(format!(
                    "{name}: {file}: natively \"{natively}\", here \"{here}\", listed: {is_listed}"
                ));
            }
        }
        let so_far = if wrong.is_empty() { "as listed" } else { "not all as listed" };
        println!("{}: {} files, {so_far}", place.name, natively.len());
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    here.assert_nothing_left();
}
