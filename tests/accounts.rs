//! The books of a probe on this machine: what the kernel counted, what its tracer saw, and that nothing stays behind.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::thread;

use bulkhead::model::accounts::Accounts;
use bulkhead::model::job::Job;
use bulkhead::model::params::{GapParams, ProbeSpec};
use bulkhead::model::tracing::TracingInstance;
use bulkhead::model::units::Millis;
use bulkhead::platforms::link::check_report;
use bulkhead::workloads::accounts::Tracer;
use bulkhead::workloads::clock::Anchor;
use bulkhead::workloads::pin::pin_to_last_cpu;
use bulkhead::workloads::run::{Surroundings, run_job};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};

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
    thread::spawn(|| {
        let root = tempfile::tempdir().expect("a folder");
        private_tracefs(root.path());
        let cpu = pin_to_last_cpu().cpu.expect("pinned");
        let anchor = Anchor::take().expect("a clock");
        let tracer = Tracer::prepare_in(root.path(), cpu).expect("root may trace");
        assert_eq!(ours(root.path()), 1);
        tracer.go().expect("on");
        let began = std::time::Instant::now();
        while began.elapsed() < std::time::Duration::from_millis(150) {
            std::hint::spin_loop();
        }
        tracer.halt().expect("off");
        let own = nix::unistd::gettid().as_raw();
        let told = tracer.read(&[own], anchor.rate_since().ok()).expect("readable");
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

        let dropped = Tracer::prepare_in(root.path(), cpu).expect("again");
        assert_eq!(ours(root.path()), 1);
        drop(dropped);
        assert_eq!(ours(root.path()), 0, "it is removed when dropped");
    })
    .join()
    .expect("no panic");
}
