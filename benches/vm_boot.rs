//! How long a guest takes until its agent answers, against a plain QEMU with the same kernel, the same accelerator and
//! the same program as its init, until that init runs. Both in turn, in one run; the ratio counts, not the times.
//!
//! `cargo bench --bench vm_boot [-- ROUNDS]`. The mark: at most 0.45. Plain means
//! `qemu-system-x86_64 -kernel bzImage -initrd … -append console=ttyS0 -nographic` with QEMU's default devices.

mod verdict;

use std::io::{BufRead, BufReader};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use bulkhead::cli::cache_folder;
use bulkhead::model::experiment::{Accelerator, PlatformSpec};
use bulkhead::platforms::ledger::Ledger;
use bulkhead::platforms::vm::guest::{GuestConfig, INIT_RUNS};
use bulkhead::platforms::vm::payload::{self, GuestModules};
use bulkhead::platforms::vm::platform::Vm;
use bulkhead::platforms::vm::toolbox::{Toolbox, host_cpus};
use bulkhead::platforms::{Broken, Cancel, InstanceSpec, Platform, PlatformContext};
use bulkhead::units::names::PlatformKind;
use bulkhead::units::{Bytes, Mebibytes};

use nix::sys::resource::{UsageWho, getrusage};
use verdict::{Judge, Mark, say, show};

/// The mark for the median of the ratios.
const MARK: f64 = 0.45;
/// Rounds unless said otherwise.
const ROUNDS: usize = 7;
/// Memory of both guests.
const MEMORY_MIB: u64 = 768;
/// How long a plain guest may take.
const PLAIN_DEADLINE: Duration = Duration::from_secs(120);

fn main() -> ExitCode {
    verdict::ended("vm_boot", run())
}

fn run() -> Result<Judge> {
    let rounds = std::env::args().skip(1).find_map(|word| word.parse().ok()).unwrap_or(ROUNDS);
    let exe = Path::new(env!("CARGO_BIN_EXE_bulkhead"));
    let cache = cache_folder();
    let folder = tempfile::tempdir()?;
    let ledger = Ledger::open(folder.path())?;
    let mut spec = PlatformSpec::of_kind(PlatformKind::Vm);
    spec.accelerator = Accelerator::Tcg;
    spec.memory_mib = Some(Mebibytes::from_mib(MEMORY_MIB));
    let tools = Toolbox::find(&spec, exe, &cache, None)?;
    let context = PlatformContext {
        exe: exe.to_owned(),
        ledger,
        cache,
        counter_hz: bulkhead::probes::clock::Anchor::take().and_then(|anchor| anchor.rate_since()).ok(),
        seed: 1,
        may_destroy: false,
    };
    let mut vm = Vm::new(&spec, &context);
    let state = vm.survey(&Cancel::new());
    if let Some(reason) = state.unavailable {
        bail!("{reason}");
    }
    for (key, value) in &state.properties {
        say(&format!("{key:14} {value}"));
    }
    let (mut ratios, mut cpu_ratios) = (Vec::new(), Vec::new());
    let (mut plains, mut ours) = (Vec::new(), Vec::new());
    for round in 0..rounds {
        let idle = children_cpu_s()?;
        let plain = boot_plain(&tools)?;
        let between = children_cpu_s()?;
        let own = boot_ours(&mut vm, folder.path())?;
        let (plain_cpu, own_cpu) = (between - idle, children_cpu_s()? - between);
        ratios.push(own / plain);
        cpu_ratios.push(own_cpu / plain_cpu);
        say(&format!(
            "round {round}: plain {plain:.2} s (CPU {plain_cpu:.2} s), agent {own:.2} s (CPU {own_cpu:.2} s), ratio {:.3}",
            own / plain
        ));
        plains.push(plain);
        ours.push(own);
    }
    show("plain boot, s", &plains);
    show("until the agent answers, s", &ours);
    show("CPU time of QEMU, including the end of the guest: ratio", &cpu_ratios);
    let mut judge = Judge::default();
    judge.rounds("until the agent answers / plain boot", &ratios, Mark::AtMost(MARK));
    Ok(judge)
}

/// CPU seconds of all children that have ended: on a busy host the waiting shows in the times, not here.
fn children_cpu_s() -> Result<f64> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    Ok(seconds(usage.user_time()) + seconds(usage.system_time()))
}

fn boot_ours(vm: &mut Vm, folder: &Path) -> Result<f64> {
    let scratch = folder.join("scratch");
    std::fs::create_dir_all(&scratch)?;
    let spec = InstanceSpec {
        number: 0,
        memory_wanted: Bytes::from_bytes(0),
        disk_wanted: Bytes::from_bytes(64 << 20),
        scratch,
        ..InstanceSpec::default()
    };
    match vm.start(&spec, &Cancel::new()) {
        Ok(guest) => Ok(guest.start_time().as_secs_f64()),
        Err(Broken::Failed(failure)) => bail!("{}: {}", failure.reason, failure.console.join("\n")),
        Err(Broken::Interrupted) => bail!("interrupted"),
    }
}

/// Starts a plain guest; returns the seconds until its init said that it runs.
fn boot_plain(tools: &Toolbox) -> Result<f64> {
    let config = GuestConfig { only_say_that_init_runs: true, ..GuestConfig::default() };
    let initrd = payload::build(&tools.program, &GuestModules::default(), config)?;
    let mut command = Command::new(&tools.qemu);
    command
        .arg("-kernel")
        .arg(&tools.kernel.image)
        // The child opens it through our table of descriptors: in its own it is closed by then.
        .args(["-initrd", &format!("/proc/{}/fd/{}", std::process::id(), initrd.as_raw_fd())])
        .args(["-append", "console=ttyS0 panic=-1", "-nographic", "-no-reboot", "-accel", "tcg"])
        .args(["-m", &format!("{MEMORY_MIB}M"), "-smp", &host_cpus().to_string()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit());
    let started = Instant::now();
    let mut child = command.spawn().context("starting the plain qemu")?;
    let out = child.stdout.take().context("its output")?;
    let seconds = BufReader::new(out)
        .split(b'\n')
        .map_while(Result::ok)
        .take_while(|_| started.elapsed() < PLAIN_DEADLINE)
        .find(|line| String::from_utf8_lossy(line).contains(INIT_RUNS))
        .map(|_| started.elapsed().as_secs_f64());
    child.kill()?;
    child.wait()?;
    seconds.ok_or_else(|| anyhow!("the plain guest did not say \"{INIT_RUNS}\""))
}
