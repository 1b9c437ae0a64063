//! What is believed of a message beyond its shape: a guest may send anything. Used on both ends: the host refuses
//! what breaks these rules, the agent turns it into a failed job before sending.

mod accounts;

use units::histogram::Histogram;
use units::{Hertz, Nanos, Reason};

use self::accounts::accounts;
use crate::detail::{Stretch, WORST_KEPT};
use crate::job::{Dose, JobReply, ProbeReport};

/// Longest string that is shown as a name.
pub const NAME_CHARS: usize = 256;
/// Longest string that explains something.
pub const TEXT_CHARS: usize = 4000;
/// Most remarks of a probe.
const MOST_NOTES: usize = 64;
/// Most loads of a job.
const MOST_DOSES: usize = 64;
/// Most parts of a dose.
const MOST_PARTS: usize = 16;
/// Most points of a series (thread counts, array sizes).
pub(crate) const MOST_POINTS: usize = 4096;
/// Most values of one series: samples, repetitions, batches.
pub(crate) const MOST_VALUES: usize = 1_000_000;
/// Most CPUs a machine may claim.
pub const MOST_CPUS: u32 = 65_536;
/// Largest message of the probes that pass some.
pub(crate) const LARGEST_MESSAGE: u32 = 32 << 20;

/// Nothing, or the first broken rule in words.
pub type Checked = Result<(), Reason>;

/// Checks the reply to a job.
///
/// # Errors
/// The first broken rule, in words.
pub fn check_reply(reply: &JobReply) -> Checked {
    at_most("doses", reply.doses.len(), MOST_DOSES)?;
    reply.doses.iter().try_for_each(check_dose)?;
    match &reply.report {
        Some(Ok(report)) => check_report(report),
        Some(Err(reason)) => text("reason", &reason.to_string(), TEXT_CHARS),
        None => Ok(()),
    }
}

/// Checks what a probe brought home.
///
/// # Errors
/// The first broken rule, in words.
pub fn check_report(report: &ProbeReport) -> Checked {
    text("clock.name", &report.clock.name, NAME_CHARS)?;
    finite("clock.read_ns", report.clock.read_ns)?;
    finite("clock.resolution_ns", report.clock.resolution_ns)?;
    finite("cost.per_sample_ns", report.cost.per_sample_ns)?;
    at_most("notes", report.notes.len(), MOST_NOTES)?;
    report.notes.iter().try_for_each(|note| text("note", note, TEXT_CHARS))?;
    report.accounts.iter().try_for_each(accounts)?;
    report.detail.check()?;
    match report.detail.saw_nothing() {
        Some(why) => Err(format!("the {} probe saw nothing: {why}", report.detail.kind()).into()),
        None => Ok(()),
    }
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
        return Err(format!("{name}.rate_per_s = {rate_per_s} is negative").into());
    }
    Ok(())
}

/// Makes a text fit for sending and printing: no control characters, at most [`TEXT_CHARS`] characters.
pub fn tame(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).take(TEXT_CHARS).collect()
}

/// There are not more than allowed.
///
/// # Errors
/// There are.
pub fn at_most(name: &str, got: usize, most: usize) -> Checked {
    if got <= most { Ok(()) } else { Err(format!("{name}: {got} where {most} are allowed").into()) }
}

/// A text is not too long and harmless to show.
///
/// # Errors
/// It is longer, or holds a control character.
pub fn text(name: &str, value: &str, most_chars: usize) -> Checked {
    at_most(name, value.chars().take(most_chars + 1).count(), most_chars)?;
    match value.chars().find(|c| c.is_control()) {
        Some(c) => Err(format!("{name} contains the control character {}", c.escape_unicode()).into()),
        None => Ok(()),
    }
}

pub(crate) fn require(holds: bool, rule: &str) -> Checked {
    if holds { Ok(()) } else { Err(rule.to_owned().into()) }
}

pub(crate) fn finite(name: &str, value: f64) -> Checked {
    if value.is_finite() { Ok(()) } else { Err(format!("{name} = {value} is not a finite number").into()) }
}

pub(crate) fn moving(name: &str, rate: Hertz) -> Checked {
    if rate.get() > 0 {
        Ok(())
    } else {
        Err(format!("{name} is 0: a counter that stands still measures nothing").into())
    }
}

pub(crate) fn some_time(name: &str, time: Nanos) -> Checked {
    if time.get() > 0 { Ok(()) } else { Err(format!("{name} is 0").into()) }
}

pub(crate) fn message(name: &str, bytes: u32) -> Checked {
    require((1..=LARGEST_MESSAGE).contains(&bytes), &format!("{name} = {bytes} is no size of a message"))
}

pub(crate) fn distinct<T: PartialEq>(name: &str, sorted: &[T]) -> Checked {
    let twice = sorted.windows(2).any(|pair| matches!(pair, [a, b] if a == b));
    require(!twice, &format!("{name} holds the same point twice"))
}

pub(crate) fn histogram(name: &str, histogram: &Histogram) -> Checked {
    if histogram.is_well_formed() {
        Ok(())
    } else {
        Err(format!("{name} holds a histogram whose buckets contradict each other").into())
    }
}

pub(crate) fn stretches(name: &str, stretches: &[Stretch]) -> Checked {
    at_most(name, stretches.len(), WORST_KEPT)?;
    if stretches.windows(2).all(|pair| matches!(pair, [a, b] if a.length_ns >= b.length_ns)) {
        Ok(())
    } else {
        Err(format!("{name} is not ordered longest first").into())
    }
}

/// A reason, where it holds.
pub(crate) fn because(holds: bool, reason: &str) -> Option<String> {
    holds.then(|| reason.to_owned())
}

/// Whether no time was taken at all.
pub(crate) fn no_time(times: &[Nanos]) -> bool {
    times.iter().all(|time| time.get() == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detail::{
        CpuDetail, CpuPoint, Detail, DiskDetail, FtqDetail, FwqDetail, GapDetail, LatencyPoint,
        MemLatencyDetail, NetDetail, RateDetail, RatePoint, WakeupDetail,
    };
    use crate::params::ChaseOrder;
    use units::facts::{ClockFacts, OwnCost};
    use units::{Bytes, Hertz, Nanos};

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
            assert!(error.to_string().contains(wanted), "{error}");
        }
    }

    #[test]
    fn texts_are_bounded_and_harmless() {
        let reply = |reason: &str| JobReply { report: Some(Err(reason.to_owned().into())), doses: vec![] };
        assert!(check_reply(&reply(&"x".repeat(TEXT_CHARS + 1))).is_err());
        let error = check_reply(&reply("\u{1b}[31m")).unwrap_err();
        assert!(error.to_string().contains("control character"), "{error}");
        let tamed = tame(&"\u{1b}\n".repeat(TEXT_CHARS));
        assert_eq!(check_reply(&reply(&tamed)), Ok(()));
    }

    fn rate(operations: &[u64]) -> RateDetail {
        let point = |threads, operations: &[u64]| RatePoint {
            threads,
            operations: operations.to_vec(),
            elapsed_ns: vec![Nanos::from_nanos(1); operations.len()],
        };
        RateDetail {
            points: vec![point(1, &[3; 8]), point(2, operations)],
            latency_ns: Histogram::from_values([5; 24]),
        }
    }

    #[test]
    fn zero_operations_in_8_of_8_windows_are_no_rate() {
        let why = Detail::Fork(rate(&[0; 8])).saw_nothing().unwrap();
        assert!(why.starts_with("no process ended in 8 of 8 windows with 2 threads"), "{why}");
        assert_eq!(Detail::Fork(rate(&[0, 0, 0, 0, 0, 0, 0, 1])).saw_nothing(), None);
        assert!(Detail::Syscall(rate(&[])).saw_nothing().is_some());
        assert!(Detail::Syscall(RateDetail { points: vec![], ..rate(&[1]) }).saw_nothing().is_some());
    }

    #[test]
    fn every_kind_without_a_sample_says_so() {
        let gap = GapDetail {
            counter_hz: Hertz::from_hz(1),
            observed_ns: Nanos::from_nanos(1),
            cpu: None,
            batches: vec![Histogram::default(); 4],
            worst: vec![],
        };
        let cpu = CpuDetail {
            iterations: 1,
            cpus: 1,
            points: vec![CpuPoint { threads: 1, elapsed_ns: vec![Nanos::ZERO] }],
        };
        let empty = [
            Detail::Gap(gap),
            Detail::Fwq(FwqDetail { iterations: 1, cpu: None, samples_ns: vec![] }),
            Detail::Ftq(FtqDetail { quantum_ns: Nanos::from_nanos(1), cpu: None, work: vec![0; 9] }),
            Detail::Wakeup(WakeupDetail { period_ns: Nanos::from_nanos(1), priority: None, threads: vec![] }),
            Detail::Cpu(cpu),
            Detail::Disk(DiskDetail { target: String::new(), phases: vec![], alignment: None }),
        ];
        for detail in empty {
            assert!(detail.saw_nothing().is_some(), "{detail:?}");
        }
        assert_eq!(Detail::Net(NetDetail::default()).saw_nothing(), None, "the one who answers has no times");
    }
}
