//! The LU probe and the compile job as an agent runs them, with this very binary as compiler, and what a reader of the
//! report sees of them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use std::{fs, thread};

use bulkhead::probes::detail::{BuildDetail, Detail};
use bulkhead::probes::job::{Job, ProbeReport};
use bulkhead::probes::params::{BuildParams, LinpackParams, ProbeSpec};
use bulkhead::probes::run::{Surroundings, run_job};
use bulkhead::units::Millis;

const GENEROUS: Millis = Millis::from_millis(600_000);

fn run(probe: ProbeSpec, exe: &Path, scratch: &Path, stop: &AtomicBool) -> Result<ProbeReport, String> {
    let job = Job { id: 1, probe: Some(probe), seed: 11, deadline_ms: GENEROUS, ..Job::default() };
    let surroundings = Surroundings { scratch: Some(scratch.to_owned()), exe: exe.to_owned() };
    run_job(&job, &surroundings, stop, &mut || {}).report.expect("there was a probe").map_err(String::from)
}

fn own() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_bulkhead"))
}

fn build(params: BuildParams, scratch: &Path) -> BuildDetail {
    let report = run(ProbeSpec::Build(params), &own(), scratch, &AtomicBool::new(false)).expect("measured");
    match report.detail {
        Detail::Build(detail) => detail,
        other => panic!("a detail of {}", other.kind()),
    }
}

fn few(jobs: u32) -> BuildParams {
    BuildParams { files: 5, functions: 12, jobs: Some(jobs) }
}

#[test]
fn a_compile_job_yields_the_same_image_however_many_compile_and_leaves_nothing() {
    let scratch = tempfile::tempdir().expect("a folder");
    let (one, three) = (build(few(1), scratch.path()), build(few(3), scratch.path()));
    assert_eq!((one.image_crc32, one.image_bytes), (three.image_crc32, three.image_bytes));
    assert_eq!((one.jobs, three.jobs, three.file_ns.len()), (1, 3, 5));
    assert!(one.image_bytes.get() > 10_000 && one.source_bytes.get() > 10_000, "{one:?}");
    // Alone, the compilers follow one another within the wall time.
    let files: u64 = one.file_ns.iter().map(|time| time.get()).sum();
    assert!(files + one.link_ns.get() <= one.wall_ns.get(), "{one:?}");
    assert!(one.user_ns.get() > 0);
    assert_eq!(fs::read_dir(scratch.path()).expect("readable").count(), 0, "files are left");
}

#[test]
fn a_compiler_that_fails_fails_the_measurement_with_its_reason() {
    let scratch = tempfile::tempdir().expect("a folder");
    let never = AtomicBool::new(false);
    let failed = run(ProbeSpec::Build(few(2)), Path::new("/bin/false"), scratch.path(), &never).unwrap_err();
    assert!(failed.contains("/bin/false compile") && failed.contains("exited with 1"), "{failed}");
    assert_eq!(fs::read_dir(scratch.path()).expect("readable").count(), 0, "files are left");
}

#[test]
fn a_job_without_room_is_refused_before_anything_is_written() {
    let scratch = tempfile::tempdir().expect("a folder");
    let params = BuildParams { files: 10_000, functions: 1000, jobs: Some(1) };
    let never = AtomicBool::new(false);
    let small = Path::new("/dev/shm");
    let failed = run(ProbeSpec::Build(params), &own(), small, &never).unwrap_err();
    assert!(failed.contains("no room left") && failed.contains("/dev/shm"), "{failed}");
    let missing = run(ProbeSpec::Build(few(1)), &own(), &scratch.path().join("none"), &never).unwrap_err();
    assert!(missing.contains("none"), "{missing}");
}

#[test]
fn stop_ends_a_compile_job_and_its_compilers() {
    let scratch = tempfile::tempdir().expect("a folder");
    let stop = AtomicBool::new(false);
    let params = BuildParams { files: 2000, functions: 50, jobs: Some(2) };
    let failed = thread::scope(|scope| {
        let running = scope.spawn(|| run(ProbeSpec::Build(params), &own(), scratch.path(), &stop));
        thread::sleep(Duration::from_millis(300));
        stop.store(true, Ordering::Relaxed);
        running.join().expect("no panic")
    });
    assert_eq!(failed.unwrap_err(), "stopped");
    assert_eq!(fs::read_dir(scratch.path()).expect("readable").count(), 0, "files are left");
}

#[test]
fn the_compilers_verbs_say_what_is_wrong() {
    let folder = tempfile::tempdir().expect("a folder");
    let broken = folder.path().join("broken.src");
    fs::write(&broken, "fn f( {").expect("written");
    let output =
        Command::new(own()).arg("compile").arg(&broken).arg(folder.path().join("o")).output().expect("runs");
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("bulkhead: ") && said.contains("not well-formed"), "{said}");
}

#[test]
fn a_system_of_equations_is_solved_by_any_number_of_threads() {
    for threads in [1, 3] {
        let spec = ProbeSpec::Linpack(LinpackParams { n: 200, samples: 4, threads });
        let report = run(spec, &own(), Path::new("/tmp"), &AtomicBool::new(false)).expect("measured");
        assert!(report.cost.memory_bytes.get() >= 200 * 200 * 8, "{:?}", report.cost);
        let Detail::Linpack(detail) = report.detail else { panic!("another detail") };
        assert_eq!((detail.elapsed_ns.len(), detail.threads), (4, threads));
        assert!(detail.residual > 0.0 && detail.residual < 1.0, "{}", detail.residual);
    }
}

#[test]
fn a_report_shows_both() {
    let folder = tempfile::tempdir().expect("a folder");
    let experiment = r#"
        [repeat]
        min = 3
        max = 3
        [[platform]]
        label = "a"
        kind = "fake"
        [[platform]]
        label = "b"
        kind = "fake"
        script = { slowdown_percent = 130 }
        [probe.linpack]
        [probe.build]
    "#;
    fs::write(folder.path().join("jobs.toml"), experiment).expect("writable");
    let output = Command::new(own())
        .current_dir(folder.path())
        .args(["measure", "--experiment", "jobs.toml", "--out", "run", "--seed", "7"])
        .output()
        .expect("runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{said}");
    let page = fs::read_to_string(folder.path().join("run/report.html")).expect("a report");
    for wanted in [
        "Floating-point operations per second of an LU solve",
        "500 equations, 1 thread",
        "Where the time of the compile job went",
        "CRC-32 of the image",
        "12345678",
    ] {
        assert!(page.contains(wanted), "{wanted} is not in the report");
    }
}
