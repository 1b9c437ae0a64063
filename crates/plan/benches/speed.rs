//! How soon plans are proven, and what placing one partition after the other loses.
//! `cargo bench -p bulkhead-plan --bench speed -- [COUNT] [FIRST] [LOAD]`: so many random systems per load, from this seed on; only
//! of this load, in percent, where one is given.
//!
//! One host of 8 nodes in 2 sockets with 16 CPUs each and 32 partitions, at 60, 85 and 95 % of its CPUs; then 64 hosts of 2
//! nodes and 1000 partitions. Beside it three that place one at a time: see `one_by_one`.

#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "sizes of random systems, and ranks, are small"
)]
#![allow(clippy::print_stdout, reason = "a benchmark says what it found")]

#[path = "speed/one_by_one.rs"]
mod one_by_one;
#[path = "../tests/systems/mod.rs"]
mod systems;

use std::time::{Duration, Instant};

use model::plan::{Goal, Plan};
use model::system::System;
use plan::{Answer, Question, plan};
use systems::{Kind, file, hosts};

use one_by_one::{Method, place, traffic};

/// When a search ends.
const LIMIT: Duration = Duration::from_secs(20);

/// Bytes of certificates that are still checked: to check one takes longer than to write it.
const MOST_CHECKED: usize = 16 << 20;

/// What became of the systems of one load.
#[derive(Default)]
struct Load {
    seconds: Vec<f64>,
    conflicts: Vec<f64>,
    bytes: Vec<f64>,
    check_seconds: Vec<f64>,
    unproven: usize,
    refused: usize,
    /// There is no plan.
    impossible: usize,
    /// Neither a plan nor a proof that there is none, in time.
    unknown: usize,
    /// By method: how often it fails where there is a plan, and traffic by ours.
    failed: [usize; 3],
    ratios: [Vec<f64>; 3],
}

/// The smallest value that this share of them does not exceed; not a number where there are none.
fn quantile(values: &[f64], share: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied().unwrap_or(f64::NAN)
}

fn three(values: &[f64]) -> String {
    format!("{:.3} / {:.3} / {:.3}", quantile(values, 0.5), quantile(values, 0.95), quantile(values, 1.0))
}

impl Load {
    fn take(&mut self, kind: &Kind, seed: u64) {
        let system = System::from_toml(&file(kind, seed), "system.toml").expect("a system");
        let hosts = hosts(&system);
        let began = Instant::now();
        let is_over = || began.elapsed() > LIMIT;
        let answer =
            plan(&Question { system: &system, hosts: &hosts, from: None, proof: true, is_over: &is_over });
        let seconds = began.elapsed().as_secs_f64();
        self.seconds.push(seconds);
        let (certificate, found) = match answer {
            Answer::Planned(planned) => {
                self.conflicts.push(planned.conflicts as f64);
                println!(
                    "# {} %, seed {seed}: {seconds:.3} s, {} conflicts",
                    100.0 * kind.load,
                    planned.conflicts
                );
                (planned.certificate, Some(planned.plan))
            }
            Answer::Impossible { certificate } => (certificate, None),
            Answer::Ended | Answer::TooLarge | Answer::NotFound { .. } => {
                self.unknown += 1;
                self.unproven += 1;
                println!("# {} %, seed {seed}: nothing within the time", 100.0 * kind.load);
                return;
            }
        };
        let certificate = certificate.expect("a certificate");
        self.bytes.push(certificate.len() as f64);
        if certificate.len() <= MOST_CHECKED {
            let began = Instant::now();
            self.refused += usize::from(audit::certificate::check(certificate.as_bytes()).is_err());
            self.check_seconds.push(began.elapsed().as_secs_f64());
        }
        let Some(found) = found else {
            self.impossible += 1;
            return;
        };
        let is_proven = found.goals.iter().all(|goal| goal.least == goal.value);
        self.unproven += usize::from(!is_proven);
        if !is_proven {
            let goals: Vec<String> =
                found.goals.iter().map(|goal| format!("{} … {}", goal.least, goal.value)).collect();
            println!("# {} %, seed {seed}: not proven: {}", 100.0 * kind.load, goals.join(", "));
        }
        self.compare(&system, &hosts, &found);
    }

    fn compare(&mut self, system: &System, hosts: &[model::system::KnownHost], found: &Plan) {
        let ours =
            found.goals.iter().find(|goal| goal.goal == Goal::BetweenNodes).map_or(0, |goal| goal.value);
        for (at, method) in Method::ALL.into_iter().enumerate() {
            match place(method, system, &hosts[0]) {
                None => self.failed[at] += 1,
                Some(nodes) if ours > 0 => {
                    self.ratios[at].push(traffic(system, &hosts[0], &nodes) as f64 / ours as f64);
                }
                Some(_) => {}
            }
        }
    }

    fn tell(&self, load: f64) {
        println!("load {} %: {} systems, median / 95 % / worst", 100.0 * load, self.seconds.len());
        println!("  seconds              {}", three(&self.seconds));
        println!("  conflicts            {}", three(&self.conflicts));
        println!("  certificate, bytes   {}", three(&self.bytes));
        println!(
            "  its check, seconds   {} of {} not above {MOST_CHECKED} bytes",
            three(&self.check_seconds),
            self.check_seconds.len()
        );
        println!(
            "  not proven {}, no plan exists {}, unknown {}, certificates refused {}",
            self.unproven, self.impossible, self.unknown, self.refused
        );
        let plans = self.seconds.len() - self.impossible - self.unknown;
        for (at, method) in Method::ALL.into_iter().enumerate() {
            let ratios = &self.ratios[at];
            println!(
                "  {}: fails {} of {plans}; traffic {:.2} times ours in the median, {:.2} at 90 % of {}",
                method.name(),
                self.failed[at],
                quantile(ratios, 0.5),
                quantile(ratios, 0.9),
                ratios.len()
            );
        }
    }
}

fn large(load: f64) {
    let kind = Kind { hosts: 64, nodes: 2, cpus_per_node: 32, partitions: 1000, load, talks: 1.0 };
    let system = System::from_toml(&file(&kind, 0), "system.toml").expect("a system");
    let hosts = hosts(&system);
    let began = Instant::now();
    let is_over = || began.elapsed() > 3 * LIMIT;
    let answer =
        plan(&Question { system: &system, hosts: &hosts, from: None, proof: false, is_over: &is_over });
    let seconds = began.elapsed().as_secs_f64();
    let Answer::Planned(planned) = answer else {
        println!("64 hosts at {} %: nothing within {seconds:.1} s", 100.0 * load);
        return;
    };
    let goals: Vec<String> = planned
        .plan
        .goals
        .iter()
        .map(|goal| format!("{:?} {} (least {})", goal.goal, goal.value, goal.least))
        .collect();
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or("VmHWM unknown");
    println!("64 hosts at {} %: {seconds:.1} s; {}; {peak}", 100.0 * load, goals.join(", "));
}

fn main() {
    let mut numbers = std::env::args().filter_map(|word| word.parse::<u64>().ok());
    let (count, first) = (numbers.next().unwrap_or(10), numbers.next().unwrap_or(0));
    let mut all = Vec::new();
    let only = numbers.next();
    let is_meant = |load: &f64| only.is_none_or(|only| (100.0 * load).round() as u64 == only);
    for load in [0.6, 0.85, 0.95].into_iter().filter(is_meant) {
        let kind = Kind { hosts: 1, nodes: 8, cpus_per_node: 16, partitions: 32, load, talks: 1.0 };
        let mut of = Load::default();
        (first..first + count).for_each(|seed| of.take(&kind, seed));
        of.tell(load);
        all.extend(of.seconds);
    }
    println!("all {} systems, seconds, median / 95 % / worst: {}", all.len(), three(&all));
    [0.6, 0.85].into_iter().filter(is_meant).for_each(large);
}
