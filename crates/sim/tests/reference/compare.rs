//! The same hundred hosts three ways: fluid, reference, ours.
//!
//! A share is near another when it lies within 2 % of it, relative to the CPUs that the VM is expected to have; of VMs that
//! have a tenth of a CPU that is two thousandths of one. The reference runs over several phases of its timers, ours with
//! several seeds, of which the mean counts. The oracle of a VM is near the mean of the reference; where the phase alone changes
//! Xen's share by more, it is all that the reference gave, because nobody can be held to less; and where that mean is near to
//! the fluid and the phase matters less than 2 % either way, near the fluid is right, too. That the oracle can be met is tried:
//! the reference with phases that had no part in it must meet it.
//!
//! Ours weighs VMs under `credit`, as Xen did before 4.1 and as a scenario says, and virtual CPUs under `credit2`, as Xen does.

use super::credit2::Queues;
use super::host::{Host, Kind, SECOND, Vm, Weights, kind};
use super::work::Run;
use super::{credit, credit2, fluid, ours};

const HOSTS: u64 = 100;
const WARM: i64 = 2 * SECOND;
const SECONDS: i64 = 60;
const NEAR: f64 = 0.02;
/// Of all VMs, so many may lie outside of what the oracle says.
const MAY_MISS: f64 = 0.01;

/// How often each is asked.
struct Effort {
    /// Phases that make the oracle.
    phases: u64,
    /// Phases that try it.
    others: u64,
    /// Seeds of ours.
    seeds: u64,
}

/// The phase matters much to credit, and next to nothing to credit2.
const CREDIT: Effort = Effort { phases: 8, others: 4, seeds: 3 };
const CREDIT2: Effort = Effort { phases: 3, others: 1, seeds: 2 };

/// VMs of the hundred hosts that are known to lie outside of what the oracle says. Lower these when they can be.
const KNOWN_CREDIT: usize = 21;
const KNOWN_CREDIT2: usize = 13;
/// By how many CPUs ours is known to be off at most where A, B and C must have 0.94, 0.94 and 0.12. Lower it when it can be.
const KNOWN_OF_THREE: f64 = 0.0;

fn is_near(value: f64, wanted: f64) -> bool {
    (value - wanted).abs() <= NEAR * wanted
}

struct Verdict {
    seed: u64,
    vm: usize,
    fluid: f64,
    low: f64,
    high: f64,
    mean: f64,
    others: f64,
    ours: f64,
}

impl Verdict {
    fn varies(&self) -> bool {
        (self.high - self.low) / 2.0 > NEAR * self.mean
    }

    fn is_fluid(&self) -> bool {
        is_near(self.mean, self.fluid) && !self.varies()
    }

    /// By how much a share is outside of what the oracle says, as a part of it; nothing or less if it is inside.
    fn off(&self, share: f64) -> f64 {
        let mut low = self.low.min((1.0 - NEAR) * self.mean);
        let mut high = self.high.max((1.0 + NEAR) * self.mean);
        if self.is_fluid() {
            low = low.min((1.0 - NEAR) * self.fluid);
            high = high.max((1.0 + NEAR) * self.fluid);
        }
        ((low - share) / low).max((share - high) / high)
    }

    fn misses(&self) -> bool {
        self.off(self.ours) > 0.0
    }
}

/// CPUs of each VM by the reference, phase by phase.
pub fn reference(host: &Host, policy: &str, weights: Weights, phases: std::ops::Range<u64>) -> Vec<Vec<f64>> {
    let of = |phase| {
        let run = Run::made(host, phase, WARM, WARM + SECONDS * SECOND);
        match policy {
            "credit" => credit::cpus(host, weights, credit::XEN, &run),
            _ => credit2::cpus(host, weights, Queues::One, credit2::XEN, &run),
        }
    };
    phases.map(of).collect()
}

/// Least and most of one VM.
pub fn interval(phases: &[Vec<f64>], vm: usize) -> (f64, f64) {
    let values = phases.iter().map(|cpus| cpus[vm]);
    (values.clone().fold(f64::MAX, f64::min), values.fold(0.0, f64::max))
}

/// The mean of one VM.
fn mean(runs: &[Vec<f64>], vm: usize) -> f64 {
    runs.iter().map(|cpus| cpus[vm]).sum::<f64>() / runs.len() as f64
}

fn verdicts(policy: &str, weights: Weights, effort: &Effort) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for seed in 0..HOSTS {
        let host = Host::made(seed);
        let fluid = fluid::cpus(&host, weights);
        let phases = reference(&host, policy, weights, 0..effort.phases);
        let others = reference(&host, policy, weights, effort.phases..effort.phases + effort.others);
        let ours: Vec<Vec<f64>> = (0..effort.seeds)
            .map(|more| ours::cpus(&host, policy, SECONDS, effort.seeds * seed + more))
            .collect();
        verdicts.extend((0..host.vms.len()).map(|vm| {
            let (low, high) = interval(&phases, vm);
            let (others, ours) = (mean(&others, vm), mean(&ours, vm));
            Verdict { seed, vm, fluid: fluid[vm], low, high, mean: mean(&phases, vm), others, ours }
        }));
    }
    verdicts
}

/// What comes out, and the hosts on which ours is furthest from the oracle.
fn show(policy: &str, verdicts: &[Verdict]) {
    for which in [Kind::Plain, Kind::Pins, Kind::Blocking] {
        let of = || verdicts.iter().filter(|it| kind(it.seed) == which);
        let count = |is: &dyn Fn(&Verdict) -> bool| of().filter(|it| is(it)).count();
        eprintln!(
            "{policy}, {which:?}: of {} VMs the reference is near the fluid for {} (within 5 % for {}), varies with the \
             phase by more than 2 % either way for {}, meets the oracle with other phases for {}; ours is near the fluid \
             for {}, near the reference's mean for {}, meets the oracle for {}",
            of().count(),
            count(&|it| is_near(it.mean, it.fluid)),
            count(&|it| (it.mean - it.fluid).abs() <= 0.05 * it.fluid),
            count(&Verdict::varies),
            count(&|it| it.off(it.others) <= 0.0),
            count(&|it| is_near(it.ours, it.fluid)),
            count(&|it| is_near(it.ours, it.mean)),
            count(&|it| !it.misses()),
        );
    }
    let mut worst: Vec<&Verdict> = verdicts.iter().filter(|it| it.misses()).collect();
    worst.sort_by(|one, other| other.off(other.ours).total_cmp(&one.off(one.ours)));
    for it in worst.iter().take(25) {
        let Verdict { seed, vm, fluid, low, high, mean, ours, .. } = it;
        eprintln!(
            "  host {seed}, VM {vm}: fluid {fluid:.3}, reference {mean:.3} ({low:.3} … {high:.3}), ours {ours:.3}; {}",
            Host::made(*seed).in_words()
        );
    }
}

/// Holds the number of VMs outside of the oracle to what is known, both ways.
fn hold(policy: &str, weights: Weights, effort: &Effort, known: usize) {
    let verdicts = verdicts(policy, weights, effort);
    show(policy, &verdicts);
    let of = verdicts.len();
    let allowed = (MAY_MISS * of as f64) as usize;
    let unmet = verdicts.iter().filter(|it| it.off(it.others) > 0.0).count();
    assert!(unmet <= allowed, "{policy}: {unmet} of {of} VMs of the reference itself miss with other phases");
    let outside = verdicts.iter().filter(|it| it.misses()).count();
    assert!(
        outside <= known.max(allowed),
        "{policy}: {outside} of {of} VMs are outside of what Xen gives; {known} are known, {allowed} allowed"
    );
    assert!(
        known <= allowed || outside == known,
        "{policy} got better: {outside} of {of} VMs are outside of what Xen gives, no longer {known}: lower the constant"
    );
}

#[test]
fn credit_gives_what_xens_credit_gives() {
    hold("credit", Weights::PerVm, &CREDIT, KNOWN_CREDIT);
}

#[test]
fn credit2_gives_what_xens_credit2_gives() {
    hold("credit2", Weights::PerVcpu, &CREDIT2, KNOWN_CREDIT2);
}

/// On 2 CPUs A (1 virtual CPU, weight 8), B (2, 8) and C (2, 1) are to have 0.94, 0.94 and 0.12 by their weights. Xen's rules
/// give A a little less and C a little more. Whatever the order in which virtual CPUs come up, ours must lie between.
#[test]
fn three_vms_on_two_cpus_have_what_their_weights_say() {
    let host = Host { cpus: 2, vms: vec![Vm::new(1, 8), Vm::new(2, 8), Vm::new(2, 1)] };
    let wanted = [0.94, 0.94, 0.12];
    let phases = reference(&host, "credit", Weights::PerVm, 0..CREDIT.phases);
    let ours: Vec<Vec<f64>> = (0..6).map(|seed| ours::cpus(&host, "credit", SECONDS, seed)).collect();
    eprintln!("reference {phases:.3?}\nours {ours:.3?}");
    let mut most: f64 = 0.0;
    for (vm, wanted) in wanted.into_iter().enumerate() {
        let (low, high) = interval(&phases, vm);
        assert!(low > wanted - 0.07 && high < wanted + 0.07, "VM {vm}: {low} to {high}");
        let off = |cpus: &Vec<f64>| (low.min(wanted) - cpus[vm]).max(cpus[vm] - high.max(wanted));
        most = ours.iter().map(off).fold(most, f64::max);
    }
    assert!(
        most <= KNOWN_OF_THREE.max(0.01),
        "worse: off by {most:.3} CPUs, known are {KNOWN_OF_THREE}: {ours:?}"
    );
    assert!(
        most >= KNOWN_OF_THREE - 0.01,
        "better: off by {most:.3} CPUs, no longer {KNOWN_OF_THREE}: lower the constant"
    );
}
