//! A probe measures in a partition of its own: it is placed as the one that the requirement is about, which goes on or stands still
//! meanwhile, and is gone afterwards. What groups above a partition take from it is a difference of its place. Of one that is stopped
//! nothing is decided by what cannot be tried there.

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::time::Duration;

use bulkhead::model::verification::RequirementVerdict;

use crate::set_fixture::{Bench, guests_are_there, verdicts};
use crate::verify_fixture::weight_of;

/// Who looks at once into a partition that is to stand still: more take CPU time from what is measured.
const MOST_LOOKERS: usize = 16;
const LOOK_EVERY: Duration = Duration::from_millis(200);

const SET: &str = r#"
[partition.a]
program = ["/bin/sleep", "1000"]
pin = "1"
memory_mib = 160
cpu_weight = 50

[requirement.B]
text = "A system call takes no longer than a millisecond where a is, beside it."
partition = "a"
metric = "syscall.call_ns"
at_most = "1 ms"
load = ["cpu", "cpu@a"]
budget_s = 600
probe_partition = true

[requirement.I]
text = "Nor does a read of the counter in its place, for as long as others need to look at it."
partition = "a"
metric = "gap.read_ns"
params = { duration_ms = 3000 }
at_most = "1 ms"
load = "as-is"
budget_s = 600
probe_partition = true
paused = true
"#;

/// How a QEMU is placed: CPUs of its threads, weight, and memory in its own words.
fn placed(pid: u32) -> Option<(BTreeSet<String>, String, String)> {
    let threads = fs::read_dir(format!("/proc/{pid}/task")).ok()?.flatten();
    let allowed = threads.filter_map(|thread| {
        let status = fs::read_to_string(thread.path().join("status")).ok()?;
        status
            .lines()
            .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))
            .map(|list| list.trim().to_owned())
    });
    let words = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let words: Vec<String> =
        words.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect();
    let memory = words.iter().skip_while(|word| *word != "-m").nth(1)?.clone();
    Some((allowed.collect(), weight_of(pid)?, memory))
}

/// QEMUs of this test, by number.
fn machines(bench: &Bench) -> BTreeSet<u32> {
    let all = bench.processes().into_iter().filter(|line| line.contains("qemu-system"));
    all.filter_map(|line| line.split(' ').next().and_then(|pid| pid.parse().ok())).collect()
}

/// Those who look at the program of `a` from inside, several at a time: who is there just when all is held is held as well.
#[derive(Default)]
struct Lookers(Vec<Child>);

impl Lookers {
    /// Begins to look once more; whether one that has ended saw it stand still.
    fn look(&mut self, bench: &Bench, most: usize) -> bool {
        if self.0.len() < most {
            let look = "for one in /proc/[0-9]*/stat; do read -r line <$one; echo \"$line\"; done";
            self.0.push(bench.begin(&["exec", "--in", "plant/a", "--", "/bin/sh", "-c", look]));
        }
        self.has_seen()
    }

    fn has_seen(&mut self) -> bool {
        let (mut at, mut stands) = (0, false);
        while at < self.0.len() {
            if self.0[at].try_wait().expect("it is ours").is_none() {
                at += 1;
                continue;
            }
            let said = self.0.swap_remove(at).wait_with_output().expect("it is ours").stdout;
            stands |= String::from_utf8_lossy(&said).lines().any(|line| line.contains(" (sleep) t "));
        }
        stands
    }
}

/// Verifies one of them: how the other QEMU was placed meanwhile, and whether the program of `a` stood still then.
fn watched(bench: &Bench, words: &[&str], most: usize) -> (bool, bool) {
    let own = bench.ps().and_then(|set| set.partitions.first().and_then(|one| one.pid)).expect("a runs");
    let before = machines(bench);
    assert_eq!(before, BTreeSet::from([own]));
    let wanted = placed(own).expect("a runs");
    let mut child = bench.begin(words);
    let (mut is_alike, mut stands, mut lookers) = (false, false, Lookers::default());
    while child.try_wait().expect("it is ours").is_none() {
        let others: Vec<u32> = machines(bench).difference(&before).copied().collect();
        is_alike |= others.iter().any(|pid| placed(*pid).as_ref() == Some(&wanted));
        if !others.is_empty() && !stands {
            stands = lookers.look(bench, most);
        }
        std::thread::sleep(LOOK_EVERY);
    }
    while !lookers.0.is_empty() {
        stands |= lookers.has_seen();
        std::thread::sleep(LOOK_EVERY);
    }
    let ended = child.wait_with_output().expect("it is ours");
    assert_eq!(ended.status.code(), Some(0), "{ended:?}");
    assert_eq!(machines(bench), before, "that of the probe is gone");
    (is_alike, stands)
}

#[test]
fn a_probe_has_a_partition_that_is_placed_as_another_one() {
    if !guests_are_there() {
        return;
    }
    let bench = Bench::real();
    let file = bench.file("plant.toml", SET);
    assert_eq!(bench.up(&file).code, Some(0));
    let (file, out) = (file.to_str().expect("plain"), bench.path("evidence"));
    let out = out.to_str().expect("plain");
    assert_eq!(watched(&bench, &["verify", file, "--out", out, "--only", "B"], 1), (true, false));
    let all = verdicts(out);
    assert_eq!((all["B"], all["I"]), (RequirementVerdict::Pass, RequirementVerdict::NotRun));
    let words = ["verify", file, "--out", out, "--only", "I", "--failures"];
    assert_eq!(watched(&bench, &words, MOST_LOOKERS), (true, true));
    let all = verdicts(out);
    assert_eq!((all["B"], all["I"]), (RequirementVerdict::Pass, RequirementVerdict::Pass));
    let said = bench.call(&["verify", "--check", out]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let page = fs::read_to_string(format!("{out}/verify.html")).expect("it is written");
    assert!(page.contains("in a partition placed as a, which is paused"), "it is said where");
    assert_eq!(bench.call(&["down"]).code, Some(0));
    bench.assert_nothing_left("after probes had partitions of their own");
}

const ABOVE: &str = r#"
[partition.a]
program = ["/bin/sleep", "1000"]

[requirement.P]
text = "Nobody takes from a what it was started with."
partition = "a"
metric = "placement.differences"
exactly = 0

[requirement.S]
text = "A probe is not made for a partition that does not run."
partition = "a"
metric = "syscall.call_ns"
at_most = "1 s"
load = "as-is"
probe_partition = true

[requirement.C]
text = "What nobody is there to refuse is not refused."
partition = "a"
metric = "command.exit_code"
at_least = 1
command = ["/bin/false"]
inside = true
load = "as-is"
"#;

/// A group within a group, of either version, and the file of the outer one that holds its cap.
struct Nested {
    outer: PathBuf,
    cap: PathBuf,
}

impl Nested {
    fn make() -> Option<Self> {
        let mounts = [("/sys/fs/cgroup/cpu", "cpu.cfs_quota_us"), ("/sys/fs/cgroup", "cpu.max")];
        let outer = |mount: &str| PathBuf::from(mount).join(format!("bulkhead-above-{}", std::process::id()));
        mounts.iter().find_map(|(mount, file)| {
            let outer = outer(mount);
            let is_made =
                PathBuf::from(mount).join("cgroup.procs").exists() && fs::create_dir(&outer).is_ok();
            let cap = outer.join(file);
            let made = is_made.then(|| Self { outer, cap })?;
            (made.cap.exists() && fs::create_dir(made.outer.join("inner")).is_ok()).then_some(made)
        })
    }
}

impl Drop for Nested {
    fn drop(&mut self) {
        let _ = fs::remove_dir(self.outer.join("inner"));
        let _ = fs::remove_dir(&self.outer);
    }
}

/// Regression: a cap of a group above (`CPUQuota=` of a slice) was no difference.
#[test]
fn what_a_group_above_sets_since_is_a_difference_and_of_who_is_stopped_nothing_is_tried() {
    if !guests_are_there() {
        return;
    }
    let Some(groups) = Nested::make() else {
        return skips::skip(skips::Need::Root, "no CPU groups can be made");
    };
    let bench = Bench::real();
    let file = bench.file("plant.toml", ABOVE);
    let up = bench.command(&["up", file.to_str().expect("plain")]);
    let mut inside = Command::new("sh");
    inside.args(["-c", "echo $$ >\"$0\" && exec \"$@\""]).arg(groups.outer.join("inner/cgroup.procs"));
    inside.arg(up.get_program()).args(up.get_args());
    inside.envs(up.get_envs().filter_map(|(name, value)| Some((name, value?))));
    assert!(inside.status().expect("a shell").success());
    let (file, out) = (file.to_str().expect("plain"), bench.path("evidence"));
    let out = out.to_str().expect("plain");
    let look = |words: &[&str]| {
        bench.call(&[&["verify", file, "--out", out], words].concat());
        verdicts(out)
    };
    assert_eq!(look(&["--only", "P"])["P"], RequirementVerdict::Pass);
    let was = fs::read_to_string(&groups.cap).expect("a cap");
    fs::write(&groups.cap, "10000").expect("a cap");
    assert_eq!(look(&["--no-run"])["P"], RequirementVerdict::Stale);
    assert_eq!(look(&["--only", "P"])["P"], RequirementVerdict::Fail);
    fs::write(&groups.cap, was.trim()).expect("no cap");
    assert_eq!(look(&["--only", "P"])["P"], RequirementVerdict::Pass);
    assert_eq!(look(&["--only", "C"])["C"], RequirementVerdict::Pass);
    assert_eq!(bench.call(&["stop", "plant/a"]).code, Some(0));
    assert_eq!(look(&["--only", "S"])["S"], RequirementVerdict::Undecided);
    assert_eq!(look(&["--only", "C"])["C"], RequirementVerdict::Undecided);
    assert_eq!(bench.call(&["down"]).code, Some(0));
    bench.assert_nothing_left("after a group above had a cap");
}
