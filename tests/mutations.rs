//! Fuzzing that runs on stable Rust with every test run: a million mutated inputs into each parser of foreign bytes.
//!
//! The coverage-guided twins live in `fuzz/`. The seed is printed; `BULKHEAD_MUTATION_SEED` repeats a run,
//! `BULKHEAD_MUTATIONS` sets the number of inputs. Up to [`EVERYDAY`] of them, as `make test` takes, slow parsers get fewer,
//! the number that stands beside them; who asks for more, or for nothing, gets as many of each: a million.

use crate::foreign;
#[path = "foreign/seeds.rs"]
mod seeds;

use std::path::Path;

use bulkhead::campaign::journal::read_from;
use bulkhead::model::experiment::{Experiment, PlatformSpec};
use bulkhead::model::scenario::cases;
use bulkhead::model::wire::ToHost;
use bulkhead::platforms::fake::Fake;
use bulkhead::platforms::link::{Decoder, TO_HOST_LIMIT, check_message, decode, encode};
use bulkhead::platforms::vm::bzimage::{has_pvh_entry, vmlinux};
use bulkhead::platforms::vm::modules::ModInfo;
use bulkhead::platforms::{Cancel, InstanceSpec, Platform};
use bulkhead::probes::job::Job;
use bulkhead::probes::metrics_of;
use bulkhead::probes::params::{CpuParams, ForkParams, FwqParams, GapParams, Probes};
use bulkhead::sim::host::Pause;
use bulkhead::sim::nodes::NoiseTrace;
use bulkhead::sim::scenario::{Options, Study};
use bulkhead::units::names::PlatformKind;
use bulkhead::units::{Bytes, Millis};
use rand::{Rng, RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const DEFAULT_INPUTS: u64 = 1_000_000;
/// Up to so many inputs, a run is one of every day, which must not take long.
const EVERYDAY: u64 = 200_000;

fn from_environment(name: &str) -> Option<u64> {
    std::env::var(name).ok().and_then(|text| text.parse().ok())
}

/// How many inputs a parser gets: what was asked for; of an everyday run no more than `most`.
fn inputs(asked: Option<u64>, most: u64) -> u64 {
    match asked.unwrap_or(DEFAULT_INPUTS) {
        asked if asked <= EVERYDAY => asked.min(most),
        asked => asked,
    }
}

#[test]
fn every_parser_gets_a_million_inputs_unless_an_everyday_run_is_asked_for() {
    assert_eq!(inputs(None, 2_000), DEFAULT_INPUTS, "nobody asked for fewer");
    assert_eq!(inputs(Some(1_000_000), 2_000), 1_000_000);
    assert_eq!(inputs(Some(5_000_000), EVERYDAY), 5_000_000, "more are possible, too");
    assert_eq!([inputs(Some(EVERYDAY), 2_000), inputs(Some(EVERYDAY), EVERYDAY)], [2_000, EVERYDAY]);
    assert_eq!(inputs(Some(100), 2_000), 100, "seeds are written with few");
}

/// Feeds mutations of `seeds` to `target`, which panics when something is wrong.
fn mutate(name: &str, seeds: &[Vec<u8>], target: impl FnMut(&[u8])) {
    mutate_slow(name, EVERYDAY, seeds, target);
}

/// The same where a single input takes long: no more than so many in an everyday run.
fn mutate_slow(name: &str, most: u64, seeds: &[Vec<u8>], mut target: impl FnMut(&[u8])) {
    let seed = from_environment("BULKHEAD_MUTATION_SEED").unwrap_or(0x0B01_C4EA_D000);
    let inputs = inputs(from_environment("BULKHEAD_MUTATIONS"), most);
    println!("{name}: {inputs} inputs, BULKHEAD_MUTATION_SEED={seed}");
    // Fuzzers that begin with good inputs see more of what lies behind the first check.
    if let Some(folder) = std::env::var_os("BULKHEAD_WRITE_SEEDS") {
        let folder = Path::new(&folder).join(name);
        std::fs::create_dir_all(&folder).expect("a folder");
        for (number, seed) in seeds.iter().enumerate() {
            std::fs::write(folder.join(format!("seed-{number}")), seed).expect("written");
        }
    }
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    for _ in 0..inputs {
        let mut input = seeds[random.random_range(0..seeds.len())].clone();
        for _ in 0..random.random_range(0..5) {
            change(&mut input, &mut random, seeds);
        }
        target(&input);
    }
}

/// One small change: a bit, a byte, a cut, a repetition, a piece of another seed, a telling number.
fn change(input: &mut Vec<u8>, random: &mut impl Rng, seeds: &[Vec<u8>]) {
    let at = random.random_range(0..=input.len());
    match random.random_range(0..7) {
        0 if at < input.len() => input[at] ^= 1 << random.random_range(0..8),
        1 => input.insert(at, random.random()),
        2 => input.truncate(at),
        3 if at < input.len() => drop(input.drain(at..(at + random.random_range(1..20)).min(input.len()))),
        4 => {
            let piece: Vec<u8> = input[at..(at + 24).min(input.len())].to_vec();
            input.splice(at..at, piece);
        }
        5 => {
            let other = &seeds[random.random_range(0..seeds.len())];
            let from = random.random_range(0..=other.len());
            let piece = other[from..(from + 40).min(other.len())].to_vec();
            input.splice(at..at, piece);
        }
        _ => {
            let telling =
                ["0", "-1", "18446744073709551615", "1e999", "nan", "\"\"", "[", "{", "\u{202e}", "\0"];
            input.splice(at..at, telling[random.random_range(0..telling.len())].bytes());
        }
    }
}

fn shipped(folder: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let files = std::fs::read_dir(folder).expect("they are there");
    files.map(|file| std::fs::read(file.expect("readable").path()).expect("readable")).collect()
}

#[test]
fn experiments() {
    let mut accepted = 0u64;
    mutate("experiment_parser", &shipped("experiments"), |input| {
        let text = String::from_utf8_lossy(input);
        if let Ok(experiment) = Experiment::from_toml(&text) {
            accepted += 1;
            // Writing back is slow; one in a hundred is enough for a million inputs.
            if accepted.is_multiple_of(100) {
                let written = experiment.to_toml().expect("what was read can be written");
                assert_eq!(Experiment::from_toml(&written).expect("and read"), experiment);
            }
        }
    });
    assert!(
        accepted > 0,
        "the mutations never leave a valid experiment: the fuzzing sees only the error path"
    );
}

/// What an agent really sends, framed and bare.
fn messages() -> Vec<Vec<u8>> {
    let mut fake = Fake::new(&PlatformSpec::of_kind(PlatformKind::Fake), 1);
    let cancel = Cancel::new();
    let scratch = std::env::temp_dir();
    let spec = InstanceSpec {
        number: 0,
        memory_wanted: Bytes::default(),
        disk_wanted: Bytes::default(),
        scratch,
        ..InstanceSpec::default()
    };
    fake.survey(&cancel);
    let mut instance = fake.start(&spec, &cancel).expect("a fake starts");
    let mut seeds = Vec::new();
    for (id, probe) in small_probes().specs().into_iter().enumerate() {
        let id = id as u64;
        let job = Job {
            id,
            probe: Some(probe),
            loads: vec![],
            seed: 1,
            deadline_ms: Millis::from_millis(10_000),
            ..Job::default()
        };
        instance.begin(&job, &cancel).expect("it begins");
        let reply = Box::new(instance.finish(&cancel).expect("it replies"));
        let message = ToHost::Done { id, reply };
        seeds.push(encode(&message, TO_HOST_LIMIT).expect("it fits a frame"));
        seeds.push(serde_json::to_vec(&message).expect("JSON"));
    }
    seeds
}

/// Every probe, as small as it can be: a million inputs of some kilobytes each are enough work.
fn small_probes() -> Probes {
    Probes {
        gap: Some(GapParams { batches: 8, ..GapParams::default() }),
        fwq: Some(FwqParams { samples: 100, ..FwqParams::default() }),
        cpu: Some(CpuParams { samples: 1, ..CpuParams::default() }),
        fork: Some(ForkParams::default()),
        ..Probes::default()
    }
}

/// Understands what the host would, and computes the figures it would.
fn understand(payload: &[u8]) -> bool {
    let Ok(message) = decode::<ToHost>(payload) else { return false };
    if check_message(&message).is_err() {
        return false;
    }
    if let ToHost::Done { reply, .. } = message
        && let Some(Ok(report)) = reply.report
    {
        let metrics = metrics_of(&report.detail, &report.clock);
        assert!(metrics.iter().filter_map(|metric| metric.figure.value()).all(f64::is_finite));
    }
    true
}

#[test]
fn frames_and_messages_from_a_guest() {
    let mut understood = 0u64;
    mutate("link_decoder", &messages(), |input| {
        let mut decoder = Decoder::new(TO_HOST_LIMIT);
        decoder.push(input);
        while let Ok(Some(payload)) = decoder.next_frame() {
            understood += u64::from(understand(&payload));
        }
        // The checksum keeps mutations out of what lies behind it, so that is tried directly as well.
        understood += u64::from(understand(input));
    });
    assert!(understood > 0, "the mutations never leave a valid message: only the error path is seen");
}

#[test]
fn kernels_and_modules() {
    let zeros = vec![0u8; 1024];
    let mut header = vec![0u8; 4096];
    header[0x1f1] = 2;
    header[0x202..0x206].copy_from_slice(b"HdrS");
    header[0x206] = 0x0f;
    header[0x207] = 0x02;
    header[0x24c] = 64;
    for magic in
        [&b"\x1f\x8b\x08"[..], b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd", b"\x02\x21\x4c\x18", b"BZh", b"\x5d\0\0"]
    {
        header.extend_from_slice(magic);
    }
    let program = std::fs::read("/proc/self/exe").expect("an ELF file")[..8192].to_vec();
    mutate("bzimage", &[zeros, header, program], |input| {
        if let Ok(kernel) = vmlinux(input) {
            has_pvh_entry(&kernel);
        }
        has_pvh_entry(input);
        let _ = ModInfo::parse(input);
    });
}

#[test]
fn traces_of_noise() {
    let seeds = [
        "length_ns\t60000000000\n1000\t500\n2000\t700\n5000000\t1\n",
        "# recorded\n\n10\t5\r\n15\t5\r\n1000000\t30\r\n1152921504606846976\t1\n",
        "0\t1\n2\t1\n4\t1\n6\t18446744073709551615\n",
    ];
    let mut accepted = 0u64;
    mutate("noise_trace", &seeds.map(|seed| seed.as_bytes().to_vec()), |input| {
        if let Ok(trace) = NoiseTrace::parse(&String::from_utf8_lossy(input)) {
            accepted += 1;
            assert!(trace.interruptions().windows(2).all(|pair| pair[0].end() < pair[1].start));
            assert!(trace.lost() < trace.length(), "there is free time");
        }
    });
    assert!(accepted > 0, "the mutations never leave a trace: only the error path is seen");
}

#[test]
fn scenarios() {
    // Shipped ones are long; small ones let the mutations hit every key.
    let small = [
        "name = \"a\"\nseed = 3\nhost = { cpus = 2, policy = { name = \"credit\", slice_us = 1000, boost = true, \
         ratelimit_us = 100 } }\n[[vm]]\nname = \"A\"\ncount = 2\nvcpus = 2\nlimit_cpus = 1.5\nlocks = { count = 1 }\n\
         thread = [{ run = { program = \"fwq\", work_us = 700, samples = 5, jitter_us = 50 } }]\n",
        "name = \"b\"\nhost = { cpus = 1, policy = { name = \"eevdf\", slice_us = 3000, period_us = 100000 } }\n\
         [[vm]]\nname = \"A\"\nvcpus = 1\nthread = [{ run = { program = \"endless\" }, priority = 2 }]\n\
         [sweep]\n\"vm.A.weight\" = [1.0, 2.0]\n\"host.cpus\" = { from = 1, to = 3 }\n",
    ];
    let mut seeds = shipped("scenarios");
    seeds.extend((0..3 * seeds.len()).map(|number| small[number % 2].as_bytes().to_vec()));
    let (mut accepted, mut begun) = (0u64, 0u64);
    mutate("scenario_parser", &seeds, |input| {
        let Ok(cases) = cases(&String::from_utf8_lossy(input), &[]) else { return };
        accepted += 1;
        if !accepted.is_multiple_of(100) {
            return;
        }
        for case in &cases {
            case.scenario.check().expect("what was read can be simulated");
        }
        // To build and to begin is slow: of one in a hundred, one case.
        let Ok(study) = Study::new(cases, Options::default()) else { return };
        if let Some(mut watch) = study.watch(0) {
            begun += 1;
            watch.go_on(Pause { events: 200, ..Pause::NEVER });
        }
    });
    println!("scenarios: {accepted} accepted, {begun} begun");
    assert!(begun > 0, "the mutations never leave a scenario that can be begun: only the error path is seen");
}

/// Mutations of `seeds` for one of the functions that the fuzzers' targets are, too; some must be understood.
fn strangers(name: &str, most: u64, seeds: &[Vec<u8>], target: fn(&[u8]) -> bool) {
    let mut understood = 0u64;
    mutate_slow(name, most, seeds, |input| understood += u64::from(target(input)));
    assert!(understood > 0, "{name}: the mutations leave nothing to understand: only the error path is seen");
}

macro_rules! strangers {
    ($($name:ident: $most:expr,)+) => {
        $(#[test]
        fn $name() {
            strangers(stringify!($name), $most, &seeds::$name(), foreign::$name);
        })+
    };
}

// What needs a socket or a thread for each input, or shows a whole page of it, is slower.
strangers! {
    certificate: EVERYDAY,
    channel_answer: EVERYDAY,
    classes: EVERYDAY,
    clock: EVERYDAY,
    console: 20_000,
    daemon_command: EVERYDAY,
    env_file: EVERYDAY,
    file_requests: 50_000,
    guest_config: EVERYDAY,
    hello: EVERYDAY,
    host_file: EVERYDAY,
    image_documents: EVERYDAY,
    image_layer: 10_000,
    ledger: EVERYDAY,
    mountinfo: EVERYDAY,
    net_control: EVERYDAY,
    numa_maps: EVERYDAY,
    partition: EVERYDAY,
    plan_file: 20_000,
    plug_events: EVERYDAY,
    qmp: 100_000,
    requirements: 20_000,
    results: 2_000,
    session_packets: EVERYDAY,
    set_file: EVERYDAY,
    set_state: EVERYDAY,
    ssh: EVERYDAY,
    system_file: 20_000,
    sweep_mounts: EVERYDAY,
    switch: EVERYDAY,
    verify_journal: 5_000,
    wall_mounts: EVERYDAY,
}

#[test]
fn journal() {
    let mut read = 0u64;
    mutate_slow("journal", 50_000, &seeds::journal(), |input| {
        read += u64::from(read_from(Path::new("fuzz"), input).is_ok());
    });
    assert!(read > 0, "the mutations never leave a journal: only the error path is seen");
}

/// A frame to everybody from the plug that is held to an address, with this behind the addresses.
fn held(parts: &[&[u8]]) -> Vec<u8> {
    [&[0xff; 6][..], &foreign::frames::HARDWARE, &parts.concat(), &[0; 40]].concat()
}

#[test]
fn the_oracle_of_frames_tells_whose_they_are() {
    let is_own = |frame: &[u8]| std::panic::catch_unwind(|| foreign::frames::assert_own(frame)).is_ok();
    let ipv4 = |last: u8| [0x08, 0, 0x45, 0, 0, 20, 0, 0, 0, 0, 64, 17, 0, 0, 0, 0, 0, last];
    let arp =
        |hardware: u8, last: u8| [0x08, 6, 0, 1, 8, 0, 6, 4, 0, 2, 2, 0, 0, 0, 0, hardware, 0, 0, 0, last];
    let ipv6 = |last: u8| {
        let head = [0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, 17, 255, 0xfe, 0x80, 0, 0, 0, 0, 0, 0];
        [&head[..], &[0, 0, 0, 0xff, 0xfe, 0, 0, last]].concat()
    };
    let tags = [0x88, 0xa8, 0, 1, 0x81, 0, 0, 2];
    for own in [&ipv4(1)[..], &ipv4(0), &arp(1, 1), &arp(1, 0), &ipv6(1), &[0x88, 0xf7]] {
        assert!(is_own(&held(&[own])) && is_own(&held(&[&tags, own])), "{own:02x?}");
    }
    for other in [&ipv4(2)[..], &arp(2, 1), &arp(1, 2), &ipv6(2), &[0, 60]] {
        assert!(!is_own(&held(&[other])) && !is_own(&held(&[&tags, other])), "{other:02x?}");
    }
    let mut frame = held(&[&ipv4(1)]);
    frame[11] = 2;
    assert!(!is_own(&frame), "another hardware address");
    let mut frame = held(&[&ipv4(0)]);
    frame[0] = 2;
    assert!(!is_own(&frame), "nobody's address, to a single station");
}
