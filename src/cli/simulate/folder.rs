//! The folder of a simulated scenario. Like a run's directory, but without a journal: a simulation can be made again.
//!
//! ```text
//!  DIR/scenario.toml   as given; how it was called stands in its last line
//!      results.json    ┐ written whole or not at all: NAME.partial, then renamed
//!      report.html     │
//!      trace.json      ┘ only where something ran on CPUs
//! ```

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use super::source::Source;
use crate::campaign::rundir;
use crate::cli::args::SimulateArgs;
use crate::model::simulation::{Simulation, TimeLine};
use crate::report::trace_events;

pub(super) use rundir::REPORT_FILE;

const SCENARIO_FILE: &str = "scenario.toml";
const TRACE_FILE: &str = "trace.json";

/// A folder that was empty.
pub(super) struct Folder(PathBuf);

/// Makes the folder; one that holds something is refused.
pub(super) fn make(path: &Path) -> anyhow::Result<Folder> {
    fs::create_dir_all(path).with_context(|| format!("--out {} cannot be made", path.display()))?;
    let mut entries =
        fs::read_dir(path).with_context(|| format!("--out {} cannot be read", path.display()))?;
    if let Some(Ok(found)) = entries.next() {
        let found = found.file_name().to_string_lossy().into_owned();
        bail!("--out {} is not empty (it has \"{found}\"): choose another", path.display());
    }
    Ok(Folder(path.to_owned()))
}

impl Folder {
    /// Writes everything.
    pub(super) fn fill(
        &self,
        source: &Source,
        args: &SimulateArgs,
        simulation: &Simulation,
        traced: Option<&TimeLine>,
    ) -> anyhow::Result<()> {
        self.write(SCENARIO_FILE, format!("{}\n{}\n", source.text.trim_end(), call(args)).as_bytes())?;
        self.write("simulation.json", &serde_json::to_vec(simulation)?)?;
        if let Some(line) = traced {
            self.write(TRACE_FILE, trace_events::json(line).as_bytes())?;
        }
        Ok(())
    }

    fn write(&self, name: &str, content: &[u8]) -> anyhow::Result<()> {
        let (partial, whole) = (self.0.join(format!("{name}.partial")), self.0.join(name));
        fs::write(&partial, content)
            .and_then(|()| fs::rename(&partial, &whole))
            .with_context(|| format!("{} cannot be written", whole.display()))
    }
}

/// How it was called, so that it can be called so again.
fn call(args: &SimulateArgs) -> String {
    let mut words = vec!["# bulkhead simulate scenario.toml".to_owned()];
    words.extend(
        args.set
            .iter()
            .map(|set| format!("--set '{}'", set.replace('\'', "'\\''").replace(['\n', '\r'], " "))),
    );
    words.extend(args.seed.map(|seed| format!("--seed {seed}")));
    words.extend(args.replications.map(|count| format!("--replications {count}")));
    words.join(" ")
}
