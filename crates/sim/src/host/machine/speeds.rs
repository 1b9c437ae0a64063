//! CPUs that slow each other: hardware threads of one core, and memory nodes whose bandwidth is not enough. Work is CPU time
//! times speed; whenever it changes who runs, all that it changes are brought up to date and planned anew at that moment.
//!
//! ```text
//!  CPU 0 A ████████████▓▓▓▓▓▓▓▓▓▓▓▓▓▓██████      ▓: at the stated part of its speed while CPU 1, of the same core, runs somebody
//!  CPU 1 B             ▓▓▓▓▓▓▓▓▓▓▓▓▓▓
//!
//!  node 0 wants 3 + 8 + 12 GB/s of 18: 3, then 7.5 and 7.5 (max-min fair): speeds 1, 7.5/8, 7.5/12
//! ```
//! A thread that wants d MB/s at full speed and is given a works at a/d of it: who wants little is not slowed, who is bound to
//! memory is slowed by what is missing (max-min fairness: Bertsekas and Gallager, "Data networks", 1992; work that goes with its
//! traffic: Williams, Waterman, Patterson, "Roofline", 2009). A slowed hardware thread wants less in proportion. Policies charge
//! CPU time, not work. Nothing of this costs anything on hosts that do not ask for it.

use super::Machine;
use crate::guest::Guest;
use crate::host::view::{CpuId, VcpuId, View};
use crate::speed::Speed;
use crate::time::Span;

/// A CPU to itself, in billionths.
const WHOLE: u64 = 1_000_000_000;

/// What CPUs share.
#[derive(Debug, Clone, Default)]
pub struct Sharing {
    /// Whether CPUs 2i and 2i + 1 are a core.
    pub smt: bool,
    /// The billionths of its speed that a hardware thread keeps beside another, if it does not keep all.
    pub sibling: Option<u64>,
    /// Their memory.
    pub memory: Option<Memory>,
}

/// Memory nodes and what threads want of them, MB/s.
#[derive(Debug, Clone)]
pub struct Memory {
    /// Bandwidth of each node.
    pub bandwidth: u64,
    /// How many there are, at least 1; CPUs are dealt out evenly, in order.
    pub nodes: u32,
    /// What each thread of each VM wants at full speed.
    pub wants: Vec<Vec<u64>>,
}

/// What a virtual CPU did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Done {
    /// CPU time of its guest.
    pub time: Span,
    /// The work that this did.
    pub work: Span,
    /// Thousandths of a byte that it moved.
    pub moved: u128,
}

#[derive(Debug, Clone, Copy)]
struct Place {
    speed: Speed,
    /// MB/s at full speed of what is worked on.
    wants: u64,
    is_stale: bool,
}

/// Speeds of all CPUs.
#[derive(Debug)]
pub struct Speeds {
    sharing: Sharing,
    cpus: Vec<Place>,
    /// CPUs on which something has changed at this moment.
    stale: Vec<CpuId>,
    done: Vec<Done>,
}

/// A CPU, the speed that it has from now on, and what is wanted there.
type Change = (CpuId, u64, u64);

impl Speeds {
    fn new(sharing: Sharing, cpus: usize, vcpus: usize) -> Self {
        let place = Place { speed: Speed::FULL, wants: 0, is_stale: false };
        Self { sharing, cpus: vec![place; cpus], stale: Vec::new(), done: vec![Done::default(); vcpus] }
    }

    /// What each virtual CPU did.
    pub fn done(&self, vcpu: VcpuId) -> Done {
        self.done.get(vcpu.index()).copied().unwrap_or_default()
    }

    /// Its speed, memory left out.
    fn of_core(&self, cpu: CpuId, view: &View) -> u64 {
        let runs = |other: CpuId| view.cpus[other.index()].running.is_some();
        self.sharing.sibling.filter(|_| view.sibling(cpu).is_some_and(runs)).unwrap_or(WHOLE)
    }

    /// CPUs of the memory node of a CPU.
    fn node(memory: &Memory, cpu: CpuId, view: &View) -> std::ops::Range<u32> {
        let (count, nodes) = (view.cpus.len() as u64, u64::from(memory.nodes.max(1)));
        let node = u64::from(cpu.0) * nodes / count.max(1);
        // The first CPU that belongs to a node.
        let first = |node: u64| u32::try_from((node * count).div_ceil(nodes)).unwrap_or(u32::MAX);
        first(node)..first(node + 1)
    }

    /// What whoever runs there wants.
    fn wants(memory: &Memory, cpu: CpuId, view: &View, guests: &[Guest]) -> u64 {
        let wants = |vcpu: VcpuId| {
            let vm = view.vm_of(vcpu);
            let index = vcpu.0 - view.vms[vm.index()].first.0;
            let thread = guests.get(vm.index())?.at_work(index)?;
            memory.wants.get(vm.index())?.get(thread as usize).copied()
        };
        view.cpus[cpu.index()].running.and_then(wants).unwrap_or(0)
    }

    /// Speeds of a memory node's CPUs.
    fn of_node(
        &self,
        memory: &Memory,
        node: std::ops::Range<u32>,
        view: &View,
        guests: &[Guest],
    ) -> Vec<Change> {
        let of = |cpu: CpuId| {
            let (wants, core) = (Self::wants(memory, cpu, view, guests), self.of_core(cpu, view));
            (u128::from(wants) * u128::from(core), cpu, core, wants)
        };
        let mut all: Vec<_> = node.map(CpuId).map(of).collect();
        all.sort_unstable();
        let (mut left, mut count) = (u128::from(memory.bandwidth) * u128::from(WHOLE), all.len() as u128);
        let mut changes = Vec::new();
        for (wanted, cpu, core, wants) in all {
            let level = left / count.max(1);
            let given = wanted.min(level);
            (left, count) = (left - given, count - 1);
            // Who gets all that it wants is not slowed by a nanosecond of rounding.
            let speed = if given == wanted { core } else { whole(given / u128::from(wants.max(1))) };
            changes.push((cpu, speed, wants));
        }
        changes
    }

    /// CPUs whose speeds are others from now on.
    fn changes(&mut self, view: &View, guests: &[Guest]) -> Vec<Change> {
        let stale = std::mem::take(&mut self.stale);
        let mut changes: Vec<Change> = Vec::new();
        for cpu in stale {
            self.cpus[cpu.index()].is_stale = false;
            let both = std::iter::once(cpu).chain(view.sibling(cpu));
            let Some(memory) = &self.sharing.memory else {
                changes.extend(both.map(|cpu| (cpu, self.of_core(cpu, view), 0)));
                continue;
            };
            // The threads of a core may be of two nodes.
            for cpu in both {
                let node = Self::node(memory, cpu, view);
                if !changes.iter().any(|(known, ..)| node.contains(&known.0)) {
                    changes.extend(self.of_node(memory, node, view, guests));
                }
            }
        }
        let is_other = |(cpu, speed, wants): &Change| {
            let place = &self.cpus[cpu.index()];
            place.speed.billionths() != *speed || place.wants != *wants
        };
        changes.retain(is_other);
        changes.sort_unstable();
        changes.dedup();
        changes
    }
}

fn whole(billionths: u128) -> u64 {
    u64::try_from(billionths).unwrap_or(WHOLE).clamp(1, WHOLE)
}

impl Machine {
    /// Lets its CPUs share cores and memory; before it begins.
    pub fn share(&mut self, sharing: Sharing) {
        self.view.smt = 1 + u32::from(sharing.smt);
        if sharing.sibling.is_some() || sharing.memory.is_some() {
            self.speeds = Some(Box::new(Speeds::new(sharing, self.view.cpus.len(), self.view.vcpus.len())));
        }
    }

    /// What virtual CPUs did, where CPUs slow each other.
    pub fn speeds(&self) -> Option<&Speeds> {
        self.speeds.as_deref()
    }

    /// Somebody else runs on a CPU, or nobody, or something else is worked on there.
    pub(super) fn touch(&mut self, cpu: CpuId) {
        let Some(speeds) = &mut self.speeds else { return };
        if !std::mem::replace(&mut speeds.cpus[cpu.index()].is_stale, true) {
            speeds.stale.push(cpu);
        }
    }

    /// The speed of a CPU.
    pub(super) fn speed(&self, cpu: CpuId) -> Speed {
        self.speeds.as_ref().map_or(Speed::FULL, |speeds| speeds.cpus[cpu.index()].speed)
    }

    /// The work that so much CPU time did for who ran there.
    pub(super) fn work(&mut self, cpu: CpuId, vcpu: VcpuId, time: Span) -> Span {
        let Some(speeds) = &mut self.speeds else { return time };
        let place = &mut speeds.cpus[cpu.index()];
        let work = place.speed.work(time);
        let done = &mut speeds.done[vcpu.index()];
        done.time += time;
        done.work += work;
        // A million bytes per second are a thousandth of a byte per nanosecond.
        done.moved += u128::from(place.wants) * u128::from(work.nanos());
        work
    }

    /// Plans anew whose speed has changed at this moment; says whether anybody's has.
    pub(super) fn replan(&mut self) -> bool {
        let Some(mut speeds) = self.speeds.take() else { return false };
        let changes = speeds.changes(&self.view, &self.guests);
        self.speeds = Some(speeds);
        for (cpu, speed, wants) in &changes {
            // Up to now it ran at the speed it had.
            self.progress(*cpu);
            if let Some(speeds) = &mut self.speeds {
                let place = &mut speeds.cpus[cpu.index()];
                place.speed.turn(*speed);
                place.wants = *wants;
            }
        }
        for (cpu, ..) in &changes {
            if self.view.cpus[cpu.index()].running.is_some() {
                self.look(*cpu);
            }
        }
        !changes.is_empty()
    }
}

/// What a VM did, by its number.
pub fn of_vm(speeds: &Speeds, view: &View, vm: usize) -> Done {
    let vcpus = view.vms.get(vm).into_iter().flat_map(crate::host::Vm::vcpus);
    vcpus.map(|vcpu| speeds.done(vcpu)).fold(Done::default(), |sum, done| Done {
        time: sum.time + done.time,
        work: sum.work + done.work,
        moved: sum.moved + done.moved,
    })
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use crate::host::{Limits, Stopped};
    use crate::random::Stream;
    use crate::scenario::{build, run_host};
    use crate::time::Time;
    use model::scenario::{Scenario, cases};

    fn scenario(text: &str) -> Scenario {
        cases(text, &[]).unwrap_or_else(|wrong| panic!("{wrong}\n{text}")).remove(0).scenario
    }

    fn ends(host: &str, vms: &[(u64, u64)]) -> Vec<f64> {
        let vm = |(number, (work_us, wants)): (usize, &(u64, u64))| {
            format!(
                "[[vm]]\nname = \"V{number}\"\nvcpus = 1\ncpus = [{number}]\nthread = [{{ memory_mb_s = {wants}, run = {{ program = \
                 \"fixed\", work_us = {work_us} }} }}]\n"
            )
        };
        let vms: String = vms.iter().enumerate().map(vm).collect();
        let text = format!("name = \"x\"\n[host]\n{host}\npolicy = \"per-thread\"\n{vms}");
        let found = run_host(&scenario(&text), 1, 0);
        assert_eq!(found.trouble, None);
        let walls = found.figures.iter().filter(|figure| figure.id.ends_with(".wall_ns"));
        walls.map(|figure| figure.value / 1e6).collect()
    }

    #[test]
    fn siblings_slow_each_other_while_both_run() {
        // Both at half speed until B has done its 4 ms; then A has 6 ms left and the core to itself.
        assert_eq!(ends("cpus = 2\nsmt = 2\nsmt_speed = 0.5", &[(10_000, 0), (4000, 0)]), [14.0, 8.0]);
        // CPUs 1 and 2 are no core.
        let apart = [(1, 0), (4000, 0), (4000, 0), (1, 0)];
        let ends_apart = ends("cpus = 4\nsmt = 2\nsmt_speed = 0.5", &apart);
        assert_eq!(ends_apart, [0.002, 4.001, 4.001, 0.002]);
        assert_eq!(ends("cpus = 2", &[(10_000, 0), (4000, 0)]), [10.0, 4.0]);
    }

    #[test]
    fn bandwidth_is_shared_max_min_fairly_and_who_wants_little_is_not_slowed() {
        // 3000, 8000, 12000 of 18000: 3000, 7500, 7500, until one is done.
        let host = "cpus = 3\nmemory_mb_s = 18000";
        let ends_of = ends(host, &[(100_000, 3000), (7500, 8000), (6250, 12_000)]);
        assert_eq!(ends_of, [100.0, 8.0, 8.0 + (6.25 - 5.0) * 12.0 / 12.0]);
        // A node each.
        assert_eq!(ends("cpus = 2\nmemory_nodes = 2\nmemory_mb_s = 4", &[(1000, 8), (1000, 4)]), [2.0, 1.0]);
    }

    #[test]
    fn what_was_slowed_and_what_was_moved_is_told() {
        let text = "name = \"x\"\n[host]\ncpus = 2\nmemory_mb_s = 6000\npolicy = \"per-thread\"\n[[vm]]\nname = \"A\"\nvcpus = 2\n\
                    thread = [{ memory_mb_s = 4000, run = { program = \"fixed\", work_us = 3000 } }]\n";
        let found = run_host(&scenario(text), 1, 0);
        let value = |id: &str| found.figures.iter().find(|figure| figure.id == id).map(|figure| figure.value);
        assert_eq!(value("vm.A.speed_share"), Some(0.75));
        assert_eq!(value("vm.A.memory_bytes_per_s"), Some(6e9));
        assert_eq!(value("vm.A.cpu_ns"), Some(8e6));
        let plain = text.replace("memory_mb_s = 6000\n", "").replace("memory_mb_s = 4000, ", "");
        let found = run_host(&scenario(&plain), 1, 0);
        assert!(
            !found.figures.iter().any(|figure| figure.id.contains("speed") || figure.id.contains("memory"))
        );
    }

    #[test]
    fn what_nobody_would_hear_is_refused() {
        let said = |host: &str, thread: &str| {
            let text = format!(
                "name = \"x\"\n[host]\ncpus = 2\n{host}\npolicy = \"per-thread\"\n[[vm]]\nname = \"A\"\nvcpus = 1\nthread = [{{ \
                 {thread} run = {{ program = \"endless\" }} }}]\n"
            );
            cases(&text, &[]).map(|_| ()).map_err(|wrong| wrong.to_string())
        };
        assert_eq!(
            said("smt = 2\nsmt_speed = 0.6\nmemory_mb_s = 9\nmemory_nodes = 2", "memory_mb_s = 5,"),
            Ok(())
        );
        for (host, thread, part) in [
            ("smt_speed = 0.6", "", "wanted host.smt = 2"),
            ("smt = 3", "", "1 to 2"),
            ("memory_nodes = 2", "", "host.memory_nodes"),
            ("", "memory_mb_s = 5,", "not limited"),
        ] {
            let problem = said(host, thread).unwrap_err();
            assert!(problem.contains(part), "{host}: {problem}");
        }
    }

    /// One task per CPU, by floats, from step to step.
    struct Brute {
        smt: f64,
        bandwidth: f64,
        nodes: usize,
        /// Offset, period, work, wanted bandwidth.
        tasks: Vec<[f64; 4]>,
    }

    impl Brute {
        fn speeds(&self, runs: &[bool]) -> Vec<f64> {
            let count = runs.len();
            let core = |cpu: usize| if runs.get(cpu ^ 1).copied().unwrap_or(false) { self.smt } else { 1.0 };
            let wants = |cpu: usize| if runs[cpu] { self.tasks[cpu][3] * core(cpu) } else { 0.0 };
            let node = |cpu: usize| cpu * self.nodes / count;
            let speed = |cpu: usize| {
                let mine: Vec<f64> =
                    (0..count).filter(|other| node(*other) == node(cpu)).map(wants).collect();
                let (mut low, mut high) = (0.0, self.bandwidth);
                for _ in 0..200 {
                    let level = f64::midpoint(low, high);
                    let sum: f64 = mine.iter().map(|wanted| wanted.min(level)).sum();
                    if sum <= self.bandwidth { low = level } else { high = level }
                }
                let wanted = wants(cpu);
                if wanted <= low { core(cpu) } else { low / self.tasks[cpu][3] }
            };
            (0..count).map(speed).collect()
        }

        fn ends(&self, jobs: usize) -> Vec<Vec<f64>> {
            let (mut now, mut left) = (0.0f64, vec![0.0f64; self.tasks.len()]);
            let mut done: Vec<Vec<f64>> = vec![Vec::new(); self.tasks.len()];
            while done.iter().any(|done| done.len() < jobs) {
                let mut next = f64::INFINITY;
                for ((left, done), [offset, period, work, _]) in left.iter_mut().zip(&done).zip(&self.tasks) {
                    let arrival = offset + done.len() as f64 * period;
                    if *left <= 0.0 && done.len() < jobs {
                        *left = if arrival <= now { *work } else { 0.0 };
                        next = if arrival > now { next.min(arrival) } else { next };
                    }
                }
                let runs: Vec<bool> = left.iter().map(|left| *left > 0.0).collect();
                let speeds = self.speeds(&runs);
                let ends = left.iter().zip(&speeds).filter(|(left, _)| **left > 0.0);
                let step = ends.map(|(left, speed)| left / speed).fold(next - now, f64::min);
                now += step;
                for ((left, done), speed) in left.iter_mut().zip(&mut done).zip(&speeds) {
                    if *left > 0.0 {
                        *left -= step * speed;
                        if *left < 1e-4 {
                            *left = 0.0;
                            done.push(now);
                        }
                    }
                }
            }
            done
        }
    }

    #[test]
    fn jobs_end_when_a_brute_force_says() {
        const JOBS: usize = 8;
        let mut slowed = 0;
        for number in 0..200 {
            let mut random = Stream::new(number, &[21]);
            let mut up_to = |most: u64| 1 + random.below(most);
            let (cpus, nodes) = (usize::try_from(1 + up_to(5)).unwrap(), usize::try_from(up_to(2)).unwrap());
            let (smt, bandwidth) = (300 + up_to(700), up_to(30_000));
            let mut text = format!(
                "name = \"x\"\n[host]\ncpus = {cpus}\nsmt = 2\nsmt_speed = {}\nmemory_mb_s = {bandwidth}\nmemory_nodes = {nodes}\n\
                 policy = \"per-thread\"\n",
                smt as f64 / 1000.0
            );
            let mut tasks = Vec::new();
            for cpu in 0..cpus {
                let [offset, period, wants] = [up_to(5000), 2000 + up_to(5000), up_to(20_000)];
                let work = up_to(period);
                let wants = if up_to(3) == 1 { 0 } else { wants };
                tasks.push([offset as f64 * 1e3, period as f64 * 1e3, work as f64 * 1e3, wants as f64]);
                let _ = write!(
                    text,
                    "[[vm]]\nname = \"V{cpu}\"\nvcpus = 1\ncpus = [{cpu}]\nthread = [{{ memory_mb_s = {wants}, run = {{ program = \"periodic\", \
                     offset_us = {offset}, period_us = {period}, work_us = {work}, jobs = {JOBS} }} }}]\n"
                );
            }
            let brute = Brute { smt: smt as f64 / 1000.0, bandwidth: bandwidth as f64, nodes, tasks };
            let mut machine = build(&scenario(&text), 1);
            let stopped = machine.run(&Limits { until: Time::NEVER, events: 1_000_000, when_done: true });
            assert_eq!(stopped, Stopped::Done, "{text}");
            for (cpu, ends) in brute.ends(JOBS).into_iter().enumerate() {
                let [offset, period, work, _] = brute.tasks[cpu];
                let samples = machine.guests()[cpu].threads()[0].seen.samples.clone();
                assert_eq!(samples.len(), JOBS);
                for ((job, end), sample) in (0..).zip(ends).zip(samples) {
                    let right = end - offset - f64::from(job) * period;
                    slowed += usize::from(sample.as_f64() > work * 1.01);
                    // Speeds are whole billionths.
                    let near = 200.0 + 1e-5 * sample.as_f64();
                    assert!(
                        (sample.as_f64() - right).abs() < near,
                        "CPU {cpu}, job {job}: {sample}, not {right} ns\n{text}"
                    );
                }
            }
        }
        assert!(slowed > 2000, "{slowed} jobs were slowed");
    }
}
