//! Names of the tracing instances that agents make, so that whoever cleans up knows whose they are.

use std::fmt;

/// First part of the name.
const PREFIX: &str = "bulkhead-";

/// Where tracefs is mounted, in the order in which the kernel's documentation names them.
pub const TRACE_ROOTS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// A tracing instance: a folder `bulkhead-PID-START` below `instances/` of tracefs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TracingInstance {
    /// The process that made it.
    pub pid: u32,
    /// When that process started, field 22 of `/proc/PID/stat`: a number is given out again, both together are not.
    pub start_ticks: u64,
}

impl TracingInstance {
    /// From a folder's name; none for what no agent made.
    pub fn parse(name: &str) -> Option<Self> {
        let (pid, start_ticks) = name.strip_prefix(PREFIX)?.split_once('-')?;
        Some(Self { pid: pid.parse().ok()?, start_ticks: start_ticks.parse().ok()? })
    }
}

impl fmt::Display for TracingInstance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}-{}", self.pid, self.start_ticks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_agents_are_read_back() {
        let own = TracingInstance { pid: 7, start_ticks: 99 };
        assert_eq!(TracingInstance::parse(&own.to_string()), Some(own));
        assert_eq!(
            ["bulkhead-7", "rtla-7-9", "bulkhead-x-9", "bulkhead-7-9-1"].map(TracingInstance::parse),
            [None; 4]
        );
    }
}
