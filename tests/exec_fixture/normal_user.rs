//! A normal user of this host for whom guests start: nobody, with a copy of the program, of its cache and folders of its own.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::{Here, binary};

/// Number of that user and of its group.
pub const NOBODY: u32 = 65534;

/// What that user has.
pub struct NormalUser {
    id: u32,
    program: PathBuf,
    cache: PathBuf,
    pub temporary: PathBuf,
}

impl NormalUser {
    /// Below `here`, where it has files of its own; to be made as root.
    pub fn new(here: &Here) -> Self {
        Self::with_id(here, NOBODY)
    }

    /// Another user than nobody, and its group, which is the one that the kernel shows for those that a namespace does not map.
    pub fn with_id(here: &Here, id: u32) -> Self {
        let (temporary, cache) = (here.path("temporary"), here.path("cache"));
        fs::set_permissions(here.files.path(), fs::Permissions::from_mode(0o755))
            .expect("the test's own files");
        for made in [&temporary, &cache] {
            fs::create_dir(made).expect("the test's own files");
            chown(made, Some(id), Some(id)).expect("root may");
            fs::set_permissions(made, fs::Permissions::from_mode(0o700)).expect("the test's own files");
        }
        // What was installed may lie where that user cannot reach it.
        let program = here.path("bulkhead");
        fs::copy(binary(), &program).expect("the test's own files");
        // Images and saved machines lie there, too; other tests make and remove them meanwhile, and no guest boots from them.
        let kept = kept_cache().join("bulkhead");
        let parts = fs::read_dir(&kept).expect("a cache").flatten().map(|entry| entry.path());
        let parts = parts.filter(|path| !path.ends_with("images") && !path.ends_with("saved"));
        fs::create_dir(cache.join("bulkhead")).expect("the test's own files");
        let copied = Command::new("cp").arg("-rL").args(parts).arg(cache.join("bulkhead")).output();
        let copied = copied.expect("cp runs");
        assert!(copied.status.success(), "{copied:?}");
        let given = Command::new("chown").args(["-R", &format!("{id}:{id}")]).arg(&cache).status();
        assert!(given.expect("chown runs").success());
        Self { id, program, cache, temporary }
    }

    /// `bulkhead exec --accel tcg WORDS…` as that user, who is in these groups besides its own.
    pub fn exec(&self, groups: &[u32], words: &[&str]) -> Command {
        let id = self.id.to_string();
        let mut command = Command::new("setpriv");
        command.args(["--reuid", &id, "--regid", &id]);
        let groups: Vec<String> = groups.iter().map(ToString::to_string).collect();
        match groups.as_slice() {
            [] => command.arg("--clear-groups"),
            some => command.arg("--groups").arg(some.join(",")),
        };
        command
            .arg("--")
            .arg(&self.program)
            .args(["exec", "--accel", "tcg", "--memory", "320MiB"])
            .args(words);
        command.env("TMPDIR", &self.temporary).env("XDG_CACHE_HOME", &self.cache);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }
}

/// The folder that the cache of the one who runs the tests lies in.
pub fn kept_cache() -> PathBuf {
    let home = || Path::new(&std::env::var_os("HOME").unwrap_or_default()).join(".cache");
    std::env::var_os("XDG_CACHE_HOME").map_or_else(home, PathBuf::from)
}
