//! Ends a partition whose saved layer the host cannot write: told of it, its guest would note its file system as damaged, and it would
//! be refused from then on. Ended in the middle, it is as after any kill: the journal has what was synced.
//!
//! ```text
//!  no room on the host ─► QEMU stops the guest: BLOCK_IO_ERROR ─► QEMU is killed ─► how it ended says why
//! ```
//! Source: QEMU's `qapi/block-core.json`, and its manual on `werror`.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use rustix::fs::statvfs;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde_json::Value;

use platforms::console::harmless;
use platforms::vm::qmp::Qmp;
use units::Bytes;

/// QEMU's word for what it could not read or write.
const FAILED: &str = "BLOCK_IO_ERROR";

/// Whether, and by what, a guest was stopped.
#[derive(Debug, Clone, Default)]
pub struct Stopped(Arc<OnceLock<Why>>);

#[derive(Debug)]
enum Why {
    NoRoom,
    Other(String),
}

/// Watches the machine of a QEMU that was just started and not waited for, in a thread that ends with it.
///
/// # Errors
/// When no thread can be started, or there is no such process.
pub fn watch(events: UnixStream, qemu: u32) -> io::Result<Stopped> {
    let pid = i32::try_from(qemu).ok().and_then(Pid::from_raw).ok_or(io::ErrorKind::InvalidInput)?;
    let qemu = pidfd_open(pid, PidfdFlags::empty())?;
    let stopped = Stopped::default();
    let told = stopped.clone();
    std::thread::Builder::new()
        .name("layer".to_owned())
        .spawn(move || until_stopped(&mut Qmp::new(events), &qemu, &told))?;
    Ok(stopped)
}

fn until_stopped(control: &mut Qmp, qemu: &OwnedFd, told: &Stopped) {
    // Without QEMU there is nothing left to end.
    while let Ok(event) = control.event(FAILED) {
        if let Some(why) = why(&event) {
            let _ = told.0.set(why);
            // It may have ended by now, which is what is wanted.
            let _ = pidfd_send_signal(qemu, Signal::KILL);
            return;
        }
    }
}

/// Why QEMU has stopped the guest; none where it has told it instead.
fn why(event: &Value) -> Option<Why> {
    let text = |key: &str| event.get(key).and_then(Value::as_str);
    if text("action") != Some("stop") {
        return None;
    }
    if event.get("nospace").and_then(Value::as_bool) == Some(true) {
        return Some(Why::NoRoom);
    }
    Some(Why::Other(harmless(text("reason").unwrap_or("no reason is told").as_bytes())))
}

impl Stopped {
    /// What to do, where a guest was stopped.
    pub fn advice(&self, folder: &Path) -> Option<String> {
        let shown = folder.display();
        Some(match self.0.get()? {
            Why::NoRoom => {
                let free = statvfs(folder).map_or(0, |found| found.f_bavail.saturating_mul(found.f_frsize));
                let free = Bytes::from_bytes(free);
                format!(
                    "the file system of this host that holds the saved layer in {shown} is full ({free} free): make room and start again; \
                     what was synced is kept"
                )
            }
            Why::Other(reason) => format!(
                "the host could not write the saved layer in {shown}: {reason}. Once it can, start again; what was synced is kept"
            ),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader, Write};
    use std::process::Command;

    use super::*;

    /// What is to be done once a QEMU, for which a process stands, has said these events; it is ended if there is.
    fn advice(events: &[&str]) -> Option<String> {
        let mut qemu = Command::new("sleep").arg("1000").spawn().unwrap();
        let (ours, theirs) = UnixStream::pair().unwrap();
        let stopped = watch(ours, qemu.id()).unwrap();
        let mut out = theirs.try_clone().unwrap();
        let mut lines = BufReader::new(theirs).lines();
        writeln!(out, r#"{{"QMP": {{}}}}"#).unwrap();
        assert!(lines.next().unwrap().unwrap().contains("qmp_capabilities"));
        writeln!(out, r#"{{"return": {{}}}}"#).unwrap();
        for event in events {
            // Who has heard enough has hung up.
            let _ = writeln!(out, "{event}");
        }
        // Or has hung up already.
        let _ = out.shutdown(std::net::Shutdown::Write);
        // It hangs up when it has seen all, and done what is to be done; what it did not read any more makes that a reset.
        let is_reset = |line: std::io::Result<String>| {
            line.is_err_and(|why| why.kind() == std::io::ErrorKind::ConnectionReset)
        };
        assert!(lines.next().is_none_or(is_reset));
        let advice = stopped.advice(Path::new("/"));
        if advice.is_none() {
            assert!(qemu.try_wait().unwrap().is_none(), "{events:?}");
            qemu.kill().unwrap();
        }
        assert!(!qemu.wait().unwrap().success());
        advice
    }

    #[test]
    fn what_cannot_be_written_ends_qemu_and_is_told() {
        let full = r#"{"event": "BLOCK_IO_ERROR", "data": {"action": "stop", "nospace": true, "reason": "No space left"}}"#;
        let broken = r#"{"event": "BLOCK_IO_ERROR", "data": {"action": "stop", "nospace": false, "reason": "Input/output \u001b error"}}"#;
        let reported =
            r#"{"event": "BLOCK_IO_ERROR", "data": {"action": "report", "reason": "No space left"}}"#;
        let other = r#"{"event": "STOP", "data": {}}"#;
        let said = advice(&[other, reported, full, broken]).expect("it was stopped");
        assert!(said.contains("is full") && said.contains("what was synced is kept"), "{said}");
        let said = advice(&[broken]).expect("it was stopped");
        assert!(said.contains("could not write") && said.contains("Input/output"), "{said}");
        assert!(!said.contains('\u{1b}'), "{said}");
        for nothing in [&[other, reported][..], &["no JSON", full], &[]] {
            assert_eq!(advice(nothing), None, "{nothing:?}");
        }
    }
}
