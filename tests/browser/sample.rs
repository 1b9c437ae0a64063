//! A rich sample run: three platforms that were measured, one that is not available, neighbours, failures, a dirty
//! host. All of it is drawn from a seed, so pictures and snapshots repeat.

use bulkhead::model::clocks::{ClockLevel, ClockVerdict, Ppm};
use bulkhead::model::detail::Detail;
use bulkhead::model::experiment::{Accelerator, Experiment, LoadEntry, PlatformSpec, Repeat};
use bulkhead::model::facts::{ClockFacts, MachineFacts, OwnCost};
use bulkhead::model::job::{Dose, PlacedDose};
use bulkhead::model::journal::{Cell, Failure, FailureKind, Neighbour, PlatformState};
use bulkhead::model::layout::Layout;
use bulkhead::model::metric::{Better, Estimate, Unit};
use bulkhead::model::names::{LoadKind, LoadPlace, PlatformKind, ProbeKind};
use bulkhead::model::params::{CpuParams, GapParams, Probes};
use bulkhead::model::preflight::{Check, CheckLevel, Preflight};
use bulkhead::model::results::{
    Answer, CellResult, Comparison, Difference, FailedMeasurement, MetricResult, RunResults, Verdict,
    VerdictLevel,
};
use bulkhead::model::units::{Bytes, Hertz, Mebibytes, Nanos};
use rand::{RngExt as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::sample_details::detail;

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

/// Probes of the sample run.
const SAMPLED: [ProbeKind; 8] = [
    ProbeKind::Gap,
    ProbeKind::Fwq,
    ProbeKind::Cpu,
    ProbeKind::Syscall,
    ProbeKind::Fork,
    ProbeKind::MemLatency,
    ProbeKind::MemBandwidth,
    ProbeKind::Disk,
];

type Definition = (&'static str, &'static str, Unit, Better, bool, f64);

fn definitions(probe: ProbeKind) -> Vec<Definition> {
    use Better::{Higher, Lower, Neither};
    use Unit::{Bytes as Size, BytesPerSecond, Count, Nanoseconds, PerSecond, Share};
    match probe {
        ProbeKind::Gap => vec![
            ("bound_95_ns", "bound_95", Nanoseconds, Lower, true, 24.0),
            ("worst_gap_ns", "worst gap", Nanoseconds, Lower, true, 3.1e6),
            ("bound_99999_ns", "bound_99.999", Nanoseconds, Lower, false, 9.0e5),
            ("taken_share", "time taken away", Share, Lower, false, 0.004),
        ],
        ProbeKind::Fwq => vec![
            ("quantum_ns", "time of a quantum", Nanoseconds, Lower, true, 1.9e5),
            ("spread_share", "spread of the quanta", Share, Lower, false, 0.013),
        ],
        ProbeKind::Cpu => vec![
            ("one_thread_ns", "one thread's work", Nanoseconds, Lower, true, 4.2e6),
            ("knee_count", "CPUs really granted", Count, Neither, false, 2.0),
        ],
        ProbeKind::Syscall => vec![("calls_per_s", "system calls", PerSecond, Higher, true, 8.1e6)],
        ProbeKind::Fork => vec![("forks_per_s", "processes started", PerSecond, Higher, true, 2100.0)],
        ProbeKind::MemLatency => vec![
            ("memory_load_ns", "load from memory", Nanoseconds, Lower, true, 92.0),
            ("cache_bytes", "last cache found", Size, Neither, false, 33_554_432.0),
        ],
        ProbeKind::MemBandwidth => {
            vec![("read_bytes_per_s", "reading memory", BytesPerSecond, Higher, true, 1.2e10)]
        }
        ProbeKind::Disk => vec![
            ("write_bytes_per_s", "writing, fsync each block", BytesPerSecond, Higher, true, 2.1e8),
            ("worst_stall_ns", "longest stall", Nanoseconds, Lower, true, 8.1e7),
        ],
        // TODO-OWNERS: an arm per probe, and the probe in SAMPLED.
        _ => vec![],
    }
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
    Comparison { ratio: estimate(ratio, half), pairs: 9, difference }
}

fn metrics(random: &mut Xoshiro256PlusPlus, cell: &Cell) -> Vec<MetricResult> {
    let disturbed = if cell.neighbour.is_some() { 1.9 } else { 1.0 };
    let mut build = |(id, title, unit, better, headline, base): Definition| {
        let slow = slowness(&cell.platform, cell.probe);
        let factor = match better {
            Better::Higher => 1.0 / (slow * disturbed),
            Better::Lower => slow * disturbed,
            Better::Neither => 1.0,
        };
        let half = 0.008 + 0.03 * random.random::<f64>();
        let value = base * factor;
        let undisturbed = if better == Better::Higher { 1.0 / disturbed } else { disturbed };
        let thin = id == "bound_99999_ns" && cell.platform == "vm";
        let answer = if thin {
            Answer::Unsupported("0.001 % of the time needs 10 gaps or more, there were 3".to_owned())
        } else {
            estimate(value, half)
        };
        let against = (cell.platform != "native").then(|| {
            comparison(factor / disturbed.powi(i32::from(better == Better::Lower)), half * 1.4, better)
        });
        MetricResult {
            id: id.to_owned(),
            title: title.to_owned(),
            unit,
            better,
            headline,
            samples: (0..9)
                .map(|round| (round, value * (1.0 + half * (random.random::<f64>() - 0.5))))
                .collect(),
            estimate: answer,
            against_baseline: against,
            against_undisturbed: cell.neighbour.map(|_| comparison(undisturbed, half * 1.5, better)),
            against_alone: cell.layout.map(|_| comparison(1.9, half * 1.5, better)),
        }
    };
    definitions(cell.probe).into_iter().map(&mut build).collect()
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
        },
    }
}

fn cell_result(random: &mut Xoshiro256PlusPlus, cell: Cell) -> CellResult {
    CellResult {
        done: 9,
        failed: 0,
        metrics: metrics(random, &cell),
        detail: Some(detail(random, &cell)),
        clock: Some(ClockFacts { name: "tsc".to_owned(), read_ns: 8.6, resolution_ns: 0.9 }),
        cost: Some(OwnCost {
            per_sample_ns: 9.1,
            cpu_time_ns: Nanos::from_nanos(1_012_000_000),
            memory_bytes: Bytes::from_bytes(131_072),
        }),
        doses: cell.neighbour.iter().map(|neighbour| dose(neighbour.kind, neighbour.place)).collect(),
        notes: if cell.probe == ProbeKind::MemLatency && cell.platform == "vm" {
            vec!["the largest array was capped at 128 MiB by the memory of the guest".to_owned()]
        } else {
            Vec::new()
        },
        cell,
    }
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
    let load = |kind, place| LoadEntry {
        kind,
        place,
        threads: None,
        probes: Some(vec![ProbeKind::Gap, ProbeKind::Cpu]),
    };
    Experiment {
        name: "default".to_owned(),
        baseline: Some("native".to_owned()),
        seed: Some(4_711_081_512),
        trace: false,
        repeat: Repeat::default(),
        platforms,
        probes: Probes {
            gap: Some(GapParams::default()),
            cpu: Some(CpuParams::default()),
            ..Probes::default()
        },
        layouts: vec![],
        loads: vec![load(LoadKind::Cpu, LoadPlace::Second), load(LoadKind::Memory, LoadPlace::Host)],
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
        steps: Vec::new(),
        step_count: 0,
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
    vec![FailedMeasurement {
        cell: Cell { probe: ProbeKind::Disk, neighbour: None, platform: "vm".to_owned(), layout: None },
        round: 3,
        failure: Failure {
            kind: FailureKind::Died,
            reason: "wanted a reply to job 41 within 30 s, but qemu ended with exit status 1 after 2.4 s"
                .to_owned(),
            console: vec![
                "[    2.101] EXT4-fs (vda): mounted filesystem".to_owned(),
                "[    2.377] Kernel panic - not syncing: Out of memory".to_owned(),
            ],
        },
    }]
}

/// The sample run.
pub fn rich() -> RunResults {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(42);
    let mut cells = Vec::new();
    let beside = |kind, place| Some(Neighbour { kind, place });
    for neighbour in
        [None, beside(LoadKind::Cpu, LoadPlace::Second), beside(LoadKind::Memory, LoadPlace::Host)]
    {
        for probe in &SAMPLED {
            if neighbour.is_some() && !matches!(probe, ProbeKind::Gap | ProbeKind::Cpu) {
                continue;
            }
            for platform in PLATFORMS {
                let layout = probe.is_made_together().then_some(Layout::PAIR);
                let cell = Cell { probe: *probe, neighbour, platform: platform.to_owned(), layout };
                cells.push(cell_result(&mut random, cell));
            }
        }
    }
    let mut gvisor = platform("gvisor", PlatformKind::Container, &[]);
    gvisor.unavailable = Some("the OCI runtime runsc was not found in PATH: install gVisor".to_owned());
    gvisor.facts = None;
    gvisor.start_ns = None;
    let why = "the trial guest under KVM did not answer within 10 s";
    RunResults {
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
        clocks: clocks(),
        verdicts: verdicts(),
        policies: vec![],
        cells,
        failures: failures(),
    }
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
