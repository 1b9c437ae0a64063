//! Measures: see the folder.

use std::time::{Duration, Instant};

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::circle::Circle;
use crate::arena::Arena;
use crate::bounds::Bounds;
use crate::clock::{monotonic_facts, thread_cpu_time};
use crate::context::Context;
use crate::detail::{Detail, LatencyPoint, MemLatencyDetail};
use crate::error::WorkError;
use crate::job::ProbeReport;
use crate::params::{ChaseOrder, MemLatencyParams, ProbeSpec};
use crate::sizes::{Given, Sizes, Wanted};
use units::facts::OwnCost;
use units::{Bytes, Nanos};

/// Laps whose median is reported; each lasts this fraction of the duration.
const LAPS: u32 = 8;
/// Loads between two reads of the clock: its cost then is some hundredths of a nanosecond per load.
const LOADS_PER_READ: u32 = 1024;
const PAGE_WORDS: usize = 512;

/// The array that all sizes are the begin of.
#[derive(Debug)]
struct Array {
    sizes: Sizes,
    cache: Option<Bytes>,
    arena: Arena,
}

/// Measures every size.
///
/// # Errors
/// The job was to end, or there is not enough memory.
pub fn measure(params: &MemLatencyParams, context: &Context<'_>) -> Result<ProbeReport, WorkError> {
    let cpu_before = thread_cpu_time()?;
    let spec = ProbeSpec::MemLatency(params.clone());
    let mut laid_out = context.armed.take(&spec, || Array::new(params))?;
    let Array { sizes, cache, arena } = &mut laid_out.what;
    let stride = (params.stride_bytes as usize / 8).max(1);
    let mut points = Vec::new();
    for size in &sizes.bytes {
        let Some(words) = arena.words_mut().get_mut(..size.to_usize() / 8) else { continue };
        if words.len() < 2 * stride {
            continue;
        }
        // Also where an array is kept: writing its links is what brings those that fit into the caches.
        match params.order {
            ChaseOrder::Random => link_randomly(words, stride, context.seed),
            ChaseOrder::Backward => link_backward(words, stride),
        }
        let once = (words.len() / stride) as u64;
        let Some(circle) = Circle::close(words, stride) else { continue };
        let load_ns = chase(&circle, once, params.duration_ms.to_duration(), context.bounds)?;
        points.push(LatencyPoint { size_bytes: *size, load_ns });
    }
    let clock = monotonic_facts();
    let cost = OwnCost {
        per_sample_ns: clock.read_ns / f64::from(LOADS_PER_READ),
        cpu_time_ns: thread_cpu_time()?.saturating_sub(cpu_before),
        memory_bytes: arena.size(),
    };
    let detail = MemLatencyDetail {
        stride_bytes: Bytes::from_bytes(params.stride_bytes.into()),
        order: params.order,
        last_level_cache_bytes: *cache,
        huge_pages: arena.huge_pages(),
        points,
    };
    let notes = sizes.notes.clone();
    context.armed.keep(spec, laid_out, cost.memory_bytes.get());
    Ok(ProbeReport::new(clock, cost, Detail::MemLatency(detail), notes))
}

impl Array {
    fn new(params: &MemLatencyParams) -> Result<Self, WorkError> {
        let given = Given::here();
        let wanted = Wanted {
            least: params.min_size_kib,
            most: params.max_size_mib,
            steps_per_octave: params.steps_per_octave,
            arrays: 1,
        };
        let sizes = Sizes::plan(wanted, given);
        let arena = Arena::new(sizes.largest())?;
        Ok(Self { sizes, cache: given.cache, arena })
    }
}

/// Links the elements from the end to the start and back to the end.
fn link_backward(words: &mut [u64], stride: usize) {
    let last = (words.len() / stride - 1) * stride;
    for element in (0..=last).step_by(stride) {
        let next = element.checked_sub(stride).unwrap_or(last);
        if let Some(word) = words.get_mut(element) {
            *word = next as u64;
        }
    }
}

/// Links all elements into one random cycle.
fn link_randomly(words: &mut [u64], stride: usize, seed: u64) {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let page_words = PAGE_WORDS.min(words.len());
    let (pages, per_page) = (words.len() / page_words, page_words / stride);
    let mut circle: Vec<usize> = (0..pages).collect();
    circle.shuffle(&mut random);
    let mut order: Vec<usize> = (0..per_page).collect();
    order.shuffle(&mut random);
    // Where a page begins in `order`: otherwise the same line of every page would be visited in a row, and all of
    // them would compete for the same few sets of a cache.
    let turn = |page: usize| page.wrapping_mul(7) % per_page.max(1);
    let address = |page: usize, lap: usize| {
        let element = order.get((lap + turn(page)) % per_page.max(1)).copied().unwrap_or(0);
        page * page_words + element * stride
    };
    for (place, page) in circle.iter().enumerate() {
        let next_page = circle.get((place + 1) % pages).copied().unwrap_or(0);
        let next_lap = usize::from(place + 1 == pages);
        for lap in 0..per_page {
            let next = address(next_page, (lap + next_lap) % per_page);
            if let Some(word) = words.get_mut(address(*page, lap)) {
                *word = next as u64;
            }
        }
    }
}

/// Follows the links: once around (or for twice the duration) to warm up, then the laps. Returns the median time per
/// load.
fn chase(circle: &Circle<'_>, once: u64, duration: Duration, bounds: Bounds<'_>) -> Result<f64, WorkError> {
    let mut place = circle.start();
    let begin = Instant::now();
    let mut loads = 0;
    while loads < once && begin.elapsed() < duration * 2 {
        place = place.after(LOADS_PER_READ);
        loads += u64::from(LOADS_PER_READ);
    }
    let mut laps = Vec::new();
    for _ in 0..LAPS {
        bounds.check()?;
        let begin = Instant::now();
        let mut loads = 0_u64;
        let took = loop {
            place = place.after(LOADS_PER_READ);
            loads += u64::from(LOADS_PER_READ);
            let took = begin.elapsed();
            if took >= duration / LAPS {
                break took;
            }
        };
        laps.push(Nanos::from_duration(took).as_f64() / loads as f64);
    }
    laps.sort_by(f64::total_cmp);
    let middle = laps.len() / 2;
    let pair = [laps.get(middle.saturating_sub(1)), laps.get(middle)];
    Ok(pair.into_iter().flatten().sum::<f64>() / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn visited(words: &[u64], stride: usize) -> usize {
        let (mut place, mut seen) = (0, std::collections::HashSet::new());
        while seen.insert(place) {
            assert_eq!(place % stride, 0);
            place = usize::try_from(words[place]).unwrap();
        }
        assert_eq!(place, 0, "the cycle closes where it began");
        seen.len()
    }

    #[test]
    fn both_orders_visit_every_element_exactly_once() {
        for (size, stride) in [(128, 8), (512, 8), (512 * 37, 8), (512 * 64, 1), (512 * 5, 512), (128, 1)] {
            let mut words = vec![0; size];
            link_randomly(&mut words, stride, 42);
            assert_eq!(visited(&words, stride), size / stride, "random, {size} words, stride {stride}");
            link_backward(&mut words, stride);
            assert_eq!(visited(&words, stride), size / stride, "backward, {size} words, stride {stride}");
        }
    }

    #[test]
    fn random_steps_leave_the_page() {
        let mut words = vec![0; 512 * 100];
        link_randomly(&mut words, 8, 1);
        let stays = (0..words.len())
            .step_by(8)
            .filter(|at| usize::try_from(words[*at]).unwrap() / 512 == at / 512)
            .count();
        assert_eq!(stays, 0);
    }
}
