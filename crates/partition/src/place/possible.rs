//! What a host does not have is refused before anything is made. Pure: holds what is asked against a [`HostTopology`].
//!
//! Three things are allowed that may surprise, and are said as remarks: CPUs outside the memory's node (every access to
//! memory is then a remote one), several virtual CPUs on one host CPU that was named for them, and more CPUs than the
//! host has in a guest that sees several memory nodes: that is a bench for programs that are meant for a bigger machine.

use super::topology::{HIGHEST_PRIORITY, HostNode, HostTopology};
use model::partition::{MOST_CPUS, NumberList, Priority, Resources};
use units::{Bytes, Reason};

/// Most memory nodes of a guest that QEMU takes.
const MOST_GUEST_NODES: u32 = 128;
/// Weights that cgroups take.
const WEIGHTS: std::ops::RangeInclusive<u32> = 1..=10_000;

/// Refuses what the host does not have.
///
/// # Errors
/// What was asked, what there is, what to do.
pub fn check(host: &HostTopology, asked: &Resources) -> Result<(), Reason> {
    numbers(asked)?;
    cpus(host, asked)?;
    memory(host, asked)?;
    if asked.hugepages {
        huge_pages(host, asked)?;
    }
    priority(host, asked.priority)
}

/// What is allowed and may surprise.
pub fn remarks(host: &HostTopology, asked: &Resources) -> Vec<String> {
    let mut all = Vec::new();
    let count = asked.pin.as_ref().unwrap_or(&host.online).numbers().len();
    if asked.cpus as usize > count {
        all.push(format!("{} virtual CPUs take turns on {count} of the host's", asked.cpus));
    }
    if let (Some(pin), Some(node)) = (&asked.pin, asked.node.and_then(|number| host.node(number))) {
        let outside =
            NumberList::of(pin.numbers().iter().copied().filter(|cpu| !node.cpus.numbers().contains(cpu)));
        if !outside.numbers().is_empty() {
            all.push(format!(
                "CPUs {outside} are not of memory node {}, which has CPUs {}: what they read of memory is remote",
                node.number, node.cpus
            ));
        }
    }
    all
}

/// What can be told without a host.
fn numbers(asked: &Resources) -> Result<(), Reason> {
    let within = |what: &str, got: u32, least: u32, most: u32| {
        let wanted = format!("wanted {what} from {least} to {most}, got {got}");
        if (least..=most).contains(&got) { Ok(()) } else { Err(wanted) }
    };
    within("CPUs", asked.cpus, 1, MOST_CPUS)?;
    within("memory nodes for the guest", asked.guest_nodes, 1, MOST_GUEST_NODES.min(asked.cpus))?;
    if let Some(weight) = asked.cpu_weight {
        within("a CPU weight", weight, *WEIGHTS.start(), *WEIGHTS.end())?;
    }
    if let Some(cap) = asked.cpu_cap_percent {
        within("a CPU cap in percent of one CPU", cap, 1, MOST_CPUS * 100)?;
    }
    if asked.memory.get() < u64::from(asked.guest_nodes) {
        return Err(format!(
            "wanted at least 1 MiB of memory for each of the guest's {} nodes, got {} MiB",
            asked.guest_nodes,
            asked.memory.get()
        )
        .into());
    }
    Ok(())
}

fn cpus(host: &HostTopology, asked: &Resources) -> Result<(), Reason> {
    let there = host.online.numbers().len();
    let is_bench = asked.guest_nodes > 1;
    if asked.cpus as usize > there && !is_bench {
        return Err(
            format!("wanted {} CPUs; this host has {there} that run ({})", asked.cpus, host.online).into()
        );
    }
    let node = asked.node.map(|number| existing(host, number)).transpose()?;
    if let Some(pin) = &asked.pin {
        return pins(host, pin);
    }
    let Some(node) = node else { return Ok(()) };
    let there = node.cpus.numbers().len();
    if there == 0 {
        return Err(format!(
            "memory node {} has no CPU that runs: name CPUs of other nodes to use its memory",
            node.number
        )
        .into());
    }
    if asked.cpus as usize > there && !is_bench {
        return Err(format!(
            "wanted {} CPUs on memory node {}, which has {there} that run ({}): ask for fewer, or name the CPUs that \
             are to be shared",
            asked.cpus, node.number, node.cpus
        ).into());
    }
    Ok(())
}

fn pins(host: &HostTopology, pin: &NumberList) -> Result<(), Reason> {
    if pin.numbers().is_empty() {
        return Err(format!("wanted at least one CPU to pin to, got none; CPUs {} run", host.online).into());
    }
    let without = |of: &NumberList| {
        NumberList::of(pin.numbers().iter().copied().filter(|cpu| !of.numbers().contains(cpu)))
    };
    let missing = without(&host.present);
    if !missing.numbers().is_empty() {
        return Err(
            format!("wanted CPUs {pin}; this host has no CPU {missing}, CPUs {} run", host.online).into()
        );
    }
    let offline = without(&host.online);
    if !offline.numbers().is_empty() {
        return Err(format!(
            "wanted CPUs {pin}; CPU {offline} is offline, CPUs {} run: name others, or bring it online through \
             /sys/devices/system/cpu/cpuN/online",
            host.online
        ).into());
    }
    Ok(())
}

fn existing(host: &HostTopology, number: u32) -> Result<&HostNode, Reason> {
    host.node(number)
        .ok_or_else(|| format!("wanted memory node {number}; this host has {}", host.node_numbers()).into())
}

fn memory(host: &HostTopology, asked: &Resources) -> Result<(), Reason> {
    let wanted = asked.memory.to_bytes();
    if wanted > host.memory {
        return Err(format!("wanted {wanted} of memory; this host has {} in all", host.memory).into());
    }
    let node = asked.node.map(|number| existing(host, number)).transpose()?;
    if let Some(node) = node
        && wanted > node.memory
    {
        return Err(format!(
            "wanted {wanted} of memory on node {}, which has {}; {}",
            node.number,
            node.memory,
            others(host)
        )
        .into());
    }
    if asked.hugepages {
        // They are set aside already, and counted by themselves.
        return Ok(());
    }
    match node {
        Some(node) if wanted > node.available => Err(format!(
            "wanted {wanted} of memory on node {}, of whose {} about {} can be had now; {}",
            node.number,
            node.memory,
            node.available,
            others(host)
        )
        .into()),
        _ if wanted > host.available => Err(format!(
            "wanted {wanted} of memory; {} of this host's {} can be had now",
            host.available, host.memory
        )
        .into()),
        _ => Ok(()),
    }
}

/// What each node has, for the message; the first sixteen of them.
fn others(host: &HostTopology) -> String {
    let each =
        host.nodes.iter().take(16).map(|node| format!("node {} about {}", node.number, node.available));
    format!("there can be had: {}", each.collect::<Vec<_>>().join(", "))
}

fn huge_pages(host: &HostTopology, asked: &Resources) -> Result<(), Reason> {
    let size = host.huge.size.get();
    if size == 0 {
        return Err("wanted huge pages, which this host's kernel does not have".into());
    }
    let nodes = u64::from(asked.guest_nodes.max(1));
    let share = asked.memory.get() / nodes;
    let is_whole =
        asked.memory.get().is_multiple_of(nodes) && share.saturating_mul(1 << 20).is_multiple_of(size);
    if !is_whole {
        let step = Bytes::from_bytes(size.saturating_mul(nodes));
        return Err(format!(
            "wanted {} of memory in huge pages of {} for {nodes} memory node(s) of the guest: take a multiple of {step}",
            asked.memory.to_bytes(),
            host.huge.size
        ).into());
    }
    let wanted = asked.memory.to_bytes().get() / size;
    let (free, place, file) = match asked.node.and_then(|number| host.node(number)) {
        Some(node) => (
            node.huge_free,
            format!(" on memory node {}", node.number),
            format!(
                "/sys/devices/system/node/node{}/hugepages/hugepages-{}kB/nr_hugepages",
                node.number,
                size / 1024
            ),
        ),
        None => (host.huge.free, String::new(), "/proc/sys/vm/nr_hugepages".to_owned()),
    };
    if wanted > free {
        return Err(format!(
            "wanted {wanted} huge pages of {}{place}; {free} are reserved and free: write a larger number to {file}",
            host.huge.size
        ).into());
    }
    Ok(())
}

fn priority(host: &HostTopology, asked: Priority) -> Result<(), Reason> {
    let rights = host.rights;
    match asked {
        Priority::Nice(value) if !(-20..=19).contains(&value) => {
            Err(format!("wanted a nice value from -20 to 19, got {value}").into())
        }
        Priority::Nice(value) if value < 0 && value < rights.nice => Err(format!(
            "wanted nice {value}; this user may go down to {}: run as root, or with CAP_SYS_NICE or a higher nice limit",
            rights.nice.min(0)
        ).into()),
        Priority::Realtime(priority) if !(1..=HIGHEST_PRIORITY).contains(&priority) => {
            Err(format!("wanted a real-time priority from 1 to {HIGHEST_PRIORITY}, got {priority}").into())
        }
        Priority::Realtime(priority) if priority > rights.realtime => Err(format!(
            "wanted real-time priority {priority}; this user may have {}: run as root, or with CAP_SYS_NICE or an rtprio \
             limit of {priority}, and with /proc/sys/kernel/sched_rt_runtime_us above 0",
            if rights.realtime == 0 { "none".to_owned() } else { format!("{} at most", rights.realtime) }
        ).into()),
        Priority::Usual | Priority::Nice(_) | Priority::Realtime(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::topology::Rights;
    use super::super::topology::tests::big_host;
    use super::*;
    use units::Mebibytes;

    fn asked(change: impl FnOnce(&mut Resources)) -> Resources {
        let mut asked = Resources::usual(2, Mebibytes::from_mib(64));
        change(&mut asked);
        asked
    }

    fn refused(change: impl FnOnce(&mut Resources)) -> String {
        check(&big_host(), &asked(change)).unwrap_err().into()
    }

    fn list(text: &str) -> NumberList {
        text.parse().unwrap()
    }

    #[test]
    fn what_there_is_may_be_asked_for() {
        let host = big_host();
        assert_eq!(check(&host, &asked(|_| ())), Ok(()));
        assert_eq!(check(&host, &asked(|all| all.cpus = 15)), Ok(()));
        assert_eq!(check(&host, &asked(|all| all.node = Some(3))), Ok(()));
        let huge = |all: &mut Resources| {
            (all.hugepages, all.node, all.memory) = (true, Some(1), Mebibytes::from_mib(16));
        };
        assert_eq!(check(&host, &asked(huge)), Ok(()));
        assert_eq!(check(&host, &asked(|all| all.priority = Priority::Realtime(99))), Ok(()));
    }

    #[test]
    fn every_refusal_says_what_there_is() {
        let said = |text: String, wanted: &[&str]| {
            assert!(wanted.iter().all(|part| text.contains(part)), "{wanted:?}: {text}");
        };
        said(refused(|all| all.cpus = 0), &["CPUs from 1 to 255, got 0"]);
        said(refused(|all| all.cpus = 16), &["wanted 16 CPUs", "15 that run (0-14)"]);
        said(refused(|all| all.pin = Some(list("3,15"))), &["CPU 15 is offline", "0-14 run"]);
        said(refused(|all| all.pin = Some(list("1,40"))), &["no CPU 40", "0-14"]);
        said(refused(|all| all.pin = Some(list(""))), &["at least one CPU"]);
        said(refused(|all| all.node = Some(4)), &["memory node 4", "0-3"]);
        said(
            refused(|all| (all.node, all.cpus) = (Some(3), 4)),
            &["4 CPUs on memory node 3", "3 that run (12-14)"],
        );
        let memory = |all: &mut Resources, mib| all.memory = Mebibytes::from_mib(mib);
        said(refused(|all| memory(all, 5000)), &["4.88 GiB", "4 GiB in all"]);
        said(refused(|all| memory(all, 3500)), &["3 GiB of this host's 4 GiB can be had now"]);
        said(refused(|all| memory(all, 0)), &["at least 1 MiB"]);
        said(
            refused(|all| {
                memory(all, 700);
                all.node = Some(2);
            }),
            &["700 MiB of memory on node 2", "about 640 MiB", "node 3 about"],
        );
        said(
            refused(|all| {
                memory(all, 1500);
                all.node = Some(2);
            }),
            &["node 2, which has 1 GiB"],
        );
        said(refused(|all| all.guest_nodes = 0), &["nodes for the guest from 1 to 2"]);
        said(refused(|all| all.cpu_weight = Some(0)), &["1 to 10000, got 0"]);
        said(refused(|all| all.cpu_cap_percent = Some(0)), &["cap"]);
        said(refused(|all| all.priority = Priority::Nice(20)), &["-20 to 19, got 20"]);
        said(refused(|all| all.priority = Priority::Realtime(100)), &["1 to 99, got 100"]);
    }

    #[test]
    fn huge_pages_must_be_reserved_where_they_are_wanted() {
        let huge = |node, mib, guest_nodes| {
            refused(|all| {
                (all.hugepages, all.node, all.memory) = (true, node, Mebibytes::from_mib(mib));
                all.guest_nodes = guest_nodes;
            })
        };
        assert!(huge(Some(0), 16, 1).contains("8 huge pages of 2 MiB on memory node 0; 0 are reserved"));
        assert!(huge(None, 18, 1).contains("9 huge pages of 2 MiB; 8 are reserved"));
        assert!(huge(None, 7, 1).contains("take a multiple of 2 MiB"));
        assert!(huge(None, 6, 2).contains("take a multiple of 4 MiB"));
    }

    #[test]
    fn rights_are_looked_at() {
        let mut host = big_host();
        host.rights = Rights { realtime: 10, nice: 0 };
        let with = |priority| check(&host, &asked(|all| all.priority = priority));
        assert!(with(Priority::Realtime(11)).unwrap_err().to_string().contains("may have 10 at most"));
        assert!(with(Priority::Nice(-1)).unwrap_err().to_string().contains("down to 0"));
        assert_eq!((with(Priority::Realtime(10)), with(Priority::Nice(5))), (Ok(()), Ok(())));
    }

    #[test]
    fn a_bench_may_have_more_cpus_than_the_host_and_it_is_said() {
        let host = big_host();
        let bench = asked(|all| (all.cpus, all.guest_nodes) = (64, 4));
        assert_eq!(check(&host, &bench), Ok(()));
        assert_eq!(remarks(&host, &bench), ["64 virtual CPUs take turns on 15 of the host's"]);
        let remote = asked(|all| (all.pin, all.node) = (Some(list("3-5")), Some(1)));
        assert_eq!(check(&host, &remote), Ok(()));
        assert!(remarks(&host, &remote)[0].contains("CPUs 3 are not of memory node 1"));
        assert_eq!(remarks(&host, &asked(|_| ())), Vec::<String>::new());
    }
}
