//! Good inputs of each kind, which mutations and fuzzers begin with.

use std::io::Write;

use bulkhead::model::channel_worker::{Seen, WorkerAnswer};
use bulkhead::model::partition::session::{Ask, Further, Look, SessionContent, SessionWord, pack};
use bulkhead::model::partition::{
    FromGuest, Inherited, LONGEST_MESSAGE, Limit, ProgramEnd, Stream, TerminalSize, ToGuest, UserIds, Victim,
};
use bulkhead::platforms::ledger::Thing;
use bulkhead::platforms::link::encode;
use bulkhead::platforms::vm::guest::GuestConfig;
use bulkhead::probes::net::control::{ExchangeTally, Message};
use bulkhead::probes::rendezvous::hello::{Hello, HelloWord};
use bulkhead::units::clock_wire::{ClockAnswer, ClockQuestion};
use bulkhead::units::histogram::Histogram;
use bulkhead::units::{Bytes, Nanos};
use fixture::Layer;
use flate2::Compression;
use flate2::write::GzEncoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use serde::Serialize;

#[path = "../../crates/images/tests/fixture/mod.rs"]
mod fixture;

type Seeds = Vec<Vec<u8>>;

fn texts<const N: usize>(texts: [&str; N]) -> Seeds {
    texts.map(|text| text.as_bytes().to_vec()).to_vec()
}

fn json(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("JSON")
}

fn files(folder: &str) -> Seeds {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let files = std::fs::read_dir(folder).expect("they are there");
    files.map(|file| std::fs::read(file.expect("readable").path()).expect("readable")).collect()
}

pub fn qmp() -> Seeds {
    texts([
        "{\"QMP\": {\"version\": {}, \"capabilities\": [\"oob\"]}}\n{\"return\": {}}\n{\"event\": \"STOP\"}\n\
         {\"return\": {\"status\": \"running\"}}\n{\"return\": 1}\n",
        "{\"QMP\":{}}\n{\"return\":{}}\n{\"error\":{\"class\":\"GenericError\",\"desc\":\"no such command\"}}\n{\"return\":[]}\n",
    ])
}

pub fn console() -> Seeds {
    texts([
        "[    0.000000] Linux version 6.1\r\n\u{1b}[31mred\u{1b}[0m\n\n",
        "Kernel panic - not syncing: VFS\nbulkhead: init runs\n\u{7}\u{202e}text without an end",
    ])
}

pub fn ledger() -> Seeds {
    let path = || "/tmp/bulkhead-1".into();
    let things = [
        Thing::Process { pid: 4711, start_ticks: 99, boot_id: "a-b".to_owned() },
        Thing::Container { runtime: "/usr/bin/crun".into(), root: path(), id: "c".to_owned() },
        Thing::Directory { path: path() },
        Thing::LoopDevice { path: "/dev/loop1".into(), image: path() },
        Thing::Mount { path: path() },
    ];
    things.iter().map(json).collect()
}

pub fn set_file() -> Seeds {
    texts([
        "name = \"plant\"\n[network.control]\nlinks = 2\n[partition.db]\nprogram = [\"/bin/sleep\", \"9\"]\nmemory_mib = 192\n\
         networks = [\"control\"]\nrw = [\"/srv\"]\ncpus = 2\npin = \"0-1\"\n[partition.plc]\nprogram = [\"/bin/true\"]\n\
         after = [\"db\"]\nnetworks = [\"control\"]\nrestart = \"always\"\n",
        "[channel.back]\nwriter = \"a\"\nreaders = [\"b\"]\nsize_mib = 2\n[partition.a]\nprogram = [\"/bin/true\"]\n\
         [partition.b]\nprogram = [\"/bin/true\"]\nenv = { A = \"1\" }\nnode = 0\n[network.office]\nsubnet = \"10.77.9\"\n",
    ])
}

pub fn classes() -> Seeds {
    files("classes")
}

pub fn host_file() -> Seeds {
    let page = include_str!("../../docs/plan.md");
    let blocks = page.split("```toml\n").skip(1).filter_map(|block| block.split_once("```"));
    let hosts = blocks.map(|(block, _)| block).filter(|block| block.starts_with("[[node]]"));
    hosts.map(|host| host.as_bytes().to_vec()).collect()
}

/// A file of `tests/fixtures`.
fn fixture(name: &str) -> Seeds {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures");
    vec![std::fs::read(folder.join(name)).expect("it is there")]
}

pub fn system_file() -> Seeds {
    fixture("plan/plant.toml")
}

pub fn plan_file() -> Seeds {
    fixture("plan/plan.json")
}

pub fn requirements() -> Seeds {
    fixture("verify/requirements.toml")
}

pub fn verify_journal() -> Seeds {
    fixture("verify/journal.jsonl")
}

pub fn certificate() -> Seeds {
    fixture("plan/plan.proof")
}

pub fn results() -> Seeds {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/schema1/results.json");
    let whole: serde_json::Value =
        serde_json::from_slice(&std::fs::read(folder).expect("it is there")).expect("JSON");
    // The whole is long; with one cell each, mutations hit what matters.
    let mut seeds = vec![json(&whole)];
    for cell in whole["cells"].as_array().into_iter().flatten().take(6) {
        let mut small = whole.clone();
        small["cells"] = serde_json::json!([cell]);
        seeds.push(json(&small));
    }
    seeds
}

pub fn set_state() -> Seeds {
    texts([
        "{\"phase\":\"running\",\"since_unix_ns\":1,\"supervisor\":{\"pid\":7,\"start_ticks\":8,\"boot_id\":\"x\"},\"process\":null,\
         \"engine\":\"tcg\",\"given\":null,\"restarts\":0,\"last\":{\"at_unix_ns\":3,\"program\":{\"code\":7},\"reason\":\"r\"}}",
        "{\"by\":{\"pid\":7,\"start_ticks\":8,\"boot_id\":\"x\"},\"fresh\":true,\"starts\":[\"p-db\"]}",
        "{\"schema_version\":1,\"file\":\"/a.toml\",\"set\":{\"name\":\"plant\",\"partition\":{\"db\":{\"program\":[\"/bin/true\"],\
         \"networks\":[\"control\"]}},\"network\":{\"control\":{\"links\":2}}}}",
    ])
}

pub fn switch() -> Seeds {
    let frame = |from: u8, to: [u8; 6]| {
        let mut bytes = vec![from, 0, 0, 0, 60];
        bytes.extend(to);
        bytes.extend([2, 0, 0, 0, 0, from]);
        bytes.resize(5 + 60, 7);
        bytes.resize(97, 0);
        bytes
    };
    // What is looked into of a plug with an address: behind two tags, in ARP, and a neighbour's word behind a header.
    let within = |packet: &[u8]| {
        let mut bytes = frame(1, [255; 6]);
        bytes[4] = 92;
        bytes[17..17 + packet.len()].copy_from_slice(packet);
        bytes
    };
    let own = [0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xfe, 0, 0, 1];
    let neighbour =
        [&[0x86, 0xdd, 0x60, 0, 0, 0, 0, 32, 0, 255], &own[..], &own, &[58, 0, 0, 0, 0, 0, 0, 0, 136]]
            .concat();
    let broadcast = frame(1, [255; 6]);
    vec![
        within(&[
            0x88, 0xa8, 0, 1, 0x81, 0, 0, 2, 8, 0, 0x45, 0, 0, 20, 0, 0, 0, 0, 64, 17, 0, 0, 0, 0, 0, 1,
        ]),
        within(&[8, 6, 0, 1, 8, 0, 6, 4, 0, 2, 2, 0, 0, 0, 0, 1, 0, 0, 0, 1]),
        within(&neighbour),
        broadcast.clone(),
        [broadcast, frame(2, [2, 0, 0, 0, 0, 1]), frame(0, [2, 0, 0, 0, 0, 2])].concat(),
    ]
}

/// A request of a guest's kernel for files, with its length before it.
fn file_request(opcode: u32, node: u64, longs: &[u64], name: &str) -> Vec<u8> {
    let mut body: Vec<u8> = longs.iter().flat_map(|long| long.to_le_bytes()).collect();
    body.extend(name.as_bytes());
    let mut bytes: Vec<u8> = [0, opcode].into_iter().flat_map(u32::to_le_bytes).collect();
    bytes.extend([7, node, 0, 1].into_iter().flat_map(u64::to_le_bytes));
    bytes.extend(body);
    let length = u16::try_from(bytes.len()).expect("short").to_le_bytes();
    [length.to_vec(), bytes].concat()
}

const READ_WRITE: u64 = 2;

pub fn file_requests() -> Seeds {
    let request = file_request;
    let pair = |low: u64, high: u64| low | high << 32;
    let begin = [
        request(26, 0, &[pair(7, 36), pair(131_072, 0xffff_ffff)], ""),
        request(1, 1, &[], "0\0"),
        request(1, 2, &[], "a\0"),
        request(14, 3, &[READ_WRITE], ""),
    ]
    .concat();
    let with = |more: &[Vec<u8>]| [begin.clone(), more.concat()].concat();
    vec![
        with(&[
            request(15, 3, &[1, 0, 100, 0, 0], ""),
            request(16, 3, &[1, 0, 2, 0, 0], "xy"),
            request(25, 3, &[1, 0, 9], ""),
        ]),
        with(&[
            request(35, 2, &[pair(0o102, 0o644), 0], "new\0"),
            request(10, 2, &[], "new\0"),
            request(3, 4, &[0, 0], ""),
        ]),
        with(&[
            request(9, 2, &[0o755], "e\0"),
            request(45, 2, &[4, 2], "a\0d\0"),
            request(11, 2, &[], "e\0"),
        ]),
        with(&[
            request(27, 2, &[0], ""),
            request(44, 2, &[2, 0, 4096, 0, 0], ""),
            request(29, 2, &[2, 0, 0], ""),
        ]),
        with(&[
            request(31, 3, &[1, 5, 0, 9, pair(1, 3), 0], ""),
            request(32, 3, &[1, 5, 0, 9, pair(1, 3), 0], ""),
        ]),
        with(&[
            request(33, 3, &[1, 6, 0, 9, pair(1, 3), 1], ""),
            request(22, 1, &[2048], "trusted.bulkhead.waits\0"),
            request(22, 1, &[1], "trusted.bulkhead.interrupt.1\0"),
            request(18, 3, &[1, 0, 0], ""),
            request(42, 0, &[1, 3, 1], ""),
        ]),
        with(&[
            request(21, 3, &[1], "user.x\0v"),
            request(22, 3, &[100], "user.x\0"),
            request(23, 3, &[100], ""),
        ]),
        with(&[
            request(4, 3, &[1, 0, 0, 0, 0, 0, 0, 0, pair(0, 0o4755), 0, 0], ""),
            request(5, 3, &[], ""),
            request(17, 3, &[], ""),
        ]),
        with(&[
            request(8, 2, &[0o010_644, 0], "p\0"),
            request(6, 2, &[], "l\0/etc\0"),
            request(13, 2, &[3], "b\0"),
        ]),
        with(&[
            request(43, 3, &[1, 0, 100, 0], ""),
            request(46, 3, &[1, 0, 3], ""),
            request(47, 3, &[1, 0, 3, 1, 50, 9, 0], ""),
        ]),
        with(&[
            request(1, 1, &[], "1\0"),
            request(1, 4, &[], "a\0"),
            request(14, 5, &[READ_WRITE], ""),
            request(38, 0, &[], ""),
        ]),
    ]
}

pub fn partition() -> Seeds {
    let said = [
        FromGuest::Ready { protocol: 1, cpus: 2, memory_bytes: 1 << 30, free_bytes: 1 << 29 },
        FromGuest::Refused { code: 127, reason: "not found".to_owned() },
        FromGuest::OutputEnds { stream: Stream::Output, bytes: u64::MAX },
        FromGuest::MemoryRanOut {
            victim: Victim {
                name: "tail".to_owned(),
                memory: Bytes::from_bytes(1 << 27),
                files: Bytes::from_bytes(1 << 20),
            },
        },
        FromGuest::Ended { how: ProgramEnd::Signal(9) },
    ];
    let told =
        [ToGuest::Start, ToGuest::Signal { number: 15 }, ToGuest::InputEnds { bytes: 3 }, ToGuest::Bye];
    let framed = said.iter().map(|message| encode(message, LONGEST_MESSAGE).expect("small"));
    framed.chain(said.iter().map(json)).chain(told.iter().map(json)).collect()
}

pub fn guest_config() -> Seeds {
    let more = "{\"link\":\"serial\",\"disk_notes\":[\"n\"],\"rehearse\":\"panic\",\"nics\":[],\"bonds\":[]}";
    vec![json(&GuestConfig::default()), more.as_bytes().to_vec()]
}

pub fn numa_maps() -> Seeds {
    texts([
        "7f8a55fff000 bind:0 file=/memfd:memory-backend-memfd\\040(deleted) dirty=8192 N0=8190 N1=2 kernelpagesize_kB=4\n",
        "561f27bbc000 default heap anon=9 N0=9 kernelpagesize_kB=4\n7efdc3e00000 default anon=131072 N0=131000 N1=72 \
         kernelpagesize_kB=4\n7f0000000000 bind=static:1-2 file=/x huge N1=3 kernelpagesize_kB=2048\n",
    ])
}

pub fn mountinfo() -> Seeds {
    texts([
        "29 1 8:17 / /data rw,noatime shared:1 - ext4 /dev/sdb1 rw\n30 1 0:45 /sub /pool rw - btrfs /dev/sdb2 rw\n",
        "32 1 0:5 / /proc\\040x rw - proc proc rw\nbroken\n",
    ])
}

pub fn channel_answer() -> Seeds {
    let seen = Seen { trips_ns: Histogram::from_values([5, 7, 900]), ..Seen::default() };
    let answers = [
        json(&WorkerAnswer::Outcome { number: 3, seen }),
        json(&WorkerAnswer::Failed { number: 1, reason: "broke".to_owned() }),
    ];
    answers.to_vec()
}

pub fn clock() -> Seeds {
    let question = ClockQuestion { nonce: 1, number: 2 };
    let answer = ClockAnswer::to(&question, Nanos::from_nanos(10), Nanos::from_nanos(20));
    vec![question.encode().to_vec(), answer.encode().to_vec()]
}

pub fn ssh() -> Seeds {
    texts([
        "/tmp/bulkhead-ABCDEF0123\n",
        "/root/.cache/bulkhead/programs/0123456789abcdef\n",
        "\u{3}\0\0\0\0\0\0\0abc..",
        "Host key verification failed.\r\n@@@@@@\nConnection closed by remote host",
        "user@host: Permission denied (publickey).",
    ])
}

pub fn journal() -> Seeds {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/schema1/journal.jsonl");
    let whole = std::fs::read(path).expect("it is there");
    let lines: Seeds = whole.split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    vec![lines.iter().take(6).flatten().copied().collect(), lines.iter().take(3).flatten().copied().collect()]
}

pub fn wall_mounts() -> Seeds {
    texts([
        "1 0 8:1 / / rw - ext4 /dev/a rw\n2 1 0:1 / /proc rw - proc proc rw\n3 2 0:2 / /proc/self/x rw - ext4 b rw\n\
         4 1 0:3 / /srv/a\\040b rw - xfs c rw\n5 1 0:4 / /srv rw shared:1 - tmpfs d rw\n",
        "6 1 0:4 / /srv/made rw master:2 - sysfs d rw\n7 6 0:5 / /srv/made/below rw - ext4 x rw\n\
         8 1 0:4 / /srv/made rw - tmpfs d rw\nrubbish - - proc\n9 1 8:1 / /\\134\\011 rw - cgroup2 x rw\n",
    ])
}

pub fn sweep_mounts() -> Seeds {
    texts([
        "4 1 0:3 / /tmp/bulkhead-1/a\\040b rw - xfs c rw\n5 1 0:4 / /tmp/bulkhead-1 rw shared:1 - tmpfs d rw\n",
        "6 1 0:4 / /tmp/bulkhead-1/../x rw - sysfs d rw\n7 6 0:5 / /tmp/bulkhead-10 rw - ext4 x rw\nrubbish\n",
    ])
}

pub fn env_file() -> Seeds {
    texts(["# a remark\nA=1\r\nB=x=\"y\"\n\n  C=\nA=2\n", "PATH=/bin\n"])
}

pub fn image_documents() -> Seeds {
    let digest = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let blob = format!(
        "{{\"mediaType\":\"application/vnd.oci.image.layer.v1.tar+gzip\",\"digest\":\"{digest}\",\"size\":7,\
         \"platform\":{{\"architecture\":\"amd64\",\"os\":\"linux\"}},\
         \"annotations\":{{\"org.opencontainers.image.ref.name\":\"1.0\"}}}}"
    );
    let config = "{\"architecture\":\"amd64\",\"os\":\"linux\",\"config\":{\"User\":\"u:g\",\"Env\":[\"A=b\",\"PATH=/bin\"],\
                  \"Entrypoint\":[\"/e\"],\"Cmd\":null,\"WorkingDir\":\"/w\"},\"rootfs\":{\"type\":\"layers\",\"diff_ids\":[]}}";
    let index = format!("{{\"schemaVersion\":2,\"manifests\":[{blob},{blob}]}}");
    let manifest = format!("{{\"schemaVersion\":2,\"config\":{blob},\"layers\":[{blob}]}}");
    texts([&index, &manifest, config])
}

pub fn image_layer() -> Seeds {
    let plain = Layer::default()
        .folder("a/b")
        .file("a/b/c", 0o4755, "content")
        .link("l", "../a/b")
        .name("l/h", "a/b/c")
        .pax("path", "l/long")
        .pax("mtime", "12.5")
        .file("x", 0o644, "y")
        .file("a/.wh.b", 0o644, "")
        .file("a/.wh..wh..opq", 0o644, "")
        .file(&"long/".repeat(40), 0o644, "")
        .archive();
    let short = Layer::default().link("up", "..").file("up/precious", 0o644, "y").archive();
    let packed = compress_to_vec(short.as_slice(), CompressionLevel::Fastest);
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(&short).expect("memory");
    vec![plain, short, packed, gzip.finish().expect("memory")]
}

pub fn session_packets() -> Seeds {
    let terminal = Some(TerminalSize { rows: 24, columns: 80 });
    let further = Further {
        inherited: Some(Inherited {
            limits: vec![Limit { name: "nofile".to_owned(), soft: 1024, hard: 4096 }],
            umask: Some(0o022),
        }),
        argv: vec![b"ls".to_vec(), vec![255]],
        env: vec![(b"A".to_vec(), b"b".to_vec())],
        workdir: Some("/srv".into()),
        user: Some(UserIds { uid: 7, gid: 8, groups: vec![9] }),
        terminal,
    };
    let word = SessionContent::Word;
    let stream = Stream::Output;
    let asks = [
        Ask::Run(Box::new(further)),
        Ask::Connect(80),
        Ask::Look(Look::File("/ready".into())),
        Ask::Look(Look::Tcp(80)),
    ];
    let mut all: Vec<SessionContent> = asks.into_iter().map(|ask| word(SessionWord::Open { ask })).collect();
    all.extend([
        word(SessionWord::Started),
        word(SessionWord::Refused { code: 127, reason: "not found".to_owned() }),
        word(SessionWord::Credit { stream, bytes: 4096 }),
        word(SessionWord::End { stream }),
        word(SessionWord::Signal { number: 15 }),
        word(SessionWord::Resize { size: TerminalSize { rows: 1, columns: 2 } }),
        word(SessionWord::Close),
        word(SessionWord::MemoryRanOut {
            victim: Victim {
                name: "tail".to_owned(),
                memory: Bytes::from_bytes(1 << 27),
                files: Bytes::from_bytes(1 << 20),
            },
        }),
        word(SessionWord::Ended { how: ProgramEnd::Exit(3) }),
        SessionContent::Bytes(stream, b"some words".to_vec()),
    ]);
    let each: Vec<Vec<u8>> = all.iter().map(|content| pack(9, content).expect("packed")).collect();
    [vec![each.concat()], each].concat()
}

pub fn plug_events() -> Seeds {
    texts([
        "{\"event\": \"NETDEV_STREAM_CONNECTED\", \"data\": {\"netdev-id\": \"plug3\"}}\n{\"return\": {}}\n\
         {\"event\": \"NETDEV_STREAM_DISCONNECTED\", \"data\": {\"netdev-id\": \"plug0\"}}\n",
        "{\"return\": \"card0: index=0,type=nic,model=virtio-net-pci\\r\\n \\\\ plug0: index=0,type=stream,\\r\\n \\\\ plug1: \
         index=0,type=stream,unix:/x/1.sock\\r\\n\", \"id\": \"now\"}\n{\"event\": 7, \"data\": []}\n",
    ])
}

pub fn daemon_command() -> Seeds {
    let said = |length: u32, line: &str| {
        let token = "t".repeat(bulkhead::partition::mpi::agent::TOKEN_CHARS);
        [token.as_bytes(), &length.to_le_bytes(), line.as_bytes()].concat()
    };
    let line = "orted -mca ess env -mca ess_base_jobid 7";
    let length = u32::try_from(line.len()).expect("short");
    vec![said(length, line), said(0, ""), said(4, "true and more"), said(u32::MAX, "true")]
}

pub fn net_control() -> Seeds {
    let tally = ExchangeTally { sent: u64::MAX, system_ns: Some(Nanos::ZERO), ..ExchangeTally::default() };
    let said = [
        Message::Kernel { boot: u128::MAX - 7, outermost: true },
        Message::Begin(0),
        Message::Ready(u32::MAX),
        Message::Go(1),
        Message::Enough(2),
        Message::Done(3, tally),
        Message::Done(4, ExchangeTally { system_ns: None, ..tally }),
        Message::Failed("no room".to_owned()),
    ];
    said.iter().map(|message| message.encode().split_off(2)).collect()
}

pub fn hello() -> Seeds {
    let hello = |from, to, channel| Hello { word: HelloWord::new(7, "net"), from, to, channel };
    [hello(3, 1, 0), hello(0, u32::MAX, u64::MAX)].iter().map(|hello| hello.encode().to_vec()).collect()
}
