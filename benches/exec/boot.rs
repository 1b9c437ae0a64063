//! The whole command against a plain QEMU boot, or against another version of itself, in turn.

use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Result, ensure};
use nix::sys::resource::{UsageWho, getrusage};

use crate::verdict::{Judge, Mark};
use crate::{Fixture, guest, say};

const MARK: f64 = 0.45;
/// Of one whose guest is made from a saved machine.
const RESTORED_MARK: f64 = 0.25;
const ROUNDS: u64 = 7;
/// Of what QEMU's wall may cost, and how many pairs it takes to tell.
const WALL_MARK: f64 = 1.05;
const WALL_ROUNDS: u64 = 36;
/// Memory of both guests.
pub const MEMORY_MIB: u64 = 512;

pub fn compare(fixture: &Fixture, judge: &mut Judge) -> Result<()> {
    let (mut ratios, mut cpu_ratios, mut restored_ratios) = (Vec::new(), Vec::new(), Vec::new());
    // The first one saves its machine.
    ours(fixture.exe, &[])?;
    for round in 0..fixture.number("--rounds", ROUNDS) {
        let idle = children_cpu_s()?;
        let plain = plain(fixture)?;
        let between = children_cpu_s()?;
        let ours_booted = ours(fixture.exe, &["--cold"])?;
        let (plain_cpu, ours_cpu) = (between - idle, children_cpu_s()? - between);
        let restored = restored(fixture)?;
        say(&format!(
            "round {round}: plain {plain:.2} s (CPU {plain_cpu:.2} s), exec --cold {ours_booted:.2} s (CPU {ours_cpu:.2} s), \
             ratio {:.3}; exec, restored {restored:.3} s, ratio {:.4}",
            ours_booted / plain,
            restored / plain
        ));
        ratios.push(ours_booted / plain);
        restored_ratios.push(restored / plain);
        cpu_ratios.push(ours_cpu / plain_cpu);
    }
    // On a busy host the waiting shows in the times, not here.
    judge.rounds("CPU time of exec --cold -- /bin/true / plain boot", &cpu_ratios, Mark::AtMost(MARK));
    judge.rounds("exec --cold -- /bin/true / plain boot", &ratios, Mark::AtMost(MARK));
    judge.rounds("exec -- /bin/true, restored / plain boot", &restored_ratios, Mark::AtMost(RESTORED_MARK));
    say(&memory(fixture)?);
    Ok(())
}

/// As anybody calls it; that its guest came from a saved machine is looked up in its report, which costs it a file.
fn restored(fixture: &Fixture) -> Result<f64> {
    let report = tempfile::NamedTempFile::new()?;
    let seconds = ours(fixture.exe, &[&format!("--report={}", report.path().display())])?;
    let report: serde_json::Value = serde_json::from_reader(report.as_file())?;
    ensure!(report["restored"] == true, "it was not restored: {}", report["not_restored"]);
    Ok(seconds)
}

/// CPU seconds of all children that have ended, and of theirs.
fn children_cpu_s() -> Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    Ok(seconds(usage.user_time()) + seconds(usage.system_time()))
}

/// Against another version of the program: one of before QEMU had a wall tells what that costs.
pub fn wall(fixture: &Fixture, judge: &mut Judge) -> Result<()> {
    const WHAT: &str = "exec -- /bin/true / the same by the program named";
    let Some(other) = fixture.word("--against") else {
        judge.not_taken(WHAT, "wanted --against PROGRAM, bulkhead as it was at 625ed3a");
        return Ok(());
    };
    let mut ratios = Vec::new();
    for round in 0..fixture.number("--rounds", WALL_ROUNDS) {
        // Each goes first as often as the other.
        let (now, before) = if round % 2 == 0 {
            let now = ours(fixture.exe, &["--cold"])?;
            (now, ours(Path::new(other), &[])?)
        } else {
            let before = ours(Path::new(other), &[])?;
            (ours(fixture.exe, &["--cold"])?, before)
        };
        say(&format!("round {round}: now {now:.2} s, before {before:.2} s, ratio {:.3}", now / before));
        ratios.push(now / before);
    }
    judge.rounds(WHAT, &ratios, Mark::AtMost(WALL_MARK));
    Ok(())
}

fn ours(exe: &Path, words: &[&str]) -> Result<f64> {
    let begun = Instant::now();
    let memory = format!("{MEMORY_MIB}MiB");
    let status = Command::new(exe)
        .args(["exec", "--accel", "tcg", "--memory", &memory])
        .args(words)
        .args(["--", "/bin/true"])
        .stdin(Stdio::null())
        .status()?;
    ensure!(status.success(), "exec -- /bin/true ended with {status}");
    Ok(begun.elapsed().as_secs_f64())
}

fn plain(fixture: &Fixture) -> Result<f64> {
    let initrd = guest::first_files(fixture, "true")?;
    let begun = Instant::now();
    let output = Command::new(&fixture.tools.qemu)
        .arg("-kernel")
        .arg(&fixture.tools.kernel.image)
        // The child opens it through our table of descriptors: in its own it is closed by then.
        .args(["-initrd", &format!("/proc/{}/fd/{}", std::process::id(), initrd.as_raw_fd())])
        .args(["-append", "console=ttyS0 panic=-1", "-nographic", "-no-reboot", "-accel", "tcg"])
        .args(["-m", &format!("{MEMORY_MIB}M")])
        .args(["-fsdev", "local,id=root,security_model=none,multidevs=remap,readonly=on,path=/"])
        .args(["-device", "virtio-9p-pci,fsdev=root,mount_tag=root", "-device", "virtio-serial-pci"])
        .stdin(Stdio::null())
        .output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(said.contains("true ended with exit status: 0"), "the plain guest did not run it:\n{said}");
    Ok(begun.elapsed().as_secs_f64())
}

/// What of a guest's memory its program does not get.
fn memory(fixture: &Fixture) -> Result<String> {
    let memory = format!("{MEMORY_MIB}MiB");
    let output = Command::new(fixture.exe)
        .args(["exec", "--accel", "tcg", "--memory", &memory, "--report", "--", "/bin/true"])
        .stdin(Stdio::null())
        .output()?;
    let report: serde_json::Value = serde_json::from_slice(&output.stderr)?;
    let free = report["guest_free_bytes"].as_u64().unwrap_or(0) as f64 / f64::from(1 << 20);
    Ok(format!(
        "of {MEMORY_MIB} MiB the program can have {free:.0} MiB: {:.0} MiB are kernel, its tables, file system and init",
        MEMORY_MIB as f64 - free
    ))
}
