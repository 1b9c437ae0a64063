//! Who runs on the CPUs of a queue of credit2, by credit: whoever has least makes room for who wakes. Credit burns at a pace for
//! each weight, so of those of one weight who has least now has least later, too, and stands first in a tree for good.
//!
//! ```text
//!  begins to run ─► young ─ rate limit over ─► by weight, by when its credit is used up ─► spent: no credit left to burn
//! ```
//! A search goes to the first of each weight: logarithmic time in the CPUs, for each weight that runs there. What is compared in
//! the end is credit as it is counted, whole: those within a rounding of the first are looked at, too.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};

use crate::host::{CpuId, CpuSet, State, VcpuId, View};
use crate::time::{Span, Time};

/// Parts of a nanosecond in which it is counted when credit is used up.
const PARTS: f64 = 1024.0;
/// With so few CPUs it is quicker to look at each.
const FEW: u32 = 2;

/// Somebody who runs.
#[derive(Debug, Clone, Copy)]
pub struct Runner {
    /// Since when it has had its CPU.
    pub began: Time,
    /// What it had when it was last looked at.
    pub credit: i64,
    /// When that was.
    pub burnt: Time,
    /// Its weight.
    pub weight: f64,
    /// What it has now.
    pub now: i64,
}

/// What is asked.
#[derive(Debug, Clone, Copy)]
pub struct Query<'a> {
    /// Of which queue's CPUs,
    pub queue: u32,
    /// and of these,
    pub may: &'a CpuSet,
    /// who has run for longer than this.
    pub ran: Span,
    /// The highest weight of the queue: who has that burns a credit in a nanosecond.
    pub heaviest: f64,
    /// The least credit that anybody has.
    pub floor: i64,
}

/// When the credit is used up, in parts of a nanosecond, and the credit when it was looked at: of those of one weight, who has
/// the same of both has the same at any time.
type Key = (i128, i64);

/// Where somebody who runs stands.
#[derive(Debug, Clone, Copy)]
enum Place {
    Young(Time),
    Ripe(u64, Key),
    Spent,
    /// Runs in another's place, and may be of another queue: looked at each time.
    Odd,
}

/// The CPUs of a queue.
#[derive(Debug, Clone, Default)]
struct Side {
    young: BTreeSet<(Time, u32)>,
    /// By the bits of their weights.
    ripe: BTreeMap<u64, BTreeSet<(Key, u32)>>,
    spent: CpuSet,
    odd: CpuSet,
    /// The highest weight when the keys were made.
    heaviest: f64,
    /// Whether credits have changed since.
    is_stale: bool,
}

/// The index.
#[derive(Debug, Clone, Default)]
pub struct Runners {
    /// By CPU.
    places: Vec<Option<Place>>,
    sides: Vec<Side>,
    /// Who runs in another's place, on a CPU that is not known yet.
    taken: Vec<VcpuId>,
    /// CPUs of a queue, in their order.
    width: u32,
}

impl Runners {
    /// Nobody runs yet.
    pub fn new(cpus: usize, queues: usize, width: u32) -> Self {
        let (places, sides) = (vec![None; cpus], vec![Side::default(); queues]);
        Self { places, sides, taken: Vec::new(), width: width.max(1) }
    }

    fn side(&mut self, cpu: u32) -> &mut Side {
        &mut self.sides[(cpu / self.width) as usize]
    }

    /// Somebody of its queue is to run on a CPU, which it has had since then.
    pub fn begin(&mut self, cpu: CpuId, began: Time) {
        self.side(cpu.0).young.insert((began, cpu.0));
        self.places[cpu.index()] = Some(Place::Young(began));
    }

    /// Somebody is to run in another's place.
    pub fn take(&mut self, vcpu: VcpuId) {
        self.taken.push(vcpu);
    }

    /// Who ran on a CPU does not any more.
    pub fn end(&mut self, cpu: CpuId, vcpu: VcpuId) {
        if !self.taken.is_empty() {
            self.taken.retain(|other| *other != vcpu);
        }
        let Some(place) = self.places[cpu.index()].take() else { return };
        let side = self.side(cpu.0);
        match place {
            Place::Young(began) => drop(side.young.remove(&(began, cpu.0))),
            Place::Ripe(weight, key) => {
                if let Some(ripe) = side.ripe.get_mut(&weight) {
                    ripe.remove(&(key, cpu.0));
                    if ripe.is_empty() {
                        side.ripe.remove(&weight);
                    }
                }
            }
            Place::Spent => side.spent.remove(cpu.0),
            Place::Odd => side.odd.remove(cpu.0),
        }
    }

    /// Credits of those who run on a queue's CPUs have changed.
    pub fn touch(&mut self, queue: u32) {
        self.sides[queue as usize].is_stale = true;
    }

    /// Who of those that the query is about has least credit, and how much; the lowest CPU of several.
    pub fn least(
        &mut self,
        query: Query<'_>,
        view: &View,
        of: &impl Fn(VcpuId) -> Runner,
    ) -> Option<(i64, CpuId)> {
        let at = |cpu: u32| view.cpus[cpu as usize].running.map(of);
        let ripe = |cpu: u32| at(cpu).filter(|runner| view.now.since(runner.began) > query.ran);
        let exact = |cpu: u32| ripe(cpu).map(|runner| (runner.now, CpuId(cpu)));
        if query.may.len() <= FEW {
            return query.may.iter().filter_map(exact).min();
        }
        self.place_taken(view);
        let side = &mut self.sides[query.queue as usize];
        let (places, may) = (&mut self.places, query.may);
        if side.is_stale || side.heaviest.to_bits() != query.heaviest.to_bits() {
            side.renew(places, query.heaviest, &at);
        }
        while let Some((began, cpu)) = side.young.first().copied() {
            if view.now.since(began) <= query.ran {
                break;
            }
            side.young.pop_first();
            side.ripen(cpu, places, at(cpu));
        }
        side.spend(places, query.floor, &at);
        let spent = side.spent.first_common(may).map(|cpu| (query.floor, CpuId(cpu)));
        let odd = side.odd.common(may).filter_map(exact).min();
        let first = side.ripe.iter().filter_map(|(weight, ripe)| {
            first_of(ripe, near(f64::from_bits(*weight), side.heaviest), may, &exact)
        });
        let found = spent.into_iter().chain(odd).chain(first.min()).min();
        // Tests of the policy hold each answer to a look at all CPUs.
        #[cfg(test)]
        assert_eq!(found, may.iter().filter_map(exact).min());
        found
    }

    /// Whoever runs in another's place has a CPU by now.
    fn place_taken(&mut self, view: &View) {
        for vcpu in std::mem::take(&mut self.taken) {
            if let State::Running(cpu) = view.vcpu(vcpu).state {
                self.side(cpu.0).odd.insert(cpu.0);
                self.places[cpu.index()] = Some(Place::Odd);
            } else {
                self.taken.push(vcpu);
            }
        }
    }
}

impl Side {
    /// One that has run for long enough is put in order.
    fn ripen(&mut self, cpu: u32, places: &mut [Option<Place>], runner: Option<Runner>) {
        let place = runner.map(|runner| {
            let (weight, key) = (runner.weight.to_bits(), key(&runner, self.heaviest));
            self.ripe.entry(weight).or_default().insert((key, cpu));
            Place::Ripe(weight, key)
        });
        places[cpu as usize] = place;
    }

    /// All that are in order are put in order anew.
    fn renew(&mut self, places: &mut [Option<Place>], heaviest: f64, at: &impl Fn(u32) -> Option<Runner>) {
        (self.heaviest, self.is_stale) = (heaviest, false);
        let ripe = std::mem::take(&mut self.ripe);
        let cpus: Vec<u32> = ripe.values().flatten().map(|(_, cpu)| *cpu).collect();
        let spent = std::mem::take(&mut self.spent);
        cpus.into_iter().chain(spent.iter()).for_each(|cpu| self.ripen(cpu, places, at(cpu)));
    }

    /// Whoever has no credit left to burn leaves the order: all of them have the same.
    fn spend(&mut self, places: &mut [Option<Place>], floor: i64, at: &impl Fn(u32) -> Option<Runner>) {
        for ripe in self.ripe.values_mut() {
            while let Some((_, cpu)) = ripe.first().copied() {
                if at(cpu).is_some_and(|runner| runner.now > floor) {
                    break;
                }
                ripe.pop_first();
                self.spent.insert(cpu);
                places[cpu as usize] = Some(Place::Spent);
            }
        }
        self.ripe.retain(|_, ripe| !ripe.is_empty());
    }
}

/// When its credit is used up.
#[expect(clippy::cast_possible_truncation, reason = "credits are some milliseconds")]
fn key(runner: &Runner, heaviest: f64) -> Key {
    let lasts = (runner.credit as f64 * runner.weight / heaviest * PARTS) as i128;
    (i128::from(runner.burnt.nanos()) * PARTS as i128 + lasts, runner.credit)
}

/// Keys this far apart can mean the same credit.
#[expect(clippy::cast_possible_truncation, reason = "a nanosecond at most")]
fn near(weight: f64, heaviest: f64) -> i128 {
    (2.0 * weight / heaviest * PARTS) as i128 + 4
}

/// Who of one weight has least credit.
fn first_of(
    ripe: &BTreeSet<(Key, u32)>,
    near: i128,
    may: &CpuSet,
    exact: &impl Fn(u32) -> Option<(i64, CpuId)>,
) -> Option<(i64, CpuId)> {
    let (mut best, mut until) = (None, i128::MAX);
    let mut next = ripe.first().copied();
    while let Some((key, cpu)) = next.filter(|(key, _)| key.0 <= until) {
        let mut after = cpu;
        if may.contains(cpu) {
            best = best.into_iter().chain(exact(cpu)).min();
            until = until.min(key.0.saturating_add(near));
            // The others with this key have the same, and higher numbers.
            after = u32::MAX;
        }
        next = ripe.range((Excluded((key, after)), Unbounded)).next().copied();
    }
    best
}
