//! Secrets of a program: files in memory that its user alone can read.
//!
//! ```text
//!  host: a file ─► the guest's first file system, which is memory ─► /run/secrets/NAME, tmpfs, 0400, its user's
//! ```

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{OpenOptionsExt, chown};
use std::path::Path;

use nix::mount::{MsFlags, mount};

use super::super::guest::{CONFIG_PATH, GuestSecret, SECRETS};
use super::super::pid1::in_context;
use model::partition::UserIds;
use units::Reason;

/// Forgets the file that they came in. It is read, and nothing else of the first file system is to be had either.
pub fn forget() {
    let _ = fs::remove_file(CONFIG_PATH);
}

/// Shows all of them to `user`.
pub fn show(secrets: &[GuestSecret], user: &UserIds) -> Result<(), Reason> {
    if secrets.is_empty() {
        return Ok(());
    }
    let failed = || in_context::<std::io::Error>("secrets");
    fs::create_dir_all(SECRETS).map_err(failed())?;
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    mount(Some("tmpfs"), SECRETS, Some("tmpfs"), flags, Some("mode=0755")).map_err(in_context("secrets"))?;
    for secret in secrets {
        let path = Path::new(SECRETS).join(&secret.name);
        let mut options = OpenOptions::new();
        let made = options.write(true).create_new(true).mode(0o400).open(&path);
        made.and_then(|mut file| file.write_all(&secret.content.0)).map_err(failed())?;
        chown(&path, Some(user.uid), Some(user.gid)).map_err(failed())?;
    }
    Ok(())
}
