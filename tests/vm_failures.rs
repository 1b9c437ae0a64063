//! Real guests under a real QEMU: they start, pause, answer; and each way in which one can break is recorded as what it
//! is. Needs QEMU and a guest kernel.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bulkhead::cli::cache_folder;
use bulkhead::model::experiment::{Accelerator, PlatformSpec};
use bulkhead::model::journal::{Failure, FailureKind};
use bulkhead::platforms::ledger::{self, Ledger};
use bulkhead::platforms::vm::guest::Rehearsal;
use bulkhead::platforms::vm::platform::Vm;
use bulkhead::platforms::{Broken, Cancel, Instance, InstanceSpec, Platform, PlatformContext};
use bulkhead::probes::job::Job;
use bulkhead::probes::params::{DiskParams, ProbeSpec};
use bulkhead::units::names::PlatformKind;
use bulkhead::units::{Bytes, Mebibytes, Millis};
use skips::{Need, skip};

/// A folder for one test, and a platform in it.
struct Bench {
    folder: tempfile::TempDir,
    vm: Vm,
}

/// None, and the test is skipped, where no guest can be started.
#[track_caller]
fn bench(change: impl FnOnce(&mut PlatformSpec), rehearse: Option<Rehearsal>) -> Option<Bench> {
    let folder = tempfile::tempdir().expect("the test's own files");
    let ledger = Ledger::open(folder.path()).expect("the test's own files");
    std::fs::create_dir(folder.path().join("scratch")).expect("the test's own files");
    let mut spec = PlatformSpec::of_kind(PlatformKind::Vm);
    spec.accelerator = Accelerator::Tcg;
    spec.memory_mib = Some(Mebibytes::from_mib(320));
    change(&mut spec);
    let context = PlatformContext {
        exe: env!("CARGO_BIN_EXE_bulkhead").into(),
        ledger,
        cache: cache_folder(),
        counter_hz: bulkhead::probes::clock::Anchor::take().and_then(|anchor| anchor.rate_since()).ok(),
        seed: 1,
        may_destroy: false,
    };
    let mut vm = Vm::new(&spec, &context);
    if let Some(how) = rehearse {
        vm = vm.rehearsing(how);
    }
    let state = vm.survey(&Cancel::new());
    if let Some(reason) = state.unavailable {
        skip(Need::Vm, reason);
        return None;
    }
    Some(Bench { folder, vm })
}

impl Bench {
    fn start(&mut self) -> Result<Box<dyn Instance>, Broken> {
        let spec = InstanceSpec {
            number: 0,
            memory_wanted: Bytes::from_bytes(64 << 20),
            disk_wanted: Bytes::from_bytes(16 << 20),
            scratch: self.folder.path().join("scratch"),
            ..InstanceSpec::default()
        };
        self.vm.start(&spec, &Cancel::new())
    }

    /// Nothing may be left of what was started.
    fn nothing_left(self) {
        let said = ledger::sweep(self.folder.path());
        assert!(said.is_empty(), "left behind: {said:?}");
        let scratch: Vec<_> =
            std::fs::read_dir(self.folder.path().join("scratch")).expect("the test's own files").collect();
        assert!(scratch.is_empty(), "left behind: {scratch:?}");
    }
}

fn job(id: u64, deadline_ms: u64) -> Job {
    Job {
        id,
        probe: None,
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

/// Starts a guest that breaks at its first job, and returns what was recorded.
fn rehearsed(how: Rehearsal, deadline_ms: u64) -> Option<Failure> {
    let mut bench = bench(|_| (), Some(how))?;
    let mut guest = bench.start().unwrap_or_else(|broken| panic!("{how:?}: {:?}", failure(broken)));
    let outcome =
        guest.begin(&job(1, deadline_ms), &Cancel::new()).and_then(|()| guest.finish(&Cancel::new()));
    let failure = failure(outcome.expect_err("the job must break"));
    eprintln!("{how:?}: {failure:#?}");
    assert_eq!(
        failure.kind,
        self::failure(guest.pause().expect_err("it is gone")).kind,
        "a gone guest stays gone"
    );
    drop(guest);
    bench.nothing_left();
    Some(failure)
}

fn console_has(failure: &Failure, part: &str) {
    let console = failure.console.join("\n");
    assert!(console.contains(part), "\"{part}\" is not on the console:\n{console}");
}

#[test]
fn a_guest_starts_works_pauses_and_goes() {
    let Some(mut bench) = bench(|spec| spec.cpus = Some(2), None) else { return };
    let state = bench.vm.survey(&Cancel::new());
    eprintln!("{:#?}", state.properties);
    let mut guest = bench.start().unwrap();
    eprintln!("the agent answered after {}", guest.start_time());
    assert_eq!(guest.facts().cpus, 2);
    for id in 1..=2 {
        guest.begin(&job(id, 30_000), &Cancel::new()).unwrap();
        guest.finish(&Cancel::new()).unwrap();
        guest.pause().unwrap();
        guest.resume().unwrap();
    }
    let disk = Job { probe: Some(ProbeSpec::Disk(DiskParams::default())), ..job(3, 30_000) };
    guest.begin(&disk, &Cancel::new()).unwrap();
    let said = guest.finish(&Cancel::new()).unwrap();
    assert!(said.report.is_some(), "a probe's job is answered");
    guest.end();
    guest.end();
    drop(guest);
    bench.nothing_left();
}

#[test]
fn the_engine_is_chosen_by_trying() {
    let Some(mut bench) = bench(|spec| spec.accelerator = Accelerator::Auto, None) else { return };
    let state = bench.vm.survey(&Cancel::new());
    let property = |key: &str| {
        state
            .properties
            .iter()
            .find(|(name, _)| name == key)
            .map(|(_, value)| value.as_str())
            .unwrap_or_default()
    };
    eprintln!("{}: {}", property("accelerator"), property("why"));
    match property("accelerator") {
        "kvm" => assert!(property("why").contains("answered after")),
        "tcg" => assert!(property("why").contains("/dev/kvm")),
        other => panic!("accelerator {other}"),
    }
    bench.nothing_left();
}

#[test]
fn a_kernel_panic_is_a_death_with_its_last_words() {
    let Some(failure) = rehearsed(Rehearsal::Panic, 60_000) else { return };
    assert_eq!(failure.kind, FailureKind::Died);
    console_has(&failure, "Kernel panic");
    assert!(
        failure.reason.contains("Kernel panic - not syncing: sysrq triggered crash"),
        "{}",
        failure.reason
    );
}

#[test]
fn an_agent_that_stops_is_a_hang() {
    let begun = Instant::now();
    let Some(failure) = rehearsed(Rehearsal::Hang, 1_000) else { return };
    assert_eq!(failure.kind, FailureKind::Hung);
    console_has(&failure, "rehearsal: Hang");
    assert!(begun.elapsed() < Duration::from_secs(120), "within its deadline: {:?}", begun.elapsed());
}

#[test]
fn garbage_on_the_link_is_garbage() {
    let Some(failure) = rehearsed(Rehearsal::Garbage, 60_000) else { return };
    assert_eq!(failure.kind, FailureKind::Garbage);
}

#[test]
fn an_early_exit_is_a_death() {
    let Some(failure) = rehearsed(Rehearsal::Exit, 60_000) else { return };
    assert_eq!(failure.kind, FailureKind::Died);
    console_has(&failure, "the agent ended: exit status 3");
}

#[test]
fn out_of_memory_is_a_death_with_the_killers_words() {
    let Some(failure) = rehearsed(Rehearsal::Oom, 120_000) else { return };
    assert_eq!(failure.kind, FailureKind::Died);
    console_has(&failure, "Out of memory");
    console_has(&failure, "the agent ended: killed by SIGKILL");
}

#[test]
fn a_killed_qemu_is_a_death() {
    let Some(mut bench) = bench(|_| (), None) else { return };
    let mut guest = bench.start().unwrap();
    guest.begin(&job(1, 60_000), &Cancel::new()).unwrap();
    // The ledger knows which process it is, and in which groups; the sweep ends that one.
    let said = ledger::sweep(bench.folder.path());
    assert_eq!(said.iter().filter(|line| line.starts_with("killed process")).count(), 1, "{said:?}");
    assert!(said.iter().skip(1).all(|line| line.starts_with("removed /sys/fs/cgroup/")), "{said:?}");
    let failure = failure(guest.finish(&Cancel::new()).unwrap_err());
    assert_eq!(failure.kind, FailureKind::Died);
    assert!(failure.reason.contains("SIGKILL"), "{}", failure.reason);
    drop(guest);
    bench.nothing_left();
}

/// Every module file below `folder`, by name.
fn module_files(folder: &Path, found: &mut BTreeMap<String, PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("the test's own files").filter_map(Result::ok) {
        if entry.file_type().expect("the test's own files").is_dir() {
            module_files(&entry.path(), found);
        } else {
            found.insert(entry.file_name().to_string_lossy().into_owned(), entry.path());
        }
    }
}

/// The folder of the set-up's modules.
fn set_up_modules() -> Option<PathBuf> {
    let folder = cache_folder().join("kernel/lib/modules");
    let found = std::fs::read_dir(&folder).ok().and_then(|mut entries| entries.next()).and_then(Result::ok);
    if found.is_none() {
        skip(Need::Modules, format!("no kernel modules in {}", folder.display()));
    }
    found.map(|entry| entry.path())
}

#[test]
fn a_guest_whose_modules_do_not_load_says_why() {
    let Some(real) = set_up_modules() else { return };
    let mut files = BTreeMap::new();
    module_files(&real, &mut files);
    // In the place of virtio.ko lies another module, so those that build upon it find their symbols missing.
    let (Some(ring), true) = (files.get("virtio_ring.ko").cloned(), files.contains_key("virtio.ko")) else {
        skip(Need::Modules, format!("the modules of {} are packed", real.display()));
        return;
    };
    files.insert("virtio.ko".to_owned(), ring);
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("kernel")).unwrap();
    for (name, path) in files {
        std::os::unix::fs::symlink(path, folder.path().join("kernel").join(name)).unwrap();
    }
    std::fs::copy(real.join("modules.builtin"), folder.path().join("modules.builtin")).unwrap();
    let Some(mut bench) = bench(|spec| spec.modules = Some(folder.path().display().to_string()), None) else {
        return;
    };
    let failure = failure(bench.start().err().expect("virtio is missing"));
    assert_eq!(failure.kind, FailureKind::Start);
    console_has(&failure, "loading module /modules/virtio_pci");
    bench.nothing_left();
}

#[test]
fn qemu_that_fails_at_once_is_told_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let bad = folder.path().join("vmlinuz-1.0");
    std::fs::write(&bad, b"not a kernel at all").unwrap();
    let Some(modules) = set_up_modules() else { return };
    let named = |spec: &mut PlatformSpec| {
        spec.kernel = Some(bad.display().to_string());
        spec.modules = Some(modules.display().to_string());
    };
    let Some(mut bench) = bench(named, None) else { return };
    let begun = Instant::now();
    let failure = failure(bench.start().err().expect("this is no kernel"));
    assert_eq!(failure.kind, FailureKind::Start);
    assert!(failure.reason.contains("qemu ended with exit status 1"), "{}", failure.reason);
    assert!(begun.elapsed() < Duration::from_secs(20));
    bench.nothing_left();
}

#[test]
fn an_interrupted_start_leaves_nothing() {
    let Some(mut bench) = bench(|_| (), Some(Rehearsal::Silent)) else { return };
    let cancel = Cancel::new();
    let spec = InstanceSpec {
        number: 0,
        memory_wanted: Bytes::from_bytes(64 << 20),
        disk_wanted: Bytes::from_bytes(16 << 20),
        scratch: bench.folder.path().join("scratch"),
        ..InstanceSpec::default()
    };
    let from_outside = cancel.clone();
    let user = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(700));
        from_outside.cancel();
    });
    let outcome = bench.vm.start(&spec, &cancel).err();
    user.join().unwrap();
    assert_eq!(outcome, Some(Broken::Interrupted));
    bench.nothing_left();
}
