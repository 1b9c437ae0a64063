//! How much a server can do: so many clients at once (`concurrency`), each of which asks again as soon as it has its answer (closed
//! loop). Nobody waits for a period, so what comes back a second is what the server can.
//!
//! ```text
//!  clients ask ─► first answer ─► counts what ends within a round ─► a rate, and how long each answer took under it
//! ```
//! They are ordinary threads: a host that has no CPU for those who ask has none for more of them either.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use model::requirement::{Client, ClientKind};
use model::verification::Responses;
use platforms::Cancel;
use units::histogram::Histogram;
use units::{Nanos, Reason};

use super::responses::{ROUND, first_within};
use super::{MOST_HEAD, is_answered, wait};

/// How long whoever is not answered at all waits before it asks again.
const REFUSED: Duration = Duration::from_millis(10);

/// How long a round takes at most.
pub fn longest_capacity(client: &Client) -> Duration {
    first_within(client) + ROUND + client.answer_within_ms.to_duration()
}

/// A request that has ended: answered, or given up.
struct Ended {
    asked: Instant,
    at: Instant,
    is_answered: bool,
}

/// What all clients share.
#[derive(Default)]
struct Crowd {
    is_over: AtomicBool,
    answered: AtomicUsize,
}

/// Asks for a round with all clients at once.
///
/// # Errors
/// Nothing is answered, there can be no more threads, or the user interrupts.
pub fn capacity(client: &Client, cancel: &Cancel) -> Result<Responses, Reason> {
    let crowd = Crowd::default();
    thread::scope(|scope| {
        let one = |number: u32| {
            let crowd = &crowd;
            let name = thread::Builder::new().name(format!("client {number}"));
            name.spawn_scoped(scope, move || ask(client, crowd))
        };
        let clients: Result<Vec<_>, _> = (0..client.concurrency).map(one).collect();
        let counted = match &clients {
            Ok(_) => counted(client, &crowd, cancel),
            Err(error) => Err(format!("no threads for {} clients: {error}", client.concurrency).into()),
        };
        crowd.is_over.store(true, Ordering::SeqCst);
        let threads = clients.unwrap_or_default();
        let ended = threads.into_iter().flat_map(|one| one.join().unwrap_or_default()).collect::<Vec<_>>();
        let (from, to) = counted?;
        Ok(seen(&ended, from, to))
    })
}

/// Between which moments answers count.
fn counted(client: &Client, crowd: &Crowd, cancel: &Cancel) -> Result<(Instant, Instant), Reason> {
    if !wait(first_within(client), cancel, || crowd.answered.load(Ordering::SeqCst) > 0)? {
        return Err(format!(
            "{} clients at once asked {}, and none was answered within {} ms, in {} s",
            client.concurrency,
            client.at,
            client.answer_within_ms.get(),
            first_within(client).as_secs()
        )
        .into());
    }
    let from = Instant::now();
    wait(ROUND, cancel, || false)?;
    Ok((from, Instant::now()))
}

/// What ended between two moments.
fn seen(ended: &[Ended], from: Instant, to: Instant) -> Responses {
    let counted: Vec<&Ended> = ended.iter().filter(|one| (from..to).contains(&one.at)).collect();
    let took = |one: &&Ended| Nanos::from_duration(one.at.saturating_duration_since(one.asked)).get();
    let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
    Responses {
        response_ns: Histogram::from_values(counted.iter().map(took)),
        asked: count(counted.len()),
        missing: count(counted.iter().filter(|one| !one.is_answered).count()),
        over_ns: Some(Nanos::from_duration(to.saturating_duration_since(from))),
    }
}

/// One client, until it is over.
fn ask(client: &Client, crowd: &Crowd) -> Vec<Ended> {
    let (mut all, mut address, mut line) = (Vec::new(), 0, None);
    while !crowd.is_over.load(Ordering::SeqCst) {
        let asked = Instant::now();
        let answered = match client.kind {
            ClientKind::Http | ClientKind::Greeting => is_answered(client, address),
            ClientKind::Echo => echoed(client, address, all.len(), &mut line),
        };
        let (at, within) = (Instant::now(), client.answer_within_ms.to_duration());
        let came = answered.unwrap_or(false);
        let is_answered = came && at.saturating_duration_since(asked) <= within;
        all.push(Ended { asked, at, is_answered });
        if is_answered {
            crowd.answered.fetch_add(1, Ordering::SeqCst);
        } else {
            address = (address + 1) % client.at.all().len().max(1);
            line = None;
            thread::sleep(REFUSED);
        }
    }
    all
}

/// Sends a numbered line and waits for it; over the connection that is there, or a new one.
fn echoed(
    client: &Client,
    address: usize,
    number: usize,
    line: &mut Option<BufReader<TcpStream>>,
) -> std::io::Result<bool> {
    let within = client.answer_within_ms.to_duration();
    let until = Instant::now() + within;
    let reader = if let Some(reader) = line {
        reader
    } else {
        let at = client.at.all().get(address).ok_or(std::io::ErrorKind::NotFound)?;
        let stream = TcpStream::connect_timeout(at, within)?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(within))?;
        line.insert(BufReader::new(stream))
    };
    let wanted = format!("bulkhead {number}\n");
    reader.get_mut().write_all(wanted.as_bytes())?;
    let mut text = Vec::new();
    while text != wanted.as_bytes() {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(false);
        }
        reader.get_ref().set_read_timeout(Some(left))?;
        text.clear();
        if reader.take(MOST_HEAD).read_until(b'\n', &mut text)? == 0 {
            return Ok(false);
        }
    }
    Ok(true)
}
