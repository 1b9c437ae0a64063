//! Ground truth for the gap probe: interruptions of known length on its own CPU, each stamped by whoever interrupts.
//!
//! ```text
//!  gap loop   ……│◄──────────────── detected gap ────────────────►│……
//!  timer        irq, frame │ start ═══ known spin ═══ end │ re-arm, return
//!               └───────────────── delivery cost ─────────────────┘ (measured by another loop)
//! ```
//!
//! A timer aimed at the probe's thread raises a signal; the handler stamps the counter, spins, stamps again and arms
//! the timer anew. The delivery cost is measured by a loop of its own with the same handler and lengths before, between and after
//! the many parts of the probe's run, and each part is compared with what was measured around it: what else happens on this
//! machine meets both alike, or one part of many. All parts count, and there is one attempt. Where the scheduler gave the CPU
//! to another thread next to an interruption (the handler reads the count of involuntary switches), what the gap is
//! longer than its stamps is that thread's time: such interruptions count for recall, not for the excess.
//!
//! The test wants what holds whatever else the machine does: every interruption that began after the loop's first read is found,
//! and none shorter than it was. How much longer gaps are is a figure (`cargo bench --bench figures -- ground-truth`): the whole
//! interval decides it, parts that cannot be compared are counted, and two of them decide nothing.

#![expect(unsafe_code, reason = "timers that signal one thread, and signal handlers, have no safe interface")]

use crate::verdict;

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use bulkhead::probes::bounds::Bounds;
use bulkhead::probes::clock::{Anchor, ticks};
use bulkhead::probes::gap::observe::{GapSink, observe};
use bulkhead::probes::gap::pace::{Pace, Turn};
use bulkhead::probes::gap::record::{Record, short_tables};
use bulkhead::probes::pin::pin_to_last_cpu;
use bulkhead::units::Millis;
use bulkhead::units::histogram::Histogram;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use verdict::{Judge, Mark, Verdict, interval_without};

/// Interruptions in all; log-uniform lengths from 2 µs to 10 ms add up to some 12 s.
const INTERRUPTIONS: usize = 10_000;
/// In this many parts, each with its own measurement of the delivery cost.
const PARTS: usize = 20;
const PART: usize = INTERRUPTIONS / PARTS;
const SHORTEST_NS: f64 = 2e3;
const LONGEST_NS: f64 = 1e7;
/// From the end of one interruption to the next, at least.
const PAUSE_NS: u64 = 100_000;
/// Interruptions per measurement of the delivery cost.
const DELIVERIES: usize = 300;
/// With fewer lengths on a side a part has no 95th percentile to speak of.
const FEWEST: usize = 20;
/// Gives up long after all should be over.
const DEADLINE_S: u64 = 600;

static LENGTHS: [AtomicU64; PART] = [const { AtomicU64::new(0) }; PART];
static STARTS: [AtomicU64; PART] = [const { AtomicU64::new(0) }; PART];
static ENDS: [AtomicU64; PART] = [const { AtomicU64::new(0) }; PART];
/// Involuntary context switches when the handler began and when it was done.
static SWITCHES: [[AtomicU64; 2]; PART] = [const { [const { AtomicU64::new(0) }; 2] }; PART];
/// How long the timer waits before each interruption.
static PAUSES_NS: [AtomicU64; PART] = [const { AtomicU64::new(0) }; PART];
/// How many are wanted.
static WANTED: AtomicUsize = AtomicUsize::new(0);
static HAPPENED: AtomicUsize = AtomicUsize::new(0);
static TIMER: AtomicUsize = AtomicUsize::new(0);

/// One interruption: stamps before and after the spin.
#[derive(Debug, Clone, Copy)]
struct Stamps {
    start: u64,
    end: u64,
    /// Whether no other thread was given the CPU between the interruption before and the one after.
    alone: bool,
}

/// A gap as the probe saw it.
#[derive(Debug, Clone, Copy)]
struct Gap {
    start: u64,
    length: u64,
}

fn involuntary_switches() -> u64 {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: getrusage fills the structure it is given; a plain system call, so it may be made in a handler.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) };
    // SAFETY: it was zeroed, which is a valid value, and filled.
    unsafe { usage.assume_init() }.ru_nivcsw.cast_unsigned()
}

extern "C" fn interrupt(_signal: libc::c_int) {
    let before = involuntary_switches();
    let start = ticks();
    let number = HAPPENED.load(Ordering::Relaxed);
    let Some(length) = LENGTHS.get(number) else { return };
    let length = length.load(Ordering::Relaxed);
    let mut end = ticks();
    while end - start < length {
        end = ticks();
    }
    STARTS[number].store(start, Ordering::Relaxed);
    ENDS[number].store(end, Ordering::Relaxed);
    SWITCHES[number][0].store(before, Ordering::Relaxed);
    SWITCHES[number][1].store(involuntary_switches(), Ordering::Relaxed);
    HAPPENED.store(number + 1, Ordering::Release);
    if number + 1 < WANTED.load(Ordering::Relaxed) {
        arm(number + 1);
    }
}

fn arm(number: usize) {
    let pause = PAUSES_NS[number].load(Ordering::Relaxed);
    let zero = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    let once = libc::itimerspec {
        it_interval: zero,
        it_value: libc::timespec { tv_sec: 0, tv_nsec: pause.cast_signed() },
    };
    let timer = TIMER.load(Ordering::Relaxed) as libc::timer_t;
    // SAFETY: timer_settime is async-signal-safe; the timer was made by `aim_at_this_thread`.
    unsafe { libc::timer_settime(timer, 0, &raw const once, std::ptr::null_mut()) };
}

/// Makes the timer that signals the calling thread.
fn aim_at_this_thread() {
    // SAFETY: an all-zero sigaction is a valid one with an empty mask.
    let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
    action.sa_sigaction = interrupt as *const () as usize;
    // SAFETY: `interrupt` only makes async-signal-safe calls and touches only atomics.
    assert_eq!(unsafe { libc::sigaction(libc::SIGUSR1, &raw const action, std::ptr::null_mut()) }, 0);
    // SAFETY: an all-zero sigevent is a valid one.
    let mut event: libc::sigevent = unsafe { MaybeUninit::zeroed().assume_init() };
    event.sigev_notify = libc::SIGEV_THREAD_ID;
    event.sigev_signo = libc::SIGUSR1;
    // SAFETY: gettid has no preconditions.
    event.sigev_notify_thread_id = unsafe { libc::gettid() };
    let mut timer: libc::timer_t = std::ptr::null_mut();
    // SAFETY: both pointers are valid for the call.
    let made = unsafe { libc::timer_create(libc::CLOCK_MONOTONIC, &raw mut event, &raw mut timer) };
    assert_eq!(made, 0, "{}", std::io::Error::last_os_error());
    TIMER.store(timer as usize, Ordering::Relaxed);
}

fn all_happened() -> bool {
    HAPPENED.load(Ordering::Acquire) == WANTED.load(Ordering::Relaxed)
}

/// Arms the timer for as many interruptions as there are `(pause, spin)`, in nanoseconds and ticks.
fn begin_part(interruptions: impl Iterator<Item = (u64, u64)>) {
    let mut count = 0;
    for ((pause, spin), (pause_ns, length)) in PAUSES_NS.iter().zip(&LENGTHS).zip(interruptions) {
        pause.store(pause_ns, Ordering::Relaxed);
        spin.store(length, Ordering::Relaxed);
        count += 1;
    }
    WANTED.store(count, Ordering::Relaxed);
    HAPPENED.store(0, Ordering::Release);
    arm(0);
}

fn is_alone(number: usize) -> bool {
    let switches = |number: usize, when: usize| SWITCHES[number][when].load(Ordering::Relaxed);
    let last = WANTED.load(Ordering::Relaxed) - 1;
    (1..last).contains(&number)
        && switches(number - 1, 1) == switches(number, 0)
        && switches(number, 0) == switches(number, 1)
        && switches(number, 1) == switches(number + 1, 0)
}

fn stamps() -> Vec<Stamps> {
    let one = |number: usize| Stamps {
        start: STARTS[number].load(Ordering::Relaxed),
        end: ENDS[number].load(Ordering::Relaxed),
        alone: is_alone(number),
    };
    (0..PART).map(one).collect()
}

/// Ends the gap loop when all interruptions of the part have happened.
struct UntilAllHappened<'a> {
    bounds: Bounds<'a>,
    /// The last one may have come between a read and the look at the count: it is in the gap that the next read ends.
    seen_last: bool,
}

impl Pace for UntilAllHappened<'_> {
    fn begin(&mut self, _first: u64) {}

    fn is_due(&mut self, now: u64) -> bool {
        all_happened() || now.trailing_zeros() >= 20
    }

    fn turn(&mut self, _now: u64) -> Turn {
        if all_happened() && std::mem::replace(&mut self.seen_last, true) {
            Turn::Next
        } else if self.bounds.check().is_err() {
            Turn::Leave
        } else {
            Turn::Stay
        }
    }
}

/// The production sink, with every long gap kept beside it.
struct KeepAll {
    record: Record,
    gaps: Vec<Gap>,
    lost: u64,
}

impl GapSink for KeepAll {
    fn long(&mut self, batch: usize, start: u64, gap: u64) {
        self.record.long(batch, start, gap);
        if self.gaps.len() < self.gaps.capacity() {
            self.gaps.push(Gap { start, length: gap });
        } else {
            self.lost += 1;
        }
    }

    fn backward(&mut self) {
        self.record.backward();
    }
}

/// Runs the probe's loop under interruptions; returns what was injected, what was found, and the loop's first read.
fn probe_part(bounds: Bounds<'_>, lengths: impl Iterator<Item = u64>) -> (Vec<Stamps>, Vec<Gap>, u64) {
    let mut short = short_tables(1);
    let mut gaps = vec![Gap { start: 0, length: 0 }; 1 << 19];
    gaps.clear();
    let mut sink = KeepAll { record: Record::new(1), gaps, lost: 0 };
    begin_part(lengths.take(PART).map(|length| (PAUSE_NS, length)));
    let observed = observe(UntilAllHappened { bounds, seen_last: false }, &mut short, &mut sink);
    assert!(!observed.cut_short, "only {} of {PART} interruptions came", HAPPENED.load(Ordering::Relaxed));
    assert_eq!(sink.lost, 0, "the buffer for all gaps is large enough");
    let sum: u128 = sink.record.histograms(&short).iter().map(Histogram::sum).sum();
    assert_eq!(sum, u128::from(observed.last - observed.first), "every tick is in the histogram");
    (stamps(), sink.gaps, observed.first)
}

/// Delivery cost, seen by a loop that is not the probe's: what an interruption takes beyond its stamps. The lengths are
/// drawn like the others, because the way back out of the kernel is dearer the longer the handler ran.
fn delivery_part(bounds: Bounds<'_>, lengths: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut costs = Vec::with_capacity(DELIVERIES);
    begin_part(lengths.take(DELIVERIES).map(|length| (PAUSE_NS, length)));
    let (mut seen, mut previous) = (0, ticks());
    while seen < DELIVERIES {
        let now = ticks();
        let happened = HAPPENED.load(Ordering::Acquire);
        if happened == seen {
            previous = now;
        } else {
            let after = ticks();
            let (start, spun) = (STARTS[seen].load(Ordering::Relaxed), ENDS[seen].load(Ordering::Relaxed));
            // The interruption came between `previous` and `now`, or between `now` and the look.
            let (begin, end) = if start < now { (previous, now) } else { (now, after) };
            // Otherwise this loop was kept from running for so long that it cannot tell two interruptions apart.
            if begin <= start && spun <= end && happened == seen + 1 {
                costs.push((seen, end - begin - (spun - start)));
            }
            seen = happened;
            assert!(bounds.check().is_ok(), "only {seen} of {DELIVERIES} interruptions came");
            previous = after;
        }
    }
    costs.into_iter().filter(|(number, _)| is_alone(*number)).map(|(_, cost)| cost).collect()
}

/// A part of the probe's run, with the costs of deliveries right before and right after it, ascending.
#[derive(Debug, Clone, Default)]
struct Part {
    /// The loop's first read: what happened before, as the thread had to wait for its CPU, is nobody's gap.
    first: u64,
    injected: Vec<Stamps>,
    found: Vec<Gap>,
    delivery: Vec<u64>,
}

#[derive(Debug, Clone, Default, PartialEq)]
struct Seen {
    /// Interruptions that began after the loop's first read.
    begun: usize,
    /// Those of them that a found gap holds from begin to end.
    whole: usize,
    /// Interruptions that a found gap cuts through.
    cut: usize,
    /// What each found gap is longer than its stamps, ascending.
    excess: Vec<u64>,
}

/// The 95th percentile of ascending values.
fn p95(values: &[u64]) -> u64 {
    values.get(values.len() * 95 / 100).copied().unwrap_or(u64::MAX)
}

/// What found gaps are longer than their stamps over what a delivery costs, the 95th percentiles of each part; none of
/// parts in which nearly all the time belonged to others.
fn ratios(parts: &[Part]) -> Vec<f64> {
    let ratio = |part: &Part| {
        let excess = judge(part).excess;
        (excess.len().min(part.delivery.len()) >= FEWEST)
            .then(|| p95(&excess) as f64 / p95(&part.delivery) as f64)
    };
    parts.iter().filter_map(ratio).collect()
}

/// Gaps are no longer than interruption and delivery together: both are samples of a cost that is the same if the probe adds
/// nothing.
const NO_LONGER: Mark = Mark::AtMost(1.0);

/// What the judge says of them, unsaid.
fn no_longer(parts: &[Part]) -> Verdict {
    let ratios = ratios(parts);
    interval_without(&ratios, parts.len() - ratios.len())
        .map_or(Verdict::NotDecided, |span| NO_LONGER.judge(span))
}

/// Holds what was found against what was injected. Gaps come in order and do not overlap.
fn judge(part: &Part) -> Seen {
    let mut seen = Seen::default();
    for stamps in part.injected.iter().filter(|stamps| stamps.start > part.first) {
        seen.begun += 1;
        let Some(gap) = part.found[..part.found.partition_point(|gap| gap.start <= stamps.start)].last()
        else {
            continue;
        };
        let end = gap.start + gap.length;
        if end >= stamps.end {
            seen.whole += 1;
            seen.excess.extend(stamps.alone.then(|| gap.length - (stamps.end - stamps.start)));
        } else if end > stamps.start {
            seen.cut += 1;
        }
    }
    seen.excess.sort_unstable();
    seen
}

fn inject_and_find() -> (Vec<Part>, f64) {
    pin_to_last_cpu();
    let rate = Anchor::take().and_then(|anchor| anchor.rate_since()).expect("the counter is a clock");
    let stop = AtomicBool::new(false);
    let bounds = Bounds::starting_now(&stop, Millis::from_millis(DEADLINE_S * 1000));
    aim_at_this_thread();
    let mut random = Xoshiro256PlusPlus::seed_from_u64(2010);
    let mut lengths_ns = std::iter::repeat_with(move || {
        let log: f64 = random.random_range(SHORTEST_NS.ln()..LONGEST_NS.ln());
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most 1e7")]
        let length_ns = log.exp() as u64;
        length_ns
    });
    let to_ticks = |length_ns: u64| length_ns * rate.get() / 1_000_000_000;
    let mut before = delivery_part(bounds, (&mut lengths_ns).map(to_ticks));
    let mut parts = Vec::new();
    for _ in 0..PARTS {
        let (injected, found, first) = probe_part(bounds, (&mut lengths_ns).map(to_ticks));
        let after = delivery_part(bounds, (&mut lengths_ns).map(to_ticks));
        let mut delivery = [before, after.clone()].concat();
        delivery.sort_unstable();
        parts.push(Part { first, injected, found, delivery });
        before = after;
    }
    (parts, rate.as_f64() / 1e9)
}

/// What all parts together saw.
fn whole(parts: &[Part]) -> Seen {
    let mut all = Seen::default();
    for seen in parts.iter().map(judge) {
        all = Seen {
            begun: all.begun + seen.begun,
            whole: all.whole + seen.whole,
            cut: all.cut + seen.cut,
            excess: [all.excess, seen.excess].concat(),
        };
    }
    all.excess.sort_unstable();
    all
}

#[test]
fn every_interruption_is_found_whole() {
    let (parts, ticks_per_ns) =
        std::thread::spawn(inject_and_find).join().expect("the probe's thread did not panic");
    assert_eq!(parts.iter().map(|part| part.injected.len()).sum::<usize>(), INTERRUPTIONS);
    let seen = whole(&parts);
    tell(&seen, &parts, ticks_per_ns);
    assert!(seen.begun > INTERRUPTIONS / 2, "no verdict: {} began after the loop's first read", seen.begun);
    assert_eq!(seen.cut, 0, "a detected gap contains the stamps of its interruption");
    assert_eq!(seen.whole, seen.begun, "every interruption is in a gap");
    canary(&parts);
}

#[expect(clippy::print_stdout, reason = "the figures are what this test is about")]
fn tell(seen: &Seen, parts: &[Part], ticks_per_ns: f64) {
    let micros = |ticks: u64| ticks as f64 / ticks_per_ns / 1e3;
    let mut delivery: Vec<u64> = parts.iter().flat_map(|part| part.delivery.clone()).collect();
    delivery.sort_unstable();
    println!(
        "{INTERRUPTIONS} interruptions: {} after the first read of their part, {} of these found, {} cut through, gap longer than \
         its stamps by (p95 of {}) {:.2} µs, delivery cost (p95) {:.2} µs",
        seen.begun,
        seen.whole,
        seen.cut,
        seen.excess.len(),
        micros(p95(&seen.excess)),
        micros(p95(&delivery)),
    );
    let mut judge = Judge::default();
    let count = |number: usize| u32::try_from(number).unwrap_or(u32::MAX);
    // Those before a part's first read count here as not found.
    let (found, of) = (count(seen.whole), count(INTERRUPTIONS));
    judge.share("injected interruptions found", found, of, Mark::AtLeast(0.999));
    let ratios = ratios(parts);
    let what = "found gap beyond its stamps, p95 / cost of a delivery, p95, of all parts of one attempt";
    judge.rounds_without(what, &ratios, parts.len() - ratios.len(), NO_LONGER);
}

/// The same evidence, tampered with, is found out.
fn canary(parts: &[Part]) {
    let tampered = |change: &mut dyn FnMut(&Part) -> Vec<Gap>| -> Vec<Part> {
        let one = |part: &Part| Part { found: change(part), ..part.clone() };
        parts.iter().map(one).collect()
    };
    let holding = |part: &Part, gap: &Gap| {
        let next = part.injected.partition_point(|stamps| stamps.start < gap.start);
        part.injected.get(next).is_some_and(|stamps| stamps.start < gap.start + gap.length)
    };
    let mut count = 0;
    let missing = tampered(&mut |part| {
        let mut stays = |gap: &&Gap| {
            let is_holding = holding(part, gap);
            count += usize::from(is_holding);
            !(is_holding && count % 500 == 0)
        };
        part.found.iter().filter(&mut stays).copied().collect()
    });
    let without = whole(&missing);
    assert!(without.whole < without.begun, "one in 500 missing");
    let shorter =
        tampered(&mut |part| part.found.iter().map(|gap| Gap { length: gap.length / 2, ..*gap }).collect());
    assert!(whole(&shorter).cut > 0, "gaps that end too early");
    let longer = tampered(&mut |part| {
        let added = p95(&part.delivery);
        part.found.iter().map(|gap| Gap { length: gap.length + added, ..*gap }).collect()
    });
    assert_ne!(no_longer(&longer), Verdict::Met, "gaps that are too long");
}

/// A part in which each gap is this share of the cost of a delivery longer than its stamps.
fn part(share: f64) -> Part {
    const EACH: usize = FEWEST + 1;
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some thousands")]
    let excess = (1000.0 * share) as u64;
    let starts = (1..=EACH as u64).map(|number| number * 1_000_000);
    let injected = starts.clone().map(|start| Stamps { start, end: start + 5_000, alone: true });
    let found = starts.map(|start| Gap { start, length: 5_000 + excess });
    Part { first: 1, injected: injected.collect(), found: found.collect(), delivery: vec![1000; EACH] }
}

#[test]
fn noise_and_parts_left_out_do_not_pass() {
    let even: Vec<Part> = (0..PARTS).map(|_| part(0.9)).collect();
    let longer: Vec<Part> = (0..PARTS).map(|_| part(1.1)).collect();
    assert_eq!([no_longer(&even), no_longer(&longer)], [Verdict::Met, Verdict::Missed]);
    let noisy: Vec<Part> = (0..PARTS).map(|number| part(if number % 2 == 0 { 0.9 } else { 3.0 })).collect();
    assert_eq!(no_longer(&noisy), Verdict::NotDecided, "from 0.9 to 3");
    let others = || Part { delivery: Vec::new(), ..part(0.9) };
    let without = |missing: usize| -> Vec<Part> {
        (0..PARTS).map(|number| if number < missing { others() } else { part(0.9) }).collect()
    };
    assert_eq!(
        [0, 1, 2, PARTS].map(|missing| no_longer(&without(missing))),
        [Verdict::Met, Verdict::Met, Verdict::NotDecided, Verdict::NotDecided,]
    );
}

#[test]
fn gaps_that_are_missing_or_too_short_are_counted() {
    let good = part(0.5);
    let seen = judge(&good);
    assert_eq!((seen.begun, seen.whole, seen.cut), (FEWEST + 1, FEWEST + 1, 0));
    let short =
        Part { found: good.found.iter().map(|gap| Gap { length: 4_999, ..*gap }).collect(), ..part(0.5) };
    assert_eq!((judge(&short).whole, judge(&short).cut), (0, FEWEST + 1));
    let lost = Part { found: good.found[1..].to_vec(), ..part(0.5) };
    assert_eq!((judge(&lost).begun, judge(&lost).whole), (FEWEST + 1, FEWEST), "one without a gap");
    let late = Part { first: 1_500_000, ..part(0.5) };
    assert_eq!(judge(&late).begun, FEWEST, "before the first read");
}
