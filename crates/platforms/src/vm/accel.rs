//! Which engine runs the guests' CPUs, found out by trying.
//!
//! `/dev/kvm` that opens proves nothing: on some hosts that are virtual machines themselves it opens, and the guest then
//! crawls or hangs. So a small trial guest is started and must reach its agent in time.
//!
//! ```text
//!  wanted tcg ────────────────────────────────────────► TCG
//!  wanted auto │ kvm ─► open /dev/kvm ─► trial guest ─► KVM
//!                            │               │
//!                            └── no ─────────┴── no ──► auto: TCG with the reason · kvm: unavailable
//! ```
//!
//! The verdict is kept for the life of this program, not longer: the host may be another one after a reboot.

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::qemu::Engine;
use crate::{Broken, host};
use model::experiment::Accelerator;
use units::{Nanos, Reason};

/// How long a trial guest may take until its agent answers. A working KVM takes less than a second.
pub const TRIAL_DEADLINE: Duration = Duration::from_secs(5);

/// Time a translated guest may take until it works on an idle host; usual are 2 to 6 s.
const BOOT_TCG: Duration = Duration::from_secs(60);
/// The same under KVM; usual is less than 1 s.
const BOOT_KVM: Duration = Duration::from_secs(20);

/// Time a guest may take now until it works: longer where other work keeps it from the CPUs.
pub fn boot_deadline(engine: Engine) -> Duration {
    let idle = match engine {
        Engine::Kvm => BOOT_KVM,
        Engine::Tcg => BOOT_TCG,
    };
    idle.mul_f64(host::crowding())
}

/// The engine with the reason for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// What runs the CPUs; none when what was asked for does not work.
    pub engine: Option<Engine>,
    /// Why, as a clause: `kvm: the trial guest's agent answered after 412 ms`.
    pub why: String,
}

/// Chooses the engine. `trial` starts a guest under KVM, waits for its agent and ends it; it is asked at most once per
/// pair of QEMU and kernel in the life of this program.
pub fn choose(
    wanted: Accelerator,
    pair: (&Path, &Path),
    trial: impl FnOnce() -> Result<Nanos, Broken>,
) -> Result<Verdict, Broken> {
    static TRIED: Mutex<BTreeMap<(PathBuf, PathBuf), Result<String, Reason>>> = Mutex::new(BTreeMap::new());
    if wanted == Accelerator::Tcg {
        return Ok(Verdict { engine: Some(Engine::Tcg), why: "asked for".to_owned() });
    }
    let key = (pair.0.to_owned(), pair.1.to_owned());
    let mut tried = TRIED.lock().unwrap_or_else(PoisonError::into_inner);
    let known = if let Some(known) = tried.get(&key) {
        known.clone()
    } else {
        let found = try_kvm(Path::new("/dev/kvm"), trial)?;
        tried.insert(key, found.clone());
        found
    };
    Ok(judge(wanted, known))
}

/// `Ok` with what shows that KVM works, or `Err` with what shows that it does not.
fn try_kvm(
    device: &Path,
    trial: impl FnOnce() -> Result<Nanos, Broken>,
) -> Result<Result<String, Reason>, Broken> {
    if let Err(error) = OpenOptions::new().read(true).write(true).open(device) {
        return Ok(Err(unopened(device, &error).into()));
    }
    match trial() {
        Ok(start_time) => Ok(Ok(format!("the trial guest's agent answered after {start_time}"))),
        Err(Broken::Interrupted) => Err(Broken::Interrupted),
        Err(Broken::Failed(failure)) => {
            let reason = failure.reason.trim_start_matches("trial guest: ");
            Ok(Err(format!("{} opens, but a trial guest failed: {reason}", device.display()).into()))
        }
    }
}

fn unopened(device: &Path, error: &io::Error) -> String {
    let device = device.display();
    match error.kind() {
        ErrorKind::NotFound => {
            format!("no {device}: the processor's virtualization is off, hidden, or its module is not loaded")
        }
        ErrorKind::PermissionDenied => format!("{device} may not be opened: join the group kvm"),
        _ => format!("{device} does not open: {error}"),
    }
}

fn judge(wanted: Accelerator, found: Result<String, Reason>) -> Verdict {
    match (found, wanted) {
        (Ok(why), _) => Verdict { engine: Some(Engine::Kvm), why },
        (Err(why), Accelerator::Kvm) => Verdict { engine: None, why: why.into() },
        (Err(why), _) => Verdict { engine: Some(Engine::Tcg), why: why.into() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::journal::{Failure, FailureKind};

    fn failure() -> Broken {
        let reason = "its agent did not answer within 5.00 s".to_owned();
        Failure { kind: FailureKind::Start, reason, console: vec![] }.into()
    }

    #[test]
    fn a_device_that_opens_is_not_enough() {
        let device = tempfile::NamedTempFile::new().unwrap();
        let hopeless = try_kvm(device.path(), || Err(failure())).unwrap();
        let why = hopeless.clone().unwrap_err();
        assert!(
            why.to_string().contains("opens, but a trial guest failed") && why.to_string().contains("5.00 s"),
            "{why}"
        );
        assert_eq!(judge(Accelerator::Auto, hopeless.clone()).engine, Some(Engine::Tcg));
        assert_eq!(judge(Accelerator::Kvm, hopeless).engine, None);

        let good = try_kvm(device.path(), || Ok(Nanos::from_nanos(412_000_000))).unwrap();
        let verdict = judge(Accelerator::Auto, good);
        assert_eq!(verdict.engine, Some(Engine::Kvm));
        assert!(verdict.why.contains("412 ms"), "{}", verdict.why);
    }

    #[test]
    fn without_a_device_no_trial_is_made() {
        let found = try_kvm(Path::new("/nowhere/kvm"), || panic!("no trial wanted")).unwrap();
        assert!(found.unwrap_err().to_string().contains("no /nowhere/kvm"));
    }

    #[test]
    fn an_interruption_is_no_verdict() {
        let device = tempfile::NamedTempFile::new().unwrap();
        assert_eq!(try_kvm(device.path(), || Err(Broken::Interrupted)), Err(Broken::Interrupted));
    }
}
