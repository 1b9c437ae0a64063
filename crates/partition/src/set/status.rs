//! What runs where: read from the folders of sets alone, whoever started them.

use std::fs;
use std::path::Path;

use channel::{Memory, PeerSection};

use super::folder::Mark;
use super::{channels, folder, logs, process, resolve, supervisor, watch};
use model::partition::is_name;
use model::partition::set::{
    ChannelEntry, ChannelStatus, KeptState, PartitionEntry, PartitionSet, PartitionStatus, Phase,
    ProcessName, SetStatus, SwitchStatus, Wiring,
};

/// Most sets that are looked at.
const MOST_SETS: usize = 10_000;

/// Names of all sets that are there, or of which something is.
pub fn names(state_root: &Path) -> Vec<String> {
    let entries = fs::read_dir(state_root).into_iter().flatten().flatten().take(MOST_SETS);
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| is_name(name) && state_root.join(name).is_dir())
        .collect();
    names.sort();
    names
}

/// How far what is kept in this folder is, and what its supervisor wrote last.
pub fn phase(folder: &Path) -> (Phase, Option<KeptState>) {
    let state = folder::read_state(folder);
    let Some(supervisor) = folder::read_supervisor(folder) else { return (Phase::Missing, state) };
    match &state {
        Some(state) if state.phase.is_final() => (state.phase, Some(state.clone())),
        _ if process::is_alive(&supervisor) => {
            // What one that was killed wrote is not how this one stands.
            let own = state.as_ref().filter(|state| state.supervisor == supervisor);
            (own.map_or(Phase::Starting, |state| state.phase), state)
        }
        // Its last word may have come between the two looks.
        _ => match folder::read_state(folder) {
            Some(state) if state.phase.is_final() => (state.phase, Some(state)),
            // Whoever stopped it may have had to kill its supervisor.
            state if Mark::Stopped.is_set(folder) => (Phase::Stopped, state),
            state => (Phase::Lost, state),
        },
    }
}

/// Whether what is kept in this folder runs, or is about to: also between the stop and the start of a restart, and until one whose
/// supervisor was killed has another.
pub fn goes_on(folder: &Path) -> bool {
    let supervisor = folder::read_supervisor(folder);
    let (first, _) = phase(folder);
    let Some(set) = folder.parent().and_then(Path::parent) else { return !first.is_final() };
    if !first.is_final() || folder::may_start(set, first) || watch::will_replace(set, folder) {
        return true;
    }
    // Whoever worked on it may have started it between the looks.
    !phase(folder).0.is_final() || folder::read_supervisor(folder) != supervisor
}

/// A set; none when nothing is known of it.
pub fn status(state_root: &Path, name: &str) -> Option<SetStatus> {
    let path = state_root.join(name);
    let record = folder::read_set(&path)?;
    let wiring = record.set.wiring().unwrap_or_default();
    let partitions = record.set.partitions.iter().map(|(name, entry)| {
        let folder = path.join(resolve::partition_folder(name));
        let addresses = wiring.iter().filter_map(|(network, wires)| address(network, wires, name));
        partition(name, entry, &folder, addresses.collect())
    });
    Some(SetStatus {
        set: name.to_owned(),
        file: record.file.clone(),
        busy: folder::busy(&path),
        watcher_pid: folder::read_watcher(&path).filter(process::is_alive).map(|process| process.pid),
        partitions: partitions.collect(),
        switches: switches(&record.set, &path),
        channels: channels(&record.set, &path),
    })
}

/// The last lines that a partition has written: its program's output (of an image: what came over its console), and its
/// program's errors.
pub fn last_words(partition: &PartitionStatus) -> [Vec<String>; 2] {
    ["stdout.log", "stderr.log"].map(|log| logs::last_lines(&partition.folder.join(log)))
}

fn address(network: &str, wires: &Wiring, name: &str) -> Option<String> {
    let member = wires.members.get(name)?;
    Some(format!("{network} {}", wires.subnet.address(member.number)))
}

fn partition(name: &str, entry: &PartitionEntry, folder: &Path, addresses: Vec<String>) -> PartitionStatus {
    let (phase, state) = phase(folder);
    PartitionStatus {
        name: name.to_owned(),
        phase,
        seconds: seconds(phase, state.as_ref()),
        pid: running(state.as_ref().and_then(|state| state.process.as_ref())),
        files_pid: running(state.as_ref().and_then(|state| state.files.as_ref())),
        supervisor_pid: folder::read_supervisor(folder).filter(process::is_alive).map(|process| process.pid),
        engine: state.as_ref().and_then(|state| state.engine.clone()),
        cpus: entry.cpus,
        pin: entry.pin.as_ref().map(ToString::to_string),
        memory_mib: entry.memory_mib,
        node: entry.node,
        restart: entry.restart,
        restarts: state.as_ref().map_or(0, |state| state.restarts),
        addresses,
        last: state.as_ref().and_then(|state| state.last.clone()),
        out_of_memory: state.as_ref().and_then(|state| state.out_of_memory.clone()),
        given: state.and_then(|state| state.given),
        folder: folder.to_owned(),
    }
}

/// Since when it has been in this phase.
fn seconds(phase: Phase, state: Option<&KeptState>) -> u64 {
    let since =
        state.filter(|_| phase != Phase::Missing).map_or(supervisor::now(), |state| state.since_unix_ns);
    supervisor::now().saturating_sub(since).to_duration().as_secs()
}

/// Number of a process, if that lives.
fn running(process: Option<&ProcessName>) -> Option<u32> {
    process.filter(|process| process::is_alive(process)).map(|process| process.pid)
}

fn switches(set: &PartitionSet, path: &Path) -> Vec<SwitchStatus> {
    let links = set
        .networks
        .iter()
        .flat_map(|(name, network)| resolve::links(name, network.links).collect::<Vec<_>>());
    links
        .map(|link| {
            let folder = path.join("n").join(&link);
            let (phase, state) = phase(&folder);
            let pid = running(state.as_ref().and_then(|state| state.process.as_ref()));
            SwitchStatus {
                name: link,
                // One that was killed does not run, also before its supervisor has seen that.
                phase: if phase == Phase::Running && pid.is_none() { Phase::Waiting } else { phase },
                seconds: seconds(phase, state.as_ref()),
                pid,
                supervisor_pid: folder::read_supervisor(&folder)
                    .filter(process::is_alive)
                    .map(|process| process.pid),
                restarts: state.as_ref().map_or(0, |state| state.restarts),
                last: state.and_then(|state| state.last),
            }
        })
        .collect()
}

/// The state word is all that is read: what a writer's program puts beside it may be anything.
fn channels(set: &PartitionSet, path: &Path) -> Vec<ChannelStatus> {
    let one = |(name, channel): (&String, &ChannelEntry)| {
        let file = path.join(channels::FOLDER).join(name);
        let word = Memory::readable(&file).and_then(PeerSection::new).and_then(|section| section.state());
        let (state, generation) = match word {
            Ok(word) => (word.state.to_string(), word.generation),
            Err(error) => (error.to_string(), 0),
        };
        ChannelStatus {
            name: name.clone(),
            writer: channel.writer.clone(),
            readers: channel.readers.clone(),
            size_mib: channel.size_mib,
            file,
            state,
            generation,
        }
    };
    set.channels.iter().map(one).collect()
}

/// Seconds as people say them: `42 s`, `3 min`, `5 h`, `2 d`.
pub fn ago(seconds: u64) -> String {
    match seconds {
        0..=119 => format!("{seconds} s"),
        120..=7199 => format!("{} min", seconds / 60),
        7200..=172_799 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::set::folder::{SetFolder, Work};
    use crate::set::root;
    use units::Nanos;

    #[test]
    fn what_is_stopped_goes_on_while_it_is_restarted() {
        let dir = tempfile::tempdir().expect("a directory");
        let state_root = dir.path().join("state");
        let set = SetFolder::take(&state_root, "plant", Work::One, true).expect("taken");
        let kept = set.path().join("p/db");
        root::make_private(&set.path().join("p")).expect("made");
        root::make_private(&kept).expect("made");
        let supervisor = process::own().expect("ourselves");
        folder::write_supervisor(&kept, &supervisor).expect("written");
        let state = |phase| KeptState {
            phase,
            since_unix_ns: Nanos::default(),
            supervisor: supervisor.clone(),
            process: None,
            files: None,
            engine: None,
            given: None,
            booted: false,
            restarts: 0,
            in_a_row: 0,
            last: None,
            out_of_memory: None,
        };
        folder::write_state(&kept, &state(Phase::Stopped)).expect("written");
        assert!(goes_on(&kept), "who works on it may start it");
        drop(set);
        assert!(!goes_on(&kept), "nobody does any more");
        folder::write_state(&kept, &state(Phase::Waiting)).expect("written");
        assert!(goes_on(&kept));
        folder::write_state(&kept, &state(Phase::Ended)).expect("written");
        let up = SetFolder::take(&state_root, "plant", Work::Up, false).expect("taken");
        assert!(!goes_on(&kept), "it has ended, whatever else an up waits for");
        drop(up);
    }
}
