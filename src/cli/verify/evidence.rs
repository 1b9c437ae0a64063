//! A folder of evidence: written whole, with digests of all of it, and checked offline.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io::{self, Read};
use std::path::Path;

use anyhow::{Context, anyhow, bail};

use super::args::VerifyArgs;
use super::{ending_of, show};
use crate::cli::ending::{Ending, OrStop, Verdict as Ends};
use crate::cli::{file, json, output};
use images::Digest;
use model::requirement::RequirementFile;
use model::verification::{Observed, RequirementResult, TestRound, VERIFICATION_VERSION, Verification};
use platforms::ledger;
use platforms::own_folder::{Others, OwnFolder};
use verify::command::says_otherwise;
use verify::conclude::{self, conclude};
use verify::journal::{self, JOURNAL_FILE};
use verify::junit;

/// How folders begin in which a verification works.
pub(super) const WORK: &str = ".work-";
/// To look at.
pub(super) const PAGE: &str = "verify.html";
/// For programs.
const RESULTS: &str = "verify.json";
/// For requirement tools.
const JUNIT: &str = "junit.xml";
/// What was wanted.
const REQUIREMENTS: &str = "requirements.toml";
/// Digests of all of it.
const MANIFEST: &str = "manifest.json";
/// Lines that are told at most of what is wrong.
const MOST_TOLD: usize = 50;
/// Who may do what with these files.
const MODE: u32 = 0o644;

/// Makes the folder, or takes one in which an earlier verification of that set is.
pub(super) fn make(out: &Path, set: &str) -> anyhow::Result<()> {
    if let Some(other) = journal::first_set(out).filter(|other| other != set) {
        bail!("{} is evidence of set {other}, not of {set}: --out names another folder", out.display());
    }
    if let Ok(mut entries) = fs::read_dir(out) {
        if entries.next().is_none() || out.join(JOURNAL_FILE).is_file() || out.join(RESULTS).is_file() {
            return Ok(());
        }
        bail!("{} is there and holds no verification: --out names another folder", out.display());
    }
    fs::create_dir_all(out).with_context(|| format!("{} cannot be made", out.display()))
}

/// Removes what a verification that was killed has left in the folder, which is ours as long as its journal is: its reaper has ended
/// all that it had started.
pub(super) fn sweep(out: &Path) -> anyhow::Result<()> {
    let folder = OwnFolder::open(out, Others::MayLook)?;
    let entries = fs::read_dir(out)?.flatten().map(|entry| entry.file_name());
    let left: Vec<OsString> = entries.filter(|name| name.to_string_lossy().starts_with(WORK)).collect();
    for name in left {
        let said = ledger::sweep(&out.join(&name));
        for line in said {
            output::say(&format!("bulkhead: left behind by a verification before: {line}"));
        }
        folder.remove(Path::new(&name))?;
    }
    Ok(())
}

/// What an earlier verification in this folder said, if this program understands it.
pub(super) fn earlier(out: &Path) -> Option<Verification> {
    let text = read(out, RESULTS).ok()?;
    serde_json::from_str(&text).ok().filter(|was: &Verification| was.schema_version == VERIFICATION_VERSION)
}

/// Writes all of it but the journal, which is there.
pub(super) fn write(out: &Path, wanted: &RequirementFile, verification: &Verification) -> anyhow::Result<()> {
    let requirements = toml::to_string(wanted).context("requirements cannot be written as TOML")?;
    let junit = junit::xml(verification).map_err(|reason| anyhow!(reason))?;
    let contents = [
        (REQUIREMENTS, requirements.into_bytes()),
        (RESULTS, json::pretty(verification)?.into_bytes()),
        (PAGE, report::verification_page::html(verification).into_bytes()),
        (JUNIT, junit.into_bytes()),
    ];
    let mut digests = BTreeMap::new();
    for (name, content) in &contents {
        file::write(&out.join(name), content, MODE)?;
        digests.insert(*name, Digest::of(content).to_string());
    }
    if let Ok(digest) = digest(&out.join(JOURNAL_FILE)) {
        digests.insert(JOURNAL_FILE, digest);
    }
    file::write(&out.join(MANIFEST), json::pretty(&digests)?.as_bytes(), MODE)
}

/// The text of a file that is one, and not too long.
fn read(folder: &Path, name: &str) -> anyhow::Result<String> {
    let path = folder.join(name);
    let context = || format!("{} cannot be read", path.display());
    let mut text = String::new();
    journal::open_plain(&path, journal::MOST_BYTES)
        .with_context(context)?
        .read_to_string(&mut text)
        .with_context(context)?;
    Ok(text)
}

/// Digest of a file that is one, and not too long.
fn digest(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    journal::open_plain(path, journal::MOST_BYTES)?.read_to_end(&mut bytes)?;
    Ok(Digest::of(&bytes).to_string())
}

/// A result without its sentences, which another version of this program may word otherwise.
fn without_words(result: &RequirementResult) -> RequirementResult {
    let mut result = result.clone();
    if let Some(judged) = &mut result.direct {
        judged.reason.clear();
    }
    result
}

/// Files that are not the ones that were written. Names are ours, never the manifest's.
fn others(folder: &Path, manifest: &BTreeMap<String, String>) -> Vec<String> {
    let wrong = |name: &&str| match digest(&folder.join(name)) {
        Ok(found) if manifest.get(*name) == Some(&found) => None,
        Ok(_) => Some(format!("{name} is not the file that was written")),
        Err(error) => Some(format!("{name} cannot be read: {error}")),
    };
    [REQUIREMENTS, RESULTS, PAGE, JUNIT, JOURNAL_FILE].iter().filter_map(wrong).collect()
}

/// What two results differ in.
fn difference(said: &RequirementResult, is: &RequirementResult) -> Option<String> {
    let (said, is) = (without_words(said), without_words(is));
    let value = |one: &RequirementResult| one.direct.as_ref().and_then(|judged| judged.value);
    if said == is {
        return None;
    }
    let verdicts = |one: &RequirementResult| (one.verdict, one.direct.as_ref().map(|judged| judged.verdict));
    let own = |one: &RequirementResult| verdicts(one).1.unwrap_or(one.verdict).as_str();
    let (was, now) = (own(&said), own(&is));
    Some(if verdicts(&said) != verdicts(&is) {
        format!("{RESULTS} says {was}, the raw data say {now}")
    } else if value(&said) != value(&is) {
        format!("{RESULTS} says {:?}, the raw data say {:?}", value(&said), value(&is))
    } else {
        format!("{RESULTS} tells another story of it than the raw data, with the same verdict ({now})")
    })
}

/// That what a test's program printed is not what was read of it.
fn output_differs(round: &TestRound) -> Option<String> {
    let Observed::Commanded(done) = &round.seen else { return None };
    let (test, number) = (&round.test, round.round);
    let words =
        || format!("round {number} of {test}: what it printed says otherwise than what was read of it");
    says_otherwise(done).then(words)
}

/// Page and `JUnit` show these verdicts; only the program that wrote them can say so.
fn shows(folder: &Path, said: &Verification) -> anyhow::Result<Vec<String>> {
    if said.bulkhead_version != env!("CARGO_PKG_VERSION") {
        return Ok(Vec::new());
    }
    let junit = junit::xml(said).map_err(|reason| anyhow!(reason))?;
    let wanted = [(PAGE, report::verification_page::html(said)), (JUNIT, junit)];
    let differs = |(name, text): &(&str, String)| {
        digest(&folder.join(name)).is_ok_and(|found| found != Digest::of(text.as_bytes()).to_string())
    };
    let all = wanted.iter().filter(|one| differs(one));
    Ok(all.map(|(name, _)| format!("{name} does not show what {RESULTS} says")).collect())
}

/// Requirements that are not those which the verdicts rest on; only the program that took their digests can say so.
fn rewritten(wanted: &RequirementFile, said: &Verification) -> Vec<String> {
    if said.bulkhead_version != env!("CARGO_PKG_VERSION") {
        return Vec::new();
    }
    let is_other = |id: &str, digest: String| said.basis.get(&format!("requirement.{id}")) != Some(&digest);
    let all = wanted.requirements.iter();
    let others = all.filter(|(id, one)| is_other(id, conclude::digest(one)));
    others.map(|(id, _)| format!("{id}: {REQUIREMENTS} has another requirement than was verified")).collect()
}

/// Checks digests, and derives every verdict anew.
pub(super) fn check(folder: &Path, args: &VerifyArgs) -> Ends {
    let manifest = read(folder, MANIFEST).or_bad_input()?;
    let manifest: BTreeMap<String, String> = serde_json::from_str(&manifest)
        .with_context(|| format!("{MANIFEST} means nothing"))
        .or_bad_input()?;
    let mut wrong = others(folder, &manifest);
    let text = read(folder, REQUIREMENTS).or_bad_input()?;
    let wanted = RequirementFile::from_evidence(&text)
        .map_err(|errors| anyhow!(errors.in_file(&folder.join(REQUIREMENTS))))
        .or_bad_input()?;
    let text = read(folder, RESULTS).or_bad_input()?;
    let said: Verification =
        serde_json::from_str(&text).with_context(|| format!("{RESULTS} means nothing")).or_bad_input()?;
    if said.schema_version != VERIFICATION_VERSION {
        let version = said.schema_version;
        return Err(anyhow!("{RESULTS} is of version {version}, this program reads {VERIFICATION_VERSION}"))
            .or_bad_input();
    }
    let runs = journal::read(folder).map_err(|reason| anyhow!(reason)).or_bad_input()?;
    if runs.last().is_some_and(|run| !run.is_ended) && wrong.iter().any(|one| one.starts_with(JOURNAL_FILE)) {
        wrong.push(format!(
            "the last run in {JOURNAL_FILE} was killed, so the rest was not written anew: verify again, --no-run is enough"
        ));
    }
    wrong.extend(shows(folder, &said).or_broke()?);
    wrong.extend(runs.iter().flat_map(|run| &run.rounds).filter_map(output_differs));
    let (again, tests) = conclude(&wanted.requirements, &runs, &said.basis);
    wrong.extend(rewritten(&wanted, &said));
    for one in &again {
        let other = said.requirements.iter().find(|other| other.id == one.id);
        let differs = other.map_or_else(
            || Some(format!("{RESULTS} has no such requirement")),
            |other| difference(other, one),
        );
        wrong.extend(differs.map(|differs| format!("{}: {differs}", one.id)));
    }
    if again.len() != said.requirements.len() || tests != said.tests {
        wrong.push(format!("{RESULTS} and {REQUIREMENTS} differ in what there is to verify"));
    }
    if !wrong.is_empty() {
        for line in wrong.iter().take(MOST_TOLD) {
            output::say(&format!("bulkhead: {line}"));
        }
        if wrong.len() > MOST_TOLD {
            output::say(&format!("bulkhead: and {} more", wrong.len() - MOST_TOLD));
        }
        return Ok(Ending::Broke);
    }
    let derived = Verification { requirements: again, tests, ..said };
    output::say(&format!(
        "bulkhead: all digests fit, and {} verdicts follow from the raw data",
        derived.requirements.len()
    ));
    if derived.bulkhead_version != env!("CARGO_PKG_VERSION") {
        output::say(&format!(
            "bulkhead: {PAGE} and {JUNIT} were not looked at: they are of version {}, which alone can say whether they show this",
            derived.bulkhead_version
        ));
    }
    show(&derived, folder, args).or_bad_input()?;
    let all = derived.requirements.iter().map(|one| one.id.clone()).collect();
    Ok(ending_of(&derived, &all))
}
