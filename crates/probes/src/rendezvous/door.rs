//! The door: listens at exactly the instance's own address and lets in who knows the word.

use std::io::{self, ErrorKind, Read};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::thread;
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::hello::{HELLO_BYTES, Hello, HelloWord};
use super::patience::Patience;
use super::timed::{is_pause, prepare, write_all};
use crate::error::WorkError;

/// Who has not said the word after this time is turned away.
const SILENCE: Duration = Duration::from_secs(5);
/// How long an address that is taken is asked for again: the last connection of an earlier job may still be closing.
const TAKEN: Duration = Duration::from_secs(2);
/// So many may stand at the door at once; beyond that the one who came first has to go.
const MOST_WAITING: usize = 64;

/// One who has knocked but not said the word yet.
#[derive(Debug)]
struct Waiting {
    stream: TcpStream,
    heard: [u8; HELLO_BYTES],
    filled: usize,
    until: Instant,
}

/// What became of one who waits.
enum Step {
    Listening,
    Said(Hello),
    Away,
}

/// A listening address with those who wait before it.
#[derive(Debug)]
pub struct Door {
    listener: TcpListener,
    word: HelloWord,
    waiting: Vec<Waiting>,
    turned_away: u32,
}

impl Door {
    /// Listens at `address`, and nowhere else.
    ///
    /// # Errors
    /// The address is not this instance's, or taken.
    pub fn open(address: SocketAddr, word: HelloWord) -> Result<Self, WorkError> {
        let refused = |error: io::Error| {
            WorkError::system(format!("listen at this instance's own address {address}"), error)
        };
        let until = Instant::now() + TAKEN;
        let listener = loop {
            match TcpListener::bind(address) {
                Err(error) if error.kind() == ErrorKind::AddrInUse && Instant::now() < until => {
                    thread::sleep(Duration::from_millis(20));
                }
                other => break other.map_err(refused)?,
            }
        };
        listener.set_nonblocking(true).map_err(refused)?;
        Ok(Self { listener, word, waiting: Vec::new(), turned_away: 0 })
    }

    /// How many were turned away so far.
    pub const fn turned_away(&self) -> u32 {
        self.turned_away
    }

    /// Lets in the first who says the word and is `welcome`. `who` names who is waited for, for an error.
    ///
    /// # Errors
    /// Patience ran out, or the system refused.
    pub fn admit(
        &mut self,
        welcome: impl Fn(&Hello) -> bool,
        patience: &Patience<'_>,
        who: &str,
    ) -> Result<(TcpStream, Hello), WorkError> {
        loop {
            patience.check(|| self.missing(who))?;
            self.accept();
            if let Some((stream, hello)) = self.listen(&welcome) {
                prepare(&stream)?;
                // One who hangs up right after knocking is no reason to stop waiting for the one who is meant.
                if write_all(&stream, &hello.token(), patience, who).is_ok() {
                    return Ok((stream, hello));
                }
                self.turned_away = self.turned_away.saturating_add(1);
            }
            self.sleep(patience);
        }
    }

    fn missing(&self, who: &str) -> String {
        match self.turned_away {
            0 => who.to_owned(),
            strangers => format!("{who} ({strangers} others came and were turned away)"),
        }
    }

    fn accept(&mut self) {
        // An error here is of the connection that came (it was reset meanwhile), or passes; who is meant tries again.
        while let Ok((stream, _)) = self.listener.accept() {
            if stream.set_nonblocking(true).is_err() {
                continue;
            }
            if self.waiting.len() == MOST_WAITING {
                self.waiting.remove(0);
                self.turned_away = self.turned_away.saturating_add(1);
            }
            let until = Instant::now() + SILENCE;
            self.waiting.push(Waiting { stream, heard: [0; HELLO_BYTES], filled: 0, until });
        }
    }

    /// Hears everybody at the door; the first who is welcome leaves the row.
    fn listen(&mut self, welcome: &impl Fn(&Hello) -> bool) -> Option<(TcpStream, Hello)> {
        let mut index = 0;
        while let Some(waiting) = self.waiting.get_mut(index) {
            match waiting.hear() {
                Step::Listening => index += 1,
                Step::Said(hello) if hello.word == self.word && welcome(&hello) => {
                    return Some((self.waiting.remove(index).stream, hello));
                }
                Step::Said(_) | Step::Away => {
                    self.waiting.remove(index);
                    self.turned_away = self.turned_away.saturating_add(1);
                }
            }
        }
        None
    }

    /// Sleeps until somebody knocks or speaks.
    fn sleep(&self, patience: &Patience<'_>) {
        let mut watched = vec![PollFd::new(self.listener.as_fd(), PollFlags::POLLIN)];
        watched.extend(
            self.waiting.iter().map(|waiting| PollFd::new(waiting.stream.as_fd(), PollFlags::POLLIN)),
        );
        // A failed poll is an interrupted one; the loop around looks again anyway.
        let _ = poll(&mut watched, PollTimeout::try_from(patience.nap()).unwrap_or(PollTimeout::ZERO));
    }
}

impl Waiting {
    fn hear(&mut self) -> Step {
        while let Some(rest) = self.heard.get_mut(self.filled..).filter(|rest| !rest.is_empty()) {
            match self.stream.read(rest) {
                Ok(0) => return Step::Away,
                Ok(count) => self.filled += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if is_pause(error.kind()) => {
                    return if Instant::now() < self.until { Step::Listening } else { Step::Away };
                }
                Err(_) => return Step::Away,
            }
        }
        Hello::decode(&self.heard).map_or(Step::Away, Step::Said)
    }
}
