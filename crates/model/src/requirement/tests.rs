//! Files of requirements: what is read, and what is told at which line.

use proptest::prelude::*;

use super::*;
use crate::partition::set::MAX_SET_BYTES;
use units::metric::Unit;

const GOOD: &str = r#"
set = "plant"

[requirement.R]
text = "The controller reacts in time."

[requirement.R1]
text = "An activation is answered within 10 ms in 99.9 % of cases, beside busy neighbours."
parent = "R"
partition = "plc"
metric = "wakeup.response_p99_9_ns"
at_most = "10 ms"
load = ["cpu@host", "memory@db"]
params = { duration_ms = 500 }

[requirement."R2.a"]
text = "It lies where it was planned."
parent = "R"
partition = "plc"
metric = "placement.differences"
exactly = 0

[requirement.R3]
text = "A dead database is back within 10 s."
metric = "outage.duration_ns"
at_most = "10 s"
failure = "qemu.db"
client = { kind = "http", at = "127.0.0.1:8080" }

[requirement.R3b]
text = "A dead host is taken over from."
metric = "outage.lost"
at_most = 20
failure = ["partition.db", "partition.plc"]
client = { kind = "echo", at = ["127.0.0.1:7001", "127.0.0.1:7002"] }

[requirement.R4]
text = "The application's own test passes."
metric = "command.failures"
exactly = 0
command = ["./acceptance", "--tap"]

[requirement.R5]
text = "It survives a fire."
not_tested = "nobody burns the laboratory"
"#;

#[test]
fn a_good_file_is_read_and_comes_back() {
    let read = RequirementFile::from_toml(GOOD, "file").expect("read");
    assert_eq!((read.set.as_str(), read.requirements.len()), ("plant", 7));
    let one = &read.requirements["R1"];
    assert_eq!(one.subject(), Subject::Partition("plc".to_owned()));
    assert_eq!(one.limit_words(), "at most 10 ms");
    assert_eq!(one.limit().map(|(_, limit)| (limit.value, limit.unit)), Some((1e7, Unit::Nanoseconds)));
    assert_eq!(one.load.as_ref().map(ToString::to_string).as_deref(), Some("beside cpu@host, memory@db"));
    assert!(one.probe().is_some());
    let one = OneOrMore::one(InjectedFailure::Qemu("db".to_owned()));
    assert_eq!(read.requirements["R3"].failure, Some(one));
    let text = toml::to_string(&read).expect("TOML");
    assert_eq!(RequirementFile::from_toml(&text, "").expect("read again"), read);
    let json = serde_json::to_string(&read.requirements).expect("JSON");
    assert_eq!(serde_json::from_str::<Requirements>(&json).expect("read"), read.requirements);
}

#[test]
fn a_sets_file_may_have_them_and_is_read_by_up_as_before() {
    let text = "[partition.plc]\nprogram = [\"/bin/true\"]\n\n[requirement.A]\ntext = \"x\"\npartition = \"plcc\"\n\
                metric = \"placement.running\"\nexactly = 1\n";
    crate::partition::set::PartitionSet::from_toml(text, "plant").expect("a set");
    let errors = RequirementFile::from_toml(text, "plant").expect_err("no such partition").to_string();
    assert_eq!(
        errors,
        "line 6: requirement.A.partition: there is no partition \"plcc\"; did you mean \"plc\"?"
    );
    let text = text.replace("plcc", "plc");
    assert_eq!(RequirementFile::from_toml(&text, "plant").expect("good").set, "plant");
}

#[test]
fn what_says_too_little_or_too_much_is_told() {
    let cases = [
        (
            "not_tested = \"nobody burns the laboratory\"",
            "not_tested = \" \"",
            "requirement.R5.not_tested: wanted why",
        ),
        (
            "\"./acceptance\", \"--tap\"",
            "\"\", \"--tap\"",
            "requirement.R4.command: its first word names a program",
        ),
        (
            "7001\", \"127.0.0.1:7002",
            "7001\", \"127.0.0.1:7001",
            "requirement.R3b.client: an address is there twice",
        ),
        (
            "failure = \"qemu.db\"",
            "failure = \"qemu.db\"\nload = [\"cpu@db\"]",
            "requirement.R3.load: cpu@db does not outlast the failure",
        ),
        (
            "failure = \"qemu.db\"",
            "failure = \"qemu.db\"\nload = [\"cpu\"]",
            "requirement.R3.load: cpu does not outlast the failure",
        ),
        (
            "partition = \"plc\"\nmetric = \"placement.differences\"",
            "pair = [\"a\", \"b\", \"a\"]\nmetric = \"pair.shared_cpus\"",
            "wanted the names of two partitions, got 3",
        ),
    ];
    for (from, to, part) in cases {
        let text = GOOD.replace(from, to);
        assert_ne!(text, GOOD, "{from}");
        let said = RequirementFile::from_toml(&text, "").expect_err(to).to_string();
        assert!(said.contains(part) && said.contains("line "), "{to}: {said}");
    }
    let beside =
        GOOD.replace("failure = \"qemu.db\"", "failure = \"qemu.db\"\nload = [\"cpu@host\", \"cpu@plc\"]");
    RequirementFile::from_toml(&beside, "").expect("what goes on may be a load");
}

#[test]
fn a_partition_of_its_own_is_for_probes_in_the_place_of_another() {
    let text = |key: &str, metric: &str| {
        format!(
            "set = \"s\"\n[requirement.R]\ntext = \"x\"\nmetric = \"{metric}\"\nat_most = \"1 ms\"\nload = \"as-is\"\n{key}"
        )
    };
    let said = |key: &str, metric: &str| {
        RequirementFile::from_toml(&text(key, metric), "").map_err(|why| why.to_string())
    };
    let (own, whom) = ("probe_partition = true\n", "partition = \"a\"\n");
    let read = said(&format!("{whom}{own}paused = true"), "syscall.call_ns").expect("good");
    assert!(read.requirements["R"].probe_partition && read.requirements["R"].paused);
    for (key, metric, part) in [
        (own.to_owned(), "syscall.call_ns", "it has the place of a partition"),
        (format!("{whom}{own}"), "disk.random_read_p99_ns", "disk measures the partition's own files"),
        (format!("{whom}probe_partition = \"x\""), "syscall.call_ns", "a boolean"),
    ] {
        let why = said(&key, metric).expect_err(part);
        assert!(why.contains(part) && why.contains("line "), "{key}: {why}");
    }
}

#[test]
fn what_is_almost_a_name_is_told_which() {
    for (text, near) in [
        ("differences", "placement.differences"),
        ("placment.differences", "placement.differences"),
        ("responce.p50_ns", "response.p50_ns"),
    ] {
        let why = text.parse::<RequiredMetric>().expect_err("no metric").to_string();
        assert!(why.contains(&format!("did you mean \"{near}\"?")), "{why}");
    }
    let why = "qmu.db".parse::<InjectedFailure>().expect_err("no part").to_string();
    assert!(why.contains("did you mean \"qemu.db\"?"), "{why}");
}

#[test]
fn outages_that_nobody_would_see_and_times_of_our_own_hand_are_refused() {
    let said = |metric: &str, failure: &str, limit: &str| {
        let text = format!(
            "set = \"s\"\n[requirement.R]\ntext = \"x\"\nmetric = \"outage.{metric}\"\nat_most = \"{limit}\"\nfailure = \"{failure}\"\n\
             client = {{ kind = \"echo\", at = \"127.0.0.1:7\", answer_within_ms = 700 }}\n"
        );
        RequirementFile::from_toml(&text, "").map_err(|why| why.to_string()).err()
    };
    let why = said("duration_ns", "disk.a", "600 ms").expect("shorter than an answer");
    assert!(why.contains("line ") && why.contains("shorter outages are not seen"), "{why}");
    assert_eq!(said("duration_ns", "disk.a", "700 ms"), None);
    assert_eq!(
        said("detection_ns", "disk.a", "100 ms"),
        None,
        "when it begins is known however late it is noticed"
    );
    for held in ["disk.a", "clock", "link.n.0", "cable.n.0@a"] {
        let why = said("restoration_ns", held, "1 min").expect(held);
        assert!(why.contains("lasts until it is taken back"), "{why}");
    }
    assert_eq!(said("restoration_ns", "qemu.a", "1 min"), None);
}

#[test]
fn what_is_wrong_is_told_with_its_line() {
    let cases = [
        (
            "at_most = \"10 ms\"",
            "at_most = \"10 MB/s\"",
            "line 12: requirement.R1.at_most: wakeup.response_p99_9_ns is a time",
        ),
        ("at_most = \"10 ms\"", "at_most = \"10 mss\"", "line 12: requirement.R1: at_most: \"mss\" is"),
        ("at_most = \"10 ms\"\n", "", "requirement.R1.metric: it has no limit"),
        (
            "load = [\"cpu@host\", \"memory@db\"]\n",
            "",
            "requirement.R1.metric: a limit on what is measured needs a load",
        ),
        ("response_p99_9_ns", "respnse_p99_9_ns", "did you mean \"wakeup.response_p99_9_ns\"?"),
        ("wakeup.response_p99_9_ns", "wakeupp.response_p99_9_ns", "did you mean \"wakeup\"?"),
        (
            "parent = \"R\"\npartition = \"plc\"\nmetric = \"wakeup",
            "parent = \"RR\"\npartition = \"plc\"\nmetric = \"wakeup",
            "line 9: requirement.R1.parent: there is no requirement \"RR\"",
        ),
        (
            "text = \"The controller reacts in time.\"",
            "text = \"x\"\nparent = \"R1\"",
            "it is a part of itself: R → R1 → R",
        ),
        (
            "duration_ms = 500",
            "duration_s = 500",
            "requirement.R1.params: unknown parameter \"duration_s\" of wakeup",
        ),
        ("command = [\"./acceptance\", \"--tap\"]\n", "", "requirement.R4.command: metric = \"command\""),
        (
            "not_tested = \"nobody burns the laboratory\"",
            "partition = \"x\"",
            "it has neither a metric nor parts",
        ),
        ("text = \"The controller reacts in time.\"", "txt = \"x\"", "line 5: requirement.R: unknown"),
        ("set = \"plant\"", "sett = \"plant\"", "line 2: sett: unknown key"),
        ("cpu@host", "cpv@host", "did you mean \"cpu\"?"),
        (
            "metric = \"placement.differences\"",
            "metric = \"placement.diferences\"",
            "did you mean \"placement.differences\"?",
        ),
        (
            "metric = \"placement.differences\"",
            "metric = \"host.cpus\"",
            "host.cpus is about host = true, this one is about plc",
        ),
        (
            "exactly = 0\n\n[requirement.R3]",
            "exactly = 0\nat_most = 1\n\n[requirement.R3]",
            "it has two limits",
        ),
        (
            "exactly = 0\n\n[requirement.R3]",
            "at_least = 0\n\n[requirement.R3]",
            "nothing is below 0, so this always holds",
        ),
        (
            "params = { duration_ms = 500 }",
            "confidence = 1.5",
            "requirement.R1.confidence: wanted 0.5 … 0.9999, got 1.5",
        ),
    ];
    all_are_told(&cases);
}

#[test]
fn what_is_wrong_with_failures_and_clients_is_told() {
    all_are_told(&[
        ("failure = \"qemu.db\"", "failure = \"qemuu.db\"", "is no part that can fail"),
        ("\"partition.plc\"]", "\"partitioon.plc\"]", "is no part that can fail"),
        ("\"partition.plc\"]", "\"partition.db\"]", "requirement.R3b.failure: partition.db is there twice"),
        ("\"partition.plc\"]", "\"host\"]", "host is all of the set already"),
        ("[\"partition.db\", \"partition.plc\"]", "[]", "the list has nothing in it"),
        ("[\"partition.db\", \"partition.plc\"]", "7", "a text, or a list of them"),
        ("\"127.0.0.1:7002\"]", "\"10.0.0.1:7002\"]", "10.0.0.1:7002 is not this host's loopback"),
        ("failure = \"qemu.db\"\n", "", "requirement.R3.failure: a metric of outage and failure"),
        ("127.0.0.1:8080", "192.0.2.1:8080", "is not this host's loopback"),
    ]);
}

#[test]
fn what_a_client_waits_needs_a_client_a_load_and_patience() {
    let with = |client: &str, load: &str, limit: &str| {
        let text = format!(
            "set = \"s\"\n[requirement.R]\ntext = \"x\"\nmetric = \"response.p99_ns\"\n{limit}\n{client}\n{load}\n"
        );
        RequirementFile::from_toml(&text, "file").map(drop).map_err(|errors| errors.to_string())
    };
    let (client, load) = ("client = { kind = \"http\", at = \"127.0.0.1:80\" }", "load = \"as-is\"");
    assert_eq!(with(client, load, "at_most = \"500 ms\""), Ok(()));
    for (got, told) in [
        (with("", load, "at_most = \"500 ms\""), "a metric of response, capacity or outage and client"),
        (with(client, "", "at_most = \"500 ms\""), "needs a load"),
        (with(client, load, "at_most = \"1 s\""), "an answer is waited for 1000 ms only"),
        (with(client, load, "at_most = \"5 MB\""), "response.p99_ns is a time"),
    ] {
        let errors = got.expect_err(told);
        assert!(errors.contains(told), "wanted {told}, got {errors}");
    }
}

#[test]
fn what_clients_get_at_most_needs_a_client_and_a_rate() {
    let with = |client: &str, limit: &str| {
        let text = format!(
            "set = \"s\"\n[requirement.R]\ntext = \"x\"\nmetric = \"capacity.answers_per_s\"\nload = \"as-is\"\n{limit}\n{client}\n"
        );
        RequirementFile::from_toml(&text, "file").map_err(|errors| errors.to_string())
    };
    let client = |more: &str| format!("client = {{ kind = \"http\", at = \"127.0.0.1:80\"{more} }}");
    let read = with(&client(", concurrency = 64"), "at_least = \"500 /s\"").expect("good");
    let one = read.requirements.get("R").and_then(|one| one.client.clone());
    assert_eq!(one.map(|client| client.concurrency), Some(64));
    let usual = with(&client(""), "at_least = \"500 /s\"").expect("good");
    assert!(!toml::to_string(&usual).expect("TOML").contains("concurrency"));
    for (got, told) in [
        (with("", "at_least = \"500 /s\""), "a metric of response, capacity or outage and client"),
        (with(&client(""), "at_least = \"500 ms\""), "capacity.answers_per_s is a rate"),
        (with(&client(", concurrency = 0"), "at_least = \"5 /s\""), "concurrency is 1 … 512"),
        (with(&client(", concurrency = 513"), "at_least = \"5 /s\""), "concurrency is 1 … 512"),
    ] {
        let errors = got.expect_err(told);
        assert!(errors.contains(told), "wanted {told}, got {errors}");
    }
}

#[test]
fn ids_lead_nowhere_else_when_they_are_taken_for_paths() {
    let with = |id: &str| {
        let text = format!(
            "set = \"s\"\n[requirement.\"{id}\"]\ntext = \"x\"\nmetric = \"host.cpus\"\nhost = true\nexactly = 1\n"
        );
        RequirementFile::from_toml(&text, "file").map(drop).map_err(|errors| errors.to_string())
    };
    for id in ["R", "2.3.1", "a/b.c/d", "...", "a..b"] {
        assert_eq!(with(id), Ok(()), "{id}");
    }
    for id in ["..", ".", "a/../b", "/a", "a/", "a//b", "../../etc"] {
        let errors = with(id).expect_err(id);
        assert!(errors.contains("line 2") && errors.contains("an id has"), "{id}: {errors}");
    }
}

/// Each: what is changed in the good file, and what is told with its line.
fn all_are_told(cases: &[(&str, &str, &str)]) {
    for (from, to, told) in cases {
        let text = GOOD.replacen(from, to, 1);
        assert_ne!(text, GOOD, "{from}");
        let errors = RequirementFile::from_toml(&text, "file").expect_err(to).to_string();
        assert!(errors.contains(told), "{to}: wanted {told}, got {errors}");
    }
}

#[test]
fn every_metric_of_every_probe_can_be_named_and_has_its_unit() {
    for kind in probes::ProbeKind::ALL {
        let all = probes::catalogue(*kind);
        assert!(!all.is_empty(), "{kind}");
        for metric in all {
            let name: RequiredMetric = format!("{kind}.{}", metric.id).parse().expect("known");
            assert_eq!(name.unit(), Some(metric.unit), "{name}");
            assert_eq!(name.to_string().parse::<RequiredMetric>(), Ok(name));
        }
    }
}

/// Regression: evidence of a file that was just short enough could not be checked.
#[test]
fn what_is_written_of_the_longest_file_is_read_again() {
    let one = |number: usize| {
        format!("[requirement.R{number}]\ntext = \"x\"\nmetric = \"host.cpus\"\nhost = true\nexactly = 1\n")
    };
    let text = "set = \"plant\"\n".to_owned() + &(0..9_999).map(one).collect::<String>();
    assert!(text.len() < MAX_SET_BYTES);
    let read = RequirementFile::from_toml(&text, "").expect("read");
    let written = toml::to_string(&read).expect("TOML");
    assert!(written.len() > MAX_SET_BYTES && RequirementFile::from_toml(&written, "").is_err());
    assert_eq!(RequirementFile::from_evidence(&written).expect("read again"), read);
}

#[test]
fn parts_that_fail_come_back_as_written_and_others_are_refused() {
    let disk = InjectedFailure::Disk("db".to_owned());
    let clock = InjectedFailure::Clock(Some("db".to_owned()));
    let written = [("disk.db", disk), ("clock.db", clock), ("clock", InjectedFailure::Clock(None))];
    for (text, failure) in written {
        assert_eq!(text.parse(), Ok(failure.clone()));
        assert_eq!(failure.to_string(), text);
        assert!(failure.stays());
    }
    let domain = InjectedFailure::Domain("server-a".to_owned());
    assert_eq!("domain.server-a".parse(), Ok(domain.clone()));
    assert_eq!((domain.to_string().as_str(), domain.partition()), ("domain.server-a", None));
    let cable = InjectedFailure::Cable("lab.net".to_owned(), 1, "db.a".to_owned());
    assert_eq!("cable.lab.net.1@db.a".parse(), Ok(cable.clone()));
    assert_eq!((cable.network(), cable.partition()), (Some(("lab.net", 1)), Some("db.a")));
    for text in [
        "cable.net.1",
        "cable.net@db",
        "cable.net.1@",
        "cable.net.1@a@b",
        "disk",
        "disk.",
        "disk./var",
        "clock.",
        "clock.a b",
        "clocks",
    ] {
        let why = text.parse::<InjectedFailure>().expect_err(text).to_string();
        assert!(why.contains("cable.NETWORK.LINK@NAME"), "{why}");
    }
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "\\PC{0,200}", unit in "[a-zA-Z%/µ ]{0,6}", number in any::<f64>()) {
        let _ = RequirementFile::from_toml(&text, "x");
        let _ = format!("{number} {unit}").parse::<RequiredLimit>();
        let _ = text.parse::<InjectedFailure>();
        let _ = text.parse::<RequiredMetric>();
    }

    #[test]
    fn a_limit_is_what_its_number_and_unit_say(number in 0.0_f64..1e6) {
        let limit: RequiredLimit = format!("{number} ms").parse().expect("a limit");
        prop_assert!((limit.value - number * 1e6).abs() <= number);
    }
}
