//! The disk probe on real block devices: random reads, and partitions that do not lie on the blocks of their device.
//! Loop devices stand in for disks, so this needs root.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

use bulkhead::probes::detail::{
    Alignment, AlignmentVerdict, Detail, DiskDetail, DiskDirection, ShiftedWrites,
};
use bulkhead::probes::job::Job;
use bulkhead::probes::metrics_of;
use bulkhead::probes::params::{DiskMode, DiskParams, ProbeSpec};
use bulkhead::probes::run::{Surroundings, run_job};
use bulkhead::units::facts::ClockFacts;
use bulkhead::units::metric::Metric;
use bulkhead::units::{Bytes, Kibibytes, Mebibytes, Millis};
use skips::{Need, skip};

/// A loop device; detached when dropped.
struct Loop {
    path: PathBuf,
}

impl Loop {
    /// A fresh image of 32 MiB in `folder` behind `losetup ARGUMENTS`; none where that is not allowed.
    fn attach(folder: &Path, arguments: &[&str]) -> Option<Self> {
        let image = folder.join("image");
        std::fs::File::create(&image).and_then(|file| file.set_len(32 << 20)).expect("an image");
        let output = Command::new("losetup")
            .args(["--find", "--show"])
            .args(arguments)
            .arg(&image)
            .output()
            .expect("losetup is there");
        if !output.status.success() {
            skip(Need::Loop, String::from_utf8_lossy(&output.stderr));
            return None;
        }
        let path = PathBuf::from(String::from_utf8_lossy(&output.stdout).trim());
        Some(Self { path })
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.path).status();
    }
}

fn params() -> DiskParams {
    DiskParams {
        file_size_mib: Mebibytes::from_mib(8),
        block_sizes_kib: vec![Kibibytes::from_kib(64)],
        modes: vec![DiskMode::Buffered, DiskMode::Direct],
        duration_ms: Millis::from_millis(100),
        random_block_kib: Kibibytes::from_kib(4),
    }
}

fn measured(place: &Path, params: DiskParams) -> (DiskDetail, Vec<String>) {
    let job = Job {
        probe: Some(ProbeSpec::Disk(params)),
        seed: 9,
        deadline_ms: Millis::from_millis(120_000),
        ..Job::default()
    };
    let surroundings = Surroundings { scratch: Some(place.to_owned()), exe: PathBuf::from("/bin/true") };
    let reply = run_job(&job, &surroundings, &AtomicBool::new(false), &mut || {});
    let report = reply.report.expect("a probe was asked for").expect("it was measured");
    let Detail::Disk(detail) = report.detail else { panic!("no disk detail") };
    (detail, report.notes)
}

fn figures(detail: &DiskDetail) -> Vec<Metric> {
    let clock = ClockFacts { name: "monotonic".to_owned(), read_ns: 1.0, resolution_ns: 1.0 };
    metrics_of(&Detail::Disk(detail.clone()), &clock)
}

fn value(metrics: &[Metric], id: &str) -> Option<f64> {
    metrics.iter().find(|metric| metric.id == id).and_then(|metric| metric.figure.value())
}

fn alignment(detail: &DiskDetail) -> &Alignment {
    detail.alignment.as_ref().expect("always looked at")
}

#[test]
fn random_reads_are_counted_and_timed() {
    let folder = tempfile::tempdir().expect("a folder");
    let (detail, notes) = measured(folder.path(), params());
    let phase = detail.phases.last().expect("phases");
    assert_eq!(phase.direction, DiskDirection::RandomRead);
    assert_eq!(phase.bytes.get(), phase.latency_ns.count() * 4096);
    let metrics = figures(&detail);
    let get = |id: &str| value(&metrics, id);
    let (rate, half) = (get("random_read_per_s").expect("a rate"), get("random_read_p50_ns"));
    assert!(rate > 0.0 && half.expect("enough reads") > 0.0);
    assert!(get("random_read_max_ns") >= half, "the longest is no shorter than the median");
    let through_cache = notes.iter().any(|note| note.contains("random reads go through the page cache"));
    assert_eq!(through_cache, phase.mode == DiskMode::Buffered, "{notes:?}");
    let found = alignment(&detail);
    println!(
        "{rate:.0} random reads/s; {}; shifted {:?}",
        found.why,
        found.shifted.and_then(|writes| writes.ratio())
    );
}

#[test]
fn random_reads_can_be_left_out() {
    let folder = tempfile::tempdir().expect("a folder");
    let (detail, _) =
        measured(folder.path(), DiskParams { random_block_kib: Kibibytes::from_kib(0), ..params() });
    assert!(detail.phases.iter().all(|phase| phase.direction != DiskDirection::RandomRead));
    assert_eq!(value(&figures(&detail), "random_read_per_s"), None);
}

/// The file of the last phase cannot be read at random when that phase refused; another is laid then.
#[test]
fn random_reads_find_content_after_a_refusal() {
    let folder = tempfile::tempdir().expect("a folder");
    // fsync after each block, for ten milliseconds: little is written.
    let modes = vec![DiskMode::Fsync];
    let few = DiskParams { modes, duration_ms: Millis::from_millis(10), ..params() };
    let (detail, _) = measured(folder.path(), few);
    assert!(detail.phases.last().expect("phases").latency_ns.count() > 0);
}

#[test]
fn a_loop_device_that_begins_off_the_blocks_of_its_file_is_misaligned() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(device) = Loop::attach(folder.path(), &["--offset", "512"]) else { return };
    let (detail, notes) = measured(&device.path, params());
    let found = alignment(&detail);
    assert_eq!(found.verdict, AlignmentVerdict::Misaligned, "{}", found.why);
    assert_eq!(found.offset_bytes, Some(Bytes::from_bytes(512)));
    assert!(found.why.contains("512 bytes beyond a boundary"), "{}", found.why);
    assert!(notes.iter().any(|note| note.starts_with("misaligned: ")), "{notes:?}");
    assert_eq!(detail.target, format!("block device {}", device.path.display()));
    let ratio =
        found.shifted.as_ref().and_then(ShiftedWrites::ratio).expect("512-byte sectors can be shifted");
    println!("shifted writes reach {ratio:.2} of aligned ones");
    assert_eq!(value(&figures(&detail), "misaligned_write_ratio"), Some(ratio));
}

#[test]
fn a_loop_device_on_the_blocks_of_its_file_is_aligned() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(device) = Loop::attach(folder.path(), &[]) else { return };
    let (detail, notes) = measured(&device.path, params());
    let found = alignment(&detail);
    assert_eq!(found.verdict, AlignmentVerdict::Aligned, "{}", found.why);
    assert!(!notes.iter().any(|note| note.contains("misaligned")), "{notes:?}");
}

#[test]
fn a_device_of_large_sectors_takes_no_shifted_writes_and_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(device) = Loop::attach(folder.path(), &["--sector-size", "4096"]) else { return };
    let (detail, _) = measured(&device.path, params());
    let found = alignment(&detail);
    assert_eq!(found.logical_block_bytes, Some(Bytes::from_bytes(4096)));
    assert!(found.shifted.is_none());
    assert!(found.not_shifted.as_deref().is_some_and(|why| why.contains("whole blocks")), "{found:?}");
    let metric = figures(&detail).into_iter().find(|metric| metric.id == "misaligned_write_ratio");
    assert_eq!(metric.expect("it is shown as not supported").figure.value(), None);
}

/// A partition that begins at sector 63 of a disk, as old tools made them.
#[test]
fn a_partition_off_the_blocks_of_its_disk_is_misaligned() {
    let folder = tempfile::tempdir().expect("a folder");
    let Some(device) = Loop::attach(folder.path(), &["--partscan"]) else { return };
    // Said to the kernel directly: it needs no partition table then, nor support for one.
    let added = Command::new("addpart").arg(&device.path).args(["1", "63", "40000"]).output();
    assert!(added.expect("addpart is there").status.success());
    let partition = PathBuf::from(format!("{}p1", device.path.display()));
    if !partition.exists() {
        skip(Need::Loop, format!("the kernel did not make {}", partition.display()));
        return;
    }
    let (detail, _) = measured(&partition, params());
    let found = alignment(&detail);
    assert_eq!(found.partition_start_bytes, Some(Bytes::from_bytes(63 * 512)));
    assert_eq!(found.verdict, AlignmentVerdict::Misaligned, "{}", found.why);
    assert_eq!(found.offset_bytes, Some(Bytes::from_bytes(63 * 512 % 4096)));
}
