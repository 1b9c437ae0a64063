//! What files are sets, and what is said about those that are none.

use super::*;

const PLANT: &str = r#"
name = "plant"

[network.control]
links = 2

[network.office]
subnet = "10.77.2.0/24"

[partition.db]
program = ["/usr/bin/db"]
networks = ["office"]

[partition.plc]
program = ["/usr/bin/python3", "plc.py"]
cpus = 2
pin = "2-3"
memory_mib = 512
realtime = 50
rw = ["/var/lib/plc"]
bind = ["/opt/a:/srv"]
env = { A = "b" }
after = ["db"]
networks = ["control"]

[[partition.plc.card]]
network = "office"
number = 7
bytes_per_s = 1000000

[[partition.plc.disk]]
file = "/var/lib/x.img"
bytes_per_s = 30000000

[partition.gate]
image = true
after = ["plc"]
disk = [{ file = "/var/lib/gate.img" }]
networks = ["control", "user"]

[channel.state]
writer = "plc"
readers = ["db"]
size_mib = 16
"#;

fn error(from: &str, to: &str) -> (Option<usize>, String) {
    let text = PLANT.replacen(from, to, 1);
    assert_ne!(text, PLANT, "nothing replaced: {from}");
    let mut errors = PartitionSet::from_toml(&text, "file").expect_err(&text).0;
    let error = errors.remove(0);
    (error.line, error.problem)
}

fn plant() -> PartitionSet {
    PartitionSet::from_toml(PLANT, "file").expect("a set")
}

#[test]
fn a_set_is_read_and_written_down_again_the_same() {
    let set = plant();
    let again = PartitionSet::from_toml(&toml::to_string(&set).expect("written"), "other").expect("read");
    assert_eq!(set, again);
    let unnamed = PartitionSet::from_toml(&PLANT.replace("name = \"plant\"", ""), "file").expect("a set");
    assert_eq!(unnamed.name, "file");
    assert!(PartitionSet::from_toml(&PLANT.replace("name = \"plant\"", ""), "a b").is_err());
}

#[test]
fn each_is_started_after_those_it_waits_for() {
    assert_eq!(ascending(&plant().partitions).expect("no loop"), ["db", "plc", "gate"]);
    assert_eq!(dependants_first(&plant().partitions), ["gate", "plc", "db"]);
}

#[test]
fn addresses_are_those_written_then_the_lowest_free() {
    let wiring = plant().wiring().expect("addresses");
    let told: Vec<String> = wiring
        .iter()
        .flat_map(|(name, net)| {
            net.members
                .iter()
                .map(move |(who, member)| format!("{name} {who} {}", net.subnet.address(member.number)))
        })
        .collect();
    assert_eq!(
        told,
        [
            "control gate 10.77.1.1/24",
            "control plc 10.77.1.2/24",
            "office db 10.77.2.1/24",
            "office plc 10.77.2.7/24"
        ]
    );
}

#[test]
fn a_partition_knows_those_it_shares_a_network_with_and_itself() {
    let names = |set: &PartitionSet, who: &str| {
        let names = set.names_for(who).expect("addresses");
        names.iter().map(|named| format!("{} {}", named.address, named.name)).collect::<Vec<_>>().join(", ")
    };
    let set = plant();
    assert_eq!(names(&set, "plc"), "10.77.1.1 gate, 10.77.1.2 plc, 10.77.2.1 db, 10.77.2.7 plc");
    assert_eq!(names(&set, "db"), "10.77.2.1 db, 10.77.2.7 plc");
    let alone = "[partition.a]\nprogram = [\"x\"]\nnetworks = [\"user\"]\n";
    assert_eq!(names(&PartitionSet::from_toml(alone, "s").expect("a set"), "a"), "127.0.1.1 a");
    let strange = PLANT.replace("partition.gate", "partition.localhost");
    let set = PartitionSet::from_toml(&strange, "s").expect("a set");
    assert_eq!(names(&set, "plc"), "10.77.1.2 plc, 10.77.2.1 db, 10.77.2.7 plc");
}

#[test]
fn what_is_wrong_is_told_with_its_line() {
    for (from, to, line, part) in [
        ("cpus = 2", "cpu = 2", 16, "did you mean \"cpus\"?"),
        ("cpus = 2", "cpus = 0", 16, "partition.plc.cpus: 0 is out of bounds; allowed is 1 to 255"),
        ("cpus = 2", "cpus = -1", 16, "invalid value"),
        ("after = [\"db\"]", "after = [\"bd\"]", 23, "there is no partition \"bd\""),
        ("after = [\"db\"]", "after = [\"plcc\"]", 23, "did you mean \"plc\"?"),
        ("after = [\"db\"]", "after = [\"plc\"]", 23, "cannot wait for itself"),
        ("networks = [\"control\"]", "networks = [\"contrl\"]", 24, "did you mean \"control\"?"),
        ("networks = [\"control\"]", "networks = [\"office\"]", 24, "there twice"),
        ("links = 2", "links = 3", 5, "network.control.links: 3 is out of bounds; allowed is 1 to 2"),
        ("10.77.2.0/24", "10.77.2.1/24", 8, "ends with zeros"),
        ("10.77.2.0/24", "10.77.2.0/30", 8, "prefix of 8 to 24"),
        ("10.77.2.0/24", "10.0.0.0/8", 8, "addresses of network \"user\""),
        ("memory_mib = 512", "memory_mib = 127", 18, "a guest boots with at least 128 MiB, got 127 MiB"),
        ("memory_mib = 512", "memory_mib = 16777217", 18, "allowed is 128 to 16777216"),
        ("realtime = 50", "realtime = 50\nnice = 1", 20, "either nice or realtime"),
        ("realtime = 50", "realtime = 100", 19, "allowed is 1 to 99"),
        (
            "realtime = 50",
            "realtime = 500",
            19,
            "realtime: invalid value: integer `500`, expected a number from 0 to 255",
        ),
        (
            "memory_mib = 512",
            "memory_mib = -5",
            18,
            "memory_mib: invalid value: integer `-5`, expected a number from 0 on",
        ),
        (
            "realtime = 50",
            "restart = \"sometimes\"",
            19,
            "restart: unknown variant `sometimes`, expected one of `never`",
        ),
        ("realtime = 50", "ports = [\"1:99999:80\"]", 19, "ports: wanted [ADDRESS:]HOST-PORT:PORT"),
        ("realtime = 50", "ready = { tcp = 70000 }", 19, "tcp: invalid value: integer `70000`"),
        ("realtime = 50", "files = \"systme\"", 19, "did you mean \"system\"?"),
        ("pin = \"2-3\"", "pin = \"3-2\"", 17, "wanted numbers such as 0-3,8"),
        ("pin = \"2-3\"", "pin = \"\"", 17, "got none"),
        ("\"/var/lib/plc\"", "\"lib/plc\"", 20, "wanted a path from /"),
        ("/opt/a:/srv", "/opt/a", 21, "wanted \"/on/the/host:/in/the/partition\""),
        ("number = 7", "number = 251", 26, "allowed is 1 to 250"),
        ("bytes_per_s = 30000000", "bytes_per_s = 0", 31, "would stop the disk"),
        ("/var/lib/gate.img", "/var/lib/x.img", 31, "what is shared must be read_only"),
        ("image = true", "image = true\nprogram = [\"a\"]", 36, "either program or image"),
        ("image = true", "image = true\nuser = \"a\"", 37, "this is an image"),
        ("disk = [{ file = \"/var/lib/gate.img\" }]", "", 36, "wanted a disk that boots"),
        ("readers = [\"db\"]", "readers = [\"plc\"]", 43, "twice, or writes"),
        ("size_mib = 16", "size_mib = 15", 44, "power of two"),
        ("[network.control]", "[network.user]", 4, "QEMU's own network"),
        ("[partition.db]", "[partition.\"d b\"]", 10, "wanted letters, digits"),
        ("networks = [\"office\"]", "restart = \"alwys\"", 12, "did you mean \"always\"?"),
        ("name = \"plant\"", "name = \"../x\"", 2, "wanted letters, digits"),
        ("name = \"plant\"", "name = ", 2, ""),
    ] {
        let (got, problem) = error(from, to);
        assert!(problem.contains(part), "{to}: {problem}");
        assert_eq!(got, Some(line), "{to}: {problem}");
    }
}

/// Of every kind: no such key, a wrong type, a value that does not fit, a name nobody has, a rule over several entries.
#[test]
fn all_mistakes_are_told_at_once_in_the_order_of_the_file() {
    let text = "acelerator = \"tcg\"\n[network.a]\nlinks = 3\nsubnet = \"10.0.2.0/24\"\n\
                [partition.z]\nprogram = [\"z=1\", 5]\nafter = [\"y\"]\ncpus = 0\n\
                [partition.y]\nprogram = [\"y\"]\nafter = [\"x\"]\nmemory_mib = 64\nnetworks = [\"b\"]\n\
                [partition.x]\nprogram = [\"x\"]\nafter = [\"y\", \"nobody\"]\nrestart_limit = 0\nworkdir = \"here\"\n\
                [[partition.x.card]]\nnetwork = \"a\"\nnumbr = 3\n[channel.c]\nwriter = \"x\"\nreaders = [\"q\"]\nsize_mib = 3\n";
    let errors = PartitionSet::from_toml(text, "s").expect_err("nearly all is wrong").to_string();
    let wanted = [
        "line 1: unknown field `acelerator`",
        "line 3: network.a.links: 3 is out of bounds",
        "line 4: network.a.subnet: 10.0.2.0/24 are addresses of network",
        "line 6: program: invalid type: integer `5`",
        "line 8: partition.z.cpus: 0",
        "line 12: partition.y.memory_mib: a guest boots with at least 128 MiB",
        "line 13: partition.y.networks: there is no network \"b\"",
        "line 16: partition.x.after: they wait for each other: x after y after x",
        "line 16: partition.x.after: there is no partition \"nobody\"",
        "line 17: partition.x.restart_limit: 0",
        "line 18: partition.x.workdir: wanted a path",
        "line 21: unknown field `numbr`",
        "line 24: channel.c.readers: there is no partition \"q\"",
        "line 25: channel.c.size_mib: wanted a power of two",
    ];
    let lines: Vec<&str> = errors.lines().collect();
    assert_eq!(lines.len(), wanted.len(), "{errors}");
    for (line, wanted) in lines.iter().zip(wanted) {
        assert!(line.starts_with(wanted), "{wanted}: {errors}");
    }
}

/// Regression: a table that a set does not have, and a key like one that is there, hid what has nothing to do with them; of a text
/// that is no TOML the first mistake of each line is told, and one alone where something stays open.
#[test]
fn a_misspelt_table_or_key_hides_only_what_may_name_it() {
    let text = "[network.n]\nlinks = 9\n[partitions.b]\nprogram = [\"/bin/true\"]\n[partition.a]\nprogram = [\"/bin/true\"]\n\
                memory_mib = 1\nafter = [\"b\"]\nready2 = 1\nready = { tcp = 80, file = \"/x\" }\n[nett.x]\ny = 1\n";
    let lines = |text: &str| -> Vec<Option<usize>> {
        let errors = PartitionSet::from_toml(text, "s").expect_err("much is wrong");
        errors.0.iter().map(|error| error.line).collect()
    };
    assert_eq!(lines(text), [2, 3, 7, 9, 10, 11].map(Some));
    assert_eq!(
        lines("[partition.a]\nprogram = [\"x\"]\ncpus = \n[network.n]\nlinks = = 3\n"),
        [Some(3), Some(5)]
    );
    assert_eq!(lines("[partition.a]\nprogram = [\"x]\ncpus = 1\n[network.n\nlinks = = 3\n"), [Some(2)]);
    assert_eq!(lines("[networks.n]\n[partition.a]\nprogram = [\"x\"]\nnetworks = [\"n\"]\n"), [Some(1)]);
}

/// Regression: a second table of a name hid all that was wrong elsewhere.
#[test]
fn what_is_there_twice_hides_nothing_else() {
    let text = "[partition.a]\nprogram = [\"x\"]\ncpus = 0\n[partition.b]\nprogram = [\"y\"]\nafter = [\"c\"]\n\
                [partition.a]\nmemory_mib = 1\ncpus = 2\n";
    let errors = PartitionSet::from_toml(text, "s").expect_err("much is wrong").to_string();
    let lines: Vec<&str> = errors.lines().collect();
    let wanted = [
        "line 3: partition.a.cpus: 0",
        "line 6: partition.b.after: there is no partition \"c\"",
        "line 7: a is there twice",
        "line 8: partition.a.memory_mib",
        "line 9: cpus is there twice",
    ];
    assert_eq!(lines.len(), wanted.len(), "{errors}");
    assert!(lines.iter().zip(wanted).all(|(line, wanted)| line.starts_with(wanted)), "{errors}");
}

/// What could not be read hides only what may come from it, in lists each thing alone; those after it keep their lines.
#[test]
fn what_cannot_be_read_hides_nothing_else() {
    let text = "[partition.a]\nprogram = [\"\"]\nmemory_mib = 64\ncpus = 0\nports = [\n  \"x\",\n  \"80:80\",\n  \"y\",\n  \"80:81\",\n]\n\
                [partition.b]\nprogramm = [\"x\"]\nafter = [\"nobody\"]\nnetworks = [\"none\"]\nhealth = { tcp = 0 }\n\
                [partition.c]\nprogram = [\"x\"]\nready = { prot = 80 }\ndisk = [{ fil = \"/x\" }, { file = \"x\" }]\n\
                [channel.d]\nwriter = \"a\"\nreaders = [\"nobody\"]\nsize = 3\n[volumes]\nx = 1\n";
    let errors = PartitionSet::from_toml(text, "s").expect_err("nearly all is wrong").to_string();
    let wanted = [
        "line 2: partition.a.program: the first word",
        "line 3: partition.a.memory_mib: a guest boots",
        "line 4: partition.a.cpus: 0",
        "line 6: wanted [ADDRESS:]HOST-PORT:PORT, such as 8080:80 or 127.0.0.1:8080:80, got \"x\"",
        "line 8: wanted [ADDRESS:]HOST-PORT:PORT, such as 8080:80 or 127.0.0.1:8080:80, got \"y\"",
        "line 9: partition.a.ports: port 80 of this host leads",
        "line 12: unknown field `programm`",
        "line 13: partition.b.after: there is no partition \"nobody\"",
        "line 14: partition.b.networks: there is no network \"none\"",
        "line 15: partition.b.health: tcp: wanted a port",
        "line 18: unknown field `prot`",
        "line 19: unknown field `fil`",
        "line 19: partition.c.disk: wanted a path from /",
        "line 23: unknown field `size`",
        "line 24: unknown field `volumes`",
    ];
    let lines: Vec<&str> = errors.lines().collect();
    assert_eq!(lines.len(), wanted.len(), "{errors}");
    for (line, wanted) in lines.iter().zip(wanted) {
        assert!(line.starts_with(wanted), "{wanted}: {errors}");
    }
}

/// Regression: two on one line were told as they were found, and of a key that the file's reader had refused this host said more.
#[test]
fn mistakes_of_one_line_have_its_order_and_no_key_is_refused_twice() {
    let text = "[partition.a]\nimage = \"./x\"\nready = { within_s = 0, tcp = 0 }\ndisk = [{ file = \"x\", cache = 1 }]\n";
    let mut read = ReadSet::of(text, "s");
    let again = Fault::new(&["partition", "a", "image"], "there is no such folder");
    let other = Fault::new(&["partition", "a", "kernel"], "it cannot be read");
    read.add(vec![again, other], FoundBy::Host, text);
    let errors = read.into_errors().0;
    let offsets: Vec<_> = errors.iter().map(|error| error.offset).collect();
    assert!(offsets.is_sorted(), "{errors:?}");
    assert_eq!(errors.iter().filter(|error| error.line == Some(2)).count(), 1, "{errors:?}");
    assert!(errors.iter().any(|error| error.problem.contains("cannot be read")), "{errors:?}");
}

#[test]
fn a_loop_is_told_by_the_names_on_it() {
    let (line, problem) = error("networks = [\"office\"]", "after = [\"gate\"]");
    assert_eq!(line, Some(12), "{problem}");
    assert!(problem.ends_with("they wait for each other: db after gate after plc after db"), "{problem}");
    // Who only waits for a loop is not on it.
    let text = format!(
        "{PLANT}\n[partition.a]\nprogram = [\"a\"]\nafter = [\"b\"]\n[partition.b]\nprogram = [\"a\"]\nafter = [\"c\"]\n\
                        [partition.c]\nprogram = [\"a\"]\nafter = [\"b\"]\n"
    );
    let problem = PartitionSet::from_toml(&text, "x").expect_err("a loop").to_string();
    assert!(problem.ends_with("partition.b.after: they wait for each other: b after c after b"), "{problem}");
}

#[test]
fn two_real_time_partitions_do_not_share_a_cpu() {
    let (line, problem) = error("image = true", "image = true\npin = \"0,3\"\nrealtime = 1");
    assert_eq!((line, problem.contains("CPU 3 belongs to \"gate\"")), (Some(17), true), "{problem}");
}

#[test]
fn a_number_is_given_once() {
    let (line, problem) =
        error("networks = [\"office\"]", "[[partition.db.card]]\nnetwork = \"office\"\nnumber = 7");
    assert_eq!(line, Some(28), "{problem}");
    assert!(problem.contains("number 7 of network \"office\" is that of partition \"db\""), "{problem}");
}

#[test]
fn a_host_never_promises_memory_twice() {
    let host = |mib, nodes: &[u64]| HostSize {
        cpus: NumberList::of(0..4),
        memory: Mebibytes::from_mib(mib).to_bytes(),
        nodes: (0..)
            .zip(nodes)
            .map(|(number, mib)| HostNode { number, memory: Mebibytes::from_mib(*mib).to_bytes() })
            .collect(),
    };
    assert_eq!(plant().check_on(&host(2048, &[2048])), []);
    let faults = plant().check_on(&host(1024, &[1024]));
    let fault = faults.first().expect("256 + 256 + 512 and QEMU's own");
    assert_eq!(fault.path, ["partition", "plc", "memory_mib"]);
    assert!(fault.problem.contains("needs 1.14 GiB"), "{}", fault.problem);
    let mut set = plant();
    for (change, path, part) in [
        ("node = 1", "node", "there is no memory node 1: there are 0"),
        ("pin = \"2-4\"", "pin", "CPU 4 is not there"),
        ("cpus = 5", "cpus", "5 CPUs are more than the 4 there are"),
    ] {
        let text =
            PLANT.replace(&format!("{path} = "), "#").replace("memory_mib", &format!("{change}\nmemory_mib"));
        set = PartitionSet::from_toml(&text, "x").expect(change);
        let faults = set.check_on(&host(4096, &[4096]));
        let fault = faults.first().expect(change);
        assert_eq!((fault.path[2].as_str(), fault.problem.contains(part)), (path, true), "{}", fault.problem);
    }
    assert_eq!(set.partitions.len(), 3);
    let text = PLANT.replace("memory_mib", "node = 1\nmemory_mib");
    let faults = PartitionSet::from_toml(&text, "x").expect("a set").check_on(&host(4096, &[3840, 256]));
    let fault = faults.first().expect("256 on node 1");
    assert!(fault.problem.contains("memory node 1 has 256 MiB"), "{}", fault.problem);
}
