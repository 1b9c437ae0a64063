//! Ground truth for the fixed-time-quantum probe: real periodic noise on its own CPU, from 10 Hz to 1.93 kHz.
//!
//! ```text
//!  probe's thread (SCHED_FIFO 10)   ▪▪▪▪▪▪▪    ▪▪▪▪▪▪▪▪▪▪    ▪▪▪▪▪▪▪▪▪▪
//!  injector       (SCHED_FIFO 50)          ═══           ═══            spins for 1 % of each period, stamps begin and end
//!                                        └─────┘ what it takes: the spin, and the way there and back
//! ```
//!
//! What an injection takes from whoever runs there is measured by a loop of this test that reads the counter, right before
//! and right after the probe, on the same CPU under the same injector; the injector's own stamps say how often it came.
//! Real-time priority keeps everybody else on this machine out of the way; what lies below the machine (a hypervisor)
//! may still disturb, the measurement of the truth as well. So several attempts are made at each frequency, and all of them
//! count: an attempt is *named* when a source is found within 2 % of the frequency, and in share within 20 % of the truth, and
//! *not named* otherwise. It is *unknown*, it cannot be said, when the truth before and after (with what the machine has at
//! that frequency of itself, a timer tick for example, which is measured before) differs by more than 10 %: nobody knows then
//! what was to be found; such attempts are counted of their own and never pass.
//!
//! How many are not named, and frequencies that no attempt names, are figures (`cargo bench --bench figures -- ftq`). The test
//! wants what the machine's mood does not decide: a verdict at all, a right frequency for each at which the truth was sharp, and
//! an answer that is well formed. Naming by chance is out of the question: without an injector hardly anything is named, and
//! the judge is shown to refuse other frequencies and shares.
#![expect(unsafe_code, reason = "a thread's scheduling policy has no safe interface")]

use crate::verdict;

use std::path::PathBuf;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};

use bulkhead::probes::alarm::{now_ns, sleep_until};
use bulkhead::probes::clock::{Anchor, ticks};
use bulkhead::probes::detail::Detail;
use bulkhead::probes::job::Job;
use bulkhead::probes::params::{FtqParams, ProbeSpec};
use bulkhead::probes::pin::pin_to_last_cpu;
use bulkhead::probes::run::{Surroundings, run_job};
use bulkhead::stats::spectrum::{Source, analyse};
use bulkhead::units::Millis;
use skips::{Need, skip};

/// None of them is one of a usual timer tick (100, 250, 300, 1000 Hz) or a multiple of one: the machine's own noise there was up to
/// half of the truth, so that it could not be said.
const FREQUENCIES_HZ: [u64; 6] = [10, 50, 97, 230, 930, 1930];
const SHARE: f64 = 0.01;
/// At each frequency, unless `BULKHEAD_FTQ_ATTEMPTS` says otherwise: as many as a look takes, too few for the figure.
const ATTEMPTS: usize = 3;
/// More attempts are made at a frequency until it is named in one with a sharp truth, up to so many. All of them count.
const MOST_ATTEMPTS: usize = 9;
/// What the truth after may be over the truth before, or the other way round.
const SHARP: f64 = 1.1;
/// How long the truth is measured before and after the probe.
const TRUTH_NS: u64 = 600_000_000;
/// A gap in the reads of the counter that may be an injection.
const GAP_NS: u64 = 1_500;
const PROBE_PRIORITY: i32 = 10;
const INJECTOR_PRIORITY: i32 = 50;

fn become_fifo(priority: i32) -> Result<(), std::io::Error> {
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: 0 is the calling thread, and the parameters outlive the call, which only reads them.
    let outcome = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) };
    if outcome == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// Begin and end of each spin, in ticks.
type Stamps = Vec<(u64, u64)>;

/// Spins for 1 % of every period until told to stop.
fn inject(frequency_hz: u64, ticks_per_ns: f64, ready: &Barrier, stop: &AtomicBool) -> Stamps {
    pin_to_last_cpu();
    become_fifo(INJECTOR_PRIORITY).expect("the test's thread could, so this one can");
    let period_ns = 1_000_000_000 / frequency_hz;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "some millions of ticks at most"
    )]
    let spin = (period_ns as f64 * SHARE * ticks_per_ns) as u64;
    let mut stamps: Stamps = vec![(1, 1); 100_000];
    stamps.clear();
    // Whoever starts a thread of its own priority must wait for it, or it will not run.
    ready.wait();
    let mut due = now_ns().expect("there is a clock");
    while !stop.load(Ordering::Relaxed) && stamps.len() < stamps.capacity() {
        due += period_ns;
        sleep_until(due).expect("there is a clock");
        let begin = ticks();
        while ticks().wrapping_sub(begin) < spin {}
        stamps.push((begin, ticks()));
    }
    stamps
}

/// Long gaps between reads of the counter, for a while.
fn gaps(ticks_per_ns: f64) -> Vec<(u64, u64)> {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "positive and small")]
    let in_ticks = |ns: u64| (ns as f64 * ticks_per_ns) as u64;
    let (least, end) = (in_ticks(GAP_NS), ticks() + in_ticks(TRUTH_NS));
    let mut gaps = vec![(1, 1); 100_000];
    gaps.clear();
    let mut previous = ticks();
    while previous < end && gaps.len() < gaps.capacity() {
        let now = ticks();
        if now - previous > least {
            gaps.push((previous, now));
        }
        previous = now;
    }
    gaps
}

/// Median length of the gaps that hold exactly one injection.
fn taken_each(gaps: &[(u64, u64)], stamps: &Stamps) -> Option<f64> {
    let inside = |gap: &&(u64, u64)| {
        let first = stamps.partition_point(|stamp| stamp.0 < gap.0);
        let after = stamps.partition_point(|stamp| stamp.1 < gap.1);
        after == first + 1
    };
    let mut lengths: Vec<u64> = gaps.iter().filter(inside).map(|gap| gap.1 - gap.0).collect();
    lengths.sort_unstable();
    lengths.get(lengths.len() / 2).map(|length| *length as f64)
}

/// What really happened, and what the probe saw.
struct Attempt {
    /// Share of the time missing in all.
    noise: f64,
    frequency_hz: f64,
    /// Share that the injections took, by what one took before or after, whichever is less, and more.
    share: (f64, f64),
    sources: Vec<Source>,
}

fn attempt(frequency_hz: u64, ticks_per_ns: f64) -> Result<Attempt, String> {
    let (stop, ready) = (AtomicBool::new(false), Barrier::new(2));
    let (before, work, after, stamps) = std::thread::scope(|scope| {
        let injector = scope.spawn(|| inject(frequency_hz, ticks_per_ns, &ready, &stop));
        ready.wait();
        let before = gaps(ticks_per_ns);
        let work = probe();
        let after = gaps(ticks_per_ns);
        stop.store(true, Ordering::Relaxed);
        (before, work, after, injector.join().expect("the injector did not panic"))
    });
    let none = || format!("{frequency_hz} Hz: no injection was seen alone");
    let (first, last) = stamps.first().zip(stamps.last()).ok_or_else(none)?;
    let real_hz = (stamps.len() - 1) as f64 / (last.0 - first.0) as f64 * ticks_per_ns * 1e9;
    // Where it was kept from running for long, its frequency is no sharp truth either.
    if (real_hz / frequency_hz as f64 - 1.0).abs() > 0.01 {
        return Err(format!("{frequency_hz} Hz: the injector itself came with {real_hz:.2} Hz"));
    }
    let before = taken_each(&before, &stamps).ok_or_else(none)?;
    let after = taken_each(&after, &stamps).ok_or_else(none)?;
    let noise = analyse(&work.1, work.0).expect("enough quanta with work");
    let missing = noise.missing.iter().sum::<f64>() / noise.missing.len() as f64;
    let share = |taken: f64| taken / ticks_per_ns * 1e-9 * real_hz;
    let share = (share(before.min(after)), share(before.max(after)));
    Ok(Attempt { noise: missing, frequency_hz: real_hz, share, sources: noise.sources })
}

/// Length of a quantum in seconds, and the work; from the probe as the agent runs it.
fn probe() -> (f64, Vec<u32>) {
    let job = Job {
        id: 1,
        probe: Some(ProbeSpec::Ftq(FtqParams::default())),
        deadline_ms: Millis::from_millis(60_000),
        ..Job::default()
    };
    let surroundings = Surroundings { scratch: None, exe: PathBuf::from("/bin/true") };
    let reply = run_job(&job, &surroundings, &AtomicBool::new(false), &mut || {});
    let report = reply.report.expect("there was a probe").expect("it was measured");
    let Detail::Ftq(ftq) = report.detail else { panic!("not a ftq detail") };
    (ftq.quantum_ns.as_secs_f64(), ftq.work)
}

/// What is known of a source: its frequency, and the least and the most share that it may have.
#[derive(Debug, Clone, Copy)]
struct Truth {
    frequency_hz: f64,
    share: (f64, f64),
}

impl Truth {
    /// The machine's own noise at this frequency or a part of it counts with it or not, as its place in the period decides.
    fn of(attempt: &Attempt, own: f64) -> Self {
        let (low, high) = attempt.share;
        Self { frequency_hz: attempt.frequency_hz, share: (low, high + own) }
    }

    /// Otherwise nobody knows what is to be found: the less is known, the more would pass.
    fn is_sharp(self) -> bool {
        self.share.1 <= SHARP * self.share.0
    }

    fn has_frequency(self, source: &Source) -> bool {
        (source.frequency_hz / self.frequency_hz - 1.0).abs() <= 0.02
    }

    /// The source that this is, if there is.
    fn named(self, sources: &[Source]) -> Option<&Source> {
        let (low, high) = self.share;
        let is_this =
            |source: &&Source| self.has_frequency(source) && (0.8 * low..=1.2 * high).contains(&source.share);
        sources.iter().find(is_this)
    }

    fn judge(self, sources: &[Source]) -> Said {
        if !self.is_sharp() {
            Said::Unknown
        } else if self.named(sources).is_some() {
            Said::Named
        } else if sources.iter().any(|source| self.has_frequency(source)) {
            Said::OtherShare
        } else {
            Said::NotNamed
        }
    }
}

/// What became of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Said {
    Named,
    /// Its frequency was, with a share that it does not have.
    OtherShare,
    NotNamed,
    /// The truth is not known well enough.
    Unknown,
}

impl Said {
    /// Whether the right frequency was named, where that can be said.
    const fn has_frequency(self) -> bool {
        matches!(self, Self::Named | Self::OtherShare)
    }
}

/// Share of the sources whose frequency divides this one.
fn own_share(sources: &[Source], frequency_hz: f64) -> f64 {
    let divides = |source: &&Source| {
        let ratio = frequency_hz / source.frequency_hz;
        ratio > 0.99 && (ratio - ratio.round()).abs() < 0.002 * ratio
    };
    sources.iter().filter(divides).map(|source| source.share).sum()
}

fn attempts_wanted() -> usize {
    let wanted = std::env::var("BULKHEAD_FTQ_ATTEMPTS").ok().and_then(|text| text.parse().ok());
    wanted.unwrap_or(ATTEMPTS)
}

/// What became of all attempts at a frequency: those that are wanted, and more until it is named.
fn attempts(frequency_hz: u64, ticks_per_ns: f64, own: &[Source]) -> Vec<Said> {
    let mut said = Vec::new();
    let is_open = |said: &[Said]| {
        let is_named = said.iter().any(|one| one.has_frequency());
        said.len() < attempts_wanted() || (!is_named && said.len() < MOST_ATTEMPTS)
    };
    while is_open(&said) {
        said.push(match attempt(frequency_hz, ticks_per_ns) {
            Ok(attempt) => look_at(&attempt, own),
            Err(why) => {
                println!("{why}");
                Said::Unknown
            }
        });
    }
    said
}

fn look_at(attempt: &Attempt, own: &[Source]) -> Said {
    let own = own_share(own, attempt.frequency_hz);
    let truth = Truth::of(attempt, own);
    let said = truth.judge(&attempt.sources);
    println!(
        "{:.2} Hz taking {:.3} … {:.3} % (and {:.3} % before; {:.1} % missing in all): {said:?}, {:?}",
        attempt.frequency_hz,
        attempt.share.0 * 100.0,
        attempt.share.1 * 100.0,
        own * 100.0,
        attempt.noise * 100.0,
        attempt.sources.iter().filter(|source| truth.has_frequency(source)).collect::<Vec<_>>(),
    );
    well_formed(attempt);
    if said == Said::Named {
        canary(truth, &attempt.sources);
    }
    said
}

/// What an answer is, whatever it names.
fn well_formed(attempt: &Attempt) {
    // A little below zero where quanta did better than the best.
    assert!((-1.0..=1.0).contains(&attempt.noise), "{}", attempt.noise);
    for source in &attempt.sources {
        assert!(source.frequency_hz.is_finite() && source.frequency_hz > 0.0, "{source:?}");
        assert!((0.0..=1.0).contains(&source.share), "{source:?}");
    }
    let hz = |one: &Source, other: &Source| (one.frequency_hz - other.frequency_hz).abs() < 1e-9;
    let twice =
        |(number, one): (usize, &Source)| attempt.sources[..number].iter().any(|other| hz(one, other));
    assert!(!attempt.sources.iter().enumerate().any(twice), "each once: {:?}", attempt.sources);
}

/// The judge refuses what was not injected.
fn canary(truth: Truth, sources: &[Source]) {
    let Truth { frequency_hz, share: (low, high) } = truth;
    for (factor, of_share) in [(1.05, 1.0), (0.5, 1.0), (2.0, 1.0), (1.0, 2.0), (1.0, 0.5)] {
        let wrong = Truth { frequency_hz: frequency_hz * factor, share: (low * of_share, high * of_share) };
        // Half the frequency, or twice, may be there of itself, with a share of its own.
        let named = wrong.named(sources).filter(|source| truth.has_frequency(source));
        assert_eq!(named, None, "{factor} of the frequency, {of_share} of the share");
    }
}

/// The figures of all attempts, by frequency.
fn figures(all: &[Vec<Said>], judge: &mut verdict::Judge) {
    let of = |said: &Vec<Said>, wanted: &[Said]| said.iter().filter(|one| wanted.contains(one)).count();
    let sum = |wanted: &[Said]| all.iter().map(|said| of(said, wanted)).sum::<usize>();
    let (named, unsaid) = (sum(&[Said::Named]), sum(&[Said::Unknown]));
    let not_named = sum(&[Said::NotNamed, Said::OtherShare]);
    let what = "attempts at injected noise that do not name it within 2 %, its share within 20 %";
    judge.never_without(what, not_named as u64, (named + not_named) as u64, unsaid);
    let what = "frequencies that no attempt names";
    let is_unsaid = |said: &Vec<Said>| of(said, &[Said::Unknown]) == said.len();
    if let unsaid @ 1.. = all.iter().filter(|said| is_unsaid(said)).count() {
        judge.not_taken(what, &format!("the truth of {unsaid} of {} was never sharp", all.len()));
    } else {
        let never = all.iter().filter(|said| of(said, &[Said::Named]) == 0).count();
        judge.exact(what, never as f64, verdict::Mark::AtMost(0.0));
    }
}

/// What the test wants of them: at some frequency there is a verdict, and where there is one, the right frequency was named.
fn check(all: &[Vec<Said>]) -> Result<(), String> {
    let mut sharp = 0;
    for (hz, said) in FREQUENCIES_HZ.iter().zip(all) {
        let is_sharp = said.iter().any(|one| *one != Said::Unknown);
        sharp += usize::from(is_sharp);
        if is_sharp && !said.iter().any(|one| one.has_frequency()) {
            return Err(format!("no attempt at {hz} Hz named that frequency: {said:?}"));
        }
    }
    if sharp == 0 { Err(format!("no verdict: the truth was never sharp: {all:?}")) } else { Ok(()) }
}

#[test]
fn injected_noise_is_named_by_frequency() {
    let test = || {
        pin_to_last_cpu();
        if let Err(error) = become_fifo(PROBE_PRIORITY) {
            return Err(format!("real-time priority is refused here ({error})"));
        }
        let rate = Anchor::take().and_then(|anchor| anchor.rate_since()).expect("the counter is a clock");
        let ticks_per_ns = rate.as_f64() / 1e9;
        let (quantum_s, quiet) = probe();
        let own = analyse(&quiet, quantum_s).expect("enough quanta with work").sources;
        Ok(FREQUENCIES_HZ.map(|hz| attempts(hz, ticks_per_ns, &own)))
    };
    match std::thread::spawn(test).join().expect("the test's thread did not panic") {
        Ok(all) => {
            figures(&all, &mut verdict::Judge::default());
            check(&all).unwrap_or_else(|why| panic!("{why}"));
        }
        Err(why) => {
            skip(Need::Realtime, why);
        }
    }
}

#[test]
fn an_attempt_without_a_sharp_truth_cannot_be_said() {
    let source = |share| Source { frequency_hz: 100.0, share, over_noise: 100.0 };
    let truth = |low, high| Truth { frequency_hz: 100.0, share: (low, high) };
    assert_eq!(truth(0.01, 0.0105).judge(&[source(0.0102)]), Said::Named);
    assert_eq!(truth(0.01, 0.0105).judge(&[source(0.014)]), Said::OtherShare);
    assert_eq!(truth(0.01, 0.0105).judge(&[]), Said::NotNamed);
    // Before, the further apart the truth before and after was, the more passed.
    assert_eq!(truth(0.01, 0.03).judge(&[source(0.02)]), Said::Unknown);
    assert_eq!(truth(0.01, 0.03).judge(&[]), Said::Unknown);
}

#[test]
fn every_frequency_counts() {
    let all = |wrong: usize, is: Said| -> Vec<Vec<Said>> {
        (0..6).map(|number| vec![if number < wrong { is } else { Said::Named }; 3]).collect()
    };
    // Ten and more of eighteen are named.
    assert!(check(&all(1, Said::NotNamed)).is_err() && check(&all(2, Said::NotNamed)).is_err());
    assert!(check(&all(0, Said::Named)).is_ok() && check(&all(2, Said::Unknown)).is_ok());
    assert!(check(&all(6, Said::Unknown)).is_err(), "no verdict");
}
