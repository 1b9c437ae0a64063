//! `bulkhead plan`: where partitions go.
//!
//! ```text
//!  FILE, --add ─► System ─┐                        ┌─ planned ─► checked by `audit` ─► DIR: plan.json, sets, plan.html
//!  hosts ─► KnownHosts ───┴─ --drain, --what-if ─► plan ─┤
//!  --from ─► Plan ────────────────────────────────►      └─ impossible ─► conflict ─► relaxations
//!  --check, --check-proof: only looked at
//! ```

pub mod args;
mod check;
mod hosts;
mod impossible;
mod moves;
mod planned;
mod write;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Error, anyhow, bail};

use super::ending::{Ending, OrStop, Stop, Verdict};
use super::{file, interrupt, json, output};
use args::PlanArgs;
pub use hosts::{Asking, known_hosts};
use model::partition::set::{MAX_SET_BYTES, SetErrors};
use model::plan::{PLAN_SCHEMA_VERSION, Plan};
use model::system::{KnownHost, System};
use plan::{Answer, Question};
pub use planned::{Chosen, chosen, chosen_of, chosen_with_partition};
use platforms::Cancel;

/// Largest plan that is read: those of 4096 partitions are a fraction of it.
pub const MAX_PLAN_BYTES: usize = 64 << 20;

/// What is planned.
struct Asked {
    system: System,
    text: String,
    hosts: Vec<KnownHost>,
    /// Those, and the ones that are drained: who is there still runs.
    standing: Vec<KnownHost>,
    notes: Vec<String>,
    from: Option<Plan>,
}

/// Plans, or checks.
pub fn run(args: &PlanArgs) -> Verdict {
    let cancel = interrupt::token_saying("interrupted; the best plan so far is taken (again: at once)")
        .or_lacking()?;
    let mut asked = read(args, &cancel)?;
    if args.check.is_some() || args.check_proof.is_some() {
        return check::run(args, &asked.system, &asked.hosts, asked.from.as_ref());
    }
    without(args, &mut asked).or_bad_input()?;
    let out = args.out.clone().unwrap_or_else(|| PathBuf::from(format!("{}-plan", asked.system.set.name)));
    write::is_free(&out).or_bad_input()?;
    let budget = Duration::from_secs(args.budget_s.into());
    let began = Instant::now();
    let is_over = || cancel.is_cancelled() || began.elapsed() > budget;
    let question = Question {
        system: &asked.system,
        hosts: &asked.hosts,
        from: asked.from.as_ref(),
        proof: args.proof.is_some(),
        is_over: &is_over,
    };
    let progress = Progress::new(&asked, args.budget_s);
    let answer = plan::plan(&question);
    progress.finish();
    match answer {
        Answer::Planned(planned) => {
            let plan = finished(planned.plan, &asked)?;
            certificate(args, planned.certificate.as_deref())?;
            write::all(&out, &asked.system, &asked.hosts, &plan).or_bad_input()?;
            show(args, &plan, &asked, &out)?;
            Ok(if cancel.is_cancelled() { Ending::Interrupted } else { Ending::Done })
        }
        Answer::Impossible { certificate: proof } => {
            certificate(args, proof.as_deref())?;
            impossible::tell(args, &question, &asked.text, &cancel)
        }
        Answer::TooLarge => Err(anyhow!(
            "max_downtime_ms is planned up to 20 000 replicas times nodes, and this system has more: leave it out, or plan parts of it"
        ))
        .or_bad_input(),
        Answer::NotFound { without_room } if without_room.is_empty() => Err(anyhow!(
            "no plan was found, and none is proven impossible: of a system with more than 20 000 replicas times nodes that is not searched \
             for. Plan parts of it, or leave more room"
        ))
        .or_broke(),
        Answer::NotFound { without_room } => {
            impossible::tell_without_room(&without_room)?;
            Ok(Ending::NotMet)
        }
        Answer::Ended if cancel.is_cancelled() => Ok(Ending::Interrupted),
        Answer::Ended => Err(anyhow!(
            "no plan was found within {} s, and none is proven impossible: --budget-s gives more time",
            args.budget_s
        ))
        .or_broke(),
    }
}

fn read(args: &PlanArgs, cancel: &Cancel) -> Result<Asked, Stop> {
    let text = file::read("", &args.file, MAX_SET_BYTES).or_bad_input()?;
    let mut system = System::from_toml(&text, &file::stem(&args.file))
        .map_err(|errors| anyhow!(errors.in_file(&args.file)))
        .or_bad_input()?;
    for file in &args.add {
        add(&mut system, file).or_bad_input()?;
    }
    let exe = std::env::current_exe().context("the program's own file cannot be found").or_lacking()?;
    let folder = args.file.parent().filter(|folder| !folder.as_os_str().is_empty());
    let asking = Asking { exe: &exe, ssh: &Asking::usual_ssh(), cancel };
    let mut notes = Vec::new();
    let hosts = known_hosts(&system, folder.unwrap_or(Path::new(".")), &asking, &mut notes)
        .map_err(|faults| anyhow!(SetErrors::of(faults, &text).in_file(&args.file)))
        .or_bad_input()?;
    let from = args.from.as_deref().map(plan_of).transpose().or_bad_input()?;
    Ok(Asked { system, text, standing: hosts.clone(), hosts, notes, from })
}

/// More partitions, networks and channels from another file. Its hosts are those of the first.
fn add(system: &mut System, file: &Path) -> anyhow::Result<()> {
    let text = file::read("", file, MAX_SET_BYTES)?;
    let more = System::more_from_toml(&text, &file::stem(file), system)
        .map_err(|errors| anyhow!(errors.in_file(file)))?;
    *system = more;
    Ok(())
}

/// A plan that was written earlier.
fn plan_of(path: &Path) -> anyhow::Result<Plan> {
    parse(path, &file::read("", path, MAX_PLAN_BYTES)?)
}

/// The plan in a file's text.
pub fn parse(path: &Path, text: &str) -> anyhow::Result<Plan> {
    let plan: Plan = serde_json::from_str(text)
        .with_context(|| format!("{} is no plan (plan.json of bulkhead plan)", path.display()))?;
    if plan.schema_version != PLAN_SCHEMA_VERSION {
        bail!(
            "{} has schema version {}; this program reads {PLAN_SCHEMA_VERSION}",
            path.display(),
            plan.schema_version
        );
    }
    Ok(plan)
}

/// Takes away what is drained or said to be gone.
fn without(args: &PlanArgs, asked: &mut Asked) -> anyhow::Result<()> {
    let names: Vec<String> = asked.hosts.iter().map(|host| host.name.clone()).collect();
    let known = |name: &str| -> anyhow::Result<()> {
        if names.iter().any(|host| host == name) {
            return Ok(());
        }
        bail!("there is no host \"{name}\": there are {}", names.join(", "))
    };
    let mut gone: Vec<String> = Vec::new();
    args.drain.iter().try_for_each(|name| known(name))?;
    for what in &args.what_if {
        let wanted = || {
            format!(
                "--what-if {what}: wanted host.NAME=lost, host.NAME.disk.DISK=lost or host.NAME.nic.NIC=lost"
            )
        };
        let part =
            what.strip_suffix("=lost").and_then(|part| part.strip_prefix("host.")).with_context(wanted)?;
        if names.iter().any(|name| name == part) {
            gone.push(part.to_owned());
            continue;
        }
        let device = names
            .iter()
            .filter_map(|name| Some((name, part.strip_prefix(name.as_str())?.strip_prefix('.')?)));
        // Names may have dots: the longest one is meant.
        let device = device.max_by_key(|(name, _)| name.len());
        let Some((name, device)) = device else {
            known(part)?;
            continue;
        };
        let Some(host) = asked.hosts.iter_mut().find(|host| host.name == *name) else { continue };
        let before = host.shape.disks.len() + host.shape.nics.len();
        match device.split_once('.') {
            Some(("disk", disk)) => host.shape.disks.retain(|one| one.name != disk),
            Some(("nic", nic)) => host.shape.nics.retain(|one| one.name != nic),
            _ => bail!(wanted()),
        }
        if before == host.shape.disks.len() + host.shape.nics.len() {
            bail!("--what-if {what}: host \"{name}\" has no such device");
        }
    }
    asked.hosts.retain(|host| !gone.contains(&host.name));
    asked.standing = asked.hosts.clone();
    asked.hosts.retain(|host| !args.drain.contains(&host.name));
    if asked.hosts.is_empty() {
        bail!("no host is left");
    }
    Ok(())
}

/// The plan with its notes, checked by code that has not made it.
fn finished(mut plan: Plan, asked: &Asked) -> Result<Plan, Stop> {
    let (_, notes) = plan::sets(&asked.system, &plan);
    let (cpus, silent) =
        sim::planned::cpus(&asked.system, &asked.hosts, &plan).map_err(Error::msg).or_broke()?;
    plan.predictions.extend(cpus);
    let silent = (!silent.is_empty()).then(|| {
        format!(
            "{}: what they get of shared CPUs is not predicted, their pools are too many",
            silent.join(", ")
        )
    });
    let own = std::mem::take(&mut plan.notes);
    plan.notes =
        asked.notes.iter().cloned().chain(spares(&plan)).chain(silent).chain(notes).chain(own).collect();
    let broken = audit::broken_rules(&asked.system, &asked.hosts, &plan);
    let wrong = audit::wrong_claims(&asked.system, &asked.hosts, &plan, asked.from.as_ref());
    let told: Vec<String> = broken.iter().map(ToString::to_string).chain(wrong).collect();
    if told.is_empty() {
        return Ok(plan);
    }
    let told = told.into_iter().take(8).collect::<Vec<_>>().join("; ");
    Err(anyhow!(
        "the plan that was found does not pass its own check, so it is not written; please report it: {told}"
    ))
    .or_broke()
}

/// What room that is kept free does not promise.
fn spares(plan: &Plan) -> Option<String> {
    let with: Vec<&str> = plan
        .partitions
        .iter()
        .filter(|placed| placed.spare.is_some())
        .map(|placed| placed.name.as_str())
        .collect();
    (!with.is_empty()).then(|| {
        format!(
            "{}: what is kept free for when the host dies is CPUs and memory; disks, cards, neighbours and latencies there are not \
             planned (--what-if host.NAME=lost plans all of it)",
            with.join(", ")
        )
    })
}

fn certificate(args: &PlanArgs, certificate: Option<&str>) -> Result<(), Stop> {
    let Some(path) = &args.proof else { return Ok(()) };
    let Some(certificate) = certificate else {
        output::say("no proof is written: this system is too large for one (docs/plan.md)");
        return Ok(());
    };
    file::write(path, certificate.as_bytes(), 0o644).or_bad_input()
}

fn show(args: &PlanArgs, plan: &Plan, asked: &Asked, out: &Path) -> Result<(), Stop> {
    if args.json {
        let text = json::pretty(plan).or_bad_input()?;
        output::data(&text).or_bad_input()?;
    } else {
        let mut text = report::plan::terminal(plan, output::stdout_style(), args.full);
        if let Some(from) = &asked.from {
            text.push_str(&moves::told(&asked.system, &asked.standing, from, plan, args));
        }
        output::data(text.trim_end()).or_bad_input()?;
    }
    output::say(&format!("\nwritten: {}", write::files(out, plan)));
    Ok(())
}

/// A bar that says what is done and for how long at most.
struct Progress(Option<indicatif::ProgressBar>);

impl Progress {
    fn new(asked: &Asked, budget_s: u32) -> Self {
        let bar = output::bar();
        if let Some(bar) = &bar {
            bar.set_length(budget_s.into());
            let (partitions, hosts) = (asked.system.set.partitions.len(), asked.hosts.len());
            bar.set_message(format!(
                "planning {partitions} partitions on {hosts} hosts, {budget_s} s at most"
            ));
        }
        Self(bar)
    }

    fn finish(self) {
        self.0.iter().for_each(indicatif::ProgressBar::finish_and_clear);
    }
}
