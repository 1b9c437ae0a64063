//! How far the partitions are, while they boot: on a terminal only, because what follows is the program's own output.

use indicatif::ProgressBar;

use crate::cli::output;
use model::partition::PartitionSpec;
use partition::run::Event;

/// A bar until all partitions run.
pub struct BootProgress {
    bar: Option<ProgressBar>,
    left: usize,
    ran_out: bool,
}

impl BootProgress {
    /// Begins at none.
    pub fn new(members: &[PartitionSpec]) -> Self {
        let bar = output::bar();
        if let Some(bar) = &bar {
            bar.set_length(members.len() as u64);
            bar.set_message("booting partitions");
        }
        Self { bar, left: members.len(), ran_out: false }
    }

    /// Takes an event of a partition.
    pub fn on(&mut self, number: usize, event: &Event) {
        self.ran_out |= number == 0 && matches!(event, Event::MemoryRanOut(_));
        if *event != Event::Started {
            return;
        }
        self.left = self.left.saturating_sub(1);
        self.bar.iter().for_each(|bar| bar.inc(1));
        if self.left == 0 {
            self.finish();
        }
    }

    /// Whether memory ran out in the first partition, where the launcher runs.
    pub const fn ran_out(&self) -> bool {
        self.ran_out
    }

    /// The terminal is the program's from now on.
    pub fn finish(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}
