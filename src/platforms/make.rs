//! From an entry of an experiment to the platform behind it.

use std::path::PathBuf;

use super::container::Container;
use super::fake::Fake;
use super::ledger::Ledger;
use super::native::Native;
use super::{Broken, Cancel, Instance, InstanceSpec, Platform};
use crate::model::experiment::PlatformSpec;
use crate::model::journal::{Failure, FailureKind, PlatformState};
use crate::model::names::PlatformKind;

/// What platforms need from the program.
#[derive(Debug, Clone)]
pub struct PlatformContext {
    /// This program's binary, which is the agent's, too: `/proc/self/exe`.
    pub exe: PathBuf,
    /// Where everything that is started is written down.
    pub ledger: Ledger,
    /// Folder for what may be kept between runs: guest kernels, unpacked modules.
    pub cache: PathBuf,
    /// Seed of the run.
    pub seed: u64,
}

/// Makes the platform that `spec` describes. Nothing is started or looked for yet.
pub fn make(spec: &PlatformSpec, context: &PlatformContext) -> Box<dyn Platform> {
    match spec.kind {
        PlatformKind::Native => Box::new(Native::new(spec, context.exe.clone(), context.ledger.clone())),
        PlatformKind::Container => {
            Box::new(Container::new(spec, context.exe.clone(), context.ledger.clone()))
        }
        PlatformKind::Fake => Box::new(Fake::new(spec, context.seed)),
        PlatformKind::Vm => Box::new(Absent { spec: spec.clone() }),
    }
}

/// A kind of platform this build cannot run.
struct Absent {
    spec: PlatformSpec,
}

impl Absent {
    fn reason(&self) -> String {
        format!("{}: platforms of kind \"{}\" are not part of this build", self.spec.label, self.spec.kind)
    }
}

impl Platform for Absent {
    fn survey(&mut self, _cancel: &Cancel) -> PlatformState {
        PlatformState {
            label: self.spec.label.clone(),
            kind: self.spec.kind,
            unavailable: Some(self.reason()),
            properties: vec![],
            facts: None,
            start_ns: None,
        }
    }

    fn start(&mut self, _spec: &InstanceSpec, _cancel: &Cancel) -> Result<Box<dyn Instance>, Broken> {
        Err(Failure { kind: FailureKind::Start, reason: self.reason(), console: vec![] }.into())
    }
}
