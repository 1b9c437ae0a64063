//! Where sets that are up are written down: one folder, only ours, gone after a reboot.

use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;

/// Rights of the group and of everybody.
const OTHERS: u32 = 0o077;
/// Names another folder than the usual one.
pub const STATE_VARIABLE: &str = "BULKHEAD_STATE";

/// The folder of all sets: `BULKHEAD_STATE`; else `/run/bulkhead` for root, `$XDG_RUNTIME_DIR/bulkhead` for others; else a
/// folder in the temporary directory. It need not exist.
pub fn state_root() -> PathBuf {
    let named = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(folder) = named(STATE_VARIABLE) {
        return std::path::absolute(&folder).unwrap_or(folder);
    }
    if geteuid().is_root() {
        return PathBuf::from("/run/bulkhead");
    }
    match named("XDG_RUNTIME_DIR") {
        Some(folder) => folder.join("bulkhead"),
        None => std::env::temp_dir().join(format!("bulkhead-state-{}", geteuid())),
    }
}

/// Makes a folder that only we can enter, with its parents; one that is there must be such a folder.
///
/// # Errors
/// When it cannot be made, or is somebody else's, or open to others.
pub fn make_private(folder: &Path) -> io::Result<()> {
    if let Some(parent) = folder.parent().filter(|parent| !parent.exists()) {
        std::fs::create_dir_all(parent)?;
    }
    match std::fs::DirBuilder::new().mode(0o700).create(folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(told(folder, &error)),
        _ => {}
    }
    check_private(folder)
}

/// Whether a folder is ours alone.
///
/// # Errors
/// When it is not there, is a link, belongs to somebody else, or is open to others.
pub fn check_private(folder: &Path) -> io::Result<()> {
    let found = std::fs::symlink_metadata(folder).map_err(|error| told(folder, &error))?;
    let ours = found.is_dir() && found.uid() == geteuid().as_raw() && found.mode() & OTHERS == 0;
    if ours {
        return Ok(());
    }
    let text = format!(
        "{} must be a folder of ours that nobody else can enter (chown {} and chmod 700 it, or set {STATE_VARIABLE})",
        folder.display(),
        geteuid()
    );
    Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
}

fn told(folder: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", folder.display()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_folder_that_others_can_enter_is_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let folder = dir.path().join("deep/state");
        make_private(&folder).expect("made");
        make_private(&folder).expect("there");
        std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(0o750)).expect("opened");
        assert!(make_private(&folder).expect_err("open to the group").to_string().contains("chmod 700"));
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(dir.path(), &link).expect("a link");
        assert!(check_private(&link).is_err());
    }
}
