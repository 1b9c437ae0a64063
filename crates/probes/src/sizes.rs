//! Which array sizes the memory probes visit: a geometric row up to beyond the last-level cache, but never more than
//! a quarter of the memory that is left.

use crate::machine::{available_memory, last_level_cache};
use units::facts::MachineFacts;
use units::{Bytes, Kibibytes, Mebibytes};

/// Last-level cache when the machine does not say.
const ASSUMED_CACHE: Bytes = Bytes::from_bytes(32 << 20);
/// Most that an unset array size may ask for.
const MOST_ARRAY: u64 = 512 << 20;
/// Largest array where nobody says how large the last-level cache is.
const WITHOUT_CACHE_SIZE: u64 = 64 << 20;
/// Sizes from here on are whole pages.
const PAGE: u64 = 4096;
/// Sizes below are whole blocks of this, so that every kind of access divides them.
const BLOCK: u64 = 128;

/// What the user asked for.
#[derive(Debug, Clone, Copy)]
pub struct Wanted {
    /// Smallest array.
    pub least: Kibibytes,
    /// Largest array, if said.
    pub most: Option<Mebibytes>,
    /// Sizes per doubling.
    pub steps_per_octave: u32,
    /// Arrays of that size at once.
    pub arrays: u32,
}

/// What the machine says.
#[derive(Debug, Clone, Copy)]
pub struct Given {
    /// Last-level cache.
    pub cache: Option<Bytes>,
    /// Memory that is left.
    pub memory: Option<Bytes>,
}

impl Given {
    /// Asks the machine.
    pub fn here() -> Self {
        Self { cache: last_level_cache(), memory: available_memory() }
    }
}

/// The sizes to visit.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sizes {
    /// Ascending; at least one.
    pub bytes: Vec<Bytes>,
    /// What the reader should know.
    pub notes: Vec<String>,
}

impl Sizes {
    /// Plans the row.
    pub fn plan(wanted: Wanted, given: Given) -> Self {
        let mut notes = Vec::new();
        let asked = wanted.most.map(|most| most.to_bytes().get());
        let beyond = given.cache.map(|cache| cache.get().saturating_mul(2));
        if beyond.is_none() {
            notes.push("the size of the last-level cache is not known here".to_owned());
        }
        let mut most = asked.or(beyond).unwrap_or(WITHOUT_CACHE_SIZE);
        let quarter =
            given.memory.map_or(u64::MAX, |memory| memory.get() / 4 / u64::from(wanted.arrays.max(1)));
        if most > quarter {
            notes.push(format!(
                "the largest array is {} instead of {}: at most a quarter of the memory left is taken",
                Bytes::from_bytes(quarter),
                Bytes::from_bytes(most)
            ));
            most = quarter;
        }
        if given.cache.is_some_and(|cache| most <= cache.get()) {
            notes.push("not beyond the last-level cache: the largest plateau is not memory".to_owned());
        }
        Self { bytes: row(wanted.least.to_bytes().get(), most, wanted.steps_per_octave), notes }
    }

    /// The largest.
    pub fn largest(&self) -> Bytes {
        self.bytes.last().copied().unwrap_or_default()
    }
}

/// `least · 2^(k / steps)` for all k up to `most`, then `most` itself.
fn row(least: u64, most: u64, steps: u32) -> Vec<Bytes> {
    let steps = steps.max(1);
    let (least, most) = (whole(least), whole(most.max(least)));
    let mut sizes: Vec<u64> = (0..64 * steps)
        .map(|step| {
            let within = f64::from(step % steps) / f64::from(steps);
            let octave = u64::try_from(1_u128 << (step / steps)).unwrap_or(u64::MAX);
            whole(scaled(least, within.exp2()).saturating_mul(octave))
        })
        .take_while(|size| *size < most)
        .collect();
    sizes.push(most);
    sizes.dedup();
    sizes.into_iter().map(Bytes::from_bytes).collect()
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the factor is between 1 and 2")]
fn scaled(size: u64, factor: f64) -> u64 {
    (size as f64 * factor) as u64
}

fn whole(size: u64) -> u64 {
    let unit = if size >= PAGE { PAGE } else { BLOCK };
    (size / unit * unit).max(BLOCK)
}

/// Array sizes of a memory probe, before it is known what memory is left.
pub struct Arrays {
    largest: u64,
    /// How many there are.
    pub count: f64,
    steps_per_octave: u32,
}

impl Arrays {
    /// Those of these parameters.
    pub fn of(
        least: Kibibytes,
        most: Option<Mebibytes>,
        steps_per_octave: u32,
        facts: &MachineFacts,
    ) -> Self {
        let largest = largest_array(most, facts);
        let octaves = (largest / least.to_bytes().get().max(1)).max(1).ilog2() + 1;
        Self { largest, count: f64::from(octaves * steps_per_octave + 1), steps_per_octave }
    }

    /// Sum over all sizes: a geometric series, twice the largest for one step per doubling.
    pub fn total_bytes(&self) -> f64 {
        self.largest as f64 * (f64::from(self.steps_per_octave) + 1.0)
    }
}

/// The largest array of a memory probe: as set, else twice the last-level cache.
pub fn largest_array(most: Option<Mebibytes>, facts: &MachineFacts) -> u64 {
    let cache = facts.last_level_cache_bytes.unwrap_or(ASSUMED_CACHE).get();
    most.map_or(cache.saturating_mul(2).min(MOST_ARRAY), |most| most.to_bytes().get())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(most: Option<u64>, steps: u32) -> Wanted {
        Wanted {
            least: Kibibytes::from_kib(4),
            most: most.map(Mebibytes::from_mib),
            steps_per_octave: steps,
            arrays: 1,
        }
    }

    fn given(cache_mib: Option<u64>, memory_mib: Option<u64>) -> Given {
        let bytes = |mib: Option<u64>| mib.map(|mib| Mebibytes::from_mib(mib).to_bytes());
        Given { cache: bytes(cache_mib), memory: bytes(memory_mib) }
    }

    #[test]
    fn the_row_doubles_and_ends_at_twice_the_cache() {
        let sizes = Sizes::plan(wanted(None, 1), given(Some(3), Some(4096)));
        let kib: Vec<u64> = sizes.bytes.iter().map(|size| size.get() / 1024).collect();
        assert_eq!(kib, [4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 6144]);
        assert!(sizes.notes.is_empty(), "{:?}", sizes.notes);
    }

    #[test]
    fn steps_lie_between_the_doublings() {
        let sizes = Sizes::plan(wanted(Some(1), 2), given(None, None));
        // Nine doublings and eight between them, of which 5.6 KiB and 11.3 KiB are no new number of whole pages.
        assert_eq!(sizes.bytes.len(), 9 + 8 - 2, "{:?}", sizes.bytes);
        assert!(sizes.bytes.windows(2).all(|pair| pair[0] < pair[1]));
        assert_eq!(sizes.largest(), Mebibytes::from_mib(1).to_bytes());
    }

    #[test]
    fn little_memory_caps_the_row_and_says_so() {
        let sizes = Sizes::plan(wanted(None, 1), given(Some(480), Some(1024)));
        assert_eq!(sizes.largest(), Mebibytes::from_mib(256).to_bytes());
        assert_eq!(sizes.notes.len(), 2, "{:?}", sizes.notes);
        assert!(sizes.notes[1].contains("not beyond the last-level cache"));
    }
}
