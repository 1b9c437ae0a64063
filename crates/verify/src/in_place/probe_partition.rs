//! A partition of its own in which a probe measures: made as `exec` makes one, with exactly what another one was granted, without its
//! program, files, disks and networks.
//!
//! ```text
//!  bulkhead exec --cpus … --pin … --memory … -- bulkhead agent ══ link ══► the agent of measurements
//!     it ends with us, however we end
//! ```

use std::ffi::OsString;
use std::path::Path;

use model::partition::set::{PartitionUnit, Tools};
use model::partition::{Priority, Resources};
use model::platform::Accelerator;

/// Arguments of the program `exe` that start it, and in it the same program as the agent, whose files lie in `folder`.
pub fn arguments(exe: &Path, unit: &PartitionUnit, folder: &str) -> Vec<OsString> {
    let mut all = vec!["exec".to_owned()];
    resources(&unit.spec.resources, &mut all);
    tools(&unit.tools, &mut all);
    let agent = ["agent", "--link", "stdio", "--scratch", folder].map(OsString::from);
    let exe = || exe.as_os_str().to_owned();
    // It is shown, not copied: a partition with little memory has no room for it beside its first file system.
    let shown = [
        "--ro".into(),
        exe(),
        "--user".into(),
        "root".into(),
        "--workdir".into(),
        "/".into(),
        "--".into(),
        exe(),
    ];
    all.into_iter().map(OsString::from).chain(shown).chain(agent).collect()
}

/// An option with its value as one word: some values begin with a dash.
fn add(all: &mut Vec<String>, name: &str, value: Option<impl std::fmt::Display>) {
    all.extend(value.map(|value| format!("--{name}={value}")));
}

fn resources(asked: &Resources, all: &mut Vec<String>) {
    add(all, "cpus", Some(asked.cpus));
    add(all, "pin", asked.pin.as_ref());
    add(all, "memory", Some(format!("{}MiB", asked.memory.get())));
    add(all, "node", asked.node);
    match asked.priority {
        Priority::Usual => {}
        Priority::Nice(value) => add(all, "nice", Some(value)),
        Priority::Realtime(priority) => add(all, "realtime", Some(priority)),
    }
    add(all, "cpu-weight", asked.cpu_weight);
    add(all, "cpu-cap", asked.cpu_cap_percent);
    add(all, "guest-nodes", Some(asked.guest_nodes));
    if asked.hugepages {
        all.push("--hugepages".to_owned());
    }
}

fn tools(of: &Tools, all: &mut Vec<String>) {
    let accelerator = match of.accelerator {
        Accelerator::Auto => "auto",
        Accelerator::Kvm => "kvm",
        Accelerator::Tcg => "tcg",
    };
    add(all, "accel", Some(accelerator));
    add(all, "qemu", of.qemu.as_ref());
    add(all, "kernel", of.kernel.as_ref());
    add(all, "modules", of.modules.as_ref());
    add(all, "boot-deadline-s", of.boot_deadline_s);
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use model::partition::set::Restart;
    use model::partition::{Content, NumberList, PartitionSpec};
    use units::Mebibytes;

    use super::*;

    #[test]
    fn it_is_granted_what_the_other_one_is() {
        let resources = Resources {
            pin: Some("0,2".parse::<NumberList>().unwrap()),
            node: Some(1),
            hugepages: true,
            priority: Priority::Nice(-5),
            cpu_weight: Some(50),
            cpu_cap_percent: Some(75),
            guest_nodes: 2,
            ..Resources::usual(2, Mebibytes::from_mib(96))
        };
        let (name, content) = ("a".to_owned(), Content::Image);
        let nothing = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (disks, cards, sections, ports) = nothing;
        let spec = PartitionSpec { name, content, resources, disks, cards, sections, ports };
        let tools = Tools {
            accelerator: Accelerator::Tcg,
            cache: PathBuf::from("/c"),
            qemu: Some("q".to_owned()),
            kernel: None,
            modules: None,
            boot_deadline_s: Some(9),
        };
        let unit = PartitionUnit {
            spec,
            restart: Restart::Never,
            restart_limit: 1,
            ready: None,
            health: None,
            tools,
        };
        let words: Vec<String> = arguments(Path::new("/b"), &unit, "/tmp")
            .into_iter()
            .map(|word| word.into_string().unwrap())
            .collect();
        let wanted = "exec --cpus=2 --pin=0,2 --memory=96MiB --node=1 --nice=-5 --cpu-weight=50 --cpu-cap=75 --guest-nodes=2 \
                      --hugepages --accel=tcg --qemu=q --boot-deadline-s=9 --ro /b --user root --workdir / -- /b agent --link \
                      stdio --scratch /tmp";
        assert_eq!(words.join(" "), wanted);
    }
}
