//! The platform `ssh` and its instances.

use std::fs::File;
use std::io::Read as _;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use super::client::{OWN_FAILURE, command, explain};
use crate::console::harmless;
use crate::context::PlatformContext;
use crate::instance::AgentInstance;
use crate::ledger::Ledger;
use crate::native::ProcessCarrier;
use crate::process::Process;
use crate::spawn::{Bond, spawn};
use crate::{Broken, Cancel, Instance, InstanceSpec, Platform, Reach};
use model::experiment::{PlatformSpec, SshSpec};
use model::journal::{Failure, FailureKind, PlatformState};
use model::platform::is_ssh_destination;
use units::Reason;

/// For a short remote command.
const CALL_LIMIT: Duration = Duration::from_secs(30);
/// For copying the binary, some ten megabytes, over a slow line.
const COPY_LIMIT: Duration = Duration::from_secs(300);
/// From the start of the remote agent until it answers.
const START_DEADLINE: Duration = Duration::from_secs(60);
/// The line may be slow, too, and its loss is noticed by the client after twelve seconds of silence.
const PATIENCE: u32 = 2;
/// Most bytes of output that are read of a remote command.
const MOST_OUTPUT: u64 = 4096;
/// Where folders are made when the experiment does not say.
const USUAL_FOLDER: &str = "/tmp";
/// What the remote folder's name begins with; ten random characters follow.
pub(super) const FOLDER_PREFIX: &str = "bulkhead-";

/// Machines that OpenSSH reaches.
#[derive(Debug)]
pub struct Ssh {
    spec: PlatformSpec,
    exe: PathBuf,
    ledger: Ledger,
}

impl Ssh {
    /// A platform over these machines. Nothing is looked for yet.
    pub fn new(spec: &PlatformSpec, context: &PlatformContext) -> Self {
        Self { spec: spec.clone(), exe: context.exe.clone(), ledger: context.ledger.clone() }
    }

    fn ssh(&self) -> Result<&SshSpec, Reason> {
        self.spec.ssh.as_ref().ok_or_else(|| "the experiment does not say which machines".into())
    }

    /// The machine that stands for this host of a layout.
    fn destination(&self, host: u32) -> Result<&str, Reason> {
        let ssh = self.ssh()?;
        ssh.destinations.get(host as usize).map(String::as_str).ok_or_else(|| {
            format!(
                "host {} of the layout is wanted, but only {} destinations are known: add machines to ssh.destinations",
                host + 1,
                ssh.destinations.len()
            ).into()
        })
    }

    /// Looks whether every machine answers and can run this binary.
    fn look(&self, cancel: &Cancel) -> Result<Vec<(String, String)>, Reason> {
        let ssh = self.ssh()?;
        let mut properties = Vec::new();
        for destination in &ssh.destinations {
            let said = call(ssh, destination, "uname -sm", None, CALL_LIMIT, cancel)?;
            let wanted = format!("Linux {}", std::env::consts::ARCH);
            if said.trim() != wanted {
                return Err(format!(
                    "{destination} is \"{}\", this program runs on {wanted}: use a build for that machine",
                    said.trim()
                )
                .into());
            }
            properties.push(("machine".to_owned(), destination.clone()));
        }
        properties.push(("paused by".to_owned(), "sleeping".to_owned()));
        properties.push(("clock".to_owned(), "asked over the connection".to_owned()));
        Ok(properties)
    }

    fn failure(&self, reason: &str) -> Broken {
        let reason = format!("{}: {reason}", self.spec.label);
        Failure { kind: FailureKind::Start, reason, console: vec![] }.into()
    }

    /// Copies this binary into a fresh folder of the machine; returns the folder.
    fn copy(&self, destination: &str, cancel: &Cancel) -> Result<String, Reason> {
        let ssh = self.ssh()?;
        let parent = parent_of(ssh)?;
        let binary = binary(&self.exe)?;
        // Checked above: nothing in the path means anything to a shell.
        let remote = format!(
            "umask 077; d=$(mktemp -d {parent}/{FOLDER_PREFIX}XXXXXXXXXX) || exit 1; cat > \"$d/bulkhead\" && \
             chmod 700 \"$d/bulkhead\" && mkdir \"$d/scratch\" && echo \"$d\" || {{ rm -rf \"$d\"; exit 1; }}"
        );
        let said = call(ssh, destination, &remote, Some(binary), COPY_LIMIT, cancel)?;
        let folder = said.trim();
        if is_our_folder(folder, parent) {
            Ok(folder.to_owned())
        } else {
            Err(format!(
                "{destination} was to name a fresh folder below {parent}, and said \"{}\"",
                harmless(folder.as_bytes())
            )
            .into())
        }
    }

    fn start_on(
        &self,
        destination: &str,
        spec: &InstanceSpec,
        cancel: &Cancel,
    ) -> Result<AgentInstance, Broken> {
        let started = Instant::now();
        let ssh = self.ssh().map_err(|error| self.failure(&error.to_string()))?;
        let folder = self.copy(destination, cancel).map_err(|error| {
            if cancel.is_cancelled() { Broken::Interrupted } else { self.failure(&error.to_string()) }
        })?;
        // An agent removes its folder when it ends; who does not even run cannot.
        let remote = format!(
            "{folder}/bulkhead --version >/dev/null 2>&1 || {{ rm -rf {folder}; \
             echo 'programs do not run in its scratch folder (mounted noexec?): name another with ssh.scratch' >&2; \
             exit 126; }}; \
             exec {folder}/bulkhead agent --link stdio --scratch {folder}/scratch --leave-nothing {folder}"
        );
        let command = command(ssh, destination, &remote);
        let name = format!("the connection to {destination}");
        let (process, link) = Process::start(&name, command, None, &self.ledger)
            .map_err(|error| self.failure(&format!("cannot start ssh: {error}")))?;
        let label = format!("{}/{}", self.spec.label, spec.number);
        let carrier = Box::new(ProcessCarrier::new(process));
        let instance = AgentInstance::attach(&label, link, carrier, started, START_DEADLINE, cancel)?;
        Ok(instance.with_patience(PATIENCE))
    }
}

impl Platform for Ssh {
    fn survey(&mut self, cancel: &Cancel) -> PlatformState {
        let (unavailable, properties) = match self.look(cancel) {
            Ok(properties) => (None, properties),
            Err(reason) => (Some(reason.into()), Vec::new()),
        };
        PlatformState {
            label: self.spec.label.clone(),
            kind: self.spec.kind,
            unavailable,
            properties,
            facts: None,
            start_ns: None,
        }
    }

    fn start(&mut self, spec: &InstanceSpec, cancel: &Cancel) -> Result<Box<dyn Instance>, Broken> {
        let destination =
            self.destination(spec.host).map_err(|error| self.failure(&error.to_string()))?.to_owned();
        Ok(Box::new(self.start_on(&destination, spec, cancel)?))
    }

    fn reach(&self) -> Reach {
        let has_addresses = self.spec.ssh.as_ref().is_some_and(|ssh| !ssh.addresses.is_empty());
        if has_addresses { Reach::Own } else { Reach::None }
    }

    fn address(&self, spec: &InstanceSpec) -> Option<IpAddr> {
        self.spec.ssh.as_ref()?.addresses.get(spec.host as usize).copied()
    }

    fn hosts(&self) -> u32 {
        self.spec.ssh.as_ref().map_or(1, |ssh| u32::try_from(ssh.destinations.len()).unwrap_or(u32::MAX))
    }
}

/// An absolute path that means the same to every shell.
pub(super) fn is_plain_path(path: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '_' | '-');
    path.starts_with('/')
        && path.len() <= 1024
        && path.chars().all(plain)
        && !path.split('/').any(|part| part == "..")
}

/// Whether the answer of a machine that nobody trusts is a folder that `mktemp` made below `parent`.
pub fn is_our_folder(folder: &str, parent: &str) -> bool {
    let random = folder
        .strip_prefix(parent)
        .and_then(|rest| rest.strip_prefix('/'))
        .and_then(|name| name.strip_prefix(FOLDER_PREFIX));
    random.is_some_and(|random| random.len() == 10 && random.chars().all(|c| c.is_ascii_alphanumeric()))
}

/// The folder in which folders of ours are made.
fn parent_of(ssh: &SshSpec) -> Result<&str, Reason> {
    let parent = ssh.scratch.as_deref().unwrap_or(USUAL_FOLDER).trim_end_matches('/');
    if is_plain_path(parent) {
        return Ok(parent);
    }
    Err(format!("ssh.scratch = \"{parent}\" may only be an absolute path of letters, digits and / . _ -")
        .into())
}

fn binary(exe: &Path) -> Result<File, Reason> {
    File::open(exe)
        .map_err(|error| format!("cannot open this program's binary {}: {error}", exe.display()).into())
}

/// The first destination, which means the same to every shell and is no option of ssh.
pub(super) fn one_destination(ssh: &SshSpec) -> Result<&str, Reason> {
    let destination = ssh.destinations.first().ok_or("no machine is named")?;
    if is_ssh_destination(destination) {
        return Ok(destination);
    }
    Err(format!("\"{}\" is no SSH destination: wanted [user@]host", harmless(destination.as_bytes())).into())
}

/// Runs this program on a machine, with these words behind its name, and returns what it prints, at most `most` bytes. All over one
/// connection, and the machine's shell removes what was copied, however that ends.
///
/// # Errors
/// The machine is not reached, cannot run the program, or it fails or prints more.
pub fn run_there(
    ssh: &SshSpec,
    exe: &Path,
    words: &[&str],
    most: u64,
    cancel: &Cancel,
) -> Result<String, Reason> {
    let destination = one_destination(ssh)?;
    let is_plain = |word: &&str| word.chars().all(|c| c.is_ascii_alphanumeric() || c == '-');
    if !words.iter().all(is_plain) {
        return Err(format!("{destination}: words are letters, digits and -").into());
    }
    let parent = parent_of(ssh)?;
    // Checked: nothing in it means anything to a shell.
    let remote = format!(
        "umask 077; m=$(uname -sm); [ \"$m\" = 'Linux {arch}' ] || \
         {{ echo \"it is $m, this program runs on Linux {arch}: use a build for that machine\" >&2; exit 1; }}; \
         d=$(mktemp -d {parent}/{FOLDER_PREFIX}XXXXXXXXXX) || exit 1; trap 'rm -rf \"$d\"' EXIT; trap 'exit 1' HUP INT TERM PIPE; \
         cat > \"$d/bulkhead\" && chmod 700 \"$d/bulkhead\" && \"$d/bulkhead\" {words}",
        arch = std::env::consts::ARCH,
        words = words.join(" "),
    );
    let mut out = output(ssh, destination, &remote, Some(binary(exe)?), COPY_LIMIT, most, cancel)?;
    let mut text = String::new();
    std::io::Seek::rewind(&mut out)
        .and_then(|()| out.take(most).read_to_string(&mut text))
        .map_err(|error| format!("what {destination} said is no text: {error}"))?;
    Ok(text)
}

/// Whether a file on a machine has this SHA-256, in digits, in a folder that only its user can enter. If so its time says that it was
/// wanted now.
///
/// # Errors
/// The machine is not reached.
pub fn has_digest(ssh: &SshSpec, path: &str, digits: &str, cancel: &Cancel) -> Result<bool, Reason> {
    let destination = one_destination(ssh)?;
    let Some((folder, _)) =
        path.rsplit_once('/').filter(|(folder, _)| is_plain_path(folder) && is_plain_path(path))
    else {
        return Ok(false);
    };
    // Checked: nothing in it means anything to a shell.
    let remote = format!(
        "[ \"$(stat -c %a:%u {folder})\" = \"700:$(id -u)\" ] && touch -c {path} && sha256sum {path} || true"
    );
    let told = call(ssh, destination, &remote, None, COPY_LIMIT, cancel)?;
    Ok(told.split_whitespace().next() == Some(digits))
}

/// Runs a short remote command and returns the beginning of its output; `input` goes to its standard input.
fn call(
    ssh: &SshSpec,
    destination: &str,
    remote: &str,
    input: Option<File>,
    limit: Duration,
    cancel: &Cancel,
) -> Result<String, Reason> {
    output(ssh, destination, remote, input, limit, u64::MAX, cancel).map(beginning_of)
}

/// Runs a remote command and returns the file that holds its output, of at most so many bytes.
fn output(
    ssh: &SshSpec,
    destination: &str,
    remote: &str,
    input: Option<File>,
    limit: Duration,
    most: u64,
    cancel: &Cancel,
) -> Result<File, Reason> {
    let mut command = command(ssh, destination, remote);
    command.stdin(input.map_or_else(Stdio::null, Stdio::from));
    // To files, not pipes: nobody has to read while the command runs, and what it says is bounded.
    let files = tempfile::tempfile().and_then(|out| Ok((out, tempfile::tempfile()?)));
    let (out, complaints) = files.map_err(|error| format!("cannot make a temporary file: {error}"))?;
    let copies = out.try_clone().and_then(|out| Ok((out, complaints.try_clone()?)));
    let (out_copy, complaints_copy) = copies.map_err(|error| format!("cannot share a file: {error}"))?;
    command.stdout(out_copy).stderr(complaints_copy);
    let mut child = spawn(command, Bond::DiesWithUs, None).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => {
            "the OpenSSH client is missing: install it, e.g. apt-get install openssh-client".to_owned()
        }
        _ => format!("cannot start ssh: {error}"),
    })?;
    let is_too_long = || out.metadata().is_ok_and(|file| file.len() > most);
    let status = wait(&mut child, limit, &is_too_long, cancel);
    if is_too_long() {
        return Err(format!("{destination} said more than the {most} bytes that its answer may have").into());
    }
    let status =
        status.ok_or_else(|| format!("{destination} did not finish within {} s", limit.as_secs()))?;
    match status.code() {
        Some(0) => Ok(out),
        Some(OWN_FAILURE) => Err(explain(destination, &beginning_of(complaints)).into()),
        _ => {
            Err(format!("{destination}: the command failed ({status}): {}", beginning_of(complaints).trim())
                .into())
        }
    }
}

/// Waits for the end; kills what takes too long, says too much or is not wanted any more.
fn wait(
    child: &mut Child,
    limit: Duration,
    is_too_long: &dyn Fn() -> bool,
    cancel: &Cancel,
) -> Option<std::process::ExitStatus> {
    let until = Instant::now() + limit;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Some(status),
            Ok(None) if Instant::now() < until && !cancel.is_cancelled() && !is_too_long() => {
                std::thread::sleep(Duration::from_millis(5));
            }
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                return None;
            }
        }
    }
}

/// The beginning of what was written to a file, fit for printing.
fn beginning_of(mut file: File) -> String {
    let mut bytes = Vec::new();
    let rewound = std::io::Seek::rewind(&mut file);
    if rewound.and_then(|()| file.take(MOST_OUTPUT).read_to_end(&mut bytes)).is_err() {
        return String::new();
    }
    let text = String::from_utf8_lossy(&bytes);
    text.lines().map(|line| harmless(line.as_bytes())).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_machine_says_is_a_folder_of_ours_or_refused() {
        assert!(is_our_folder("/tmp/bulkhead-aB3dE6gH9x", "/tmp"));
        for bad in [
            "/tmp/bulkhead-aB3dE6gH9",
            "/tmp/bulkhead-aB3dE6gH9x;reboot",
            "/tmp/bulkhead-aB3dE6g$(x",
            "/etc",
            "/tmp/../bulkhead-aB3dE6gH9x",
            "",
            "/var/bulkhead-aB3dE6gH9x",
            "/tmp/bulkhead-aB3dE6gH9x\n/etc",
        ] {
            assert!(!is_our_folder(bad, "/tmp"), "{bad}");
        }
    }

    #[test]
    fn paths_that_mean_something_to_a_shell_are_refused() {
        assert!(is_plain_path("/var/tmp/x-1_2.d"));
        for bad in ["tmp", "/tmp/$(x)", "/tmp/a b", "/tmp/`x`", "/tmp/../etc", "/tmp/\n", "~/x"] {
            assert!(!is_plain_path(bad), "{bad}");
        }
    }
}
