//! Files of the host that it changes while a partition opens them: no open fails for that, each finds what was there, and what the
//! guest has in its cache is neither dropped without need nor kept too long.

use crate::exec_fixture;
use crate::files::Shell;

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{scope, sleep};
use std::time::Duration;

use exec_fixture::{Here, assert_code, complaint, finish_within, guests_start, text, wait_for};
use rustix::fs::{CWD, RenameFlags, renameat_with};

/// Long enough for all of them under the translator.
const PATIENCE: Duration = Duration::from_secs(300);

/// Opens in all ways, and says what went wrong.
const OPENS: &str = r#"
import os
wrong, last = [], 0
def opens(name, flags, is_right):
    try:
        file = os.open(name, flags, 0o644)
        content = os.read(file, 100000)
        os.close(file)
        if not is_right(content): wrong.append((name, content[-40:]))
    except OSError as error: wrong.append((name, flags, str(error)))
def grows(content):
    global last
    before, last = last, int(content or b"-1")
    return last >= before
append = os.O_RDWR | os.O_APPEND
# Cut anywhere: natively, too, a read that the host's truncation meets between two pages ends there.
lines = lambda content: content == (b"line of a log\n" * (len(content) // 14 + 1))[:len(content)]
for n in range(150):
    opens("log", os.O_RDONLY, lines)
    opens("log", append, lines)
    opens("log", os.O_RDWR | os.O_CREAT, lines)
    opens("state", os.O_RDONLY, grows)
    opens("state", os.O_RDWR, grows)
    opens("folder/in", os.O_RDONLY, lambda content: content in (b"one", b"two"))
    opens("link/in", os.O_RDONLY, lambda content: content in (b"one", b"two"))
    opens("folder/new", os.O_RDWR | os.O_CREAT, lambda content: content == b"")
    os.listdir("folder")
    os.stat("state")
    os.stat("folder/in")
print(len(wrong), wrong[:5])
"#;

fn write(path: &Path, content: &str) {
    fs::write(path, content).expect("the test's own files");
}

/// A folder with these files, and a shell in a partition in which it is opened.
fn opened(here: &Here, files: &[(&str, &str)]) -> (PathBuf, Shell) {
    let open = here.path("open");
    fs::create_dir(&open).expect("the test's own files");
    for (name, content) in files {
        write(&open.join(name), content);
    }
    let shell = Shell::start(here, &open);
    (open, shell)
}

/// Puts another file or link in its place.
fn replace(folder: &Path, name: &str, make: impl FnOnce(&Path)) {
    let new = folder.join(format!(".{name}"));
    make(&new);
    fs::rename(new, folder.join(name)).expect("the test's own files");
}

#[test]
fn no_open_fails_because_the_host_writes_and_replaces() {
    if !guests_start() {
        return;
    }
    let here = Here::new();
    let open = here.path("open");
    for name in ["one", "two"] {
        fs::create_dir_all(open.join(name)).expect("the test's own files");
        write(&open.join(name).join("in"), name);
    }
    fs::create_dir(open.join("folder")).expect("the test's own files");
    write(&open.join("folder/in"), "two");
    for (name, content) in [("log", ""), ("state", "0"), ("opens.py", OPENS)] {
        write(&open.join(name), content);
    }
    std::os::unix::fs::symlink("one", open.join("link")).expect("the test's own files");
    let path = open.to_str().expect("a path of text");
    let words = ["--rw", path, "--workdir", path, "--", "sh", "-c", "echo ready; exec python3 opens.py"];
    let mut child = here.command(&words).spawn().expect("it starts");
    wait_for(&mut child, "ready\n");
    let is_over = AtomicBool::new(false);
    let output = scope(|scope| {
        scope.spawn(|| {
            let mut log = fs::File::options().append(true).open(open.join("log")).expect("it is there");
            for number in 1_u64.. {
                if is_over.load(Ordering::Relaxed) {
                    break;
                }
                log.write_all(b"line of a log\n").expect("it is written");
                if number % 512 == 0 {
                    log.set_len(0).expect("the test's own files");
                }
                replace(&open, "state", |new| write(new, &number.to_string()));
                let target = if number % 2 == 0 { "one" } else { "two" };
                replace(&open, "link", |new| std::os::unix::fs::symlink(target, new).expect("a link"));
                let exchange = RenameFlags::EXCHANGE;
                renameat_with(CWD, open.join("folder"), CWD, open.join("one"), exchange)
                    .expect("both are there");
                sleep(Duration::from_micros(300));
            }
        });
        let output = finish_within(child, PATIENCE);
        is_over.store(true, Ordering::Relaxed);
        output
    });
    assert_code(&output, 0);
    // What came before was read by `wait_for`.
    assert!(text(&output).ends_with("0 []\n"), "{}\n{}", text(&output), complaint(&output));
    here.assert_nothing_left();
}

/// What the host does, a step for each line that comes in.
const HOST: &str = r#"
import mmap, os, sys
def step():
    print("done", flush=True)
    sys.stdin.readline()
file = os.open("file", os.O_RDWR)
memory = mmap.mmap(file, 8192)
memory[0:3] = b"one"
step()
# The same page, which is still to be written to the disk: no time of the file changes.
memory[0:3] = b"two"
step()
memory.close()
os.close(file)
os.symlink("v2", "new")
os.rename("new", "link")
step()
os.rename("v1", "old")
os.symlink("v2", "v1")
step()
"#;

#[test]
fn an_open_finds_what_the_host_has_mapped_and_where_its_links_lead() {
    if !guests_start() {
        return;
    }
    let here = Here::new();
    let open = here.path("open");
    for name in ["v1", "v2"] {
        fs::create_dir_all(open.join(name)).expect("the test's own files");
        write(&open.join(name).join("in"), name);
    }
    std::os::unix::fs::symlink("v1", open.join("link")).expect("the test's own files");
    fs::write(open.join("file"), [b'0'; 8192]).expect("the test's own files");
    let path = open.to_str().expect("a path of text");
    let reads = "while read line; do head -c3 file; cat link/in v1/in; echo; done";
    let words = ["--rw", path, "--workdir", path, "--", "sh", "-c", reads];
    let mut guest = here.command(&words).stdin(Stdio::piped()).spawn().expect("it starts");
    let mut host = Command::new("python3")
        .args(["-c", HOST])
        .current_dir(&open)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("python3 runs");
    let mut said = BufReader::new(guest.stdout.take().expect("a pipe"));
    for found in ["onev1v1\n", "twov1v1\n", "twov2v1\n", "twov2v2\n"] {
        wait_for(&mut host, "done\n");
        writeln!(guest.stdin.as_ref().expect("a pipe")).expect("it reads");
        let mut line = String::new();
        said.read_line(&mut line).expect("it answers");
        assert_eq!(line, found);
        writeln!(host.stdin.as_ref().expect("a pipe")).expect("it reads");
    }
    assert!(host.wait().expect("it ends").success());
    drop(guest.stdin.take());
    assert_code(&finish_within(guest, PATIENCE), 0);
    here.assert_nothing_left();
}

#[test]
fn what_the_guest_has_written_it_need_not_read_again() {
    if !guests_start() {
        return;
    }
    let here = Here::new();
    let (open, mut shell) = opened(&here, &[]);
    // Written to the disk: on a busy host the guest's kernel would still be at it when the file is opened, and its cache goes then.
    let writes = "dd if=/dev/zero of=big bs=1M count=8 conv=fsync status=none; sleep 0.1; stat -c %s big";
    let cached = "fincore -nbo RES big";
    assert_eq!(shell.say(&format!("{writes}; {cached}")), "8388608 8388608");
    // Read by a program that opens it before its times were taken, and emptied and written again.
    let once = "dd if=/dev/zero of=own bs=1M count=8 conv=fsync status=none; sleep 0.1; cat own >/dev/null; fincore -nbo RES own";
    assert_eq!(shell.say(&format!("{once}; {once}; rm own")), "8388608 8388608");
    // One byte of the host's: all of it is read anew.
    let host = || fs::File::options().write(true).open(open.join("big")).expect("the guest has made it");
    host().write_at(b"x", 5 << 20).expect("the test's own files");
    let reads = "od -An -c -j5242880 -N1 big";
    assert_eq!(shell.say(reads), "x");
    // The same file again, emptied and written: the host may have it mapped, so that its cache is not believed.
    assert_eq!(shell.say(&format!("{writes}; rm big")), "8388608");
    // Opened by somebody else while it is written, it is read anew as well.
    assert_eq!(shell.say("dd if=/dev/zero of=big bs=1M count=4 status=none"), "");
    drop(host());
    let more =
        "dd if=/dev/zero of=big bs=1M count=4 seek=4 conv=notrunc status=none; sleep 0.1; stat -c %s big";
    assert_eq!(shell.say(&format!("{more}; {cached}")), "8388608 0");
    shell.end();
    here.assert_nothing_left();
}

/// What it has written from one end to the other the guest's cache keeps, and the host's need not: it goes to the disk at once.
#[test]
fn a_long_file_is_kept_by_the_guest_and_not_by_the_host_as_well() {
    if !guests_start() {
        return;
    }
    let here = Here::new();
    let (open, mut shell) = opened(&here, &[]);
    // In pieces of several lengths, the last megabyte in such as are no whole pages, some of the middle anew.
    let writes = "dd if=/dev/urandom of=long bs=1M count=32 status=none; dd if=/dev/urandom of=long bs=128k count=128 oflag=append \
                  conv=notrunc status=none; dd if=/dev/urandom of=long bs=100001 count=10 oflag=append conv=notrunc \
                  status=none; dd if=/dev/urandom of=long bs=4001 seek=6000 count=50 conv=notrunc,fsync status=none";
    assert_eq!(shell.say(writes), "");
    let run = |program: &str, words: &[&str]| {
        let output = Command::new(program).args(words).current_dir(&open).output().expect("it runs");
        String::from_utf8_lossy(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let kept: u64 = run("fincore", &["-nbo", "RES", "long"]).parse().expect("a number");
    assert_eq!(run("sh", &["-c", "sha256sum <long"]), shell.say("sha256sum <long"));
    // Written anew: the guest's kernel will drop what it has of it, so the host keeps it.
    assert_eq!(shell.say("dd if=/dev/zero of=long bs=1M count=32 conv=fsync status=none"), "");
    assert_eq!(run("fincore", &["-nbo", "RES", "long"]), (32 << 20).to_string());
    shell.end();
    here.assert_nothing_left();
    // What is in memory alone has no other place.
    if run("stat", &["-fc", "%T", "."]) != "tmpfs" {
        assert!(kept < 24 << 20, "the host keeps {kept} bytes of 49 MB");
    }
}

#[test]
fn a_change_of_mode_in_the_guest_hides_nothing_that_the_host_has_written() {
    if !guests_start() {
        return;
    }
    let here = Here::new();
    let (open, mut shell) = opened(&here, &[("file", "first")]);
    let script = r#"python3 -c 'import os, time
file = os.open("file", os.O_RDONLY)
print(os.pread(file, 5, 0).decode(), flush=True)
open("read", "w").close()
while not os.path.exists("written"): time.sleep(0.02)
os.fchmod(file, 0o640)
time.sleep(1.2)
print(os.pread(file, 5, 0).decode())'"#;
    scope(|scope| {
        scope.spawn(|| {
            while !open.join("read").exists() {
                sleep(Duration::from_millis(20));
            }
            fs::File::options()
                .write(true)
                .open(open.join("file"))
                .and_then(|file| file.write_at(b"other", 0))
                .expect("it is there");
            write(&open.join("written"), "");
        });
        assert_eq!(shell.say(script), "first other");
    });
    shell.end();
    here.assert_nothing_left();
}

/// What the guest has open it knows by a number, whatever its name: what is done by name must not reach it when that leads elsewhere.
#[test]
fn what_the_host_rotates_is_found_under_its_new_name_alone() {
    if !guests_start() {
        return;
    }
    let here = Here::new();
    let files = [("log", "old\n"), ("state", "precious\n"), ("shared", "x\n")];
    let (open, mut shell) = opened(&here, &files);
    let holds =
        "for name in log state shared; do sleep 1000 <$name >/dev/null 2>&1 & done; cat log state shared";
    assert_eq!(shell.say(holds), "old precious x");
    for name in ["log", "state"] {
        fs::rename(open.join(name), open.join(format!("{name}.1"))).expect("the test's own files");
    }
    write(&open.join("state"), "the host's\n");
    replace(&open, "shared", |new| write(new, "other\n"));
    let by_name = "truncate -s 2 shared; chmod 600 shared; touch -d @1000000000 shared";
    let script =
        format!("cat log.1 state.1; cat log; echo new >>log; echo own >state; {by_name}; cat log state");
    assert_eq!(shell.say(&script), "old precious cat: log: No such file or directory new own");
    let read = |name: &str| fs::read_to_string(open.join(name)).expect("the test's own files");
    assert_eq!(["log.1", "log", "state.1", "state"].map(read), ["old\n", "new\n", "precious\n", "own\n"]);
    let shared = fs::metadata(open.join("shared")).expect("the test's own files");
    assert_eq!((shared.len(), shared.mode() & 0o777, shared.mtime()), (2, 0o600, 1_000_000_000));
    shell.end();
    here.assert_nothing_left();
}

/// Regression: nothing could be made or listed there any more.
#[test]
fn a_working_folder_that_the_host_moves_or_removes_is_one_as_natively() {
    if !guests_start() {
        return;
    }
    let here = Here::new();
    let (open, mut shell) = opened(&here, &[]);
    for (moved, now) in [("a", "moved/b"), ("a/b", "moved")] {
        fs::create_dir_all(open.join("a/b")).expect("the test's own files");
        shell.go(&open.join("a/b"));
        assert_eq!(shell.say("pwd"), open.join("a/b").to_str().expect("text"));
        fs::rename(open.join(moved), open.join("moved")).expect("the test's own files");
        let script = "echo x >one; cat one; cat none; ls; chmod 700 .; stat -c %a .";
        assert_eq!(shell.say(script), "x cat: none: No such file or directory one 700", "{moved}");
        // What its kernel asks for once only is done as soon as no name is believed any more.
        let script = "sleep 1.5; mkdir two; ln -s one three; echo y >>three; cat one; ls";
        assert_eq!(shell.say(script), "x y one three two", "{moved}");
        assert_eq!(fs::read_to_string(open.join(now).join("one")).expect("it is there"), "x\ny\n");
        fs::remove_dir_all(open.join("moved")).expect("the test's own files");
    }
    let gone = open.join("c");
    fs::create_dir(&gone).expect("the test's own files");
    shell.go(&gone);
    assert_eq!(shell.say("echo old >in; cat in"), "old");
    fs::remove_dir_all(&gone).expect("the test's own files");
    fs::create_dir(&gone).expect("the test's own files");
    write(&gone.join("in"), "new");
    let path = gone.display();
    let script =
        format!("cat in; (echo x >one) 2>/dev/null || echo none; ls; cat {path}/in; echo; ls {path}");
    assert_eq!(shell.say(&script), "cat: in: No such file or directory none new in");
    shell.go(&open);
    shell.end();
    here.assert_nothing_left();
}

#[test]
fn what_a_program_makes_is_not_made_in_the_future() {
    if !guests_start() {
        return;
    }
    let here = Here::new();
    let open = here.path("open");
    fs::create_dir(&open).expect("the test's own files");
    let path = open.to_str().expect("a path of text");
    let script = "echo x >new; stat -c %.9Y new; date +%s.%N";
    for front in [vec![], vec!["--cold"]] {
        let words = [front, vec!["--rw", path, "--workdir", path, "--", "sh", "-c", script]].concat();
        let output = here.run(&words);
        assert_code(&output, 0);
        let said = text(&output);
        let [made, now] = [0, 1].map(|line| said.lines().nth(line).and_then(|line| line.parse::<f64>().ok()));
        let (made, now) = made.zip(now).expect(&said);
        // The guest's and the host's kernels count in ticks of up to 10 ms.
        assert!(made <= now + 0.02, "{words:?}: made at {made}, now {now}");
    }
    here.assert_nothing_left();
}
