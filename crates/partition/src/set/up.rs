//! Starts what is missing of a set, and nothing else; undoes it when one part fails.
//!
//! ```text
//!  check ─► take the set ─► what is there? ─► up.json ─► end what is not wanted so any more ─► start, each after those it
//!           waits for ─► all run ─► up.json removed
//!                         └─ one failed, or interrupted ─► all that was started is ended again
//!  (this process killed at any moment: the undo process finds up.json and does the same)
//! ```

use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use super::down::{self, Gone, Manner};
use super::folder::{self, LockError, SetFolder, Work};
use super::part::{self, At, Begun, Part, Readiness, ended_well, failure};
use super::resolve::Kept;
use super::{channels, judge, process, ready, root, status, watch};
use crate::{place, run};
use model::partition::set::{
    Fault, PartitionSet, Phase, SET_SCHEMA, SetRecord, Tools, Undertaking, UnitSpec,
};
use model::partition::{Inherited, SectionSpec};
use platforms::Cancel;
use platforms::reaper::Reaper;
use platforms::spawn::own_cpus;
use units::Reason;

/// How often it is looked how far the others are.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What is to be up.
#[derive(Debug)]
pub struct Wanted<'a> {
    /// The set, checked.
    pub set: &'a PartitionSet,
    /// The file it came from, absolute.
    pub file: &'a Path,
    /// With what its partitions are made.
    pub tools: &'a Tools,
    /// What those of its programs have from who calls that are started now.
    pub inherited: &'a Inherited,
    /// Folder of all sets.
    pub state_root: &'a Path,
    /// This program.
    pub exe: &'a Path,
}

/// What is told on the way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// An earlier `up` had died; what it had begun was undone.
    Undone(Vec<String>),
    /// An image is made ready, which may take long.
    Prepares(String),
    /// What is not as it was asked for on this host, and what that means.
    Remark(String, String),
    /// So many are to be started, or waited for.
    Begins(usize),
    /// It is there as it should be.
    Left(String, Phase),
    /// It is ended, because of this.
    Ends(String, String),
    /// It is started.
    Starts(String),
    /// It runs, after this time.
    Runs(String, Duration),
    /// Its program has ended well already.
    Done(String),
    /// Everything that was started is ended again.
    Undoing,
}

/// Why a set is not up.
#[derive(Debug, thiserror::Error)]
pub enum UpError {
    /// The file is wrong, or asks for what is not there.
    #[error("{0:?}")]
    Faults(Vec<Fault>),
    /// QEMU, a guest kernel or what belongs to it is not on this host.
    #[error("{0}")]
    Lacking(Reason),
    /// Somebody else works on the set, or its folder cannot be used.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The folder of all sets is somebody else's, or open to others.
    #[error("{0}")]
    NotOurs(Reason),
    /// The name belongs to another file's set.
    #[error("a set of this name is up from {}: end that first (bulkhead down), or give this one another name", .0.display())]
    OtherFile(PathBuf),
    /// A part failed. What was started was ended again, if not said otherwise.
    #[error("{0}")]
    Broke(Reason),
    /// The user interrupted. What was started was ended again.
    #[error("interrupted")]
    Interrupted,
}

/// Brings the set up.
///
/// # Errors
/// Why it is not; nothing that this call started runs then.
pub fn up(wanted: &Wanted<'_>, cancel: &Cancel, tell: &mut dyn FnMut(Step)) -> Result<(), UpError> {
    let path = wanted.state_root.join(&wanted.set.name);
    let prepares = &mut |text: &str| tell(Step::Prepares(text.to_owned()));
    let is_wanted = || !cancel.is_cancelled();
    let checked = judge::checked(wanted.set, wanted.tools, &path, &is_wanted, prepares);
    let kept = checked.map_err(|faults| {
        if cancel.is_cancelled() { UpError::Interrupted } else { UpError::Faults(faults) }
    })?;
    let called = |one: Kept| Kept { unit: one.unit.with_inherited(wanted.inherited), ..one };
    let kept: Vec<Kept> = kept.into_iter().map(called).collect();
    for one in &kept {
        if let UnitSpec::Partition(unit) = &one.unit {
            let placed = place::remarks(&unit.spec.resources, &unit.spec.disks);
            for remark in placed.into_iter().chain(ready::remarks(unit)) {
                tell(Step::Remark(one.folder.clone(), remark));
            }
        }
    }
    let specs = kept.iter().filter_map(|one| match &one.unit {
        UnitSpec::Partition(unit) => Some(&unit.spec),
        UnitSpec::Switch(_) => None,
    });
    run::all_there(specs, wanted.tools, wanted.exe)
        .map_err(|failed| UpError::Lacking(failed.reason.into()))?;
    let broke = |error: io::Error| UpError::Broke(format!("{}: {error}", path.display()).into());
    root::make_private(wanted.state_root).map_err(|error| match error.kind() {
        io::ErrorKind::PermissionDenied => UpError::NotOurs(error.to_string().into()),
        _ => broke(error),
    })?;
    // Waits from before the folder is there until after it is as it should be.
    let undoer = Reaper::start_undo(wanted.state_root, &wanted.set.name, wanted.exe).map_err(broke)?;
    let outcome = work(wanted, kept, cancel, tell);
    undoer.goodbye();
    let _ = fs::remove_dir(wanted.state_root);
    outcome
}

fn work(
    wanted: &Wanted<'_>,
    kept: Vec<Kept>,
    cancel: &Cancel,
    tell: &mut dyn FnMut(Step),
) -> Result<(), UpError> {
    let folder = SetFolder::take(wanted.state_root, &wanted.set.name, Work::Up, true)?;
    let path = folder.path().to_owned();
    let undone = down::undo(&path, Manner::Kill).map_err(UpError::Broke)?;
    if !undone.is_empty() {
        tell(Step::Undone(undone));
    }
    let before = folder::read_set(&path);
    if let Some(other) = before.as_ref().filter(|record| record.file != wanted.file && record.file.exists()) {
        return Err(UpError::OtherFile(other.file.clone()));
    }
    let by = process::own().ok_or_else(|| UpError::Broke("this process cannot be found in /proc".into()))?;
    let mut works = Works { path: &path, wanted, parts: compare(&path, kept, tell) };
    let fresh = before.is_none();
    let undertaking = Undertaking { by, fresh, starts: works.to_start() };
    let outcome = works.bring_up(&undertaking, cancel, tell);
    if outcome.is_ok() {
        folder::remove_undertaking(&path);
        return Ok(());
    }
    tell(Step::Undoing);
    let undone = down::undo(&path, Manner::Ask);
    if undone.is_ok() && fresh {
        let _ = folder.remove();
    }
    match (outcome, undone) {
        (Err(UpError::Broke(why)), Err(left)) => {
            Err(UpError::Broke(format!("{why}\nand something is left: {left}").into()))
        }
        (outcome, _) => outcome,
    }
}

/// What is there already, and as it should be?
fn compare(path: &Path, kept: Vec<Kept>, tell: &mut dyn FnMut(Step)) -> Vec<Part> {
    let look = |kept: Kept| {
        let folder = path.join(&kept.folder);
        let (phase, state) = status::phase(&folder);
        let same = folder::read_unit(&folder).is_some_and(|there| there.is_same(&kept.unit));
        let ended_well = phase == Phase::Ended && state.as_ref().is_some_and(ended_well);
        let why = match phase {
            Phase::Missing => None,
            _ if !same => Some("it is another one in the file now".to_owned()),
            _ if !phase.is_final() && sections(&kept.unit).iter().any(is_broken) => {
                Some("the memory of its channels is not as it was made".to_owned())
            }
            Phase::Starting | Phase::Running | Phase::Waiting => {
                tell(Step::Left(kept.folder.clone(), phase));
                return Part { kept, at: At::Left, boots: false };
            }
            Phase::Ended if ended_well => {
                tell(Step::Left(kept.folder.clone(), phase));
                return Part { kept, at: At::Left, boots: false };
            }
            other => Some(format!("it is {}", other.word())),
        };
        if let Some(why) = why {
            tell(Step::Ends(kept.folder.clone(), why));
        }
        Part { kept, at: At::ToStart, boots: false }
    };
    let mut parts: Vec<Part> = kept.into_iter().map(look).collect();
    part::await_needed(path, &mut parts);
    parts
}

fn is_broken(section: &SectionSpec) -> bool {
    run::check_file(section).is_err()
}

/// An `up` at work.
struct Works<'a> {
    path: &'a Path,
    wanted: &'a Wanted<'a>,
    parts: Vec<Part>,
}

impl Works<'_> {
    fn to_start(&self) -> Vec<String> {
        let parts = self.parts.iter().filter(|part| part.at == At::ToStart);
        parts.map(|part| part.kept.folder.clone()).collect()
    }

    fn bring_up(
        &mut self,
        undertaking: &Undertaking,
        cancel: &Cancel,
        tell: &mut dyn FnMut(Step),
    ) -> Result<(), UpError> {
        let path = self.path;
        let broke = |error: io::Error| UpError::Broke(format!("{}: {error}", path.display()).into());
        folder::write_undertaking(path, undertaking).map_err(broke)?;
        let mut unwanted: Vec<String> = undertaking.starts.clone();
        for folder in folder::kept(path) {
            if !self.parts.iter().any(|part| part.kept.folder == folder) {
                tell(Step::Ends(folder.clone(), "it is not in the file any more".to_owned()));
                unwanted.push(folder);
            }
        }
        down::end(path, &unwanted, Manner::Ask, &mut |_: Gone| ()).map_err(UpError::Broke)?;
        let set = self.wanted.set.clone();
        let record = SetRecord { schema_version: SET_SCHEMA, file: self.wanted.file.to_owned(), set };
        folder::write_set(path, &record).map_err(broke)?;
        self.make_links().map_err(broke)?;
        channels::make(path, self.sections()).map_err(broke)?;
        tell(Step::Begins(self.parts.iter().filter(|part| part.at != At::Left).count()));
        while self.parts.iter().any(|part| !matches!(part.at, At::Left | At::Runs)) {
            if cancel.is_cancelled() {
                return Err(UpError::Interrupted);
            }
            self.start_what_may(tell)?;
            self.look(tell)?;
            std::thread::sleep(LOOK_EVERY);
        }
        // What ran a moment ago may have failed since.
        self.look(tell)?;
        if !watch::is_wanted(self.wanted.set) {
            return watch::end(path).map_err(UpError::Broke);
        }
        watch::begin(path, self.wanted.exe).map_err(|error| {
            UpError::Broke(format!("who watches the supervisors cannot be started: {error}").into())
        })
    }

    /// Folders in which plugs of partitions listen.
    fn make_links(&self) -> io::Result<()> {
        for folder in ["p", "n", "l"] {
            root::make_private(&self.path.join(folder))?;
        }
        for part in &self.parts {
            if let UnitSpec::Switch(unit) = &part.kept.unit {
                root::make_private(&unit.link)?;
            }
        }
        Ok(())
    }

    /// Sections of channels, that of a channel once for each partition that has it.
    fn sections(&self) -> impl Iterator<Item = &SectionSpec> {
        self.parts.iter().flat_map(|part| sections(&part.kept.unit))
    }

    /// Starts what waits for nobody any more; no more partitions boot at once than there are CPUs.
    fn start_what_may(&mut self, tell: &mut dyn FnMut(Step)) -> Result<(), UpError> {
        let is_up = |folder: &String, parts: &[Part]| {
            parts.iter().any(|part| part.kept.folder == *folder && matches!(part.at, At::Left | At::Runs))
        };
        let is_partition = |part: &Part| matches!(part.kept.unit, UnitSpec::Partition(_));
        // Those that run and are not ready yet may wait for others to be so.
        let booting = self.parts.iter().filter(|part| part.boots && is_partition(part)).count();
        let mut room = own_cpus().len().max(1).saturating_sub(booting);
        for number in 0..self.parts.len() {
            let Some(part) = self.parts.get(number) else { continue };
            let may = part.kept.after.iter().all(|other| is_up(other, &self.parts));
            if part.at != At::ToStart || !may || (is_partition(part) && room == 0) {
                continue;
            }
            room -= usize::from(is_partition(part));
            tell(Step::Starts(part.kept.folder.clone()));
            start(self.path, &part.kept, self.wanted.exe).map_err(|error| {
                UpError::Broke(format!("{} cannot be started: {error}", part.kept.folder).into())
            })?;
            if let Some(part) = self.parts.get_mut(number) {
                part.at = At::Started(Begun::new());
                part.boots = true;
            }
        }
        Ok(())
    }

    /// How far are those that are waited for?
    fn look(&mut self, tell: &mut dyn FnMut(Step)) -> Result<(), UpError> {
        for part in &mut self.parts {
            let name = &part.kept.folder;
            let folder = self.path.join(name);
            let begun = match part.at {
                At::Started(begun) => begun,
                At::Runs => {
                    let (phase, state) = status::phase(&folder);
                    if phase.is_final() && !(phase == Phase::Ended && state.as_ref().is_some_and(ended_well))
                    {
                        return Err(UpError::Broke(failure(name, phase, state.as_ref(), &folder).into()));
                    }
                    continue;
                }
                At::Left | At::ToStart => continue,
            };
            let seen = part::look(&folder, name, &part.kept.unit, &begun);
            part.boots = seen == Readiness::Boots;
            match seen {
                Readiness::Boots | Readiness::Comes => continue,
                Readiness::Runs => tell(Step::Runs(name.clone(), begun.at.elapsed())),
                Readiness::Done => tell(Step::Done(name.clone())),
                Readiness::Failed(why) => return Err(UpError::Broke(why.into())),
            }
            part.at = At::Runs;
        }
        Ok(())
    }
}

fn sections(unit: &UnitSpec) -> &[SectionSpec] {
    match unit {
        UnitSpec::Partition(unit) => &unit.spec.sections,
        UnitSpec::Switch(_) => &[],
    }
}

/// Makes the folder of a part, and starts its supervisor.
pub(super) fn start(set: &Path, kept: &Kept, exe: &Path) -> io::Result<()> {
    let folder = set.join(&kept.folder);
    root::make_private(&folder)?;
    folder::write_unit(&folder, &kept.unit)?;
    watch::start_supervisor(&folder, exe).map(drop)
}

/// A part in words: `p/plc` is `plc`, `n/control.0` is `switch control.0`.
pub fn shown(folder: &str) -> String {
    match folder.split_once('/') {
        Some(("n", link)) => format!("switch {link}"),
        Some((_, name)) => name.to_owned(),
        None => folder.to_owned(),
    }
}
