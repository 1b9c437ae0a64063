//! From an entry of an experiment to the platform behind it.

use std::path::PathBuf;

use super::Platform;
use super::container::Container;
use super::fake::Fake;
use super::ledger::Ledger;
use super::native::Native;
use super::storage::Storage;
use super::vm::platform::Vm;
use model::experiment::PlatformSpec;
use model::names::PlatformKind;
use model::units::Hertz;

/// What platforms need from the program.
#[derive(Debug, Clone)]
pub struct PlatformContext {
    /// This program's binary, which is the agent's, too: `/proc/self/exe`.
    pub exe: PathBuf,
    /// Where everything that is started is written down.
    pub ledger: Ledger,
    /// Folder for what may be kept between runs: guest kernels, unpacked modules.
    pub cache: PathBuf,
    /// Rate of the host's cycle counter, which translated guests see, too; none where it is not known.
    pub counter_hz: Option<Hertz>,
    /// Seed of the run.
    pub seed: u64,
    /// Whether the command line allows what is on a named block device to be lost.
    pub may_destroy: bool,
}

/// Makes the platform that `spec` describes. Nothing is started or looked for yet.
pub fn make(spec: &PlatformSpec, context: &PlatformContext) -> Box<dyn Platform> {
    let storage = Storage::new(spec, context.may_destroy, &context.ledger);
    match spec.kind {
        PlatformKind::Native => {
            Box::new(Native::new(spec, context.exe.clone(), context.ledger.clone(), storage))
        }
        PlatformKind::Container => {
            Box::new(Container::new(spec, context.exe.clone(), context.ledger.clone(), storage))
        }
        // No experiment may have simulated platforms; they start nothing either.
        PlatformKind::Fake | PlatformKind::Sim => Box::new(Fake::new(spec, context.seed)),
        PlatformKind::Vm => Box::new(Vm::new(spec, context)),
        PlatformKind::Ssh => Box::new(super::ssh::Ssh::new(spec, context)),
    }
}
