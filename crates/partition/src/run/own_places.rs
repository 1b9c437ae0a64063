//! Which folders are this program's own: memory of channels, what a run wrote, where a set is kept, saved layers. What is written there
//! other partitions depend on, and a later call undoes what stands there: no guest is given them.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;

use crate::layer;
use platforms::ledger::FILE_NAME as LEDGER_FILE;
use platforms::sweep::{OUR_PREFIX, SHARED_MEMORY};

/// Both lie in the folder of a set (`partition/set/folder.rs`).
const FILES_OF_A_SET: [&str; 2] = ["set.json", "lock"];
/// Both lie in that of a saved layer.
const FILES_OF_A_LAYER: [&str; 2] = [layer::IMAGE, layer::RECORD];

/// Whether a folder is one that this program has made for itself: in the temporary folder, in memory, or what a run or a set
/// wrote.
pub fn is_ours(folder: &Path, meta: &Metadata) -> bool {
    is_private(meta) && (is_named_so(folder) || holds_our_files(folder))
}

/// The folder of ours that `path` is, or lies in. A name alone counts only where we make folders: others may call theirs so.
pub fn around(path: &Path) -> Option<PathBuf> {
    let path = fs::canonicalize(path).ok()?;
    let temporary = fs::canonicalize(std::env::temp_dir()).ok();
    let is_ours = |folder: &&Path| {
        let above = folder.parent();
        let is_made_here =
            above == Some(Path::new(SHARED_MEMORY)) || (above.is_some() && above == temporary.as_deref());
        let is_private = fs::symlink_metadata(folder).is_ok_and(|meta| meta.is_dir() && is_private(&meta));
        is_private && ((is_made_here && is_named_so(folder)) || holds_our_files(folder))
    };
    path.ancestors().find(is_ours).map(Path::to_path_buf)
}

fn is_private(meta: &Metadata) -> bool {
    const OTHERS: u32 = 0o077;
    meta.uid() == geteuid().as_raw() && meta.mode() & OTHERS == 0
}

fn is_named_so(folder: &Path) -> bool {
    folder.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(OUR_PREFIX.as_bytes()))
}

fn holds_our_files(folder: &Path) -> bool {
    let holds = |name: &str| folder.join(name).is_file();
    let holds_all = |names: [&str; 2]| names.into_iter().all(holds);
    holds(LEDGER_FILE) || holds_all(FILES_OF_A_SET) || holds_all(FILES_OF_A_LAYER)
}
