//! Many small programs in a row: every code must be right, and nothing may be left of any of them.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result};

use crate::verdict::Judge;
use crate::{Kit, say};

const REAL: u64 = 100;
const FAKE: u64 = 10_000;

pub fn count(kit: &Kit, judge: &mut Judge) -> Result<()> {
    let real = series(kit, "real guests", kit.number("--real", REAL), None)?;
    judge.never(
        "starts of real guests with a wrong code or something left",
        real,
        kit.number("--real", REAL),
    );
    let myself = std::env::current_exe()?;
    let fake = series(kit, "a scripted QEMU", kit.number("--fake", FAKE), Some(&myself))?;
    judge.never("the same with a scripted QEMU", fake, kit.number("--fake", FAKE));
    Ok(())
}

/// Makes so many starts; returns how much went wrong: codes, things left behind, descriptors.
fn series(kit: &Kit, what: &str, count: u64, qemu: Option<&Path>) -> Result<u64> {
    let folder = tempfile::tempdir()?;
    let begun = Instant::now();
    let mut wrong = 0_u64;
    let open_before = fs::read_dir("/proc/self/fd")?.count();
    for number in 0..count {
        let code = i32::try_from(number % 256)?;
        let mut command = Command::new(kit.exe);
        command.args(["exec", "--accel", "tcg", "--memory", "256MiB"]);
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
