//! What a job needs: time until it is given up, memory, disk. Pure; computed from the probes' parameters, generously,
//! because a deadline that is too short turns a slow platform into a broken one.

use std::time::Duration;

use model::experiment::Experiment;
use model::facts::MachineFacts;
use model::layout::Layout;
use model::names::{LoadKind, LoadPlace};
use model::params::{DiskParams, ProbeSpec};
use model::units::{Bytes, Kibibytes, Mebibytes, Millis};
use workloads::probes::build;

/// Fixed work may take this much longer than on bare metal before a job counts as hung.
const EMULATION: u32 = 20;
/// A stated duration may be overrun this much.
const OVERRUN: u32 = 3;
/// Added to every deadline.
const GRACE: Duration = Duration::from_secs(30);
/// Longest deadline: two days, for a gap probe of an hour on sixteen thread counts.
const LONGEST: Duration = Duration::from_secs(2 * 24 * 3600);
/// Last-level cache when the machine does not say.
const ASSUMED_CACHE: Bytes = Bytes::from_bytes(32 << 20);
/// Most that an unset array size may ask for.
const MOST_ARRAY: u64 = 512 << 20;
/// What an agent and the system below it take beside the arrays.
const BASE_MEMORY: u64 = 96 << 20;
/// File of the disk load.
const LOAD_FILE: u64 = 256 << 20;

/// How long a probe takes on bare metal: by the clock, and by the work it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Nominal {
    by_clock: Duration,
    by_work: Duration,
}

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
    let nominal = nominal(probe, facts);
    let total = nominal
        .by_clock
        .saturating_mul(OVERRUN)
        .saturating_add(nominal.by_work.saturating_mul(EMULATION))
        .saturating_add(GRACE)
        .saturating_mul(crowding.max(1))
        .min(LONGEST);
    Millis::from_millis(u64::try_from(total.as_millis()).unwrap_or(u64::MAX))
}

fn nanos(count: u64, each: u64) -> Duration {
    Duration::from_nanos(count.saturating_mul(each))
}

fn nominal(probe: &ProbeSpec, facts: &MachineFacts) -> Nominal {
    let cpus = facts.cpus.max(1);
    let clock = |by_clock| Nominal { by_clock, by_work: Duration::ZERO };
    match probe {
        ProbeSpec::Gap(p) => match p.reads {
            Some(reads) => Nominal { by_clock: Duration::ZERO, by_work: nanos(reads, 40) },
            None => clock(p.duration_ms.to_duration()),
        },
        ProbeSpec::Fwq(p) => {
            let rounds = p.iterations.saturating_mul(p.samples.into());
            Nominal { by_clock: Duration::ZERO, by_work: nanos(rounds, 2) }
        }
        ProbeSpec::Ftq(p) => clock(p.duration_ms.to_duration()),
        ProbeSpec::Wakeup(p) => clock(p.duration_ms.to_duration()),
        ProbeSpec::Frames(p) => Nominal {
            by_clock: Duration::from_secs_f64(f64::from(p.frames) / f64::from(p.rate_hz.max(1))),
            by_work: nanos(p.iterations.saturating_mul(p.frames.into()), 4),
        },
        ProbeSpec::Exit(p) => clock(p.duration_ms.to_duration()),
        ProbeSpec::Lock(p) => clock(p.duration_ms.to_duration() * 2),
        ProbeSpec::Linpack(p) => {
            let n = u64::from(p.n);
            // 2/3 n³ operations at one per nanosecond.
            let each = n.saturating_pow(3) / 3 * 2;
            Nominal { by_clock: Duration::ZERO, by_work: nanos(each, p.samples.into()) }
        }
        ProbeSpec::Build(p) => {
            let functions = u64::from(p.files) * u64::from(p.functions);
            Nominal { by_clock: Duration::ZERO, by_work: nanos(functions, 1_250_000) }
        }
        ProbeSpec::Pages(p) => {
            let pages = p.size_mib.to_bytes().get() / 4096 * (u64::from(p.warm_passes) + 1);
            Nominal { by_clock: Duration::ZERO, by_work: nanos(pages, 2000) }
        }
        ProbeSpec::Net(_) | ProbeSpec::Mpi(_) | ProbeSpec::Share(_) => joint_nominal(probe, cpus),
        ProbeSpec::Cpu(p) => {
            let most = u64::from(p.max_threads.unwrap_or(cpus.saturating_mul(2)));
            // T threads on E CPUs take max(1, T/E) times as long as one.
            let turns: u64 = (1..=most).map(|threads| threads.div_ceil(cpus.into())).sum();
            let rounds = p.iterations.saturating_mul(p.samples.into()).saturating_mul(turns);
            Nominal { by_clock: Duration::ZERO, by_work: nanos(rounds, 4) }
        }
        ProbeSpec::Syscall(p) => clock(p.duration_ms.to_duration() * p.max_threads.unwrap_or(cpus)),
        ProbeSpec::Fork(p) => clock(p.duration_ms.to_duration() * p.max_threads.unwrap_or(cpus)),
        ProbeSpec::MemLatency(_) | ProbeSpec::MemBandwidth(_) | ProbeSpec::Disk(_) => {
            nominal_of_sizes(probe, facts)
        }
    }
}

/// Probes that go through sizes of arrays or files.
fn nominal_of_sizes(probe: &ProbeSpec, facts: &MachineFacts) -> Nominal {
    match probe {
        ProbeSpec::MemLatency(p) => {
            let sizes = Sizes::of(p.min_size_kib, p.max_size_mib, p.steps_per_octave, facts);
            let elements = sizes.total_bytes() / u64::from(p.stride_bytes.max(1));
            // A few laps at DRAM latency, and the shuffle that makes the cycle.
            Nominal { by_clock: p.duration_ms.to_duration() * sizes.count, by_work: nanos(elements, 2000) }
        }
        ProbeSpec::MemBandwidth(p) => {
            let sizes = Sizes::of(p.min_size_kib, p.max_size_mib, p.steps_per_octave, facts);
            let bytes = sizes.total_bytes().saturating_mul(p.threads.into());
            // Three operations, a few laps each, at 1 GB/s.
            Nominal { by_clock: p.duration_ms.to_duration() * sizes.count * 3, by_work: nanos(bytes, 12) }
        }
        ProbeSpec::Disk(p) => {
            let phases = 2 * u32::try_from(p.modes.len() * p.block_sizes_kib.len()).unwrap_or(u32::MAX);
            // The file is made, and flushed after each writing phase, at 50 MB/s.
            let flush = nanos(p.file_size_mib.to_bytes().get(), 20).saturating_mul(phases / 2 + 1);
            // Random reads and shifted writes take half a phase each.
            Nominal { by_clock: p.duration_ms.to_duration().saturating_mul(phases + 1), by_work: flush }
        }
        _ => Nominal::default(),
    }
}

/// The same for the probes that several instances make together.
fn joint_nominal(probe: &ProbeSpec, cpus: u32) -> Nominal {
    // No exchange ends within a message: two streams and two round trips of each size, in an emulated card at a fraction of
    // this rate.
    let bytes = |sizes: &[u32]| sizes.iter().map(|size| u64::from(*size) * 6).fold(0, u64::saturating_add);
    let by_work = match probe {
        ProbeSpec::Net(p) => nanos(bytes(&p.message_bytes), 5),
        ProbeSpec::Mpi(p) => nanos(bytes(&p.message_bytes).saturating_mul(p.ranks_per_instance.into()), 5),
        _ => Duration::ZERO,
    };
    let by_clock = match probe {
        ProbeSpec::Net(p) => {
            let kinds = p.protocols.len() * (p.exchanges.len() + 1) * p.message_bytes.len();
            p.duration_ms.to_duration().saturating_mul(u32::try_from(kinds).unwrap_or(u32::MAX))
        }
        ProbeSpec::Mpi(p) => {
            let kinds = 2 * u32::try_from(p.message_bytes.len()).unwrap_or(u32::MAX);
            p.duration_ms.to_duration().saturating_mul(kinds)
        }
        ProbeSpec::Share(p) => p.takes(cpus),
        _ => Duration::ZERO,
    };
    Nominal { by_clock, by_work }
}

/// Array sizes of a memory probe.
struct Sizes {
    largest: u64,
    count: u32,
    steps_per_octave: u32,
}

impl Sizes {
    fn of(min: Kibibytes, max: Option<Mebibytes>, steps_per_octave: u32, facts: &MachineFacts) -> Self {
        let largest = largest_array(max, facts);
        let octaves = (largest / min.to_bytes().get().max(1)).max(1).ilog2() + 1;
        Self { largest, count: octaves * steps_per_octave + 1, steps_per_octave }
    }

    /// Sum over all sizes: a geometric series, twice the largest for one step per doubling.
    const fn total_bytes(&self) -> u64 {
        self.largest.saturating_mul(self.steps_per_octave as u64 + 1)
    }
}

/// The largest array of a memory probe: as set, else twice the last-level cache.
fn largest_array(max: Option<Mebibytes>, facts: &MachineFacts) -> u64 {
    let cache = facts.last_level_cache_bytes.unwrap_or(ASSUMED_CACHE).get();
    max.map_or(cache.saturating_mul(2).min(MOST_ARRAY), |max| max.to_bytes().get())
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
    let arrays = probes.iter().map(|probe| memory_of(probe, host)).max().unwrap_or(0);
    let files = probes.iter().map(disk_of).max().unwrap_or(0);
    let same = loads_at(experiment, LoadPlace::Same, host);
    room(arrays.saturating_add(same.0), files.saturating_add(same.1))
}

/// What each member of a layout needs: for the probes measured in it, and a load in the same instance.
pub fn room_for_members(experiment: &Experiment, layout: Layout, host: &MachineFacts) -> Room {
    let measured: Vec<ProbeSpec> = probes_in(experiment, layout);
    let arrays = measured.iter().map(|probe| memory_of(probe, host)).max().unwrap_or(0);
    let files = measured.iter().map(disk_of).max().unwrap_or(0);
    let same = loads_at(experiment, LoadPlace::Same, host);
    room(arrays.saturating_add(same.0), files.saturating_add(same.1))
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
    room(memory, disk)
}

const fn room(memory: u64, disk: u64) -> Room {
    // An unset array size is at most a quarter of the memory: give four times the largest, and a file system's own share.
    let memory = BASE_MEMORY.saturating_add(memory.saturating_mul(4));
    Room { memory: Bytes::from_bytes(memory), disk: Bytes::from_bytes(disk.saturating_add(disk / 4)) }
}

/// Most memory and disk of one load at a place: one runs at a time.
fn loads_at(experiment: &Experiment, place: LoadPlace, host: &MachineFacts) -> (u64, u64) {
    let here = experiment.loads.iter().filter(|load| load.place == place);
    here.fold((0, 0), |(memory, disk), load| match load.kind {
        LoadKind::Memory => (memory.max(largest_array(None, host)), disk),
        LoadKind::Disk => (memory, disk.max(LOAD_FILE)),
        LoadKind::Mixed => (memory.max(largest_array(None, host)), disk.max(LOAD_FILE)),
        LoadKind::Idle
        | LoadKind::Cpu
        | LoadKind::Network
        | LoadKind::Interrupt
        | LoadKind::Fork
        | LoadKind::Lock => (memory, disk),
    })
}

fn memory_of(probe: &ProbeSpec, host: &MachineFacts) -> u64 {
    match probe {
        ProbeSpec::MemLatency(p) => largest_array(p.max_size_mib, host),
        ProbeSpec::MemBandwidth(p) => largest_array(p.max_size_mib, host).saturating_mul(p.threads.into()),
        ProbeSpec::Gap(p) => u64::from(p.batches) * (128 << 10) / 4,
        ProbeSpec::Fwq(p) => u64::from(p.samples) * 16,
        ProbeSpec::Linpack(p) => u64::from(p.n) * u64::from(p.n) * 16,
        ProbeSpec::Pages(p) => p.size_mib.to_bytes().get(),
        ProbeSpec::Build(p) => u64::from(p.jobs.unwrap_or(host.cpus)) * (16 << 20),
        // A message to send and room for one that comes, per rank; datagrams and mailboxes besides.
        ProbeSpec::Net(p) => (4 << 20) + 2 * u64::from(p.message_bytes.iter().copied().max().unwrap_or(1)),
        ProbeSpec::Mpi(p) => {
            let largest = u64::from(p.message_bytes.iter().copied().max().unwrap_or(1));
            (16 << 20) + u64::from(p.ranks_per_instance) * 2 * largest
        }
        _ => 0,
    }
}

fn disk_of(probe: &ProbeSpec) -> u64 {
    match probe {
        ProbeSpec::Disk(DiskParams { file_size_mib, .. }) => file_size_mib.to_bytes().get(),
        ProbeSpec::Build(p) => build::room(p).get(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::names::ProbeKind;
    use model::params::{CpuParams, GapParams, MemLatencyParams};

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
        assert_eq!(deadline(&ProbeSpec::Gap(gap), &facts(2, 8)).get(), 36_000);
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
    fn fixed_work_gets_twenty_times_its_time() {
        // 1e8 rounds at 4 ns: 0.4 s; threads 1, 2, 3, 4 on 2 CPUs take 1+1+2+2 turns: 2.4 s.
        let cpu = CpuParams { iterations: 100_000_000, samples: 1, max_threads: None };
        assert_eq!(deadline(&ProbeSpec::Cpu(cpu), &facts(2, 8)).get(), 78_000);
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
        assert_eq!(room.memory, Mebibytes::from_mib(496).to_bytes());
        assert_eq!(room.disk, Bytes::from_bytes(0));
    }
}
