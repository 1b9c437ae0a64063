//! The peers: programs that do the same work, as many events of as many entities, and print their events per second.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::Work;

/// Another simulator.
pub struct Peer {
    /// Its name.
    pub name: &'static str,
    /// The command that runs its program, or why there is none.
    command: Result<Vec<PathBuf>, String>,
    /// How it shares CPUs.
    sharing: &'static str,
    /// Whether it is there for sharing alone.
    shares_only: bool,
}

/// `SimGrid`, whose turns are executions on a host of 16 cores.
pub const SIMGRID: &str = "SimGrid";
/// The same without its model of CPUs: a turn only takes time.
pub const SLEEPS: &str = "SimGrid, turns asleep";

/// All of them, installed where that is possible.
pub fn all(folder: &Path) -> Vec<Peer> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/simulator/peers");
    let made = fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()));
    let with = |install: fn(&Path, &Path) -> Result<Vec<PathBuf>, String>| {
        made.clone().and_then(|()| install(&here, folder))
    };
    let peer = |name, command| Peer { name, command, sharing: "sharing", shares_only: false };
    let sleeps = Peer { sharing: "sharing-asleep", shares_only: true, ..peer(SLEEPS, with(simgrid)) };
    vec![peer("SimPy", with(simpy)), peer(SIMGRID, with(simgrid)), sleeps, peer("nexosim", with(nexosim))]
}

fn done(what: &str, command: &mut Command) -> Result<(), String> {
    let outcome = command.stdin(Stdio::null()).output().map_err(|error| format!("{what}: {error}"))?;
    if outcome.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&outcome.stderr);
    let last = said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("nothing was said");
    Err(format!("{what}: {last}"))
}

fn simpy(here: &Path, folder: &Path) -> Result<Vec<PathBuf>, String> {
    let python = folder.join("python/bin/python");
    if !python.exists() {
        let place = folder.join("python");
        done(
            "python3 -m venv (package python3-venv)",
            Command::new("python3").args(["-m", "venv"]).arg(&place),
        )?;
        done(
            "pip install simpy",
            Command::new(&python).args(["-m", "pip", "install", "--quiet", "simpy==4.1.1"]),
        )?;
    }
    Ok(vec![python, here.join("simpy_peer.py")])
}

fn simgrid(here: &Path, folder: &Path) -> Result<Vec<PathBuf>, String> {
    let program = folder.join("simgrid_peer");
    let source = here.join("simgrid_peer.cpp");
    done(
        "c++ with SimGrid (package libsimgrid-dev)",
        Command::new("c++").args(["-O2", "-std=c++17", "-o"]).arg(&program).arg(source).arg("-lsimgrid"),
    )?;
    Ok(vec![program])
}

fn nexosim(here: &Path, folder: &Path) -> Result<Vec<PathBuf>, String> {
    let target = folder.join("nexosim");
    done(
        "cargo build of the nexosim program",
        Command::new("cargo")
            .args(["build", "--release", "--quiet", "--manifest-path"])
            .arg(here.join("nexosim/Cargo.toml"))
            .arg("--target-dir")
            .arg(&target)
            .env_remove("CARGO_BUILD_TARGET"),
    )?;
    let names = ["release/nexosim_peer", concat!("x86_64-unknown-linux-gnu", "/release/nexosim_peer")];
    let found = names.iter().map(|name| target.join(name)).find(|path| path.exists());
    found.map(|program| vec![program]).ok_or_else(|| "its program was not found after the build".to_owned())
}

impl Peer {
    /// Whether this work is its.
    pub fn does(&self, work: Work) -> bool {
        !self.shares_only || work == Work::Sharing
    }

    /// Runs it; it prints a number.
    pub fn events_per_second(&self, work: Work) -> Result<f64, String> {
        let words = self.command.as_ref().map_err(Clone::clone)?;
        let (program, rest) = words.split_first().ok_or("there is no program")?;
        let argument = match work {
            Work::Timers(entities) => format!("timers {entities} {}", super::TIMER_EVENTS),
            Work::Sharing => format!("{} {} {}", self.sharing, super::TASKS, super::TURNS),
        };
        let mut command = Command::new(program);
        command.args(rest).args(argument.split(' ')).stdin(Stdio::null()).stderr(Stdio::null());
        let outcome = command.output().map_err(|error| error.to_string())?;
        let said = String::from_utf8_lossy(&outcome.stdout);
        let number = said.lines().last().and_then(|line| line.trim().parse::<f64>().ok());
        number.filter(|speed| *speed > 0.0).ok_or_else(|| format!("{argument}: not possible, or it failed"))
    }
}
