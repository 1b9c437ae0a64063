//! Claims a block device of the user's before anything is written to it.
//!
//! ```text
//!  path ─► a block device? ─► opened with O_EXCL ─► who uses it? ─► what is on it? ─► claim
//!                                │ refused             │ somebody       │ something
//!                                └─────────────────────┴────────────────┴─► refused, untouched: says why and what to do
//!                                                                           └─ unless the command line allows it
//! ```
//!
//! The descriptor of the exclusive opening is kept as long as an instance has the device: until then nobody can mount
//! it, swap to it or build on it, so what was looked at stays true. The kernel allows one claim at a time, so the
//! instances of one run share it.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use nix::unistd::{AccessFlags, access};

use super::signature;
use super::usage::{self, Number};
use units::{Bytes, Reason};

/// The word on the command line that allows it.
const ALLOWING: &str = "--i-know-this-destroys-data";

/// Claims that are gone after this long were nobody's.
const PASSING: Duration = Duration::from_millis(300);

/// How often a busy device is looked at meanwhile.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// Claims of this process that are in use.
static HELD: Mutex<Vec<(Number, Weak<Claim>)>> = Mutex::new(Vec::new());

/// What a device is claimed for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// To see whether it could be written to.
    Look,
    /// To be written to by an instance.
    Write,
}

/// A block device that nobody else uses.
#[derive(Debug)]
pub struct Claim {
    /// Keeps it ours.
    _file: File,
    path: PathBuf,
    number: Number,
    size: Bytes,
    remarks: Vec<String>,
}

impl Claim {
    /// The device, links followed.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Major and minor.
    pub const fn number(&self) -> Number {
        self.number
    }

    /// Its size.
    pub const fn size(&self) -> Bytes {
        self.size
    }

    /// What will be lost, where the command line allows that.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }
}

/// Claims the device at `path`, or joins the claim of another instance of this run.
///
/// # Errors
/// It is no block device, cannot be opened, is in use, or carries something; says what to do. It was not written to.
pub fn claim(path: &Path, purpose: Purpose, may_destroy: bool, run: &Path) -> Result<Arc<Claim>, Reason> {
    let shown = path.display();
    let real =
        path.canonicalize().map_err(|error| format!("device {shown}: {error}; name a block device"))?;
    let number = usage::number_of(&real).ok_or_else(|| {
        format!("{shown} is no block device: name one, /dev/sdb1 for example (lsblk lists them)")
    })?;
    // Instances of one run share a claim; who asks second must not find a gap in which the first has ended.
    let mut held = HELD.lock().unwrap_or_else(PoisonError::into_inner);
    held.retain(|(_, claim)| claim.strong_count() > 0);
    let known = held.iter().find(|(known, _)| *known == number).and_then(|(_, claim)| claim.upgrade());
    if let Some(claim) = known {
        return Ok(claim);
    }
    let claim = Arc::new(examine(&real, number, purpose, may_destroy, run)?);
    if purpose == Purpose::Write {
        held.push((number, Arc::downgrade(&claim)));
    }
    Ok(claim)
}

fn examine(
    path: &Path,
    number: Number,
    purpose: Purpose,
    may_destroy: bool,
    run: &Path,
) -> Result<Claim, Reason> {
    let shown = path.display();
    if usage::is_read_only(number) {
        return Err(format!("{shown} is read-only: name another device").into());
    }
    // Nobody can want this, whatever is allowed: what was measured so far would be lost.
    let below_run = usage::number_below(run);
    if usage::family(number).iter().any(|(_, number)| Some(*number) == below_run) {
        return Err(format!("{shown} holds the run directory {}: name another device", run.display()).into());
    }
    access(path, AccessFlags::R_OK | AccessFlags::W_OK).map_err(|error| may_not(path, &error.into()))?;
    let (mut file, busy) = open(path, purpose, may_destroy)?;
    let mut users = usage::users(number);
    if users.is_empty() && busy {
        users.push("claimed by another program, or in another mount namespace".to_owned());
    }
    let size = file.seek(SeekFrom::End(0)).map_err(|error| may_not(path, &error))?;
    let contents = signature::find(&file, size).map_err(|error| {
        format!("{shown} cannot be read ({error}), so nobody knows what is on it: name another device")
    })?;
    let mut remarks = Vec::new();
    if !users.is_empty() {
        let how = users.join(", ");
        let free = format!("take it out of use (lsblk {shown})");
        refuse_unless(may_destroy, path, &format!("is in use ({how})"), &free)?;
        remarks.push(format!("{shown} was in use ({how}) and is written to, as the command line allows"));
    }
    if !contents.is_empty() {
        let what = contents.join(", ");
        let free = format!("empty it (wipefs --all {shown})");
        refuse_unless(may_destroy, path, &format!("carries {what}"), &free)?;
        remarks.push(format!("{shown} carried {what}, which is lost, as the command line allows"));
    }
    Ok(Claim { _file: file, path: path.to_owned(), number, size: Bytes::from_bytes(size), remarks })
}

/// Opens it for nobody else; with permission to destroy also beside others. True means that others use it.
fn open(path: &Path, purpose: Purpose, may_destroy: bool) -> Result<(File, bool), Reason> {
    let with = |flags: i32| {
        let writes = purpose == Purpose::Write;
        OpenOptions::new().read(true).write(writes).custom_flags(flags).open(path)
    };
    match patiently(|| with(libc::O_EXCL)) {
        Ok(file) => Ok((file, false)),
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
            // To look at what is on it, reading beside others does no harm.
            let beside = if may_destroy { with(0) } else { OpenOptions::new().read(true).open(path) };
            beside.map(|file| (file, true)).map_err(|error| may_not(path, &error).into())
        }
        Err(error) => Err(may_not(path, &error).into()),
    }
}

/// Tries again while it is busy: the kernel itself claims a device for a moment, a loop device for example whenever
/// somebody else looks for a free one and comes too late.
fn patiently(open: impl Fn() -> io::Result<File>) -> io::Result<File> {
    let started = Instant::now();
    loop {
        match open() {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy && started.elapsed() < PASSING => {
                std::thread::sleep(LOOK_AGAIN);
            }
            settled => return settled,
        }
    }
}

fn may_not(path: &Path, error: &io::Error) -> String {
    let advice = if error.kind() == io::ErrorKind::PermissionDenied {
        ": run as root, or as a member of the group that owns it"
    } else {
        ""
    };
    format!("{} cannot be opened for writing ({error}){advice}", path.display())
}

fn refuse_unless(may_destroy: bool, path: &Path, why: &str, free: &str) -> Result<(), Reason> {
    if may_destroy {
        return Ok(());
    }
    Err(format!(
        "{} {why}; it was not touched, because everything on it would be lost: name another device, {free}, or allow \
         it on the command line with {ALLOWING}",
        path.display()
    ).into())
}
