//! What `bulkhead exec` gives a program beside its files, with real guests: variables and secrets from files, limits, the name
//! of the machine, ports of the host.

use crate::exec_fixture;

use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use exec_fixture::{Here, PATIENCE, assert_code, complaint, end_of, free_port, guests_start, text, wait_for};

const SECRET: &str = "xyzzy-4711-plugh";

/// Everything of this host that could show it to somebody else: command lines and environments of processes, files.
fn shown(here: &Here) -> Vec<String> {
    let has_it = |bytes: &[u8]| bytes.windows(SECRET.len()).any(|window| window == SECRET.as_bytes());
    let mut shown = Vec::new();
    for entry in fs::read_dir("/proc").expect("proc").flatten() {
        for file in ["cmdline", "environ"] {
            let path = entry.path().join(file);
            if fs::read(&path).is_ok_and(|bytes| has_it(&bytes)) {
                shown.push(path.display().to_string());
            }
        }
    }
    let mut folders = vec![here.temporary().to_owned()];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).expect("ours").flatten().map(|entry| entry.path()) {
            let kind = fs::symlink_metadata(&path).map(|meta| meta.file_type());
            if kind.as_ref().is_ok_and(fs::FileType::is_dir) {
                folders.push(path);
            } else if kind.is_ok_and(|kind| kind.is_file())
                && fs::read(&path).is_ok_and(|bytes| has_it(&bytes))
            {
                shown.push(path.display().to_string());
            }
        }
    }
    shown
}

#[test]
fn a_secret_is_read_by_its_program_alone_and_shown_nowhere() {
    if !guests_start() {
        return;
    }
    let here = Here::new();
    fs::write(here.path("token"), SECRET).expect("the test's own files");
    let given = format!("token={}", here.path("token").display());
    let script = "stat -c '%a %u' /run/secrets/token; stat -f -c %T /run/secrets; wc -c < /run/secrets/token; \
                  perl -e '$> = 999; open F, \"/run/secrets/token\" or print \"no: $!\\n\"'; echo there; read line; \
                  cat /run/secrets/token";
    let words = ["--user", "0:0", "--secret", &given, "--", "sh", "-c", script];
    let mut child = here.command(&words).stdin(Stdio::piped()).spawn().expect("it starts");
    let mut said = Vec::new();
    let out = child.stdout.as_mut().expect("a pipe");
    while !said.ends_with(b"there\n") {
        let mut byte = [0];
        assert_eq!(out.read(&mut byte).expect("read"), 1, "{}", String::from_utf8_lossy(&said));
        said.push(byte[0]);
    }
    let said = String::from_utf8_lossy(&said).into_owned();
    assert_eq!(said, format!("400 0\ntmpfs\n{}\nno: Permission denied\nthere\n", SECRET.len()));
    assert_eq!(shown(&here), Vec::<String>::new());
    child.stdin.take().expect("a pipe").write_all(b"\n").expect("written");
    wait_for(&mut child, SECRET);
    assert_eq!(end_of(&mut child).code(), Some(0));
    here.assert_nothing_left();

    // It belongs to whoever runs the program.
    let output = here.run(&["--user", "1234:1234", "--secret", &given, "--", "cat", "/run/secrets/token"]);
    assert_code(&output, 0);
    assert_eq!(text(&output), SECRET);
    for (words, part) in [
        (vec!["--secret", "token"], "NAME=FILE was wanted"),
        (vec!["--secret", "a/b=/etc/passwd"], "wanted letters, digits"),
        (vec!["--secret", "a=/no/such/file"], "secret a: /no/such/file"),
        (vec!["--secret", "a=/etc"], "a file was wanted"),
    ] {
        let output = here.run(&[words, vec!["--", "true"]].concat());
        assert_code(&output, 125);
        assert!(complaint(&output).contains(part), "{}", complaint(&output));
    }
}

#[test]
fn variables_come_from_files() {
    if !guests_start() {
        return;
    }
    let here = Here::new();
    fs::write(here.path("one"), "# who\nA=1\nB=two words \"quoted\"\nC=3\n").expect("the test's own files");
    fs::write(here.path("two"), "C=4\n").expect("the test's own files");
    let (one, two) = (here.path("one").display().to_string(), here.path("two").display().to_string());
    let script = "echo \"$A|$B|$C\"";
    let words = ["--env-file", &one, "--env-file", &two, "--env", "A=0", "--", "sh", "-c", script];
    let output = here.run(&words);
    assert_code(&output, 0);
    assert_eq!(text(&output), "0|two words \"quoted\"|4\n");
    fs::write(here.path("one"), "A=1\nxyzzy\n").expect("the test's own files");
    let output = here.run(&["--env-file", &one, "--", "true"]);
    assert_code(&output, 125);
    let said = complaint(&output);
    assert!(said.contains("line 2: wanted NAME=VALUE") && !said.contains("xyzzy"), "{said}");
}

#[test]
fn the_callers_limits_and_the_name_of_the_host_go_with_the_program() {
    if !guests_start() {
        return;
    }
    let here = Here::new();
    let script = "ulimit -Sn; ulimit -Hn; ulimit -Sc; ulimit -Ss; hostname";
    let limited = |words: &[&str]| {
        let limits = ["prlimit", "--nofile=777:888", "--core=0:0", "--stack=1048576:2097152"];
        let output = started_by(&limits, &here.command(words));
        assert_code(&output, 0);
        text(&output)
    };
    let own = nix::unistd::gethostname().expect("a name");
    let wanted = format!("777\n888\n0\n1024\n{}\n", own.display());
    assert_eq!(limited(&["--", "sh", "-c", script]), wanted);
    assert_eq!(limited(&["--hostname", "box", "--", "hostname"]), "box\n");
}

/// What becomes of a command that these words start.
fn started_by(words: &[&str], inner: &Command) -> Output {
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).arg(inner.get_program()).args(inner.get_args());
    command.envs(inner.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.stdin(Stdio::null()).output().expect("it runs")
}

#[test]
fn limits_hold_for_the_program_and_not_for_the_machine_around_it() {
    if !guests_start() {
        return;
    }
    let here = Here::new();
    let folder = here.files.path().display().to_string();
    let limited = |limits: &[&str], script: &str| {
        let words: Vec<&str> = ["prlimit"].iter().chain(limits).copied().collect();
        started_by(&words, &here.command(&["--rw", &folder, "--", "sh", "-c", script]))
    };
    // QEMU needs more of each to boot anything.
    let all = ["--as=209715200:", "--data=104857600:", "--fsize=65536:", "--cpu=2:"];
    let output = limited(&all, "ulimit -v; ulimit -d; ulimit -f; ulimit -t");
    assert_code(&output, 0);
    assert_eq!(text(&output), "204800\n102400\n128\n2\n");
    let script = format!("exec head -c 70000 /dev/zero > {folder}/long");
    assert_code(&limited(&all, &script), 128 + 25);
    assert_eq!(fs::metadata(here.path("long")).expect("it was made").len(), 65536);
    let output = limited(&["--cpu=1:"], "while :; do :; done");
    assert!([128 + 9, 128 + 24].contains(&output.status.code().expect("a code")), "{output:?}");
    // Fewer files than the machine around it needs: the program has them, and the saved machine of others stays.
    let output = limited(&["--nofile=30:30"], "ulimit -n");
    if output.status.success() {
        assert_eq!(text(&output), "30\n");
    } else {
        assert_code(&output, 125);
        assert!(complaint(&output).contains("64 open files at the least"), "{}", complaint(&output));
    }
    // What only who has the right to can lift is lifted by them, and named otherwise.
    for (limit, asked, has) in
        [("--as=209715200", "ulimit -v", "204800\n"), ("--fsize=52428800", "ulimit -f", "102400\n")]
    {
        let output = limited(&[limit], asked);
        match output.status.code() {
            Some(0) => assert_eq!(text(&output), has),
            Some(125) => {
                let said = complaint(&output);
                assert!(said.contains(&format!("hard limits of this shell ({asked})")), "{said}");
            }
            _ => panic!("{output:?}"),
        }
    }
}

#[test]
fn what_new_files_may_not_is_as_the_caller_says() {
    if !guests_start() {
        return;
    }
    let here = Here::new();
    let folder = here.files.path().display().to_string();
    let script = format!("umask; touch {folder}/private");
    let words = ["sh", "-c", "umask 077; exec \"$0\" \"$@\""];
    let output = started_by(&words, &here.command(&["--rw", &folder, "--", "sh", "-c", &script]));
    assert_code(&output, 0);
    assert_eq!(text(&output), "0077\n");
    let made = fs::metadata(here.path("private")).expect("it was made");
    assert_eq!(made.permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_port_leads_to_the_program_without_a_network() {
    if !guests_start() {
        return;
    }
    let here = Here::new();
    let free = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = free.local_addr().expect("an address").port();
    let given = format!("{port}:7");
    let script = "import socket\ns = socket.create_server(('0.0.0.0', 7))\nwhile True:\n c = s.accept()[0]\n b = c.recv(9)\n \
                  if b: break\nc.sendall(b.upper())\nc.close()";
    let words = ["--port", &given, "--", "python3", "-c", script];
    let output = here.run(&words);
    assert_code(&output, 125);
    assert!(complaint(&output).contains("somebody listens there already"), "{}", complaint(&output));
    drop(free);
    let mut child = here.command(&words).spawn().expect("it starts");
    let until = Instant::now() + PATIENCE;
    let mut back = String::new();
    while back != "WORDS" {
        assert!(Instant::now() < until, "nobody answers: {back:?}");
        std::thread::sleep(Duration::from_millis(100));
        back.clear();
        let Ok(mut connection) = TcpStream::connect(("127.0.0.1", port)) else { continue };
        // Nobody may be there yet: then it is closed.
        let _ = connection.write_all(b"words");
        let _ = connection.read_to_string(&mut back);
    }
    assert_eq!(end_of(&mut child).code(), Some(0));
    here.assert_nothing_left();
}

/// A client once somebody serves it, and the first of what it was sent.
fn served(port: u16) -> TcpStream {
    let until = Instant::now() + PATIENCE;
    loop {
        assert!(Instant::now() < until, "nobody answers");
        std::thread::sleep(Duration::from_millis(100));
        let Ok(mut connection) = TcpStream::connect(("127.0.0.1", port)) else { continue };
        // Nobody may be there yet: then it is reset.
        if let Ok(1) = connection.read(&mut [0]) {
            return connection;
        }
    }
}

/// It has ended long before its client has read it.
#[test]
fn what_a_program_sends_before_its_end_arrives() {
    const SENT: usize = 2_000_000;
    if !guests_start() {
        return;
    }
    let here = Here::new();
    let port = free_port();
    let given = format!("{port}:7");
    let script = format!(
        "import socket\ns = socket.create_server(('0.0.0.0', 7))\nc = s.accept()[0]\nc.sendall(b'x' * {SENT})"
    );
    let mut child =
        here.command(&["--port", &given, "--", "python3", "-c", &script]).spawn().expect("it starts");
    let mut connection = served(port);
    let (mut got, mut chunk) = (1, [0; 16 * 1024]);
    let end = loop {
        match connection.read(&mut chunk) {
            Ok(count @ 1..) => got += count,
            end => break end.map_err(|error| error.kind()),
        }
        std::thread::sleep(Duration::from_millis(30));
    };
    assert_eq!((got, end, end_of(&mut child).code()), (SENT, Ok(0), Some(0)));
    here.assert_nothing_left();
}

/// Whatever lies on its way then is no clean end for the client.
#[test]
fn a_client_that_takes_nothing_is_cut_off_by_one_signal() {
    if !guests_start() {
        return;
    }
    let here = Here::new();
    let port = free_port();
    let given = format!("{port}:7");
    let script = "import socket, time\ns = socket.create_server(('0.0.0.0', 7))\nc = s.accept()[0]\n\
                  c.setblocking(False)\nfull = 0\nwhile full < 20:\n try:\n  c.send(b'x' * 65536)\n  full = 0\n\
                  \x20except BlockingIOError:\n  full += 1\n  time.sleep(0.1)\nprint('sent', flush=True)";
    let mut child =
        here.command(&["--port", &given, "--", "python3", "-c", script]).spawn().expect("it starts");
    let mut connection = served(port);
    child.stdout.as_mut().expect("a pipe").read_exact(&mut [0; 5]).expect("all ways are full");
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("sent");
    // It may have come before the program's end.
    assert!(matches!(end_of(&mut child).code(), Some(0 | 143)));
    let end = std::io::copy(&mut connection, &mut std::io::sink()).map_err(|error| error.kind());
    assert_eq!(end, Err(std::io::ErrorKind::ConnectionReset));
    here.assert_nothing_left();
}

/// A connection that is cut off is no clean end, on either side; who only comes and waits takes nobody else's place.
#[test]
fn a_reset_goes_through_a_port_and_idle_connections_keep_nobody_out() {
    if !guests_start() {
        return;
    }
    let here = Here::new();
    let port = free_port();
    let given = format!("{port}:7");
    // What a client sends says what becomes of it: an `r` is reset, of an `x` it is told how it ended, an `e` is the end of all.
    let script = "import socket, struct, threading\ns = socket.create_server(('0.0.0.0', 7), backlog=200)\nhow = []\n\
                  def serve(c):\n b = c.recv(1)\n\
                  \x20if b == b'r': c.sendall(b'half'); c.recv(1); c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))\n\
                  \x20if b == b'x':\n  c.sendall(b'y')\n  try: how.append('clean' if c.recv(1) == b'' else 'more')\n  except ConnectionResetError: how.append('reset')\n\
                  \x20if b == b'h':\n  while not how: pass\n  c.sendall(how[0].encode())\n c.close()\n\
                  print('ready', flush=True)\n\
                  while True:\n c = s.accept()[0]\n threading.Thread(target=serve, args=(c,), daemon=True).start()";
    let mut child =
        here.command(&["--port", &given, "--", "python3", "-c", script]).spawn().expect("it starts");
    let mut line = [0; 6];
    child.stdout.as_mut().expect("a pipe").read_exact(&mut line).expect("it is ready");
    let talk = |first: &[u8]| {
        let mut connection = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
        connection.set_read_timeout(Some(PATIENCE)).expect("a deadline");
        connection.write_all(first).expect("written");
        connection
    };
    // More than were once let in at all.
    let idle: Vec<_> =
        (0..80).map(|_| TcpStream::connect(("127.0.0.1", port)).expect("a connection")).collect();
    let mut back = [0; 4];
    let mut cut = talk(b"r");
    cut.read_exact(&mut back).expect("half of it");
    cut.write_all(b"!").expect("written");
    let ended = cut.read(&mut back).map_err(|error| error.kind());
    assert_eq!((&back, ended), (b"half", Err(std::io::ErrorKind::ConnectionReset)));
    let mut ours = talk(b"x");
    ours.read_exact(&mut back[..1]).expect("an answer");
    rustix::net::connect_unspec(&ours).expect("reset");
    let mut how = String::new();
    talk(b"h").read_to_string(&mut how).expect("an answer");
    assert_eq!(how, "reset");
    drop(idle);
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::TERM)
        .expect("sent");
    assert_eq!(end_of(&mut child).code(), Some(128 + 15));
    here.assert_nothing_left();
}

/// A server with a short queue that takes its time, and listens at the other loopback: who comes waits, as natively, while the
/// partition goes on.
#[test]
fn whoever_comes_to_a_busy_port_waits_and_holds_up_nobody() {
    if !guests_start() {
        return;
    }
    let here = Here::new();
    let port = free_port();
    let given = format!("{port}:7");
    // It says when its queue is full (`sk_ack_backlog` is what the kernel's table shows of who listens), and takes nobody before
    // it was told to.
    let script = "import socket, sys, time\ns = socket.create_server(('::1', 7), family=socket.AF_INET6, backlog=5)\n\
                  def waiting():\n for l in open('/proc/net/tcp6').read().splitlines()[1:]:\n  w = l.split()\n\
                  \x20 if w[3] == '0A' and w[1].endswith(':0007'): return int(w[4].split(':')[1], 16)\n\
                  print('ready', flush=True)\nwhile waiting() < 6: time.sleep(0.05)\nprint('full.', flush=True)\n\
                  print(sys.stdin.readline(), end='', flush=True)\n\
                  while True:\n c = s.accept()[0]\n b = c.recv(9)\n time.sleep(0.1)\n c.sendall(b.upper())\n c.close()";
    let mut child = here
        .command(&["--port", &given, "--", "python3", "-c", script])
        .stdin(Stdio::piped())
        .spawn()
        .expect("it starts");
    let next = |child: &mut std::process::Child| {
        let mut line = [0; 6];
        child.stdout.as_mut().expect("a pipe").read_exact(&mut line).expect("a line");
        String::from_utf8_lossy(&line).into_owned()
    };
    assert_eq!(next(&mut child), "ready\n");
    let all: Vec<_> = (0..60)
        .map(|number| {
            let mut connection = TcpStream::connect(("127.0.0.1", port)).expect("a connection");
            connection.set_read_timeout(Some(PATIENCE)).expect("a deadline");
            let words = format!("get {number}");
            connection.write_all(words.as_bytes()).expect("written");
            (connection, words.to_uppercase())
        })
        .collect();
    assert_eq!(next(&mut child), "full.\n");
    // Most of them wait; input and output of the program go on.
    child.stdin.as_mut().expect("a pipe").write_all(b"go on\n").expect("written");
    assert_eq!(next(&mut child), "go on\n");
    for (mut connection, wanted) in all {
        let mut back = String::new();
        let read = connection.read_to_string(&mut back);
        assert_eq!((read.map_err(|error| error.kind()), &back), (Ok(wanted.len()), &wanted));
    }
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::TERM)
        .expect("sent");
    assert_eq!(end_of(&mut child).code(), Some(128 + 15));
    here.assert_nothing_left();
}

#[test]
fn everybody_in_a_partition_may_write_what_is_temporary() {
    if !guests_start() {
        return;
    }
    let here = Here::new();
    let script = "stat -c '%n %a' /tmp /var/tmp && echo 1 >/tmp/own && echo 2 >/var/tmp/own && cat /tmp/own /var/tmp/own";
    let user = if nix::unistd::geteuid().is_root() { vec!["--user", "1234:1234"] } else { vec![] };
    let words: Vec<&str> = user.into_iter().chain(["--", "sh", "-c", script]).collect();
    let output = here.run(&words);
    assert_code(&output, 0);
    assert_eq!(text(&output), "/tmp 1777\n/var/tmp 1777\n1\n2\n");
}
