//! Where sets that are up are written down: one folder, only ours.

use std::io;
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;

use crate::users;
use platforms::own_folder::{Others, OwnFolder};

/// Names another folder than the usual one.
pub const STATE_VARIABLE: &str = "BULKHEAD_STATE";

/// The folder of all sets: `BULKHEAD_STATE`; else `/run/bulkhead` for root, `$XDG_RUNTIME_DIR/bulkhead` for others; else
/// `$XDG_STATE_HOME/bulkhead` or `~/.local/state/bulkhead`. It need not exist, and is used only when it is ours alone. Never a
/// folder that others can write to: whoever knows the name could be there first.
pub fn state_root() -> PathBuf {
    let named = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    if let Some(folder) = named(STATE_VARIABLE) {
        return std::path::absolute(&folder).unwrap_or(folder);
    }
    if geteuid().is_root() {
        return PathBuf::from("/run/bulkhead");
    }
    match named("XDG_RUNTIME_DIR").filter(|folder| OwnFolder::open(folder, Others::StayOut).is_ok()) {
        Some(folder) => folder.join("bulkhead"),
        None => named("XDG_STATE_HOME")
            .or_else(|| users::own_home().map(|home| home.join(".local/state")))
            .unwrap_or_else(|| PathBuf::from("/run"))
            .join("bulkhead"),
    }
}

/// Makes a folder that only we can enter, with its parents; one that is there must be such a folder.
///
/// # Errors
/// When it cannot be made, or is a link, or somebody else's, or open to others.
pub fn make_private(folder: &Path) -> io::Result<OwnFolder> {
    OwnFolder::make_private(folder).map_err(advised)
}

/// Opens a folder that is ours alone.
///
/// # Errors
/// When it is not there, is a link, belongs to somebody else, or is open to others.
pub fn check_private(folder: &Path) -> io::Result<OwnFolder> {
    OwnFolder::open(folder, Others::StayOut).map_err(advised)
}

fn advised(error: io::Error) -> io::Error {
    match error.kind() {
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            io::Error::new(error.kind(), format!("{error}; or set {STATE_VARIABLE} to another folder"))
        }
        _ => error,
    }
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
