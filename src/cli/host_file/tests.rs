//! What is written is read again, and what was measured comes where it belongs.

use super::*;
use model::system::CardShape;
use model::system::Interval;
use units::{Bytes, Mebibytes, Millis};

fn two_nodes() -> Described {
    let node = |number: u32| NodeShape {
        number,
        socket: number,
        cpus: format!("{}-{}", number * 4, number * 4 + 3).parse().unwrap(),
        memory_mib: Mebibytes::from_mib(4096),
        hugepages_mib: Mebibytes::from_mib(u64::from(number) * 64),
        caches: vec![
            format!("{}-{}", number * 4, number * 4 + 1).parse().unwrap(),
            format!("{}-{}", number * 4 + 2, number * 4 + 3).parse().unwrap(),
        ],
        cores: Vec::new(),
    };
    let nic = CardShape {
        name: "eth0".to_owned(),
        node: Some(1),
        bytes_per_s: Bytes::from_bytes(125),
        receivers: None,
    };
    let shape = HostShape { nodes: vec![node(0), node(1)], nics: vec![nic], ..HostShape::default() };
    let disk = |name: &str, node, holds: &[&str]| SeenDisk {
        name: name.to_owned(),
        node,
        holds: holds.iter().map(|name| (*name).to_owned()).collect(),
    };
    let disks = vec![disk("sda", Some(1), &["sda", "sda1", "dm-0"]), disk("sdb", None, &["sdb", "dm-0"])];
    Described { shape, disks: Some(disks), notes: vec!["a\nnote".to_owned()] }
}

fn of_disk(device: &str) -> MeasuredHost {
    let disk = MeasuredDisk {
        device: device.to_owned(),
        bytes_per_s: Interval::One(Bytes::from_bytes(1000)),
        stall: Some(Interval::One(Millis::from_millis(9))),
        stall_alone: None,
    };
    MeasuredHost { disk: Some(disk), ..MeasuredHost::default() }
}

#[test]
fn a_host_is_read_as_it_was_written() {
    let mut host = two_nodes();
    host.add(of_disk("sda1"));
    host.shape.facts.wakeup.push(model::system::Wakeup {
        miss_rate: 0.001,
        latency_us: Interval::One(units::Micros::from_micros(70)),
    });
    let text = text(&host, Nanos::from_nanos(0)).unwrap();
    assert!(text.contains("# note: a note\n") && text.contains("1970-01-01 00:00:00 UTC"), "{text}");
    assert_eq!(HostShape::from_toml(&text).unwrap(), host.shape);
    assert_eq!(notes_of(&text).collect::<Vec<_>>(), ["a note"]);
    // This machine's as well, into a file and back.
    let folder = tempfile::tempdir().unwrap();
    let here = Described::here().unwrap();
    let file = folder.path().join("here.toml");
    fs::write(&file, super::text(&here, now()).unwrap()).unwrap();
    assert_eq!(read(&file).unwrap(), here.shape);
}

#[test]
fn a_disk_that_was_measured_is_the_one_below() {
    let mut host = two_nodes();
    host.add(of_disk("sda1"));
    let [disk] = &host.shape.disks[..] else { panic!("{host:?}") };
    assert_eq!((disk.name.as_str(), disk.node, disk.bytes_per_s.low().get()), ("sda", Some(1), 1000));
    host.tell_of_silent_disks();
    assert!(host.notes.last().unwrap().contains("not measured: sdb."), "{:?}", host.notes);
    // On two disks at once, and on none.
    for device in ["dm-0", "sdz"] {
        let mut host = two_nodes();
        host.add(of_disk(device));
        assert!(host.shape.disks.is_empty() && host.notes.last().unwrap().contains("on none of"), "{host:?}");
    }
    // Where nobody looked, the disk that is written with that name keeps its rate and learns its stall.
    let written = |name: &str| DiskShape {
        name: name.to_owned(),
        node: Some(0),
        bytes_per_s: Interval::One(Bytes::from_bytes(5)),
        stall_ms: None,
        stall_alone_ms: None,
    };
    let mut host = Described { disks: None, ..two_nodes() };
    host.shape.disks = vec![written("nvme0n1")];
    host.add(of_disk("nvme0n1p2"));
    assert_eq!(
        (host.shape.disks[0].bytes_per_s.low().get(), host.shape.disks[0].stall_ms.map(|ms| ms.high().get())),
        (5, Some(9))
    );
    // At which of two nodes a disk hangs that is not written is not guessed.
    host.add(of_disk("sda"));
    assert!(host.shape.disks.len() == 1 && host.notes.last().unwrap().contains("is not known"), "{host:?}");
}

#[test]
fn partitions_of_a_disk_are_known_by_their_names() {
    for (device, disk, is) in [
        ("sda", "sda", true),
        ("sda1", "sda", true),
        ("sdaa", "sda", false),
        ("nvme0n1p2", "nvme0n1", true),
        ("nvme0n12", "nvme0n1", false),
        ("nvme0n1p", "nvme0n1", false),
        ("sdb1", "sda", false),
    ] {
        assert_eq!(is_partition_of(device, disk), is, "{device} of {disk}");
    }
}

#[test]
fn near_and_far_follow_from_where_the_bench_ran() {
    let nodes = two_nodes().shape.nodes;
    let bench = |cpus: &str| -> ChannelBench {
        let series = r#"{"way":"channel","size_bytes":64,"rounds":9,"p999_ns":{"unsupported":""},
            "p99_ns":{"estimate":{"value":1.0,"low":1.0,"high":4000.0,"confidence":0.95}},"p50_ns":{"unsupported":""},
            "max_ns":null,"batch_mean_ns":{"unsupported":""},"bandwidth_bytes_per_s":{"unsupported":""},"trips_ns":[]}"#;
        let text = format!(
            r#"{{"schema_version":{CHANNEL_BENCH_VERSION},"bulkhead_version":"","seed":1,"rounds":9,"interrupted":false,
            "engine":"kvm","host_cpus":[{cpus}],"ring_bytes":1,"limits":{{"trips":1,"trips_ms":1,"batch_ms":1,"stream_ms":1,
            "tcp_factor":1}},"mappings":[],"clocks":[],"series":[{series}],"marks":[],"floors":[],"failures":[]}}"#
        );
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("bench.json");
        fs::write(&file, text).unwrap();
        super::bench(&file).unwrap().unwrap()
    };
    let facts = |cpus: &str| of_bench(&bench(cpus), &nodes).facts;
    assert_eq!(facts("0,3").channel_us.map(|us| us.high().get()), Some(2));
    assert_eq!(facts("0,4").channel_far_us.map(|us| us.high().get()), Some(2));
    assert_eq!(facts("0,9"), HostFacts::default());
    assert_eq!(facts(""), HostFacts::default());
}
