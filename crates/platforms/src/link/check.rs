//! What is believed of a message beyond its shape: a guest may send anything. Used on both ends: the host refuses
//! what breaks these rules, the agent turns it into a failed job before sending.

use super::{check_accounts, check_jobs, check_peers, check_share, check_timing, check_traps};
use model::detail::{Alignment, Detail, DiskDetail, DiskPhase, GapDetail, RateDetail, Stretch, WORST_KEPT};
use model::facts::MachineFacts;
use model::histogram::Histogram;
use model::job::{Dose, JobReply, ProbeReport};
use model::wire::ToHost;

/// Longest string that is shown as a name.
pub(super) const NAME_CHARS: usize = 256;
/// Longest string that explains something.
pub const TEXT_CHARS: usize = 4000;
/// Most remarks of a probe.
const MOST_NOTES: usize = 64;
/// Most loads of a job.
const MOST_DOSES: usize = 64;
/// Most parts of a dose.
const MOST_PARTS: usize = 16;
/// Most points of a series (thread counts, array sizes).
pub(super) const MOST_POINTS: usize = 4096;
/// Most values of one series: samples, repetitions, batches.
pub(super) const MOST_VALUES: usize = 1_000_000;
/// Most phases of the disk probe: 2 directions × 3 modes × 8 block sizes, and random reads.
const MOST_PHASES: usize = 49;
/// Most network cards a machine may claim.
const MOST_NICS: usize = 8;
/// Most CPUs a machine may claim.
pub(super) const MOST_CPUS: u32 = 65_536;

pub(super) type Checked = Result<(), String>;

/// Checks everything in a message that came from an agent. The error says which part breaks which rule.
///
/// # Errors
/// The first broken rule, in words.
pub fn check_message(message: &ToHost) -> Result<(), String> {
    match message {
        ToHost::Hello { version, facts, .. } => {
            text("hello.version", version, NAME_CHARS)?;
            check_facts(facts)
        }
        ToHost::Running { .. } | ToHost::Heartbeat { .. } | ToHost::AskClock { .. } => Ok(()),
        ToHost::Done { reply, .. } => check_reply(reply),
    }
}

/// Checks the reply to a job.
///
/// # Errors
/// The first broken rule, in words.
pub fn check_reply(reply: &JobReply) -> Result<(), String> {
    at_most("doses", reply.doses.len(), MOST_DOSES)?;
    reply.doses.iter().try_for_each(check_dose)?;
    match &reply.report {
        Some(Ok(report)) => check_report(report),
        Some(Err(reason)) => text("reason", reason, TEXT_CHARS),
        None => Ok(()),
    }
}

/// Checks what a probe brought home.
///
/// # Errors
/// The first broken rule, in words.
pub fn check_report(report: &ProbeReport) -> Result<(), String> {
    text("clock.name", &report.clock.name, NAME_CHARS)?;
    finite("clock.read_ns", report.clock.read_ns)?;
    finite("clock.resolution_ns", report.clock.resolution_ns)?;
    finite("cost.per_sample_ns", report.cost.per_sample_ns)?;
    at_most("notes", report.notes.len(), MOST_NOTES)?;
    report.notes.iter().try_for_each(|note| text("note", note, TEXT_CHARS))?;
    report.accounts.iter().try_for_each(check_accounts::accounts)?;
    check_detail(&report.detail)?;
    match report.detail.saw_nothing() {
        Some(why) => Err(format!("the {} probe saw nothing: {why}", report.detail.kind())),
        None => Ok(()),
    }
}

fn check_facts(facts: &MachineFacts) -> Checked {
    text("facts.architecture", &facts.architecture, NAME_CHARS)?;
    let texts = [
        ("facts.cpu_model", &facts.cpu_model),
        ("facts.system", &facts.system),
        ("facts.kernel", &facts.kernel),
        ("facts.clock_source", &facts.clock_source),
        ("facts.hypervisor", &facts.hypervisor),
    ];
    texts
        .into_iter()
        .try_for_each(|(name, value)| value.iter().try_for_each(|v| text(name, v, NAME_CHARS)))?;
    at_most("facts.nics", facts.nics.len(), MOST_NICS)?;
    facts.nics.iter().try_for_each(|nic| text("facts.nics", nic, NAME_CHARS))?;
    at_most("facts.cpus", facts.cpus as usize, MOST_CPUS as usize)
}

fn check_dose(dose: &Dose) -> Checked {
    rate("dose", dose.rate_per_s, &dose.unit)?;
    let interrupts = dose.interrupts_per_s.iter().chain(&dose.soft_interrupts_per_s);
    interrupts.into_iter().try_for_each(|count| rate("dose.interrupts", *count, &dose.unit))?;
    dose.way.iter().try_for_each(|way| text("dose.way", way, NAME_CHARS))?;
    at_most("dose.parts", dose.parts.len(), MOST_PARTS)?;
    dose.parts.iter().try_for_each(|part| rate("dose.parts", part.rate_per_s, &part.unit))?;
    at_most("dose.threads", dose.threads as usize, MOST_CPUS as usize)
}

fn rate(name: &str, rate_per_s: f64, unit: &str) -> Checked {
    text(&format!("{name}.unit"), unit, NAME_CHARS)?;
    finite(&format!("{name}.rate_per_s"), rate_per_s)?;
    if rate_per_s < 0.0 {
        return Err(format!("{name}.rate_per_s = {rate_per_s} is negative"));
    }
    Ok(())
}

fn check_detail(detail: &Detail) -> Checked {
    match detail {
        Detail::Gap(gap) => check_gap(gap),
        Detail::Fwq(fwq) => at_most("fwq.samples_ns", fwq.samples_ns.len(), MOST_VALUES),
        Detail::Cpu(cpu) => {
            at_most("cpu.points", cpu.points.len(), MOST_POINTS)?;
            cpu.points
                .iter()
                .try_for_each(|point| at_most("cpu.elapsed_ns", point.elapsed_ns.len(), MOST_VALUES))
        }
        Detail::Syscall(rate) | Detail::Fork(rate) => check_rate(rate),
        Detail::MemLatency(latency) => {
            at_most("mem-latency.points", latency.points.len(), MOST_POINTS)?;
            latency.points.iter().try_for_each(|point| finite("mem-latency.load_ns", point.load_ns))
        }
        Detail::MemBandwidth(bandwidth) => {
            at_most("mem-bandwidth.points", bandwidth.points.len(), MOST_POINTS)?;
            bandwidth.points.iter().try_for_each(|p| finite("mem-bandwidth.bytes_per_s", p.bytes_per_s))
        }
        Detail::Disk(disk) => check_disk(disk),
        Detail::Ftq(detail) => check_timing::ftq(detail),
        Detail::Wakeup(detail) => check_timing::wakeup(detail),
        Detail::Frames(detail) => check_timing::frames(detail),
        Detail::Exit(detail) => check_traps::exit(detail),
        Detail::Lock(detail) => check_traps::lock(detail),
        Detail::Pages(detail) => check_traps::pages(detail),
        Detail::Linpack(detail) => check_jobs::linpack(detail),
        Detail::Build(detail) => check_jobs::build(detail),
        Detail::Net(detail) => check_peers::net(detail),
        Detail::Mpi(detail) => check_peers::mpi(detail),
        Detail::Share(detail) => check_share::share(detail),
    }
}

fn check_gap(gap: &GapDetail) -> Checked {
    at_most("gap.batches", gap.batches.len(), 256)?;
    gap.batches.iter().try_for_each(|batch| histogram("gap.batches", batch))?;
    stretches("gap.worst", &gap.worst)?;
    if gap.counter_hz.get() == 0 {
        return Err("gap.counter_hz is 0: a counter that stands still measures nothing".to_owned());
    }
    Ok(())
}

fn check_rate(rate: &RateDetail) -> Checked {
    at_most("points", rate.points.len(), MOST_POINTS)?;
    histogram("latency_ns", &rate.latency_ns)?;
    rate.points.iter().try_for_each(|point| {
        at_most("operations", point.operations.len(), MOST_VALUES)?;
        if point.operations.len() == point.elapsed_ns.len() {
            Ok(())
        } else {
            Err(format!(
                "{} batches of operations have {} elapsed times",
                point.operations.len(),
                point.elapsed_ns.len()
            ))
        }
    })
}

fn check_disk(disk: &DiskDetail) -> Checked {
    text("disk.target", &disk.target, NAME_CHARS)?;
    at_most("disk.phases", disk.phases.len(), MOST_PHASES)?;
    disk.alignment.iter().try_for_each(check_alignment)?;
    disk.phases.iter().try_for_each(check_phase)
}

fn check_alignment(alignment: &Alignment) -> Checked {
    alignment.device.iter().try_for_each(|device| text("disk.alignment.device", device, NAME_CHARS))?;
    text("disk.alignment.why", &alignment.why, TEXT_CHARS)?;
    alignment.not_shifted.iter().try_for_each(|why| text("disk.alignment.not_shifted", why, TEXT_CHARS))
}

fn check_phase(phase: &DiskPhase) -> Checked {
    phase.unsupported.iter().try_for_each(|reason| text("disk.unsupported", reason, TEXT_CHARS))?;
    histogram("disk.latency_ns", &phase.latency_ns)?;
    stretches("disk.stalls", &phase.stalls)?;
    at_most("disk.witnessed", phase.witnessed.len(), WORST_KEPT)?;
    at_most("disk.windows", phase.windows.len(), 16)?;
    phase
        .windows
        .iter()
        .try_for_each(|windows| at_most("disk.windows.bytes", windows.bytes.len(), MOST_VALUES))
}

pub(super) fn histogram(name: &str, histogram: &Histogram) -> Checked {
    if histogram.is_well_formed() {
        Ok(())
    } else {
        Err(format!("{name} holds a histogram whose buckets contradict each other"))
    }
}

pub(super) fn stretches(name: &str, stretches: &[Stretch]) -> Checked {
    at_most(name, stretches.len(), WORST_KEPT)?;
    if stretches.windows(2).all(|pair| matches!(pair, [a, b] if a.length_ns >= b.length_ns)) {
        Ok(())
    } else {
        Err(format!("{name} is not ordered longest first"))
    }
}

pub(super) fn finite(name: &str, value: f64) -> Checked {
    if value.is_finite() { Ok(()) } else { Err(format!("{name} = {value} is not a finite number")) }
}

pub(super) fn at_most(name: &str, got: usize, most: usize) -> Checked {
    if got <= most { Ok(()) } else { Err(format!("{name}: {got} where {most} are allowed")) }
}

pub(super) fn text(name: &str, value: &str, most_chars: usize) -> Checked {
    at_most(name, value.chars().take(most_chars + 1).count(), most_chars)?;
    match value.chars().find(|c| c.is_control()) {
        Some(c) => Err(format!("{name} contains the control character {}", c.escape_unicode())),
        None => Ok(()),
    }
}

/// Makes a text fit for sending and printing: no control characters, at most [`TEXT_CHARS`] characters.
pub fn tame(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(TEXT_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::detail::{FwqDetail, LatencyPoint, MemLatencyDetail};
    use model::facts::{ClockFacts, OwnCost};
    use model::params::ChaseOrder;
    use model::units::{Bytes, Hertz, Nanos};

    fn report(detail: Detail) -> ProbeReport {
        ProbeReport {
            clock: ClockFacts { name: "tsc".to_owned(), read_ns: 9.0, resolution_ns: 1.0 },
            cost: OwnCost {
                per_sample_ns: 1.0,
                cpu_time_ns: Nanos::ZERO,
                memory_bytes: Bytes::from_bytes(0),
            },
            detail,
            notes: vec![],
            outside: None,
            accounts: None,
        }
    }

    fn gap(batches: Vec<Histogram>, worst: Vec<Stretch>) -> Detail {
        Detail::Gap(GapDetail {
            counter_hz: Hertz::from_hz(1_000_000_000),
            observed_ns: Nanos::from_nanos(1),
            cpu: None,
            batches,
            worst,
        })
    }

    fn stretch(length: u64) -> Stretch {
        Stretch { start_ns: Nanos::ZERO, length_ns: Nanos::from_nanos(length) }
    }

    #[test]
    fn an_honest_report_passes() {
        let good = gap(vec![Histogram::from_values(1..1000)], vec![stretch(9), stretch(9), stretch(3)]);
        assert_eq!(check_report(&report(good)), Ok(()));
    }

    #[test]
    fn forged_data_is_refused() {
        let forged: Histogram = serde_json::from_str("[[5,2,10],[5,1,5]]").expect("shape is right");
        let cases = [
            (gap(vec![forged], vec![]), "contradict"),
            (gap(vec![Histogram::default(); 257], vec![]), "257 where 256"),
            (gap(vec![], vec![stretch(1); 65]), "65 where 64"),
            (gap(vec![], vec![stretch(1), stretch(2)]), "longest first"),
            (
                Detail::Fwq(FwqDetail { iterations: 1, cpu: None, samples_ns: vec![Nanos::ZERO; 1_000_001] }),
                "1000001 where 1000000",
            ),
            (
                Detail::MemLatency(MemLatencyDetail {
                    stride_bytes: Bytes::from_bytes(64),
                    order: ChaseOrder::Random,
                    last_level_cache_bytes: None,
                    huge_pages: None,
                    points: vec![LatencyPoint { size_bytes: Bytes::from_bytes(1), load_ns: f64::NAN }],
                }),
                "not a finite",
            ),
        ];
        for (detail, wanted) in cases {
            let error = check_report(&report(detail)).unwrap_err();
            assert!(error.contains(wanted), "{error}");
        }
    }

    #[test]
    fn texts_are_bounded_and_harmless() {
        let reply = |reason: &str| JobReply { report: Some(Err(reason.to_owned())), doses: vec![] };
        assert!(check_reply(&reply(&"x".repeat(TEXT_CHARS + 1))).is_err());
        let error = check_reply(&reply("\u{1b}[31m")).unwrap_err();
        assert!(error.contains("control character"), "{error}");
        let tamed = tame(&"\u{1b}\n".repeat(TEXT_CHARS));
        assert_eq!(check_reply(&reply(&tamed)), Ok(()));
    }
}
