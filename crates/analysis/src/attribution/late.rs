//! Who made wake-ups late, and what operations of a disk waited for.
//!
//! ```text
//!  latency of all ──► quickest quarter: the usual one ──► much longer ones ──► pool: what lies beyond the usual
//!                                                                               │
//!   the longest ones, each between two readings of the scheduler's counters:    │
//!     (traced) had the CPU meanwhile ───────────────────► each by its name ◄────┤
//!     ready, but waiting for a CPU ─────────────────────► other threads      ◄──┤
//!     asleep in the kernel (disk) ──────────────────────► the device         ◄──┤
//!   stolen meanwhile, from the longest down ────────────► hypervisor         ◄──┤
//!   on its CPU all the same (disk) ─────────────────────► own work           ◄──┤
//!   due on a beat of the timer tick (wake-ups) ─────────► timer tick         ◄──┤
//!                                                                               ▼
//!                                                                         not attributed
//! ```
//! What the counters say holds for one stretch as far as no other between the same readings can have taken it
//! ([`Witnessed`]). Interrupts are counted, but not which wake-up they met: what they took stays with the rest, unless it was
//! the tick, which shows by its beat, or was traced. A timer that fires late because the CPU slept deeply is nobody's, too.

use model::attribution::Attribution;
use probes::detail::{DiskDetail, Stretch, WakeupDetail, Witnessed};
use stats::summary::histogram_quantile;
use units::Nanos;
use units::accounts::{Accounts, TracedSource};
use units::histogram::Histogram;

use super::here::Here;
use super::pool::Pool;
use super::{Books, LONGEST_INTERRUPT_NS, SHORTEST_SWITCH_NS, rhythm, steal, throttle, words};

/// The usual latency is that of the quickest quarter: what delays up to three quarters of all does not pass for usual.
const USUAL: f64 = 0.25;
/// A wake-up that takes so many usual ones came late.
const LATE: f64 = 3.0;
/// An operation that takes so many usual ones stalled: disks vary more than timers.
const STALLED: f64 = 10.0;

/// Part of a stretch that its counters speak for.
type Part = fn(&Witnessed) -> Nanos;

/// What the counters beside single stretches tell of all of them.
#[derive(Default)]
struct Told {
    took: f64,
    stretches: usize,
    longest: Nanos,
}

impl Told {
    fn take(&mut self, pool: &mut Pool, seen: &[Witnessed], part: Part) {
        for witnessed in seen {
            let nanos = part(witnessed);
            let took = pool.take_at(witnessed.stretch.length_ns.as_f64(), nanos.as_f64());
            if took >= SHORTEST_SWITCH_NS {
                self.stretches += 1;
                self.longest = self.longest.max(nanos);
            }
            self.took += took;
        }
    }

    fn evidence(&self, what: &str, did: &str) -> String {
        let plural = if self.stretches == 1 { "" } else { "s" };
        format!(
            "beside {} {what}{plural} the counters say that the thread {did}, {} at the longest (schedstat)",
            self.stretches, self.longest
        )
    }
}

/// The usual latency and the pool of what lies beyond it.
fn lost(latency: &Histogram, factor: f64) -> Pool {
    let usual = histogram_quantile(latency, USUAL).unwrap_or(0.0);
    Pool::beyond(latency, usual * factor, usual)
}

/// Who made wake-ups late.
pub(super) fn wakeups(detail: &WakeupDetail, accounts: &Accounts) -> Attribution {
    let latency = Histogram::merge_all(detail.threads.iter().map(|thread| &thread.service_ns));
    let mut books = Books::open(lost(&latency, LATE));
    traced(&mut books, &accounts.traced_late);
    for thread in &detail.threads {
        throttle(&mut books, &thread.worst, accounts);
    }
    let mut told = Told::default();
    for thread in &detail.threads {
        told.take(&mut books.pool, &thread.witnessed, Witnessed::waited_at_least);
    }
    let evidence = told.evidence("late wake-up", "was ready and waited for a CPU");
    books.book("other threads (scheduler)", told.took, evidence);
    let cpus: Vec<u32> = detail.threads.iter().filter_map(|thread| thread.cpu).collect();
    let longest_due = detail.threads.iter().map(|thread| thread.due).max().unwrap_or(0);
    let observed = Nanos::from_nanos(detail.period_ns.get().saturating_mul(longest_due));
    let here = Here::of(&cpus, observed, accounts);
    steal(&mut books, &here);
    for thread in &detail.threads {
        tick(&mut books, &thread.worst, detail.period_ns, &latency);
    }
    let unknown =
        if accounts.traced_late.is_empty() { unknown_of_wakeups(detail, &here) } else { Vec::new() };
    let told = books.close();
    Attribution { unknown: if told.lost_ns > Nanos::ZERO { unknown } else { Vec::new() }, ..told }
}

/// What the tracer saw while the latest wake-ups were awaited; together never more than was lost.
fn traced(books: &mut Books, sources: &[TracedSource]) {
    let all: f64 = sources.iter().map(|source| source.total_ns.as_f64()).sum();
    let fits = if all > 0.0 { (books.pool.left() / all).min(1.0) } else { 0.0 };
    for source in sources {
        let took = books.pool.take_longest(source.total_ns.as_f64() * fits, 0.0);
        let evidence = format!(
            "traced: while the latest wake-ups were awaited it had the CPU for {} in all, {} at the longest",
            source.total_ns, source.longest_ns
        );
        books.book(&source.name, took, evidence);
    }
}

fn unknown_of_wakeups(detail: &WakeupDetail, here: &Here) -> Vec<String> {
    let mut unknown = Vec::new();
    if detail.threads.iter().all(|thread| thread.witnessed.is_empty()) {
        unknown.push(NOT_WITNESSED.to_owned());
    }
    if let Some(others) = here.others.filter(|others| *others > 0) {
        let which = if here.names.is_empty() { String::new() } else { format!(" ({})", here.names) };
        unknown.push(format!(
            "interrupts: {others} besides the timer's came to {}{which}, and which wake-ups they met is not counted",
            here.place
        ));
    }
    unknown
}

/// Why there is nothing beside single stretches.
const NOT_WITNESSED: &str =
    "waiting for a CPU: the kernel has no /proc/thread-self/schedstat, or the agent did not read it";

/// Wake-ups that were late by no more than an interrupt takes, and were due whenever the timer ticked.
fn tick(books: &mut Books, worst: &[Stretch], period: Nanos, latency: &Histogram) {
    let usual = histogram_quantile(latency, USUAL).unwrap_or(0.0);
    let may_be = |stretch: &&Stretch| {
        let length = stretch.length_ns.as_f64();
        length > usual * LATE && length <= LONGEST_INTERRUPT_NS
    };
    let short: Vec<Stretch> = worst.iter().filter(may_be).copied().collect();
    let Some((hz, on)) = rhythm::beat_among(&short, period.as_f64()) else { return };
    let mut took = 0.0;
    for stretch in &on {
        let length = stretch.length_ns.as_f64();
        took += books.pool.take_at(length, length - usual);
    }
    let evidence = format!(
        "{} of {} such wake-ups were due on a beat of {} ({hz} Hz)",
        on.len(),
        short.len(),
        words(1e9 / f64::from(hz))
    );
    books.book("timer tick", took, evidence);
}

/// What operations of a disk waited for.
pub(super) fn operations(detail: &DiskDetail, accounts: &Accounts) -> Attribution {
    let (mut waited, mut slept, mut ran) = (Told::default(), Told::default(), Told::default());
    let (mut all, mut lost_ns) = (Pool::default(), 0.0);
    for phase in &detail.phases {
        let mut pool = lost(&phase.latency_ns, STALLED);
        lost_ns += pool.left();
        waited.take(&mut pool, &phase.witnessed, Witnessed::waited_at_least);
        slept.take(&mut pool, &phase.witnessed, Witnessed::slept_at_least);
        all = all.joined(pool);
    }
    let mut books = Books { lost: lost_ns, pool: all, taken: Vec::new() };
    let evidence = waited.evidence("stalled operation", "was ready and waited for a CPU");
    books.book("other threads (scheduler)", waited.took, evidence);
    let evidence = slept.evidence("stalled operation", "slept in the kernel") + &device_words(accounts);
    books.book("device or its file system", slept.took, evidence);
    steal(&mut books, &Here::of(&[], accounts.elapsed_ns, accounts));
    for phase in &detail.phases {
        ran.take(&mut books.pool, &phase.witnessed, Witnessed::ran_at_least);
    }
    let evidence = ran.evidence(
        "stalled operation",
        "was on its CPU: its own work, interrupts in it, and what a hypervisor took without telling",
    );
    books.book("on its CPU (own work)", ran.took, evidence);
    let told = books.close();
    let is_dumb = detail.phases.iter().all(|phase| phase.witnessed.is_empty());
    let unknown =
        if is_dumb && told.lost_ns > Nanos::ZERO { vec![NOT_WITNESSED.to_owned()] } else { Vec::new() };
    Attribution { unknown, ..told }
}

/// What the device itself and the accounting of delays say.
fn device_words(accounts: &Accounts) -> String {
    let device = accounts.devices.first().map(|device| {
        let share = (device.busy_ns.as_f64() / accounts.elapsed_ns.as_f64().max(1.0)).min(1.0);
        format!("; {} was busy for {:.0} % of the probe", device.name, share * 100.0)
    });
    let delay = accounts
        .probe_block_delay_ns
        .map(|delay| format!("; in all the thread waited {delay} for block devices (delay accounting)"));
    device.into_iter().chain(delay).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use probes::detail::{DiskDirection, DiskPhase, WakeupThread};
    use probes::params::DiskMode;
    use units::accounts::{CpuAccount, DeviceCount, RtThrottle};
    use units::{Bytes, Micros};

    fn ns(nanos: u64) -> Nanos {
        Nanos::from_nanos(nanos)
    }

    fn stretch(start: u64, length: u64) -> Stretch {
        Stretch { start_ns: ns(start), length_ns: ns(length) }
    }

    fn seen(start: u64, length: u64, others: u64, ran: u64, waited: u64) -> Witnessed {
        Witnessed {
            stretch: stretch(start, length),
            others_ns: ns(others),
            ran_ns: ns(ran),
            waited_ns: ns(waited),
        }
    }

    /// A thousand wake-ups of 10 µs at every millisecond, and these.
    fn late(worst: &[(u64, u64)], witnessed: Vec<Witnessed>) -> WakeupDetail {
        let lengths = std::iter::repeat_n(10_000, 1000).chain(worst.iter().map(|(_, length)| *length));
        let mut worst: Vec<Stretch> = worst.iter().map(|(start, length)| stretch(*start, *length)).collect();
        worst.sort_by_key(|stretch| std::cmp::Reverse(stretch.length_ns));
        let thread = WakeupThread {
            cpu: Some(1),
            began_ns: None,
            due: 1000 + worst.len() as u64,
            missed: 0,
            service_ns: Histogram::from_values(lengths),
            response_ns: Histogram::default(),
            worst,
            witnessed,
        };
        WakeupDetail { period_ns: ns(1_000_000), priority: None, threads: vec![thread] }
    }

    fn share(told: &Attribution, name: &str) -> f64 {
        told.sources.iter().find(|source| source.name == name).map_or(0.0, |source| source.share)
    }

    #[test]
    fn waiting_for_a_cpu_is_told_from_what_nobody_saw() {
        let detail = late(
            &[(5_000_000, 2_010_000), (9_000_000, 1_010_000)],
            vec![seen(5_000_000, 2_010_000, 20_000, 30_000, 1_900_000), seen(9_000_000, 1_010_000, 0, 0, 0)],
        );
        let told = wakeups(&detail, &Accounts::default());
        assert_eq!(told.lost_ns.get().abs_diff(3_000_000) / 10, 0, "{told:?}");
        assert!((share(&told, "other threads (scheduler)") - 1.88 / 3.0).abs() < 1e-3, "{told:?}");
        assert!(told.sources[0].evidence.contains("beside 1 late wake-up "), "{told:?}");
        assert!((told.unattributed_ns.as_f64() - 1_120_000.0).abs() < 1000.0, "{told:?}");
        assert_eq!(told.unknown, Vec::<String>::new());
    }

    #[test]
    fn stolen_and_throttled_wake_ups_are_named_and_the_rest_says_what_is_not_counted() {
        let pauses: Vec<(u64, u64)> = (0..3).map(|n| (n * 1_000_000_000 + 950_000_000, 50_000_000)).collect();
        let throttle = RtThrottle {
            runtime_us: Micros::from_micros(950_000),
            period_us: Micros::from_micros(1_000_000),
        };
        let accounts = Accounts { rt_throttle: Some(throttle), ..Accounts::default() };
        let told = wakeups(&late(&pauses, vec![]), &accounts);
        assert!(share(&told, "real-time throttling") > 0.99, "{told:?}");
        assert!(told.unknown[0].starts_with("waiting for a CPU:"), "{told:?}");

        let here = CpuAccount { cpu: 1, steal_ns: Some(ns(4_000_000)), ticks: Some(9), interrupts: Some(20) };
        let accounts = Accounts { per_cpu: vec![here], ..Accounts::default() };
        let told = wakeups(&late(&[(7_000_000, 8_010_000)], vec![]), &accounts);
        assert!((share(&told, "hypervisor (steal)") - 0.5).abs() < 1e-3, "{told:?}");
        assert!(told.unknown.iter().any(|why| why.starts_with("interrupts: 11 besides")), "{told:?}");
    }

    #[test]
    fn what_was_traced_within_late_wake_ups_replaces_guesses() {
        let source = |name: &str, total| TracedSource {
            name: name.to_owned(),
            count: 1,
            total_ns: ns(total),
            longest_ns: ns(total),
        };
        let accounts = Accounts {
            traced_late: vec![source("thread thief", 1_500_000), source("softirq RCU", 250_000)],
            ..Accounts::default()
        };
        let detail = late(&[(5_000_000, 2_010_000)], vec![seen(5_000_000, 2_010_000, 0, 0, 1_900_000)]);
        let told = wakeups(&detail, &accounts);
        assert!((share(&told, "thread thief") - 0.75).abs() < 1e-3, "{told:?}");
        assert!((share(&told, "softirq RCU") - 0.125).abs() < 1e-3, "{told:?}");
        assert!(
            (share(&told, "other threads (scheduler)") - 0.125).abs() < 1e-3,
            "only what is left: {told:?}"
        );
    }

    #[test]
    fn wake_ups_that_are_due_with_the_tick_are_its() {
        let with_the_tick: Vec<(u64, u64)> = (0..40).map(|n| (n * 4_000_000, 60_000 + n)).collect();
        let told = wakeups(&late(&with_the_tick, vec![]), &Accounts::default());
        assert!(share(&told, "timer tick") > 0.99, "{told:?}");
        let whenever: Vec<(u64, u64)> = (0..40).map(|n| (n * 3_000_000, 60_000 + n)).collect();
        let told = wakeups(&late(&whenever, vec![]), &Accounts::default());
        assert_eq!(told.sources, [], "{told:?}");
    }

    fn phase(lengths: &[u64], witnessed: Vec<Witnessed>) -> DiskPhase {
        DiskPhase {
            direction: DiskDirection::Write,
            mode: DiskMode::Direct,
            block_bytes: Bytes::from_bytes(4096),
            unsupported: None,
            bytes: Bytes::from_bytes(4096),
            elapsed_ns: lengths.iter().copied().map(ns).fold(Nanos::ZERO, Nanos::saturating_add),
            latency_ns: Histogram::from_values(lengths.iter().copied()),
            windows: vec![],
            stalls: witnessed.iter().map(|seen| seen.stretch).collect(),
            witnessed,
        }
    }

    fn disk(phases: Vec<DiskPhase>) -> DiskDetail {
        DiskDetail { target: String::new(), phases, alignment: None }
    }

    #[test]
    fn a_stall_is_the_devices_the_schedulers_or_work() {
        let usual = vec![10_000; 100];
        let with = |lengths: &[u64]| usual.iter().chain(lengths).copied().collect::<Vec<u64>>();
        let device = seen(1, 5_000_000, 100_000, 90_000, 10_000);
        let queue = seen(2, 3_000_000, 0, 0, 3_000_000);
        let work = seen(3, 2_000_000, 0, 2_000_000, 0);
        let phases = vec![
            phase(&with(&[5_000_000]), vec![device]),
            phase(&with(&[3_000_000, 2_000_000]), vec![queue, work]),
        ];
        let busy = DeviceCount { name: "vda".to_owned(), reads: 0, writes: 9, busy_ns: ns(5_000_000) };
        let accounts = Accounts { elapsed_ns: ns(10_000_000), devices: vec![busy], ..Accounts::default() };
        let told = operations(&disk(phases), &accounts);
        let lost = told.lost_ns.as_f64();
        assert!((lost - 9_970_000.0).abs() < 100.0, "{told:?}");
        assert!((share(&told, "device or its file system") - 4.9e6 / lost).abs() < 2e-3, "{told:?}");
        assert!((share(&told, "other threads (scheduler)") - 2.99e6 / lost).abs() < 2e-3, "{told:?}");
        assert!((share(&told, "on its CPU (own work)") - 1.99e6 / lost).abs() < 2e-3, "{told:?}");
        assert!(told.sources[0].evidence.contains("vda was busy for 50 % of the probe"), "{told:?}");
    }

    #[test]
    fn a_disk_of_which_nothing_is_counted_says_so() {
        let lengths: Vec<u64> = std::iter::repeat_n(10_000, 50).chain([4_000_000]).collect();
        let told = operations(&disk(vec![phase(&lengths, vec![])]), &Accounts::default());
        assert_eq!(told.unattributed_ns, told.lost_ns);
        assert_eq!(told.unknown, [NOT_WITNESSED]);
    }

    proptest! {
        #[test]
        fn shares_sum_to_one_whatever_a_guest_says(
            lengths in prop::collection::vec(prop_oneof![0u64..20_000, 0u64..1_000_000_000, any::<u64>()], 0..80),
            claims in prop::collection::vec((any::<usize>(), any::<u64>(), any::<u64>(), any::<u64>()), 0..64),
            steal in any::<u64>()) {
            let witnessed: Vec<Witnessed> = claims
                .into_iter()
                .filter_map(|(at, others, ran, waited)| {
                    let length = lengths.get(at % lengths.len().max(1))?;
                    Some(seen(at as u64, *length, others, ran, waited))
                })
                .collect();
            let accounts = Accounts { steal_ns: Some(ns(steal)), ..Accounts::default() };
            let worst: Vec<(u64, u64)> = lengths.iter().map(|length| (*length, *length)).collect();
            let both = [
                wakeups(&late(&worst, witnessed.clone()), &accounts),
                operations(&disk(vec![phase(&lengths, witnessed.clone()), phase(&lengths, witnessed)]), &accounts),
            ];
            for told in both {
                let given: u64 = told.sources.iter().map(|source| source.lost_ns.get()).sum();
                prop_assert_eq!(given + told.unattributed_ns.get(), told.lost_ns.get());
                prop_assert!(told.sources.iter().all(|source| source.share > 0.0 && source.share <= 1.0));
            }
        }
    }
}
