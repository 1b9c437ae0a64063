//! A rich sample run: three platforms that were measured, one that is not available, neighbours, failures, a dirty
//! host. All of it is drawn from a seed, so pictures and snapshots repeat.

use bulkhead::model::classes::shipped;
use bulkhead::model::clocks::{ClockLevel, ClockVerdict, Ppm};
use bulkhead::model::experiment::{Accelerator, Experiment, LayoutEntry, LoadEntry, PlatformSpec, Repeat};
use bulkhead::model::journal::{Cell, Failure, FailureKind, Neighbour, PlatformState};
use bulkhead::model::preflight::{Check, CheckLevel, Preflight};
use bulkhead::model::results::{
    CellResult, FailedMeasurement, MetricResult, RunResults, Verdict, VerdictLevel,
};
use bulkhead::probes::ProbeKind;
use bulkhead::probes::detail::Detail;
use bulkhead::probes::job::{Dose, PlacedDose};
use bulkhead::probes::params::{ProbeSpec, Probes};
use bulkhead::units::facts::{ClockFacts, MachineFacts, OwnCost};
use bulkhead::units::layout::Layout;
use bulkhead::units::metric::{Answer, Better, Comparison, Difference, Estimate, Figure, Metric};
use bulkhead::units::names::{LoadKind, LoadPlace, PlatformKind};
use bulkhead::units::{Bytes, Hertz, Mebibytes, Nanos};
use rand::{RngExt as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::sample_details::detail;
use super::sample_sides;

/// Labels of the measured platforms.
pub const PLATFORMS: [&str; 3] = ["native", "container", "vm"];

/// How much slower than native a platform is at a probe.
pub fn slowness(platform: &str, probe: ProbeKind) -> f64 {
    match (platform, probe) {
        ("container", ProbeKind::Disk) => 1.08,
        ("container", _) => 1.004,
        ("vm", ProbeKind::Cpu) => 8.4,
        ("vm", ProbeKind::Syscall) => 11.0,
        ("vm", ProbeKind::Fork) => 24.0,
        ("vm", ProbeKind::MemLatency | ProbeKind::MemBandwidth) => 2.6,
        ("vm", ProbeKind::Disk) => 1.35,
        ("vm", _) => 3.2,
        _ => 1.0,
    }
}

/// Probes of the first sample: those whose raw outcomes are made here. The others follow from the fake platform.
pub const FIRST: [ProbeKind; 8] = [
    ProbeKind::Gap,
    ProbeKind::Fwq,
    ProbeKind::Cpu,
    ProbeKind::Syscall,
    ProbeKind::Fork,
    ProbeKind::MemLatency,
    ProbeKind::MemBandwidth,
    ProbeKind::Disk,
];

/// Probes that are also measured beside neighbours.
const DISTURBED: [ProbeKind; 5] =
    [ProbeKind::Gap, ProbeKind::Fwq, ProbeKind::Cpu, ProbeKind::MemBandwidth, ProbeKind::Disk];

/// The neighbours.
const NEIGHBOURS: [(LoadKind, LoadPlace); 6] = [
    (LoadKind::Idle, LoadPlace::Second),
    (LoadKind::Cpu, LoadPlace::Second),
    (LoadKind::Memory, LoadPlace::Host),
    (LoadKind::Disk, LoadPlace::Second),
    (LoadKind::Network, LoadPlace::Second),
    (LoadKind::Fork, LoadPlace::Same),
];

/// How much worse a figure gets beside a neighbour; tails more than what is typical.
fn disturbance(cell: &Cell, id: &str) -> f64 {
    let tail = id.contains("max") || id.contains("longest") || id.contains("99");
    match (cell.neighbour.map(|neighbour| neighbour.kind), cell.probe) {
        // Four instances on two CPUs.
        (None, ProbeKind::Cpu) if cell.layout.is_some() => 2.1,
        (Some(LoadKind::Cpu), ProbeKind::Cpu) => 2.6,
        (Some(LoadKind::Cpu), ProbeKind::Gap) if tail => 41.0,
        (Some(LoadKind::Cpu), _) if tail => 6.3,
        (Some(LoadKind::Cpu), _) => 1.9,
        (Some(LoadKind::Memory), ProbeKind::MemBandwidth) => 1.7,
        (Some(LoadKind::Disk), ProbeKind::Disk) if tail => 12.0,
        (Some(LoadKind::Disk), ProbeKind::Disk) => 3.1,
        (Some(LoadKind::Fork), _) if tail => 1.3,
        (Some(LoadKind::Fork), ProbeKind::Cpu) => 0.9,
        _ => 1.0,
    }
}

/// What a probe yields on the baseline; its ids, titles and units are those that real measurements have.
fn definitions(probe: ProbeKind) -> Option<Vec<Metric>> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
    let cell = Cell { probe, neighbour: None, platform: "native".to_owned(), layout: None };
    let clock = ClockFacts { name: "tsc".to_owned(), read_ns: 8.6, resolution_ns: 0.9 };
    Some(bulkhead::probes::metrics_of(&detail(&mut random, &cell)?, &clock))
}

fn estimate(value: f64, half: f64) -> Answer {
    Answer::Estimate(Estimate {
        value,
        low: value * (1.0 - half),
        high: value * (1.0 + half),
        confidence: 0.95,
    })
}

fn comparison(ratio: f64, half: f64, better: Better) -> Comparison {
    let (low, high) = (ratio * (1.0 - half), ratio * (1.0 + half));
    let difference = match better {
        _ if low <= 1.0 && 1.0 <= high => Difference::NotFound,
        Better::Neither => Difference::Different,
        Better::Lower if ratio < 1.0 => Difference::Better,
        Better::Higher if ratio > 1.0 => Difference::Better,
        _ => Difference::Worse,
    };
    Comparison {
        ratio: estimate(ratio, half),
        pairs: 9,
        difference,
        of_family: None,
        detectable_percent: None,
    }
}

fn metrics(random: &mut Xoshiro256PlusPlus, cell: &Cell) -> Vec<MetricResult> {
    let build = |metric: Metric| {
        let Metric { id, title, unit, better, headline, figure } = metric;
        let (slow, disturbed) = (slowness(&cell.platform, cell.probe), disturbance(cell, &id));
        let towards = |worse: f64| match better {
            Better::Higher => 1.0 / worse,
            Better::Lower => worse,
            Better::Neither => 1.0,
        };
        let half = 0.008 + 0.03 * random.random::<f64>();
        let thin = id == "bound_99_999_ns" && cell.platform == "vm";
        let base = figure.value().filter(|_| !thin);
        let value = base.unwrap_or(1.0) * towards(slow) * towards(disturbed);
        let answer = match figure {
            Figure::Unsupported(reason) => Answer::Unsupported(reason),
            Figure::Value(_) if thin => {
                Answer::Unsupported("0.001 % of the time needs 10 gaps or more, there were 3".to_owned())
            }
            Figure::Value(_) => estimate(value, half),
        };
        let none = Comparison {
            ratio: Answer::Unsupported("0 pairs; at least 3 are needed".to_owned()),
            pairs: 0,
            difference: Difference::Unknown,
            of_family: None,
            detectable_percent: None,
        };
        let compared = |ratio: f64, wider: f64| match base {
            Some(_) => comparison(ratio, half * wider, better),
            None => none.clone(),
        };
        let samples = (0..9).map(|round| (round, value * (1.0 + half * (random.random::<f64>() - 0.5))));
        MetricResult {
            samples: samples.filter(|_| base.is_some()).collect(),
            estimate: answer,
            against_baseline: (cell.platform != "native").then(|| compared(towards(slow), 1.4)),
            against_undisturbed: cell.neighbour.map(|_| compared(towards(disturbed), 1.5)),
            at_most: None,
            against_alone: cell.layout.map(|_| compared(1.9, 1.5)),
            id,
            title,
            unit,
            better,
            headline,
        }
    };
    definitions(cell.probe).into_iter().flatten().map(build).collect()
}

fn dose(kind: LoadKind, place: LoadPlace) -> PlacedDose {
    let (rate_per_s, unit) = if kind == LoadKind::Cpu { (1.21e9, "rounds") } else { (9.4e9, "bytes") };
    PlacedDose {
        place,
        dose: Dose {
            kind,
            threads: 2,
            elapsed_ns: Nanos::from_nanos(1_020_000_000),
            rate_per_s,
            unit: unit.to_owned(),
            cpu_time_ns: Nanos::from_nanos(1_990_000_000),
            way: None,
            interrupts_per_s: None,
            soft_interrupts_per_s: None,
            parts: Vec::new(),
        },
    }
}

fn cell_result(random: &mut Xoshiro256PlusPlus, cell: Cell) -> CellResult {
    let broke = breaks(&cell);
    CellResult {
        done: if broke { 0 } else { 9 },
        failed: if broke { 9 } else { 0 },
        metrics: if broke { Vec::new() } else { metrics(random, &cell) },
        detail: if broke { None } else { detail(random, &cell) },
        exceedance: None,
        confidence: None,
        took_ns: None,
        clock: Some(ClockFacts { name: "tsc".to_owned(), read_ns: 8.6, resolution_ns: 0.9 }),
        cost: Some(OwnCost {
            per_sample_ns: 9.1,
            cpu_time_ns: Nanos::from_nanos(1_012_000_000),
            memory_bytes: Bytes::from_bytes(131_072),
        }),
        doses: cell.neighbour.iter().map(|neighbour| dose(neighbour.kind, neighbour.place)).collect(),
        outside: sample_sides::outside(&cell),
        attribution: sample_sides::attribution(&cell),
        sides: sample_sides::sides(&cell),
        host: sample_sides::memory(&cell),
        scheduling: Vec::new(),
        notes: if cell.probe == ProbeKind::MemLatency && cell.platform == "vm" {
            vec!["the largest array was capped at 128 MiB by the memory of the guest".to_owned()]
        } else {
            Vec::new()
        },
        cell,
    }
}

/// The disk probe of the guest beside a disk load: every measurement of it broke.
fn breaks(cell: &Cell) -> bool {
    let beside_disk = cell.neighbour.is_some_and(|neighbour| neighbour.kind == LoadKind::Disk);
    beside_disk && cell.probe == ProbeKind::Disk && cell.platform == "vm"
}

fn machine() -> MachineFacts {
    MachineFacts {
        architecture: "x86_64".to_owned(),
        cpu_model: Some("Example CPU 9000 @ 2.90GHz".to_owned()),
        cpus: 2,
        memory_bytes: Some(Bytes::from_bytes(16 << 30)),
        last_level_cache_bytes: Some(Bytes::from_bytes(32 << 20)),
        system: Some("Debian GNU/Linux 12 (bookworm)".to_owned()),
        kernel: Some("6.1.0-18-amd64".to_owned()),
        clock_source: Some("tsc".to_owned()),
        hypervisor: Some("kvm".to_owned()),
        counter_hz: Some(Hertz::from_hz(2_900_000_000)),
        nics: vec![],
    }
}

fn platform(label: &str, kind: PlatformKind, properties: &[(&str, &str)]) -> PlatformState {
    PlatformState {
        label: label.to_owned(),
        kind,
        unavailable: None,
        properties: properties
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect(),
        facts: Some(machine()),
        start_ns: Some(Nanos::from_nanos(if kind == PlatformKind::Vm { 2_310_000_000 } else { 7_400_000 })),
    }
}

fn check(id: &str, level: CheckLevel, found: &str, advice: &str) -> Check {
    Check { id: id.to_owned(), level, found: found.to_owned(), advice: advice.to_owned() }
}

fn preflight() -> Preflight {
    let checks = vec![
        check("governor", CheckLevel::Ok, "performance on all CPUs", ""),
        check(
            "smt",
            CheckLevel::Note,
            "two hardware threads share each core",
            "pin neighbours to other cores",
        ),
        check(
            "load",
            CheckLevel::Dirty,
            "load average 1.73 on 2 CPUs before measuring",
            "stop other programs",
        ),
        check(
            "steal",
            CheckLevel::Dirty,
            "2.1 % of CPU time was stolen by the hypervisor below",
            "use a host of your own",
        ),
        check("kvm", CheckLevel::Missing, "/dev/kvm is not there", "enable virtualization in the firmware"),
    ];
    Preflight { checks }
}

fn experiment() -> Experiment {
    let mut platforms = vec![
        PlatformSpec::of_kind(PlatformKind::Native),
        PlatformSpec::of_kind(PlatformKind::Container),
        PlatformSpec::of_kind(PlatformKind::Vm),
        PlatformSpec { label: "gvisor".to_owned(), ..PlatformSpec::of_kind(PlatformKind::Container) },
    ];
    platforms[2].memory_mib = Some(Mebibytes::from_mib(1024));
    platforms[2].accelerator = Accelerator::Auto;
    platforms[3].runtime = Some("runsc".to_owned());
    let mut probes = Probes::default();
    for probe in &FIRST {
        probes.set(ProbeSpec::default_of(*probe));
    }
    let load = |(kind, place)| LoadEntry { kind, place, threads: None, probes: Some(DISTURBED.to_vec()) };
    Experiment {
        name: "default".to_owned(),
        baseline: Some("native".to_owned()),
        seed: Some(4_711_081_512),
        trace: false,
        repeat: Repeat::default(),
        platforms,
        probes,
        layouts: Layout::new(1, 4)
            .map(|size| LayoutEntry { size, probes: Some(vec![ProbeKind::Cpu]) })
            .into_iter()
            .collect(),
        loads: NEIGHBOURS.map(load).to_vec(),
    }
}

fn verdict(platform: &str, level: VerdictLevel, sentence: &str, because: &[&str]) -> Verdict {
    Verdict {
        platform: platform.to_owned(),
        level,
        sentence: sentence.to_owned(),
        because: because.iter().map(|figure| (*figure).to_owned()).collect(),
    }
}

fn clocks() -> Vec<ClockVerdict> {
    let verdict = |platform: &str, level, sentence: &str, drift: f64| ClockVerdict {
        platform: platform.to_owned(),
        measurements: 60,
        by_datagrams: 0,
        level,
        sentence: format!("{platform}: {sentence}"),
        drift_ppm: Some(Ppm { value: drift, low: drift - 4.0, high: drift + 4.0 }),
        slew_ppm: None,
        largest_disagreement_ns: 12_000,
        disagreement_error_ns: 40_000,
        round_trip_ns: 55_000,
        steps: if platform == "vm" { vec![sample_sides::step()] } else { Vec::new() },
        step_count: u32::from(platform == "vm"),
    };
    let agrees = "its clock runs as the host's does: +1 ppm [-3 … 5]";
    let lies = "its clock runs fast: +100000 ppm [99996 … 100004], that is 8640 s a day";
    vec![verdict("native", ClockLevel::Agrees, agrees, 1.0), verdict("vm", ClockLevel::Lies, lies, 100_000.0)]
}

fn verdicts() -> Vec<Verdict> {
    vec![
        verdict(
            "container",
            VerdictLevel::Costly,
            "container costs up to 8 % (disk); CPU and memory run as fast as on native.",
            &["disk: writing, fsync each block 0.926 × native [0.901 … 0.951]", "fork: no difference found"],
        ),
        verdict(
            "vm",
            VerdictLevel::Heavy,
            "vm makes starting processes 24 times slower and CPU-bound work 8.4 times; its CPUs are emulated (TCG).",
            &["fork: 0.0417 × native [0.040 … 0.043]", "cpu: 8.40 × native [8.21 … 8.61]"],
        ),
    ]
}

fn failures() -> Vec<FailedMeasurement> {
    let died = |neighbour, round| FailedMeasurement {
        cell: Cell { probe: ProbeKind::Disk, neighbour, platform: "vm".to_owned(), layout: None },
        round,
        failure: Failure {
            kind: FailureKind::Died,
            reason: "wanted a reply to job 41 within 30 s, but qemu ended with exit status 1 after 2.4 s"
                .to_owned(),
            console: vec![
                "[    2.101] EXT4-fs (vda): mounted filesystem".to_owned(),
                "[    2.377] Kernel panic - not syncing: Out of memory".to_owned(),
            ],
        },
    };
    let disk = Some(Neighbour { kind: LoadKind::Disk, place: LoadPlace::Second });
    vec![died(None, 3), died(disk, 0)]
}

/// Every cell of the sample run, each platform of a cell after the other.
fn cells(probes: &[ProbeKind]) -> Vec<Cell> {
    let neighbours = NEIGHBOURS.map(|(kind, place)| Some(Neighbour { kind, place }));
    let mut cells = Vec::new();
    for neighbour in [None].into_iter().chain(neighbours) {
        for probe in probes.iter().filter(|probe| neighbour.is_none() || DISTURBED.contains(probe)) {
            // One that was not measured: a memory load beside the disk.
            if *probe == ProbeKind::Disk && neighbour.is_some_and(|n| n.kind == LoadKind::Memory) {
                continue;
            }
            let layout = probe.is_made_together().then_some(Layout::PAIR);
            let four = (neighbour.is_none() && *probe == ProbeKind::Cpu).then(|| Layout::new(1, 4));
            for layout in [layout].into_iter().chain(four) {
                cells.extend(PLATFORMS.map(|platform| Cell {
                    probe: *probe,
                    neighbour,
                    platform: platform.to_owned(),
                    layout,
                }));
            }
        }
    }
    cells
}

/// The sample run with every probe that has made-up outcomes.
pub fn rich() -> RunResults {
    let probes: Vec<ProbeKind> =
        ProbeKind::ALL.iter().copied().filter(|probe| definitions(*probe).is_some()).collect();
    of(&probes)
}

/// The sample run with these probes.
pub fn of(probes: &[ProbeKind]) -> RunResults {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(42);
    let mut gvisor = platform("gvisor", PlatformKind::Container, &[]);
    gvisor.unavailable = Some("the OCI runtime runsc was not found in PATH: install gVisor".to_owned());
    gvisor.facts = None;
    gvisor.start_ns = None;
    let why = "the trial guest under KVM did not answer within 10 s";
    let mut run = RunResults {
        schema_version: 1,
        bulkhead_version: "0.1.0".to_owned(),
        experiment: experiment(),
        started_unix_ns: Nanos::from_nanos(1_795_230_245_000_000_000),
        measured_ns: Nanos::from_nanos(214_000_000_000),
        complete: true,
        host: machine(),
        preflight: preflight(),
        dirty: preflight().dirty_reasons(),
        platforms: vec![
            platform("native", PlatformKind::Native, &[]),
            platform("container", PlatformKind::Container, &[("runtime", "crun 1.8.1")]),
            platform("vm", PlatformKind::Vm, &[("accelerator", "tcg"), ("why", why), ("qemu", "7.2.15")]),
            gvisor,
        ],
        sessions: Vec::new(),
        lost: Vec::new(),
        clocks: clocks(),
        made_up: Vec::new(),
        verdicts: verdicts(),
        policies: vec![],
        cells: cells(probes).into_iter().map(|cell| cell_result(&mut random, cell)).collect(),
        failures: failures(),
        isolation: Vec::new(),
        classes: Vec::new(),
        simulation: None,
    };
    run.isolation = bulkhead::analysis::isolation::matrices(&run);
    run.classes = bulkhead::analysis::suitability::judge(&run, &shipped().unwrap());
    run
}

/// The sample run whose fixed work quantum on native was measured very often; the longest, 77.8 ms, is in the middle.
pub fn with_many_quanta(count: u32) -> RunResults {
    let mut run = rich();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(43);
    let mut quanta = super::sample_details::fwq(&mut random, 1.0, count);
    let middle = quanta.samples_ns.len() / 2;
    quanta.samples_ns[middle] = Nanos::from_nanos(77_800_000);
    let wanted = |cell: &&mut CellResult| cell.cell.probe == ProbeKind::Fwq && cell.cell.platform == "native";
    run.cells.iter_mut().find(wanted).unwrap().detail = Some(Detail::Fwq(quanta));
    run
}
