//! pjdfstest, the suite of file system calls that FreeBSD began, in a folder opened for writing, in one that is only read, in the layer
//! over a tree and in the guest's memory: each of its cases gives what it gives natively, save what is listed; the list is held both ways.
//!
//! The suite is `tests/pjdfstest/suite.tar.xz`: <https://github.com/pjd/pjdfstest> at `85a8aea9`, its scripts, its one program and its
//! licence (BSD, two clauses), nothing changed. The list is `tests/pjdfstest/differences.txt`, case by case.
//!
//! Without `BULKHEAD_PJDFSTEST` one file in forty is run; with `1` all of them, an hour and more under the translator; otherwise those whose
//! `PLACE/FILE` begins with it: `open/chmod`. What differs is shown as lines of the list as soon as a portion of the files was run.

use crate::exec_fixture;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use exec_fixture::{Here, complaint, finish_within, guests_start, text};
use nix::unistd::geteuid;
use skips::{Need, skip};

/// A place where the suite is run, natively and in a partition.
struct Place {
    name: &'static str,
    /// What makes the same of the native folder `$1`.
    native: &'static str,
}

/// Opened for writing, read only, the layer over what is shown, and the guest's own memory.
const PLACES: [Place; 4] = [
    Place { name: "open", native: "true" },
    Place { name: "shown", native: "mount --bind \"$1\" \"$1\" && mount -o remount,bind,ro \"$1\"" },
    Place { name: "layer", native: "true" },
    Place { name: "memory", native: "mount -t tmpfs none \"$1\"" },
];
/// A portion under the translator, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(4 * 3600);
/// One file in so many is run when not all are asked for.
const ONE_IN: usize = 40;
/// Files that are run in one partition.
const PORTION: usize = 20;
/// Partitions at once: they wait for the clock half of the time.
const AT_ONCE: usize = 2;

fn plain(path: &Path) -> &str {
    path.to_str().expect("a path of text")
}

/// Unpacks and compiles the suite.
fn make_suite(at: &Path) {
    let parts = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pjdfstest");
    let run = |command: &mut Command| assert!(command.status().expect("it starts").success(), "{command:?}");
    run(Command::new("tar").arg("-xJf").arg(parts.join("suite.tar.xz")).arg("-C").arg(at));
    make_folder(&at.join("bin"));
    for (from, to) in [("driver.sh", "driver.sh"), ("df", "bin/df")] {
        fs::copy(parts.join(from), at.join(to)).expect("the test's own files");
    }
    let compile = ["-O1", "-static", "-w", "-o", "pjdfstest", "pjdfstest.c", "-I"];
    run(Command::new("cc").args(compile).arg(&parts).current_dir(at));
}

/// What the driver said of a file: how many cases it had, of how many that it planned, and what those that failed got, as far as that
/// is the same each time.
#[derive(Debug, Default, PartialEq, Eq)]
struct Outcome {
    count: String,
    failed: BTreeMap<usize, String>,
}

/// Lines `NAME COUNT/PLANNED: CASE=GOT CASE …`.
fn outcomes(said: &str) -> BTreeMap<String, Outcome> {
    let of = |line: &str| {
        let (name, failed) = line.split_once(':')?;
        let (name, count) = name.split_once(' ')?;
        let case = |word: &str| {
            let (case, got) = word.split_once('=').unwrap_or((word, "another result"));
            Some((case.parse().ok()?, got.to_owned()))
        };
        let failed = failed.split_whitespace().filter_map(case).collect();
        Some((name.to_owned(), Outcome { count: count.to_owned(), failed }))
    };
    said.lines().filter_map(of).collect()
}

/// Cases that give something else here than natively; 0 stands for how many there are.
fn differences(natively: &Outcome, here: &Outcome) -> BTreeSet<usize> {
    let cases: BTreeSet<usize> = natively.failed.keys().chain(here.failed.keys()).copied().collect();
    let differing = cases.into_iter().filter(|case| natively.failed.get(case) != here.failed.get(case));
    let count = (natively.count != here.count).then_some(0);
    differing.chain(count).collect()
}

/// `1-3 7`.
fn ranges(cases: &BTreeSet<usize>) -> String {
    let mut spans: Vec<(usize, usize)> = Vec::new();
    for case in cases {
        match spans.last_mut() {
            Some((_, last)) if *last + 1 == *case => *last = *case,
            _ => spans.push((*case, *case)),
        }
    }
    let word = |(first, last): &(usize, usize)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    spans.iter().map(word).collect::<Vec<_>>().join(" ")
}

/// The list: cases by `PLACE FILE`.
fn listed() -> BTreeMap<String, String> {
    let list = include_str!("pjdfstest/differences.txt");
    let lines = list.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    let of = |line: &str| {
        let (rest, _why) = line.split_once(": ").expect("PLACE FILE CASES: WHY");
        let (place, rest) = rest.split_once(' ').expect("PLACE FILE CASES: WHY");
        let (file, cases) = rest.split_once(' ').expect("PLACE FILE CASES: WHY");
        (format!("{place} {file}"), cases.to_owned())
    };
    let (count, all) = (lines.clone().count(), lines.map(of).collect::<BTreeMap<_, _>>());
    assert_eq!(all.len(), count, "a file is listed twice");
    all
}

/// Files of one place that one partition runs.
struct Portion {
    place: &'static Place,
    names: Vec<String>,
    /// Name of its folders.
    folder: String,
}

/// The suite in a folder of the test's own, and which of its files are run.
struct Suite {
    folder: PathBuf,
    portions: Vec<Portion>,
}

impl Suite {
    fn new(here: &Here) -> Self {
        let folder = here.path("suite");
        make_folder(&folder);
        make_suite(&folder);
        let found = Command::new("sh")
            .args(["-c", "cd tests && find . -name '*.t' | sed 's|^./||' | sort"])
            .current_dir(&folder)
            .output()
            .expect("sh runs");
        let found = String::from_utf8_lossy(&found.stdout).into_owned();
        let all: Vec<&str> = found.lines().collect();
        for known in listed().keys() {
            let (place, file) = known.split_once(' ').expect("PLACE FILE");
            let is_there = all.contains(&file) && PLACES.iter().any(|known| known.name == place);
            assert!(is_there, "there is no {known}, which is listed");
        }
        let asked = std::env::var("BULKHEAD_PJDFSTEST").ok();
        let is_run = |place: &Place, at: usize, name: &str| match asked.as_deref() {
            None => at.is_multiple_of(ONE_IN),
            Some("1") => true,
            Some(start) => format!("{}/{name}", place.name).starts_with(start),
        };
        let mut portions = Vec::new();
        for place in &PLACES {
            let chosen = all.iter().enumerate().filter(|(at, name)| is_run(place, *at, name));
            let names: Vec<String> = chosen.map(|(_, name)| (*name).to_owned()).collect();
            for (number, names) in names.chunks(PORTION).enumerate() {
                let folder = format!("{}-{number}", place.name);
                fs::write(here.path("suite").join(&folder), names.join("\n") + "\n")
                    .expect("the test's own files");
                portions.push(Portion { place, names: names.to_vec(), folder });
            }
        }
        let run: usize = portions.iter().map(|portion| portion.names.len()).sum();
        assert!(run > 0, "nothing begins with {asked:?}");
        let whole = all.len() * PLACES.len();
        if run < whole {
            skip(
                Need::Long,
                format!(
                    "{run} of {whole} were run, {} files in {} places; BULKHEAD_PJDFSTEST=1 runs all",
                    all.len(),
                    PLACES.len()
                ),
            );
        }
        Self { folder, portions }
    }

    /// Words that run a portion in a folder.
    fn words(&self, portion: &Portion, at: &str) -> [String; 4] {
        let (driver, list) = (self.folder.join("driver.sh"), self.folder.join(&portion.folder));
        [plain(&driver), plain(&self.folder), plain(&list), at].map(str::to_owned)
    }

    /// What fails natively, where a mount of the test's own may make the folder like that of a partition.
    fn natively(&self, here: &Here, portion: &Portion) -> BTreeMap<String, Outcome> {
        let folder = here.path(&format!("native-{}", portion.folder));
        make_folder(&folder);
        let script = format!("{} && shift && exec sh \"$@\"", portion.place.native);
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", &script, "sh", plain(&folder)]);
        command.args(self.words(portion, plain(&folder)));
        outcomes(&String::from_utf8_lossy(&command.output().expect("unshare runs").stdout))
    }

    /// Begins it in a partition.
    fn begin_within(&self, here: &Here, portion: &Portion) -> Child {
        let at = here.path(&portion.folder);
        make_folder(&at);
        let shown = format!("{}:/mnt", plain(&at));
        let (front, folder) = match portion.place.name {
            "open" => (vec!["--rw", plain(&at)], plain(&at)),
            // What `--ro` shows has a layer over it, as the system has.
            "shown" => (vec!["--bind", shown.as_str()], "/mnt"),
            "layer" => (vec!["--ro", plain(&at)], plain(&at)),
            _ => (vec![], "/tmp"),
        };
        let mut words: Vec<String> = front.into_iter().map(str::to_owned).collect();
        words.extend(["--ro", plain(&self.folder), "--", "sh"].map(str::to_owned));
        words.extend(self.words(portion, folder));
        here.command(&words).spawn().expect("it starts")
    }

    /// Runs a portion on both sides; what is not as listed.
    fn compare(&self, here: &Here, portion: &Portion) -> Vec<String> {
        let guest = self.begin_within(here, portion);
        let natively = self.natively(here, portion);
        let output = finish_within(guest, PATIENCE);
        let within = outcomes(&text(&output));
        assert_eq!(natively.len(), portion.names.len(), "each was run natively");
        let (place, listed) = (portion.place.name, listed());
        let mut wrong = Vec::new();
        if output.status.code() != Some(0) {
            wrong.push(format!("{}: {:?}: {}", portion.folder, output.status, complaint(&output)));
        }
        for (file, natively) in &natively {
            let nothing = Outcome::default();
            let here = within.get(file).unwrap_or(&nothing);
            let differing = differences(natively, here);
            let wanted = listed.get(&format!("{place} {file}")).map_or("", String::as_str);
            if ranges(&differing) != wanted {
                wrong.push(told(&format!("{place} {file}"), wanted, &differing, (natively, here)));
            }
        }
        let (run, so_far) =
            (natively.len(), if wrong.is_empty() { "as listed" } else { "not all as listed" });
        println!("{}: {run} files, {so_far}", portion.folder);
        println!("{}", counts(&portion.folder, &natively));
        for line in &wrong {
            println!("{line}");
        }
        wrong
    }
}

/// How many cases there were natively, and how many of them failed there too: what is compared of those is how.
fn counts(folder: &str, natively: &BTreeMap<String, Outcome>) -> String {
    let number =
        |outcome: &Outcome| outcome.count.split('/').next().and_then(|count| count.parse::<usize>().ok());
    let cases: usize = natively.values().filter_map(number).sum();
    let failed: usize = natively.values().map(|outcome| outcome.failed.len()).sum();
    format!("{folder}: {cases} cases, {failed} of them fail natively")
}

/// A line of the list as it would have to be, and each case that differs.
fn told(
    file: &str,
    wanted: &str,
    differing: &BTreeSet<usize>,
    (natively, here): (&Outcome, &Outcome),
) -> String {
    let got = |outcome: &Outcome, case: usize| match (case, outcome.failed.get(&case)) {
        (0, _) => outcome.count.clone(),
        (_, Some(got)) => got.clone(),
        (_, None) => "ok".to_owned(),
    };
    let case = |case: &usize| format!("{case}: {} here, {} natively", got(here, *case), got(natively, *case));
    let cases: Vec<String> = differing.iter().map(case).collect();
    format!("{file} {}: listed: \"{wanted}\"; {}", ranges(differing), cases.join("; "))
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
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                while let Some(portion) = suite.portions.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let found = suite.compare(&here, portion);
                    wrong.lock().expect("no panic").extend(found);
                }
            });
        }
    });
    let wrong = wrong.into_inner().expect("no panic");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    here.assert_nothing_left();
}

#[test]
fn what_differs_is_told_case_by_case() {
    let natively = outcomes("a/0.t 4/4: 2=EROFS 3\nb/1.t 9/9: \n");
    let here = outcomes("a/0.t 4/4: 1=0755 2=EPERM 3\nb/1.t 8/9: 5=EPERM 6 7 9=regular,0644 \n");
    assert_eq!(ranges(&differences(&natively["a/0.t"], &here["a/0.t"])), "1-2");
    assert_eq!(ranges(&differences(&natively["b/1.t"], &here["b/1.t"])), "0 5-7 9");
    assert_eq!(ranges(&differences(&natively["b/1.t"], &natively["b/1.t"])), "");
    assert_eq!(ranges(&differences(&natively["b/1.t"], &Outcome::default())), "0", "it was not run");
}
