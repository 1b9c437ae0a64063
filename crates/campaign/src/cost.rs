//! What a measurement costs on a platform that nobody has measured yet, in seconds: time by the clock, which a probe is
//! told, and time for its work, which depends on the machine. Pure. Typical figures of one machine (2 CPUs at 2.x GHz,
//! translated guests included), good to a factor of two; what was measured on a host replaces them.

use std::time::Duration;

use model::facts::MachineFacts;
use model::journal::{Neighbour, PlatformState};
use model::layout::Layout;
use model::names::{LoadKind, LoadPlace, PlatformKind, ProbeKind};
use model::params::{Exchange, NetParams, ProbeSpec, Protocol};

/// Time per byte of a message between two processes of a host, once it is large.
const NETWORK_BYTE_NS: f64 = 1.0;

/// Time per byte of a file in the page cache or on a quick disk.
const DISK_BYTE_NS: f64 = 1.2;

/// What runs a platform's code, as far as time goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flavour {
    /// Nothing is run.
    Fake,
    /// A process of the host.
    Process,
    /// A container.
    Container,
    /// A guest whose code runs on the CPU.
    Virtual,
    /// A guest whose code is translated.
    Translated,
    /// Another machine.
    Remote,
}

/// What a survey found, as far as time goes.
pub fn flavour(state: &PlatformState) -> Flavour {
    let is_translated =
        || state.properties.iter().any(|(name, value)| name == "accelerator" && value == "tcg");
    match state.kind {
        PlatformKind::Fake | PlatformKind::Sim => Flavour::Fake,
        PlatformKind::Native => Flavour::Process,
        PlatformKind::Container => Flavour::Container,
        PlatformKind::Vm if is_translated() => Flavour::Translated,
        PlatformKind::Vm => Flavour::Virtual,
        PlatformKind::Ssh => Flavour::Remote,
    }
}

/// Starting an instance until its agent answers, where none was started yet.
pub fn start(flavour: Flavour) -> Duration {
    Duration::from_millis(match flavour {
        Flavour::Fake => 0,
        Flavour::Process => 30,
        Flavour::Container => 150,
        Flavour::Virtual | Flavour::Remote => 1500,
        Flavour::Translated => 2500,
    })
}

/// What comes with every measurement: pausing and resuming, asking for the clock, writing down.
fn overhead(flavour: Flavour) -> f64 {
    match flavour {
        Flavour::Fake => 0.001,
        Flavour::Process | Flavour::Container => 0.006,
        Flavour::Virtual => 0.02,
        Flavour::Translated => 0.035,
        Flavour::Remote => 0.1,
    }
}

/// How many times as long a probe's work takes as in a process.
fn slowdown(flavour: Flavour, probe: ProbeKind) -> f64 {
    match (flavour, probe) {
        (Flavour::Fake, _) => 0.0,
        (Flavour::Process | Flavour::Remote, _) => 1.0,
        (Flavour::Container, _) => 1.05,
        (Flavour::Virtual, ProbeKind::Build | ProbeKind::Pages) => 1.6,
        (Flavour::Virtual, _) => 1.15,
        (Flavour::Translated, ProbeKind::Linpack) => 60.0,
        (Flavour::Translated, ProbeKind::Build | ProbeKind::Pages) => 25.0,
        (Flavour::Translated, ProbeKind::MemLatency) => 4.0,
        (Flavour::Translated, ProbeKind::MemBandwidth) => 20.0,
        (Flavour::Translated, ProbeKind::Disk) => 5.0,
        (Flavour::Translated, ProbeKind::Net | ProbeKind::Mpi) => 10.0,
        (Flavour::Translated, _) => 8.0,
    }
}

/// Seconds in a process of the host: by the clock, and by the work.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct Cost {
    by_clock: f64,
    by_work: f64,
}

/// How long a measurement takes, its instances being there, on a platform that works `slowness` times as slow as typical
/// ones, whose CPUs are wanted `crowding` times over.
pub fn measurement(
    probe: &ProbeSpec,
    facts: &MachineFacts,
    flavour: Flavour,
    slowness: f64,
    (neighbour, layout): (Option<Neighbour>, Option<Layout>),
    crowding: u32,
) -> Duration {
    let cost = of_probe(probe, facts);
    let instances = f64::from(layout.map_or(1, Layout::instances));
    let beside = neighbour.map_or(1.0, |neighbour| busy(neighbour.kind));
    let slow = slowdown(flavour, probe.kind()) * slowness;
    let slow = slow * beside * f64::from(crowding.max(1));
    let work = cost.by_work * slow + on_disk(probe, slow) + over_network(probe, instances, slow);
    let by_clock =
        if flavour == Flavour::Fake { 0.0 } else { cost.by_clock * polling(probe, flavour, neighbour) };
    let joint = if layout.is_some() { 0.05 + overhead(flavour) * instances } else { 0.0 };
    let load = neighbour.map_or(0.0, |neighbour| around(neighbour, flavour));
    Duration::from_secs_f64((by_clock + work + overhead(flavour) + joint + load).clamp(0.0, 1e6))
}

/// How many times as long work takes beside a load.
const fn busy(load: LoadKind) -> f64 {
    match load {
        LoadKind::Idle => 1.0,
        LoadKind::Disk | LoadKind::Memory => 1.5,
        _ => 1.9,
    }
}

/// How many times as long ranks take that poll for their messages and yield: among processes of one group each yield gives a
/// busy neighbour the CPU for a turn, and what was begun is ended.
fn polling(probe: &ProbeSpec, flavour: Flavour, neighbour: Option<Neighbour>) -> f64 {
    use LoadKind::{Cpu, Interrupt, Lock, Memory, Network};
    let is_busy = neighbour.is_some_and(|n| matches!(n.kind, Cpu | Memory | Network | Interrupt | Lock));
    let yields = matches!(probe, ProbeSpec::Mpi(_)) && flavour == Flavour::Process;
    if yields && is_busy { 9.0 } else { 1.0 }
}

/// Bringing a load up, and hearing how strong it was.
fn around(neighbour: Neighbour, flavour: Flavour) -> f64 {
    let own = if neighbour.place == LoadPlace::Host { Flavour::Process } else { flavour };
    let preparing = match neighbour.kind {
        LoadKind::Memory | LoadKind::Mixed => 0.06,
        LoadKind::Disk => 0.025,
        _ => 0.008,
    };
    let slow = if own == Flavour::Translated { 5.0 } else { 1.0 };
    overhead(own) + if own == Flavour::Fake { 0.0 } else { preparing * slow }
}

fn clock(time: Duration) -> Cost {
    Cost { by_clock: time.as_secs_f64(), by_work: 0.0 }
}

fn work(count: f64, nanos_each: f64) -> Cost {
    Cost { by_clock: 0.0, by_work: count * nanos_each / 1e9 }
}

/// So many exchanges of this time each: connecting and agreeing on them is work.
fn exchanges(each: Duration, count: u32) -> Cost {
    Cost { by_work: f64::from(count) * 0.006, ..clock(each.saturating_mul(count)) }
}

fn of_probe(probe: &ProbeSpec, facts: &MachineFacts) -> Cost {
    let cpus = facts.cpus.max(1);
    match probe {
        ProbeSpec::Gap(p) => match p.reads {
            Some(reads) => work(reads as f64, 12.0),
            None => Cost { by_work: 0.001, ..clock(p.duration_ms.to_duration()) },
        },
        ProbeSpec::Fwq(p) => work(p.iterations as f64 * f64::from(p.samples), 0.5),
        ProbeSpec::Ftq(p) => Cost { by_work: 0.001, ..clock(p.duration_ms.to_duration()) },
        ProbeSpec::Wakeup(p) => clock(p.duration_ms.to_duration()),
        ProbeSpec::Frames(p) => {
            Cost { by_clock: f64::from(p.frames) / f64::from(p.rate_hz.max(1)), by_work: 0.0 }
        }
        ProbeSpec::Exit(p) => clock(p.duration_ms.to_duration()),
        ProbeSpec::Lock(p) => clock(p.duration_ms.to_duration() * 2),
        ProbeSpec::Syscall(p) => clock(p.duration_ms.to_duration() * p.max_threads.unwrap_or(cpus)),
        ProbeSpec::Fork(p) => clock(p.duration_ms.to_duration() * p.max_threads.unwrap_or(cpus)),
        ProbeSpec::Share(p) => clock(p.takes(cpus)),
        ProbeSpec::Net(p) => exchanges(p.duration_ms.to_duration(), net_points(p)),
        ProbeSpec::Mpi(p) => {
            let sizes = u32::try_from(p.message_bytes.len()).unwrap_or(u32::MAX);
            exchanges(p.duration_ms.to_duration(), sizes.saturating_mul(2))
        }
        ProbeSpec::Cpu(p) => {
            let most = p.max_threads.unwrap_or(cpus * 2);
            let turns: f64 = (1..=most).map(|threads| f64::from(threads.div_ceil(cpus))).sum();
            work(p.iterations as f64 * f64::from(p.samples) * turns, 0.5)
        }
        ProbeSpec::Linpack(p) => work(f64::from(p.n).powi(3) * 2.0 / 3.0 * f64::from(p.samples), 0.2),
        ProbeSpec::Build(p) => {
            let functions = f64::from(p.files) * f64::from(p.functions);
            work(functions, 250_000.0)
        }
        ProbeSpec::Pages(p) => {
            let pages = p.size_mib.to_bytes().as_f64() / 4096.0 * (f64::from(p.warm_passes) + 1.0);
            work(pages, 500.0)
        }
        ProbeSpec::MemLatency(_) | ProbeSpec::MemBandwidth(_) | ProbeSpec::Disk(_) => of_memory(probe, facts),
    }
}

/// Arrays and files: a time per size or phase, and preparing them.
fn of_memory(probe: &ProbeSpec, facts: &MachineFacts) -> Cost {
    let sizes = |min_kib: u64, max_mib: Option<u64>, steps: u32| {
        let cache = facts.last_level_cache_bytes.map_or(32 << 20, model::units::Bytes::get);
        let largest = max_mib.map_or((cache * 2).min(512 << 20), |mib| mib << 20);
        let octaves = (largest / (min_kib.max(1) << 10)).max(1).ilog2() + 1;
        (f64::from(octaves * steps + 1), largest as f64 * (f64::from(steps) + 1.0))
    };
    match probe {
        ProbeSpec::MemLatency(p) => {
            let most = p.max_size_mib.map(model::units::Mebibytes::get);
            let (count, bytes) = sizes(p.min_size_kib.get(), most, p.steps_per_octave);
            let elements = bytes / f64::from(p.stride_bytes.max(1));
            Cost { by_clock: p.duration_ms.to_duration().as_secs_f64() * count, ..work(elements, 40.0) }
        }
        ProbeSpec::MemBandwidth(p) => {
            let most = p.max_size_mib.map(model::units::Mebibytes::get);
            let (count, bytes) = sizes(p.min_size_kib.get(), most, p.steps_per_octave);
            Cost {
                by_clock: p.duration_ms.to_duration().as_secs_f64() * count * 3.0,
                ..work(bytes * f64::from(p.threads), 0.6)
            }
        }
        // Random and misaligned blocks, each for half of the time.
        ProbeSpec::Disk(p) => clock(p.duration_ms.to_duration()),
        _ => Cost::default(),
    }
}

/// Writing and reading a file: each phase ends with its time or with the file, whichever comes first.
fn on_disk(probe: &ProbeSpec, slow: f64) -> f64 {
    let ProbeSpec::Disk(p) = probe else { return 0.0 };
    let phases = 2.0 * (p.modes.len() * p.block_sizes_kib.len()) as f64;
    let whole = p.file_size_mib.to_bytes().as_f64() * DISK_BYTE_NS / 1e9 * slow;
    (phases + 1.0) * whole.min(p.duration_ms.to_duration().as_secs_f64())
}

/// What large messages add to the times that exchanges are told: none ends in the middle of a message, and a round trip is
/// made at least once to warm up and once to be timed. `slow` is how many times as slow as typical messages go.
fn over_network(probe: &ProbeSpec, instances: f64, slow: f64) -> f64 {
    // So many whole ones as fill this time.
    let whole = |time: f64, each: f64| if each > 0.0 { (time / each).ceil() * each } else { time };
    let way = |size: u32| f64::from(size) * NETWORK_BYTE_NS / 1e9 * slow;
    match probe {
        // Nothing is run.
        _ if slow <= 0.0 => 0.0,
        ProbeSpec::Net(p) => {
            let time = p.duration_ms.to_duration().as_secs_f64();
            let sizes = |protocol| p.message_bytes.iter().filter(move |size| fits(protocol, **size));
            let of = |exchange: Exchange, size: u32| match exchange {
                Exchange::Stream => 2.0 * (way(size) - time).max(0.0),
                Exchange::RequestResponse => {
                    let trip = 2.0 * way(size);
                    whole(time / 10.0, trip) + whole(time, trip) - time
                }
            };
            let all = p.protocols.iter().flat_map(|protocol| sizes(*protocol));
            all.flat_map(|size| p.exchanges.iter().map(move |exchange| (*exchange, *size)))
                .map(|(exchange, size)| of(exchange, size))
                .sum()
        }
        ProbeSpec::Mpi(p) => {
            let time = p.duration_ms.to_duration().as_secs_f64();
            let ranks = instances * f64::from(p.ranks_per_instance);
            // There and back; to everybody from everybody, all at once.
            let beyond = |each: f64| whole(time, each) - time;
            p.message_bytes.iter().map(|size| beyond(2.0 * way(*size)) + beyond(ranks * way(*size))).sum()
        }
        _ => 0.0,
    }
}

/// UDP leaves out what no datagram can hold.
fn fits(protocol: Protocol, size: u32) -> bool {
    protocol == Protocol::Tcp || size <= 65_507
}

/// Streams go in both directions, UDP leaves out what no datagram can hold.
fn net_points(p: &NetParams) -> u32 {
    let mut points = 0;
    for protocol in &p.protocols {
        let sizes = p.message_bytes.iter().filter(|size| fits(*protocol, **size));
        let sizes = u32::try_from(sizes.count()).unwrap_or(u32::MAX);
        for exchange in &p.exchanges {
            points += sizes * if *exchange == Exchange::Stream { 2 } else { 1 };
        }
    }
    points
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::params::{DiskParams, FwqParams, MpiParams};
    use model::units::{Mebibytes, Millis};

    #[test]
    fn large_messages_take_as_long_as_they_take_and_small_ones_their_time() {
        let seconds = |sizes: &[u32], exchange, slow| {
            let net = NetParams {
                protocols: vec![Protocol::Tcp, Protocol::Udp],
                exchanges: vec![exchange],
                message_bytes: sizes.to_vec(),
                duration_ms: Millis::from_millis(100),
            };
            over_network(&ProbeSpec::Net(net), 2.0, slow)
        };
        let (small, large) = ([1], [32 << 20]);
        assert!(seconds(&small, Exchange::Stream, 8.0).abs() < 1e-9);
        let warm_up = seconds(&small, Exchange::RequestResponse, 8.0);
        assert!((warm_up - 0.02).abs() < 1e-3, "a tenth more to warm up, of both protocols: {warm_up}");
        let message = f64::from(32 << 20) * NETWORK_BYTE_NS / 1e9 * 100.0;
        let streams = seconds(&large, Exchange::Stream, 100.0);
        assert!((streams - 2.0 * (message - 0.1)).abs() < 1e-9, "TCP alone, in both directions: {streams}");
        let trips = seconds(&large, Exchange::RequestResponse, 100.0);
        assert!((trips - (2.0 * 2.0 * message - 0.1)).abs() < 1e-9, "two round trips: {trips}");
        let mpi = MpiParams { message_bytes: large.to_vec(), ..MpiParams::default() };
        assert!(over_network(&ProbeSpec::Mpi(mpi), 2.0, 100.0) > 2.0 * message);
        assert!(over_network(&ProbeSpec::default_of(ProbeKind::Fwq), 1.0, 1.0).abs() < 1e-9);
    }

    #[test]
    fn a_phase_of_the_disk_ends_with_its_time_or_with_the_file() {
        let seconds = |mib: u64, slow| {
            let file_size_mib = Mebibytes::from_mib(mib);
            let duration_ms = Millis::from_millis(50);
            on_disk(
                &ProbeSpec::Disk(DiskParams { file_size_mib, duration_ms, ..DiskParams::default() }),
                slow,
            )
        };
        let by_time = seconds(1 << 20, 1.0);
        assert!((seconds(1 << 21, 9.0) - by_time).abs() < 1e-9, "a large file is never read to its end");
        assert!(seconds(1, 1.0) < by_time / 10.0);
        assert!((seconds(2, 1.0) - 2.0 * seconds(1, 1.0)).abs() < 1e-9);
        assert!(seconds(1, 0.0).abs() < 1e-9, "nothing is run");
    }

    #[test]
    fn ranks_that_are_processes_wait_for_busy_neighbours_and_nobody_else_does() {
        let (mpi, net) = (ProbeSpec::default_of(ProbeKind::Mpi), ProbeSpec::default_of(ProbeKind::Net));
        let beside = |kind| Some(Neighbour { kind, place: LoadPlace::Second });
        let is_longer = |probe: &ProbeSpec, flavour, beside| polling(probe, flavour, beside) > 1.0;
        assert!(is_longer(&mpi, Flavour::Process, beside(LoadKind::Cpu)));
        assert!(!is_longer(&mpi, Flavour::Process, beside(LoadKind::Idle)));
        assert!(!is_longer(&mpi, Flavour::Process, None));
        assert!(!is_longer(&mpi, Flavour::Container, beside(LoadKind::Cpu)), "it has a group of its own");
        assert!(!is_longer(&net, Flavour::Process, beside(LoadKind::Cpu)));
    }

    #[test]
    fn work_takes_longer_where_it_is_translated_and_beside_loads_and_the_clock_does_not() {
        let facts = MachineFacts { cpus: 2, ..MachineFacts::default() };
        let fwq = ProbeSpec::Fwq(FwqParams::default());
        let gap = ProbeSpec::default_of(ProbeKind::Gap);
        let cpu = Some(Neighbour { kind: LoadKind::Cpu, place: LoadPlace::Second });
        let cost = |probe: &ProbeSpec, flavour, beside| {
            measurement(probe, &facts, flavour, 1.0, (beside, None), 1).as_secs_f64()
        };
        assert!(cost(&fwq, Flavour::Translated, None) > 3.0 * cost(&fwq, Flavour::Process, None));
        assert!(cost(&fwq, Flavour::Process, cpu) > 1.4 * cost(&fwq, Flavour::Process, None));
        assert!(cost(&gap, Flavour::Translated, None) < 1.5 * cost(&gap, Flavour::Process, None));
        assert!(cost(&gap, Flavour::Fake, cpu) < 0.01, "nothing is run");
    }
}
