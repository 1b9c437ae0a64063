//! The books of a probe on this machine: what the kernel counted, who made wake-ups late, what the tracer saw, and that
//! nothing stays behind.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use bulkhead::analysis::attribution::attribute;
use bulkhead::model::attribution::Attribution;
use bulkhead::platforms::held_process::start_ticks;
use bulkhead::platforms::ledger::sweep;
use bulkhead::probes::accounts::{Tracefs, Tracer};
use bulkhead::probes::check::check_report;
use bulkhead::probes::clock::Anchor;
use bulkhead::probes::detail::Detail;
use bulkhead::probes::job::Job;
use bulkhead::probes::params::{DiskParams, GapParams, ProbeSpec, WakeupParams};
use bulkhead::probes::pin::pin_to_last_cpu;
use bulkhead::probes::realtime::become_real_time;
use bulkhead::probes::run::{Surroundings, run_job};
use bulkhead::units::accounts::Accounts;
use bulkhead::units::tracing::{TRACE_ROOTS, TracingInstance};
use bulkhead::units::{Mebibytes, Millis};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

/// Whoever prepares to trace removes what dead agents left: one test at a time may have left something.
static TRACING: Mutex<()> = Mutex::new(());

fn accounts_of_a_gap_probe(trace: bool) -> Accounts {
    let probe = ProbeSpec::Gap(GapParams { duration_ms: Millis::from_millis(120), reads: None, batches: 8 });
    let job =
        Job { id: 1, probe: Some(probe), deadline_ms: Millis::from_millis(60_000), trace, ..Job::default() };
    let surroundings = Surroundings { scratch: None, exe: PathBuf::from("/bin/true") };
    let reply = run_job(&job, &surroundings, &AtomicBool::new(false), &mut || {});
    let report = reply.report.expect("there was a probe").expect("it was measured");
    assert_eq!(check_report(&report), Ok(()));
    report.accounts.expect("books were kept")
}

#[test]
fn a_measured_probe_carries_what_the_kernel_counted() {
    let accounts = accounts_of_a_gap_probe(false);
    assert!(accounts.elapsed_ns.get() >= 120_000_000, "{}", accounts.elapsed_ns);
    assert!(!accounts.interrupts.is_empty(), "{:?}", accounts.unknown);
    assert!(accounts.interrupts.windows(2).all(|pair| pair[0].count >= pair[1].count));
    let last = accounts.per_cpu.last().expect("a CPU is granted");
    assert!(last.ticks > Some(0) && last.interrupts >= last.ticks, "a busy CPU has a timer: {last:?}");
    assert!(accounts.probe_run_delay_ns <= accounts.run_delay_ns);
    assert!(accounts.traced.is_empty());
    assert!(
        accounts.unknown.iter().any(|why| why.starts_with("tracing: not asked for")),
        "{:?}",
        accounts.unknown
    );
}

/// A mount of tracefs that only the calling thread sees.
fn private_tracefs(at: &Path) {
    unshare(CloneFlags::CLONE_FS | CloneFlags::CLONE_NEWNS).expect("root may");
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)
        .expect("private");
    mount(Some("tracefs"), at, Some("tracefs"), MsFlags::empty(), None::<&str>)
        .expect("the kernel has tracefs");
}

fn ours(root: &Path) -> usize {
    let names = std::fs::read_dir(root.join("instances")).expect("readable").flatten();
    let own = |name: String| TracingInstance::parse(&name).is_some_and(|made| made.pid == std::process::id());
    names.filter_map(|entry| entry.file_name().into_string().ok()).filter(|name| own(name.clone())).count()
}

#[test]
fn the_tracer_sees_the_timer_and_not_the_threads_that_are_ours() {
    let _alone = TRACING.lock().unwrap_or_else(PoisonError::into_inner);
    thread::spawn(|| {
        let root = tempfile::tempdir().expect("a folder");
        private_tracefs(root.path());
        let cpu = pin_to_last_cpu().cpu.expect("pinned");
        let anchor = Anchor::take().expect("a clock");
        let there = || Tracefs::at(root.path());
        let tracer = Tracer::prepare_in(there(), cpu).expect("root may trace");
        assert_eq!(ours(root.path()), 1);
        tracer.go().expect("on");
        let began = std::time::Instant::now();
        while began.elapsed() < std::time::Duration::from_millis(150) {
            std::hint::spin_loop();
        }
        tracer.halt().expect("off");
        let own = nix::unistd::gettid().as_raw();
        let (told, late) = tracer.read(&[own], anchor.rate_since().ok(), &[]).expect("readable");
        assert_eq!(late, [], "no window was asked for");
        let timer = told
            .sources
            .iter()
            .find(|source| source.name == "local timer" || source.name.contains("arch_timer"));
        let timer = timer.unwrap_or_else(|| panic!("no timer among {:?}", told.sources));
        assert!(
            timer.count > 0 && timer.total_ns >= timer.longest_ns && timer.longest_ns.get() > 0,
            "{timer:?}"
        );
        let name = std::fs::read_to_string("/proc/thread-self/comm").expect("it has a name");
        let own_name = format!("thread {}", name.trim());
        let all: u64 = told.sources.iter().map(|source| source.total_ns.get()).sum();
        assert!(all < 60_000_000_000, "sums are times, not counters");
        assert_eq!(ours(root.path()), 0, "it is removed after reading");
        // Its parent bears the same name but sleeps; the thread itself had most of the time.
        let mine = told.sources.iter().find(|source| source.name == own_name);
        let mine_ns = mine.map_or(0, |source| source.total_ns.get());
        assert!(mine_ns < 20_000_000, "{mine_ns} ns are counted for the thread itself");

        let dropped = Tracer::prepare_in(there(), cpu).expect("again");
        assert_eq!(ours(root.path()), 1);
        drop(dropped);
        assert_eq!(ours(root.path()), 0, "it is removed when dropped");
    })
    .join()
    .expect("no panic");
}

/// Takes the last CPU away for a quarter of the time, in stretches of 10 ms, until told to stop.
fn take_the_last_cpu_away(stop: &AtomicBool) {
    pin_to_last_cpu();
    let granted = become_real_time(50);
    assert_eq!(granted.priority, Some(50), "root may: {:?}", granted.note);
    while !stop.load(Ordering::Relaxed) {
        let began = Instant::now();
        while began.elapsed() < Duration::from_millis(10) {
            std::hint::spin_loop();
        }
        thread::sleep(Duration::from_millis(30));
    }
}

fn measured(probe: ProbeSpec, scratch: Option<PathBuf>, trace: bool) -> (Detail, Accounts) {
    let job =
        Job { id: 1, probe: Some(probe), deadline_ms: Millis::from_millis(60_000), trace, ..Job::default() };
    let surroundings = Surroundings { scratch, exe: PathBuf::from("/bin/true") };
    let reply = run_job(&job, &surroundings, &AtomicBool::new(false), &mut || {});
    let report = reply.report.expect("there was a probe").expect("it was measured");
    assert_eq!(check_report(&report), Ok(()));
    (report.detail, report.accounts.expect("books were kept"))
}

fn wake_ups_beside_a_thief(trace: bool) -> (Detail, Accounts) {
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let thief = thread::Builder::new().name("thief".to_owned());
        thief.spawn_scoped(scope, || take_the_last_cpu_away(&stop)).expect("a thread more");
        let params =
            WakeupParams { duration_ms: Millis::from_millis(600), priority: 10, ..WakeupParams::default() };
        let measured = measured(ProbeSpec::Wakeup(params), None, trace);
        stop.store(true, Ordering::Relaxed);
        measured
    })
}

/// It is found with at least one of its stretches; how much of the rest a hypervisor took is the machine's affair.
fn is_blamed(told: &Attribution, name: &str) {
    let thief = told.sources.iter().find(|source| source.name == name);
    assert!(thief.is_some_and(|thief| thief.lost_ns.get() >= 8_000_000), "{told:?}");
    let threads = told.sources.iter().filter(|source| source.name.contains("thread"));
    let most = threads.max_by_key(|source| source.lost_ns).map(|source| source.name.as_str());
    assert_eq!(most, Some(name), "no other thread took more: {told:?}");
}

#[test]
fn wake_ups_that_another_thread_made_late_are_its() {
    let (detail, accounts) = wake_ups_beside_a_thief(false);
    let told = attribute(&detail, &accounts).expect("wake-ups are shared out");
    let Detail::Wakeup(wakeup) = &detail else { panic!("not a wake-up detail") };
    let latest = wakeup.threads[0].worst[0];
    assert!(latest.length_ns.get() > 5_000_000, "the thief was there: {latest:?}");
    let witnessed = &wakeup.threads[0].witnessed;
    assert!(witnessed.iter().any(|seen| seen.stretch == latest), "{latest:?} among {witnessed:?}");
    is_blamed(&told, "other threads (scheduler)");
}

#[test]
fn a_tracer_knows_the_name_of_the_thread_that_made_wake_ups_late() {
    let _alone = TRACING.lock().unwrap_or_else(PoisonError::into_inner);
    let (detail, accounts) = wake_ups_beside_a_thief(true);
    is_blamed(&attribute(&detail, &accounts).expect("wake-ups are shared out"), "thread thief");
}

#[test]
fn operations_of_a_disk_come_with_what_the_scheduler_counted() {
    let folder = tempfile::tempdir().expect("a folder");
    let params = DiskParams {
        file_size_mib: Mebibytes::from_mib(4),
        duration_ms: Millis::from_millis(40),
        ..DiskParams::default()
    };
    let (detail, accounts) = measured(ProbeSpec::Disk(params), Some(folder.path().to_owned()), false);
    let Detail::Disk(disk) = &detail else { panic!("not a disk detail") };
    for phase in disk.phases.iter().filter(|phase| phase.unsupported.is_none()) {
        assert_eq!(phase.witnessed.len(), phase.stalls.len(), "each of the longest has its counters");
        assert!(phase.stalls.iter().all(|stall| phase.witnessed.iter().any(|seen| seen.stretch == *stall)));
    }
    let told = attribute(&detail, &accounts).expect("operations are shared out");
    let given: u64 = told.sources.iter().map(|source| source.lost_ns.get()).sum();
    assert_eq!(given + told.unattributed_ns.get(), told.lost_ns.get());
    let says = |what: &str| told.unknown.iter().any(|why| why.starts_with(what));
    assert_eq!(accounts.probe_block_delay_ns.is_none(), says("block delay:"), "{:?}", told.unknown);
    assert!(!says("waiting for a CPU:"), "{:?}", told.unknown);
}

#[test]
fn tracing_needs_no_mount_of_tracefs_and_leaves_none() {
    let _alone = TRACING.lock().unwrap_or_else(PoisonError::into_inner);
    let mounts = || std::fs::read_to_string("/proc/self/mountinfo").expect("readable");
    let before = mounts();
    let accounts = accounts_of_a_gap_probe(true);
    assert!(!accounts.traced.is_empty(), "{:?}", accounts.unknown);
    assert!(!accounts.unknown.iter().any(|why| why.starts_with("tracing:")), "{:?}", accounts.unknown);
    assert_eq!(mounts(), before);
}

#[test]
fn what_a_killed_agent_left_in_tracefs_is_swept_up_where_it_is_mounted_nowhere() {
    let _alone = TRACING.lock().unwrap_or_else(PoisonError::into_inner);
    let [root, _] = TRACE_ROOTS;
    let tracefs = Tracefs::mount_privately().expect("root may mount it");
    // Of a living process: what other tests sweep up meanwhile leaves it alone until that has died, just before we sweep.
    let mut agent = Command::new("sleep").arg("3600").spawn().expect("sleep runs");
    let began = start_ticks(agent.id()).expect("it lives");
    let dead = TracingInstance { pid: agent.id(), start_ticks: began };
    let left = tracefs.path().join("instances").join(dead.to_string());
    let own = tracefs.path().join("instances/not-an-agents");
    for folder in [&left, &own] {
        std::fs::create_dir(folder).expect("root may trace");
    }
    let run = tempfile::tempdir().expect("a folder");
    agent.kill().expect("our child");
    agent.wait().expect("our child");
    let said = sweep(run.path());
    let stays = own.exists();
    std::fs::remove_dir(&own).expect("it was made here");
    assert!(!left.exists() && stays, "{said:?}");
    let words = format!("removed the tracing instance {root}/instances/{dead}");
    assert!(said.contains(&words), "{said:?}");
}
