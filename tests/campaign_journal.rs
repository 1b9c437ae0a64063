//! The journal survives being cut anywhere, loses no more than the line that is garbled, and a full disk takes nothing away.

use crate::doubles;

use std::fs;
use std::path::Path;

use bulkhead::campaign::journal::{Journal, JournalError, read};
use bulkhead::campaign::{CampaignError, RunDir, conclude, read_run, run};
use bulkhead::model::classes::ClassSet;
use bulkhead::model::journal::{JournalLine, Measurement, Outcome};
use bulkhead::platforms::ledger::{Ledger, Thing, sweep};
use doubles::{contents, experiment, header, obedient, report, set_of};
use skips::{Need, skip};

const PROBES: &str = "[probe.fwq]\n[probe.gap]";

fn complete_run(dir: &Path) -> RunDir {
    let experiment = experiment((2, 2), PROBES);
    let rundir = RunDir::create(dir, &experiment, 1).unwrap();
    doubles::run(&rundir, obedient(&experiment));
    rundir
}

/// A number that planning would have to count up to for ever.
#[test]
fn a_round_that_no_run_makes_is_a_lost_line() {
    let dir = tempfile::tempdir().unwrap();
    complete_run(dir.path());
    let path = dir.path().join("journal.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    let line = text.lines().find(|line| line.contains("\"round\":1")).unwrap();
    let absurd = line.replace("\"round\":1", "\"round\":4294967295");
    let look = "{\"line\":\"look\",\"number\":1,\"rounds\":[{\"probe\":\"gap\",\"platforms\":[\"a\"],\"from_round\":2,\
                \"until_round\":4294967295}]}";
    let without_end: Vec<&str> = text.lines().filter(|line| !line.contains("\"took\"")).collect();
    fs::write(&path, without_end.join("\n") + "\n" + &absurd + "\n" + look + "\n").unwrap();
    let read = contents(dir.path());
    assert_eq!((read.measurements.len(), read.looks.len(), read.lost.len()), (8, 0, 2), "{:?}", read.lost);
    assert!(read_run(dir.path()).is_ok(), "it ends");
}

#[test]
fn cut_at_every_byte_it_reads_the_whole_prefix() {
    let dir = tempfile::tempdir().unwrap();
    complete_run(dir.path());
    let path = dir.path().join("journal.jsonl");
    let bytes = fs::read(&path).unwrap();
    let whole = contents(dir.path());
    assert_eq!(whole.measurements.len(), 8);
    assert_eq!(whole.whole_bytes, bytes.len() as u64);
    let cut = dir.path().join("cut.jsonl");
    for length in 0..=bytes.len() {
        fs::write(&cut, &bytes[..length]).unwrap();
        let read = read(&cut).unwrap();
        let lines = bytes[..length].split(|byte| *byte == b'\n').count() - 1;
        let got = read.headers.len() + read.measurements.len();
        let surveys = bytes[..length]
            .split_inclusive(|byte| *byte == b'\n')
            .filter(|line| {
                let others = ["platforms", "predicted", "took"];
                let is_other = |kind: &&str| line.starts_with(format!("{{\"line\":\"{kind}\"").as_bytes());
                line.ends_with(b"\n") && others.iter().any(is_other)
            })
            .count();
        assert_eq!(got + surveys, lines, "cut at {length}");
        assert_eq!(read.measurements, whole.measurements[..read.measurements.len()], "cut at {length}");
        assert_eq!(read.whole_bytes + read.cut_bytes, length as u64);
    }
}

#[test]
fn cut_anywhere_it_resumes_to_the_identical_set() {
    let dir = tempfile::tempdir().unwrap();
    let rundir = complete_run(dir.path());
    let wanted = set_of(&contents(dir.path()));
    let outcomes = |dir: &Path| {
        let mut all: Vec<(String, Outcome)> = contents(dir)
            .measurements
            .into_iter()
            .map(|m| (format!("{:?} {}", m.cell, m.round), m.outcome))
            .collect();
        all.sort_by(|a, b| a.0.cmp(&b.0));
        all
    };
    let wanted_outcomes = outcomes(dir.path());
    let experiment = rundir.experiment().clone();
    drop(rundir);
    let path = dir.path().join("journal.jsonl");
    let bytes = fs::read(&path).unwrap();
    // Every line's first, middle and last bytes, and a stride through the rest.
    let ends: Vec<usize> = bytes.iter().enumerate().filter(|(_, b)| **b == b'\n').map(|(i, _)| i).collect();
    let mut cuts: Vec<usize> = (0..=bytes.len()).step_by(997).collect();
    cuts.extend(ends.iter().flat_map(|end| [end.saturating_sub(1), *end, end + 1, end + 2]));
    for length in cuts.into_iter().filter(|length| *length <= bytes.len()) {
        fs::write(&path, &bytes[..length]).unwrap();
        let rundir = RunDir::resume(dir.path()).unwrap();
        doubles::run(&rundir, obedient(&experiment));
        assert_eq!(set_of(&contents(dir.path())), wanted, "cut at {length}");
        assert_eq!(outcomes(dir.path()), wanted_outcomes, "cut at {length}");
    }
}

#[test]
fn a_garbled_line_costs_that_line_alone_and_is_measured_anew() {
    let dir = tempfile::tempdir().unwrap();
    let rundir = complete_run(dir.path());
    let experiment = rundir.experiment().clone();
    drop(rundir);
    let path = dir.path().join("journal.jsonl");
    let whole = contents(dir.path());
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let is_measurement = |(at, line): (usize, &&str)| line.contains("\"line\":\"measurement\"").then_some(at);
    let at: Vec<usize> = lines.iter().enumerate().filter_map(is_measurement).collect();
    let long = "x".repeat(bulkhead::campaign::journal::MAX_LINE_BYTES + 10);
    // In the first round, so that later rounds are there already.
    let garbled = [(at[0], "{\"line\":\"measurement\",\"cell\":{}}"), (at[1], "\0\0\0\0"), (at[2], &long)];
    for (at, damage) in garbled {
        let mut damaged = lines.clone();
        damaged[at] = damage;
        fs::write(&path, damaged.join("\n") + "\n").unwrap();
        let read = contents(dir.path());
        assert_eq!(read.lost.len(), 1, "{:?}", read.lost);
        assert_eq!(read.lost[0].line, at as u64 + 1);
        assert_eq!(read.measurements.len(), whole.measurements.len() - 1);
        assert!(!read_run(dir.path()).unwrap().complete, "what it held is missing");

        let rundir = RunDir::resume(dir.path()).unwrap();
        let mut told = Vec::new();
        run(&rundir, obedient(&experiment), &mut |event| told.push(format!("{event:?}"))).unwrap();
        assert!(told[0].contains("LostLine"), "{}", told[0]);
        let results = conclude(&rundir, &ClassSet::default()).unwrap();
        assert!(results.complete);
        assert_eq!(results.lost, read.lost, "it stays told");
        assert_eq!(set_of(&contents(dir.path())), set_of(&whole));
        assert_eq!(contents(dir.path()).measurements.len(), whole.measurements.len(), "only that one anew");
    }
}

/// Programs before rounds were a probe's own left a probe out wherever they found it known, and did not say that they were done.
#[test]
fn a_run_of_an_older_program_is_whole_though_it_would_be_planned_otherwise_today() {
    let dir = tempfile::tempdir().unwrap();
    let experiment = experiment((2, 4), PROBES);
    drop(RunDir::create(dir.path(), &experiment, 1).unwrap());
    let rundir = RunDir::resume(dir.path()).unwrap();
    doubles::run(&rundir, obedient(&experiment));
    drop(rundir);
    let path = dir.path().join("journal.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.contains("\"is_done\":true") && read_run(dir.path()).unwrap().complete);
    let text = text.replace(",\"is_done\":true", "");
    // Beside the neighbour it went on, alone it did not.
    let is_later =
        |line: &str| line.contains("\"probe\":\"gap\",\"neighbour\":null") && line.contains("\"round\":3");
    let without = |left_out: usize| {
        let mut left = left_out;
        let kept = |line: &&str| {
            !(is_later(line) && left > 0 && {
                left -= 1;
                true
            })
        };
        text.lines().filter(kept).collect::<Vec<_>>().join("\n") + "\n"
    };
    assert_eq!(text.lines().filter(|line| is_later(line)).count(), 2);
    for (left_out, is_whole) in [(0, true), (2, true), (1, false)] {
        fs::write(&path, without(left_out)).unwrap();
        assert_eq!(read_run(dir.path()).unwrap().complete, is_whole, "{left_out} left out");
    }
}

#[test]
fn a_lost_header_or_a_repeated_measurement_costs_no_more_than_its_line() {
    let dir = tempfile::tempdir().unwrap();
    complete_run(dir.path());
    let path = dir.path().join("journal.jsonl");
    let text = fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let whole = contents(dir.path());
    let mut twice = lines.clone();
    // The last line says how long it took.
    let last = lines.len() - 2;
    twice.push(lines[last]);
    fs::write(&path, twice.join("\n") + "\n").unwrap();
    let read = contents(dir.path());
    assert_eq!(read.measurements, whole.measurements);
    assert!(read.lost[0].reason.contains(&format!("repeats the measurement of line {}", last + 1)));
    let mut headless = lines.clone();
    headless[0] = "{\"line\":\"hea";
    fs::write(&path, headless.join("\n") + "\n").unwrap();
    let read = contents(dir.path());
    assert_eq!((read.measurements, read.lost[0].line), (whole.measurements, 1));
    let rundir = RunDir::resume(dir.path()).unwrap();
    let experiment = rundir.experiment().clone();
    doubles::run(&rundir, obedient(&experiment));
    assert!(
        conclude(&rundir, &ClassSet::default()).unwrap().complete,
        "the resume wrote a header of its own"
    );
}

#[test]
fn another_version_is_named_with_the_program_to_use() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal.jsonl");
    for (version, program) in [(3, "newer"), (0, "older")] {
        // A header whose other fields this program does not know.
        fs::write(&path, format!("{{\"line\":\"header\",\"schema_version\":{version},\"new\":1}}\n"))
            .unwrap();
        let error = read(&path).unwrap_err();
        assert!(matches!(error, JournalError::Version { got, .. } if got == version));
        let wanted =
            format!("written by schema {version}, this program reads 1 to 2: use the {program} program");
        assert!(error.to_string().contains(&wanted), "{error}");
    }
}

#[test]
fn a_line_that_would_not_read_back_is_not_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("journal.jsonl");
    let (mut journal, _) = Journal::open(&path).unwrap();
    journal.append(&JournalLine::Header(Box::new(header()))).unwrap();
    let before = fs::read(&path).unwrap();
    let mut endless = report(bulkhead::probes::ProbeKind::Fwq, 1);
    endless.clock.read_ns = f64::INFINITY;
    let measurement = Measurement {
        cell: experiment((1, 1), PROBES).cells()[0].clone(),
        round: 0,
        started_unix_ns: bulkhead::units::Nanos::ZERO,
        duration_ns: bulkhead::units::Nanos::ZERO,
        doses: Vec::new(),
        outcome: Outcome::Done(Box::new(endless)),
        others: Vec::new(),
        start_skew_ns: None,
        host: None,
        instances: Vec::new(),
    };
    let error = journal.append_measurement(&measurement).unwrap_err();
    assert!(matches!(error, JournalError::Unwritable { .. }), "{error}");
    assert_eq!(fs::read(&path).unwrap(), before);
}

/// A file system of a few hundred kilobytes; none, and the test is skipped, when this user cannot mount one.
struct SmallDisk(tempfile::TempDir);

impl SmallDisk {
    fn mount(kib: u32) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let options = format!("size={kib}k,mode=700");
        let flags = nix::mount::MsFlags::empty();
        match nix::mount::mount(
            Some("bulkhead-test"),
            dir.path(),
            Some("tmpfs"),
            flags,
            Some(options.as_str()),
        ) {
            Ok(()) => Some(Self(dir)),
            Err(error) => {
                skip(Need::Mount, format!("a small tmpfs cannot be mounted here: {error}"));
                None
            }
        }
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        nix::mount::umount2(self.0.path(), nix::mount::MntFlags::MNT_DETACH).unwrap();
    }
}

#[test]
fn a_full_disk_ends_the_run_with_everything_before_whole() {
    let Some(disk) = SmallDisk::mount(64) else { return };
    let experiment = experiment((50, 50), PROBES);
    let dir = disk.0.path().join("run");
    let rundir = RunDir::create(&dir, &experiment, 1).unwrap();
    let error = run(&rundir, obedient(&experiment), &mut |_| {}).unwrap_err();
    assert!(matches!(error, CampaignError::Journal(JournalError::Write { .. })), "{error}");
    assert!(error.to_string().contains("free some space, then continue with --resume"), "{error}");
    let kept = contents(&dir);
    assert_eq!(kept.cut_bytes, 0, "the line that did not fit is gone as a whole");
    assert!(kept.measurements.len() > 3, "{}", kept.measurements.len());
    drop(rundir);
    // With more room the run goes on where it ended.
    let remount = nix::mount::MsFlags::MS_REMOUNT;
    let nothing: Option<&str> = None;
    nix::mount::mount(nothing, disk.0.path(), nothing, remount, Some("size=8m")).unwrap();
    let rundir = RunDir::resume(&dir).unwrap();
    doubles::run(&rundir, obedient(&experiment));
    assert_eq!(set_of(&contents(&dir)).len(), 200);
    assert_eq!(contents(&dir).measurements[..kept.measurements.len()], kept.measurements);
}

/// A disk that takes the half of a line, and then has room again: what is written next is a line of its own.
#[test]
fn the_half_line_of_a_full_disk_swallows_no_record() {
    let Some(disk) = SmallDisk::mount(64) else { return };
    let ledger = Ledger::open(disk.0.path()).unwrap();
    let root = ledger.dir().to_owned();
    // Lines of any length, so that the end of the disk falls into one.
    let thing = |number: usize| Thing::Directory { path: root.join(format!("{number:0200}")) };
    let first = ledger.record(thing(0)).unwrap();
    let refused =
        (1..10_000).find(|number| ledger.record(thing(*number)).is_err()).expect("the disk is small");
    let remount = nix::mount::MsFlags::MS_REMOUNT;
    let nothing: Option<&str> = None;
    nix::mount::mount(nothing, disk.0.path(), nothing, remount, Some("size=1m")).unwrap();
    let wanted = root.join("made");
    let _ticket = ledger.record(Thing::Directory { path: wanted.clone() }).unwrap();
    std::fs::create_dir(&wanted).unwrap();
    ledger.undone(first);
    let text = fs::read_to_string(root.join("started.jsonl")).unwrap();
    let broken: Vec<&str> = text
        .lines()
        .filter(|line| !(line.is_empty() || line.starts_with('{') && line.ends_with('}')))
        .collect();
    assert!(broken.is_empty(), "{broken:?}");
    assert!(!text.contains(&format!("{refused:0200}")), "what was refused is not written down");
    assert_eq!(sweep(&root).len(), 1, "the record after the full disk is undone");
    assert!(!wanted.exists());
}
