//! Looks at one simulation on its way: at stated moments, and event by event as somebody types.
//!
//! ```text
//!  --pause-at 5ms ─► state ─► --pause-at 1s ─► state ─► --step: commands ─► to the end, like any other
//!                                                        │ Enter   the next event      20   so many
//!                                                        │ 7ms     up to there         g    to the end
//!                                                        └ q       leave
//! ```
//! At the end of the commands the simulation goes on to its own. Its outcome is that of one nobody looked at.

use std::io::{BufRead, Read};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use anyhow::{anyhow, bail};

use crate::cli::args::SimulateArgs;
use crate::cli::{moment, output};
use platforms::Cancel;
use report::host_state;
use report::text::ascii;
use sim::brake::Brake;
use sim::host::Pause;
use sim::scenario::{Replication, Study, Watch};
use sim::time::{Span, Time};

/// Events after which it is looked whether somebody interrupted.
const EVENTS_AT_ONCE: u64 = 1_000;
/// How often it is looked while nobody types.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Longest line that is read.
const LINE_MOST: u64 = 200;
const HELP: &str = "Enter: the next event · 20: so many events · 7ms: up to there · g: to the end · q: leave";

/// How watching ended.
pub(super) enum Watched {
    /// Nobody wanted to look.
    Nobody,
    /// The simulation came to its end.
    Done(Replication),
    /// Whoever looked has seen enough.
    Left,
    /// Somebody interrupted; what was still waiting.
    Interrupted(String),
}

/// What is to be done next.
#[derive(Debug, PartialEq, Eq)]
enum Command {
    Events(u64),
    UpTo(Time),
    ToTheEnd,
    Leave,
}

/// Where going on has led.
enum Way {
    There,
    Ended,
    Interrupted,
}

/// Simulates the watched job under the eyes of whoever asked for it.
pub(super) fn first(study: &Study, args: &SimulateArgs, cancel: &Cancel) -> anyhow::Result<Watched> {
    if args.pause_at.is_empty() && !args.step {
        return Ok(Watched::Nobody);
    }
    let mut watch = study.watch(study.watched()).ok_or_else(|| {
        anyhow!(
            "--pause-at, --step: this scenario has no CPUs on which something runs; there is nothing to see"
        )
    })?;
    let mut moments: Vec<Time> = args.pause_at.iter().map(|at| Time::ZERO + Span::from(*at)).collect();
    moments.sort_unstable();
    let mut at = Time::ZERO;
    for moment in moments {
        at = moment;
        match go_on(&mut watch, Pause { at, ..Pause::NEVER }, cancel) {
            Way::There => show(&watch, at)?,
            Way::Ended => {
                show(&watch, at)?;
                output::say(&format!("bulkhead: it had ended before {at}"));
                return Ok(Watched::Done(watch.finish(&Brake::default())));
            }
            Way::Interrupted => return Ok(interrupted(&watch)),
        }
    }
    if args.step {
        return step(watch, at, cancel);
    }
    Ok(to_the_end(watch, cancel))
}

/// Does what is typed.
fn step(mut watch: Watch<'_>, mut at: Time, cancel: &Cancel) -> anyhow::Result<Watched> {
    output::say(HELP);
    if at == Time::ZERO {
        match go_on(&mut watch, Pause { events: 0, ..Pause::NEVER }, cancel) {
            Way::There | Way::Ended => show(&watch, at)?,
            Way::Interrupted => return Ok(interrupted(&watch)),
        }
    }
    let lines = lines();
    loop {
        let line = match lines.recv_timeout(LOOK_EVERY) {
            Ok(line) => line,
            Err(RecvTimeoutError::Disconnected) => return Ok(to_the_end(watch, cancel)),
            Err(RecvTimeoutError::Timeout) if cancel.is_cancelled() => return Ok(interrupted(&watch)),
            Err(RecvTimeoutError::Timeout) => continue,
        };
        let command = match command(&line) {
            Ok(command) => command,
            Err(wrong) => {
                output::say(&format!("bulkhead: {wrong:#}\n{HELP}"));
                continue;
            }
        };
        let pause = match command {
            Command::Events(count) => Pause { events: watch.events().saturating_add(count), ..Pause::NEVER },
            Command::UpTo(moment) => {
                at = moment;
                Pause { at, ..Pause::NEVER }
            }
            Command::ToTheEnd => return Ok(to_the_end(watch, cancel)),
            Command::Leave => return Ok(Watched::Left),
        };
        match go_on(&mut watch, pause, cancel) {
            Way::There => show(&watch, at)?,
            Way::Ended => {
                show(&watch, at)?;
                output::say("bulkhead: this was the end");
                return Ok(Watched::Done(watch.finish(&Brake::default())));
            }
            Way::Interrupted => return Ok(interrupted(&watch)),
        }
    }
}

fn to_the_end(mut watch: Watch<'_>, cancel: &Cancel) -> Watched {
    match go_on(&mut watch, Pause::NEVER, cancel) {
        Way::There | Way::Ended => Watched::Done(watch.finish(&Brake::default())),
        Way::Interrupted => interrupted(&watch),
    }
}

/// Somebody interrupts: what was still waiting.
fn interrupted(watch: &Watch<'_>) -> Watched {
    Watched::Interrupted(watch.interrupted())
}

/// Goes on in small pieces, so that it can be interrupted.
fn go_on(watch: &mut Watch<'_>, pause: Pause, cancel: &Cancel) -> Way {
    loop {
        let most = watch.events().saturating_add(EVENTS_AT_ONCE);
        if !watch.go_on(Pause { events: pause.events.min(most), ..pause }) {
            return Way::Ended;
        }
        if cancel.is_cancelled() {
            return Way::Interrupted;
        }
        if watch.events() < most || watch.events() >= pause.events {
            return Way::There;
        }
    }
}

fn show(watch: &Watch<'_>, at: Time) -> anyhow::Result<()> {
    let text = host_state::text(&watch.state(at), &watch.vcpus(), output::stdout_style());
    let text = if output::stdout_is_ascii() { ascii(&text) } else { text };
    Ok(output::data(&format!("{text}\n"))?)
}

/// What is typed, line by line; ends with the input, or at what is no text.
fn lines() -> Receiver<String> {
    let (send, receive) = mpsc::sync_channel(1);
    thread::spawn(move || {
        let mut input = std::io::stdin().lock();
        loop {
            let mut line = String::new();
            match input.by_ref().take(LINE_MOST).read_line(&mut line) {
                Ok(1..) if send.send(line).is_ok() => {}
                _ => break,
            }
        }
    });
    receive
}

fn command(line: &str) -> anyhow::Result<Command> {
    let line = line.trim();
    if let Ok(count) = line.parse::<u64>() {
        return Ok(Command::Events(count));
    }
    Ok(match line {
        "" => Command::Events(1),
        "g" => Command::ToTheEnd,
        "q" => Command::Leave,
        _ => match moment::parse(line) {
            Ok(at) => Command::UpTo(Time::ZERO + Span::from(at)),
            Err(wrong) => bail!("{wrong}, or one of these:"),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_numbers_times_and_letters() {
        for (line, wanted) in [
            ("\n", Command::Events(1)),
            ("20\n", Command::Events(20)),
            (" 7ms ", Command::UpTo(Time::from_nanos(7_000_000))),
            ("g", Command::ToTheEnd),
            ("q", Command::Leave),
        ] {
            assert_eq!(command(line).unwrap(), wanted, "{line}");
        }
        assert!(command("7").is_ok() && command("quit").is_err() && command("-1").is_err());
    }
}
