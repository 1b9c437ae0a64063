//! What a partition's file shows its program of this host's files, and it cannot change: `ro`, `bind`, a folder as `image` or `files`,
//! `env_file`, `secrets`. A file counts by what is in it, a folder by the names, kinds, sizes and times of all in it, as `make` has it; what
//! may be secret by its size and times alone, because a digest of a password tells who guesses it. Where it, or another one of its set,
//! may write is no part of that, nor is what Bulkhead writes.

use std::fs::{self, Metadata};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use images::{Digest, Layout};
use model::partition::set::PartitionEntry;
use model::partition::{ImageEntry, ImageRef};
use partition::set::root::state_root;

use super::Files;
use crate::journal::first_set;

/// Entries of a folder that are looked at. Whoever shows more, `/usr` say, is not told when one of them changes.
const MOST_ENTRIES: usize = 20_000;
/// Largest file that is read; of larger ones, size and time count.
const MOST_BYTES: u64 = 64 << 20;
const GONE: &str = "not there";

/// What is no part of it, wherever it lies.
pub struct KeptOut {
    /// What one of the set's partitions may write, for whomever; without links.
    written: Vec<PathBuf>,
    /// Folders of this verification and of sets that are up: verifying must not make its own results stale.
    ours: Vec<(u64, u64)>,
}

impl KeptOut {
    /// What is written by partitions, and where evidence of this verification will be.
    pub fn of<'a>(written: impl Iterator<Item = &'a PathBuf>, out: &Path) -> Self {
        let written = written.map(|path| fs::canonicalize(path).unwrap_or_else(|_| path.clone())).collect();
        let ours = [out.to_owned(), state_root()].into_iter().filter_map(|path| fs::metadata(path).ok());
        Self { written, ours: ours.map(|about| (about.dev(), about.ino())).collect() }
    }

    /// Other evidence as well: its journal is its first file, and says so.
    fn is_ours(&self, folder: &Path, about: &Metadata) -> bool {
        self.ours.contains(&(about.dev(), about.ino())) || first_set(folder).is_some()
    }
}

/// All of it in words, empty where nothing is shown.
pub fn to(entry: &PartitionEntry, kept_out: &KeptOut, files: &mut Files) -> String {
    let open = open(entry).map(|path| format!("{}: {}", path.display(), of(&path, kept_out, files)));
    let kept = entry.env_file.iter().chain(entry.secrets.values());
    let kept = kept.map(|path| {
        let secret = |about: Metadata| {
            format!("{} bytes of {}, {}.{:09}", about.size(), time(&about), about.ctime(), about.ctime_nsec())
        };
        format!("{}: {}", path.display(), fs::metadata(path).map_or(GONE.to_owned(), secret))
    });
    open.chain(kept).collect::<Vec<_>>().join("; ")
}

/// What everybody may know.
fn open(entry: &PartitionEntry) -> impl Iterator<Item = PathBuf> {
    let bound = entry.bind.iter().map(|pair| PathBuf::from(pair.split(':').next().unwrap_or_default()));
    let root = match &entry.image {
        // Of a layout one image was taken when it came up; which is told elsewhere.
        ImageEntry::Root(ImageRef::Folder(folder)) if folder.is_dir() && !Layout::is_one(folder) => {
            Some(folder.clone())
        }
        _ => None,
    };
    let tree = entry.files.starts_with('/').then(|| PathBuf::from(&entry.files));
    // The folder that it starts in is shown, too, but in an image's.
    let own = (entry.image.is_none() && entry.workdir != Path::new("/")).then(|| entry.workdir.clone());
    entry.ro.iter().cloned().chain(bound).chain(root).chain(tree).chain(own)
}

fn of(path: &Path, kept_out: &KeptOut, files: &mut Files) -> String {
    let Ok(real) = fs::canonicalize(path) else { return GONE.to_owned() };
    match fs::metadata(&real) {
        _ if kept_out.written.iter().any(|written| real.starts_with(written)) => {
            "the set's own to write".to_owned()
        }
        Ok(about) if about.is_dir() && kept_out.is_ours(&real, &about) => "Bulkhead's own".to_owned(),
        Ok(about) if about.is_dir() => folder(&real, kept_out),
        Ok(about) if about.size() > MOST_BYTES => format!("{} bytes of {}", about.size(), time(&about)),
        Ok(_) => files.digest(&real).unwrap_or_else(|| "not known".to_owned()),
        Err(_) => GONE.to_owned(),
    }
}

/// How many entries, and a digest of what they are, below a folder whose path has no links.
fn folder(root: &Path, kept_out: &KeptOut) -> String {
    let mut lines = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).into_iter().flatten().flatten() {
            let Ok(about) = entry.metadata() else { continue };
            let path = entry.path();
            if kept_out.written.contains(&path) || (about.is_dir() && kept_out.is_ours(&path, &about)) {
                continue;
            }
            lines.push(line(&path, &about));
            if about.is_dir() {
                folders.push(path);
            }
            if lines.len() > MOST_ENTRIES {
                return format!("more than {MOST_ENTRIES} files, not looked at");
            }
        }
    }
    lines.sort_unstable();
    format!("{} entries, {}", lines.len(), Digest::of(&lines.concat()).short())
}

/// An entry. A folder's time and size say of it only what its own entries say.
fn line(path: &Path, about: &Metadata) -> Vec<u8> {
    let mut line = path.as_os_str().as_bytes().to_vec();
    line.extend(format!("\0{:o}", about.mode()).bytes());
    if !about.is_dir() {
        line.extend(format!(" {} {}", about.size(), time(about)).bytes());
    }
    line.push(b'\n');
    line
}

/// When what is in it was changed last.
fn time(about: &Metadata) -> String {
    format!("{}.{:09}", about.mtime(), about.mtime_nsec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::partition::set::PartitionSet;
    use model::verification::{Basis, VERIFICATION_VERSION, VerifyHeader, VerifyLine};
    use units::Nanos;

    fn entry(text: &str) -> PartitionEntry {
        let set = PartitionSet::from_toml(&format!("[partition.a]\nprogram = [\"/bin/true\"]\n{text}"), "s");
        set.expect("it is right").partitions.remove("a").expect("it is there")
    }

    #[test]
    fn what_a_program_is_shown_counts_and_nothing_else() {
        let folder = tempfile::tempdir().expect("the test's own files");
        let at = |name: &str| folder.path().join(name);
        let write = |name: &str, text: &str| {
            fs::create_dir_all(at(name).parent().expect("not the root")).expect("the test's own files");
            fs::write(at(name), text).expect("the test's own files");
        };
        write("config/deep/a", "1");
        write("file", "1");
        write("key", "1");
        write("data/a", "1");
        write("config/own/a", "1");
        write("config/log", "1");
        write("real/data/a", "1");
        std::os::unix::fs::symlink(at("real/data"), at("link")).expect("the test's own files");
        let entry = entry(&format!(
            "ro = [{:?}, {:?}, {:?}]\nrw = [{:?}, {:?}, {:?}, {:?}]\nsecrets = {{ key = {:?} }}\n",
            at("config"),
            at("file"),
            at("real"),
            at("data"),
            at("config/own"),
            at("config/log"),
            at("link"),
            at("key")
        ));
        let out = at("config/out");
        let now = || to(&entry, &KeptOut::of(entry.rw.iter(), &out), &mut Files::default());
        let was = now();
        assert!(was.contains("config: 2 entries"), "{was}");
        let changed = |name: &str, text: &str| {
            let before = now();
            write(name, text);
            now() != before
        };
        assert!(changed("config/deep/a", "12") && changed("config/b", "1") && changed("file", "2"));
        assert!(!changed("data/a", "2") && !changed("config/own/b", "1"), "where it may write");
        assert!(!changed("config/log", "2") && !changed("real/data/b", "1"), "a file, and behind a link");
        fs::create_dir(&out).expect("the test's own files");
        let before = now();
        write("config/out/journal.jsonl", "");
        assert_eq!(now(), before, "evidence that begins");
        fs::rename(at("file"), at("else")).expect("it is there");
        assert!(now().contains("file: not there"));
        // Evidence in such a folder must not make itself stale; also that of a verification that was killed, which has a journal alone.
        let header = VerifyLine::Header(VerifyHeader {
            schema_version: VERIFICATION_VERSION,
            bulkhead_version: "1".to_owned(),
            started_unix_ns: Nanos::ZERO,
            set: "s".to_owned(),
            seed: 1,
            basis: Basis::new(),
        });
        let header = serde_json::to_string(&header).expect("JSON");
        write("config/evidence/journal.jsonl", &header);
        assert!(!changed("config/evidence/journal.jsonl", &format!("{header}\n")));
        assert!(!changed("config/evidence/verify.html", "1"));
        // Regression: names alone are no evidence.
        write("config/of-somebody/journal.jsonl", "1");
        write("config/of-somebody/manifest.json", "1");
        assert!(changed("config/of-somebody/journal.jsonl", "12"));
        let key = now();
        write("key", "2");
        fs::File::open(at("key"))
            .and_then(|file| file.set_modified(std::time::UNIX_EPOCH))
            .expect("it is there");
        assert!(now() != key && !now().contains(Digest::of(b"2").short()), "told by its times alone");
    }

    #[test]
    fn a_folder_with_too_much_is_not_looked_at() {
        let folder = tempfile::tempdir().expect("the test's own files");
        for number in 0..=MOST_ENTRIES {
            fs::File::create(folder.path().join(number.to_string())).expect("the test's own files");
        }
        assert!(
            super::folder(folder.path(), &KeptOut::of([].iter(), folder.path())).contains("not looked at")
        );
    }
}
