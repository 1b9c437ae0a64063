//! The sections of a run: one file in memory for each rank, made before any partition starts. After the end they tell
//! which ranks came.
//!
//! ```text
//!  /dev/shm/bulkhead-…/   0700, named like the runtime folder, in the ledger before it is made
//!    rank-0               the state word says whether its rank ever wrote it
//! ```

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use channel::{Memory, PeerSection, State};

use super::layout::Layout;
use crate::model::partition::SectionSpec;
use crate::model::units::Mebibytes;
use crate::partition::set::channels::{MEMORY, make_file};
use crate::platforms::ledger::{Ledger, Thing, Ticket};

/// The files of a run; they go when this is dropped.
#[derive(Debug)]
pub struct Sections {
    folder: PathBuf,
    homes: Vec<usize>,
    size: Mebibytes,
    ledger: Ledger,
    ticket: Option<Ticket>,
}

impl Sections {
    /// Makes a file of `size` for each rank.
    ///
    /// # Errors
    /// There is no room, or the folder is there already.
    pub fn make(layout: &Layout, size: Mebibytes, ledger: &Ledger) -> io::Result<Self> {
        let name = ledger.dir().file_name().ok_or(io::ErrorKind::InvalidInput)?;
        let folder = Path::new(MEMORY).join(name);
        let ticket = Some(ledger.record(Thing::Directory { path: folder.clone() })?);
        DirBuilder::new().mode(0o700).create(&folder)?;
        let made = Self { folder, homes: layout.homes(), size, ledger: ledger.clone(), ticket };
        (0..made.homes.len()).try_for_each(|rank| make_file(&made.path(rank), size))?;
        Ok(made)
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
    pub fn missing(&self) -> Result<Vec<usize>, String> {
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

    /// How many there are.
    pub fn ranks(&self) -> usize {
        self.homes.len()
    }

    fn path(&self, rank: usize) -> PathBuf {
        self.folder.join(section_name(rank))
    }
}

impl Drop for Sections {
    fn drop(&mut self) {
        // What cannot be removed now stays in the ledger for the reaper.
        if fs::remove_dir_all(&self.folder).is_ok()
            && let Some(ticket) = self.ticket.take()
        {
            self.ledger.undone(ticket);
        }
    }
}

/// Under this name the library looks for it in a partition.
fn section_name(rank: usize) -> String {
    format!("rank-{rank}")
}

/// What is said when these ranks of `all` never came; `ended` is how the launcher ended, in words.
pub fn complaint(missing: &[usize], all: usize, ended: &str) -> String {
    let shown: Vec<String> = missing.iter().map(ToString::to_string).collect();
    let (who, came) = match missing.len() {
        1 => (format!("rank {}", shown.join("")), "its channel"),
        count if count == all => ("all ranks".to_owned(), "their channels"),
        _ => (format!("ranks {}", shown.join(", ")), "their channels"),
    };
    format!(
        "{who} never came to {came} (mpirun {ended}). Either the program does not call MPI_Init or ended before it, or its \
         MPI library is not the Open MPI of this host, or that could not load the library for channels; what it said is \
         above, and with --env FI_LOG_LEVEL=info --env BULKHEAD_FABRIC_DEBUG=1 it says more"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_never_came_is_known_and_nothing_is_left() {
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
        fs::write(&second[0].path, vec![0xee; 1 << 20]).unwrap();
        assert!(sections.missing().unwrap_err().contains("rank 0"));
        let there = sections.folder.clone();
        drop(sections);
        assert!(!there.exists());
        let again = Sections::make(&layout, Mebibytes::from_mib(1), &ledger).unwrap();
        // As when killed: only the ledger knows.
        std::mem::forget(again);
        let said = crate::platforms::ledger::sweep(folder.path());
        assert!(said.len() == 1 && !there.exists(), "{said:?}");
    }

    #[test]
    fn complaints_name_who_is_missing() {
        assert!(
            complaint(&[1], 2, "ended with 0")
                .starts_with("rank 1 never came to its channel (mpirun ended with 0)")
        );
        assert!(complaint(&[0, 1], 2, "").starts_with("all ranks never came to their channels"));
        assert!(complaint(&[0, 2], 3, "").starts_with("ranks 0, 2 never"));
    }
}
