//! The placement trial: random partitions on this host, each made as a paused QEMU that never runs, placed, read back,
//! compared, and ended; and as many that cannot be had, of which nothing may come into being.
//!
//! ```text
//!  seed ─► valid ─► possible, group, paused QEMU, place ─► read back ─► agrees? ─► ended ─► nothing is left?
//!      └─► invalid ─► the same way ─► refused? ─► no process, no group, nothing in the ledger?
//! ```

pub mod cases;

use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{fs, io};

use rand::SeedableRng;
use rand_xoshiro::Xoshiro256PlusPlus;

use bulkhead::model::partition::DiskSpec;
use bulkhead::model::platform::DiskBus;
use bulkhead::partition::place::{HostTopology, differences, group, place, possible, read_back};
use bulkhead::platforms::cgroup::{self, Groups, MOUNT};
use bulkhead::platforms::ledger::{FILE_NAME, Ledger, Thing, Ticket};
use bulkhead::platforms::spawn::{Bond, enter_group, spawn};
use bulkhead::platforms::sweep::new_folder;
use bulkhead::platforms::vm::disk::find_program;
use bulkhead::platforms::vm::inherit::inherit;
use bulkhead::platforms::vm::qemu::{DiskArgument, Extras, MACHINE, MemoryArgument, Throttle};
use bulkhead::platforms::vm::qmp::Qmp;
use bulkhead::units::Reason;
use cases::{Case, Dice};

/// Size of the trial's disks.
const DISK_BYTES: u64 = 1 << 20;
/// Longest complaint of QEMU's that is repeated.
const COMPLAINT_CHARS: usize = 500;

/// What a trial found.
#[derive(Debug, Default)]
pub struct Tally {
    seed: u64,
    valid: u64,
    agreed: u64,
    invalid: u64,
    refused: u64,
    starts: Vec<Duration>,
}

impl Tally {
    /// Whether all that was asked was given, and nothing else was started.
    pub fn is_clean(&self) -> bool {
        self.agreed == self.valid && self.refused == self.invalid
    }

    /// One line.
    pub fn words(&self) -> String {
        let mut starts = self.starts.clone();
        starts.sort_unstable();
        let at = |index: usize| starts.get(index).map_or(0.0, Duration::as_secs_f64);
        format!(
            "seed {}: asked and given agree for {} of {} valid partitions; {} of {} invalid ones started nothing; a paused \
             QEMU takes {:.2} s (median), {:.2} s at most",
            self.seed,
            self.agreed,
            self.valid,
            self.refused,
            self.invalid,
            at(starts.len() / 2),
            at(starts.len().saturating_sub(1))
        )
    }
}

/// What all partitions of a trial share.
struct Bench {
    qemu: PathBuf,
    folder: PathBuf,
    ledger: Ledger,
    device: Option<PathBuf>,
}

/// A QEMU that is paused, in its group; both are gone when it is dropped.
struct Paused {
    child: Child,
    control: Qmp,
    group: Groups,
    ticket: Option<Ticket>,
    ledger: Ledger,
    complaints: PathBuf,
}

impl Drop for Paused {
    fn drop(&mut self) {
        // It cannot be gone, and its number cannot be another's: it has not been reaped.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(ticket) = self.ticket.take() {
            self.ledger.undone(ticket);
        }
        self.group = Groups::default();
    }
}

/// Tries `count` random partitions that can be had and `count` that cannot. With a block device one disk of some
/// partitions lies on it; it is only opened for reading.
///
/// # Errors
/// The trial itself cannot be made: no QEMU, no folder for it, the host cannot be read.
pub fn run(seed: u64, count: u64, device: Option<&Path>) -> Result<Tally, Reason> {
    let qemu = find_program("qemu-system-x86_64").ok_or("no qemu-system-x86_64 in PATH")?;
    let folder = new_folder("trial").map_err(|error| format!("no folder: {error}"))?;
    let ledger = Ledger::open(folder.path()).map_err(|error| format!("no ledger: {error}"))?;
    let bench =
        Bench { qemu, folder: folder.path().to_owned(), ledger, device: device.map(ToOwned::to_owned) };
    let unified = has_unified_cpu();
    let mut tally = Tally { seed, ..Tally::default() };
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    for number in 0..count {
        // Free memory and huge pages are looked at anew: what the last one had must be there again.
        let host = HostTopology::of_this_host()?;
        let mut dice = Dice { random, host: &host, unified };
        let (case, (bad, kind)) = (dice.valid(), dice.invalid());
        random = dice.random;
        tally.valid += 1;
        match bench.agrees(&case, &mut tally.starts) {
            Ok(()) => tally.agreed += 1,
            Err(why) => {
                eprintln!("valid partition {number} of seed {seed}: {why}\n  asked: {:?}", case.asked);
            }
        }
        tally.invalid += 1;
        match bench.starts_nothing(&bad) {
            Ok(_reason) => tally.refused += 1,
            Err(why) => eprintln!("invalid partition {number} of seed {seed} ({kind}): {why}"),
        }
    }
    Ok(tally)
}

/// Whether groups of version 2 have the `cpu` controller here.
fn has_unified_cpu() -> bool {
    let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    cgroup::unified_parent(Path::new(MOUNT), &own, &["cpu"], false).is_some()
}

impl Bench {
    /// Makes a valid one and holds it to what was asked.
    fn agrees(&self, case: &Case, starts: &mut Vec<Duration>) -> Result<(), Reason> {
        let disks = self.disks(&case.throttles)?;
        let mut paused = self.start(case, &disks)?;
        let (pid, at) = (paused.child.id(), Instant::now());
        // The first answer comes when QEMU has made its machine.
        let placed = place(&case.asked, pid, None, &mut paused.control);
        starts.push(at.elapsed());
        let in_words = |why: Reason| format!("{why}; qemu says: {}", complaint(&paused.complaints));
        placed.map_err(in_words)?;
        let given = read_back(pid, None, &mut paused.control)?;
        let found = differences(&case.asked, &disks, &given);
        if !found.is_empty() {
            return Err(format!("asked and given differ: {found:?}").into());
        }
        let path = given.cgroup.map(PathBuf::from).filter(|_| !paused.group.is_empty());
        drop(paused);
        match path {
            Some(path) if path.exists() => Err(format!("{} is left behind", path.display()).into()),
            _ => Ok(()),
        }
    }

    /// Goes the same way with one that cannot be had; the reason why it was refused.
    fn starts_nothing(&self, case: &Case) -> Result<String, Reason> {
        let disks = self.disks(&case.throttles)?;
        let size = || fs::metadata(self.folder.join(FILE_NAME)).map_or(0, |data| data.size());
        let (written, children) = (size(), children()?);
        let reason = match self.start(case, &disks) {
            Err(reason) => reason,
            Ok(_started) => return Err(format!("was started: {:?}", case.asked).into()),
        };
        if size() != written {
            return Err("something was written into the ledger".into());
        }
        if self::children()? != children {
            return Err("a process was started".into());
        }
        Ok(reason.into())
    }

    /// Refuses, or makes the group and the paused QEMU in it.
    fn start(&self, case: &Case, disks: &[DiskSpec]) -> Result<Paused, Reason> {
        possible(&case.asked)?;
        let group = group(&case.asked, disks, &self.ledger)?;
        let (ours, theirs) = UnixStream::pair().map_err(|error| format!("no control channel: {error}"))?;
        let theirs = OwnedFd::from(theirs);
        let complaints = self.folder.join("complaints");
        let failed = |error: io::Error| format!("cannot start {}: {error}", self.qemu.display());
        let mut command = Command::new(&self.qemu);
        self.ledger.mark(&mut command);
        command.args(base_words(case, theirs.as_raw_fd()));
        command.args(extras(case, disks).arguments(case.asked.cpus, case.asked.memory));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(File::create(&complaints).map_err(failed)?);
        let inherited = vec![theirs];
        inherit(&mut command, &inherited);
        for procs in group.entrances().map_err(failed)? {
            enter_group(&mut command, procs);
        }
        let child = spawn(command, Bond::DiesWithUs, None).map_err(failed)?;
        let thing = Thing::process(child.id());
        let (control, ledger) = (Qmp::new(ours), self.ledger.clone());
        let mut paused = Paused { child, control, group, ticket: None, ledger, complaints };
        paused.ticket = thing.map(|thing| self.ledger.record(thing)).transpose().map_err(failed)?;
        Ok(paused)
    }

    fn disks(&self, throttles: &[Throttle]) -> Result<Vec<DiskSpec>, Reason> {
        let each = throttles.iter().enumerate().map(|(number, throttle)| {
            let file = match &self.device {
                Some(device) if number == 0 => device.clone(),
                _ => self.folder.join(format!("disk{number}.img")),
            };
            if !file.exists() {
                let made = File::create(&file).and_then(|made| made.set_len(DISK_BYTES));
                made.map_err(|error| format!("cannot make {}: {error}", file.display()))?;
            }
            let (bytes_per_s, operations_per_s) = (throttle.bytes_per_s, throttle.operations_per_s);
            Ok(DiskSpec { file, read_only: true, bytes_per_s, operations_per_s })
        });
        each.collect()
    }
}

/// A machine with no kernel: it never runs.
fn base_words(case: &Case, control: i32) -> Vec<String> {
    let cpus = format!("cpus={0},sockets=1,cores={0},threads=1", case.asked.cpus);
    let memory = format!("{}M", case.asked.memory.get());
    let channel = format!("socket,id=control,fd={control}");
    let words = [
        "-nodefaults",
        "-no-user-config",
        "-display",
        "none",
        "-machine",
        MACHINE,
        "-accel",
        "tcg,thread=multi",
        "-cpu",
        "max",
        "-smp",
        &cpus,
        "-m",
        &memory,
        "-chardev",
        &channel,
        "-mon",
        "chardev=control,mode=control",
    ];
    words.map(ToOwned::to_owned).to_vec()
}

fn extras(case: &Case, disks: &[DiskSpec]) -> Extras {
    let (node, hugepages, guest_nodes) = (case.asked.node, case.asked.hugepages, case.asked.guest_nodes);
    let disk = |disk: &DiskSpec| DiskArgument {
        image: disk.file.clone(),
        direct: false,
        bus: DiskBus::Virtio,
        shared: true,
        read_only: disk.read_only,
        throttle: Throttle { bytes_per_s: disk.bytes_per_s, operations_per_s: disk.operations_per_s },
        handed: None,
    };
    Extras {
        memory: MemoryArgument { node, hugepages, guest_nodes },
        disks: disks.iter().map(disk).collect(),
        paused: true,
        ..Extras::default()
    }
}

fn complaint(file: &Path) -> String {
    let said = fs::read_to_string(file).unwrap_or_default();
    said.trim().chars().take(COMPLAINT_CHARS).collect()
}

/// Processes that this one has started and not reaped, of all its threads.
fn children() -> Result<Vec<String>, Reason> {
    let threads =
        fs::read_dir("/proc/self/task").map_err(|error| format!("cannot list own threads: {error}"))?;
    let mut all = Vec::new();
    for thread in threads.filter_map(Result::ok) {
        let said = fs::read_to_string(thread.path().join("children")).unwrap_or_default();
        all.extend(said.split_whitespace().map(ToOwned::to_owned));
    }
    all.sort_unstable();
    Ok(all)
}
