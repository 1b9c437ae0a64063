//! From an entry of an experiment to the platform behind it.

use super::Platform;
use super::container::Container;
use super::context::PlatformContext;
use super::fake::Fake;
use super::native::Native;
use super::storage::Storage;
use super::vm::platform::Vm;
use model::experiment::PlatformSpec;
use units::names::PlatformKind;

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
