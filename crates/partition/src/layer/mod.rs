//! Saved layers: in a folder of the caller's, a disk on which what a program changes of its file tree outlives its guest.
//!
//! ```text
//!  DIR/lock                held by whoever uses it, QEMU included: while anybody can write, nobody else begins
//!  DIR/layer.new           half made: removed by whoever holds the lock next
//!  DIR/layer/layer.img     the disk, sparse; what is on it is the guest's, and nothing of it is read here
//!           /layer.json    what it lies over, and how large it is        renamed there as a whole
//! ```
//! The file system is made here, once, and from then on only guests see it: this host neither mounts nor repairs it.

mod make;
mod stopped;
#[cfg(test)]
mod tests;

use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use self::make::{make, maker};
pub use self::stopped::{Stopped, watch};
use model::partition::{
    LAYER_SCHEMA, LayerRecord, LayerSpec, Over, Program, USUAL_LAYER, Volume, fits_layer,
};
use nix::fcntl::OFlag;
use platforms::console::harmless;
use platforms::own_folder::{Others, OwnFolder};
use platforms::vm::qemu::{Extras, LayerArgument};
use units::{Bytes, Reason};

const LOCK: &str = "lock";
const LAYER: &str = "layer";
const HALF: &str = "layer.new";
/// The disk, in the folder of the layer.
pub const IMAGE: &str = "layer.img";
/// What is said of it there.
pub const RECORD: &str = "layer.json";
/// Longest such file that is read, and longest name of who holds a lock.
const MOST_BYTES: u64 = 16 * 1024;
/// How long one that somebody uses is waited for: a QEMU whose owner was killed takes a moment to end.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often it is looked.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A saved layer that nobody else has as long as this lives, and QEMU.
#[derive(Debug)]
pub struct Layer {
    lock: File,
    reading: File,
    writing: File,
    bytes: Bytes,
}

/// What can be told of a program's saved layer before anything is made.
///
/// # Errors
/// Why it cannot be had, and what to do.
pub fn check(program: &Program) -> Result<(), Reason> {
    let Some(spec) = &program.layer else { return Ok(()) };
    let wanted = Wanted::of(program, spec)?;
    match OwnFolder::open(&spec.folder, Others::MayLook) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => wanted.above().and(maker()).map(drop),
        Err(error) => Err(wanted.failed(&error)),
        Ok(own) => match wanted.found(&own)? {
            Some(_) => Ok(()),
            None => maker().map(drop),
        },
    }
}

/// Takes a program's saved layer, made if it is not there; none where it has none. `holder` is told whoever wants it meanwhile.
///
/// # Errors
/// Somebody else has it, it is not this program's, it is broken, or it cannot be made.
pub fn take(program: &Program, holder: &str) -> Result<Option<Layer>, Reason> {
    let Some(spec) = &program.layer else { return Ok(None) };
    let wanted = Wanted::of(program, spec)?;
    wanted.above()?;
    let failed = |error: io::Error| wanted.failed(&error);
    match DirBuilder::new().mode(0o700).create(&spec.folder) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error)),
        _ => {}
    }
    let own = OwnFolder::open(&spec.folder, Others::MayLook).map_err(failed)?;
    let lock = wanted.lock(&own, holder)?;
    if wanted.found(&own)?.is_none() {
        make(&own, &maker()?, &wanted.record()).map_err(failed)?;
    }
    let there = wanted.found(&own)?.ok_or_else(|| wanted.broken("it was made and is not there"))?;
    let reading = there.file(IMAGE, OFlag::O_RDONLY).map_err(failed)?;
    let writing = there.file(IMAGE, OFlag::O_RDWR).map_err(failed)?;
    let bytes = Bytes::from_bytes(writing.metadata().map_err(failed)?.len());
    Ok(Some(Layer { lock, reading, writing, bytes }))
}

/// What to do when a guest with a saved layer ended and its console is about that.
pub fn advice(folder: &Path, console: &[String]) -> Option<String> {
    let is_about = |line: &String| line.contains("saved layer") || line.contains("EXT4-fs");
    if !console.iter().any(is_about) {
        return None;
    }
    let shown = folder.display();
    let image = folder.join(LAYER).join(IMAGE);
    let image = image.display();
    Some(format!(
        "what is below is said of the saved layer in {shown}; where it is damaged, nothing was repaired: put back a copy of it, or \
         repair it in a partition: bulkhead exec --user root --disk {image} -- /usr/sbin/e2fsck -fy /dev/vda"
    ))
}

impl Layer {
    /// Gives the disk to a machine. With the disk goes the lock: it is held until QEMU has ended, whatever becomes of us. What comes
    /// back is our end of what [`watch`] needs.
    ///
    /// # Errors
    /// No more files can be open.
    pub fn attach(&self, extras: &mut Extras, inherited: &mut Vec<OwnedFd>) -> io::Result<UnixStream> {
        let (reading, writing) = (self.reading.try_clone()?, self.writing.try_clone()?);
        let (ours, theirs) = UnixStream::pair()?;
        let descriptors = [reading.as_raw_fd(), writing.as_raw_fd()];
        extras.layer = Some(LayerArgument { bytes: self.bytes, descriptors, events: theirs.as_raw_fd() });
        inherited.extend([reading, writing, self.lock.try_clone()?].map(OwnedFd::from));
        inherited.push(theirs.into());
        Ok(ours)
    }
}

/// What is asked of a layer.
struct Wanted<'a> {
    spec: &'a LayerSpec,
    over: Over,
}

impl<'a> Wanted<'a> {
    fn of(program: &Program, spec: &'a LayerSpec) -> Result<Self, Reason> {
        let shown = spec.folder.display();
        let over = match Over::of(program) {
            Some(Over::Tree(folder)) => Over::Tree(fs::canonicalize(&folder).unwrap_or(folder)),
            Some(over) => over,
            None => {
                return Err(format!("saved layer {shown}: a program without files has none to change").into());
            }
        };
        if !spec.folder.is_absolute() {
            return Err(format!("saved layer {shown}: an absolute path was wanted").into());
        }
        spec.size_mib
            .map(fits_layer)
            .transpose()
            .map_err(|problem| format!("saved layer {shown}: {problem}"))?;
        let place = real(&spec.folder);
        let volumes = program.volumes.iter().map(Volume::files);
        let mut opened = program.writable.iter().cloned().chain(volumes);
        if let Some(opened) = opened.find(|opened| place.starts_with(real(opened))) {
            return Err(format!(
                "saved layer {shown}: it lies in {}, which is opened for writing: the program could write under its own feet; \
                 name a folder elsewhere, or open less",
                opened.display()
            ).into());
        }
        Ok(Self { spec, over })
    }

    /// Only the folder itself is made.
    fn above(&self) -> Result<(), Reason> {
        match self.spec.folder.parent() {
            Some(above) if !above.is_dir() => Err(format!(
                "saved layer {}: the folder {}, in which it is to be made, is not there",
                self.spec.folder.display(),
                above.display()
            )
            .into()),
            _ => Ok(()),
        }
    }

    fn failed(&self, error: &io::Error) -> Reason {
        format!("saved layer {}: {error}", self.spec.folder.display()).into()
    }

    fn broken(&self, how: &str) -> Reason {
        let (shown, layer) = (self.spec.folder.display(), self.spec.folder.join(LAYER));
        format!(
            "saved layer {shown}: {how}, so it is damaged; put back a copy of {0}, or remove that to begin anew",
            layer.display()
        )
        .into()
    }

    fn record(&self) -> LayerRecord {
        let size_mib = self.spec.size_mib.unwrap_or(USUAL_LAYER);
        LayerRecord { schema_version: LAYER_SCHEMA, over: self.over.clone(), size_mib }
    }

    /// The folder of the layer that is there, if it is the one that is wanted; none where there is none yet.
    fn found(&self, own: &OwnFolder) -> Result<Option<OwnFolder>, Reason> {
        let there = match OwnFolder::open(&own.path().join(LAYER), Others::StayOut) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return self.empty(own).map(|()| None),
            opened => opened.map_err(|error| self.failed(&error))?,
        };
        let record = self.read(&there)?;
        let shown = self.spec.folder.display();
        if record.over != self.over {
            return Err(format!(
                "saved layer {shown}: it lies over {}, and means nothing over {}: start it over that, or name another folder",
                record.over, self.over
            ).into());
        }
        if let Some(wanted) = self.spec.size_mib.filter(|wanted| *wanted != record.size_mib) {
            return Err(format!(
                "saved layer {shown}: it was made with {} MiB, and {} MiB are wanted: leave the size away, or name another folder",
                record.size_mib.get(),
                wanted.get()
            ).into());
        }
        let image = match there.file(IMAGE, OFlag::O_RDONLY) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(self.broken("its disk is not there"));
            }
            opened => opened.and_then(|file| file.metadata()).map_err(|error| self.failed(&error))?,
        };
        let (got, wanted) = (image.len(), record.size_mib.to_bytes().get());
        if got != wanted {
            return Err(self.broken(&format!("its disk has {got} bytes, and was made with {wanted}")));
        }
        Ok(Some(there))
    }

    fn read(&self, there: &OwnFolder) -> Result<LayerRecord, Reason> {
        let mut text = Vec::new();
        match there.file(RECORD, OFlag::O_RDONLY) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(self.broken(&format!("{RECORD} is not there")));
            }
            opened => opened
                .and_then(|file| file.take(MOST_BYTES).read_to_end(&mut text))
                .map_err(|error| self.failed(&error))?,
        };
        // Another version need not have the same keys.
        let version = serde_json::from_slice::<serde_json::Value>(&text).ok();
        let version = version.and_then(|value| value.get("schema_version")?.as_u64());
        if let Some(other) = version.filter(|version| *version != u64::from(LAYER_SCHEMA)) {
            return Err(format!(
                "saved layer {}: {RECORD} has version {other}, and this program reads {LAYER_SCHEMA}: use the one that made it",
                self.spec.folder.display()
            ).into());
        }
        serde_json::from_slice(&text).map_err(|error| self.broken(&format!("{RECORD}: {error}")))
    }

    /// A folder in which something else lies is another one than was meant.
    fn empty(&self, own: &OwnFolder) -> Result<(), Reason> {
        let entries = fs::read_dir(own.path()).map_err(|error| self.failed(&error))?;
        let other =
            entries.flatten().map(|entry| entry.file_name()).find(|name| name != LOCK && name != HALF);
        let Some(other) = other else { return Ok(()) };
        Err(format!(
            "saved layer {}: there is none in this folder, but {} is: name an empty folder, or one that is not there",
            self.spec.folder.display(),
            harmless(other.as_encoded_bytes())
        ).into())
    }

    fn lock(&self, own: &OwnFolder, holder: &str) -> Result<File, Reason> {
        let failed = |error: io::Error| self.failed(&error);
        let lock = own.file(LOCK, OFlag::O_CREAT | OFlag::O_RDWR).map_err(failed)?;
        let until = Instant::now() + PATIENCE;
        loop {
            match lock.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) if Instant::now() < until => std::thread::sleep(LOOK_EVERY),
                Err(TryLockError::WouldBlock) => return Err(self.held(own)),
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
        }
        lock.set_len(0).and_then(|()| (&lock).write_all(holder.as_bytes())).map_err(failed)?;
        Ok(lock)
    }

    /// By whom.
    fn held(&self, own: &OwnFolder) -> Reason {
        let mut text = Vec::new();
        // Who it is may not be written yet.
        let _ = own.file(LOCK, OFlag::O_RDONLY).and_then(|file| file.take(MOST_BYTES).read_to_end(&mut text));
        let holder = harmless(&text);
        let holder = if holder.is_empty() { "another partition" } else { holder.as_str() };
        format!(
            "saved layer {}: {holder} has it, and two at once would destroy it: wait for its end, or name another folder",
            self.spec.folder.display()
        )
        .into()
    }
}

/// Where it is, or will be.
fn real(path: &Path) -> PathBuf {
    let folder = path.parent().and_then(|folder| folder.canonicalize().ok());
    let there = folder.zip(path.file_name()).map(|(folder, name)| folder.join(name));
    path.canonicalize().ok().or(there).unwrap_or_else(|| path.to_owned())
}
