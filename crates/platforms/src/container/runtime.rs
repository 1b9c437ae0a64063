//! OCI runtimes: which is there, which version, and calls with a time limit.
//!
//! Their common command line: <https://github.com/opencontainers/runtime-tools/blob/master/docs/command-line-interface.md>.

use std::ffi::OsStr;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::console::harmless;
use crate::spawn::{Bond, ending, spawn};
use units::Reason;

/// Runtimes that are looked for, best known first.
pub const KNOWN: [&str; 4] = ["crun", "runc", "youki", "runsc"];
/// Looked at after PATH: daemons' binaries are often there and not in a user's PATH.
const MORE_FOLDERS: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];
/// How long a call may take; deleting waits for the kernel to take a container's namespaces down.
pub const CALL_LIMIT: Duration = Duration::from_secs(20);
/// Most of a runtime's output that is read.
const MAX_OUTPUT_BYTES: u64 = 16 * 1024;

/// Whether instances get a cgroup of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cgroups {
    /// A cgroup of their own, made by the runtime.
    Own,
    /// They stay in ours.
    Ours,
}

/// An OCI runtime on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Runtime {
    /// Path of its binary.
    pub path: PathBuf,
    /// Its name: the last part of the path.
    pub name: String,
    /// First line of what it says of its version.
    pub version: String,
}

impl Runtime {
    /// All usable runtimes: the named one, or those of [`KNOWN`] that are there. The error says what to install.
    pub fn find(named: Option<&str>) -> Result<Vec<Self>, Reason> {
        if let Some(named) = named {
            let path = locate(named)
                .ok_or_else(|| format!("OCI runtime \"{named}\" is not there: install it or name another"))?;
            return Ok(vec![Self::at(path)?]);
        }
        let mut broken = Vec::new();
        let mut found = Vec::new();
        for path in KNOWN.iter().filter_map(|name| locate(name)) {
            match Self::at(path) {
                Ok(runtime) => found.push(runtime),
                Err(why) => broken.push(why.to_string()),
            }
        }
        if !found.is_empty() {
            return Ok(found);
        }
        let broken = if broken.is_empty() { String::new() } else { format!(" ({})", broken.join("; ")) };
        Err(format!(
            "no OCI runtime found (looked for {}){broken}: install crun, e.g. `apt-get install crun`",
            KNOWN.join(", ")
        )
        .into())
    }

    fn at(path: PathBuf) -> Result<Self, Reason> {
        let said = call(Command::new(&path).arg("--version"))?;
        let name = path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned();
        let version = harmless(said.lines().next().unwrap_or_default().as_bytes());
        Ok(Self { path, name, version })
    }

    /// A command of this runtime with its state below `root`.
    pub fn command(&self, root: &Path, cgroups: Cgroups) -> Command {
        let mut command = Command::new(&self.path);
        command.arg("--root").arg(root);
        match (self.name.as_str(), cgroups) {
            ("crun", Cgroups::Own) => drop(command.arg("--cgroup-manager=cgroupfs")),
            ("crun", Cgroups::Ours) => drop(command.arg("--cgroup-manager=disabled")),
            ("runsc", Cgroups::Ours) => drop(command.args(["--ignore-cgroups", "--network=none"])),
            ("runsc", Cgroups::Own) => drop(command.arg("--network=none")),
            _ => {}
        }
        command
    }

    /// Lets a container made by this command use the network namespace of its configuration. The last of several
    /// options counts.
    pub fn let_network(&self, command: &mut Command) {
        if self.name == "runsc" {
            command.arg("--network=sandbox");
        }
    }
}

/// The program of one of the [`KNOWN`] runtimes, as it is found now; none for other names.
pub fn known(name: &str) -> Option<PathBuf> {
    KNOWN.contains(&name).then(|| locate(name)).flatten()
}

/// The file a name or path stands for.
fn locate(name: &str) -> Option<PathBuf> {
    let is_program = |path: &PathBuf| {
        use std::os::unix::fs::PermissionsExt;
        path.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
    };
    if name.contains('/') {
        return Path::new(name).canonicalize().ok().filter(is_program);
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(MORE_FOLDERS.iter().map(PathBuf::from))
        .map(|folder| folder.join(OsStr::new(name)))
        .find(is_program)
}

/// Runs a command to its end and returns its output. The error says how it failed, with its first words.
pub fn call(command: &mut Command) -> Result<String, Reason> {
    let name = command.get_program().to_string_lossy().into_owned();
    let arguments: Vec<String> = command.get_args().map(|arg| arg.to_string_lossy().into_owned()).collect();
    let shown = format!("{name} {}", arguments.join(" "));
    let mut own = Command::new(&name);
    own.args(command.get_args()).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child =
        spawn(own, Bond::DiesWithUs, None).map_err(|error| format!("cannot run {shown}: {error}"))?;
    let until = Instant::now() + CALL_LIMIT;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < until => std::thread::sleep(Duration::from_millis(2)),
            outcome => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(match outcome {
                    Err(error) => format!("cannot wait for {shown}: {error}").into(),
                    Ok(_) => format!("{shown} did not end within {} s", CALL_LIMIT.as_secs()).into(),
                });
            }
        }
    };
    let said = child.stdout.take().map(read_what_is_there).unwrap_or_default();
    if status.success() {
        return Ok(said);
    }
    let complaint = child.stderr.take().map(read_what_is_there).unwrap_or_default();
    Err(format!("{shown} {}: {}", ending(status), harmless(complaint.trim().as_bytes())).into())
}

/// What a pipe holds now. Not to its end: a grandchild may keep it open.
fn read_what_is_there(pipe: impl Into<std::os::fd::OwnedFd>) -> String {
    use crate::link::stream::{Heard, Source};
    let Ok(mut source) = Source::new(pipe.into()) else { return String::new() };
    let mut bytes = Vec::new();
    while let Ok(Heard::Bytes(count)) = source.read() {
        bytes.extend_from_slice(source.bytes(count));
        if bytes.len() as u64 >= MAX_OUTPUT_BYTES {
            break;
        }
    }
    let mut text = String::new();
    let _ = bytes.take(MAX_OUTPUT_BYTES).read_to_string(&mut text);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_runtime_is_named_with_what_to_do() {
        let error = Runtime::find(Some("no-such-runtime")).unwrap_err();
        assert!(
            error.to_string().contains("no-such-runtime") && error.to_string().contains("install"),
            "{error}"
        );
    }

    #[test]
    fn a_failing_call_says_how() {
        let error = call(Command::new("sh").args(["-c", "echo 'it \u{1b}hurts' >&2; exit 3"])).unwrap_err();
        assert!(error.to_string().contains("ended with exit status 3: it ␛hurts"), "{error}");
        assert_eq!(call(Command::new("echo").arg("hello")).as_deref(), Ok("hello\n"));
    }
}
