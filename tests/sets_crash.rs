//! `kill -9` at any moment: of `up`, of supervisors, of `down`. Everything is found again or undone, nothing is left behind.
//!
//! The moments are random; the seed is printed, `BULKHEAD_SEED` sets it. With `BULKHEAD_SETS_FULL` eight partitions under a
//! real QEMU are killed at twenty moments, which takes many minutes on two cores.

use crate::set_fixture;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bulkhead::model::partition::set::{Phase, SetStatus};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use set_fixture::{Bench, PATIENCE, kill, pause, said};
use skips::{Need, skip};

/// Partitions that sleep, half of them after another one, the first two with a channel.
fn sleepers(count: usize, more: &str) -> String {
    let one = |number: usize| {
        let after = if number % 2 == 1 { format!("after = [\"p{}\"]\n", number - 1) } else { String::new() };
        format!("[partition.p{number}]\nprogram = [\"/bin/sleep\", \"100000\"]\n{after}{more}")
    };
    let channel = "[channel.first]\nwriter = \"p0\"\nreaders = [\"p1\"]\nsize_mib = 1\n";
    (0..count).map(one).chain([channel.to_owned()]).collect()
}

fn seed() -> u64 {
    let named = std::env::var("BULKHEAD_SEED").ok().and_then(|text| text.parse().ok());
    let seed = named.unwrap_or_else(|| u64::from(std::process::id()));
    eprintln!("BULKHEAD_SEED={seed}");
    seed
}

/// Cgroups of ours in which partitions are.
fn cgroups(set: Option<&SetStatus>) -> Vec<PathBuf> {
    let given =
        set.into_iter().flat_map(|set| &set.partitions).filter_map(|partition| partition.given.as_ref());
    let ours = |path: &PathBuf| {
        path.components().any(|part| part.as_os_str().to_string_lossy().contains("bulkhead"))
    };
    given.filter_map(|given| given.cgroup.as_ref()).map(PathBuf::from).filter(ours).collect()
}

/// One bench with its file; what a call usually takes is learnt.
struct Scene {
    bench: Bench,
    file: PathBuf,
    count: usize,
    up_takes: Duration,
    down_takes: Duration,
}

impl Scene {
    fn new(bench: Bench, count: usize, more: &str) -> Self {
        let file = bench.file("crash.toml", &sleepers(count, more));
        let mut scene = Self { bench, file, count, up_takes: Duration::ZERO, down_takes: Duration::ZERO };
        (scene.up_takes, scene.down_takes) = (scene.up(), scene.down());
        eprintln!("{count} partitions: up {:.1?}, down {:.1?}", scene.up_takes, scene.down_takes);
        scene
    }

    fn up(&self) -> Duration {
        let begun = Instant::now();
        let told = self.bench.up(&self.file);
        assert_eq!(told.code, Some(0), "{told:?}");
        self.all_run();
        begun.elapsed()
    }

    fn down(&self) -> Duration {
        let begun = Instant::now();
        let groups = cgroups(self.bench.ps().as_ref());
        let told = self.bench.call(&["down", "crash"]);
        assert_eq!(told.code, Some(0), "{told:?}");
        assert_eq!(self.bench.ps(), None);
        // The undo process of an `up` that was killed may need a moment to see that there is nothing to do.
        self.bench.assert_nothing_left("by down");
        let left: Vec<&PathBuf> = groups.iter().filter(|path| path.exists()).collect();
        assert!(left.is_empty(), "{left:?}");
        begun.elapsed()
    }

    fn all_run(&self) {
        let set = self.bench.ps().expect("it is up");
        let run = set.partitions.iter().filter(|partition| partition.phase == Phase::Running);
        assert_eq!(run.count(), self.count, "{set:?}");
    }

    /// Starts the program, kills it at a moment of what it usually takes; whether it was still running.
    fn kill_at(&self, words: &[&str], takes: Duration, share: f64) -> bool {
        let mut child = self.bench.begin(words);
        std::thread::sleep(takes.mul_f64(share));
        let lived = child.try_wait().expect("asked").is_none();
        child.kill().expect("killed");
        let told = said(&child.wait_with_output().expect("reaped"));
        assert!(lived || told.code == Some(0), "{told:?}");
        lived
    }

    fn kill_up(&self, share: f64) {
        let lived = self.kill_at(&["up", self.file.to_str().expect("plain")], self.up_takes, share);
        // Undone without anybody's doing; or it had come to its end before the kill.
        let until = Instant::now() + PATIENCE;
        while !self.bench.left().is_empty() {
            let whole = self.bench.ps().is_some_and(|set| {
                set.busy.is_none() && set.partitions.iter().all(|partition| partition.phase == Phase::Running)
            });
            if whole && !undertaking(&self.bench.state()) {
                self.all_run();
                self.up();
                self.down();
                return;
            }
            assert!(Instant::now() < until, "left behind by up:\n{}", self.bench.left().join("\n"));
            std::thread::sleep(Duration::from_millis(30));
        }
        assert!(lived, "it had ended well, and its set is gone");
    }

    /// An `up` in place of one that was killed a moment ago finds what to do.
    fn kill_up_and_go_on(&self, share: f64) {
        self.kill_at(&["up", self.file.to_str().expect("plain")], self.up_takes, share);
        self.up();
        self.down();
    }

    fn kill_supervisor(&self, share: f64) {
        self.up();
        let set = self.bench.ps().expect("it is up");
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a share of a small number"
        )]
        let victim = &set.partitions[(share * self.count as f64) as usize];
        kill(victim.supervisor_pid.expect("a supervisor"));
        self.bench.wait_for(&victim.name, Phase::Lost);
        let others = |set: SetStatus| -> Vec<_> {
            let others = set.partitions.into_iter().filter(|partition| partition.name != victim.name);
            others.map(|partition| (partition.name, partition.phase, partition.pid)).collect()
        };
        assert_eq!(
            others(self.bench.ps().expect("it is up")),
            others(set.clone()),
            "only its own partition ends"
        );
        self.up();
        assert_eq!(others(self.bench.ps().expect("it is up")), others(set.clone()), "the others were left");
        self.down();
    }

    fn kill_down(&self, share: f64) {
        self.up();
        self.kill_at(&["down", "crash"], self.down_takes, share);
        if self.bench.ps().is_some() {
            self.bench.call(&["ps"]);
        }
        // Told to end again, or gone already.
        let told = self.bench.call(&["down", "crash"]);
        assert!(matches!(told.code, Some(0 | 2)), "{told:?}");
        assert_eq!(self.bench.ps(), None, "{told:?}");
        self.bench.assert_nothing_left("by a second down");
    }
}

/// Whether an `up` has not come to its end.
fn undertaking(state: &Path) -> bool {
    state.join("crash/up.json").exists()
}

fn rehearse(scene: &Scene, moments: u32) {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed());
    for number in 0..moments {
        let share: f64 = random.random_range(0.0..1.0);
        let kind = ["up", "up, then up again", "a supervisor", "down"][number as usize % 4];
        eprintln!("{number}: kill -9 of {kind} at {share:.3}");
        match number % 4 {
            0 => scene.kill_up(share),
            1 => scene.kill_up_and_go_on(share),
            2 => scene.kill_supervisor(share),
            _ => scene.kill_down(share),
        }
        scene.bench.assert_nothing_left("after all");
    }
}

#[test]
fn killed_at_random_moments_nothing_is_left() {
    let bench = Bench::pretending();
    let scene = Scene::new(bench, 4, "env = { PRETEND_BOOT_MS = \"150\" }\n");
    rehearse(&scene, 20);
}

#[test]
fn a_killed_qemu_is_an_end_like_any_other() {
    let bench = Bench::pretending();
    let text = "[partition.a]\nprogram = [\"/bin/sleep\", \"1000\"]\n[partition.b]\nprogram = [\"/bin/sleep\", \"1000\"]\n\
                restart = \"always\"\n";
    let file = bench.file("crash.toml", text);
    assert_eq!(bench.up(&file).code, Some(0));
    let pid = |name: &str| bench.wait_for(name, Phase::Running).pid.expect("a process");
    kill(pid("a"));
    let b = pid("b");
    kill(b);
    let told = bench.wait_for("a", Phase::Failed);
    assert!(told.last.expect("an end").reason.contains("SIGKILL"));
    let until = Instant::now() + PATIENCE;
    while bench.wait_for("b", Phase::Running).restarts == 0 {
        assert!(Instant::now() < until, "b is not started again");
    }
    assert!(pid("b") != b);
    assert_eq!(bench.call(&["down"]).code, Some(0));
    assert_eq!(bench.left(), Vec::<String>::new());
}

#[test]
fn real_guests_come_up_are_shown_and_leave_nothing() {
    if !set_fixture::guests_are_there() {
        return;
    }
    let scene = Scene::new(Bench::real(), 3, "memory_mib = 192\n");
    scene.kill_up(0.5);
    scene.kill_supervisor(0.5);
}

/// Twenty moments with eight real guests; only where it is asked for.
#[test]
fn eight_real_guests_survive_twenty_kills() {
    if std::env::var_os("BULKHEAD_SETS_FULL").is_none() {
        return skip(Need::Long, "BULKHEAD_SETS_FULL is not set");
    }
    if !set_fixture::guests_are_there() {
        return;
    }
    rehearse(&Scene::new(Bench::real(), 8, "memory_mib = 192\n"), 20);
}

/// A supervisor and what it keeps is killed; the watcher, another supervisor or both find that, and nobody calls `up`.
#[test]
fn a_killed_supervisor_is_started_again_as_its_policy_says() {
    let bench = Bench::pretending();
    let text = "[network.control]\n\
                [partition.a]\nprogram = [\"/bin/sleep\", \"1000\"]\nrestart = \"always\"\nrestart_limit = 2\n\
                networks = [\"control\"]\n\
                [partition.b]\nprogram = [\"/bin/sleep\", \"1000\"]\n";
    let file = bench.file("crash.toml", text);
    let told = bench.up(&file);
    assert_eq!(told.code, Some(0), "{told:?}");
    let set = bench.ps().expect("it is up");
    let (watcher, b) = (set.watcher_pid.expect("a watcher"), set.partitions[1].clone());
    let again = |restarts: u32| {
        let until = Instant::now() + PATIENCE;
        loop {
            let a = bench.wait_for("a", Phase::Running);
            if a.restarts == restarts {
                return a;
            }
            assert!(Instant::now() < until, "a is not started again: {a:?}");
            std::thread::sleep(Duration::from_millis(20));
        }
    };
    let first = again(0);
    let killed = Instant::now();
    kill(first.supervisor_pid.expect("a supervisor"));
    let second = again(1);
    assert!(killed.elapsed() > Duration::from_secs(1), "the back-off of the policy is kept");
    assert!(first.pid != second.pid && first.supervisor_pid != second.supervisor_pid);
    assert_eq!(second.last.map(|last| last.reason).as_deref(), Some("its supervisor was killed"));

    // The watcher itself: a supervisor starts another one, which goes on.
    kill(watcher);
    let until = Instant::now() + PATIENCE;
    while bench.ps().expect("it is up").watcher_pid.is_none_or(|pid| pid == watcher) {
        assert!(Instant::now() < until, "nobody watches any more");
        std::thread::sleep(Duration::from_millis(20));
    }
    // The limit counts over all supervisors.
    kill(second.supervisor_pid.expect("a supervisor"));
    kill(again(2).supervisor_pid.expect("a supervisor"));
    let failed = bench.wait_for("a", Phase::Failed);
    let why = failed.last.expect("an end").reason;
    assert_eq!(why, "its supervisor was killed; started again 2 times without a good run");

    // What is not to be started again is not, and says so; a switch is.
    kill(b.supervisor_pid.expect("a supervisor"));
    let switch = bench.ps().expect("it is up").switches.remove(0);
    kill(switch.supervisor_pid.expect("a supervisor"));
    bench.wait_for("b", Phase::Lost);
    let until = Instant::now() + PATIENCE;
    loop {
        let now = bench.ps().expect("it is up").switches.remove(0);
        assert!(now.phase != Phase::Running || now.pid.is_some(), "{now:?}");
        if now.phase == Phase::Running && now.pid != switch.pid && now.restarts == 1 {
            break;
        }
        assert!(Instant::now() < until, "the switch is not started again: {now:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
    bench.wait_for("b", Phase::Lost);
    let shown = bench.call(&["ps"]).out;
    assert!(shown.contains("control.0 running"), "{shown}");
    assert!(shown.contains("b: its supervisor was killed; bulkhead up starts both anew"), "{shown}");
    assert_eq!(bench.call(&["down"]).code, Some(0));
    assert_eq!(bench.left(), Vec::<String>::new());
}

/// All of a set's processes at once: nobody is left to start anything again, nothing is left of what ran.
#[test]
fn watchers_and_supervisors_killed_together_leave_nothing() {
    let bench = Bench::pretending();
    let text = "[partition.a]\nprogram = [\"/bin/sleep\", \"1000\"]\nrestart = \"always\"\n";
    let file = bench.file("crash.toml", text);
    assert_eq!(bench.up(&file).code, Some(0));
    let set = bench.ps().expect("it is up");
    let supervisor = set.partitions[0].supervisor_pid.expect("a supervisor");
    // It could see that its watcher is gone before its own turn comes, and start another.
    pause(supervisor);
    kill(set.watcher_pid.expect("a watcher"));
    kill(supervisor);
    bench.wait_for("a", Phase::Lost);
    let until = Instant::now() + PATIENCE;
    while !bench.processes().is_empty() {
        assert!(Instant::now() < until, "left behind: {:?}", bench.processes());
        std::thread::sleep(Duration::from_millis(20));
    }
    // `up` brings both back, and `down` ends both for good.
    assert_eq!(bench.up(&file).code, Some(0));
    assert!(bench.ps().expect("it is up").watcher_pid.is_some());
    assert_eq!(bench.call(&["down"]).code, Some(0));
    assert_eq!(bench.left(), Vec::<String>::new());
}

/// Also when its supervisor was killed before: nobody starts it again until somebody wants that, and then it is watched anew.
#[test]
fn what_was_stopped_by_hand_is_not_started_again() {
    let bench = Bench::pretending();
    let part = "program = [\"/bin/sleep\", \"1000\"]\nrestart = \"always\"\n";
    let file = bench.file("crash.toml", &format!("[partition.a]\n{part}[partition.b]\n{part}"));
    let told = bench.up(&file);
    assert_eq!(told.code, Some(0), "{told:?}");
    kill(bench.wait_for("a", Phase::Running).supervisor_pid.expect("a supervisor"));
    let told = bench.call(&["stop", "a"]);
    assert!(told.code == Some(0) && told.err.contains("a: stopped"), "{told:?}");
    // The watcher looks each second.
    std::thread::sleep(Duration::from_secs(4));
    assert_eq!(bench.phases(), "a stopped, b running");
    let told = bench.call(&["start", "a"]);
    assert_eq!(told.code, Some(0), "{told:?}");
    kill(bench.wait_for("a", Phase::Running).supervisor_pid.expect("a supervisor"));
    let until = Instant::now() + PATIENCE;
    while bench.wait_for("a", Phase::Running).restarts != 1 {
        assert!(Instant::now() < until, "a is not started again");
        std::thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(bench.call(&["down"]).code, Some(0));
    assert_eq!(bench.left(), Vec::<String>::new());
}
