//! Who took the time: counters of the kernel held against the stretches that a probe lost.
//!
//! ```text
//!  gaps > 1 µs ──► pool of lost time, by length
//!                   │  1 tracer          exact: net time of each source
//!                   │  2 RT throttling   gaps as long as period − runtime, a multiple of the period apart
//!                   │  3 steal           what the hypervisor stole, from the longest gaps down
//!                   │  4 other threads   what the scheduler made the probe's thread wait, from the longest gaps down
//!                   │  5 timer tick      as many gaps as there were ticks, those most like the typical one
//!                   │  6 interrupts      as many as there were others, those most like the typical one
//!                   ▼
//!                 what is left: not attributed
//! ```
//! Each source takes from the pool what is still there, so no time is given away twice and never more than was lost.
//! Sources 3 to 6 are limits set by the kernel's counters, laid on the gaps they fit best: which gap was whose is not
//! known without a tracer. The evidence says on which counter each rests. Wake-ups that came late and operations of a disk
//! that stalled have counters of their own beside each of the longest: see `late`.

mod here;
mod late;
mod pool;
mod rhythm;

use here::Here;
use model::attribution::{AttributedSource, Attribution};
use pool::Pool;
use probes::detail::{Detail, GapDetail, Stretch};
use units::Nanos;
use units::accounts::Accounts;

/// A switch to another thread and back takes at least so long (Li, Ding and Shen 2007: 3.8 µs for one, on a machine of
/// then).
const SHORTEST_SWITCH_NS: f64 = 2_000.0;
/// What a hypervisor steals it steals for at least as long as it takes to leave the guest and come back.
const SHORTEST_STEAL_NS: f64 = 5_000.0;
/// An interrupt with its soft interrupts ends sooner than this; what lasts longer was something else.
const LONGEST_INTERRUPT_NS: f64 = 1_000_000.0;
/// A gap longer than so many typical ones is none of an interrupt.
const ATYPICAL: f64 = 10.0;
/// Accounts that say something about disks alone.
const DISK_ONLY: [&str; 2] = ["block delay:", "devices:"];
/// Most traced sources that are shown one by one.
const MOST_TRACED: usize = 8;

/// Says who took the lost time, as far as it can be known; none for probes that lose none in single stretches.
pub fn attribute(detail: &Detail, accounts: &Accounts) -> Option<Attribution> {
    let (told, of_disk) = match detail {
        Detail::Gap(gap) => (of_gap(gap, accounts), false),
        Detail::Wakeup(wakeup) => (late::wakeups(wakeup, accounts), false),
        Detail::Disk(disk) => (late::operations(disk, accounts), true),
        _ => return None,
    };
    let concerns = |reason: &&String| of_disk || !DISK_ONLY.iter().any(|what| reason.starts_with(what));
    let mut unknown = told.unknown;
    unknown.extend(accounts.unknown.iter().filter(concerns).cloned());
    Some(Attribution { unknown, ..told })
}

fn of_gap(gap: &GapDetail, accounts: &Accounts) -> Attribution {
    let mut books = Books::open(Pool::of(gap));
    let here = Here::of(gap.cpu.as_slice(), gap.observed_ns, accounts);
    if accounts.traced.is_empty() {
        throttle(&mut books, &gap.worst, accounts);
        steal(&mut books, &here);
        other_threads(&mut books, accounts);
        let typical = books.pool.median_up_to(LONGEST_INTERRUPT_NS);
        tick(&mut books, gap, &here, typical);
        interrupts(&mut books, &here, typical);
    } else {
        traced(&mut books, accounts);
        throttle(&mut books, &gap.worst, accounts);
        steal(&mut books, &here);
    }
    books.close()
}

/// The pool and what was taken from it so far.
struct Books {
    lost: f64,
    pool: Pool,
    taken: Vec<(String, f64, String)>,
}

impl Books {
    fn open(pool: Pool) -> Self {
        Self { lost: pool.left(), pool, taken: Vec::new() }
    }

    fn book(&mut self, name: &str, nanos: f64, evidence: String) {
        if nanos >= 1.0 {
            self.taken.push((name.to_owned(), nanos, evidence));
        }
    }

    fn close(self) -> Attribution {
        let whole = |nanos: f64| units::metric::saturate(nanos.floor());
        let lost_ns = whole(self.lost);
        let mut left = lost_ns;
        let mut sources = Vec::new();
        for (name, nanos, evidence) in self.taken {
            let took = whole(nanos).min(left);
            left -= took;
            let share = took as f64 / lost_ns.max(1) as f64;
            sources.push(AttributedSource { name, lost_ns: Nanos::from_nanos(took), share, evidence });
        }
        sources.retain(|source| source.lost_ns > Nanos::ZERO);
        sources.sort_by_key(|source| std::cmp::Reverse(source.lost_ns));
        Attribution {
            lost_ns: Nanos::from_nanos(lost_ns),
            sources,
            unattributed_ns: Nanos::from_nanos(left),
            unknown: Vec::new(),
        }
    }
}

/// What the tracer saw, each source with its own time; together never more than was lost.
fn traced(books: &mut Books, accounts: &Accounts) {
    let all: f64 = accounts.traced.iter().map(|source| source.total_ns.as_f64()).sum();
    let fits = if all > 0.0 { (books.pool.left() / all).min(1.0) } else { 0.0 };
    let mut further = 0.0;
    for (place, source) in accounts.traced.iter().enumerate() {
        let took = books.pool.take_evenly(source.total_ns.as_f64() * fits);
        if place >= MOST_TRACED {
            further += took;
            continue;
        }
        let evidence = format!(
            "traced: it ran {} times on the CPU of the probe, {} in all, {} at the longest",
            source.count, source.total_ns, source.longest_ns
        );
        books.book(&source.name, took, evidence);
    }
    books.book("further traced sources", further, "traced: each ran for less than those above".to_owned());
}

/// Gaps as long as the real-time throttle makes them, a multiple of its period apart.
fn throttle(books: &mut Books, worst: &[Stretch], accounts: &Accounts) {
    let Some(throttle) = accounts.rt_throttle else { return };
    let period = throttle.period_us.as_f64() * 1e3;
    let pause = period - throttle.runtime_us.as_f64() * 1e3;
    let fitting = rhythm::recurring(worst, pause, period);
    if fitting.is_empty() {
        return;
    }
    let time: f64 = fitting.iter().map(|stretch| stretch.length_ns.as_f64()).sum();
    let took = books.pool.take_longest(time, pause / 2.0);
    let evidence = format!(
        "{} of about {} came a multiple of {} apart: real-time threads may run {} of every {} µs",
        fitting.len(),
        Nanos::from_nanos(units::metric::saturate(pause)),
        Nanos::from_nanos(units::metric::saturate(period)),
        throttle.runtime_us.get(),
        throttle.period_us.get()
    );
    books.book("real-time throttling", took, evidence);
}

fn steal(books: &mut Books, here: &Here) {
    let Some(steal) = here.steal else { return };
    let took = books.pool.take_longest(steal.as_f64(), SHORTEST_STEAL_NS);
    let evidence = format!("the kernel counted {steal} as stolen on {}, in steps of 10 ms", here.place);
    books.book("hypervisor (steal)", took, evidence);
}

/// Only the waiting of the probe's own threads counts: that of a load's threads is no loss of the probe.
fn other_threads(books: &mut Books, accounts: &Accounts) {
    let (Some(waited), Some(switches)) = (accounts.probe_run_delay_ns, accounts.probe_involuntary_switches)
    else {
        return;
    };
    if switches == 0 {
        return;
    }
    let took = books.pool.take_longest(waited.as_f64(), SHORTEST_SWITCH_NS);
    let evidence = format!(
        "the probe's thread was made to give up its CPU {switches} times and waited {waited} to run again (schedstat)"
    );
    books.book("other threads (scheduler)", took, evidence);
}

fn tick(books: &mut Books, gap: &GapDetail, here: &Here, typical: f64) {
    let short = |stretch: &&Stretch| stretch.length_ns.as_f64() <= longest_like(typical);
    let short: Vec<Stretch> = gap.worst.iter().filter(short).copied().collect();
    let beat = rhythm::beat(&short);
    let told = here.ticks.filter(|ticks| *ticks > 0);
    // A container may hide the counters; the rhythm of the gaps still shows.
    let Some(ticks) = told.or_else(|| beat.map(|beat| beat.ticks_in(gap.observed_ns))) else { return };
    let gaps = books.pool.count_up_to(longest_like(typical));
    // Where far fewer gaps than ticks exceed 1 µs, most ticks are shorter than that: their number says nothing then.
    if gaps * 2.0 < ticks as f64 && beat.is_none() {
        return;
    }
    let took = books.pool.take_typical(ticks as f64, typical, longest_like(typical));
    let counted = match told {
        Some(ticks) => format!("{ticks} timer interrupts on {}", here.place),
        None => "the kernel does not count timer interrupts here".to_owned(),
    };
    let rhythm = beat.map_or(String::new(), |beat| format!("; {beat}"));
    books.book("timer tick", took, format!("{counted}, a typical gap lasts {}{rhythm}", words(typical)));
}

fn interrupts(books: &mut Books, here: &Here, typical: f64) {
    let Some(others) = here.others.filter(|others| *others > 0) else { return };
    let took = books.pool.take_typical(others as f64, typical, longest_like(typical));
    let which = if here.names.is_empty() { String::new() } else { format!(", most of all {}", here.names) };
    let evidence =
        format!("{others} other interrupts on {}{which}; a typical gap lasts {}", here.place, words(typical));
    books.book("other interrupts", took, evidence);
}

/// The longest gap that still passes for a typical one: an interrupt may take a soft interrupt along, but not much more.
fn longest_like(typical: f64) -> f64 {
    (typical * ATYPICAL).min(LONGEST_INTERRUPT_NS)
}

fn words(nanos: f64) -> String {
    Nanos::from_nanos(units::metric::saturate(nanos)).to_string()
}

#[cfg(test)]
mod tests;
