//! A set that is up, its requirements, and faults that are made in it one by one: who is no pass any more is the fault's row.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use bulkhead::model::partition::set::{SetStatus, SwitchStatus};
use bulkhead::model::requirement::RequirementFile;
use bulkhead::model::verification::{RequirementVerdict, Verification};
use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

use crate::set_fixture::Bench;

/// Echoes lines; with a name, what that one over the network echoes.
pub const ECHO: &str = "
import socket, socketserver, sys
class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        if len(sys.argv) == 1:
            for line in self.rfile:
                self.wfile.write(line)
            return
        beyond = socket.create_connection((sys.argv[1], 9000), 5)
        beyond.settimeout(5)
        answers = beyond.makefile('rb')
        for line in self.rfile:
            beyond.sendall(line)
            self.wfile.write(answers.readline())
class Server(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True
Server(('', 9000), Handler).serve_forever()
";

/// Who is no pass, and what it is.
pub type Flipped = BTreeMap<String, RequirementVerdict>;

/// Set and requirements, and what was seen so far.
pub struct Plant {
    pub bench: Bench,
    /// What must hold.
    pub requirements: String,
    parents: BTreeMap<String, Option<String>>,
    out: String,
    rows: Vec<(String, Flipped)>,
    wrong: Vec<String>,
}

impl Plant {
    /// Brings the set up.
    pub fn start(bench: Bench, set: &str, requirements: String) -> Self {
        let said = bench.up(&bench.file("plant.toml", set));
        assert_eq!(said.code, Some(0), "{said:?}");
        let read = RequirementFile::from_toml(&requirements, "").expect("requirements");
        let parents = read.requirements.into_iter().map(|(id, one)| (id, one.parent)).collect();
        let out = bench.path("evidence").to_str().expect("plain").to_owned();
        Self { bench, requirements, parents, out, rows: Vec::new(), wrong: Vec::new() }
    }

    /// All of them as they are written.
    pub fn look(&self, words: &[&str]) -> Flipped {
        self.verify(&self.requirements, words)
    }

    pub fn verify(&self, requirements: &str, words: &[&str]) -> Flipped {
        let file = self.bench.path("requirements.toml");
        fs::write(&file, requirements).expect("the test's own files");
        let file = file.to_str().expect("plain");
        let said = self.bench.call(&[&["verify", file, "--out", &self.out], words].concat());
        assert!(matches!(said.code, Some(0 | 1 | 4)), "{said:?}");
        let text = fs::read(format!("{}/verify.json", self.out)).expect("it is written");
        let told: Verification = serde_json::from_slice(&text).expect("a verification");
        let all = told.requirements.into_iter().map(|one| (one.id, one.verdict));
        all.filter(|(_, verdict)| *verdict != RequirementVerdict::Pass).collect()
    }

    /// Makes a fault, looks, takes it back and looks again. `wanted` are those without parts.
    pub fn fault(&mut self, name: &str, wanted: &[&str], make: impl FnOnce(&Self), undo: impl FnOnce(&Self)) {
        make(self);
        let before = self.rounds();
        let flipped = self.look(&[]);
        // What is not there was looked for until the time was over, once.
        let grown = self.rounds().saturating_sub(before);
        assert!(grown < 50, "{name}: {grown} rounds");
        undo(self);
        self.row(name, wanted, flipped);
        let left = self.look(&[]);
        if !left.is_empty() {
            self.wrong.push(format!("after {name} was taken back: {left:?}"));
        }
    }

    fn rounds(&self) -> usize {
        let journal = fs::read_to_string(format!("{}/journal.jsonl", self.out)).expect("it is written");
        journal.lines().count()
    }

    /// What was seen of a fault.
    pub fn row(&mut self, name: &str, wanted: &[&str], flipped: Flipped) {
        let mut wanted: BTreeSet<String> = wanted.iter().map(|id| (*id).to_owned()).collect();
        let parents: Vec<String> =
            wanted.iter().filter_map(|id| self.parents.get(id).cloned().flatten()).collect();
        wanted.extend(parents);
        let got: BTreeSet<String> = flipped.keys().cloned().collect();
        if got != wanted {
            self.wrong.push(format!("{name}: wanted {wanted:?}, got {flipped:?}"));
        }
        self.rows.push((name.to_owned(), flipped));
    }

    /// Edits the requirement with this id by replacing a part of it, and looks.
    pub fn edited(&self, id: &str, from: &str, to: &str, words: &[&str]) -> Flipped {
        let head =
            if id.contains('.') { format!("[requirement.\"{id}\"]") } else { format!("[requirement.{id}]") };
        let at = self.requirements.find(&head).expect("it is there");
        let (before, own) = self.requirements.split_at(at);
        self.verify(&format!("{before}{}", own.replacen(from, to, 1)), words)
    }

    /// How the set stands.
    pub fn status(&self) -> SetStatus {
        let said = self.bench.call(&["ps", "--json"]);
        let sets: Vec<SetStatus> = serde_json::from_str(&said.out).expect("ps --json");
        sets.into_iter().find(|set| set.set == "plant").expect("it is up")
    }

    pub fn partition(&self, name: &str) -> Process {
        let one = self.status().partitions.into_iter().find(|one| one.name == name).expect("a partition");
        let threads = one.given.map(|given| given.cpus.iter().map(|cpu| cpu.thread).collect());
        Process { pid: one.pid.expect("it runs"), threads: threads.unwrap_or_default() }
    }

    /// The process that serves a partition's files, where one does.
    pub fn file_server(&self, name: &str) -> Option<Process> {
        let one = self.status().partitions.into_iter().find(|one| one.name == name).expect("a partition");
        Some(Process { pid: one.files_pid?, threads: Vec::new() })
    }

    /// A switch, by the name of its link.
    pub fn switch(&self, link: &str) -> SwitchStatus {
        self.status().switches.into_iter().find(|one| one.name == link).expect("a switch")
    }

    pub fn call(&self, words: &[&str]) {
        let said = self.bench.call(words);
        assert_eq!(said.code, Some(0), "{said:?}");
    }

    /// Lets the virtual CPUs of a partition run on these CPUs.
    pub fn pin(&self, name: &str, cpus: &[usize]) {
        let mut set = CpuSet::new();
        for cpu in cpus {
            set.set(*cpu).expect("a CPU");
        }
        for thread in self.partition(name).threads {
            sched_setaffinity(Pid::from_raw(i32::try_from(thread).expect("a number")), &set)
                .expect("it runs");
        }
    }

    /// Prints all rows; none of them was wrong, and nothing stays behind.
    pub fn end(self) {
        for (name, flipped) in &self.rows {
            let words: Vec<String> =
                flipped.iter().map(|(id, verdict)| format!("{id} {}", verdict.as_str())).collect();
            println!("| {name} | {} |", words.join(", "));
        }
        println!("{} faults, {} of them wrong", self.rows.len(), self.wrong.len());
        assert!(self.wrong.is_empty(), "{}", self.wrong.join("\n"));
        assert_eq!(self.bench.call(&["down", "plant"]).code, Some(0));
        self.bench.assert_nothing_left("after the faults");
    }
}

/// A partition's process, and the threads of its virtual CPUs.
pub struct Process {
    pub pid: u32,
    /// Of its CPUs.
    pub threads: Vec<u32>,
}

/// A file of the CPU group that a process is in, by its name in both versions; whether it is the old one.
fn group_of(pid: u32, old: &str, new: &str) -> Option<(PathBuf, bool)> {
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    groups.lines().find_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        let is_old = controllers.split(',').any(|one| one == "cpu");
        let mount = if is_old { "/sys/fs/cgroup/cpu" } else { "/sys/fs/cgroup" };
        let file = Path::new(mount).join(path.trim_start_matches('/')).join(if is_old { old } else { new });
        ((is_old || controllers.is_empty()) && file.exists()).then_some((file, is_old))
    })
}

/// Weight of a process as its CPU group's file says it.
pub fn weight_of(pid: u32) -> Option<String> {
    fs::read_to_string(group_of(pid, "cpu.shares", "cpu.weight")?.0).ok()
}

impl Process {
    /// A file of the CPU group that it is in, by its name in both versions; whether it is the old one.
    pub fn group(&self, old: &str, new: &str) -> (PathBuf, bool) {
        group_of(self.pid, old, new).expect("a CPU group holds it")
    }

    /// A limit on a disk that somebody can put on it.
    pub fn throttle(&self) -> Throttle {
        let by = Confined::process(self.pid, "blkio")
            .map_or_else(|| ThrottledBy::File(self.group("", "io.max").0), ThrottledBy::Group);
        let disks = fs::read_dir("/sys/block").expect("disks");
        let first = disks.map(|disk| disk.expect("a disk").path().join("dev")).min().expect("a disk");
        let device = fs::read_to_string(first).expect("its number").trim().to_owned();
        Throttle { by, device }
    }
}

/// A group of version 1 below the one that a process is in, for it or for one of its threads.
pub struct Confined {
    who: String,
    list: &'static str,
    folder: PathBuf,
}

impl Confined {
    /// For a process, where this hierarchy is there.
    pub fn process(pid: u32, controller: &str) -> Option<Self> {
        Self::of(pid, pid, "cgroup.procs", controller)
    }

    /// For a thread alone.
    pub fn thread(pid: u32, thread: u32, controller: &str) -> Option<Self> {
        Self::of(pid, thread, "tasks", controller)
    }

    fn of(pid: u32, who: u32, list: &'static str, controller: &str) -> Option<Self> {
        let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).expect("it runs");
        let own = groups.lines().find_map(|line| {
            let (controllers, path) = line.split_once(':')?.1.split_once(':')?;
            (controllers == controller).then(|| path.trim_start_matches('/').to_owned())
        })?;
        let hierarchy = Path::new("/sys/fs/cgroup").join(controller);
        Some(Self {
            who: who.to_string(),
            list,
            folder: hierarchy.join(own).join(format!("bulkhead-faults-{who}")),
        })
    }

    /// Puts it there, where a file says this.
    pub fn hold(&self, file: &str, text: &str) {
        fs::create_dir(&self.folder).expect("a group");
        fs::write(self.folder.join(file), text).expect("a limit");
        fs::write(self.folder.join(self.list), &self.who).expect("it runs");
    }

    /// Back to where it was.
    pub fn release(&self) {
        let freezer = self.folder.join("freezer.state");
        if freezer.exists() {
            fs::write(freezer, "THAWED").expect("a state");
        }
        let above = self.folder.parent().expect("a hierarchy").join(self.list);
        fs::write(above, &self.who).expect("it runs");
        fs::remove_dir(&self.folder).expect("nothing is in it");
    }
}

enum ThrottledBy {
    /// Version 1: a group that the process is moved into.
    Group(Confined),
    /// Version 2: a file of the group that it is in.
    File(PathBuf),
}

/// A limit on a disk.
pub struct Throttle {
    by: ThrottledBy,
    device: String,
}

impl Throttle {
    /// Puts it on, in the words of `io.max`.
    pub fn set(&self, limit: &str) {
        match &self.by {
            ThrottledBy::File(file) => fs::write(file, format!("{} {limit}", self.device)).expect("a limit"),
            ThrottledBy::Group(group) => {
                let (name, most) = limit.split_once('=').expect("a limit");
                let name = if name == "rbps" { "read_bps" } else { "write_iops" };
                group.hold(&format!("blkio.throttle.{name}_device"), &format!("{} {most}", self.device));
            }
        }
    }

    /// Takes it off.
    pub fn lift(&self) {
        match &self.by {
            ThrottledBy::File(file) => {
                fs::write(file, format!("{} rbps=max wiops=max", self.device)).expect("no limit");
            }
            ThrottledBy::Group(group) => group.release(),
        }
    }
}
