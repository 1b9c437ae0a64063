//! Folders and volumes that two partitions both write, whatever they are called: links are followed.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use model::partition::{Content, Volume};

/// How many pairs of them are the same, or one within the other.
pub fn shared(one: &Content, other: &Content) -> usize {
    let others = written(other);
    let count = |a: &PathBuf| others.iter().filter(|b| is_shared(a, b)).count();
    written(one).iter().map(count).sum()
}

fn written(content: &Content) -> Vec<PathBuf> {
    let Content::Program(program) = content else { return Vec::new() };
    // What is bound (`bind`) is for reading.
    let all = program.writable.iter().cloned().chain(program.volumes.iter().map(Volume::files));
    // What is not there is shared by name, if at all.
    all.map(|path| path.canonicalize().unwrap_or(path)).collect()
}

fn is_shared(one: &Path, other: &Path) -> bool {
    let number = |path: &Path| fs::metadata(path).ok().map(|about| (about.dev(), about.ino()));
    let is_same = number(one).is_some() && number(one) == number(other);
    is_same || one.starts_with(other) || other.starts_with(one)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::partition::{Bind, Program};

    #[test]
    fn folders_are_the_same_by_whatever_name() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["data/deep", "other", "volume/files"] {
            fs::create_dir_all(at(name)).unwrap();
        }
        std::os::unix::fs::symlink(at("data"), at("alias")).unwrap();
        let writes = |name: &str| {
            Content::Program(Box::new(Program { writable: vec![at(name)], ..Program::default() }))
        };
        let volume = Volume { name: "v".to_owned(), from: at("volume"), at: "/v".into() };
        let of_volume = Content::Program(Box::new(Program { volumes: vec![volume], ..Program::default() }));
        assert_eq!(shared(&writes("data"), &writes("other")), 0);
        for (one, other) in
            [("data", "data"), ("data", "alias"), ("alias/deep", "data"), ("alias", "data/deep")]
        {
            assert_eq!(shared(&writes(one), &writes(other)), 1, "{one} {other}");
        }
        assert_eq!(shared(&of_volume, &writes("volume/files")), 1);
        assert_eq!(shared(&of_volume, &writes("other")), 0);
        let bind = Bind { from: at("data"), to: "/srv".into() };
        let reads = Content::Program(Box::new(Program { binds: vec![bind], ..Program::default() }));
        assert_eq!(
            (shared(&reads, &reads), shared(&reads, &writes("data"))),
            (0, 0),
            "nobody writes, or one"
        );
        assert_eq!(shared(&Content::Image, &writes("data")), 0);
    }
}
