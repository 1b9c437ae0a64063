//! What a probe is given besides its parameters.

use std::path::PathBuf;

use crate::armed::Armed;
use crate::bounds::Bounds;
use crate::job::Part;

/// What the machine around a job offers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Surroundings {
    /// Folder for the files of the disk probe, the disk load and the compile job, or a block device that may be
    /// overwritten.
    pub scratch: Option<PathBuf>,
    /// This program, for the fork probe and the compile job: `exe noop` exits with 0 at once, `exe compile` and
    /// `exe link` do what [`crate::build::verbs`] says.
    pub exe: PathBuf,
}

/// What a probe is given besides its parameters.
#[derive(Debug, Clone, Copy)]
pub struct Context<'a> {
    /// The machine around it.
    pub surroundings: &'a Surroundings,
    /// When to end at the latest.
    pub bounds: Bounds<'a>,
    /// Seed of everything random.
    pub seed: u64,
    /// Its part among several instances; none for one alone.
    pub part: Option<&'a Part>,
    /// Whether the instance has just been started.
    pub fresh: bool,
    /// What its measurements have laid out.
    pub armed: &'a Armed,
}
