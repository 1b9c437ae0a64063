//! What a job needs: time until it is given up, memory, disk. Pure; computed from the probes' parameters, generously,
//! because a deadline that is too short turns a slow platform into a broken one.

use std::time::Duration;

use model::experiment::Experiment;
use probes::params::ProbeSpec;
use probes::sizes::largest_array;
use units::facts::MachineFacts;
use units::layout::Layout;
use units::names::{LoadKind, LoadPlace};
use units::{Bytes, Millis};

/// Work may take so many times as long as it typically does in a process before a job counts as hung.
const SLACK: f64 = 100.0;
/// A stated duration may be overrun this much.
const OVERRUN: f64 = 3.0;
/// Instances that exchange messages, where it is not said how many.
const MANY: f64 = 4.0;
/// Added to every deadline.
const GRACE: Duration = Duration::from_secs(30);
/// Longest deadline: two days, for a gap probe of an hour on sixteen thread counts.
const LONGEST: Duration = Duration::from_secs(2 * 24 * 3600);
/// What an agent and the system below it take beside the arrays.
const BASE_MEMORY: u64 = 96 << 20;
/// File of the disk load.
const LOAD_FILE: u64 = 256 << 20;

/// When the agent gives a job up by itself.
pub fn deadline(probe: &ProbeSpec, facts: &MachineFacts) -> Millis {
    deadline_of(probe, facts, 1)
}

/// How many times over the host's CPUs are wanted when so many instances of so many CPUs each work at once; at least 1.
pub fn crowding(instances: u32, cpus_each: u32, host_cpus: u32) -> u32 {
    instances.saturating_mul(cpus_each.max(1)).div_ceil(host_cpus.max(1)).clamp(1, instances.max(1))
}

/// When the agent gives a job up by itself on a host whose CPUs are wanted `crowding` times over: everything may take so
/// many times as long.
pub fn deadline_of(probe: &ProbeSpec, facts: &MachineFacts, crowding: u32) -> Millis {
    let cost = probe.cost(facts);
    let seconds = cost.by_clock * OVERRUN + cost.by_work * SLACK + probe.transfer(MANY, SLACK);
    let total = Duration::try_from_secs_f64(seconds).unwrap_or(LONGEST);
    let total = total
        .saturating_add(probe.at_worst())
        .saturating_add(GRACE)
        .saturating_mul(crowding.max(1))
        .min(LONGEST);
    Millis::from_millis(u64::try_from(total.as_millis()).unwrap_or(u64::MAX))
}

/// What an instance needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Memory.
    pub memory: Bytes,
    /// Disk.
    pub disk: Bytes,
}

/// What the measured instance needs for every probe and every load in the same instance.
pub fn room_for_probes(experiment: &Experiment, host: &MachineFacts) -> Room {
    let probes = experiment.probes.specs();
    let arrays = probes.iter().map(|probe| probe.memory(host).get()).max().unwrap_or(0);
    let files = probes.iter().map(|probe| probe.disk().get()).max().unwrap_or(0);
    let same = loads_at(experiment, LoadPlace::Same, host);
    room(arrays.saturating_add(same.0), files.saturating_add(same.1), kept(&probes, host))
}

/// What each member of a layout needs: for the probes measured in it, and a load in the same instance.
pub fn room_for_members(experiment: &Experiment, layout: Layout, host: &MachineFacts) -> Room {
    let measured: Vec<ProbeSpec> = probes_in(experiment, layout);
    let arrays = measured.iter().map(|probe| probe.memory(host).get()).max().unwrap_or(0);
    let files = measured.iter().map(|probe| probe.disk().get()).max().unwrap_or(0);
    let same = loads_at(experiment, LoadPlace::Same, host);
    room(arrays.saturating_add(same.0), files.saturating_add(same.1), kept(&measured, host))
}

/// Probes that are measured in a layout.
pub fn probes_in(experiment: &Experiment, layout: Layout) -> Vec<ProbeSpec> {
    let mut probes = experiment.probes.specs();
    probes.retain(|probe| experiment.layouts_of(probe.kind()).contains(&Some(layout)));
    probes
}

/// What an instance needs that carries the loads of this place.
pub fn room_for_loads(experiment: &Experiment, place: LoadPlace, host: &MachineFacts) -> Room {
    let (memory, disk) = loads_at(experiment, place, host);
    room(memory, disk, 0)
}

/// Arrays that the memory probes keep for later rounds, beside which the next one plans its own.
fn kept(probes: &[ProbeSpec], host: &MachineFacts) -> u64 {
    let is_kept = |probe: &&ProbeSpec| matches!(probe, ProbeSpec::MemLatency(_) | ProbeSpec::MemBandwidth(_));
    probes.iter().filter(is_kept).map(|probe| probe.memory(host).get()).fold(0, u64::saturating_add)
}

const fn room(memory: u64, disk: u64, kept: u64) -> Room {
    // An unset array size is at most a quarter of the memory: give four times the largest, and a file system's own share.
    let memory = BASE_MEMORY.saturating_add(memory.saturating_mul(4)).saturating_add(kept);
    Room { memory: Bytes::from_bytes(memory), disk: Bytes::from_bytes(disk.saturating_add(disk / 4)) }
}

/// Most memory of one load at a place, one of which works at a time, and disk of all of them: who rests keeps its file.
fn loads_at(experiment: &Experiment, place: LoadPlace, host: &MachineFacts) -> (u64, u64) {
    let here = experiment.loads.iter().filter(|load| load.place == place);
    here.fold((0, 0), |(memory, disk), load| match load.kind {
        LoadKind::Memory => (memory.max(largest_array(None, host)), disk),
        LoadKind::Disk => (memory, disk + LOAD_FILE),
        LoadKind::Mixed => (memory.max(largest_array(None, host)), disk + LOAD_FILE),
        LoadKind::Idle
        | LoadKind::Cpu
        | LoadKind::Network
        | LoadKind::Interrupt
        | LoadKind::Fork
        | LoadKind::Lock => (memory, disk),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use probes::ProbeKind;
    use probes::params::{CpuParams, GapParams, MemLatencyParams};
    use units::Mebibytes;

    fn facts(cpus: u32, cache_mib: u64) -> MachineFacts {
        MachineFacts {
            cpus,
            last_level_cache_bytes: Some(Mebibytes::from_mib(cache_mib).to_bytes()),
            ..MachineFacts::default()
        }
    }

    #[test]
    fn a_stated_duration_gets_thrice_its_time_and_grace() {
        let gap = GapParams { duration_ms: Millis::from_millis(2000), ..GapParams::default() };
        assert_eq!(deadline(&ProbeSpec::Gap(gap), &facts(2, 8)).get(), 36_100);
    }

    #[test]
    fn a_crowded_host_gets_more_time() {
        assert_eq!(
            [(1, 2, 2), (2, 2, 2), (16, 2, 2), (16, 1, 2), (2, 1, 8)].map(|(n, c, e)| crowding(n, c, e)),
            [1, 2, 16, 8, 1]
        );
        let gap =
            ProbeSpec::Gap(GapParams { duration_ms: Millis::from_millis(2000), ..GapParams::default() });
        assert_eq!(deadline_of(&gap, &facts(2, 8), 8).get(), 8 * deadline(&gap, &facts(2, 8)).get());
    }

    #[test]
    fn work_gets_a_hundred_times_its_time() {
        // 1e8 rounds at 0.5 ns: 0.05 s; threads 1, 2, 3, 4 on 2 CPUs take 1+1+2+2 turns: 0.3 s.
        let cpu = CpuParams { iterations: 100_000_000, samples: 1, max_threads: None };
        assert_eq!(deadline(&ProbeSpec::Cpu(cpu), &facts(2, 8)).get(), 60_000);
        let endless = CpuParams { iterations: u64::MAX, samples: 1000, max_threads: Some(1024) };
        assert_eq!(deadline(&ProbeSpec::Cpu(endless), &facts(2, 8)).get(), 172_800_000);
    }

    #[test]
    fn every_probe_of_the_shipped_experiments_has_a_deadline_within_minutes() {
        for name in super::super::shipped::names() {
            let experiment = super::super::shipped::get(name).unwrap();
            for probe in experiment.probes.specs() {
                let deadline = deadline(&probe, &facts(4, 105)).to_duration();
                assert!(
                    deadline >= GRACE && deadline < Duration::from_secs(900),
                    "{name} {probe:?}: {deadline:?}"
                );
            }
        }
    }

    #[test]
    fn memory_follows_the_largest_array() {
        let mut experiment = super::super::shipped::get("default").unwrap();
        experiment.probes.retain(&[ProbeKind::MemLatency]);
        experiment.loads.clear();
        experiment.probes.mem_latency = Some(MemLatencyParams {
            max_size_mib: Some(Mebibytes::from_mib(100)),
            ..MemLatencyParams::default()
        });
        let room = room_for_probes(&experiment, &facts(2, 8));
        // Four times the array, what an agent takes, and the array once more, which is kept.
        assert_eq!(room.memory, Mebibytes::from_mib(596).to_bytes());
        assert_eq!(room.disk, Bytes::from_bytes(0));
    }
}
