//! The one way in which a test is left out: [`skip`]. It prints the reason, writes it down where `make test` counts (the file
//! that `BULKHEAD_SKIPS` names), and is a failure where `BULKHEAD_REQUIRE` names what is missing.
//!
//! ```
//! if !std::path::Path::new("/").exists() {
//!     skips::skip(skips::Need::Mount, "there are no files here");
//!     return;
//! }
//! ```

use std::fmt::Display;
use std::fs::OpenOptions;
use std::io::Write;
use std::panic::Location;

/// The file to which every skip adds a line: test program, test, need, reason, with tabs between.
pub const RECORD: &str = "BULKHEAD_SKIPS";
/// What must be here, with commas between: skipping for want of it is a failure. `all` is everything.
pub const REQUIRE: &str = "BULKHEAD_REQUIRE";

macro_rules! needs {
    ($($(#[doc = $what:literal])+ $need:ident = $name:literal,)+) => {
        /// What a test cannot do without.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Need { $($(#[doc = $what])+ $need,)+ }

        impl Need {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$need,)+];

            /// As `BULKHEAD_REQUIRE` calls it.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$need => $name,)+ }
            }
        }
    };
}

needs! {
    /// The rights of root.
    Root = "root",
    /// An OCI runtime and containers.
    Container = "container",
    /// A Docker daemon.
    Docker = "docker",
    /// skopeo, and a registry as the set-up unpacks it.
    Registry = "registry",
    /// A second OCI runtime, runc.
    Runc = "runc",
    /// QEMU and a guest kernel.
    Vm = "vm",
    /// A KVM that answers.
    Kvm = "kvm",
    /// Network backends in the kernel (vhost-net).
    Vhost = "vhost",
    /// Kernel modules of the guest as files that can be changed.
    Modules = "modules",
    /// Chromium.
    Browser = "browser",
    /// `StrictDoc` and `sphinx-test-reports`, as the set-up installs them.
    Importers = "importers",
    /// An OpenSSH server.
    Ssh = "ssh",
    /// Open MPI, its compiler, the provider for it, and its programs.
    Mpi = "mpi",
    /// Network namespaces and raw sockets.
    Network = "network",
    /// Loop devices, with partitions.
    Loop = "loop",
    /// Mounts.
    Mount = "mount",
    /// Real-time priority.
    Realtime = "realtime",
    /// Cgroups with the controllers that are needed.
    Cgroup = "cgroup",
    /// The kernel's trace events.
    Tracefs = "tracefs",
    /// Direct reads and writes of the device below the temporary folder.
    Direct = "direct",
    /// Instructions or a number of CPUs.
    Cpu = "cpu",
    /// systemd's checker of units.
    Systemd = "systemd",
    /// libvirt's checker of domains.
    Libvirt = "libvirt",
    /// A machine that nobody else uses.
    Quiet = "quiet",
    /// Long tests, which run only where a variable asks for them.
    Long = "long",
}

impl Need {
    /// The need of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|need| need.name() == name)
    }
}

/// A name of a need that nobody knows, in words.
#[derive(Debug, PartialEq, Eq)]
struct UnknownNeed(String);

/// Whether a list as in `BULKHEAD_REQUIRE` asks for this; a name in it that nobody knows is an error.
fn asks_for(list: &str, need: Need) -> Result<bool, UnknownNeed> {
    let names = || list.split(',').map(str::trim).filter(|name| !name.is_empty());
    if let Some(strange) = names().find(|name| *name != "all" && Need::named(name).is_none()) {
        let known: Vec<_> = Need::ALL.iter().map(|need| need.name()).collect();
        return Err(UnknownNeed(format!(
            "{REQUIRE} names {strange}, but known are all, {}",
            known.join(", ")
        )));
    }
    Ok(names().any(|name| name == "all" || name == need.name()))
}

/// One line of the record.
fn line(program: &str, test: &str, need: Need, reason: &str) -> String {
    let flat = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    format!("{}\t{}\t{}\t{}\n", flat(program), flat(test), need.name(), flat(reason))
}

/// Writes down and prints that the running test, or the rest of it, is left out for want of `need`; the caller returns then.
///
/// # Panics
/// Where `BULKHEAD_REQUIRE` asks for it, and where it cannot be written down: what is left out must not go unseen.
#[track_caller]
#[expect(clippy::print_stderr, reason = "whoever runs one test with --nocapture sees it")]
pub fn skip(need: Need, reason: impl Display) {
    let reason = reason.to_string();
    let required = std::env::var(REQUIRE).unwrap_or_default();
    let is_required = asks_for(&required, need).unwrap_or_else(|UnknownNeed(strange)| panic!("{strange}"));
    assert!(!is_required, "{reason}, but {REQUIRE} is {required}");
    eprintln!("skipped for want of {}: {reason}", need.name());
    let Some(record) = std::env::var_os(RECORD) else { return };
    let place = Location::caller();
    // A runner with one thread runs tests in the main one, which is not called as they are.
    let thread = std::thread::current();
    let test = thread.name().filter(|name| *name != "main");
    let test = test.map_or_else(|| format!("{}:{}", place.file(), place.line()), str::to_owned);
    let line = line(&program(), &test, need, &reason);
    // One write, because other test programs write to the same file.
    let written =
        OpenOptions::new().append(true).open(&record).and_then(|mut file| file.write_all(line.as_bytes()));
    written.unwrap_or_else(|error| panic!("cannot write \"{line}\" to {}: {error}", record.display()));
}

/// The test program's name without the hash that the compiler adds.
fn program() -> String {
    let path = std::env::current_exe().unwrap_or_default();
    let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    stem.rsplit_once('-').map_or(stem.clone(), |(name, _)| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_asks_for_what_it_names_and_for_nothing_else() {
        assert_eq!(asks_for("container,vm", Need::Vm), Ok(true));
        assert_eq!(asks_for("container,vm", Need::Kvm), Ok(false));
        assert_eq!(asks_for("", Need::Vm), Ok(false));
        assert_eq!(asks_for("all", Need::Quiet), Ok(true));
        assert!(asks_for("vmm", Need::Vm).is_err_and(|UnknownNeed(said)| said.contains("vmm")));
    }

    #[test]
    fn a_reason_of_several_lines_is_one_line_of_the_record() {
        assert_eq!(line("exec", "it_runs", Need::Vm, "no\n\tQEMU \n"), "exec\tit_runs\tvm\tno QEMU\n");
    }

    /// In a process of its own, because the environment is everybody's.
    #[test]
    fn what_is_skipped_is_written_down_or_fails() {
        const WITHIN: &str = "BULKHEAD_SKIPS_WITHIN";
        if std::env::var_os(WITHIN).is_some() {
            return skip(Need::Kvm, "no /dev/kvm");
        }
        let record = std::env::temp_dir().join(format!("skips-{}", std::process::id()));
        let run = |record: &std::path::Path, required: &str| {
            let mut command = std::process::Command::new(std::env::current_exe().expect("this test"));
            command.args(["--exact", "tests::what_is_skipped_is_written_down_or_fails", "--test-threads=2"]);
            command.env(WITHIN, "").env(RECORD, record).env(REQUIRE, required);
            command.output().expect("it runs").status.success()
        };
        std::fs::write(&record, "").expect("the test's own file");
        assert!(
            run(&record, "vm") && !run(&record, "vm,kvm") && !run(&record, "all") && !run(&record, "kmv")
        );
        let seen = std::fs::read_to_string(&record).expect("the test's own file");
        assert_eq!(seen, "skips\ttests::what_is_skipped_is_written_down_or_fails\tkvm\tno /dev/kvm\n");
        std::fs::remove_file(&record).expect("the test's own file");
        assert!(!run(&record, ""), "a skip that cannot be written down is a failure");
    }
}
