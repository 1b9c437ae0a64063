//! Disks of instances on real block devices: what is in use or carries something is not touched, what is ours is
//! measured raw on every platform, and nothing stays attached. Loop devices stand in for disks, so this needs root.

use std::fs::{File, OpenOptions};
use std::hash::{DefaultHasher, Hasher};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use bulkhead::cli::cache_folder;
use bulkhead::model::experiment::PlatformSpec;
use bulkhead::model::platform::{DiskBacking, DiskBus};
use bulkhead::platforms::ledger::{Ledger, Thing, sweep};
use bulkhead::platforms::{Broken, Cancel, Instance, InstanceSpec, Platform, PlatformContext, make};
use bulkhead::probes::clock::Anchor;
use bulkhead::probes::detail::{Detail, DiskDetail};
use bulkhead::probes::job::Job;
use bulkhead::probes::params::{DiskMode, DiskParams, ProbeSpec};
use bulkhead::units::names::PlatformKind;
use bulkhead::units::{Bytes, Kibibytes, Mebibytes, Millis};
use skips::{Need, skip};

const ALLOWING: &str = "--i-know-this-destroys-data";

/// A disk of 24 MiB that is not ours: an image behind a loop device; detached when dropped.
struct Foreign {
    folder: tempfile::TempDir,
    path: PathBuf,
}

impl Foreign {
    fn attach() -> Option<Self> {
        Self::attach_with(&[])
    }

    fn attach_with(arguments: &[&str]) -> Option<Self> {
        let folder = tempfile::Builder::new().prefix("foreign-").tempdir().expect("a folder");
        let image = folder.path().join("image");
        File::create(&image).and_then(|file| file.set_len(24 << 20)).expect("an image");
        let output = Command::new("losetup")
            .args(["--find", "--show"])
            .args(arguments)
            .arg(&image)
            .output()
            .expect("losetup");
        if !output.status.success() {
            skip(Need::Loop, String::from_utf8_lossy(&output.stderr));
            return None;
        }
        let path = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
        Some(Self { folder, path })
    }

    /// The same with the output of `command DEVICE` on it.
    fn made_by(command: &[&str]) -> Option<Self> {
        let device = Self::attach()?;
        let output = Command::new(command[0]).args(&command[1..]).arg(&device.path).output();
        assert!(output.expect("it is there").status.success(), "{command:?}");
        Some(device)
    }

    fn hash(&self) -> u64 {
        let mut bytes = Vec::new();
        File::open(&self.path).and_then(|mut file| file.read_to_end(&mut bytes)).expect("readable");
        let mut hasher = DefaultHasher::new();
        hasher.write(&bytes);
        hasher.finish()
    }

    /// Whether nobody has claimed it. A child that another test is just starting has our files, too, until it runs its own
    /// program: who wants it free waits for that.
    fn is_free(&self) -> bool {
        OpenOptions::new().read(true).custom_flags(nix::libc::O_EXCL).open(&self.path).is_ok()
    }
}

impl Drop for Foreign {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.path).status();
    }
}

/// A run directory with what platforms are made with.
struct Bench {
    run: tempfile::TempDir,
    context: PlatformContext,
}

impl Bench {
    fn new(may_destroy: bool) -> Self {
        let run = tempfile::Builder::new().prefix("bulkhead-run-").tempdir().expect("a run directory");
        let context = PlatformContext {
            exe: PathBuf::from(env!("CARGO_BIN_EXE_bulkhead")),
            ledger: Ledger::open(run.path()).expect("a ledger"),
            cache: cache_folder(),
            counter_hz: Anchor::take().and_then(|anchor| anchor.rate_since()).ok(),
            seed: 7,
            may_destroy,
        };
        Self { run, context }
    }

    fn instance(&self, number: u32) -> InstanceSpec {
        let scratch = self.run.path().join(format!("scratch-{number}"));
        std::fs::create_dir_all(&scratch).expect("a scratch folder");
        let disk_wanted = Bytes::from_bytes(20 << 20);
        InstanceSpec { number, disk_wanted, scratch, ..InstanceSpec::default() }
    }

    fn assert_nothing_left(&self) {
        assert_eq!(sweep(self.run.path()), Vec::<String>::new(), "the ledger still lists something");
        assert_eq!(attached_below(self.run.path()), Vec::<String>::new(), "loop devices still attached");
        for scratch in std::fs::read_dir(self.run.path()).expect("there").flatten() {
            let left = std::fs::read_dir(scratch.path()).into_iter().flatten().flatten().count();
            assert_eq!(left, 0, "{} is not empty", scratch.path().display());
        }
    }
}

/// Loop devices whose image lies below `folder`.
fn attached_below(folder: &Path) -> Vec<String> {
    let mark = folder.to_string_lossy().into_owned();
    let all = std::fs::read_dir("/sys/block").expect("sys").flatten();
    let backing =
        |entry: std::fs::DirEntry| std::fs::read_to_string(entry.path().join("loop/backing_file")).ok();
    all.filter_map(backing).filter(|path| path.contains(&mark)).collect()
}

fn on_device(kind: PlatformKind, device: &Path) -> PlatformSpec {
    let device = Some(device.to_string_lossy().into_owned());
    PlatformSpec { disk: Some(DiskBacking::Device), device, ..PlatformSpec::of_kind(kind) }
}

fn on_loop(kind: PlatformKind) -> PlatformSpec {
    PlatformSpec { disk: Some(DiskBacking::Loop), ..PlatformSpec::of_kind(kind) }
}

fn disk_job() -> Job {
    let params = DiskParams {
        file_size_mib: Mebibytes::from_mib(8),
        block_sizes_kib: vec![Kibibytes::from_kib(256)],
        modes: vec![DiskMode::Buffered, DiskMode::Direct],
        duration_ms: Millis::from_millis(60),
        ..DiskParams::default()
    };
    let probe = Some(ProbeSpec::Disk(params));
    Job { id: 1, probe, seed: 5, deadline_ms: Millis::from_millis(120_000), ..Job::default() }
}

fn measure(instance: &mut dyn Instance) -> DiskDetail {
    instance.begin(&disk_job(), &Cancel::new()).expect("it begins");
    let reply = instance.finish(&Cancel::new()).expect("it replies");
    match reply.report.expect("a probe was asked for").expect("it was measured").detail {
        Detail::Disk(detail) => detail,
        _ => panic!("no disk detail"),
    }
}

fn reason(platform: &mut dyn Platform) -> Option<String> {
    platform.survey(&Cancel::new()).unavailable
}

fn start(platform: &mut dyn Platform, spec: &InstanceSpec) -> Result<Box<dyn Instance>, String> {
    platform.start(spec, &Cancel::new()).map_err(|broken| match broken {
        Broken::Failed(failure) => failure.reason,
        Broken::Interrupted => "interrupted".to_owned(),
    })
}

/// Neither a survey nor a start gets past this device, and not a bit of it changes.
fn assert_refused(device: &Foreign, parts: &[&str]) {
    let before = device.hash();
    for kind in [PlatformKind::Native, PlatformKind::Container, PlatformKind::Vm] {
        let bench = Bench::new(false);
        let mut platform = make(&on_device(kind, &device.path), &bench.context);
        let surveyed = reason(platform.as_mut()).expect("it is refused");
        let started = start(platform.as_mut(), &bench.instance(0)).err();
        for part in parts.iter().chain(&["was not touched", ALLOWING]) {
            assert!(surveyed.contains(part), "{kind}: no \"{part}\" in: {surveyed}");
        }
        // Where the platform itself is not there, that may be said first.
        let Some(started) = started else { panic!("{kind} was started on it") };
        assert!(started.contains(parts[0]) || kind != PlatformKind::Native, "{kind}: {started}");
        bench.assert_nothing_left();
    }
    assert_eq!(device.hash(), before, "it was written to");
}

#[test]
fn a_mounted_device_is_refused() {
    let Some(device) = Foreign::made_by(&["mkfs.ext4", "-q"]) else { return };
    let point = device.folder.path().join("point");
    std::fs::create_dir(&point).expect("made");
    let mounted = Command::new("mount").args(["-o", "ro"]).arg(&device.path).arg(&point).status();
    assert!(mounted.expect("mount is there").success());
    assert_refused(&device, &["is in use", &format!("mounted at {}", point.display())]);
    assert!(Command::new("umount").arg(&point).status().expect("umount is there").success());
}

#[test]
fn a_device_with_a_file_system_is_refused() {
    let Some(device) = Foreign::made_by(&["mkfs.ext4", "-q"]) else { return };
    assert_refused(&device, &["carries an ext2, ext3 or ext4 file system", "wipefs"]);
}

#[test]
fn a_device_with_a_swap_area_is_refused() {
    let Some(device) = Foreign::made_by(&["mkswap"]) else { return };
    assert_refused(&device, &["carries a swap area"]);
}

#[test]
fn a_device_below_another_loop_device_is_refused() {
    let Some(device) = Foreign::attach() else { return };
    let output =
        Command::new("losetup").args(["--find", "--show"]).arg(&device.path).output().expect("losetup");
    let upper = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_refused(&device, &["is in use", &format!("below {}", upper.trim_start_matches("/dev/"))]);
    assert!(Command::new("losetup").args(["--detach", &upper]).status().expect("losetup").success());
}

#[test]
fn a_device_that_another_program_has_claimed_is_refused() {
    let Some(device) = Foreign::attach() else { return };
    let _claimed = OpenOptions::new().read(true).custom_flags(nix::libc::O_EXCL).open(&device.path).unwrap();
    assert_refused(&device, &["is in use", "claimed by another program"]);
}

#[test]
fn a_device_that_another_program_has_open_is_refused() {
    let Some(device) = Foreign::attach() else { return };
    let script = "exec 3<\"$0\"; sleep 300 >/dev/null 2>&1 & echo $!";
    let started = Command::new("sh").args(["-c", script]).arg(&device.path).output().expect("sh");
    let pid = String::from_utf8(started.stdout).unwrap();
    assert_refused(&device, &["is in use", &format!("(process {})", pid.trim())]);
    assert!(Command::new("kill").arg(pid.trim()).status().expect("kill").success());
}

#[test]
fn what_is_no_block_device_is_refused() {
    for (path, part) in [("/dev/null", "no block device"), ("/nonexistent/disk", "name a block device")] {
        let bench = Bench::new(true);
        let reason = reason(make(&on_device(PlatformKind::Native, Path::new(path)), &bench.context).as_mut());
        assert!(reason.as_ref().is_some_and(|reason| reason.contains(part)), "{reason:?}");
    }
}

#[test]
fn the_device_of_the_run_directory_is_refused_whatever_is_allowed() {
    let Some(device) = Foreign::made_by(&["mkfs.ext4", "-q"]) else { return };
    let point = device.folder.path().join("point");
    std::fs::create_dir(&point).expect("made");
    assert!(Command::new("mount").arg(&device.path).arg(&point).status().expect("mount").success());
    let context =
        PlatformContext { ledger: Ledger::open(&point).expect("a ledger"), ..Bench::new(true).context };
    let mut platform = make(&on_device(PlatformKind::Native, &device.path), &context);
    let reason = reason(platform.as_mut());
    drop((platform, context));
    assert!(Command::new("umount").arg(&point).status().expect("umount").success());
    let reason = reason.expect("it is refused");
    assert!(reason.contains("holds the run directory"), "{reason}");
}

/// Between survey and start somebody puts something on it.
#[test]
fn what_came_after_the_survey_is_seen_before_anything_is_written() {
    let Some(device) = Foreign::attach() else { return };
    let bench = Bench::new(false);
    let mut platform = make(&on_device(PlatformKind::Native, &device.path), &bench.context);
    assert_eq!(reason(platform.as_mut()), None);
    wait_until("a survey lets go of it", || device.is_free());
    assert!(Command::new("mkfs.ext4").arg("-q").arg(&device.path).status().expect("it is there").success());
    let before = device.hash();
    let refused = start(platform.as_mut(), &bench.instance(0)).err().expect("it is refused");
    assert!(refused.contains("ext4") && refused.contains(ALLOWING), "{refused}");
    assert_eq!(device.hash(), before);
}

#[test]
fn an_empty_device_is_measured_and_kept_from_others_meanwhile() {
    let Some(device) = Foreign::attach() else { return };
    let bench = Bench::new(false);
    let mut platform = make(&on_device(PlatformKind::Native, &device.path), &bench.context);
    assert_eq!(reason(platform.as_mut()), None);
    wait_until("a survey lets go of it", || device.is_free());
    let mut first = start(platform.as_mut(), &bench.instance(0)).expect("it starts");
    let mut second = start(platform.as_mut(), &bench.instance(1)).expect("instances of a run share it");
    assert!(!device.is_free(), "nobody else may have it now");
    let before = device.hash();
    let detail = measure(first.as_mut());
    assert_eq!(detail.target, format!("block device {}", device.path.display()));
    assert_ne!(device.hash(), before, "it was written to");
    first.end();
    assert!(!device.is_free(), "the second instance still has it");
    second.end();
    wait_until("the device is free", || device.is_free());
    // What the probe left is no reason to refuse the next run.
    assert_eq!(reason(platform.as_mut()), None);
}

#[test]
fn the_command_line_can_allow_it() {
    let Some(device) = Foreign::made_by(&["mkfs.ext4", "-q"]) else { return };
    let bench = Bench::new(true);
    let mut platform = make(&on_device(PlatformKind::Native, &device.path), &bench.context);
    let state = platform.survey(&Cancel::new());
    assert_eq!(state.unavailable, None);
    let disk = state.properties.iter().find(|(key, _)| key == "disk").map(|(_, value)| value.clone());
    assert!(disk.as_deref().is_some_and(|disk| disk.contains("which is lost")), "{disk:?}");
    let before = device.hash();
    let mut instance = start(platform.as_mut(), &bench.instance(0)).expect("it starts");
    measure(instance.as_mut());
    instance.end();
    assert_ne!(device.hash(), before, "it was written to");
}

/// Measures raw on the device that `spec` gives its instances; none where the platform is not there.
fn measured_on(spec: &PlatformSpec) -> Option<DiskDetail> {
    let bench = Bench::new(false);
    let mut platform = make(spec, &bench.context);
    if let Some(reason) = reason(platform.as_mut()) {
        skip(Need::named(spec.kind.as_str()).expect("what can be missing"), reason);
        return None;
    }
    let mut first = start(platform.as_mut(), &bench.instance(0)).expect("it starts");
    let mut second = start(platform.as_mut(), &bench.instance(1)).expect("beside the first");
    let detail = measure(first.as_mut());
    assert!(detail.target.starts_with("block device /dev/"), "{}", detail.target);
    assert!(detail.phases.iter().any(|phase| phase.bytes.get() > 0));
    measure(second.as_mut());
    first.end();
    second.end();
    bench.assert_nothing_left();
    Some(detail)
}

#[test]
fn loop_devices_serve_native_instances_and_containers() {
    for kind in [PlatformKind::Native, PlatformKind::Container] {
        if let Some(detail) = measured_on(&on_loop(kind)) {
            assert!(detail.target.contains("/dev/loop"), "{}", detail.target);
        }
    }
}

#[test]
fn a_named_device_serves_a_container() {
    let Some(device) = Foreign::attach() else { return };
    if let Some(detail) = measured_on(&on_device(PlatformKind::Container, &device.path)) {
        assert_eq!(detail.target, format!("block device {}", device.path.display()));
    }
}

#[test]
fn guests_get_loop_devices_on_every_bus() {
    for (bus, name) in [(DiskBus::Virtio, "vda"), (DiskBus::Sata, "sda"), (DiskBus::Nvme, "nvme0n1")] {
        let spec = PlatformSpec { disk_bus: Some(bus), ..on_loop(PlatformKind::Vm) };
        if let Some(detail) = measured_on(&spec) {
            assert_eq!(detail.target, format!("block device /dev/{name}"));
        }
    }
}

#[test]
fn guests_get_a_named_device() {
    let Some(device) = Foreign::attach() else { return };
    let before = device.hash();
    if measured_on(&on_device(PlatformKind::Vm, &device.path)).is_some() {
        assert_ne!(device.hash(), before, "the guest wrote to it");
    }
}

#[test]
fn a_partition_is_refused_when_its_whole_disk_is_used() {
    let Some(device) = Foreign::attach_with(&["--partscan"]) else { return };
    let added = Command::new("addpart").arg(&device.path).args(["1", "2048", "8192"]).output();
    assert!(added.expect("addpart is there").status.success());
    let partition = PathBuf::from(format!("{}p1", device.path.display()));
    let bench = Bench::new(false);
    let mut platform = make(&on_device(PlatformKind::Native, &partition), &bench.context);
    assert_eq!(reason(platform.as_mut()), None, "an empty partition of an unused disk");
    let output =
        Command::new("losetup").args(["--find", "--show"]).arg(&device.path).output().expect("losetup");
    let upper = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    assert!(output.status.success());
    let refused = reason(platform.as_mut());
    assert!(Command::new("losetup").args(["--detach", &upper]).status().expect("losetup").success());
    assert!(refused.is_some_and(|why| why.contains("is in use (below loop")));
}

/// A ledger line, whoever wrote it, detaches no loop device but one over that very image in the run directory.
#[test]
fn a_sweep_leaves_loop_devices_of_others_alone() {
    let Some(device) = Foreign::attach() else { return };
    let bench = Bench::new(false);
    let (path, outside) = (device.path.clone(), device.folder.path().join("image"));
    for image in [bench.run.path().join("loop.img"), outside] {
        let ticket = bench.context.ledger.record(Thing::LoopDevice { path: path.clone(), image });
        assert!(ticket.is_ok());
    }
    let said = sweep(bench.run.path());
    assert!(said.len() == 1 && said[0].contains("outside"), "{said:?}");
    assert_eq!(attached_below(device.folder.path()).len(), 1, "it is still attached");
}

fn experiment(rest: &str) -> String {
    format!(
        "name = \"disks\"\nseed = 3\n[repeat]\nmin = 3\nmax = 3\ntarget_percent = 10.0\nbudget_s = 60\n\
         [[platform]]\nlabel = \"native\"\nkind = \"native\"\n{rest}\n\
         [probe.disk]\nfile_size_mib = 8\nblock_sizes_kib = [64]\nmodes = [\"direct\"]\nduration_ms = 50\n"
    )
}

fn bulkhead(folder: &Path, experiment: &str, arguments: &[&str]) -> Command {
    std::fs::write(folder.join("disks.toml"), experiment).expect("written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_bulkhead"));
    command.args(["measure", "native", "--experiment", "disks.toml", "--out", "run"]).args(arguments);
    command.current_dir(folder).env("NO_COLOR", "1");
    command
}

#[test]
fn only_the_command_line_allows_it_and_not_the_experiment() {
    let Some(device) = Foreign::made_by(&["mkfs.ext4", "-q"]) else { return };
    let platform = format!("disk = \"device\"\ndevice = \"{}\"", device.path.display());
    let before = device.hash();
    let folder = tempfile::tempdir().expect("a folder");
    for key in ["may_destroy = true", "i_know_this_destroys_data = true"] {
        let granted = experiment(&format!("{platform}\n{key}"));
        let output = bulkhead(folder.path(), &granted, &[]).output().expect("it runs");
        assert_eq!(output.status.code(), Some(2), "an experiment cannot grant it");
    }
    let output = bulkhead(folder.path(), &experiment(&platform), &[]).output().expect("it runs");
    let said =
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "the platform was asked for and is not there: {said}");
    // The terminal's table breaks lines anywhere.
    let words = said.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("carries an ext2, ext3 or ext4 file system"), "{words}");
    assert_eq!(device.hash(), before, "it was not touched");
    std::fs::remove_dir_all(folder.path().join("run")).expect("removed");
    let output = bulkhead(folder.path(), &experiment(&platform), &[ALLOWING]).output().expect("it runs");
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert_ne!(device.hash(), before, "it was written to");
}

#[test]
fn a_loop_device_is_gone_after_the_program_was_killed() {
    if Foreign::attach().is_none() {
        return;
    }
    let folder = tempfile::Builder::new().prefix("bulkhead-crash-").tempdir().expect("a folder");
    let endless = experiment("disk = \"loop\"").replace("duration_ms = 50", "duration_ms = 600000");
    let endless = endless.replace("file_size_mib = 8", "file_size_mib = 1024");
    let mut child = bulkhead(folder.path(), &endless, &[])
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .spawn()
        .expect("it runs");
    wait_until("a loop device of the instance", || {
        attached_below(folder.path()).iter().any(|image| image.contains("scratch"))
    });
    child.kill().and_then(|()| child.wait()).expect("killed");
    wait_until("no loop device", || attached_below(folder.path()).is_empty());
    // Who undoes it all reads of it there.
    let name = folder.path().file_name().expect("a name").to_string_lossy().into_owned();
    let is_named = |entry: std::fs::DirEntry| {
        let words = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&words).contains(&name)
    };
    wait_until("its reaper's end", || !std::fs::read_dir("/proc").expect("proc").flatten().any(is_named));
}

fn wait_until(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < end, "{what}: not within a minute");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Images with a file system work on the emulated buses, too.
#[test]
fn guests_have_files_on_every_bus() {
    for bus in [DiskBus::Sata, DiskBus::Nvme] {
        let bench = Bench::new(false);
        let spec = PlatformSpec { disk_bus: Some(bus), ..PlatformSpec::of_kind(PlatformKind::Vm) };
        let mut platform = make(&spec, &bench.context);
        if let Some(reason) = reason(platform.as_mut()) {
            skip(Need::Vm, format!("in part, {bus:?}: {reason}"));
            continue;
        }
        let mut instance = start(platform.as_mut(), &bench.instance(0)).expect("it starts");
        assert_eq!(measure(instance.as_mut()).target, "file on ext2/3/4");
        instance.end();
    }
}
