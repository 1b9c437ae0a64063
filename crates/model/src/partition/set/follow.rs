//! Which faults may be there only because of others: what a key says is judged by what other keys say, and where one of those could not
//! be read, or is wrong itself, nobody knows. All other faults stand for themselves and are told beside it.

use super::Fault;

/// Keys by which a program is found: variables (`PATH`), and those that say where a partition's files come from.
const OF_PROGRAM: [&str; 11] =
    ["env", "env_file", "program", "workdir", "image", "files", "ro", "rw", "bind", "volumes", "save"];
/// Whether a folder is there depends on the latter.
const OF_FILES: &[&str] = OF_PROGRAM.split_at(2).1;

/// Who has found a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FoundBy {
    /// Reading the file.
    File,
    /// A look at this host.
    Host,
}

impl Fault {
    /// Whether this one may be there only because of `other`, which is told already.
    pub fn may_follow(&self, other: &Self, by: FoundBy) -> bool {
        let ([_, _, ..], [kind, _, key, ..]) = (&self.path[..], &other.path[..]) else {
            return self.path == other.path && self.item == other.item;
        };
        if self.path.get(..2) != other.path.get(..2) {
            return false;
        }
        let own = self.path.get(2).map(String::as_str);
        if own == Some(key) {
            return self.is_within_or_above(other);
        }
        kind == "partition" && causes(own, by).contains(&key.as_str())
    }

    /// Of the same key: one and the same thing, or all of what the other is one of, or one of what the other is all of.
    fn is_within_or_above(&self, other: &Self) -> bool {
        let shorter = self.path.len().min(other.path.len());
        let same = self.path.get(..shorter) == other.path.get(..shorter);
        same && (self.item.is_none() || other.item.is_none() || self.item == other.item)
    }
}

/// Keys of a partition by which this one is judged, or by which the whole is.
fn causes(key: Option<&str>, by: FoundBy) -> &'static [&'static str] {
    match (key, by) {
        (None, FoundBy::File) => &["program", "image"],
        (None, FoundBy::Host) => {
            &["program", "image", "rw", "bind", "volumes", "save", "disk", "networks", "card"]
        }
        (Some("guest_nodes" | "cpu_cap_percent"), _) => &["cpus"],
        (Some("save_size_mib"), FoundBy::File) => &["save"],
        (Some("save"), FoundBy::File) => &["files", "image"],
        (Some("image"), FoundBy::File) => &["disk", "program"],
        (Some("program"), FoundBy::Host) => &OF_PROGRAM,
        (Some("workdir"), FoundBy::Host) => OF_FILES,
        (Some("save"), FoundBy::Host) => &["files", "image", "save_size_mib"],
        (Some("user"), FoundBy::Host) => &["image"],
        (Some("ro"), FoundBy::Host) => &["rw", "program", "workdir"],
        (Some("secrets"), FoundBy::Host) => &["rw", "bind", "volumes"],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_may_come_from_another_fault_is_left_out() {
        let fault = |path: &str| Fault::new(&path.split('.').collect::<Vec<_>>(), "x");
        for (what, other, by_file, by_host) in [
            ("partition.a", "partition.a.program", true, true),
            ("partition.a", "partition.a.ports", false, false),
            ("partition.a.program", "partition.a.ports", false, false),
            ("partition.a.program", "partition.a.rw", false, true),
            ("partition.a.program", "partition.b.rw", false, false),
            ("partition.a.program", "partition.a.env.PATH", false, true),
            ("partition.a.workdir", "partition.a.env.PATH", false, false),
            ("partition.a.rw", "partition.a.image", false, false),
            ("partition.a.ready", "partition.a.ready.comand", true, true),
            ("partition.a.cpu_cap_percent", "partition.a.cpus", true, true),
            ("partition.a.secrets.t", "partition.a.secrets.u", false, false),
            ("partition.a.secrets.t", "partition.a.secrets.t", true, true),
            ("name", "name", true, true),
            ("channel.c.size_mib", "channel.c.readers", false, false),
        ] {
            let told = |by| fault(what).may_follow(&fault(other), by);
            assert_eq!((told(FoundBy::File), told(FoundBy::Host)), (by_file, by_host), "{what} of {other}");
        }
        let item = |item: usize| fault("partition.a.rw").item(item);
        assert!(item(1).may_follow(&item(1), FoundBy::Host));
        assert!(!item(1).may_follow(&item(0), FoundBy::Host));
        assert!(fault("partition.a.rw").may_follow(&item(0), FoundBy::File));
    }
}
