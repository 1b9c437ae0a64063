//! Plans a table from what VMs reserve and how long they may wait: Tableau's planner.
//!
//! ```text
//!  reserved_cpus U, latency_us L ─► period T, budget U·T with 2 (T − U·T) ≤ L, the longest T that divides the table
//!    ├─ worst-fit decreasing: each virtual CPU whole onto the CPU with the most left, as long as earliest deadline first fits
//!    └─ else split: as much as fits as a piece whose deadline is its budget (C = D), the rest right after it on the next CPU
//!  CPU by CPU: earliest deadline first over one table, written down; all deadlines end with it, so it repeats
//! ```
//! Sources: Vanga, Gujarati, Brandenburg, "Tableau: a high-throughput and predictable VM scheduler for high-density workloads"
//! (2018), and its public planner (`mvanga/tableau-tools`): periods are the divisors of 102 702 600 ns from 100 µs on, budgets
//! are rounded down to whole nanoseconds. C = D splitting: Burns, Davis, Wang, Zhang, "Partitioned EDF scheduling for
//! multiprocessors using a C=D task splitting scheme" (2012). Whether pieces fit is no test here but the schedule itself, which
//! is exact for a table. Who has to be split and fits with no period of its own tries shorter ones. Not here: Tableau's last
//! resort, optimal schedules over clusters of CPUs, and its filling of gaps below 50 µs.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;

use super::Impossible;
use super::host::{HostSpec, VmSpec};
use super::reserved::billionths;
use super::table::{Instance, Table, TableCell};
use units::Nanos;

/// Length of planned tables: many of its divisors lie close together.
const LENGTH: u64 = 102_702_600;
/// Shortest period.
const SHORTEST: u64 = 100_000;
/// Shortest piece of who is split: below it, switching costs more than it gives.
const SHORTEST_PIECE: u64 = 50_000;
/// A whole CPU in billionths.
const WHOLE: u64 = 1_000_000_000;

/// A virtual CPU that reserves something.
struct Claim {
    vm: usize,
    vcpu: u32,
    /// Number of its VM's entry.
    entry: usize,
    billionths: u64,
    latency: u64,
    cpus: Rc<[u32]>,
}

/// Work of a virtual CPU on one CPU: `budget` within `deadline` after each `offset` + k `period`.
#[derive(Debug, Clone, Copy)]
struct Piece {
    claim: usize,
    offset: u64,
    budget: u64,
    deadline: u64,
    period: u64,
}

impl Piece {
    /// Its work in one table.
    const fn work(&self) -> u64 {
        self.budget * (LENGTH / self.period)
    }
}

/// A stretch of a CPU's table: whose, from when to when.
type Stretch = (usize, u64, u64);

/// Periods, the longest first.
fn periods() -> impl Iterator<Item = u64> {
    (1..=LENGTH / SHORTEST).filter(|count| LENGTH.is_multiple_of(*count)).map(|count| LENGTH / count)
}

/// What a share of a CPU is in a period, rounded down.
fn budget(billionths: u64, period: u64) -> u64 {
    let budget = u128::from(period) * u128::from(billionths) / u128::from(WHOLE);
    u64::try_from(budget).unwrap_or(period)
}

/// Periods that keep a claim's waits short enough, with their budgets, the longest first.
fn servers(claim: &Claim) -> impl Iterator<Item = (u64, u64)> + '_ {
    let fits = |(period, budget): &(u64, u64)| *budget > 0 && 2 * (period - budget) <= claim.latency;
    periods().map(|period| (period, budget(claim.billionths, period))).filter(fits)
}

/// Earliest deadline first over one table; none if somebody is late.
fn schedule(pieces: &[Piece]) -> Option<Vec<Stretch>> {
    if pieces.iter().map(Piece::work).sum::<u64>() > LENGTH {
        return None;
    }
    let jobs = |(number, piece): (usize, &Piece)| {
        let (offset, due, period) = (piece.offset, piece.offset + piece.deadline, piece.period);
        (0..LENGTH / period).map(move |job| (job * period + offset, job * period + due, number))
    };
    let mut coming: Vec<(u64, u64, usize)> = pieces.iter().enumerate().flat_map(jobs).collect();
    coming.sort_unstable_by_key(|job| Reverse(*job));
    let mut waiting: BinaryHeap<Reverse<(u64, usize, u64)>> = BinaryHeap::new();
    let (mut now, mut stretches) = (0, Vec::<Stretch>::new());
    loop {
        while let Some((_, due, number)) = coming.pop_if(|(release, ..)| *release <= now) {
            waiting.push(Reverse((due, number, pieces.get(number)?.budget)));
        }
        let next = coming.last().map_or(u64::MAX, |(release, ..)| *release);
        let Some(Reverse((due, number, left))) = waiting.pop() else {
            if next == u64::MAX {
                return Some(stretches);
            }
            now = next;
            continue;
        };
        let end = next.min(now + left);
        if end > due {
            return None;
        }
        let claim = pieces.get(number)?.claim;
        match stretches.last_mut() {
            Some((last, _, to)) if *last == claim && *to == now => *to = end,
            _ => stretches.push((claim, now, end)),
        }
        if left > end - now {
            waiting.push(Reverse((due, number, left - (end - now))));
        }
        now = end;
    }
}

/// The CPUs and what is on them.
struct Plan {
    cpus: Vec<Vec<Piece>>,
    /// What is left of each.
    spare: Vec<u64>,
}

impl Plan {
    fn spare(&self, cpu: u32) -> u64 {
        self.spare.get(cpu as usize).copied().unwrap_or(0)
    }

    /// CPUs that a claim may use, the one with the most left first.
    fn emptiest(&self, claim: &Claim) -> Vec<u32> {
        let mut cpus = claim.cpus.to_vec();
        cpus.sort_by_key(|cpu| (Reverse(self.spare(*cpu)), *cpu));
        cpus.dedup();
        cpus
    }

    fn fits(&self, cpu: u32, piece: Piece) -> bool {
        let Some(pieces) = self.cpus.get(cpu as usize) else { return false };
        if piece.work() > self.spare(cpu) {
            return false;
        }
        // Deadlines of periods: that the sum fits is enough (Liu and Layland 1973).
        let is_plain = |piece: &Piece| piece.offset == 0 && piece.deadline == piece.period;
        if is_plain(&piece) && pieces.iter().all(is_plain) {
            return true;
        }
        let all: Vec<Piece> = pieces.iter().copied().chain([piece]).collect();
        schedule(&all).is_some()
    }

    fn add(&mut self, cpu: u32, piece: Piece) {
        self.cpus.get_mut(cpu as usize).into_iter().for_each(|pieces| pieces.push(piece));
        self.spare
            .get_mut(cpu as usize)
            .into_iter()
            .for_each(|spare| *spare = spare.saturating_sub(piece.work()));
    }

    /// Places a claim whole on the CPU with the most left.
    fn whole(&mut self, number: usize, claim: &Claim) -> bool {
        let Some((period, budget)) = servers(claim).next() else { return false };
        let piece = Piece { claim: number, offset: 0, budget, deadline: period, period };
        // Nobody is split yet: where the most is left it fits, or nowhere.
        let emptiest = claim.cpus.iter().copied().min_by_key(|cpu| (Reverse(self.spare(*cpu)), *cpu));
        let cpu = emptiest.filter(|cpu| self.fits(*cpu, piece));
        if let Some(cpu) = cpu {
            self.add(cpu, piece);
        }
        cpu.is_some()
    }

    /// Places a claim in pieces, with the longest period with which that is possible.
    fn split(&mut self, number: usize, claim: &Claim) -> bool {
        let parts = servers(claim).find_map(|(period, budget)| self.pieces(number, claim, period, budget));
        parts.iter().flatten().for_each(|(cpu, piece)| self.add(*cpu, *piece));
        parts.is_some()
    }

    /// Pieces one after the other within each period, each as long as its CPU allows.
    fn pieces(&self, claim: usize, of: &Claim, period: u64, budget: u64) -> Option<Vec<(u32, Piece)>> {
        let (mut done, mut left, mut parts) = (0, budget, Vec::new());
        for cpu in self.emptiest(of) {
            let rest = Piece { claim, offset: done, budget: left, deadline: period - done, period };
            if self.fits(cpu, rest) {
                parts.push((cpu, rest));
                return Some(parts);
            }
            let tight = |budget: u64| Piece { claim, offset: done, budget, deadline: budget, period };
            // What fits, and one more that does not.
            let (mut least, mut most) = (0, left);
            while most - least > 1 {
                let middle = least.midpoint(most);
                if self.fits(cpu, tight(middle)) { least = middle } else { most = middle }
            }
            if least >= SHORTEST_PIECE {
                parts.push((cpu, tight(least)));
                (done, left) = (done + least, left - least);
            }
        }
        None
    }
}

/// What each virtual CPU that reserves something claims.
fn claims(host: &HostSpec, vms: &[VmSpec], instances: &[Instance<'_>]) -> Result<Vec<Claim>, Impossible> {
    let dedicated: Vec<u32> = vms.iter().flat_map(VmSpec::dedicated_cpus).copied().collect();
    let places: Vec<Rc<[u32]>> = vms.iter().map(|vm| vm.places(host.cpus, &dedicated).into()).collect();
    let mut claims = Vec::new();
    for (number, instance) in instances.iter().enumerate() {
        let (vm, entry) = (instance.spec, instance.entry);
        if vm.reserved_cpus <= 0.0 {
            continue;
        }
        let Some(places) = places.get(entry) else { continue };
        let latency = vm.latency_us.map_or(2 * LENGTH, |latency| latency.get().saturating_mul(1000));
        for vcpu in 0..vm.vcpus {
            let pinned = places.get(vcpu as usize).filter(|_| vm.pinned);
            let cpus = pinned.map_or_else(|| places.clone(), |cpu| Rc::from([*cpu]));
            let billionths = billionths(vm.reserved_cpus / f64::from(vm.vcpus));
            let claim = Claim { vm: number, vcpu, entry, billionths, latency, cpus };
            if servers(&claim).next().is_none() {
                let problem = format!(
                    "no period from {SHORTEST} ns on keeps {} CPUs' waits at {latency} ns or less; wanted: longer latency_us, \
                     or more reserved_cpus",
                    billionths as f64 / WHOLE as f64
                );
                return Err(Impossible::new(format!("vm.{entry}.latency_us"), problem));
            }
            claims.push(claim);
        }
    }
    // Whoever has the fewest CPUs to go to comes first, then who wants most.
    claims.sort_by_key(|claim| (claim.cpus.len(), Reverse(claim.billionths), claim.vm, claim.vcpu));
    Ok(claims)
}

/// The table of a host for what its VMs reserve.
///
/// # Errors
/// The first VM that finds no place, or whose latency is too short.
pub(super) fn plan(host: &HostSpec, vms: &[VmSpec], instances: &[Instance<'_>]) -> Result<Table, Impossible> {
    let claims = claims(host, vms, instances)?;
    let cpus = host.cpus as usize;
    let mut plan = Plan { cpus: vec![Vec::new(); cpus], spare: vec![LENGTH; cpus] };
    let mut whole = vec![false; claims.len()];
    for ((number, claim), whole) in claims.iter().enumerate().zip(&mut whole) {
        *whole = plan.whole(number, claim);
    }
    for ((number, claim), _) in claims.iter().enumerate().zip(&whole).filter(|(_, whole)| !**whole) {
        if !plan.split(number, claim) {
            let problem = format!(
                "virtual CPU {} of \"{}\" reserves {} CPUs and finds no place in the table, neither whole nor split over the {} \
                 CPUs that it may use; wanted: less, longer latency_us, or more CPUs",
                claim.vcpu,
                instances.get(claim.vm).map_or("", |instance| instance.spec.name.as_str()),
                claim.billionths as f64 / WHOLE as f64,
                claim.cpus.len(),
            );
            return Err(Impossible::new(format!("vm.{}.reserved_cpus", claim.entry), problem));
        }
    }
    let cells = |pieces: &Vec<Piece>| {
        let stretches = schedule(pieces).unwrap_or_default();
        let cell = |(claim, from, to): Stretch| {
            let of = claims.get(claim)?;
            let (from, to) = (Nanos::from_nanos(from), Nanos::from_nanos(to));
            Some(TableCell { vm: of.vm, vcpu: Some(of.vcpu), from, to })
        };
        stretches.into_iter().filter_map(cell).collect()
    };
    Ok(Table { length: Nanos::from_nanos(LENGTH), cpus: plan.cpus.iter().map(cells).collect() })
}

#[cfg(test)]
mod tests {
    use super::super::{Scenario, table};
    use super::*;
    use proptest::prelude::*;

    fn scenario(cpus: u32, vms: &[(String, f64, u64)]) -> Scenario {
        let vm = |(number, (keys, reserved, latency)): (usize, &(String, f64, u64))| {
            format!(
                "[[vm]]\nname = \"V{number}\"\n{keys}\nreserved_cpus = {reserved}\nlatency_us = {latency}\n\
                 thread = [{{ run = {{ program = \"endless\" }} }}]\n"
            )
        };
        let vms: String = vms.iter().enumerate().map(vm).collect();
        let text = format!("name = \"x\"\n[host]\ncpus = {cpus}\npolicy = {{ name = \"table\" }}\n{vms}");
        toml::from_str(&text).expect("a scenario")
    }

    /// Looks whether a table keeps what was asked for: budget in each period, waits, one place at a time.
    fn is_kept(scenario: &Scenario, planned: &Table) {
        let (vms, length) = (super::super::table::instances(&scenario.vms), planned.length.get());
        for (number, instance) in vms.iter().enumerate() {
            for vcpu in 0..instance.spec.vcpus {
                let mine = |cell: &&TableCell| cell.vm == number && cell.vcpu == Some(vcpu);
                let mut cells: Vec<(u64, u64)> = planned
                    .cpus
                    .iter()
                    .flatten()
                    .filter(mine)
                    .map(|cell| (cell.from.get(), cell.to.get()))
                    .collect();
                cells.sort_unstable();
                let total: u64 = cells.iter().map(|(from, to)| to - from).sum();
                let share = instance.spec.reserved_cpus / f64::from(instance.spec.vcpus);
                // A nanosecond per period is lost to rounding at most.
                let lost = LENGTH / SHORTEST;
                assert!(total as f64 >= share * length as f64 - lost as f64, "{number}.{vcpu}: {total}");
                let again = cells.first().map(|(from, to)| (from + length, to + length));
                for (one, next) in cells.iter().zip(cells.iter().skip(1).copied().chain(again)) {
                    assert!(next.0 >= one.1, "{number}.{vcpu} is in two places at {}", next.0);
                    let latency = instance.spec.latency_us.map_or(u64::MAX, |latency| latency.get() * 1000);
                    assert!(next.0 - one.1 <= latency, "{number}.{vcpu} waits from {} to {}", one.1, next.0);
                }
            }
        }
        for cells in &planned.cpus {
            assert!(cells.iter().zip(cells.iter().skip(1)).all(|(one, next)| one.to <= next.from));
        }
    }

    #[test]
    fn periods_are_those_of_tableau() {
        let all: Vec<u64> = periods().collect();
        assert_eq!((all.len(), all.first(), all.last()), (186, Some(&102_702_600), Some(&100_100)));
        let claim = |billionths: u64, latency: u64| Claim {
            vm: 0,
            vcpu: 0,
            entry: 0,
            billionths,
            latency,
            cpus: Rc::from([0]),
        };
        // A quarter of a CPU within 20 ms and within 5 ms, a half within 20 ms.
        assert_eq!(servers(&claim(250_000_000, 20_000_000)).next(), Some((12_837_825, 3_209_456)));
        assert_eq!(servers(&claim(250_000_000, 5_000_000)).next(), Some((3_112_200, 778_050)));
        assert_eq!(servers(&claim(500_000_000, 20_000_000)).next(), Some((17_117_100, 8_558_550)));
    }

    #[test]
    fn who_fits_nowhere_whole_is_split_and_runs_in_one_place_at_a_time() {
        let third = ("vcpus = 1".to_owned(), 0.6, 20_000);
        let scenario = scenario(2, &[third.clone(), third.clone(), third]);
        let table = table(scenario.host.as_ref().unwrap(), &scenario.vms).unwrap().unwrap();
        is_kept(&scenario, &table);
        let on = |vm: usize| table.cpus.iter().filter(|cells| cells.iter().any(|cell| cell.vm == vm)).count();
        assert_eq!([on(0), on(1), on(2)], [1, 1, 2]);
    }

    #[test]
    fn what_finds_no_place_is_refused_with_its_name() {
        let said = |vms: &[(String, f64, u64)]| {
            let scenario = scenario(1, vms);
            scenario.check().map_err(|wrong| wrong.to_string())
        };
        let vm = |reserved: f64, latency: u64| ("vcpus = 1".to_owned(), reserved, latency);
        assert_eq!(said(&[vm(0.5, 1000), vm(0.5, 30_000)]), Ok(()));
        assert!(said(&[vm(0.5, 1000), vm(0.51, 30_000)]).unwrap_err().contains("reserved_cpus"));
        assert!(said(&[vm(0.001, 100)]).unwrap_err().starts_with("vm.0.latency_us: no period"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]
        #[test]
        fn planned_tables_keep_what_was_asked_for(
            cpus in 1u32..5,
            wanted in prop::collection::vec((1u32..20, 2u64..60, 1u32..3, 1u32..16), 1..12),
        ) {
            let mut free = f64::from(cpus);
            let mut vms = Vec::new();
            for (share, latency_ms, vcpus, set) in wanted {
                let reserved = f64::from(share) / 20.0 * f64::from(vcpus.min(cpus));
                let cpus: Vec<u32> = (0..cpus).filter(|cpu| set >> cpu & 1 == 1).collect();
                free -= reserved;
                if free < 0.0 || cpus.is_empty() {
                    break;
                }
                vms.push((format!("vcpus = {vcpus}\ncpus = {cpus:?}"), reserved, latency_ms * 1000));
            }
            prop_assume!(!vms.is_empty());
            let scenario = scenario(cpus, &vms);
            // Not every set of CPUs has room.
            if let Ok(Some(table)) = table(scenario.host.as_ref().unwrap(), &scenario.vms) {
                is_kept(&scenario, &table);
            }
        }
    }
}
