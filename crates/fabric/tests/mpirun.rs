//! Debian's Open MPI runs over the provider: a real `mpirun` on this host, and a look whether it really did.
//!
//! Without Open MPI there is nothing to run.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use channel::{Section, State};
use skips::{Need, skip};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the project's folder")
}

/// Builds the provider as `make fabric` does, once for all tests, and returns its folder.
fn provider() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(build)
}

fn build() -> PathBuf {
    let made =
        Command::new("make").arg("fabric").current_dir(root()).env_remove("CARGO_BUILD_TARGET").output();
    let made = made.expect("make");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    root().join(format!("target/fabric/{}-unknown-linux-gnu/release", std::env::consts::ARCH))
}

struct Run {
    folder: tempfile::TempDir,
    output: Output,
    program: String,
}

impl Run {
    fn said(&self) -> String {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        format!("{}{}", text(&self.output.stdout), text(&self.output.stderr))
    }

    /// What the section of a rank says about its life.
    fn state(&self, rank: u32) -> State {
        let section = Section::open(&self.folder.path().join(format!("rank-{rank}"))).expect("a section");
        section.state().expect("a state").state
    }
}

fn have_mpi() -> bool {
    let here = ["mpirun", "mpicc"].iter().all(|tool| Command::new(tool).arg("--version").output().is_ok());
    if !here {
        skip(Need::Mpi, "no Open MPI here (./setup.sh test)");
    }
    here
}

/// Runs the program with so many ranks; sections lie in memory.
fn run(ranks: u32, arguments: &[&str], settings: &[(&str, &str)]) -> Run {
    run_on_hosts(ranks, ranks, arguments, settings)
}

fn run_on_hosts(ranks: u32, ranks_per_host: u32, arguments: &[&str], settings: &[(&str, &str)]) -> Run {
    run_program("smoke", ranks, ranks_per_host, arguments, settings)
}

fn run_program(
    name: &str,
    ranks: u32,
    ranks_per_host: u32,
    arguments: &[&str],
    settings: &[(&str, &str)],
) -> Run {
    let folder =
        tempfile::Builder::new().prefix("bulkhead-fabric.").tempdir_in("/dev/shm").expect("a folder");
    let program = folder.path().join(name);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name).with_extension("c");
    let compiled = Command::new("mpicc").args(["-O1", "-Wall", "-o"]).arg(&program).arg(source).output();
    let compiled = compiled.expect("mpicc");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let mut command = Command::new("timeout");
    // Which host a rank believes to be on: in a guest that is said per machine, here it is told by the rank.
    let place =
        format!("BULKHEAD_FABRIC_HOST=host-$((OMPI_COMM_WORLD_RANK / {ranks_per_host})) exec \"$0\" \"$@\"");
    command.args(["-k", "5", "120", "mpirun", "--oversubscribe", "--mca", "oob_tcp_if_include", "lo", "-n"]);
    command.arg(ranks.to_string()).args(["sh", "-c", &place]).arg(&program).args(arguments);
    // Runs at the same time make their folders under the same name, and one of them finds it there.
    command.env("TMPDIR", folder.path());
    for (name, value) in [
        ("OMPI_ALLOW_RUN_AS_ROOT", "1"),
        ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"),
        ("OMPI_MCA_pml", "cm"),
        ("OMPI_MCA_mtl", "ofi"),
        ("OMPI_MCA_mtl_ofi_provider_include", "bulkhead"),
        ("BULKHEAD_FABRIC_RUN", "smoke"),
    ] {
        command.env(name, value);
    }
    command.env("FI_PROVIDER_PATH", provider()).env("BULKHEAD_FABRIC_SECTIONS", folder.path());
    command.envs(settings.iter().copied());
    let output = command.output().expect("started");
    let program = program.display().to_string();
    Run { folder, output, program }
}

#[test]
fn programs_run_with_two_and_four_ranks_and_every_rank_was_attached() {
    if !have_mpi() {
        return;
    }
    for ranks in [2, 4] {
        let run = run(ranks, &[], &[]);
        assert!(run.output.status.success() && run.said().contains("all right"), "{}", run.said());
        for rank in 0..ranks {
            // A rank that was never attached would have left no section at all.
            assert_eq!(run.state(rank), State::Gone, "{} of {ranks}: {}", rank, run.program);
        }
    }
}

#[test]
fn ranks_of_different_hosts_speak_tcp_and_only_where_that_was_allowed() {
    if !have_mpi() {
        return;
    }
    let here = [("BULKHEAD_FABRIC_ADDRESS", "127.0.0.1"), ("BULKHEAD_FABRIC_DEBUG", "1")];
    for (ranks, per_host) in [(2, 1), (4, 2)] {
        let run = run_on_hosts(ranks, per_host, &[], &here);
        assert!(run.output.status.success() && run.said().contains("all right"), "{}", run.said());
        assert!(run.said().contains("speaks TCP with rank"), "{}", run.said());
    }
    let refused = run_on_hosts(2, 1, &[], &[]);
    assert!(
        !refused.output.status.success() && refused.said().contains("listens nowhere"),
        "{}",
        refused.said()
    );
    let killed = run_on_hosts(2, 1, &["die"], &here);
    assert!(!killed.output.status.success() && killed.output.status.code() != Some(124), "{}", killed.said());
}

/// Also to a rank that it has not sent to before: without the thread in the background it would hang.
#[test]
fn what_was_sent_arrives_though_the_sender_calls_nothing_more() {
    if !have_mpi() {
        return;
    }
    for hosts in [1, 2] {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("received").display().to_string();
        let here = [("BULKHEAD_FABRIC_ADDRESS", "127.0.0.1")];
        let run = run_program("apart", 2, 2 / hosts, &[&file], &here);
        assert!(run.output.status.success() && run.said().contains("all right"), "{}", run.said());
    }
}

#[test]
fn one_section_after_another_run_is_taken_over() {
    if !have_mpi() {
        return;
    }
    let first = run(2, &[], &[("BULKHEAD_FABRIC_SECTION_BYTES", "262144")]);
    assert!(first.output.status.success(), "{}", first.said());
    let folder = first.folder.path().display().to_string();
    let second = run(2, &[], &[("BULKHEAD_FABRIC_SECTIONS", &folder), ("BULKHEAD_FABRIC_RUN", "second")]);
    assert!(second.output.status.success(), "{}", second.said());
}

#[test]
fn a_rank_that_is_killed_ends_the_run_with_words_and_not_with_a_hang() {
    if !have_mpi() {
        return;
    }
    let run = run(3, &["die"], &[]);
    assert!(!run.output.status.success(), "a killed rank went unnoticed");
    // 124: the deadline of `timeout` passed.
    assert_ne!(run.output.status.code(), Some(124), "{}", run.said());
    assert!(run.said().contains("signal 9"), "{}", run.said());
}

#[test]
fn a_section_too_small_is_refused_in_words() {
    if !have_mpi() {
        return;
    }
    let run = run(2, &[], &[("BULKHEAD_FABRIC_SECTION_BYTES", "20480")]);
    assert!(!run.output.status.success() && run.said().contains("too few for rings"), "{}", run.said());
}
