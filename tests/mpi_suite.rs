//! The MPI correctness suite, the HPC Challenge suite and ranks that die, on this host: over Open MPI's own shared
//! memory, which proves that the suite itself is right, and over the provider.

use crate::mpi_fixture;

use std::path::Path;

use channel::{Memory, PeerSection, State};
use mpi_fixture::launch::{Ended, Launch, Over, PATIENCE};
use mpi_fixture::{Programs, find, hpcc, programs, provider};
use skips::{Need, skip};

/// Cases that Open MPI 4.1.4 itself gets wrong. Its ob1 writes behind the memory of a receive that is too small.
const WITHOUT_OB1: [&str; 1] = ["too_long_stays"];
/// Over libfabric, with any provider, it crashes when a send is taken back (it reads a communicator that it never noted),
/// and never tells a synchronous sender that a matched probe took its message.
const WITHOUT_OFI: [&str; 2] = ["cancel_send", "synchronous_mprobe"];

fn both() -> Vec<Over> {
    let provided = provider().map(Over::Provider);
    std::iter::once(Over::Vader).chain(provided).collect()
}

fn without(over: &Over) -> Vec<String> {
    let names: &[&str] = if *over == Over::Vader { &WITHOUT_OB1 } else { &WITHOUT_OFI };
    names.iter().map(|name| format!("--without={name}")).collect()
}

/// Runs all cases that the transport can, with more words.
fn run_suite(programs: &Programs, over: &Over, ranks: u32, words: &[&str]) -> (Launch, Ended) {
    let launch = Launch::new(over, ranks);
    let mut all: Vec<String> = vec!["all".to_owned()];
    all.extend(without(over));
    all.extend(words.iter().map(|word| (*word).to_owned()));
    let ended = launch.run(&programs.suite, &all, PATIENCE);
    (launch, ended)
}

/// Lines of cases, and whether they say that all is right.
fn cases(ended: &Ended) -> Vec<(bool, &str)> {
    let lines = ended.out.lines();
    let of_cases = lines.filter(|line| line.starts_with("ok ") || line.starts_with("not ok "));
    of_cases.map(|line| (line.starts_with("ok "), line)).collect()
}

/// As many cases ran as were announced, and all of them well.
fn all_right(ended: &Ended, what: &str) {
    let cases = cases(ended);
    let announced = ended.out.lines().find_map(|line| line.strip_prefix("1..")?.parse::<usize>().ok());
    let wrong: Vec<_> = cases.iter().filter(|(right, _)| !right).collect();
    assert_eq!(ended.code(), Some(0), "{what}: {wrong:?}\n{}\n{}", ended.out, ended.err);
    assert_eq!(announced, Some(cases.len()), "{what}:\n{}", ended.out);
    assert!(cases.len() > 60, "{what}: only {} cases", cases.len());
    assert!(ended.left.is_empty(), "{what} left {:?}", ended.left);
}

/// Every rank's section was made ready and used: nobody fell back to something else.
fn all_attached(launch: &Launch, ranks: u32) {
    for rank in 0..ranks {
        let path = launch.sections().join(format!("rank-{rank}"));
        let section = Memory::readable(&path).and_then(PeerSection::new).expect("the rank's section");
        let state = section.state().expect("a state word").state;
        assert!(matches!(state, State::Ready | State::Draining | State::Gone), "rank {rank} is {state:?}");
    }
}

fn over_shared_memory(ranks: u32) {
    let Some(programs) = programs() else { return };
    let (_launch, ended) = run_suite(programs, &Over::Vader, ranks, &[]);
    all_right(&ended, &format!("{ranks} ranks over shared memory"));
}

fn over_the_provider(ranks: u32, words: &[&str]) {
    let (Some(programs), Some(library)) = (programs(), provider()) else { return };
    let (launch, ended) = run_suite(programs, &Over::Provider(library), ranks, words);
    all_right(&ended, &format!("{ranks} ranks over the provider {words:?}"));
    all_attached(&launch, ranks);
}

#[test]
fn one_rank_over_shared_memory() {
    over_shared_memory(1);
}

#[test]
fn two_ranks_over_shared_memory() {
    over_shared_memory(2);
}

#[test]
fn four_ranks_over_shared_memory() {
    over_shared_memory(4);
}

#[test]
fn eight_ranks_over_shared_memory() {
    over_shared_memory(8);
}

#[test]
fn one_rank_over_the_provider() {
    over_the_provider(1, &["--seed=2"]);
}

#[test]
fn two_ranks_over_the_provider() {
    over_the_provider(2, &[]);
}

#[test]
fn four_ranks_over_the_provider() {
    over_the_provider(4, &["--seed=3"]);
}

#[test]
fn eight_ranks_over_the_provider() {
    over_the_provider(8, &["--seed=4"]);
}

#[test]
fn threads_over_the_provider() {
    over_the_provider(2, &["--threads", "--seed=5"]);
}

#[test]
fn every_case_sees_a_bit_that_was_flipped() {
    let Some(programs) = programs() else { return };
    let (_launch, ended) = run_suite(programs, &Over::Vader, 2, &["--spoil", "--threads"]);
    let cases = cases(&ended);
    let blind: Vec<_> = cases.iter().filter(|(right, line)| *right && !line.contains("# SKIP")).collect();
    assert!(blind.is_empty(), "these did not look: {blind:?}");
    assert!(cases.len() > 60, "only {} cases:\n{}\n{}", cases.len(), ended.out, ended.err);
    assert_eq!(ended.code(), Some(1), "{}", ended.err);
}

#[test]
fn a_case_that_does_not_exist_is_refused() {
    let Some(programs) = programs() else { return };
    let ended = Launch::new(&Over::Vader, 1).run(&programs.suite, &["ping_pong", "pong_ping"], PATIENCE);
    assert_eq!(ended.code(), Some(2), "{}\n{}", ended.out, ended.err);
    assert!(ended.err.contains("no case"), "{}", ended.err);
}

#[test]
fn a_case_that_hangs_says_where() {
    let Some(programs) = programs() else { return };
    // Known to hang: see WITHOUT_OFI. Where the provider is not built there is nothing that does.
    let Some(library) = provider() else { return };
    let launch = Launch::new(&Over::Provider(library), 2);
    let ended = launch.run(&programs.suite, &["synchronous_mprobe", "--deadline=3"], PATIENCE);
    assert_eq!(ended.code(), Some(4), "{}\n{}", ended.out, ended.err);
    assert!(ended.err.contains("still not over after 3 s, last mark"), "{}", ended.err);
    assert!(ended.left.is_empty(), "{:?}", ended.left);
}

/// A rank dies: the launcher ends in time, says so by its exit code, and nothing is left.
fn dies(how: &str, wanted: i32) {
    let Some(programs) = programs() else { return };
    for over in both() {
        for ranks in [2, 5] {
            let ended = Launch::new(&over, ranks).run(&programs.die, &[how], PATIENCE);
            let what = format!("die {how} with {ranks} ranks over {over:?}");
            assert_eq!(
                ended.code(),
                Some(wanted),
                "{what}: {:?}\n{}\n{}",
                ended.status,
                ended.out,
                ended.err
            );
            assert!(ended.left.is_empty(), "{what} left {:?}", ended.left);
        }
    }
}

#[test]
fn a_rank_is_killed_in_a_message() {
    dies("message", 137);
}

#[test]
fn a_rank_is_killed_in_a_collective() {
    dies("collective", 137);
}

#[test]
fn a_rank_is_killed_after_a_flood() {
    dies("unexpected", 137);
}

#[test]
fn a_rank_is_killed_before_it_joins() {
    dies("before", 137);
}

#[test]
fn a_rank_leaves_without_a_word() {
    dies("exit", 7);
}

#[test]
fn a_rank_ends_all() {
    dies("abort", 9);
}

#[test]
fn a_program_that_is_not_of_mpi_runs() {
    let Some(programs) = programs() else { return };
    for over in both() {
        let ended = Launch::new(&over, 2).run(&programs.not_mpi, &["0", "words"], PATIENCE);
        assert_eq!(ended.code(), Some(0), "{}", ended.err);
        assert_eq!(ended.out.matches("no MPI in here: 0 words").count(), 2, "{}", ended.out);
    }
}

#[test]
fn the_challenge_suite_finds_its_results_right() {
    if programs().is_none() {
        return;
    }
    if find("hpcc").is_none() {
        return skip(Need::Mpi, "no hpcc in PATH (package hpcc)");
    }
    for over in both() {
        let launch = Launch::new(&over, 2);
        hpcc::prepare(launch.folder.path(), 400, 2);
        let ended = launch.run::<&str>(Path::new("hpcc"), &[], PATIENCE);
        assert_eq!(ended.code(), Some(0), "{over:?}: {}\n{}", ended.out, ended.err);
        let text = hpcc::output_in(launch.folder.path()).expect("an output");
        let found = hpcc::read(&text).unwrap_or_else(|wrong| panic!("{over:?}: {wrong}\n{text}"));
        eprintln!("{over:?}: {found:?}");
        assert!(found.latency_s > 0.0 && found.bandwidth_bytes_per_s > 0.0, "{found:?}");
    }
}

#[test]
fn wrong_results_of_the_challenge_suite_are_seen() {
    let right: String = ["WALL   600   600  40  40   1   2     0.01 PASSED"; 5].join("\n")
        + "\nCPU    600   600  40  40   1   2     0.01 PASSED\n||Ax-b||_oo/(eps*(||A||_oo*||x||_oo+||b||_oo)*N)= 0.006 \
           ...... PASSED\nFound 0 errors in 100 locations (passed).\nSuccess=1\nPTRANS_residual=0\nHPL_RnormI=1e-14\n\
           MPIFFT_maxErr=1e-15\nMPIRandomAccess_Errors=0\nAvgPingPongLatency_usec=2.5\n\
           AvgPingPongBandwidth_GBytes=1.5\n";
    let found = hpcc::read(&right).expect("all right");
    assert!((found.latency_s - 2.5e-6).abs() < 1e-12 && (found.bandwidth_bytes_per_s - 1.5e9).abs() < 1.0);
    for (from, to) in [
        ("PASSED", "FAILED"),
        ("WALL", "wall"),
        ("||Ax-b||", ""),
        (
            "CPU    600   600  40  40   1   2     0.01 PASSED",
            "CPU    600   600  40  40   1   2     0.01 FAILED",
        ),
        ("Found 0", "Found 3"),
        ("Success=1", "Success=0"),
        ("PTRANS_residual=0", "PTRANS_residual=nan"),
        ("HPL_RnormI=1e-14", "HPL_RnormI=1e3"),
        ("_Errors=0", "_Errors=1"),
        ("AvgPingPongLatency_usec=2.5\n", ""),
    ] {
        assert!(hpcc::read(&right.replacen(from, to, 1)).is_err(), "{from} to {to} was not seen");
    }
}
