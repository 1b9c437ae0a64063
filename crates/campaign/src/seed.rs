//! Seeds made from the run's one seed: each thing that is drawn gets its own, from what it is and not from when it
//! is drawn. So the order of a round, the data of a job and the resamples of an interval are the same after a resume.
//!
//! Mixing is the finalizer of `SplitMix64` (Steele, Lea, Flood 2014).

use model::journal::Cell;

/// A seed in the making.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seed(u64);

impl Seed {
    /// Starts from the seed of the run.
    pub(super) const fn of_run(seed: u64) -> Self {
        Self(seed)
    }

    /// Mixes a number in.
    #[must_use]
    pub(super) const fn with(self, value: u64) -> Self {
        let mut z = (self.0 ^ value.rotate_left(32)).wrapping_add(0x9E37_79B9_7F4A_7C15);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        Self(z ^ (z >> 31))
    }

    /// Mixes a text in.
    #[must_use]
    pub(super) fn with_text(self, text: &str) -> Self {
        text.bytes().fold(self.with(text.len() as u64), |seed, byte| seed.with(u64::from(byte)))
    }

    /// Mixes probe, neighbour and layout in, but not the platform: paired measurements work on the same data.
    #[must_use]
    pub(super) fn with_group(self, cell: &Cell) -> Self {
        let seed = self.with_text(cell.probe.as_str());
        let seed = cell.layout.map_or(seed, |layout| seed.with_text(&layout.to_string()));
        match cell.neighbour {
            None => seed,
            Some(neighbour) => seed.with_text(neighbour.kind.as_str()).with_text(neighbour.place.as_str()),
        }
    }

    /// The seed.
    pub(super) const fn get(self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_mixed_in_and_in_which_order_matters() {
        let run = Seed::of_run(7);
        let seeds = [
            run.get(),
            run.with(0).get(),
            run.with(1).get(),
            run.with(0).with(1).get(),
            run.with(1).with(0).get(),
            run.with_text("ab").get(),
            run.with_text("ba").get(),
            run.with_text("a").with_text("b").get(),
            Seed::of_run(8).with(0).get(),
        ];
        let distinct: std::collections::BTreeSet<u64> = seeds.into_iter().collect();
        assert_eq!(distinct.len(), seeds.len());
    }
}
