//! What a plan is worth by each goal, found from its places alone; and what it says of itself that is not so.

use std::collections::{BTreeMap, BTreeSet};

use model::plan::{Goal, OtherValue, PLAN_SCHEMA_VERSION, Placed, Plan, PlannedTalk};
use model::system::{KnownHost, Level, System};

use crate::world::{Host, Seen, Total, World};

/// What a plan is worth, in the order of [`Goal::ALL`]. Replicas without a place that there is count for nothing.
pub fn goals(system: &System, hosts: &[KnownHost], plan: &Plan, from: Option<&Plan>) -> [u64; 6] {
    let hosts = Host::all(hosts);
    let world = World::of(system, &hosts, plan);
    let of = |goal: Goal| match goal {
        Goal::Moves => from.map_or(0, |from| moves(&world, from)),
        Goal::Hosts => world.seen.iter().map(Seen::host_name).collect::<BTreeSet<_>>().len() as Total,
        Goal::SocketsSpanned => {
            let split = world.seen.iter().filter(|seen| seen.placed.seats.len() > 1);
            split.map(|seen| seen.sockets().len() as Total).sum()
        }
        Goal::BetweenHosts => traffic(&world, |within| Total::from(within == Level::Switch)),
        Goal::BetweenNodes => traffic(&world, |within| match within {
            Level::Node | Level::Switch => 0,
            Level::Socket => 1,
            _ => 2,
        }),
        Goal::FullestNode => fullest(&world),
    };
    Goal::ALL.map(|goal| u64::try_from(of(goal)).unwrap_or(u64::MAX))
}

/// Replicas that are elsewhere than they were.
fn moves(world: &World<'_>, from: &Plan) -> Total {
    let place = |placed: &Placed| -> (String, BTreeSet<u32>) {
        (placed.host.clone(), placed.seats.iter().map(|seat| seat.node).collect())
    };
    let mut before: BTreeMap<&str, &Placed> = BTreeMap::new();
    for placed in &from.partitions {
        before.entry(&placed.name).or_insert(placed);
    }
    let is_moved =
        |placed: &Placed| before.get(placed.name.as_str()).is_some_and(|old| place(old) != place(placed));
    world.seen.iter().filter(|seen| is_moved(seen.placed)).count() as Total
}

/// Bytes per second of all talks, each as often as its distance counts.
fn traffic(world: &World<'_>, counts: impl Fn(Level) -> Total) -> Total {
    world.talks().iter().map(|talk| counts(talk.within()) * Total::from(talk.rate)).sum()
}

/// What the fullest node is used to, in percent rounded up.
fn fullest(world: &World<'_>) -> Total {
    let percent = |used: Total, there: Total| {
        if there == 0 { 0 } else { used.saturating_mul(100).div_ceil(there) }
    };
    let loads = world.loads();
    let fullness = loads.iter().filter_map(|(name, load)| {
        let node = world.node(*name)?;
        let cpus = percent(load.cpu_percent, Total::from(node.free_cpus()) * 100);
        Some(cpus.max(percent(load.plain_mib, node.plain_mib().into())))
    });
    fullness.max().unwrap_or(0)
}

/// What a plan says of itself that is not so: its goals, talks and hosts. What `least` claims is proven by a certificate, not here.
pub fn wrong_claims(system: &System, hosts: &[KnownHost], plan: &Plan, from: Option<&Plan>) -> Vec<String> {
    let mut wrong = Vec::new();
    if plan.schema_version != PLAN_SCHEMA_VERSION {
        wrong.push(format!("schema_version is {}, wanted {PLAN_SCHEMA_VERSION}", plan.schema_version));
    }
    if plan.system != system.set.name {
        wrong.push(format!("it is a plan of \"{}\", not of \"{}\"", plan.system, system.set.name));
    }
    let named: Vec<Goal> = plan.goals.iter().map(|claim| claim.goal).collect();
    if named != Goal::ALL {
        let named: Vec<&str> = named.into_iter().take(20).map(Goal::word).collect();
        wrong.push(format!(
            "goals: wanted {}, got {}",
            Goal::ALL.map(Goal::word).join(", "),
            named.join(", ")
        ));
    }
    let found = goals(system, hosts, plan, from);
    for claim in plan.goals.iter().take(20) {
        let (name, least, value) = (claim.goal.word(), claim.least, claim.value);
        for (_, found) in
            Goal::ALL.iter().zip(found).filter(|(goal, found)| **goal == claim.goal && *found != value)
        {
            wrong.push(format!("{name} says {value}, and is {found}"));
        }
        if least > value {
            wrong.push(format!("{name} says that none is below {least}, and is {value} itself"));
        }
    }
    let hosts = Host::all(hosts);
    let world = World::of(system, &hosts, plan);
    wrong_hosts(&world, plan, &mut wrong);
    wrong_talks(&world, plan, &mut wrong);
    wrong
}

/// What a plan says of where else each could be that is not so, as far as it can be seen from places alone: what the second-best place
/// would cost, and that it is no better. Plans of many partitions take long: each of them is put there in turn.
pub fn wrong_elsewhere(
    system: &System,
    hosts: &[KnownHost],
    plan: &Plan,
    from: Option<&Plan>,
) -> Vec<String> {
    let planned = goals(system, hosts, plan, from);
    let mut moved = plan.clone();
    let mut wrong = Vec::new();
    for (at, placed) in plan.partitions.iter().enumerate() {
        let Some(best) = placed.elsewhere.as_ref().and_then(|elsewhere| elsewhere.best.as_ref()) else {
            continue;
        };
        let name = &placed.name;
        let numbers = best.nodes.numbers();
        let is_own = placed.host == best.host && placed.seats.iter().map(|seat| &seat.node).eq(numbers);
        let host = hosts.iter().find(|host| host.name == best.host);
        let is_there = |number: &u32| {
            host.is_some_and(|host| host.shape.nodes.iter().any(|node| node.number == *number))
        };
        if is_own || numbers.len() != placed.seats.len() || !numbers.iter().all(is_there) {
            wrong.push(format!("{name} has no other place at {} {}", best.host, best.nodes));
            continue;
        }
        let Some(other) = moved.partitions.get_mut(at) else { continue };
        other.host.clone_from(&best.host);
        other.seats.iter_mut().zip(numbers).for_each(|(seat, number)| seat.node = *number);
        let found = goals(system, hosts, &moved, from);
        moved.partitions.get_mut(at).into_iter().for_each(|other| other.clone_from(placed));
        let differing =
            Goal::ALL.into_iter().zip(found).zip(planned).filter(|((_, value), was)| value != was);
        let differing: Vec<OtherValue> =
            differing.map(|((goal, value), _)| OtherValue { goal, value }).collect();
        if differing != best.goals {
            wrong
                .push(format!("{name}: what its place at {} {} would cost is not so", best.host, best.nodes));
        }
        if found < planned {
            wrong.push(format!("{name} would be better at {} {}", best.host, best.nodes));
        }
    }
    wrong
}

fn wrong_hosts(world: &World<'_>, plan: &Plan, wrong: &mut Vec<String>) {
    let used: BTreeSet<&str> = world.seen.iter().map(Seen::host_name).collect();
    let mut listed = BTreeSet::new();
    for host in &plan.hosts {
        let name = host.name.as_str();
        if !world.hosts.contains_key(name) {
            wrong.push(format!("hosts: there is no host \"{name}\""));
            continue;
        }
        if !listed.insert(name) {
            wrong.push(format!("hosts: \"{name}\" is there twice"));
        }
        match (&host.set_file, used.contains(name)) {
            (None, true) => wrong.push(format!("hosts: \"{name}\" has partitions and no set_file")),
            (Some(file), false) => {
                wrong.push(format!("hosts: \"{name}\" has no partitions, and set_file \"{file}\""));
            }
            _ => {}
        }
    }
    let missing = world.hosts.keys().filter(|name| !listed.contains(*name));
    wrong.extend(missing.map(|name| format!("hosts: \"{name}\" is missing")));
}

fn wrong_talks(world: &World<'_>, plan: &Plan, wrong: &mut Vec<String>) {
    let mut claimed: BTreeMap<(&str, &str), &PlannedTalk> = BTreeMap::new();
    for talk in &plan.talks {
        if claimed.insert((&talk.from, &talk.to), talk).is_some() {
            wrong.push(format!("talks: from \"{}\" to \"{}\" is there twice", talk.from, talk.to));
        }
    }
    for talk in world.talks() {
        let (from, to) = (&talk.from.placed.name, &talk.to.placed.name);
        let Some(claim) = claimed.remove(&(from.as_str(), to.as_str())) else {
            wrong.push(format!("talks: from \"{from}\" to \"{to}\" is missing"));
            continue;
        };
        let found = [talk.rate, talk.latency_us(world)];
        let says = [claim.bytes_per_s.get(), claim.latency_us.get()];
        for (key, (says, found)) in ["bytes_per_s", "latency_us"].into_iter().zip(says.into_iter().zip(found))
        {
            if says != found {
                wrong.push(format!("talks: {key} from \"{from}\" to \"{to}\" says {says}, and is {found}"));
            }
        }
        if claim.within != talk.within() {
            let (says, found) = (claim.within.word(), talk.within().word());
            wrong.push(format!(
                "talks: from \"{from}\" to \"{to}\" says within a {says}, and is within a {found}"
            ));
        }
    }
    let rest = claimed.keys();
    wrong.extend(rest.map(|(from, to)| format!("talks: nobody needs one from \"{from}\" to \"{to}\"")));
}

#[cfg(test)]
mod tests;
