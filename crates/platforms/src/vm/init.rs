//! PID 1 of a guest: brings up what the agent needs, lets the agent run, powers off.
//!
//! ```text
//!  PID 1: mounts ─► link modules ─► fork ─────────────► reaps orphans ─► agent ended ─► restart (ends QEMU)
//!                                     └► agent: link ─► Hello ─► jobs
//!                                          └ thread: disk modules ─► mount ─► (the first job waits for it)
//! ```
//!
//! A guest with a program has no agent: PID 1 itself runs [`guest_program`].
//!
//! The agent is a child of PID 1, so that orphans go to PID 1 and never disturb the agent's own children, which the
//! fork probe counts on, and so that an agent that dies of anything, the out-of-memory killer included, still leaves
//! someone who says so on the console and ends the guest. Nothing here may hang: every wait has an end, and every
//! failure is printed and ends the guest.

#![expect(unsafe_code, reason = "PID 1 forks the agent")]

use std::fs;
use std::path::Path;

use nix::mount::{MsFlags, mount};
use nix::sys::wait::{WaitStatus, wait};
use nix::unistd::{ForkResult, Pid, fork, getpid};

use super::guest::{CONFIG_PATH, GuestConfig, INIT_RUNS, Rehearsal};
use super::pid1::{RunInGuest, in_context, power_off, say};
use super::{guest_agent, guest_program};
use units::{Hertz, Reason};

/// Whether this process is PID 1 of a guest of ours. A container's agent is PID 1, too, but finds no config.
pub fn is_guest() -> bool {
    getpid() == Pid::from_raw(1) && Path::new(CONFIG_PATH).is_file()
}

/// Runs the guest; `run` does its jobs, `counter_hz` measures its cycle counter, which the agent reports. To be called with one thread only, at the very start of the program.
pub fn guest_main(counter_hz: impl FnOnce() -> Option<Hertz>, run: &RunInGuest<'_>) -> ! {
    if let Err(error) = bring_up(counter_hz, run) {
        say(&format!("guest failed: {error}"));
    }
    power_off()
}

fn bring_up(counter_hz: impl FnOnce() -> Option<Hertz>, run: &RunInGuest<'_>) -> Result<(), Reason> {
    let text = fs::read_to_string(CONFIG_PATH).map_err(in_context("reading the config"))?;
    let config: GuestConfig = serde_json::from_str(&text).map_err(in_context("the config"))?;
    if config.only_say_that_init_runs {
        say(INIT_RUNS);
        return Ok(());
    }
    mount_basics()?;
    super::guest_modules::load(&config.link_modules)?;
    if config.rehearse == Some(Rehearsal::Silent) {
        say("rehearsal: no agent is started");
        loop {
            nix::unistd::pause();
        }
    }
    if config.parks {
        return guest_program::run_parked(&config);
    }
    if let Some(program) = &config.program {
        return guest_program::run(&config, program);
    }
    // SAFETY: this process has one thread, so the child may do whatever a program may.
    match unsafe { fork() }.map_err(in_context("starting the agent"))? {
        ForkResult::Parent { child } => {
            let ended = reap_until(child)?;
            if ended != WaitStatus::Exited(child, 0) {
                say(&format!("the agent ended: {}", describe(ended)));
            }
            Ok(())
        }
        ForkResult::Child => {
            let outcome = guest_agent::run(&config, counter_hz(), run);
            if let Err(error) = &outcome {
                say(&format!("agent failed: {error}"));
            }
            leave(i32::from(outcome.is_err()))
        }
    }
}

#[expect(clippy::exit, reason = "the agent's process ends here; PID 1 goes on")]
fn leave(code: i32) -> ! {
    std::process::exit(code)
}

fn mount_basics() -> Result<(), Reason> {
    for (kind, target) in [("proc", "/proc"), ("sysfs", "/sys"), ("devtmpfs", "/dev"), ("tmpfs", "/tmp")] {
        fs::create_dir_all(target).map_err(in_context(target))?;
        mount(Some(kind), target, Some(kind), MsFlags::empty(), None::<&str>)
            .map_err(in_context(&format!("mounting {kind} at {target}")))?;
    }
    // Only a traced job needs it, and not every kernel has it: the job says so then.
    let tracing = "/sys/kernel/tracing";
    let _ = mount(Some("tracefs"), tracing, Some("tracefs"), MsFlags::empty(), None::<&str>);
    Ok(())
}

/// Reaps whatever ends until the agent ends.
fn reap_until(agent: Pid) -> Result<WaitStatus, Reason> {
    loop {
        match wait() {
            Ok(status) if status.pid() == Some(agent) => return Ok(status),
            Ok(_) | Err(nix::errno::Errno::EINTR) => {}
            Err(error) => return Err(format!("waiting for the agent: {error}").into()),
        }
    }
}

fn describe(status: WaitStatus) -> String {
    match status {
        WaitStatus::Exited(_, code) => format!("exit status {code}"),
        WaitStatus::Signaled(_, signal, _) => format!("killed by {signal}"),
        other => format!("{other:?}"),
    }
}
