//! Failures that are made in a set that is up with real guests: each is seen from outside, and nothing stays broken.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::exec_fixture::free_port;
use crate::set_fixture;

use crate::verify_fixture::ECHO;
use bulkhead::model::partition::set::Phase;
use bulkhead::model::verification::{Observed, Outage, RequirementVerdict, Verification, VerifyLine};
use set_fixture::{Bench, PATIENCE, guests_are_there, verdicts};

const RELAY: &str = r#"
[network.control]
links = 2

[partition.db]
program = ["/usr/bin/python3", "FOLDER/echo.py"]
ro = ["FOLDER"]
networks = ["control"]
restart = "on-failure"
ready = { tcp = 9000 }
failure_domain = "behind"

[partition.web]
program = ["/usr/bin/python3", "FOLDER/echo.py", "db"]
ro = ["FOLDER"]
networks = ["control"]
after = ["db"]
ports = ["PORT:9000"]
ready = { tcp = 9000 }
failure_domain = "before"

[requirement.Q]
text = "All that is behind is back within two minutes."
metric = "outage.duration_ns"
at_most = "2 min"
failure = "domain.behind"
client = { kind = "echo", at = "127.0.0.1:PORT", period_ms = 50, answer_within_ms = 3000 }

[requirement.P]
text = "So is a program that died, which nobody but us starts again: it is not."
metric = "outage.duration_ns"
at_most = "4 s"
failure = "program.web"
client = { kind = "echo", at = "127.0.0.1:PORT", period_ms = 50, answer_within_ms = 3000 }

[requirement.S]
text = "Nothing comes twice when a switch dies."
metric = "outage.doubled"
exactly = 0
failure = "switch.control.0"
client = { kind = "echo", at = "127.0.0.1:PORT", period_ms = 50, answer_within_ms = 3000 }

[requirement.L]
text = "A link that stands still is left for the other one."
metric = "outage.duration_ns"
at_most = "8 s"
failure = "link.control.1"
client = { kind = "echo", at = "127.0.0.1:PORT", period_ms = 50, answer_within_ms = 3000 }

[requirement.C]
text = "So is one whose cable is pulled out."
metric = "outage.duration_ns"
at_most = "8 s"
failure = "cable.control.0@web"
client = { kind = "echo", at = "127.0.0.1:PORT", period_ms = 50, answer_within_ms = 3000 }

[requirement.W]
text = "Half of all who ask are answered within two seconds."
metric = "response.p50_ns"
at_most = "2 s"
load = "as-is"
client = { kind = "echo", at = "127.0.0.1:PORT", period_ms = 50, answer_within_ms = 3000 }

[requirement.K]
text = "Some are answered every second, however many ask."
metric = "capacity.answers_per_s"
at_least = "0.1 /s"
load = "as-is"
client = { kind = "echo", at = "127.0.0.1:PORT", answer_within_ms = 10000, concurrency = 4 }

[requirement.A]
text = "They do not fail together."
pair = ["db", "web"]
metric = "pair.shared_failure_domains"
exactly = 0

[requirement.N]
text = "Both links are there."
network = "control"
metric = "network.links_up"
exactly = 2
"#;

/// What of the outages was seen: test, requirement's failure in words, what was undone.
fn outages(folder: &str) -> Vec<(String, Outage)> {
    let journal = fs::read_to_string(format!("{folder}/journal.jsonl")).expect("it is written");
    let lines = journal.lines().map(|line| serde_json::from_str::<VerifyLine>(line).expect("a line"));
    let rounds = lines.filter_map(|line| match line {
        VerifyLine::Round(round) => Some(round),
        VerifyLine::Header(_) | VerifyLine::End => None,
    });
    rounds
        .filter_map(|round| match round.seen {
            Observed::Outage(outage) => Some((round.test, outage)),
            Observed::Failed { reason } => panic!("{}: {reason}", round.test),
            _ => None,
        })
        .collect()
}

/// Brings a set up whose programs lie in `folder`; its file, and where its evidence will be.
fn up(bench: &Bench, text: &str, folder: &str) -> [String; 2] {
    let text = text.replace("FOLDER", folder).replace("PORT", &free_port().to_string());
    let (file, out) = (bench.file("plant.toml", &text), bench.path("evidence"));
    let said = bench.up(&file);
    assert_eq!(said.code, Some(0), "{said:?}");
    [file, out].map(|path| path.to_str().expect("plain").to_owned())
}

#[test]
fn each_failure_is_seen_from_outside_and_nothing_stays_broken() {
    if !guests_are_there() {
        return;
    }
    let bench = Bench::real();
    let script = bench.file("echo.py", ECHO);
    let folder = script.parent().and_then(Path::to_str).expect("plain");
    let [file, out] = &up(&bench, RELAY, folder);

    let said = bench.call(&["verify", file, "--out", out]);
    assert_eq!(said.code, Some(4), "nothing is broken unless that is asked for: {said:?}");
    assert_eq!(verdicts(out)["Q"], RequirementVerdict::NotRun);
    for id in ["W", "K", "A", "N"] {
        assert_eq!(verdicts(out)[id], RequirementVerdict::Pass, "{id}: {said:?}");
    }
    assert!(outages(out).is_empty());

    let carriers_lost = |name: &str| -> u32 {
        let counts = "cat /sys/class/net/*/carrier_down_count";
        let said = bench.call(&["exec", "--in", &format!("plant/{name}"), "--", "/bin/sh", "-c", counts]);
        assert_eq!(said.code, Some(0), "{said:?}");
        said.out.lines().filter_map(|count| count.parse::<u32>().ok()).sum()
    };
    let before = ["web", "db"].map(carriers_lost);
    let cable = bench.call(&["verify", file, "--out", out, "--failures", "--only", "C"]);
    let lost = ["web", "db"].map(carriers_lost);
    assert_eq!([lost[0] - before[0], lost[1] - before[1]], [3, 0], "each time, and of web alone: {cable:?}");

    let said = bench.call(&["verify", file, "--out", out, "--failures"]);
    let all = outages(out);
    for (id, verdict) in verdicts(out) {
        let wanted = if id == "P" { RequirementVerdict::Fail } else { RequirementVerdict::Pass };
        assert_eq!(verdict, wanted, "{id}: {said:?}, {all:?}");
    }
    assert_eq!(
        (said.code, all.len()),
        (Some(1), 16),
        "three of each, one of what has no end, and those of before: {said:?}"
    );
    let words = said.out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains("it was not over by itself in 1 of 1 round; web was started again by us"),
        "{said:?}"
    );
    let of = |id: &str| -> Vec<&Outage> {
        let text = fs::read(format!("{out}/verify.json")).expect("it is written");
        let verification: Verification = serde_json::from_slice(&text).expect("a verification");
        let decides = verification.requirements.into_iter().find(|one| one.id == id).and_then(|one| one.test);
        all.iter().filter(|(name, _)| Some(name) == decides.as_ref()).map(|(_, outage)| outage).collect()
    };
    for id in ["Q", "P"] {
        assert!(
            of(id).iter().all(|outage| outage.first_missing_ns.is_some() && outage.lost > 0),
            "{id}: {all:?}"
        );
    }
    assert!(of("P").iter().all(|outage| outage.undone.contains("web was started again by us")), "{all:?}");
    assert!(of("Q").iter().all(|outage| outage.undone.contains("by itself")), "{all:?}");
    assert!(
        of("C").iter().all(|outage| outage.undone.contains("cable.control.0@web is in again")),
        "{all:?}"
    );
    assert!(of("L").iter().all(|outage| outage.undone.contains("control.1 was let go")), "{all:?}");

    let set = bench.ps().expect("it is up");
    assert!(set.partitions.iter().all(|one| one.phase == Phase::Running), "{set:?}");
    assert!(set.switches.iter().all(|one| one.phase == Phase::Running && one.pid.is_some()), "{set:?}");
    assert_eq!(bench.call(&["down"]).code, Some(0));
    assert_eq!(bench.left(), Vec::<String>::new());
}

const STUMBLES: &str = r#"
[partition.web]
program = ["/bin/sh", "-c", "if rm FOLDER/data/stumble; then exit 3; fi; exec /usr/bin/python3 FOLDER/echo.py"]
ro = ["FOLDER"]
rw = ["FOLDER/data"]
ports = ["PORT:9000"]
restart = "on-failure"
ready = { tcp = 9000 }

[requirement.Q]
text = "It is back within a minute."
metric = "outage.duration_ns"
at_most = "1 min"
failure = "qemu.web"
client = { kind = "echo", at = "127.0.0.1:PORT", period_ms = 50, answer_within_ms = 3000 }
"#;

#[test]
fn what_needs_more_than_one_start_is_said_with_its_reason() {
    if !guests_are_there() {
        return;
    }
    let bench = Bench::real();
    let script = bench.file("echo.py", ECHO);
    let folder = script.parent().and_then(Path::to_str).expect("plain");
    fs::create_dir(format!("{folder}/data")).expect("the test's own files");
    let [file, out] = &up(&bench, STUMBLES, folder);
    fs::write(format!("{folder}/data/stumble"), "").expect("the test's own files");
    let said = bench.call(&["verify", file, "--out", out, "--failures"]);
    let all = outages(out);
    let undone: Vec<&str> = all.iter().map(|(_, outage)| outage.undone.as_str()).collect();
    let stumbled = "web was started again 2 times, the last time because its program ended with 3";
    assert_eq!(undone.first(), Some(&stumbled), "{said:?}");
    let again = "web was started anew before, so that nothing backs off, all came back by itself";
    assert!(undone.len() == 3 && undone[1..].iter().all(|undone| *undone == again), "{undone:?}");
    assert_eq!(bench.call(&["down"]).code, Some(0));
}

/// Asks another one again and again, and echoes lines for as long as it knows something of it that is not older than a lease.
const LEASED: &str = "
import socket, socketserver, threading, time
heard = time.monotonic()
def ask():
    global heard
    while True:
        try:
            with socket.create_connection(('db', 9000), 1) as link:
                link.sendall(b'a\\n')
                if link.recv(9): heard = time.monotonic()
        except OSError: pass
        time.sleep(.1)
class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            if time.monotonic() - heard < 5: self.wfile.write(line)
class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
threading.Thread(target=ask, daemon=True).start()
Server(('', 9000), Handler).serve_forever()
";

const LEASES: &str = r#"
[network.control]

[partition.db]
program = ["/usr/bin/python3", "FOLDER/echo.py"]
ro = ["FOLDER"]
networks = ["control"]
ready = { tcp = 9000 }

[partition.web]
program = ["/usr/bin/python3", "FOLDER/leased.py"]
ro = ["FOLDER"]
networks = ["control"]
after = ["db"]
ports = ["PORT:9000"]
ready = { tcp = 9000 }

[requirement.Q]
text = "Without its database it goes on."
metric = "outage.duration_ns"
at_most = "20 s"
failure = "partition.db"
client = { kind = "echo", at = "127.0.0.1:PORT", period_ms = 100, answer_within_ms = 2000 }
"#;

/// Regression: nobody noticed anything within three seconds, so it had "missed no answer".
#[test]
fn what_is_missed_only_when_a_lease_has_ended_is_waited_for() {
    if !guests_are_there() {
        return;
    }
    let bench = Bench::real();
    let script = bench.file("echo.py", ECHO);
    bench.file("leased.py", LEASED);
    let folder = script.parent().and_then(Path::to_str).expect("plain");
    let [file, out] = &up(&bench, LEASES, folder);
    let said = bench.call(&["verify", file, "--out", out, "--failures"]);
    let all = outages(out);
    assert_eq!(verdicts(out)["Q"], RequirementVerdict::Fail, "{said:?}, {all:?}");
    assert!(all.iter().all(|(_, outage)| outage.answered_again_ns.is_none()), "{all:?}");
    assert!(all.first().is_some_and(|(_, outage)| outage.first_missing_ns.is_some()), "{all:?}");
    assert_eq!(bench.call(&["down"]).code, Some(0));
}

/// Echoes lines that it has stored before; what it has no room for is not lost, it goes to its errors.
const STORE: &str = "
import socketserver, sys
class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        for line in self.rfile:
            try:
                with open('FOLDER/data/stored', 'ab', 0) as stored:
                    stored.write(line)
            except OSError as error:
                print('kept in memory:', error, file=sys.stderr, flush=True)
            self.wfile.write(line)
class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
Server(('', 9000), Handler).serve_forever()
";

const STORING: &str = r#"
[partition.store]
program = ["/usr/bin/python3", "FOLDER/store.py"]
ro = ["FOLDER"]
rw = ["FOLDER/data"]
ports = ["PORT:9000"]
ready = { tcp = 9000 }

[partition.clock]
program = ["FOLDER/chronyd", "1000"]
ro = ["FOLDER"]

[requirement.D]
text = "A full disk is survived."
metric = "outage.duration_ns"
at_most = "4 s"
failure = "disk.store"
client = { kind = "echo", at = "127.0.0.1:PORT", period_ms = 50, answer_within_ms = 3000 }

[requirement.C]
text = "So is a clock service that stands still."
metric = "outage.lost"
exactly = 0
failure = "clock.clock"
client = { kind = "echo", at = "127.0.0.1:PORT", period_ms = 50, answer_within_ms = 3000 }

[requirement.S]
text = "A system call takes no longer than a millisecond where its program is."
partition = "store"
metric = "syscall.call_ns"
at_most = "1 ms"
load = ["cpu@clock"]
paused = true

[requirement.N]
text = "No clock service runs there."
metric = "outage.lost"
exactly = 0
failure = "clock.store"
client = { kind = "echo", at = "127.0.0.1:PORT", period_ms = 50, answer_within_ms = 3000 }
"#;

#[test]
fn a_full_disk_is_felt_and_has_room_again_and_a_clock_service_goes_on() {
    if !guests_are_there() {
        return;
    }
    let bench = Bench::real();
    let script = bench.file("store.py", STORE);
    let folder = script.parent().and_then(Path::to_str).expect("plain");
    fs::write(&script, STORE.replace("FOLDER", folder)).expect("written");
    fs::create_dir(format!("{folder}/data")).expect("a folder");
    fs::copy("/bin/sleep", format!("{folder}/chronyd"))
        .expect("a program that is called like a clock service");
    let [file, out] = &up(&bench, STORING, folder);
    let said = bench.call(&["verify", file, "--out", out]);
    assert!(verdicts(out).values().all(|verdict| *verdict == RequirementVerdict::NotRun), "{said:?}");
    let said = bench.call(&["verify", file, "--out", out, "--failures"]);
    let all = verdicts(out);
    for id in ["D", "C", "S"] {
        assert_eq!(all[id], RequirementVerdict::Pass, "{id}: {said:?}");
    }
    assert_eq!(all["N"], RequirementVerdict::Undecided, "{said:?}");
    let journal = fs::read_to_string(format!("{out}/journal.jsonl")).expect("it is written");
    for told in ["no clock service runs", "disk.store has room again", "clock.clock was let go"] {
        assert!(journal.contains(told), "{told}: {journal}");
    }
    let logs = bench.call(&["logs", "store"]);
    assert!(format!("{logs:?}").contains("No space left on device"), "it felt it: {logs:?}");
    let before = fs::metadata(format!("{folder}/data/stored")).expect("it has stored").len();
    let said = bench.call(&["verify", file, "--out", out, "--failures", "--only", "C"]);
    assert_eq!(verdicts(out)["C"], RequirementVerdict::Pass, "{said:?}");
    let after = fs::metadata(format!("{folder}/data/stored")).expect("it is there").len();
    assert!(after > before, "there is room again");
    what_is_paused_stands_still_and_goes_on(&bench);
    assert_eq!(bench.call(&["down"]).code, Some(0));
}

/// As verify pauses a partition's program: in the guest's kernel it is `t` then, and before and after it is not.
fn what_is_paused_stands_still_and_goes_on(bench: &Bench) {
    let state = || {
        let look = "for one in /proc/[0-9]*; do read -r name <$one/comm; case $name in python3*) cat $one/status;; esac; done";
        let said = bench.call(&["exec", "--in", "plant/store", "--", "/bin/sh", "-c", look]);
        let line = said.out.lines().find(|line| line.starts_with("State:")).map(str::to_owned);
        line.unwrap_or_else(|| panic!("{said:?}"))
    };
    assert!(!state().contains("\tt"), "it runs");
    let mut command =
        bench.command(&["exec", "--in", "plant/store", "--user", "root", "--workdir", "/", "--"]);
    command.args(["/proc/1/exe", "agent", "fail", "pause"]);
    let mut holder = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it starts");
    let mut lines = BufReader::new(holder.stdout.take().expect("piped")).lines();
    assert_eq!(lines.next().expect("a line").expect("text"), "ready");
    holder.stdin.as_mut().expect("piped").write_all(b"now\n").expect("it hears");
    assert_eq!(lines.next().expect("a line").expect("text"), "failed");
    assert!(state().contains("\tt"), "{}", state());
    drop(holder.stdin.take());
    assert!(holder.wait().expect("it ends").success());
    assert!(!state().contains("\tt"), "{}", state());
}

/// A program that is called like a clock service, and how the kernel says it is: `S`, and `t` when it is held.
#[test]
fn a_clock_service_of_the_host_goes_on_when_who_held_it_is_killed() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = folder.path().join("phc2sys");
    // A copy would be open for writing in whatever another thread starts meanwhile.
    std::os::unix::fs::symlink("/bin/sleep", &program).expect("linked");
    let mut clock = Command::new(&program).arg("1000").spawn().expect("it starts");
    let state = |wanted: char| {
        let until = Instant::now() + PATIENCE;
        loop {
            let status = fs::read_to_string(format!("/proc/{}/status", clock.id())).expect("it runs");
            // Who starts it goes on before the kernel has given it its new name.
            let is_named = status.lines().any(|line| line == "Name:\tphc2sys");
            if is_named && status.lines().any(|line| line.starts_with("State:") && line.contains(wanted)) {
                return;
            }
            assert!(Instant::now() < until, "wanted {wanted}: {status}");
            std::thread::sleep(Duration::from_millis(5));
        }
    };
    state('S');
    let mut holder = Command::new(env!("CARGO_BIN_EXE_bulkhead"))
        .args(["agent", "fail", "clock"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("it starts");
    let mut lines = BufReader::new(holder.stdout.take().expect("piped")).lines();
    assert_eq!(lines.next().expect("a line").expect("text"), "ready");
    state('S');
    holder.stdin.as_mut().expect("piped").write_all(b"now\n").expect("it hears");
    assert_eq!(lines.next().expect("a line").expect("text"), "failed");
    state('t');
    holder.kill().expect("it is ours");
    holder.wait().expect("ended");
    state('S');
    clock.kill().expect("it is ours");
    clock.wait().expect("ended");
}
