//! Looks into a partition from its supervisor: until it is ready, then again and again whether it still is.
//!
//! ```text
//!  its program runs ─► every moment ─► ready ─► every interval ─► well ─┐
//!                          │ time over             ▲ └─ not, so many times in a row ─► unwell: ended
//!                          └─► unwell: ended       └────────────────────┘
//! ```

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use std::{io, thread};

use crate::run::{Order, Streams, find_program};
use crate::session::{SessionKind, connect, converse};
use model::partition::session::{Ask, Further, Look};
use model::partition::set::{Health, PartitionUnit, Ready, ReadyCheck};
use model::partition::{Content, Program, ProgramEnd};
use units::Reason;

/// Between two looks at what is not ready yet.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How long a look may take, a command included.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);

/// Waits for `time`, in slices; false when it is over meanwhile.
pub type Wait<'a> = dyn Fn(Duration) -> bool + 'a;

/// Looks until it is ready; why it is not, when its time is over. None when the partition is over before.
pub fn until_ready(door: &Path, ready: &Ready, wait: &Wait<'_>) -> Option<Result<(), Reason>> {
    let within = Duration::from_secs(ready.within_s.into());
    let begun = Instant::now();
    loop {
        let why = match look(door, &ready.check) {
            Ok(()) => return Some(Ok(())),
            Err(why) => why,
        };
        if begun.elapsed() > within {
            let check = &ready.check;
            return Some(Err(format!("it was not ready within {} s: {check}: {why}", ready.within_s).into()));
        }
        if !wait(LOOK_EVERY) {
            return None;
        }
    }
}

/// Looks until it is unwell: why. None when the partition is over before.
pub fn until_unwell(door: &Path, health: &Health, wait: &Wait<'_>) -> Option<String> {
    let mut in_a_row = 0;
    loop {
        if !wait(Duration::from_secs(health.interval_s.into())) {
            return None;
        }
        let Err(why) = look(door, &health.check) else {
            in_a_row = 0;
            continue;
        };
        in_a_row += 1;
        if in_a_row >= health.failures {
            return Some(format!("it was unwell {in_a_row} times in a row: {}: {why}", health.check));
        }
    }
}

/// Commands by which it is looked at that are not there. Its program may bring them, so this is no fault.
pub fn remarks(unit: &PartitionUnit) -> Vec<String> {
    let Content::Program(program) = &unit.spec.content else { return Vec::new() };
    let ready = unit.ready.as_ref().map(|ready| ("ready", &ready.check));
    let health = unit.health.as_ref().map(|health| ("health", &health.check));
    // What a saved layer holds only the partition can tell.
    let checks = ready.into_iter().chain(health).filter(|_| program.layer.is_none());
    let missing = checks.filter_map(|(key, check)| {
        let ReadyCheck::Command(argv) = check else { return None };
        let failed = find_program(&Program { argv: argv.clone(), ..(**program).clone() }).err()?;
        Some(format!("{key}: {}: it fails unless its program puts it there", failed.reason))
    });
    missing.collect()
}

/// Whether it is so now; why not.
fn look(door: &Path, check: &ReadyCheck) -> Result<(), Reason> {
    let nothing = || File::options().read(true).write(true).open("/dev/null").map(OwnedFd::from);
    let entered = || -> io::Result<_> {
        Ok((connect(door)?, Streams { input: nothing()?, output: nothing()?, error: nothing()? }))
    };
    let (socket, streams) = entered().map_err(|error| format!("it cannot be asked: {error}"))?;
    let ask = match check {
        ReadyCheck::Look(look) => Ask::Look(look.clone()),
        ReadyCheck::Command(argv) => Ask::Run(Box::new(Further {
            argv: argv.clone(),
            env: Vec::new(),
            workdir: None,
            user: None,
            terminal: None,
            inherited: None,
        })),
    };
    let (give, orders) = channel();
    let (answered, answer) = channel::<()>();
    let outcome = thread::scope(|scope| {
        scope.spawn(move || {
            if answer.recv_timeout(ANSWERS_WITHIN) == Err(RecvTimeoutError::Timeout) {
                let _ = give.send(Order::Kill);
            }
        });
        let begun = Instant::now();
        let outcome = converse(socket, ask, SessionKind::Program, streams, orders, &mut |_| ());
        drop(answered);
        let is_late = begun.elapsed() >= ANSWERS_WITHIN;
        let late = || format!("no answer within {} s", ANSWERS_WITHIN.as_secs());
        outcome.map_err(|failed| if is_late { late() } else { failed.reason })
    });
    match (outcome?, check) {
        (ProgramEnd::Exit(0), _) => Ok(()),
        (_, ReadyCheck::Look(Look::Tcp(_))) => Err("nobody listens there".into()),
        (_, ReadyCheck::Look(Look::File(_))) => Err("it is not there".into()),
        (ProgramEnd::Exit(code), ReadyCheck::Command(_)) => Err(format!("it ended with {code}").into()),
        (ProgramEnd::Signal(number), ReadyCheck::Command(_)) => {
            Err(format!("it was ended by signal {number}").into())
        }
    }
}
