//! What programs under `bulkhead mpirun` may call, in C, in Fortran, and brought by an interpreter: over each carrier it does
//! what MPI says, which is looked at, or it is refused at once with the reason. Nothing hangs.
//!
//! Each is a job of its own, ten seconds under the translator: with `BULKHEAD_MPI_CALLS` all are run, else some of each kind.

use crate::{exec_fixture, mpirun_fixture};

use std::fs;
use std::path::{Path, PathBuf};

use exec_fixture::{Here, assert_code, complaint};
use mpirun_fixture::{library, lines, made, made_of_c, mpirun};
use skips::{Need, skip};

/// Advice of the two refusals.
const NO_SPAWN: &str = "start all of them with -n, or run with --transport tcp";
const NO_WINDOWS: &str = "MPI_THREAD_SERIALIZED or less, or run with --transport tcp";
/// Interfaces of Fortran: `use mpi_f08`, `use mpi`, `mpif.h`.
const FORTRAN: [&str; 3] = ["F08", "MODULE", "HEADER"];

/// All of these when they are asked for, otherwise the first so many.
fn some_of<T>(all: &[T], number: usize) -> &[T] {
    if std::env::var_os("BULKHEAD_MPI_CALLS").is_some() {
        return all;
    }
    skip(Need::Long, "in part: BULKHEAD_MPI_CALLS=1 makes all calls over all carriers");
    &all[..number]
}

/// The program that makes these calls, in C.
fn calls() -> Option<PathBuf> {
    made_of_c("calls")
}

/// The same in Fortran, by one of its interfaces.
fn fortran(interface: &'static str) -> Option<PathBuf> {
    made(interface, "mpifort.openmpi", &["-O1", &format!("-D{interface}")], "calls.F90")
}

/// Words of `mpirun` for each carrier, with the library for channels where it is there.
fn carriers() -> Vec<Vec<String>> {
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
    let over_tcp = words(&["--transport", "tcp"]);
    let over_channels = library().map(|path| words(&["--provider", path.to_str().expect("plain")]));
    over_channels.into_iter().chain([over_tcp]).collect()
}

/// Runs it with so many ranks in two partitions.
fn run(
    ranks: &str,
    carrier: &[String],
    more: &[&str],
    program: &Path,
    arguments: &[&str],
) -> std::process::Output {
    let here = Here::new();
    let mut options = vec!["-n", ranks];
    options.extend(carrier.iter().map(String::as_str));
    options.extend(more);
    let output = mpirun(&here, &options, program, arguments);
    here.assert_nothing_left();
    output
}

/// Refused over channels in the name of this function, and with this advice.
#[track_caller]
fn refused(program: &Path, arguments: &[&str], function: &str, advice: &str) {
    // What it loads lies beside it.
    let beside = program.parent().and_then(Path::to_str).expect("plain");
    let Some(library) = library() else { return };
    let carrier = ["--provider".to_owned(), library.to_str().expect("plain").to_owned()];
    let output = run("2", &carrier, &["--ro", beside], program, arguments);
    assert_code(&output, 1);
    let said = complaint(&output);
    assert!(said.contains(&format!("bulkhead-fi: {function}: over channels, ")), "{arguments:?}: {said}");
    assert!(said.contains(advice), "{arguments:?}: {said}");
}

/// Works so: these lines are said.
#[track_caller]
fn works(ranks: &str, words: &[String], program: &Path, arguments: &[&str], wanted: &[String]) {
    let output = run(ranks, words, &[], program, arguments);
    assert_code(&output, 0);
    let mut wanted = wanted.to_vec();
    wanted.sort();
    assert_eq!(lines(&output), wanted, "{words:?} {arguments:?}: {}", complaint(&output));
}

/// Does not work, and ends; what was said. (Of Open MPI's own words some are lost on slow machines: a rank frees them while its
/// thread sends them.)
#[track_caller]
fn fails(words: &[String], program: &Path, arguments: &[&str]) -> String {
    let output = run("2", words, &[], program, arguments);
    let (code, said) = (output.status.code(), complaint(&output));
    assert!(code.is_some_and(|code| code != 0), "{words:?} {arguments:?}: {code:?} {said}");
    said
}

fn over_tcp() -> Vec<String> {
    ["--transport", "tcp"].map(str::to_owned).to_vec()
}

/// What two ranks say of windows that were made by these calls.
fn given(calls: &str, level: u8) -> Vec<String> {
    let ranks = |call| {
        [(0, 1), (1, 0)].map(|(rank, got)| format!("{call}: rank {rank} was given {got} at level {level}"))
    };
    calls.split(',').flat_map(ranks).collect()
}

const WINDOWS: &str = "window,memory,dynamic";
/// The word for calls of all threads.
const MULTIPLE: &str = "multiple";

/// What channels do not carry: words of the program, the function that they call and what is advised.
type Refusal = (&'static [&'static str], &'static str, &'static str);

const REFUSALS: [Refusal; 5] = [
    (&["spawn"], "MPI_Comm_spawn", NO_SPAWN),
    (&["window", MULTIPLE], "MPI_Win_create", NO_WINDOWS),
    (&["spawn_multiple"], "MPI_Comm_spawn_multiple", NO_SPAWN),
    (&["memory", MULTIPLE], "MPI_Win_allocate", NO_WINDOWS),
    (&["dynamic", MULTIPLE], "MPI_Win_create_dynamic", NO_WINDOWS),
];

#[track_caller]
fn all_refused(program: &Path, refusals: &[Refusal]) {
    for (words, function, advice) in refusals {
        refused(program, words, function, advice);
    }
}

#[test]
fn what_channels_do_not_carry_is_refused_at_once_with_the_reason() {
    let Some(program) = calls() else { return };
    all_refused(&program, some_of(&REFUSALS, 2));
}

/// Those of `use mpi_f08` have other names; those of `use mpi` and `mpif.h` are the same ones, declared or not.
#[test]
fn programs_in_fortran_are_refused_the_same() {
    let [newest, older, oldest] = FORTRAN.map(fortran);
    let (Some(newest), Some(older), Some(oldest)) = (newest, older, oldest) else { return };
    all_refused(&newest, some_of(&REFUSALS, 2));
    all_refused(&older, some_of(&REFUSALS[2..], 1));
    all_refused(&oldest, some_of(&REFUSALS[3..], 1));
}

#[test]
fn over_tcp_programs_in_fortran_have_them() {
    for interface in some_of(&FORTRAN, 1) {
        let Some(program) = fortran(interface) else { return };
        let children = ["spawn: 41 gives 42", "spawn_multiple: 41 gives 42"].map(str::to_owned);
        let wanted = [given(WINDOWS, 3), children.to_vec()].concat();
        works("2", &over_tcp(), &program, &["spawn,spawn_multiple,window,memory,dynamic", MULTIPLE], &wanted);
    }
}

#[test]
fn over_tcp_ranks_start_further_ones() {
    let Some(program) = calls() else { return };
    let wanted = ["2 children: 2 0 0, and 41 gives 42", "2 programs: 2, and 41 gives 42"].map(str::to_owned);
    for ranks in some_of(&["2", "1", "3"], 1) {
        works(ranks, &over_tcp(), &program, &["spawn,spawn_multiple"], &wanted);
    }
    let said = fails(&over_tcp(), &program, &["spawn_nothing"]);
    assert!(said.contains("/no/such/program"), "{said}");
}

#[test]
fn over_tcp_windows_take_the_calls_of_all_threads() {
    let Some(program) = calls() else { return };
    works("2", &over_tcp(), &program, &[WINDOWS, MULTIPLE], &given(WINDOWS, 3));
}

#[test]
fn windows_of_one_thread_at_a_time_work_over_both() {
    let Some(program) = calls() else { return };
    for carrier in carriers() {
        works("2", &carrier, &program, &[WINDOWS], &given(WINDOWS, 2));
    }
}

/// Within a partition there is memory that all of its ranks have.
#[test]
fn within_a_partition_memory_is_shared_whoever_calls() {
    let Some(program) = calls() else { return };
    for carrier in some_of(&carriers(), 1) {
        let one = [carrier.as_slice(), &["--partitions", "1"].map(str::to_owned)].concat();
        works("2", &one, &program, &["memory,shared", MULTIPLE], &given("memory,shared", 3));
        // The third rank is alone in its partition.
        let alone = ["shared_here: rank 0 was given 0 at level 3".to_owned()];
        let wanted = [given("shared_here", 3), alone.to_vec()].concat();
        works("3", carrier, &program, &["shared_here", MULTIPLE], &wanted);
    }
}

/// Ranks of one job reach each other by a port, a name or a connection of their own.
#[test]
fn ranks_connect_look_up_names_and_join_over_both() {
    let Some(program) = calls() else { return };
    let wanted = ["connected, and 41 gives 42", "looked up: what was published", "joined, and 41 gives 42"];
    for carrier in some_of(&carriers(), 1) {
        works("2", carrier, &program, &["connect,lookup,join"], &wanted.map(str::to_owned));
        fails(carrier, &program, &["connect_nowhere"]);
    }
}

const NUMBERS: usize = 1000;

/// What is in a file that so many ranks have written, as `calls.c` says.
fn assert_written(path: &Path, ranks: usize) {
    let content = fs::read(path).expect("what they wrote");
    let numbers: Vec<i32> =
        content.chunks(4).map(|bytes| i32::from_le_bytes(bytes.try_into().expect("whole numbers"))).collect();
    assert_eq!(numbers.len(), NUMBERS * ranks + 3 * ranks);
    let (together, apart) = numbers.split_at(NUMBERS * ranks);
    for (at, number) in together.iter().enumerate() {
        let wanted = at % ranks * NUMBERS + at / ranks;
        assert_eq!(usize::try_from(*number), Ok(wanted), "number {at}");
    }
    let own: Vec<i32> = (0..).take(ranks).collect();
    let (ordered, rest) = apart.split_at(ranks);
    let (shared, placed) = rest.split_at(ranks);
    let mut shared = shared.to_vec();
    shared.sort_unstable();
    assert_eq!((ordered, shared.as_slice(), placed), (own.as_slice(), own.as_slice(), own.as_slice()));
}

#[test]
fn ranks_of_several_partitions_write_one_file_together() {
    let Some(program) = calls() else { return };
    for carrier in &carriers() {
        // Both of Open MPI's ways.
        for way in some_of(&["OMPI_MCA_io=ompio", "OMPI_MCA_io=romio321"], 1) {
            let folder = tempfile::tempdir().expect("the test's own files");
            let (shown, path) = (folder.path().to_str().expect("plain"), folder.path().join("numbers"));
            let arguments = ["file", path.to_str().expect("plain")];
            let output = run("3", carrier, &["--rw", shown, "--env", way], &program, &arguments);
            assert_code(&output, 0);
            let wanted = ["0", "1", "2"].map(|rank| format!("rank {rank} read 0 wrong numbers"));
            assert_eq!(lines(&output), wanted, "{carrier:?} {way}: {}", complaint(&output));
            assert_written(&path, 3);
        }
    }
}

/// A program that brings MPI itself, for itself alone.
#[test]
fn programs_that_load_mpi_when_they_run_are_refused_the_same() {
    let (Some(program), Some(extension)) =
        (made_of_c("late"), made("calls.so", "mpicc.openmpi", &["-O1", "-shared", "-fPIC"], "calls.c"))
    else {
        return;
    };
    let extension = extension.to_str().expect("plain");
    for (words, function, advice) in some_of(&REFUSALS[..2], 1) {
        refused(&program, &[&["extension", extension], *words].concat(), function, advice);
    }
}

/// Such a program comes past us: the ranks that it starts refuse to begin, and its windows Open MPI itself refuses.
#[test]
fn programs_that_look_mpi_up_by_name_end_with_a_reason() {
    let (Some(program), Some(library)) = (made_of_c("late"), library()) else { return };
    let carrier = ["--provider".to_owned(), library.to_str().expect("plain").to_owned()];
    let said = fails(&carrier, &program, &["by_name", "spawn"]);
    assert!(said.contains(NO_SPAWN), "{said}");
    fails(&carrier, &program, &["by_name", "window"]);
}
