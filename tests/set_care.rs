//! Partitions of a set that are looked after, with real guests: ready before others start, well or started again, stopped
//! and started one by one, their logs followed.

use crate::set_fixture;

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use bulkhead::model::partition::set::Phase;
use set_fixture::{Bench, PATIENCE, guests_are_there, kill};

fn pid(bench: &Bench, name: &str) -> u32 {
    bench.wait_for(name, Phase::Running).pid.expect("a process")
}

/// Waits until its log is this.
fn wait_for_log(bench: &Bench, name: &str, wanted: &str) {
    let until = Instant::now() + PATIENCE;
    loop {
        let said = bench.call(&["logs", name]);
        if said.out == wanted {
            return;
        }
        assert!(Instant::now() < until, "{wanted:?} was wanted, got {said:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// db listens two seconds after it began; who comes after it finds it so, which starting alone would not give.
#[test]
fn who_comes_after_another_is_started_when_that_is_ready() {
    if !guests_are_there() {
        return;
    }
    let bench = Bench::real();
    let text = r#"
[partition.db]
program = ["/usr/bin/python3", "-c", "import socket, time; time.sleep(2); s = socket.create_server(('127.0.0.1', 5432)); open('/tmp/up', 'w'); time.sleep(1000)"]
ready = { tcp = 5432, within_s = 100 }
[partition.cache]
program = ["/bin/sh", "-c", "sleep 1; touch /tmp/made; exec sleep 1000"]
ready = { file = "/tmp/made" }
[partition.api]
program = ["/bin/sh", "-c", "sleep 1; touch /tmp/made; exec sleep 1000"]
ready = { command = ["test", "-e", "/tmp/made"] }
[partition.web]
program = ["/bin/sleep", "1000"]
after = ["db", "cache", "api"]
"#;
    let file = bench.file("plant.toml", text);
    let mut up = bench.begin(&["up", file.to_str().expect("plain")]);
    // While one of those it waits for only starts, it is not there at all.
    let until = Instant::now() + PATIENCE;
    let mut seen = String::new();
    while up.try_wait().expect("our child").is_none() {
        assert!(Instant::now() < until, "{seen}");
        seen = bench.phases();
        let waits = ["db running", "cache running", "api running"].iter().any(|phase| !seen.contains(phase));
        assert!(!waits || !seen.contains("web ") || seen.contains("web missing"), "{seen}");
        std::thread::sleep(Duration::from_millis(50));
    }
    let told = set_fixture::said(&up.wait_with_output().expect("it ends"));
    assert_eq!(told.code, Some(0), "{told:?}");
    assert_eq!(bench.phases(), "api running, cache running, db running, web running");
    let there = bench.call(&["exec", "--in", "db", "--", "test", "-e", "/tmp/up"]);
    assert_eq!(there.code, Some(0), "{there:?}");
    assert_eq!(bench.call(&["down"]).code, Some(0));
    assert_eq!(bench.left(), Vec::<String>::new());
}

/// As many as a quorum: none is ready before all have begun. Of a host's CPUs one is ours, so that one boots at a time.
#[test]
fn partitions_that_become_ready_together_come_up_on_one_cpu() {
    if !guests_are_there() {
        return;
    }
    let bench = Bench::real();
    let shared = bench.path("shared");
    std::fs::create_dir(&shared).expect("the test's own files");
    let shown = shared.display();
    let one = |name: &str| {
        format!(
            "[partition.{name}]\nprogram = [\"/bin/sh\", \"-c\", \"touch {shown}/{name}; exec sleep 1000\"]\nrw = [\"{shown}\"]\n\
             ready = {{ command = [\"test\", \"-e\", \"{shown}/a\", \"-a\", \"-e\", \"{shown}/b\"], within_s = 120 }}\n"
        )
    };
    let file = bench.file("plant.toml", &format!("{}{}", one("a"), one("b")));
    let told = std::thread::scope(|scope| {
        let on_one_cpu = || {
            use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
            let own = sched_getaffinity(nix::unistd::Pid::from_raw(0)).expect("ours");
            let first = (0..CpuSet::count()).find(|cpu| own.is_set(*cpu) == Ok(true)).expect("a CPU");
            let mut one = CpuSet::new();
            one.set(first).expect("a CPU");
            sched_setaffinity(nix::unistd::Pid::from_raw(0), &one).expect("one of ours");
            bench.up(&file)
        };
        scope.spawn(on_one_cpu).join().expect("no panic")
    });
    assert_eq!(told.code, Some(0), "{told:?}");
    assert_eq!(bench.phases(), "a running, b running");
    assert_eq!(bench.call(&["down"]).code, Some(0));
    assert_eq!(bench.left(), Vec::<String>::new());
}

/// db is ready when the test says so. It breaks, and comes again beside an `up` that adds who comes after it.
#[test]
fn who_comes_after_one_that_is_started_again_waits_until_that_is_ready() {
    if !guests_are_there() {
        return;
    }
    let bench = Bench::real();
    let shared = bench.path("shared");
    std::fs::create_dir(&shared).expect("the test's own files");
    let ready = shared.join("ready");
    std::fs::write(&ready, "").expect("the test's own files");
    let text = format!(
        "[partition.db]\nprogram = [\"/bin/sh\", \"-c\", \"echo begins; exec sleep 1000\"]\nrestart = \"always\"\n\
         rw = [\"{}\"]\nready = {{ file = \"{}\", within_s = 240 }}\n",
        shared.display(),
        ready.display()
    );
    assert_eq!(bench.up(&bench.file("plant.toml", &text)).code, Some(0));
    wait_for_log(&bench, "db", "begins\n");
    let first = pid(&bench, "db");
    std::fs::remove_file(&ready).expect("the test's own files");
    let web = "[partition.web]\nprogram = [\"/bin/sleep\", \"1000\"]\nafter = [\"db\"]\n";
    let file = bench.file("plant.toml", &format!("{text}{web}"));
    set_fixture::kill(first);
    let until = Instant::now() + PATIENCE;
    while bench.phases() == "db running" {
        assert!(Instant::now() < until, "it does not see that it was killed");
    }
    let up = bench.begin(&["up", file.to_str().expect("plain")]);
    wait_for_log(&bench, "db", "begins\nbegins\n");
    // It runs and is not ready. Who waits for it only until it runs, or not at all, is there now or soon.
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(bench.phases(), "db starting, web missing");
    std::fs::write(&ready, "").expect("the test's own files");
    let told = set_fixture::said(&up.wait_with_output().expect("it ends"));
    assert_eq!(told.code, Some(0), "{told:?}");
    let order: Vec<usize> =
        ["db: left", "db: runs", "web: runs"].map(|text| told.err.find(text).expect(text)).into();
    assert!(order.is_sorted(), "{}", told.err);
    assert_eq!(bench.phases(), "db running, web running");
    assert_eq!(bench.call(&["down"]).code, Some(0));
    assert_eq!(bench.left(), Vec::<String>::new());
}

/// Calls with a limit of open files, as `ulimit -n` sets it.
fn limited(bench: &Bench, limit: u32, words: &[&str]) -> set_fixture::Said {
    let call = bench.command(words);
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", &format!("ulimit -n {limit} && exec \"$0\" \"$@\"")]).arg(call.get_program());
    shell.args(call.get_args()).envs(call.get_envs().filter_map(|(name, value)| Some((name, value?))));
    set_fixture::said(&shell.stdin(Stdio::null()).output().expect("the shell runs"))
}

#[test]
fn the_limits_of_who_calls_up_go_with_the_programs() {
    if !guests_are_there() {
        return;
    }
    let bench = Bench::real();
    let text = "[partition.db]\nprogram = [\"/bin/sh\", \"-c\", \"ulimit -Sn; ulimit -Hn; exec sleep 1000\"]\n\
                restart = \"always\"\n";
    let file = bench.file("plant.toml", text);
    let up = ["up", file.to_str().expect("plain")];
    assert_eq!(limited(&bench, 777, &up).code, Some(0));
    wait_for_log(&bench, "db", "777\n777\n");
    // A further program has those of its own caller.
    let told = limited(&bench, 666, &["exec", "--in", "db", "--", "sh", "-c", "ulimit -Sn; ulimit -Hn"]);
    assert_eq!((told.code, told.out.as_str()), (Some(0), "666\n666\n"), "{told:?}");
    // Its supervisor starts it again with the same.
    let first = pid(&bench, "db");
    set_fixture::kill(first);
    wait_for_log(&bench, "db", "777\n777\n777\n777\n");
    let second = pid(&bench, "db");
    // Another limit alone is no reason to start it anew; when it is started anew, it has that.
    let told = limited(&bench, 666, &up);
    assert!(told.code == Some(0) && told.err.contains("nothing is missing"), "{told:?}");
    assert_eq!(pid(&bench, "db"), second);
    bench.file("plant.toml", &format!("{text}restart_limit = 7\n"));
    let told = limited(&bench, 666, &up);
    assert!(told.code == Some(0) && told.err.contains("it is another one in the file now"), "{told:?}");
    wait_for_log(&bench, "db", "666\n666\n");
    assert_eq!(bench.call(&["down"]).code, Some(0));
    assert_eq!(bench.left(), Vec::<String>::new());
}

#[test]
fn what_is_not_ready_in_time_has_failed_and_says_why() {
    if !guests_are_there() {
        return;
    }
    let bench = Bench::real();
    let text = "[partition.db]\nprogram = [\"/bin/sleep\", \"1000\"]\nready = { tcp = 80, within_s = 2 }\nrestart = \"always\"\n";
    let told = bench.up(&bench.file("plant.toml", text));
    assert_eq!(told.code, Some(4), "{told:?}");
    let why = "it was not ready within 2 s: listening at TCP port 80: nobody listens there";
    assert!(told.err.contains(why), "{told:?}");
    bench.assert_nothing_left("after what was not ready");
    let told = bench.up(&bench.file("plant.toml", &text.replace("tcp = 80", "tcp = 80, file = \"/a\"")));
    assert!(told.code == Some(2) && told.err.contains("wanted one of command"), "{told:?}");
}

/// Regression: a misspelt command was found out by a healthy program that was ended again and again.
#[test]
fn commands_of_checks_that_are_not_there_are_told_at_the_start() {
    if !guests_are_there() {
        return;
    }
    let bench = Bench::real();
    let text = r#"
[partition.db]
program = ["/bin/sleep", "1000"]
ready = { command = ["true"] }
health = { command = ["pg_isreadyy"], interval_s = 3600 }
"#;
    let said = bench.up(&bench.file("plant.toml", text));
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.err.contains("db: health: pg_isreadyy was not found in any folder of PATH="), "{said:?}");
    assert!(!said.err.contains("ready: true"), "{said:?}");
    assert_eq!(bench.call(&["down"]).code, Some(0));
}

#[test]
fn what_is_unwell_is_started_again() {
    if !guests_are_there() {
        return;
    }
    let bench = Bench::real();
    let text = r#"
[partition.db]
program = ["/bin/sh", "-c", "touch /tmp/well; exec sleep 1000"]
restart = "on-failure"
health = { file = "/tmp/well", interval_s = 1, failures = 2 }
"#;
    assert_eq!(bench.up(&bench.file("plant.toml", text)).code, Some(0));
    let first = pid(&bench, "db");
    // Well, it is left alone.
    std::thread::sleep(Duration::from_secs(4));
    assert_eq!(pid(&bench, "db"), first);
    assert_eq!(bench.call(&["exec", "--in", "db", "--", "rm", "/tmp/well"]).code, Some(0));
    let until = Instant::now() + PATIENCE;
    loop {
        let db = bench.ps().expect("it is up").partitions.remove(0);
        if db.restarts == 1 && db.phase == Phase::Running {
            let why = db.last.expect("an end").reason;
            assert!(why.contains("unwell 2 times in a row: the file /tmp/well: it is not there"), "{why}");
            assert_ne!(db.pid, Some(first));
            break;
        }
        assert!(Instant::now() < until, "{db:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(bench.call(&["down"]).code, Some(0));
}

#[test]
fn one_partition_is_stopped_started_and_restarted_alone() {
    if !guests_are_there() {
        return;
    }
    let bench = Bench::real();
    let text = r#"
[partition.db]
program = ["/bin/sh", "-c", "echo begins; exec sleep 1000"]
[partition.web]
program = ["/bin/sleep", "1000"]
after = ["db"]
"#;
    let file = bench.file("plant.toml", text);
    assert_eq!(bench.up(&file).code, Some(0));
    let (db, web) = (pid(&bench, "db"), pid(&bench, "web"));
    let mut follower =
        bench.command(&["logs", "-f", "db"]).stdout(Stdio::piped()).spawn().expect("it starts");

    wait_for_log(&bench, "db", "begins\n");
    let told = bench.call(&["restart", "plant/db"]);
    assert!(told.code == Some(0) && told.err.contains("plant/db: runs after"), "{told:?}");
    assert!(pid(&bench, "db") != db && pid(&bench, "web") == web);

    wait_for_log(&bench, "db", "begins\nbegins\n");
    let told = bench.call(&["stop", "db"]);
    assert!(told.code == Some(0) && told.err.contains("db: stopped"), "{told:?}");
    assert_eq!(bench.phases(), "db stopped, web running");
    assert!(bench.call(&["stop", "db"]).err.contains("db: left, it is stopped"));
    assert_eq!(bench.call(&["logs", "db"]).out, "begins\nbegins\n", "they stay");
    assert_eq!(bench.call(&["logs", "db", "-n", "1"]).out, "begins\n");
    follower.kill().expect("it may have ended");
    follower.wait().expect("it ends");

    assert_eq!(bench.call(&["stop", "web"]).code, Some(0));
    let told = bench.call(&["start", "web"]);
    assert!(told.code == Some(2) && told.err.contains("started after db, which is stopped"), "{told:?}");
    assert_eq!(bench.call(&["start", "db"]).code, Some(0));
    assert_eq!(bench.call(&["start", "web"]).code, Some(0));
    let db = pid(&bench, "db");
    assert!(bench.call(&["start", "db"]).err.contains("db: left, it is running"));
    assert_eq!(pid(&bench, "db"), db);
    let told = bench.call(&["start", "nobody"]);
    assert!(told.code == Some(2) && told.err.contains("has a partition \"nobody\""), "{told:?}");

    // The set's file is what counts: it starts what was stopped.
    assert_eq!(bench.call(&["stop", "db"]).code, Some(0));
    let told = bench.up(&file);
    assert!(told.code == Some(0) && told.err.contains("db: ended, because it is stopped"), "{told:?}");
    assert_eq!(bench.phases(), "db running, web running");
    assert_eq!(bench.call(&["down"]).code, Some(0));
    assert_eq!(bench.left(), Vec::<String>::new());
}

/// Regression: a partition was ended, and only then its restart refused.
#[test]
fn a_restart_that_is_refused_leaves_what_runs() {
    let bench = Bench::pretending();
    let token = bench.path("token");
    std::fs::write(&token, "4711").expect("the test's own files");
    let text = format!(
        "[partition.db]\nprogram = [\"/bin/sleep\", \"1000\"]\n[partition.web]\nprogram = [\"/bin/sleep\", \"1000\"]\n\
         after = [\"db\"]\nsecrets = {{ token = \"{}\" }}\n",
        token.display()
    );
    assert_eq!(bench.up(&bench.file("plant.toml", &text)).code, Some(0));
    let web = pid(&bench, "web");
    assert_eq!(bench.call(&["stop", "db"]).code, Some(0));
    let told = bench.call(&["restart", "web"]);
    assert!(told.code == Some(2) && told.err.contains("started after db, which is stopped"), "{told:?}");
    assert_eq!(bench.phases(), "db stopped, web running");
    assert_eq!(bench.call(&["start", "db"]).code, Some(0));
    std::fs::remove_file(&token).expect("the test's own files");
    let told = bench.call(&["restart", "web"]);
    assert!(told.code == Some(2) && told.err.contains("web is left as it is: secret token"), "{told:?}");
    assert_eq!(pid(&bench, "web"), web);
    std::fs::write(&token, "4712").expect("the test's own files");
    assert_eq!(bench.call(&["restart", "web"]).code, Some(0));
    assert!(pid(&bench, "web") != web);
    assert_eq!(bench.call(&["down"]).code, Some(0));
    assert_eq!(bench.left(), Vec::<String>::new());
}

/// Regression: it was started all the same, and waited for a carrier in vain.
#[test]
fn a_partition_whose_switch_is_gone_is_not_started_alone() {
    let bench = Bench::pretending();
    let text = "[network.n]\n[partition.a]\nprogram = [\"/bin/sleep\", \"1000\"]\nnetworks = [\"n\"]\n";
    let file = bench.file("plant.toml", text);
    assert_eq!(bench.up(&file).code, Some(0));
    let set = bench.ps().expect("it is up");
    kill(set.watcher_pid.expect("a watcher"));
    kill(set.switches[0].supervisor_pid.expect("a supervisor"));
    kill(set.partitions[0].supervisor_pid.expect("a supervisor"));
    // Who is killed takes a moment to end.
    bench.wait_for("a", Phase::Lost);
    bench.wait("watcher and switch are there", |set| {
        (set.watcher_pid.is_none() && set.switches[0].phase == Phase::Lost).then_some(())
    });
    for verb in ["start", "restart"] {
        let told = bench.call(&[verb, "a"]);
        assert!(
            told.code == Some(2) && told.err.contains("a is plugged into switch n.0, which is gone"),
            "{told:?}"
        );
    }
    assert_eq!(bench.up(&file).code, Some(0));
    assert_eq!(bench.call(&["down"]).code, Some(0));
    assert_eq!(bench.left(), Vec::<String>::new());
}

/// Regression: what it had ended stayed ended, whatever its policy.
#[test]
fn a_restart_that_is_killed_is_finished_by_the_watcher() {
    let bench = Bench::pretending();
    let text = "[partition.a]\nprogram = [\"/bin/sleep\", \"1000\"]\nrestart = \"always\"\n";
    assert_eq!(bench.up(&bench.file("plant.toml", text)).code, Some(0));
    for wait_ms in [5, 20, 50, 100, 200, 400] {
        bench.wait_for("a", Phase::Running);
        let mut restart = bench.command(&["restart", "a"]).spawn().expect("it starts");
        std::thread::sleep(Duration::from_millis(wait_ms));
        restart.kill().expect("it may have ended");
        restart.wait().expect("it ends");
        nobody_restarts_it(&bench);
    }
    // As it stood when it was killed before anything was told to end, and at the last moment before that.
    let own = bench.state().join("plant/p/a");
    let supervisor = || std::fs::read(own.join("supervisor.json")).expect("it is there");
    for (marks, is_another) in [(&["restarting"][..], false), (&["restarting", "stopped"], true)] {
        let before = supervisor();
        for mark in marks.iter().rev() {
            std::fs::write(own.join(mark), "").expect("written");
        }
        nobody_restarts_it(&bench);
        assert_eq!(supervisor() != before, is_another, "{marks:?}");
        assert!(!std::fs::exists(own.join("stopped")).expect("looked at"));
    }
    assert_eq!(bench.call(&["stop", "a"]).code, Some(0));
    std::thread::sleep(Duration::from_secs(3));
    assert_eq!(bench.phases(), "a stopped");
    assert_eq!(bench.call(&["down"]).code, Some(0));
    assert_eq!(bench.left(), Vec::<String>::new());
}

/// Waits until no restart of `a` is left half done, and it runs.
fn nobody_restarts_it(bench: &Bench) {
    let too_late = Instant::now() + PATIENCE;
    while std::fs::exists(bench.state().join("plant/p/a/restarting")).expect("looked at") {
        assert!(Instant::now() < too_late, "{}", bench.phases());
        std::thread::sleep(Duration::from_millis(50));
    }
    bench.wait_for("a", Phase::Running);
}

/// What is in the file is in no file of the set's folder, and the set comes up again as it is, not as it was written down.
#[test]
fn a_partition_of_a_set_has_its_secrets_variables_and_name() {
    if !guests_are_there() {
        return;
    }
    let bench = Bench::real();
    let (token, variables) = (bench.path("token"), bench.path("db.env"));
    std::fs::write(&token, "xyzzy-4711").expect("the test's own files");
    std::fs::write(&variables, "A=file\nB=file\n").expect("the test's own files");
    let text = format!(
        "[partition.db]\nprogram = [\"/bin/sleep\", \"1000\"]\nhostname = \"database\"\nenv = {{ B = \"set\" }}\n\
         env_file = [\"{}\"]\nsecrets = {{ token = \"{}\" }}\n",
        variables.display(),
        token.display()
    );
    let file = bench.file("plant.toml", &text);
    assert_eq!(bench.up(&file).code, Some(0));
    let script = "cat /run/secrets/token; echo \" $A $B $(hostname)\"; stat -c '%a' /run/secrets/token";
    let told = bench.call(&["exec", "--in", "db", "--", "sh", "-c", script]);
    assert_eq!((told.code, told.out.as_str()), (Some(0), "xyzzy-4711 file set database\n400\n"));
    let found = std::process::Command::new("grep").args(["-r", "xyzzy"]).arg(bench.state()).output();
    assert_eq!(found.expect("it runs").status.code(), Some(1), "it stands nowhere");
    std::fs::remove_file(&token).expect("the test's own files");
    let told = bench.up(&file);
    assert!(told.code == Some(2) && told.err.contains("secret token: "), "{told:?}");
    assert_eq!(bench.call(&["down"]).code, Some(0));
}

#[test]
fn logs_are_followed_to_the_end_of_the_program() {
    if !guests_are_there() {
        return;
    }
    let bench = Bench::real();
    let script = "for i in 1 2 3 4 5 6; do echo $i; echo e$i >&2; sleep 1; done";
    let text = format!("[partition.job]\nprogram = [\"/bin/sh\", \"-c\", \"{script}\"]\n");
    assert_eq!(bench.up(&bench.file("plant.toml", &text)).code, Some(0));
    let followed = bench.call(&["logs", "--follow", "job"]);
    assert_eq!(followed.code, Some(0), "{followed:?}");
    assert_eq!(
        (followed.out.as_str(), followed.err.as_str()),
        ("1\n2\n3\n4\n5\n6\n", "e1\ne2\ne3\ne4\ne5\ne6\n")
    );
    assert_eq!(bench.phases(), "job ended");
    assert_eq!(bench.call(&["down"]).code, Some(0));
}
