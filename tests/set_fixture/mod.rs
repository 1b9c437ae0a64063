//! A bench for sets of partitions: the program itself as a child process, a state folder of its own, a stand-in for QEMU,
//! and a look at everything that could be left behind.

mod answers;
pub mod pretend;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use bulkhead::model::partition::set::{Phase, SetStatus};
use bulkhead::model::verification::{RequirementVerdict, Verification};
use skips::{Need, skip};

/// Generous: what takes longer hangs.
pub const PATIENCE: Duration = Duration::from_secs(240);

/// The folders of one test.
pub struct Bench {
    folder: tempfile::TempDir,
    qemu: Option<PathBuf>,
    /// The program that is called.
    pub program: PathBuf,
}

impl Drop for Bench {
    /// A test that fails leaves nothing either.
    fn drop(&mut self) {
        if std::thread::panicking() {
            for name in ["plant", "crash"] {
                let _ = self.command(&["down", name]).output();
            }
        }
    }
}

/// How a call of the program ended.
#[derive(Debug)]
pub struct Said {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Bench {
    /// With the stand-in for QEMU, which runs the programs themselves.
    pub fn pretending() -> Self {
        let myself = std::env::current_exe().expect("this test");
        let bench = Self::real();
        // Behind its wall it sees its own folder and the system.
        let beside = bench.path("stand-in");
        fs::hard_link(&myself, &beside)
            .or_else(|_| fs::copy(&myself, &beside).map(drop))
            .expect("the test's own files");
        fs::set_permissions(bench.folder.path(), fs::Permissions::from_mode(0o755))
            .expect("the test's own files");
        let text = format!(
            "#!/bin/sh\n[ \"$1\" = --version ] && {{ echo 'QEMU emulator version 0.0'; exit 0; }}\n{}=\"$*\" exec '{}' \
             --exact set_fixture::pretend::pretend_qemu --ignored --nocapture --quiet\n",
            pretend::WORDS,
            beside.display()
        );
        bench.through(&text)
    }

    /// With the real one.
    pub fn real() -> Self {
        let folder = tempfile::Builder::new().prefix("bh-").tempdir().expect("the test's own files");
        fs::create_dir(folder.path().join("tmp")).expect("the test's own files");
        Self { folder, qemu: None, program: env!("CARGO_BIN_EXE_bulkhead").into() }
    }

    /// With a copy of the program that is the test's own.
    pub fn with_own_program(mut self) -> Self {
        let own = self.path("bulkhead");
        // By a process of its own: what this one writes, a child of another test may hold open for a moment, and then it cannot run.
        let copied = Command::new("cp").arg(&self.program).arg(&own).status().expect("cp runs");
        assert!(copied.success(), "the test's own files");
        self.program = own;
        self
    }

    /// The same through a script, which gets QEMU's words.
    pub fn through(mut self, script: &str) -> Self {
        let path = self.path("qemu");
        fs::write(&path, script).expect("the test's own files");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("the test's own files");
        self.qemu = Some(path);
        self
    }

    /// Folder of all sets.
    pub fn state(&self) -> PathBuf {
        self.folder.path().join("state")
    }

    /// A path for whatever a test needs.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes a file of a set; under the translator, so that nothing is tried first.
    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, format!("accelerator = \"tcg\"\n{text}")).expect("the test's own files");
        path
    }

    /// The program with these words.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(words).env("BULKHEAD_STATE", self.state()).env("TMPDIR", self.path("tmp"));
        command.stdin(Stdio::null());
        if let (Some(qemu), Some(&"up")) = (&self.qemu, words.first()) {
            command.arg("--qemu").arg(qemu);
        }
        command
    }

    pub fn call(&self, words: &[&str]) -> Said {
        said(&self.command(words).output().expect("the program runs"))
    }

    pub fn up(&self, file: &Path) -> Said {
        self.call(&["up", file.to_str().expect("plain")])
    }

    /// `up` as a child that can be killed.
    pub fn begin(&self, words: &[&str]) -> Child {
        let mut command = self.command(words);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program runs")
    }

    /// What `ps --json` says of the only set there is.
    pub fn ps(&self) -> Option<SetStatus> {
        let said = self.call(&["ps", "--json"]);
        assert_eq!(said.code, Some(0), "{said:?}");
        let mut sets: Vec<SetStatus> = serde_json::from_str(&said.out).expect("ps --json");
        assert!(sets.len() < 2, "{sets:?}");
        sets.pop()
    }

    /// Partitions with their phases: `db running, plc lost`.
    pub fn phases(&self) -> String {
        let partitions = self.ps().map(|set| set.partitions).unwrap_or_default();
        let words =
            partitions.iter().map(|partition| format!("{} {}", partition.name, partition.phase.word()));
        words.collect::<Vec<_>>().join(", ")
    }

    /// Waits until a partition has come so far.
    pub fn wait_for(&self, name: &str, phase: Phase) -> bulkhead::model::partition::set::PartitionStatus {
        self.wait(&format!("{name} is not {}", phase.word()), |set| {
            let found = set.partitions.iter().find(|partition| partition.name == name)?;
            (found.phase == phase).then(|| found.clone())
        })
    }

    /// Waits until what `ps` says has what is wanted.
    pub fn wait<T>(&self, otherwise: &str, found: impl Fn(&SetStatus) -> Option<T>) -> T {
        let until = Instant::now() + PATIENCE;
        loop {
            let set = self.ps();
            if let Some(found) = set.as_ref().and_then(&found) {
                return found;
            }
            assert!(Instant::now() < until, "{otherwise}: {set:?}");
            std::thread::sleep(Duration::from_millis(30));
        }
    }

    /// Processes, files, sockets: everything that is left of this test, one line each.
    pub fn left(&self) -> Vec<String> {
        let mut left = self.processes();
        for folder in ["state", "tmp"] {
            let entries = fs::read_dir(self.path(folder)).into_iter().flatten().flatten();
            left.extend(entries.map(|entry| entry.path().display().to_string()));
        }
        left.extend(self.memory().iter().map(|folder| folder.display().to_string()));
        left
    }

    /// Folders of channels in memory that belong to sets of this test.
    fn memory(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir("/dev/shm").into_iter().flatten().flatten().map(|entry| entry.path());
        let is_ours = |folder: &PathBuf| {
            fs::read_link(folder.join(".of")).is_ok_and(|set| set.starts_with(self.state()))
        };
        entries.filter(is_ours).collect()
    }

    /// Everything that was started with this test's temporary folder in its environment and lives: of what we have, only that
    /// variable goes with QEMU behind its wall.
    pub fn processes(&self) -> Vec<String> {
        let mark = format!("TMPDIR={}", self.path("tmp").display());
        let mut left = Vec::new();
        for entry in fs::read_dir("/proc").expect("proc").flatten() {
            if !entry.file_name().to_string_lossy().bytes().all(|byte| byte.is_ascii_digit()) {
                continue;
            }
            let environment = fs::read(entry.path().join("environ")).unwrap_or_default();
            if environment.split(|byte| *byte == 0).any(|word| word == mark.as_bytes()) {
                let words = fs::read(entry.path().join("cmdline")).unwrap_or_default();
                let words = String::from_utf8_lossy(&words).replace('\0', " ");
                left.push(format!(
                    "{} {}",
                    entry.file_name().display(),
                    words.chars().take(150).collect::<String>()
                ));
            }
        }
        left
    }

    /// Waits until nothing is left.
    pub fn assert_nothing_left(&self, when: &str) {
        let until = Instant::now() + PATIENCE;
        loop {
            let left = self.left();
            if left.is_empty() {
                return;
            }
            assert!(Instant::now() < until, "left behind {when}:\n{}", left.join("\n"));
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

pub fn said(output: &Output) -> Said {
    Said {
        code: output.status.code(),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// A test that needs a real guest is skipped where this is false.
#[track_caller]
pub fn guests_are_there() -> bool {
    let qemu = Command::new("qemu-system-x86_64").arg("--version").stdout(Stdio::null()).status().is_ok();
    if !qemu {
        skip(Need::Vm, "no qemu-system-x86_64");
    }
    qemu
}

/// Kills a process by its number, as `kill -9` does.
pub fn kill(pid: u32) {
    send(pid, nix::sys::signal::Signal::SIGKILL);
}

/// Stops a process by its number, as `kill -STOP` does.
pub fn pause(pid: u32) {
    send(pid, nix::sys::signal::Signal::SIGSTOP);
}

/// Interrupts a process by its number, as Ctrl-C does.
pub fn interrupt(pid: u32) {
    send(pid, nix::sys::signal::Signal::SIGINT);
}

fn send(pid: u32, signal: nix::sys::signal::Signal) {
    let pid = i32::try_from(pid).expect("a process number");
    let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), signal);
}

/// What a verification in this folder says of each requirement.
pub fn verdicts(folder: &str) -> BTreeMap<String, RequirementVerdict> {
    let text = fs::read(format!("{folder}/verify.json")).expect("it is written");
    let said: Verification = serde_json::from_slice(&text).expect("a verification");
    said.requirements.into_iter().map(|one| (one.id, one.verdict)).collect()
}
