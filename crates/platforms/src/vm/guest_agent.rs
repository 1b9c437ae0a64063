//! The agent's process in a guest: opens the link, prepares the disk beside, serves the host.

use std::fs::{self, File, OpenOptions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nix::mount::{MsFlags, mount};
use nix::sys::termios::{SetArg, cfmakeraw, tcgetattr, tcsetattr};

use super::guest::{GuestConfig, GuestDisk, LINK_PORT, LinkDevice, SCRATCH};
use super::pid1::{RunInGuest, in_context, say};
use super::{guest_modules, guest_network, rehearsal};
use crate::{agent, facts};
use probes::ProbeKind;
use probes::job::{Job, JobReply};
use units::facts::MachineFacts;
use units::stage::Stage;
use units::{Hertz, Reason};

/// How long a device may take to appear once its driver is loaded.
const DEVICE_TIMEOUT: Duration = Duration::from_secs(20);

/// Serves the host until it says goodbye.
pub fn run(config: &GuestConfig, counter_hz: Option<Hertz>, run: &RunInGuest<'_>) -> Result<(), Reason> {
    raise_oom_score();
    let link = open_link(config.link)?;
    let write = link.try_clone().map_err(in_context("the link"))?;
    let garbage_way =
        config.rehearse.map(|_| link.try_clone()).transpose().map_err(in_context("the link"))?;
    let disk = OnceLock::new();
    let jobs = AtomicU32::new(0);
    std::thread::scope(|scope| {
        let preparing = scope.spawn(|| prepare_disk(config));
        let preparing = std::sync::Mutex::new(Some(preparing));
        let ready_disk = || -> &Result<PathBuf, Reason> {
            disk.get_or_init(|| {
                let handle = preparing.lock().ok().and_then(|mut handle| handle.take());
                handle.map_or_else(
                    || Err("asked for twice".into()),
                    |handle| handle.join().unwrap_or_else(|_| Err("its thread panicked".into())),
                )
            })
        };
        let job = |job: &Job, stop: &AtomicBool, stage: &mut dyn Stage| {
            if let (Some(how), Some(way)) = (config.rehearse, &garbage_way) {
                rehearsal::perform(how, jobs.fetch_add(1, Ordering::SeqCst), way);
            }
            match ready_disk() {
                Ok(folder) => with_notes(run(folder, job, stop, stage), job, &config.disk_notes),
                Err(error) => JobReply {
                    report: Some(Err(format!("the guest's disk is not usable: {error}").into())),
                    doses: vec![],
                },
            }
        };
        let nics = guest_network::bring_up(config)?;
        let facts = MachineFacts { nics, ..facts::collect(counter_hz) };
        agent::serve(link, write, facts, &job).map_err(in_context("the link"))
    })
}

/// Puts the host's remarks on the disk into reports of the disk probe.
fn with_notes(mut reply: JobReply, job: &Job, notes: &[String]) -> JobReply {
    let is_disk = job.probe.as_ref().is_some_and(|probe| probe.kind() == ProbeKind::Disk);
    if let (true, Some(Ok(report))) = (is_disk, &mut reply.report) {
        report.notes.extend_from_slice(notes);
    }
    reply
}

/// When memory runs out, the agent goes, not PID 1: the guest ends and the host hears of it.
fn raise_oom_score() {
    if let Err(error) = fs::write("/proc/self/oom_score_adj", "1000") {
        say(&format!("oom_score_adj: {error}"));
    }
}

pub(super) fn open_link(device: LinkDevice) -> Result<OwnedFd, Reason> {
    let path = match device {
        LinkDevice::VirtioPort => wait_for("the virtio port of the link", || find_port(LINK_PORT))?,
        LinkDevice::Serial => PathBuf::from("/dev/ttyS1"),
    };
    let what = path.display().to_string();
    let file = wait_for(&what, || {
        OpenOptions::new().read(true).write(true).custom_flags(nix::libc::O_NOCTTY).open(&path).ok()
    })?;
    if device == LinkDevice::Serial {
        make_raw(&file).map_err(in_context(&what))?;
    }
    Ok(file.into())
}

/// The port with this name: `/sys/class/virtio-ports/vport0p1/name`.
pub(super) fn find_port(wanted: &str) -> Option<PathBuf> {
    fs::read_dir("/sys/class/virtio-ports").ok()?.filter_map(Result::ok).find_map(|entry| {
        let name = fs::read_to_string(entry.path().join("name")).ok()?;
        (name.trim() == wanted).then(|| Path::new("/dev").join(entry.file_name()))
    })
}

fn make_raw(file: &File) -> nix::Result<()> {
    let mut settings = tcgetattr(file)?;
    cfmakeraw(&mut settings);
    tcsetattr(file, SetArg::TCSANOW, &settings)
}

/// Waits until `look` finds something; drivers announce devices from threads of their own, without an event that a
/// program this small could await.
pub(super) fn wait_for<T>(what: &str, look: impl Fn() -> Option<T>) -> Result<T, Reason> {
    let deadline = Instant::now() + DEVICE_TIMEOUT;
    loop {
        if let Some(found) = look() {
            return Ok(found);
        }
        if Instant::now() >= deadline {
            return Err(format!("{what} did not appear within {} s", DEVICE_TIMEOUT.as_secs()).into());
        }
        std::thread::sleep(Duration::from_micros(500));
    }
}

/// Loads the disk's modules and mounts it. Returns where files of the disk probe go.
fn prepare_disk(config: &GuestConfig) -> Result<PathBuf, Reason> {
    guest_modules::load(&config.disk_modules)?;
    if config.disk == GuestDisk::None {
        return Ok(PathBuf::from("/tmp"));
    }
    let (device, shown) = (&config.disk_device, config.disk_device.display().to_string());
    wait_for(&shown, || fs::metadata(device).ok())?;
    if config.disk == GuestDisk::Raw {
        return Ok(device.clone());
    }
    fs::create_dir_all(SCRATCH).map_err(in_context(SCRATCH))?;
    mount(Some(device), SCRATCH, Some("ext4"), MsFlags::MS_NOATIME, None::<&str>)
        .map_err(in_context(&format!("mounting {shown} at {SCRATCH}")))?;
    Ok(PathBuf::from(SCRATCH))
}
