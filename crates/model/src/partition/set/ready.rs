//! When a partition is ready, and whether it still is: what a set's file says of it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::{Fault, Faults};
use crate::partition::Word;
use crate::partition::session::Look;

/// When a partition is ready. One of `command`, `tcp` and `file`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ReadyEntry {
    /// A program in the partition, beside its own, that ends with 0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// A TCP port at which its program listens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<u16>,
    /// A file in the partition that is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// Seconds from the start of its program until it must be so, 1 … 3600; else it has failed.
    #[serde(default = "usual_within")]
    pub within_s: u32,
}

/// Whether a partition is still well. One of `command`, `tcp` and `file`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct HealthEntry {
    /// A program in the partition, beside its own, that ends with 0.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// A TCP port at which its program listens.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<u16>,
    /// A file in the partition that is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<PathBuf>,
    /// Seconds between two looks, 1 … 3600.
    #[serde(default = "usual_interval")]
    pub interval_s: u32,
    /// Looks in a row that fail until it is ended, and `restart` says what then, 1 … 1000.
    #[serde(default = "usual_failures")]
    pub failures: u32,
}

const fn usual_within() -> u32 {
    60
}

const fn usual_interval() -> u32 {
    10
}

const fn usual_failures() -> u32 {
    3
}

/// What is looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReadyCheck {
    /// Whether this program ends with 0.
    Command(Vec<Word>),
    /// What needs none.
    Look(Look),
}

/// When a partition is ready, as its supervisor is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ready {
    /// What is to be so.
    pub check: ReadyCheck,
    /// Seconds it may take.
    pub within_s: u32,
}

/// How its health is watched.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Health {
    /// What is to stay so.
    pub check: ReadyCheck,
    /// Seconds between two looks.
    pub interval_s: u32,
    /// Looks in a row that may fail, and one more.
    pub failures: u32,
}

impl ReadyEntry {
    /// As its supervisor is told, and what is wrong with it; `at` is where it stands in the file.
    pub fn checked(&self, at: &[&str], faults: &mut Faults) -> Option<Ready> {
        let check = faults.value(check(at, &self.command, self.tcp, self.file.as_ref()));
        faults.note(bounded(at, "within_s", self.within_s, 3600));
        Some(Ready { check: check?, within_s: self.within_s })
    }
}

impl HealthEntry {
    /// As its supervisor is told, and what is wrong with it; `at` is where it stands in the file.
    pub fn checked(&self, at: &[&str], faults: &mut Faults) -> Option<Health> {
        let check = faults.value(check(at, &self.command, self.tcp, self.file.as_ref()));
        faults.note(bounded(at, "interval_s", self.interval_s, 3600));
        faults.note(bounded(at, "failures", self.failures, 1000));
        Some(Health { check: check?, interval_s: self.interval_s, failures: self.failures })
    }
}

fn check(
    at: &[&str],
    command: &[String],
    tcp: Option<u16>,
    file: Option<&PathBuf>,
) -> Result<ReadyCheck, Fault> {
    let fault = |problem: &str| Err(Fault::new(at, problem));
    match (command, tcp, file) {
        ([], None, Some(file)) if file.is_absolute() => Ok(ReadyCheck::Look(Look::File(file.clone()))),
        ([], None, Some(file)) => fault(&format!("file: wanted a path from /, got \"{}\"", file.display())),
        ([], Some(0), None) => fault("tcp: wanted a port of 1 to 65535, got 0"),
        ([], Some(port), None) => Ok(ReadyCheck::Look(Look::Tcp(port))),
        ([first, ..], None, None) if !first.is_empty() && !command.iter().any(|word| word.contains('\0')) => {
            Ok(ReadyCheck::Command(command.iter().map(|word| word.clone().into_bytes()).collect()))
        }
        ([_, ..], None, None) => fault("command: the first word is the program, and no word can hold NUL"),
        _ => fault("wanted one of command = [\"…\"], tcp = PORT and file = \"/…\""),
    }
}

fn bounded(at: &[&str], key: &str, got: u32, most: u32) -> Result<(), Fault> {
    if (1..=most).contains(&got) {
        return Ok(());
    }
    Err(Fault::new(at, format!("{key}: {got} is out of bounds; allowed is 1 to {most}")))
}

impl std::fmt::Display for ReadyCheck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Look(Look::Tcp(port)) => write!(f, "listening at TCP port {port}"),
            Self::Look(Look::File(path)) => write!(f, "the file {}", path.display()),
            Self::Command(words) => {
                let first = words.first().map(|word| String::from_utf8_lossy(word).into_owned());
                write!(f, "the command {}", first.unwrap_or_default())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_is_looked_at() {
        let entry = |text: &str| {
            let mut faults = Faults::default();
            let health = toml::from_str::<HealthEntry>(text).expect(text).checked(&["health"], &mut faults);
            (health, Vec::from(faults))
        };
        let health = entry("tcp = 80").0.expect("a port");
        assert_eq!((health.interval_s, health.failures), (10, 3));
        assert_eq!(
            entry("command = [\"a\", \"b\"]").0.expect("a command").check.to_string(),
            "the command a"
        );
        for (text, part) in [
            ("", "wanted one of"),
            ("tcp = 80\nfile = \"/a\"", "wanted one of"),
            ("tcp = 0", "1 to 65535"),
            ("file = \"a\"", "a path from /"),
            ("command = [\"\"]", "the first word"),
            ("tcp = 80\ninterval_s = 0", "allowed is 1 to 3600"),
            ("tcp = 80\nfailures = 1001", "allowed is 1 to 1000"),
        ] {
            let (_, faults) = entry(text);
            assert!(matches!(&faults[..], [one] if one.problem.contains(part)), "{text}: {faults:?}");
        }
        let (_, faults) = entry("tcp = 0\ninterval_s = 0\nfailures = 1001");
        assert_eq!(faults.len(), 3, "{faults:?}");
    }
}
