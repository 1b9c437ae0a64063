//! What lies in a folder that somebody else could have written gives nobody anything: no program is started because of it,
//! no process ended, nothing removed beyond it. `docs/security.md` names these tests.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bulkhead::campaign::RunDir;
use bulkhead::campaign::rundir::read_experiment;
use bulkhead::model::experiment::Experiment;
use bulkhead::platforms::held_process::{MARK, boot_id, start_ticks};
use bulkhead::platforms::ledger::{Ledger, Thing};
use skips::{Need, skip};

/// A user who owns nothing here.
const STRANGER: u32 = 12_345;
/// Generous: nothing here takes long.
const PATIENCE: Duration = Duration::from_secs(60);
const EXPERIMENT: &str = "[[platform]]\nlabel = \"a\"\nkind = \"fake\"\n[probe.fwq]";

fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bulkhead"));
    command.stdin(Stdio::null());
    command
}

fn said(output: &Output) -> (Option<i32>, String) {
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// What the reaper does once its program is dead.
fn sweep(run: &Path) {
    assert!(program().arg("reaper").arg(run).output().expect("it runs").status.success());
}

/// Whether files cannot be given away here, which is said.
fn keeps_its_own() -> bool {
    let root = nix::unistd::geteuid().is_root();
    if !root {
        skip(Need::Root, "only root can give a file away");
    }
    !root
}

fn give_away(path: &Path) {
    if path.is_dir() {
        for entry in fs::read_dir(path).expect("readable") {
            give_away(&entry.expect("readable").path());
        }
    }
    chown(path, Some(STRANGER), Some(STRANGER)).expect("given away");
}

/// A program that leaves a file when it is run.
fn trap(folder: &Path, name: &str) -> (PathBuf, PathBuf) {
    let (path, sign) = (folder.join(name), folder.join("was-run"));
    fs::write(&path, format!("#!/bin/sh\necho \"$@\" > {}\n", sign.display())).expect("written");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("changed");
    (path, sign)
}

/// A ledger's line for a container that was made with this program.
fn container(run: &Path, runtime: &Path) {
    let (state, id) = (run.join("state"), "bulkhead-0123456789abcdef");
    fs::create_dir_all(state.join(id)).expect("made");
    let thing = Thing::Container { runtime: runtime.to_owned(), root: state, id: id.to_owned() };
    let _ticket = Ledger::open(run).expect("a ledger").record(thing).expect("written");
}

/// A process that leads a group of three; gone with it at the end of its test.
struct Sleeper(Child);

impl Sleeper {
    fn id(&self) -> u32 {
        self.0.id()
    }

    fn lives(&mut self) -> bool {
        self.0.try_wait().expect("asked").is_none()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        // Not waited for yet, unless a test has seen its end: then nobody is left of it.
        if self.lives() {
            let group = nix::unistd::Pid::from_raw(i32::try_from(self.id()).expect("small"));
            let _ = nix::sys::signal::killpg(group, nix::sys::signal::Signal::SIGKILL);
            let _ = self.0.wait();
        }
    }
}

fn sleeper(mark: Option<&Path>) -> Sleeper {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "sleep 1000 & sleep 1000 & wait"]).process_group(0);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    if let Some(folder) = mark {
        command.env(MARK, folder);
    }
    Sleeper(command.spawn().expect("sh runs"))
}

fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}: not within {} s", PATIENCE.as_secs());
        std::thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_run_folder_of_somebody_else_is_refused_and_nothing_in_it_runs() {
    if keeps_its_own() {
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    let run = dir.path().join("run");
    drop(RunDir::create(&run, &Experiment::from_toml(EXPERIMENT).expect("a good one"), 1).expect("made"));
    let (runtime, sign) = trap(dir.path(), "runtime");
    container(&run, &runtime);
    give_away(&run);
    let before = fs::read(run.join("started.jsonl")).expect("readable");
    for words in [&["measure", "--resume"][..], &["report"]] {
        let (code, text) = said(&program().args(words).arg(&run).output().expect("it runs"));
        assert!(!sign.exists(), "{words:?} ran the program that a stranger named");
        assert_eq!(code, Some(2), "{words:?}: {text}");
        assert!(text.contains("belongs to user 12345") && text.contains("cp -r"), "{words:?}: {text}");
    }
    sweep(&run);
    assert!(!sign.exists(), "the reaper ran the program that a stranger named");
    assert_eq!(fs::read(run.join("started.jsonl")).expect("readable"), before, "nothing is written there");
    // Looking does no harm.
    read_experiment(&run).expect("anybody's experiment can be read");
}

#[test]
fn one_file_of_somebody_else_or_open_to_others_is_enough_to_refuse() {
    let dir = tempfile::tempdir().expect("a folder");
    let run = dir.path().join("run");
    let create = |path: &Path| {
        RunDir::create(path, &Experiment::from_toml(EXPERIMENT).expect("good"), 1).expect("made")
    };
    drop(create(&run));
    let resumed = || RunDir::resume(&run).map(drop).map_err(|error| error.to_string());
    resumed().expect("ours");
    let ledger = run.join("started.jsonl");
    fs::write(&ledger, "").expect("written");
    fs::set_permissions(&ledger, fs::Permissions::from_mode(0o620)).expect("changed");
    assert!(resumed().expect_err("the group can write").contains("by its group"));
    fs::remove_file(&ledger).expect("removed");
    symlink("/etc/hosts", &ledger).expect("a link");
    assert!(resumed().expect_err("a link").contains("symbolic link"));
    fs::remove_file(&ledger).expect("removed");
    symlink(&run, dir.path().join("link")).expect("a link");
    let error = RunDir::resume(&dir.path().join("link")).map(drop).expect_err("a link").to_string();
    assert!(error.contains("symbolic link"), "{error}");
    fs::set_permissions(&run, fs::Permissions::from_mode(0o777)).expect("changed");
    let (code, text) = said(&program().args(["measure", "--resume"]).arg(&run).output().expect("it runs"));
    assert!(code == Some(2) && text.contains("can be written to by everybody"), "{code:?} {text}");
    // One that was made by hand, open to its group, becomes ours alone.
    let open = dir.path().join("open");
    fs::create_dir(&open).expect("made");
    fs::set_permissions(&open, fs::Permissions::from_mode(0o775)).expect("changed");
    drop(create(&open));
    assert_eq!(fs::metadata(&open).expect("there").permissions().mode() & 0o777, 0o755);
}

#[test]
fn files_of_a_run_are_for_its_owner_alone() {
    let dir = tempfile::tempdir().expect("a folder");
    let run = dir.path().join("run");
    let words = ["measure", "fake", "--probe", "fwq", "--rounds", "1", "--out"];
    let (code, text) = said(&program().args(words).arg(&run).output().expect("it runs"));
    assert_eq!(code, Some(0), "{text}");
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
    assert_eq!(mode(&run), 0o700);
    let mut files = 0;
    for entry in fs::read_dir(&run).expect("readable") {
        let path = entry.expect("readable").path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
        files += 1;
    }
    assert!(files >= 4, "experiment, journal, results, report");
}

#[test]
fn a_program_that_a_ledger_names_is_looked_up_again_or_not_run() {
    let dir = tempfile::tempdir().expect("a folder");
    let run = dir.path().canonicalize().expect("there");
    for name in ["my-runtime", "crun"] {
        let (runtime, sign) = trap(&run, name);
        container(&run, &runtime);
        sweep(&run);
        assert!(!sign.exists(), "{name} was run from where a file said it is");
    }
    // A state folder elsewhere is none of this run's.
    let other = tempfile::tempdir().expect("a folder");
    let (elsewhere, sign) = trap(&run, "crun");
    let id = "bulkhead-0123456789abcdef";
    fs::create_dir_all(other.path().join(id)).expect("made");
    let thing = Thing::Container { runtime: elsewhere, root: other.path().to_owned(), id: id.to_owned() };
    let _ticket = Ledger::open(&run).expect("a ledger").record(thing).expect("written");
    sweep(&run);
    assert!(!sign.exists() && other.path().join(id).exists());
}

#[test]
fn a_stranger_whose_number_stands_in_a_ledger_lives() {
    let dir = tempfile::tempdir().expect("a folder");
    let ledger = Ledger::open(dir.path()).expect("a ledger");
    let elsewhere = tempfile::tempdir().expect("a folder");
    let strangers = [sleeper(None), sleeper(Some(elsewhere.path()))];
    for stranger in &strangers {
        // Number, start and boot are right: only who it is is not.
        let _ticket = ledger.record(Thing::process(stranger.id()).expect("it runs")).expect("written");
    }
    sweep(dir.path());
    let told = bulkhead::platforms::ledger::sweep(dir.path());
    assert!(told.iter().all(|line| line.contains("refused to end process")), "{told:?}");
    assert_eq!(told.len(), 2, "{told:?}");
    for mut stranger in strangers {
        assert!(stranger.lives(), "a stranger was killed");
    }
}

#[test]
fn what_was_started_is_killed_with_its_group() {
    let dir = tempfile::tempdir().expect("a folder");
    let ledger = Ledger::open(dir.path()).expect("a ledger");
    let mut child = sleeper(Some(ledger.dir()));
    let members = || -> Vec<u32> {
        let of_group = |pid: &u32| {
            let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            let group =
                stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(2)?.parse().ok());
            group == Some(child.id())
        };
        let names = fs::read_dir("/proc").expect("readable").flatten();
        let pids = names.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        pids.filter(of_group).filter(|pid| start_ticks(*pid).is_some()).collect()
    };
    wait_until("its children run", || members().len() == 3);
    let all = members();
    let _ticket = ledger.record(Thing::process(child.id()).expect("it runs")).expect("written");
    sweep(dir.path());
    assert!(!child.0.wait().expect("reaped").success());
    wait_until("all are gone", || all.iter().all(|pid| start_ticks(*pid).is_none()));
}

#[test]
fn what_others_made_in_the_shared_temporary_folder_stays() {
    if keeps_its_own() {
        return;
    }
    let shared = tempfile::tempdir().expect("a folder");
    fs::set_permissions(shared.path(), fs::Permissions::from_mode(0o1777)).expect("changed");
    let run = tempfile::tempdir().expect("a folder");
    let ledger = Ledger::open(run.path()).expect("a ledger");
    for (name, theirs) in [("bulkhead-theirs", true), ("bulkhead-ours", false)] {
        let path = shared.path().canonicalize().expect("there").join(name);
        fs::create_dir_all(path.join("deep")).expect("made");
        fs::write(path.join("deep/file"), "x").expect("written");
        if theirs {
            give_away(&path);
        }
        for path in [path.join("deep"), path] {
            let _ticket = ledger.record(Thing::Directory { path }).expect("written");
        }
    }
    let mut reaper = program();
    reaper.arg("reaper").arg(run.path()).env("TMPDIR", shared.path());
    assert!(reaper.output().expect("it runs").status.success());
    assert!(shared.path().join("bulkhead-theirs/deep/file").exists(), "somebody else's folder was emptied");
    assert!(!shared.path().join("bulkhead-ours").exists());
}

/// A folder in the run is exchanged for a link again and again while sweeps remove what lies in it.
#[test]
fn a_folder_exchanged_for_a_link_leads_no_sweep_out() {
    let (run, outside) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    let root = run.path().canonicalize().expect("there");
    let (folder, link) = (root.join("folder"), root.join("link"));
    let precious = outside.path().join("thing/precious");
    fs::create_dir_all(precious.parent().expect("has one")).expect("made");
    fs::write(&precious, "x").expect("written");
    fs::create_dir(&folder).expect("made");
    symlink(outside.path(), &link).expect("a link");
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let flags = nix::fcntl::RenameFlags::RENAME_EXCHANGE;
            while !stop.load(Ordering::Relaxed) {
                let at = nix::fcntl::AT_FDCWD;
                nix::fcntl::renameat2(at, &folder, at, &link, flags).expect("exchanged");
            }
        });
        for _ in 0..3000 {
            fs::remove_file(root.join("started.jsonl")).ok();
            let ledger = Ledger::open(&root).expect("a ledger");
            let _ticket = ledger.record(Thing::Directory { path: folder.join("thing") }).expect("written");
            bulkhead::platforms::ledger::sweep(&root);
            if !precious.exists() {
                break;
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(precious.exists(), "a sweep was led out of its folder");
}

/// A folder of all sets with one that has a partition kept by this process.
fn set_kept_by(state: &Path, pid: u32) {
    let partition = state.join("plant/p/plc");
    fs::create_dir_all(&partition).expect("made");
    for folder in [state, &state.join("plant"), &state.join("plant/p"), &partition] {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).expect("changed");
    }
    let start = start_ticks(pid).expect("it runs");
    let supervisor = format!("{{\"pid\":{pid},\"start_ticks\":{start},\"boot_id\":\"{}\"}}", boot_id());
    fs::write(partition.join("supervisor.json"), supervisor).expect("written");
}

#[test]
fn a_stranger_that_a_set_calls_its_supervisor_lives() {
    let dir = tempfile::tempdir().expect("a folder");
    let state = dir.path().join("state");
    let mut stranger = sleeper(None);
    set_kept_by(&state, stranger.id());
    let (code, text) =
        said(&program().args(["down", "plant"]).env("BULKHEAD_STATE", &state).output().expect("it runs"));
    assert!(stranger.lives(), "a stranger was ended: {text}");
    assert_ne!(code, Some(0), "{text}");
    assert!(text.contains("refused to end process"), "{text}");
}

#[test]
fn a_set_of_somebody_else_is_refused() {
    if keeps_its_own() {
        return;
    }
    let dir = tempfile::tempdir().expect("a folder");
    for theirs in ["", "plant", "plant/p/plc/supervisor.json"] {
        let state = dir.path().join(format!("state{}", theirs.len()));
        let mut kept = sleeper(Some(&state.join("plant/p/plc")));
        set_kept_by(&state, kept.id());
        give_away(&state.join(theirs));
        let (code, text) =
            said(&program().args(["down", "plant"]).env("BULKHEAD_STATE", &state).output().expect("it runs"));
        assert!(kept.lives(), "{theirs:?}: ended because of a stranger's file: {text}");
        if !theirs.ends_with("json") {
            assert_eq!(code, Some(2), "{theirs:?}: {text}");
            assert!(text.contains("belongs to user 12345"), "{theirs:?}: {text}");
        }
    }
}

/// Where others can write, somebody may have put a kernel: where the cache was named, and where it was without HOME.
#[test]
fn a_kernel_that_somebody_else_put_into_the_shared_temporary_folder_is_not_used() {
    if keeps_its_own() {
        return;
    }
    let (dir, shared) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
    fs::set_permissions(shared.path(), fs::Permissions::from_mode(0o1777)).expect("changed");
    for name in ["bulkhead", "bulkhead-cache", "bulkhead-cache-0"] {
        let boot = shared.path().join(name).join("kernel/boot");
        fs::create_dir_all(&boot).expect("made");
        fs::write(boot.join("vmlinuz-99.0.0-evil"), "evil").expect("written");
        let modules = shared.path().join(name).join("kernel/lib/modules/99.0.0-evil");
        fs::create_dir_all(modules).expect("made");
        give_away(&shared.path().join(name));
    }
    let file = dir.path().join("works.toml");
    fs::write(&file, "accelerator = \"tcg\"\n[partition.hello]\nprogram = [\"/bin/true\"]\n")
        .expect("written");
    for named in [true, false] {
        let out = dir.path().join(format!("out-{named}"));
        let mut command = program();
        command.arg("up").arg(&file).args(["--emit", "qemu", "--out"]).arg(&out).env("TMPDIR", shared.path());
        for name in ["HOME", "XDG_CACHE_HOME", "BULKHEAD_CACHE", "XDG_RUNTIME_DIR"] {
            command.env_remove(name);
        }
        if named {
            command.env("XDG_CACHE_HOME", shared.path());
        }
        let (_, text) = said(&command.output().expect("it runs"));
        let booted = fs::read(out.join("kernel")).unwrap_or_default();
        assert!(booted != b"evil" && !text.contains("99.0.0-evil"), "a stranger's kernel was taken: {text}");
        assert_eq!(text.contains("is not used") && text.contains("belongs to user 12345"), named, "{text}");
    }
}

#[test]
fn a_cache_folder_becomes_ours_alone_and_one_open_to_others_is_not_used() {
    let dir = tempfile::tempdir().expect("a folder");
    let plan = |cache: &Path| {
        let mut command = program();
        command.args(["measure", "--plan", "fake", "--probe", "fwq"]).env("BULKHEAD_CACHE", cache);
        for name in ["XDG_CACHE_HOME", "XDG_RUNTIME_DIR"] {
            command.env_remove(name);
        }
        command.env("HOME", "/proc/self").env("TMPDIR", dir.path());
        said(&command.output().expect("it runs"))
    };
    let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o777;
    let cache = dir.path().join("bulkhead");
    fs::create_dir(&cache).expect("made");
    fs::set_permissions(&cache, fs::Permissions::from_mode(0o755)).expect("changed");
    let (code, text) = plan(&cache);
    assert!(code == Some(0) && !text.contains("is not used"), "{code:?} {text}");
    assert_eq!(mode(&cache), 0o700);
    fs::create_dir(cache.join("kernel")).expect("made");
    fs::set_permissions(cache.join("kernel"), fs::Permissions::from_mode(0o777)).expect("changed");
    let (code, text) = plan(&cache);
    assert!(code == Some(0) && text.contains("is not used") && text.contains("chmod"), "{code:?} {text}");
    // The one that was used instead was for this call only.
    let entries = fs::read_dir(dir.path()).expect("there").flatten().map(|entry| entry.path());
    let instead: Vec<_> =
        entries.filter(|path| path.display().to_string().contains("bulkhead-cache-")).collect();
    assert!(instead.is_empty(), "{instead:?}");
    symlink(&cache, dir.path().join("link")).expect("a link");
    let (_, text) = plan(&dir.path().join("link"));
    assert!(text.contains("symbolic link"), "{text}");
}

/// What somebody has mounted in a run folder is not ours to empty.
#[test]
fn nothing_is_removed_through_a_mount() {
    if !nix::unistd::geteuid().is_root() {
        return skip(Need::Root, "only root mounts");
    }
    let dir = tempfile::tempdir().expect("a folder");
    let (run, precious) = (dir.path().join("run"), dir.path().join("precious"));
    fs::create_dir_all(run.join("below/mounted")).expect("made");
    fs::create_dir(&precious).expect("made");
    fs::write(precious.join("file"), "kept").expect("written");
    // In a view of its own, which ends with the process.
    let script = "mount --bind \"$1\" \"$0/below/mounted\" && exec \"$2\" --exact foreign_files::removes_what_it_is_told --ignored --nocapture";
    let myself = std::env::current_exe().expect("this test");
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script]).arg(&run).arg(&precious).arg(myself).env("REMOVED", &run);
    let output = command.output().expect("unshare runs");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && said.contains("something is mounted there"), "{said}");
    assert_eq!(fs::read_to_string(precious.join("file")).expect("it is there"), "kept");
}

#[test]
#[ignore = "started by the test above, in a view of its own"]
fn removes_what_it_is_told() {
    let run = std::path::PathBuf::from(std::env::var_os("REMOVED").expect("started by the other test"));
    let open = bulkhead::platforms::own_folder::OwnFolder::open(
        &run,
        bulkhead::platforms::own_folder::Others::MayLook,
    );
    println!("{:?}", open.expect("ours").remove(Path::new("below")));
}
