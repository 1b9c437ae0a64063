//! What is done in partitions of a set while they run, with real guests: further programs, connections to their ports.

use crate::{exec_fixture, set_fixture};

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use bulkhead::model::partition::set::Phase;
use exec_fixture::free_port;
use nix::pty::{Winsize, openpty};
use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, geteuid};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use set_fixture::{Bench, PATIENCE, guests_are_there};
use skips::{Need, skip};

fn exec(bench: &Bench, words: &[&str]) -> Command {
    bench.command(&[&["exec", "--in"], words].concat())
}

fn run(bench: &Bench, words: &[&str]) -> (Option<i32>, String, String) {
    parts(&exec(bench, words).output().expect("the program runs"))
}

fn parts(output: &Output) -> (Option<i32>, String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

fn feed(mut child: Child, input: &[u8]) -> Output {
    let mut pipe = child.stdin.take().expect("a pipe");
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // A program may end without reading all of it.
            let _ = pipe.write_all(input);
        });
        child.wait_with_output().expect("it ends")
    })
}

/// Says what a program in the partition says until it says this.
fn until_inside(bench: &Bench, words: &[&str], wanted: &str) {
    let until = Instant::now() + PATIENCE;
    loop {
        let (_, said, err) = run(bench, words);
        if said.trim() == wanted {
            return;
        }
        assert!(Instant::now() < until, "{wanted} was wanted, got {said:?} {err:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

const PLANT: &str = "
[partition.db]
program = [\"/bin/sh\", \"-c\", \"echo first > /tmp/made; exec sleep 1000\"]
env = { COLOUR = \"green\" }
";

#[test]
fn a_further_program_runs_beside_the_first() {
    if !guests_are_there() {
        return;
    }
    let bench = Bench::real();
    let told = bench.up(&bench.file("plant.toml", PLANT));
    assert_eq!(told.code, Some(0), "{told:?}");

    // Who goes on writing behind it does not hold its end up.
    let told = run(&bench, &["plant/db", "--", "sh", "-c", "yes & echo first; exit 4"]);
    assert!(told.0 == Some(4) && told.1.contains("first\n"), "{:?} {}", told.0, told.2);

    // Words, variables, streams each for itself, and the code; the file tree is that of the first.
    let script = "cat /tmp/made; echo $COLOUR $MORE; echo oh >&2; exit 7";
    let told = run(&bench, &["plant/db", "--env", "MORE=red", "--", "sh", "-c", script]);
    assert_eq!(told, (Some(7), "first\ngreen red\n".to_owned(), "oh\n".to_owned()));

    // Both ways more than is on its way at once, while the reader is slow.
    let bytes: Vec<u8> = {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
        (0..400_000).flat_map(|_| random.random::<u64>().to_le_bytes()).collect()
    };
    let mut slow = exec(&bench, &["db", "--", "cat"]);
    let output = feed(slow.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts"), &bytes);
    assert_eq!(output.status.code(), Some(0));
    assert!(output.stdout == bytes, "{} bytes came of {}", output.stdout.len(), bytes.len());

    // Who reads standard error to its end first gets all of standard output afterwards.
    let script = "head -c 1000000 /dev/zero; echo all >&2";
    let mut child = exec(&bench, &["db", "--", "sh", "-c", script]);
    let mut child = child.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts");
    let (mut out, mut err) = (child.stdout.take().expect("a pipe"), child.stderr.take().expect("a pipe"));
    let reader = std::thread::spawn(move || {
        let mut all = Vec::new();
        out.read_to_end(&mut all)
    });
    let mut said = String::new();
    err.read_to_string(&mut said).expect("read");
    assert_eq!((said.as_str(), reader.join().expect("no panic").expect("read")), ("all\n", 1_000_000));
    assert_eq!(child.wait().expect("it ends").code(), Some(0));

    // What cannot be started says why, with the codes of exec.
    let (code, _, err) = run(&bench, &["db", "--", "no-such-program"]);
    assert!(code == Some(127) && err.contains("no-such-program was not found"), "{err}");
    let (code, _, err) = run(&bench, &["dbb", "--", "true"]);
    assert!(code == Some(125) && err.contains("did you mean \"db\"?"), "{err}");
    let (code, _, err) = run(&bench, &["db", "--cpus", "2", "--", "true"]);
    assert!(code == Some(125) && err.contains("cannot be used with"), "{err}");
    assert_eq!(bench.phases(), "db running");

    // It goes with the partition.
    let mut child =
        exec(&bench, &["db", "--", "sleep", "1000"]).stderr(Stdio::piped()).spawn().expect("it starts");
    until_inside(&bench, &["db", "--", "sh", "-c", "pgrep -fx 'sleep 1000' | wc -l"], "2");
    assert_eq!(bench.call(&["down"]).code, Some(0));
    assert_eq!(child.wait().expect("it ends").code(), Some(125));
    bench.assert_nothing_left("after down");
}

#[test]
fn signals_reach_a_further_program_and_it_ends_with_its_caller() {
    if !guests_are_there() {
        return;
    }
    let bench = Bench::real();
    assert_eq!(bench.up(&bench.file("plant.toml", PLANT)).code, Some(0));
    let begin = |script: &str| {
        // Whoever runs the tests in the background has them ignore some signals.
        let mut child = Command::new("env")
            .args(["--default-signal=INT,TERM"])
            .arg(&bench.program)
            .args(["exec", "--in", "db", "--", "sh", "-c", script])
            .env("BULKHEAD_STATE", bench.state())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut byte = [0];
        child.stdout.as_mut().expect("a pipe").read_exact(&mut byte).expect("it runs");
        child
    };
    let send = |child: &Child, signal| {
        kill(Pid::from_raw(i32::try_from(child.id()).expect("a number")), signal).expect("it lives");
    };
    let mut child = begin("trap 'exit 42' INT; echo; while :; do sleep 0.1; done");
    send(&child, Signal::SIGINT);
    assert_eq!(child.wait().expect("it ends").code(), Some(42));
    let mut child = begin("echo; exec sleep 1001");
    send(&child, Signal::SIGTERM);
    assert_eq!(child.wait().expect("it ends").code(), Some(143));

    let mut child = begin("echo; exec sleep 1002");
    let count = ["db", "--", "sh", "-c", "pgrep -fx 'sleep 1002' | wc -l"];
    until_inside(&bench, &count, "1");
    send(&child, Signal::SIGKILL);
    child.wait().expect("it ends");
    until_inside(&bench, &count, "0");
    assert_eq!(bench.phases(), "db running");
    assert_eq!(bench.call(&["down"]).code, Some(0));
}

/// `SigBlk` of `/proc/PID/status`: bit 0 is signal 1.
fn holds_back(child: &Child, signal: Signal) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    mask & (1 << (signal as u64 - 1)) != 0
}

#[test]
fn a_further_program_in_a_partition_that_stands_still_can_be_ended() {
    if !guests_are_there() {
        return;
    }
    let bench = Bench::real();
    assert_eq!(bench.up(&bench.file("plant.toml", PLANT)).code, Some(0));
    let qemu = bench.wait_for("db", Phase::Running).pid.expect("it runs");
    let begin = |script: &str| {
        let mut command = Command::new("env");
        command.arg("--default-signal=INT,TERM").arg(&bench.program);
        command.args(["exec", "--in", "db", "--", "sh", "-c", script]).env("BULKHEAD_STATE", bench.state());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("it starts")
    };
    let ended = |mut child: Child| {
        let until = Instant::now() + PATIENCE;
        let mut sent = 0;
        // Before it holds signals back they end whatever it is.
        while !holds_back(&child, Signal::SIGTERM) {
            assert!(Instant::now() < until, "it does not start");
            std::thread::sleep(Duration::from_millis(20));
        }
        while child.try_wait().expect("our child").is_none() {
            assert!(Instant::now() < until, "it does not end");
            kill(Pid::from_raw(i32::try_from(child.id()).expect("a number")), Signal::SIGTERM)
                .expect("it lives");
            sent += 1;
            std::thread::sleep(Duration::from_millis(1300));
        }
        (sent, parts(&child.wait_with_output().expect("it has ended")))
    };
    let mut running = begin("echo; exec sleep 1003");
    running.stdout.as_mut().expect("a pipe").read_exact(&mut [0]).expect("it runs");
    set_fixture::pause(qemu);
    // One that runs, and one that was not even begun.
    for child in [running, begin("true")] {
        let (sent, (code, _, err)) = ended(child);
        assert!(sent >= 2, "the first one is the program's");
        assert_eq!(code, Some(125), "{err}");
        assert!(err.contains("the partition did not answer"), "{err}");
    }
    let pid = Pid::from_raw(i32::try_from(qemu).expect("a number"));
    kill(pid, Signal::SIGCONT).expect("it lives");
    until_inside(&bench, &["db", "--", "sh", "-c", "pgrep -fx 'sleep 1003' | wc -l"], "0");
    assert_eq!(bench.call(&["down"]).code, Some(0));
}

#[test]
fn memory_that_runs_out_in_a_further_program_is_told() {
    if !guests_are_there() {
        return;
    }
    let bench = Bench::real();
    let text = format!("{PLANT}memory_mib = 192\n");
    assert_eq!(bench.up(&bench.file("plant.toml", &text)).code, Some(0));
    for (script, wanted) in [("exec tail /dev/zero", 137), ("tail /dev/zero; exit 3", 3)] {
        let (code, _, err) = run(&bench, &["db", "--", "sh", "-c", script]);
        assert_eq!(code, Some(wanted), "{err}");
        assert!(err.contains("memory ran out (192 MiB); the largest was tail ("), "{err}");
        assert!(!err.contains("was ended by"), "{err}");
    }
    // What was told before is not told of others.
    let (code, _, err) = run(&bench, &["db", "--", "sh", "-c", "kill -9 $$"]);
    assert!(code == Some(137) && err.contains("was ended by SIGKILL") && !err.contains("memory"), "{err}");
    assert_eq!(bench.phases(), "db running");
    assert_eq!(bench.call(&["down"]).code, Some(0));
}

#[test]
fn a_further_program_gets_a_terminal_of_this_ones_size() {
    if !guests_are_there() {
        return;
    }
    let bench = Bench::real();
    assert_eq!(bench.up(&bench.file("plant.toml", PLANT)).code, Some(0));
    let size = Winsize { ws_row: 33, ws_col: 77, ws_xpixel: 0, ws_ypixel: 0 };
    let pty = openpty(Some(&size), None).expect("a terminal");
    let slave = || Stdio::from(pty.slave.try_clone().expect("a copy"));
    let mut child = exec(&bench, &["db", "-t", "--", "sh"])
        .stdin(slave())
        .stdout(slave())
        .stderr(slave())
        .spawn()
        .expect("it starts");
    drop(pty.slave);
    let mut master = File::from(pty.master);
    master.write_all(b"stty size; tty; exit 5\n").expect("typed");
    let mut said = Vec::new();
    let mut chunk = [0; 1000];
    // At its end a terminal answers with an error.
    while let Ok(count @ 1..) = master.read(&mut chunk) {
        said.extend_from_slice(&chunk[..count]);
    }
    let said = String::from_utf8_lossy(&said);
    assert!(said.contains("33 77") && said.contains("/dev/pts/"), "{said}");
    assert_eq!(child.wait().expect("it ends").code(), Some(5));
    assert_eq!(bench.call(&["down"]).code, Some(0));
}

#[test]
fn nobody_but_its_owner_starts_programs_in_a_partition() {
    if !guests_are_there() {
        return;
    }
    if !geteuid().is_root() {
        return skip(Need::Root, "only root can become somebody else");
    }
    let bench = Bench::real();
    assert_eq!(bench.up(&bench.file("plant.toml", PLANT)).code, Some(0));
    let db = bench.wait_for("db", Phase::Running);
    let socket = db.folder.join("sessions.sock");
    let script = "import socket, sys; s = socket.socket(socket.AF_UNIX); s.connect(sys.argv[1])";
    let connect = |user: &[&str]| {
        let mut words = [user, &["python3", "-c", script]].concat();
        let program = words.remove(0);
        Command::new(program).args(words).arg(&socket).stderr(Stdio::piped()).output().expect("it runs")
    };
    let there = connect(&["env"]);
    assert!(there.status.success(), "{there:?}");
    let other = connect(&["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]);
    assert!(!other.status.success(), "{other:?}");
    assert!(String::from_utf8_lossy(&other.stderr).contains("Permission denied"), "{other:?}");
    assert_eq!(bench.call(&["down"]).code, Some(0));
}

/// A server that says back what it hears, on one port, and one that says who it is.
const SERVER: &str = "import socket, threading\n\
    def serve(c):\n\
    \x20   while True:\n\
    \x20       b = c.recv(65536)\n\
    \x20       if not b: break\n\
    \x20       c.sendall(b)\n\
    \x20   c.close()\n\
    s = socket.create_server(('127.0.0.1', 80))\n\
    while True: threading.Thread(target=serve, args=(s.accept()[0],)).start()\n";

fn serving(bench: &Bench, ports: &str) -> std::path::PathBuf {
    let quoted = serde_json::to_string(SERVER).expect("a string");
    let text =
        format!("[partition.web]\nprogram = [\"/usr/bin/python3\", \"-c\", {quoted}]\nports = {ports}\n");
    bench.file("plant.toml", &text)
}

/// What comes back of these bytes; none when the connection was closed first.
fn echoed(port: u16, bytes: &[u8]) -> Option<Vec<u8>> {
    let mut connection = TcpStream::connect(("127.0.0.1", port)).ok()?;
    connection.set_read_timeout(Some(PATIENCE)).expect("a timeout");
    let mut back = Vec::new();
    std::thread::scope(|scope| {
        let mut to = connection.try_clone().expect("a copy");
        scope.spawn(move || {
            // Nobody may be there yet.
            let _ = to.write_all(bytes);
            let _ = to.shutdown(std::net::Shutdown::Write);
        });
        connection.read_to_end(&mut back).ok()
    })?;
    (back.len() == bytes.len()).then_some(back)
}

#[test]
fn a_port_of_the_host_leads_to_the_program() {
    if !guests_are_there() {
        return;
    }
    let bench = Bench::real();
    let port = free_port();
    let told = bench.up(&serving(&bench, &format!("[\"{port}:80\"]")));
    assert_eq!(told.code, Some(0), "{told:?}");
    let until = Instant::now() + PATIENCE;
    while echoed(port, b"x").is_none() {
        assert!(Instant::now() < until, "nobody answers");
        std::thread::sleep(Duration::from_millis(100));
    }
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|number| (number % 251) as u8).collect();
    assert!(echoed(port, &bytes).as_ref() == Some(&bytes));
    // Several at once, one of which reads nothing.
    let mut idle = TcpStream::connect(("127.0.0.1", port)).expect("connected");
    idle.set_write_timeout(Some(Duration::from_millis(300))).expect("a timeout");
    while idle.write_all(&bytes).is_ok() {}
    let all: Vec<_> =
        (0..4).map(|_| std::thread::spawn(move || echoed(port, b"some words").is_some())).collect();
    assert!(all.into_iter().all(|one| one.join().expect("no panic")));
    drop(idle);

    // Loopback only.
    let table = std::fs::read_to_string("/proc/net/tcp").expect("a table");
    let listens: Vec<&str> = table
        .lines()
        .filter(|line| line.contains(&format!(":{port:04X} 00000000:0000 0A")))
        .filter_map(|line| line.split_whitespace().nth(1))
        .collect();
    assert_eq!(listens, [format!("0100007F:{port:04X}")]);
    assert_eq!(bench.call(&["down"]).code, Some(0));
    assert!(TcpStream::connect(("127.0.0.1", port)).is_err(), "nothing listens afterwards");
}

#[test]
fn a_port_that_cannot_be_had_is_said_in_words() {
    if !guests_are_there() {
        return;
    }
    let bench = Bench::real();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port();
    let told = bench.up(&serving(&bench, &format!("[\"{port}:80\"]")));
    assert_eq!(told.code, Some(2), "{told:?}");
    assert!(told.err.contains("somebody listens there already"), "{told:?}");
    for (port, code, part) in [
        ("0:80", 2, "0 is no port that can be reached"),
        ("80", 2, "wanted [ADDRESS:]HOST-PORT:PORT"),
        ("192.0.2.1:9999:80", 2, "this host has no such address"),
    ] {
        let told = bench.up(&serving(&bench, &format!("[\"{port}\"]")));
        assert!(told.code == Some(code) && told.err.contains(part), "{port}: {told:?}");
    }
    bench.assert_nothing_left("after what failed");
}
