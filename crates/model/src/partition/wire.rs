//! What the host and PID 1 of a partition tell each other about its program. Streams travel beside, each on a port of its
//! own; here is only said where they end, so that a port needs no end of its own.
//!
//! ```text
//!   host                                guest
//!    │ ◄─────────── Parked ──────────────│   only a guest that is saved, or was: it waits to be told what it is
//!    │ ──────────── (Wake) ─────────────►│   `platforms::vm::guest::Wake`: config, time, random seed
//!    │ ◄─────────── Awake ───────────────│
//!    │ ◄─────────── Ready ───────────────│   file tree is mounted, streams are open
//!    │ ──────────── Start ──────────────►│
//!    │ ◄────────── Started ──────────────│   or Refused: not found, not executable …; then the guest ends
//!    │ ─── Signal, Resize, InputEnds ───►│   any time; a signal that was passed on is acknowledged by Passed
//!    │ ─────────── NobodyReads ─────────►│   the host's reader is gone: the program's writes are to fail
//!    │ ◄────────── InputUnread ──────────│   the program has closed its standard input
//!    │ ◄─────── OutputEnds × 2 ──────────│   so many bytes came out of it
//!    │ ◄────────── Delivers ─────────────│   if the program has ended, and clients of its ports take what it sent
//!    │ ◄─────── MemoryRanOut ────────────│   if a process was killed for want of memory, once
//!    │ ◄─────────── Ended ───────────────│   exit code or signal
//!    │ ──────────── Bye ────────────────►│   the guest ends
//! ```

use serde::{Deserialize, Serialize};

use super::program::TerminalSize;
use units::{Bytes, Mebibytes};

/// Version of these messages; both ends are the same program, so another one is a mistake.
pub const PROGRAM_PROTOCOL: u32 = 1;
/// Longest text in a message, in characters.
pub const LONGEST_TEXT: usize = 2000;
/// Longest message in bytes; both sides send small ones only.
pub const LONGEST_MESSAGE: usize = 16 * 1024;

/// A stream of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Stream {
    /// Standard input.
    Input,
    /// Standard output; a terminal's only output.
    Output,
    /// Standard error.
    Error,
}

/// From the host to PID 1.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum ToGuest {
    /// Start the program.
    Start,
    /// Send it this signal, by its number.
    Signal {
        /// 1 … 64.
        number: i32,
    },
    /// Its terminal has another size now.
    Resize {
        /// The new size.
        size: TerminalSize,
    },
    /// Standard input ends after so many bytes.
    InputEnds {
        /// Bytes since the start.
        bytes: u64,
    },
    /// Nobody reads this output on the host any more.
    NobodyReads {
        /// Which.
        stream: Stream,
    },
    /// All was heard: end the guest.
    Bye,
}

/// Whether a signal asks a program to end: SIGHUP, SIGINT, SIGQUIT, SIGTERM.
pub const fn asks_to_end(number: i32) -> bool {
    matches!(number, 1 | 2 | 3 | 15)
}

/// From PID 1 to the host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum FromGuest {
    /// Its kernel and drivers are up, and it waits to be told what it is.
    Parked,
    /// It was told, has this moment's time and random numbers of its own, and its late devices are there.
    Awake,
    /// Everything is prepared.
    Ready {
        /// [`PROGRAM_PROTOCOL`] of the guest.
        protocol: u32,
        /// CPUs it sees.
        cpus: u32,
        /// Memory it sees, in bytes.
        memory_bytes: u64,
        /// Memory that is free before the program starts, in bytes.
        free_bytes: u64,
    },
    /// The program runs.
    Started,
    /// The program cannot be started.
    Refused {
        /// 125 … 127, as shells use them.
        code: u8,
        /// Why.
        reason: String,
    },
    /// A signal was passed on to the program.
    Passed {
        /// Its number.
        number: i32,
    },
    /// The program does not read its standard input any more.
    InputUnread,
    /// A stream of the program has ended after so many bytes.
    OutputEnds {
        /// Which.
        stream: Stream,
        /// Bytes since the start.
        bytes: u64,
    },
    /// The kernel killed processes for want of memory while the program ran.
    MemoryRanOut {
        /// The largest of them.
        victim: Victim,
    },
    /// The program has ended, and clients of its ports still take what it sent.
    Delivers,
    /// The program has ended; both of its streams have, or will within a second.
    Ended {
        /// How.
        how: ProgramEnd,
    },
}

/// A process that was killed because memory had run out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Victim {
    /// Its name as the kernel has it; empty when that is not known.
    pub name: String,
    /// What it had of the memory.
    #[serde(rename = "memory_bytes")]
    pub memory: Bytes,
    /// What files had of it that nothing but memory holds: in `/tmp`, `/dev/shm`, and what else is in no tree that is kept.
    #[serde(rename = "files_bytes")]
    pub files: Bytes,
}

impl Victim {
    /// What is said of it, in a partition with so much memory.
    pub fn words(&self, memory: Mebibytes) -> String {
        let (whole, files) = (memory.get(), self.files.get() >> 20);
        let largest = match (self.name.as_str(), self.memory.get() >> 20) {
            ("", _) => String::new(),
            (name, mib) => format!("; the largest was {name} ({mib} MiB)"),
        };
        // Otherwise the reason is the process.
        let files = if self.files > self.memory && files > 0 {
            format!("; files in /tmp, /dev/shm and elsewhere in memory had {files} MiB")
        } else {
            String::new()
        };
        format!("memory ran out ({whole} MiB){largest}{files}")
    }
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ProgramEnd {
    /// By itself, with this code.
    Exit(u8),
    /// By this signal.
    Signal(i32),
}

impl ProgramEnd {
    /// The code a shell would show: that of the program, or 128 and the signal's number.
    pub fn code(self) -> u8 {
        match self {
            Self::Exit(code) => code,
            // What is no signal can only come from a guest that lies.
            Self::Signal(number) => u8::try_from(number).ok().and_then(|n| n.checked_add(128)).unwrap_or(255),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_death_by_signal_is_128_and_its_number() {
        assert_eq!(ProgramEnd::Exit(3).code(), 3);
        assert_eq!(ProgramEnd::Signal(15).code(), 143);
        assert_eq!([-1, 128, i32::MAX].map(|number| ProgramEnd::Signal(number).code()), [255; 3]);
    }
}
