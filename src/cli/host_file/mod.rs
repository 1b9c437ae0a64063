//! A host as a file: what this machine is made of and what was measured on it, for whoever plans for it elsewhere.
//!
//! ```text
//!  /sys, /proc ─► SeenHost ─────┐
//!  run folder ─► RunResults ────┼─► HostShape ─► `doctor --host-file` ─► TOML ─► from = "FILE"
//!  channel bench ─► its output ─┘       └──────► from = "here"
//! ```

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Error};

use super::ending::{Ending, OrStop, Verdict};
use super::measure::now;
use super::{file, output};
use analysis::host_facts::{MeasuredDisk, MeasuredHost, of_channel_bench, of_run};
use model::channel_bench::{CHANNEL_BENCH_VERSION, ChannelBench};
use model::system::{DiskShape, HostFacts, HostShape, MAX_HOST_BYTES, NodeShape};
use partition::place::{SeenDisk, SeenHost};
use platforms::facts;
use report::utc::format_utc;
use units::facts::MachineFacts;
use units::{Nanos, Reason};

/// Largest output of a channel bench that is read.
const MAX_BENCH_BYTES: usize = 64 << 20;
/// What a line of a note begins with in a file.
const NOTE: &str = "# note: ";

/// A host, and what whoever plans for it should know.
#[derive(Debug, Default)]
pub struct Described {
    /// What it is made of, with what was measured so far.
    pub shape: HostShape,
    /// Its disks, where they were looked at; what they give is in `shape` where that is known.
    pub disks: Option<Vec<SeenDisk>>,
    /// What is not as one would think, a sentence each.
    pub notes: Vec<String>,
}

/// Writes this host to `file`, or to stdout for `-`.
pub fn run(file: &Path, runs: &[PathBuf]) -> Verdict {
    let mut host = Described::here().map_err(Error::msg).or_lacking()?;
    let machine = facts::collect(None);
    for run in runs {
        let measured = measured(run, &host.shape.nodes, Some(&machine)).map_err(Error::msg).or_bad_input()?;
        host.add(measured);
    }
    host.tell_of_silent_disks();
    let text = text(&host, now()).map_err(Error::msg).or_bad_input()?;
    if file == Path::new("-") {
        output::data(&text).or_bad_input()?;
        return Ok(Ending::Done);
    }
    fs::write(file, text)
        .with_context(|| format!("the host cannot be written to {}", file.display()))
        .or_bad_input()?;
    for note in &host.notes {
        output::say(&format!("bulkhead: note: {note}"));
    }
    output::say(&format!("bulkhead: host written to {}", file.display()));
    Ok(Ending::Done)
}

impl Described {
    /// This host.
    ///
    /// # Errors
    /// The kernel does not say what it must.
    pub fn here() -> Result<Self, Reason> {
        let SeenHost { shape, disks, notes } = SeenHost::of_this_host()?;
        Ok(Self { shape, disks: Some(disks), notes })
    }

    /// Says which disks are left out, after all that is known was added.
    pub fn tell_of_silent_disks(&mut self) {
        let has_rate = |disk: &&SeenDisk| self.shape.disks.iter().any(|known| known.name == disk.name);
        let silent = self.disks.iter().flatten().filter(|disk| !has_rate(disk));
        let silent: Vec<&str> = silent.map(|disk| disk.name.as_str()).collect();
        if !silent.is_empty() {
            self.notes.push(format!(
                "disks left out, because what they give was not measured: {}. Measure in a folder on them (bulkhead measure native vm \
                 --probe disk), and name the run",
                silent.join(", ")
            ));
        }
    }

    /// Adds what was measured where nothing is known yet. Where disks were looked at, it is the one on which the device of the run
    /// lies; else the one with its name.
    pub fn add(&mut self, measured: MeasuredHost) {
        self.notes.extend(measured.notes);
        fill(&mut self.shape.facts, measured.facts);
        let Some(of_run) = measured.disk else { return };
        let Some(disks) = &self.disks else {
            let is_on = |disk: &&DiskShape| is_partition_of(&of_run.device, &disk.name);
            let written = self.shape.disks.iter().find(is_on).map(|disk| disk.name.clone());
            return self.add_disk(&written.unwrap_or_else(|| of_run.device.clone()), None, &of_run);
        };
        let holders: Vec<&SeenDisk> =
            disks.iter().filter(|disk| disk.holds.contains(&of_run.device)).collect();
        let [holder] = holders[..] else {
            let device = &of_run.device;
            self.notes
                .push(format!("the run's disk {device} is on none of this host's disks, or on several"));
            return;
        };
        let (name, node) = (holder.name.clone(), holder.node);
        self.add_disk(&name, node, &of_run);
    }

    fn add_disk(&mut self, name: &str, node: Option<u32>, of_run: &MeasuredDisk) {
        if let Some(known) = self.shape.disks.iter_mut().find(|disk| disk.name == name) {
            known.node = known.node.or(node);
            known.stall_ms = known.stall_ms.or(of_run.stall);
            known.stall_alone_ms = known.stall_alone_ms.or(of_run.stall_alone);
            return;
        }
        if self.disks.is_none() && self.shape.nodes.len() > 1 {
            self.notes.push(format!(
                "the run's disk {name} is left out: at which memory node it hangs is not known. Write the host's file on that machine \
                 with --run, or write the disk into the system's file"
            ));
            return;
        }
        self.shape.disks.push(DiskShape {
            name: name.to_owned(),
            node,
            bytes_per_s: of_run.bytes_per_s,
            stall_ms: of_run.stall,
            stall_alone_ms: of_run.stall_alone,
        });
    }
}

/// `vda1` of `vda`, `nvme0n1p2` of `nvme0n1`, and a disk itself.
fn is_partition_of(device: &str, disk: &str) -> bool {
    let Some(rest) = device.strip_prefix(disk) else { return false };
    let digits =
        if disk.ends_with(|c: char| c.is_ascii_digit()) { rest.strip_prefix('p') } else { Some(rest) };
    rest.is_empty()
        || digits.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

/// What is not known yet.
pub fn fill(known: &mut HostFacts, more: HostFacts) {
    known.channel_us = known.channel_us.or(more.channel_us);
    known.channel_far_us = known.channel_far_us.or(more.channel_far_us);
    known.network_us = known.network_us.or(more.network_us);
    known.start_ms = known.start_ms.or(more.start_ms);
    known.detect_ms = known.detect_ms.or(more.detect_ms);
    known.granted_per_mille = known.granted_per_mille.or(more.granted_per_mille);
    if known.wakeup.is_empty() {
        known.wakeup = more.wakeup;
    }
}

/// What a run says of its host, which has these nodes and is `here`, where that is known.
///
/// # Errors
/// It is no run and no output of a channel bench, or is damaged.
pub fn measured(
    path: &Path,
    nodes: &[NodeShape],
    here: Option<&MachineFacts>,
) -> Result<MeasuredHost, Reason> {
    if let Some(bench) = bench(path)? {
        return Ok(of_bench(&bench, nodes));
    }
    let run = campaign::read_results(path).map_err(|error| format!("run {}: {error}", path.display()))?;
    let mut measured = of_run(&run);
    if here.is_some_and(|here| here.cpu_model != run.host.cpu_model) {
        let other = run.host.cpu_model.as_deref().unwrap_or("unknown");
        measured.notes.push(format!("run {}: it was made on another machine (CPU: {other})", path.display()));
    }
    Ok(measured)
}

/// What a channel bench printed; none where the path is something else.
fn bench(path: &Path) -> Result<Option<ChannelBench>, Reason> {
    let is_other =
        path.is_dir() || path.file_name().is_some_and(|name| name == campaign::rundir::RESULTS_FILE);
    if is_other {
        return Ok(None);
    }
    let text = bounded(path, MAX_BENCH_BYTES)?;
    let bench: ChannelBench = serde_json::from_str(&text).map_err(|error| {
        format!(
            "{}: wanted the folder of a run, or what channel bench --json printed: {error}",
            path.display()
        )
    })?;
    if bench.schema_version != CHANNEL_BENCH_VERSION {
        let got = bench.schema_version;
        return Err(format!(
            "{}: wanted a bench of version {CHANNEL_BENCH_VERSION}, got {got}",
            path.display()
        )
        .into());
    }
    Ok(Some(bench))
}

/// Near or far follows from the nodes of the two CPUs that the bench ran on.
fn of_bench(bench: &ChannelBench, nodes: &[NodeShape]) -> MeasuredHost {
    let node_of =
        |cpu: &u32| nodes.iter().find(|node| node.cpus.numbers().contains(cpu)).map(|node| node.number);
    let held: Option<BTreeSet<u32>> = bench.host_cpus.iter().map(node_of).collect();
    match held.map(|held| held.len()) {
        Some(1) => of_channel_bench(bench, false),
        Some(2) => of_channel_bench(bench, true),
        _ => MeasuredHost {
            notes: vec![
                "the channel bench ran on CPUs that are not known: near or far cannot be told".to_owned(),
            ],
            ..MeasuredHost::default()
        },
    }
}

/// Reads a file that `doctor --host-file` wrote.
///
/// # Errors
/// It cannot be read, or says what is wrong with it.
pub fn read(path: &Path) -> Result<HostShape, Reason> {
    HostShape::from_toml(&bounded(path, MAX_HOST_BYTES)?)
}

fn bounded(path: &Path, most: usize) -> Result<String, Reason> {
    let why = |error: std::io::Error| Reason::from(format!("cannot read {}: {error}", path.display()));
    // A pipe would wait for somebody who writes.
    if !fs::metadata(path).map_err(why)?.is_file() {
        return Err(format!("{} is no file", path.display()).into());
    }
    let text = file::read("", path, most).map_err(|error| Reason::from(format!("{error:#}")))?;
    if text.len() > most {
        return Err(format!("{} is longer than {most} bytes", path.display()).into());
    }
    Ok(text)
}

/// The notes of a file, as another machine says them.
pub fn notes_of(text: &str) -> impl Iterator<Item = String> {
    text.lines().filter_map(|line| line.strip_prefix(NOTE)).map(str::to_owned)
}

/// The file: remarks that say where and when, then the data.
fn text(host: &Described, when: Nanos) -> Result<String, Reason> {
    let facts = facts::collect(None);
    let name = nix::sys::utsname::uname().ok().map(|names| names.nodename().to_string_lossy().into_owned());
    let kernel = facts.kernel.map(|kernel| format!("Linux {kernel}"));
    let mut text = format!(
        "# What this host has for partitions, as bulkhead {} saw it.\n# {}\n",
        env!("CARGO_PKG_VERSION"),
        format_utc(when)
    );
    for (what, said) in [
        ("host", name),
        ("machine", facts::machine()),
        ("CPU", facts.cpu_model),
        ("kernel", kernel),
        ("system", facts.system),
    ] {
        if let Some(said) = said {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "# {what}: {}", one_line(&said));
        }
    }
    for note in &host.notes {
        let _ = writeln!(text, "{NOTE}{}", one_line(note));
    }
    Ok(format!("{text}\n{}", host.shape.to_toml()?))
}

/// What other files say may have line breaks, which would end a remark.
fn one_line(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

#[cfg(test)]
mod tests;
