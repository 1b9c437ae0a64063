//! A machine's state out of QEMU and into another one, without its memory, which is a file that we have ourselves; and the device that no
//! saved machine may have.
//!
//! ```text
//!  QEMU, stopped ── x-ignore-shared, migrate ──► socket ──► bytes ──► a file in memory ── migrate-incoming ──► QEMU, paused
//! ```
//! Sources: QEMU's `docs/devel/migration.rst`, `qapi/migration.json`.

use std::io::{self, Read};
use std::os::fd::{AsFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::guest::FILES_TAG;
use super::qemu::{FILES_CHARDEV, FILES_QUEUE, LATE_PORT};
use super::qmp::Qmp;
use units::Reason;

/// How long QEMU may take to answer.
const ANSWER: Duration = Duration::from_secs(10);
/// How long state may take on its way; usual are 10 ms.
const TRANSFER: Duration = Duration::from_secs(20);
/// Most state of devices, in bytes; usual are 150 kB.
const MOST_STATE_BYTES: u64 = 32 << 20;
/// How often QEMU is asked how far it is.
const LOOK: Duration = Duration::from_millis(1);
/// By which QEMU knows the socket that state goes to.
const OUT: &str = "state";

/// Takes the state of all devices of a stopped machine. It may go on afterwards.
///
/// # Errors
/// QEMU refuses, or does not come to an end.
pub fn save(control: &mut Qmp) -> Result<Vec<u8>, Reason> {
    let failed = |error: io::Error| format!("a machine's state: {error}");
    let (ours, theirs) = UnixStream::pair().map_err(failed)?;
    ours.set_read_timeout(Some(TRANSFER)).map_err(failed)?;
    ignore_shared_memory(control)?;
    control.hand_over(OUT, theirs.as_fd(), ANSWER)?;
    drop(theirs);
    control.query("migrate", &json!({ "uri": format!("fd:{OUT}") }), ANSWER)?;
    let mut state = Vec::new();
    ours.take(MOST_STATE_BYTES + 1).read_to_end(&mut state).map_err(failed)?;
    if state.len() as u64 > MOST_STATE_BYTES {
        return Err(format!("a machine's state of more than {MOST_STATE_BYTES} bytes").into());
    }
    until_completed(control)?;
    Ok(state)
}

/// Gives a machine that was started for it the state in this descriptor, one that QEMU has inherited. Its memory must be
/// as it was.
///
/// # Errors
/// QEMU refuses it; it ends then.
pub fn restore(control: &mut Qmp, state: RawFd) -> Result<(), Reason> {
    ignore_shared_memory(control)?;
    control.query("migrate-incoming", &json!({ "uri": format!("fd:{state}") }), ANSWER)?;
    until_completed(control)
}

/// Plugs in the device of the guest's files.
///
/// # Errors
/// QEMU refuses.
pub fn plug_files(control: &mut Qmp) -> Result<(), Reason> {
    let device = json!({
        "driver": "vhost-user-fs-pci", "id": "files0", "bus": LATE_PORT, "chardev": FILES_CHARDEV, "tag": FILES_TAG,
        "queue-size": FILES_QUEUE,
    });
    control.query("device_add", &device, ANSWER).map(drop)
}

fn ignore_shared_memory(control: &mut Qmp) -> Result<(), Reason> {
    let capabilities = json!({ "capabilities": [{ "capability": "x-ignore-shared", "state": true }] });
    control.query("migrate-set-capabilities", &capabilities, ANSWER).map(drop)
}

fn until_completed(control: &mut Qmp) -> Result<(), Reason> {
    let until = Instant::now() + TRANSFER;
    while Instant::now() < until {
        let answer = control.query("query-migrate", &Value::Null, ANSWER)?;
        match answer.get("status").and_then(Value::as_str) {
            Some("completed") => return Ok(()),
            Some(status @ ("failed" | "cancelled")) => {
                return Err(format!("a machine's state: qemu says {status}").into());
            }
            _ => std::thread::sleep(LOOK),
        }
    }
    Err(format!("a machine's state: qemu has not come to its end within {} s", TRANSFER.as_secs()).into())
}
