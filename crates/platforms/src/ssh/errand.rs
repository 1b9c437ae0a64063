//! An errand on a machine where this program has been put to stay: both ends.
//!
//! ```text
//!  here   ssh DEST exec PROGRAM errand ◄── its length, what is to be done, then a byte every two seconds
//!           its stdout and stderr are handed out as they come; when it has ended, its exit code
//!  there  what is to be done is read whole ─► done, while somebody listens for bytes
//!           the end of them, or half a minute of silence ─► it is not wanted any more: what was begun is undone
//! ```
//! Silence counts because a machine behind a cut cable would learn of it after hours, if at all.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::{ChildStdin, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::client::{OWN_FAILURE, command};
use super::remote::{is_plain_path, one_destination};
use crate::Cancel;
use crate::spawn::{Bond, spawn};
use model::experiment::SshSpec;
use units::Reason;

/// Who is far knows that it is wanted by a byte this often …
const BEAT: Duration = Duration::from_secs(2);
/// … and is not wanted any more after this long without one, in milliseconds.
const SILENCE_MS: u16 = 30_000;
/// How often it is looked whether it is still wanted.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Bytes of a line that are heard; what is longer comes as several.
const LONGEST_LINE: usize = 16 << 10;
/// What is read at once.
const PIECE: usize = 64 << 10;

/// The hidden verb that does errands.
pub const VERB: &str = "errand";

/// Takes what a stream over there has brought, piece by piece. The machine is not trusted: it may be anything, without end.
/// Who fails to take it does not want the errand any more.
pub type Taker<'a> = &'a mut (dyn FnMut(&[u8]) -> io::Result<()> + Send);

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ErrandError {
    /// It was not begun.
    #[error("{0}")]
    NotBegun(Reason),
    /// The connection was lost: what is there now is not known.
    #[error("{0}")]
    Lost(Reason),
}

/// Whether the answer of a machine that nobody trusts can be the path of a program there.
pub fn is_program(path: &str) -> bool {
    is_plain_path(path)
}

/// Has `program`, which `settle` has put there, do what `asked` says, and hands out what it writes as it comes. Cancelled, it is told
/// to undo what it has begun, and waited for. Returns its exit code.
///
/// # Errors
/// It cannot be begun, or the connection is lost.
pub fn run_settled(
    ssh: &SshSpec,
    program: &str,
    asked: &[u8],
    [output, errors]: [Taker<'_>; 2],
    cancel: &Cancel,
) -> Result<i32, ErrandError> {
    let not_begun = |why: String| ErrandError::NotBegun(why.into());
    let destination = one_destination(ssh).map_err(ErrandError::NotBegun)?;
    if !is_program(program) {
        return Err(not_begun(format!(
            "{destination}: the cache folder there may only have letters, digits and / . _ - in its path (BULKHEAD_CACHE names another)"
        )));
    }
    // Checked: nothing in it means anything to a shell.
    let mut command = command(ssh, destination, &format!("exec {program} {VERB}"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = spawn(command, Bond::DiesWithUs, None)
        .map_err(|error| not_begun(format!("cannot start ssh: {error}")))?;
    let (Some(stdin), Some(stdout), Some(stderr)) =
        (child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(not_begun("ssh has no streams".to_owned()));
    };
    let over = AtomicBool::new(false);
    let status = thread::scope(|scope| {
        scope.spawn(|| beat(stdin, asked, &over, cancel));
        scope.spawn(|| hand_out(stdout, output, cancel));
        hand_out(stderr, errors, cancel);
        let status = child.wait();
        over.store(true, Ordering::SeqCst);
        status
    });
    match status.map(|status| status.code()) {
        Ok(Some(OWN_FAILURE) | None) => {
            Err(ErrandError::Lost(format!("{destination}: the connection was lost").into()))
        }
        Ok(Some(code)) => Ok(code),
        Err(error) => {
            Err(ErrandError::Lost(format!("{destination}: ssh cannot be waited for: {error}").into()))
        }
    }
}

/// Says what is to be done, then that it is still wanted; the stream ends when it is not.
fn beat(mut stdin: ChildStdin, asked: &[u8], over: &AtomicBool, cancel: &Cancel) {
    let length = (asked.len() as u64).to_le_bytes();
    if stdin.write_all(&length).and_then(|()| stdin.write_all(asked)).and_then(|()| stdin.flush()).is_err() {
        return;
    }
    let mut last = Instant::now();
    while !over.load(Ordering::SeqCst) && !cancel.is_cancelled() {
        if last.elapsed() >= BEAT {
            // Nobody who listens: the exit code says why.
            if stdin.write_all(b".").and_then(|()| stdin.flush()).is_err() {
                return;
            }
            last = Instant::now();
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// Hands out what comes until its end. What nobody takes is read all the same, so that whoever writes it can end.
fn hand_out(mut from: impl Read, taker: Taker<'_>, cancel: &Cancel) {
    let mut piece = vec![0; PIECE];
    loop {
        match from.read(&mut piece) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => return,
            Ok(count) => {
                if taker(piece.get(..count).unwrap_or_default()).is_err() {
                    cancel.cancel();
                    let _ = io::copy(&mut from, &mut io::sink());
                    return;
                }
            }
        }
    }
}

/// Makes lines of pieces.
#[derive(Debug, Default)]
pub struct Lines {
    waiting: Vec<u8>,
}

impl Lines {
    /// Tells the lines that `piece` ends; a long one in parts.
    pub fn add(&mut self, piece: &[u8], mut hear: impl FnMut(&str)) {
        for part in piece.split_inclusive(|byte| *byte == b'\n') {
            for part in part.chunks(LONGEST_LINE) {
                if self.waiting.len() + part.len() > LONGEST_LINE {
                    self.end(&mut hear);
                }
                self.waiting.extend_from_slice(part);
                if part.ends_with(b"\n") {
                    self.end(&mut hear);
                }
            }
        }
    }

    /// Tells what is left, where the last line has no end.
    pub fn end(&mut self, mut hear: impl FnMut(&str)) {
        if !self.waiting.is_empty() {
            hear(String::from_utf8_lossy(&self.waiting).trim_end_matches(['\r', '\n']));
            self.waiting.clear();
        }
    }
}

/// What is to be done, at most `most` bytes; read from the stream that says so.
///
/// # Errors
/// It ends early, or says more than that.
pub fn read_asked(from: &mut dyn Read, most: u64) -> io::Result<Vec<u8>> {
    let mut length = [0; 8];
    from.read_exact(&mut length)?;
    let length = u64::from_le_bytes(length);
    if length > most {
        return Err(io::Error::other(format!("an errand of {length} bytes, at most {most} are taken")));
    }
    let mut asked = Vec::new();
    from.take(length).read_to_end(&mut asked)?;
    if asked.len() as u64 == length { Ok(asked) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// Listens, in a thread of its own, and cancels when nobody wants it any more.
///
/// # Errors
/// No thread can be had.
pub fn cancel_when_unwanted(beats: OwnedFd, cancel: &Cancel) -> io::Result<()> {
    let cancel = cancel.clone();
    thread::Builder::new().name("beats".to_owned()).spawn(move || {
        listen(&beats, SILENCE_MS);
        cancel.cancel();
    })?;
    Ok(())
}

/// Returns when the stream ends or is silent for so long.
fn listen(beats: &OwnedFd, silence_ms: u16) {
    let Ok(copy) = beats.try_clone() else { return };
    let mut stream = File::from(copy);
    let mut bytes = [0; 64];
    loop {
        let mut waits = [PollFd::new(beats.as_fd(), PollFlags::POLLIN)];
        match poll(&mut waits, PollTimeout::from(silence_ms)) {
            Err(nix::errno::Errno::EINTR) => continue,
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        match stream.read(&mut bytes) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_errand_is_read_whole_or_not_at_all() {
        let sent = |length: u64, text: &[u8]| [&length.to_le_bytes()[..], text].concat();
        let read = |bytes: Vec<u8>| read_asked(&mut bytes.as_slice(), 10);
        assert_eq!(read(sent(3, b"abc...")).unwrap(), b"abc");
        assert!(read(sent(4, b"abc")).is_err(), "it ended early");
        assert!(read(sent(u64::MAX, b"abc")).unwrap_err().to_string().contains("at most 10"));
        assert!(read(b"abc".to_vec()).is_err());
    }

    #[test]
    fn bytes_say_that_it_is_wanted_and_their_end_or_silence_that_it_is_not() {
        let (read, mut write) = io::pipe().unwrap();
        let cancel = Cancel::new();
        cancel_when_unwanted(read.into(), &cancel).unwrap();
        write.write_all(b"..").unwrap();
        thread::sleep(Duration::from_millis(50));
        assert!(!cancel.is_cancelled());
        drop(write);
        let until = Instant::now() + Duration::from_secs(20);
        while !cancel.is_cancelled() {
            assert!(Instant::now() < until, "the end was not heard");
            thread::sleep(LOOK_EVERY);
        }
        // Somebody who is there and says nothing: this returns.
        let (read, _write) = io::pipe().unwrap();
        listen(&read.into(), 30);
    }

    #[test]
    fn who_takes_no_more_does_not_want_it_and_nobody_waits_for_him() {
        let cancel = Cancel::new();
        let mut taken = 0;
        let mut from = io::repeat(b'x').take(10 * PIECE as u64);
        hand_out(
            &mut from,
            &mut |piece| {
                taken += piece.len();
                Err(io::ErrorKind::BrokenPipe.into())
            },
            &cancel,
        );
        assert!(cancel.is_cancelled() && taken <= PIECE && from.limit() == 0);
    }

    #[test]
    fn lines_come_bounded_and_a_path_with_words_for_a_shell_is_none() {
        let long = vec![b'x'; LONGEST_LINE + 1];
        let all = [b"one\r\n\xff\n", &long[..], b"\n\n"].concat();
        for size in [1, 3, 1000, all.len()] {
            let mut heard = Vec::new();
            let mut lines = Lines::default();
            all.chunks(size).for_each(|piece| lines.add(piece, |line| heard.push(line.to_owned())));
            lines.end(|line| heard.push(line.to_owned()));
            assert_eq!(heard.iter().map(String::len).sum::<usize>(), 6 + long.len(), "{size}");
            assert!(heard.iter().all(|line| line.len() <= LONGEST_LINE), "{size}");
            assert_eq!(
                (heard[0].as_str(), heard[1].as_str(), heard.last().map(String::len)),
                ("one", "\u{fffd}", Some(0))
            );
        }
        let ssh = |destination: &str| SshSpec {
            destinations: vec![destination.to_owned()],
            port: None,
            identity: None,
            known_hosts: None,
            config: Some("/dev/null".to_owned()),
            addresses: vec![],
            scratch: None,
        };
        for (destination, program) in
            [("there", "/x/$(reboot)"), ("there", "/x y"), ("-oProxyCommand=x", "/x"), ("a;b", "/x")]
        {
            let takers: [Taker<'_>; 2] = [&mut |_| Ok(()), &mut |_| Ok(())];
            let told = run_settled(&ssh(destination), program, b"", takers, &Cancel::new());
            assert!(matches!(told, Err(ErrandError::NotBegun(_))), "{destination} {program}: {told:?}");
        }
    }
}
