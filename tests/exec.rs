//! `bulkhead exec` with real guests: the program's words, streams, code, signals, files and terminal arrive as they were.

use crate::exec_fixture;

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

use exec_fixture::{Here, assert_code, binary, complaint, end_of, finish, guests_start, text, wait_for};
use nix::pty::{Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::sys::termios::tcgetattr;
use nix::unistd::Pid;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use skips::{Need, skip};

fn random_bytes(count: usize) -> Vec<u8> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
    (0..count / 8).flat_map(|_| random.random::<u64>().to_le_bytes()).collect()
}

fn pid_of(child: &std::process::Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).expect("a number of a process"))
}

/// `cat` prints its own words and environment, and takes the odd words for files that are not there.
#[test]
fn words_and_environment_arrive_byte_for_byte() {
    if !guests_start() {
        return;
    }
    let here = Here::new();
    let all: Vec<u8> = (1..=255).collect();
    let odd = [&all, b"".as_slice(), b"-", b" ", b"\n", b"\"'$`\\", b"--", "ä€".as_bytes(), b"\xff\xfe"];
    let mut words: Vec<OsString> =
        ["--env-clear", "--env", "PATH=/usr/bin:/bin", "--env", "EMPTY="].map(OsString::from).to_vec();
    let value = [b"ODD=".as_slice(), &all].concat();
    words.extend([OsString::from("--env"), OsStr::from_bytes(&value).to_owned()]);
    words.extend(["--", "cat", "/proc/self/cmdline", "/proc/self/environ", "--"].map(OsString::from));
    words.extend(odd.iter().map(|word| OsStr::from_bytes(word).to_owned()));
    let output = here.run(&words);
    assert_code(&output, 1);
    let begin = [b"cat".as_slice(), b"/proc/self/cmdline", b"/proc/self/environ", b"--"];
    let wanted: Vec<u8> = begin
        .into_iter()
        .chain(odd)
        .chain([b"PATH=/usr/bin:/bin".as_slice(), b"EMPTY=", &value])
        .flat_map(|word| word.iter().copied().chain([0]))
        .collect();
    let sorted = |bytes: &[u8]| {
        let mut words: Vec<Vec<u8>> = bytes.split(|byte| *byte == 0).map(<[u8]>::to_vec).collect();
        words[begin.len() + odd.len()..].sort();
        words
    };
    assert_eq!(sorted(&output.stdout), sorted(&wanted));
    assert!(complaint(&output).contains("cat:"), "{}", complaint(&output));
    here.assert_nothing_left();
}

#[test]
fn codes_are_exact() {
    if !guests_start() {
        return;
    }
    for code in [0, 1, 255] {
        let here = Here::new();
        let output = here.run(&["--", "sh", "-c", &format!("exit {code}")]);
        assert_code(&output, code);
        assert!(output.stderr.is_empty() && output.stdout.is_empty(), "{}", complaint(&output));
        here.assert_nothing_left();
    }
}

#[test]
fn a_death_by_signal_is_128_and_its_number_and_is_said() {
    if !guests_start() {
        return;
    }
    let here = Here::new();
    // The other streams are checked on the way: both arrive, each on its own.
    let output = here.run(&["--", "sh", "-c", "echo out; echo err >&2; kill -SEGV $$"]);
    assert_code(&output, 139);
    assert_eq!(text(&output), "out\n");
    assert!(complaint(&output).starts_with("err\n") && complaint(&output).contains("SIGSEGV"));
    // Signals without a name are signals, too.
    let output = here.run(&["--", "sh", "-c", "kill -40 $$"]);
    assert_code(&output, 168);
    here.assert_nothing_left();
}

#[test]
fn any_volume_goes_through_unharmed() {
    if !guests_start() {
        return;
    }
    let here = Here::new();
    let bytes = random_bytes(64 << 20);
    let script = "tee /dev/stderr | cat; exit 3";
    let output = here.feed(&["--", "sh", "-c", script], &bytes);
    assert_eq!(output.status.code(), Some(3));
    assert!(output.stdout == bytes, "{} bytes of {} or other ones", output.stdout.len(), bytes.len());
    assert!(output.stderr == bytes, "{} bytes of {} or other ones", output.stderr.len(), bytes.len());
    here.assert_nothing_left();
}

#[test]
fn a_closed_end_is_noticed_at_the_other() {
    if !guests_start() {
        return;
    }
    let here = Here::new();
    // The program closes its input and goes on: whoever feeds it must not wait for ever.
    let mut child = here
        .command(&["--", "sh", "-c", "exec <&-; echo closed; sleep 2; echo end"])
        .stdin(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut pipe = child.stdin.take().expect("a pipe");
    let chunk = vec![b'y'; 65_536];
    let refused = std::iter::repeat_with(|| pipe.write_all(&chunk)).find_map(Result::err);
    assert_eq!(refused.map(|error| error.kind()), Some(std::io::ErrorKind::BrokenPipe));
    let output = finish(child);
    assert_code(&output, 0);
    assert_eq!(text(&output), "closed\nend\n");

    // The reader has seen enough: the program dies of its next write, as in a pipeline.
    let mut child = here.command(&["--", "yes"]).spawn().expect("it starts");
    wait_for(&mut child, "y\ny\n");
    drop(child.stdout.take());
    let output = finish(child);
    assert_code(&output, 141);
    assert!(complaint(&output).contains("SIGPIPE"), "{}", complaint(&output));
    here.assert_nothing_left();
}

/// A shell that has run nothing yet waits for its children by SIGCHLD.
#[test]
fn no_signal_is_held_back_from_a_program() {
    if !guests_start() {
        return;
    }
    let here = Here::new();
    let script = "sleep 0.1 & wait; grep ^SigBlk /proc/self/status";
    for front in [vec![], vec!["--cold"]] {
        let output = here.run(&[front, vec!["--", "sh", "-c", script]].concat());
        assert_code(&output, 0);
        assert_eq!(text(&output), "SigBlk:\t0000000000000000\n");
    }
    here.assert_nothing_left();
}

#[test]
fn a_child_in_the_background_does_not_hold_the_end_up() {
    if !guests_start() {
        return;
    }
    let here = Here::new();
    // Writes of 3000 bytes leave every page of the pipe with room at its end; the last pipe is larger than ours (F_SETPIPE_SZ), which
    // is root's to do.
    let larger = "perl -e 'fcntl(STDOUT, 1031, 1 << 22) or die' || test $(id -u) != 0 || exit 9; yes & echo first; exit 4";
    for script in [
        "sleep 1000 & yes & echo first; exit 4",
        "echo first; dd if=/dev/zero bs=3000 status=none & exit 4",
        larger,
    ] {
        let output = here.run(&["--", "sh", "-c", script]);
        assert_code(&output, 4);
        assert!(output.stdout.windows(6).any(|said| said == b"first\n"), "{script}");
    }
    here.assert_nothing_left();
}

#[test]
fn a_slow_reader_loses_nothing() {
    if !guests_start() {
        return;
    }
    let here = Here::new();
    let mut child = here.command(&["--", "head", "-c", "20000000", "/dev/zero"]).spawn().expect("it starts");
    let mut out = child.stdout.take().expect("a pipe");
    let mut first = [1; 1];
    out.read_exact(&mut first).expect("a byte");
    // Long enough for the program to end, if nothing held it back.
    std::thread::sleep(Duration::from_secs(4));
    let mut rest = Vec::new();
    out.read_to_end(&mut rest).expect("the rest");
    assert_eq!(rest.len(), 20_000_000 - 1);
    assert_code(&finish(child), 0);
}

#[test]
fn signals_are_passed_on() {
    if !guests_start() {
        return;
    }
    let here = Here::new();
    let script = "trap 'echo usr' USR1; trap 'echo int' INT; trap 'echo term; exit 9' TERM; echo ready; \
                  while :; do sleep 0.05; done";
    let mut child = here.command(&["--", "sh", "-c", script]).spawn().expect("it starts");
    wait_for(&mut child, "ready\n");
    for (signal, said) in [(Signal::SIGUSR1, "usr\n"), (Signal::SIGINT, "int\n"), (Signal::SIGINT, "int\n")] {
        kill(pid_of(&child), signal).expect("it runs");
        wait_for(&mut child, said);
    }
    // Two at once: the second does not end the guest because it had no time for the first.
    for signal in [Signal::SIGINT, Signal::SIGTERM] {
        kill(pid_of(&child), signal).expect("it runs");
    }
    let output = finish(child);
    assert_code(&output, 9);
    assert_eq!(text(&output), "int\nterm\n");

    // Before there is a program, it ends the boot.
    let child = here.command(&["--", "sleep", "1000"]).spawn().expect("it starts");
    while here.left_behind().len() < 4 {
        std::thread::sleep(Duration::from_millis(5));
    }
    kill(pid_of(&child), Signal::SIGTERM).expect("it runs");
    assert_code(&finish(child), 143);
    here.assert_nothing_left();
}

/// Ctrl-Z without `-t`: the program stops first, then we; SIGCONT wakes both.
#[test]
fn what_is_stopped_stops_the_program_too() {
    if !guests_start() {
        return;
    }
    let here = Here::new();
    let open = here.path("open");
    fs::create_dir(&open).expect("the test's own files");
    let open = open.to_str().expect("a path of text");
    // Somebody in another session, whom no signal reaches, tells when the program stands still. A shell that is about to
    // start something is not seen to: it sleeps (D, not T) until its child, stopped as well, has become a program.
    let script = format!(
        "setsid sh -c ': > {open}/looks; until grep -q \"^State:.T\" /proc/$0/status; do sleep 0.05; done; : > {open}/stands' $$ & \
         trap 'echo on; exit 3' CONT; until [ -e {open}/looks ]; do sleep 0.05; done; echo ready; while :; do :; done"
    );
    let mut child = here.command(&["--rw", open, "--", "sh", "-c", &script]).spawn().expect("it starts");
    wait_for(&mut child, "ready\n");
    kill(pid_of(&child), Signal::SIGTSTP).expect("it runs");
    let ours_stopped = || {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).expect("it is there");
        status.contains("State:\tT")
    };
    let until = Instant::now() + exec_fixture::PATIENCE;
    while !(ours_stopped() && here.path("open/stands").exists()) {
        assert!(Instant::now() < until, "ours stopped: {}", ours_stopped());
        std::thread::sleep(Duration::from_millis(10));
    }
    kill(pid_of(&child), Signal::SIGCONT).expect("it is there");
    let output = finish(child);
    assert_code(&output, 3);
    assert_eq!(text(&output), "on\n");
    here.assert_nothing_left();
}

#[test]
fn only_what_is_opened_can_be_written() {
    if !guests_start() {
        return;
    }
    let here = Here::new();
    for folder in ["open", "closed", "shown"] {
        fs::create_dir(here.path(folder)).expect("the test's own files");
        fs::set_permissions(here.path(folder), fs::Permissions::from_mode(0o777))
            .expect("the test's own files");
    }
    fs::set_permissions(here.files.path(), fs::Permissions::from_mode(0o755)).expect("the test's own files");
    fs::write(here.path("shown/file"), "shown").expect("the test's own files");
    let shown = format!("{}:/mnt/elsewhere", here.path("shown").display());
    let script = "id -u; pwd; echo kept > open/new; echo lost > closed/new; cat closed/new /mnt/elsewhere/file; \
                  echo no > /mnt/elsewhere/file; echo $?; hostname; cat /proc/1/comm";
    let output = here.run(&[
        OsStr::new("--rw"),
        here.path("open").as_os_str(),
        OsStr::new("--bind"),
        OsStr::new(&shown),
        OsStr::new("--workdir"),
        here.files.path().as_os_str(),
        OsStr::new("--user"),
        OsStr::new("1234:1234"),
        OsStr::new("--"),
        OsStr::new("sh"),
        OsStr::new("-c"),
        OsStr::new(script),
    ]);
    assert_code(&output, 0);
    let folder = here.files.path().display();
    let host = nix::unistd::gethostname().expect("a name");
    let wanted = format!("1234\n{folder}\nlost\nshown2\n{}\ninit\n", host.display());
    assert_eq!(text(&output), wanted, "{}", complaint(&output));
    assert_eq!(fs::read_to_string(here.path("open/new")).expect("written through"), "kept\n");
    assert!(!here.path("closed/new").exists());
    assert_eq!(fs::read_to_string(here.path("shown/file")).expect("unharmed"), "shown");
    here.assert_nothing_left();
}

/// The host's own files of names are not those of the guest, even where the guest may write to them.
#[test]
fn names_of_the_guest_do_not_reach_the_host() {
    if !nix::unistd::geteuid().is_root() {
        return skip(Need::Root, "a mount namespace of one's own needs root");
    }
    if !guests_start() {
        return;
    }
    let here = Here::new();
    let etc = here.path("etc");
    fs::create_dir(&etc).expect("the test's own files");
    for name in ["passwd", "group"] {
        fs::copy(format!("/etc/{name}"), etc.join(name)).expect("the test's own files");
    }
    fs::write(etc.join("resolv.conf"), "the host's").expect("the test's own files");
    // What would be harmed is in a name space of the test's own.
    let command = here.command(&["--net", "user", "--rw", "/etc", "--", "cat", "/etc/resolv.conf"]);
    let script = "mount --make-rprivate / && mount --bind \"$0\" /etc && exec \"$@\"";
    let mut inside = std::process::Command::new("unshare");
    inside
        .args(["--mount", "sh", "-c", script])
        .arg(&etc)
        .arg(command.get_program())
        .args(command.get_args());
    for (name, value) in command.get_envs() {
        inside.env(name, value.unwrap_or_default());
    }
    let output = inside.stdin(Stdio::null()).output().expect("it starts");
    assert_code(&output, 0);
    assert_eq!(text(&output), "the host's");
    assert_eq!(fs::read_to_string(etc.join("resolv.conf")).expect("still there"), "the host's");
    here.assert_nothing_left();
}

#[test]
fn a_program_can_have_a_tree_of_its_own_or_nothing_but_itself() {
    if !guests_start() {
        return;
    }
    let here = Here::new();
    // Without its symbols, which are most of it in a debug build.
    let lean = bulkhead::platforms::vm::payload::read_program(binary()).expect("an ELF file");
    fs::create_dir(here.path("tree")).expect("the test's own files");
    fs::write(here.path("tree/it"), lean).expect("the test's own files");
    fs::set_permissions(here.path("tree/it"), fs::Permissions::from_mode(0o755))
        .expect("the test's own files");
    let itself = here.path("tree/it");
    let itself = itself.to_str().expect("a path of text");
    let output = here.run(&["--files", "none", "--", itself, "--version"]);
    assert_code(&output, 0);
    assert!(text(&output).starts_with("bulkhead "), "{}", text(&output));

    // As in the help: from the current folder, which it then has, too.
    let mut near = here.command(&["--files", "none", "--", "./it", "--version"]);
    let output = exec_fixture::finish(near.current_dir(here.path("tree")).spawn().expect("it starts"));
    assert_code(&output, 0);
    assert!(text(&output).starts_with("bulkhead "), "{}", text(&output));

    let dynamic = here.run(&["--files", "none", "--", "/bin/sh", "-c", ":"]);
    assert_code(&dynamic, 126);
    assert!(complaint(&dynamic).contains("only a static program"), "{}", complaint(&dynamic));

    let tree = here.path("tree");
    let tree = tree.to_str().expect("a path of text");
    let output = here.run(&["--files", tree, "--", "/it", "--version"]);
    assert_code(&output, 0);
    assert!(text(&output).starts_with("bulkhead "), "{}", text(&output));
    let outside = here.run(&["--files", tree, "--", "/bin/sh"]);
    assert_code(&outside, 127);
    assert!(complaint(&outside).contains("all that is served"), "{}", complaint(&outside));
    here.assert_nothing_left();
}

#[test]
fn the_way_out_leads_to_the_host_and_only_when_asked() {
    if !guests_start() {
        return;
    }
    let here = Here::new();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let server = std::thread::spawn(move || {
        let (mut connection, _) = listener.accept().expect("the guest calls");
        connection.write_all(b"hello").expect("it listens");
    });
    let script = format!("exec 3<>/dev/tcp/10.0.2.2/{port}; cat <&3; grep nameserver /etc/resolv.conf");
    let output = here.run(&["--net", "user", "--", "bash", "-c", &script]);
    assert_code(&output, 0);
    assert_eq!(text(&output), "hellonameserver 10.0.2.3\n");
    server.join().expect("no panic");
    let output = here.run(&["--", "ls", "/sys/class/net"]);
    assert_eq!(text(&output), "lo\n");
}

#[test]
fn a_terminal_is_passed_through_and_put_back() {
    if !guests_start() {
        return;
    }
    let here = Here::new();
    let size = Winsize { ws_row: 33, ws_col: 101, ws_xpixel: 0, ws_ypixel: 0 };
    let pty = openpty(Some(&size), None).expect("a terminal");
    let before = tcgetattr(&pty.slave).expect("its settings");
    let slave = || Stdio::from(pty.slave.try_clone().expect("a copy"));
    let script = "stty size; read -r line; echo \"got $line\"; \
                  stty raw -echo; echo key?; head -c 1 | od -An -tx1; test -t 0 && test -t 1 && test -t 2 && exit 5";
    let mut command = here.command(&["-t", "--", "sh", "-c", script]);
    let mut child = command.stdin(slave()).stdout(slave()).stderr(slave()).spawn().expect("it starts");
    drop(command);
    let mut master = File::from(pty.master);
    let mut said = String::new();
    let mut hear = |master: &mut File, wanted: &str| {
        while !said.contains(wanted) {
            let mut chunk = [0; 256];
            let count = master.read(&mut chunk).expect("it speaks");
            said.push_str(&String::from_utf8_lossy(&chunk[..count]));
        }
    };
    hear(&mut master, "33 101");
    assert_ne!(tcgetattr(&pty.slave).expect("its settings"), before, "raw while it runs");
    master.write_all(b"typed\r").expect("it listens");
    hear(&mut master, "got typed");
    // Ctrl-Z is the program's own, too.
    hear(&mut master, "key?");
    master.write_all(b"\x1a").expect("it listens");
    hear(&mut master, " 1a");
    assert_eq!(end_of(&mut child).code(), Some(5));
    assert_eq!(tcgetattr(&pty.slave).expect("its settings"), before, "as it was");
    here.assert_nothing_left();
}
