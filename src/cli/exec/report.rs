//! What `--report` writes: asked, given, what differs, how it ended.

use std::io::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use serde::Serialize;

use crate::cli::output;
use crate::model::partition::{CardSpec, Difference, DiskSpec, Given, PartitionSpec, Resources};
use crate::model::units::Nanos;
use crate::partition::place::differences;
use crate::partition::run::{Event, Outcome};

/// What is known of a partition by its events.
#[derive(Debug, Default, Clone, Serialize)]
pub struct Seen {
    engine: Option<&'static str>,
    guest_cpus: Option<u32>,
    guest_memory_bytes: Option<u64>,
    guest_free_bytes: Option<u64>,
    start_ns: Option<Nanos>,
    given: Option<Given>,
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
}

impl Seen {
    /// Takes note of an event, `since` the command was started.
    pub fn note(&mut self, event: &Event, since: Duration) {
        match event {
            Event::Created { engine, .. } => self.engine = Some(engine),
            Event::Placed(given) => self.given = Some((**given).clone()),
            Event::Booted { cpus, memory_bytes, free_bytes } => {
                self.guest_cpus = Some(*cpus);
                self.guest_memory_bytes = Some(*memory_bytes);
                self.guest_free_bytes = Some(*free_bytes);
            }
            Event::Started => self.start_ns = Some(Nanos::from_duration(since)),
            Event::Trying | Event::Passed { .. } | Event::Unwritable { .. } => {}
        }
    }

    /// Writes the report to a file, or to stderr for `-`.
    pub fn write(&self, to: &Path, spec: &PartitionSpec, outcome: &Outcome, code: u8) -> Result<()> {
        let (failure, console) = match outcome {
            Outcome::Ended(_) => (None, [].as_slice()),
            Outcome::Failed(failed) => (Some(failed.reason.as_str()), failed.console.as_slice()),
        };
        let asked = Asked { resources: &spec.resources, disks: &spec.disks, cards: &spec.cards };
        let given = self.given.as_ref();
        let differences =
            given.map(|given| differences(&spec.resources, &spec.disks, given)).unwrap_or_default();
        let report = Report { asked, seen: self, differences, code, failure, console };
        let text = serde_json::to_string_pretty(&report)?;
        if to == Path::new("-") {
            output::say(&text);
            return Ok(());
        }
        let mut file = std::fs::File::create(to).with_context(|| format!("the report {}", to.display()))?;
        writeln!(file, "{text}").with_context(|| format!("the report {}", to.display()))
    }
}
