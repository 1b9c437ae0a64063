//! STUB: the platform `ssh`; its owner replaces this file.

use super::make::PlatformContext;
use super::{Broken, Cancel, Instance, InstanceSpec, Platform};
use crate::model::experiment::PlatformSpec;
use crate::model::journal::{Failure, FailureKind, PlatformState};

/// Machines that OpenSSH reaches.
#[derive(Debug)]
pub struct Ssh {
    spec: PlatformSpec,
}

impl Ssh {
    /// A platform over these machines. Nothing is looked for yet.
    pub fn new(spec: &PlatformSpec, _context: &PlatformContext) -> Self {
        Self { spec: spec.clone() }
    }
}

impl Platform for Ssh {
    fn survey(&mut self, _cancel: &Cancel) -> PlatformState {
        PlatformState {
            label: self.spec.label.clone(),
            kind: self.spec.kind,
            unavailable: Some("STUB".to_owned()),
            properties: Vec::new(),
            facts: None,
            start_ns: None,
        }
    }

    fn start(&mut self, _spec: &InstanceSpec, _cancel: &Cancel) -> Result<Box<dyn Instance>, Broken> {
        Err(Failure { kind: FailureKind::Start, reason: "STUB".to_owned(), console: vec![] }.into())
    }
}
