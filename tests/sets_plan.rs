//! A plan for this very host, brought up with real guests: what each was given is what was planned.

use std::collections::BTreeSet;
use std::fs;

use crate::set_fixture;

use bulkhead::model::plan::Plan;
use set_fixture::{Bench, guests_are_there};

/// Processes of a supervisor that serve files.
fn served_by(supervisor: u32) -> Vec<u32> {
    let all = fs::read_dir("/proc").expect("there is /proc").filter_map(Result::ok);
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_its = |pid: &u32| {
        let said = |name: &str| fs::read_to_string(format!("/proc/{pid}/{name}")).unwrap_or_default();
        let parent = said("status").lines().find_map(|line| line.strip_prefix("PPid:")?.trim().parse().ok());
        parent == Some(supervisor) && said("cmdline").contains("\0files\0")
    };
    pids.filter(is_its).collect()
}

/// On which CPUs a process' threads may run.
fn cpus_of(pid: u32) -> BTreeSet<String> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("it runs").filter_map(Result::ok);
    let allowed = tasks.filter_map(|task| {
        let status = fs::read_to_string(task.path().join("status")).ok()?;
        status.lines().find_map(|line| Some(line.strip_prefix("Cpus_allowed_list:")?.trim().to_owned()))
    });
    allowed.collect()
}

#[test]
fn what_was_planned_for_this_host_is_what_its_partitions_are_given() {
    if !guests_are_there() {
        return;
    }
    let bench = Bench::real();
    let file = bench.file(
        "plant.toml",
        "
        [host.here]
        from = \"here\"
        [partition.plc]
        program = [\"/bin/sleep\", \"1000\"]
        [partition.web]
        program = [\"/bin/sleep\", \"1000\"]
        [partition.web.needs]
        cpu = \"shared\"
        share_percent = 40
        talks_to = { plc = { bytes_per_s = 1000 } }
        ",
    );
    let out = bench.path("planned");
    let [file, out] = [&file, &out].map(|path| path.to_str().expect("plain"));
    let said = bench.call(&["plan", file, "--out", out]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let path = format!("{out}/plan.json");
    let plan: Plan = serde_json::from_slice(&fs::read(&path).expect("it is written")).expect("a plan");
    // The host that is "here" needs no name.
    let said = bench.call(&["up", &path]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let set = bench.ps().expect("it is up");
    assert_eq!(set.partitions.len(), 2);
    for partition in &set.partitions {
        let given = partition.given.as_ref().expect("it was read back");
        let planned = plan.partitions.iter().find(|placed| placed.name == partition.name).expect("planned");
        let [only] = planned.seats.as_slice() else { panic!("{planned:?}") };
        assert!(given.cpus.iter().all(|cpu| cpu.allowed == only.cpus), "{given:?}, planned {only:?}");
        assert_eq!(given.memory.size, only.memory_mib);
        assert!(given.memory.nodes.numbers().iter().all(|node| *node == only.node), "{given:?}");
        let mut all = vec![partition.pid.expect("it runs")];
        all.extend(served_by(partition.supervisor_pid.expect("it is watched")));
        assert!(all.len() > 1, "nobody serves the files of {}", partition.name);
        for pid in all {
            assert_eq!(cpus_of(pid), [only.cpus.to_string()].into(), "process {pid} of {}", partition.name);
        }
    }
    assert_eq!(bench.call(&["down"]).code, Some(0));
    assert_eq!(bench.left(), Vec::<String>::new());
}
