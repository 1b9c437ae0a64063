//! `bulkhead exec`: a program as its own partition, from the ordinary command line.
//!
//! ```text
//!  arguments ─► spec ─► check ─► runtime folder, reaper ─► partition::run ─► code of the program
//!  signals ──────────────────────────────────────────────────► orders
//!  stdin, stdout, stderr ◄════════════════════════════════════► streams
//! ```

pub mod args;
pub mod folder;
mod inside;
mod report;
pub mod signals;
pub mod spec;
mod terminal;

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use nix::sys::signal::Signal;
use nix::unistd::{dup2_stdin, dup2_stdout};

use self::args::{Accel, EngineArgs, ExecArgs, Net};
use self::folder::RuntimeFolder;
use self::report::Seen;
use self::terminal::RawTerminal;
use super::agent::counter_rate;
use super::{cache, output};
use model::experiment::Accelerator;
use model::partition::{Content, PartitionSpec, ProgramEnd, Stream};
use partition::place;
use partition::run::{self, Event, Failed, Outcome, Streams, Surroundings};
use partition::set::root::state_root;
use partition::set::visit::visit;
use platforms::limits;

/// Our own failure, bad usage included: what `env`, `nohup` and `timeout` say, too.
pub const OWN_FAILURE: u8 = 125;

/// Runs the program; its code is ours.
pub fn run(args: &ExecArgs) -> ExitCode {
    let begun = Instant::now();
    let outcome = match &args.inside {
        Some(partition) => inside::run(args, partition),
        None => execute(args, begun),
    };
    match outcome {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            output::error(&error);
            ExitCode::from(OWN_FAILURE)
        }
    }
}

fn execute(args: &ExecArgs, begun: Instant) -> Result<u8> {
    // They are the program's. What is read and made for it here may be larger.
    limits::taken();
    // What may take long ends with this command, as anything does that no partition is behind.
    let image = spec::image(args, &cache::folder())?;
    let held = signals::hold().context("holding signals back")?;
    let visit = match &args.sight.net {
        Net::Of { set, network } => Some(
            visit(&state_root(), set, network)
                .map_err(|problem| anyhow!("--net {set}/{network}: {problem}"))?,
        ),
        Net::None | Net::User => None,
    };
    let spec = spec::partition(args, image, visit.as_ref())?;
    if let Err(failed) = run::check(&spec) {
        say_failed(&failed);
        return Ok(failed.code);
    }
    if let Content::Program(program) = &spec.content
        && let Some(remark) = spec::remark(program)
    {
        output::say(&format!("bulkhead: {remark}"));
    }
    for remark in place::remarks(&spec.resources, &spec.disks) {
        output::say(&format!("bulkhead: {remark}"));
    }
    let mut report = args.report.as_deref().map(report::open).transpose()?;
    let exe = std::env::current_exe().context("the program's own file cannot be found")?;
    let folder = RuntimeFolder::make(&exe).context("a folder for what is made")?;
    let names = visit.as_ref().map(|visit| visit.names_for(&spec.name)).unwrap_or_default();
    // A machine saved for this process alone is saved for nobody.
    let restores = !args.cold && cache::lasts() && spec::is_memory_settled(&args.resources, &spec.resources);
    let around = Surroundings { names, restores, ..surroundings(&args.engine, exe, &folder) };
    let raw = args.terminal.then(|| Arc::new(RawTerminal::default()));
    let (was_passed, passed) = channel();
    let orders = signals::pass_on(held, raw.clone(), passed).context("a thread for signals")?;
    if let Some(raw) = &raw {
        raw.enter();
    }
    let streams = take_streams().context("the standard streams")?;
    let mut seen = Seen::default();
    let outcome = run::run(&spec, streams, &around, orders, &mut |event| {
        // Once is enough to know it.
        let is_known = seen.ran_out() && matches!(event, Event::MemoryRanOut(_));
        seen.note(&event, begun.elapsed());
        if let Event::Passed { number } = event {
            // Nobody waits for it any more.
            let _ = was_passed.send(number);
        }
        // Nobody reads what is typed from now on: Ctrl-C is for us.
        if let (Event::Delivers, Some(raw)) = (&event, &raw) {
            raw.leave();
        }
        if !is_known {
            on_event(&event, &spec);
        }
    });
    if let Some(raw) = &raw {
        raw.leave();
    }
    drop(around);
    if let Err(error) = folder.remove() {
        output::say(&format!("bulkhead: removing the folder of what was made: {error}"));
    }
    let code = code_of(&outcome, &spec.name, seen.ran_out());
    if let Some(to) = &mut report {
        seen.write(to.as_mut(), &spec, &outcome, code)?;
    }
    Ok(code)
}

/// What partitions of a runtime folder are made with.
pub fn surroundings(engine: &EngineArgs, exe: std::path::PathBuf, folder: &RuntimeFolder) -> Surroundings {
    Surroundings {
        exe,
        cache: cache::folder(),
        ledger: folder.ledger(),
        counter_hz: counter_rate(),
        accelerator: match engine.accel {
            Accel::Auto => Accelerator::Auto,
            Accel::Kvm => Accelerator::Kvm,
            Accel::Tcg => Accelerator::Tcg,
        },
        qemu: engine.tools.qemu.clone(),
        kernel: engine.tools.kernel.clone(),
        modules: engine.tools.modules.clone(),
        boot_deadline: engine.boot_deadline_s.map(Duration::from_secs),
        names: Vec::new(),
        restores: false,
        door: None,
    }
}

/// Standard input and output are handed over, not copied: when the program closes them, whoever is at their other end is
/// to notice. Standard error is ours, too.
pub fn take_streams() -> io::Result<Streams> {
    let input: OwnedFd = io::stdin().as_fd().try_clone_to_owned()?;
    let output = io::stdout().as_fd().try_clone_to_owned()?;
    let error = io::stderr().as_fd().try_clone_to_owned()?;
    let nothing = File::options().read(true).write(true).open("/dev/null")?;
    // A terminal stays where its mode is set.
    if !io::IsTerminal::is_terminal(&input) {
        dup2_stdin(&nothing)?;
    }
    if !io::IsTerminal::is_terminal(&output) {
        dup2_stdout(&nothing)?;
    }
    Ok(Streams { input, output, error })
}

/// Says what the user is to know at once.
pub fn on_event(event: &Event, spec: &PartitionSpec) {
    match event {
        Event::Trying if output::stderr_is_terminal() => {
            output::say("bulkhead: trying whether KVM works, once per boot of this host");
        }
        Event::MemoryRanOut(victim) => {
            output::say(&format!("bulkhead: {}: {}", spec.name, victim.words(spec.resources.memory)));
        }
        Event::Unwritable { stream, why } => {
            let which = if *stream == Stream::Error { "standard error" } else { "standard output" };
            output::say(&format!("bulkhead: {which} cannot be written: {why}"));
        }
        _ => {}
    }
}

/// Our exit code, saying why where it is not the program's own. Of a program that was killed for want of memory (`ran_out`)
/// that was said already.
pub fn code_of(outcome: &Outcome, name: &str, ran_out: bool) -> u8 {
    match outcome {
        Outcome::Ended(how) => {
            let is_said = ran_out && *how == ProgramEnd::Signal(Signal::SIGKILL as i32);
            if let (ProgramEnd::Signal(number), false) = (how, is_said) {
                let signal = Signal::try_from(*number)
                    .map_or_else(|_| format!("signal {number}"), |signal| signal.to_string());
                output::say(&format!("bulkhead: {name} was ended by {signal}"));
            }
            how.code()
        }
        Outcome::Failed(failed) => {
            say_failed(failed);
            failed.code
        }
    }
}

/// Says why a partition could not be started, or broke.
pub fn say_failed(failed: &Failed) {
    let mut text = format!("bulkhead: {}\n", failed.reason);
    if !failed.console.is_empty() {
        text.push_str("bulkhead: last lines of the guest's console:\n");
    }
    for line in &failed.console {
        text.push_str("  ");
        text.push_str(line);
        text.push('\n');
    }
    // Nobody is left to tell when standard error is gone.
    let _ = io::stderr().lock().write_all(text.as_bytes());
}
