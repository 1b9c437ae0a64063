//! Ranks of one host: rings of the `channel` crate.
//!
//! ```text
//!  Absent ──► section opened ──► Connecting ──► Up
//!    ▲  file not there yet, noise   │ the file was replaced, or grew: begin anew
//!    └──────────────────────────────┘
//! ```

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use channel::{Connecting, Endpoint, Error, Gone, Layout, Memory, PeerSection, Progress, Section, Short};

use super::Transport;
use crate::fault::Fault;
use crate::settings::Settings;
use crate::wire::HEADER;

/// A peer whose heart stands still for so long is dead. Generous: a guest may be starved by its host for seconds.
const GONE_AFTER: Duration = Duration::from_secs(8);

/// Calls of `connect` between two looks at the file.
const CALLS_PER_LOOK: u32 = 16;

/// Messages up to here, header included, are taken and given as a whole.
const SHORT: usize = 128;

/// Larger rings only push what was copied out of the processor's caches.
const MOST_RING: u64 = 1 << 20;

/// Our section: a plain file that we make, or a device that the host has given us.
///
/// # Errors
/// Says why there is none.
pub fn own_section(settings: &Settings) -> Result<Section, Fault> {
    let path = section_path(&settings.sections, settings.rank);
    let peers = u64::from(settings.size.saturating_sub(1).max(1));
    let is_device = fs::symlink_metadata(&path).is_ok_and(|facts| facts.is_symlink());
    let memory = if is_device {
        let target = fs::canonicalize(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Memory::writable(&target)
    } else {
        Memory::create(&path, settings.section_bytes)
    };
    let memory = memory.map_err(|error| error.to_string())?;
    let capacity = Layout::capacity_for(memory.bytes(), peers).ok_or_else(|| {
        let (bytes, path) = (memory.bytes(), path.display());
        format!("{path}: {bytes} bytes are too few for rings to {peers} ranks; make the section larger")
    })?;
    let capacity = capacity.min(MOST_RING);
    let others = (0..settings.size.max(2)).filter(|rank| *rank != settings.rank);
    let layout =
        others.fold(Layout::new(party(settings.rank)), |layout, rank| layout.ring(party(rank), capacity));
    Section::create_in(memory, &layout).map_err(|error| error.to_string().into())
}

fn section_path(folder: &Path, rank: u32) -> PathBuf {
    folder.join(format!("rank-{rank}"))
}

/// Looks for a message between two looks whether the link has ended.
const CALLS_PER_END: u32 = 32;

/// Parties are counted from one.
fn party(rank: u32) -> u32 {
    rank.saturating_add(1)
}

/// What tells a file from the one that took its place.
type Identity = (u64, u64, u64);

enum State {
    Absent,
    Connecting(Connecting, Identity),
    Up(Box<Endpoint>),
}

/// The way to one rank of the same host.
pub struct Ring {
    section: Section,
    path: PathBuf,
    peer: u32,
    state: State,
    calls: u32,
    obstacle: String,
    /// Header of the message being taken, as it was when it was decided what to do with it.
    header: [u8; HEADER],
    again: [u8; HEADER],
    /// A short message that was taken as a whole: header and payload, and the bytes of both.
    words: [u64; SHORT / 8],
    short: Option<usize>,
}

impl Ring {
    /// A way that is not up yet.
    pub fn new(section: &Section, folder: &Path, rank: u32) -> Self {
        Self {
            section: section.clone(),
            path: section_path(folder, rank),
            peer: party(rank),
            state: State::Absent,
            calls: 0,
            obstacle: String::new(),
            header: [0; HEADER],
            again: [0; HEADER],
            words: [0; SHORT / 8],
            short: None,
        }
    }

    /// The peer's file as it is now. Links are followed: a device is one.
    fn look(&self) -> Result<(PathBuf, Identity), std::io::Error> {
        let path = fs::canonicalize(&self.path)?;
        let facts = fs::metadata(&path)?;
        Ok((path, (facts.dev(), facts.ino(), facts.len())))
    }

    /// Opens the peer's section, if it is there by now or another than before.
    fn open(&mut self) -> Result<(), Fault> {
        let (path, identity) = match self.look() {
            Ok(found) => found,
            Err(error) => {
                self.obstacle = format!("{}: {error}", self.path.display());
                return Ok(());
            }
        };
        if matches!(&self.state, State::Connecting(_, before) if *before == identity) {
            return Ok(());
        }
        self.state = State::Absent;
        match Memory::readable(&path).and_then(PeerSection::new) {
            Ok(peer) => {
                let connecting = Connecting::begin(&self.section, self.peer, &peer).map_err(fault)?;
                self.state = State::Connecting(connecting, identity);
            }
            // Just being made.
            Err(error @ (Error::TooSmall { .. } | Error::Io { .. })) => self.obstacle = error.to_string(),
            Err(error) => return Err(fault(error)),
        }
        Ok(())
    }

    fn endpoint(&mut self) -> Result<&mut Endpoint, Fault> {
        match &mut self.state {
            State::Up(endpoint) => Ok(endpoint),
            _ => Err(Fault::new("not connected")),
        }
    }
}

/// A header as words.
#[inline]
fn as_words(header: &[u8; HEADER]) -> [u64; HEADER / 8] {
    let mut words = [0; HEADER / 8];
    for (word, bytes) in words.iter_mut().zip(header.as_chunks::<8>().0) {
        *word = u64::from_le_bytes(*bytes);
    }
    words
}

/// The first bytes of words.
#[inline]
fn copy_out(words: &[u64], bytes: &mut [u8]) {
    let (whole, rest) = bytes.as_chunks_mut::<8>();
    let count = whole.len();
    for (to, word) in whole.iter_mut().zip(words) {
        *to = word.to_le_bytes();
    }
    if let Some(word) = words.get(count) {
        for (to, from) in rest.iter_mut().zip(word.to_le_bytes()) {
            *to = from;
        }
    }
}

fn fault(error: Error) -> Fault {
    let orderly = matches!(error, Error::PeerGone { how: Gone::Closed, .. });
    // The channel names its peers by their places, people by their ranks; and no rank can be started again.
    let words = match error {
        Error::PeerGone { how: Gone::Closed, .. } => "it closed its channel".to_owned(),
        Error::PeerGone { how: Gone::Silent(time), .. } => {
            format!("it gave no heartbeat for {:.1} s: it was killed or stopped", time.as_secs_f64())
        }
        Error::PeerRestarted { .. } => "it began anew".to_owned(),
        other => other.to_string(),
    };
    Fault { words, orderly }
}

impl Transport for Ring {
    fn connect(&mut self) -> Result<bool, Fault> {
        if self.calls.is_multiple_of(CALLS_PER_LOOK) {
            self.open()?;
        }
        self.calls = self.calls.wrapping_add(1);
        let State::Connecting(connecting, _) = &mut self.state else { return Ok(false) };
        match connecting.step() {
            Ok(Some(mut endpoint)) => {
                endpoint.set_gone_after(GONE_AFTER);
                self.state = State::Up(Box::new(endpoint));
                return Ok(true);
            }
            Ok(None) => "it has not connected to us".clone_into(&mut self.obstacle),
            // Its owner has not started, is about to, or left this behind in an earlier run.
            Err(
                error @ (Error::NotReady { .. }
                | Error::NotASection { .. }
                | Error::Damaged { .. }
                | Error::TooSmall { .. }
                | Error::NoRing { .. }),
            ) => self.obstacle = error.to_string(),
            Err(error) => return Err(fault(error)),
        }
        Ok(false)
    }

    fn obstacle(&self) -> String {
        self.obstacle.clone()
    }

    fn send(&mut self, header: &[u8; HEADER], payload: &[u8]) -> Result<bool, Fault> {
        let endpoint = self.endpoint()?;
        let length = HEADER + payload.len();
        if length <= SHORT && !endpoint.sender().is_open() {
            return endpoint.sender().try_send_short(&as_words(header), payload).map_err(fault);
        }
        let progress = endpoint.sender().try_send_part(&[header, payload]);
        progress.map(|progress| matches!(progress, Progress::Whole(_))).map_err(fault)
    }

    fn next(&mut self) -> Result<Option<([u8; HEADER], usize)>, Fault> {
        let State::Up(endpoint) = &mut self.state else { return Ok(None) };
        self.calls = self.calls.wrapping_add(1);
        if !endpoint.receiver().has_news() && !self.calls.is_multiple_of(CALLS_PER_END) {
            return Ok(None);
        }
        match endpoint.receiver().try_receive_short(&mut self.words).map_err(fault)? {
            Short::Nothing => return Ok(None),
            Short::Message(length) => {
                let Some(payload) = length.checked_sub(HEADER) else {
                    return Err(Fault::new(format!("wanted a header of {HEADER} bytes, got {length}")));
                };
                self.short = Some(payload);
                let mut header = [0; HEADER];
                copy_out(&self.words, &mut header);
                return Ok(Some((header, payload)));
            }
            Short::Longer => {}
        }
        let mut header = [0; HEADER];
        let Some(mut peek) = endpoint.receiver().peek().map_err(fault)? else { return Ok(None) };
        let length = peek.length();
        let read = peek.read(0, &mut header).map_err(fault)?;
        if read < HEADER {
            return Err(Fault::new(format!("wanted a header of {HEADER} bytes, got {read}")));
        }
        self.header = header;
        Ok(Some((header, length - HEADER)))
    }

    fn take(&mut self, into: &mut [u8], rest: &mut [u8]) -> Result<bool, Fault> {
        if let Some(payload) = self.short.take() {
            let words = self.words.get(HEADER / 8..).unwrap_or_default();
            if rest.is_empty() && into.len() == payload {
                copy_out(words, into);
                return Ok(true);
            }
            // Seldom: what does not fit where it should go is cut into two.
            let mut all = [0; SHORT];
            copy_out(words, &mut all);
            let (front, back) = all.split_at(into.len().min(payload));
            for (to, from) in into.iter_mut().chain(rest).zip(front.iter().chain(back)) {
                *to = *from;
            }
            return Ok(true);
        }
        let wanted = HEADER + into.len() + rest.len();
        let State::Up(endpoint) = &mut self.state else { return Err(Fault::new("not connected")) };
        let progress = endpoint.receiver().try_receive_part(&mut [&mut self.again, into, rest]);
        let Progress::Whole(got) = progress.map_err(fault)? else { return Ok(false) };
        // What was looked at and what was taken are two readings of memory that is the peer's.
        if got != wanted || self.again != self.header {
            return Err(Fault::new("it changed a message while that was being read"));
        }
        Ok(true)
    }

    fn check(&mut self) -> Result<(), Fault> {
        let State::Up(endpoint) = &mut self.state else { return Ok(()) };
        endpoint.sender().check_peer().map_err(fault)
    }
}
