//! Who puts things back when a verification dies in the middle of a failure: a process of its own that outlives it.
//!
//! ```text
//!  verify ── pipe ──► bulkhead mend STATE SET NAME…   waits for "done", or the pipe's end
//!     └ killed ─► the pipe ends ─► what nobody else starts again is started
//! ```

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use model::partition::set::Phase;
use partition::set::one::{Request, one};
use partition::set::resolve::partition_folder;
use partition::set::{folder, process, status};
use platforms::Cancel;
use platforms::spawn::{Bond, spawn};
use units::Reason;

/// The verb with which it is started.
pub const MEND_VERB: &str = "mend";
/// What it is told when all is put back.
const DONE: &[u8] = b"done";
/// How long it tries.
const MENDS_WITHIN: Duration = Duration::from_secs(180);
/// All must run so long: who was killed a moment ago may still be said to run.
const RUNS_FOR: Duration = Duration::from_secs(5);
/// How often.
const LOOK: Duration = Duration::from_millis(500);

/// It waits until this is dropped; what is not [put back](Guard::all_is_back) by then it starts.
pub struct Guard(Child);

impl Guard {
    /// Waits for these partitions of a set.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(exe: &Path, root: &Path, set: &str, names: &[&str]) -> Result<Self, Reason> {
        let mut command = Command::new(exe);
        command.arg(MEND_VERB).arg(root).arg(set).args(names);
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        spawn(command, Bond::OutlivesUs, None).map(Self).map_err(|error| {
            format!(
                "nothing is made to fail, for nobody would put it back if this program were killed: {error}"
            )
            .into()
        })
    }

    /// There is nothing left to be done.
    pub fn all_is_back(mut self) {
        if let Some(mut pipe) = self.0.stdin.take() {
            let _ = pipe.write_all(DONE);
        }
        let _ = self.0.wait();
    }
}

/// What that process does; words are the folder of all sets, the set, its partitions.
///
/// # Errors
/// Words are missing, or something does not run again.
pub fn mend(words: &[String], exe: &Path) -> Result<(), Reason> {
    let [root, set, names @ ..] = words else { return Err("mend: wanted STATE SET NAME…".into()) };
    let mut told = Vec::new();
    let heard = std::io::stdin().lock().take(DONE.len() as u64 + 1).read_to_end(&mut told);
    if heard.is_ok() && told == DONE {
        return Ok(());
    }
    let root = Path::new(root);
    let until = Instant::now() + MENDS_WITHIN;
    let is_up = |name: &&String| {
        let (phase, state) = status::phase(&root.join(set).join(partition_folder(name)));
        let process = state.and_then(|state| state.process);
        phase == Phase::Running && process.as_ref().is_some_and(process::is_alive)
    };
    let mut all_since: Option<Instant> = None;
    while folder::read_set(&root.join(set)).is_some() {
        std::thread::sleep(LOOK);
        let Some(down) = names.iter().find(|name| !is_up(name)) else {
            if all_since.get_or_insert_with(Instant::now).elapsed() >= RUNS_FOR {
                return Ok(());
            }
            continue;
        };
        all_since = None;
        if Instant::now() >= until {
            return Err(format!("mend: {set}/{down} does not run again").into());
        }
        // What it waits for may be the next; what has somebody who looks after it comes back without us.
        for name in names.iter().filter(|name| !is_up(name)) {
            if !status::goes_on(&root.join(set).join(partition_folder(name))) {
                let _ = one(root, &format!("{set}/{name}"), Request::Start, exe, &Cancel::new());
            }
        }
    }
    Ok(())
}
