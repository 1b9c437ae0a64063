//! What results rest on: the program, the host's kernel and processor, and of the set each partition as its file has it, its place as the
//! kernel has it, its QEMU, firmware and guest's kernel, the files that its program's words name, those that it is shown, its image, each
//! network, and each requirement with the files that its command names; and other sets' partitions: their entries and places.

mod shown;
mod within;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use images::Digest;
use model::partition::set::{PartitionStatus, PartitionUnit, UnitSpec};
use model::partition::{Content, Given, GivenGroupLimit, GivenIoLimit, Program};
use model::requirement::Requirements;
use model::verification::Basis;
use partition::run::find_program;
use partition::set::folder;
use platforms::vm::kernel::{Places, find};
use platforms::vm::toolbox::{firmware_of, version_of};
use units::Nanos;

use crate::conclude;
use crate::journal::open_plain;
use crate::look::{LookedAt, given};
use within::Within;

/// This program, also when its file has been removed.
const OWN_FILE: &str = "/proc/self/exe";
/// Largest program or kernel that is read.
const MOST_BYTES: u64 = 1 << 30;

/// All of it, as it is now; commands are called in `folder`, and evidence is written to `out`.
pub fn of(looked: &LookedAt, requirements: &Requirements, folder: &Path, out: &Path) -> Basis {
    let mut basis = Basis::new();
    let mut add = |key: &str, value: Option<String>| {
        // What is not known now may be known the next time: a change of that is one, too.
        basis.insert(key.to_owned(), value.unwrap_or_else(|| "not known".to_owned()));
    };
    let mut files = Files::default();
    add("program", files.digest(Path::new(OWN_FILE)));
    add("kernel", kernel());
    add("processor", cpuinfo("model name"));
    add("microcode", cpuinfo("microcode"));
    for (name, network) in &looked.set.networks {
        add(&format!("network.{name}"), of_json(network));
    }
    // What one writes for another is nothing that somebody has changed.
    let written = looked.set.partitions.values().flat_map(|entry| &entry.rw);
    let kept_out = shown::KeptOut::of(written, out);
    for (name, entry) in &looked.set.partitions {
        add(&format!("partition.{name}"), of_json(entry));
        let shown = shown::to(entry, &kept_out, &mut files);
        if !shown.is_empty() {
            add(&format!("files.{name}"), Some(shown));
        }
        let Some(status) = looked.status.partitions.iter().find(|one| one.name == *name) else { continue };
        add(&format!("place.{name}"), given(status).ok().map(|given| place_words(&given)));
        add(&format!("qemu.{name}"), qemu(status, &mut files));
        let unit = unit(status);
        add(&format!("firmware.{name}"), unit.as_ref().and_then(|unit| firmware(unit, status, &mut files)));
        let kernel = unit.as_ref().and_then(|unit| guest_kernel(unit, status, &mut files));
        add(&format!("guest-kernel.{name}"), kernel);
        let Some(Content::Program(program)) = unit.map(|unit| unit.spec.content) else { continue };
        match &program.image {
            // A tree of its own has other files.
            Some(image) => add(&format!("image.{name}"), Some(image.clone())),
            None => add(&format!("program.{name}"), Some(program_words(&program, status, &mut files))),
        }
    }
    for (name, given, entry) in looked.neighbours() {
        // What it runs there is louder or not.
        let entry = entry.and_then(|entry| of_json(&entry)).unwrap_or_else(|| "entry not known".to_owned());
        add(&format!("neighbour.{name}"), Some(format!("{}, {entry}", place_words(&given))));
    }
    for (id, requirement) in requirements {
        add(&format!("requirement.{id}"), Some(conclude::digest(requirement)));
        let named = match &requirement.partition {
            Some(name) if requirement.inside => {
                let program = program_of(looked, name);
                program.map_or_else(String::new, |program| files.named_within(&requirement.command, &program))
            }
            _ => files.named_by_command(&requirement.command, folder),
        };
        if !named.is_empty() {
            add(&format!("command.{id}"), Some(named));
        }
    }
    basis
}

/// Digests of files, each read once, and versions of those programs that were asked.
#[derive(Default)]
struct Files {
    digests: BTreeMap<(u64, u64), Option<String>>,
    versions: BTreeMap<String, Option<String>>,
}

impl Files {
    /// Digests of the files that the words of a command name, which is called in a folder: its program, where it is found, and others.
    fn named_by_command(&mut self, words: &[String], folder: &Path) -> String {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let program = words.first().filter(|word| !word.contains('/'));
        let found = program.and_then(|word| {
            std::env::split_paths(&path).map(|one| one.join(word)).find(|one| one.is_file())
        });
        let rest = words.iter().skip(usize::from(program.is_some())).map(|word| folder.join(word));
        self.all(found.into_iter().chain(rest))
    }

    /// The same of a command that is run beside a partition's program: the files that it finds there.
    fn named_within(&mut self, words: &[String], program: &Program) -> String {
        self.all(Within::of(program).named_by(words))
    }

    fn all(&mut self, paths: impl IntoIterator<Item = PathBuf>) -> String {
        let digests: Vec<String> = paths.into_iter().filter_map(|path| self.digest(&path)).collect();
        digests.join(" ")
    }

    fn digest(&mut self, path: &Path) -> Option<String> {
        let file = open_plain(path, MOST_BYTES).ok()?;
        let about = file.metadata().ok()?;
        let known = self.digests.entry((about.dev(), about.ino()));
        known.or_insert_with(|| digest(file)).clone()
    }
}

fn digest(file: File) -> Option<String> {
    let mut bytes = Vec::new();
    let read = file.take(MOST_BYTES + 1).read_to_end(&mut bytes).ok()?;
    (read as u64 <= MOST_BYTES).then(|| Digest::of(&bytes).short().to_owned())
}

fn of_json(value: &impl serde::Serialize) -> Option<String> {
    Some(Digest::of(&serde_json::to_vec(value).ok()?).short().to_owned())
}

fn kernel() -> Option<String> {
    let word = |name: &str| fs::read_to_string(format!("/proc/sys/kernel/{name}")).ok();
    Some(format!("{} {}", word("osrelease")?.trim(), word("version")?.trim()))
}

fn cpuinfo(name: &str) -> Option<String> {
    let text = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// The program that runs as its QEMU, its version, and how it runs CPUs.
fn qemu(status: &PartitionStatus, files: &mut Files) -> Option<String> {
    let path = PathBuf::from(format!("/proc/{}/exe", status.pid?));
    let program = files.digest(&path)?;
    // What runs already is asked, whatever its file's name leads to by now.
    let version = files.versions.entry(program.clone()).or_insert_with(|| version_of(&path).ok());
    let version = version.as_deref().unwrap_or("version not known");
    Some(format!("{version}, {program}, {}", status.engine.as_deref().unwrap_or("engine not known")))
}

fn firmware(unit: &PartitionUnit, status: &PartitionStatus, files: &mut Files) -> Option<String> {
    let qemu = fs::read_link(format!("/proc/{}/exe", status.pid?)).ok()?;
    files.digest(&firmware_of(&qemu, matches!(unit.spec.content, Content::Image))?)
}

/// How its supervisor starts it.
fn unit(status: &PartitionStatus) -> Option<PartitionUnit> {
    match folder::read_unit(&status.folder)? {
        UnitSpec::Partition(unit) => Some(*unit),
        UnitSpec::Switch(_) => None,
    }
}

/// The program of a partition that is up.
fn program_of(looked: &LookedAt, name: &str) -> Option<Program> {
    let status = looked.status.partitions.iter().find(|one| one.name == name)?;
    match unit(status)?.spec.content {
        Content::Program(program) => Some(*program),
        Content::Image => None,
    }
}

/// The program as its partition finds it, and the files that its other words name there.
fn program_words(program: &Program, status: &PartitionStatus, files: &mut Files) -> String {
    let own = find_program(program).ok().flatten().map(|found| found.host);
    let within = Within::of(program);
    let rest = program.argv.iter().skip(1).filter_map(|word| within.file(Path::new(OsStr::from_bytes(word))));
    let words = own.into_iter().chain(rest).filter_map(|path| as_it_runs(&path, status, files));
    words.collect::<Vec<_>>().join(" ")
}

/// What a file is, and whether it is what a partition was started with: of one that was changed later nobody knows what runs.
fn as_it_runs(path: &Path, status: &PartitionStatus, files: &mut Files) -> Option<String> {
    let digest = files.digest(path)?;
    let started = folder::read_state(&status.folder).map_or(Nanos::ZERO, |state| state.since_unix_ns);
    let about = fs::metadata(path).ok()?;
    let changed = u64::try_from(about.ctime()).unwrap_or(0).saturating_mul(1_000_000_000);
    let is_later = changed.saturating_add(u64::try_from(about.ctime_nsec()).unwrap_or(0)) > started.get();
    Some(if is_later { format!("{digest}, changed since it was started") } else { digest })
}

fn guest_kernel(unit: &PartitionUnit, status: &PartitionStatus, files: &mut Files) -> Option<String> {
    let tools = &unit.tools;
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").ok()?;
    let places = Places {
        named: tools.kernel.as_deref().map(Path::new),
        named_modules: tools.modules.as_deref().map(Path::new),
        cache: &tools.cache,
        root: Path::new("/"),
        host_release: release.trim(),
    };
    let kernel = find(&places).ok()?;
    Some(format!("{} {}", kernel.release, as_it_runs(&kernel.image, status, files)?))
}

/// A place in words: what is compared, and what people are told when it is another one.
fn place_words(given: &Given) -> String {
    let cpus: Vec<String> =
        given.cpus.iter().map(|cpu| format!("{} {}", cpu.allowed, cpu.scheduling)).collect();
    let mut words = vec![format!("CPUs {}", cpus.join("; ")), format!("{} MiB", given.memory.size.get())];
    if !given.memory.nodes.numbers().is_empty() {
        words.push(format!("nodes {}", given.memory.nodes));
    }
    if given.memory.hugepages {
        words.push("huge pages".to_owned());
    }
    words.extend(given.cpu_weight.map(|weight| format!("weight {weight}")));
    words.extend(given.cpu_cap_percent.map(|cap| format!("cap {cap} %")));
    let io = |limit: &GivenIoLimit| {
        format!("{} {} at most {}", limit.device, limit.what.as_str(), limit.most_per_s)
    };
    words.extend(given.io_limits.iter().map(io));
    let group =
        |limit: &GivenGroupLimit| format!("{} {} in {}", limit.what.as_str(), limit.value, limit.cgroup);
    words.extend(given.group_limits.iter().map(group));
    words.extend(given.emulator.as_ref().map(|one| format!("devices {} {}", one.allowed, one.scheduling)));
    let served = given.files.iter().flat_map(|server| &server.threads);
    // Its threads come and go: of those alike one is told, in an order of their own.
    let served: BTreeSet<String> =
        served.map(|one| format!("files {} {}", one.allowed, one.scheduling)).collect();
    words.extend(served);
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_the_files_that_its_words_name_where_it_is_called_or_found() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("data"), "1").unwrap();
        let named = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            Files::default().named_by_command(&words, folder.path())
        };
        let data = Digest::of(b"1").short().to_owned();
        assert_eq!(named(&["./data"]), data);
        assert_eq!(named(&["no-such-program", "data", "--flag"]), data);
        let with_shell = named(&["sh", "data"]);
        assert!(with_shell.ends_with(&data) && with_shell.len() > data.len(), "found by PATH: {with_shell}");
        assert_eq!(named(&["/bin/sh", "data"]), with_shell, "the same file");
    }

    #[test]
    fn a_named_pipe_among_a_commands_words_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().to_owned();
        nix::unistd::mkfifo(&at.join("pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
        fs::write(at.join("data"), "1").unwrap();
        let (done, is_done) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let words = ["./data", "pipe"].map(str::to_owned);
            let mut files = Files::default();
            let _ = done.send((files.digest(&at.join("pipe")), files.named_by_command(&words, &at)));
        });
        let (pipe, named) = is_done.recv_timeout(std::time::Duration::from_secs(30)).unwrap();
        assert_eq!((pipe, named.as_str()), (None, Digest::of(b"1").short()));
    }

    #[test]
    fn what_is_run_in_a_partition_is_the_file_there_and_not_beside_the_requirements() {
        let folder = tempfile::tempdir().unwrap();
        let work = folder.path().join("work");
        fs::create_dir(&work).unwrap();
        fs::write(work.join("accept.sh"), "1").unwrap();
        fs::write(folder.path().join("accept.sh"), "other").unwrap();
        let program = Program { workdir: work.clone(), writable: vec![work.clone()], ..Program::default() };
        let named = || Files::default().named_within(&["./accept.sh".to_owned()], &program);
        assert_eq!(named(), Digest::of(b"1").short());
        fs::write(work.join("accept.sh"), "2").unwrap();
        assert_eq!(named(), Digest::of(b"2").short(), "it was changed");
    }
}
