//! Sources for the compile job: functions of a tree of real source text that this binary carries (`tree.txt`: 371 functions
//! of this program as it was in November 2026, kept as they are, because another text would be another job). Which of them
//! a file holds follows from the seed. They are compiled, never run.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// What the functions of a file are chosen from.
const TREE: &str = include_str!("tree.txt");
/// Ends a function, and nothing else does: what is inside is indented.
const END: &str = "\n}\n";

/// All sources of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sources {
    /// Files.
    pub files: u32,
    /// Functions in each of them.
    pub functions: u32,
    /// All of it follows from this.
    pub seed: u64,
}

impl Sources {
    /// The text of a file.
    pub fn file(self, number: u32) -> String {
        let tree: Vec<&str> = TREE.split_inclusive(END).collect();
        let seed = self.seed ^ u64::from(number).wrapping_mul(0xd1b5_4a32_d192_ed03);
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        (0..self.functions).filter_map(|_| tree.get(random.random_range(0..tree.len())).copied()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::compile::compile;
    use super::*;

    #[test]
    fn sources_follow_from_their_seed() {
        let sources = Sources { files: 2, functions: 3, seed: 7 };
        assert_eq!(sources.file(1), sources.file(1));
        assert_ne!(sources.file(0), sources.file(1));
        assert_ne!(sources.file(0), Sources { seed: 8, ..sources }.file(0));
        assert_eq!(sources.file(1).matches(END).count(), 3);
    }

    #[test]
    fn every_function_of_the_tree_compiles() {
        let functions: Vec<&str> = TREE.split_inclusive(END).collect();
        assert_eq!(functions.len(), 371);
        for function in functions {
            compile(function).unwrap_or_else(|wrong| panic!("{wrong}:\n{function}"));
        }
    }
}
