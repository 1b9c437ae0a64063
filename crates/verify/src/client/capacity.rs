//! How much a server can do: so many clients at once (`concurrency`), each of which asks again as soon as it has its answer (closed
//! loop). Nobody waits for a period, so what comes back a second is what the server can.
//!
//! ```text
//!  clients ask ─► the first answer ─► a round: two seconds, and until each has a few answers and pauses ─► whole cycles of all together
//!
//!  answers of all  ┊╎╎╎╎        ╎╎╎╎╎       ╎╎╎╎        ╎╎        a pause: at least half as long as the longest
//!                               └────── whole cycles ───┘         from the end of one pause to that of a later one
//! ```
//! A rate is that of whole cycles: a round of a fixed length would count more or fewer answers than there are, by where it begins and ends
//! in the cycle, and so would the time from a first to a last answer, where they come in bursts. All clients have the same time: who has a
//! share in few bursts would otherwise be counted from the first of them to the last, and the sum would be more than the server gave.
//! Clients are ordinary threads: a host that has no CPU for those who ask has none for more of them either.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use model::requirement::{Client, ClientKind};
use model::verification::{ClientCycles, Responses};
use platforms::Cancel;
use units::histogram::{DenseHistogram, Histogram};
use units::{Nanos, Reason};

use super::responses::{ROUND, first_within};
use super::until::Until;
use super::{MOST_HEAD, answered, wait};

/// How long whoever is not answered at all waits before it asks again.
const REFUSED: Duration = Duration::from_millis(10);
/// Answers that each client has in a round, unless it has waited so many times as long as for one.
const ANSWERS: u32 = 6;
/// Pauses that each has waited for, likewise.
const PAUSES: usize = 4;

/// How long a round takes at most.
pub fn longest_capacity(client: &Client) -> Duration {
    first_within(client) + longest_round(client) + client.answer_within_ms.to_duration()
}

fn longest_round(client: &Client) -> Duration {
    ROUND.max(client.answer_within_ms.to_duration() * ANSWERS)
}

/// What all clients share.
struct Crowd {
    is_over: AtomicBool,
    /// Whether what ends now is of the round.
    counts: AtomicBool,
    /// Answers before the round.
    answered: AtomicUsize,
    /// Whether each has had enough of the round.
    each: Vec<AtomicBool>,
}

/// What one client has of a round.
struct Own {
    /// When each answer came.
    answers: Vec<Instant>,
    /// The longest time between two of them.
    longest: Duration,
    /// How many of those times are pauses.
    pauses: usize,
    missing: u64,
    took: DenseHistogram,
}

/// Asks for a round with all clients at once.
///
/// # Errors
/// Nothing is answered, there can be no more threads, or the user interrupts.
pub fn capacity(client: &Client, cancel: &Cancel) -> Result<Responses, Reason> {
    let crowd = Crowd {
        is_over: AtomicBool::new(false),
        counts: AtomicBool::new(false),
        answered: AtomicUsize::new(0),
        each: (0..client.concurrency).map(|_| AtomicBool::new(false)).collect(),
    };
    thread::scope(|scope| {
        let one = |has_enough| {
            let crowd = &crowd;
            let name = thread::Builder::new().name("client".to_owned());
            name.spawn_scoped(scope, move || ask(client, crowd, has_enough))
        };
        let clients: Result<Vec<_>, _> = crowd.each.iter().map(one).collect();
        let counted = match &clients {
            Ok(_) => counted(client, &crowd, cancel),
            Err(error) => Err(format!("no threads for {} clients: {error}", client.concurrency).into()),
        };
        crowd.is_over.store(true, Ordering::SeqCst);
        let threads = clients.unwrap_or_default();
        let all: Vec<Own> = threads.into_iter().filter_map(|one| one.join().ok()).collect();
        let (from, to) = counted?;
        Ok(seen(&all, from, to))
    })
}

/// When the round began and ended.
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
    crowd.counts.store(true, Ordering::SeqCst);
    let have_enough = || crowd.each.iter().all(|one| one.load(Ordering::SeqCst));
    wait(longest_round(client), cancel, || from.elapsed() >= ROUND && have_enough())?;
    Ok((from, Instant::now()))
}

/// What all clients had of a round.
fn seen(all: &[Own], from: Instant, to: Instant) -> Responses {
    let missing = all.iter().map(|own| own.missing).fold(0, u64::saturating_add);
    let answers = all.iter().map(|own| own.answers.len() as u64).fold(0, u64::saturating_add);
    let took: Vec<Histogram> = all.iter().map(|own| own.took.to_histogram()).collect();
    Responses {
        response_ns: Histogram::merge_all(&took),
        asked: answers.saturating_add(missing),
        missing,
        clients: cycles(all, from, to),
    }
}

impl Own {
    fn new() -> Self {
        let (answers, longest, pauses) = (Vec::new(), Duration::ZERO, 0);
        Self { answers, longest, pauses, missing: 0, took: DenseHistogram::new() }
    }

    fn take(&mut self, at: Instant, took: Duration, is_answered: bool) {
        self.took.record(Nanos::from_duration(took).get());
        if !is_answered {
            self.missing += 1;
            return;
        }
        let gap = self.answers.last().map(|last| at.saturating_duration_since(*last));
        self.answers.push(at);
        let Some(gap) = gap else { return };
        if gap > self.longest {
            self.longest = gap;
            self.pauses = ends_of_pauses(&self.answers, gap).count();
        } else if is_pause(gap, self.longest) {
            self.pauses += 1;
        }
    }

    fn has_enough(&self) -> bool {
        self.answers.len() >= ANSWERS as usize && self.pauses >= PAUSES
    }
}

/// Answers, each with the time since the one before it.
fn gaps(answers: &[Instant]) -> impl Iterator<Item = (Instant, Duration)> {
    answers.windows(2).map(|pair| (pair[1], pair[1].saturating_duration_since(pair[0])))
}

/// Whether what lies between two answers is a pause, of all of which the longest is known.
fn is_pause(gap: Duration, longest: Duration) -> bool {
    gap * 2 >= longest
}

/// Answers that came after a pause.
fn ends_of_pauses(answers: &[Instant], longest: Duration) -> impl Iterator<Item = Instant> {
    gaps(answers).filter(move |(_, gap)| is_pause(*gap, longest)).map(|(end, _)| end)
}

/// What each client had in whole cycles of all together; of a round with a single answer, in all of it.
fn cycles(all: &[Own], from: Instant, to: Instant) -> Vec<ClientCycles> {
    let mut answers: Vec<Instant> = all.iter().flat_map(|own| own.answers.iter().copied()).collect();
    answers.sort_unstable();
    let (after, until) = whole_cycles(&answers, to).unwrap_or((from, to));
    let over_ns = Nanos::from_duration(until.saturating_duration_since(after));
    let of = |own: &Own| own.answers.iter().filter(|at| **at > after && **at <= until).count() as u64;
    all.iter().map(|own| ClientCycles { answers: of(own), over_ns }).collect()
}

/// From the end of the first pause to that of the last one. From the first answer to the last where that is less than half of it (few
/// pauses, as of a machine that stood still twice), and where it ended with a longer one: what that was longer counts as well.
fn whole_cycles(answers: &[Instant], to: Instant) -> Option<(Instant, Instant)> {
    let (first, last) = (*answers.first()?, *answers.last()?);
    let longest = gaps(answers).map(|(_, gap)| gap).max()?;
    let idle = to.saturating_duration_since(last);
    if idle > longest {
        return Some((first, last + idle.saturating_sub(longest)));
    }
    let mut ends = ends_of_pauses(answers, longest);
    let start = ends.next()?;
    let end = ends.last().unwrap_or(start);
    let is_most = (end - start) * 2 >= last - first;
    Some(if is_most { (start, end) } else { (first, last) })
}

/// One client, until it is over.
fn ask(client: &Client, crowd: &Crowd, has_enough: &AtomicBool) -> Own {
    let (mut own, mut address, mut line, mut number) = (Own::new(), 0, None, 0_u64);
    let within = client.answer_within_ms.to_duration();
    loop {
        let asked = Instant::now();
        number += 1;
        let is_answered = match client.kind {
            ClientKind::Http | ClientKind::Greeting => {
                answered(client, address, &crowd.is_over).map(|answer| answer.is_some())
            }
            ClientKind::Echo => echoed(client, address, number, &mut line, &crowd.is_over),
        };
        // What was on its way then is no part of it.
        if crowd.is_over.load(Ordering::SeqCst) {
            return own;
        }
        let (at, took) = (Instant::now(), asked.elapsed());
        let is_good = is_answered.unwrap_or(false) && took <= within;
        if crowd.counts.load(Ordering::SeqCst) {
            own.take(at, took, is_good);
            has_enough.store(own.has_enough(), Ordering::SeqCst);
        } else if is_good {
            crowd.answered.fetch_add(1, Ordering::SeqCst);
        }
        if !is_good {
            address = (address + 1) % client.at.all().len().max(1);
            line = None;
            thread::sleep(REFUSED);
        }
    }
}

/// A kept connection, and what has come over it and is no whole line yet.
struct Line {
    stream: TcpStream,
    waiting: Vec<u8>,
}

/// Sends a numbered line and waits for it; over the connection that is there, or a new one.
fn echoed(
    client: &Client,
    address: usize,
    number: u64,
    line: &mut Option<Line>,
    is_over: &AtomicBool,
) -> std::io::Result<bool> {
    let within = client.answer_within_ms.to_duration();
    let until = Instant::now() + within;
    let Line { stream, waiting } = if let Some(line) = line {
        line
    } else {
        let at = client.at.all().get(address).ok_or(ErrorKind::NotFound)?;
        let stream = TcpStream::connect_timeout(at, within)?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(within))?;
        line.insert(Line { stream, waiting: Vec::new() })
    };
    let wanted = format!("bulkhead {number}\n");
    stream.write_all(wanted.as_bytes())?;
    let mut chunk = [0; 512];
    loop {
        while let Some(end) = waiting.iter().position(|byte| *byte == b'\n') {
            let text: Vec<u8> = waiting.drain(..=end).collect();
            if text == wanted.as_bytes() {
                return Ok(true);
            }
        }
        let count = Until::new(stream, until, is_over).read(&mut chunk)?;
        waiting.extend_from_slice(chunk.get(..count).unwrap_or_default());
        if count == 0 || waiting.len() as u64 > MOST_HEAD {
            return Ok(false);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Answers a second of clients whose answers came so many milliseconds after the round began, and when it ended.
    fn rate(clients: &[Vec<u64>], to_ms: u64) -> f64 {
        let from = Instant::now();
        let at = |ms: &u64| from + Duration::from_millis(*ms);
        let one = |answers: &Vec<u64>| {
            let mut own = Own::new();
            for ms in answers {
                own.take(at(ms), Duration::ZERO, true);
            }
            own
        };
        let all: Vec<Own> = clients.iter().map(one).collect();
        cycles(&all, from, at(&to_ms)).iter().map(ClientCycles::per_s).sum()
    }

    proptest! {
        /// Regression: each client had cycles of its own, from the first burst that it had a share in to the last: 70 a second of 60.
        #[test]
        fn shares_of_bursts_sum_up_to_the_rate_of_the_server(
            period_ms in 10_u64..1000, whose in prop::collection::vec(prop::collection::vec(0_usize..8, 12), 3..20)
        ) {
            let mut clients = vec![Vec::new(); 8];
            for (number, burst) in (0..).zip(&whose) {
                for client in burst {
                    clients[*client].push(period_ms * number);
                }
            }
            let truth = 12_000.0 / period_ms as f64;
            let seen = rate(&clients, period_ms * (whose.len() as u64 - 1));
            prop_assert!((seen / truth - 1.0).abs() < 1e-9, "{} of {}", seen, truth);
        }

        /// Who has a server of its own has one answer more or less than its rate, wherever the cycles of the others begin and end.
        #[test]
        fn clients_that_wait_for_nobody_have_an_answer_more_or_less(
            each in prop::collection::vec((20_u64..500, 0_u64..500), 1..9)
        ) {
            let to_ms = 6_000;
            let answers = |(period_ms, first_ms): &(u64, u64)| {
                let all = (0..).map(|number| first_ms % period_ms + number * period_ms);
                all.take_while(|at_ms| *at_ms <= to_ms).collect()
            };
            let clients: Vec<Vec<u64>> = each.iter().map(answers).collect();
            let truth: f64 = each.iter().map(|(period_ms, _)| 1e3 / *period_ms as f64).sum();
            let seen = rate(&clients, to_ms);
            // At least half of what lies between the first and the last answer counts, the last of 500 ms before either end aside.
            prop_assert!((seen - truth).abs() <= each.len() as f64 / 2.5, "{} of {}", seen, truth);
        }
    }
}
