//! `bulkhead verify`: does every requirement hold?
//!
//! ```text
//!  FILE ─► requirements ─► tests ─► run in the set that is up ─► DIR/journal.jsonl ─► conclude ─► verify.json, page, JUnit, manifest
//!  --no-run: nothing is run       --check DIR: concluded anew from the journal, compared       --watch: again and again
//! ```

pub mod args;
mod evidence;
mod names;
mod watch;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, anyhow, bail};
use indicatif::ProgressBar;
use tempfile::TempDir;

use super::ending::{Ending, OrStop, Verdict as Ends};
use super::measure::{Shown, fresh_seed, now, platform_context};
use super::{file, interrupt, json, output};
use args::VerifyArgs;
use model::partition::set::{MAX_SET_BYTES, PartitionSet};
use model::requirement::{RequirementFile, Requirements};
use model::verification::{
    Acceptance, Basis, Change, RequirementVerdict, TestSpec, VERIFICATION_VERSION, Verification,
    VerifyHeader, VerifyLine,
};
use partition::set::root::state_root;
use platforms::reaper::Reaper;
use platforms::{Cancel, PlatformContext};
use report::text::{ascii, printable, wrap};
use units::Nanos;
use units::names::hint;
use verify::conclude::conclude;
use verify::in_place::Agents;
use verify::journal::{self, VerifyJournal};
use verify::look::LookedAt;
use verify::run::{RunEnding, Runner, Step};
use verify::tester::Tester;
use verify::{basis, trace};

/// Letters that are shown of why a round failed, and columns that they take.
const MOST_SAID: usize = 1000;
const COLUMNS: usize = 79;
/// Most verifications before this one that are told.
const MOST_HISTORY: usize = 100;

/// Verifies, or checks.
pub fn run(args: &VerifyArgs) -> Ends {
    if let Some(folder) = &args.check {
        return evidence::check(folder, args);
    }
    let path = args.file.as_deref().context("no file").or_bad_input()?;
    let text = file::read("", path, MAX_SET_BYTES).or_bad_input()?;
    let wanted = RequirementFile::from_toml(&text, &file::stem(path))
        .map_err(|errors| anyhow!(errors.in_file(path)))
        .or_bad_input()?;
    let only = chosen(&wanted.requirements, &args.only).or_bad_input()?;
    let cancel =
        interrupt::token_saying("interrupted; keeping what was seen (again: at once)").or_lacking()?;
    let looked = LookedAt::now(&state_root(), &wanted.set).map_err(|reason| anyhow!(reason)).or_lacking()?;
    names::are_there(&wanted, &looked, &text, path).or_bad_input()?;
    let out = args.out.clone().unwrap_or_else(|| PathBuf::from(format!("{}-verify", wanted.set)));
    evidence::make(&out, &wanted.set).or_bad_input()?;
    names::as_in_the_file(&text, path, &looked).or_bad_input()?;
    let folder = folder_of(path).or_bad_input()?;
    let today = basis::of(&looked, &wanted.requirements, &folder, &out);
    let began = (Instant::now(), now());
    let seed = args.seed.unwrap_or_else(fresh_seed);
    let began_with = (!args.watch).then_some(&looked.set);
    let (wanted, only, today, out, folder) = (&wanted, &only, &today, &out, &folder);
    let asked = Asked { wanted, only, began_with, today, out, folder, seed, args };
    if args.watch {
        return watch::run(&asked, &cancel);
    }
    let ending = if args.no_run { RunEnding::Whole } else { see(&asked, began.1, &cancel).or_broke()? };
    // Whoever else writes to this folder has it for itself.
    let _journal = VerifyJournal::open(out).context("the journal cannot be opened").or_broke()?;
    let ended_with = if args.no_run { today.clone() } else { asked.again() };
    let mut verification = concluded(&asked, &ended_with, began.1).or_broke()?;
    verification.took_ns = Nanos::from_duration(began.0.elapsed());
    verification.is_whole = ending == RunEnding::Whole;
    evidence::write(out, wanted, &verification).or_broke()?;
    show(&verification, out, args).or_bad_input()?;
    Ok(if ending == RunEnding::Interrupted { Ending::Interrupted } else { ending_of(&verification, only) })
}

/// What is run for which requirements.
struct Asked<'a> {
    wanted: &'a RequirementFile,
    only: &'a BTreeSet<String>,
    /// As [`Tester::began_with`].
    began_with: Option<&'a PartitionSet>,
    today: &'a Basis,
    out: &'a Path,
    folder: &'a Path,
    seed: u64,
    args: &'a VerifyArgs,
}

impl Asked<'_> {
    /// The first line of what a run adds to the journal.
    fn header(&self, started_unix_ns: Nanos, basis: &Basis) -> VerifyLine {
        VerifyLine::Header(VerifyHeader {
            schema_version: VERIFICATION_VERSION,
            bulkhead_version: env!("CARGO_PKG_VERSION").to_owned(),
            started_unix_ns,
            set: self.wanted.set.clone(),
            seed: self.seed,
            basis: basis.clone(),
        })
    }

    /// What results would rest on by now: a program that was replaced meanwhile is not the one that passed. Files that tests themselves
    /// may write are as they were: of those the next verification tells.
    fn again(&self) -> Basis {
        let is_written = |key: &str| key.starts_with("files.") || key.starts_with("command.");
        let looked = LookedAt::now(&state_root(), &self.wanted.set);
        let now = looked.map(|looked| basis::of(&looked, &self.wanted.requirements, self.folder, self.out));
        // Of a set that was taken down nothing is as it was.
        let is_of_set = |key: &str| {
            let kind = key.split_once('.').map(|(kind, _)| kind);
            kind.is_some_and(|kind| kind != "requirement" && kind != "neighbour")
        };
        let is_kept = |key: &str| is_written(key) || (now.is_err() && !is_of_set(key));
        let mut basis = self.today.clone();
        basis.retain(|key, _| is_kept(key));
        basis.extend(now.unwrap_or_default().into_iter().filter(|(key, _)| !is_written(key)));
        basis
    }

    /// Tests of the requirements that were asked for.
    fn tests(&self) -> Vec<TestSpec> {
        let is_wanted = |test: &TestSpec| test.requirements.iter().any(|id| self.only.contains(id));
        trace::of(&self.wanted.requirements).into_iter().filter(is_wanted).collect()
    }
}

/// The folder of a file, whoever is called from where.
fn folder_of(path: &Path) -> anyhow::Result<PathBuf> {
    let whole = path.canonicalize().with_context(|| path.display().to_string())?;
    Ok(whole.parent().map_or_else(|| PathBuf::from("/"), Path::to_owned))
}

/// What all that is in the journal says, held against `today`.
fn concluded(asked: &Asked<'_>, today: &Basis, started_unix_ns: Nanos) -> anyhow::Result<Verification> {
    let runs = journal::read(asked.out).map_err(|reason| anyhow!(reason))?;
    let (requirements, tests) = conclude(&asked.wanted.requirements, &runs, today);
    let mut verification = Verification {
        schema_version: VERIFICATION_VERSION,
        bulkhead_version: env!("CARGO_PKG_VERSION").to_owned(),
        set: asked.wanted.set.clone(),
        started_unix_ns,
        took_ns: Nanos::ZERO,
        is_whole: true,
        basis: today.clone(),
        requirements,
        tests,
        history: Vec::new(),
    };
    verification.history = history(asked.out, &verification);
    Ok(verification)
}

/// Where tests are made: a folder that nobody but us has anything in; where we are killed, the reaper ends what is listed there.
struct Workplace {
    scratch: PathBuf,
    context: PlatformContext,
    reaper: Reaper,
    _folder: TempDir,
}

impl Workplace {
    fn new(out: &Path, seed: u64) -> anyhow::Result<Self> {
        let folder = tempfile::Builder::new().prefix(evidence::WORK).tempdir_in(out)?;
        let context = platform_context(folder.path(), seed, false)?;
        let reaper = Reaper::start(folder.path(), &context.exe)?;
        let scratch = folder.path().join("scratch");
        std::fs::create_dir(&scratch)?;
        Ok(Self { scratch, context, reaper, _folder: folder })
    }

    fn tester<'a>(&'a self, asked: &'a Asked<'_>, cancel: &'a Cancel) -> Tester<'a> {
        Tester {
            set: &asked.wanted.set,
            began_with: asked.began_with,
            requirements: &asked.wanted.requirements,
            seed: asked.seed,
            agents: Agents::new(&asked.wanted.set, &self.context, self.scratch.clone(), cancel),
            folder: asked.folder,
            context: &self.context,
            cancel,
        }
    }

    /// To be called when nothing that was started runs any more.
    fn leave(self) {
        drop(self.context);
        self.reaper.goodbye();
    }
}

/// Runs the tests; everything that is seen is in the journal.
fn see(asked: &Asked<'_>, started_unix_ns: Nanos, cancel: &Cancel) -> anyhow::Result<RunEnding> {
    let mut journal = VerifyJournal::open(asked.out).context("the journal cannot be opened")?;
    evidence::sweep(asked.out).context("what a killed verification left cannot be removed")?;
    journal.append(&asked.header(started_unix_ns, asked.today))?;
    let tests = asked.tests();
    output::say(&format!(
        "bulkhead: {} requirements of set {}, {} tests, seed {}, evidence in {}",
        asked.only.len(),
        asked.wanted.set,
        tests.len(),
        asked.seed,
        asked.out.display()
    ));
    let work = Workplace::new(asked.out, asked.seed)?;
    let mut runner = Runner {
        tests,
        wanted: asked.only.clone(),
        failures: asked.args.failures,
        tester: work.tester(asked, cancel),
        journal: &mut journal,
    };
    let bar = output::bar();
    let ending = runner.run(&mut |step| tell(&step, bar.as_ref()));
    if let Some(bar) = &bar {
        bar.finish_and_clear();
    }
    drop(runner);
    work.leave();
    let ending = ending.map_err(|reason| anyhow!(reason))?;
    if ending == RunEnding::Whole {
        journal.append(&VerifyLine::End)?;
    }
    Ok(ending)
}

fn tell(step: &Step<'_>, bar: Option<&ProgressBar>) {
    match (step, bar) {
        (Step::Begins { test, round, done, of }, Some(bar)) => {
            bar.set_length(*of as u64);
            bar.set_position(*done as u64);
            bar.set_message(format!("{test}, round {round}"));
        }
        (Step::Begins { .. }, None) => {}
        (Step::Failed { test, reason }, Some(bar)) => bar.suspend(|| say_failed(test, reason)),
        (Step::Failed { test, reason }, None) => say_failed(test, reason),
    }
}

/// A reason may be what a guest printed.
fn say_failed(test: &str, reason: &str) {
    let said = printable(&format!("FAILED {test}: {reason}"), MOST_SAID);
    for line in wrap(&said, COLUMNS) {
        output::say(&line);
    }
}

/// Ids that were named, and their parts; all where none was.
fn chosen(all: &Requirements, named: &[String]) -> anyhow::Result<BTreeSet<String>> {
    if named.is_empty() {
        return Ok(all.keys().cloned().collect());
    }
    let mut found = BTreeSet::new();
    for id in named {
        if !all.contains_key(id) {
            let known: Vec<&str> = all.keys().map(String::as_str).collect();
            bail!("--only {id}: there is no such requirement{}", hint(id, &known));
        }
        found.insert(id.clone());
    }
    loop {
        let parts =
            all.iter().filter(|(_, one)| one.parent.as_ref().is_some_and(|parent| found.contains(parent)));
        let more: Vec<String> = parts.map(|(id, _)| id.clone()).filter(|id| !found.contains(id)).collect();
        if more.is_empty() {
            return Ok(found);
        }
        found.extend(more);
    }
}

/// What earlier verifications in this folder said, and what is different since the last one.
fn history(out: &Path, is: &Verification) -> Vec<Acceptance> {
    let Some(was) = evidence::earlier(out) else { return Vec::new() };
    let verdict = |of: &Verification, id: &str| {
        let found = of.requirements.iter().find(|one| one.id == id);
        found.map_or(String::new(), |one| one.verdict.as_str().to_owned())
    };
    let ids: BTreeSet<&String> = was.requirements.iter().chain(&is.requirements).map(|one| &one.id).collect();
    let change = |id: &&String| Change { what: (*id).clone(), was: verdict(&was, id), is: verdict(is, id) };
    let changed = ids.iter().map(change).filter(|change| change.was != change.is).collect();
    let counts = RequirementVerdict::ALL
        .iter()
        .map(|verdict| (verdict.as_str().to_owned(), u32::try_from(was.count(*verdict)).unwrap_or(u32::MAX)));
    let mut all = was.history.clone();
    all.push(Acceptance { started_unix_ns: was.started_unix_ns, counts: counts.collect(), changed });
    let surplus = all.len().saturating_sub(MOST_HISTORY);
    all.split_off(surplus)
}

fn show(verification: &Verification, out: &Path, args: &VerifyArgs) -> anyhow::Result<()> {
    let style = output::stdout_style();
    let text = match Shown::of(args.json, args.full) {
        Shown::Json => return Ok(output::data(&json::pretty(verification)?)?),
        shown => report::verification::screen(verification, style, shown == Shown::Full),
    };
    output::data(&if output::stdout_is_ascii() { ascii(&text) } else { text })?;
    output::say(&format!("\nevidence: {}", out.join(evidence::PAGE).display()));
    Ok(())
}

/// The worst of those that were asked for.
fn ending_of(verification: &Verification, only: &BTreeSet<String>) -> Ending {
    let asked = || verification.requirements.iter().filter(|one| only.contains(&one.id));
    let any_holds = asked().any(|one| one.verdict == RequirementVerdict::Pass);
    match asked().map(|one| one.verdict).max() {
        Some(RequirementVerdict::Fail) => Ending::NotMet,
        Some(RequirementVerdict::Undecided | RequirementVerdict::Stale | RequirementVerdict::NotRun) => {
            Ending::Broke
        }
        // Where nothing can be tested, nothing holds.
        Some(RequirementVerdict::NotApplicable) if !any_holds => Ending::Broke,
        Some(RequirementVerdict::Pass | RequirementVerdict::NotApplicable) | None => Ending::Done,
    }
}
