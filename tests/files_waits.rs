//! Waits for locks in a partition: signals end them, or do not, as natively, and nothing is locked afterwards.

use crate::exec_fixture;

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use exec_fixture::{Here, assert_code, complaint, finish_within, guests_start, text};
use nix::fcntl::{FcntlArg, fcntl};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rustix::fs::{FlockOperation, flock};

/// Long enough for all of them under the translator; and how long they may take, in seconds.
const PATIENCE: Duration = Duration::from_secs(300);
const AT_MOST: &str = "280";
/// Kinds of locks.
const KINDS: [&str; 3] = ["flock", "record", "description"];

fn plain(path: &Path) -> &str {
    path.to_str().expect("a path of text")
}

/// All of a file's locks, of both families, unless somebody else has any.
fn all_locks(path: &Path) -> Option<File> {
    let file =
        File::options().read(true).write(true).create(true).truncate(false).open(path).expect("it opens");
    let kind = i16::try_from(nix::libc::F_WRLCK).expect("a small number");
    let whole = nix::libc::flock { l_type: kind, l_whence: 0, l_start: 0, l_len: 0, l_pid: 0 };
    let has = fcntl(&file, FcntlArg::F_OFD_SETLK(&whole)).is_ok()
        && flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
    has.then_some(file)
}

fn folder(here: &Here, name: &str) -> PathBuf {
    let folder = here.path(name);
    fs::create_dir(&folder).expect("the test's own files");
    folder
}

/// What the operations on a folder say, while this side has some of the locks and gives them back when it is asked to.
fn results(mut child: Child, folder: &Path) -> Vec<String> {
    let files =
        |name: &str| KINDS.iter().map(|kind| folder.join(format!("{kind}-{name}"))).collect::<Vec<_>>();
    let paths = [files("host"), files("host-shm")].concat();
    let mut held: Vec<File> = paths.iter().map(|path| all_locks(path).expect("nobody has it")).collect();
    let mut said = Vec::new();
    for line in BufReader::new(child.stdout.take().expect("a pipe")).lines() {
        match line.expect("text").as_str() {
            "free" => held.clear(),
            "done" => {
                let mut all = [paths.clone(), files("own"), files("own-shm")].concat();
                all.retain(|path| all_locks(path).is_none());
                assert!(all.is_empty(), "somebody there still has {all:?}");
                drop(child.stdin.take());
            }
            line => said.push(line.to_owned()),
        }
    }
    assert_code(&finish_within(child, PATIENCE), 0);
    said
}

#[test]
fn signals_end_a_wait_for_a_lock_as_natively() {
    if !guests_start() {
        return;
    }
    let here = Here::new();
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/files/waits.py");
    let piped = |command: &mut Command| {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts")
    };
    let native = folder(&here, "native");
    let natively = piped(Command::new("timeout").args([AT_MOST, "python3"]).arg(&program).arg(&native));
    let natively = results(natively, &native);
    let open = folder(&here, "open");
    let shown = ["--rw", plain(&open), "--ro", plain(&program), "--"];
    let words = [&shown[..], &["timeout", AT_MOST, "python3", plain(&program), plain(&open)]].concat();
    let within = results(piped(&mut here.command(&words)), &open);
    let has = |line: &str| natively.iter().any(|said| said == line);
    assert!(has("flock of host, handler: EINTR") && has("record of own-shm, signal 9: waits, ended by 9"));
    assert!(has("description of host, handler that restarts: waits, has it"), "{natively:#?}");
    assert_eq!(within, natively);
    assert_eq!(natively.len(), 12 * 4 + 7);
    here.assert_nothing_left();
}

#[test]
fn a_program_gives_up_a_lock_that_the_host_has() {
    if !guests_start() {
        return;
    }
    let here = Here::new();
    let open = folder(&here, "open");
    let file = open.join("file");
    let held = all_locks(&file).expect("nobody has it");
    let run = |words: &[&str]| {
        let words = [&["--rw", plain(&open), "--"], words].concat();
        here.command(&words).spawn().expect("it starts")
    };
    // The second time from a saved machine.
    for _ in 0..2 {
        let output = finish_within(run(&["flock", "-w", "1", plain(&file), "true"]), PATIENCE);
        assert_code(&output, 1);
    }
    let script = format!("echo waits; exec flock {} true", plain(&file));
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        let mut child = run(&["sh", "-c", &script]);
        exec_fixture::wait_for(&mut child, "waits\n");
        let exec = Pid::from_raw(i32::try_from(child.id()).expect("a number"));
        kill(exec, signal).expect("it runs");
        assert_code(&finish_within(child, PATIENCE), 128 + signal as i32);
    }
    drop(held);
    assert_code(&finish_within(run(&["flock", plain(&file), "true"]), PATIENCE), 0);
    here.assert_nothing_left();
}

/// How often the threads of PID 1 have slept that look for signals and take times, on one line.
const SLEPT: &str = "for task in /proc/1/task/*; do case $(cat $task/comm) in waits|times) echo $(grep ^voluntary $task/status);; esac; done \
                     | paste -sd' '";

#[test]
fn as_long_as_nobody_waits_nobody_looks() {
    if !guests_start() {
        return;
    }
    let here = Here::new();
    let open = folder(&here, "open");
    let script = format!("slept() {{ {SLEPT}; }}; sleep 1; slept; sleep 5; slept; flock file true; slept");
    let words = ["--rw", plain(&open), "--workdir", plain(&open), "--", "sh", "-c", &script];
    let output = finish_within(here.command(&words).spawn().expect("it starts"), PATIENCE);
    assert_code(&output, 0);
    let said = text(&output);
    let slept: Vec<&str> = said.lines().collect();
    assert!(slept.len() == 3 && slept.iter().all(|line| *line == slept[0]), "{said}{}", complaint(&output));
    // A tree is needed for it, and who shows none has no such thread.
    let output = here.run(&["--", "sh", "-c", SLEPT]);
    assert_eq!(text(&output).trim(), "", "{}", complaint(&output));
    here.assert_nothing_left();
}
