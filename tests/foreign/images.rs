//! What strangers write into images of containers: their documents, and the archives of their layers, unpacked beneath a root.

use std::fs::{self, File};

use images::{Budget, Kind, Tree, read_config, read_document, unpacked, walk};

use super::assert_harmless;

const BLOCK: usize = 512;
/// Where a header's sum stands, and what shows that a block is a header.
const SUM: std::ops::Range<usize> = 148..156;
const MAGIC: std::ops::Range<usize> = 257..262;

/// An index, a manifest, or a config.
pub fn image_documents(bytes: &[u8]) -> bool {
    let document = read_document(bytes).map_err(|error| assert_harmless(&error.to_string()));
    let config = read_config(bytes).map_err(|error| assert_harmless(&error.to_string()));
    if let Ok(config) = &config {
        let command = config.command(&[b"word".to_vec()]);
        assert_eq!(command.last().map(Vec::as_slice), Some(&b"word"[..]));
        assert!(command.iter().chain(&config.command(&[])).all(|word| !word.contains(&0)));
        assert!(config.variables().all(|(name, value)| !name.is_empty() && !value.contains('\0')));
    }
    document.is_ok() || config.is_ok()
}

/// A layer, packed or not: walked, then written beneath a root with something precious beside it.
pub fn image_layer(bytes: &[u8]) -> bool {
    const MOST_ENTRIES: u64 = 1000;
    const MOST_BYTES: u64 = 1 << 20;
    let archive = mended(bytes);
    let folder = tempfile::tempdir().expect("the test's own files");
    let root = folder.path().join("root");
    fs::create_dir(&root).expect("the test's own files");
    fs::write(folder.path().join("precious"), "x").expect("the test's own files");
    let keep = |_: std::os::fd::BorrowedFd<'_>, _| Ok(());
    let mut tree = Tree::new(File::open(&root).expect("there").into(), &keep).expect("a root");
    let mut entries = 0;
    let walked = unpacked(archive.as_slice()).and_then(|mut plain| {
        let budget = &mut Budget::of(MOST_ENTRIES, MOST_BYTES, &|| true);
        walk(&mut plain, budget, &mut |entry, body| {
            entries += 1;
            assert!(!entry.path.is_empty() && entry.path.len() <= 4096 && !entry.path.contains(&0));
            assert!(
                entry.mode <= 0o7777
                    && (entry.kind == Kind::File || body.read(&mut [0]).is_ok_and(|got| got == 0))
            );
            // What one entry says wrong does not stop the others, here.
            let _ = tree.apply(entry, body).map_err(|error| assert_harmless(&error.to_string()));
            Ok(())
        })
    });
    if let Err(error) = &walked {
        assert_harmless(&error.to_string());
    }
    assert!(entries <= MOST_ENTRIES);
    let mut names: Vec<_> =
        fs::read_dir(folder.path()).expect("ours").flatten().map(|entry| entry.file_name()).collect();
    names.sort();
    assert_eq!(names, ["precious", "root"], "something was written beside the root");
    assert_eq!(fs::read(folder.path().join("precious")).expect("there"), b"x");
    walked.is_ok() && entries > 0
}

/// With the sums that its headers should have: otherwise nothing behind the first change would be read.
fn mended(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for block in bytes.chunks_exact_mut(BLOCK).filter(|block| &block[MAGIC] == b"ustar") {
        block[SUM].fill(b' ');
        let sum: u32 = block.iter().map(|byte| u32::from(*byte)).sum();
        block[SUM].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    }
    bytes
}
