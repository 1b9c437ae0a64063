//! What partitions of a plan get of their CPUs: those who share some, simulated with all of them at work, and with nobody else at work.
//!
//! ```text
//!  Plan ─► each memory node's pool: its CPUs, who shares them with which weight ─► EEVDF, everybody works without an end ─► the least
//!                                                                                  alone: a CPU for each virtual one ─────► the most
//!  × what the host's CPUs really give, where that was measured
//! ```
//! Hosts of partitions are Linux, and weights are those of the sets that `up` takes.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use model::plan::{NeedUnit, Placed, Plan, Predicted};
use model::scenario::cases;
use model::system::{Cpu, Interval, KnownHost, Needs, System};
use units::Reason;

use crate::scenario::run_host;

/// Time that is simulated, in ms, and how often.
const SIMULATED_MS: u32 = 2000;
const SEEDS: u64 = 3;
/// Different pools that are simulated.
const MOST_POOLS: usize = 64;
/// All of a CPU, in thousandths.
const WHOLE: f64 = 1000.0;

/// One of those who share the CPUs of a pool: its virtual CPUs there, and its weight.
type Sharer = (u32, u32);

/// What each replica gets of each of its virtual CPUs. Nothing is wanted of whole ones: they are its own. And of whom that is not
/// said, because their pools are too many to be simulated.
///
/// # Errors
/// A pool cannot be simulated.
pub fn cpus(
    system: &System,
    hosts: &[KnownHost],
    plan: &Plan,
) -> Result<(Vec<Predicted>, Vec<String>), Reason> {
    let mut known: BTreeMap<(u32, Vec<Sharer>), Vec<f64>> = BTreeMap::new();
    let (mut all, mut left_out) = (Vec::new(), Vec::new());
    'replicas: for placed in &plan.partitions {
        let needs = system.needs.get(&placed.of).cloned().unwrap_or_default();
        let granted = granted(hosts, placed);
        let (mut least, wanted) = (WHOLE, needs.share_percent.filter(|_| needs.cpu == Cpu::Shared));
        for seat in placed.seats.iter().filter(|_| wanted.is_some()) {
            let pool = pool(system, plan, &placed.host, seat.node);
            let sharers: Vec<Sharer> = pool.iter().map(|(_, sharer)| *sharer).collect();
            let size = u32::try_from(seat.cpus.numbers().len()).unwrap_or(u32::MAX);
            let got = match known.get(&(size, sharers.clone())) {
                Some(got) => got.clone(),
                None if known.len() >= MOST_POOLS => {
                    left_out.push(placed.name.clone());
                    continue 'replicas;
                }
                None => {
                    let got = when_all_work(size, &sharers)?;
                    known.insert((size, sharers), got.clone());
                    got
                }
            };
            let own = pool.iter().zip(got).find(|((name, _), _)| *name == placed.name);
            least = own.map_or(least, |((_, (vcpus, _)), cpus)| least.min(WHOLE * cpus / f64::from(*vcpus)));
        }
        if wanted.is_none() && granted.is_none() {
            continue;
        }
        let real = granted.unwrap_or(Interval::One(1000));
        all.push(Predicted {
            name: placed.name.clone(),
            need: "cpu".to_owned(),
            unit: NeedUnit::PerMille,
            wanted: wanted.map(|percent| 10 * u64::from(percent)),
            low: rounded(least * f64::from(real.low()) / WHOLE),
            high: u64::from(real.high()),
            is_assumed: granted.is_none(),
        });
    }
    Ok((all, left_out))
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 0 and 1000")]
fn rounded(per_mille: f64) -> u64 {
    per_mille.clamp(0.0, WHOLE).round() as u64
}

fn granted(hosts: &[KnownHost], placed: &Placed) -> Option<Interval<u32>> {
    hosts.iter().find(|host| host.name == placed.host)?.shape.facts.granted_per_mille
}

/// Who shares the CPUs of a node.
fn pool<'a>(system: &System, plan: &'a Plan, host: &str, node: u32) -> Vec<(&'a str, Sharer)> {
    let is_there = |placed: &&Placed| {
        let shared = |needs: &Needs| needs.cpu == Cpu::Shared;
        placed.host == host && system.needs.get(&placed.of).is_some_and(shared)
    };
    let sharer = |placed: &'a Placed| {
        let parts = u32::try_from(placed.seats.len()).unwrap_or(1).max(1);
        placed.seats.iter().find(|seat| seat.node == node)?;
        let vcpus = system.set.partitions.get(&placed.of)?.cpus / parts;
        let percent = system.needs.get(&placed.of)?.share_percent.unwrap_or(100);
        Some((placed.name.as_str(), (vcpus.max(1), (vcpus * percent).clamp(1, 10_000))))
    };
    plan.partitions.iter().filter(is_there).filter_map(sharer).collect()
}

/// CPUs that each gets while all of them work, the least of all seeds.
fn when_all_work(cpus: u32, sharers: &[Sharer]) -> Result<Vec<f64>, Reason> {
    let mut text = format!(
        "name = \"pool\"\nabout = \"\"\n[host]\ncpus = {cpus}\npolicy = {{ name = \"eevdf\", queues = \"per-cpu\" }}\n"
    );
    for (number, (vcpus, weight)) in sharers.iter().enumerate() {
        // As many virtual CPUs as there are real ones are bound one to one: `partition::place` does so.
        let pinned = *vcpus == cpus;
        // Writing to a String cannot fail.
        let _ = write!(
            text,
            "[[vm]]\nname = \"v{number}\"\nvcpus = {vcpus}\nweight = {weight}.0\npinned = {pinned}\n\
             thread = [{{ run = {{ program = \"gap\", piece_us = 500, duration_ms = {SIMULATED_MS} }} }}]\n"
        );
    }
    let cases = cases(&text, &[]).map_err(|error| format!("a pool of CPUs cannot be simulated: {error}"))?;
    let mut least = vec![f64::INFINITY; sharers.len()];
    for (seed, case) in (1..=SEEDS).flat_map(|seed| cases.iter().map(move |case| (seed, case))) {
        let done = run_host(&case.scenario, seed, 0);
        if let Some(trouble) = done.trouble {
            return Err(format!("a pool of CPUs cannot be simulated: {trouble}").into());
        }
        for (number, least) in least.iter_mut().enumerate() {
            let id = format!("vm.v{number}.cpus");
            let got = done.figures.iter().find(|figure| figure.id == id).map(|figure| figure.value);
            *least = least.min(got.ok_or_else(|| format!("the simulation of a pool has no {id}"))?);
        }
    }
    Ok(least)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_shares_gets_what_weights_say_and_no_more_than_its_virtual_cpus() {
        // One virtual CPU with ten times the weight cannot use more than a CPU.
        let got = when_all_work(2, &[(1, 1000), (1, 100), (1, 100)]).unwrap();
        assert!((got[0] - 1.0).abs() < 0.02, "{got:?}");
        assert!((got[1] - 0.5).abs() < 0.02 && (got[2] - 0.5).abs() < 0.02, "{got:?}");
        // Whose virtual CPUs are bound one to one cannot make room for the other on its CPU.
        let got = when_all_work(2, &[(2, 100), (1, 50)]).unwrap();
        assert!((got[1] - 0.5).abs() < 0.03, "{got:?}");
        let got = when_all_work(1, &[(1, 60), (1, 30)]).unwrap();
        assert!((got[0] - 2.0 / 3.0).abs() < 0.02 && (got[1] - 1.0 / 3.0).abs() < 0.02, "{got:?}");
    }
}
