//! `bulkhead settle`: puts this program to stay on the machine where it runs, and prints where.
//!
//! ```text
//!  own file ─► its SHA-256 ─► CACHE/programs/DIGEST, in folders that only we can enter ─► its path
//!                              there with another content: replaced, never run     others, unused for a day: removed
//! ```
//! It came into a folder of its own for this one call (`run_there`), where it cannot stay as long as partitions run.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

use anyhow::{Context, anyhow};
use nix::fcntl::OFlag;

use crate::cli::ending::{self, Ending, OrStop, Verdict};
use crate::cli::{cache, file, output};
use images::Digest;
use platforms::own_folder::OwnFolder;

/// Where programs are, in the cache folder.
const FOLDER: &str = "programs";
/// A program that was not settled again for so long and that nobody runs is removed.
const UNUSED: Duration = Duration::from_secs(24 * 3600);
/// Nobody else comes through the folders above it. Behind the walls of QEMU it runs as a user that owns nothing.
const MODE: u32 = 0o755;
/// This program, also when its file has been removed.
const OWN_FILE: &str = "/proc/self/exe";

/// Puts it there, and prints its path.
pub fn settle() -> ExitCode {
    let code = ending::exit_code(settled());
    cache::leave();
    code
}

fn settled() -> Verdict {
    if !cache::lasts() {
        return Err(anyhow!(
            "partitions that go on need a cache folder that stays: BULKHEAD_CACHE names one"
        ))
        .or_lacking();
    }
    let program = fs::read(OWN_FILE).context("this program's own file cannot be read").or_lacking()?;
    let folder = cache::folder().join(FOLDER);
    let path = put(&folder, &program)
        .with_context(|| format!("this program cannot be put into {}", folder.display()))
        .or_lacking()?;
    let path = path.to_str().context("the cache folder's name is no text").or_lacking()?;
    output::data(path).or_lacking()?;
    Ok(Ending::Done)
}

/// Puts a program into a folder of programs; its path.
fn put(folder: &Path, program: &[u8]) -> anyhow::Result<PathBuf> {
    let folder = OwnFolder::make_private(folder)?;
    let digest = Digest::of(program);
    let name = digest.digits();
    let is_there = |file: &File| -> io::Result<bool> {
        let mode = file.metadata()?.permissions().mode() & 0o7777;
        Ok(mode == MODE && fs::read(folder.path().join(name))? == program)
    };
    match folder.file(name, OFlag::O_RDONLY) {
        Ok(file) if is_there(&file)? => file.set_modified(SystemTime::now())?,
        // Never the file that somebody may have open for writing.
        _ => file::write(&folder.path().join(name), program, MODE)?,
    }
    // What is left of others is no reason not to go on.
    let _ = sweep(&folder, name);
    Ok(folder.path().join(name))
}

/// Removes programs of other versions that nobody has used for a while.
fn sweep(folder: &OwnFolder, own: &str) -> io::Result<()> {
    let running: Vec<PathBuf> = fs::read_dir("/proc")?
        .flatten()
        .filter_map(|entry| fs::read_link(entry.path().join("exe")).ok())
        .collect();
    for entry in fs::read_dir(folder.path())?.flatten() {
        let age = entry.metadata().and_then(|found| found.modified());
        let is_old = age.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > UNUSED));
        if entry.file_name() != own && is_old && !running.contains(&entry.path()) {
            folder.remove(Path::new(&entry.file_name()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_put_once_and_a_wrong_one_of_its_name_is_replaced() {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = dir.path().join("programs");
        let path = put(&folder, b"program").expect("put");
        let mode = |path: &Path| fs::metadata(path).expect("there").permissions().mode() & 0o7777;
        assert_eq!((mode(&folder), mode(&path)), (0o700, MODE));
        let before = fs::metadata(&path).expect("there");
        assert_eq!(put(&folder, b"program").expect("there"), path);
        let number = |found: &fs::Metadata| std::os::unix::fs::MetadataExt::ino(found);
        assert_eq!(number(&before), number(&fs::metadata(&path).expect("there")), "it is the same file");
        fs::write(&path, b"another").expect("written");
        put(&folder, b"program").expect("replaced");
        assert_eq!(fs::read(&path).expect("there"), b"program");
        fs::remove_file(&path).expect("removed");
        std::os::unix::fs::symlink("/bin/sh", &path).expect("a link");
        put(&folder, b"program").expect("replaced");
        assert!(path.symlink_metadata().expect("there").is_file());
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o770)).expect("opened");
        assert!(put(&folder, b"program").is_err(), "others could put another one there");
    }

    #[test]
    fn others_go_when_they_are_old_and_nobody_runs_them() {
        let dir = tempfile::tempdir().expect("a folder");
        let folder = dir.path().join("programs");
        let old = |path: &Path| {
            let then = SystemTime::now() - 2 * UNUSED;
            File::options().write(true).open(path).and_then(|file| file.set_modified(then)).expect("aged");
        };
        let young = put(&folder, b"young").expect("put");
        let unused = put(&folder, b"unused").expect("put");
        let sleep = fs::read("/bin/sleep").expect("a program");
        let used = put(&folder, &sleep).expect("put");
        old(&unused);
        old(&used);
        let mut sleeper = std::process::Command::new(&used).arg("1000").spawn().expect("it runs");
        put(&folder, b"program").expect("put");
        let there = [young.exists(), unused.exists(), used.exists()];
        let _ = sleeper.kill();
        let _ = sleeper.wait();
        assert_eq!(there, [true, false, true]);
    }
}
