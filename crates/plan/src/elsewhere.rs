//! Why each is where it is: where else it could be while all others stay, what that would cost, and which rules are against the rest.
//!
//! ```text
//!  all others where they are ─┬► all rules:      impossible at first sight, or searched for ─► possible: what it is worth
//!                             └► one rule alone: impossible, too?                           ─► it refuses the place by itself
//! ```
//! The formula without its symmetries, since places of equal nodes are different places here; and each rule can be switched off:
//! its constraints ask for nothing while its switch is false. How much is looked at is counted, not timed, so that it is the same
//! everywhere.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use model::partition::NumberList;
use model::plan::{Elsewhere, Goal, OtherPlace, OtherValue, Plan, RefusedPlace, Rule};

use crate::encode::{Encoded, Group};
use crate::pb::{AtLeast, Formula, Lit, Log, Searched, Solver};
use crate::problem::Problem;
use crate::search::State;

/// Places of a replica that are looked at.
const MOST_PLACES: usize = 100;
/// How often the search for one place goes on: each time for 64 conflicts.
const MOST_ROUNDS: u32 = 16;
/// Literals whose consequences are looked at for all replicas together.
pub const MOST_WORK: u64 = 30_000_000;

/// Says of each replica of a plan where else it could be; `values` is the solution that the plan was made of. After `most_work` no
/// other one is begun.
pub fn tell(
    plan: &mut Plan,
    problem: &Problem,
    (encoded, values): (&Encoded, &[bool]),
    most_work: u64,
    is_over: &dyn Fn() -> bool,
) {
    let mut asker = Asker::new(problem, encoded, values, is_over);
    let mut left = 0;
    for placed in &mut plan.partitions {
        let piece = problem.pieces.iter().position(|piece| piece.name == placed.name);
        let piece = piece.filter(|_| !is_over() && asker.solver.work() < most_work);
        placed.elsewhere = piece.and_then(|piece| asker.of(piece));
        left += usize::from(placed.elsewhere.is_none());
    }
    if left > 0 {
        let why = if is_over() { "the time was over" } else { "the system is too large to ask for all" };
        plan.notes.push(format!(
            "where else each could be was not looked at for {left} of {}: {why}",
            plan.partitions.len()
        ));
    }
}

/// Nodes of one host.
type Nodes = Vec<usize>;

/// The rules that refuse a place, each by itself.
type Refused = BTreeMap<Nodes, BTreeSet<Rule>>;

struct Asker<'a> {
    problem: &'a Problem,
    state: State,
    solver: Solver,
    x: Vec<Vec<Option<Lit>>>,
    switches: BTreeMap<Group, Lit>,
    is_over: &'a dyn Fn() -> bool,
}

impl<'a> Asker<'a> {
    fn new(problem: &'a Problem, encoded: &Encoded, values: &[bool], is_over: &'a dyn Fn() -> bool) -> Self {
        let mut formula = Formula::default();
        let mut known: Vec<Option<Lit>> = vec![None; encoded.formula.variables as usize];
        let mut switches: BTreeMap<Group, Lit> = BTreeMap::new();
        for (place, constraint) in encoded.formula.constraints.iter().enumerate() {
            let run = encoded.groups.partition_point(|(first, _)| *first <= place);
            let group = run.checked_sub(1).map_or(Group::Given, |run| encoded.groups[run].1);
            if group == Group::Goals {
                continue;
            }
            let mut terms = constraint.terms.clone();
            for (_, lit) in &mut terms {
                let same = *known[lit.var() as usize].get_or_insert_with(|| formula.variable());
                *lit = if lit.is_negative() { !same } else { same };
            }
            if group != Group::Given {
                let switch = *switches.entry(group).or_insert_with(|| formula.variable());
                terms.push((constraint.least, !switch));
            }
            formula.constraints.push(AtLeast { terms, least: constraint.least });
        }
        let mut solver = Solver::new(&formula, Log::default());
        for (lit, value) in known.iter().zip(values) {
            lit.iter().for_each(|lit| solver.suggest(if *value { *lit } else { !*lit }, 0.0));
        }
        let here = |x: &Option<Lit>| x.and_then(|x| known[x.var() as usize]);
        let x: Vec<Vec<Option<Lit>>> =
            encoded.x.iter().map(|nodes| nodes.iter().map(here).collect()).collect();
        let mut state = State::new(problem);
        for (piece, nodes) in encoded.x.iter().enumerate() {
            let is_true = |node: &usize| nodes[*node].is_some_and(|x| values[x.var() as usize]);
            let nodes: Nodes = (0..nodes.len()).filter(is_true).collect();
            if !nodes.is_empty() {
                state.put(problem, piece, nodes);
            }
        }
        Self { problem, state, solver, x, switches, is_over }
    }

    /// Where else a replica could be; none where the time was over before that was known.
    fn of(&mut self, piece: usize) -> Option<Elsewhere> {
        let own = self.state.nodes[piece].clone();
        let (places, all) = self.places(piece, &own);
        let looked_at = places.len();
        let mut refused = Refused::new();
        let mut open: Vec<Nodes> = Vec::new();
        for nodes in places {
            if nodes.iter().all(|node| self.x[piece][*node].is_some()) {
                open.push(nodes);
            } else {
                let misfits = nodes.iter().flat_map(|node| self.problem.misfits(piece, *node)).collect();
                refused.insert(nodes, misfits);
            }
        }
        let others = self.others(piece);
        let (mut possible, mut not_known, mut against) = (Vec::new(), 0, Vec::new());
        for (nodes, found) in self.with(&others, |_| true, piece, open) {
            match found {
                Searched::Holds => possible.push(nodes),
                Searched::Fails => against.push(nodes),
                Searched::Ended => not_known += 1,
            }
        }
        refused.extend(self.by_rule(&others, piece, against));
        let best = self.best(piece, &own, &possible);
        if (self.is_over)() {
            return None;
        }
        let refused = refused.into_iter().map(|(nodes, rules)| {
            let (host, nodes) = self.named(&nodes);
            RefusedPlace { host, nodes, rules: rules.into_iter().collect() }
        });
        Some(Elsewhere {
            places: all,
            looked_at: looked_at as u64,
            possible: possible.len() as u64,
            not_known,
            best,
            refused: refused.collect(),
        })
    }

    /// Other places of it, and how many there are; those of the first hosts and nodes where that is too many.
    fn places(&self, piece: usize, own: &[usize]) -> (Vec<Nodes>, u64) {
        let parts = self.problem.pieces[piece].parts as usize;
        let (mut places, mut all) = (Vec::new(), 0u64);
        for host in &self.problem.site.hosts {
            all = all.saturating_add(ways(host.nodes.len() as u64, parts as u64));
            // One more, since its own is none of them.
            subsets(host.nodes.clone(), parts, MOST_PLACES + 1, &mut Vec::new(), &mut places);
        }
        places.retain(|nodes| nodes != own);
        places.truncate(MOST_PLACES);
        (places, all.saturating_sub(1))
    }

    /// All others stay: what follows from it is that they are nowhere else.
    fn others(&self, piece: usize) -> Vec<Lit> {
        let x = |other: usize| self.state.nodes[other].iter().filter_map(move |node| self.x[other][*node]);
        (0..self.x.len()).filter(|other| *other != piece).flat_map(x).collect()
    }

    /// Whether it can be at each of these places, by the rules that are on.
    fn with(
        &mut self,
        others: &[Lit],
        is_on: impl Fn(Group) -> bool,
        piece: usize,
        places: Vec<Nodes>,
    ) -> Vec<(Nodes, Searched)> {
        let switched = self.switches.iter().map(|(group, lit)| if is_on(*group) { *lit } else { !*lit });
        let assumed: Vec<Lit> = others.iter().copied().chain(switched).collect();
        let is_met = self.solver.follows(&assumed);
        let lits = |nodes: &Nodes| nodes.iter().filter_map(|node| self.x[piece][*node]).collect::<Vec<Lit>>();
        let at_sight: Vec<bool> = places
            .iter()
            .map(|nodes| lits(nodes).into_iter().any(|x| self.solver.value(x) == Some(false)))
            .collect();
        let mut all = Vec::new();
        for (nodes, at_sight) in places.into_iter().zip(at_sight) {
            let assumed: Vec<Lit> = assumed.iter().copied().chain(lits(&nodes)).collect();
            let rounds = Cell::new(0);
            let is_enough = || {
                rounds.set(rounds.get() + 1);
                rounds.get() > MOST_ROUNDS || (self.is_over)()
            };
            let found = if !is_met {
                Searched::Ended
            } else if at_sight {
                Searched::Fails
            } else {
                self.solver.solve_again(&assumed, &is_enough)
            };
            all.push((nodes, found));
        }
        all
    }

    /// Of impossible places: which rules refuse them, each by itself.
    fn by_rule(&mut self, others: &[Lit], piece: usize, places: Vec<Nodes>) -> Refused {
        let mut refused: Refused = places.into_iter().map(|nodes| (nodes, BTreeSet::new())).collect();
        // Those that count with CPUs and memory come later: where these are too few, they have nothing of their own to say.
        let rules = [Rule::Cpus, Rule::Pool, Rule::Memory];
        let groups = rules.map(Group::Rule).into_iter().chain([Group::Caches]);
        let last = Rule::ALL.into_iter().filter(|rule| !rules.contains(rule)).map(Group::Rule);
        let groups: Vec<Group> =
            groups.chain(last).filter(|group| self.switches.contains_key(group)).collect();
        for group in groups {
            for has_room in [true, false] {
                let is_meant = |rules: &BTreeSet<Rule>| {
                    let lacks = |rule: &Rule| rules.contains(rule);
                    let lacks_cpus = [Rule::Cpus, Rule::Pool, Rule::Core].iter().any(lacks);
                    let has_all = !lacks_cpus && !lacks(&Rule::Memory);
                    match group {
                        Group::Rule(Rule::Pool) | Group::Caches => has_room && !lacks_cpus,
                        Group::Rule(Rule::Downtime) => has_room && has_all,
                        Group::Rule(Rule::Isolation | Rule::Apart) => has_room != lacks_cpus,
                        _ => has_room,
                    }
                };
                let meant: Vec<Nodes> = refused
                    .iter()
                    .filter(|(_, rules)| is_meant(rules))
                    .map(|(nodes, _)| nodes.clone())
                    .collect();
                if meant.is_empty() {
                    continue;
                }
                let counts = has_room && matches!(group, Group::Rule(Rule::Isolation | Rule::Apart));
                let is_on = |one: Group| one == group || counts && one == Group::Caches;
                for (nodes, found) in self.with(others, is_on, piece, meant) {
                    if found == Searched::Fails {
                        let rules = self.named_by(group, piece, &nodes);
                        refused.entry(nodes).or_default().extend(rules);
                    }
                }
            }
        }
        refused
    }

    /// The rule whose constraints these are. Where CPUs are too few, it depends on whose they are.
    fn named_by(&self, group: Group, piece: usize, nodes: &Nodes) -> BTreeSet<Rule> {
        match group {
            Group::Rule(Rule::Cpus) => {}
            Group::Rule(rule) => return BTreeSet::from([rule]),
            // Enough CPUs, but no whole cores of them within caches.
            _ => return BTreeSet::from([Rule::Core]),
        }
        let pieces = &self.problem.pieces;
        let of_node = |node: &usize| {
            let here = &self.problem.site.nodes[*node];
            let is_there = |other: &usize| *other == piece || self.state.nodes[*other].contains(node);
            let guests: Vec<usize> = (0..pieces.len()).filter(is_there).collect();
            let sum = |of: &dyn Fn(&crate::problem::Piece) -> i64| {
                guests.iter().map(|guest| of(&pieces[*guest])).sum::<i64>()
            };
            if sum(&|one| if one.share.is_some() { 0 } else { one.cpus }) > here.cpus() {
                Some(Rule::Cpus)
            } else if sum(&|one| one.whole(here)) > here.cpus() {
                Some(Rule::Core)
            } else {
                (sum(&|one| one.milli(here)) > 1000 * here.cpus()).then_some(Rule::Pool)
            }
        };
        nodes.iter().filter_map(of_node).collect()
    }

    /// The best of these places, by the goals in their order; the first of those that are as good.
    fn best(&mut self, piece: usize, own: &Nodes, possible: &[Nodes]) -> Option<OtherPlace> {
        let mut worth = |nodes: &Nodes| self.state.worth_with(self.problem, piece, nodes);
        let best = possible.iter().map(|nodes| (worth(nodes), nodes)).min();
        let planned = worth(own);
        let (values, nodes) = best?;
        let goals = Goal::ALL.into_iter().zip(values).zip(planned);
        let goals = goals.filter(|((_, value), planned)| value != planned);
        let (host, nodes) = self.named(nodes);
        let goals =
            goals.map(|((goal, value), _)| OtherValue { goal, value: value.unsigned_abs() }).collect();
        Some(OtherPlace { host, nodes, goals })
    }

    fn named(&self, nodes: &[usize]) -> (String, NumberList) {
        let site = &self.problem.site;
        let host = nodes.first().map_or("", |node| &site.hosts[site.nodes[*node].host].name);
        (host.to_owned(), NumberList::of(nodes.iter().map(|node| site.nodes[*node].number)))
    }
}

/// In how many ways so many of them can be chosen.
fn ways(of: u64, many: u64) -> u64 {
    if many > of {
        return 0;
    }
    let times = |ways: u128, at: u64| ways.saturating_mul((of - at).into()) / u128::from(at + 1);
    let ways = (0..many.min(of - many)).fold(1, times);
    u64::try_from(ways).unwrap_or(u64::MAX)
}

/// Subsets of so many of these, in their order, until `all` has enough.
fn subsets(of: Range<usize>, many: usize, most: usize, chosen: &mut Nodes, all: &mut Vec<Nodes>) {
    if all.len() >= most || of.len() < many {
        return;
    }
    if many == 0 {
        all.push(chosen.clone());
        return;
    }
    for first in of.clone() {
        chosen.push(first);
        subsets(first + 1..of.end, many - 1, most, chosen, all);
        chosen.pop();
    }
}

#[cfg(test)]
mod tests {
    use model::system::System;

    use super::*;
    use crate::assemble::{self, Places};
    use crate::decide::{Outcome, best};
    use crate::encode::encode;

    #[test]
    fn a_system_too_large_is_looked_at_in_part_and_says_so() {
        let node = |number: u32| {
            let (first, last) = (4 * number, 4 * number + 3);
            format!("[[host.a.node]]\nnumber = {number}\ncpus = \"{first}-{last}\"\nmemory_mib = 4096\n")
        };
        let partition = |name: &str| format!("[partition.{name}]\nprogram = [\"/bin/true\"]\n");
        let text = (0..3).map(node).chain(["p", "q", "r"].map(partition)).collect::<String>();
        let system = System::from_toml(&text, "system").expect("a system");
        let hosts: Vec<_> =
            system.hosts.iter().flat_map(|(name, host)| host.known(name, host.shape())).collect();
        let problem = Problem::new(&system, &hosts, &BTreeSet::new());
        let encoded = encode(&problem);
        let mut solver = Solver::new(&encoded.formula, Log::default());
        let Outcome::Found(found) = best(&encoded.formula, &mut solver, &|| false) else { panic!("no plan") };
        let places = Places::of_solution(&problem, &encoded, &found.values);
        let goals = assemble::goal_values(&found.goals);
        let plan = assemble::plan(&system, &problem, &places, goals);
        let told = |most_work: u64| {
            let mut plan = plan.clone();
            tell(&mut plan, &problem, (&encoded, &found.values), most_work, &|| false);
            let told = plan.partitions.iter().filter(|placed| placed.elsewhere.is_some()).count();
            (told, plan.notes)
        };
        assert_eq!(told(MOST_WORK), (3, vec![]));
        let mut asker = Asker::new(&problem, &encoded, &found.values, &|| false);
        let said =
            "where else each could be was not looked at for 2 of 3: the system is too large to ask for all";
        assert_eq!(told(asker.solver.work() + 1), (1, vec![said.to_owned()]));
        // What the plan is worth is reckoned as the search has.
        let own = asker.state.nodes[0].clone();
        let worth = asker.state.worth_with(&problem, 0, &own);
        assert_eq!(worth.to_vec(), found.goals.iter().map(|goal| goal.0).collect::<Vec<i64>>());
    }
}
