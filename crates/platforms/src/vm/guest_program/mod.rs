//! A guest that runs one program: PID 1 opens the streams, mounts the program's file tree, starts it, carries its bytes
//! and signals, says how it ended.
//!
//! ```text
//!  modules ─► network ─► ports ─► tree ─► Ready … Start ─► program ─► relay until it ends ─► Ended … Bye ─► power off
//!                                                            └─ Refused ────────────────────────────┘
//!                                                  sessions: further programs, connections, looks
//! ```
//! A guest that parks loads its modules and opens its ports, and is told the rest later: see `park`.
//!
//! All of it is one thread, but for those that end waits for locks (`waits`) and standstills (`thrashing`) and take the times of files
//! (`times`): PID 1 may fork, cannot be killed by what runs beside it, and inherits every orphan.

mod aside;
mod clock;
mod folder_locks;
mod inward;
mod layer;
mod names;
mod outward;
mod park;
mod pty;
mod secrets;
mod sections;
mod serve;
mod session;
mod start;
mod starved;
mod thrashing;
pub mod times;
mod tree;
mod waits;

use std::fs::{self, File, OpenOptions};
use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;

use nix::sys::resource::{Resource, setrlimit};

use self::session::Sessions;
use super::guest::{ERROR_PORT, GuestConfig, GuestProgram, INPUT_PORT, OUTPUT_PORT, SESSIONS_PORT};
use super::guest_agent::{find_port, open_link, wait_for};
use super::pid1::{in_context, say};
use super::{guest_modules, guest_network};
use units::Reason;

/// Open files a program may have at first, and at most: what distributions allow.
const OPEN_FILES: (u64, u64) = (1024, 1_048_576);

/// The link, and the ports that carry the streams, non-blocking.
struct Ports {
    link: OwnedFd,
    input: OwnedFd,
    output: OwnedFd,
    error: OwnedFd,
}

impl Ports {
    fn open(config: &GuestConfig) -> Result<Self, Reason> {
        Ok(Self {
            link: open_link(config.link)?,
            input: open_port(INPUT_PORT)?,
            output: open_port(OUTPUT_PORT)?,
            error: open_port(ERROR_PORT)?,
        })
    }
}

/// What outlives the guest, so that its writes must be out before the end is told.
struct Kept {
    /// Its saved layer.
    saved: Option<File>,
    /// Whether there is anything.
    is_anything: bool,
}

impl Kept {
    fn sync(&self) -> Result<(), Reason> {
        if self.is_anything {
            nix::unistd::sync();
        }
        self.saved.as_ref().map_or(Ok(()), layer::sync)
    }
}

/// Runs the guest until the host says goodbye.
pub fn run(config: &GuestConfig, program: &GuestProgram) -> Result<(), Reason> {
    guest_modules::load(&config.program_modules)?;
    join_networks(config, program)?;
    let ports = Ports::open(config)?;
    forget_modules(config);
    if program.virtio_fs && !program.trees.is_empty() {
        refuse_folder_locks();
    }
    go_on(config, program, ports)
}

/// The same for a guest that is told later what it is.
pub fn run_parked(config: &GuestConfig) -> Result<(), Reason> {
    guest_modules::load(&config.program_modules)?;
    let ports = Ports::open(config)?;
    forget_modules(config);
    refuse_folder_locks();
    let told = park::wait(&ports.link)?;
    let program = told.program.as_ref().ok_or("it was woken without a program")?;
    join_networks(&told, program)?;
    go_on(&told, program, ports)
}

fn join_networks(config: &GuestConfig, program: &GuestProgram) -> Result<(), Reason> {
    guest_network::bring_up(config)?;
    guest_network::bring_up_loopback();
    program.way_out.as_ref().map_or(Ok(()), |way| guest_network::find_way_out(way.router))
}

fn go_on(config: &GuestConfig, program: &GuestProgram, ports: Ports) -> Result<(), Reason> {
    // Before the program's tree covers the kernel's messages.
    let starved = starved::StarvedWatch::begin();
    thrashing::begin()?;
    let open_sessions =
        || Sessions::new(open_port(SESSIONS_PORT)?, &program.program, own_addresses(config), starved.anew());
    let sessions = program.takes_sessions.then(open_sessions).transpose()?;
    secrets::forget();
    if let Err(error) = nix::unistd::sethostname(&program.hostname) {
        say(&format!("host name {}: {error}", program.hostname));
    }
    let tree::Built { saved, served } = tree::build(program)?;
    sections::show(&program.sections, &program.program.user)?;
    secrets::show(&program.secrets, &program.program.user)?;
    let (soft, hard) = OPEN_FILES;
    setrlimit(Resource::RLIMIT_NOFILE, soft, hard).map_err(in_context("the limit of open files"))?;
    if let Some(served) = served {
        clock::set_by_host(&served)?;
        waits::begin(served)?;
    }
    let kept = Kept { saved, is_anything: is_anything_writable(program) };
    serve::serve(ports, sessions, program, starved, kept)
}

/// They are the guest's own affair where its kernel cannot refuse them.
fn refuse_folder_locks() {
    if let Err(error) = folder_locks::refuse() {
        say(&format!("locks of the host's folders are not refused: {error}"));
    }
}

/// Those of its cards.
fn own_addresses(config: &GuestConfig) -> Vec<Ipv4Addr> {
    let cards = config.nics.iter().map(|nic| nic.address);
    cards.chain(config.bonds.iter().map(|bond| bond.address)).collect()
}

fn open_port(name: &str) -> Result<OwnedFd, Reason> {
    let path = wait_for(&format!("the virtio port {name}"), || find_port(name))?;
    let open = || {
        let flags = nix::libc::O_NONBLOCK | nix::libc::O_NOCTTY;
        OpenOptions::new().read(true).write(true).custom_flags(flags).open(&path).ok()
    };
    wait_for(&path.display().to_string(), open).map(OwnedFd::from)
}

/// What is loaded needs no file any more; files of the first file system are memory.
fn forget_modules(config: &GuestConfig) {
    let lists = [&config.link_modules, &config.disk_modules, &config.nic_modules, &config.program_modules];
    for module in lists.into_iter().flatten() {
        // One that stays costs memory, no more.
        let _ = fs::remove_file(&module.path);
    }
}

/// Whether anything outlives the guest.
fn is_anything_writable(program: &GuestProgram) -> bool {
    let has_disk = fs::read_dir("/sys/block").is_ok_and(|mut disks| disks.next().is_some());
    has_disk || program.trees.iter().any(|tree| tree.writable)
}
