//! Reads from the kernel how a container's agent is really walled off, and compares it with what was asked for: a
//! runtime that ignores a part of its configuration must not pass for one that obeys it.

use std::fs;

use super::sys_view;
use super::walls::{Users, Walls, mask};
use units::Reason;

/// What the agent's process calls itself.
const AGENT: &str = "bulkhead";
/// `Seccomp:` of a process with a filter (`seccomp(2)`).
const FILTERED: &str = "2";

/// Compares the agent among `processes` with `walls`. In words what was found; none where the runtime hides its
/// processes.
///
/// # Errors
/// What was asked for and what is there instead.
pub fn compare(walls: &Walls, processes: &[u32]) -> Result<Option<String>, Reason> {
    let read = |pid: u32, file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).ok();
    let is_agent = |pid: &u32| read(*pid, "comm").is_some_and(|name| name.trim() == AGENT);
    let Some(pid) = processes.iter().copied().find(is_agent) else { return Ok(None) };
    let mounts = fs::read(format!("/proc/{pid}/mountinfo")).ok();
    let (Some(status), Some(map), Some(mounts)) = (read(pid, "status"), read(pid, "uid_map"), mounts) else {
        return Ok(None);
    };
    judge(walls, &status, &map, &mounts).map(Some)
}

fn judge(walls: &Walls, status: &str, map: &str, mounts: &[u8]) -> Result<String, Reason> {
    if let Some(place) = sys_view::unasked(mounts, walls.has_user_namespace()) {
        return Err(format!(
            "it was to see nothing of this host's mounts below /sys, and something is mounted at {}: name another runtime",
            place.display()
        ).into());
    }
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.map_or("nothing", str::trim)
    };
    let (filter, may) = (field("Seccomp"), field("CapEff"));
    if walls.seccomp.is_ok() && filter != FILTERED {
        return Err(format!(
            "its system calls were to be filtered, and they are not (Seccomp: {filter}): name another runtime, or set \
             seccomp = false"
        ).into());
    }
    let wanted = mask(&walls.capabilities);
    if u64::from_str_radix(may, 16) != Ok(wanted) {
        return Err(format!("its root was to have the capabilities {wanted:016x}, and has {may}").into());
    }
    if let Ok(users) = &walls.users {
        let wanted = ["0", &users.first.to_string(), &Users::count().to_string()].map(str::to_owned);
        if !map.split_whitespace().eq(wanted.iter().map(String::as_str)) {
            return Err(format!("its users were to be {}, and are {}", wanted.join(" "), map.trim()).into());
        }
    }
    Ok(format!("Seccomp: {filter}, CapEff: {may}, NoNewPrivs: {}", field("NoNewPrivs")))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use model::experiment::PlatformSpec;
    use units::names::PlatformKind;

    const STATUS: &str = "Name:\tbulkhead\nCapEff:\t00000000a80425fb\nNoNewPrivs:\t0\nSeccomp:\t2\n";

    const NO_MOUNTS: &[u8] = b"";

    #[test]
    fn a_wall_that_was_asked_for_and_is_not_there_is_named() {
        let walls = Walls::of(&PlatformSpec::of_kind(PlatformKind::Container), Path::new("/tmp"));
        let host = Walls { seccomp: Ok(serde_json::Value::Null), ..walls.without_users("a test") };
        let found = judge(&host, STATUS, "0 0 4294967295\n", NO_MOUNTS).unwrap();
        assert_eq!(found, "Seccomp: 2, CapEff: 00000000a80425fb, NoNewPrivs: 0");
        let error = judge(&host, &STATUS.replace("Seccomp:\t2", "Seccomp:\t0"), "", NO_MOUNTS).unwrap_err();
        assert!(error.to_string().contains("they are not (Seccomp: 0)"), "{error}");
        let error = judge(&host, &STATUS.replace("a80425fb", "ffffffff"), "", NO_MOUNTS).unwrap_err();
        assert!(error.to_string().contains("00000000a80425fb, and has 00000000ffffffff"), "{error}");
        let users = Users { first: 70_000, reached_at: "/mnt".into() };
        let own = Walls { users: Ok(users), ..host };
        assert!(judge(&own, STATUS, "         0      70000      65536\n", NO_MOUNTS).is_ok());
        let error = judge(&own, STATUS, "0 0 4294967295\n", NO_MOUNTS).unwrap_err();
        assert!(error.to_string().contains("were to be 0 70000 65536, and are 0 0 4294967295"), "{error}");
        let mounts = b"36 35 98:0 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";
        let error = judge(&own, STATUS, "0 70000 65536\n", mounts).unwrap_err();
        assert!(error.to_string().contains("mounted at /sys/fs/cgroup"), "{error}");
    }
}
