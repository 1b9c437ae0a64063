//! What was tried against `bulkhead verify` and once came through: user's tests that failed and were taken for good, evidence of others,
//! folders that were made to deceive, and a verification that is killed in the middle of a failure.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::exec_fixture::free_port;
use crate::set_fixture;

use bulkhead::model::partition::set::Phase;
use bulkhead::model::verification::{RequirementVerdict, Verification};
use images::Digest;
use nix::sys::stat::Mode;
use nix::unistd::mkfifo;
use set_fixture::{Bench, PATIENCE, Said, guests_are_there, verdicts};

/// A test of the user's: id, key and limit, script, what it must be.
type Case = (&'static str, &'static str, &'static str, RequirementVerdict);

const COUNTED: &str = "metric = \"command.failures\"\nexactly = 0";
const PRINTED: &str = "metric = \"command\"\nload = \"as-is\"\nat_most = \"10 ms\"";

const CASES: [Case; 16] = [
    ("good", COUNTED, "echo 1..1; echo ok 1", RequirementVerdict::Pass),
    (
        "nested",
        COUNTED,
        "echo '<testsuite><testsuite><testcase name=\"a\"><failure/></testcase></testsuite></testsuite>'",
        RequirementVerdict::Fail,
    ),
    (
        "two",
        COUNTED,
        "echo '<testsuite><testcase name=\"a\"/></testsuite>'; echo '<?xml version=\"1.0\"?><testsuite><testcase name=\"b\"><error/></testcase></testsuite>'",
        RequirementVerdict::Fail,
    ),
    (
        "both",
        COUNTED,
        "echo 1..1; echo not ok 1; echo '<testsuite><testcase name=\"a\"/></testsuite>'",
        RequirementVerdict::Fail,
    ),
    (
        "suite",
        COUNTED,
        "echo '<testsuite errors=\"1\"><testcase name=\"a\"/></testsuite>'",
        RequirementVerdict::Fail,
    ),
    ("escaped", COUNTED, "echo 1..1; echo 'not ok 1 - a \\# todo'", RequirementVerdict::Fail),
    ("unplanned", COUNTED, "echo ok; echo segfault", RequirementVerdict::Fail),
    ("none", COUNTED, "echo '1..0 # SKIP no database'", RequirementVerdict::Undecided),
    ("cut", COUNTED, "echo '<testsuite><testcase name=\"a\"/>'", RequirementVerdict::Undecided),
    (
        "long",
        COUNTED,
        "echo 1..1; head -c 20000000 /dev/zero | tr '\\0' 'x'; echo; echo ok 1",
        RequirementVerdict::Undecided,
    ),
    ("slow", COUNTED, "echo DISASTER; exec sleep 1000", RequirementVerdict::Undecided),
    ("daemon", COUNTED, "setsid sleep 4747 & echo 1..1; echo ok 1", RequirementVerdict::Pass),
    (
        "escapes",
        COUNTED,
        "setsid env -i /bin/sh -c '/bin/sleep 4748 & /bin/sleep 4748' & sleep 0.1; echo 1..1; echo ok 1",
        RequirementVerdict::Pass,
    ),
    // Its first thread has ended, and another one goes on: it seems to be dead.
    (
        "headless",
        COUNTED,
        "setsid python3 -c \"import ctypes, threading, time\ndef beat():\n while True: print('x', file=open('beat', 'a')); time.sleep(.02)\nthreading.Thread(target=beat).start(); ctypes.CDLL(None).pthread_exit(None)\" & until [ -s beat ]; do sleep .1; done; echo 1..1; echo ok 1",
        RequirementVerdict::Pass,
    ),
    // Whoever waits for it is killed: nobody knows how it ended.
    (
        "parent",
        COUNTED,
        "setsid sleep 4753 & echo 1..1; echo ok 1; kill -9 $PPID; sleep 4753",
        RequirementVerdict::Undecided,
    ),
    // It prints milliseconds, as its limit is written.
    ("unit", PRINTED, "echo 500", RequirementVerdict::Fail),
];

/// The file of a set with these tests, and their scripts beside it.
fn with_cases(bench: &Bench) -> String {
    let head = "[partition.a]\nprogram = [\"/bin/sleep\", \"1000\"]\nfailure_domain = \"left\"\n".to_owned();
    let one = |(id, wanted, script, _): Case| {
        let file = bench.path(&format!("{id}.sh"));
        fs::write(&file, format!("#!/bin/sh\n{script}\n")).expect("ours");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).expect("ours");
        // A path from the file's own folder, whoever calls from where.
        let command = format!("command = [\"./{id}.sh\"]\nbudget_s = 5");
        format!("\n[requirement.{id}]\ntext = \"x\"\n{wanted}\n{command}\n")
    };
    head + &CASES.map(one).concat()
}

/// Whether somebody sleeps for so long, by whatever path.
fn sleeps(seconds: &str) -> bool {
    let entries = fs::read_dir("/proc").expect("proc").flatten();
    let lines = entries.filter_map(|entry| fs::read_to_string(entry.path().join("cmdline")).ok());
    lines.into_iter().any(|line| line.ends_with(&format!("sleep\0{seconds}\0")))
}

#[test]
fn tests_that_fail_are_never_taken_for_good_and_nothing_of_them_stays() {
    let bench = Bench::pretending();
    let file = bench.file("plant.toml", &with_cases(&bench));
    let out = bench.path("evidence");
    let [file, out] = [&file, &out].map(|path| path.to_str().expect("plain"));
    assert_eq!(bench.call(&["up", file]).code, Some(0));
    let began = Instant::now();
    let said = bench.call(&["verify", file, "--out", out]);
    assert!(began.elapsed() < PATIENCE, "a daemon is not waited for");
    let all = verdicts(out);
    for (id, _, _, verdict) in CASES {
        assert_eq!(all[id], verdict, "{id}: {said:?}");
    }
    assert!(!["4747", "4748", "4753"].iter().any(|one| sleeps(one)), "a daemon of a test stays behind");
    let beats = || fs::metadata(bench.path("beat")).expect("it has beaten").len();
    let before = beats();
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(beats(), before, "a process without its first thread stays behind");
    let journal = fs::read_to_string(format!("{out}/journal.jsonl")).expect("it is written");
    assert!(journal.contains("DISASTER"), "what a test printed that was not done in time is kept");

    // Another test than the one that passed.
    let good = bench.path("good.sh");
    fs::write(&good, "#!/bin/sh\necho 1..1\necho not ok 1\n").expect("ours");
    let said = bench.call(&["verify", file, "--out", out, "--no-run"]);
    assert_eq!(verdicts(out)["good"], RequirementVerdict::Stale, "{said:?}");
    assert_eq!(verdicts(out)["nested"], RequirementVerdict::Fail, "{said:?}");
    folders_that_deceive(&bench, out);
    others_and_misspelt(&bench, Path::new(file), out);
    assert_eq!(bench.call(&["down"]).code, Some(0));
}

#[test]
fn what_a_test_has_started_ends_with_a_verification_that_is_killed() {
    let bench = Bench::pretending();
    let script = bench.path("slow.sh");
    fs::write(&script, "#!/bin/sh\nsetsid env -i /bin/sleep 4749 &\nexec sleep 4750\n").expect("ours");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).expect("ours");
    let head = "[partition.a]\nprogram = [\"/bin/sleep\", \"1000\"]\n";
    let file = bench.file(
        "plant.toml",
        &format!("{head}[requirement.slow]\ntext = \"x\"\n{COUNTED}\ncommand = [\"./slow.sh\"]\n"),
    );
    let file = file.to_str().expect("plain");
    assert_eq!(bench.call(&["up", file]).code, Some(0));
    let out = bench.path("evidence");
    let mut verify = bench.begin(&["verify", file, "--out", out.to_str().expect("plain")]);
    let wait = |is_so: &dyn Fn() -> bool, what: &str| {
        let until = Instant::now() + PATIENCE;
        while !is_so() {
            assert!(Instant::now() < until, "{what}");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    wait(&|| sleeps("4749") && sleeps("4750"), "the test never ran");
    verify.kill().expect("it is ours");
    verify.wait().expect("it has ended");
    wait(&|| !sleeps("4749") && !sleeps("4750"), "what the test had started goes on");
    assert_eq!(bench.call(&["down"]).code, Some(0));
}

/// Turns all that is told of a folder into what it was not; `--check` is not fooled, and waits for nothing.
fn folders_that_deceive(bench: &Bench, out: &str) {
    let check = |folder: &Path| {
        let said = bench.call(&["verify", "--check", folder.to_str().expect("plain")]);
        assert!(matches!(said.code, Some(2 | 4)), "{said:?}");
        said.err
    };
    let copy = |name: &str| {
        let to = bench.path(name);
        fs::create_dir(&to).expect("a folder");
        for entry in fs::read_dir(out).expect("evidence").flatten() {
            fs::copy(entry.path(), to.join(entry.file_name())).expect("copied");
        }
        to
    };
    let page = copy("page");
    let text = fs::read_to_string(page.join("verify.html")).expect("a page");
    let forged = text.replace(">fail<", ">pass<");
    assert_ne!(text, forged);
    fs::write(page.join("verify.html"), &forged).expect("forged");
    let digest = |text: &str| Digest::of(text.as_bytes()).to_string();
    let manifest = fs::read_to_string(page.join("manifest.json")).expect("a manifest");
    fs::write(page.join("manifest.json"), manifest.replace(&digest(&text), &digest(&forged)))
        .expect("forged");
    let said = check(&page);
    assert!(said.contains("verify.html does not show what verify.json says"), "{said}");

    let easier = copy("easier");
    let text = fs::read_to_string(easier.join("requirements.toml")).expect("requirements");
    let forged = text.replacen("text = \"", "text = \"Once in a while: ", 1);
    assert_ne!(text, forged);
    fs::write(easier.join("requirements.toml"), &forged).expect("forged");
    fs::write(easier.join("manifest.json"), manifest.replace(&digest(&text), &digest(&forged)))
        .expect("forged");
    let said = check(&easier);
    assert!(said.contains("requirements.toml has another requirement than was verified"), "{said}");

    let zero = copy("zero");
    fs::remove_file(zero.join("verify.html")).expect("there");
    symlink("/dev/zero", zero.join("verify.html")).expect("a link");
    assert!(check(&zero).contains("verify.html cannot be read"));
    let pipe = copy("pipe");
    fs::remove_file(pipe.join("journal.jsonl")).expect("there");
    mkfifo(&pipe.join("journal.jsonl"), Mode::S_IRWXU).expect("a pipe");
    assert!(check(&pipe).contains("journal.jsonl"));
}

/// Evidence of another set, files that are not as what is up, names and ports that are not there.
fn others_and_misspelt(bench: &Bench, file: &Path, out: &str) {
    let text = fs::read_to_string(file).expect("ours");
    let refused = |name: &str, text: &str, out: &str| {
        let file = bench.path(name);
        fs::write(&file, text).expect("ours");
        let said = bench.call(&["verify", file.to_str().expect("plain"), "--out", out]);
        assert_eq!(said.code, Some(2), "{said:?}");
        said.err
    };
    let other = bench.path("other");
    let other = other.to_str().expect("plain");
    let changed = text.replacen("\"1000\"]", "\"1000\"]\nmemory_mib = 512", 1);
    assert!(refused("plant.toml", &changed, out).contains("before this file was changed: a;"));
    fs::write(file, &text).expect("ours");

    let about = |body: &str| format!("set = \"plant\"\n[requirement.R]\ntext = \"x\"\n{body}\n");
    let said = refused(
        "names.toml",
        &about("partition = \"aa\"\nmetric = \"placement.running\"\nexactly = 1"),
        other,
    );
    assert!(said.contains("names.toml: line 4") && said.contains("did you mean \"a\""), "{said}");
    let client = "metric = \"outage.duration_ns\"\nat_most = \"1 s\"\nfailure = \"qemu.a\"\nclient = { kind = \"http\", at = \"127.0.0.1:9\" }";
    assert!(refused("ports.toml", &about(client), other).contains("whoever answers there is not it"));
    let domain = |failure: &str| client.replace("qemu.a", failure) + "\nload = [\"cpu@a\"]";
    let said = refused("domains.toml", &about(&domain("domain.lefft")), other);
    assert!(said.contains("has failure_domain = \"lefft\"; did you mean \"left\"?"), "{said}");
    let said = refused("domains.toml", &about(&domain("domain.left")), other);
    assert!(said.contains("cpu@a does not outlast the failure of left"), "{said}");
    let empty = about("partition = \"a\"\nmetric = \"syscall.call_ns\"\nat_most = \"1 s\"\nload = []");
    assert!(refused("load.toml", &empty, other).contains("no load is declared"));

    let beta = bench.path("beta.toml");
    fs::write(&beta, text.replace("[partition.a]", "[partition.b]")).expect("ours");
    let beta = beta.to_str().expect("plain");
    assert_eq!(bench.call(&["up", beta]).code, Some(0));
    let said = bench.call(&["verify", beta, "--no-run", "--out", out]);
    assert!(said.code == Some(2) && said.err.contains("evidence of set plant, not of beta"), "{said:?}");

    // A journal that is a link to something else is not written to.
    let victim = bench.path("victim");
    fs::write(&victim, "mine\n").expect("ours");
    fs::create_dir(other).expect("a folder");
    symlink(&victim, Path::new(other).join("journal.jsonl")).expect("a link");
    let said = bench.call(&["verify", beta, "--out", other]);
    assert_ne!(said.code, Some(0), "{said:?}");
    assert_eq!(fs::read_to_string(&victim).expect("ours"), "mine\n");
    assert_eq!(bench.call(&["down", "beta"]).code, Some(0));
}

const FRAGILE: &str = r#"
[partition.web]
program = ["/usr/bin/python3", "-m", "http.server", "-d", "/etc", "8000"]
ports = ["PORT:8000"]
ready = { tcp = 8000 }

[partition.idle]
program = ["/bin/sleep", "1000"]

[requirement.K]
text = "Nobody but us starts it again."
metric = "outage.duration_ns"
at_most = "6 s"
failure = "qemu.idle"
client = { kind = "http", at = "127.0.0.1:PORT", period_ms = 250, answer_within_ms = 5000 }
"#;

/// Somebody else may listen at the set's port of another address: whoever answers there is not the set.
fn another_address_with_its_port_is_refused(bench: &Bench, port: u16) {
    let at = format!("127.0.0.9:{port}");
    let (_, requirement) = FRAGILE.split_once("[requirement.K]").expect("there is one");
    let text = format!("set = \"plant\"\n[requirement.K]{}", requirement.replace("127.0.0.1:PORT", &at));
    let file = bench.path("elsewhere.toml");
    fs::write(&file, text).expect("the test's own files");
    let said = bench.call(&["verify", file.to_str().expect("plain"), "--failures"]);
    assert!(said.code == Some(2) && said.err.contains(&format!("{at} is none of the ports")), "{said:?}");
}

#[test]
fn what_a_killed_verification_has_broken_is_put_back() {
    if !guests_are_there() {
        return;
    }
    let bench = Bench::real();
    let free = free_port();
    let file = bench.file("plant.toml", &FRAGILE.replace("PORT", &free.to_string()));
    let out = bench.path("evidence");
    let [file, out] = [&file, &out].map(|path| path.to_str().expect("plain"));
    let said = bench.call(&["up", file]);
    assert_eq!(said.code, Some(0), "{said:?}");
    another_address_with_its_port_is_refused(&bench, free);
    let idle = || bench.ps().and_then(|set| set.partitions.into_iter().find(|one| one.name == "idle"));
    let before = idle().expect("it is up");
    let mut verify = bench.begin(&["verify", file, "--out", out, "--failures"]);
    let until = Instant::now() + PATIENCE;
    while idle().is_some_and(|one| one.phase == Phase::Running && one.pid == before.pid) {
        // It has said why, where nothing was made to fail.
        if verify.try_wait().expect("it is ours").is_some() {
            let said = set_fixture::said(&verify.wait_with_output().expect("it has ended"));
            panic!("nothing was made to fail: {said:?}");
        }
        assert!(Instant::now() < until, "nothing was made to fail");
        std::thread::sleep(Duration::from_millis(5));
    }
    verify.kill().expect("it is ours");
    verify.wait().expect("it has ended");
    let until = Instant::now() + PATIENCE;
    while !idle().is_some_and(|one| one.phase == Phase::Running && one.pid.is_some() && one.pid != before.pid)
    {
        assert!(Instant::now() < until, "{:?}", idle());
        std::thread::sleep(Duration::from_millis(100));
    }
    // A later run finds everything in order, and what was cut off is said to be.
    let said = bench.call(&["verify", file, "--out", out, "--failures"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let text = fs::read(format!("{out}/verify.json")).expect("it is written");
    let told: Verification = serde_json::from_slice(&text).expect("a verification");
    let judged = told.requirements.first().and_then(|one| one.direct.as_ref());
    // Whom the client asks is not hit; that it answers late beside other work is no matter here.
    assert!(judged.is_some_and(|judged| judged.rounds == 3 && judged.failed_rounds == 0), "{told:?}");
    assert_eq!(bench.call(&["down"]).code, Some(0));
    // Who has put it back looks for a moment whether it stays.
    let until = Instant::now() + PATIENCE;
    while !bench.left().is_empty() {
        assert!(Instant::now() < until, "{:?}", bench.left());
        std::thread::sleep(Duration::from_millis(100));
    }
}

const SLOW_TEST: &str = r#"
[partition.db]
program = ["/bin/sleep", "1000"]

[requirement.R]
text = "The number is small."
metric = "command"
command = ["/bin/sh", "-c", "touch BEGAN; until [ -e GO_ON ]; do sleep .05; done; echo 1"]
load = "as-is"
at_most = 5

[requirement.L]
text = "It runs."
partition = "db"
metric = "placement.running"
exactly = 1
"#;

/// Verifies, and does something while a test of the user's waits between two marks.
fn verified_while(
    bench: &Bench,
    [file, out]: [&str; 2],
    marks: &[PathBuf; 2],
    meanwhile: impl FnOnce(),
) -> Said {
    for mark in marks {
        let _ = fs::remove_file(mark);
    }
    let [began, go_on] = marks;
    let verification = bench.begin(&["verify", file, "--out", out]);
    let until = Instant::now() + PATIENCE;
    while !began.exists() {
        assert!(Instant::now() < until, "its test never began");
        std::thread::sleep(Duration::from_millis(20));
    }
    meanwhile();
    fs::write(go_on, "").expect("the test's own files");
    set_fixture::said(&verification.wait_with_output().expect("it ends"))
}

/// What was seen of another set, or of none, is nothing that the first one can rest on.
#[test]
fn a_set_that_is_replaced_or_taken_down_while_it_is_verified_is_not_taken_for_the_first_one() {
    let bench = Bench::pretending();
    let marks = ["began", "go-on"].map(|name| bench.path(name));
    let mark = |number: usize| marks[number].to_str().expect("plain");
    let text = SLOW_TEST.replace("BEGAN", mark(0)).replace("GO_ON", mark(1));
    let file = bench.file("plant.toml", &text);
    let out = bench.path("evidence");
    let [file, out] = [&file, &out].map(|path| path.to_str().expect("plain"));
    assert_eq!(bench.call(&["up", file]).code, Some(0));
    let undecided = |said: &Said, why: &str| {
        let told: Vec<&str> = said.err.split_whitespace().collect();
        assert!(said.code == Some(4) && told.join(" ").contains(why), "{said:?}");
        assert_eq!(verdicts(out)["R"], RequirementVerdict::Undecided);
        // Regression: what was seen before passed, of a set that was gone.
        assert_eq!(verdicts(out)["L"], RequirementVerdict::Stale);
    };
    let said = verified_while(&bench, [file, out], &marks, || {
        assert_eq!(bench.call(&["down"]).code, Some(0));
        bench.file("plant.toml", &text.replace("1000", "1001"));
        assert_eq!(bench.call(&["up", file]).code, Some(0));
    });
    undecided(&said, "was replaced by another one");
    let said = bench.call(&["verify", file, "--out", out]);
    assert_eq!(said.code, Some(0), "of the set that is up all is seen again: {said:?}");
    let said = verified_while(&bench, [file, out], &marks, || {
        assert_eq!(bench.call(&["down"]).code, Some(0));
    });
    undecided(&said, "was taken down while it was verified");
}

const CHANGED: &str = r#"
[partition.db]
program = ["/bin/sh", "FOLDER/program.sh"]
ro = ["FOLDER"]
"#;

/// What passed was the program that is gone.
#[test]
fn a_program_that_is_replaced_while_it_is_verified_is_not_the_one_that_passed() {
    let bench = Bench::pretending();
    let marks = ["began", "go-on"].map(|name| bench.path(name));
    let mark = |number: usize| marks[number].to_str().expect("plain");
    let script = bench.file("program.sh", "exec /bin/sleep 1000\n");
    let folder = bench.path("shown");
    fs::create_dir(&folder).expect("the test's own files");
    let program = folder.join("program.sh");
    fs::rename(&script, &program).expect("the test's own files");
    let (_, requirement) = SLOW_TEST.split_once("\n[requirement").expect("there is one");
    let text = format!("{CHANGED}\n[requirement{requirement}");
    let text = text.replace("BEGAN", mark(0)).replace("GO_ON", mark(1));
    let text = text.replace("FOLDER", folder.to_str().expect("plain"));
    let file = bench.file("plant.toml", &text);
    let out = bench.path("evidence");
    let [file, out] = [&file, &out].map(|path| path.to_str().expect("plain"));
    assert_eq!(bench.call(&["up", file]).code, Some(0));
    let said = verified_while(&bench, [file, out], &marks, || {});
    assert_eq!((said.code, verdicts(out)["R"]), (Some(0), RequirementVerdict::Pass), "{said:?}");
    let said = verified_while(&bench, [file, out], &marks, || {
        fs::write(&program, "exec /bin/sleep 1001\n").expect("the test's own files");
        let said = bench.call(&["restart", "plant/db"]);
        assert_eq!(said.code, Some(0), "{said:?}");
    });
    assert_eq!((said.code, verdicts(out)["R"]), (Some(4), RequirementVerdict::Stale), "{said:?}");
    let words: Vec<&str> = said.out.split_whitespace().collect();
    assert!(words.join(" ").contains("since then changed: program.db"), "{said:?}");
    assert_eq!(bench.call(&["down"]).code, Some(0));
}
