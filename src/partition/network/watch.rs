//! Tells a guest's cards what became of their switches. QEMU says that a switch came or went, but leaves the card's
//! carrier as it was; without this nobody in the guest would notice, and no standby would take over.
//!
//! ```text
//!  switch dies ─► QEMU: NETDEV_STREAM_DISCONNECTED plug1 ─► set_link card1 off ─► guest: carrier lost ─► standby
//!  switch dials ─► QEMU: NETDEV_STREAM_CONNECTED plug1 ───► set_link card1 on
//! ```
//! Source: QEMU's `qapi/net.json`. The other end runs the guest: lines are bounded, and what is no such event does
//! nothing. A switch that hangs without dying is not noticed here.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};

/// Longest line that is read.
const LONGEST_LINE: u64 = 64 * 1024;
/// How long QEMU may take to read a command.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// QEMU's words for a switch that is there.
const CONNECTED: &str = "NETDEV_STREAM_CONNECTED";
/// QEMU's words for a switch that has gone.
const DISCONNECTED: &str = "NETDEV_STREAM_DISCONNECTED";

/// Watches the plugs of a machine over its second control channel, in a thread that ends with the machine.
///
/// # Errors
/// When no thread can be started.
pub fn watch(control: UnixStream) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name("plugs".to_owned()).spawn(move || {
        // However it ends: without QEMU there is nobody left to tell.
        let _ = follow(&control);
    })
}

fn follow(control: &UnixStream) -> io::Result<()> {
    control.set_write_timeout(Some(WRITE_TIMEOUT))?;
    let mut lines = BufReader::new(control);
    say(control, &json!({ "execute": "qmp_capabilities" }))?;
    // Answered with how things stand; what changes after that is told by events.
    say(
        control,
        &json!({
            "execute": "human-monitor-command", "arguments": { "command-line": "info network" }, "id": "now",
        }),
    )?;
    loop {
        let mut line = Vec::new();
        let read = (&mut lines).take(LONGEST_LINE).read_until(b'\n', &mut line)?;
        if read == 0 || !line.ends_with(b"\n") {
            return Ok(());
        }
        let message = serde_json::from_slice(&line).unwrap_or(Value::Null);
        for (plug, there) in changes(&message) {
            say(
                control,
                &json!({
                    "execute": "set_link", "arguments": { "name": format!("card{plug}"), "up": there },
                }),
            )?;
        }
    }
}

fn say(mut control: &UnixStream, command: &Value) -> io::Result<()> {
    control.write_all(format!("{command}\n").as_bytes())
}

/// Plugs of which a message says whether their switch is there.
fn changes(message: &Value) -> Vec<(u32, bool)> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    if let Some(event) = message.get("event").and_then(text) {
        let plug = message.get("data").and_then(|data| text(data.get("netdev-id")?));
        let plug = plug.and_then(|plug| number(&plug));
        let there = [(CONNECTED, true), (DISCONNECTED, false)].into_iter().find(|(name, _)| *name == event);
        return plug.zip(there.map(|(_, there)| there)).into_iter().collect();
    }
    if message.get("id").and_then(Value::as_str) != Some("now") {
        return Vec::new();
    }
    let lines = message.get("return").and_then(text).unwrap_or_default();
    lines.lines().filter_map(state).collect()
}

/// ` \ plug0: index=0,type=stream,` of a plug that waits; behind the last comma is who is there.
fn state(line: &str) -> Option<(u32, bool)> {
    let (name, rest) = line.trim_start_matches([' ', '\\']).split_once(':')?;
    let (_, who) = rest.split_once("type=stream,")?;
    Some((number(name)?, !matches!(who.trim(), "" | "listening")))
}

fn number(plug: &str) -> Option<u32> {
    plug.strip_prefix("plug")?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_and_the_state_at_the_beginning_are_understood() {
        let event = |name: &str, id: &str| json!({ "event": name, "data": { "netdev-id": id } });
        assert_eq!(changes(&event(CONNECTED, "plug3")), [(3, true)]);
        assert_eq!(changes(&event(DISCONNECTED, "plug0")), [(0, false)]);
        let now = "card0: index=0,type=nic,model=virtio-net-pci,macaddr=02:4b:0a:4d:01:01\r\n \\ plug0: \
                   index=0,type=stream,\r\ncard1: index=0,type=nic,model=virtio-net-pci,macaddr=02\r\n \\ plug1: \
                   index=0,type=stream,unix:/x/1.sock\r\n";
        assert_eq!(changes(&json!({ "return": now, "id": "now" })), [(0, false), (1, true)]);
        for strange in [
            Value::Null,
            json!({ "return": now }),
            json!({ "return": {}, "id": "now" }),
            event("STOP", "plug0"),
            event(CONNECTED, "plug"),
            event(CONNECTED, "net0"),
            json!({ "event": 7, "data": [] }),
        ] {
            assert_eq!(changes(&strange), [], "{strange}");
        }
    }

    #[test]
    fn it_ends_with_qemu_and_a_flood_ends_it() {
        for last in [Vec::new(), vec![b'x'; 200_000]] {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let watching = watch(ours).unwrap();
            let mut out = theirs.try_clone().unwrap();
            let mut lines = BufReader::new(theirs).lines();
            for _ in 0..2 {
                lines.next().unwrap().unwrap();
            }
            writeln!(out, "{}", json!({ "event": DISCONNECTED, "data": { "netdev-id": "plug1" } })).unwrap();
            let said: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
            assert_eq!(said["arguments"], json!({ "name": "card1", "up": false }));
            // The other end may have hung up in the middle of the flood: that is what is wanted.
            let _ = out.write_all(&last);
            drop((out, lines));
            watching.join().unwrap();
        }
    }
}
