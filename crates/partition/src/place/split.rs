//! One job becomes one partition per memory node: CPUs and memory are split, and no partition spans nodes. Pure.
//!
//! For programs that pass messages; those that share memory cannot be split. More than one partition per node would be
//! worse than one big one, so there is exactly one. Source: Ibrahim, *Partitioning VMs on manycore* (2012).

use super::topology::{HostNode, HostTopology};
use model::partition::{NumberList, Resources};
use units::{Mebibytes, Reason};

/// The parts of a job, one per memory node that has CPUs and memory, in the order of the nodes.
///
/// The job's CPUs and memory are those of all parts together. CPUs are dealt in proportion to what each node has (or has
/// of the CPUs that were named), memory in proportion to the CPUs; a node that gets no CPU has no part. A cap is dealt
/// like memory; a weight says how a partition stands against others and is the same for every part.
///
/// # Errors
/// The job asks for a node by itself, for several nodes of its own, or for more than there is to deal.
pub fn by_node(job: &Resources, host: &HostTopology) -> Result<Vec<Resources>, Reason> {
    if let Some(node) = job.node {
        return Err(format!(
            "a job that is to lie on memory node {node} cannot be split over the nodes: leave one out"
        )
        .into());
    }
    if job.guest_nodes > 1 {
        return Err(format!(
            "a job whose guest sees {} memory nodes cannot be split over the host's: leave one out",
            job.guest_nodes
        )
        .into());
    }
    let homes: Vec<(&HostNode, NumberList)> = host
        .nodes
        .iter()
        .filter(|node| node.memory.get() > 0)
        .map(|node| (node, usable_cpus(node, job.pin.as_ref())))
        .filter(|(_, cpus)| !cpus.numbers().is_empty())
        .collect();
    let room: Vec<u64> = homes.iter().map(|(_, cpus)| cpus.numbers().len() as u64).collect();
    let there: u64 = room.iter().sum();
    if u64::from(job.cpus) > there || job.cpus == 0 {
        return Err(
            format!("wanted {} CPUs to split over the memory nodes; there are {there}", job.cpus).into()
        );
    }
    let cpus = dealt(u64::from(job.cpus), &room);
    let memory = dealt(job.memory.get(), &cpus);
    let caps = job.cpu_cap_percent.map(|cap| dealt(u64::from(cap), &cpus));
    let mut parts = Vec::new();
    for (number, (node, set)) in homes.into_iter().enumerate() {
        let share = |all: &[u64]| all.get(number).copied().unwrap_or(0);
        let (cpus, memory) = (share(&cpus), Mebibytes::from_mib(share(&memory)));
        if cpus == 0 {
            continue;
        }
        let cap = caps.as_ref().map(|caps| share(caps));
        if memory.get() == 0 || cap == Some(0) {
            return Err(format!(
                "wanted memory and CPU time for every part, got too little for node {}",
                node.number
            )
            .into());
        }
        if memory.to_bytes() > node.memory {
            return Err(format!(
                "wanted {} of memory on node {} for {cpus} CPUs, it has {}: ask for less memory",
                memory.to_bytes(),
                node.number,
                node.memory
            )
            .into());
        }
        // One to one when every named CPU has its virtual one, else the first of the node's as many as there are.
        let pin =
            job.pin.as_ref().map(|_| NumberList::of(set.numbers().iter().copied().take(as_count(cpus))));
        parts.push(Resources {
            cpus: u32::try_from(cpus).unwrap_or(u32::MAX),
            pin,
            memory,
            node: Some(node.number),
            cpu_cap_percent: cap.map(|cap| u32::try_from(cap).unwrap_or(u32::MAX)),
            ..job.clone()
        });
    }
    Ok(parts)
}

fn usable_cpus(node: &HostNode, pin: Option<&NumberList>) -> NumberList {
    let named = |cpu: &u32| pin.is_none_or(|pin| pin.numbers().contains(cpu));
    NumberList::of(node.cpus.numbers().iter().copied().filter(named))
}

fn as_count(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// `total` in whole shares in proportion to `weights`: what is left over by rounding down goes to the largest remainders
/// (Hamilton's method), the first of equals. No share exceeds its weight when the total does not exceed their sum.
fn dealt(total: u64, weights: &[u64]) -> Vec<u64> {
    let sum: u128 = weights.iter().map(|weight| u128::from(*weight)).sum();
    if sum == 0 {
        return vec![0; weights.len()];
    }
    let exact = |weight: &u64| u128::from(total) * u128::from(*weight);
    let mut shares: Vec<u64> =
        weights.iter().map(|weight| u64::try_from(exact(weight) / sum).unwrap_or(u64::MAX)).collect();
    let left = total - shares.iter().sum::<u64>();
    let mut order: Vec<usize> = (0..weights.len()).collect();
    order.sort_by_key(|index| std::cmp::Reverse(weights.get(*index).map_or(0, |weight| exact(weight) % sum)));
    for index in order.into_iter().take(as_count(left)) {
        if let Some(share) = shares.get_mut(index) {
            *share += 1;
        }
    }
    shares
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::topology::tests::big_host;
    use super::*;

    #[test]
    fn a_job_becomes_one_part_per_node() {
        // Nodes of 4, 4, 4 and 3 CPUs.
        let mut job = Resources::usual(15, Mebibytes::from_mib(1500));
        job.cpu_cap_percent = Some(1500);
        let parts = by_node(&job, &big_host()).unwrap();
        let each: Vec<_> =
            parts.iter().map(|part| (part.node.unwrap(), part.cpus, part.memory.get())).collect();
        assert_eq!(each, [(0, 4, 400), (1, 4, 400), (2, 4, 400), (3, 3, 300)]);
        assert_eq!(parts[3].cpu_cap_percent, Some(300));
        let few = by_node(&Resources::usual(2, Mebibytes::from_mib(64)), &big_host()).unwrap();
        assert_eq!(few.len(), 2, "a node without a CPU has no part");
    }

    #[test]
    fn named_cpus_stay_the_ones_that_are_used() {
        let mut job = Resources::usual(4, Mebibytes::from_mib(100));
        job.pin = Some("2-5".parse().unwrap());
        let parts = by_node(&job, &big_host()).unwrap();
        let pins: Vec<String> = parts.iter().map(|part| part.pin.as_ref().unwrap().to_string()).collect();
        assert_eq!(pins, ["2-3", "4-5"]);
        job.cpus = 5;
        assert!(
            by_node(&job, &big_host())
                .unwrap_err()
                .to_string()
                .contains("5 CPUs to split over the memory nodes; there are 4")
        );
    }

    #[test]
    fn what_cannot_be_split_is_said() {
        let refused = |change: fn(&mut Resources)| {
            let mut job = Resources::usual(4, Mebibytes::from_mib(100));
            change(&mut job);
            by_node(&job, &big_host()).unwrap_err()
        };
        assert!(refused(|job| job.node = Some(1)).to_string().contains("node 1"));
        assert!(refused(|job| job.guest_nodes = 2).to_string().contains("2 memory nodes"));
        assert!(refused(|job| job.memory = Mebibytes::from_mib(8000)).to_string().contains("on node 0"));
        assert!(refused(|job| job.memory = Mebibytes::from_mib(2)).to_string().contains("too little"));
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_no_node_gets_more_cpus_than_it_has(cpus in 1_u32..=15, mib in 15_u64..=640) {
            let host = big_host();
            let parts = by_node(&Resources::usual(cpus, Mebibytes::from_mib(mib)), &host).unwrap();
            prop_assert_eq!(parts.iter().map(|part| part.cpus).sum::<u32>(), cpus);
            prop_assert_eq!(parts.iter().map(|part| part.memory.get()).sum::<u64>(), mib);
            for part in &parts {
                let node = host.node(part.node.unwrap()).unwrap();
                prop_assert!(part.cpus as usize <= node.cpus.numbers().len());
                prop_assert!(super::super::possible::check(&host, part).is_ok());
            }
        }

        #[test]
        fn shares_are_within_one_of_exact(total in 0_u64..1000, weights in prop::collection::vec(0_u64..50, 1..9)) {
            let sum: u64 = weights.iter().sum();
            prop_assume!(sum > 0);
            let shares = dealt(total, &weights);
            prop_assert_eq!(shares.iter().sum::<u64>(), total);
            for (share, weight) in shares.iter().zip(&weights) {
                prop_assert!((share * sum).abs_diff(total * weight) < sum);
            }
        }
    }
}
