//! PID 1 of the guest: mounts the three kinds, does the same in each, says how long it took.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use bulkhead::platforms::vm::guest_program::times;
use nix::kmod::{ModuleInitFlags, finit_module};
use nix::mount::{MntFlags, MsFlags, mount, umount2};
use nix::sys::reboot::{RebootMode, reboot};
use nix::sys::stat::{major, minor};
use nix::unistd::{chroot, getpid};

use crate::verdict::say;

/// File that says what the guest is to do: four numbers, then its modules, one in each line.
pub const ORDERS: &str = "/bench-orders";
/// With what a line of a result begins.
pub const TAKEN: &str = "taken: ";
/// Folders of the host's tree in which each kind is mounted: every Debian has them, and nothing of the host's is needed there.
const PLACES: [(&str, &str); 3] = [("virtiofs", "/mnt"), ("9p", "/srv"), ("tmpfs", "/media")];
/// As `exec` has it over 9P.
const NINE: &str = "trans=virtio,version=9p2000.L,msize=512000,cache=mmap";

/// How much of each.
pub struct Orders {
    /// Small files.
    pub files: u64,
    /// Files of a repository.
    pub tree: u64,
    /// Length of the stream.
    pub mib: u64,
    /// Whether the last kind comes first.
    pub is_reversed: bool,
}

/// Whether this is PID 1 of such a guest.
pub fn is_guest() -> bool {
    getpid().as_raw() == 1 && Path::new(ORDERS).is_file()
}

/// Does what it is to do and powers off.
pub fn run() -> ! {
    if let Err(error) = obey() {
        say(&format!("bench guest: {error:#}"));
    }
    loop {
        let _ = reboot(RebootMode::RB_AUTOBOOT);
    }
}

fn obey() -> Result<()> {
    let text = fs::read_to_string(ORDERS)?;
    let mut lines = text.lines();
    let numbers: Vec<u64> =
        lines.next().context("no orders")?.split(' ').map(str::parse).collect::<Result<_, _>>()?;
    let &[files, tree, mib, reversed] = numbers.as_slice() else { anyhow::bail!("four numbers were wanted") };
    let orders = Orders { files, tree, mib, is_reversed: reversed == 1 };
    for module in lines {
        finit_module(File::open(module)?, c"", ModuleInitFlags::empty()).context(module.to_owned())?;
    }
    let none = MsFlags::empty();
    fs::create_dir_all("/new")?;
    let host = "trans=virtio,version=9p2000.L,msize=512000,cache=loose";
    mount(Some("host"), "/new", Some("9p"), MsFlags::MS_RDONLY, Some(host)).context("the host's system")?;
    for (kind, place) in PLACES {
        let (source, options) = match kind {
            "virtiofs" => ("files", None),
            "9p" => ("nine", Some(NINE)),
            _ => ("tmpfs", Some("size=900m")),
        };
        let at = format!("/new{place}");
        mount(Some(source), at.as_str(), Some(kind), none, options)
            .with_context(|| format!("{kind} at {at}"))?;
    }
    for (kind, at) in
        [("proc", "/new/proc"), ("devtmpfs", "/new/dev"), ("tmpfs", "/new/tmp"), ("sysfs", "/new/sys")]
    {
        mount(Some(kind), at, Some(kind), none, None::<&str>).with_context(|| at.to_owned())?;
    }
    // As `exec` has it.
    let device = fs::metadata("/new/mnt")?.dev();
    let folder = format!("/new/sys/class/bdi/{}:{}", major(device), minor(device));
    fs::write(format!("{folder}/read_ahead_kb"), "1024").context(folder)?;
    let trees = aside("/new/mnt")?;
    chroot("/new")?;
    std::env::set_current_dir("/")?;
    touch_memory(&orders)?;
    let processes = OwnedFd::from(File::open("/proc")?);
    std::thread::spawn(move || times::watch(&trees, &processes));
    let mut places = PLACES;
    if orders.is_reversed {
        places.reverse();
    }
    for (kind, place) in places {
        let top = if kind == "virtiofs" { Path::new(place).join("0") } else { PathBuf::from(place) };
        small(kind, &top, &orders)?;
        if kind != "tmpfs" {
            status(kind, &top)?;
        }
        if kind != "9p" {
            streams(kind, &top, &orders)?;
        }
    }
    Ok(())
}

/// What is mounted there, open without a place, as `exec` has it: paths in it begin at its top.
fn aside(at: &str) -> Result<File> {
    fs::create_dir("/aside")?;
    mount(Some(at), "/aside", None::<&str>, MsFlags::MS_BIND, None::<&str>).context(at.to_owned())?;
    let folder = File::open("/aside")?;
    umount2("/aside", MntFlags::MNT_DETACH)?;
    Ok(folder)
}

/// The host gives the guest each page of its memory when it is first written to; whoever comes first would pay for that.
fn touch_memory(orders: &Orders) -> Result<()> {
    let file = Path::new("/media/touched");
    let (mut to, chunk) = (File::create(file)?, vec![1; 1 << 20]);
    for _ in 0..orders.mib * 2 {
        to.write_all(&chunk)?;
    }
    Ok(fs::remove_file(file)?)
}

fn taken(kind: &str, what: &str, begun: Instant) {
    say(&format!("{TAKEN}{kind} {what}: {:.6}", begun.elapsed().as_secs_f64()));
}

fn small(kind: &str, top: &Path, orders: &Orders) -> Result<()> {
    let folder = top.join("small");
    fs::create_dir(&folder)?;
    let name = |number: u64| folder.join(format!("file-{number}"));
    let begun = Instant::now();
    for number in 0..orders.files {
        fs::write(name(number), format!("content of {number}\n"))?;
    }
    taken(kind, "create", begun);
    // What is believed for a second is not to be believed any more.
    std::thread::sleep(std::time::Duration::from_millis(1500));
    let begun = Instant::now();
    let mut bytes = 0;
    for number in 0..orders.files {
        bytes += fs::symlink_metadata(name(number))?.len();
    }
    taken(kind, "stat", begun);
    std::thread::sleep(std::time::Duration::from_millis(1500));
    let begun = Instant::now();
    let mut again = 0;
    for entry in fs::read_dir(&folder)? {
        again += entry?.metadata()?.len();
    }
    taken(kind, "scandir", begun);
    ensure!(bytes == again && bytes > 0, "{kind}: {bytes} bytes, then {again}");
    Ok(())
}

fn status(kind: &str, top: &Path) -> Result<()> {
    for what in ["git status, cold", "git status, again"] {
        let begun = Instant::now();
        let output = Command::new("git")
            .args(["-c", "safe.directory=*", "-c", "core.fsmonitor=false", "-C"])
            .arg(top.join("tree"))
            .args(["status", "--porcelain"])
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", "/tmp")
            .stdin(Stdio::null())
            .output()
            .context("git")?;
        ensure!(output.status.success(), "git: {}", String::from_utf8_lossy(&output.stderr));
        taken(kind, what, begun);
    }
    Ok(())
}

/// Into a new file in pieces of 1 MiB, into the same one emptied, and into a new one in the pieces that `cat` makes.
fn streams(kind: &str, top: &Path, orders: &Orders) -> Result<()> {
    let (file, other) = (top.join("stream"), top.join("pieces"));
    stream(kind, "stream", &file, 1 << 20, orders)?;
    stream(kind, "stream, emptied", &file, 1 << 20, orders)?;
    fs::remove_file(&file)?;
    stream(kind, "stream, 128 KiB", &other, 128 << 10, orders)?;
    Ok(fs::remove_file(&other)?)
}

fn stream(kind: &str, what: &str, file: &Path, piece: usize, orders: &Orders) -> Result<()> {
    let mut chunk = vec![7; 1 << 20];
    let begun = Instant::now();
    let mut to = File::create(file)?;
    for _ in 0..orders.mib {
        for part in chunk.chunks(piece) {
            to.write_all(part)?;
        }
    }
    to.sync_all()?;
    drop(to);
    let mut from = File::open(file)?;
    let mut bytes = 0;
    loop {
        match from.read(&mut chunk)? {
            0 => break,
            count => bytes += u64::try_from(count)?,
        }
    }
    taken(kind, what, begun);
    ensure!(bytes == orders.mib << 20, "{kind}: {bytes} bytes were read");
    Ok(())
}
