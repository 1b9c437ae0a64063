//! One of what is kept while somebody waits for it to run: how far it is, and what is said of it when it failed.
//!
//! ```text
//!  to be started ─► Started ─► boots ─► its program runs ─► ready ─► Runs
//!  there before and as it should be: Left; but where it does not run yet and who is to be started comes after it,
//!  it is Awaited, which goes on like Started
//! ```

use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use super::resolve::Kept;
use super::status;
use model::partition::ProgramEnd;
use model::partition::set::{KeptState, Phase, UnitSpec};

/// How long a supervisor without a boot deadline of its own may take until its program runs.
const USUAL_PATIENCE: Duration = Duration::from_secs(600);
/// What comes on top of the boot deadline: supervisors watch that themselves.
const EXTRA_PATIENCE: Duration = Duration::from_secs(60);
/// Lines of a failed program's standard error that are shown.
const LAST_LINES: usize = 10;

/// One of what is kept, and how far it is.
pub(super) struct Part {
    pub kept: Kept,
    pub at: At,
    /// Whether its guest boots, which is what takes CPUs. One that runs and is not ready yet boots no more.
    pub boots: bool,
}

/// How far a part is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum At {
    /// Was there before as it should be.
    Left,
    /// To be started.
    ToStart,
    /// Started, or there before and waited for.
    Started(Begun),
    /// Has run since.
    Runs,
}

/// Where the waiting for a part began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Begun {
    /// When.
    pub at: Instant,
    /// How often it had been started again by then.
    restarts: u32,
    /// Whether it was started then; else it was there before.
    is_new: bool,
}

/// How far a part is that is waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Readiness {
    /// Its guest boots.
    Boots,
    /// Its program runs and is not ready, or is started again soon.
    Comes,
    /// It runs and is ready.
    Runs,
    /// Its program has ended well.
    Done,
    /// It will not come, in words.
    Failed(String),
}

impl Begun {
    /// It is started now.
    pub fn new() -> Self {
        Self { at: Instant::now(), restarts: 0, is_new: true }
    }

    /// It is there, and waited for from now on.
    fn there(state: Option<&KeptState>) -> Self {
        Self { at: Instant::now(), restarts: state.map_or(0, |state| state.restarts), is_new: false }
    }
}

/// Of those that are left, the ones that others come after that are to be started are waited for until they run.
pub(super) fn await_needed(set: &Path, parts: &mut [Part]) {
    let starts = parts.iter().filter(|part| part.at == At::ToStart);
    let needed: Vec<String> = starts.flat_map(|part| part.kept.after.iter().cloned()).collect();
    for part in parts.iter_mut().filter(|part| part.at == At::Left && needed.contains(&part.kept.folder)) {
        let (phase, state) = status::phase(&set.join(&part.kept.folder));
        if phase != Phase::Running && !state.as_ref().is_some_and(ended_well) {
            part.at = At::Started(Begun::there(state.as_ref()));
        }
    }
}

/// How far what is kept in `folder`, called `name`, is since the waiting for it has begun.
pub(super) fn look(folder: &Path, name: &str, unit: &UnitSpec, begun: &Begun) -> Readiness {
    let (phase, state) = status::phase(folder);
    let state = state.as_ref();
    let patience = patience(unit);
    match phase {
        Phase::Running => Readiness::Runs,
        Phase::Ended if state.is_some_and(ended_well) => Readiness::Done,
        Phase::Waiting if has_run(unit, state, begun) => Readiness::Runs,
        phase if phase.is_final() || is_in_vain(unit, phase, state, begun) => {
            Readiness::Failed(failure(name, phase, state, folder))
        }
        _ if begun.at.elapsed() > patience => {
            Readiness::Failed(format!("{name} did not run within {} s", patience.as_secs()))
        }
        Phase::Starting if !state.is_some_and(|state| state.booted) => Readiness::Boots,
        _ => Readiness::Comes,
    }
}

/// Whether one that is started again soon has run meanwhile, as far as that is asked for: what says when it is ready must be so.
fn has_run(unit: &UnitSpec, state: Option<&KeptState>, begun: &Begun) -> bool {
    let ran = |state: &KeptState| {
        let ended = state.last.as_ref().is_some_and(|last| last.program.is_some());
        begun.is_new || (state.restarts > begun.restarts && ended)
    };
    !says_ready(unit) && state.is_some_and(ran)
}

/// Whether one that is to be ready was started again meanwhile and broke before it was. What broke that was there before the
/// waiting began says nothing.
fn is_in_vain(unit: &UnitSpec, phase: Phase, state: Option<&KeptState>, begun: &Begun) -> bool {
    let again = state.is_some_and(|state| state.restarts > begun.restarts);
    phase == Phase::Waiting && says_ready(unit) && again
}

fn says_ready(unit: &UnitSpec) -> bool {
    matches!(unit, UnitSpec::Partition(unit) if unit.ready.is_some())
}

pub(super) fn ended_well(state: &KeptState) -> bool {
    state.last.as_ref().is_some_and(|last| last.program == Some(ProgramEnd::Exit(0)))
}

fn patience(unit: &UnitSpec) -> Duration {
    let UnitSpec::Partition(unit) = unit else { return USUAL_PATIENCE + EXTRA_PATIENCE };
    let own = unit.tools.boot_deadline_s.map(|seconds| Duration::from_secs(seconds.into()));
    let ready = unit.ready.as_ref().map_or(0, |ready| ready.within_s);
    own.unwrap_or(USUAL_PATIENCE) + Duration::from_secs(ready.into()) + EXTRA_PATIENCE
}

/// What is said of a part that failed; its folder is removed soon.
pub(super) fn failure(name: &str, phase: Phase, state: Option<&KeptState>, folder: &Path) -> String {
    let how = match phase {
        Phase::Lost => "lost its supervisor",
        Phase::Waiting => "is started again and again, and is not ready",
        phase => phase.word(),
    };
    let mut text = format!("{name} {how}");
    if let Some(last) = state.and_then(|state| state.last.as_ref()) {
        // Writing to a String cannot fail.
        let _ = write!(text, ": {}", last.reason);
        for line in &last.console {
            let _ = write!(text, "\n  console: {line}");
        }
    }
    for log in ["stderr.log", "supervisor.log"] {
        let said = fs::read(folder.join(log)).unwrap_or_default();
        let said = String::from_utf8_lossy(&said).into_owned();
        let lines: Vec<&str> = said.lines().collect();
        for line in lines.iter().skip(lines.len().saturating_sub(LAST_LINES)) {
            let plain: String = line.chars().filter(|c| !c.is_control()).take(200).collect();
            let _ = write!(text, "\n  {}: {plain}", log.trim_end_matches(".log"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::set::images::Images;
    use crate::set::{folder, process, resolve, root};
    use model::experiment::Accelerator;
    use model::partition::set::{Faults, LastEnd, PartitionSet, ProcessName, Tools};
    use units::Nanos;

    /// A partition with or without `ready`.
    fn unit(ready: &str) -> UnitSpec {
        let text = format!("name = \"s\"\n[partition.x]\nprogram = [\"x\"]\nrestart = \"always\"\n{ready}\n");
        let set = PartitionSet::from_toml(&text, "s").expect("a set");
        let tools = Tools {
            accelerator: Accelerator::Tcg,
            cache: "/c".into(),
            qemu: None,
            kernel: None,
            modules: None,
            boot_deadline_s: None,
        };
        let mut faults = Faults::default();
        resolve::kept(&set, &tools, Path::new("/x"), &Images::new(), &mut faults).remove(0).unit
    }

    fn state(
        supervisor: &ProcessName,
        phase: Phase,
        booted: bool,
        restarts: u32,
        end: Option<ProgramEnd>,
    ) -> KeptState {
        let reason = "as it was".to_owned();
        KeptState {
            phase,
            since_unix_ns: Nanos::default(),
            supervisor: supervisor.clone(),
            process: None,
            files: None,
            engine: None,
            given: None,
            booted,
            restarts,
            in_a_row: 0,
            last: Some(LastEnd { at_unix_ns: Nanos::default(), program: end, reason, console: Vec::new() }),
            out_of_memory: None,
        }
    }

    #[test]
    fn what_is_started_again_is_waited_for_until_it_is_ready_or_breaks() {
        let dir = tempfile::tempdir().expect("a directory");
        let kept = dir.path().join("kept");
        root::make_private(&kept).expect("made");
        let supervisor = process::own().expect("ourselves");
        folder::write_supervisor(&kept, &supervisor).expect("written");
        let (plain, ready) = (unit(""), unit("ready = { tcp = 80, within_s = 9 }"));
        let there = |restarts| Begun { at: Instant::now(), restarts, is_new: false };
        let seen = |unit: &UnitSpec, begun: Begun, phase, booted, restarts, end| {
            folder::write_state(&kept, &state(&supervisor, phase, booted, restarts, end)).expect("written");
            look(&kept, "p/x", unit, &begun)
        };
        let ended = Some(ProgramEnd::Exit(1));
        // Only what boots counts as booting.
        assert_eq!(seen(&ready, Begun::new(), Phase::Starting, false, 0, None), Readiness::Boots);
        assert_eq!(seen(&ready, Begun::new(), Phase::Starting, true, 0, None), Readiness::Comes);
        // It was there before: what broke by then says nothing, what breaks since is its failure.
        assert_eq!(seen(&ready, there(3), Phase::Waiting, false, 3, ended), Readiness::Comes);
        assert_eq!(seen(&ready, there(3), Phase::Starting, true, 4, ended), Readiness::Comes);
        assert_eq!(seen(&ready, there(3), Phase::Running, true, 4, ended), Readiness::Runs);
        let Readiness::Failed(why) = seen(&ready, there(3), Phase::Waiting, false, 4, None) else {
            panic!("failed")
        };
        assert!(why.contains("is not ready: as it was"), "{why}");
        // Nothing says when it is ready: that its program ran is enough, for one started now or since.
        assert_eq!(seen(&plain, Begun::new(), Phase::Waiting, false, 0, ended), Readiness::Runs);
        assert_eq!(seen(&plain, there(3), Phase::Waiting, false, 3, ended), Readiness::Comes);
        assert_eq!(seen(&plain, there(3), Phase::Waiting, false, 4, None), Readiness::Comes);
        assert_eq!(seen(&plain, there(3), Phase::Waiting, false, 4, ended), Readiness::Runs);
    }
}
