//! Rounds: in each, every comparison once, ours and theirs one after the other, in random order, or at once.

use std::path::{Path, PathBuf};

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::table::{Failed, Row};
use crate::verdict::FEW_FAILED;

/// Where things lie.
#[derive(Debug)]
pub struct World {
    /// On the disk that is measured.
    pub scratch: PathBuf,
    /// For the tools' own files.
    pub folder: tempfile::TempDir,
}

impl World {
    /// The folder for the tools' own files.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }
}

/// Our figures and theirs, one per row, or why there are none.
pub type Both = Result<(Vec<f64>, Vec<f64>), String>;

/// A tool beside one or more of our probes. Both sides yield a figure per row.
pub trait Check {
    /// Its name, by which it can be chosen.
    fn name(&self) -> &'static str;
    /// What is compared.
    fn rows(&self) -> Vec<Row>;
    /// Runs the tool.
    fn theirs(&mut self, world: &World) -> Result<Vec<f64>, String>;
    /// Runs our probes.
    fn ours(&mut self, world: &World) -> Result<Vec<f64>, String>;
    /// Runs both at the same time, where that is possible without one taking from the other: what happens to the machine
    /// meanwhile then happens to both.
    fn at_once(&mut self, _world: &World) -> Option<Both> {
        None
    }
    /// How many pairs it makes in a round: several where they are short and scatter.
    fn pairs_per_round(&self) -> u32 {
        1
    }
    /// What else was seen, for the lines below its rows.
    fn remarks(&self) -> Vec<String> {
        Vec::new()
    }
}

/// What became of a check.
pub struct Outcome {
    pub check: Box<dyn Check>,
    /// Per row its `(ours, theirs)`.
    pub pairs: Vec<Vec<(f64, f64)>>,
    /// What went wrong.
    pub failed: Failed,
}

/// Runs all rounds; `say` hears what happens.
pub fn run(
    checks: Vec<Box<dyn Check>>,
    rounds: u32,
    world: &World,
    say: &mut dyn FnMut(&str),
) -> Vec<Outcome> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(std::process::id().into());
    let mut outcomes: Vec<Outcome> = checks
        .into_iter()
        .map(|check| {
            let pairs = check.rows().iter().map(|_| Vec::new()).collect();
            Outcome { check, pairs, failed: Failed::default() }
        })
        .collect();
    for round in 1..=rounds {
        // With more failures than a few nothing is decided any more, however many pairs there are.
        for outcome in outcomes.iter_mut().filter(|outcome| outcome.failed.pairs as usize <= FEW_FAILED) {
            say(&format!("round {round} of {rounds}: {}", outcome.check.name()));
            for _ in 0..outcome.check.pairs_per_round() {
                outcome.measure(world, random.random());
            }
        }
    }
    outcomes
}

impl Outcome {
    fn measure(&mut self, world: &World, ours_first: bool) {
        let both = if let Some(both) = self.check.at_once(world) {
            both
        } else if ours_first {
            self.check.ours(world).and_then(|ours| Ok((ours, self.check.theirs(world)?)))
        } else {
            self.check.theirs(world).and_then(|theirs| Ok((self.check.ours(world)?, theirs)))
        };
        match both {
            Ok((ours, theirs)) => {
                for (pairs, pair) in self.pairs.iter_mut().zip(ours.into_iter().zip(theirs)) {
                    pairs.push(pair);
                }
            }
            Err(reason) => {
                self.failed.pairs += 1;
                self.failed.last = Some(reason);
            }
        }
    }
}
