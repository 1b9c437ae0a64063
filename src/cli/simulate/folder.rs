//! The folder of a simulated scenario. Like a run's directory, but without a journal: a simulation can be made again.
//!
//! ```text
//!  DIR/scenario.toml   as given; how it was called stands in its last line
//!      results.json    ┐ written whole or not at all: NAME.partial, then renamed. Nothing in them says when or on how many threads:
//!      report.html     │ the same seed gives the same bytes
//!      trace.json      │ only where something ran on CPUs
//!      noise/…         ┘ copies of the recorded noise that the scenario names: see `traces`
//! ```

use std::fs;
use std::io::Write;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use nix::fcntl::OFlag;

use super::traces;
use crate::cli::args::SimulateArgs;
use campaign::rundir;
use model::results::RunResults;
use model::simulation::{Simulation, TimeLine};
use platforms::own_folder::{Others, OwnFolder, folder_of_anybody, held_name, own_file};
use report::{page, trace_events};
use sim;

pub(super) use rundir::REPORT_FILE;

const SCENARIO_FILE: &str = "scenario.toml";
const TRACE_FILE: &str = "trace.json";
/// How the line begins that says how a scenario was called.
const CALL: &str = "# bulkhead simulate scenario.toml";

/// A folder that was empty.
pub(super) struct Folder(PathBuf);

/// Makes the folder; one that holds something is refused.
pub(super) fn make(path: &Path) -> anyhow::Result<Folder> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.with_context(|| format!("--out {} cannot be made", path.display()))?;
    let folder = folder_of_anybody(path).context("--out")?;
    let mut entries = fs::read_dir(held_name(&folder))
        .with_context(|| format!("--out {} cannot be read", path.display()))?;
    if let Some(Ok(found)) = entries.next() {
        let found = found.file_name().to_string_lossy().into_owned();
        bail!("--out {} is not empty (it has \"{found}\"): choose another", path.display());
    }
    OwnFolder::claim(folder, Others::MayLook).context("--out")?;
    Ok(Folder(path.to_owned()))
}

/// A file of the folder: its name and what it holds.
pub(super) type Content = (String, Vec<u8>);

/// Everything that belongs into the folder; no scenario where the model was taken from a run.
pub(super) fn contents(
    scenario: Option<&str>,
    simulation: &Simulation,
    traced: Option<&TimeLine>,
) -> anyhow::Result<Vec<Content>> {
    let results = sim::scenario::results(simulation, env!("CARGO_PKG_VERSION"));
    let mut contents: Vec<Content> = Vec::new();
    contents.extend(scenario.map(|text| (SCENARIO_FILE.to_owned(), text.as_bytes().to_vec())));
    contents.push((rundir::RESULTS_FILE.to_owned(), serde_json::to_vec(&results)?));
    contents.push((REPORT_FILE.to_owned(), page::html(&results).into_bytes()));
    contents.extend(traced.map(|line| (TRACE_FILE.to_owned(), trace_events::json(line).into_bytes())));
    Ok(contents)
}

/// A scenario's text with how it was called, instead of how it was called before if it comes out of such a folder.
pub(super) fn kept_scenario(text: &str, args: &SimulateArgs) -> String {
    called(text, &call(args))
}

fn called(text: &str, call: &str) -> String {
    let mut own = text.trim_end();
    while let Some(before) =
        own.rfind('\n').map(|at| own.split_at(at)).filter(|(_, last)| last.trim_start().starts_with(CALL))
    {
        own = before.0.trim_end();
    }
    format!("{own}\n{call}\n")
}

impl Folder {
    /// Writes everything; nothing stays, and the answer is no, when `is_interrupted` before the last file is there.
    pub(super) fn fill(
        &self,
        contents: &[Content],
        is_interrupted: impl Fn() -> bool,
    ) -> anyhow::Result<bool> {
        for (name, content) in contents {
            if let Some(folder) = self.0.join(name).parent() {
                fs::create_dir_all(folder).with_context(|| format!("{} cannot be made", folder.display()))?;
            }
            write(&self.0, name, content)?;
            if is_interrupted() {
                for (name, _) in contents {
                    // What was not written yet is not there.
                    let _ = fs::remove_file(self.0.join(name));
                }
                let _ = fs::remove_dir(self.0.join(traces::KEPT));
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// Writes the page of these results.
pub(super) fn write_page(dir: &Path, results: &RunResults) -> anyhow::Result<()> {
    OwnFolder::open(dir, Others::MayLook)?;
    write(dir, REPORT_FILE, page::html(results).as_bytes())
}

fn write(dir: &Path, name: &str, content: &[u8]) -> anyhow::Result<()> {
    let (partial, whole) = (dir.join(format!("{name}.partial")), dir.join(name));
    own_file(&partial, OFlag::O_CREAT | OFlag::O_WRONLY | OFlag::O_TRUNC)
        .and_then(|mut file| file.write_all(content))
        .and_then(|()| fs::rename(&partial, &whole))
        .with_context(|| format!("{} cannot be written", whole.display()))
}

/// How it was called, so that it can be called so again.
fn call(args: &SimulateArgs) -> String {
    let mut words = vec![CALL.to_owned()];
    words.extend(
        args.set
            .iter()
            .map(|set| format!("--set '{}'", set.replace('\'', "'\\''").replace(['\n', '\r'], " "))),
    );
    words.extend(args.seed.map(|seed| format!("--seed {seed}")));
    words.extend(args.replications.map(|count| format!("--replications {count}")));
    words.extend(args.no_sensitivity.then(|| "--no-sensitivity".to_owned()));
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_that_was_kept_is_kept_as_it_is() {
        let text = "name = \"x\"\n# mine\n\n";
        let once = called(text, CALL);
        assert_eq!(once, format!("name = \"x\"\n# mine\n{CALL}\n"));
        assert_eq!(called(&once, CALL), once);
        // Only how it was called last is kept, also of one to which a line was added each time.
        let set = format!("{CALL} --set 'host.cpus=2'");
        assert_eq!(called(&format!("{once}{CALL}\n\n{set}\n"), CALL), once);
        assert_eq!(called(&called(text, &set), &set), called(text, &set));
    }
}
