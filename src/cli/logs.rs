//! `bulkhead logs`: what a partition's program has written, and what it goes on to write.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use anyhow::anyhow;

use super::args::LogsArgs;
use super::ending::{Ending, OrStop, Verdict};
use super::remote::{self, Errand, Logs};
use super::{output, plan};
use partition::set::logs::Reader;
use partition::set::root::state_root;
use partition::set::{find, status};
use platforms::Cancel;

/// How often it is looked whether more was written.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// Prints its output to ours, and its errors to ours, wherever it is.
pub fn run(args: &LogsArgs) -> Verdict {
    let meant = plan::chosen_with_partition(&args.partition, args.on.as_deref()).or_bad_input()?;
    let (partition, planned) = meant;
    let logs = Logs { partition, follow: args.follow, tail: args.tail };
    if let Some((plan, chosen)) = &planned
        && let Some(destination) = &chosen.destination
    {
        return remote::run(chosen, destination, &Errand::Logs(logs), plan);
    }
    // Ctrl-C ends this process.
    print(&logs, &Cancel::new())
}

/// Prints those of a partition of this machine.
pub fn print(args: &Logs, cancel: &Cancel) -> Verdict {
    let meant = find::partition(&state_root(), &args.partition, None);
    let folder = meant.map_err(|problem| anyhow!(problem)).or_bad_input()?.partition.folder;
    let mut logs = [Reader::new(folder.join("stdout.log")), Reader::new(folder.join("stderr.log"))];
    if let Some(lines) = args.tail {
        for log in &mut logs {
            log.skip_to_last(lines);
        }
    }
    loop {
        // Looked at before the logs: what it wrote until its end is in them then.
        let goes_on = args.follow && status::goes_on(&folder);
        let [out, errors] = &mut logs;
        let wrote = write(out, &mut io::stdout().lock(), goes_on)
            .and_then(|some| Ok(write(errors, &mut io::stderr().lock(), goes_on)? | some))
            .or_lacking()?;
        if logs.iter_mut().fold(false, |missed, log| log.has_missed() | missed) {
            output::say("bulkhead: it writes more quickly than this is read: some of it is missing here");
        }
        if !goes_on {
            return Ok(Ending::Done);
        }
        if cancel.is_cancelled() {
            return Ok(Ending::Interrupted);
        }
        if !wrote {
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

/// Whole lines, unless no more come; whether there was something.
fn write<W: Write + IsTerminal>(log: &mut Reader, to: &mut W, goes_on: bool) -> io::Result<bool> {
    let bytes = log.read(!goes_on);
    output::pass_on(&bytes, to)?;
    Ok(!bytes.is_empty())
}
