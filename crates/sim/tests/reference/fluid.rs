//! What weights alone would give: weighted max-min fairness of a fluid. Levels rise from nothing, each member takes its weight
//! times the level, until it has all that it wants or the CPUs that it may use are full. Whether rates fit is asked of a
//! maximal flow from VMs over virtual CPUs (one CPU's worth each) to CPUs, which is exact for virtual CPUs that are moved
//! between CPUs at will (`McNaughton` 1959). Who sleeps wants its work's part of work and sleep. Nothing is known of caps here.

use super::host::{Host, Load, Weights};

const NOTHING: f64 = 1e-11;

/// CPUs that each VM gets. Where weights are those of virtual CPUs, each of these is served for itself.
pub fn cpus(host: &Host, weights: Weights) -> Vec<f64> {
    let vcpus = host.vcpus();
    let vm_of = |member: usize| if weights == Weights::PerVm { member } else { vcpus[member].0 };
    let members = if weights == Weights::PerVm { host.vms.len() } else { vcpus.len() };
    let member_of = |vcpu: usize| if weights == Weights::PerVm { vcpus[vcpu].0 } else { vcpu };
    let graph = Graph::new(host, &(0..vcpus.len()).map(member_of).collect::<Vec<_>>(), members);
    let weight: Vec<f64> = (0..members).map(|member| f64::from(host.vms[vm_of(member)].weight)).collect();
    let mut rates = vec![0.0; members];
    let mut is_full = vec![false; members];
    while is_full.contains(&false) {
        let at = |level: f64| -> Vec<f64> {
            (0..members)
                .map(|member| if is_full[member] { rates[member] } else { weight[member] * level })
                .collect()
        };
        let (mut low, mut high) = (0.0, 64.0);
        for _ in 0..60 {
            let middle = f64::midpoint(low, high);
            if graph.fits(&at(middle)) { low = middle } else { high = middle }
        }
        rates = at(low);
        for member in 0..members {
            let mut more = rates.clone();
            more[member] += 1e-7;
            is_full[member] |= !graph.fits(&more);
        }
    }
    let mut of = vec![0.0; host.vms.len()];
    (0..members).for_each(|member| of[vm_of(member)] += rates[member]);
    of
}

/// What flows at most over each edge: from the source (0) to members, virtual CPUs, CPUs and the sink (the last).
struct Graph {
    most: Vec<Vec<f64>>,
}

impl Graph {
    fn new(host: &Host, member_of: &[usize], members: usize) -> Self {
        let vcpus = host.vcpus();
        let size = members + vcpus.len() + host.cpus + 2;
        let mut most = vec![vec![0.0; size]; size];
        for (at, (vm, number)) in vcpus.iter().enumerate() {
            let node = 1 + members + at;
            most[1 + member_of[at]][node] = match host.vms[*vm].load {
                Load::Endless => 1.0,
                Load::OnOff { work, wait } => work as f64 / (work + wait) as f64,
            };
            for (cpu, is_allowed) in host.places(*vm, *number).into_iter().enumerate() {
                most[node][1 + members + vcpus.len() + cpu] = if is_allowed { 1.0 } else { 0.0 };
            }
        }
        for cpu in 0..host.cpus {
            most[1 + members + vcpus.len() + cpu][size - 1] = 1.0;
        }
        Self { most }
    }

    /// Whether members can have these rates at once (Edmonds and Karp).
    fn fits(&self, rates: &[f64]) -> bool {
        let mut left = self.most.clone();
        let sink = left.len() - 1;
        left[0][1..=rates.len()].copy_from_slice(rates);
        while let Some(path) = shortest(&left) {
            let most = path.windows(2).map(|edge| left[edge[0]][edge[1]]).fold(f64::MAX, f64::min);
            for edge in path.windows(2) {
                left[edge[0]][edge[1]] -= most;
                left[edge[1]][edge[0]] += most;
            }
            debug_assert_eq!(path.last(), Some(&sink));
        }
        left[0][1..=rates.len()].iter().sum::<f64>() < 1e-9
    }
}

/// The path with the fewest edges on which something can still flow.
fn shortest(left: &[Vec<f64>]) -> Option<Vec<usize>> {
    let mut from = vec![usize::MAX; left.len()];
    let mut reached = vec![0];
    let mut next = 0;
    while next < reached.len() {
        let node = reached[next];
        next += 1;
        for to in 1..left.len() {
            if from[to] == usize::MAX && left[node][to] > NOTHING {
                from[to] = node;
                reached.push(to);
            }
        }
    }
    let mut path = vec![left.len() - 1];
    while let Some(last) = path.last().copied().filter(|last| *last != 0) {
        if from[last] == usize::MAX {
            return None;
        }
        path.push(from[last]);
    }
    path.reverse();
    Some(path)
}

/// Two CPUs; the level that is asked for must come out as by hand.
#[test]
fn the_fluid_is_what_can_be_computed_by_hand() {
    use super::host::Vm;
    let close = |host: &Host, weights, wanted: &[f64]| {
        let got = cpus(host, weights);
        assert!(
            got.iter().zip(wanted).all(|(got, wanted)| (got - wanted).abs() < 1e-6),
            "{got:?} {wanted:?}"
        );
    };
    let three = Host { cpus: 2, vms: vec![Vm::new(1, 8), Vm::new(2, 8), Vm::new(2, 1)] };
    close(&three, Weights::PerVm, &[16.0 / 17.0, 16.0 / 17.0, 2.0 / 17.0]);
    close(&three, Weights::PerVcpu, &[16.0 / 26.0, 32.0 / 26.0, 4.0 / 26.0]);
    // The first cannot use its 1.6 CPUs.
    let full = Host { cpus: 2, vms: vec![Vm::new(1, 8), Vm::new(2, 1), Vm::new(2, 1)] };
    close(&full, Weights::PerVm, &[1.0, 0.5, 0.5]);
    // Two on one CPU, one of which has the other CPU, too.
    let mut pinned = Host { cpus: 2, vms: vec![Vm::new(2, 1), Vm::new(1, 1)] };
    pinned.vms[1].cpus = Some(vec![0]);
    close(&pinned, Weights::PerVm, &[1.0, 1.0]);
    pinned.vms[0].cpus = Some(vec![0, 1]);
    pinned.vms[0].pinned = true;
    pinned.vms[1].weight = 3;
    close(&pinned, Weights::PerVm, &[1.0, 1.0]);
    pinned.vms[0].weight = 4;
    close(&pinned, Weights::PerVm, &[8.0 / 7.0, 6.0 / 7.0]);
}
