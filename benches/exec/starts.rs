//! Many small programs in a row: every code must be right, and nothing may be left of any of them.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result};

use crate::verdict::Judge;
use crate::{Fixture, say};

const REAL: u64 = 100;
const FAKE: u64 = 10_000;
const RESTORED: u64 = 10_000;
/// Who interrupts a long series has what came of it so far.
const SHOWN_EACH: u64 = 500;

pub fn count(fixture: &Fixture, judge: &mut Judge) -> Result<()> {
    let real = series(fixture, "real guests", fixture.number("--real", REAL), None)?;
    judge.never(
        "starts of real guests with a wrong code or something left",
        real,
        fixture.number("--real", REAL),
    );
    let myself = std::env::current_exe()?;
    let fake = series(fixture, "a scripted QEMU", fixture.number("--fake", FAKE), Some(&myself))?;
    judge.never("the same with a scripted QEMU", fake, fixture.number("--fake", FAKE));
    Ok(())
}

/// Makes so many starts; returns how much went wrong: codes, things left behind, descriptors.
fn series(fixture: &Fixture, what: &str, count: u64, qemu: Option<&Path>) -> Result<u64> {
    let folder = tempfile::tempdir()?;
    let begun = Instant::now();
    let mut wrong = 0_u64;
    let open_before = fs::read_dir("/proc/self/fd")?.count();
    for number in 0..count {
        let code = i32::try_from(number % 256)?;
        let mut command = Command::new(fixture.exe);
        command.args(["exec", "--cold", "--accel", "tcg", "--memory", "256MiB"]);
        if let Some(qemu) = qemu {
            command.arg("--qemu").arg(qemu);
        }
        command.args(["--", "sh", "-c", &format!("exit {code}")]);
        let status = command.env("TMPDIR", folder.path()).stdin(Stdio::null()).status()?;
        wrong += u64::from(status.code() != Some(code));
    }
    let left = left_behind(folder.path())?;
    let open = fs::read_dir("/proc/self/fd")?.count() - open_before;
    let each = begun.elapsed().as_secs_f64() * 1000.0 / count.max(1) as f64;
    say(&format!(
        "{count} starts with {what}: {wrong} wrong codes, {left} files or processes and {open} descriptors left, {each:.0} ms each"
    ));
    Ok(wrong + left as u64 + open as u64)
}

/// Starts from one saved machine: besides what [`series`] counts, how many were not made from it, and how many random numbers two of
/// them had in common.
pub fn restored(fixture: &Fixture, judge: &mut Judge) -> Result<()> {
    const NUMBERS: &str = "cat /proc/sys/kernel/random/boot_id; od -An -v -tx1 -w16 -N16 /dev/urandom; exit";
    let count = fixture.number("--restored", RESTORED);
    let (folder, reports) = (tempfile::tempdir()?, tempfile::tempdir()?);
    let report = reports.path().join("report.json");
    let (mut wrong, mut booted, mut repeated, mut seen) = (0_u64, 0_u64, 0_u64, HashSet::new());
    let (begun, open_before) = (Instant::now(), fs::read_dir("/proc/self/fd")?.count());
    for number in 0..=count {
        let code = i32::try_from(number % 256)?;
        let mut command = Command::new(fixture.exe);
        command.args(["exec", "--accel", "tcg", "--memory", "256MiB"]);
        command.arg(format!("--report={}", report.display()));
        command.args(["--", "sh", "-c", &format!("{NUMBERS} {code}")]);
        let output = command.env("TMPDIR", folder.path()).stdin(Stdio::null()).output()?;
        let said = String::from_utf8(output.stdout)?;
        wrong += u64::from(output.status.code() != Some(code) || said.lines().count() != 2);
        repeated += said.lines().map(|line| u64::from(!seen.insert(line.to_owned()))).sum::<u64>();
        let report: serde_json::Value = serde_json::from_slice(&fs::read(&report)?)?;
        // The first one may have to save it.
        booted += u64::from(number > 0 && report["restored"] != true);
        if number > 0 && number % SHOWN_EACH == 0 {
            say(&format!("{number}: {wrong} wrong, {booted} booted, {repeated} repeated so far"));
        }
    }
    let left = left_behind(folder.path())? as u64;
    let open = (fs::read_dir("/proc/self/fd")?.count() - open_before) as u64;
    let each = begun.elapsed().as_secs_f64() * 1000.0 / count.max(1) as f64;
    say(&format!(
        "{count} starts from a saved machine: {wrong} wrong codes or answers, {booted} booted after all, {repeated} random numbers \
         seen before, {left} files or processes and {open} descriptors left, {each:.0} ms each"
    ));
    let failures = wrong + booted + repeated + left + open;
    judge.never(
        "starts from a saved machine, wrong, booted, with a random number seen before, or something left",
        failures,
        count,
    );
    Ok(())
}

/// Files in the folder, and processes that have it as theirs.
fn left_behind(folder: &Path) -> Result<usize> {
    let files = fs::read_dir(folder).context("the folder")?.count();
    let mark = format!("TMPDIR={}", folder.display());
    let is_ours = |path: &Path| {
        let environment = fs::read(path.join("environ")).unwrap_or_default();
        environment.split(|byte| *byte == 0).any(|word| word == mark.as_bytes())
    };
    Ok(files + fs::read_dir("/proc")?.flatten().filter(|entry| is_ours(&entry.path())).count())
}
