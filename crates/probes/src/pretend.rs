//! Made-up data that looks like a quiet machine with 2 CPUs at 2 GHz: every figure follows from the seeds and the
//! script, none from a clock. Times grow with the slowdown, throughput shrinks with it.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::OnceLock;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use units::facts::{ClockFacts, MachineFacts, OwnCost};
use units::metric::Metric;
use units::names::LoadKind;
use units::{Bytes, Hertz, Mebibytes, Nanos, Reason};

use crate::job::{Dose, DosePart, Job, LoadSpec, Part, ProbeReport};
use crate::params::ProbeSpec;
use crate::{ProbeKind, metrics_of};

/// CPUs of a fake machine.
pub const CPUS: u32 = 2;
/// Rate of its counter, ticks per nanosecond.
pub(crate) const TICKS_PER_NS: u64 = 2;
/// Last-level cache.
pub(crate) const CACHE: Bytes = Bytes::from_bytes(16 << 20);
/// Its memory.
const MEMORY: Bytes = Bytes::from_bytes(64 << 30);
/// Its disk.
const DISK: Bytes = Bytes::from_bytes(64 << 30);
/// A timer tick this often …
pub(crate) const TICK_NS: u64 = 4_000_000;
/// … takes this long.
pub(crate) const TICK_LENGTH_NS: f64 = 3_000.0;
/// Sizes that are made up one by one; a real probe has more.
pub(crate) const SAMPLES: u64 = 2000;
/// Round trips and iterations made up per point at most.
pub(crate) const MOST_TIMES: u64 = 2000;
/// One round of the quanta's work.
pub(crate) const ROUND_NS: f64 = 25.0;

/// What all made-up data of an instance follows from.
#[derive(Debug, Clone)]
pub struct Pretence {
    /// Seed of the run.
    pub seed: u64,
    /// Label of the platform.
    pub label: String,
    /// Times in percent of the fake native ones.
    pub slowdown_percent: u32,
    /// Spread of times in percent.
    pub noise_percent: u32,
    /// CPUs of the instance.
    pub cpus: u32,
}

/// A made-up report; refused is what a real machine of this size would refuse.
pub fn report(pretence: &Pretence, probe: &ProbeSpec, job: &Job) -> Result<ProbeReport, Reason> {
    refuse(pretence, probe, job)?;
    let mut hasher = DefaultHasher::new();
    // By its name: a probe that is added changes nothing of the others.
    (pretence.seed, &pretence.label, job.seed, probe.kind().as_str()).hash(&mut hasher);
    let mut maker = Maker {
        random: Xoshiro256PlusPlus::seed_from_u64(hasher.finish()),
        slowdown: f64::from(pretence.slowdown_percent) / 100.0,
        noise: f64::from(pretence.noise_percent) / 100.0,
        cpus: pretence.cpus,
        part: job.part.clone(),
        fresh: job.fresh,
    };
    Ok(ProbeReport {
        clock: ClockFacts { name: "fake".to_owned(), read_ns: 10.0, resolution_ns: 0.5 },
        cost: OwnCost {
            per_sample_ns: 10.0,
            cpu_time_ns: Nanos::from_nanos(1_000_000),
            memory_bytes: Bytes::from_bytes(1 << 20),
        },
        detail: probe.pretend(&mut maker),
        notes: vec!["made up: nothing was measured".to_owned()],
        outside: None,
        accounts: None,
    })
}

/// The metrics that a probe with its usual parameters has, with their units and good directions; their figures mean nothing.
pub fn catalogue(kind: ProbeKind) -> &'static [Metric] {
    static ALL: OnceLock<Vec<Vec<Metric>>> = OnceLock::new();
    let all = ALL.get_or_init(|| ProbeKind::ALL.iter().map(|kind| made_up(*kind)).collect());
    let place = ProbeKind::ALL.iter().position(|known| *known == kind);
    place.and_then(|place| all.get(place)).map_or(&[], Vec::as_slice)
}

fn made_up(kind: ProbeKind) -> Vec<Metric> {
    let label = String::new();
    let pretence = Pretence { seed: 0, label, slowdown_percent: 100, noise_percent: 0, cpus: CPUS };
    let part = kind.is_made_together().then(|| Part { rank: 0, ranks: 2, peers: Vec::new() });
    let made = report(&pretence, &ProbeSpec::default_of(kind), &Job { part, ..Job::default() });
    made.map_or_else(|_| Vec::new(), |report| metrics_of(&report.detail, &report.clock))
}

/// What a real machine of this size would refuse.
fn refuse(pretence: &Pretence, probe: &ProbeSpec, job: &Job) -> Result<(), Reason> {
    let facts =
        MachineFacts { cpus: pretence.cpus, last_level_cache_bytes: Some(CACHE), ..MachineFacts::default() };
    let (memory, disk) = (probe.memory(&facts), probe.disk());
    if memory > MEMORY {
        return Err(format!("{memory} do not fit into the fake memory of {MEMORY}").into());
    }
    if disk > DISK {
        return Err(format!("{disk} do not fit on the fake disk of {DISK}").into());
    }
    let is_alone = job.part.as_ref().is_some_and(|part| part.ranks < 2);
    if probe.is_made_together() && is_alone {
        return Err(format!("the {} probe needs two instances", probe.kind()).into());
    }
    Ok(())
}

/// A made-up dose; zero for a powerless load.
pub fn dose(load: &LoadSpec, cpus: u32, powerless: bool) -> Dose {
    let threads = load.threads.unwrap_or(cpus);
    let rate_per_s = if powerless { 0.0 } else { 1e6 * f64::from(threads) };
    let part =
        |(kind, unit): &(LoadKind, &str)| DosePart { kind: *kind, rate_per_s, unit: (*unit).to_owned() };
    Dose {
        kind: load.kind,
        threads,
        elapsed_ns: Nanos::from_nanos(1_000_000_000),
        rate_per_s,
        unit: load.kind.unit().to_owned(),
        cpu_time_ns: Nanos::from_nanos(u64::from(threads) * 1_000_000_000),
        way: None,
        interrupts_per_s: None,
        soft_interrupts_per_s: None,
        parts: load.kind.parts().iter().map(part).collect(),
    }
}

/// Makes up the data of one measurement.
pub struct Maker {
    pub(crate) random: Xoshiro256PlusPlus,
    pub(crate) slowdown: f64,
    pub(crate) noise: f64,
    pub(crate) cpus: u32,
    /// Its part among several instances, if it has one.
    pub(crate) part: Option<Part>,
    /// Whether the instance has just been started.
    pub(crate) fresh: bool,
}

impl Maker {
    /// A factor around 1 within the noise.
    pub(crate) fn wobble(&mut self) -> f64 {
        1.0 + self.noise * (self.random.random::<f64>() - 0.5)
    }

    /// A time of the fake machine that takes `native_ns` on the fake native one.
    pub(crate) fn nanos(&mut self, native_ns: f64) -> u64 {
        let time = native_ns * self.slowdown * self.wobble();
        units::metric::saturate(time).max(1)
    }
}

pub(crate) fn counter() -> Hertz {
    Hertz::from_hz(1_000_000_000 * TICKS_PER_NS)
}

/// The way between two instances.
#[derive(Clone, Copy)]
pub(crate) struct Way {
    /// Time of an empty message.
    pub latency_ns: f64,
    /// Time per byte beyond that.
    pub byte_ns: f64,
}

pub(crate) fn way(maker: &Maker) -> Way {
    let hosts = maker.part.as_ref().map_or(&[][..], |part| &part.peers[..]);
    let apart = matches!(hosts, [first, second, ..] if first.host != second.host);
    if apart { Way { latency_ns: 30_000.0, byte_ns: 0.8 } } else { Way { latency_ns: 9_000.0, byte_ns: 0.2 } }
}

/// Number of this instance, and how many there are; a pair when nothing is said.
pub(crate) fn place(maker: &Maker) -> (u32, u32) {
    maker.part.as_ref().map_or((0, 2), |part| (part.rank, part.ranks))
}

/// Array sizes from `least` to `most`, `steps` per doubling.
pub(crate) fn sizes(least: Bytes, most: Option<Mebibytes>, steps: u32) -> Vec<Bytes> {
    let most = most.map_or(2 * CACHE.get(), |most| most.to_bytes().get());
    let growth = 2f64.powf(1.0 / f64::from(steps.max(1)));
    std::iter::successors(Some(least.as_f64()), |size| Some(size * growth))
        .take_while(|size| *size <= most as f64 * 1.001)
        .take(1000)
        .map(|size| Bytes::from_bytes(units::metric::saturate(size)))
        .collect()
}

/// Time of a dependent load in an array of this size.
pub(crate) fn level_ns(size: Bytes) -> f64 {
    match size.get() {
        0..=0x8000 => 2.0,
        0x8001..=0x10_0000 => 6.0,
        0x10_0001..=0x100_0000 => 20.0,
        _ => 90.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ProbeKind;
    use crate::check::check_report;
    use crate::detail::Detail;
    use crate::job::{Job, Part, Peer};
    use crate::params::{ExitParams, FwqParams, LockParams, MpiParams, NetParams, PagesParams, ProbeSpec};
    use units::Millis;

    fn all_probes() -> Vec<ProbeSpec> {
        ProbeKind::ALL.iter().map(|kind| ProbeSpec::default_of(*kind)).collect()
    }

    fn job(seed: u64) -> Job {
        Job { seed, ..Job::default() }
    }

    fn pretence(slowdown_percent: u32) -> Pretence {
        Pretence { seed: 1, label: "fake".to_owned(), slowdown_percent, noise_percent: 5, cpus: 2 }
    }

    #[test]
    fn every_figure_of_every_probe_is_defined() {
        for probe in all_probes() {
            let report = report(&pretence(100), &probe, &job(7)).expect("small enough");
            let definitions = probe.kind().definitions();
            for metric in crate::metrics_of(&report.detail, &report.clock) {
                let defined = crate::probe::Definition::of(definitions, &metric.id);
                assert!(defined.is_some(), "{}: {} has no definition", probe.kind(), metric.id);
            }
        }
    }

    #[test]
    fn every_probe_gets_data_that_passes_the_links_checks_and_repeats() {
        for probe in all_probes() {
            let once = report(&pretence(100), &probe, &job(7)).expect("small enough");
            assert_eq!(check_report(&once), Ok(()), "{}", probe.kind());
            assert_eq!(once.detail.kind(), probe.kind());
            assert_eq!(Ok(&once), report(&pretence(100), &probe, &job(7)).as_ref(), "same seeds, same data");
            assert_ne!(Ok(&once), report(&pretence(100), &probe, &job(8)).as_ref(), "{}", probe.kind());
        }
    }

    #[test]
    fn slowdown_slows_down() {
        let total = |percent| {
            let probe = ProbeSpec::Fwq(FwqParams::default());
            match report(&pretence(percent), &probe, &job(7)).expect("made up").detail {
                Detail::Fwq(fwq) => fwq.samples_ns.iter().map(|sample| sample.as_f64()).sum::<f64>(),
                _ => 0.0,
            }
        };
        let ratio = total(200) / total(100);
        assert!((1.99..2.01).contains(&ratio), "{ratio}");
    }

    fn made(probe: &ProbeSpec, rank: u32, ranks: u32, hosts: u32) -> Detail {
        let address = "127.0.0.1:1".parse().unwrap();
        let peers = (0..ranks).map(|rank| Peer { host: rank % hosts, address }).collect();
        let pretence =
            Pretence { seed: 1, label: "f".to_owned(), slowdown_percent: 100, noise_percent: 5, cpus: 2 };
        let job = Job { part: Some(Part { rank, ranks, peers }), seed: 3, ..Job::default() };
        let report = report(&pretence, probe, &job).unwrap();
        assert_eq!(check_report(&report), Ok(()));
        report.detail
    }

    #[test]
    fn only_who_leads_tells_and_the_longer_way_takes_longer() {
        let sizes = vec![1, 65_507, 65_508, 1, 32 << 20];
        let net = ProbeSpec::Net(NetParams { message_bytes: sizes.clone(), ..NetParams::default() });
        let mpi = ProbeSpec::Mpi(MpiParams { message_bytes: sizes, ..MpiParams::default() });
        let points = |detail: Detail| match detail {
            Detail::Net(detail) => detail.points.len(),
            Detail::Mpi(detail) => detail.points.len(),
            _ => 99,
        };
        let alone = |probe: &ProbeSpec| {
            let pretence =
                Pretence { seed: 1, label: "f".to_owned(), slowdown_percent: 100, noise_percent: 5, cpus: 2 };
            report(&pretence, probe, &Job::default()).map(|report| points(report.detail))
        };
        assert_eq!((alone(&net), alone(&mpi)), (Ok(24), Ok(8)));
        assert_eq!([0, 1, 2].map(|rank| points(made(&net, rank, 3, 1))), [24, 0, 0]);
        assert_eq!([0, 1, 2].map(|rank| points(made(&mpi, rank, 3, 1))), [8, 0, 0]);
        let first_trip = |hosts| match made(&mpi, 0, 2, hosts) {
            Detail::Mpi(detail) => {
                detail.points[0].iteration_ns.sum() / u128::from(detail.points[0].iterations)
            }
            _ => 0,
        };
        assert!(first_trip(2) > 2 * first_trip(1));
    }

    fn made_up(probe: &ProbeSpec, seed: u64, fresh: bool) -> Result<Detail, Reason> {
        let pretence =
            Pretence { seed, label: "fake".to_owned(), slowdown_percent: 100, noise_percent: 5, cpus: 2 };
        let report = report(&pretence, probe, &Job { seed, fresh, ..Job::default() })?;
        check_report(&report)?;
        Ok(report.detail)
    }

    #[test]
    fn what_is_made_up_passes_the_links_checks_and_follows_the_seed() {
        let probes = [
            ProbeSpec::Exit(ExitParams::default()),
            ProbeSpec::Lock(LockParams { threads: Some(1024), ..LockParams::default() }),
            ProbeSpec::Lock(LockParams { threads: Some(1), held_iterations: 0, ..LockParams::default() }),
            ProbeSpec::Pages(PagesParams::default()),
            ProbeSpec::Pages(PagesParams { size_mib: Mebibytes::from_mib(1), warm_passes: 100 }),
            ProbeSpec::Exit(ExitParams { duration_ms: Millis::from_millis(3_600_000) }),
        ];
        for probe in probes {
            let once = made_up(&probe, 1, false).unwrap();
            assert_eq!(Ok(&once), made_up(&probe, 1, false).as_ref());
            assert_ne!(Ok(&once), made_up(&probe, 2, false).as_ref());
        }
        let huge = PagesParams { size_mib: Mebibytes::from_mib(1 << 20), warm_passes: 1 };
        assert!(made_up(&ProbeSpec::Pages(huge), 1, false).unwrap_err().to_string().contains("do not fit"));
    }

    #[test]
    fn only_a_fresh_instance_is_cold() {
        let first = |fresh| match made_up(&ProbeSpec::Pages(PagesParams::default()), 1, fresh).unwrap() {
            Detail::Pages(detail) => detail.passes[0].elapsed_ns.get() / detail.passes[1].elapsed_ns.get(),
            _ => 0,
        };
        assert_eq!((first(true), first(false).min(1)), (3, first(false)));
    }
}
