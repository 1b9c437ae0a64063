//! `bulkhead exec` against what one would do by hand, side by side in one run; the ratios count, not the times.
//!
//! `cargo bench --bench exec [-- boot|streams|starts|many|wall|ports|restored …] [--rounds N] [--real N] [--fake N] [--restored N] [--mib N] [--against PROGRAM]`
//!
//! * boot: the whole command `exec -- /bin/true` against a plain QEMU boot of the same kernel to `/bin/true`. Mark: 0.45; 0.25 when
//!   its guest is made from a saved machine.
//! * streams: 1 GiB through standard input to standard output against a bare virtio port. Mark: at least 0.5.
//! * wall: `exec -- /bin/true` against the same by another version of the program. Mark: 1.05. Only when it is named.
//! * ports: requests and bytes over a partition's port against the same by another version. Marks: 1.05, 0.95. Only when it is named.
//! * restored: many small programs in guests made from one saved machine: no wrong code, nothing left behind, no random number twice.
//!   Only when it is named.
//! * starts: many small programs in a row, in real guests and with a scripted QEMU: no wrong code, nothing left behind.
//! * many: a set of sixteen partitions until all run, and an MPI job of two ranks that only begins and ends. Marks: 40 s and
//!   10 s, on two CPUs under the translator.
//!
//! This program is its own peer: PID 1 of the plain guests, and the scripted QEMU.

mod boot;
mod fake;
mod guest;
mod many;
#[path = "../own_sets/mod.rs"]
mod own_sets;
mod ports;
mod starts;
mod streams;
#[path = "../verdict/mod.rs"]
mod verdict;

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use bulkhead::cli::cache_folder;
use bulkhead::model::experiment::PlatformSpec;
use bulkhead::platforms::vm::payload::GuestModules;
use bulkhead::platforms::vm::toolbox::Toolbox;
use bulkhead::units::names::PlatformKind;
use verdict::{Judge, say};

fn main() -> ExitCode {
    if guest::is_guest() {
        guest::run();
    }
    let words: Vec<String> = std::env::args().skip(1).collect();
    if words.iter().any(|word| word == "-nodefaults" || word == "--version") {
        return fake::run(&words);
    }
    verdict::ended("exec", run(&words))
}

/// What both sides are made of.
pub struct Fixture {
    /// QEMU, kernel, modules.
    pub tools: Toolbox,
    /// The program that is measured.
    pub exe: &'static Path,
    words: Vec<String>,
}

impl Fixture {
    /// The number after `--name`.
    pub fn number(&self, name: &str, usual: u64) -> u64 {
        self.word(name).and_then(|word| word.parse().ok()).unwrap_or(usual)
    }

    /// The word after `--name`.
    pub fn word(&self, name: &str) -> Option<&str> {
        let at = self.words.iter().position(|word| word == name)?;
        self.words.get(at + 1).map(String::as_str)
    }
}

fn run(words: &[String]) -> Result<Judge> {
    let exe = Path::new(env!("CARGO_BIN_EXE_bulkhead"));
    let spec = PlatformSpec::of_kind(PlatformKind::Vm);
    let modules = |folder: Option<&Path>| GuestModules::for_lone_qemu(folder, &[], &[]);
    let tools = Toolbox::find_with(&spec, exe, &cache_folder(), None, &modules)?;
    let fixture = Fixture { tools, exe, words: words.to_vec() };
    let parts = ["boot", "streams", "starts", "many"];
    let is_named = |part: &str| words.iter().any(|word| word == part);
    let (wall, restored, over_ports) = (is_named("wall"), is_named("restored"), is_named("ports"));
    let named =
        wall || restored || over_ports || parts.iter().any(|part| words.iter().any(|word| word == part));
    let mut judge = Judge::default();
    if wall {
        boot::wall(&fixture, &mut judge)?;
    }
    if over_ports {
        ports::compare(&fixture, &mut judge)?;
    }
    if restored {
        starts::restored(&fixture, &mut judge)?;
    }
    for part in parts.into_iter().filter(|part| !named || words.iter().any(|word| word == part)) {
        match part {
            "boot" => boot::compare(&fixture, &mut judge)?,
            "streams" => streams::compare(&fixture, &mut judge)?,
            "many" => many::time(&fixture, &mut judge)?,
            _ => starts::count(&fixture, &mut judge)?,
        }
    }
    Ok(judge)
}
