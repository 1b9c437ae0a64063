//! Hosts of systems, as files, as this machine and as written.

use std::fs;

use super::*;
use model::partition::set::SetErrors;
use model::system::Interval;

const PART: &str = "[partition.a]\nprogram = [\"/bin/true\"]\n";
const NODES: &str = "[[node]]\nnumber = 0\ncpus = \"0-3\"\nmemory_mib = 4096\n[[node]]\nnumber = 1\ncpus = \"4-7\"\nmemory_mib = 4096\n";

/// The hosts, and the notes; or the faults as a user reads them.
fn hosts(folder: &Path, hosts: &str) -> Result<(Vec<KnownHost>, Vec<String>), String> {
    let text = format!("{hosts}{PART}");
    let system = System::from_toml(&text, "s").map_err(|error| error.to_string())?;
    let (ssh, cancel) = (Asking::usual_ssh(), Cancel::new());
    let asking = Asking { exe: Path::new("/nonexistent/bulkhead"), ssh: &ssh, cancel: &cancel };
    let mut notes = Vec::new();
    let known = known_hosts(&system, folder, &asking, &mut notes)
        .map_err(|faults| SetErrors::of(faults, &text).to_string())?;
    Ok((known, notes))
}

fn told(folder: &Path, text: &str) -> String {
    hosts(folder, text).expect_err("it is refused")
}

#[test]
fn a_file_is_found_from_the_systems_folder_and_what_the_system_says_goes_first() {
    let folder = tempfile::tempdir().unwrap();
    let described = format!(
        "{NODES}[[nic]]\nname = \"eth0\"\nnode = 1\nbytes_per_s = 1000\n[[nic]]\nname = \"eth1\"\nbytes_per_s = 7\n\
         [facts]\nchannel_us = 3\nnetwork_us = 90\n"
    );
    fs::write(folder.path().join("a.toml"), described).unwrap();
    let text = "[host.rack]\nfrom = \"a.toml\"\ncount = 2\nreserve_cpus = 1\nfacts = { channel_us = 8 }\n\
                nic = [{ name = \"eth0\", bytes_per_s = 500 }]\ndisk = [{ name = \"sda\", node = 1, bytes_per_s = 9 }]\n";
    let (known, notes) = hosts(folder.path(), text).unwrap();
    assert_eq!(known.iter().map(|host| host.name.as_str()).collect::<Vec<_>>(), ["rack-1", "rack-2"]);
    let host = &known[1];
    assert_eq!((host.reserve_cpus, host.shape.nodes.len()), (1, 2));
    assert_eq!(host.shape.facts.channel_us.map(|us| us.high().get()), Some(8));
    assert_eq!(host.shape.facts.network_us.map(|us| us.high().get()), Some(90));
    let cards: Vec<_> =
        host.shape.nics.iter().map(|card| (card.name.as_str(), card.node, card.bytes_per_s.get())).collect();
    assert_eq!(cards, [("eth1", None, 7), ("eth0", Some(1), 500)]);
    assert_eq!(host.shape.disks[0].node, Some(1));
    assert_eq!(notes, Vec::<String>::new());
}

#[test]
fn this_machine_and_one_that_is_written_are_hosts() {
    let folder = tempfile::tempdir().unwrap();
    let inline = NODES.replace("[[node]]", "[[host.b.node]]");
    let (known, notes) = hosts(folder.path(), &format!("[host.a]\nfrom = \"here\"\n{inline}")).unwrap();
    let [here, written] = &known[..] else { panic!("{known:?}") };
    assert!(!here.shape.nodes.is_empty());
    assert_eq!(written.shape.nodes.len(), 2);
    assert!(notes.iter().all(|note| note.starts_with("host.a: ")), "{notes:?}");
}

#[test]
fn what_cannot_be_had_is_told_at_its_key() {
    let folder = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
    put("twice.toml", &NODES.replace("4-7", "3-7"));
    put("typo.toml", &NODES.replace("memory_mib", "memory_mb"));
    put("empty.toml", "");
    put("good.toml", NODES);
    put("large.toml", &"#".repeat(MAX_HOST_BYTES + 1));
    for (text, wanted) in [
        ("[host.a]\nfrom = \"hear\"\n", "line 2: host.a.from: \"hear\": cannot read"),
        ("[host.a]\nfrom = \"hear\"\n", "wanted \"here\", \"ssh:NAME\" or a file"),
        (
            "[host.a]\nfrom = \"twice.toml\"\n",
            "host.a.from: \"twice.toml\": node: CPU 3 belongs to two nodes",
        ),
        ("[host.a]\nfrom = \"typo.toml\"\n", "line 4: unknown field `memory_mb`"),
        ("[host.a]\nfrom = \"empty.toml\"\n", "it has no [[node]]"),
        ("[host.a]\nfrom = \"large.toml\"\n", "is longer than 1048576 bytes"),
        ("[host.a]\nfrom = \".\"\n", "is no file"),
        ("[host.a]\nfrom = \"ssh:-oProxyCommand=x\"\n", "is no SSH destination"),
        (
            "[host.a]\nfrom = \"here\"\n[host.b]\nfrom = \"here\"\n",
            "line 4: host.b.from: \"here\" is host \"a\" already",
        ),
        ("[host.a]\nfrom = \"good.toml\"\nrun = \"none\"\n", "line 3: host.a.run: "),
        ("[host.a]\nfrom = \"good.toml\"\nrun = \"good.toml\"\n", "wanted the folder of a run"),
        (
            "[host.a]\nfrom = \"good.toml\"\nnic = [{ name = \"x\", node = 5, bytes_per_s = 1 }]\n",
            "line 3: host.a.nic: with what \"good.toml\" says: x: its node is not there",
        ),
    ] {
        let told = told(folder.path(), text);
        assert!(told.contains(wanted), "{text}: {told}");
    }
}

/// Blocks of TOML below "## Hosts" of the page.
fn examples() -> Vec<String> {
    let page = include_str!("../../../../docs/plan.md");
    let (_, section) = page.split_once("\n## Hosts\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let blocks = section.split("```toml\n").skip(1);
    blocks.map(|block| block.split_once("```").unwrap().0.to_owned()).collect()
}

#[test]
fn the_pages_examples_are_hosts() {
    let folder = tempfile::tempdir().unwrap();
    let [system, described] = &examples()[..] else { panic!("two examples") };
    fs::write(folder.path().join("rack.host.toml"), described).unwrap();
    let system = System::from_toml(system, "s").unwrap();
    let (ssh, cancel) = (Asking::usual_ssh(), Cancel::new());
    let asking = Asking { exe: Path::new("/nonexistent/bulkhead"), ssh: &ssh, cancel: &cancel };
    let known = known_hosts(&system, folder.path(), &asking, &mut Vec::new()).unwrap();
    let names: Vec<&str> = known.iter().map(|host| host.name.as_str()).collect();
    assert_eq!(names, ["a", "old", "rack-1", "rack-2", "rack-3"]);
    assert_eq!(known[0].shape.disks[0].bytes_per_s.low().get(), 150_000_000);
    assert_eq!(known[1].shape.nodes[0].caches.len(), 2);
    let facts = &known[3].shape.facts;
    assert_eq!(
        (facts.detect_ms, facts.wakeup.len()),
        (Some(Interval::One(units::Millis::from_millis(2000))), 2)
    );
    assert_eq!(known[3].switch, "left");
}
