//! What `--report` writes: asked, given, what differs, how it ended.

use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::cli::output;
use model::partition::{
    CardSpec, Content, Difference, DiskSpec, Given, LayerSpec, PartitionSpec, Resources, Victim,
};
use partition::place::differences;
use partition::run::{Event, Outcome};
use units::Nanos;

/// What is known of a partition by its events.
#[derive(Debug, Default, Clone, Serialize)]
pub struct Seen {
    engine: Option<&'static str>,
    guest_cpus: Option<u32>,
    guest_memory_bytes: Option<u64>,
    guest_free_bytes: Option<u64>,
    start_ns: Option<Nanos>,
    /// Its guest was made from a saved machine.
    restored: bool,
    /// Why it was not, or could not be saved for others.
    not_restored: Vec<String>,
    given: Option<Given>,
    /// Who was killed because memory had run out.
    #[serde(rename = "memory_ran_out")]
    starved: Option<Victim>,
}

#[derive(Debug, Serialize)]
struct Report<'a> {
    asked: Asked<'a>,
    #[serde(flatten)]
    seen: &'a Seen,
    differences: Vec<Difference>,
    code: u8,
    failure: Option<&'a str>,
    console: &'a [String],
}

#[derive(Debug, Serialize)]
struct Asked<'a> {
    resources: &'a Resources,
    disks: &'a [DiskSpec],
    cards: &'a [CardSpec],
    save: Option<&'a LayerSpec>,
}

impl Seen {
    /// Takes note of an event, `since` the command was started.
    pub fn note(&mut self, event: &Event, since: Duration) {
        match event {
            Event::Created { engine, .. } => self.engine = Some(engine),
            Event::Restored => self.restored = true,
            Event::NotRestored { why } => self.not_restored.push(why.clone()),
            Event::Placed(given) => self.given = Some((**given).clone()),
            Event::Booted { cpus, memory_bytes, free_bytes } => {
                self.guest_cpus = Some(*cpus);
                self.guest_memory_bytes = Some(*memory_bytes);
                self.guest_free_bytes = Some(*free_bytes);
            }
            Event::Started => self.start_ns = Some(Nanos::from_duration(since)),
            // As it is said.
            Event::MemoryRanOut(victim) => _ = self.starved.get_or_insert_with(|| victim.clone()),
            Event::Trying | Event::Delivers | Event::Passed { .. } | Event::Unwritable { .. } => {}
        }
    }

    /// Whether memory ran out.
    pub const fn ran_out(&self) -> bool {
        self.starved.is_some()
    }

    /// Writes the report to a file that was opened before, or to stderr.
    pub fn write(
        &self,
        to: Option<&mut File>,
        spec: &PartitionSpec,
        outcome: &Outcome,
        code: u8,
    ) -> Result<()> {
        let (failure, console) = match outcome {
            Outcome::Ended(_) => (None, [].as_slice()),
            Outcome::Failed(failed) => (Some(failed.reason.as_str()), failed.console.as_slice()),
        };
        let save = match &spec.content {
            Content::Program(program) => program.layer.as_ref(),
            Content::Image => None,
        };
        let asked = Asked { resources: &spec.resources, disks: &spec.disks, cards: &spec.cards, save };
        let given = self.given.as_ref();
        let differences =
            given.map(|given| differences(&spec.resources, &spec.disks, given)).unwrap_or_default();
        let report = Report { asked, seen: self, differences, code, failure, console };
        let text = serde_json::to_string_pretty(&report)?;
        let Some(file) = to else {
            output::say(&text);
            return Ok(());
        };
        writeln!(file, "{text}").context("writing the report")
    }
}

/// Opens the file of the report; none for `-`. Before there is a program: it may open the folder for itself, and put a link
/// in the file's place.
pub fn open(to: &Path) -> Result<Option<File>> {
    if to == Path::new("-") {
        return Ok(None);
    }
    File::create(to).map(Some).with_context(|| format!("the report {}", to.display()))
}
