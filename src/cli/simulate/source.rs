//! Where a scenario comes from, and what the command line changes in it. What is wrong is told with file and line.

use std::path::{Path, PathBuf};

use anyhow::{anyhow, bail};
use toml::{Table, Value};

use crate::cli::args::SimulateArgs;
use crate::cli::file;
use campaign::{read_results, read_shares};
use model::scenario::{Case, Impossible, MAX_BYTES, Scenario, ScenarioError, cases, line_of};
use sim;
use sim::scenario::{Changes, Options, Study, Yields, shipped as files};

/// Cases that are listed where a wrong one was asked for.
const LABELS_MOST: usize = 12;

/// What a scenario that was estimated from a run is called in messages, as `--out` writes it.
const SCENARIO_OF_RUN: &str = "scenario.toml";

/// A scenario's text and what it is called in messages.
pub(super) struct Source {
    name: String,
    /// As given.
    pub(super) text: String,
}

impl Source {
    /// A shipped scenario by name, or a file.
    pub(super) fn load(name: &str) -> anyhow::Result<Self> {
        let looks_like_file =
            name.contains('/') || Path::new(name).extension().is_some() || Path::new(name).is_file();
        let text = if looks_like_file {
            file::read("scenario ", Path::new(name), MAX_BYTES)?
        } else {
            let shipped = files::text(name);
            shipped.map_err(|unknown| anyhow!("{unknown}; or give the path of a TOML file"))?.to_owned()
        };
        Ok(Self { name: name.to_owned(), text })
    }

    /// The scenario whose parameters are estimated from a measured run.
    pub(super) fn calibrated(run: &Path, wanted: sim::calibrate::Wanted) -> anyhow::Result<Self> {
        let measured = read_results(run)?;
        if measured.simulation.is_some() {
            bail!(
                "{}: it was simulated, so there is nothing to estimate; wanted a measured run",
                run.display()
            );
        }
        let rounds = read_shares(run)?;
        let text = sim::calibrate::calibrate(&measured, &rounds, wanted);
        let text = text.map_err(|why| anyhow!("{}: {why}", run.display()))?;
        Ok(Self { name: SCENARIO_OF_RUN.to_owned(), text })
    }

    /// What it is called in messages.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Where files lie that it names: beside it, or here for a shipped one.
    pub(super) fn folder(&self) -> PathBuf {
        Path::new(&self.name).parent().map(Path::to_owned).unwrap_or_default()
    }

    /// The cases with what the command line changes, ready to be simulated.
    pub(super) fn study(&self, args: &SimulateArgs, stretches: usize) -> anyhow::Result<Study> {
        let overrides = args.set.iter().map(|text| assignment(text)).collect::<anyhow::Result<Vec<_>>>()?;
        let told = |error: ScenarioError| anyhow!("{}: {error}", self.name);
        let mut cases = cases(&self.text, &overrides).map_err(told)?;
        for case in &mut cases {
            let Scenario { seed, replications, .. } = &mut case.scenario;
            *seed = args.seed.unwrap_or(*seed);
            *replications = args.replications.unwrap_or(*replications);
            case.scenario
                .check()
                .map_err(|Impossible { problem, .. }| anyhow!("--replications: {problem}"))?;
        }
        let watched = watched(&cases, &args.case)?;
        check_patterns(&args.figure, &Yields::of(cases.iter().map(|case| &case.scenario)))?;
        let may_miss = !overrides.is_empty();
        let changes = if args.no_sensitivity { Changes::None } else { Changes::All };
        let options = Options { stretches, may_miss, watched, changes };
        Study::new(cases, options).map_err(|error| {
            told(ScenarioError { line: line_of(&self.text, &error.path), problem: error.to_string() })
        })
    }
}

/// Number of the one case that `--case` names; the first unless it is given.
fn watched(cases: &[Case], asked: &[String]) -> anyhow::Result<usize> {
    let there_are = || {
        let labels = cases.iter().take(LABELS_MOST).map(|case| format!("\"{}\"", case.label));
        let labels = labels.collect::<Vec<_>>().join(", ");
        match cases.len().saturating_sub(LABELS_MOST) {
            0 => format!("there are {labels}"),
            more => format!("there are {labels} and {more} more"),
        }
    };
    match asked {
        [] => Ok(0),
        [label] => {
            let found = cases.iter().position(|case| case.label == *label);
            found.ok_or_else(|| anyhow!("--case {label}: there is no such case; {}", there_are()))
        }
        several => bail!(
            "--case is given {} times ({}); wanted once, because one case is looked at; {}",
            several.len(),
            several.join("; "),
            there_are()
        ),
    }
}

/// `PATH=VALUE`; what is no TOML value is text.
fn assignment(text: &str) -> anyhow::Result<(String, Value)> {
    let Some((path, value)) = text.split_once('=').filter(|(path, _)| !path.trim().is_empty()) else {
        bail!("--set {text}: wanted PATH=VALUE, host.policy.quantum_us=1000 for example");
    };
    let parsed = format!("value = {value}").parse::<Table>().ok().and_then(|mut table| table.remove("value"));
    let value = parsed.unwrap_or_else(|| Value::String(value.trim().to_owned()));
    Ok((path.trim().to_owned(), value))
}

/// Name and meaning of every shipped scenario.
pub(super) fn shipped() -> anyhow::Result<Vec<(String, String)>> {
    let about = |name: &str| -> anyhow::Result<(String, String)> {
        let table: Table = files::text(name)?.parse()?;
        let about = table.get("about").and_then(Value::as_str).unwrap_or_default();
        Ok((name.to_owned(), about.to_owned()))
    };
    files::names().map(about).collect()
}

/// Refuses patterns of `--figure` that fit no figure.
fn check_patterns(patterns: &[String], yields: &Yields<'_>) -> anyhow::Result<()> {
    patterns.iter().try_for_each(|pattern| {
        yields.have(pattern).map_err(|why| anyhow!("--figure {pattern}: no case yields such a figure; {why}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_toml_or_text() {
        for (text, path, value) in [
            ("host.cpus=4", "host.cpus", Value::Integer(4)),
            ("vm.A.weight=2.0", "vm.A.weight", Value::Float(2.0)),
            ("vm.A.cpus=[0, 1]", "vm.A.cpus", Value::Array(vec![Value::Integer(0), Value::Integer(1)])),
            ("host.policy.name=per-thread", "host.policy.name", Value::String("per-thread".to_owned())),
            (" name = \"a=b\" ", "name", Value::String("a=b".to_owned())),
        ] {
            assert_eq!(assignment(text).unwrap(), (path.to_owned(), value), "{text}");
        }
        for wrong in ["host.cpus", "=4", ""] {
            assert!(assignment(wrong).unwrap_err().to_string().contains("wanted PATH=VALUE"), "{wrong}");
        }
    }
}
