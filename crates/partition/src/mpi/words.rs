//! What Open MPI's launcher is told: its words, and what its environment holds besides the user's.
//!
//! Sources: `orterun(1)` of Open MPI 4.1, its MCA parameters as `ompi_info --all` shows them.

use std::ffi::OsString;
use std::net::Ipv4Addr;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

use super::found::LIBRARY;
use super::layout::Layout;
use super::{AGENT_PATH, PLACES_PATH, TOKEN};
use model::partition::Word;
use platforms::vm::guest::SECTIONS;

/// The partitions' own network; nothing else can be reached through it.
const NETWORK: [u8; 3] = [10, 77, 1];
/// Length of its prefix.
const PREFIX: u8 = 24;
/// Most further ranks that ranks start at once.
const MOST_FURTHER: usize = 4096;
/// Variables of batch systems and of an Open MPI around us: they would tell the launcher that it is a part of those.
const FOREIGN: [&[u8]; 8] =
    [b"SLURM_", b"PBS_", b"LSB_", b"OMPI_COMM_", b"OMPI_UNIVERSE_", b"PMIX_", b"ORTE_", b"PRTE_"];

/// How ranks of several partitions send to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// Through memory that partitions share.
    Channel,
    /// Over the network: Open MPI's own TCP.
    Tcp,
}

/// Number of a partition in the network.
pub fn number(place: usize) -> u8 {
    u8::try_from(place + 1).unwrap_or(u8::MAX)
}

/// Its address.
pub fn address(place: usize) -> Ipv4Addr {
    let [a, b, c] = NETWORK;
    Ipv4Addr::new(a, b, c, number(place))
}

/// The same with the length of the prefix.
pub fn address_with_prefix(place: usize) -> String {
    format!("{}/{PREFIX}", address(place))
}

/// The partition's name, which is its host's.
pub fn name(place: usize) -> String {
    format!("mpi-{}", number(place))
}

/// Lines of Open MPI's sequential mapper (`orterun(1)`): further ranks (`MPI_Comm_spawn`) are where the ranks of their number
/// are, and so on from the first partition. Said one by one, because of all else each of Open MPI 4's daemons makes numbers of
/// its own: it begins with the first partition, the launcher with the one that has room, and two ranks take themselves for
/// the same one. The launcher knows its own host by name alone.
pub fn places(layout: &Layout) -> String {
    let place = |place: usize| if place == 0 { name(0) } else { address(place).to_string() };
    layout
        .homes()
        .into_iter()
        .cycle()
        .take(MOST_FURTHER)
        .fold(String::new(), |lines, at| lines + &place(at) + "\n")
}

/// Words of the launcher that starts `command` with this layout, over channels with the folder of their library, over TCP
/// without. `env` is the user's. `yields` when there are more ranks than CPUs somewhere.
pub fn words(
    launcher: &Path,
    layout: &Layout,
    library: Option<&Path>,
    yields: bool,
    command: &[Word],
    env: &[(Word, Word)],
) -> Vec<Word> {
    let hosts: Vec<String> = layout.homes().into_iter().map(|place| address(place).to_string()).collect();
    let network = format!("{}/{PREFIX}", Ipv4Addr::from([NETWORK[0], NETWORK[1], NETWORK[2], 0]));
    let agent = format!("{AGENT_PATH} agent mpi-launch");
    let mut words: Vec<Word> = vec![launcher.as_os_str().to_owned().into_vec()];
    let mut add = |pieces: &[&str]| words.extend(pieces.iter().map(|piece| piece.as_bytes().to_vec()));
    add(&["--host", &hosts.join(","), "-np", &layout.ranks().to_string()]);
    // A host for each rank, and where a guest's CPUs take turns a bound rank would wait for its own.
    add(&["--map-by", "seq", "--bind-to", "none"]);
    for (name, value) in [
        ("plm", "rsh"),
        ("plm_rsh_agent", agent.as_str()),
        // Each daemon is started from the first partition, and the agent stays for as long as it runs.
        ("plm_rsh_no_tree_spawn", "1"),
        ("orte_leave_session_attached", "1"),
        ("oob_tcp_if_include", network.as_str()),
        // Ranks may start further ones, beside themselves, placed and unbound as they are. Over channels those refuse to begin:
        // that says why, Open MPI would speak of nodes that are filled.
        ("rmaps_base_oversubscribe", "1"),
        ("rmaps_base_inherit", "1"),
        ("orte_default_hostfile", PLACES_PATH),
    ] {
        add(&["--mca", name, value]);
    }
    if yields {
        add(&["--mca", "mpi_yield_when_idle", "1"]);
    }
    let how: &[(&str, &str)] = match library {
        // Named one by one, so that a library that does not load is an error and nothing else is taken in its place.
        Some(_) => {
            &[
                ("pml", "cm"),
                ("mtl", "ofi"),
                ("mtl_ofi_provider_include", "bulkhead"),
                ("btl", "self"),
                // Windows within a partition, or over messages: the other ways would look for a device, and find TCP.
                ("osc", "sm,pt2pt"),
            ]
        }
        None => {
            &[
                ("pml", "ob1"),
                ("btl", "self,vader,tcp"),
                ("btl_tcp_if_include", &network),
                // Windows of Open MPI's own over messages take one thread's calls only, those of UCX all threads'.
                ("osc", "sm,ucx,pt2pt"),
            ]
        }
    };
    for (name, value) in how {
        add(&["--mca", name, value]);
    }
    if let Some(preload) = library.and_then(|folder| preload(folder, env)) {
        add(&["-x", &preload]);
    }
    add(&["--"]);
    words.extend(command.iter().cloned());
    words
}

/// The variable by which ranks have the library from their first moment: it refuses what it cannot carry before Open MPI tries.
/// None where the loader would take the path for several ones.
fn preload(folder: &Path, env: &[(Word, Word)]) -> Option<String> {
    let path = folder.join(LIBRARY);
    let path = path.to_str().filter(|path| !path.contains([' ', ':']))?;
    let users = env.iter().find(|(name, _)| name == b"LD_PRELOAD");
    let others = users.map(|(_, value)| format!(":{}", String::from_utf8_lossy(value)));
    Some(format!("LD_PRELOAD={path}{}", others.unwrap_or_default()))
}

/// The environment of launcher, daemons and ranks: the user's without what belongs to another launcher, and ours.
pub fn environment(
    users: Vec<(Word, Word)>,
    library_folder: Option<&Path>,
    section_bytes: u64,
    token: &str,
    host: &str,
) -> Vec<(Word, Word)> {
    let is_foreign = |name: &Word| FOREIGN.iter().any(|prefix| name.starts_with(prefix));
    let mut all: Vec<(Word, Word)> = users.into_iter().filter(|(name, _)| !is_foreign(name)).collect();
    if !all.iter().any(|(name, _)| name == b"SHELL") {
        // Open MPI warns where it finds none that it knows.
        all.push((b"SHELL".to_vec(), b"/bin/sh".to_vec()));
    }
    let mut set = |name: &str, value: OsString| {
        all.retain(|(known, _)| known != name.as_bytes());
        all.push((name.as_bytes().to_vec(), value.into_vec()));
    };
    // In a partition root can harm nobody but itself.
    set("OMPI_ALLOW_RUN_AS_ROOT", "1".into());
    set("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1".into());
    set(TOKEN, token.into());
    if let Some(folder) = library_folder {
        set("FI_PROVIDER_PATH", folder.into());
        // No other library needs to be looked at.
        set("FI_PROVIDER", "bulkhead".into());
        set("BULKHEAD_FABRIC_SECTIONS", SECTIONS.into());
        set("BULKHEAD_FABRIC_SECTION_BYTES", section_bytes.to_string().into());
        set("BULKHEAD_FABRIC_HOST", host.into());
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_launcher_is_told_where_and_how() {
        let layout = Layout::of(3, Some(2)).unwrap();
        let command = [b"./a.out".to_vec(), b"-x".to_vec()];
        let env = [(b"LD_PRELOAD".to_vec(), b"/mine.so".to_vec())];
        let said = |library| {
            let words = words(Path::new("/usr/bin/orterun"), &layout, library, true, &command, &env);
            words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect::<Vec<_>>().join(" ")
        };
        let channel = said(Some(Path::new("/lib/b")));
        assert!(
            channel.starts_with("/usr/bin/orterun --host 10.77.1.1,10.77.1.1,10.77.1.2 -np 3 "),
            "{channel}"
        );
        assert!(channel.contains("--mca mtl_ofi_provider_include bulkhead"), "{channel}");
        assert!(channel.contains("--mca osc sm,pt2pt"), "UCX would take TCP without a word: {channel}");
        assert!(
            channel.contains("mpi_yield_when_idle 1") && channel.ends_with(" -- ./a.out -x"),
            "{channel}"
        );
        assert!(channel.contains("-x LD_PRELOAD=/lib/b/libbulkhead-fi.so:/mine.so --"), "{channel}");
        assert!(!said(Some(Path::new("/lib b"))).contains("LD_PRELOAD"));
        let tcp = said(None);
        assert!(!tcp.contains("LD_PRELOAD"), "{tcp}");
        assert!(tcp.contains("--mca btl_tcp_if_include 10.77.1.0/24") && !tcp.contains("ofi"), "{tcp}");
        let places = places(&layout);
        assert!(places.starts_with("mpi-1\nmpi-1\n10.77.1.2\nmpi-1\n"), "{places}");
        assert_eq!(places.lines().count(), MOST_FURTHER);
    }

    #[test]
    fn what_belongs_to_another_launcher_is_left_out() {
        let pair = |name: &str| (name.as_bytes().to_vec(), b"x".to_vec());
        let users =
            ["HOME", "SLURM_JOB_ID", "OMPI_MCA_coll", "PMIX_RANK", "FI_PROVIDER_PATH"].map(pair).to_vec();
        let all = environment(users, Some(Path::new("/lib/b")), 4096, "t", "h");
        let of = |name: &str| all.iter().filter(|(known, _)| known == name.as_bytes()).collect::<Vec<_>>();
        assert!(of("SLURM_JOB_ID").is_empty() && of("PMIX_RANK").is_empty());
        assert!(of("HOME").len() == 1 && of("OMPI_MCA_coll").len() == 1);
        assert_eq!(of("FI_PROVIDER_PATH"), [&(b"FI_PROVIDER_PATH".to_vec(), b"/lib/b".to_vec())]);
    }
}
