//! QEMU's control channel, as much of it as is needed: stop and continue the CPUs, ask what there is, quit.
//!
//! One JSON object per line in both directions over an inherited socket, so nothing listens. The other end runs the
//! guest: lines are bounded and every wait has a deadline. Source: QEMU's `docs/interop/qmp-spec.rst`.
//!
//! ```text
//!  greeting ──► qmp_capabilities ──► command ──► events… , return | error ──► command …
//! ```

use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use nix::sys::socket::{ControlMessage, MsgFlags, sendmsg};
use serde_json::{Value, json};

use crate::console::harmless;
use units::Reason;

/// Longest line that is read: `query-cpus-fast` takes some 200 bytes per CPU. `query-qmp-schema`, which is never asked
/// for, would be longer.
const MAX_LINE_BYTES: usize = 128 * 1024;
/// Longer than any QEMU runs.
const FOR_EVER: Duration = Duration::from_secs(10 * 365 * 86_400);
/// Most lines that are skipped while waiting for one answer.
const MAX_LINES: usize = 1000;

/// The control channel.
#[derive(Debug)]
pub struct Qmp {
    stream: UnixStream,
    pending: Vec<u8>,
    ready: bool,
}

impl Qmp {
    /// Over the host's end of the socket. Nothing is said before the first command.
    pub fn new(stream: UnixStream) -> Self {
        Self { stream, pending: Vec::new(), ready: false }
    }

    /// Stops the CPUs; time in the guest stands still.
    pub fn stop(&mut self, timeout: Duration) -> Result<(), Reason> {
        self.execute("stop", timeout).map(drop)
    }

    /// Lets the CPUs run again.
    pub fn cont(&mut self, timeout: Duration) -> Result<(), Reason> {
        self.execute("cont", timeout).map(drop)
    }

    /// Presses the power button; a guest's operating system ends itself then, if it likes.
    pub fn power_button(&mut self, timeout: Duration) -> Result<(), Reason> {
        self.execute("system_powerdown", timeout).map(drop)
    }

    /// Ends QEMU.
    pub fn quit(&mut self, timeout: Duration) -> Result<(), Reason> {
        self.execute("quit", timeout).map(drop)
    }

    /// Asks something; what it answers is as QEMU wrote it. Events that come meanwhile are dropped.
    ///
    /// # Errors
    /// It refuses, says nothing in time, or has ended; the command is named.
    pub fn query(&mut self, command: &str, arguments: &Value, timeout: Duration) -> Result<Value, Reason> {
        self.execute_with(command, arguments, timeout)
    }

    /// Waits for the next event of this name, for as long as QEMU runs; what it tells.
    ///
    /// # Errors
    /// QEMU has ended, or what it says is no QMP.
    pub fn event(&mut self, name: &str) -> Result<Value, Reason> {
        self.begin(name, FOR_EVER)?;
        loop {
            let line = self.line(Instant::now() + FOR_EVER).map_err(in_context(name))?;
            let told: Value =
                serde_json::from_slice(&line).map_err(|error| in_context(name)(io::Error::other(error)))?;
            if told.get("event").and_then(Value::as_str) == Some(name) {
                return Ok(told.get("data").cloned().unwrap_or_default());
            }
        }
    }

    /// Hands QEMU a descriptor, by this name from now on.
    ///
    /// # Errors
    /// As [`Self::query`].
    pub fn hand_over(&mut self, name: &str, file: BorrowedFd<'_>, timeout: Duration) -> Result<(), Reason> {
        let command = "getfd";
        let line = format!("{}\n", json!({ "execute": command, "arguments": { "fdname": name } }));
        self.begin(command, timeout)?;
        let descriptors = [file.as_raw_fd()];
        let with = [ControlMessage::ScmRights(&descriptors)];
        let sent = sendmsg::<()>(
            self.stream.as_raw_fd(),
            &[IoSlice::new(line.as_bytes())],
            &with,
            MsgFlags::MSG_NOSIGNAL,
            None,
        );
        let answer =
            sent.map_err(io::Error::from).and_then(|_| self.answer(Instant::now() + timeout, "return"));
        answer.map(drop).map_err(in_context(command))
    }

    fn execute(&mut self, command: &str, timeout: Duration) -> Result<Value, Reason> {
        self.execute_with(command, &Value::Null, timeout)
    }

    fn execute_with(&mut self, command: &str, arguments: &Value, timeout: Duration) -> Result<Value, Reason> {
        self.begin(command, timeout)?;
        self.ask(command, arguments, Instant::now() + timeout).map_err(in_context(command))
    }

    /// What is said before the first command; `command` is the one.
    fn begin(&mut self, command: &str, timeout: Duration) -> Result<(), Reason> {
        if self.ready {
            return Ok(());
        }
        let deadline = Instant::now() + timeout;
        self.answer(deadline, "QMP").map_err(in_context(command))?;
        self.ask("qmp_capabilities", &Value::Null, deadline).map_err(in_context(command))?;
        self.ready = true;
        Ok(())
    }

    fn ask(&mut self, command: &str, arguments: &Value, deadline: Instant) -> io::Result<Value> {
        let mut line = if arguments.is_null() {
            json!({ "execute": command }).to_string()
        } else {
            json!({ "execute": command, "arguments": arguments }).to_string()
        };
        line.push('\n');
        self.stream.set_write_timeout(Some(left(deadline)?))?;
        self.stream.write_all(line.as_bytes())?;
        self.answer(deadline, "return")
    }

    /// The next object with this key; events before it are skipped, an error ends the wait.
    fn answer(&mut self, deadline: Instant, key: &str) -> io::Result<Value> {
        for _ in 0..MAX_LINES {
            let line = self.line(deadline)?;
            let mut object: Value = serde_json::from_slice(&line).map_err(|error| {
                let begins: String = harmless(&line).chars().take(200).collect();
                io::Error::other(format!("not JSON ({error}): {begins}"))
            })?;
            if let Some(found) = object.get_mut(key) {
                return Ok(found.take());
            }
            if let Some(error) = object.get("error") {
                let said = error.get("desc").and_then(Value::as_str).unwrap_or("no description");
                return Err(io::Error::other(format!("refused: {}", harmless(said.as_bytes()))));
            }
        }
        Err(io::Error::other(format!("{MAX_LINES} lines and no \"{key}\" among them")))
    }

    fn line(&mut self, deadline: Instant) -> io::Result<Vec<u8>> {
        loop {
            if let Some(end) = self.pending.iter().position(|byte| *byte == b'\n') {
                let rest = self.pending.split_off(end + 1);
                return Ok(std::mem::replace(&mut self.pending, rest));
            }
            if self.pending.len() > MAX_LINE_BYTES {
                return Err(io::Error::other(format!("a line of more than {MAX_LINE_BYTES} bytes")));
            }
            self.stream.set_read_timeout(Some(left(deadline)?))?;
            let mut chunk = [0; 4096];
            match self.stream.read(&mut chunk) {
                Ok(0) => return Err(io::Error::other("qemu closed it: it has ended")),
                Ok(read) => self.pending.extend_from_slice(chunk.get(..read).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => left(deadline).map(drop)?,
                Err(error) => return Err(error),
            }
        }
    }
}

fn in_context(command: &str) -> impl Fn(io::Error) -> Reason {
    move |error| format!("qemu's control channel, command \"{command}\": {error}").into()
}

/// Time left, never zero (which would mean for ever).
fn left(deadline: Instant) -> io::Result<Duration> {
    deadline
        .checked_duration_since(Instant::now())
        .filter(|left| !left.is_zero())
        .ok_or_else(|| io::Error::new(io::ErrorKind::TimedOut, "no answer in time"))
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::thread;

    use super::*;

    const GREETING: &str = r#"{"QMP": {"version": {}, "capabilities": []}}"#;

    /// A QEMU that greets and then sends one script entry per command.
    fn scripted(script: Vec<String>) -> (Qmp, thread::JoinHandle<Vec<String>>) {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let qemu = thread::spawn(move || {
            let mut out = theirs.try_clone().unwrap();
            let mut lines = BufReader::new(theirs).lines();
            writeln!(out, "{GREETING}").unwrap();
            let mut seen = Vec::new();
            for answer in script {
                let Some(Ok(line)) = lines.next() else { break };
                seen.push(line);
                // The other end may have given up already: that is what some tests are about.
                let _ = out.write_all(answer.as_bytes());
            }
            seen
        });
        (Qmp::new(ours), qemu)
    }

    const LONG: Duration = Duration::from_secs(10);

    /// A QEMU that executes its guest's code must not move the terminal of who reads why it failed.
    #[test]
    fn what_is_said_cannot_move_a_terminals_cursor() {
        for said in ["{\"error\":{\"desc\":\"\\u001b[2Jgone\"}}\n", "\u{1b}[2Jgone\n"] {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            theirs.write_all(said.as_bytes()).unwrap();
            let reason = Qmp::new(ours).stop(Duration::from_secs(60)).unwrap_err();
            assert!(
                reason.to_string().contains("gone") && !reason.to_string().contains('\u{1b}'),
                "{reason:?}"
            );
        }
    }

    #[test]
    fn events_between_question_and_answer_are_skipped() {
        let (mut qmp, qemu) = scripted(vec![
            "{\"return\": {}}\n".to_owned(),
            "{\"event\": \"STOP\"}\n{\"return\": {}}\n".to_owned(),
            "{\"return\": {}}\n".to_owned(),
        ]);
        qmp.stop(LONG).unwrap();
        qmp.cont(LONG).unwrap();
        let seen = qemu.join().unwrap();
        assert!(seen[0].contains("qmp_capabilities") && seen[1].contains("stop") && seen[2].contains("cont"));
    }

    #[test]
    fn questions_carry_their_arguments_and_bring_their_answer() {
        let answer = "{\"return\": [{\"thread-id\": 7}]}\n".to_owned();
        let (mut qmp, qemu) = scripted(vec!["{\"return\": {}}\n".to_owned(), answer]);
        let said = qmp.query("query-x", &json!({ "id": "a" }), LONG).unwrap();
        assert_eq!(said[0]["thread-id"], 7);
        let asked: Value = serde_json::from_str(&qemu.join().unwrap()[1]).unwrap();
        assert_eq!(asked, json!({ "execute": "query-x", "arguments": { "id": "a" } }));
    }

    #[test]
    fn refusals_garbage_floods_and_silence_are_errors() {
        let cases = [
            ("{\"error\": {\"class\": \"x\", \"desc\": \"not now\"}}\n".to_owned(), LONG, "not now"),
            ("nonsense\n".to_owned(), LONG, "not JSON"),
            ("{\"event\": 1}\n".repeat(2000), LONG, "1000 lines"),
            ("x".repeat(200_000), LONG, "a line of more than"),
            (String::new(), Duration::from_millis(50), "no answer in time"),
        ];
        for (answer, timeout, wanted) in cases {
            let (mut qmp, qemu) = scripted(vec!["{\"return\": {}}\n".to_owned(), answer, String::new()]);
            let error = qmp.stop(timeout).unwrap_err();
            assert!(error.to_string().contains(wanted) && error.to_string().contains("\"stop\""), "{error}");
            drop(qmp);
            qemu.join().unwrap();
        }
    }

    #[test]
    fn an_ended_qemu_is_said() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        drop(theirs);
        let error = Qmp::new(ours).quit(LONG).unwrap_err();
        assert!(error.to_string().contains("ended"), "{error}");
    }
}
