//! Time as seen from outside a job: asks the host's clock before and after the probe, and begins at the moment the
//! host says when several instances begin together.
//!
//! ```text
//!  prepare: exchanges ─► running() ─► await_start: sleep ── spin ─► begin ─ probe ─ end: exchanges
//!                                     (once more when the first ones are old)
//! ```
//! The clock is asked by datagrams where the job names one, over the link otherwise. Method: Mills, RFC 5905 section 8.

use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};

use crate::bounds::Bounds;
use crate::error::WorkError;
use crate::job::ProbeReport;
use units::Nanos;
use units::clock_wire::{ClockAnswer, ClockQuestion, LENGTH};
use units::exchange::{Exchange, Moment, quickest};
use units::outside::{ClockReading, ClockTransport, OutsideTime};
use units::stage::{Stage, Start};

/// Exchanges before the probe and after it; the quickest counts.
const EXCHANGES: u32 = 8;
/// Exchanges when the first ones have grown old until the start.
const FRESH_EXCHANGES: u32 = 4;
/// A clock that is off by 100 ppm, as guests' clocks are, drifts by 10 µs in this time.
const OLD: Duration = Duration::from_millis(100);
/// No further exchanges when less than this is left until the start.
const ROOM_FOR_EXCHANGES: Duration = Duration::from_millis(20);
/// How long a datagram may go unanswered.
const ANSWER_GRACE: Duration = Duration::from_millis(200);
/// So shortly before the start it is awaited awake: waking up takes some tens of microseconds.
const AWAKE: Duration = Duration::from_micros(300);
/// Longest sleep without a look at the job's limits.
const LOOK: Duration = Duration::from_millis(50);

/// The host's clock during one probe.
pub(super) struct Outside {
    datagrams: Option<Datagrams>,
    before: Option<ClockReading>,
    began_ns: u64,
    ended_ns: u64,
    notes: Vec<String>,
}

impl Outside {
    /// Asks the host's clock, at `clock` if there is one.
    pub(super) fn prepare(clock: Option<SocketAddr>, stage: &mut dyn Stage) -> Self {
        let mut outside = Self { datagrams: None, before: None, began_ns: 0, ended_ns: 0, notes: Vec::new() };
        if let Some(address) = clock {
            match Datagrams::open(address) {
                Ok(datagrams) => outside.datagrams = Some(datagrams),
                Err(error) => outside.fall_back(address, &error),
            }
        }
        outside.before = outside.ask(stage, EXCHANGES);
        outside
    }

    fn fall_back(&mut self, address: SocketAddr, error: &io::Error) {
        self.datagrams = None;
        self.notes.push(format!(
            "the host's clock at {address} does not answer datagrams ({error}); it was asked over the link instead"
        ));
    }

    fn ask(&mut self, stage: &mut dyn Stage, exchanges: u32) -> Option<ClockReading> {
        if let Some(datagrams) = &mut self.datagrams {
            match datagrams.ask(exchanges) {
                Ok(reading) => return Some(reading),
                Err(error) => {
                    let address = datagrams.address;
                    self.fall_back(address, &error);
                }
            }
        }
        stage.ask_clock(exchanges)
    }

    /// Waits until the moment the host says. A moment that has passed is now, with a note.
    ///
    /// # Errors
    /// When the job is to end meanwhile.
    pub(super) fn await_start(&mut self, stage: &mut dyn Stage, bounds: Bounds<'_>) -> Result<(), WorkError> {
        let at = match stage.await_start() {
            Start::At(at) => at,
            Start::AtOnce => return bounds.check(),
            // Whatever our own time says: whoever begins now begins alone.
            Start::Never => return Err(bounds.broken()),
        };
        let Some(first) = self.before else {
            self.notes.push("began at once: the host's clock did not say when the start was".to_owned());
            return bounds.check();
        };
        let mut until = first.local_at(at).get();
        let age = read(ClockId::CLOCK_MONOTONIC).saturating_sub(first.monotonic_ns.get());
        if is_worth_asking_again(age, time_left(until))
            && let Some(fresh) = self.ask(stage, FRESH_EXCHANGES)
        {
            self.before = Some(fresh);
            until = fresh.local_at(at).get();
        }
        let late = read(ClockId::CLOCK_MONOTONIC).saturating_sub(until);
        if late > 0 {
            self.notes.push(format!(
                "the common start had passed {} ago when this instance was ready",
                Nanos::from_nanos(late)
            ));
        }
        wait_until(until, bounds)
    }

    /// The probe begins now.
    pub(super) fn begin(&mut self) {
        self.began_ns = read(ClockId::CLOCK_MONOTONIC);
    }

    /// The probe has ended now.
    pub(super) fn ended(&mut self) {
        self.ended_ns = read(ClockId::CLOCK_MONOTONIC);
    }

    /// Asks again, after the probe has ended, and completes the report.
    pub(super) fn end(mut self, stage: &mut dyn Stage, report: &mut ProbeReport) {
        let asked_by_datagrams = self.datagrams.is_some();
        let after = self.before.and_then(|_| self.ask(stage, EXCHANGES));
        // Who fell back in the middle has used both; the link is the one that answered last.
        let both = asked_by_datagrams && self.datagrams.is_some();
        report.outside = self.before.zip(after).map(|(before, after)| OutsideTime {
            transport: if both { ClockTransport::Udp } else { ClockTransport::Link },
            before,
            after,
            began_ns: Nanos::from_nanos(self.began_ns),
            ended_ns: Nanos::from_nanos(self.ended_ns),
        });
        report.notes.append(&mut self.notes);
    }
}

fn is_worth_asking_again(age_ns: u64, left: Duration) -> bool {
    Duration::from_nanos(age_ns) > OLD && left > ROOM_FOR_EXCHANGES
}

/// Time until a moment of `CLOCK_MONOTONIC`.
fn time_left(until_ns: u64) -> Duration {
    Duration::from_nanos(until_ns.saturating_sub(read(ClockId::CLOCK_MONOTONIC)))
}

/// Sleeps until shortly before the moment, then watches the clock. An absurd moment ends at the job's deadline.
fn wait_until(until_ns: u64, bounds: Bounds<'_>) -> Result<(), WorkError> {
    loop {
        bounds.check()?;
        let left = time_left(until_ns);
        if left <= AWAKE {
            break;
        }
        std::thread::sleep(left.saturating_sub(AWAKE).min(LOOK));
    }
    while read(ClockId::CLOCK_MONOTONIC) < until_ns {
        std::hint::spin_loop();
    }
    Ok(())
}

fn read(clock: ClockId) -> u64 {
    let Ok(time) = clock_gettime(clock) else { return 0 };
    let seconds = u64::try_from(time.tv_sec()).unwrap_or(0);
    seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(time.tv_nsec()).unwrap_or(0))
}

fn read_clocks() -> Moment {
    let before_ns = read(ClockId::CLOCK_MONOTONIC);
    let raw_ns = read(ClockId::CLOCK_MONOTONIC_RAW);
    let realtime_ns = read(ClockId::CLOCK_REALTIME);
    Moment { before_ns, raw_ns, realtime_ns, after_ns: read(ClockId::CLOCK_MONOTONIC) }
}

/// The host's clock asked by datagrams.
struct Datagrams {
    socket: UdpSocket,
    address: SocketAddr,
    nonce: u64,
    number: u64,
}

impl Datagrams {
    fn open(address: SocketAddr) -> io::Result<Self> {
        let any: SocketAddr = match address {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let socket = UdpSocket::bind(any)?;
        // Connected: the kernel drops what others send.
        socket.connect(address)?;
        Ok(Self { socket, address, nonce: RandomState::new().hash_one(address), number: 0 })
    }

    /// The quickest of so many exchanges; lost datagrams are left out.
    fn ask(&mut self, exchanges: u32) -> io::Result<ClockReading> {
        let mut made = Vec::new();
        let mut last = None;
        for _ in 0..exchanges {
            match self.ask_once() {
                Ok(exchange) => made.push(exchange),
                // Two in a row with nothing ever answered: nobody is there.
                Err(error) if made.is_empty() && last.is_some() => return Err(error),
                Err(error) => last = Some(error),
            }
        }
        quickest(&made).ok_or_else(|| last.unwrap_or_else(|| io::ErrorKind::TimedOut.into()))
    }

    fn ask_once(&mut self) -> io::Result<Exchange> {
        self.number += 1;
        let question = ClockQuestion { nonce: self.nonce, number: self.number };
        let datagram = question.encode();
        let mut bytes = [0; LENGTH + 1];
        let until = Instant::now() + ANSWER_GRACE;
        let asked = read_clocks();
        self.socket.send(&datagram)?;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "no answer within 200 ms"));
            }
            self.socket.set_read_timeout(Some(left))?;
            let count = match self.socket.recv(&mut bytes) {
                Ok(count) => count,
                Err(error) if is_only_late(&error) => continue,
                Err(error) => return Err(error),
            };
            let answered = read_clocks();
            // Late answers to earlier questions, and nonsense, are passed over.
            if let Some(answer) = bytes.get(..count).and_then(ClockAnswer::decode)
                && question.is_answered_by(&answer)
            {
                let (received_ns, sent_ns) = (answer.received_ns.get(), answer.sent_ns.get());
                return Ok(Exchange { asked, received_ns, sent_ns, answered });
            }
        }
    }
}

fn is_only_late(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use super::*;
    use units::Millis;

    /// A host whose clock is `ahead` of ours, and which says to begin `margin` from now.
    struct Host {
        ahead: u64,
        margin: Option<u64>,
        asked: u32,
    }

    impl Stage for Host {
        fn running(&mut self) {}

        fn await_start(&mut self) -> Start {
            let at = |margin| Start::At(Nanos::from_nanos(now() + self.ahead + margin));
            self.margin.map_or(Start::Never, at)
        }

        fn ask_clock(&mut self, exchanges: u32) -> Option<ClockReading> {
            self.asked += exchanges;
            let asked = read_clocks();
            let host = now() + self.ahead;
            quickest(&[Exchange { asked, received_ns: host, sent_ns: host, answered: read_clocks() }])
        }
    }

    fn now() -> u64 {
        read(ClockId::CLOCK_MONOTONIC)
    }

    fn bounds(stop: &AtomicBool, millis: u64) -> Bounds<'_> {
        Bounds::starting_now(stop, Millis::from_millis(millis))
    }

    #[test]
    fn the_start_is_at_the_hosts_moment_on_our_clock_and_never_before_it() {
        let stop = AtomicBool::new(false);
        let mut host = Host { ahead: 5_000_000_000, margin: Some(30_000_000), asked: 0 };
        let mut outside = Outside::prepare(None, &mut host);
        let earliest = now() + 30_000_000;
        outside.await_start(&mut host, bounds(&stop, 60_000)).unwrap();
        outside.begin();
        let early = earliest.saturating_sub(outside.began_ns);
        assert!(early < 1_000_000, "{early} ns too early: more than the reading's error");
        assert!(outside.notes.is_empty(), "{:?}", outside.notes);
    }

    #[test]
    fn a_start_that_has_passed_is_at_once_and_said() {
        let stop = AtomicBool::new(false);
        let mut host = Host { ahead: 0, margin: Some(0), asked: 0 };
        let mut outside = Outside::prepare(None, &mut host);
        std::thread::sleep(Duration::from_millis(5));
        let start = now();
        let mut late = Late(start - 4_000_000);
        outside.await_start(&mut late, bounds(&stop, 60_000)).unwrap();
        assert!(outside.notes.iter().any(|note| note.contains("had passed")), "{:?}", outside.notes);
    }

    /// A host that says a moment and no time.
    struct Late(u64);

    impl Stage for Late {
        fn running(&mut self) {}
        fn await_start(&mut self) -> Start {
            Start::At(Nanos::from_nanos(self.0))
        }
        fn ask_clock(&mut self, _: u32) -> Option<ClockReading> {
            None
        }
    }

    #[test]
    fn an_absurd_start_ends_with_the_job_and_no_host_means_at_once() {
        let stop = AtomicBool::new(false);
        let mut host = Host { ahead: 0, margin: Some(u64::MAX / 4), asked: 0 };
        let mut outside = Outside::prepare(None, &mut host);
        let error = outside.await_start(&mut host, bounds(&stop, 80)).unwrap_err();
        assert!(matches!(error, WorkError::Deadline { .. }), "{error}");
        stop.store(true, std::sync::atomic::Ordering::SeqCst);
        let mut outside = Outside::prepare(None, &mut host);
        let error = outside.await_start(&mut host, bounds(&stop, 60_000)).unwrap_err();
        assert_eq!(error.to_string(), "stopped");
        let alive = AtomicBool::new(false);
        let mut nobody = || {};
        let mut outside = Outside::prepare(None, &mut nobody);
        outside.await_start(&mut nobody, bounds(&alive, 60_000)).unwrap();
        // A stage whose time ends before the probe's own: its thread began to count later.
        let mut silent = Host { ahead: 0, margin: None, asked: 0 };
        let mut outside = Outside::prepare(None, &mut silent);
        let error = outside.await_start(&mut silent, bounds(&alive, 60_000)).unwrap_err();
        assert!(matches!(error, WorkError::Deadline { .. }), "{error}");
    }

    #[test]
    fn old_readings_are_renewed_when_there_is_room() {
        assert!(is_worth_asking_again(101_000_000, Duration::from_millis(21)));
        assert!(!is_worth_asking_again(99_000_000, Duration::from_millis(21)));
        assert!(!is_worth_asking_again(101_000_000, Duration::from_millis(19)));
    }

    #[test]
    fn datagrams_are_answered_by_the_right_answer_only() {
        let server = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = server.local_addr().unwrap();
        let host = std::thread::spawn(move || {
            for _ in 0..3 {
                let mut bytes = [0; LENGTH];
                let (_, from) = server.recv_from(&mut bytes).unwrap();
                let question = ClockQuestion::decode(&bytes).unwrap();
                let at = Nanos::from_nanos(now() + 1_000_000_000_000);
                let wrong = ClockQuestion { number: question.number + 7, ..question };
                server.send_to(b"nonsense", from).unwrap();
                server.send_to(&ClockAnswer::to(&wrong, Nanos::ZERO, Nanos::ZERO).encode(), from).unwrap();
                server.send_to(&ClockAnswer::to(&question, at, at).encode(), from).unwrap();
            }
        });
        let reading = Datagrams::open(address).unwrap().ask(3).unwrap();
        host.join().unwrap();
        assert_eq!(reading.exchanges, 3);
        let offset = reading.host_ns.get() - reading.monotonic_ns.get();
        assert!(offset.abs_diff(1_000_000_000_000) <= reading.round_trip_ns.get(), "{offset}");
    }

    #[test]
    fn a_clock_that_does_not_answer_is_asked_over_the_link() {
        let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut host = Host { ahead: 9, margin: None, asked: 0 };
        let outside = Outside::prepare(Some(silent.local_addr().unwrap()), &mut host);
        assert_eq!((outside.before.is_some(), host.asked), (true, EXCHANGES));
        assert!(
            outside.notes.iter().any(|note| note.contains("over the link instead")),
            "{:?}",
            outside.notes
        );
    }
}
