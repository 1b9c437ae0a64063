//! Measures: see the folder.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::arena::Arena;
use crate::clock::monotonic_facts;
use crate::context::Context;
use crate::detail::{BandwidthPoint, Detail, MemBandwidthDetail, MemoryOperation};
use crate::error::WorkError;
use crate::job::ProbeReport;
use crate::params::{MemBandwidthParams, ProbeSpec};
use crate::sizes::{Given, Sizes, Wanted};
use crate::streams::Width;
use crate::workers::{self, Muster, WorkersOutcome};
use units::facts::OwnCost;
use units::{Bytes, Nanos};

const OPERATIONS: [MemoryOperation; 3] =
    [MemoryOperation::Read, MemoryOperation::Write, MemoryOperation::Copy];
/// Laps whose median is reported; each lasts this fraction of the duration.
const LAPS: u32 = 5;
/// Words between two reads of the clock: 256 KiB, so that the clock costs under 1 %.
const WORDS_PER_READ: usize = 32 * 1024;

/// What one thread brings home: bytes per second of each lap of each point, and whether its array was on huge pages.
#[derive(Debug)]
struct Share {
    rates: Vec<Vec<f64>>,
    huge_pages: Option<bool>,
}

/// An array for each thread.
#[derive(Debug)]
struct Arrays {
    sizes: Sizes,
    cache: Option<Bytes>,
    of_threads: Vec<Mutex<Option<Arena>>>,
}

impl Arrays {
    fn new(params: &MemBandwidthParams) -> Self {
        let given = Given::here();
        let wanted = Wanted {
            least: params.min_size_kib,
            most: params.max_size_mib,
            steps_per_octave: params.steps_per_octave,
            arrays: params.threads,
        };
        let of_threads = (0..params.threads).map(|_| Mutex::new(None)).collect();
        Self { sizes: Sizes::plan(wanted, given), cache: given.cache, of_threads }
    }
}

/// Measures every operation and size.
///
/// # Errors
/// The job was to end, or there is not enough memory.
pub fn measure(params: &MemBandwidthParams, context: &Context<'_>) -> Result<ProbeReport, WorkError> {
    let spec = ProbeSpec::MemBandwidth(params.clone());
    let laid_out = context.armed.take(&spec, || Ok::<_, WorkError>(Arrays::new(params)))?;
    let arrays = &laid_out.what;
    let width = Width::widest();
    let outcome = workers::run(params.threads, context.bounds, |number, muster| {
        one_thread(width, arrays, number, params.duration_ms.to_duration(), context, muster)
    })?;
    let clock = monotonic_facts();
    let cost = OwnCost {
        per_sample_ns: clock.read_ns,
        cpu_time_ns: outcome.cpu_time,
        memory_bytes: Bytes::from_bytes(arrays.sizes.largest().get().saturating_mul(params.threads.into())),
    };
    let detail = MemBandwidthDetail {
        threads: params.threads,
        last_level_cache_bytes: arrays.cache,
        huge_pages: all_huge(&outcome),
        points: points(&arrays.sizes, &outcome),
    };
    let mut notes = arrays.sizes.notes.clone();
    context.armed.keep(spec, laid_out, cost.memory_bytes.get());
    notes.push(format!("read and write use {} instructions, copy the C library's memcpy", width.name()));
    Ok(ProbeReport::new(clock, cost, Detail::MemBandwidth(detail), notes))
}

fn all_huge(outcome: &WorkersOutcome<Share>) -> Option<bool> {
    // The kernel counts for the whole process, so a thread may see its mates' pages; all of them must say yes.
    outcome
        .results
        .iter()
        .map(|share| share.huge_pages)
        .collect::<Option<Vec<bool>>>()
        .map(|all| all.into_iter().all(|one| one))
}

fn points(sizes: &Sizes, outcome: &WorkersOutcome<Share>) -> Vec<BandwidthPoint> {
    let visits =
        OPERATIONS.iter().flat_map(|operation| sizes.bytes.iter().map(move |size| (*operation, *size)));
    visits
        .enumerate()
        .map(|(index, (operation, size_bytes))| {
            let of_lap = |lap: usize| -> f64 {
                outcome.results.iter().filter_map(|share| share.rates.get(index)?.get(lap)).sum()
            };
            let mut laps: Vec<f64> = (0..LAPS as usize).map(of_lap).collect();
            laps.sort_by(f64::total_cmp);
            let bytes_per_s = laps.get(laps.len() / 2).copied().unwrap_or(0.0);
            BandwidthPoint { operation, size_bytes, bytes_per_s }
        })
        .collect()
}

fn one_thread(
    width: Width,
    arrays: &Arrays,
    number: u32,
    duration: Duration,
    context: &Context<'_>,
    muster: &Muster<'_>,
) -> Result<Share, WorkError> {
    let own = arrays
        .of_threads
        .get(number as usize)
        .ok_or_else(|| WorkError::Unfit(format!("there is no array for thread {number}")))?;
    let mut own = own.lock().unwrap_or_else(PoisonError::into_inner);
    let arena = match &mut *own {
        Some(arena) => arena,
        // Touched by the thread that uses it: its pages come from its node.
        none => none.insert(Arena::new(arrays.sizes.largest())?),
    };
    let mut rates = Vec::new();
    for operation in OPERATIONS {
        for size in &arrays.sizes.bytes {
            let Some(words) = arena.words_mut().get_mut(..size.to_usize() / 8) else { continue };
            let mut walk = Walk::new(width, operation, words);
            // Once through all of it, so that what the laps find in the caches is what a steady walk leaves there.
            walk.go_around(&|| context.bounds.check())?;
            let mut laps = Vec::new();
            for _ in 0..LAPS {
                muster.wait()?;
                laps.push(walk.lap(duration / LAPS));
            }
            rates.push(laps);
        }
    }
    Ok(Share { rates, huge_pages: arena.huge_pages() })
}

/// Goes round and round through an array, piece by piece.
struct Walk<'a> {
    width: Width,
    operation: MemoryOperation,
    /// What is read, written, or copied to; for a copy the other half is the source.
    words: &'a mut [u64],
    source: &'a [u64],
    place: usize,
    value: u64,
}

impl<'a> Walk<'a> {
    fn new(width: Width, operation: MemoryOperation, words: &'a mut [u64]) -> Self {
        let half = if operation == MemoryOperation::Copy { words.len() / 2 } else { 0 };
        let (source, words) = words.split_at_mut(half);
        Self { width, operation, words, source, place: 0, value: 0 }
    }

    /// One piece; returns the bytes that moved.
    fn step(&mut self) -> u64 {
        let end = (self.place + WORDS_PER_READ).min(self.words.len());
        let piece = self.place..end;
        self.place = if end == self.words.len() { 0 } else { end };
        let bytes = piece.len() as u64 * 8;
        match (self.operation, self.words.get_mut(piece.clone())) {
            (MemoryOperation::Read, Some(words)) => self.width.read(words),
            (MemoryOperation::Write, Some(words)) => {
                self.value = self.value.wrapping_add(1);
                self.width.write(words, self.value);
            }
            (MemoryOperation::Copy, Some(words)) => {
                self.width.copy(self.source.get(piece).unwrap_or(&[]), words);
                return 2 * bytes;
            }
            (_, None) => {}
        }
        bytes
    }

    fn go_around(&mut self, check: &dyn Fn() -> Result<(), WorkError>) -> Result<(), WorkError> {
        loop {
            self.step();
            if self.place == 0 {
                return check();
            }
            check()?;
        }
    }

    /// Bytes per second over at least this time.
    fn lap(&mut self, duration: Duration) -> f64 {
        // Small arrays are passed often enough between two reads of the clock to hide its cost.
        let steps = (WORDS_PER_READ / self.words.len().max(1)).max(1);
        let begin = Instant::now();
        let mut bytes = 0;
        loop {
            for _ in 0..steps {
                bytes += self.step();
            }
            let took = begin.elapsed();
            if took >= duration {
                return bytes as f64 / Nanos::from_duration(took).as_secs_f64().max(1e-9);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_counts_what_it_moves() {
        let mut words = vec![3; 2 * WORDS_PER_READ + 100];
        let bytes = words.len() as u64 * 8;
        for (operation, counted) in [(MemoryOperation::Read, bytes), (MemoryOperation::Write, bytes)] {
            let mut walk = Walk::new(Width::widest(), operation, &mut words);
            assert_eq!((0..3).map(|_| walk.step()).sum::<u64>(), counted);
            assert_eq!(walk.place, 0, "three pieces are once around");
        }
        assert!(words.iter().all(|word| (1..=3).contains(word)), "every word was written");
        words.iter_mut().zip(0..).for_each(|(word, value)| *word = value);
        let half = words.len() / 2;
        let mut walk = Walk::new(Width::widest(), MemoryOperation::Copy, &mut words);
        assert_eq!((0..2).map(|_| walk.step()).sum::<u64>(), bytes);
        assert_eq!(words[..half], words[half..]);
    }
}
