//! The sections of a run: one file in memory for each rank, made before any partition starts. After the end they tell
//! which ranks came.

use std::io;
use std::path::PathBuf;
use std::time::Instant;

use channel::{Memory, PeerSection, State};

use super::heartbeat::RankHeartbeat;
use super::layout::Layout;
use crate::section_folder::SectionFolder;
use model::partition::SectionSpec;
use platforms::ledger::Ledger;
use units::{Mebibytes, Reason};

/// The files of a run; they go when this is dropped.
#[derive(Debug)]
pub struct Sections {
    folder: SectionFolder,
    homes: Vec<usize>,
    size: Mebibytes,
}

impl Sections {
    /// Makes a file of `size` for each rank.
    ///
    /// # Errors
    /// There is no room, or the folder is there already.
    pub fn make(layout: &Layout, size: Mebibytes, ledger: &Ledger) -> io::Result<Self> {
        let homes = layout.homes();
        let folder = SectionFolder::make(ledger, (0..homes.len()).map(section_name), size)?;
        Ok(Self { folder, homes, size })
    }

    /// What the partition with this place, from 0, gets: all sections, those of its own ranks to write to.
    pub fn of_partition(&self, place: usize) -> Vec<SectionSpec> {
        let one = |(rank, home): (usize, &usize)| SectionSpec {
            name: section_name(rank),
            path: self.path(rank),
            size_mib: self.size,
            writable: *home == place,
        };
        self.homes.iter().enumerate().map(one).collect()
    }

    /// Ranks that never came: nobody wrote their sections.
    ///
    /// # Errors
    /// A section cannot be read, or somebody wrote noise to it.
    pub fn missing(&self) -> Result<Vec<usize>, Reason> {
        let mut missing = Vec::new();
        for rank in 0..self.homes.len() {
            let failed = |error: channel::Error| format!("the section of rank {rank}: {error}");
            let memory = Memory::readable(&self.path(rank)).map_err(failed)?;
            let word = PeerSection::new(memory).and_then(|section| section.state()).map_err(failed)?;
            if word.state == State::Absent {
                missing.push(rank);
            }
        }
        Ok(missing)
    }

    /// Their hearts, to be looked at while the job runs.
    pub fn heartbeat(&self) -> RankHeartbeat {
        let section = |rank| PeerSection::new(Memory::readable(&self.path(rank)).ok()?).ok();
        RankHeartbeat::new((0..self.homes.len()).map(section).collect(), Instant::now())
    }

    /// The partition, from 0, that a rank is in.
    pub fn home(&self, rank: usize) -> usize {
        self.homes.get(rank).copied().unwrap_or_default()
    }

    /// How many there are.
    pub fn ranks(&self) -> usize {
        self.homes.len()
    }

    fn path(&self, rank: usize) -> PathBuf {
        self.folder.file(&section_name(rank))
    }
}

/// Under this name the library looks for it in a partition.
fn section_name(rank: usize) -> String {
    format!("rank-{rank}")
}

/// What is said when these ranks of `all` never came; `ended` is how the launcher ended, in words.
pub fn complaint(missing: &[usize], all: usize, ended: &str) -> String {
    let shown: Vec<String> = missing.iter().map(ToString::to_string).collect();
    let who = match missing.len() {
        count if count == all => "no rank came to its channel".to_owned(),
        1 => format!("rank {} never came to its channel", shown.join("")),
        _ => format!("ranks {} never came to their channels", shown.join(", ")),
    };
    format!(
        "{who} (mpirun {ended}). Either the program does not call MPI_Init or ended before it, or its \
         MPI library is not the Open MPI of this host, or that could not load the library for channels; what it said is \
         above, and with --env FI_LOG_LEVEL=info --env BULKHEAD_FABRIC_DEBUG=1 it says more"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_never_came_is_known() {
        let folder = tempfile::Builder::new().prefix("bulkhead-test-").tempdir().unwrap();
        let ledger = Ledger::open(folder.path()).unwrap();
        let layout = Layout::of(3, Some(2)).unwrap();
        let sections = Sections::make(&layout, Mebibytes::from_mib(1), &ledger).unwrap();
        assert_eq!(sections.missing().unwrap(), [0, 1, 2]);
        let second = sections.of_partition(1);
        let writable: Vec<&str> =
            second.iter().filter(|section| section.writable).map(|section| section.name.as_str()).collect();
        assert_eq!(writable, ["rank-2"]);
        let came = channel::Section::create_in(
            Memory::writable(&second[1].path).unwrap(),
            &channel::Layout::new(2).ring(1, 4096),
        );
        drop(came.unwrap());
        assert_eq!(sections.missing().unwrap(), [0, 2]);
        std::fs::write(&second[0].path, vec![0xee; 1 << 20]).unwrap();
        assert!(sections.missing().unwrap_err().to_string().contains("rank 0"));
    }

    #[test]
    fn complaints_name_who_is_missing() {
        assert!(
            complaint(&[1], 2, "ended with 0")
                .starts_with("rank 1 never came to its channel (mpirun ended with 0)")
        );
        assert!(complaint(&[0, 1], 2, "").starts_with("no rank came to its channel"));
        assert!(complaint(&[0, 2], 3, "").starts_with("ranks 0, 2 never"));
    }
}
