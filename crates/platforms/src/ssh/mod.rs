//! Ssh: any Linux machine that OpenSSH reaches with keys, so the guest of any hypervisor, a cloud machine, another host.
//!
//! ```text
//!  survey   ssh DEST uname ──────────────────────────────► Linux, same architecture?
//!  start    ssh DEST mktemp, cat ◄── this binary           copied into a fresh folder
//!           ssh DEST FOLDER/bulkhead agent ◄── link ──►    standard streams of the session
//!                    │ removes its own file at once
//!                    └ janitor: removes the folder when the agent ends, however it ends
//!  run_there  ssh DEST mktemp, cat, bulkhead WORDS         for one answer; the shell removes the folder
//!  errand     ssh DEST PROGRAM errand                      on a machine where the program has been put to stay
//! ```
//! Host keys are checked strictly: one that is not known, or has changed, is refused, never learned. Nothing that came
//! from the network or the user becomes part of a remote command without being checked to the last character.

mod client;
mod remote;

pub mod errand;
pub mod janitor;
pub use client::explain;
pub use remote::{Ssh, has_digest, is_our_folder, run_there};
