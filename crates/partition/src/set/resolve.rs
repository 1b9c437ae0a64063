//! From a set to what supervisors are told: one unit spec for each partition and each switch, with paths, users and addresses.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::channels;
use super::folder::of_link;
use super::images::Images;
use crate::image::{Image, Overrides, Ready};
use crate::network::hardware_prefix;
use crate::network::switch::socket_name;
use crate::run::{named_by_path, shown_unasked};
use crate::{given_files, users, volume};
use model::partition::set::{
    ChannelEntry, Fault, Faults, HostNode, HostSize, PartitionEntry, PartitionSet, PartitionUnit, SwitchUnit,
    Tools, USER_NETWORK, UnitSpec, Wiring, ascending,
};
use model::partition::{
    Bind, CardSpec, Content, Files, ImageEntry, LayerSpec, NumberList, PartitionSpec, Priority, Program,
    Resources, SecretSpec, SectionSpec, Volume, Word,
};
use platforms::spawn::own_cpus;
use units::Bytes;

/// Longest path of a Unix socket: `sun_path` of unix(7) with its final zero.
const LONGEST_SOCKET_PATH: usize = 107;
/// Socket in a partition's folder at which sessions with it come in.
pub const DOOR: &str = "sessions.sock";

/// What is kept for a set, in the order of starting: switches, then partitions after those they wait for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kept {
    /// Folder in that of the set: `p/plc`, `n/control.0`.
    pub folder: String,
    /// Folders of what must run before.
    pub after: Vec<String>,
    /// What its supervisor is told.
    pub unit: UnitSpec,
}

/// Folder of a partition.
pub fn partition_folder(name: &str) -> String {
    format!("p/{name}")
}

/// Folder of the switch of a link.
pub fn switch_folder(link: &str) -> String {
    format!("n/{link}")
}

/// Names of a network's links: `control.0`, `control.1`.
pub fn links(network: &str, links: u8) -> impl Iterator<Item = String> {
    (0..links).map(move |link| format!("{network}.{link}"))
}

/// Everything that is to be kept for `set`, whose folder is `folder`. What is at fault by what cannot be told from the file alone (users,
/// paths that become too long) is left out of it: with faults it is there to be looked at for more of them, and not to be started.
pub fn kept(
    set: &PartitionSet,
    tools: &Tools,
    folder: &Path,
    images: &Images,
    faults: &mut Faults,
) -> Vec<Kept> {
    let wiring = faults.value(set.wiring()).unwrap_or_default();
    let mut kept = Vec::new();
    for (name, network) in &set.networks {
        let Some(wires) = wiring.get(name) else { continue };
        for (link, place) in links(name, network.links).zip(0_u8..) {
            let unit = switch(wires, folder, &link, trunks(name, network.links, place, folder));
            kept.push(Kept { folder: switch_folder(&link), after: Vec::new(), unit: UnitSpec::Switch(unit) });
        }
    }
    // In a loop nobody is first; what else is wrong with those on it is told, too.
    let all = || set.partitions.keys().cloned().collect();
    for name in faults.value(ascending(&set.partitions)).unwrap_or_else(all) {
        let Some(entry) = set.partitions.get(&name) else { continue };
        let cards = faults.value(cards(set, &name, entry, &wiring, folder)).unwrap_or_default();
        let content = content(&name, entry, images, faults);
        let at = |key: &'static str| ["partition", name.as_str(), key];
        let ready = entry.ready.as_ref().and_then(|ready| ready.checked(&at("ready"), faults));
        let health = entry.health.as_ref().and_then(|health| health.checked(&at("health"), faults));
        let spec = PartitionSpec {
            name: name.clone(),
            content,
            resources: resources(entry),
            disks: entry.disks.clone(),
            cards,
            sections: sections(set, &name, folder),
            ports: entry.ports.clone(),
        };
        let (restart, restart_limit, tools) = (entry.restart, entry.restart_limit, tools.clone());
        let unit = PartitionUnit { spec, restart, restart_limit, ready, health, tools };
        let networks = entry
            .plugs()
            .filter_map(|plug| set.networks.get(&plug.network).map(|net| (plug.network, net.links)));
        let switches = networks.flat_map(|(network, count)| links(&network, count).collect::<Vec<_>>());
        let before = switches
            .map(|link| switch_folder(&link))
            .chain(entry.after.iter().map(|other| partition_folder(other)));
        kept.push(Kept {
            folder: partition_folder(&name),
            after: before.collect(),
            unit: UnitSpec::Partition(Box::new(unit)),
        });
    }
    kept
}

/// Where the two switches of a doubled network meet: the first waits for the second.
fn trunks(network: &str, links: u8, place: u8, folder: &Path) -> (Option<PathBuf>, Option<PathBuf>) {
    let meeting = (links > 1).then(|| of_link(folder, &format!("{network}.0")).join("trunk"));
    if place == 0 { (meeting, None) } else { (None, meeting) }
}

fn switch(
    wires: &Wiring,
    folder: &Path,
    link: &str,
    trunk: (Option<PathBuf>, Option<PathBuf>),
) -> SwitchUnit {
    let limited =
        wires.members.values().filter_map(|member| Some((member.number, member.bytes_per_s?.get())));
    let mut rates: Vec<(u8, u64)> = limited.collect();
    rates.sort_unstable();
    SwitchUnit {
        link: of_link(folder, link),
        prefix: hardware_prefix(&wires.subnet.address(1)).ok(),
        rates,
        trunk_at: trunk.0,
        trunk_to: trunk.1,
    }
}

fn cards(
    set: &PartitionSet,
    name: &str,
    entry: &PartitionEntry,
    wiring: &BTreeMap<String, Wiring>,
    folder: &Path,
) -> Result<Vec<CardSpec>, Fault> {
    let mut cards = Vec::new();
    for plug in entry.plugs() {
        if plug.network == USER_NETWORK {
            cards.push(CardSpec::User);
            continue;
        }
        let (Some(network), Some(wires)) = (set.networks.get(&plug.network), wiring.get(&plug.network))
        else {
            continue;
        };
        let Some(member) = wires.members.get(name) else { continue };
        let socket = |link: String| of_link(folder, &link).join(socket_name(member.number));
        let sockets: Vec<PathBuf> = links(&plug.network, network.links).map(socket).collect();
        if let Some(long) = sockets.iter().find(|path| path.as_os_str().len() > LONGEST_SOCKET_PATH) {
            let problem = format!(
                "its socket {} would have {} bytes, sockets have at most {LONGEST_SOCKET_PATH}: use shorter names, or a \
                 shorter folder in {}",
                long.display(),
                long.as_os_str().len(),
                super::root::STATE_VARIABLE
            );
            return Err(Fault::new(&["partition", name], problem));
        }
        cards.push(CardSpec::Switch {
            address: wires.subnet.address(member.number),
            network: plug.network,
            sockets,
            number: member.number,
        });
    }
    Ok(cards)
}

/// Channels of a partition, by name.
fn sections(set: &PartitionSet, partition: &str, folder: &Path) -> Vec<SectionSpec> {
    let section = |(name, channel, writable): (&str, &ChannelEntry, bool)| SectionSpec {
        name: name.to_owned(),
        path: folder.join(channels::FOLDER).join(name),
        size_mib: channel.size_mib,
        writable,
    };
    set.channels_of(partition).map(section).collect()
}

/// What an entry is granted.
pub fn resources(entry: &PartitionEntry) -> Resources {
    let priority = match (entry.nice, entry.realtime) {
        (_, Some(priority)) => Priority::Realtime(priority),
        (Some(nice), None) => Priority::Nice(nice),
        (None, None) => Priority::Usual,
    };
    Resources {
        cpus: entry.cpus,
        pin: entry.pin.clone(),
        memory: entry.memory_mib,
        node: entry.node,
        hugepages: entry.hugepages,
        priority,
        cpu_weight: entry.cpu_weight,
        cpu_cap_percent: entry.cpu_cap_percent,
        guest_nodes: entry.guest_nodes,
    }
}

fn content(name: &str, entry: &PartitionEntry, images: &Images, faults: &mut Faults) -> Content {
    let base = match (&entry.image, images.get(name)) {
        (ImageEntry::Disk(true), _) => return Content::Image,
        (ImageEntry::Disk(false), _) => of_host(name, entry, files(&entry.files), faults),
        (ImageEntry::Root(_), Some(Ready::Image(image))) => of_image(name, entry, image, faults),
        (ImageEntry::Root(_), Some(Ready::Root(_))) if entry.program.is_empty() => {
            let problem = "this folder is a root as it is and says no program: program = [\"…\"] was wanted";
            faults.add(&["partition", name, "image"], problem);
            Program::default()
        }
        (ImageEntry::Root(_), Some(Ready::Root(root))) => {
            of_host(name, entry, Files::Tree(root.clone()), faults)
        }
        // It is at fault, which is told already, or was not made ready because others are.
        (ImageEntry::Root(_), None) => Program::default(),
    };
    let secret = |(name, from): (&String, &PathBuf)| SecretSpec { name: name.clone(), from: from.clone() };
    let bind = |text: &String| {
        let (from, to) = text.split_once(':').unwrap_or((text, text));
        Bind { from: PathBuf::from(from), to: PathBuf::from(to) }
    };
    Content::Program(Box::new(Program {
        volumes: volumes(name, entry, faults),
        layer: entry
            .save
            .as_ref()
            .map(|folder| LayerSpec { folder: folder.clone(), size_mib: entry.save_size_mib }),
        writable: entry.rw.clone(),
        binds: entry.bind.iter().map(bind).collect(),
        hostname: entry.hostname.clone(),
        secrets: entry.secrets.iter().map(secret).collect(),
        ..base
    }))
}

/// Where its volumes lie.
fn volumes(name: &str, entry: &PartitionEntry, faults: &mut Faults) -> Vec<Volume> {
    if entry.volumes.is_empty() {
        return Vec::new();
    }
    let root = volume::root().map_err(|problem| Fault::new(&["partition", name, "volumes"], problem));
    let Some(root) = faults.value(root) else { return Vec::new() };
    entry.volumes.iter().map(|volume| volume.within(&root)).collect()
}

fn files(named: &str) -> Files {
    match named {
        "system" => Files::System,
        "all" | "host" => Files::All,
        "none" => Files::None,
        tree => Files::Tree(PathBuf::from(tree)),
    }
}

fn bytes(text: &str) -> Word {
    text.as_bytes().to_vec()
}

/// A program of the host, or of a tree as it is.
fn of_host(name: &str, entry: &PartitionEntry, files: Files, faults: &mut Faults) -> Program {
    let found = users::find(entry.user.as_deref())
        .map_err(|problem| Fault::new(&["partition", name, "user"], problem));
    let found = faults.value(found);
    let given = variables(name, entry, faults);
    let home = found.as_ref().map_or("/", |found| found.home.as_str());
    let usual = [("HOME", home), ("PATH", users::USUAL_PATH)];
    let mut env: BTreeMap<Word, Word> =
        usual.into_iter().map(|(name, value)| (bytes(name), bytes(value))).collect();
    env.extend(given);
    Program {
        argv: entry.program.iter().map(|word| bytes(word)).collect(),
        env: env.into_iter().collect(),
        workdir: entry.workdir.clone(),
        user: found.map(|found| found.ids).unwrap_or_default(),
        readable: if files == Files::System { readable(entry) } else { entry.ro.clone() },
        files,
        ..Program::default()
    }
}

/// The program of an image; what the set says counts before what that says.
fn of_image(name: &str, entry: &PartitionEntry, image: &Image, faults: &mut Faults) -> Program {
    let env = variables(name, entry, faults);
    let said = Some(entry.workdir.as_path()).filter(|folder| *folder != PartitionEntry::default().workdir);
    let overrides = Overrides {
        words: entry.program.iter().map(|word| bytes(word)).collect(),
        env,
        workdir: said,
        user: entry.user.as_deref(),
        ..Overrides::default()
    };
    let program =
        image.program(overrides).map_err(|problem| Fault::new(&["partition", name, "image"], problem));
    faults.value(program).unwrap_or_default()
}

/// Those of its files and its own.
fn variables(name: &str, entry: &PartitionEntry, faults: &mut Faults) -> Vec<(Word, Word)> {
    let mut all = Vec::new();
    for (item, path) in entry.env_file.iter().enumerate() {
        let fault = |problem| Fault::new(&["partition", name, "env_file"], problem).item(item);
        all.extend(faults.value(given_files::variables(path).map_err(fault)).unwrap_or_default());
    }
    all.extend(entry.env.iter().map(|(name, value)| (bytes(name), bytes(value))));
    all
}

/// What a program sees besides the system: what was named, and the folder it starts in.
fn readable(entry: &PartitionEntry) -> Vec<PathBuf> {
    let folder = shown_unasked(&entry.workdir).is_ok().then(|| entry.workdir.clone());
    let itself = entry.program.first().and_then(|name| named_by_path(Path::new(name), &entry.workdir));
    entry.ro.iter().cloned().chain(folder).chain(itself).collect()
}

/// What this host has.
pub fn host_size() -> HostSize {
    let text = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    // Both files have the figure in KiB, `meminfo` of a node with its number in front.
    let total = |meminfo: &str| {
        let words = meminfo.lines().find_map(|line| line.split_once("MemTotal:"))?.1;
        let kib: u64 = words.split_whitespace().next()?.parse().ok()?;
        Some(Bytes::from_bytes(kib.saturating_mul(1024)))
    };
    let nodes: NumberList = text("/sys/devices/system/node/online").parse().unwrap_or_default();
    let node = |number: &u32| {
        let memory = total(&text(&format!("/sys/devices/system/node/node{number}/meminfo")))?;
        Some(HostNode { number: *number, memory })
    };
    HostSize {
        cpus: NumberList::of(own_cpus().into_iter().filter_map(|cpu| u32::try_from(cpu).ok())),
        memory: total(&text("/proc/meminfo")).unwrap_or(Bytes::from_bytes(u64::MAX)),
        nodes: nodes.numbers().iter().filter_map(node).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::experiment::Accelerator;

    const TEXT: &str = "name = \"s\"\n[network.a]\nlinks = 2\n[partition.x]\nprogram = [\"true\"]\nuser = \"root\"\nafter = [\"y\"]\n\
                        networks = [\"a\", \"user\"]\n[partition.y]\nprogram = [\"/bin/true\"]\nfiles = \"none\"\nnice = -5\n\
                        card = [{ network = \"a\", bytes_per_s = 5000 }]\n";

    fn tools() -> Tools {
        let accelerator = Accelerator::Tcg;
        Tools {
            accelerator,
            cache: "/c".into(),
            qemu: None,
            kernel: None,
            modules: None,
            boot_deadline_s: None,
        }
    }

    fn resolved(set: &PartitionSet, folder: &Path) -> Result<Vec<Kept>, Vec<Fault>> {
        let mut faults = Faults::default();
        let kept = kept(set, &tools(), folder, &Images::new(), &mut faults);
        let faults = Vec::from(faults);
        if faults.is_empty() { Ok(kept) } else { Err(faults) }
    }

    #[test]
    fn switches_come_first_then_partitions_after_those_they_wait_for() {
        let set = PartitionSet::from_toml(TEXT, "s").expect("a set");
        let kept = resolved(&set, Path::new("/run/b/s")).expect("resolved");
        let folders: Vec<&str> = kept.iter().map(|kept| kept.folder.as_str()).collect();
        assert_eq!(folders, ["n/a.0", "n/a.1", "p/y", "p/x"]);
        assert_eq!(kept[3].after, ["n/a.0", "n/a.1", "p/y"]);
        let UnitSpec::Switch(first) = &kept[0].unit else { panic!("a switch") };
        assert_eq!(first.rates, [(2, 5000)]);
        assert_eq!(first.trunk_at.as_deref(), Some(Path::new("/run/b/s/l/a.0/trunk")));
        let UnitSpec::Partition(x) = &kept[3].unit else { panic!("a partition") };
        let sockets = vec![PathBuf::from("/run/b/s/l/a.0/1.sock"), PathBuf::from("/run/b/s/l/a.1/1.sock")];
        let card = CardSpec::Switch {
            network: "a".to_owned(),
            sockets,
            number: 1,
            address: "10.77.1.1/24".to_owned(),
        };
        assert_eq!(x.spec.cards, [card, CardSpec::User]);
        let Content::Program(program) = &x.spec.content else { panic!("a program") };
        assert!(program.env.contains(&(b"HOME".to_vec(), b"/root".to_vec())), "{:?}", program.env);
        let UnitSpec::Partition(y) = &kept[2].unit else { panic!("a partition") };
        assert_eq!(y.spec.resources.priority, Priority::Nice(-5));
    }

    #[test]
    fn a_channel_is_a_section_of_all_that_have_it_by_name() {
        let text = "[partition.z]\nprogram = [\"/bin/true\"]\n[channel.b]\nwriter = \"x\"\nreaders = [\"y\"]\nsize_mib = 2\n\
                    [channel.a]\nwriter = \"y\"\nreaders = [\"x\"]\nsize_mib = 4\n";
        let set = PartitionSet::from_toml(&format!("{TEXT}{text}"), "s").expect("a set");
        let kept = resolved(&set, Path::new("/run/b/s")).expect("resolved");
        let sections = |folder: &str| -> Vec<String> {
            let unit = &kept.iter().find(|kept| kept.folder == folder).expect("kept").unit;
            let UnitSpec::Partition(unit) = unit else { panic!("a partition") };
            let words = |section: &SectionSpec| {
                let SectionSpec { path, size_mib, writable, .. } = section;
                format!("{} {} {writable}", path.display(), size_mib.get())
            };
            unit.spec.sections.iter().map(words).collect()
        };
        assert_eq!(sections("p/x"), ["/run/b/s/c/a 4 false", "/run/b/s/c/b 2 true"]);
        assert_eq!(sections("p/y"), ["/run/b/s/c/a 4 true", "/run/b/s/c/b 2 false"]);
        assert!(sections("p/z").is_empty());
    }

    #[test]
    fn what_only_the_host_can_tell_is_told() {
        let set = PartitionSet::from_toml(&TEXT.replace("root", "no-such-user"), "s").expect("a set");
        let fault = resolved(&set, Path::new("/run")).expect_err("no user").remove(0);
        assert_eq!(
            (fault.path.join("."), fault.problem.contains("no user")),
            ("partition.x.user".to_owned(), true)
        );
        let set = PartitionSet::from_toml(TEXT, "s").expect("a set");
        let fault =
            resolved(&set, Path::new(&format!("/{}", "a".repeat(100)))).expect_err("too long").remove(0);
        assert!(fault.problem.contains("at most 107"), "{}", fault.problem);
        let host = host_size();
        assert!(!host.cpus.numbers().is_empty() && host.memory.get() > 1 << 26, "{host:?}");
    }

    #[test]
    fn what_supervisors_are_told_reads_back_the_same() {
        let set = PartitionSet::from_toml(TEXT, "s").expect("a set");
        for kept in resolved(&set, Path::new("/run/b/s")).expect("resolved") {
            let text = serde_json::to_vec(&kept.unit).expect("written");
            assert_eq!(serde_json::from_slice::<UnitSpec>(&text).expect("read"), kept.unit);
        }
    }
}
