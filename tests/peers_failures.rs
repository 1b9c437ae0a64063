//! What goes wrong between the members of a joint measurement: nobody comes, somebody dies, strangers, liars, a network
//! that loses, doubles and changes. Each ends with a clear reason, or does no harm.

use crate::peers_fixture;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use bulkhead::probes::detail::{Detail, NetPoint};
use bulkhead::probes::job::{Job, ProbeReport};
use bulkhead::probes::net::control::{ExchangeTally, LONGEST, Message};
use bulkhead::probes::params::{Exchange, MpiParams, NetParams, ProbeSpec, Protocol};
use bulkhead::probes::rendezvous::hello::HELLO_BYTES;
use bulkhead::probes::rendezvous::{Hello, HelloWord};
use bulkhead::probes::run::{Surroundings, run_job};
use bulkhead::units::{Millis, Nanos};
use peers_fixture::proxy::{Between, Harm};
use peers_fixture::{Members, report_of};
use rand::{Rng, RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

const HOUR: Millis = Millis::from_millis(3_600_000);

fn net_of(protocol: Protocol, exchange: Exchange, size: u32, duration_ms: Millis) -> NetParams {
    NetParams { protocols: vec![protocol], exchanges: vec![exchange], message_bytes: vec![size], duration_ms }
}

fn mpi_for(duration_ms: Millis, ranks_per_instance: u32) -> ProbeSpec {
    ProbeSpec::Mpi(MpiParams { message_bytes: vec![1000], duration_ms, ranks_per_instance })
}

fn short_net() -> ProbeSpec {
    ProbeSpec::Net(NetParams { duration_ms: Millis::from_millis(10), ..NetParams::default() })
}

fn reason(outcome: Result<ProbeReport, String>) -> String {
    outcome.map(|report| report.detail.kind()).expect_err("it must fail")
}

fn points(outcome: &Result<ProbeReport, String>) -> &[NetPoint] {
    match &report_of(outcome).detail {
        Detail::Net(detail) => &detail.points,
        other => panic!("not a net detail but {}", other.kind()),
    }
}

#[test]
fn who_does_not_come_is_named_before_the_deadline() {
    let never = AtomicBool::new(false);
    for (probe, rank, other) in [
        (short_net(), 0, "instance 1 at 127.0.0.1:"),
        (short_net(), 1, "instance 0 to come to 127.0.0.1:"),
        (mpi_for(Millis::from_millis(10), 1), 1, "instance 0 at 127.0.0.1:"),
        (mpi_for(Millis::from_millis(10), 1), 0, "the other instances to come to 127.0.0.1:"),
    ] {
        let error = reason(Members::on_loopback(2).with_deadline(600).run_one(rank, &probe, &never));
        assert!(error.contains("waited in vain") && error.contains(other), "{}: {error}", probe.kind());
    }
}

#[test]
fn a_part_that_cannot_be_played_is_refused_at_once() {
    let never = AtomicBool::new(false);
    let alone = Members::on_loopback(1);
    assert!(reason(alone.run_one(0, &short_net(), &never)).contains("needs two instances"));
    let error = reason(alone.run_one(0, &mpi_for(HOUR, 1), &never));
    assert!(error.contains("needs two ranks"), "{error}");
    let no_part = Job { part: None, ..alone.job(0, &short_net()) };
    let surroundings = Surroundings { scratch: None, exe: PathBuf::from("/bin/true") };
    let error =
        reason(run_job(&no_part, &surroundings, &never, &mut || {}).report.unwrap().map_err(String::from));
    assert!(error.contains("layout such as 1x2"), "{error}");
    // An address that is not this instance's.
    let mut elsewhere = Members::on_loopback(2);
    elsewhere.peers[1].address = "192.0.2.1:12345".parse().unwrap();
    let error = reason(elsewhere.run_one(1, &short_net(), &never));
    assert!(error.contains("own address 192.0.2.1:12345"), "{error}");
}

#[test]
fn members_that_were_asked_for_different_things_do_not_meet() {
    let never = AtomicBool::new(false);
    for (probe, knocks) in [(short_net(), 0), (mpi_for(Millis::from_millis(10), 1), 1)] {
        let members = Members::on_loopback(2).with_deadline(1500);
        let other_job = Members { seed: 43, ..members.clone() };
        let (one, other) = thread::scope(|scope| {
            let one = scope.spawn(|| members.run_one(knocks, &probe, &never));
            let other = scope.spawn(|| other_job.run_one(1 - knocks, &probe, &never));
            (one.join().expect("no panic"), other.join().expect("no panic"))
        });
        assert!(reason(one).contains("waited in vain"), "{}", probe.kind());
        let error = reason(other);
        assert!(error.contains("others came and were turned away"), "{}: {error}", probe.kind());
    }
}

/// A member in a process of its own, which dies with this guard.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

const JOB: &str = "BULKHEAD_TEST_MEMBER";

/// Not a test by itself: what [`Process`] runs.
#[test]
#[ignore = "started by the tests, in a process of its own"]
fn member_process() {
    let job = std::env::var(JOB).expect("started by a test");
    let job: Job = serde_json::from_str(&job).expect("a job");
    let surroundings = Surroundings { scratch: None, exe: PathBuf::from("/bin/true") };
    run_job(&job, &surroundings, &AtomicBool::new(false), &mut || {});
}

fn start(members: &Members, rank: usize, probe: &ProbeSpec) -> Process {
    let job = serde_json::to_string(&members.job(rank, probe)).expect("writable");
    let mut command = Command::new(std::env::current_exe().expect("known"));
    command
        .args(["--exact", "--ignored", "peers_failures::member_process"])
        .env(JOB, job)
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    Process(command.spawn().expect("it starts"))
}

/// Waits until so many connections to a port of loopback stand.
fn await_connections(port: u16, count: usize) {
    let wanted = format!(":{port:04X}");
    loop {
        let table = std::fs::read_to_string("/proc/net/tcp").expect("readable");
        let established = table.lines().filter(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            fields.get(1).is_some_and(|local| local.ends_with(&wanted)) && fields.get(3) == Some(&"01")
        });
        if established.count() >= count {
            return;
        }
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_member_that_is_killed_in_the_middle_ends_the_others_with_a_reason() {
    let never = AtomicBool::new(false);
    let net = |protocol, exchange| ProbeSpec::Net(net_of(protocol, exchange, 1000, HOUR));
    // Probe, connections that stand once it is under way, who dies.
    let cases = [
        (net(Protocol::Tcp, Exchange::Stream), 2, 0),
        (net(Protocol::Tcp, Exchange::Stream), 2, 1),
        (net(Protocol::Tcp, Exchange::RequestResponse), 2, 0),
        (net(Protocol::Tcp, Exchange::RequestResponse), 2, 1),
        (net(Protocol::Udp, Exchange::Stream), 1, 1),
        (net(Protocol::Udp, Exchange::RequestResponse), 1, 0),
        (net(Protocol::Udp, Exchange::RequestResponse), 1, 1),
        (mpi_for(HOUR, 1), 1, 0),
        (mpi_for(HOUR, 2), 4, 1),
    ];
    for (probe, connections, victim) in cases {
        let members = Members::on_loopback(2).with_deadline(100_000);
        // The one with the lower number listens in mpi, the one with the higher in net.
        let listens = usize::from(matches!(probe, ProbeSpec::Net(_)));
        let mut process = start(&members, victim, &probe);
        let survivor = thread::scope(|scope| {
            let survivor = scope.spawn(|| members.run_one(1 - victim, &probe, &never));
            await_connections(members.peers[listens].address.port(), connections);
            thread::sleep(Duration::from_millis(100));
            process.0.kill().expect("it runs");
            survivor.join().expect("no panic")
        });
        let error = reason(survivor);
        let told =
            ["connection was closed", "the other instance ended"].iter().any(|text| error.contains(text));
        assert!(told, "{probe:?}, {victim} killed: {error}");
    }
}

#[test]
fn stop_ends_all_members_in_the_middle() {
    let udp = ProbeSpec::Net(net_of(Protocol::Udp, Exchange::Stream, 1000, HOUR));
    let tcp = ProbeSpec::Net(net_of(Protocol::Tcp, Exchange::RequestResponse, 1000, HOUR));
    for (probe, listens) in [(udp, 1), (tcp, 1), (mpi_for(HOUR, 2), 0)] {
        let members = Members::on_loopback(2);
        let stop = AtomicBool::new(false);
        let outcomes = thread::scope(|scope| {
            let all = [0, 1].map(|rank| {
                let (members, probe, stop) = (&members, &probe, &stop);
                scope.spawn(move || members.run_one(rank, probe, stop))
            });
            await_connections(members.peers[listens].address.port(), 1);
            stop.store(true, Ordering::Relaxed);
            all.map(|one| one.join().expect("no panic"))
        });
        let reasons = outcomes.map(reason);
        assert!(reasons.iter().any(|reason| reason == "stopped"), "{}: {reasons:?}", probe.kind());
    }
}

/// Bothers a member's port until told to end: garbage, silence, hanging up, the word of another job, datagrams.
fn bother(port: u16, over: &AtomicBool) {
    let address = ("127.0.0.1", port);
    let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
    let mut silent = Vec::new();
    let wrong = Hello { word: HelloWord::new(1, "another job"), from: 0, to: 1, channel: 0 };
    let socket = UdpSocket::bind("127.0.0.1:0").expect("free");
    while !over.load(Ordering::Relaxed) {
        let _ = socket.send_to(&[0; 1000], address);
        let _ = socket.send_to(&[], address);
        if let Ok(mut stream) = TcpStream::connect(address) {
            let mut garbage = [0; 64];
            random.fill_bytes(&mut garbage);
            match random.random_range(0..4) {
                0 => drop(stream.write_all(&garbage)),
                1 => drop(stream.write_all(&wrong.encode())),
                2 => drop(stream.write_all(&wrong.encode()[..20])),
                _ => silent.push(stream),
            }
            silent.truncate(100);
        }
        thread::sleep(Duration::from_micros(300));
    }
}

#[test]
fn strangers_at_the_door_are_turned_away_and_the_measurement_goes_on() {
    for (probe, listens) in [(short_net(), 1), (mpi_for(Millis::from_millis(30), 2), 0)] {
        let members = Members::on_loopback(2);
        let over = AtomicBool::new(false);
        let outcomes = thread::scope(|scope| {
            let stranger = scope.spawn(|| bother(members.peers[listens].address.port(), &over));
            let outcomes = members.run(&probe);
            over.store(true, Ordering::Relaxed);
            stranger.join().expect("no panic");
            outcomes
        });
        assert!(outcomes.iter().all(|outcome| !report_of(outcome).clock.name.is_empty()));
        let notes: Vec<&String> = outcomes.iter().flat_map(|outcome| &report_of(outcome).notes).collect();
        let told = notes.iter().any(|note| note.contains("were turned away"));
        assert!(told || matches!(probe, ProbeSpec::Mpi(_)), "{notes:?}");
    }
}

#[test]
fn somebody_else_at_the_partners_address_is_seen() {
    let members = Members::on_loopback(2).with_deadline(1000);
    let listener = TcpListener::bind(members.peers[1].address).expect("free");
    let never = AtomicBool::new(false);
    let over = AtomicBool::new(false);
    let outcome = thread::scope(|scope| {
        scope.spawn(|| {
            while let Ok((mut stream, _)) = listener.accept() {
                if over.load(Ordering::Relaxed) {
                    return;
                }
                let _ = stream.write_all(b"220 mail.example ESMTP");
            }
        });
        let outcome = members.run_one(0, &short_net(), &never);
        over.store(true, Ordering::Relaxed);
        drop(TcpStream::connect(members.peers[1].address));
        outcome
    });
    let error = reason(outcome);
    assert!(error.contains("something else than instance 1 answers"), "{error}");
}

/// Plays the second instance up to the end of the rendezvous, then sends `bytes` and waits.
fn lying_partner(listener: &TcpListener, word: HelloWord, bytes: &[u8], over: &AtomicBool) {
    let (mut stream, _) = listener.accept().expect("it comes");
    let mut heard = [0; HELLO_BYTES];
    stream.read_exact(&mut heard).expect("a hello");
    let hello = Hello::decode(&heard).expect("a hello");
    assert_eq!(hello, Hello { word, from: 0, to: 1, channel: 0 });
    stream.write_all(&hello.token()).expect("it listens");
    let _ = stream.write_all(bytes);
    while !over.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_partner_that_talks_nonsense_is_answered_with_a_reason() {
    let kernel = Message::Kernel { boot: 1, outermost: false }.encode();
    let after_kernel = |more: &[u8]| [&kernel[..], more].concat();
    let cases: [(Vec<u8>, &str); 6] = [
        (vec![0xff; 700], "where 600 are allowed"),
        (vec![3, 0, 99, 1, 2], "its kind is unknown"),
        (Message::Ready(7).encode(), "said Ready(7) instead"),
        (after_kernel(&Message::Ready(7).encode()), "said Ready(7) instead"),
        (after_kernel(&Message::Failed("I am tired\u{7}".to_owned()).encode()), "gave up: I am tired "),
        (kernel.clone(), "waited in vain"),
    ];
    for (bytes, expected) in cases {
        let members = Members::on_loopback(2).with_deadline(1000);
        let params = net_of(Protocol::Udp, Exchange::RequestResponse, 8, Millis::from_millis(10));
        let agreed = serde_json::to_string(&params).expect("writable");
        let word = HelloWord::new(members.seed, &format!("net {agreed}"));
        let listener = TcpListener::bind(members.peers[1].address).expect("free");
        let (never, over) = (AtomicBool::new(false), AtomicBool::new(false));
        let outcome = thread::scope(|scope| {
            scope.spawn(|| lying_partner(&listener, word, &bytes, &over));
            let outcome = members.run_one(0, &ProbeSpec::Net(params.clone()), &never);
            over.store(true, Ordering::Relaxed);
            outcome
        });
        let error = reason(outcome);
        assert!(error.contains(expected), "{expected}: {error}");
    }
}

fn through(harm: Harm, probe: &ProbeSpec) -> [Result<ProbeReport, String>; 2] {
    let between = Between::new(harm);
    let never = AtomicBool::new(false);
    thread::scope(|scope| {
        let second = scope.spawn(|| between.second.run_one(1, probe, &never));
        let first = between.first.run_one(0, probe, &never);
        [first, second.join().expect("no panic")]
    })
}

#[test]
fn lost_and_doubled_datagrams_are_counted_and_survived() {
    let duration = Millis::from_millis(300);
    let harm = Harm { lose_every: Some(7), double_every: Some(5), change: false };
    let questions = ProbeSpec::Net(net_of(Protocol::Udp, Exchange::RequestResponse, 1, duration));
    let outcomes = through(harm, &questions);
    let point = &points(&outcomes[0])[0];
    assert!(point.arrived > 0 && point.arrived < point.sent, "{} of {}", point.arrived, point.sent);
    // A lost answer takes a tenth of a second and is no round trip.
    let longest = point.round_trip_ns.buckets().last().expect("some").lower();
    assert!(point.elapsed_ns > Nanos::from_nanos(longest * (point.sent - point.arrived)));
    let harm = Harm { lose_every: Some(7), ..Harm::default() };
    let stream = ProbeSpec::Net(net_of(Protocol::Udp, Exchange::Stream, 1000, duration));
    for point in points(&through(harm, &stream)[0]) {
        let most = point.sent - point.sent / 7 + 1;
        assert!(point.arrived > 0 && point.arrived <= most, "{} of {}", point.arrived, point.sent);
    }
}

#[test]
fn changed_bytes_are_no_measurement() {
    let harm = Harm { change: true, ..Harm::default() };
    let duration = Millis::from_millis(50);
    for protocol in [Protocol::Tcp, Protocol::Udp] {
        for exchange in [Exchange::Stream, Exchange::RequestResponse] {
            let outcomes = through(harm, &ProbeSpec::Net(net_of(protocol, exchange, 3000, duration)));
            let errors = outcomes.map(reason);
            let told = errors.iter().filter(|error| error.contains("other bytes arrived than were sent"));
            assert!(told.count() > 0, "{protocol:?} {exchange:?}: {errors:?}");
        }
    }
}

#[test]
fn a_hundred_thousand_mutated_frames_are_read_or_refused() {
    let tally = ExchangeTally { sent: 3, system_ns: Some(Nanos::from_nanos(5)), ..ExchangeTally::default() };
    let mut seeds: Vec<Vec<u8>> = [
        Message::Kernel { boot: 77, outermost: true },
        Message::Begin(1),
        Message::Done(3, tally),
        Message::Failed("a reason that is told".to_owned()),
    ]
    .iter()
    .map(|message| message.encode().split_off(2))
    .collect();
    seeds.push(Vec::new());
    let mut random = Xoshiro256PlusPlus::seed_from_u64(0x0050_EE12);
    let (mut read, mut refused) = (0u32, 0u32);
    for _ in 0..100_000 {
        let mut frame = seeds[random.random_range(0..seeds.len())].clone();
        for _ in 0..random.random_range(0..4) {
            let at = random.random_range(0..=frame.len());
            match random.random_range(0..4) {
                0 if at < frame.len() => frame[at] ^= 1 << random.random_range(0..8),
                1 => frame.insert(at, random.random()),
                2 => frame.truncate(at),
                _ => frame.extend(std::iter::repeat_n(random.random::<u8>(), random.random_range(0..700))),
            }
        }
        match Message::decode(&frame) {
            Ok(message) => {
                // What was read is written in the same bytes, but for letters that were tamed.
                let again = message.encode().split_off(2);
                assert!(again == frame || matches!(message, Message::Failed(_)), "{message:?}");
                assert!(again.len() <= LONGEST);
                read += 1;
            }
            Err(error) => {
                assert!(error.to_string().contains("does not exist"));
                refused += 1;
            }
        }
        let mut hello = [0; HELLO_BYTES];
        frame.iter().take(HELLO_BYTES).zip(&mut hello).for_each(|(byte, slot)| *slot = *byte);
        assert_eq!(Hello::decode(&hello), None);
    }
    assert!(read > 10_000 && refused > 10_000, "{read} read, {refused} refused");
}
