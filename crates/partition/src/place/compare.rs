//! What was asked against what was given. Pure: every value that was asked for is looked at, nothing else.

use super::{priority, threads};
use model::partition::{
    Difference, DiskSpec, Given, GivenCpu, GivenGroupLimit, GivenIoLimit, GivenServer, GroupLimitKind,
    NumberList, Priority, Resources,
};
use units::Bytes;

/// What is not as it was asked; empty when all is. `node_cpus` are those of the node that was asked for, where no CPUs
/// were named.
pub fn differences(
    asked: &Resources,
    node_cpus: Option<&NumberList>,
    disks: &[DiskSpec],
    given: &Given,
) -> Vec<Difference> {
    let mut found = Found::default();
    cpus(asked, node_cpus, given, &mut found);
    memory(asked, given, &mut found);
    found.exactly("cpu_weight", asked.cpu_weight, given.cpu_weight);
    found.exactly("cpu_cap_percent", asked.cpu_cap_percent, given.cpu_cap_percent);
    found.unless_equal("disks", &disks.len().to_string(), &given.disks.len().to_string());
    for (number, (asked, given)) in disks.iter().zip(&given.disks).enumerate() {
        let bytes = |limit: Option<Bytes>| limit.map(Bytes::get);
        found.limit(
            &format!("disks.{number}.bytes_per_s"),
            bytes(asked.bytes_per_s),
            bytes(given.bytes_per_s),
        );
        found.limit(
            &format!("disks.{number}.operations_per_s"),
            asked.operations_per_s,
            given.operations_per_s,
        );
    }
    found.0
}

/// What nobody asked for, and somebody has changed since the partition was started: a weight, a cap, fewer CPUs, another scheduling, a
/// lower limit on a disk of the host; in groups above, and for threads that were put elsewhere, as well; and of the process that serves its
/// files. A limit that was lifted leaves QEMU's own throttle.
pub fn since_start(asked: &Resources, was: &Given, now: &Given) -> Vec<Difference> {
    let mut found = Found::default();
    if asked.cpu_weight.is_none() {
        found.unless_equal("cpu_weight", &word(was.cpu_weight), &word(now.cpu_weight));
    }
    if asked.cpu_cap_percent.is_none() {
        found.unless_equal("cpu_cap_percent", &word(was.cpu_cap_percent), &word(now.cpu_cap_percent));
    }
    for (number, (before, cpu)) in was.cpus.iter().zip(&now.cpus).enumerate() {
        if asked.pin.is_none() && asked.node.is_none() {
            found.fewer(&format!("cpus.{number}.allowed"), before, cpu);
        }
        if asked.priority == Priority::Usual {
            found.unless_equal(&format!("cpus.{number}.scheduling"), &before.scheduling, &cpu.scheduling);
        }
    }
    if let (Some(before), Some(emulator)) = (&was.emulator, &now.emulator) {
        found.fewer("emulator.allowed", before, emulator);
        found.unless_equal("emulator.scheduling", &before.scheduling, &emulator.scheduling);
    }
    if let Some(before) = &was.files {
        server(before, now.files.as_ref(), &mut found);
    }
    for limit in &now.group_limits {
        let is_same = |old: &&GivenGroupLimit| (&old.cgroup, old.what) == (&limit.cgroup, limit.what);
        let old = was.group_limits.iter().find(is_same).map(|old| old.value);
        let is_less = match limit.what {
            GroupLimitKind::CpuWeight => old != Some(limit.value),
            GroupLimitKind::CpuCapPercent | GroupLimitKind::MemoryBytes => {
                old.is_none_or(|old| limit.value < old)
            }
        };
        if is_less {
            found.add(limit.what.as_str(), &word(old), &format!("{} in {}", limit.value, limit.cgroup));
        }
    }
    for limit in &now.io_limits {
        let is_same = |old: &&GivenIoLimit| {
            (&old.cgroup, &old.device, old.what) == (&limit.cgroup, &limit.device, limit.what)
        };
        let old = was.io_limits.iter().find(is_same).map(|old| old.most_per_s);
        if old.is_none_or(|old| limit.most_per_s < old) {
            let what = format!("io.{}.{}", limit.device, limit.what.as_str());
            found.add(&what, &word(old), &format!("{} in {}", limit.most_per_s, limit.cgroup));
        }
    }
    found.0
}

/// What serves its files: each of its threads may run where one could and is scheduled as one was; and the group that weighed it holds
/// it, or another one does, which is told with those of all threads.
fn server(was: &GivenServer, now: Option<&GivenServer>, found: &mut Found) {
    let Some(now) = now else {
        return found.add("files", &format!("served by process {}", was.pid), "served by none");
    };
    if now.cgroup.is_none() {
        found.unless_equal("files.cgroup", &word(was.cgroup.as_ref()), "none");
    }
    let each = |of: &dyn Fn(&GivenCpu) -> String| -> String {
        was.threads.iter().map(of).collect::<Vec<_>>().join(" or ")
    };
    for thread in &now.threads {
        if !was.threads.iter().any(|before| is_within(before, thread)) {
            let before = each(&|before| before.allowed.to_string());
            found.add("files.allowed", &before, &thread.allowed.to_string());
        }
        if !was.threads.iter().any(|before| before.scheduling == thread.scheduling) {
            found.add("files.scheduling", &each(&|before| before.scheduling.clone()), &thread.scheduling);
        }
    }
}

/// Whether a thread may still run on all CPUs on which it could.
fn is_within(before: &GivenCpu, now: &GivenCpu) -> bool {
    before.allowed.numbers().iter().all(|one| now.allowed.numbers().contains(one))
}

#[derive(Default)]
struct Found(Vec<Difference>);

impl Found {
    fn unless_equal(&mut self, what: &str, asked: &str, given: &str) {
        if asked != given {
            self.add(what, asked, given);
        }
    }

    fn fewer(&mut self, what: &str, before: &GivenCpu, now: &GivenCpu) {
        if !is_within(before, now) {
            self.add(what, &before.allowed.to_string(), &now.allowed.to_string());
        }
    }

    /// What was not asked for may be anything.
    fn exactly(&mut self, what: &str, asked: Option<u32>, given: Option<u32>) {
        if asked.is_some() {
            self.unless_equal(what, &word(asked), &word(given));
        }
    }

    /// A limit that nobody asked for would be one, too.
    fn limit(&mut self, what: &str, asked: Option<u64>, given: Option<u64>) {
        self.unless_equal(what, &word(asked), &word(given));
    }

    fn add(&mut self, what: &str, asked: &str, given: &str) {
        self.0.push(Difference { what: what.to_owned(), asked: asked.to_owned(), given: given.to_owned() });
    }
}

fn word<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "none".to_owned(), |value| value.to_string())
}

fn cpus(asked: &Resources, node_cpus: Option<&NumberList>, given: &Given, found: &mut Found) {
    found.unless_equal("cpus", &asked.cpus.to_string(), &given.cpus.len().to_string());
    let sets = threads::wanted(asked, node_cpus);
    for (number, (set, cpu)) in sets.iter().zip(&given.cpus).enumerate() {
        if let Some(set) = set {
            found.unless_equal(&format!("cpus.{number}.allowed"), &set.to_string(), &cpu.allowed.to_string());
        }
        if asked.priority != Priority::Usual {
            let wanted = priority::words(asked.priority);
            found.unless_equal(&format!("cpus.{number}.scheduling"), &wanted, &cpu.scheduling);
        }
    }
}

fn memory(asked: &Resources, given: &Given, found: &mut Found) {
    let have = &given.memory;
    found.unless_equal(
        "memory.size",
        &asked.memory.to_bytes().to_string(),
        &have.size.to_bytes().to_string(),
    );
    if asked.memory != have.size && asked.memory.to_bytes().to_string() == have.size.to_bytes().to_string() {
        // Sizes print rounded.
        let mib = |size: u64| format!("{size} MiB");
        found.add("memory.size", &mib(asked.memory.get()), &mib(have.size.get()));
    }
    if asked.hugepages && !have.hugepages {
        found.add("memory.hugepages", "huge pages", "pages of the usual size");
    }
    let total = || have.present_bytes.iter().map(|(_, bytes)| bytes.get()).fold(0, u64::saturating_add);
    if let Some(node) = asked.node {
        found.unless_equal("memory.nodes", &node.to_string(), &have.nodes.to_string());
        let wanted = asked.memory.to_bytes().get();
        let there =
            have.present_bytes.iter().find(|(number, _)| *number == node).map_or(0, |(_, bytes)| bytes.get());
        if there != wanted || total() != wanted {
            let each = have
                .present_bytes
                .iter()
                .map(|(number, bytes)| format!("{} B on node {number}", bytes.get()));
            let all = each.collect::<Vec<_>>().join(", ");
            let given = if all.is_empty() { "none yet" } else { &all };
            found.add("memory.present", &format!("{wanted} B on node {node}"), given);
        }
    } else if asked.hugepages && total() != asked.memory.to_bytes().get() {
        let given = format!("{} B", total());
        found.add("memory.present", &format!("{} B", asked.memory.to_bytes().get()), &given);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use model::partition::{GivenDisk, GivenMemory, IoLimitKind};
    use units::Mebibytes;

    const NODE_CPUS: &str = "4-7";

    fn lists() -> impl Strategy<Value = NumberList> {
        prop::collection::btree_set(0_u32..16, 1..6).prop_map(NumberList::of)
    }

    fn priorities() -> impl Strategy<Value = Priority> {
        prop_oneof![
            Just(Priority::Usual),
            (-20_i8..=19).prop_map(Priority::Nice),
            (1_u8..=99).prop_map(Priority::Realtime)
        ]
    }

    fn asked() -> impl Strategy<Value = (Resources, Vec<DiskSpec>)> {
        let disk =
            (prop::option::of(1_u64..1000), prop::option::of(1_u64..1000)).prop_map(|(bytes, operations)| {
                let bytes_per_s = bytes.map(Bytes::from_bytes);
                DiskSpec { file: "/x".into(), read_only: false, bytes_per_s, operations_per_s: operations }
            });
        let numbers = (1_u32..6, 1_u64..5000, prop::option::of(0_u32..4));
        let limits = (prop::option::of(1_u32..=10_000), prop::option::of(1_u32..800));
        let rest =
            (prop::option::of(lists()), any::<bool>(), priorities(), prop::collection::vec(disk, 0..3));
        (numbers, limits, rest).prop_map(
            |((cpus, mib, node), (weight, cap), (pin, hugepages, priority, disks))| {
                let resources = Resources {
                    cpus,
                    pin,
                    memory: Mebibytes::from_mib(mib),
                    node,
                    hugepages,
                    priority,
                    cpu_weight: weight,
                    cpu_cap_percent: cap,
                    guest_nodes: 1,
                };
                (resources, disks)
            },
        )
    }

    fn node_cpus(asked: &Resources) -> Option<NumberList> {
        asked.node.filter(|_| asked.pin.is_none()).map(|_| NODE_CPUS.parse().unwrap())
    }

    fn compared(asked: &Resources, disks: &[DiskSpec], given: &Given) -> Vec<String> {
        let all = differences(asked, node_cpus(asked).as_ref(), disks, given);
        all.into_iter().map(|one| one.what).collect()
    }

    /// What a host gives that does all that it was asked for, and more than that.
    fn faithful(asked: &Resources, disks: &[DiskSpec]) -> Given {
        let host: NumberList = "0-15".parse().unwrap();
        let sets = threads::wanted(asked, node_cpus(asked).as_ref());
        let cpu = |(thread, set): (u32, Option<NumberList>)| GivenCpu {
            thread,
            allowed: set.unwrap_or_else(|| host.clone()),
            scheduling: priority::words(asked.priority),
        };
        let disk = |disk: &DiskSpec| GivenDisk {
            bytes_per_s: disk.bytes_per_s,
            operations_per_s: disk.operations_per_s,
        };
        let (node, bytes) = (asked.node.unwrap_or(3), asked.memory.to_bytes());
        Given {
            cpus: (100..).zip(sets).map(cpu).collect(),
            memory: GivenMemory {
                size: asked.memory,
                nodes: NumberList::of(asked.node),
                present_bytes: vec![(node, bytes)],
                hugepages: asked.hugepages,
            },
            cgroup: Some("/sys/fs/cgroup/x".to_owned()),
            cpu_weight: asked.cpu_weight.or(Some(100)),
            cpu_cap_percent: asked.cpu_cap_percent,
            disks: disks.iter().map(disk).collect(),
            ..Given::default()
        }
    }

    #[test]
    fn what_nobody_asked_for_and_somebody_changed_is_told() {
        let limit = |device: &str, most_per_s| GivenIoLimit {
            cgroup: "/g".to_owned(),
            device: device.to_owned(),
            what: IoLimitKind::Wbps,
            most_per_s,
        };
        let given = |allowed: &str, cap, weight, io_limits| Given {
            cpus: vec![GivenCpu {
                thread: 7,
                allowed: allowed.parse().unwrap(),
                scheduling: "usual".to_owned(),
            }],
            cpu_cap_percent: cap,
            cpu_weight: weight,
            io_limits,
            ..Given::default()
        };
        let was = given("0-3", None, Some(100), vec![limit("8:0", 5), limit("8:16", 5), limit("8:32", 5)]);
        let now = given("0-2", Some(5), Some(10), vec![limit("8:0", 4), limit("8:16", 6), limit("7:0", 1)]);
        let told = |asked: &Resources, now: &Given| -> Vec<String> {
            let all = since_start(asked, &was, now).into_iter();
            all.map(|one| format!("{} {} {}", one.what, one.asked, one.given)).collect()
        };
        let usual = Resources::usual(1, Mebibytes::from_mib(64));
        let io = ["io.8:0.wbps 5 4 in /g", "io.7:0.wbps none 1 in /g"];
        let rest = ["cpu_weight 100 10", "cpu_cap_percent none 5", "cpus.0.allowed 0-3 0-2"];
        assert_eq!(told(&usual, &now), [&rest[..], &io[..]].concat());
        let asked = Resources {
            cpu_weight: Some(100),
            cpu_cap_percent: Some(5),
            pin: Some("0-2".parse().unwrap()),
            ..usual.clone()
        };
        assert_eq!(told(&asked, &now), io, "what was asked for is held against that");
        assert_eq!(told(&usual, &was), Vec::<String>::new());
    }

    #[test]
    fn what_groups_above_and_of_threads_set_since_and_how_devices_are_served_is_told() {
        let limit = |cgroup: &str, what, value| GivenGroupLimit { cgroup: cgroup.to_owned(), what, value };
        let given = |allowed: &str, scheduling: &str, group_limits| Given {
            emulator: Some(GivenCpu {
                thread: 7,
                allowed: allowed.parse().unwrap(),
                scheduling: scheduling.to_owned(),
            }),
            group_limits,
            ..Given::default()
        };
        let (weight, cap) = (GroupLimitKind::CpuWeight, GroupLimitKind::CpuCapPercent);
        let memory = GroupLimitKind::MemoryBytes;
        let was = given(
            "0-3",
            "usual",
            vec![limit("/a", weight, 100), limit("/a", cap, 50), limit("/a", memory, 9)],
        );
        let told = |now: &Given| -> Vec<String> {
            let all = since_start(&Resources::usual(1, Mebibytes::from_mib(64)), &was, now).into_iter();
            all.map(|one| format!("{} {} {}", one.what, one.asked, one.given)).collect()
        };
        let now = given(
            "0-1",
            "policy 5",
            vec![limit("/a", weight, 200), limit("/a", cap, 40), limit("/t", cap, 5)],
        );
        let emulator = ["emulator.allowed 0-3 0-1", "emulator.scheduling usual policy 5"];
        let groups =
            ["cpu_weight 100 200 in /a", "cpu_cap_percent 50 40 in /a", "cpu_cap_percent none 5 in /t"];
        assert_eq!(told(&now), [&emulator[..], &groups[..]].concat());
        let more = given(
            "0-4",
            "usual",
            vec![limit("/a", weight, 100), limit("/a", cap, 60), limit("/a", memory, 8)],
        );
        assert_eq!(told(&more), ["memory_bytes 9 8 in /a"], "more is no difference");
        assert_eq!(told(&was), Vec::<String>::new());
    }

    #[test]
    fn what_was_done_to_the_process_that_serves_its_files_is_told() {
        let thread = |allowed: &str, scheduling: &str| GivenCpu {
            thread: 9,
            allowed: allowed.parse().unwrap(),
            scheduling: scheduling.to_owned(),
        };
        let given = |cgroup: Option<&str>, threads| Given {
            files: Some(GivenServer { pid: 9, cgroup: cgroup.map(ToOwned::to_owned), threads }),
            ..Given::default()
        };
        let was = given(Some("/g"), vec![thread("0-3", "usual")]);
        let told = |was: &Given, now: &Given| -> Vec<String> {
            let all = since_start(&Resources::usual(1, Mebibytes::from_mib(64)), was, now).into_iter();
            all.map(|one| format!("{}: {}, {}", one.what, one.asked, one.given)).collect()
        };
        let now = given(None, vec![thread("0-4", "usual"), thread("0-1", "policy 5")]);
        let wanted =
            ["files.cgroup: /g, none", "files.allowed: 0-3, 0-1", "files.scheduling: usual, policy 5"];
        assert_eq!(told(&was, &now), wanted);
        let gone = Given::default();
        assert_eq!(told(&was, &gone), ["files: served by process 9, served by none"]);
        let another = given(Some("/h"), vec![thread("0-3", "usual")]);
        assert_eq!(told(&was, &another), Vec::<String>::new(), "what that group sets is told by itself");
        assert_eq!(told(&gone, &now), Vec::<String>::new(), "of sets that are older nobody knows how it was");
        assert_eq!(told(&was, &was), Vec::<String>::new());
    }

    proptest! {
        #[test]
        fn a_faithful_host_shows_no_difference((asked, disks) in asked()) {
            prop_assert_eq!(compared(&asked, &disks, &faithful(&asked, &disks)), Vec::<String>::new());
        }

        #[test]
        fn every_single_unfaithfulness_is_seen((asked, disks) in asked(), which in 0_usize..64) {
            let sound = faithful(&asked, &disks);
            let last = sound.cpus.len() - 1;
            let mut lies: Vec<(String, Given)> = Vec::new();
            let mut lie = |what: &str, change: &dyn Fn(&mut Given)| {
                let mut given = sound.clone();
                change(&mut given);
                lies.push((what.to_owned(), given));
            };
            lie("cpus", &|given| given.cpus.truncate(last));
            lie("memory.size", &|given| given.memory.size = Mebibytes::from_mib(asked.memory.get() + 1));
            lie("disks", &|given| given.disks.push(GivenDisk::default()));
            if asked.pin.is_some() || asked.node.is_some() {
                let other = "9,17".parse::<NumberList>().unwrap();
                lie(&format!("cpus.{last}.allowed"), &|given| given.cpus[last].allowed = other.clone());
            }
            if asked.priority != Priority::Usual {
                lie(&format!("cpus.{last}.scheduling"), &|given| given.cpus[last].scheduling = "policy 3".to_owned());
            }
            if asked.node.is_some() {
                lie("memory.nodes", &|given| given.memory.nodes = NumberList::default());
                lie("memory.present", &|given| given.memory.present_bytes.push((9, Bytes::from_bytes(4096))));
                lie("memory.present", &|given| given.memory.present_bytes[0].1 = Bytes::from_bytes(4096));
            }
            if asked.hugepages {
                lie("memory.hugepages", &|given| given.memory.hugepages = false);
                lie("memory.present", &|given| given.memory.present_bytes.clear());
            }
            if asked.cpu_weight.is_some() {
                lie("cpu_weight", &|given| given.cpu_weight = None);
            }
            if let Some(cap) = asked.cpu_cap_percent {
                lie("cpu_cap_percent", &|given| given.cpu_cap_percent = Some(cap + 1));
            }
            if !disks.is_empty() {
                lie("disks.0.bytes_per_s", &|given| given.disks[0].bytes_per_s = Some(Bytes::from_bytes(5000)));
                lie("disks.0.operations_per_s", &|given| given.disks[0].operations_per_s = Some(5000));
            }
            let (what, given) = &lies[which % lies.len()];
            prop_assert_eq!(compared(&asked, &disks, given), vec![what.clone()]);
        }
    }
}
