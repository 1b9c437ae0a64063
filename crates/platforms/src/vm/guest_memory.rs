//! Where a guest's memory lies in QEMU, and from that on which memory nodes of the host its pages are.
//!
//! ```text
//!  QEMU:   query-memory-size-summary, gpa2hva 0 ─► size, address of the first byte
//!  kernel: /proc/PID/numa_maps, the line of that address ─► bytes on each node of the host
//! ```
//! The guest cannot say: whatever it asks its kernel, it is told the nodes it was made to see.

use std::time::Duration;

use serde_json::{Value, json};

use super::qmp::Qmp;
use crate::host::numa_maps;
use model::partition::GivenMemory;
use units::{Mebibytes, Reason};

/// How long QEMU may take to answer.
const ANSWER_GRACE: Duration = Duration::from_secs(30);

/// A guest's memory as QEMU knows it; it stays where it is as long as QEMU runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Whereabouts {
    /// How much it is.
    pub size: Mebibytes,
    /// Address of its first byte in QEMU; none when QEMU does not say.
    pub first_byte: Option<u64>,
}

/// Asks QEMU.
///
/// # Errors
/// It refuses, or says what cannot be understood.
pub fn whereabouts(control: &mut Qmp) -> Result<Whereabouts, Reason> {
    let summary = control.query("query-memory-size-summary", &Value::Null, ANSWER_GRACE)?;
    let bytes = summary.get("base-memory").and_then(Value::as_u64);
    let bytes = bytes.ok_or("qemu's answer to query-memory-size-summary has no base-memory")?;
    let command = json!({ "command-line": "gpa2hva 0" });
    let answer = control.query("human-monitor-command", &command, ANSWER_GRACE)?;
    Ok(Whereabouts { size: Mebibytes::from_mib(bytes >> 20), first_byte: address(&answer) })
}

/// Asks the kernel; none where it knows no memory nodes.
///
/// # Errors
/// It does not let us look, or the guest's memory is not there.
pub fn on_host(pid: u32, guest: Whereabouts) -> Result<Option<GivenMemory>, Reason> {
    let maps = numa_maps::read(pid)?;
    maps.map(|maps| numa_maps::guest_memory(&maps, guest.first_byte, guest.size)).transpose()
}

/// From `Host virtual address for 0x0 (pc.ram) is 0x7efdc3e00000`.
fn address(answer: &Value) -> Option<u64> {
    let (_, hex) = answer.as_str()?.trim().rsplit_once("is 0x")?;
    u64::from_str_radix(hex, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn qemus_answer_is_understood() {
        let answer = json!("Host virtual address for 0x0 (mem0) is 0x7f8a9cf7d000\r\n");
        assert_eq!(address(&answer), Some(0x7f8a_9cf7_d000));
        assert_eq!(address(&json!("Memory at address 0x0 is not RAM")), None);
    }
}
