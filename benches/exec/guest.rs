//! PID 1 of the plain guests: loads the modules in their order, then runs `/bin/true` from the host's files, or sends
//! back what comes through a port, in the simplest way there is.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow};
use bulkhead::platforms::vm::initramfs::{Archive, in_memory};
use bulkhead::platforms::vm::payload::read_program;
use nix::kmod::{ModuleInitFlags, finit_module};
use nix::mount::{MsFlags, mount};
use nix::sys::reboot::{RebootMode, reboot};
use nix::unistd::{chroot, getpid};

use crate::Fixture;

/// File that says what the guest is to do, its modules after it, one in each line.
const ORDERS: &str = "/bench-orders";
/// Name of the port that is sent back.
pub const PORT: &str = "bench.echo";

/// Whether this is PID 1 of such a guest.
pub fn is_guest() -> bool {
    getpid().as_raw() == 1 && Path::new(ORDERS).is_file()
}

/// The first file system of a guest that does `what`: `true` or `echo`.
pub fn first_files(fixture: &Fixture, what: &str) -> Result<OwnedFd> {
    let mut archive = Archive::new();
    archive.folder("dev")?;
    archive.device("dev/console", 5, 1)?;
    archive.file("init", 0o755, &read_program(&std::env::current_exe()?)?)?;
    archive.folder("modules")?;
    let mut orders = format!("{what}\n");
    for module in fixture.tools.modules.link.iter().chain(&fixture.tools.modules.program) {
        let path = format!("modules/{}.ko", module.name);
        archive.file(&path, 0o644, &module.image)?;
        orders.extend(["/", &path, "\n"]);
    }
    archive.file(ORDERS.trim_start_matches('/'), 0o644, orders.as_bytes())?;
    Ok(in_memory("bench-initramfs", &archive.finish()?)?)
}

/// Does what it is to do and powers off.
pub fn run() -> ! {
    if let Err(error) = obey() {
        crate::say(&format!("bench guest: {error:#}"));
    }
    loop {
        let _ = reboot(RebootMode::RB_AUTOBOOT);
    }
}

fn obey() -> Result<()> {
    let orders = fs::read_to_string(ORDERS)?;
    let mut lines = orders.lines();
    let what = lines.next().context("no orders")?;
    for (kind, target) in [("sysfs", "/sys"), ("devtmpfs", "/dev")] {
        fs::create_dir_all(target)?;
        mount(Some(kind), target, Some(kind), MsFlags::empty(), None::<&str>)?;
    }
    for module in lines {
        finit_module(File::open(module)?, c"", ModuleInitFlags::empty()).context(module.to_owned())?;
    }
    if what == "true" { run_true() } else { echo() }
}

fn run_true() -> Result<()> {
    fs::create_dir_all("/new")?;
    let options = "trans=virtio,version=9p2000.L,msize=512000";
    mount(Some("root"), "/new", Some("9p"), MsFlags::MS_RDONLY, Some(options)).context("9p")?;
    chroot("/new")?;
    std::env::set_current_dir("/")?;
    let status = Command::new("/bin/true").status().context("/bin/true")?;
    crate::say(&format!("bench guest: true ended with {status}"));
    Ok(())
}

fn port() -> Option<PathBuf> {
    let ports = fs::read_dir("/sys/class/virtio-ports").ok()?.flatten();
    let named = |path: &Path| fs::read_to_string(path.join("name")).is_ok_and(|name| name.trim() == PORT);
    let mut found = ports.filter(|entry| named(&entry.path()));
    found.next().map(|entry| Path::new("/dev").join(entry.file_name()))
}

fn echo() -> Result<()> {
    let path =
        std::iter::repeat_with(port).take(10_000_000).flatten().next().ok_or_else(|| anyhow!("no port"))?;
    let mut port = OpenOptions::new().read(true).write(true).open(path)?;
    let mut buffer = vec![0; 65_536];
    loop {
        let count = port.read(&mut buffer)?;
        port.write_all(&buffer[..count])?;
    }
}
