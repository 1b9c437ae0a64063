//! A program that is run to its end, and what it took: CPU time in user mode and in the kernel, and memory.
//!
//! ```text
//!  spawn ──► its standard error ends (or says why) ──► wait4: how it ended, what it took
//!     └──── stop, deadline ──► killed, and waited for
//! ```
//!
//! The end of its standard error is waited for, with a look at the limits now and then; `wait4` says what *this* child
//! took, where `getrusage` would mix in the children of a load that runs beside.

#![expect(unsafe_code, reason = "only wait4 says what one child took")]

use std::ffi::OsStr;
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};
use std::thread;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::bounds::Bounds;
use crate::error::WorkError;
use units::{Bytes, Nanos};

/// How often the limits are looked at while a child works.
const LOOK_MS: u8 = 20;
/// Between the end of its standard error and its own end.
const ENDING: Duration = Duration::from_micros(50);
/// What is kept of what it says.
const TEXT_MOST: usize = 2000;

/// What a child took.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Spent {
    /// CPU time in user mode.
    pub user: Nanos,
    /// CPU time in the kernel.
    pub system: Nanos,
    /// Most memory it had at once.
    pub memory: Bytes,
}

/// Runs `exe` with these arguments and no environment until it ends.
///
/// # Errors
/// It could not be run, did not exit with 0, or the job was to end.
pub fn run(exe: &Path, arguments: &[&OsStr], bounds: Bounds<'_>) -> Result<Spent, WorkError> {
    let mut child = Command::new(exe)
        .args(arguments)
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| WorkError::system(format!("run {}", what(exe, arguments)), error))?;
    let said = child.stderr.take();
    let ended = listen(said, bounds).and_then(|text| Ok((text, wait(&child, bounds)?)));
    if ended.is_err() {
        // Killing what has already ended and was not waited for is harmless; a second wait finds nobody and says so.
        let _ = child.kill();
        let _ = child.wait();
    }
    let (text, (status, spent)) = ended?;
    if libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0 {
        return Ok(spent);
    }
    let how = if libc::WIFSIGNALED(status) {
        format!("was ended by signal {}", libc::WTERMSIG(status))
    } else {
        format!("exited with {}", libc::WEXITSTATUS(status))
    };
    let text = if text.is_empty() { "it said nothing".to_owned() } else { format!("it said: {text}") };
    Err(WorkError::Unfit(format!("{} {how}; {text}", what(exe, arguments))))
}

fn what(exe: &Path, arguments: &[&OsStr]) -> String {
    let arguments: Vec<_> = arguments.iter().map(|argument| argument.to_string_lossy()).collect();
    format!("{} {}", exe.display(), arguments.join(" "))
}

/// Reads until the end of what the child says; keeps the beginning.
fn listen(said: Option<ChildStderr>, bounds: Bounds<'_>) -> Result<String, WorkError> {
    let Some(mut said) = said else { return Ok(String::new()) };
    let failed = |error: io::Error| WorkError::system("listen to a child", error);
    let mut text = Vec::new();
    loop {
        bounds.check()?;
        let ready = {
            let mut wanted = [PollFd::new(said.as_fd(), PollFlags::POLLIN)];
            match poll(&mut wanted, PollTimeout::from(LOOK_MS)) {
                Ok(ready) => ready > 0,
                Err(nix::errno::Errno::EINTR) => false,
                Err(errno) => return Err(failed(errno.into())),
            }
        };
        if !ready {
            continue;
        }
        let mut piece = [0; 512];
        match said.read(&mut piece) {
            Ok(0) => return Ok(String::from_utf8_lossy(&text).trim().to_owned()),
            Ok(length) => {
                let room = TEXT_MOST.saturating_sub(text.len()).min(length);
                text.extend_from_slice(piece.get(..room).unwrap_or_default());
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(failed(error)),
        }
    }
}

/// How it ended and what it took.
fn wait(child: &Child, bounds: Bounds<'_>) -> Result<(i32, Spent), WorkError> {
    let number = libc::pid_t::try_from(child.id()).unwrap_or(-1);
    loop {
        let (mut status, mut usage) = (0, MaybeUninit::<libc::rusage>::zeroed());
        // SAFETY: both pointers are to live variables of the types that wait4 fills.
        let found = unsafe { libc::wait4(number, &raw mut status, libc::WNOHANG, usage.as_mut_ptr()) };
        if found == number {
            // SAFETY: it was zeroed, and all zeros are a valid rusage.
            let usage = unsafe { usage.assume_init() };
            let kib = u64::try_from(usage.ru_maxrss).unwrap_or(0);
            let memory = Bytes::from_bytes(kib.saturating_mul(1024));
            return Ok((
                status,
                Spent { user: nanos(usage.ru_utime), system: nanos(usage.ru_stime), memory },
            ));
        }
        if found < 0 {
            return Err(WorkError::system("wait for a child", io::Error::last_os_error()));
        }
        bounds.check()?;
        thread::sleep(ENDING);
    }
}

fn nanos(time: libc::timeval) -> Nanos {
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let micros = u64::try_from(time.tv_usec).unwrap_or(0);
    Nanos::from_nanos(seconds.saturating_mul(1_000_000_000).saturating_add(micros.saturating_mul(1000)))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::time::Instant;

    use super::*;
    use units::Millis;

    fn shell(script: &str, deadline_ms: u64) -> Result<Spent, WorkError> {
        let stop = AtomicBool::new(false);
        let bounds = Bounds::starting_now(&stop, Millis::from_millis(deadline_ms));
        run(Path::new("/bin/sh"), &["-c".as_ref(), script.as_ref()], bounds)
    }

    #[test]
    fn what_a_child_took_is_its_own() {
        let idle = shell("exit 0", 60_000).unwrap();
        let busy = shell("i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done", 60_000).unwrap();
        assert!(busy.user > idle.user, "{busy:?} {idle:?}");
        assert!(idle.memory.get() > 100_000, "{idle:?}");
    }

    #[test]
    fn how_it_failed_and_what_it_said_is_told() {
        let said = shell("echo no such thing >&2; exit 3", 60_000).unwrap_err().to_string();
        assert!(said.contains("exited with 3; it said: no such thing"), "{said}");
        let killed = shell("kill -SEGV $$", 60_000).unwrap_err().to_string();
        assert!(killed.contains("signal 11; it said nothing"), "{killed}");
        let stop = AtomicBool::new(false);
        let bounds = Bounds::starting_now(&stop, Millis::from_millis(60_000));
        let missing = run(Path::new("/nonexistent/compiler"), &[], bounds).unwrap_err().to_string();
        assert!(missing.starts_with("could not run /nonexistent/compiler"), "{missing}");
    }

    #[test]
    fn the_deadline_ends_a_child_that_hangs() {
        let begin = Instant::now();
        // One that still talks, and one that has closed its standard error.
        for script in ["exec sleep 600", "exec 2>&-; exec sleep 600"] {
            assert!(matches!(shell(script, 50), Err(WorkError::Deadline { .. })));
        }
        assert!(begin.elapsed() < Duration::from_secs(60));
    }
}
