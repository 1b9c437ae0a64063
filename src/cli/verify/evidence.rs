//! A folder of evidence: written whole, with digests of all of it, and checked offline.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::Path;

use anyhow::{Context, anyhow, bail};

use super::args::VerifyArgs;
use super::{ending_of, show};
use crate::cli::ending::{Ending, OrStop, Verdict as Ends};
use crate::cli::{file, json, output};
use images::Digest;
use model::partition::set::MAX_SET_BYTES;
use model::requirement::RequirementFile;
use model::verification::{RequirementResult, VERIFICATION_VERSION, Verification};
use platforms::ledger;
use platforms::own_folder::{Others, OwnFolder};
use verify::conclude::conclude;
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
/// Largest file that is read.
const MOST_BYTES: usize = 512 << 20;
/// Who may do what with these files.
const MODE: u32 = 0o644;

/// Makes the folder, or takes one in which an earlier verification is.
pub(super) fn make(out: &Path) -> anyhow::Result<()> {
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
    let text = file::read("", &out.join(RESULTS), MOST_BYTES).ok()?;
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
    if let Ok(journal) = fs::read(out.join(JOURNAL_FILE)) {
        digests.insert(JOURNAL_FILE, Digest::of(&journal).to_string());
    }
    file::write(&out.join(MANIFEST), json::pretty(&digests)?.as_bytes(), MODE)
}

/// A result without its sentences, which another version of this program may word otherwise.
fn without_words(result: &RequirementResult) -> RequirementResult {
    let mut result = result.clone();
    if let Some(judged) = &mut result.direct {
        judged.reason.clear();
    }
    result
}

/// Checks digests, and derives every verdict anew.
pub(super) fn check(folder: &Path, args: &VerifyArgs) -> Ends {
    let read = |name: &str, most| file::read("", &folder.join(name), most);
    let manifest = read(MANIFEST, MAX_SET_BYTES).or_bad_input()?;
    let manifest: BTreeMap<String, String> = serde_json::from_str(&manifest)
        .with_context(|| format!("{MANIFEST} means nothing"))
        .or_bad_input()?;
    let mut wrong = Vec::new();
    // Names are ours, never the manifest's.
    for name in [REQUIREMENTS, RESULTS, PAGE, JUNIT, JOURNAL_FILE] {
        let path = folder.join(name);
        let is_large = path.metadata().is_ok_and(|about| about.len() > MOST_BYTES as u64);
        let found =
            if is_large { None } else { fs::read(&path).ok() }.map(|bytes| Digest::of(&bytes).to_string());
        if found.as_ref() != manifest.get(name) {
            wrong.push(format!("{name} is not the file that was written, or is not there"));
        }
    }
    let text = read(REQUIREMENTS, MAX_SET_BYTES).or_bad_input()?;
    let wanted = RequirementFile::from_toml(&text, "")
        .map_err(|errors| anyhow!(errors.in_file(&folder.join(REQUIREMENTS))))
        .or_bad_input()?;
    let text = read(RESULTS, MOST_BYTES).or_bad_input()?;
    let said: Verification =
        serde_json::from_str(&text).with_context(|| format!("{RESULTS} means nothing")).or_bad_input()?;
    if said.schema_version != VERIFICATION_VERSION {
        let version = said.schema_version;
        return Err(anyhow!("{RESULTS} is of version {version}, this program reads {VERIFICATION_VERSION}"))
            .or_bad_input();
    }
    let runs = journal::read(folder).map_err(|reason| anyhow!(reason)).or_bad_input()?;
    let (again, tests) = conclude(&wanted.requirements, &runs, &said.basis);
    for one in &again {
        match said.requirements.iter().find(|other| other.id == one.id) {
            Some(other) if without_words(other) == without_words(one) => {}
            Some(other) => wrong.push(format!(
                "{}: {RESULTS} says {}, the raw data say {}",
                one.id,
                other.verdict.as_str(),
                one.verdict.as_str()
            )),
            None => wrong.push(format!("{}: {RESULTS} has no such requirement", one.id)),
        }
    }
    if again.len() != said.requirements.len() || tests != said.tests {
        wrong.push(format!("{RESULTS} and {REQUIREMENTS} differ in what there is to verify"));
    }
    if !wrong.is_empty() {
        for line in &wrong {
            output::say(&format!("bulkhead: {line}"));
        }
        return Ok(Ending::NotMet);
    }
    let derived = Verification { requirements: again, tests, ..said };
    output::say(&format!(
        "bulkhead: all digests fit, and {} verdicts follow from the raw data",
        derived.requirements.len()
    ));
    show(&derived, folder, args).or_bad_input()?;
    let all = derived.requirements.iter().map(|one| one.id.clone()).collect();
    Ok(ending_of(&derived, &all))
}
