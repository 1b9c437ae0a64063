//! Starts `bulkhead exec` for tests, in a temporary folder of its own that must be empty afterwards.

pub mod normal_user;
pub mod saved;

use std::ffi::OsStr;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use nix::unistd::Pid;
use skips::{Need, skip};

/// Generous: a guest boots in two seconds, on a busy machine in ten. It was 100 s; ranks of MPI that spin in three guests on two
/// CPUs beside two other files of tests took longer, twice.
pub const PATIENCE: Duration = Duration::from_secs(300);

/// The program.
pub fn binary() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_bulkhead"))
}

/// Whether guests can be started here; a test that needs them is skipped where not.
#[track_caller]
pub fn guests_start() -> bool {
    static WHY_NOT: OnceLock<Option<String>> = OnceLock::new();
    let why_not = WHY_NOT.get_or_init(|| {
        let here = Here::new();
        let output = here.run(&["--", "true"]);
        (output.status.code() != Some(0)).then(|| String::from_utf8_lossy(&output.stderr).into_owned())
    });
    if let Some(why) = why_not {
        skip(Need::Vm, format!("no guest starts: {why}"));
    }
    why_not.is_none()
}

/// A temporary folder for the program, and one for the test's own files.
pub struct Here {
    temporary: tempfile::TempDir,
    pub files: tempfile::TempDir,
}

impl Here {
    pub fn new() -> Self {
        let made = || tempfile::Builder::new().prefix("exec-test-").tempdir().expect("the test's own files");
        Self { temporary: made(), files: made() }
    }

    /// `bulkhead exec --accel tcg WORDS…`, with nothing on its standard input.
    pub fn command<S: AsRef<OsStr>>(&self, words: &[S]) -> Command {
        self.verb("exec", words)
    }

    /// The same with another verb.
    pub fn verb<S: AsRef<OsStr>>(&self, verb: &str, words: &[S]) -> Command {
        // Whoever runs the tests in the background has them ignore some signals, which exec would inherit and respect.
        let mut command = Command::new("env");
        command.arg("--default-signal=HUP,INT,QUIT").arg(binary());
        command.args([verb, "--accel", "tcg", "--memory", "320MiB"]).args(words);
        command.env("TMPDIR", self.temporary.path()).stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub fn run<S: AsRef<OsStr>>(&self, words: &[S]) -> Output {
        finish(self.command(words).spawn().expect("it starts"))
    }

    /// Runs it with these bytes on its standard input.
    pub fn feed<S: AsRef<OsStr>>(&self, words: &[S], input: &[u8]) -> Output {
        let mut child = self.command(words).stdin(Stdio::piped()).spawn().expect("it starts");
        let mut pipe = child.stdin.take().expect("a pipe");
        std::thread::scope(|scope| {
            scope.spawn(move || {
                // A program may end without reading all of it.
                let _ = pipe.write_all(input);
            });
            finish(child)
        })
    }

    /// Files and processes of it that are there now.
    pub fn left_behind(&self) -> Vec<String> {
        let names = std::fs::read_dir(self.temporary.path()).expect("the test's own files").flatten();
        let left: Vec<String> = names.map(|entry| format!("{}", entry.path().display())).collect();
        let lines = self.processes().into_iter().map(|(_, line)| line.chars().take(200).collect());
        left.into_iter().chain(lines).collect()
    }

    /// Its processes with their words.
    pub fn processes(&self) -> Vec<(Pid, String)> {
        let mark = format!("TMPDIR={}", self.temporary.path().display());
        let ours = |path: &PathBuf| {
            let environment = std::fs::read(path.join("environ")).unwrap_or_default();
            environment.split(|byte| *byte == 0).any(|word| word == mark.as_bytes())
        };
        let all = std::fs::read_dir("/proc").expect("proc").flatten().map(|entry| entry.path());
        all.filter(ours)
            .filter_map(|path| {
                let number = path.file_name()?.to_str()?.parse().ok()?;
                let line = std::fs::read(path.join("cmdline")).unwrap_or_default();
                Some((Pid::from_raw(number), String::from_utf8_lossy(&line).replace('\0', " ")))
            })
            .collect()
    }

    /// Folders of sections that belong to folders of it which are there now.
    pub fn sections(&self) -> Vec<PathBuf> {
        let names = std::fs::read_dir(self.temporary.path()).expect("the test's own files").flatten();
        let folders = names.map(|entry| Path::new("/dev/shm").join(entry.file_name()));
        folders.filter(|path| path.is_dir()).collect()
    }

    /// Nothing may be left; what is dying may take a moment.
    pub fn assert_nothing_left(&self) {
        let until = Instant::now() + Duration::from_secs(30);
        loop {
            let left = self.left_behind();
            if left.is_empty() {
                return;
            }
            assert!(Instant::now() < until, "left behind:\n{}", left.join("\n"));
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Where the program keeps what it makes.
    pub fn temporary(&self) -> &Path {
        self.temporary.path()
    }

    /// Path of a file of the test's own.
    pub fn path(&self, name: &str) -> PathBuf {
        self.files.path().join(name)
    }
}

/// The guests' kernel that the set-up has fetched, if it has: for those whose cache folder is another one.
pub fn fetched_kernel() -> Option<PathBuf> {
    let folder = bulkhead::cli::cache_folder().join("kernel/boot");
    let mut files = std::fs::read_dir(folder).ok()?.flatten();
    files.find(|file| file.file_name().to_string_lossy().starts_with("vmlinuz-")).map(|file| file.path())
}

/// A port of this host that nobody listens at.
pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port").port()
}

/// Reads all it says and waits for its end, at most [`PATIENCE`].
pub fn finish(child: Child) -> Output {
    finish_within(child, PATIENCE)
}

/// The same with another patience.
pub fn finish_within(mut child: Child, patience: Duration) -> Output {
    let mut out = child.stdout.take();
    let mut err = child.stderr.take();
    std::thread::scope(|scope| {
        let out = scope.spawn(move || read_all(out.as_mut()));
        let err = scope.spawn(move || read_all(err.as_mut()));
        let status = end_within(&mut child, patience);
        let (stdout, stderr) = (out.join().expect("no panic"), err.join().expect("no panic"));
        Output { status, stdout, stderr }
    })
}

fn read_all(from: Option<&mut impl Read>) -> Vec<u8> {
    let mut bytes = Vec::new();
    if let Some(from) = from {
        from.read_to_end(&mut bytes).expect("a pipe is read");
    }
    bytes
}

/// Waits for a child, at most [`PATIENCE`].
pub fn end_of(child: &mut Child) -> ExitStatus {
    end_within(child, PATIENCE)
}

fn end_within(child: &mut Child, patience: Duration) -> ExitStatus {
    let until = Instant::now() + patience;
    loop {
        if let Some(status) = child.try_wait().expect("our child") {
            return status;
        }
        if Instant::now() > until {
            let _ = child.kill();
            panic!("it did not end within {patience:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Standard output as text.
pub fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Standard error as text.
pub fn complaint(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Fails with all that was said unless the code is this one.
#[track_caller]
pub fn assert_code(output: &Output, code: i32) {
    assert_eq!(output.status.code(), Some(code), "stdout: {}\nstderr: {}", text(output), complaint(output));
}

/// Reads from a child's standard output until it has said this.
pub fn wait_for(child: &mut Child, wanted: &str) {
    let out = child.stdout.as_mut().expect("a pipe");
    let mut said = Vec::new();
    while !String::from_utf8_lossy(&said).contains(wanted) {
        let mut byte = [0];
        assert_eq!(out.read(&mut byte).expect("a pipe is read"), 1, "it ended without saying {wanted}");
        said.push(byte[0]);
    }
}
