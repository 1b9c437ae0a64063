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
use model::system::{Cpu, Interval, KnownHost, System};
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
    let mut pools = Pools::of(system, plan);
    let (mut all, mut left_out) = (Vec::new(), Vec::new());
    for placed in &plan.partitions {
        let needs = system.needs.get(&placed.of);
        let shared = needs.filter(|needs| needs.cpu == Cpu::Shared);
        let granted = granted(hosts, placed);
        let mut least = WHOLE;
        if shared.is_some() {
            let Some(share) = pools.share(placed)? else {
                left_out.push(placed.name.clone());
                continue;
            };
            least = share;
        } else if granted.is_none() {
            continue;
        }
        let real = granted.unwrap_or(Interval::One(1000));
        all.push(Predicted {
            name: placed.name.clone(),
            need: "cpu".to_owned(),
            unit: NeedUnit::PerMille,
            wanted: shared.and_then(|needs| needs.share_percent).map(|percent| 10 * u64::from(percent)),
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

/// Those who share the CPUs of a node.
#[derive(Default)]
struct Pool<'a> {
    names: Vec<&'a str>,
    sharers: Vec<Sharer>,
}

/// Who shares CPUs with whom, and what came out of pools that were simulated.
struct Pools<'a> {
    /// By host and node.
    of_node: BTreeMap<(&'a str, u32), Pool<'a>>,
    /// CPUs of each, by how many CPUs there are and who shares them.
    simulated: BTreeMap<(u32, Vec<Sharer>), Vec<f64>>,
}

impl<'a> Pools<'a> {
    fn of(system: &System, plan: &'a Plan) -> Self {
        let mut pools = Self { of_node: BTreeMap::new(), simulated: BTreeMap::new() };
        for placed in &plan.partitions {
            let parts = u32::try_from(placed.seats.len()).unwrap_or(1).max(1);
            let cpus = system.set.partitions.get(&placed.of).map_or(1, |entry| (entry.cpus / parts).max(1));
            let weight = system.needs.get(&placed.of).and_then(|needs| needs.cpu_weight(cpus));
            for (seat, weight) in placed.seats.iter().filter_map(|seat| Some((seat, weight?))) {
                let pool = pools.of_node.entry((&placed.host, seat.node)).or_default();
                pool.names.push(&placed.name);
                pool.sharers.push((cpus, weight));
            }
        }
        pools
    }

    /// The least, in thousandths, that one who shares has of each of its virtual CPUs while all work; none where that is not simulated.
    fn share(&mut self, placed: &'a Placed) -> Result<Option<f64>, Reason> {
        let mut least = WHOLE;
        for seat in &placed.seats {
            let Some(Pool { names, sharers }) = self.of_node.get(&(placed.host.as_str(), seat.node)) else {
                continue;
            };
            let size = u32::try_from(seat.cpus.numbers().len()).unwrap_or(u32::MAX);
            let pool = (size, sharers.clone());
            if !self.simulated.contains_key(&pool) {
                if self.simulated.len() >= MOST_POOLS {
                    return Ok(None);
                }
                let got = when_all_work(size, sharers)?;
                self.simulated.insert(pool.clone(), got);
            }
            let got = self.simulated.get(&pool).into_iter().flatten();
            let own = names.iter().zip(sharers).zip(got).find(|((name, _), _)| **name == placed.name);
            least = own.map_or(least, |((_, (vcpus, _)), cpus)| least.min(WHOLE * cpus / f64::from(*vcpus)));
        }
        Ok(Some(least))
    }
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
