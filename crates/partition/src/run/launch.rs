//! Creates, places, checks, lets go; waits for the end; leaves nothing. Where it can, it takes the short way ([`parked`]).

use std::fs::File;
use std::io;
use std::net::TcpListener;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};

use super::inbox::{Inbox, is_ending};
use super::main_session::Happened;
use super::making::Making;
use super::tools::{named, tools};
use super::{Event, Failed, Order, Orders, Outcome, Streams, Surroundings, engine, parked, sections};
use crate::layer::{self, Layer};
use crate::session::{self, Hub};
use crate::volume;
use model::partition::{Content, PartitionSpec, PortSpec, ProgramEnd};
use platforms::vm::accel::boot_deadline;
use platforms::{Cancel, limits};

/// Runs a partition until its program ends or it breaks; nothing of it is left when this returns.
pub fn run(
    spec: &PartitionSpec,
    streams: Streams,
    around: &Surroundings,
    orders: Orders,
    tell: &mut dyn FnMut(Event),
) -> Outcome {
    limits::lift();
    let launched = match limits::room_for(spec.resources.memory.to_bytes()) {
        Ok(()) => launch(spec, streams, around, orders, tell),
        Err(problem) => Err(Failed::own(problem)),
    };
    match launched {
        Ok(how) => Outcome::Ended(how),
        Err(failed) => advised(failed).into(),
    }
}

/// A failure of ours that limits may be behind says so.
fn advised(mut failed: Failed) -> Failed {
    if let (125, None, Some(advice)) = (failed.code, &failed.interrupted, limits::advice()) {
        failed.reason = format!("{}; {advice}", failed.reason);
    }
    failed
}

fn launch(
    spec: &PartitionSpec,
    streams: Streams,
    around: &Surroundings,
    orders: Orders,
    tell: &mut dyn FnMut(Event),
) -> Result<ProgramEnd, Failed> {
    super::check(spec)?;
    spec.sections.iter().try_for_each(sections::check_file)?;
    check_own_folder(spec, around)?;
    let _in_use = take_volumes(spec)?;
    let ports = session::bind_ports(&spec.ports)?;
    let layer = take_layer(spec)?;
    let channel = channel();
    let inbox = Inbox::open(orders, channel.0.clone()).map_err(|error| Failed::own(error.to_string()))?;
    let named = named(around);
    let tools = tools(spec, &named, around)?;
    let engine = engine::choose(&tools, &named, around, &inbox.cancel, tell)?;
    let boot = around.boot_deadline.unwrap_or_else(|| boot_deadline(engine));
    let takes_sessions = around.door.is_some() || !ports.is_empty();
    let making = Making { spec, around, tools: &tools, engine, takes_sessions, layer: layer.as_ref() };
    let short = parked::begin(&making, boot, &inbox.cancel, tell)?;
    if let (None, Some(interrupted)) = (&short, is_interrupted(&inbox.cancel, &channel.1)) {
        return Err(interrupted);
    }
    let is_placed = short.is_some();
    let mut created = short.map_or_else(|| making.usual(), Ok)?;
    let hub = created
        .sessions
        .take()
        .map(|port| let_in(port, ports, around))
        .transpose()
        .map_err(|error| Failed::own(format!("sessions beside the program: {error}")))?;
    if !is_placed {
        tell(created.event(engine.as_str()));
    }
    let streams = match spec.content {
        Content::Program(_) => Some(streams),
        Content::Image => {
            created.machine.copy_console(streams.output);
            None
        }
    };
    let placed = if is_placed { Ok(()) } else { created.place(spec, tell).and_then(|()| created.let_go()) };
    let outcome = placed.and_then(|()| match streams {
        Some(streams) => created.converse(streams, channel, boot, hub.as_ref(), tell),
        None => created.watch(&channel.1, tell),
    });
    outcome.map_err(|failed| created.explain(failed, spec))
}

/// There, and not removed as long as what comes of it is kept.
fn take_volumes(spec: &PartitionSpec) -> Result<Vec<File>, Failed> {
    let Content::Program(program) = &spec.content else { return Ok(Vec::new()) };
    volume::take(&program.volumes, &program.user).map_err(Failed::own)
}

/// There, and nobody else's as long as what comes of it is kept.
fn take_layer(spec: &PartitionSpec) -> Result<Option<Layer>, Failed> {
    let Content::Program(program) = &spec.content else { return Ok(None) };
    let holder = format!("partition {} of process {}", spec.name, std::process::id());
    layer::take(program, &holder).map_err(Failed::own)
}

/// The order that ended what was tried so far.
fn is_interrupted(cancel: &Cancel, orders: &Receiver<Happened>) -> Option<Failed> {
    if !cancel.is_cancelled() {
        return None;
    }
    let ends = |happened| match happened {
        Happened::Ordered(Order::Signal(number)) if is_ending(Order::Signal(number)) => {
            Some(Failed::interrupted(number))
        }
        Happened::Ordered(Order::Kill) => Some(Failed::own("ended from outside")),
        _ => None,
    };
    orders.try_iter().find_map(ends)
}

/// Lets sessions in; they end when what comes of it is dropped.
fn let_in(port: UnixStream, ports: Vec<(PortSpec, TcpListener)>, around: &Surroundings) -> io::Result<Hub> {
    let hub = Hub::new(port)?;
    around.door.as_ref().map_or(Ok(()), |door| session::listen(&hub, door))?;
    hub.forward(ports)?;
    Ok(hub)
}

/// What a crash must undo is written down in our folder: no guest may write there.
fn check_own_folder(spec: &PartitionSpec, around: &Surroundings) -> Result<(), Failed> {
    let Content::Program(program) = &spec.content else { return Ok(()) };
    let own = [around.ledger.dir(), &around.cache];
    for path in &program.writable {
        let Ok(real) = path.canonicalize() else { continue };
        let is_in = |own: &&Path| {
            own.canonicalize().is_ok_and(|own| own.starts_with(&real) || real.starts_with(&own))
        };
        if let Some(own) = own.iter().find(|own| is_in(own)) {
            return Err(Failed::own(format!(
                "what is to be opened for writing, {}: bulkhead's own folder {} is in it, which says what is to be undone after a \
                 crash; open a folder below, or set TMPDIR and BULKHEAD_CACHE to folders elsewhere",
                path.display(),
                own.display()
            )));
        }
    }
    Ok(())
}
