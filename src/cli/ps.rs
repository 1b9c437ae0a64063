//! `bulkhead ps`: what runs where.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{anyhow, bail};

use super::args::PsArgs;
use super::ending::{Ending, OrStop, Verdict};
use super::remote::{self, Errand};
use super::{output, plan};
use model::partition::set::{OutOfMemory, PartitionStatus, Phase, Restart, SetStatus, SwitchStatus};
use partition::set::root::state_root;
use partition::set::{find, status, supervisor};
use report::text::{Paint, TextCell, TextTable, ascii, printable};

/// Most characters of a partition's line that are printed.
const LONGEST_LINE: usize = 400;

/// Prints all sets, or one; or what one partition wrote last.
pub fn run(args: &PsArgs) -> Verdict {
    let planned = plan::chosen_of(args.set.as_deref(), args.on.as_deref()).or_bad_input()?;
    if let Some((plan, chosen)) = &planned
        && let Some(destination) = &chosen.destination
    {
        let (set, json, console) = (chosen.plan.system.clone(), args.json, args.console.clone());
        return remote::run(chosen, destination, &Errand::Ps { set, json, console }, plan);
    }
    let named = planned.as_ref().map(|(_, chosen)| chosen.plan.system.as_str()).or(args.set.as_deref());
    print(named, args.console.as_deref(), args.json)
}

/// Prints all sets of this machine, or one; or what one partition wrote last.
pub fn print(named: Option<&str>, console: Option<&str>, json: bool) -> Verdict {
    if let Some(partition) = console {
        let text = last_words(&state_root(), named, partition).or_bad_input()?;
        output::data(&text).or_lacking()?;
        return Ok(Ending::Done);
    }
    show(&state_root(), named, json).or_bad_input()?;
    Ok(Ending::Done)
}

/// Prints the sets of a state folder, or one of them.
pub fn show(root: &Path, named: Option<&str>, json: bool) -> anyhow::Result<()> {
    let there = status::names(root);
    let wanted = there.iter().filter(|name| named.is_none_or(|named| named == *name));
    let sets: Vec<SetStatus> = wanted.filter_map(|name| status::status(root, name)).collect();
    if let Some(named) = named.filter(|_| sets.is_empty()) {
        bail!("no set \"{named}\" is up");
    }
    let text = if json { serde_json::to_string_pretty(&sets)? } else { words(&sets) };
    output::data(&text)?;
    Ok(())
}

/// What a partition of a set, named or not, wrote last.
fn last_words(root: &Path, set: Option<&str>, name: &str) -> anyhow::Result<String> {
    let meant = find::partition(root, name, set).map_err(|problem| anyhow!(problem))?;
    let parts = status::last_words(&meant.partition);
    let both = parts.iter().all(|lines| !lines.is_empty());
    let mut text = String::new();
    for (what, lines) in ["output", "errors"].iter().zip(parts) {
        if both {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{what}:");
        }
        for line in lines {
            let _ = writeln!(text, "{}", printable(&line, LONGEST_LINE));
        }
    }
    Ok(text)
}

fn words(sets: &[SetStatus]) -> String {
    if sets.is_empty() {
        return "no set is up\n".to_owned();
    }
    let style = output::stdout_style();
    let text: Vec<String> = sets.iter().map(|set| one(set, style.width, style.colour)).collect();
    let text = text.join("\n");
    if output::stdout_is_ascii() { ascii(&text) } else { text }
}

fn one(set: &SetStatus, width: usize, colour: bool) -> String {
    let busy = set.busy.as_ref().map(|who| format!(", busy: {who}")).unwrap_or_default();
    let mut text = format!("{} ({}{busy})\n", set.set, printable(&set.file.display().to_string(), 200));
    let head = ["partition", "phase", "for", "pid", "cpus", "memory", "node", "restarts", "address"];
    let mut table = TextTable::default();
    table.rows.push(head.map(|title| TextCell { text: title.to_owned(), paint: Paint::Bold }).to_vec());
    table.rows.extend(set.partitions.iter().map(row));
    text.push_str(&table.render(width, colour));
    if !set.switches.is_empty() {
        text.push_str(&switches(&set.switches).render(width, colour));
    }
    for channel in &set.channels {
        let state = match channel.state.as_str() {
            "absent" => "nothing written to it yet".to_owned(),
            other => printable(other, 200),
        };
        let readers = channel.readers.join(", ");
        let size = channel.size_mib.to_bytes();
        let _ = writeln!(text, "channel {}: {} → {readers}, {size}, {state}", channel.name, channel.writer);
    }
    for partition in &set.partitions {
        if partition.phase == Phase::Running {
            if let Some(out_of_memory) = &partition.out_of_memory {
                let _ = writeln!(text, "{}: {}", partition.name, said_of(out_of_memory));
            }
            continue;
        }
        if partition.phase == Phase::Lost {
            // What it said last is of an earlier start.
            let then = if partition.restart != Restart::Never && set.watcher_pid.is_some() {
                "it is started again soon"
            } else {
                "bulkhead up starts both anew"
            };
            let _ = writeln!(text, "{}: its supervisor was killed; {then}", partition.name);
        } else if let Some(last) = &partition.last {
            let _ = writeln!(text, "{}: {}", partition.name, printable(&last.reason, 400));
        }
    }
    text
}

/// `8 s ago, memory ran out (256 MiB); the largest was …`
fn said_of(out_of_memory: &OutOfMemory) -> String {
    let since = supervisor::now().saturating_sub(out_of_memory.at_unix_ns).to_duration().as_secs();
    format!("{} ago, {}", status::ago(since), printable(&out_of_memory.reason, 400))
}

fn switches(switches: &[SwitchStatus]) -> TextTable {
    let mut table = TextTable::default();
    let head = ["switch", "phase", "for", "pid", "restarts"];
    table.rows.push(head.map(|title| TextCell { text: title.to_owned(), paint: Paint::Bold }).to_vec());
    table.rows.extend(switches.iter().map(|switch| {
        vec![
            TextCell::plain(switch.name.clone()),
            phase(switch.phase),
            TextCell::plain(status::ago(switch.seconds)),
            or_dash(switch.pid.map(|pid| pid.to_string())),
            TextCell::plain(switch.restarts.to_string()),
        ]
    }));
    table
}

fn phase(phase: Phase) -> TextCell {
    let paint = match phase {
        Phase::Running => Paint::Green,
        Phase::Failed | Phase::Lost | Phase::Missing => Paint::Red,
        Phase::Starting | Phase::Waiting | Phase::Stopping => Paint::Yellow,
        Phase::Stopped | Phase::Ended => Paint::None,
    };
    TextCell { text: phase.word().to_owned(), paint }
}

fn or_dash(text: Option<String>) -> TextCell {
    TextCell::plain(text.unwrap_or_else(|| "-".to_owned()))
}

fn row(partition: &PartitionStatus) -> Vec<TextCell> {
    let cpus = match &partition.pin {
        Some(pin) => format!("{} on {pin}", partition.cpus),
        None => partition.cpus.to_string(),
    };
    let addresses = (!partition.addresses.is_empty()).then(|| partition.addresses.join(", "));
    vec![
        TextCell::plain(partition.name.clone()),
        phase(partition.phase),
        TextCell::plain(status::ago(partition.seconds)),
        or_dash(partition.pid.map(|pid| pid.to_string())),
        TextCell::plain(cpus),
        TextCell::plain(format!("{} MiB", partition.memory_mib.get())),
        or_dash(partition.node.map(|node| node.to_string())),
        TextCell::plain(partition.restarts.to_string()),
        or_dash(addresses),
    ]
}
