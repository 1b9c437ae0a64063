//! What ends a campaign other than success or the user: everything else is a recorded failure.

use std::path::PathBuf;

use super::journal::JournalError;
use super::rundir::RunDirError;

/// Why a campaign could not be run or concluded.
#[derive(Debug, thiserror::Error)]
pub enum CampaignError {
    /// The run directory.
    #[error(transparent)]
    RunDir(#[from] RunDirError),
    /// The journal.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// No platform of the experiment can be measured here.
    #[error("no platform of this experiment can be measured here:\n{}", .0.join("\n"))]
    NothingAvailable(Vec<String>),
    /// The platforms handed in are not those of the experiment.
    #[error("the experiment has the platforms {wanted}, but {got} were set up: a run needs exactly its own")]
    OtherPlatforms {
        /// Labels in the experiment.
        wanted: String,
        /// Labels handed in.
        got: String,
    },
    /// The experiment has loads on the host, and nothing was handed in that runs them.
    #[error("the experiment puts a load on the host, but no native platform was set up to carry it")]
    NoHostPlatform,
    /// The run has no measurements at all.
    #[error("{} holds no finished measurement: resume it with --resume {}", .0.display(), .0.display())]
    Empty(PathBuf),
}
