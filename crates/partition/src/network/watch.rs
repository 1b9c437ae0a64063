//! Tells a guest's cards what became of their switches. QEMU says that a switch came or went, but leaves the card's
//! carrier as it was; without this nobody in the guest would notice, and no standby would take over.
//!
//! ```text
//!  switch dies ─► QEMU: NETDEV_STREAM_DISCONNECTED plug1 ─► set_link card1 off ─► guest: carrier lost ─► standby
//!  switch dials ─► QEMU: NETDEV_STREAM_CONNECTED plug1 ───► set_link card1 on
//!  switch hangs ─► no beats (heartbeat) ────────────────► set_link card1 off, on again with the next beat
//! ```
//! Source: QEMU's `qapi/net.json`. The other end runs the guest: lines are bounded, and what is no such event does
//! nothing.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::heartbeat::{BEAT_EVERY, HANGS_AFTER, Heartbeat};

/// Longest line that is read.
const LONGEST_LINE: usize = 64 * 1024;
/// How long QEMU may take to read a command.
const WRITE_TIMEOUT: Duration = Duration::from_secs(10);
/// QEMU's words for a switch that is there.
const CONNECTED: &str = "NETDEV_STREAM_CONNECTED";
/// QEMU's words for a switch that has gone.
const DISCONNECTED: &str = "NETDEV_STREAM_DISCONNECTED";

/// Watches the plugs of a machine over its second control channel, in a thread that ends with the machine. For each plug
/// goes the file in which its switch beats, if that is to be watched, too.
///
/// # Errors
/// When no thread can be started.
pub fn watch(control: UnixStream, beats: Vec<Option<PathBuf>>) -> io::Result<JoinHandle<()>> {
    std::thread::Builder::new().name("plugs".to_owned()).spawn(move || {
        // However it ends: without QEMU there is nobody left to tell.
        let _ = follow(&control, beats.into_iter().map(Plug::new).collect());
    })
}

/// A plug, and what its card was told.
struct Plug {
    heartbeat: Option<Heartbeat>,
    /// Whether QEMU says that a switch is there.
    there: Option<bool>,
    hangs: bool,
    told: Option<bool>,
}

impl Plug {
    fn new(beats: Option<PathBuf>) -> Self {
        let heartbeat = beats.map(|path| Heartbeat::of(path, HANGS_AFTER));
        Self { heartbeat, there: None, hangs: false, told: None }
    }

    fn look(&mut self) {
        self.hangs = self.heartbeat.as_mut().is_some_and(|heartbeat| !heartbeat.look());
    }

    /// What its card is to be told now.
    fn news(&mut self) -> Option<bool> {
        let up = self.there? && !self.hangs;
        (self.told.replace(up) != Some(up)).then_some(up)
    }
}

fn follow(control: &UnixStream, mut plugs: Vec<Plug>) -> io::Result<()> {
    control.set_write_timeout(Some(WRITE_TIMEOUT))?;
    let mut lines = BufReader::new(control);
    say(control, &json!({ "execute": "qmp_capabilities" }))?;
    // Answered with how things stand; what changes after that is told by events. QEMU looks first and sends its answer
    // later: an event that comes before the answer may be of after the look, and is as new in any case.
    say(
        control,
        &json!({
            "execute": "human-monitor-command", "arguments": { "command-line": "info network" }, "id": "now",
        }),
    )?;
    let is_looking = plugs.iter().any(|plug| plug.heartbeat.is_some());
    let mut look_at = Instant::now() + BEAT_EVERY;
    let mut line = Vec::new();
    loop {
        let now = Instant::now();
        if is_looking && now >= look_at {
            plugs.iter_mut().for_each(Plug::look);
            look_at = now + BEAT_EVERY;
        }
        for (number, plug) in plugs.iter_mut().enumerate() {
            if let Some(up) = plug.news() {
                let arguments = json!({ "name": format!("card{number}"), "up": up });
                say(control, &json!({ "execute": "set_link", "arguments": arguments }))?;
            }
        }
        let patience = look_at.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        control.set_read_timeout(is_looking.then_some(patience))?;
        let room = LONGEST_LINE.saturating_sub(line.len());
        match (&mut lines).take(room as u64).read_until(b'\n', &mut line) {
            Ok(_) if line.ends_with(b"\n") => {
                let message = serde_json::from_slice(&line).unwrap_or(Value::Null);
                let is_event = message.get("event").is_some();
                for (number, there) in changes(&message) {
                    if let Some(plug) = plugs.get_mut(number).filter(|plug| is_event || plug.there.is_none())
                    {
                        plug.there = Some(there);
                    }
                }
                line.clear();
            }
            Ok(_) => return Ok(()),
            // What has come of the line stays.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

fn say(mut control: &UnixStream, command: &Value) -> io::Result<()> {
    control.write_all(format!("{command}\n").as_bytes())
}

/// Plugs of which a message says whether their switch is there.
pub fn changes(message: &Value) -> Vec<(usize, bool)> {
    let text = |value: &Value| value.as_str().map(str::to_owned);
    if let Some(event) = message.get("event") {
        let event = text(event).unwrap_or_default();
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
fn state(line: &str) -> Option<(usize, bool)> {
    let (name, rest) = line.trim_start_matches([' ', '\\']).split_once(':')?;
    let (_, who) = rest.split_once("type=stream,")?;
    Some((number(name)?, !matches!(who.trim(), "" | "listening")))
}

fn number(plug: &str) -> Option<usize> {
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

    /// Regression: a switch that dialled between QEMU's look and its answer was never there.
    #[test]
    fn an_answer_that_comes_late_changes_nothing() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let watching = watch(ours, vec![None]).unwrap();
        let mut out = theirs.try_clone().unwrap();
        let connected = json!({ "event": CONNECTED, "data": { "netdev-id": "plug0" } });
        writeln!(out, "{connected}").unwrap();
        writeln!(out, "{}", json!({ "return": " \\ plug0: index=0,type=stream,\r\n", "id": "now" })).unwrap();
        out.shutdown(std::net::Shutdown::Write).unwrap();
        watching.join().unwrap();
        let said = BufReader::new(theirs).lines().skip(2).map(|line| line.unwrap());
        let told = said
            .map(|line| serde_json::from_str::<Value>(&line).unwrap()["arguments"]["up"].as_bool().unwrap());
        assert_eq!(told.collect::<Vec<_>>(), [true]);
    }

    #[test]
    fn it_ends_with_qemu_and_a_flood_ends_it() {
        for last in [Vec::new(), vec![b'x'; 200_000]] {
            let (ours, theirs) = UnixStream::pair().unwrap();
            let watching = watch(ours, vec![None, None]).unwrap();
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

    #[test]
    fn a_switch_that_hangs_is_told_and_that_it_is_back() {
        use super::super::heartbeat::{Beat, beat_file};

        let link = tempfile::tempdir().unwrap();
        let mut beat = Beat::begin(link.path()).unwrap();
        beat.beat();
        let (ours, theirs) = UnixStream::pair().unwrap();
        let watching = watch(ours, vec![Some(beat_file(link.path()))]).unwrap();
        let mut out = theirs.try_clone().unwrap();
        let mut lines = BufReader::new(theirs).lines();
        for _ in 0..2 {
            lines.next().unwrap().unwrap();
        }
        let mut told = || {
            let said: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
            said["arguments"]["up"].as_bool().unwrap()
        };
        // In two parts, between which it is looked for beats.
        let event = json!({ "event": CONNECTED, "data": { "netdev-id": "plug0" } }).to_string();
        let (first, second) = event.split_at(20);
        out.write_all(first.as_bytes()).unwrap();
        std::thread::sleep(BEAT_EVERY * 2);
        beat.beat();
        writeln!(out, "{second}").unwrap();
        assert_eq!([told(), told()], [true, false]);
        beat.beat();
        assert!(told());
        writeln!(out, "{}", json!({ "event": DISCONNECTED, "data": { "netdev-id": "plug0" } })).unwrap();
        assert!(!told(), "whatever it is, it is gone");
        drop((out, lines));
        watching.join().unwrap();
    }
}
