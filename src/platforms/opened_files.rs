//! Single files of the host that one child may write to, without their neighbours: each is shown to it in a folder
//! where nothing else is, in a view of the file systems (mount namespace) that the child alone has.
//!
//! ```text
//!  everybody                        the child
//!  …/opened-4711-0/   empty         …/opened-4711-0/   tmpfs, read-only, gone with the child
//!                                     0/file           the host's file itself, which may be written to
//! ```
//! A normal user gets such a view within a user namespace of the child's own, in which the child stays who it is.
//! Sources: `mount_namespaces(7)`, `user_namespaces(7)`, `mount(2)`.

use std::ffi::{CStr, CString};
use std::fs;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

use nix::errno::Errno;
use nix::fcntl::{OFlag, open};
use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use nix::sys::stat::Mode;
use nix::unistd::{getegid, geteuid, mkdir, write};

use crate::platforms::ledger::{Ledger, Thing, Ticket};
use crate::platforms::spawn::enter_view;

/// Name of each file in its folder.
pub const NAME: &str = "file";
/// What the folder of folders may hold: a few names.
const FOLDER_OPTIONS: &CStr = c"mode=0700,size=64k";

/// The files, and the folder below which the child sees them. The folder is removed when dropped; the child must have
/// ended by then.
#[derive(Debug)]
pub struct OpenedFiles {
    folder: PathBuf,
    ledger: Ledger,
    ticket: Option<Ticket>,
    files: Vec<PathBuf>,
}

impl OpenedFiles {
    /// Makes the folder for `files`, absolute paths of what is there. No files need no folder.
    ///
    /// # Errors
    /// It cannot be made or written down.
    pub fn make(files: Vec<PathBuf>, ledger: &Ledger) -> io::Result<Option<Self>> {
        // Partitions of a run share its folder.
        static MADE: AtomicU64 = AtomicU64::new(0);
        if files.is_empty() {
            return Ok(None);
        }
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let folder = ledger.dir().join(format!("opened-{}-{number}", std::process::id()));
        let ticket = Some(ledger.record(Thing::Directory { path: folder.clone() })?);
        fs::DirBuilder::new().mode(0o700).create(&folder)?;
        Ok(Some(Self { folder, ledger: ledger.clone(), ticket, files }))
    }

    /// The folder in which the child finds the file with this number, as [`NAME`].
    pub fn folder(&self, number: usize) -> PathBuf {
        self.folder.join(number.to_string())
    }

    /// Lets the child of `command` see them.
    ///
    /// # Errors
    /// A path with a zero byte.
    pub fn show_to(&self, command: &mut Command) -> io::Result<()> {
        enter_view(command, View::of(self)?);
        Ok(())
    }

    /// Adds to what kept a child from starting what such files need.
    pub fn explain(&self, error: io::Error) -> io::Error {
        let about_rights =
            matches!(error.raw_os_error().map(Errno::from_raw), Some(Errno::EPERM | Errno::ENOSPC));
        if !about_rights {
            return error;
        }
        let advice = "a single file is opened for writing, which takes a mount namespace, for a normal user a user \
                      namespace as well (sysctl user.max_user_namespaces, kernel.unprivileged_userns_clone); \
                      open the folder it lies in instead";
        io::Error::new(ErrorKind::PermissionDenied, format!("{error}: {advice}"))
    }
}

impl Drop for OpenedFiles {
    fn drop(&mut self) {
        // What cannot be removed now stays in the ledger for the reaper.
        if fs::remove_dir(&self.folder).is_ok()
            && let Some(ticket) = self.ticket.take()
        {
            self.ledger.undone(ticket);
        }
    }
}

/// Everything that the child needs between fork and exec, where nothing may be allocated.
#[derive(Debug)]
pub struct View {
    root: CString,
    files: Vec<ViewOfFile>,
    /// A line of `/proc/self/uid_map`, and of `gid_map`.
    identities: [String; 2],
}

#[derive(Debug)]
struct ViewOfFile {
    source: CString,
    folder: CString,
    target: CString,
}

impl View {
    fn of(opened: &OpenedFiles) -> io::Result<Self> {
        let files = opened.files.iter().enumerate().map(|(number, source)| {
            let folder = opened.folder(number);
            let target = folder.join(NAME);
            Ok(ViewOfFile { source: bytes(source)?, folder: bytes(&folder)?, target: bytes(&target)? })
        });
        Ok(Self {
            root: bytes(&opened.folder)?,
            files: files.collect::<io::Result<_>>()?,
            identities: [geteuid().as_raw(), getegid().as_raw()].map(|id| format!("{id} {id} 1")),
        })
    }

    /// Makes the view and goes there. Only system calls: other threads' locks stay locked here, the allocator's included.
    ///
    /// # Errors
    /// It takes rights that this child has not, or a file has vanished.
    pub fn enter(&self) -> nix::Result<()> {
        match unshare(CloneFlags::CLONE_NEWNS) {
            Err(Errno::EPERM) => self.enter_as_user()?,
            other => other?,
        }
        // What happens here stays here; what the host unmounts goes here, too.
        let none: Option<&CStr> = None;
        mount(none, c"/", none, MsFlags::MS_REC | MsFlags::MS_SLAVE, none)?;
        let plain = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
        mount(Some(c"tmpfs"), self.root.as_c_str(), Some(c"tmpfs"), plain, Some(FOLDER_OPTIONS))?;
        self.files.iter().try_for_each(ViewOfFile::show)?;
        let read_only = plain | MsFlags::MS_BIND | MsFlags::MS_REMOUNT | MsFlags::MS_RDONLY;
        mount(none, self.root.as_c_str(), none, read_only, none)
    }

    fn enter_as_user(&self) -> nix::Result<()> {
        unshare(CloneFlags::CLONE_NEWUSER | CloneFlags::CLONE_NEWNS)?;
        let [user, group] = &self.identities;
        write_to(c"/proc/self/setgroups", b"deny")?;
        write_to(c"/proc/self/uid_map", user.as_bytes())?;
        write_to(c"/proc/self/gid_map", group.as_bytes())
    }
}

impl ViewOfFile {
    fn show(&self) -> nix::Result<()> {
        mkdir(self.folder.as_c_str(), Mode::S_IRWXU)?;
        let create = OFlag::O_CREAT | OFlag::O_EXCL | OFlag::O_WRONLY | OFlag::O_CLOEXEC;
        drop(open(self.target.as_c_str(), create, Mode::S_IRUSR | Mode::S_IWUSR)?);
        let none: Option<&CStr> = None;
        mount(Some(self.source.as_c_str()), self.target.as_c_str(), none, MsFlags::MS_BIND, none)
    }
}

fn write_to(path: &CStr, content: &[u8]) -> nix::Result<()> {
    let file = open(path, OFlag::O_WRONLY | OFlag::O_CLOEXEC, Mode::empty())?;
    write(&file, content).map(drop)
}

fn bytes(path: &Path) -> io::Result<CString> {
    CString::new(path.as_os_str().as_bytes()).map_err(|_| ErrorKind::InvalidInput.into())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use tempfile::TempDir;

    use super::*;
    use crate::platforms::ledger::sweep;

    struct Bench {
        runtime: TempDir,
        host: TempDir,
        ledger: Ledger,
    }

    impl Bench {
        fn new() -> Self {
            let runtime = tempfile::Builder::new().prefix("bulkhead-test-").tempdir().unwrap();
            let ledger = Ledger::open(runtime.path()).unwrap();
            let host = tempfile::tempdir().unwrap();
            for name in ["opened", "beside"] {
                fs::write(host.path().join(name), name).unwrap();
            }
            Self { runtime, host, ledger }
        }

        fn opened(&self) -> OpenedFiles {
            OpenedFiles::make(vec![self.host.path().join("opened")], &self.ledger).unwrap().unwrap()
        }
    }

    #[test]
    fn the_child_can_write_to_the_file_and_to_nothing_beside_it() {
        let bench = Bench::new();
        let file = bench.host.path().join("opened");
        let before = file.metadata().unwrap().ino();
        let opened = bench.opened();
        let script = "echo more >> file; ls; (: > other) 2>&1 | grep -o 'Read-only'; rm -f file 2> /dev/null || echo kept";
        let mut shell = Command::new("sh");
        // A place that is there in the child's view only.
        shell.args(["-c", &format!("cd \"$0\" && {script}")]).arg(opened.folder(0));
        opened.show_to(&mut shell).unwrap();
        let output = shell.output().map_err(|error| opened.explain(error)).unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "file\nRead-only\nkept\n");
        assert_eq!(fs::read_to_string(&file).unwrap(), "openedmore\n");
        assert_eq!(file.metadata().unwrap().ino(), before);
        assert!(!opened.folder(0).exists(), "nobody else sees it");
        let folder = opened.folder.clone();
        drop(opened);
        assert!(!folder.exists() && sweep(bench.runtime.path()).is_empty());
    }

    #[test]
    fn after_a_crash_the_folder_goes_and_the_file_stays() {
        let bench = Bench::new();
        let opened = bench.opened();
        let folder = opened.folder.clone();
        // As when killed: only the ledger knows.
        std::mem::forget(opened);
        assert_eq!(sweep(bench.runtime.path()).len(), 1);
        assert!(!folder.exists());
        assert_eq!(fs::read_to_string(bench.host.path().join("opened")).unwrap(), "opened");
    }

    #[test]
    fn a_file_that_vanished_is_an_error_before_the_child_runs() {
        let bench = Bench::new();
        let opened = bench.opened();
        fs::remove_file(bench.host.path().join("opened")).unwrap();
        let mut child = Command::new("true");
        opened.show_to(&mut child).unwrap();
        let error = opened.explain(child.spawn().unwrap_err());
        assert_eq!(error.kind(), ErrorKind::NotFound);
    }

    #[test]
    fn a_machine_that_gives_no_views_is_told_what_to_do() {
        let bench = Bench::new();
        let said = bench.opened().explain(Errno::EPERM.into()).to_string();
        assert!(said.contains("open the folder"), "{said}");
    }

    #[test]
    fn no_files_need_no_folder() {
        let bench = Bench::new();
        assert!(OpenedFiles::make(Vec::new(), &bench.ledger).unwrap().is_none());
        assert_eq!(fs::read_dir(bench.runtime.path()).unwrap().count(), 1, "the ledger's file");
    }
}
