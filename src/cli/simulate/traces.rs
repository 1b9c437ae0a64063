//! Recorded noise that a scenario names: a file of `start_ns<TAB>duration_ns` lines, a run that measured gap or fwq, or the
//! folder of a simulation, of which somebody's time away from a CPU is the noise.
//!
//! ```text
//!  nodes.noise.file ─► noise/NAME-HASH.tsv beside the scenario, if it is there ─┐
//!                  └─► else the file or the run itself ─────────────────────────┴─► trace ─► kept in --out DIR/noise
//! ```
//! So a scenario in a folder that `--out` made finds what it was simulated with, wherever it is moved and whatever becomes of
//! the original, and its text stays as it was given.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};

use super::folder::Content;
use campaign::read_results;
use model::simulation::{CaseOutcome, Simulation};
use probes::detail::Detail;
use sim::nodes::NoiseTrace;
use sim::scenario::{Study, TraceName};

/// Folder of copies.
pub(super) const KEPT: &str = "noise";
/// Letters of a trace's name that the name of its copy has.
const KEPT_LETTERS: usize = 40;
/// Cases that are listed where a wrong one was asked for.
const CASES_MOST: usize = 12;
/// Largest file that is read.
const MAX_BYTES: u64 = 256 << 20;

/// Reads all traces that the study wants; names are relative to the folder the scenario lies in.
pub(super) fn read_all(study: &mut Study, folder: &Path) -> anyhow::Result<()> {
    for name in study.wanted_traces() {
        let trace = read(&name, folder).with_context(|| format!("nodes.noise.file = \"{}\"", name.0))?;
        study.give_trace(name, trace);
    }
    Ok(())
}

/// Copies of all traces of a study, for a folder.
pub(super) fn kept(study: &Study) -> Vec<Content> {
    let copy = |(name, trace): (&TraceName, &NoiseTrace)| (kept_name(name), trace.text().into_bytes());
    study.traces().map(copy).collect()
}

/// Where a folder keeps the trace that its scenario calls so: what of the name a file name may have, and a hash of all of it.
fn kept_name((file, platform): &TraceName) -> String {
    let letters = file.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' });
    let words: String = letters.rev().take(KEPT_LETTERS).collect::<Vec<_>>().into_iter().rev().collect();
    // FNV-1a: who calls different traces the same has to want to.
    let whole = format!("{file}\0{}", platform.as_deref().unwrap_or_default());
    let hash = whole.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{KEPT}/{}-{hash:016x}.tsv", words.trim_matches('-'))
}

fn read(name: &TraceName, folder: &Path) -> anyhow::Result<NoiseTrace> {
    let (file, platform) = name;
    let kept = folder.join(kept_name(name));
    if kept.is_file() {
        return of_file(&kept);
    }
    let path: PathBuf = folder.join(file);
    if path.is_dir() {
        return of_run(&path, platform.as_deref());
    }
    if platform.is_some() {
        bail!("a platform is named, but {} is no run", path.display());
    }
    of_file(&path)
}

fn of_file(path: &Path) -> anyhow::Result<NoiseTrace> {
    let mut text = String::new();
    let file = File::open(path).with_context(|| format!("{} cannot be opened", path.display()))?;
    let length = file.take(MAX_BYTES + 1).read_to_string(&mut text).context("it is no text")?;
    if length as u64 > MAX_BYTES {
        bail!("it has more than {MAX_BYTES} bytes: cut it, a trace goes round and round anyway");
    }
    NoiseTrace::parse(&text).map_err(|problem| anyhow!("{}: {problem}", path.display()))
}

/// The undisturbed gap probe of a run, or its fwq probe.
fn of_run(dir: &Path, platform: Option<&str>) -> anyhow::Result<NoiseTrace> {
    let results = read_results(dir)?;
    if let Some(simulation) = &results.simulation {
        return of_simulation(dir, simulation, platform);
    }
    let mut found: Vec<&Detail> = results
        .cells
        .iter()
        .filter(|cell| cell.cell.neighbour.is_none() && cell.cell.layout.is_none())
        .filter(|cell| platform.is_none_or(|platform| platform == cell.cell.platform))
        .filter_map(|cell| cell.detail.as_ref())
        .filter(|detail| matches!(detail, Detail::Gap(_) | Detail::Fwq(_)))
        .collect();
    found.sort_by_key(|detail| !matches!(detail, Detail::Gap(_)));
    let detail = found.first().ok_or_else(|| {
        let whose = platform.map(|platform| format!(" on platform \"{platform}\"")).unwrap_or_default();
        anyhow!("the run {} measured neither gap nor fwq alone{whose}", dir.display())
    })?;
    // Moments that were not recorded are the same each time.
    NoiseTrace::of_detail(detail, 0).map_err(|problem| anyhow!("{}: {problem}", dir.display()))
}

/// Between which a case and one of its virtual CPUs are named: `two on one: A.0`.
const CASE_AND_VCPU: &str = ": ";

/// What kept a virtual CPU of a simulated case away from the CPUs: `platform` is the case, or the case and the virtual CPU.
fn of_simulation(dir: &Path, simulation: &Simulation, platform: Option<&str>) -> anyhow::Result<NoiseTrace> {
    let is_of = |case: &CaseOutcome, name: &str| case.label == name && case.time_line.is_some();
    let named = |case: &&CaseOutcome| match platform {
        None => case.time_line.is_some(),
        Some(name) => {
            is_of(case, name) || name.rsplit_once(CASE_AND_VCPU).is_some_and(|(name, _)| is_of(case, name))
        }
    };
    let found = simulation.cases.iter().find(named);
    let Some((case, line)) = found.and_then(|case| Some((case, case.time_line.as_ref()?))) else {
        let there: Vec<&str> =
            simulation.cases.iter().take(CASES_MOST).map(|case| case.label.as_str()).collect();
        bail!("the simulation {} has no such case with CPUs; there are {}", dir.display(), there.join(", "));
    };
    let vcpu = platform.filter(|name| *name != case.label).and_then(|name| name.rsplit_once(CASE_AND_VCPU));
    let vcpu = vcpu.map(|(_, vcpu)| vcpu);
    NoiseTrace::of_time_line(line, vcpu)
        .map_err(|problem| anyhow!("{}, {}: {problem}", dir.display(), case.label))
}
