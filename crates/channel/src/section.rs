//! A section: memory that one party writes and all others only read.

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicU64 as Flags, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::atomic::{acquire, release};
use crate::error::{Error, Result};
use crate::layout::{
    BEAT_AT, Entry, HEADER_WORDS, LEAST_BYTES, LINK_WORDS, Layout, MOST_LINKS, SESSION, STATE_AT, link_block,
};
use crate::memory::Memory;
use crate::state::{MOST_GENERATION, State, StateWord, Step};
use crate::words::{Foreign, Own};

/// Time between two heartbeats.
const BEAT: Duration = Duration::from_millis(20);

/// Our own section. Clones are the same section; it ends with the last of them and of its endpoints.
#[derive(Debug, Clone)]
pub struct Section {
    pub(crate) inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) memory: Arc<Memory>,
    pub(crate) layout: Layout,
    header: Own,
    word: Mutex<StateWord>,
    /// One bit per link that has an endpoint.
    taken: Flags,
    sessions: Flags,
    heart: Mutex<Option<(Sender<()>, JoinHandle<()>)>>,
}

impl fmt::Debug for Inner {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Section")
            .field("memory", &self.memory.name())
            .field("layout", &self.layout)
            .finish_non_exhaustive()
    }
}

impl Section {
    /// Takes a file over as our section and lays it out; makes it, or makes it larger, where needed.
    ///
    /// A thread beats the section's heart until the last clone is dropped.
    #[cfg(not(loom))]
    pub fn create(path: &Path, layout: &Layout) -> Result<Self> {
        Self::create_in(Memory::create(path, layout.bytes())?, layout)
    }

    /// The same in memory of any kind, for instance the resource of a PCI device.
    pub fn create_in(memory: Memory, layout: &Layout) -> Result<Self> {
        layout.check(memory.bytes(), memory.name())?;
        if let Some(file) = memory.file() {
            // Not every file can be locked; those that cannot are given to one machine by their host.
            if matches!(file.try_lock(), Err(std::fs::TryLockError::WouldBlock)) {
                let why = "another process writes it: one section, one writer; end that process first";
                return Err(Error::InUse(format!("{}: {why}", memory.name())));
            }
        }
        let memory = Arc::new(memory);
        let Some(header) = Own::new(&memory, 0, HEADER_WORDS) else {
            return Err(Error::InUse(format!("{}: opened for reading only", memory.name())));
        };
        let word = start(&memory, &header, layout)?;
        let inner = Inner {
            memory,
            layout: layout.clone(),
            header,
            word: Mutex::new(word),
            taken: Flags::new(0),
            sessions: Flags::new(0),
            heart: Mutex::new(None),
        };
        let section = Self { inner: Arc::new(inner) };
        section.inner.step(Step::Open);
        section.inner.start_heart()?;
        Ok(section)
    }

    /// Opens a peer's section for reading. Whether its owner has started is seen when connecting.
    #[cfg(not(loom))]
    pub fn open(path: &Path) -> Result<PeerSection> {
        PeerSection::new(Memory::readable(path)?)
    }

    /// Our number.
    pub fn writer(&self) -> u32 {
        self.inner.layout.writer
    }

    /// Which start of this section's writer this is.
    pub fn generation(&self) -> u64 {
        self.inner.word().generation
    }

    /// State and generation as peers see them.
    pub fn state(&self) -> StateWord {
        self.inner.word()
    }

    /// The memory behind it, for instance to hand its file to a peer.
    pub fn memory(&self) -> &Memory {
        &self.inner.memory
    }

    /// Takes no new links from now on; those that are up go on.
    pub fn drain(&self) {
        self.inner.step(Step::Drain);
    }
}

/// Moves the section into a new generation and clears what an earlier one left.
fn start(memory: &Arc<Memory>, header: &Own, layout: &Layout) -> Result<StateWord> {
    // A word that is none was never written by this library: noise, or new memory.
    let before = StateWord::decode(header.load(STATE_AT)).unwrap_or(StateWord::ABSENT);
    // The time, so that also erased memory gets a generation that no peer has seen.
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
    let now = u64::try_from(now).unwrap_or(0).clamp(1, MOST_GENERATION / 2);
    let word = before.after(Step::Start, now).or_else(|| StateWord::ABSENT.after(Step::Start, now));
    let Some(word) = word else { return Err(Error::BadLayout("no generation is left".to_owned())) };
    header.store(STATE_AT, word.encode());
    release();
    let blocks = Own::new(memory, link_block(0), MOST_LINKS * LINK_WORDS);
    let Some(blocks) = blocks else {
        return Err(Error::TooSmall {
            what: memory.name().to_owned(),
            wanted: LEAST_BYTES,
            got: memory.bytes(),
        });
    };
    for link in 0..MOST_LINKS {
        blocks.store(link * LINK_WORDS + SESSION, 0);
    }
    release();
    for at in (0..blocks.len()).filter(|at| at % LINK_WORDS != SESSION) {
        blocks.store(at, 0);
    }
    layout.write(header, memory.bytes());
    release();
    Ok(word)
}

impl Inner {
    fn word(&self) -> StateWord {
        *self.word.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes a step if it is allowed in the present state.
    fn step(&self, step: Step) {
        let mut word = self.word.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(next) = word.after(step, 0) {
            *word = next;
            release();
            self.header.store(STATE_AT, next.encode());
        }
    }

    fn start_heart(&self) -> Result<()> {
        let (stop, stopped) = channel();
        let header = self.header.clone();
        let beats = move || {
            while stopped.recv_timeout(BEAT) == Err(RecvTimeoutError::Timeout) {
                header.store(BEAT_AT, header.load(BEAT_AT).wrapping_add(1));
            }
        };
        let thread = thread::Builder::new().name("channel-heart".to_owned()).spawn(beats);
        let thread = thread.map_err(Error::io("start the thread that beats a section's heart"))?;
        *self.heart.lock().unwrap_or_else(PoisonError::into_inner) = Some((stop, thread));
        Ok(())
    }

    /// A session that this section has not had before.
    pub(crate) fn new_session(&self) -> u64 {
        let count = self.sessions.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        self.word().generation << 16 | (count & 0xffff)
    }

    /// Claims a link for one endpoint.
    pub(crate) fn claim(&self, link: usize) -> bool {
        self.taken.fetch_or(1 << link, Ordering::AcqRel) & (1 << link) == 0
    }

    pub(crate) fn unclaim(&self, link: usize) {
        self.taken.fetch_and(!(1 << link), Ordering::AcqRel);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        let heart = self.heart.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((stop, thread)) = heart {
            drop(stop);
            // A thread that only counts cannot panic; nothing to do if it did.
            let _ended = thread.join();
        }
        self.step(Step::Drain);
        self.step(Step::End);
    }
}

/// A peer's section, mapped read-only. Clones are the same mapping.
#[derive(Debug, Clone)]
pub struct PeerSection {
    memory: Arc<Memory>,
    header: Foreign,
}

/// What a peer's section offered to us at one moment.
#[derive(Debug, Clone)]
pub(crate) struct Offer {
    pub(crate) writer: u32,
    pub(crate) generation: u64,
    /// Its link block for us.
    pub(crate) block: Foreign,
    pub(crate) ring: Foreign,
    pub(crate) capacity: u64,
}

impl PeerSection {
    /// Memory of a peer. It is only read, even if it could be written.
    pub fn new(memory: Memory) -> Result<Self> {
        let memory = Arc::new(memory);
        let too_small =
            || Error::TooSmall { what: memory.name().to_owned(), wanted: LEAST_BYTES, got: memory.bytes() };
        let header = Foreign::new(&memory, 0, HEADER_WORDS).filter(|_| memory.bytes() >= LEAST_BYTES);
        let header = header.ok_or_else(too_small)?;
        Ok(Self { memory, header })
    }

    /// State and generation of the owner; an error when the word is none.
    pub fn state(&self) -> Result<StateWord> {
        let word = self.header.load(STATE_AT);
        acquire();
        StateWord::decode(word).ok_or_else(|| Error::Damaged {
            what: self.memory.name().to_owned(),
            how: format!("wanted a state word, got {word:#018x}"),
        })
    }

    /// Number of the owner, once it is ready.
    pub fn writer(&self) -> Result<u32> {
        Ok(self.layout()?.1.writer)
    }

    /// The owner's heartbeat: a number that changes many times a second while the owner lives.
    pub fn beat(&self) -> u64 {
        self.header.load(BEAT_AT)
    }

    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The header of an owner that is ready, with its generation.
    fn layout(&self) -> Result<(u64, Layout)> {
        let not_ready = |state| Err(Error::NotReady { what: self.memory.name().to_owned(), state });
        let before = self.state()?;
        if !matches!(before.state, State::Ready | State::Draining) {
            return not_ready(before.state);
        }
        let layout = Layout::read(&self.header, self.memory.bytes(), self.memory.name());
        acquire();
        if self.state()?.generation != before.generation {
            return not_ready(State::Starting);
        }
        Ok((before.generation, layout?))
    }

    /// What the section holds for `reader`.
    pub(crate) fn offer(&self, reader: u32) -> Result<Offer> {
        let (generation, layout) = self.layout()?;
        let no_ring = Error::NoRing { from: layout.writer, to: reader };
        let (link, entry): (usize, Entry) = layout.link_to(reader).ok_or(no_ring)?;
        let (from, words) = entry.words();
        let block = Foreign::new(&self.memory, link_block(link), LINK_WORDS);
        let ring = Foreign::new(&self.memory, from, words);
        let (Some(block), Some(ring)) = (block, ring) else {
            let (what, wanted) = (self.memory.name().to_owned(), entry.offset.saturating_add(entry.capacity));
            return Err(Error::TooSmall { what, wanted, got: self.memory.bytes() });
        };
        Ok(Offer { writer: layout.writer, generation, block, ring, capacity: entry.capacity })
    }
}

#[cfg(loom)]
const _: fn(&Path) = |_| ();
