//! Randomness that is passed in: one stream per user, so that adding a user does not change what the others draw.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A stream of random numbers.
#[derive(Debug, Clone)]
pub struct Stream(Xoshiro256PlusPlus);

/// The seed of the stream with these numbers: the mixing of `SplitMix64` (Steele, Lea, Flood 2014) over all of them.
fn mixed(seed: u64, path: &[u64]) -> u64 {
    path.iter().fold(seed, |state, part| {
        let mut z = state ^ part.wrapping_add(0x9e37_79b9_7f4a_7c15).wrapping_mul(0xd134_2543_de82_ef95);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    })
}

impl Stream {
    /// The stream that belongs to `path` (kind, VM, thread …) under `seed`.
    pub fn new(seed: u64, path: &[u64]) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(mixed(seed, path)))
    }

    /// A seed of its own for something below.
    pub fn seed(&mut self) -> u64 {
        self.0.random()
    }

    /// Uniform from 0 (included) to 1 (excluded).
    pub fn unit(&mut self) -> f64 {
        self.0.random()
    }

    /// Uniform from 0 to `end` − 1; 0 for an `end` of 0.
    pub fn below(&mut self, end: u64) -> u64 {
        if end == 0 { 0 } else { self.0.random_range(0..end) }
    }

    /// Exponential with this mean.
    pub fn exponential(&mut self, mean: f64) -> f64 {
        // 1 − unit lies in (0, 1], so the logarithm is finite.
        -mean * (1.0 - self.unit()).ln()
    }

    /// Pareto with this least value and shape.
    pub fn pareto(&mut self, least: f64, shape: f64) -> f64 {
        least * (1.0 - self.unit()).powf(-1.0 / shape)
    }
}

/// A stream that is made when it is first drawn from: who never draws keeps eight bytes for it.
#[derive(Debug)]
pub struct Draw<'a> {
    stream: &'a mut Option<Box<Stream>>,
    seed: u64,
    path: [u64; 2],
}

impl<'a> Draw<'a> {
    /// From what is kept of the stream that belongs to `path` under `seed`.
    pub const fn new(stream: &'a mut Option<Box<Stream>>, seed: u64, path: [u64; 2]) -> Self {
        Self { stream, seed, path }
    }

    /// The stream.
    pub fn stream(self) -> &'a mut Stream {
        self.stream.get_or_insert_with(|| Box::new(Stream::new(self.seed, &self.path)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_that_is_made_later_is_the_same_and_goes_on() {
        let mut kept = None;
        let mut draw = || Draw::new(&mut kept, 7, [1, 2]).stream().seed();
        let drawn = [draw(), draw()];
        let mut stream = Stream::new(7, &[1, 2]);
        assert_eq!(drawn, [stream.seed(), stream.seed()]);
    }

    #[test]
    fn streams_are_their_own_and_have_the_right_means() {
        let draw = |path: &[u64]| Stream::new(7, path).seed();
        assert_eq!(draw(&[1, 2]), draw(&[1, 2]));
        assert!(draw(&[1, 2]) != draw(&[2, 1]) && draw(&[1]) != draw(&[1, 0]) && draw(&[]) != draw(&[0]));
        let mut stream = Stream::new(1, &[]);
        let count = 200_000;
        let mean = |values: Vec<f64>| values.iter().sum::<f64>() / values.len() as f64;
        let exponential = mean((0..count).map(|_| stream.exponential(3.0)).collect());
        assert!((exponential - 3.0).abs() < 5.0 * 3.0 / f64::from(count).sqrt(), "{exponential}");
        let pareto = mean((0..count).map(|_| stream.pareto(1.0, 4.0)).collect());
        assert!((pareto - 4.0 / 3.0).abs() < 0.01, "{pareto}");
        assert!((0..1000).all(|_| stream.below(3) < 3) && stream.below(0) == 0);
    }
}
