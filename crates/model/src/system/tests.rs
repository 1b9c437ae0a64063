//! Systems as users write them, right and wrong.

use super::*;

const PLANT: &str = r#"
[host.a]
reserve_cpus = 1
[[host.a.node]]
number = 0
cpus = "0-3"
memory_mib = 8192
[host.rack]
count = 2
[[host.rack.node]]
number = 0
cpus = "0-3"
memory_mib = 8192

[partition.db]
program = ["/bin/true"]
cpus = 2
needs = { replicas = 2, isolation = "cache", talks_to = { web = { bytes_per_s = 1000 } } }

[partition.web]
program = ["/bin/true"]
[partition.web.needs]
cpu = "shared"
share_percent = 25
"#;

fn told(text: &str) -> String {
    System::from_toml(text, "plant").unwrap_err().to_string()
}

#[test]
fn a_system_is_a_set_with_needs_and_hosts() {
    let system = System::from_toml(PLANT, "plant").unwrap();
    assert_eq!(system.set.name, "plant");
    assert_eq!(system.host_names().collect::<Vec<_>>(), ["a", "rack-1", "rack-2"]);
    assert_eq!(system.needs["db"].isolation, Some(Level::Cache));
    assert_eq!(system.replica_name("db", 2), "db-2");
    assert_eq!(system.replica_name("web", 1), "web");
    assert_eq!(system.needs["web"].share_percent, Some(25));
}

#[test]
fn what_is_wrong_is_told_with_its_line() {
    let wrong = |from: &str, to: &str| {
        assert!(PLANT.contains(from), "{from}");
        told(&PLANT.replacen(from, to, 1))
    };
    for (from, to, want) in [
        ("replicas = 2", "replicas = 0", "line 18: partition.db.needs.replicas: wanted 1 to 64, got 0"),
        ("replicas = 2", "replica = 2", "line 18: unknown field `replica`; did you mean \"replicas\"?"),
        (
            "isolation = \"cache\"",
            "isolation = \"cash\"",
            "line 18: isolation: unknown variant `cash`; did you mean \"cache\"?",
        ),
        ("web = {", "wed = {", "there is no partition \"wed\"; did you mean \"web\"?"),
        ("share_percent = 25", "", "how much of each? share_percent = 50"),
        ("cpu = \"shared\"", "", "line 24: partition.web.needs.share_percent: whole CPUs are its own"),
        ("cpus = 2", "cpus = 2\npin = \"0-1\"", "that is what is planned: leave it out"),
        (
            "cpus = \"0-3\"",
            "cpus = \"0-3\"\ncaches = [\"0-1\"]",
            "caches: they have other CPUs than the node (0-3)",
        ),
        ("count = 2", "count = 0", "0 hosts are none"),
        ("cpus = 2", "cpu = 2", "unknown field `cpu`"),
        (
            "[partition.web.needs]",
            "[partition.db-1]\nprogram = [\"/bin/true\"]\n[partition.web.needs]",
            "would have the name of the partition",
        ),
    ] {
        let told = wrong(from, to);
        assert!(told.contains(want), "{from} -> {to}: {told}");
    }
    assert!(told("[partition.a]\nprogram = [\"/bin/true\"]\n").contains("there is no host"));
    assert!(told("[host").contains("line 1"));
}
