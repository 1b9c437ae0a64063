//! What two workers do over a way: round trips one by one, round trips as a whole, a stream. Both know the order of the
//! parts; who leads says in each message whether it is the last one of its part.
//!
//! ```text
//!  warm-up ⇄ ⇄   singles ⇄ ⇄ ⇄ last   batch ⇄ ⇄ ⇄ last   warm-up → → ← one   stream → → → last ← one
//! ```
//! Every message carries its number: in the low bits of its first byte, and in its last eight where it has as many. A
//! channel that loses, doubles or garbles one is found out.

use std::time::{Duration, Instant};

use super::way::{RING_BYTES, Way};
use model::channel_worker::{Limits, Seen, Totals};
use units::Reason;
use units::histogram::DenseHistogram;

/// Says in a message's first byte that it is the last one of its part.
const LAST: u8 = 0x80;
/// From this size on, the last eight bytes are the number.
const NUMBERED_FROM: usize = 16;
/// Round trips before anything is timed.
const WARM_UP_TRIPS: u64 = 200;
/// Bytes that are moved by them at most, unless that were fewer than two.
const WARM_UP_BYTES: u64 = 2 << 20;
/// Fewest messages of a part, whatever time they take.
const FEWEST: u64 = 4;
/// Messages up to this size are counted in dozens between two looks at the clock.
const SMALL: usize = 4096;
/// Small messages between two looks at the clock.
const PER_LOOK: u64 = 32;
/// Reads of the clock that are timed.
const CLOCK_READS: u64 = 2000;

/// One end of a way, with its buffer and the number of the next message.
pub struct Exchange<'a> {
    way: &'a mut dyn Way,
    message: Vec<u8>,
    number: u64,
}

/// Which messages of a part come: how many at most, and for how long.
#[derive(Debug, Clone, Copy)]
struct Part {
    most: u64,
    time: Duration,
    fewest: u64,
}

impl Part {
    const fn counted(most: u64) -> Self {
        Self { most, time: Duration::MAX, fewest: most }
    }

    const fn timed(most: u64, ms: u64) -> Self {
        Self { most, time: Duration::from_millis(ms), fewest: FEWEST }
    }

    fn is_over(self, done: u64, took: Duration) -> bool {
        done >= self.most || (done >= self.fewest && took >= self.time)
    }
}

impl<'a> Exchange<'a> {
    /// Over a way, with messages of this size, at least one byte.
    pub fn new(way: &'a mut dyn Way, bytes: usize) -> Self {
        Self { way, message: vec![0; bytes.max(1)], number: 0 }
    }

    /// The side that begins.
    ///
    /// # Errors
    /// What broke, in words.
    pub fn lead(&mut self, limits: Limits) -> Result<Seen, Reason> {
        let warm = (WARM_UP_BYTES / self.message.len() as u64).clamp(2, WARM_UP_TRIPS);
        self.trips(Part::counted(warm), &mut |_| ())?;
        let mut each = DenseHistogram::new();
        self.trips(Part::timed(limits.trips, limits.trips_ms), &mut |took| each.record(nanos(took)))?;
        let batch = self.batch(Part::timed(u64::MAX, limits.batch_ms))?;
        if !self.way.streams() {
            return Ok(Seen {
                trips_ns: each.to_histogram(),
                batch,
                stream: Totals::default(),
                clock: clock(),
            });
        }
        // Every page of the ring was used once before the stream is timed.
        let warm = (RING_BYTES / self.message.len() as u64).clamp(2, 4096);
        self.stream(Part::counted(warm))?;
        let stream = self.stream(Part::timed(u64::MAX, limits.stream_ms))?;
        Ok(Seen { trips_ns: each.to_histogram(), batch, stream, clock: clock() })
    }

    /// The side that answers, until the other one has done all parts.
    ///
    /// # Errors
    /// What broke, in words.
    pub fn follow(&mut self) -> Result<(), Reason> {
        for _part in ["warm-up", "singles", "batch"] {
            while !self.receive()? {
                self.way.send(&self.message)?;
            }
            self.way.send(&self.message)?;
        }
        let streams: &[&str] = if self.way.streams() { &["warm-up", "stream"] } else { &[] };
        for _part in streams {
            while !self.receive()? {}
            self.way.send(&[1])?;
        }
        Ok(())
    }

    fn trips(&mut self, part: Part, note: &mut dyn FnMut(Duration)) -> Result<(), Reason> {
        let (began, mut done) = (Instant::now(), 0);
        let mut now = began;
        while !part.is_over(done, now - began) {
            let started = Instant::now();
            self.trip(false)?;
            now = Instant::now();
            note(now - started);
            done += 1;
        }
        self.trip(true)
    }

    fn batch(&mut self, part: Part) -> Result<Totals, Reason> {
        let (began, mut done) = (Instant::now(), 0);
        loop {
            let took = began.elapsed();
            if part.is_over(done, took) {
                self.trip(true)?;
                return Ok(Totals { count: done, ns: nanos(took) });
            }
            for _ in 0..self.per_look(done) {
                self.trip(false)?;
                done += 1;
            }
        }
    }

    fn stream(&mut self, part: Part) -> Result<Totals, Reason> {
        let (began, mut sent) = (Instant::now(), 0);
        while !part.is_over(sent, began.elapsed()) {
            for _ in 0..self.per_look(sent) {
                self.send(false)?;
                sent += 1;
            }
        }
        self.send(true)?;
        self.way.receive(&mut [0])?;
        Ok(Totals { count: sent + 1, ns: nanos(began.elapsed()) })
    }

    /// Messages until the next look at the clock; the first ones may be slow.
    fn per_look(&self, done: u64) -> u64 {
        if self.message.len() <= SMALL && done >= FEWEST { PER_LOOK } else { 1 }
    }

    #[inline]
    fn trip(&mut self, last: bool) -> Result<(), Reason> {
        self.send(last)?;
        self.number -= 1;
        if self.receive()? == last { Ok(()) } else { Err("the answer is to another message".into()) }
    }

    #[inline]
    fn send(&mut self, last: bool) -> Result<(), Reason> {
        if let Some(first) = self.message.first_mut() {
            *first = mark(self.number, last);
        }
        if self.message.len() >= NUMBERED_FROM
            && let Some(end) = self.message.last_chunk_mut()
        {
            *end = self.number.to_le_bytes();
        }
        self.number += 1;
        self.way.send(&self.message)
    }

    /// Receives the next message; whether it is the last of its part.
    #[inline]
    fn receive(&mut self) -> Result<bool, Reason> {
        self.way.receive(&mut self.message)?;
        let first = self.message.first().copied().unwrap_or_default();
        let wanted = mark(self.number, false);
        let number = self.message.last_chunk().map_or(self.number, |end| u64::from_le_bytes(*end));
        let numbered = self.message.len() >= NUMBERED_FROM;
        if first & !LAST != wanted || (numbered && number != self.number) {
            let number = self.number;
            return Err(format!(
                "wanted message {number}, got another one or a garbled one (first byte {first:#x})"
            )
            .into());
        }
        self.number += 1;
        Ok(first & LAST != 0)
    }
}

/// First byte of a message.
#[expect(clippy::cast_possible_truncation, reason = "the low bits are what is wanted")]
const fn mark(number: u64, last: bool) -> u8 {
    (number as u8 & !LAST) | if last { LAST } else { 0 }
}

/// Whole nanoseconds.
pub fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// What a read of the clock costs.
pub fn clock() -> Totals {
    let began = Instant::now();
    let mut last = began;
    for _ in 0..CLOCK_READS {
        last = std::hint::black_box(Instant::now());
    }
    Totals { count: CLOCK_READS, ns: nanos(last - began) }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::*;

    /// Messages through queues.
    struct Queue {
        to: Sender<Vec<u8>>,
        from: Receiver<Vec<u8>>,
    }

    impl Way for Queue {
        fn send(&mut self, message: &[u8]) -> Result<(), Reason> {
            self.to.send(message.to_vec()).map_err(|error| error.to_string().into())
        }

        fn receive(&mut self, message: &mut [u8]) -> Result<(), Reason> {
            let got = self.from.recv_timeout(Duration::from_secs(20)).map_err(|error| error.to_string())?;
            message.copy_from_slice(got.get(..message.len()).ok_or("short")?);
            Ok(())
        }
    }

    fn both(bytes: usize, garble: bool) -> (Result<Seen, Reason>, Result<(), Reason>) {
        let ((to, inbox), (back, answers)) = (channel(), channel());
        let follower = std::thread::spawn(move || {
            let mut way = Queue { to: back, from: inbox };
            Exchange::new(&mut way, bytes).follow()
        });
        let mut way = Queue { to, from: answers };
        let mut exchange = Exchange::new(&mut way, bytes);
        if garble {
            exchange.number = 3;
        }
        let limits = Limits { trips: 50, trips_ms: 1000, batch_ms: 2, stream_ms: 2 };
        let led = exchange.lead(limits);
        drop(way);
        (led, follower.join().unwrap())
    }

    #[test]
    fn both_sides_agree_when_a_part_is_over() {
        for bytes in [1, 8, 16, 5000] {
            let (led, followed) = both(bytes, false);
            let seen = led.unwrap();
            followed.unwrap();
            assert_eq!(seen.trips_ns.count(), 50);
            assert!(seen.batch.count >= FEWEST && seen.stream.count > FEWEST, "{seen:?}");
        }
    }

    #[test]
    fn a_message_out_of_turn_is_found_out() {
        for bytes in [1, 64] {
            let (led, followed) = both(bytes, true);
            assert!(followed.unwrap_err().to_string().contains("wanted message 0"));
            assert!(led.is_err());
        }
    }
}
