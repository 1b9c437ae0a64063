//! Time as seen from outside, on real instances: honest clocks agree within their error bars, a guest with a wrong
//! clock is found out, several instances begin together, and an agent that asks without end is not believed.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use bulkhead::analysis::outside::{ClockCheck, began_on_host, drift, jump_between, level, set_between, skew};
use bulkhead::cli::cache_folder;
use bulkhead::model::clocks::ClockLevel;
use bulkhead::model::experiment::{Accelerator, PlatformSpec};
use bulkhead::model::journal::{Failure, FailureKind};
use bulkhead::model::wire::{PROTOCOL_VERSION, ToHost};
use bulkhead::platforms::instance::{AgentInstance, MOST_QUESTIONS, monotonic_now};
use bulkhead::platforms::ledger::Ledger;
use bulkhead::platforms::link::{TO_HOST_LIMIT, encode};
use bulkhead::platforms::native::ProcessCarrier;
use bulkhead::platforms::process::Process;
use bulkhead::platforms::vm::guest::Rehearsal;
use bulkhead::platforms::vm::platform::Vm;
use bulkhead::platforms::vm::wrong_clock::{STEP, STEP_BACK, WRONG_BY_PPM};
use bulkhead::platforms::{Broken, Cancel, Instance, InstanceSpec, Platform, PlatformContext, make};
use bulkhead::probes::job::{Job, Part};
use bulkhead::probes::params::{GapParams, ProbeSpec};
use bulkhead::units::facts::MachineFacts;
use bulkhead::units::names::PlatformKind;
use bulkhead::units::outside::{ClockTransport, OutsideTime};
use bulkhead::units::{Bytes, Mebibytes, Millis, Nanos};
use skips::{Need, skip};

fn context(run: &Path) -> PlatformContext {
    PlatformContext {
        may_destroy: false,
        exe: env!("CARGO_BIN_EXE_bulkhead").into(),
        ledger: Ledger::open(run).expect("a ledger"),
        cache: cache_folder(),
        counter_hz: bulkhead::probes::clock::Anchor::take().and_then(|anchor| anchor.rate_since()).ok(),
        seed: 1,
    }
}

fn start(platform: &mut dyn Platform, run: &Path, number: u32) -> Box<dyn Instance> {
    let scratch = run.join(format!("scratch-{number}"));
    std::fs::create_dir_all(&scratch).expect("a scratch folder");
    let spec = InstanceSpec {
        number,
        memory_wanted: Bytes::from_bytes(64 << 20),
        disk_wanted: Bytes::from_bytes(16 << 20),
        scratch,
        ..InstanceSpec::default()
    };
    platform.start(&spec, &Cancel::new()).expect("it starts")
}

fn gap(id: u64, millis: u64, part: Option<Part>) -> Job {
    let params = GapParams { duration_ms: Millis::from_millis(millis), ..GapParams::default() };
    let deadline_ms = Millis::from_millis(millis + 120_000);
    Job { id, probe: Some(ProbeSpec::Gap(params)), seed: id, deadline_ms, part, ..Job::default() }
}

/// Outside time of one job.
fn measure(instance: &mut dyn Instance, job: &Job) -> OutsideTime {
    instance.begin(job, &Cancel::new()).expect("it begins");
    outside(instance)
}

fn outside(instance: &mut dyn Instance) -> OutsideTime {
    let reply = instance.finish(&Cancel::new()).expect("it replies");
    let report = reply.report.expect("a probe was asked for").expect("a gap can be measured");
    report.outside.expect("the host's clock answered")
}

fn assert_agrees(times: &[OutsideTime]) {
    let mut gains = Vec::new();
    for time in times {
        assert!(time.before.exchanges > 0 && time.after.exchanges > 0);
        assert!(time.began_ns >= time.before.monotonic_ns && time.ended_ns <= time.after.monotonic_ns);
        let check = ClockCheck::of(time).expect("the host's clock runs");
        assert_eq!(check.step, None, "nobody set the clock");
        let disagreement = (check.inside_ns - check.outside_ns).abs();
        assert!(disagreement <= check.error_ns + check.inside_ns * 1e-3, "{disagreement} ns: {check:?}");
        gains.push(check.against_host);
    }
    let drift = drift(&gains);
    assert_ne!(level(drift.as_ref(), 0), ClockLevel::Lies, "{drift:?}");
}

#[test]
fn a_process_and_its_host_have_the_same_clock() {
    let run = tempfile::tempdir().expect("a run directory");
    let mut native = make(&PlatformSpec::of_kind(PlatformKind::Native), &context(run.path()));
    let mut instance = start(native.as_mut(), run.path(), 0);
    let times: Vec<OutsideTime> = (1..=3).map(|id| measure(instance.as_mut(), &gap(id, 100, None))).collect();
    for time in &times {
        let reading = time.before;
        let offset = reading.host_ns.get().abs_diff(reading.monotonic_ns.get());
        assert!(offset <= reading.round_trip_ns.get() / 2 + 1, "one clock, two readers: {reading:?}");
        assert_eq!(time.transport, ClockTransport::Link);
    }
    assert_agrees(&times);
}

#[test]
fn instances_begin_at_the_hosts_moment() {
    let run = tempfile::tempdir().expect("a run directory");
    let mut native = make(&PlatformSpec::of_kind(PlatformKind::Native), &context(run.path()));
    let mut instances: Vec<_> = (0..2).map(|number| start(native.as_mut(), run.path(), number)).collect();
    for (rank, instance) in (0..).zip(&mut instances) {
        let part = Part { rank, ranks: 2, peers: Vec::new() };
        instance.begin(&gap(1, 20, Some(part)), &Cancel::new()).expect("it begins");
    }
    let at = Nanos::from_duration(monotonic_now().to_duration() + Duration::from_millis(100));
    for instance in &mut instances {
        instance.start_at(at).expect("it listens");
    }
    let times: Vec<OutsideTime> = instances.iter_mut().map(|instance| outside(instance.as_mut())).collect();
    let began: Vec<(f64, f64)> = times.iter().map(|time| began_on_host(time).expect("it is known")).collect();
    for (began, error) in &began {
        assert!(began + error >= at.as_f64(), "nobody begins before the moment: {began} ± {error} {at:?}");
    }
    let (skew, error) = skew(&began).expect("two");
    assert!(skew.to_duration() < Duration::from_secs(5), "together, not in turns: {skew} ± {error}");
    let refused = instances[0].start_at(at).expect_err("no job waits for it");
    assert!(matches!(refused, Broken::Failed(Failure { kind: FailureKind::Refused, .. })), "{refused:?}");
}

#[test]
fn a_job_that_waits_for_its_start_hears_the_end_of_its_time() {
    let run = tempfile::tempdir().expect("a run directory");
    let mut native = make(&PlatformSpec::of_kind(PlatformKind::Native), &context(run.path()));
    let mut instance = start(native.as_mut(), run.path(), 0);
    let part = Part { rank: 0, ranks: 2, peers: Vec::new() };
    let job = Job { deadline_ms: Millis::from_millis(300), ..gap(1, 20, Some(part)) };
    instance.begin(&job, &Cancel::new()).expect("it begins");
    let reply = instance.finish(&Cancel::new()).expect("it says why");
    let reason = reply.report.expect("a probe was asked for").expect_err("nobody said start");
    assert!(reason.to_string().contains("300 ms"), "{reason}");
    measure(instance.as_mut(), &gap(2, 10, None));
}

/// None, and the test is skipped, where no guest can be started.
fn vm(run: &Path, rehearse: Option<Rehearsal>) -> Option<Vm> {
    let spec = PlatformSpec {
        accelerator: Accelerator::Tcg,
        memory_mib: Some(Mebibytes::from_mib(320)),
        ..PlatformSpec::of_kind(PlatformKind::Vm)
    };
    let mut vm = Vm::new(&spec, &context(run));
    if let Some(how) = rehearse {
        vm = vm.rehearsing(how);
    }
    let unavailable = vm.survey(&Cancel::new()).unavailable;
    if let Some(reason) = &unavailable {
        skip(Need::Vm, reason);
    }
    unavailable.is_none().then_some(vm)
}

#[test]
fn a_guests_clock_is_compared_with_its_hosts_across_pauses() {
    let run = tempfile::tempdir().expect("a run directory");
    let Some(mut vm) = vm(run.path(), None) else { return };
    let mut guest = start(&mut vm, run.path(), 0);
    let (mut times, mut pauses) = (Vec::new(), Vec::new());
    for id in 1..=3 {
        times.push(measure(guest.as_mut(), &gap(id, 300, None)));
        let asked = Instant::now();
        guest.pause().expect("it pauses");
        let since = Instant::now();
        std::thread::sleep(Duration::from_millis(200));
        let at_least = since.elapsed();
        guest.resume().expect("it resumes");
        pauses.push([at_least, asked.elapsed()].map(|time| time.as_nanos() as f64));
    }
    assert_agrees(&times);
    let drift =
        drift(&times.iter().filter_map(|time| Some(ClockCheck::of(time)?.against_host)).collect::<Vec<_>>())
            .expect("long enough");
    for (pair, [at_least, at_most]) in times.windows(2).zip(pauses) {
        let (from, to) = (&pair[0].after, &pair[1].before);
        assert_eq!(set_between(from, to), None, "nobody set it between measurements: {from:?} {to:?}");
        let jump = |paused| jump_between(from, to, paused, &drift);
        assert_eq!(jump((at_least, at_most)), None, "a pause is no jump: {from:?} {to:?}");
    }
    guest.end();
}

#[test]
fn a_guest_with_a_wrong_clock_is_found_out_and_breaks_nothing() {
    let run = tempfile::tempdir().expect("a run directory");
    let Some(mut vm) = vm(run.path(), Some(Rehearsal::WrongClock)) else { return };
    let mut guest = start(&mut vm, run.path(), 0);
    let first_time = measure(guest.as_mut(), &gap(1, 5000, None));
    let first = ClockCheck::of(&first_time).expect("the host's clock runs");
    let step = first.step.expect("its time of day was set").step_ns;
    let wanted = i64::try_from(STEP.as_nanos()).expect("small");
    assert!(step.abs_diff(wanted) < 50_000_000, "{step} ns of {wanted}: {first:?}");
    let times: Vec<OutsideTime> = (2..=4).map(|id| measure(guest.as_mut(), &gap(id, 800, None))).collect();
    let back =
        set_between(&first_time.after, &times[0].before).expect("it was set back before the second job");
    let wanted_back = i64::try_from(STEP_BACK.as_nanos()).expect("small");
    assert!(back.step_ns.abs_diff(-wanted_back) < 50_000_000, "{back:?}");
    let again = times.windows(2).find_map(|pair| set_between(&pair[0].after, &pair[1].before));
    assert_eq!(again, None, "then it was left alone");
    let times: Vec<ClockCheck> = times.iter().map(|time| ClockCheck::of(time).expect("it runs")).collect();
    assert!(times.iter().all(|check| check.step.is_none()), "set once: {times:?}");

    // Against its own raw clock the guest is wrong by exactly what was ordered, within the error bar.
    let slew = drift(&times.iter().map(|check| check.against_raw).collect::<Vec<_>>()).expect("long enough");
    assert!(slew.low - 100.0 <= WRONG_BY_PPM && WRONG_BY_PPM <= slew.high + 100.0, "{slew:?}");
    // Against the host's clock, too, but for what a translated guest's counter is off (measured at boot, 1000 ppm).
    let against_host: Vec<_> = times.iter().map(|check| check.against_host).collect();
    let drift = drift(&against_host).expect("long enough");
    assert!(drift.low - 1000.0 <= WRONG_BY_PPM && WRONG_BY_PPM <= drift.high + 1000.0, "{drift:?}");
    assert_eq!(level(Some(&drift), 0), ClockLevel::Lies);
    eprintln!("drift {drift:?}, slew {slew:?}, step {step} ns");
    guest.end();
}

#[test]
fn an_agent_that_asks_without_end_is_not_believed() {
    let run = tempfile::tempdir().expect("a run directory");
    let ledger = Ledger::open(run.path()).expect("a ledger");
    let hello = ToHost::Hello {
        protocol: PROTOCOL_VERSION,
        version: "0.0.0".to_owned(),
        facts: Box::new(MachineFacts::default()),
    };
    let frame = |message: &ToHost| encode(message, TO_HOST_LIMIT).expect("it can be written");
    std::fs::write(run.path().join("hello"), frame(&hello)).expect("written");
    let questions = u64::from(MOST_QUESTIONS) + 1;
    let flood: Vec<u8> = (0..questions).flat_map(|question| frame(&ToHost::AskClock { question })).collect();
    std::fs::write(run.path().join("flood"), flood).expect("written");
    let mut command = Command::new("sh");
    let script = "cat hello; head -c 1 >/dev/null; cat flood; exec cat >/dev/null";
    command.args(["-c", script]).current_dir(run.path());
    let (process, link) = Process::start("the shell", command, None, &ledger).expect("sh runs");
    let carrier = Box::new(ProcessCarrier::new(process));
    let patience = Duration::from_secs(30);
    let mut instance =
        AgentInstance::attach("test/0", link, carrier, Instant::now(), patience, &Cancel::new())
            .expect("it introduces itself");
    let broken = instance.begin(&gap(1, 10, None), &Cancel::new()).expect_err("enough is enough");
    let Broken::Failed(failure) = broken else { panic!("nobody interrupted") };
    assert_eq!(failure.kind, FailureKind::Garbage);
    assert!(failure.reason.contains("256 times"), "{}", failure.reason);
}
