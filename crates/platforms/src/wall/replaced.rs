//! This program behind a wall, when its file has been removed or replaced since it was started (by a package manager, by a
//! build): what has no name left cannot be shown there, so it is run from a sealed copy in memory.
//!
//! ```text
//!  its file is there ─► shown, read-only, like any other
//!  it is not         ─► memory that nobody can change any more ─► executed by its descriptor
//! ```
//! The file itself is never executed by a descriptor: through `/proc/self/exe` a process behind the wall would come at a file of
//! the host that is not mounted read-only.
//!
//! Source: `memfd_create(2)` (seals), `execveat(2)` (`AT_EMPTY_PATH`).

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::io::Errno;

use super::order::Order;

/// The program that is running, whatever has become of its file.
const RUNNING: &str = "/proc/self/exe";

/// Takes this program out of what is to be shown where its file is gone, and gives the copy that is to be executed in its place.
///
/// # Errors
/// It cannot be read, or there is no memory for it.
pub fn copy_of_replaced(order: &mut Order) -> io::Result<Option<OwnedFd>> {
    if fs::canonicalize(RUNNING).is_ok() {
        return Ok(None);
    }
    let program = order.words.first().map(Path::new);
    let is_it =
        |shown: &super::Shown| shown.from == Path::new(RUNNING) && Some(shown.at.as_path()) == program;
    let Some(number) = order.shown.iter().position(is_it) else { return Ok(None) };
    order.shown.remove(number);
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    let memory = match memfd_create("bulkhead", flags | MemfdFlags::EXEC) {
        // Kernels before 6.3 take any such memory for something to execute.
        Err(Errno::INVAL) => memfd_create("bulkhead", flags)?,
        other => other?,
    };
    let mut copy = File::from(memory);
    io::copy(&mut File::open(RUNNING)?, &mut copy)?;
    fcntl_add_seals(&copy, SealFlags::WRITE | SealFlags::SHRINK | SealFlags::GROW | SealFlags::SEAL)?;
    // What is open for writing is not executed.
    let to_read = File::open(format!("/proc/self/fd/{}", copy.as_raw_fd()))?;
    Ok(Some(to_read.into()))
}
