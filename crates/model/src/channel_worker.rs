//! What the host of a channel bench and its workers tell each other: a line of JSON each way.
//!
//! ```text
//!   host                            worker (a process on the host, or the program of a partition)
//!    │ ─────────── Mapping ─────────►│   how quick is this mapping beside ordinary memory?
//!    │ ◄───────── Mappings ──────────│
//!    │ ─────────── Series ──────────►│   to the one that follows first, then to the one that leads
//!    │ ◄────────── Outcome ──────────│   from both
//!    │ ────────────  Bye ───────────►│   it ends; so it does when its standard input ends
//! ```
//! Workers send raw outcomes only; figures are computed from them on the host.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use units::Reason;
use units::histogram::Histogram;

/// Longest line, in bytes: histograms of some thousand buckets.
pub const LONGEST_LINE: usize = 512 * 1024;
/// Longest message that is measured, in bytes.
pub const LONGEST_BYTES: u64 = 4 << 20;
/// Most repetitions of the look at a mapping.
pub const MOST_REPEATS: u32 = 64;
/// Longest reason for a failure that is kept, in characters.
pub const LONGEST_REASON: usize = 600;

/// From the host to a worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum WorkerOrder {
    /// Measure one way at one size.
    Series(SeriesOrder),
    /// Measure a mapping beside ordinary memory.
    Mapping(MappingOrder),
    /// End.
    Bye,
}

/// One way at one size.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SeriesOrder {
    /// Number of the order; the answer has the same.
    pub number: u64,
    /// Which way messages go.
    pub way: WorkerWay,
    /// Whether this worker begins each round trip.
    pub leads: bool,
    /// Size of a message.
    pub bytes: u64,
    /// How much is measured.
    pub limits: Limits,
    /// CPU this worker keeps to, as its own kernel counts.
    pub cpu: Option<u32>,
    /// CPU its own second process keeps to, where it has one.
    pub second_cpu: Option<u32>,
    /// Longest time that a single message may take.
    pub patience_ms: u64,
}

/// A way between two workers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WorkerWay {
    /// To a second process that the worker starts itself, on the same machine, through memory that both have.
    Pair(Through),
    /// Through two pieces of memory that both workers have.
    Shared {
        /// What is made of them.
        through: Through,
        /// The one that this worker writes.
        own: PathBuf,
        /// The one that the other worker writes.
        peer: PathBuf,
    },
    /// TCP; who follows listens at this address, who leads connects to it.
    Tcp {
        /// `10.77.1.2:7000`.
        address: String,
    },
    /// No messages: a plain copy from memory to memory by one process.
    Copy,
}

/// What is made of shared memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Through {
    /// A section with a ring in each piece.
    Ring,
    /// A bare flag in each piece.
    Flag,
}

/// How much is measured. Each part ends with its time, or earlier where it has a number; it has at least a few messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Limits {
    /// Round trips that are timed one by one, at most.
    pub trips: u64,
    /// Time for these.
    pub trips_ms: u64,
    /// Time for round trips that are timed as a whole.
    pub batch_ms: u64,
    /// Time for the stream.
    pub stream_ms: u64,
}

/// A mapping to be measured.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MappingOrder {
    /// Number of the order.
    pub number: u64,
    /// What is mapped; none for shared memory that the worker makes itself.
    pub path: Option<PathBuf>,
    /// Whether it may be written.
    pub writable: bool,
    /// How often.
    pub repeats: u32,
    /// CPU this worker keeps to.
    pub cpu: Option<u32>,
}

/// From a worker to the host.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum WorkerAnswer {
    /// A series is over.
    Outcome {
        /// Number of its order.
        number: u64,
        /// What was seen; none from who follows.
        seen: Seen,
    },
    /// A mapping was measured.
    Mappings {
        /// Number of its order.
        number: u64,
        /// One for each repetition.
        repeats: Vec<MappingTimes>,
    },
    /// It could not be done.
    Failed {
        /// Number of the order.
        number: u64,
        /// Why.
        reason: String,
    },
}

/// What the worker that leads saw.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Seen {
    /// Round trips, or copies, timed one by one, in nanoseconds.
    pub trips_ns: Histogram,
    /// Round trips timed as a whole.
    pub batch: Totals,
    /// Messages one way until the other side said that it has them all, or copies.
    pub stream: Totals,
    /// Reads of the clock.
    pub clock: Totals,
}

/// So many in so much time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Totals {
    /// How many.
    pub count: u64,
    /// How long they took together.
    pub ns: u64,
}

impl Totals {
    /// Nanoseconds for one; none when there are none.
    pub fn each_ns(self) -> Option<f64> {
        (self.count > 0 && self.ns > 0).then(|| self.ns as f64 / self.count as f64)
    }
}

/// One look at a mapping and at ordinary memory, one right after the other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MappingTimes {
    /// The mapping.
    pub mapping: AccessTimes,
    /// Ordinary memory.
    pub ordinary: AccessTimes,
}

/// Accesses to 64-bit words.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct AccessTimes {
    /// Loads of which each says where the next one is.
    pub dependent: Totals,
    /// Loads of word after word.
    pub loads: Totals,
    /// Stores to word after word; none where the mapping is only read.
    pub stores: Totals,
}

impl WorkerAnswer {
    /// Number of the order that is answered.
    pub const fn number(&self) -> u64 {
        match self {
            Self::Outcome { number, .. } | Self::Mappings { number, .. } | Self::Failed { number, .. } => {
                *number
            }
        }
    }

    /// Whether it is what an honest worker can say. Anything a guest sends passes this before it is used.
    pub fn is_sound(&self) -> bool {
        match self {
            Self::Outcome { seen, .. } => seen.trips_ns.is_well_formed(),
            Self::Mappings { repeats, .. } => repeats.len() <= MOST_REPEATS as usize,
            Self::Failed { .. } => true,
        }
    }
}

/// A complaint quotes what it complains of: only its beginning is shown, and nothing that moves a terminal's cursor.
fn begin_of(complaint: &str) -> String {
    complaint.chars().take(200).map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// Reads one line.
///
/// # Errors
/// What was wrong with it.
pub fn read_answer(line: &[u8]) -> Result<WorkerAnswer, Reason> {
    if line.len() > LONGEST_LINE {
        return Err(format!("wanted a line of at most {LONGEST_LINE} bytes, got {}", line.len()).into());
    }
    let answer: WorkerAnswer = serde_json::from_slice(line)
        .map_err(|error| format!("wanted an answer, got something else: {}", begin_of(&error.to_string())))?;
    if answer.is_sound() { Ok(answer) } else { Err("wanted figures that are possible, got others".into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_and_forged_ones_are_found_out() {
        let seen = Seen { trips_ns: Histogram::from_values([5, 7, 900]), ..Seen::default() };
        let answer = WorkerAnswer::Outcome { number: 3, seen };
        let line = serde_json::to_vec(&answer).unwrap();
        assert_eq!(read_answer(&line), Ok(answer));
        let line = String::from_utf8(line).unwrap();
        // One value of 5 that is 104.
        let forged = line.replace("[5,1,0,", "[5,1,99,");
        assert_ne!(forged, line);
        assert!(read_answer(forged.as_bytes()).is_err());
        assert!(read_answer(b"hello").is_err());
        let loud = format!("{{\"\\u001b[2J{}\":1}}", "x".repeat(5000));
        let quoted = read_answer(loud.as_bytes()).unwrap_err();
        assert!(quoted.to_string().len() < 1000 && !quoted.to_string().contains('\u{1b}'), "{quoted}");
        assert!(read_answer(&vec![b' '; LONGEST_LINE + 1]).is_err());
    }
}
