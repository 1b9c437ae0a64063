//! How much a server can do: so many clients at once (`concurrency`), each of which asks again as soon as it has its answer (closed
//! loop). Nobody waits for a period, so what comes back a second is what the server can.
//!
//! ```text
//!  clients ask ─► the first answer ─► a round: two seconds, and until it has eight times its longest pause, and cycles that agree
//!                                     ─► whole cycles of all together
//!
//!  answers of all  ┊╎╎╎╎        ╎╎╎╎╎       ╎╎╎╎        ╎╎        a pause: at least half as long as the longest
//!                               └────── whole cycles ───┘         from the end of one pause to that of a later one
//! ```
//! A rate is that of whole cycles: a round of a fixed length would count more or fewer answers than there are, by where it begins and ends
//! in the cycle, and so would the time from a first to a last answer, where they come in bursts. All clients have the same time: who has a
//! share in few bursts would otherwise be counted from the first of them to the last, and the sum would be more than the server gave.
//! How far cycles agree is the standard error of a ratio of sums (Cochran, Sampling Techniques, § 2.11).
//! Clients are ordinary threads: a host that has no CPU for those who ask has none for more of them either.

use std::cell::Cell;
use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
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
/// Answers that a round has at least, unless it comes to its end.
const ANSWERS: usize = 12;
/// Answers of which a round has enough, whatever they are like.
const MOST_ANSWERS: usize = 2_000_000;
/// How many times its longest pause a round lasts: as many bursts in a row may be unlike each other.
const PAUSES: u32 = 8;
/// With fewer, nobody knows how often there are answers.
const LEAST_PAUSES: u32 = 4;
/// Relative standard error of the rate that is enough.
const AGREE: f64 = 0.05;
/// How long is gone on at most for that, and at least for pauses.
const LONGEST: Duration = Duration::from_secs(20);
/// In so many parts of a round's time it is looked once.
const LOOKS: u32 = 20;
/// Answers for which there is room at once.
const USUAL_ANSWERS: usize = 1 << 14;

/// How long a round takes at most.
pub fn longest_capacity(client: &Client) -> Duration {
    first_within(client) + longest_round(client) + client.answer_within_ms.to_duration()
}

fn longest_round(client: &Client) -> Duration {
    LONGEST.max(client.answer_within_ms.to_duration() * PAUSES)
}

/// What all clients share.
struct Crowd {
    is_over: AtomicBool,
    /// Whether what ends now is of the round.
    counts: AtomicBool,
    /// Answers before the round.
    answered: AtomicUsize,
    /// Those of the round in their order, and by whom each was asked for.
    answers: Mutex<Vec<(Instant, usize)>>,
}

impl Crowd {
    fn answers(&self) -> MutexGuard<'_, Vec<(Instant, usize)>> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_enough(&self, from: Instant) -> bool {
        // Nobody who has an answer is to wait for what follows.
        let all = times(&self.answers());
        all.len() >= MOST_ANSWERS || has_enough(&all, from.elapsed())
    }
}

/// What one client has of a round, besides its answers.
struct Own {
    missing: u64,
    took: DenseHistogram,
}

/// Asks for a round with all clients at once, `least` long where an earlier one had to be.
///
/// # Errors
/// Nothing is answered, or too seldom for a rate; there can be no more threads, or the user interrupts.
pub fn capacity(client: &Client, least: Duration, cancel: &Cancel) -> Result<Responses, Reason> {
    let crowd = Crowd {
        is_over: AtomicBool::new(false),
        counts: AtomicBool::new(false),
        answered: AtomicUsize::new(0),
        answers: Mutex::new(Vec::with_capacity(USUAL_ANSWERS)),
    };
    thread::scope(|scope| {
        let one = |number| {
            let crowd = &crowd;
            let name = thread::Builder::new().name("client".to_owned());
            name.spawn_scoped(scope, move || ask(client, crowd, number as usize))
        };
        let clients: Result<Vec<_>, _> = (0..client.concurrency).map(one).collect();
        let counted = match &clients {
            Ok(_) => counted(client, &crowd, least, cancel),
            Err(error) => Err(format!("no threads for {} clients: {error}", client.concurrency).into()),
        };
        crowd.is_over.store(true, Ordering::SeqCst);
        let threads = clients.unwrap_or_default();
        let all: Vec<Own> = threads.into_iter().filter_map(|one| one.join().ok()).collect();
        let (from, to) = counted?;
        seen(&all, &crowd.answers(), from, to)
    })
}

/// When the round began and ended.
fn counted(
    client: &Client,
    crowd: &Crowd,
    least: Duration,
    cancel: &Cancel,
) -> Result<(Instant, Instant), Reason> {
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
    let looked = Cell::new(from);
    let has_enough = || {
        // The longer it goes on, the more there is to look through.
        let is_due = from.elapsed() >= ROUND.max(least) && looked.get().elapsed() >= from.elapsed() / LOOKS;
        is_due && {
            looked.set(Instant::now());
            crowd.has_enough(from)
        }
    };
    wait(longest_round(client), cancel, has_enough)?;
    Ok((from, Instant::now()))
}

/// What all clients had of a round.
fn seen(all: &[Own], answers: &[(Instant, usize)], from: Instant, to: Instant) -> Result<Responses, Reason> {
    let missing = all.iter().map(|own| own.missing).fold(0, u64::saturating_add);
    let took: Vec<Histogram> = all.iter().map(|own| own.took.to_histogram()).collect();
    Ok(Responses {
        response_ns: Histogram::merge_all(&took),
        asked: (answers.len() as u64).saturating_add(missing),
        missing,
        clients: cycles(all.len(), answers, from, to)?,
    })
}

fn times(answers: &[(Instant, usize)]) -> Vec<Instant> {
    answers.iter().map(|(at, _)| *at).collect()
}

/// Whether answers say how many there are a second, of a round that lasts for so long.
fn has_enough(answers: &[Instant], lasts: Duration) -> bool {
    let Some(longest) = longest_pause(answers, lasts) else { return false };
    let is_long = lasts >= longest * PAUSES;
    let agrees = lasts >= LONGEST || error(answers).is_none_or(|error| error <= AGREE);
    answers.len() >= ANSWERS && is_long && agrees
}

/// The longest time without an answer, that since the last one too.
fn longest_pause(answers: &[Instant], lasts: Duration) -> Option<Duration> {
    let (first, last) = (*answers.first()?, *answers.last()?);
    let idle = lasts.saturating_sub(last - first);
    Some(gaps(answers).map(|(_, gap)| gap).max()?.max(idle))
}

/// Relative standard error of the rate, by how unlike its cycles are. None of few.
fn error(answers: &[Instant]) -> Option<f64> {
    let longest = gaps(answers).map(|(_, gap)| gap).max()?;
    let mut ends = (1_usize..).zip(gaps(answers)).filter(|(_, (_, gap))| is_pause(*gap, longest));
    let mut before = ends.next().map(|(number, (end, _))| (number, end))?;
    let mut all = Vec::new();
    for (number, (end, _)) in ends {
        all.push(((number - before.0) as f64, (end - before.1).as_secs_f64()));
        before = (number, end);
    }
    let count = all.len() as f64;
    let (answers, time) = all.iter().fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
    let residual = |(answered, took): &(f64, f64)| (answered - took * answers / time).powi(2);
    let squares: f64 = all.iter().map(residual).sum();
    (all.len() >= LEAST_PAUSES as usize).then(|| (squares * count / (count - 1.0)).sqrt() / answers)
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
fn cycles(
    clients: usize,
    answers: &[(Instant, usize)],
    from: Instant,
    to: Instant,
) -> Result<Vec<ClientCycles>, Reason> {
    let (all, lasts) = (times(answers), to.saturating_duration_since(from));
    if let Some(longest) = longest_pause(&all, lasts).filter(|longest| *longest * LEAST_PAUSES > lasts) {
        return Err(format!(
            "there was no answer for {:.1} s of a round of {:.1} s: that is too short to say how many there are a second",
            longest.as_secs_f64(),
            lasts.as_secs_f64()
        )
        .into());
    }
    let (after, until) = whole_cycles(&all, to).unwrap_or((from, to));
    let over_ns = Nanos::from_duration(until.saturating_duration_since(after));
    let mut cycles = vec![ClientCycles { answers: 0, over_ns }; clients];
    for (_, client) in answers.iter().filter(|(at, _)| *at > after && *at <= until) {
        if let Some(cycles) = cycles.get_mut(*client) {
            cycles.answers += 1;
        }
    }
    Ok(cycles)
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
fn ask(client: &Client, crowd: &Crowd, who: usize) -> Own {
    let mut own = Own { missing: 0, took: DenseHistogram::new() };
    let (mut address, mut line, mut number) = (0, None, 0_u64);
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
        let took = asked.elapsed();
        let is_good = is_answered.unwrap_or(false) && took <= within;
        if crowd.counts.load(Ordering::SeqCst) {
            own.took.record(Nanos::from_duration(took).get());
            own.missing += u64::from(!is_good);
            if is_good {
                // The time is taken by whoever has its turn, so that answers are in the order of their times.
                let mut all = crowd.answers();
                all.push((Instant::now(), who));
            }
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

    /// When each answer came and whose it was, in the order of their times, from milliseconds after a moment.
    fn pooled(from: Instant, clients: &[Vec<u64>]) -> Vec<(Instant, usize)> {
        let of = |(who, all): (usize, &Vec<u64>)| all.iter().map(move |ms| (*ms, who)).collect::<Vec<_>>();
        let mut all: Vec<(u64, usize)> = clients.iter().enumerate().flat_map(of).collect();
        all.sort_unstable();
        all.into_iter().map(|(ms, who)| (from + Duration::from_millis(ms), who)).collect()
    }

    /// Answers a second of clients whose answers came so many milliseconds after the round began, and when it ended.
    fn rate(clients: &[Vec<u64>], to_ms: u64) -> Result<f64, Reason> {
        let from = Instant::now();
        let all = pooled(from, clients);
        let cycles = cycles(clients.len(), &all, from, from + Duration::from_millis(to_ms))?;
        Ok(cycles.iter().map(ClientCycles::per_s).sum())
    }

    /// When a round of a server ends that gives `bursts` of so many answers in turn, a period apart, and what is seen in it.
    fn round(bursts: &[u64], period_ms: usize, first: usize) -> (u64, Result<f64, Reason>) {
        let from = Instant::now();
        let at = |ms: u64| from + Duration::from_millis(ms);
        let begins = (0..=20_000_u64).step_by(period_ms);
        let answers: Vec<u64> = begins
            .zip(bursts.iter().cycle().skip(first))
            .flat_map(|(begins, many)| (0..*many).map(move |one| begins + one / 10))
            .collect();
        let there = |ms: u64| answers.iter().copied().filter(|at_ms| *at_ms < ms).map(at).collect::<Vec<_>>();
        let is_enough = |ms: &u64| has_enough(&there(*ms), Duration::from_millis(*ms));
        let ends = (2000..20_000).step_by(100).find(is_enough).unwrap_or(20_000);
        let seen = answers.into_iter().filter(|ms| *ms < ends).collect();
        (ends, rate(&[seen], ends))
    }

    #[test]
    fn a_round_goes_on_for_as_long_as_bursts_take_to_tell_their_rate() {
        let (ends, seen) = round(&[10], 100, 0);
        assert_eq!((ends, seen.ok().map(f64::round)), (2000, Some(100.0)));
        let (ends, seen) = round(&[100], 2400, 0);
        assert!(
            (19_000..20_000).contains(&ends) && (seen.clone().unwrap() * 2.4 - 100.0).abs() < 0.5,
            "{ends} {seen:?}"
        );
        // Regression: 36 to 45 of 28 a second.
        let unlike = [90, 9, 9, 9, 9, 9];
        let rounds: Vec<f64> = (0..unlike.len()).map(|first| round(&unlike, 800, first).1.unwrap()).collect();
        let truth = 135.0 / 4.8;
        let mean = rounds.iter().sum::<f64>() / rounds.len() as f64;
        assert!((mean / truth - 1.0).abs() < 0.02, "{mean} of {truth}");
        assert!(rounds.iter().all(|one| (one / truth - 1.0).abs() < 0.2), "{rounds:?} of {truth}");
        // Regression: three bursts within six seconds were counted from the first to the last: 37 a second of 20.
        let (ends, seen) = round(&[180], 9000, 0);
        let why = seen.expect_err("nobody knows how often they come").to_string();
        assert!(ends == 20_000 && why.contains("no answer for 9.0 s of a round of 20.0 s"), "{ends} {why}");
    }

    /// Regression: a client that once waited for long asked for four such pauses, and a round went on to its end.
    #[test]
    fn who_stands_still_once_does_not_keep_a_round_from_its_end() {
        let from = Instant::now();
        let seen_until = |ms: u64| {
            let all = (0..ms).step_by(20).filter(|at| !(1000..2000).contains(at));
            let all: Vec<Instant> = all.map(|at| from + Duration::from_millis(at)).collect();
            has_enough(&all, Duration::from_millis(ms))
        };
        assert_eq!((seen_until(980), seen_until(4000), seen_until(8200)), (true, false, true));
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
            let pauses = whose.len() as u64 - 1;
            let seen = rate(&clients, period_ms * pauses);
            // So few say nothing.
            prop_assert_eq!(seen.is_err(), pauses < u64::from(LEAST_PAUSES));
            let Ok(seen) = seen else { return Ok(()) };
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
            let seen = rate(&clients, to_ms).unwrap();
            // At least half of what lies between the first and the last answer counts, the last of 500 ms before either end aside.
            prop_assert!((seen - truth).abs() <= each.len() as f64 / 2.5, "{} of {}", seen, truth);
        }
    }
}
