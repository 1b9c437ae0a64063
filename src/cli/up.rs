//! `bulkhead up`: from a file to partitions that run.
//!
//! ```text
//!  FILE ─────────────────────────► PartitionSet ─► partition::set::up ─ steps ─► progress ─► what runs, as `ps` shows it
//!  plan.json ─ --on ─► its set beside it ─┘                                                   compared with the plan
//!                └► a machine that ssh reaches: all of that over there (`remote`)
//! ```

use std::path::Path;

use anyhow::{Context, anyhow};
use indicatif::ProgressBar;

use super::args::{SplitAt, UpArgs};
use super::ending::{Ending, OrStop, Verdict};
use super::plan::{self, Chosen};
use super::{cache, emit, file, interrupt, output, ps, remote};
use model::partition::Inherited;
use model::partition::set::{Fault, FoundBy, MAX_SET_BYTES, PartitionSet, ReadSet, SetErrors, Tools};
use partition::place::HostTopology;
use partition::set::judge::faults_here;
use partition::set::root::state_root;
use partition::set::split::over_nodes;
use partition::set::status::status;
use partition::set::up::{Step, UpError, Wanted, shown, up};
use platforms::{Cancel, limits};
use report::text::printable;
use units::Nanos;

/// Most characters of hosts' names that are printed.
const LONGEST_LINE: usize = 400;

/// Brings a set up, shows how far it is, prints what runs.
pub fn run(args: &UpArgs) -> Verdict {
    // They are the programs'. What is read and made for them here may be larger.
    let inherited = limits::taken();
    let chosen = plan::chosen(&args.file, args.on.as_deref()).or_bad_input()?;
    let Some(chosen) = &chosen else { return on_this_machine(args, &args.file, None, &inherited) };
    let file = chosen.set_beside(&args.file).or_bad_input()?;
    if let Some(destination) = &chosen.destination {
        return remote::bring_up(args, chosen, &file, destination);
    }
    let ending = on_this_machine(args, &file, Some(chosen), &inherited)?;
    let others = chosen.others();
    if ending == Ending::Done && args.emit.is_none() && !others.is_empty() {
        let others = printable(&others.join(", "), LONGEST_LINE);
        output::say(&format!("planned for other hosts, each with its --on: {others}"));
    }
    Ok(ending)
}

fn on_this_machine(args: &UpArgs, file: &Path, planned: Option<&Chosen>, inherited: &Inherited) -> Verdict {
    let cancel =
        interrupt::token_saying("interrupted; ending what was started (again: at once)").or_lacking()?;
    bring_up(args, file, planned, inherited, &cancel)
}

/// The same of a set's file, which may be that of a plan, on this machine.
pub fn bring_up(
    args: &UpArgs,
    file: &Path,
    planned: Option<&Chosen>,
    inherited: &Inherited,
    cancel: &Cancel,
) -> Verdict {
    let text = read(file).or_bad_input()?;
    let mut set = checked(args, file, &text).or_bad_input()?;
    if args.split == Some(SplitAt::Node) {
        let host = HostTopology::of_this_host().map_err(anyhow::Error::msg).or_lacking()?;
        let split = over_nodes(&set, &host);
        set = split.map_err(|fault| told(file, &text, vec![fault])).or_bad_input()?;
    }
    let place = file.canonicalize().or_bad_input()?;
    let exe = std::env::current_exe().context("the program's own file cannot be found").or_lacking()?;
    let tools = tools(args, &set);
    if let Some(manager) = args.emit {
        return emit::run(args, manager, &set, &text, &tools, &exe);
    }
    if !cache::lasts() {
        return Err(anyhow!(
            "partitions that go on need a cache folder that stays: BULKHEAD_CACHE names one"
        ))
        .or_lacking();
    }
    let root = state_root();
    let wanted = Wanted { set: &set, file: &place, tools: &tools, inherited, state_root: &root, exe: &exe };
    let mut progress = Progress::new();
    let outcome = up(&wanted, cancel, &mut |step| progress.on(step));
    progress.finish();
    match outcome {
        Ok(()) => {}
        Err(UpError::Faults(faults)) => return Err(told(file, &text, faults)).or_bad_input(),
        Err(UpError::Interrupted) => return Ok(Ending::Interrupted),
        Err(error @ UpError::Lacking(_)) => return Err(error).or_lacking(),
        Err(error @ UpError::Broke(_)) => return Err(error).or_broke(),
        Err(error) => return Err(error).or_bad_input(),
    }
    ps::show(&root, Some(&set.name), args.json).or_lacking()?;
    if let (Some(planned), Some(set)) = (planned, status(&root, &set.name)) {
        planned.was_given(&set).or_broke()?;
    }
    Ok(Ending::Done)
}

fn tools(args: &UpArgs, set: &PartitionSet) -> Tools {
    Tools {
        accelerator: set.accelerator,
        cache: cache::folder(),
        qemu: args.tools.qemu.clone(),
        kernel: args.tools.kernel.clone(),
        modules: args.tools.modules.clone(),
        boot_deadline_s: set.boot_deadline_s,
    }
}

/// The set in a file. Of one that is wrong, it is told as well what this host says against the rest.
fn checked(args: &UpArgs, file: &Path, text: &str) -> anyhow::Result<PartitionSet> {
    let mut read = ReadSet::of(text, &file::stem(file));
    if let (None, Some(set)) = (read.faultless(), &read.set) {
        let faults = faults_here(set, &tools(args, set), &state_root().join(&set.name));
        read.add(faults, FoundBy::Host, text);
    }
    read.finish().map_err(|errors| anyhow!(errors.in_file(file)))
}

/// The set in a file.
pub fn parse(path: &Path, text: &str) -> anyhow::Result<PartitionSet> {
    PartitionSet::from_toml(text, &file::stem(path)).map_err(|errors| anyhow!(errors.in_file(path)))
}

/// Faults of a file's set, a line each.
pub fn told(file: &Path, text: &str, faults: Vec<Fault>) -> anyhow::Error {
    anyhow!(SetErrors::of(faults, text).in_file(file))
}

/// The text of a set's file.
pub fn read(path: &Path) -> anyhow::Result<String> {
    file::read("", path, MAX_SET_BYTES)
}

/// A bar when stderr is a terminal, lines elsewhere.
struct Progress {
    bar: Option<ProgressBar>,
    booting: Vec<String>,
}

impl Progress {
    fn new() -> Self {
        let bar = output::bar();
        Self { bar, booting: Vec::new() }
    }

    fn on(&mut self, step: Step) {
        match step {
            Step::Undone(what) => {
                let names: Vec<String> = what.iter().map(|folder| shown(folder)).collect();
                self.line(&format!("undone what an up that died had begun: {}", names.join(", ")));
            }
            Step::Prepares(what) => self.line(&what),
            Step::Remark(folder, remark) => self.line(&format!("{}: {remark}", shown(&folder))),
            Step::Begins(0) => self.line("nothing is missing"),
            Step::Begins(count) => {
                self.bar.iter().for_each(|bar| bar.set_length(count as u64));
            }
            Step::Left(folder, phase) => {
                self.line(&format!("{}: left, it is {}", shown(&folder), phase.word()));
            }
            Step::Ends(folder, why) => self.line(&format!("{}: ended, because {why}", shown(&folder))),
            Step::Starts(folder) => {
                self.booting.push(shown(&folder));
                self.now();
            }
            Step::Runs(folder, took) => {
                self.ready(&folder, &format!("runs after {}", Nanos::from_duration(took)));
            }
            Step::Done(folder) => self.ready(&folder, "has run, and ended with 0"),
            Step::Undoing => self.line("ending what was started"),
        }
    }

    fn ready(&mut self, folder: &str, how: &str) {
        let name = shown(folder);
        self.booting.retain(|other| *other != name);
        self.line(&format!("{name}: {how}"));
        self.bar.iter().for_each(|bar| bar.inc(1));
        self.now();
    }

    fn now(&self) {
        self.bar.iter().for_each(|bar| bar.set_message(format!("starting {}", self.booting.join(", "))));
    }

    fn line(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| output::say(text)),
            None => output::say(text),
        }
    }

    fn finish(self) {
        self.bar.iter().for_each(ProgressBar::finish_and_clear);
    }
}
