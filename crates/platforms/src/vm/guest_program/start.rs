//! Starts the program in its surroundings: streams or terminal, folder, user, a session of its own; and says how children
//! ended.

#![expect(
    unsafe_code,
    reason = "what a child does between fork and exec, and deaths by real-time signals, need it"
)]

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::sys::signal::{SigSet, Signal, kill, killpg};
use nix::unistd::{Gid, Pid, Uid, pipe2, setgid, setgroups, setsid, setuid};

use super::super::pid1::in_context;
use super::pty::Terminal;
use crate::limits;
use model::partition::{Program, ProgramEnd};
use units::Reason;

/// The program did not start: 125 … 127, and why.
pub struct Refusal {
    /// As shells use it.
    pub code: u8,
    /// Why.
    pub reason: String,
}

/// Our ends of a program's streams.
pub enum OurEnds {
    /// A pipe each.
    Pipes {
        /// Written.
        input: OwnedFd,
        /// Read.
        output: OwnedFd,
        /// Read.
        error: OwnedFd,
    },
    /// A terminal.
    Terminal(Terminal),
}

/// The program's own ends.
pub enum TheirEnds {
    /// Input, output, error.
    Pipes([OwnedFd; 3]),
    /// Path of the terminal.
    Terminal(PathBuf),
}

/// Makes the streams. Ours do not block.
pub fn streams(program: &Program) -> Result<(OurEnds, TheirEnds), Reason> {
    if let Some(size) = program.terminal {
        let terminal = Terminal::open(size, &program.user)?;
        let path = terminal.path.clone();
        return Ok((OurEnds::Terminal(terminal), TheirEnds::Terminal(path)));
    }
    let pipe = || pipe2(OFlag::O_CLOEXEC).map_err(in_context("a pipe"));
    let ((their_in, input), (output, their_out), (error, their_err)) = (pipe()?, pipe()?, pipe()?);
    for ours in [&input, &output, &error] {
        use nix::fcntl::{FcntlArg, fcntl};
        fcntl(ours, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).map_err(in_context("a pipe"))?;
        // A larger pipe means fewer turns; with a smaller one everything works as well.
        let _ = fcntl(ours, FcntlArg::F_SETPIPE_SZ(super::outward::PIPE_BYTES));
    }
    Ok((OurEnds::Pipes { input, output, error }, TheirEnds::Pipes([their_in, their_out, their_err])))
}

/// Starts it; its number when it runs.
pub fn start(program: &Program, ends: TheirEnds) -> Result<Pid, Refusal> {
    let Some((name, words)) = program.argv.split_first() else {
        return Err(Refusal { code: 125, reason: "no program was named".to_owned() });
    };
    if !fs::metadata(&program.workdir).is_ok_and(|meta| meta.is_dir()) {
        let reason = format!("the folder to start in, {}, is not there", program.workdir.display());
        return Err(Refusal { code: 125, reason });
    }
    let mut command = Command::new(OsStr::from_bytes(name));
    command.args(words.iter().map(|word| OsStr::from_bytes(word))).env_clear().current_dir(&program.workdir);
    command.envs(program.env.iter().map(|(name, value)| (OsStr::from_bytes(name), OsStr::from_bytes(value))));
    let terminal = attach(&mut command, ends)
        .map_err(|error| Refusal { code: 125, reason: format!("its streams: {error}") })?;
    let user = program.user.clone();
    let groups: Vec<Gid> = user.groups.iter().copied().map(Gid::from_raw).collect();
    let inherited = limits::settable(&program.inherited);
    let in_child = move || {
        // What this process holds back to hear of it in its own time is the program's from here on.
        SigSet::empty().thread_set_mask()?;
        setsid()?;
        if let Some(path) = &terminal {
            // The first terminal that the leader of a session opens becomes the session's.
            nix::fcntl::open(path.as_c_str(), OFlag::O_RDWR, nix::sys::stat::Mode::empty()).map(drop)?;
        }
        inherited.set()?;
        setgroups(&groups)?;
        setgid(Gid::from_raw(user.gid))?;
        setuid(Uid::from_raw(user.uid))?;
        Ok(())
    };
    // SAFETY: only system calls are made between fork and exec; nothing allocates, locks or panics there.
    unsafe { command.pre_exec(in_child) };
    let child = command.spawn().map_err(|error| refusal(name, program, &error))?;
    i32::try_from(child.id())
        .map(Pid::from_raw)
        .map_err(|_| Refusal { code: 125, reason: "it has no number".to_owned() })
}

/// Passes a signal on to a program that was started here. What a terminal sends goes to all of its group, the rest to it
/// alone. The group has no parent that could wake it, so SIGTSTP would be ignored: it is stopped for good until SIGCONT.
pub fn pass_on(pid: Pid, signal: Signal) {
    // It may have ended meanwhile; that is told soon.
    let _ = match signal {
        Signal::SIGTSTP => killpg(pid, Signal::SIGSTOP),
        Signal::SIGINT | Signal::SIGQUIT | Signal::SIGHUP | Signal::SIGCONT | Signal::SIGWINCH => {
            killpg(pid, signal)
        }
        _ => kill(pid, signal),
    };
}

/// A child that has ended, and how; none when all others live. The safe wrapper knows no real-time signals.
pub fn ended_child() -> Option<(Pid, ProgramEnd)> {
    let mut status = 0;
    // SAFETY: the integer lives until the call returns.
    let pid = unsafe { nix::libc::waitpid(-1, &raw mut status, nix::libc::WNOHANG) };
    if pid <= 0 {
        return None;
    }
    let how = if nix::libc::WIFSIGNALED(status) {
        ProgramEnd::Signal(nix::libc::WTERMSIG(status))
    } else {
        ProgramEnd::Exit(u8::try_from(nix::libc::WEXITSTATUS(status)).unwrap_or(u8::MAX))
    };
    Some((Pid::from_raw(pid), how))
}

/// Connects the streams; the terminal's path if there is one.
fn attach(command: &mut Command, ends: TheirEnds) -> io::Result<Option<std::ffi::CString>> {
    match ends {
        TheirEnds::Pipes([input, output, error]) => {
            command.stdin(Stdio::from(input)).stdout(Stdio::from(output)).stderr(Stdio::from(error));
            Ok(None)
        }
        TheirEnds::Terminal(path) => {
            let open = || {
                use std::os::unix::fs::OpenOptionsExt;
                let file: io::Result<File> =
                    File::options().read(true).write(true).custom_flags(nix::libc::O_NOCTTY).open(&path);
                file.map(Stdio::from)
            };
            command.stdin(open()?).stdout(open()?).stderr(open()?);
            Ok(Some(std::ffi::CString::new(path.as_os_str().as_bytes())?))
        }
    }
}

fn refusal(name: &[u8], program: &Program, error: &io::Error) -> Refusal {
    let shown = String::from_utf8_lossy(name).into_owned();
    let errno = error.raw_os_error().map_or(Errno::UnknownErrno, Errno::from_raw);
    let is_there = name.contains(&b'/') && program.workdir.join(Path::new(OsStr::from_bytes(name))).exists();
    match errno {
        Errno::ENOENT if is_there => {
            let reason = format!("{shown} is there, but not the interpreter or loader that it names");
            Refusal { code: 127, reason }
        }
        Errno::ENOENT | Errno::ENOTDIR => {
            let reason = if name.contains(&b'/') {
                format!("{shown} was not found in the partition's file tree")
            } else {
                format!("{shown} was not found in the PATH of its environment")
            };
            Refusal { code: 127, reason }
        }
        _ => Refusal { code: 126, reason: format!("{shown} cannot be executed: {}", errno.desc()) },
    }
}
