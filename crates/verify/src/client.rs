//! Who asks again and again from outside. Open loop: a request goes out when it is due, whatever became of those before.
//!
//! ```text
//!  every period: request n ─► a thread that waits for its answer, or the kept connection of `echo` ─► answered at, or not in time
//! ```
//! That a connection is made says nothing: who listens on this host is Bulkhead, also while the partition boots. So only what comes
//! from the program counts: a status, a line that comes back, or the first byte of those who speak first.

mod arrival;
mod capacity;
mod heard;
mod responses;
mod until;

use std::io::{BufRead, BufReader, Cursor, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use model::requirement::{Client, ClientKind};
use model::verification::Outage;
use partition::set::supervisor::now;
use platforms::Cancel;
use probes::realtime::become_real_time;
use units::{Nanos, Reason};

pub use capacity::{capacity, longest_capacity};
use heard::Heard;
pub use responses::{longest, responses};
use until::{Until, UntilOver};

/// Requests that are on their way at once; more are counted as missing.
const MOST_AT_ONCE: usize = 512;
/// Requests and answers for which there is room at once: whoever wants more memory may wait for others who do.
const USUAL_REQUESTS: usize = 1 << 14;
/// Requests that are remembered.
const MOST_REQUESTS: usize = 2_000_000;
/// After the last missing answer at least so long without another one.
const FOR_GOOD: Duration = Duration::from_secs(1);
/// Periods of that at least.
const FOR_GOOD_PERIODS: u32 = 10;
/// Bytes that are read of an answer until its first line has ended.
const MOST_HEAD: u64 = 16 * 1024;
/// How long a new connection of `echo` is waited for.
const RECONNECT: Duration = Duration::from_millis(200);

/// Priority of those who ask and hear: a client that waits for a CPU counts its own waiting as its server's. Where it is refused they are
/// ordinary threads.
const PRIORITY: u32 = 1;
/// How often it is looked how far everything is.
const LOOK: Duration = Duration::from_millis(10);

/// A request.
#[derive(Debug, Clone, Copy)]
struct Request {
    at: Instant,
    answered: Option<Instant>,
    answers: u32,
}

/// What a client has seen since a moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answering {
    /// All requests since then were answered in time, as far as that can be said.
    NothingMissing,
    /// Answers are missing.
    Missing,
    /// Some were missing, and none any more.
    AnsweredForGood,
}

/// A client that asks.
pub struct Asking {
    shared: Arc<Shared>,
    asks: Option<JoinHandle<()>>,
    client: Client,
}

#[derive(Default)]
struct Shared {
    requests: Mutex<Vec<Request>>,
    on_their_way: AtomicUsize,
    is_over: AtomicBool,
    /// No further requests; what is on its way is waited for.
    asks_no_more: AtomicBool,
    /// Which of the client's addresses is asked.
    address: AtomicUsize,
    /// Whether it leaves requests out where answers come too slowly.
    spares: bool,
    heard: Mutex<Option<Heard>>,
}

impl Shared {
    fn requests(&self) -> MutexGuard<'_, Vec<Request>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there is to be another request. Returns when that is known: nobody hangs up on those that are still to be answered.
    fn asks(&self) -> bool {
        while self.asks_no_more.load(Ordering::SeqCst) && !self.is_over.load(Ordering::SeqCst) {
            thread::sleep(LOOK);
        }
        !self.is_over.load(Ordering::SeqCst)
    }

    /// One more; its number.
    fn ask(&self) -> Option<usize> {
        let mut all = self.requests();
        if all.len() >= MOST_REQUESTS {
            return None;
        }
        all.push(Request { at: Instant::now(), answered: None, answers: 0 });
        Some(all.len() - 1)
    }

    /// Asks the next address, unless somebody has found before that this one does not answer.
    fn give_up(&self, address: usize, client: &Client) {
        let next = (address + 1) % client.at.all().len().max(1);
        let _ = self.address.compare_exchange(address, next, Ordering::SeqCst, Ordering::SeqCst);
    }

    /// Whether one of those from `first` on was not answered in time.
    fn is_late(&self, first: usize, within: Duration) -> bool {
        let all = self.requests();
        let from = all.get(first..).unwrap_or_default();
        from.iter().take_while(|one| one.at.elapsed() > within).any(|one| one.answered.is_none())
    }

    /// Whether a request that is due is left out.
    fn is_busy(&self, client: &Client) -> bool {
        let heard = *self.heard.lock().unwrap_or_else(PoisonError::into_inner);
        self.spares && self.on_their_way.load(Ordering::SeqCst) >= heard::most_at_once(heard, client)
    }

    /// Takes down which requests were answered when. Unless it is to wait, nothing while others look at them: they may have no CPU, and
    /// what comes meanwhile would seem late.
    fn take(&self, answers: &mut Vec<(usize, Instant)>, waits: bool) {
        let all = if waits { Some(self.requests()) } else { self.requests.try_lock().ok() };
        let Some(mut all) = all else { return };
        for (number, at) in answers.drain(..) {
            let Some(request) = all.get_mut(number) else { continue };
            request.answered.get_or_insert(at);
            request.answers = request.answers.saturating_add(1);
            let took = at.saturating_duration_since(request.at);
            let mut heard = self.heard.lock().unwrap_or_else(PoisonError::into_inner);
            *heard = Some(Heard::after(*heard, at, took));
        }
    }
}

impl Asking {
    /// Begins to ask, on schedule whatever becomes of the answers.
    ///
    /// # Errors
    /// There can be no more threads.
    pub fn start(client: &Client) -> Result<Self, Reason> {
        Self::begin(client, false)
    }

    /// The same, of a client that is not to be what others suffer from.
    ///
    /// # Errors
    /// There can be no more threads.
    pub fn sparing(client: &Client) -> Result<Self, Reason> {
        Self::begin(client, true)
    }

    fn begin(client: &Client, spares: bool) -> Result<Self, Reason> {
        let shared = Arc::new(Shared {
            requests: Mutex::new(Vec::with_capacity(USUAL_REQUESTS)),
            spares,
            ..Shared::default()
        });
        let (asks, owned) = (Arc::clone(&shared), client.clone());
        let asks = thread::Builder::new().name("client".to_owned()).spawn(move || {
            become_real_time(PRIORITY);
            match owned.kind {
                ClientKind::Echo => echo(&asks, &owned),
                ClientKind::Greeting | ClientKind::Http => ask(&asks, &owned),
            }
        });
        let asks = asks.map_err(|error| format!("no thread for the client: {error}"))?;
        Ok(Self { shared, asks: Some(asks), client: client.clone() })
    }

    fn within(&self) -> Duration {
        self.client.answer_within_ms.to_duration()
    }

    /// How long none may be missing until it is answered for good.
    fn for_good(&self) -> Duration {
        FOR_GOOD.max(self.client.period_ms.to_duration() * FOR_GOOD_PERIODS)
    }

    /// How long something that nobody notices is waited for.
    pub fn patience(&self) -> Duration {
        self.within() + self.for_good()
    }

    /// Requests so far, and those that were answered in time.
    pub fn counts(&self) -> (usize, usize) {
        let all = self.shared.requests();
        (all.len(), all.iter().filter(|one| self.in_time(one)).count())
    }

    fn in_time(&self, request: &Request) -> bool {
        request
            .answered
            .is_some_and(|answered| answered.saturating_duration_since(request.at) <= self.within())
    }

    /// Whether nothing can be said of it yet.
    fn is_open(&self, request: &Request) -> bool {
        request.answered.is_none() && request.at.elapsed() <= self.within()
    }

    /// How many since a moment were not answered in time.
    pub fn missing_since(&self, moment: Instant) -> usize {
        let all = self.shared.requests();
        let after = all.iter().filter(|one| one.at >= moment);
        after.filter(|one| !self.in_time(one) && !self.is_open(one)).count()
    }

    /// How many of those that were answered last were so without one missing.
    pub fn answered_in_a_row(&self) -> usize {
        let all = self.shared.requests();
        all.iter().rev().skip_while(|one| self.is_open(one)).take_while(|one| self.in_time(one)).count()
    }

    /// What was seen since a moment.
    pub fn since(&self, moment: Instant) -> Answering {
        let all = self.shared.requests();
        // One that went out before may be lost because of it.
        let from = all.partition_point(|one| one.at + self.within() < moment);
        let after = all.get(from..).unwrap_or_default();
        let missing = after.iter().rposition(|one| !self.in_time(one) && !self.is_open(one));
        let Some(last) = missing else { return Answering::NothingMissing };
        let good = after.get(last + 1..).unwrap_or_default();
        let since = good.first().map(|one| one.at);
        let is_good = good.iter().take_while(|one| self.in_time(one)).count();
        let held = since
            .zip(good.get(is_good.saturating_sub(1)))
            .map(|(from, to)| to.at.saturating_duration_since(from));
        if is_good > 0 && held.is_some_and(|held| held >= self.for_good()) {
            Answering::AnsweredForGood
        } else {
            Answering::Missing
        }
    }

    /// Asks no more; what came of it until then, counted from the moment of the failure. What comes later, as when a cable is in
    /// again, is another outage.
    pub fn finish(mut self, failed_at: Instant, until: Instant) -> Outage {
        let waited = until.saturating_duration_since(failed_at);
        self.end();
        let all = self.shared.requests();
        // What was on its way then is no part of it: it could not be answered in time.
        let is_known = |one: &&Request| {
            one.at + self.within() <= until || one.answered.is_some_and(|answered| answered <= until)
        };
        let asked: Vec<&Request> = all.iter().filter(is_known).collect();
        let before = asked.iter().filter(|one| one.at < failed_at && self.in_time(one)).count();
        let is_part = |one: &&&Request| one.at + self.within() >= failed_at;
        let missing: Vec<&&Request> = asked.iter().filter(is_part).filter(|one| !self.in_time(one)).collect();
        let since = |at: Instant| Nanos::from_duration(at.saturating_duration_since(failed_at));
        let again = missing.last().and_then(|last| {
            let after = asked.iter().filter(|one| one.at > last.at);
            after.filter_map(|one| one.answered).min()
        });
        let doubled = asked.iter().filter(|one| one.answers > 1).count();
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        Outage {
            failed_unix_ns: Some(now().saturating_sub(Nanos::from_duration(failed_at.elapsed()))),
            answered_before: count(before),
            first_missing_ns: missing.first().map(|first| since(first.at)),
            answered_again_ns: again.map(since),
            restored_ns: None,
            asked: count(asked.len()),
            // What was lost before anything failed is no part of it.
            lost: count(asked.iter().filter(is_part).filter(|one| one.answered.is_none()).count()),
            doubled: (self.client.kind == ClientKind::Echo).then(|| count(doubled)),
            waited_ns: Nanos::from_duration(waited),
            undone: String::new(),
        }
    }

    fn end(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        if let Some(asks) = self.asks.take() {
            let _ = asks.join();
        }
    }
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.end();
    }
}

/// Waits until something is so; false if it never was.
///
/// # Errors
/// The user interrupts.
pub fn wait(limit: Duration, cancel: &Cancel, is_so: impl Fn() -> bool) -> Result<bool, Reason> {
    let until = Instant::now() + limit;
    while !is_so() {
        if cancel.is_cancelled() {
            return Err("interrupted".into());
        }
        if Instant::now() >= until {
            return Ok(false);
        }
        thread::sleep(LOOK);
    }
    Ok(true)
}

/// Waits until the next request is due.
fn pause(next: &mut Instant, period: Duration) {
    *next += period;
    let now = Instant::now();
    if *next < now {
        // A machine that stood still: what was due meanwhile is not made up for.
        *next = now;
    }
    thread::sleep(next.saturating_duration_since(now));
}

/// A connection for each request.
fn ask(shared: &Arc<Shared>, client: &Client) {
    let mut next = Instant::now();
    while shared.asks() {
        if shared.is_busy(client) {
            pause(&mut next, client.period_ms.to_duration());
            continue;
        }
        let Some(number) = shared.ask() else { return };
        if shared.on_their_way.load(Ordering::SeqCst) < MOST_AT_ONCE {
            shared.on_their_way.fetch_add(1, Ordering::SeqCst);
            let (asks, owned) = (Arc::clone(shared), client.clone());
            let started = thread::Builder::new().name("request".to_owned()).spawn(move || {
                become_real_time(PRIORITY);
                let address = asks.address.load(Ordering::SeqCst);
                if let Ok(Some(at)) = answered(&owned, address, &asks.is_over) {
                    asks.take(&mut vec![(number, at)], true);
                } else {
                    asks.give_up(address, &owned);
                }
                asks.on_their_way.fetch_sub(1, Ordering::SeqCst);
            });
            if started.is_err() {
                shared.on_their_way.fetch_sub(1, Ordering::SeqCst);
            }
        }
        pause(&mut next, client.period_ms.to_duration());
    }
}

/// When what the program answered arrived; none where it did not, or not what is wanted.
fn answered(client: &Client, address: usize, is_over: &AtomicBool) -> std::io::Result<Option<Instant>> {
    let within = client.answer_within_ms.to_duration();
    let until = Instant::now() + within;
    let at = client.at.all().get(address).ok_or(ErrorKind::NotFound)?;
    let mut stream = TcpStream::connect_timeout(at, within)?;
    if client.kind == ClientKind::Greeting {
        let mut answer = Until::new(&stream, until, is_over);
        return Ok((answer.read(&mut [0; 1])? > 0).then(|| answer.arrived_at()));
    }
    stream.set_write_timeout(Some(within))?;
    let request = format!("GET {} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n", client.path, at);
    stream.write_all(request.as_bytes())?;
    let mut line = String::new();
    let mut answer = BufReader::new(Until::new(&stream, until, is_over).take(MOST_HEAD));
    answer.read_line(&mut line)?;
    let mut words = line.split_ascii_whitespace();
    let is_http = words.next().is_some_and(|word| word.starts_with("HTTP/1."));
    let status = words.next().and_then(|word| word.parse::<u16>().ok());
    let is_good = is_http && status.is_some_and(|status| (200..400).contains(&status));
    Ok(is_good.then(|| answer.get_ref().get_ref().arrived_at()))
}

/// Lines over a connection that is kept, and made anew when it broke: to the next address where there are several, also when an answer
/// is late.
fn echo(shared: &Arc<Shared>, client: &Client) {
    let mut next = Instant::now();
    let mut line: Option<Line> = None;
    let mut readers = Vec::new();
    let is_alone = client.at.all().len() == 1;
    while shared.asks() {
        let Some(number) = shared.ask() else { return };
        let address = shared.address.load(Ordering::SeqCst);
        if line.is_none() {
            line = Line::open(shared, client, address, number, &mut readers);
        }
        let is_told = line.as_mut().is_some_and(|line| line.tell(number));
        let is_good = |line: &Line| {
            line.is_open.load(Ordering::SeqCst)
                && (is_alone || !shared.is_late(line.first, client.answer_within_ms.to_duration()))
        };
        if !is_told || !line.as_ref().is_some_and(is_good) {
            if let Some(line) = line.take() {
                let _ = line.stream.shutdown(std::net::Shutdown::Both);
            }
            shared.give_up(address, client);
        }
        readers.retain(|reader: &JoinHandle<()>| !reader.is_finished());
        pause(&mut next, client.period_ms.to_duration());
    }
    if let Some(line) = line {
        // Answers that are late are waited for as long as any.
        let _ = line.stream.shutdown(std::net::Shutdown::Write);
        let _ = line.stream.set_read_timeout(Some(client.answer_within_ms.to_duration()));
    }
    for reader in readers {
        let _ = reader.join();
    }
}

/// A connection of `echo`.
struct Line {
    stream: TcpStream,
    /// The first request over it.
    first: usize,
    /// Whether its other end has it open.
    is_open: Arc<AtomicBool>,
}

impl Line {
    fn open(
        shared: &Arc<Shared>,
        client: &Client,
        address: usize,
        first: usize,
        readers: &mut Vec<JoinHandle<()>>,
    ) -> Option<Self> {
        let within = RECONNECT.min(client.answer_within_ms.to_duration());
        let stream = TcpStream::connect_timeout(client.at.all().get(address)?, within).ok()?;
        stream.set_write_timeout(Some(RECONNECT)).ok()?;
        // Otherwise what is asked waits until what was asked before has been taken.
        stream.set_nodelay(true).ok()?;
        let (copy, reads) = (stream.try_clone().ok()?, Arc::clone(shared));
        let is_open = Arc::new(AtomicBool::new(true));
        let closes = Arc::clone(&is_open);
        readers.push(thread::spawn(move || {
            become_real_time(PRIORITY);
            listen(&reads, &copy);
            closes.store(false, Ordering::SeqCst);
        }));
        Some(Self { stream, first, is_open })
    }

    fn tell(&mut self, number: usize) -> bool {
        let mut text = Cursor::new([0; 32]);
        let is_whole = writeln!(text, "bulkhead {number}").is_ok();
        let end = usize::try_from(text.position()).unwrap_or(0);
        is_whole && text.get_ref().get(..end).is_some_and(|text| self.stream.write_all(text).is_ok())
    }
}

/// Counts what comes back, until a moment after all is over: the last answers have one.
fn listen(shared: &Shared, stream: &TcpStream) {
    let _ = stream.set_read_timeout(Some(Duration::from_millis(100)));
    let mut reader = BufReader::new(UntilOver::new(stream, &shared.is_over, FOR_GOOD));
    let mut line = Vec::new();
    let mut answers = Vec::with_capacity(USUAL_REQUESTS);
    loop {
        match (&mut reader).take(256).read_until(b'\n', &mut line) {
            Ok(0) => break,
            Ok(_) if line.last() != Some(&b'\n') && line.len() < 256 => {}
            Ok(_) => {
                let text = String::from_utf8_lossy(&line);
                let number = text.trim_end().strip_prefix("bulkhead ").and_then(|number| number.parse().ok());
                answers.extend(number.map(|number| (number, reader.get_ref().arrived_at())));
                line.clear();
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => break,
        }
        shared.take(&mut answers, false);
    }
    shared.take(&mut answers, true);
}

#[cfg(test)]
mod tests;
