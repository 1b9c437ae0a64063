//! What a partition is granted.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use units::{Bytes, Mebibytes, Reason};

/// Highest number of a CPU or a memory node that is accepted: what Linux is built for at most.
pub const HIGHEST_NUMBER: u32 = 8191;

/// Least memory a guest boots with.
pub const LEAST_MEMORY: Mebibytes = Mebibytes::from_mib(128);

/// Memory with which a guest boots.
///
/// # Errors
/// What is wanted, and what was got.
pub fn boots_with(memory: Mebibytes) -> Result<Mebibytes, Reason> {
    if memory >= LEAST_MEMORY {
        return Ok(memory);
    }
    Err(format!("a guest boots with at least {} MiB, got {} MiB", LEAST_MEMORY.get(), memory.get()).into())
}

/// Most virtual CPUs of a partition: those of QEMU's q35 machine.
pub const MOST_CPUS: u32 = 255;

/// What a partition is granted. What is not set is left to the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resources {
    /// Virtual CPUs.
    pub cpus: u32,
    /// Host CPUs that virtual CPUs run on: as many as there are virtual ones binds one to one in this order, any other
    /// number lets all of them use all.
    pub pin: Option<NumberList>,
    /// Memory of the guest.
    #[serde(rename = "memory_mib")]
    pub memory: Mebibytes,
    /// Host memory node that holds all of it.
    pub node: Option<u32>,
    /// Whether it lies in huge pages; it is then reserved before the guest starts.
    pub hugepages: bool,
    /// How its CPUs stand against others.
    pub priority: Priority,
    /// Weight against other partitions, 1 … 10 000; 100 is usual.
    pub cpu_weight: Option<u32>,
    /// At most this many percent of one CPU.
    pub cpu_cap_percent: Option<u32>,
    /// Memory nodes that the *guest* sees, its CPUs and memory spread evenly; 1 is usual.
    pub guest_nodes: u32,
}

impl Resources {
    /// So many CPUs and so much memory, and nothing special.
    pub const fn usual(cpus: u32, memory: Mebibytes) -> Self {
        Self {
            cpus,
            pin: None,
            memory,
            node: None,
            hugepages: false,
            priority: Priority::Usual,
            cpu_weight: None,
            cpu_cap_percent: None,
            guest_nodes: 1,
        }
    }
}

/// How the threads of a partition's CPUs are scheduled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Priority {
    /// As everything else.
    #[default]
    Usual,
    /// `nice` value, −20 … 19.
    Nice(i8),
    /// `SCHED_FIFO` priority, 1 … 99.
    Realtime(u8),
}

/// A disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskSpec {
    /// Raw image or block device on the host.
    pub file: std::path::PathBuf,
    /// Whether the partition may only read it.
    #[serde(default)]
    pub read_only: bool,
    /// Bytes per second at most, reads and writes together.
    #[serde(default)]
    pub bytes_per_s: Option<Bytes>,
    /// Operations per second at most.
    #[serde(default)]
    pub operations_per_s: Option<u64>,
}

/// A network card.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CardSpec {
    /// QEMU's own network: out through the host's sockets, nothing comes in.
    User,
    /// A plug at a switch of a set. A network with doubled links has two plugs for one card of the guest.
    Switch {
        /// Name of the network.
        network: String,
        /// Sockets of its switches, one per link.
        sockets: Vec<std::path::PathBuf>,
        /// Number of the partition in the network, 1 … 250: from it follow hardware and IPv4 address.
        number: u8,
        /// Address with prefix length that the card gets, `10.77.1.2/24`.
        address: String,
    },
}

/// A section of a channel: memory that one partition writes and others only read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SectionSpec {
    /// Name of the channel; its program finds it as `/dev/bulkhead/NAME`.
    pub name: String,
    /// File on the host, in memory, of exactly this size, ours alone.
    pub path: std::path::PathBuf,
    /// Its size, a power of two.
    pub size_mib: Mebibytes,
    /// Whether this partition is the one that may write.
    pub writable: bool,
}

/// Ascending numbers of CPUs or memory nodes, written `0-3,8`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct NumberList(Vec<u32>);

impl NumberList {
    /// From numbers in any order.
    pub fn of(numbers: impl IntoIterator<Item = u32>) -> Self {
        let sorted: std::collections::BTreeSet<u32> = numbers.into_iter().collect();
        Self(sorted.into_iter().collect())
    }

    /// The numbers, ascending.
    pub fn numbers(&self) -> &[u32] {
        &self.0
    }
}

impl FromStr for NumberList {
    type Err = Reason;

    /// Reads `0-3,8`. The empty text is the empty list, as the kernel writes it.
    fn from_str(text: &str) -> Result<Self, Reason> {
        let wanted = |got: &str| {
            format!("wanted numbers such as 0-3,8 with none above {HIGHEST_NUMBER}, got \"{got}\"")
        };
        let number = |word: &str| -> Result<u32, Reason> {
            let plain = !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
            word.parse()
                .ok()
                .filter(|number| plain && *number <= HIGHEST_NUMBER)
                .ok_or_else(|| wanted(text).into())
        };
        let mut numbers = std::collections::BTreeSet::new();
        for part in text.trim().split(',').filter(|_| !text.trim().is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (number(first.trim())?, number(last.trim())?);
            if first > last {
                return Err(wanted(text).into());
            }
            numbers.extend(first..=last);
        }
        Ok(Self(numbers.into_iter().collect()))
    }
}

impl TryFrom<String> for NumberList {
    type Error = Reason;

    fn try_from(text: String) -> Result<Self, Reason> {
        text.parse()
    }
}

impl From<NumberList> for String {
    fn from(list: NumberList) -> Self {
        list.to_string()
    }
}

impl fmt::Display for NumberList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.0.as_slice();
        let mut separator = "";
        while let Some((&first, _)) = rest.split_first() {
            let run = rest.iter().zip(first..).take_while(|(have, want)| *have == want).count();
            let last = rest.get(run - 1).copied().unwrap_or(first);
            if first == last {
                write!(f, "{separator}{first}")?;
            } else {
                write!(f, "{separator}{first}-{last}")?;
            }
            separator = ",";
            rest = rest.get(run..).unwrap_or_default();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_written_as_the_kernel_does() {
        for text in ["", "0", "0-3", "0-3,8", "1,3,5-7"] {
            assert_eq!(text.parse::<NumberList>().unwrap().to_string(), text);
        }
        assert_eq!("8,0-2,1\n".parse::<NumberList>().unwrap().to_string(), "0-2,8");
        for text in ["a", "3-1", "-1", "1-", ",", "0-99999999", "+1", "99999"] {
            assert!(text.parse::<NumberList>().is_err(), "{text}");
        }
    }
}
