//! `bulkhead exec --in`: a further program in a partition of a set that runs, beside its own.

use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::mpsc::channel;

use anyhow::{Context, Result, anyhow};

use super::args::ExecArgs;
use super::terminal::{self, RawTerminal};
use super::{code_of, signals, spec, take_streams};
use crate::cli::output;
use model::partition::session::{Ask, Further};
use model::partition::set::Phase;
use partition::run::{Event, Outcome};
use partition::session::{SessionKind, connect, converse};
use partition::set::find;
use partition::set::resolve::DOOR;
use partition::set::root::state_root;
use platforms::limits;

/// Runs it; its code is ours.
pub fn run(args: &ExecArgs, name: &str) -> Result<u8> {
    let held = signals::hold().context("holding signals back")?;
    let meant =
        find::partition(&state_root(), name, None).map_err(|problem| anyhow!("--in {name}: {problem}"))?;
    let partition = meant.partition;
    if partition.phase != Phase::Running && partition.phase != Phase::Starting {
        let phase = partition.phase.word();
        return Err(anyhow!("--in {name}: the partition is {phase}, not running (bulkhead start {name})"));
    }
    let socket = connect(&partition.folder.join(DOOR)).with_context(|| {
        format!("--in {name}: nobody takes programs there; a disk image takes none, and what is starting does not yet")
    })?;
    let ask = Ask::Run(Box::new(further(args)?));
    let raw = args.terminal.then(|| Arc::new(RawTerminal::default()));
    let (was_passed, passed) = channel();
    let orders = signals::pass_on(held, raw.clone(), passed).context("a thread for signals")?;
    if let Some(raw) = &raw {
        raw.enter();
    }
    let streams = take_streams().context("the standard streams")?;
    let shown = args.command.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
    let mut ran_out = false;
    let outcome = converse(socket, ask, SessionKind::Program, streams, orders, &mut |event| match event {
        Event::Passed { number } => {
            // Nobody waits for it any more.
            let _ = was_passed.send(number);
        }
        Event::MemoryRanOut(victim) if !std::mem::replace(&mut ran_out, true) => {
            output::say(&format!("bulkhead: {shown}: {}", victim.words(partition.memory_mib)));
        }
        _ => {}
    });
    if let Some(raw) = &raw {
        raw.leave();
    }
    Ok(code_of(&outcome.map_or_else(Outcome::Failed, Outcome::Ended), &shown, ran_out))
}

fn further(args: &ExecArgs) -> Result<Further> {
    let given = &args.sight.program;
    let mut env = spec::named_variables(given)?;
    if let (true, Some(terminal)) = (args.terminal, std::env::var_os("TERM"))
        && env.iter().all(|(name, _)| name != b"TERM")
    {
        env.push((b"TERM".to_vec(), terminal.as_bytes().to_vec()));
    }
    Ok(Further {
        argv: args.command.iter().map(|word| word.as_bytes().to_vec()).collect(),
        env,
        workdir: given.workdir.clone(),
        user: given.user.as_deref().map(|name| spec::user(Some(name))).transpose()?,
        terminal: args.terminal.then(terminal::size),
        inherited: Some(limits::taken()),
    })
}
