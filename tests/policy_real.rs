//! The policy by which CPUs are shared: its name is scored on made and on recorded measurements; of real processes and
//! virtual machines the kernel has what was set, nobody gets more, and no name is wrong.
//!
//! What this machine's mood decides is not asserted: whether a name can be given, and how near a fitted weight is, is scored by
//! `make bench-policy`, and no measurement is thrown away or made again, here or there. So that there always is a verdict, one
//! setting has an effect that nobody's work can hide: a cap of 30 % for instances that weigh a hundred times as much as others.

use crate::share_fixture;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bulkhead::analysis::policy::{Candidate, name, predict};
use bulkhead::analysis::shares::verdict;
use bulkhead::model::experiment::PlatformSpec;
use bulkhead::model::policy::{PolicyVerdict, SharingPolicy};
use bulkhead::probes::params::ShareParams;
use bulkhead::probes::share::metrics::Observation;
use bulkhead::units::Millis;
use bulkhead::units::layout::Layout;
use bulkhead::units::names::PlatformKind;
use rand::{RngExt as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::Deserialize;
use share_fixture::Group;
use skips::{Need, skip};

/// Two of these tests at once would share with each other, too.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What was said of settings that are known.
#[derive(Debug, Default)]
struct Score {
    right: u32,
    wrong: Vec<String>,
    unsaid: u32,
    /// What was fitted over what was set, whatever the name.
    fitted: Vec<f64>,
    /// Runs in which nothing of the kind fitted.
    unfitted: u32,
}

impl Score {
    fn add(&mut self, what: &str, set: Candidate, seen: &[Observation]) {
        let named = name(seen, 2.0);
        if set.parameter > 0.0 {
            let fit = named.fits.iter().find(|fit| fit.policy == set.policy).and_then(|fit| fit.parameter);
            self.fitted.extend(fit.map(|fit| fit / set.parameter));
            self.unfitted += u32::from(fit.is_none());
        }
        match named.candidate {
            Some(said) if said.policy == set.policy => self.right += 1,
            Some(said) => self.wrong.push(format!("{what}: {:?} {:.2}", said.policy, said.parameter)),
            None => {
                assert!(named.doubt.is_some(), "{what}: no name and no reason");
                self.unsaid += 1;
            }
        }
    }

    fn all(&self) -> u32 {
        self.right + self.unsaid + u32::try_from(self.wrong.len()).expect("a few")
    }

    /// The middle of what was fitted over what was set.
    fn middle(&mut self) -> f64 {
        self.fitted.sort_by(f64::total_cmp);
        self.fitted.get(self.fitted.len() / 2).copied().expect("something was fitted")
    }
}

fn settings() -> Vec<(String, Candidate)> {
    let of = |policy, parameter| Candidate { policy, parameter, per_instance: true };
    let mut all = vec![
        ("plain".to_owned(), of(SharingPolicy::EqualPerThread, 0.0)),
        ("need".to_owned(), of(SharingPolicy::ProportionalToNeed, 0.0)),
        ("1 : 1".to_owned(), of(SharingPolicy::EqualPerInstance, 0.0)),
    ];
    all.extend([2, 3, 4].map(|w| (format!("{w} : 1"), of(SharingPolicy::Weighted, f64::from(w)))));
    all.extend(
        [30, 50, 60, 80].map(|c| (format!("cap {c} %"), of(SharingPolicy::Capped, f64::from(c) / 100.0))),
    );
    all
}

/// One round on two CPUs beside `outsiders` busy threads of others, who take more in one phase of eight.
fn made(set: Candidate, outsiders: f64, random: &mut Xoshiro256PlusPlus) -> Vec<Observation> {
    let steps = ShareParams::steps(2);
    let round = steps.iter().map(|step| {
        let blank = Observation {
            instances: 2,
            first_threads: step.first,
            other_threads: step.other,
            cpus: 2,
            first: 0.0,
            other: 0.0,
        };
        let sides = f64::from(u8::from(step.first > 0) + u8::from(step.other > 0));
        let burst = if outsiders > 0.0 && random.random_range(0..8) == 0 { 2.0 } else { 1.0 };
        let left = 1.98 * sides / (sides + outsiders * burst / 2.0);
        let (first, other) = predict(set, &blank, left);
        // The sum of twelve is near enough to normal: a standard deviation of 2 %.
        let mut noisy = |got: f64| {
            let sum: f64 = (0..12).map(|_| random.random::<f64>()).sum();
            got * (1.0 + 0.02 * (sum - 6.0))
        };
        Observation { first: noisy(first), other: noisy(other), ..blank }
    });
    round.collect()
}

#[test]
fn made_measurements_of_one_round_are_scored_over_many_seeds() {
    for (outsiders, least_right) in [(0.0, 0.95), (2.0, 0.6)] {
        let mut score = Score::default();
        for (what, set) in settings() {
            for seed in 0..25 {
                let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
                score.add(&what, set, &made(set, outsiders, &mut random));
            }
        }
        let (all, wrong, middle) = (f64::from(score.all()), score.wrong.len(), score.middle());
        println!(
            "{outsiders} outsiders: {} of {all} right, {} unsaid, fitted {middle:.3}, {} without a fit",
            score.right, score.unsaid, score.unfitted
        );
        assert!(f64::from(score.right) >= least_right * all, "{outsiders} outsiders: {score:?}");
        assert!(wrong as f64 <= 0.02 * all, "{outsiders} outsiders: {:?}", score.wrong);
        assert!((0.95..1.05).contains(&middle), "{outsiders} outsiders: fitted {middle}");
    }
}

/// Regression: in the middle of others' guests, equal shares were called weights of 1.51 [1.26 … 1.78].
#[test]
fn one_measurement_of_equal_shares_with_one_side_disturbed_all_the_time_is_no_weight() {
    let equal = Candidate { policy: SharingPolicy::EqualPerInstance, parameter: 0.0, per_instance: true };
    for (lost, seed) in [(0.25, 1), (0.3, 2), (0.35, 3), (0.35, 4)] {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut seen = made(equal, 0.0, &mut random);
        for phase in seen.iter_mut().filter(|phase| phase.first_threads > 0) {
            phase.other *= 1.0 - lost;
        }
        let named = name(&seen, 2.0);
        let policy = named.candidate.map(|said| said.policy);
        assert_ne!(policy, Some(SharingPolicy::Weighted), "{lost} lost: {named:?}");
    }
}

/// A run of real instances while others built on the same two CPUs, as the probe gave it.
#[derive(Deserialize)]
struct Recorded {
    kind: String,
    set: String,
    /// Each point: threads of the first and of the other, CPUs that each of them got.
    rounds: Vec<Vec<(u32, u32, f64, f64)>>,
}

/// Every run that was recorded, with a load average of 3 to 30 on two CPUs. Judged by 1.3 … 6 for a weight of 3 and with
/// the disturbed rounds thrown away, these would have been 20 of 20. Of processes 23 were right, none wrong, until one measurement
/// did not say weights below 1.5 any more: two of them are unsaid since.
#[test]
fn runs_that_were_recorded_beside_other_work_are_scored_whole() {
    let settings = settings();
    for (kind, least_right, most_wrong) in [("processes", 21, 0), ("machines", 4, 0)] {
        let mut score = Score::default();
        for line in include_str!("fixtures/shares.jsonl").lines() {
            let run: Recorded = serde_json::from_str(line).expect("a run");
            let wanted = if run.set == "plain" && run.kind == "machines" { "need" } else { &run.set };
            let set = settings.iter().find(|(what, _)| what == wanted).expect("a setting").1;
            let seen: Vec<Observation> =
                run.rounds.iter().flatten().map(|point| observation(*point)).collect();
            if run.kind == kind {
                score.add(&run.set, set, &seen);
            }
        }
        let middle = score.middle();
        println!(
            "{kind}: {} of {} right, {} unsaid, fitted {middle:.3} of {} and {} without a fit, {:?}",
            score.right,
            score.all(),
            score.unsaid,
            score.fitted.len(),
            score.unfitted,
            score.wrong
        );
        assert!(score.right >= least_right, "{kind}: {score:?}");
        assert!(score.wrong.len() <= most_wrong, "{kind}: {:?}", score.wrong);
        assert!((0.85..1.15).contains(&middle), "{kind}: fitted {middle}");
    }
}

fn observation((first_threads, other_threads, first, other): (u32, u32, f64, f64)) -> Observation {
    Observation { instances: 2, first_threads, other_threads, cpus: 2, first, other }
}

/// What is missing for any of this, which is said.
fn left_out(needs_root: bool) -> bool {
    let (need, reason) = if share_fixture::cpus() < 2 {
        (Need::Cpu, "one CPU cannot be shared in more than one way")
    } else if needs_root && !nix::unistd::geteuid().is_root() {
        (Need::Root, "CPU groups need root")
    } else {
        return false;
    };
    skip(need, reason);
    true
}

/// What is said of two real instances, and what the kernel says of their groups.
struct Answer {
    verdict: PolicyVerdict,
    groups: Vec<Group>,
}

impl Answer {
    /// Of so many rounds, all of them together. It has a name or a doubt, and rests on every phase.
    fn of(spec: &PlatformSpec, rounds: usize) -> Self {
        Self::of_phases(spec, rounds, ShareParams::default().duration_ms)
    }

    /// The same with phases so long.
    fn of_phases(spec: &PlatformSpec, rounds: usize, duration_ms: Millis) -> Self {
        let params = ShareParams { settle_ms: Millis::from_millis(200), duration_ms };
        let (rounds, groups) = share_fixture::watched(spec, rounds, &params).expect("rounds");
        let phases = ShareParams::steps(rounds[0].cpus).len();
        let rounds: Vec<_> = rounds.iter().map(|round| (Layout::PAIR, round)).collect();
        let verdict = verdict(&spec.label, &rounds, share_fixture::cpus());
        let outcome = if verdict.policy.is_some() { "named" } else { "no name" };
        println!("{outcome}: {}", verdict.sentence);
        let said = if verdict.policy.is_some() { "shares the CPUs" } else { "cannot be said: " };
        assert!(verdict.sentence.contains(said), "{}", verdict.sentence);
        assert_eq!(verdict.points.len(), phases, "every phase is a point of the curve");
        Self { verdict, groups }
    }

    /// The name, if there is one, is that of what was set; says whether there was one.
    fn is_named_and_not_wrong(&self, policy: SharingPolicy) -> bool {
        let named = self.verdict.policy;
        assert!(named.is_none_or(|named| named == policy), "{policy:?} was set: {}", self.verdict.sentence);
        named.is_some()
    }

    /// The kernel has these weights, that of the first instance first.
    fn weighs(&self, weights: [u32; 2]) {
        let wanted: Vec<String> = self
            .groups
            .iter()
            .zip(weights)
            .map(|(group, weight)| if group.is_second { weight } else { weight * 1024 / 100 }.to_string())
            .collect();
        let has: Vec<&str> = self.groups.iter().map(|group| group.weight.as_str()).collect();
        assert_eq!((has.len(), has), (2, wanted.iter().map(String::as_str).collect()), "{:?}", self.groups);
    }

    /// The kernel has this cap, and kept it: per period of 100 ms it pays for so much CPU time, and once more at either end of
    /// what was watched. A tick or a steal that a thread ran on for is taken off its next pay; the last one may be missing.
    fn keeps_cap(&self, percent: u32) {
        assert_eq!(self.groups.len(), 2, "{:?}", self.groups);
        let (pay, period) = (Duration::from_millis(percent.into()), Duration::from_millis(100));
        let overrun = period * share_fixture::cpus();
        for group in &self.groups {
            let most = group.elapsed.as_secs_f64() / period.as_secs_f64() + 2.0;
            let most = pay.mul_f64(most) + overrun;
            println!("  {:.2?} of CPU time in {:.2?}, at most {most:.2?}", group.used, group.elapsed);
            assert!(group.used <= most, "more than {most:?}: {group:?}");
            assert_eq!(group.max, format!("{} 100000", percent * 1000), "{group:?}");
        }
    }
}

fn of_kind(label: &str, kind: PlatformKind) -> PlatformSpec {
    PlatformSpec { label: label.to_owned(), ..PlatformSpec::of_kind(kind) }
}

#[test]
fn plain_processes_have_every_point_and_no_wrong_name() {
    let _alone = alone();
    if !left_out(false) {
        let answer = Answer::of(&of_kind("plain", PlatformKind::Native), 1);
        // Each has a CPU group of its own from root, else a session, which the kernel may group by (sched(7), autogroup).
        let autogroup =
            std::fs::read_to_string("/proc/sys/kernel/sched_autogroup_enabled").unwrap_or_default();
        let grouped = nix::unistd::geteuid().is_root() || autogroup.trim() == "1";
        let wanted = if grouped { SharingPolicy::EqualPerInstance } else { SharingPolicy::EqualPerThread };
        answer.is_named_and_not_wrong(wanted);
    }
}

#[test]
fn processes_have_the_weights_and_caps_that_were_set_and_no_wrong_name() {
    let _alone = alone();
    if left_out(true) {
        return;
    }
    let native = |label| of_kind(label, PlatformKind::Native);
    let equal = Answer::of(&PlatformSpec { cpu_weight: Some(100), ..native("equal") }, 1);
    equal.weighs([100, 100]);
    let weighted = PlatformSpec { cpu_weight: Some(300), other_cpu_weight: Some(100), ..native("weighted") };
    let weighted = Answer::of(&weighted, 1);
    weighted.weighs([300, 100]);
    let capped = Answer::of(&PlatformSpec { cpu_cap_percent: Some(60), ..native("capped") }, 1);
    capped.keeps_cap(60);
    let named = [
        equal.is_named_and_not_wrong(SharingPolicy::EqualPerInstance),
        weighted.is_named_and_not_wrong(SharingPolicy::Weighted),
        capped.is_named_and_not_wrong(SharingPolicy::Capped),
    ];
    println!("{} of {} settings have a name", named.iter().filter(|named| **named).count(), named.len());
}

/// Rounds of the setting that must be named, all of them scored together.
const SURE_ROUNDS: usize = 2;
/// Its phases: a cap is paid out once in 100 ms, and one pay more or less is 5 % of such a phase, less than what is taken for
/// scatter (6 %). Of a phase of the usual 500 ms it is 20 %, and a busy host decides into which phase a pay falls.
const SURE_PHASE: Millis = Millis::from_millis(2000);

/// With its weight each instance gets its cap beside any work of others, alone and beside the other one: there is nothing
/// left to doubt.
#[test]
fn a_cap_of_30_percent_that_nobody_can_hide_is_named() {
    let _alone = alone();
    if left_out(true) {
        return;
    }
    let spec = PlatformSpec {
        cpu_weight: Some(10_000),
        cpu_cap_percent: Some(30),
        ..of_kind("capped", PlatformKind::Native)
    };
    let answer = Answer::of_phases(&spec, SURE_ROUNDS, SURE_PHASE);
    answer.weighs([10_000, 10_000]);
    answer.keeps_cap(30);
    let is_named = answer.is_named_and_not_wrong(SharingPolicy::Capped);
    assert!(is_named, "no name of {SURE_ROUNDS} rounds: {}", answer.verdict.sentence);
}

#[test]
fn capped_machines_have_no_more_than_their_cap_and_no_wrong_name() {
    let _alone = alone();
    let spec = PlatformSpec { cpu_cap_percent: Some(60), ..of_kind("capped", PlatformKind::Vm) };
    if left_out(true) {
        return;
    }
    if let Some(reason) = share_fixture::unavailable(&spec).expect("a look") {
        return skip(Need::Vm, reason);
    }
    let answer = Answer::of(&spec, 1);
    answer.keeps_cap(60);
    answer.is_named_and_not_wrong(SharingPolicy::Capped);
}
