//! The page probe around its mappings: a pinned thread that times each first touch.

use std::sync::atomic::{Ordering, compiler_fence};
use std::time::Instant;

use nix::sys::resource::{UsageWho, getrusage};

use super::nodes::nodes_of;
use crate::clock::{Anchor, counter_facts, thread_cpu_time, ticks};
use crate::context::Context;
use crate::detail::{Detail, PagesDetail, PagesPass};
use crate::error::WorkError;
use crate::fresh_pages::{FreshPages, own_node, page_bytes};
use crate::job::ProbeReport;
use crate::machine::available_memory;
use crate::params::PagesParams;
use crate::pin::pin_to_last_cpu;
use crate::workers;
use units::facts::OwnCost;
use units::histogram::{BUCKETS, DenseHistogram};
use units::{Bytes, Hertz, Nanos};

/// Pages between two looks at the job's limits: about a millisecond.
const PAGES_PER_LOOK: usize = 1024;
/// At most this part of the memory that is left is touched, in tenths; beyond it the kernel would have to make room.
const MOST_TENTHS: u64 = 8;

/// Measures all passes.
///
/// # Errors
/// The job was to end, or the machine has not enough memory.
pub fn measure(params: &PagesParams, context: &Context<'_>) -> Result<ProbeReport, WorkError> {
    let began = Instant::now();
    workers::run_one(context.bounds, || measure_here(params, context, began))
}

fn measure_here(
    params: &PagesParams,
    context: &Context<'_>,
    began: Instant,
) -> Result<ProbeReport, WorkError> {
    let cpu_before = thread_cpu_time()?;
    let pinned = pin_to_last_cpu();
    let mut notes: Vec<String> = pinned.note.into_iter().collect();
    let size_bytes = size(params, available_memory(), &mut notes);
    let rate = Anchor::take()?.rate_since()?;
    let anchor = Anchor::take()?;
    let mut touches = DenseHistogram::new();
    let mut passes = Vec::with_capacity(params.warm_passes as usize + 1);
    for _ in 0..=params.warm_passes {
        touches.clear();
        passes.push(one_pass(size_bytes, context, began, rate, &mut touches)?);
    }
    if !context.fresh {
        notes.push("the instance was not fresh: its first pass is no cold one".to_owned());
    }
    let clock = counter_facts(anchor.rate_since()?);
    let cost = OwnCost {
        // Two reads of the counter around each touch, of which one lies inside.
        per_sample_ns: clock.read_ns,
        cpu_time_ns: thread_cpu_time()?.saturating_sub(cpu_before),
        memory_bytes: Bytes::from_bytes((BUCKETS * 2 * size_of::<u64>()) as u64),
    };
    let detail = PagesDetail {
        page_bytes: page_bytes(),
        size_bytes,
        fresh: context.fresh,
        own_node: own_node(),
        passes,
    };
    Ok(ProbeReport::new(clock, cost, Detail::Pages(detail), notes))
}

/// What is touched: what was asked for, or less where the machine has less.
fn size(params: &PagesParams, available: Option<Bytes>, notes: &mut Vec<String>) -> Bytes {
    let page = page_bytes().get();
    let asked = params.size_mib.to_bytes();
    let most = available.map_or(u64::MAX, |memory| memory.get() / 10 * MOST_TENTHS / page * page).max(page);
    if asked.get() <= most {
        return asked;
    }
    let capped = Bytes::from_bytes(most);
    notes.push(format!("{capped} are touched instead of {asked}: the machine has no more memory to spare"));
    capped
}

fn one_pass(
    size: Bytes,
    context: &Context<'_>,
    probe_began: Instant,
    rate: Hertz,
    touches: &mut DenseHistogram,
) -> Result<PagesPass, WorkError> {
    let mut fresh = FreshPages::map(size)?;
    let nanos = Nanoseconds::at(rate);
    let faults_before = minor_faults()?;
    let began = Instant::now();
    for page in 0..fresh.pages() {
        let before = ticks();
        compiler_fence(Ordering::SeqCst);
        fresh.touch(page);
        compiler_fence(Ordering::SeqCst);
        let after = ticks();
        touches.record(nanos.of(after.saturating_sub(before)));
        if page % PAGES_PER_LOOK == 0 {
            context.bounds.check()?;
        }
    }
    let ended = Instant::now();
    let minor_faults = minor_faults()?.saturating_sub(faults_before);
    Ok(PagesPass {
        start_ns: Nanos::from_duration(began.saturating_duration_since(probe_began)),
        elapsed_ns: Nanos::from_duration(ended.saturating_duration_since(began)),
        touch_ns: touches.to_histogram(),
        minor_faults,
        nodes: nodes_of(&fresh),
    })
}

/// Ticks to nanoseconds without a division: it stands between two touches.
#[derive(Debug, Clone, Copy)]
struct Nanoseconds {
    per_tick_2_32: u128,
}

impl Nanoseconds {
    fn at(rate: Hertz) -> Self {
        Self { per_tick_2_32: (1_000_000_000_u128 << 32) / u128::from(rate.get().max(1)) }
    }

    #[inline]
    fn of(self, ticks: u64) -> u64 {
        u64::try_from((u128::from(ticks) * self.per_tick_2_32) >> 32).unwrap_or(u64::MAX)
    }
}

fn minor_faults() -> Result<u64, WorkError> {
    let usage = getrusage(UsageWho::RUSAGE_THREAD)
        .map_err(|errno| WorkError::system("read the page faults of a thread", errno))?;
    Ok(u64::try_from(usage.minor_page_faults()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use units::{Mebibytes, Ticks};

    #[test]
    fn a_size_beyond_the_memory_is_cut_to_whole_pages_and_said_so() {
        let params = PagesParams { size_mib: Mebibytes::from_mib(64), warm_passes: 1 };
        let mut notes = Vec::new();
        assert_eq!(size(&params, None, &mut notes).get(), 64 << 20);
        assert_eq!(size(&params, Some(Bytes::from_bytes(1 << 30)), &mut notes).get(), 64 << 20);
        assert_eq!(notes, Vec::<String>::new());
        let cut = size(&params, Some(Bytes::from_bytes(10_000_001)), &mut notes);
        assert!(cut.get() <= 8_000_000 && cut.get().is_multiple_of(page_bytes().get()), "{cut}");
        assert!(notes[0].contains("instead of 64 MiB"), "{notes:?}");
        assert_eq!(size(&params, Some(Bytes::from_bytes(0)), &mut notes), page_bytes());
    }

    #[test]
    fn ticks_become_nanoseconds_as_with_a_division() {
        for hz in [24_000_000, 1_999_999_999, 2_900_000_000] {
            let rate = Hertz::from_hz(hz);
            for ticks in [0, 1, 999, 123_456_789, 1 << 40] {
                let exact = Ticks::from_ticks(ticks).to_nanos(rate).get();
                let quick = Nanoseconds::at(rate).of(ticks);
                assert!(exact.abs_diff(quick) <= 1 + exact / 1_000_000, "{ticks} at {hz}: {quick}, {exact}");
            }
        }
    }
}
