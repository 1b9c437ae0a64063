//! How quick is a mapping, beside ordinary memory? A mapping that is not cached takes a trip to memory, or to the device,
//! for each load.
//!
//! A piece of 16 KiB, which every first-level cache holds, is walked through: by loads of which each says where the next
//! one is, by loads of word after word, and by stores. Both memories are walked by the same code, one right after the
//! other, in changing order.

use std::time::Instant;

use channel::Memory;

use super::exchange::nanos;
use super::way::open;
use model::channel_worker::{AccessTimes, MOST_REPEATS, MappingOrder, MappingTimes, Totals};
use units::Reason;

/// Words that are walked through; a power of two.
const WORDS: usize = 2048;
/// Step of the walk of dependent loads: odd, so that it meets every word, and further than a cache line.
const STRIDE: usize = 681;
/// Accesses of one kind.
const ACCESSES: usize = 20_000;

/// Measures a mapping as often as asked.
///
/// # Errors
/// When it cannot be mapped or is too small.
pub fn measure(order: &MappingOrder) -> Result<Vec<MappingTimes>, Reason> {
    let mapping = match &order.path {
        Some(path) => open(path, order.writable)?,
        None => Memory::sealed("mapping", WORDS as u64 * 8).map_err(|error| error.to_string())?,
    };
    if mapping.bytes() < WORDS as u64 * 8 {
        return Err(format!("{}: wanted {} bytes, got {}", mapping.name(), WORDS * 8, mapping.bytes()).into());
    }
    let ordinary = Memory::heap(WORDS * 8);
    let repeat = |number: u32| {
        if number.is_multiple_of(2) {
            let mapping = walk(&mapping);
            MappingTimes { mapping, ordinary: walk(&ordinary) }
        } else {
            let ordinary = walk(&ordinary);
            MappingTimes { mapping: walk(&mapping), ordinary }
        }
    };
    // The first time pages, caches and translated code are still to come.
    repeat(0);
    Ok((0..order.repeats.min(MOST_REPEATS)).map(repeat).collect())
}

fn walk(memory: &Memory) -> AccessTimes {
    let stores = if memory.is_writable() { stores(memory) } else { Totals::default() };
    AccessTimes { dependent: dependent(memory), loads: loads(memory), stores }
}

/// Leaves a walk for the dependent loads, of readers, too.
fn stores(memory: &Memory) -> Totals {
    let began = Instant::now();
    for access in 0..ACCESSES {
        let at = access % WORDS;
        memory.set_word(at, ((at + STRIDE) % WORDS) as u64);
    }
    timed(began)
}

fn dependent(memory: &Memory) -> Totals {
    let mut at = 0;
    let began = Instant::now();
    for _ in 0..ACCESSES {
        // Whatever stands there leads to a word of the piece.
        let next = memory.word(at).unwrap_or_default();
        at = usize::try_from(next).unwrap_or_default() % WORDS;
    }
    std::hint::black_box(at);
    timed(began)
}

fn loads(memory: &Memory) -> Totals {
    let mut sum = 0_u64;
    let began = Instant::now();
    for access in 0..ACCESSES {
        sum = sum.wrapping_add(memory.word(access % WORDS).unwrap_or_default());
    }
    std::hint::black_box(sum);
    timed(began)
}

fn timed(began: Instant) -> Totals {
    Totals { count: ACCESSES as u64, ns: nanos(began.elapsed()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_walk_meets_every_word() {
        let mut met = vec![false; WORDS];
        let mut at = 0;
        for _ in 0..WORDS {
            met[at] = true;
            at = (at + STRIDE) % WORDS;
        }
        assert!(met.into_iter().all(|met| met));
    }

    #[test]
    fn shared_memory_is_measured_and_what_is_too_small_is_refused() {
        let mut order = MappingOrder { number: 0, path: None, writable: true, repeats: 3, cpu: None };
        let times = measure(&order).unwrap();
        assert_eq!(times.len(), 3);
        assert!(times.iter().all(|times| times.mapping.stores.each_ns().is_some()));
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(4096).unwrap();
        order.path = Some(file.path().to_owned());
        assert!(measure(&order).unwrap_err().to_string().contains("wanted"));
    }
}
