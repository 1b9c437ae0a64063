//! Agents that misbehave, as real processes: each becomes the right failure within its deadline, with the console's
//! last lines, and the process is gone afterwards.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use bulkhead::model::journal::{Failure, FailureKind};
use bulkhead::model::wire::{PROTOCOL_VERSION, ToHost};
use bulkhead::platforms::instance::{AgentInstance, Allowances};
use bulkhead::platforms::ledger::{Ledger, sweep};
use bulkhead::platforms::link::{TO_HOST_LIMIT, encode};
use bulkhead::platforms::native::ProcessCarrier;
use bulkhead::platforms::process::Process;
use bulkhead::platforms::{Broken, Cancel, Instance};
use bulkhead::probes::detail::{Detail, FwqDetail};
use bulkhead::probes::job::{Job, JobReply, ProbeReport};
use bulkhead::probes::params::{GapParams, ProbeSpec};
use bulkhead::units::facts::{ClockFacts, MachineFacts, OwnCost};
use bulkhead::units::{Bytes, Millis, Nanos};

/// Generous: a failure that takes longer is one.
const PATIENCE: Duration = Duration::from_secs(30);

/// A run directory with the files a misbehaving agent prints.
struct Stage {
    dir: tempfile::TempDir,
    ledger: Ledger,
}

impl Stage {
    fn new() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let ledger = Ledger::open(dir.path()).expect("a ledger");
        let stage = Self { dir, ledger };
        stage.message("hello", &hello(PROTOCOL_VERSION));
        stage.message("running", &ToHost::Running { id: 1 });
        stage
    }

    fn message(&self, name: &str, message: &ToHost) {
        self.bytes(name, &encode(message, TO_HOST_LIMIT).expect("it can be written"));
    }

    fn bytes(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.dir.path().join(name), bytes).expect("written");
    }

    /// Attaches to a shell that runs `script` in the run directory.
    fn attach(&self, script: &str, deadline: Duration) -> Result<AgentInstance, Broken> {
        let started = Instant::now();
        let mut command = Command::new("sh");
        command.args(["-c", script]).current_dir(self.dir.path());
        let (process, link) = Process::start("the shell", command, None, &self.ledger).expect("sh runs");
        let carrier = Box::new(ProcessCarrier::new(process));
        AgentInstance::attach("test/0", link, carrier, started, deadline, &Cancel::new())
    }

    /// How the start of `script` fails.
    fn start_failure(&self, script: &str) -> Failure {
        let outcome = self.attach(script, PATIENCE);
        failure(outcome.err().expect("it does not start"))
    }

    /// How a job fails when, after its introduction and the first bytes of the job, the agent does `script`.
    fn job_failure(&self, script: &str) -> Failure {
        let begun = Instant::now();
        let script = format!("cat hello; head -c 1 >/dev/null; {script}");
        let instance = self.attach(&script, PATIENCE).expect("it introduces itself");
        let mut instance = instance.with_allowances(Allowances {
            silence: Duration::from_millis(400),
            after_deadline: Duration::from_millis(300),
            after_stop: Duration::from_millis(300),
        });
        let cancel = Cancel::new();
        let outcome = instance.begin(&job(60_000), &cancel).and_then(|()| instance.finish(&cancel));
        let failure = failure(outcome.expect_err("it breaks"));
        assert!(begun.elapsed() < PATIENCE);
        let again = instance.begin(&job(60_000), &cancel).expect_err("it is gone");
        assert_eq!(again, Broken::Failed(failure.clone()));
        self.assert_gone();
        failure
    }

    fn assert_gone(&self) {
        assert_eq!(sweep(self.dir.path()), Vec::<String>::new(), "nothing is left to end");
        // Who was killed is gone once it has had a CPU to die on.
        let until = Instant::now() + PATIENCE;
        while !self.left().is_empty() {
            assert!(Instant::now() < until, "{:?}", self.left());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Processes that work in the run directory.
    fn left(&self) -> Vec<String> {
        let mark = self.dir.path().file_name().expect("a name").to_string_lossy().into_owned();
        let all = std::fs::read_dir("/proc").expect("proc").flatten();
        let works_in = all.filter_map(|entry| std::fs::read_link(entry.path().join("cwd")).ok());
        let works_in = works_in.map(|cwd| cwd.to_string_lossy().into_owned());
        works_in.filter(|cwd| cwd.contains(&mark)).collect()
    }
}

fn hello(protocol: u32) -> ToHost {
    ToHost::Hello { protocol, version: "0.0.0".to_owned(), facts: Box::new(MachineFacts::default()) }
}

fn job(deadline_ms: u64) -> Job {
    Job {
        id: 1,
        probe: Some(ProbeSpec::Gap(GapParams::default())),
        loads: vec![],
        seed: 1,
        deadline_ms: Millis::from_millis(deadline_ms),
        ..Job::default()
    }
}

fn failure(broken: Broken) -> Failure {
    match broken {
        Broken::Failed(failure) => failure,
        Broken::Interrupted => panic!("nobody interrupted"),
    }
}

fn assert_says(failure: &Failure, kind: FailureKind, words: &[&str]) {
    assert_eq!(failure.kind, kind, "{failure:?}");
    for word in words {
        assert!(failure.reason.contains(word), "no {word:?} in {:?}", failure.reason);
    }
}

#[test]
fn an_early_exit_keeps_its_last_words() {
    let stage = Stage::new();
    let failure = stage.start_failure("echo 'no memory left' >&2; exit 3");
    assert_says(&failure, FailureKind::Start, &["test/0", "ended with exit status 3"]);
    assert_eq!(failure.console, ["no memory left"]);
    stage.assert_gone();
}

#[test]
fn silence_at_the_start_ends_at_the_deadline() {
    let stage = Stage::new();
    let outcome = stage.attach("echo waiting >&2; exec sleep 1000", Duration::from_millis(300));
    let failure = failure(outcome.err().expect("it does not start"));
    assert_says(&failure, FailureKind::Start, &["did not answer within 300 ms"]);
    assert_eq!(failure.console, ["waiting"]);
    stage.assert_gone();
}

#[test]
fn garbage_is_shown_harmlessly() {
    let stage = Stage::new();
    let failure = stage.start_failure("printf '\\033[2JKernel panic'; sleep 1000");
    assert_says(&failure, FailureKind::Garbage, &["Kernel panic", "\\x1b"]);
    stage.assert_gone();
}

#[test]
fn an_oversized_frame_is_refused_at_its_header() {
    let stage = Stage::new();
    let header = [*b"BLKH", PROTOCOL_VERSION.to_le_bytes(), [0xff; 4], [0; 4]].concat();
    stage.bytes("header", &header);
    let failure = stage.start_failure("cat header /dev/zero");
    assert_says(&failure, FailureKind::Garbage, &["4294967295", "16777216"]);
    stage.assert_gone();
}

#[test]
fn another_protocol_version_is_named_with_ours() {
    let stage = Stage::new();
    stage.message("future", &hello(99));
    let failure = stage.start_failure("cat future; sleep 1000");
    assert_says(&failure, FailureKind::Start, &["version 2 was wanted", "99"]);

    let mut frame = encode(&hello(99), TO_HOST_LIMIT).expect("it can be written");
    frame[4] = 98;
    stage.bytes("future", &frame);
    let failure = stage.start_failure("cat future; sleep 1000");
    assert_says(&failure, FailureKind::Start, &["version 2 was wanted", "98"]);
    stage.assert_gone();
}

#[test]
fn a_kill_in_the_middle_of_a_job_is_a_death() {
    let failure = Stage::new().job_failure("cat running; echo 'last words' >&2; kill -9 $$");
    assert_says(&failure, FailureKind::Died, &["was killed by SIGKILL", "without being asked"]);
    assert_eq!(failure.console, ["last words"]);
}

#[test]
fn an_exit_in_the_middle_of_a_frame_is_a_death() {
    let failure = Stage::new().job_failure("head -c 20 running; exit 0");
    assert_says(&failure, FailureKind::Died, &["ended with exit status 0"]);
}

#[test]
fn a_link_that_stays_open_without_its_carrier_is_a_death() {
    // The grandchild holds the pipes open in a session of its own; the shell is gone.
    let stage = Stage::new();
    let failure = stage.job_failure("cat running; (cd / && exec setsid sleep 3) & exit 5");
    assert_says(&failure, FailureKind::Died, &["ended with exit status 5"]);
}

#[test]
fn what_a_dead_agent_started_dies_with_it() {
    // No session of its own this time: it is in the agent's process group, and in the run directory.
    let failure = Stage::new().job_failure("cat running; sleep 1000 & exit 6");
    assert_says(&failure, FailureKind::Died, &["ended with exit status 6"]);
}

#[test]
fn a_stopped_agent_hangs() {
    let failure = Stage::new().job_failure("cat running; kill -STOP $$");
    assert_says(&failure, FailureKind::Hung, &["no sign of life for 400 ms"]);
}

#[test]
fn garbage_in_the_middle_of_a_job_is_garbage() {
    let failure = Stage::new().job_failure("cat running; echo oops; sleep 1000");
    assert_says(&failure, FailureKind::Garbage, &["oops"]);
}

#[test]
fn an_answer_nobody_asked_for_is_garbage() {
    let stage = Stage::new();
    stage.message("other", &ToHost::Running { id: 2 });
    let failure = stage.job_failure("cat other; sleep 1000");
    assert_says(&failure, FailureKind::Garbage, &["news of job 1", "the start of job 2"]);
}

#[test]
fn a_report_of_another_probe_is_garbage() {
    let report = ProbeReport {
        clock: ClockFacts { name: "tsc".to_owned(), read_ns: 1.0, resolution_ns: 1.0 },
        cost: OwnCost { per_sample_ns: 1.0, cpu_time_ns: Nanos::ZERO, memory_bytes: Bytes::from_bytes(0) },
        detail: Detail::Fwq(FwqDetail { iterations: 1, cpu: None, samples_ns: vec![Nanos::from_nanos(7)] }),
        notes: vec![],
        outside: None,
        accounts: None,
    };
    let reply = JobReply { report: Some(Ok(report)), doses: vec![] };
    let stage = Stage::new();
    stage.message("done", &ToHost::Done { id: 1, reply: Box::new(reply) });
    let failure = stage.job_failure("cat running done; sleep 1000");
    assert_says(&failure, FailureKind::Garbage, &["gap", "fwq"]);
}

#[test]
fn endless_signs_of_life_do_not_outlast_the_deadline() {
    let stage = Stage::new();
    // Faster than they can be read, so that the link is never empty.
    let heartbeat = encode(&ToHost::Heartbeat { id: 1 }, TO_HOST_LIMIT).expect("it can be written");
    stage.bytes("heartbeats", &heartbeat.repeat(50_000));
    let script = "cat hello; head -c 1 >/dev/null; cat running; yes heartbeats | head -n 5000 | xargs cat";
    let instance = stage.attach(script, PATIENCE).expect("it introduces itself");
    let mut instance = instance
        .with_allowances(Allowances { after_deadline: Duration::from_millis(100), ..Allowances::default() });
    instance.begin(&job(300), &Cancel::new()).expect("it runs");
    let failure = failure(instance.finish(&Cancel::new()).expect_err("it never ends"));
    assert_says(&failure, FailureKind::Hung, &["deadline"]);
    stage.assert_gone();
}

#[test]
fn a_flood_on_the_console_is_cut() {
    let failure = Stage::new().job_failure("cat running; yes flood >&2");
    assert_says(&failure, FailureKind::Hung, &["no sign of life"]);
    assert_eq!(failure.console.len(), 40);
    assert!(failure.console.iter().all(|line| line.len() <= 400));
}

#[test]
fn a_real_agent_ends_a_job_at_its_deadline_and_says_so() {
    let stage = Stage::new();
    let script = format!("exec {} agent --link stdio --scratch /tmp", env!("CARGO_BIN_EXE_bulkhead"));
    let mut instance = stage.attach(&script, PATIENCE).expect("it introduces itself");
    let params = GapParams { duration_ms: Millis::from_millis(600_000), ..GapParams::default() };
    let endless = Job { probe: Some(ProbeSpec::Gap(params)), ..job(200) };
    instance.begin(&endless, &Cancel::new()).expect("it runs");
    let reply = instance.finish(&Cancel::new()).expect("the probe gives up, the agent does not");
    let reason = reply.report.expect("a probe was asked for").expect_err("it is late");
    assert!(reason.to_string().contains("deadline of 200 ms"), "{reason}");
    drop(instance);
    stage.assert_gone();
}

#[test]
fn an_agent_leaves_when_its_host_is_gone_in_the_middle_of_a_job() {
    let stage = Stage::new();
    let binary = Path::new(env!("CARGO_BIN_EXE_bulkhead"));
    let mut command = Command::new(binary);
    command.args(["agent", "--link", "stdio", "--scratch", "/tmp"]);
    let (mut process, mut link) = Process::start("the agent", command, None, &stage.ledger).expect("it runs");
    let soon = || Instant::now() + PATIENCE;
    assert!(matches!(link.receive(soon(), &Cancel::new()), Ok(ToHost::Hello { .. })));
    let params = GapParams { duration_ms: Millis::from_millis(600_000), ..GapParams::default() };
    let endless = Job { probe: Some(ProbeSpec::Gap(params)), ..job(600_000) };
    let run = bulkhead::model::wire::ToAgent::Run { job: Box::new(endless) };
    link.send(&run, soon(), &Cancel::new()).expect("sent");
    // A host that never says what its clock says does not hold the job up.
    assert!(matches!(link.receive(soon(), &Cancel::new()), Ok(ToHost::AskClock { .. })));
    let next = std::iter::repeat_with(|| link.receive(soon(), &Cancel::new()))
        .find(|heard| !matches!(heard, Ok(ToHost::Heartbeat { .. })));
    assert_eq!(next, Some(Ok(ToHost::Running { id: 1 })));
    drop(link);
    assert!(process.wait(PATIENCE), "it still runs");
    assert_eq!(process.how_it_ended().as_deref(), Some("the agent ended with exit status 70"));
}
