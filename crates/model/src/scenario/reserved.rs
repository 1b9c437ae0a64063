//! Whether all that VMs reserve can be kept at once: a maximum flow of CPU time from those that reserve to the CPUs they
//! may use.
//!
//! ```text
//!  reserves 1.5 ── A ──┬──► CPU 0 ── 1 at most      some of it finds no CPU: A and B, on CPUs 0 and 1 only, want more
//!  reserves 0.8 ── B ──┴──► CPU 1 ── 1 at most      than these two have (Hall 1935)
//! ```
//! Amounts are whole billionths of a CPU, so nothing is rounded on the way. Paths are the shortest ones (Edmonds and Karp
//! 1972), and from the one that finds none the CPUs in the way are read off. What the flow gives each VM on each CPU can be
//! kept in every period, because a virtual CPU's own limit, a CPU at a time, takes nothing away: nobody reserves more than
//! it has virtual CPUs, and shares whose rows and columns are at most 1 can be put one after the other so that no virtual
//! CPU is in two places at once (Gonzalez and Sahni 1976).

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A whole CPU, in billionths.
const WHOLE: u64 = 1_000_000_000;

/// What somebody reserves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReservedDemand {
    /// CPUs that it may use.
    pub cpus: BTreeSet<u32>,
    /// Billionths of a CPU.
    pub billionths: u64,
}

/// Those that reserve too much together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Crowd {
    /// Their numbers.
    pub members: Vec<usize>,
    /// All CPUs that any of them may use.
    pub cpus: BTreeSet<u32>,
    /// What they reserve in all.
    pub billionths: u64,
}

/// Billionths of a CPU that one of these demands gets on each CPU.
pub type Allotment = BTreeMap<u32, u64>;

/// This number of CPUs in billionths, rounded down: thirds of a CPU, three times, are no more than a CPU.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "reservations are checked: neither negative nor more than some thousand CPUs"
)]
pub fn billionths(cpus: f64) -> u64 {
    // A little more, because decimal fractions are no binary ones.
    cpus.mul_add(WHOLE as f64, 1e-3).floor() as u64
}

/// What each demand gets where, so that all get what they reserve.
///
/// # Errors
/// Some of them whose CPUs are too few.
pub fn allot(demands: &[ReservedDemand]) -> Result<Vec<Allotment>, Crowd> {
    let mut members: BTreeMap<&BTreeSet<u32>, Vec<usize>> = BTreeMap::new();
    for (number, demand) in demands.iter().enumerate().filter(|(_, demand)| demand.billionths > 0) {
        members.entry(&demand.cpus).or_default().push(number);
    }
    // Those with the same CPUs are one in the flow.
    let cpus = members.keys().copied().collect();
    let members: Vec<Vec<usize>> = members.into_values().collect();
    let mut flow = Flow::new(cpus);
    for (group, numbers) in members.iter().enumerate() {
        let wanted = numbers.iter().map(|number| demands[*number].billionths).fold(0, u64::saturating_add);
        if let Err(full) = flow.serve(group, wanted) {
            let mut crowd: Vec<usize> = full.iter().flat_map(|group| &members[*group]).copied().collect();
            crowd.sort_unstable();
            return Err(Crowd {
                cpus: full.iter().flat_map(|group| flow.cpus[*group]).copied().collect(),
                billionths: crowd
                    .iter()
                    .map(|number| demands[*number].billionths)
                    .fold(0, u64::saturating_add),
                members: crowd,
            });
        }
    }
    let mut allotments = vec![Allotment::new(); demands.len()];
    for (given, numbers) in flow.given.iter_mut().zip(&members) {
        for number in numbers {
            allotments[*number] = taken(given, demands[*number].billionths);
        }
    }
    Ok(allotments)
}

/// Takes so much out of what is given, from the lowest CPU on: so few are on more than one CPU.
fn taken(given: &mut Allotment, mut wanted: u64) -> Allotment {
    let mut mine = Allotment::new();
    for (cpu, left) in given.iter_mut().filter(|(_, left)| **left > 0) {
        let part = wanted.min(*left);
        *left -= part;
        wanted -= part;
        mine.insert(*cpu, part);
        if wanted == 0 {
            break;
        }
    }
    mine
}

/// The flow from groups to CPUs.
struct Flow<'a> {
    cpus: Vec<&'a BTreeSet<u32>>,
    given: Vec<Allotment>,
    /// What is left of each CPU that anybody has named.
    spare: BTreeMap<u32, u64>,
}

impl<'a> Flow<'a> {
    fn new(cpus: Vec<&'a BTreeSet<u32>>) -> Self {
        let spare = cpus.iter().flat_map(|cpus| cpus.iter()).map(|cpu| (*cpu, WHOLE)).collect();
        Self { given: vec![Allotment::new(); cpus.len()], cpus, spare }
    }

    /// Finds so much for a group; the groups that are in each other's way if there is not so much.
    fn serve(&mut self, group: usize, wanted: u64) -> Result<(), Vec<usize>> {
        let mut left = wanted;
        while left > 0 {
            let path = self.path(group)?;
            let passed = path.iter().zip(path.iter().skip(1));
            let passed = passed.filter_map(|((_, cpu), (owner, _))| self.given[*owner].get(cpu));
            let end = path.last().and_then(|(_, cpu)| self.spare.get(cpu));
            let part = end.into_iter().chain(passed).copied().fold(left, u64::min);
            self.push(&path, part);
            left -= part;
        }
        Ok(())
    }

    /// The shortest way to a CPU that has something left: the first one gets some of its CPU, which each next one gives up
    /// for some of the CPU beside it. All that was met if there is none.
    fn path(&self, first: usize) -> Result<Vec<(usize, u32)>, Vec<usize>> {
        // Through which CPU a group was found, and from which group a CPU.
        let mut through: BTreeMap<usize, Option<u32>> = BTreeMap::from([(first, None)]);
        let mut reached: BTreeMap<u32, usize> = BTreeMap::new();
        let mut queue = VecDeque::from([first]);
        while let Some(group) = queue.pop_front() {
            if let Some(free) =
                self.cpus[group].iter().find(|cpu| self.spare.get(cpu).is_some_and(|left| *left > 0))
            {
                let before = |(group, _): &(usize, u32)| {
                    let cpu = through.get(group).copied().flatten()?;
                    Some((*reached.get(&cpu)?, cpu))
                };
                let mut path: Vec<(usize, u32)> =
                    std::iter::successors(Some((group, *free)), before).collect();
                path.reverse();
                return Ok(path);
            }
            for cpu in self.cpus[group] {
                if reached.contains_key(cpu) {
                    continue;
                }
                reached.insert(*cpu, group);
                let has_some = |other: &usize| self.given[*other].get(cpu).is_some_and(|part| *part > 0);
                for other in (0..self.given.len()).filter(has_some) {
                    through.entry(other).or_insert_with(|| {
                        queue.push_back(other);
                        Some(*cpu)
                    });
                }
            }
        }
        Err(through.into_keys().collect())
    }

    fn push(&mut self, path: &[(usize, u32)], part: u64) {
        for (number, (group, cpu)) in path.iter().enumerate() {
            *self.given[*group].entry(*cpu).or_default() += part;
            let given_up = number.checked_sub(1).and_then(|before| path.get(before));
            if let Some(left) = given_up.and_then(|(_, cpu)| self.given[*group].get_mut(cpu)) {
                *left -= part;
            }
        }
        if let Some(left) = path.last().and_then(|(_, cpu)| self.spare.get_mut(cpu)) {
            *left -= part;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CPUS: u32 = 6;

    fn set(bits: u32) -> BTreeSet<u32> {
        (0..CPUS).filter(|cpu| bits >> cpu & 1 == 1).collect()
    }

    fn demand(bits: u32, billionths: u64) -> ReservedDemand {
        ReservedDemand { cpus: set(bits), billionths }
    }

    /// Hall's condition: no set of CPUs is all that some may use who reserve more than it has.
    fn is_possible(demands: &[ReservedDemand]) -> bool {
        (0..1u32 << CPUS).map(set).all(|cpus| {
            let within = demands.iter().filter(|demand| demand.cpus.is_subset(&cpus));
            within.map(|demand| demand.billionths).sum::<u64>() <= cpus.len() as u64 * WHOLE
        })
    }

    #[test]
    fn those_in_each_others_way_are_named_and_no_others() {
        let three = [
            demand(0b11, 800_000_000),
            demand(0b1100, 900_000_000),
            demand(0b11, 800_000_000),
            demand(0b11, 800_000_000),
        ];
        let crowd = allot(&three).unwrap_err();
        assert_eq!((crowd.members, crowd.cpus, crowd.billionths), (vec![0, 2, 3], set(0b11), 2_400_000_000));
        // One moves aside for the other, through a third.
        let chain = [demand(0b11, 1_000_000_000), demand(0b110, 1_000_000_000), demand(0b1, 1_000_000_000)];
        let given = allot(&chain).unwrap();
        assert_eq!(given[0], Allotment::from([(1, 1_000_000_000)]));
        assert_eq!(given[1], Allotment::from([(2, 1_000_000_000)]));
        assert!(allot(&[demand(0b1, 1_000_000_000), demand(0b1, 1)]).is_err());
        assert_eq!(allot(&[]), Ok(Vec::new()));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]
        #[test]
        fn what_is_possible_is_what_hall_says(
            // Coarse amounts, so that what just fits comes up often.
            wanted in prop::collection::vec((1u32..1 << CPUS, 0u64..9), 0..8), unit in prop_oneof![Just(250_000_000u64), Just(333_333_333)],
        ) {
            let demands: Vec<ReservedDemand> = wanted.iter().map(|(bits, parts)| demand(*bits, parts * unit)).collect();
            match allot(&demands) {
                Ok(given) => {
                    prop_assert!(is_possible(&demands));
                    let mut of_cpu = BTreeMap::<u32, u64>::new();
                    for (demand, given) in demands.iter().zip(&given) {
                        prop_assert_eq!(given.values().sum::<u64>(), demand.billionths);
                        prop_assert!(given.keys().all(|cpu| demand.cpus.contains(cpu)));
                        for (cpu, part) in given {
                            *of_cpu.entry(*cpu).or_default() += part;
                        }
                    }
                    prop_assert!(of_cpu.values().all(|sum| *sum <= WHOLE), "{:?}", of_cpu);
                }
                Err(crowd) => {
                    prop_assert!(!is_possible(&demands));
                    let members = crowd.members.iter().map(|number| &demands[*number]);
                    prop_assert!(members.clone().all(|demand| demand.cpus.is_subset(&crowd.cpus)));
                    prop_assert_eq!(members.map(|demand| demand.billionths).sum::<u64>(), crowd.billionths);
                    prop_assert!(crowd.billionths > crowd.cpus.len() as u64 * WHOLE);
                }
            }
        }
    }
}
