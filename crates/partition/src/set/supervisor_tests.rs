//! Supervisors with a stand-in for the partition: the policy, the orders, what is written down.

use std::io::Write;
use std::sync::atomic::AtomicU32;

use super::*;
use crate::set::images::Images;
use crate::set::resolve;
use model::experiment::Accelerator;
use model::partition::set::{Faults, PartitionSet, SET_SCHEMA, SetRecord, Tools};

/// A folder with a unit spec, for a partition that is restarted as `restart` says, at most `limit` times.
fn folder(restart: &str, limit: u32) -> tempfile::TempDir {
    let text = format!(
        "name = \"s\"\n[partition.x]\nprogram = [\"x\"]\nrestart = \"{restart}\"\nrestart_limit = {limit}\n"
    );
    let set = PartitionSet::from_toml(&text, "s").expect("a set");
    let accelerator = Accelerator::Tcg;
    let tools = Tools {
        accelerator,
        cache: "/c".into(),
        qemu: None,
        kernel: None,
        modules: None,
        boot_deadline_s: None,
    };
    let kept = resolve::kept(&set, &tools, Path::new("/x"), &Images::new(), &mut Faults::default());
    let dir = tempfile::tempdir().expect("a directory");
    fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o700)).expect("ours alone");
    folder::write_unit(dir.path(), &kept[0].unit).expect("written");
    dir
}

/// Keeps what is in `dir`, run by `run`; returns the last state.
fn kept(dir: &Path, cancel: &Cancel, run: &Runner<'_>) -> KeptState {
    let (read, mut go) = std::io::pipe().expect("a pipe");
    go.write_all(&[GO]).expect("written");
    let means = Means { cancel, exe: Path::new("/x"), counter_hz: None, run };
    keep(dir, read.into(), &means).expect("kept");
    folder::read_state(dir).expect("a state")
}

#[test]
fn nothing_is_done_when_whoever_started_it_died() {
    let dir = folder("always", 5);
    let (read, go) = std::io::pipe().expect("a pipe");
    drop(go);
    let run: &Runner<'_> = &|_, _, _, _, _| panic!("not to be run");
    let cancel = Cancel::new();
    let means = Means { cancel: &cancel, exe: Path::new("/x"), counter_hz: None, run };
    keep(dir.path(), read.into(), &means).expect("ended");
    assert_eq!(folder::read_state(dir.path()), None);
}

#[test]
fn the_policy_says_what_is_started_again() {
    use ProgramEnd::{Exit, Signal};
    // Ends of the program one after the other, the phase then, how often it was started again.
    let failed = || Outcome::Failed(Failed::own("it broke"));
    for (restart, ends, phase, restarts) in [
        ("never", vec![Outcome::Ended(Exit(1))], Phase::Ended, 0),
        ("never", vec![failed()], Phase::Failed, 0),
        ("on-failure", vec![Outcome::Ended(Exit(1)), Outcome::Ended(Exit(0))], Phase::Ended, 1),
        ("on-failure", vec![Outcome::Ended(Signal(9)), failed()], Phase::Failed, 1),
        ("always", vec![Outcome::Ended(Exit(0)), Outcome::Ended(Exit(0))], Phase::Failed, 1),
    ] {
        let dir = folder(restart, 1);
        let runs = AtomicU32::new(0);
        let run: &Runner<'_> = &|_, _, _, _, tell| {
            tell(Event::Created { pid: std::process::id(), files: None, engine: "tcg" });
            tell(Event::Started);
            ends[runs.fetch_add(1, Ordering::SeqCst) as usize].clone()
        };
        let state = kept(dir.path(), &Cancel::new(), run);
        assert_eq!((state.phase, state.restarts), (phase, restarts), "{restart} {ends:?}: {state:?}");
        assert_eq!(runs.load(Ordering::SeqCst) as usize, ends.len(), "{restart} {ends:?}");
        assert_eq!(state.process, None);
    }
}

#[test]
fn what_never_ran_is_not_started_again() {
    let dir = folder("always", 5);
    let run: &Runner<'_> = &|_, _, _, _, _| Outcome::Failed(Failed::own("not found"));
    let state = kept(dir.path(), &Cancel::new(), run);
    assert_eq!((state.phase, state.restarts), (Phase::Failed, 0));
    assert_eq!(state.last.expect("an end").reason, "not found");
}

#[test]
fn it_ends_when_told_and_is_not_started_again() {
    let dir = folder("always", 5);
    let cancel = Cancel::new();
    let run: &Runner<'_> = &|_, _, _, orders, tell| {
        tell(Event::Started);
        cancel.cancel();
        assert_eq!(orders.recv_timeout(Duration::from_secs(60)), Ok(Order::Signal(15)));
        Outcome::Ended(ProgramEnd::Signal(15))
    };
    assert_eq!(kept(dir.path(), &cancel, run).phase, Phase::Stopped);

    // What boots is not asked: nobody would hear.
    let dir = folder("always", 5);
    let cancel = Cancel::new();
    let run: &Runner<'_> = &|_, _, _, orders, _| {
        cancel.cancel();
        assert_eq!(orders.recv_timeout(Duration::from_secs(60)), Ok(Order::Kill));
        Outcome::Failed(Failed::own("killed"))
    };
    assert_eq!(kept(dir.path(), &cancel, run).phase, Phase::Stopped);
}

#[test]
fn each_start_knows_who_is_in_the_set_by_then() {
    let root = tempfile::tempdir().expect("a directory");
    let own = root.path().join("p/x");
    crate::set::root::make_private(&own).expect("a directory");
    fs::copy(folder("on-failure", 1).path().join("unit.json"), own.join("unit.json")).expect("copied");
    let write = |others: &str| {
        let text = format!(
            "name = \"s\"\n[network.a]\n[partition.x]\nprogram = [\"x\"]\nnetworks = [\"a\"]\n{others}"
        );
        let set = PartitionSet::from_toml(&text, "s").expect("a set");
        let record = SetRecord { schema_version: SET_SCHEMA, file: "/s.toml".into(), set };
        folder::write_set(root.path(), &record).expect("written");
    };
    write("");
    let heard = Mutex::new(Vec::new());
    let run: &Runner<'_> = &|_, _, around, _, tell| {
        tell(Event::Started);
        let names: Vec<String> = around.names.iter().map(|named| named.name.clone()).collect();
        let mut heard = heard.lock().expect("no panic");
        heard.push(names.join(" "));
        write("[partition.y]\nprogram = [\"y\"]\nnetworks = [\"a\"]\n");
        Outcome::Ended(ProgramEnd::Exit(u8::from(heard.len() == 1)))
    };
    assert_eq!(kept(&own, &Cancel::new(), run).phase, Phase::Ended);
    assert_eq!(*heard.lock().expect("no panic"), ["x", "x y"]);
}

#[test]
fn what_the_program_says_is_kept() {
    let dir = folder("never", 5);
    let run: &Runner<'_> = &|_, streams, _, _, tell| {
        tell(Event::Started);
        File::from(streams.output).write_all(b"out").expect("written");
        File::from(streams.error).write_all(b"error").expect("written");
        let mut input = Vec::new();
        File::from(streams.input).read_to_end(&mut input).expect("read");
        assert!(input.is_empty());
        Outcome::Ended(ProgramEnd::Exit(0))
    };
    assert_eq!(kept(dir.path(), &Cancel::new(), run).phase, Phase::Ended);
    assert_eq!(fs::read(dir.path().join("stdout.log")).expect("a log"), b"out");
    assert_eq!(fs::read(dir.path().join("stderr.log")).expect("a log"), b"error");
}

#[test]
fn memory_that_ran_out_is_blamed_for_what_it_ended_and_else_said_to_be_before() {
    let second = 1_000_000_000;
    let out_of_memory =
        OutOfMemory { at_unix_ns: Nanos::from_nanos(10 * second), reason: "memory ran out".to_owned() };
    let said = |how, at: u64| blamed(&out_of_memory, how, Nanos::from_nanos(at * second));
    assert_eq!(said(ProgramEnd::Signal(9), 30), ": memory ran out");
    assert_eq!(said(ProgramEnd::Exit(2), 10), ": memory ran out");
    assert_eq!(said(ProgramEnd::Exit(3), 24), "; 14 s before, memory ran out");
    // A clock that was set back.
    assert_eq!(said(ProgramEnd::Exit(3), 1), ": memory ran out");
}
