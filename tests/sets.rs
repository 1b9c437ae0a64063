//! Sets of partitions with a stand-in for QEMU: up, again, changed, down; what fails is undone; two at once.

use crate::set_fixture;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

use bulkhead::model::partition::set::Phase;
use set_fixture::{Bench, PATIENCE, kill, said};

const THREE: &str = "
[partition.db]
program = [\"/bin/sleep\", \"1000\"]
[partition.plc]
program = [\"/bin/sh\", \"-c\", \"echo to stdout; echo to stderr >&2; exec sleep 1000\"]
after = [\"db\"]
[partition.job]
program = [\"/bin/true\"]
after = [\"plc\"]
";

#[test]
fn a_set_comes_up_in_order_is_shown_and_leaves_nothing() {
    let bench = Bench::pretending();
    let file = bench.file("plant.toml", THREE);
    let told = bench.up(&file);
    assert_eq!(told.code, Some(0), "{told:?}");
    assert!(!told.out.contains("busy"), "{}", told.out);
    let order: Vec<usize> =
        ["db: runs", "plc: runs", "job: "].map(|text| told.err.find(text).expect(text)).into();
    assert!(order.is_sorted(), "{}", told.err);
    bench.wait_for("job", Phase::Ended);
    let set = bench.ps().expect("it is up");
    assert_eq!((set.set.as_str(), set.busy), ("plant", None));
    let plc = bench.wait_for("plc", Phase::Running);
    assert!(
        plc.pid.is_some() && plc.supervisor_pid.is_some() && plc.engine.as_deref() == Some("tcg"),
        "{plc:?}"
    );
    let until = Instant::now() + PATIENCE;
    while fs::read(plc.folder.join("stderr.log")).expect("a log") != b"to stderr\n" {
        assert!(Instant::now() < until, "what it said never came");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(fs::read(plc.folder.join("stdout.log")).expect("a log"), b"to stdout\n");
    let words = bench.call(&["ps", "--console", "plc"]);
    assert_eq!((words.code, words.out.as_str()), (Some(0), "output:\nto stdout\nerrors:\nto stderr\n"));
    let nobody = bench.call(&["ps", "plant", "--console", "nobody"]);
    assert!(nobody.code == Some(2) && nobody.err.contains("a partition \"nobody\""), "{nobody:?}");
    let shown = bench.call(&["ps"]);
    assert!(shown.out.contains("running") && shown.out.contains("256 MiB"), "{}", shown.out);

    let told = bench.call(&["down"]);
    assert_eq!(told.code, Some(0), "{told:?}");
    let order: Vec<usize> =
        ["job: ended", "plc: ended", "db: ended"].map(|t| told.err.find(t).expect(t)).into();
    assert!(order.is_sorted(), "{}", told.err);
    assert_eq!(bench.left(), Vec::<String>::new());
    assert_eq!(bench.call(&["down", "plant"]).code, Some(2), "there is none any more");
    assert!(bench.call(&["ps"]).out.contains("no set is up"));
}

#[test]
fn up_again_starts_only_what_is_missing_or_changed() {
    let bench = Bench::pretending();
    let file = bench.file("plant.toml", THREE);
    assert_eq!(bench.up(&file).code, Some(0));
    bench.wait_for("job", Phase::Ended);
    let pid = |name: &str| bench.wait_for(name, Phase::Running).pid.expect("a process");
    let (db, plc) = (pid("db"), pid("plc"));

    let told = bench.up(&file);
    assert_eq!(told.code, Some(0), "{told:?}");
    assert!(told.err.contains("nothing is missing"), "{}", told.err);
    assert_eq!((pid("db"), pid("plc")), (db, plc));

    // One changed, one gone, one new.
    let changed = THREE.replace("to stdout", "other words").replace("[partition.job]", "[partition.work]");
    bench.file("plant.toml", &changed);
    let told = bench.up(&file);
    assert_eq!(told.code, Some(0), "{told:?}");
    for part in
        ["db: left", "plc: ended, because it is another one", "job: ended, because it is not in the file"]
    {
        assert!(told.err.contains(part), "{part}: {}", told.err);
    }
    assert!(pid("db") == db && pid("plc") != plc);
    bench.wait_for("work", Phase::Ended);
    assert_eq!(bench.phases(), "db running, plc running, work ended");

    // One lost: only that one is started.
    let lost = bench.wait_for("db", Phase::Running);
    kill(lost.supervisor_pid.expect("a supervisor"));
    bench.wait_for("db", Phase::Lost);
    let plc = pid("plc");
    let told = bench.up(&file);
    assert!(told.err.contains("db: ended, because it is lost"), "{}", told.err);
    assert!(pid("db") != db && pid("plc") == plc);
    assert_eq!(bench.call(&["down", file.to_str().expect("plain")]).code, Some(0));
    assert_eq!(bench.left(), Vec::<String>::new());
}

/// A package manager puts a new program in the place of the one that runs; the supervisors go on with what they were made of.
#[test]
fn a_partition_is_started_again_by_the_program_that_started_it() {
    let mut bench = Bench::pretending().with_own_program();
    let given = bench.path("given");
    fs::create_dir(&given).expect("the test's own files");
    let text = format!(
        "[network.control]\n[partition.db]\nprogram = [\"/bin/sleep\", \"1000\"]\nrestart = \"on-failure\"\n\
         networks = [\"control\"]\nrw = [{given:?}]\n"
    );
    let file = bench.file("plant.toml", &text);
    let said = bench.up(&file);
    assert_eq!(said.code, Some(0), "{said:?}");
    let first = bench.wait_for("db", Phase::Running);
    let switch = bench.ps().expect("it is up").switches[0].pid.expect("a process");

    // The file that they run has no name any more, and what has its name is another.
    let running = std::mem::replace(&mut bench.program, env!("CARGO_BIN_EXE_bulkhead").into());
    fs::remove_file(&running).expect("the test's own files");
    fs::write(&running, "#!/bin/sh\nexit 99\n").expect("the test's own files");
    fs::set_permissions(&running, fs::Permissions::from_mode(0o755)).expect("the test's own files");
    kill(switch);
    kill(first.pid.expect("a process"));
    let until = Instant::now() + PATIENCE;
    while bench.wait_for("db", Phase::Running).restarts == 0 {
        assert!(Instant::now() < until, "it was never started again");
        std::thread::sleep(Duration::from_millis(30));
    }
    let switches = || bench.ps().expect("it is up").switches;
    while !switches().iter().all(|one| one.phase == Phase::Running && one.pid != Some(switch)) {
        assert!(Instant::now() < until, "{:?}", switches());
        std::thread::sleep(Duration::from_millis(30));
    }
    assert_eq!(bench.call(&["down"]).code, Some(0));
    assert_eq!(bench.left(), Vec::<String>::new());
}

#[test]
fn a_new_peer_is_no_reason_to_start_the_others_anew() {
    let bench = Bench::pretending();
    let sleeper = |name: &str| {
        format!("[partition.{name}]\nprogram = [\"/bin/sleep\", \"1000\"]\nnetworks = [\"control\"]\n")
    };
    let text = format!("[network.control]\n{}{}", sleeper("db"), sleeper("plc"));
    let file = bench.file("plant.toml", &text);
    assert_eq!(bench.up(&file).code, Some(0));
    bench.file("plant.toml", &format!("{text}{}", sleeper("tester")));
    let told = bench.up(&file);
    assert_eq!(told.code, Some(0), "{told:?}");
    for part in ["db: left", "plc: left", "tester: runs"] {
        assert!(told.err.contains(part), "{part}: {}", told.err);
    }
    assert_eq!(bench.call(&["down"]).code, Some(0));
    assert_eq!(bench.left(), Vec::<String>::new());
}

#[test]
fn partitions_know_each_other_by_name() {
    if !set_fixture::guests_are_there() {
        return;
    }
    let bench = Bench::real();
    let script = "for name in db plc other localhost; do getent ahostsv4 $name || echo no $name; done";
    let text = format!(
        "[network.control]\n[network.office]\n[partition.plc]\nprogram = [\"/bin/sh\", \"-c\", \"{script}\"]\n\
         networks = [\"control\"]\n[partition.db]\nprogram = [\"/bin/true\"]\nnetworks = [\"control\", \"office\"]\n\
         [partition.other]\nprogram = [\"/bin/true\"]\nnetworks = [\"office\"]\n"
    );
    let file = bench.file("plant.toml", &text);
    let told = bench.up(&file);
    assert_eq!(told.code, Some(0), "{told:?}");
    let plc = bench.wait_for("plc", Phase::Ended);
    let said = fs::read_to_string(plc.folder.join("stdout.log")).expect("a log");
    let streams: Vec<&str> =
        said.lines().filter(|line| !line.contains("DGRAM") && !line.contains("RAW")).collect();
    let words: Vec<Vec<&str>> = streams.iter().map(|line| line.split_whitespace().collect()).collect();
    let wanted: [&[&str]; 4] = [
        &["10.77.1.1", "STREAM", "db"],
        &["10.77.1.2", "STREAM", "plc"],
        &["no", "other"],
        &["127.0.0.1", "STREAM", "localhost"],
    ];
    assert_eq!(words, wanted, "{said}");
    assert_eq!(bench.call(&["down"]).code, Some(0));
    assert_eq!(bench.left(), Vec::<String>::new());
}

#[test]
fn a_partition_whose_memory_runs_out_says_so() {
    if !set_fixture::guests_are_there() {
        return;
    }
    let bench = Bench::real();
    let text =
        "[partition.a]\nprogram = [\"sh\", \"-c\", \"sleep 2; exec tail /dev/zero\"]\nmemory_mib = 192\n";
    let file = bench.file("plant.toml", text);
    assert_eq!(bench.up(&file).code, Some(0));
    let last = bench.wait_for("a", Phase::Ended).last.expect("an end");
    let wanted = "its program was ended by signal 9: memory ran out (192 MiB); the largest was tail (";
    assert!(last.reason.starts_with(wanted), "{}", last.reason);
    assert_eq!(bench.call(&["down"]).code, Some(0));
    assert_eq!(bench.left(), Vec::<String>::new());
}

/// Regression: what was killed beneath a program that goes on was told at its end alone, as the reason of it.
#[test]
fn a_partition_whose_worker_was_killed_says_so_while_it_runs() {
    if !set_fixture::guests_are_there() {
        return;
    }
    let bench = Bench::real();
    let text =
        "[partition.a]\nprogram = [\"sh\", \"-c\", \"tail /dev/zero; sleep 1000\"]\nmemory_mib = 192\n";
    let file = bench.file("plant.toml", text);
    assert_eq!(bench.up(&file).code, Some(0));
    let too_late = Instant::now() + PATIENCE;
    let said = loop {
        let told = bench.call(&["ps"]);
        if told.out.contains("memory ran out") {
            break told.out;
        }
        assert!(Instant::now() < too_late, "{told:?}");
        std::thread::sleep(Duration::from_millis(100));
    };
    assert!(said.contains(" ago, memory ran out (192 MiB); the largest was tail ("), "{said}");
    assert_eq!(bench.call(&["down"]).code, Some(0));
    assert_eq!(bench.left(), Vec::<String>::new());
}

#[test]
fn what_fails_undoes_all_that_was_started() {
    for (program, part) in [
        ("program = [\"/bin/sh\", \"-c\", \"echo why >&2; exit 3\"]", "ended with 3\n  stderr: why"),
        ("program = [\"/bin/sleep\", \"1000\"]\nenv = { PRETEND_PANIC = \"1\" }", "console: Kernel panic"),
    ] {
        let bench = Bench::pretending();
        // The last one waits for long, so that `up` is not done before.
        let slow = "[partition.slow]\nprogram = [\"/bin/sleep\", \"1000\"]\nenv = { PRETEND_BOOT_MS = \"100000\" }\n";
        let text = format!(
            "[partition.good]\nprogram = [\"/bin/sleep\", \"1000\"]\n[partition.bad]\n{program}\n{slow}"
        );
        let file = bench.file("plant.toml", &text);
        let told = bench.up(&file);
        assert_eq!(told.code, Some(4), "{told:?}");
        assert!(told.err.contains("bad ") && told.err.contains(part), "{}", told.err);
        assert_eq!(bench.left(), Vec::<String>::new());
    }
}

#[test]
fn what_was_there_before_survives_a_failure() {
    let bench = Bench::pretending();
    let file = bench.file("plant.toml", "[partition.db]\nprogram = [\"/bin/sleep\", \"1000\"]\n");
    assert_eq!(bench.up(&file).code, Some(0));
    let db = bench.wait_for("db", Phase::Running).pid;
    let text = "[partition.db]\nprogram = [\"/bin/sleep\", \"1000\"]\n[partition.bad]\nprogram = [\"/bin/sleep\", \"1000\"]\n\
                env = { PRETEND_PANIC = \"1\" }\n";
    bench.file("plant.toml", text);
    assert_eq!(bench.up(&file).code, Some(4));
    assert_eq!(bench.phases(), "bad missing, db running");
    assert_eq!(bench.wait_for("db", Phase::Running).pid, db);
    assert_eq!(bench.call(&["down"]).code, Some(0));
    assert_eq!(bench.left(), Vec::<String>::new());
}

#[test]
fn logs_are_followed_through_restarts() {
    let bench = Bench::pretending();
    let text = "[partition.db]\nprogram = [\"/bin/sh\", \"-c\", \"echo begins; exec sleep 1000\"]\n";
    assert_eq!(bench.up(&bench.file("plant.toml", text)).code, Some(0));
    let mut follower =
        bench.command(&["logs", "-f", "db"]).stdout(Stdio::piped()).spawn().expect("it starts");
    let wait_for_lines = |count: usize| {
        let until = Instant::now() + PATIENCE;
        while bench.call(&["logs", "db"]).out.lines().count() < count {
            assert!(Instant::now() < until, "{count} lines were wanted");
            std::thread::sleep(Duration::from_millis(30));
        }
    };
    for count in 1..=6 {
        wait_for_lines(count);
        let told = bench.call(&["restart", "db"]);
        assert_eq!(told.code, Some(0), "{told:?}");
        assert!(follower.try_wait().expect("our child").is_none(), "it ended with restart {count}");
    }
    wait_for_lines(7);
    assert_eq!(bench.call(&["stop", "db"]).code, Some(0));
    let told = said(&follower.wait_with_output().expect("it ends"));
    assert_eq!((told.code, told.out.as_str()), (Some(0), "begins\n".repeat(7).as_str()));
    assert_eq!(bench.call(&["down"]).code, Some(0));
    assert_eq!(bench.left(), Vec::<String>::new());
}

#[test]
fn what_the_machine_lacks_is_said_before_anything_is_made() {
    let bench = Bench::real();
    let file = bench.file("plant.toml", "[partition.a]\nprogram = [\"/bin/true\"]\n");
    let without_modules = bench.path("empty");
    fs::create_dir(&without_modules).expect("the test's own files");
    for (option, value, part) in [
        (
            "--qemu",
            "no-such-qemu",
            "no no-such-qemu in PATH: install it (Debian: apt-get install qemu-system-x86",
        ),
        ("--kernel", "/no/such/kernel", "kernel /no/such/kernel"),
        ("--modules", without_modules.to_str().expect("plain"), "\"virtio_pci\" is neither in"),
    ] {
        let told = bench.call(&["up", file.to_str().expect("plain"), option, value]);
        assert_eq!(told.code, Some(3), "{option}: {told:?}");
        assert!(told.err.contains(part), "{option}: {}", told.err);
        assert_eq!(bench.left(), Vec::<String>::new(), "{option}");
    }
    assert!(!bench.state().exists());
}

#[test]
fn two_at_once_are_told_of_each_other() {
    let bench = Bench::pretending();
    let text =
        "[partition.slow]\nprogram = [\"/bin/sleep\", \"1000\"]\nenv = { PRETEND_BOOT_MS = \"20000\" }\n";
    let file = bench.file("plant.toml", text);
    let first = bench.begin(&["up", file.to_str().expect("plain")]);
    bench.wait_for("slow", Phase::Starting);
    for words in [&["up", file.to_str().expect("plain")][..], &["down", "plant"]] {
        let told = bench.call(words);
        assert_eq!(told.code, Some(2), "{told:?}");
        assert!(told.err.contains(&format!("by up, process {}", first.id())), "{}", told.err);
    }
    assert_eq!(said(&first.wait_with_output().expect("it ends")).code, Some(0));
    let other = bench.file("other.toml", &format!("name = \"plant\"\n{text}"));
    let told = bench.up(&other);
    assert!(told.code == Some(2) && told.err.contains("is up from"), "{told:?}");
    assert_eq!(bench.call(&["down"]).code, Some(0));
    assert_eq!(bench.left(), Vec::<String>::new());
}

#[test]
fn an_interrupt_undoes_what_was_started() {
    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;
    let bench = Bench::pretending();
    let text = "[partition.a]\nprogram = [\"/bin/sleep\", \"1000\"]\n[partition.slow]\nprogram = [\"/bin/sleep\", \"1000\"]\n\
                after = [\"a\"]\nenv = { PRETEND_BOOT_MS = \"100000\" }\n";
    let file = bench.file("plant.toml", text);
    let up = bench.begin(&["up", file.to_str().expect("plain")]);
    bench.wait_for("slow", Phase::Starting);
    kill(Pid::from_raw(i32::try_from(up.id()).expect("a number")), Signal::SIGINT).expect("sent");
    let told = said(&up.wait_with_output().expect("it ends"));
    assert_eq!(told.code, Some(130), "{told:?}");
    assert_eq!(bench.left(), Vec::<String>::new());
}

#[test]
fn a_program_is_started_again_as_the_policy_says() {
    let bench = Bench::pretending();
    let script = "echo x; sleep 0.3; exit 1";
    let text = format!(
        "[partition.a]\nprogram = [\"/bin/sh\", \"-c\", \"{script}\"]\nrestart = \"on-failure\"\nrestart_limit = 2\n"
    );
    let file = bench.file("plant.toml", &text);
    assert_eq!(bench.up(&file).code, Some(0));
    let failed = bench.wait_for("a", Phase::Failed);
    assert_eq!(failed.restarts, 2);
    assert!(failed.last.expect("an end").reason.contains("started again 2 times"));
    let said = fs::read_to_string(failed.folder.join("stdout.log")).expect("a log");
    assert_eq!(said.lines().filter(|line| *line == "x").count(), 3, "{said}");
    assert_eq!(bench.call(&["down"]).code, Some(0));
    assert_eq!(bench.left(), Vec::<String>::new());
}

#[test]
fn switches_are_kept_like_partitions() {
    let bench = Bench::pretending();
    let text = "[network.control]\nlinks = 2\n[partition.a]\nprogram = [\"/bin/sleep\", \"1000\"]\nnetworks = [\"control\"]\n\
                [partition.b]\nprogram = [\"/bin/sleep\", \"1000\"]\n\
                card = [{ network = \"control\", number = 7, bytes_per_s = 1000000 }]\n";
    let file = bench.file("plant.toml", text);
    let told = bench.up(&file);
    assert_eq!(told.code, Some(0), "{told:?}");
    let set = bench.ps().expect("it is up");
    assert_eq!(set.partitions[0].addresses, ["control 10.77.1.1/24"]);
    assert_eq!(set.partitions[1].addresses, ["control 10.77.1.7/24"]);
    let switch = |name: &str| {
        let until = Instant::now() + PATIENCE;
        loop {
            let set = bench.ps().expect("it is up");
            let found = set.switches.into_iter().find(|switch| switch.name == name).expect("a switch");
            if let (Phase::Running, Some(pid)) = (found.phase, found.pid) {
                return pid;
            }
            assert!(Instant::now() < until, "{name} is {}", found.phase.word());
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    // One that is killed is started again by its supervisor.
    let (first, second) = (switch("control.0"), switch("control.1"));
    kill(second);
    let until = Instant::now() + PATIENCE;
    while switch("control.1") == second {
        assert!(Instant::now() < until, "it is not started again");
    }
    assert_eq!(switch("control.0"), first);
    // One that hangs is given up.
    let hanging = switch("control.1");
    let pid = nix::unistd::Pid::from_raw(i32::try_from(hanging).expect("a number"));
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGSTOP).expect("it runs");
    let until = Instant::now() + PATIENCE;
    while switch("control.1") == hanging {
        assert!(Instant::now() < until, "it is not started again");
    }
    assert_eq!(switch("control.0"), first);
    let told = bench.up(&file);
    assert!(told.code == Some(0) && told.err.contains("nothing is missing"), "{told:?}");
    assert_eq!(bench.call(&["down"]).code, Some(0));
    assert_eq!(bench.left(), Vec::<String>::new());
}
