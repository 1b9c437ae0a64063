//! Makes a saved layer: a sparse file with a file system that only guests will ever see.

use std::fs::{self, DirBuilder};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;

use super::{HALF, IMAGE, LAYER, RECORD};
use model::partition::LayerRecord;
use platforms::own_folder::{Others, OwnFolder};
use platforms::vm::disk::{find_program, make_file_system};
use units::{Mebibytes, Reason};

/// What makes the file system.
const MAKER: &str = "mke2fs";
/// How: nothing of this host's settings, every feature by name, so that kernels and repair programs of these years know all
/// of them; checksums, by which damage is noticed; inode tables that are not written, because a new file is zero.
const MAKE: [&str; 12] = [
    "-m",
    "0",
    "-b",
    "4096",
    "-I",
    "256",
    "-i",
    "16384",
    "-O",
    "none,has_journal,ext_attr,dir_index,filetype,extent,64bit,flex_bg,sparse_super,large_file,huge_file,dir_nlink,extra_isize,\
     metadata_csum",
    "-E",
    "lazy_itable_init=1,lazy_journal_init=1",
];
/// From this size on the journal is no larger than 32 MiB: it is written round and round, and so all of it is there soon.
const SMALL_JOURNAL: Mebibytes = Mebibytes::from_mib(1024);

/// What makes its file system.
///
/// # Errors
/// It is not installed.
pub(super) fn maker() -> Result<PathBuf, Reason> {
    find_program(MAKER).ok_or_else(|| {
        format!(
            "a saved layer is to be made, and {MAKER}, which makes its file system, is not installed: apt install e2fsprogs, or dnf \
             install e2fsprogs"
        ).into()
    })
}

/// Makes one, as a whole or not at all; to be called by who holds the lock.
pub(super) fn make(own: &OwnFolder, maker: &Path, record: &LayerRecord) -> io::Result<()> {
    own.remove(Path::new(HALF))?;
    let half = own.path().join(HALF);
    DirBuilder::new().mode(0o700).create(&half)?;
    let folder = OwnFolder::open(&half, Others::StayOut)?;
    let new = OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_RDWR;
    let image = folder.file(IMAGE, new)?;
    image.set_len(record.size_mib.to_bytes().get())?;
    let journal: &[&str] = if record.size_mib < SMALL_JOURNAL { &[] } else { &["-J", "size=32"] };
    make_file_system(maker, &[&MAKE, journal].concat(), &half.join(IMAGE))?;
    image.sync_all()?;
    let mut file = folder.file(RECORD, new)?;
    serde_json::to_writer_pretty(&mut file, record)?;
    file.write_all(b"\n")?;
    file.sync_all()?;
    folder.sync()?;
    fs::rename(&half, own.path().join(LAYER))?;
    own.sync()
}
