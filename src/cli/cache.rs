//! Where what is expensive to make again is kept: the guest kernel that set-up fetched, unpacked kernels, images, saved machines.
//!
//! ```text
//!  BULKHEAD_CACHE ─► $XDG_CACHE_HOME/bulkhead ─► ~/.cache/bulkhead ─► $XDG_RUNTIME_DIR/bulkhead-cache ─► a temporary one
//!        each: ours alone? used. Else it is said why not, and the next one is tried.           gone when this process ends
//! ```

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use tempfile::TempDir;

use super::output;
use partition::users;
use platforms::own_folder::{Others, OwnFolder, check_way, folder_of_anybody};
use platforms::sweep::new_folder;
use platforms::vm::saved;

/// How deep in the cache folder it is looked whose the files are: the kernel, what is unpacked, the folders of modules.
const CACHE_LEVELS: usize = 2;

/// The one that was chosen, until the process ends.
static CHOSEN: Mutex<Option<Cache>> = Mutex::new(None);

enum Cache {
    Lasting(PathBuf),
    /// Its name cannot be foretold by anybody.
    Temporary(TempDir),
    /// Beneath a device nothing is found and nothing can be kept, which every user of the cache puts up with.
    Nowhere,
}

impl Cache {
    fn path(&self) -> &Path {
        match self {
            Self::Lasting(path) => path,
            Self::Temporary(folder) => folder.path(),
            Self::Nowhere => Path::new("/dev/null/cache"),
        }
    }
}

/// The cache folder. What lies there is booted, so it must be ours alone.
pub fn folder() -> PathBuf {
    look(|cache| cache.path().to_owned())
}

/// Whether what is put there will be found by later calls.
pub fn lasts() -> bool {
    look(|cache| matches!(cache, Cache::Lasting(_)))
}

/// Removes it if it was for this process only.
pub fn leave() {
    let chosen = CHOSEN.lock().map(|mut chosen| chosen.take());
    drop(chosen);
}

fn look<T>(ask: impl FnOnce(&Cache) -> T) -> T {
    // Nothing under this lock panics.
    let mut chosen = CHOSEN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    ask(chosen.get_or_insert_with(choose))
}

fn choose() -> Cache {
    let named = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let candidates = [
        named("BULKHEAD_CACHE"),
        named("XDG_CACHE_HOME").map(|folder| folder.join("bulkhead")),
        users::own_home().map(|home| home.join(".cache/bulkhead")),
        named("XDG_RUNTIME_DIR").map(|folder| folder.join("bulkhead-cache")),
    ];
    for folder in candidates.into_iter().flatten() {
        match own_cache(&folder) {
            Ok(cache) => return Cache::Lasting(cache),
            Err(error) => output::say(&format!(
                "bulkhead: the cache folder {} is not used: {error} (BULKHEAD_CACHE names another)",
                folder.display()
            )),
        }
    }
    new_folder("cache").map_or(Cache::Nowhere, Cache::Temporary)
}

/// The folder, when it and what is in it is ours alone.
fn own_cache(folder: &Path) -> io::Result<PathBuf> {
    let folder = std::path::absolute(folder)?;
    check_way(&folder)?;
    match OwnFolder::open(&folder, Others::MayLook) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => drop(OwnFolder::make_private(&folder)?),
        opened => opened?.check_all(CACHE_LEVELS, saved::FOLDER)?,
    }
    // Folders of other names may be there for others to read from, too.
    let is_named_so = folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with("bulkhead"));
    let others = if is_named_so { Others::StayOut } else { Others::MayLook };
    Ok(OwnFolder::claim(folder_of_anybody(&folder)?, others)?.path().to_owned())
}
