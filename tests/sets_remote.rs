//! `--on HOST` over ssh: a plan's set is brought up on another machine (an sshd in a network namespace), looked at and ended from
//! here; what begins and is not wanted any more is undone there; nothing that a plan or a machine says becomes a command.

use crate::exec_fixture;
use crate::set_fixture;
use crate::ssh_fixture;

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bulkhead::model::partition::set::{Phase, SetStatus};
use bulkhead::model::plan::Plan;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use set_fixture::{Bench, PATIENCE, Said, guests_are_there, said};
use ssh_fixture::{Server, missing, run};

/// A bench, and a machine behind ssh with folders of its own.
struct Far {
    bench: Bench,
    server: Server,
}

impl Far {
    fn new(bench: Bench, number: u8) -> Self {
        let folder = |name: &str| {
            fs::create_dir(bench.path(name)).expect("the test's own files");
            fs::set_permissions(bench.path(name), fs::Permissions::from_mode(0o700)).expect("its own files");
            bench.path(name).display().to_string()
        };
        let (cache, bin) = (folder("far-cache"), folder("bin"));
        let server = Server::start_with(
            number,
            &format!(
                "SetEnv BULKHEAD_STATE={} BULKHEAD_CACHE={cache} TMPDIR={}\n",
                bench.path("far-state").display(),
                bench.path("tmp").display()
            ),
        );
        let config = format!(
            "IdentityFile {}\nIdentitiesOnly yes\nUserKnownHostsFile {}\n",
            server.path("user"),
            server.path("known_hosts")
        );
        fs::write(bench.path("ssh-config"), config).expect("the test's own files");
        // OpenSSH finds a user's configuration by the user, whatever HOME says.
        let called = bench.path("called");
        let config = bench.path("ssh-config");
        let script = format!(
            "#!/bin/sh\necho \"$@\" >> {}\nexec /usr/bin/ssh -F {} \"$@\"\n",
            called.display(),
            config.display()
        );
        put_script(&Path::new(&bin).join("ssh"), &script);
        Self { bench, server }
    }

    fn command(&self, words: &[&str]) -> Command {
        through(&self.bench, &self.bench.path("bin"), words)
    }

    /// `up` of a plan there.
    fn up(&self, plan: &str) -> Command {
        let words = up_words(plan);
        self.command(&words.iter().map(String::as_str).collect::<Vec<_>>())
    }

    fn call(&self, words: &[&str]) -> Said {
        said(&self.command(words).output().expect("the program runs"))
    }

    /// A plan with everybody on the machine behind ssh; its path.
    fn plan(&self, partitions: &str) -> String {
        let hosts = format!("[host.far]\nfrom = \"ssh:root@{}\"\n", self.server.address);
        let file = self.bench.file("plant.toml", &format!("{hosts}{partitions}"));
        let out = self.bench.path("planned").display().to_string();
        let said = self.call(&["plan", file.to_str().expect("plain"), "--out", &out]);
        assert_eq!(said.code, Some(0), "{said:?}");
        format!("{out}/plan.json")
    }

    /// How often this program was copied there.
    fn copies(&self) -> usize {
        let called = fs::read_to_string(self.bench.path("called")).unwrap_or_default();
        called.lines().filter(|line| line.ends_with(" settle")).count()
    }

    /// What that machine's own program says of the only set there.
    fn seen_there(&self) -> Option<SetStatus> {
        let mut command = self.bench.command(&["ps", "--json"]);
        command.env("BULKHEAD_STATE", self.bench.path("far-state"));
        let said = said(&command.output().expect("the program runs"));
        let mut sets: Vec<SetStatus> = serde_json::from_str(&said.out).expect("ps --json");
        sets.pop()
    }

    /// Waits until a guest is there, and what waits for it still does.
    fn wait_until_begun(&self) {
        let has_begun = |set: &SetStatus| {
            set.partitions.iter().any(|one| one.phase == Phase::Starting && one.given.is_some())
        };
        let until = Instant::now() + PATIENCE;
        while !self.seen_there().as_ref().is_some_and(has_begun) {
            assert!(Instant::now() < until, "{:?}", self.seen_there());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until nothing is left there but the program in the cache.
    fn wait_until_nothing_is_there(&self) {
        let names = |folder: &str| {
            let entries = fs::read_dir(self.bench.path(folder)).into_iter().flatten().flatten();
            entries.map(|entry| entry.path().display().to_string()).collect::<Vec<_>>()
        };
        let until = Instant::now() + PATIENCE;
        loop {
            let left = [self.bench.left(), names("far-state"), names("far-cache/plans")].concat();
            if left.is_empty() {
                return;
            }
            assert!(Instant::now() < until, "left behind: {left:?}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Kills what sshd runs for sessions: the connections end, programs go on until they notice.
    fn kill_sessions(&self) {
        let pids =
            Command::new("ip").args(["netns", "pids", &self.server.namespace]).output().expect("a list");
        for pid in String::from_utf8_lossy(&pids.stdout).split_whitespace() {
            let words = fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            if words.starts_with("sshd") && !words.contains("[listener]") {
                run(&["kill", "-9", pid]);
            }
        }
    }
}

/// How it ends, which it must soon.
fn ended(mut child: Child) -> Said {
    let until = Instant::now() + PATIENCE;
    while child.try_wait().expect("our child").is_none() {
        if Instant::now() > until {
            let _ = child.kill();
            panic!("it did not end: {:?}", said(&child.wait_with_output().expect("killed")));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    said(&child.wait_with_output().expect("it has ended"))
}

fn put_script(path: &Path, text: &str) {
    fs::write(path, text).expect("the test's own files");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("the test's own files");
}

/// The program, which finds its ssh in this folder first.
fn through(bench: &Bench, bin: &Path, words: &[&str]) -> Command {
    let mut command = bench.command(words);
    command.env("PATH", format!("{}:{}", bin.display(), std::env::var("PATH").expect("a PATH")));
    command
}

/// `up` of a plan over there, with the guest's kernel that the set-up has fetched here, if it has: their cache is empty.
fn up_words(plan: &str) -> Vec<String> {
    let kernel = exec_fixture::fetched_kernel()
        .into_iter()
        .flat_map(|path| ["--kernel".to_owned(), path.display().to_string()]);
    ["up", plan, "--on", "far"].map(str::to_owned).into_iter().chain(kernel).collect()
}

/// `down`, though its copy over there was replaced; and nothing where others can reach it.
fn end_it_without_a_foreign_program(far: &Far, plan: &str, program: &Path) {
    // It was copied once; what is in its place with another content is replaced, and not run.
    assert_eq!(far.copies(), 1);
    let foreign = far.bench.path("foreign-program-ran");
    put_script(&far.bench.path("foreign"), &format!("#!/bin/sh\ntouch {}\n", foreign.display()));
    fs::rename(far.bench.path("foreign"), program).expect("the test's own files");
    let down = far.call(&["down", plan, "--on", "far"]);
    assert_eq!(down.code, Some(0), "{down:?}");
    assert!(down.err.contains("far: plant is down"), "{down:?}");
    assert!(far.copies() == 2 && !foreign.exists());
    // Where others can reach it, it is not run either.
    let folder = program.parent().expect("a folder");
    let allow = |mode| fs::set_permissions(folder, fs::Permissions::from_mode(mode)).expect("its own files");
    allow(0o755);
    let open = far.call(&["ps", plan, "--on", "far"]);
    assert_eq!((open.code, far.copies()), (Some(3), 3), "{open:?}");
    assert!(open.err.contains("can be entered by everybody"), "{open:?}");
    allow(0o700);
}

/// One that sleeps.
const PLC: &str = "[partition.plc]\nprogram = [\"/bin/sleep\", \"1000\"]\n";

#[test]
fn a_plan_is_brought_up_on_a_machine_behind_ssh_and_ended_from_here() {
    if !guests_are_there() || missing() {
        return;
    }
    let far = Far::new(Bench::real(), 11);
    let plan = far.plan(&format!("{PLC}[partition.web]\nprogram = [\"/bin/sleep\", \"1000\"]\n"));
    // Nothing is started here by mistake.
    let here = far.call(&["up", &plan]);
    assert_eq!(here.code, Some(2), "{here:?}");
    assert!(here.err.contains("--on far"), "{here:?}");
    // What that machine lacks, it says.
    let lacks = far.call(&["up", &plan, "--on", "far", "--kernel", "/nonexistent/vmlinuz"]);
    assert_eq!(lacks.code, Some(3), "{lacks:?}");
    assert!(lacks.err.contains("far: bulkhead: ") && lacks.err.contains("/nonexistent/vmlinuz"), "{lacks:?}");
    far.wait_until_nothing_is_there();

    let said = said(&far.up(&plan).output().expect("the program runs"));
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.err.contains("far: plc: runs after ") && said.out.contains("running"), "{said:?}");
    assert!(far.bench.ps().is_none(), "nothing is up here");
    let set = far.seen_there().expect("it is up there");
    let planned: Plan = serde_json::from_slice(&fs::read(&plan).expect("a plan")).expect("a plan");
    for partition in &set.partitions {
        let given = partition.given.as_ref().expect("it was read back");
        let placed = planned.partitions.iter().find(|placed| placed.name == partition.name).expect("planned");
        let [only] = placed.seats.as_slice() else { panic!("{placed:?}") };
        assert!(given.cpus.iter().all(|cpu| cpu.allowed == only.cpus), "{given:?}, planned {only:?}");
        assert_eq!(given.memory.size, only.memory_mib);
    }
    // Its programs are this one's copy, in a folder that only its user can enter.
    let programs: Vec<PathBuf> = fs::read_dir(far.bench.path("far-cache/programs"))
        .expect("programs")
        .flatten()
        .map(|entry| entry.path())
        .collect();
    let [program] = programs.as_slice() else { panic!("{programs:?}") };
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o7777;
    assert_eq!((mode(program.parent().expect("a folder")), mode(program)), (0o700, 0o755));
    let runs_it = |pid: &str| fs::read_link(format!("/proc/{pid}/exe")).is_ok_and(|exe| exe == *program);
    let listed = far.bench.processes();
    let supervisors: Vec<&str> =
        listed.iter().filter(|line| line.contains("supervisor")).map(String::as_str).collect();
    assert_eq!(supervisors.len(), 2, "{listed:?}");
    assert!(supervisors.iter().all(|line| runs_it(line.split(' ').next().expect("a number"))), "{listed:?}");

    let ps = far.call(&["ps", &plan, "--on", "far", "--json"]);
    let sets: Vec<SetStatus> =
        serde_json::from_str(&ps.out).unwrap_or_else(|error| panic!("{error}: {ps:?}"));
    assert_eq!(sets[0].partitions.len(), 2);
    let again = set_fixture::said(&far.up(&plan).output().expect("the program runs"));
    assert_eq!(again.code, Some(0), "{again:?}");
    assert!(again.err.contains("far: nothing is missing"), "{again:?}");
    end_it_without_a_foreign_program(&far, &plan, program);
    far.wait_until_nothing_is_there();
    let none = far.call(&["down", &plan, "--on", "far"]);
    assert_eq!(none.code, Some(2), "{none:?}");
}

#[test]
fn what_runs_on_a_machine_behind_ssh_is_read_stopped_and_started_from_here() {
    if !guests_are_there() || missing() {
        return;
    }
    let far = Far::new(Bench::real(), 14);
    // What it writes is nothing that a terminal understands, and goes on until it is stopped.
    let talks = "printf 'one\\\\377\\\\n'; echo two >&2; while sleep 1; do echo more; done";
    let plan = far.plan(&format!("[partition.plc]\nprogram = [\"/bin/sh\", \"-c\", \"{talks}\"]\n"));
    let up = said(&far.up(&plan).output().expect("the program runs"));
    assert_eq!(up.code, Some(0), "{up:?}");
    let plc = format!("{plan}/plc");
    let phase = || far.seen_there().expect("it is up there").partitions[0].phase;

    // Followed until it is stopped, both streams as they are.
    let mut follow = far.command(&["logs", "-f", &plc, "--on", "far"]);
    let mut follow = follow.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program runs");
    let mut seen = [0; 9];
    follow.stdout.as_mut().expect("a pipe").read_exact(&mut seen).expect("it comes while the program runs");
    assert_eq!(&seen, b"one\xff\nmore");
    let stop = far.call(&["stop", &plc, "--on", "far"]);
    assert_eq!((stop.code, phase()), (Some(0), Phase::Stopped), "{stop:?}");
    assert!(stop.err.contains("far: plant/plc: stopped"), "{stop:?}");
    let followed = ended(follow);
    assert_eq!((followed.code, followed.err.as_str()), (Some(0), "two\n"), "{followed:?}");
    let last = far.call(&["logs", "--tail", "1", &plc, "--on", "far"]);
    assert_eq!((last.code, last.out.as_str(), last.err.as_str()), (Some(0), "more\n", "two\n"), "{last:?}");

    for (verb, wanted) in
        [("start", "plc: runs after"), ("start", "plc: left, it is"), ("restart", "runs after")]
    {
        let told = far.call(&[verb, &plc, "--on", "far"]);
        assert_eq!((told.code, phase()), (Some(0), Phase::Running), "{verb}: {told:?}");
        assert!(told.err.contains(wanted), "{verb}: {told:?}");
    }
    // Who is gone leaves nobody behind there who reads on.
    let mut gone = far.command(&["logs", "--follow", &plc, "--on", "far"]);
    let mut gone = gone.stdout(Stdio::piped()).spawn().expect("the program runs");
    gone.stdout.as_mut().expect("a pipe").read_exact(&mut seen).expect("it comes");
    gone.kill().expect("it runs");
    gone.wait().expect("it was killed");
    let refused = [
        (vec!["stop", "nobody", "--on", "far"], "name its plan.json"),
        (vec!["stop", "plant/plc"], "no set \"plant\" is up"),
        (vec!["logs", &plc], "--on far works there"),
        (vec!["restart", &plc, "--on", "near"], "no host \"near\""),
    ];
    let nobody = format!("{plan}/plb");
    let there = (vec!["restart", nobody.as_str(), "--on", "far"], "did you mean \"plc\"");
    for (words, wanted) in refused.into_iter().chain([there]) {
        let told = far.call(&words);
        assert_eq!(told.code, Some(2), "{words:?}: {told:?}");
        assert!(told.err.contains(wanted), "{words:?}: {told:?}");
    }
    let down = far.call(&["down", &plan, "--on", "far"]);
    assert_eq!(down.code, Some(0), "{down:?}");
    far.wait_until_nothing_is_there();
}

/// One that runs and is never ready.
fn begun(number: u8) -> (Far, String) {
    let far = Far::new(Bench::real(), number);
    let plan =
        far.plan(&PLC.replace("\nprogram", "\nready = { file = \"/tmp/never\", within_s = 3600 }\nprogram"));
    (far, plan)
}

#[test]
fn ctrl_c_here_ends_what_was_begun_there() {
    if !guests_are_there() || missing() {
        return;
    }
    let (far, plan) = begun(12);
    let mut up = far.up(&plan);
    let up = up.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program runs");
    far.wait_until_begun();
    kill(Pid::from_raw(i32::try_from(up.id()).expect("a number")), Signal::SIGINT).expect("sent");
    let said = ended(up);
    assert_eq!(said.code, Some(130), "{said:?}");
    assert!(said.err.contains("far: ending what was started"), "{said:?}");
    far.wait_until_nothing_is_there();
}

#[test]
fn what_was_begun_is_undone_when_the_connection_dies_or_the_cable_is_cut() {
    if !guests_are_there() || missing() {
        return;
    }
    let (far, plan) = begun(13);
    for what in ["killed", "cut"] {
        let mut up = far.up(&plan);
        let up = up.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the program runs");
        far.wait_until_begun();
        if what == "killed" {
            far.kill_sessions();
        } else {
            run(&["ip", "link", "set", &far.server.near, "down"]);
        }
        let said = ended(up);
        assert_eq!(said.code, Some(4), "{what}: {said:?}");
        assert!(said.err.contains("the connection was lost; what was begun there is undone"), "{said:?}");
        far.wait_until_nothing_is_there();
    }
}

/// A plan's folder with a set of one partition, its text changed as told.
fn tampered(bench: &Bench, change: &[(&str, &str)]) -> String {
    let folder = bench.path("tampered");
    fs::create_dir_all(&folder).expect("the test's own files");
    let set = "name = \"plant\"\n[partition.plc]\nprogram = [\"/bin/true\"]\npin = \"0\"\nnode = 0\n";
    fs::write(folder.join("far.set.toml"), set).expect("the test's own files");
    let mut text = r#"{"schema_version":1,"system":"plant","goals":[],"talks":[],"assumed":[],"notes":[],
        "hosts":[{"name":"far","reserved_cpus":"","from":"ssh:there","set_file":"far.set.toml"}],
        "partitions":[{"name":"plc","of":"plc","replica":1,"host":"far","seats":[{"node":0,"cpus":"0","memory_mib":256}]}]}"#
        .to_owned();
    for (from, to) in change {
        assert!(text.contains(from), "{from}");
        text = text.replace(from, to);
    }
    fs::write(folder.join("plan.json"), text).expect("the test's own files");
    folder.join("plan.json").display().to_string()
}

#[test]
fn nothing_that_a_plan_says_becomes_an_option_a_command_or_a_way_out_of_its_folder() {
    let bench = Bench::real();
    let bin = bench.path("bin");
    fs::create_dir(&bin).expect("the test's own files");
    // Whoever calls ssh at all is told of.
    let called = bench.path("called");
    put_script(&bin.join("ssh"), &format!("#!/bin/sh\necho \"$@\" >> {}\nexit 255\n", called.display()));
    let up = |plan: &str, on: &str| {
        said(&through(&bench, &bin, &["up", plan, &format!("--on={on}")]).output().expect("the program runs"))
    };
    let option = "-oProxyCommand=id";
    for (on, change, code, wanted) in [
        (
            option,
            &[("\"name\":\"far\"", "\"name\":\"-oProxyCommand=id\""), ("far.set", "-oProxyCommand=id.set")][..],
            2,
            "no set",
        ),
        ("../far", &[("\"name\":\"far\"", "\"name\":\"../far\""), ("far.set", "../far.set")], 2, "no set"),
        ("far", &[("ssh:there", "ssh:-oProxyCommand=id")], 3, "no SSH destination"),
        ("far", &[("ssh:there", "ssh:there;id")], 3, "no SSH destination"),
        ("far", &[("ssh:there", "ssh:$(id)")], 3, "no SSH destination"),
        ("far", &[("ssh:there", "ssh:there\\nid")], 3, "no SSH destination"),
        ("far", &[("ssh:there", "ssh:")], 3, "no SSH destination"),
        ("far", &[("\"far.set.toml\"", "\"/etc/passwd\"")], 2, "no set"),
        ("far", &[("\"far.set.toml\"", "\"../tampered/far.set.toml\"")], 2, "no set"),
        ("far", &[("\"system\":\"plant\"", "\"system\":\"../plant\"")], 2, "no name"),
        ("far", &[("\"system\":\"plant\"", "\"system\":\"other\"")], 2, "is called \"plant\""),
        ("far", &[("\"cpus\":\"0\"", "\"cpus\":\"1\"")], 2, "is not what was planned"),
    ] {
        let said = up(&tampered(&bench, change), on);
        assert_eq!(said.code, Some(code), "{change:?}: {said:?}");
        assert!(said.err.contains(wanted), "{change:?}: {said:?}");
        assert!(!called.exists(), "{change:?}: {:?}", fs::read_to_string(&called));
    }
    // As it should be it is called, so the above could have been.
    let said = up(&tampered(&bench, &[]), "far");
    assert_eq!(said.code, Some(3), "{said:?}");
    assert!(fs::read_to_string(&called).expect("called").contains("-- there "), "{said:?}");
}

#[test]
fn a_machine_that_answers_with_a_command_or_draws_on_the_terminal_gets_neither() {
    let bench = Bench::real();
    let bin = bench.path("bin");
    fs::create_dir(&bin).expect("the test's own files");
    let called = bench.path("called");
    let plan = tampered(&bench, &[]);
    for (answer, code, wanted) in [
        ("/x/$(id)", 3, "may only have letters"),
        ("/x;id", 3, "may only have letters"),
        ("/../x", 3, "may only have letters"),
        ("", 3, "may only have letters"),
        ("/x/bulkhead", 4, "code 9"),
    ] {
        // The first call is the copy; what comes after is the errand.
        put_script(
            &bin.join("ssh"),
            &format!(
                "#!/bin/sh\nfor last; do :; done\ncase \"$last\" in *settle*) cat > /dev/null; printf '%s\\n' '{answer}'; exit 0;; esac\n\
                 echo \"$last\" >> {}\nprintf 'one\\033[2J\\n' >&2; printf 'two\\033[2J\\n'; exit 9\n",
                called.display()
            ),
        );
        let said = said(&through(&bench, &bin, &["up", &plan, "--on", "far"]).output().expect("it runs"));
        assert_eq!(said.code, Some(code), "{answer}: {said:?}");
        assert!(said.err.contains(wanted), "{answer}: {said:?}");
        assert_eq!(called.exists(), code == 4, "{answer}");
        assert!(!format!("{}{}", said.out, said.err).contains('\u{1b}'), "{said:?}");
    }
    assert_eq!(fs::read_to_string(&called).expect("called"), "exec /x/bulkhead errand\n");
}

#[test]
fn an_errand_that_nobody_of_ours_has_sent_leaves_nothing() {
    let bench = Bench::real();
    let cache = bench.path("far-cache");
    fs::create_dir(&cache).expect("the test's own files");
    fs::set_permissions(&cache, fs::Permissions::from_mode(0o700)).expect("the test's own files");
    let plan = fs::read_to_string(tampered(&bench, &[])).expect("a plan");
    let errand = |host: &str, origin: &str, plan: &str| {
        let up = serde_json::json!({ "host": host, "origin": origin, "plan": plan, "set": "x", "kernel": null, "modules": null,
            "qemu": null, "json": false });
        serde_json::json!({ "Up": up }).to_string()
    };
    let sent = |text: &str| [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat();
    for bytes in [
        Vec::new(),
        b"short".to_vec(),
        u64::MAX.to_le_bytes().to_vec(),
        sent("{}"),
        sent(&errand("../../far", "abc", &plan)),
        sent(&errand("far", "../..", &plan)),
        sent(&errand("far", "abc", &plan.replace("\"plant\"", "\"../../plant\""))),
        sent(&errand("far", "abc", "{}")),
    ] {
        let mut command = bench.command(&["errand"]);
        command
            .env("BULKHEAD_CACHE", &cache)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program runs");
        // It may have ended before it has read all.
        let _ = child.stdin.take().expect("a pipe").write_all(&bytes);
        let said = said(&child.wait_with_output().expect("it ends"));
        assert_eq!(said.code, Some(2), "{said:?}");
        let sets: Vec<PathBuf> =
            walk(&bench.path("")).into_iter().filter(|path| path.ends_with("far.set.toml")).collect();
        assert_eq!(sets, [bench.path("tampered/far.set.toml")], "{said:?}");
    }
}

fn walk(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { walk(&path) } else { vec![path] }).collect()
}
