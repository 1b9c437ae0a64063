//! Starts Open MPI's own launcher: over its shared memory or over the provider, in folders that are gone afterwards.

use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Generous: what takes longer hangs.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// What carries the messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Over {
    /// Open MPI's own shared memory.
    Vader,
    /// The provider in this shared library.
    Provider(PathBuf),
}

/// Folders of one launch and how it is done.
pub struct Launch {
    over: Over,
    ranks: u32,
    /// The programs' working folder, and Open MPI's files.
    pub folder: tempfile::TempDir,
    /// In memory: sections and shared segments.
    memory: tempfile::TempDir,
    /// Whether each rank has a core of its own.
    bound: bool,
}

/// How a launch ended.
#[derive(Debug)]
pub struct Ended {
    /// None: not in time; it was killed.
    pub status: Option<ExitStatus>,
    /// What the ranks printed.
    pub out: String,
    /// What ranks and launcher complained about.
    pub err: String,
    /// Processes that were still there after the launcher had ended.
    pub left: Vec<String>,
}

impl Ended {
    /// Exit code; None when killed.
    pub fn code(&self) -> Option<i32> {
        self.status.and_then(|status| status.code())
    }
}

impl Launch {
    /// Of so many ranks.
    pub fn new(over: &Over, ranks: u32) -> Self {
        let in_memory = || tempfile::Builder::new().prefix("bulkhead-mpi-").tempdir_in("/dev/shm");
        let memory = in_memory().expect("a folder in memory");
        let sections = memory.path().join("sections");
        fs::create_dir(&sections).expect("the sections' folder");
        fs::set_permissions(&sections, fs::Permissions::from_mode(0o700)).expect("our own folder");
        Self {
            over: over.clone(),
            ranks,
            folder: tempfile::Builder::new().prefix("mpi-test-").tempdir().expect("the test's own files"),
            memory,
            bound: false,
        }
    }

    /// Each rank stays on a core of its own, if there are so many: what is measured then is not where ranks were put.
    pub fn bound(mut self) -> Self {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        self.bound = usize::try_from(self.ranks).is_ok_and(|ranks| ranks <= cores);
        self
    }

    /// The folder with the ranks' sections.
    pub fn sections(&self) -> PathBuf {
        self.memory.path().join("sections")
    }

    /// The launcher's command line, without the program.
    pub fn command(&self) -> Command {
        let mut command = Command::new("mpirun");
        command.args(["--oversubscribe", "-n", &self.ranks.to_string()]);
        command.args(["--bind-to", if self.bound { "core" } else { "none" }]);
        // Nothing listens beyond this machine.
        command.args(["--mca", "oob_tcp_if_include", "lo"]);
        command.arg("--mca").arg("orte_tmpdir_base").arg(self.folder.path());
        match &self.over {
            Over::Vader => {
                command.args(["--mca", "pml", "ob1", "--mca", "btl", "self,vader"]);
                command.arg("--mca").arg("btl_vader_backing_directory").arg(self.memory.path());
            }
            Over::Provider(library) => {
                command.args(["--mca", "pml", "cm", "--mca", "mtl", "ofi"]);
                command.args(["--mca", "mtl_ofi_provider_include", "bulkhead"]);
                command.env("FI_PROVIDER_PATH", library.parent().unwrap_or(Path::new(".")));
                command.env("BULKHEAD_FABRIC_SECTIONS", self.sections());
                command.env("BULKHEAD_FABRIC_HOST", "this-host");
            }
        }
        command.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
        command.env("OPENBLAS_NUM_THREADS", "1").env("TMPDIR", self.folder.path());
        command
    }

    /// Runs a program in the launch's own folder to its end, or to the deadline.
    pub fn run<S: Into<OsString> + Clone>(&self, program: &Path, words: &[S], patience: Duration) -> Ended {
        self.run_in(self.folder.path(), program, words, patience)
    }

    /// The same in another folder.
    pub fn run_in<S: Into<OsString> + Clone>(
        &self,
        folder: &Path,
        program: &Path,
        words: &[S],
        patience: Duration,
    ) -> Ended {
        let mut command = self.command();
        command.arg(program).args(words.iter().cloned().map(Into::into));
        let log = |name: &str| self.folder.path().join(name);
        let (out, err) = (log("launcher.out"), log("launcher.err"));
        let file = |path: &Path| Stdio::from(File::create(path).expect("the test's own files"));
        command.current_dir(folder).stdin(Stdio::null()).stdout(file(&out)).stderr(file(&err));
        let mut launcher = command.process_group(0).spawn().expect("mpirun starts");
        let status = wait(&mut launcher, patience);
        let left = self.end_all(&mut launcher, status.is_some());
        let read = |path: &Path| String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned();
        Ended { status, out: read(&out), err: read(&err), left }
    }

    /// Ends what is still there; says what that was, if the launcher had ended by itself.
    fn end_all(&self, launcher: &mut Child, ended: bool) -> Vec<String> {
        if !ended {
            // It ends its ranks itself, if it is still able to.
            send(launcher.id(), Signal::SIGTERM);
            let _ = wait(launcher, Duration::from_secs(10));
            let _ = launcher.kill();
            let _ = launcher.wait();
        }
        // Ranks may still be on their way out.
        let given = Instant::now() + Duration::from_secs(10);
        while !self.there().is_empty() && Instant::now() < given {
            std::thread::sleep(Duration::from_millis(20));
        }
        let left = self.there();
        for (id, _) in &left {
            send(*id, Signal::SIGKILL);
        }
        left.into_iter().map(|(id, name)| format!("{id} {name}")).collect()
    }

    /// Processes of this launch, by what their environment says.
    fn there(&self) -> Vec<(u32, String)> {
        let wanted = format!("TMPDIR={}", self.folder.path().display());
        let numbers = fs::read_dir("/proc").expect("/proc").flatten();
        let ids = numbers.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        let of_us = ids.filter(|id| {
            let environment = fs::read(format!("/proc/{id}/environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
        });
        let name =
            |id: &u32| fs::read_to_string(format!("/proc/{id}/comm")).unwrap_or_default().trim().to_owned();
        of_us.map(|id| (id, name(&id))).collect()
    }
}

fn send(id: u32, signal: Signal) {
    if let Ok(id) = i32::try_from(id) {
        // Already gone, then.
        let _ = kill(Pid::from_raw(id), signal);
    }
}

/// None: not in time.
fn wait(launcher: &mut Child, patience: Duration) -> Option<ExitStatus> {
    let deadline = Instant::now() + patience;
    loop {
        match launcher.try_wait().expect("our own child") {
            Some(status) => return Some(status),
            None if Instant::now() > deadline => return None,
            None => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}
