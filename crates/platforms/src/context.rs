//! What platforms need from the program.

use std::path::PathBuf;

use super::ledger::Ledger;
use units::Hertz;

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
