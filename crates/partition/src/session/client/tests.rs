//! Sessions with partitions that do not answer: each ends, with a reason.

use std::fs::File;
use std::time::{Duration, Instant};

use nix::libc::SIGTERM;

use super::*;
use model::partition::session::Look;
use units::Bytes;

/// Generous: nothing here takes longer than some seconds.
const PATIENCE: Duration = Duration::from_secs(60);

fn nothing() -> Streams {
    let open =
        || OwnedFd::from(File::options().read(true).write(true).open("/dev/null").expect("it is there"));
    Streams { input: open(), output: open(), error: open() }
}

fn ask() -> Ask {
    Ask::Look(Look::Tcp(1))
}

fn say(to: &mut UnixStream, word: SessionWord) {
    to.write_all(&pack(0, &SessionContent::Word(word)).expect("small")).expect("written");
}

#[test]
fn what_does_not_begin_in_time_has_failed() {
    let (ours, _silent) = UnixStream::pair().expect("a pair");
    let (_give, orders) = channel();
    let within = Some(Duration::from_millis(50));
    let outcome =
        converse_within(ours, ask(), (SessionKind::Program, within), nothing(), orders, &mut |_| ());
    let failed = outcome.expect_err("nobody answers");
    assert_eq!(failed.code, 125);
    assert!(failed.reason.starts_with("the partition did not answer for 0 s"), "{}", failed.reason);
}

#[test]
fn what_has_begun_in_time_may_go_on() {
    let (ours, mut theirs) = UnixStream::pair().expect("a pair");
    let (_give, orders) = channel();
    let within = Duration::from_millis(500);
    say(&mut theirs, SessionWord::Started);
    let ends = thread::spawn(move || {
        thread::sleep(2 * within);
        say(&mut theirs, SessionWord::Ended { how: ProgramEnd::Exit(7) });
        theirs
    });
    let outcome =
        converse_within(ours, ask(), (SessionKind::Program, Some(within)), nothing(), orders, &mut |_| ());
    assert_eq!(outcome, Ok(ProgramEnd::Exit(7)));
    ends.join().expect("no panic");
}

/// The first signal is the program's; whoever passes it on is left alone, whoever does not is given up with the next one.
#[test]
fn a_partition_that_passes_no_signal_on_is_given_up_with_the_next_one() {
    for answers in [true, false] {
        let (ours, mut theirs) = UnixStream::pair().expect("a pair");
        let (give, orders) = channel();
        say(&mut theirs, SessionWord::Started);
        let guest = thread::spawn(move || {
            let (mut unpacker, mut chunk, begun) = (Unpacker::default(), [0; 4096], Instant::now());
            let mut heard = 0;
            let wanted = if answers { 3 } else { usize::MAX };
            while let Ok(count @ 1..) = theirs.read(&mut chunk) {
                unpacker.push(chunk.get(..count).unwrap_or_default());
                while let Some(packet) = unpacker.next_packet().expect("packets") {
                    let SessionContent::Word(SessionWord::Signal { number }) = packet.content else {
                        continue;
                    };
                    heard += 1;
                    if answers {
                        say(&mut theirs, SessionWord::Passed { number });
                    }
                    if heard == wanted {
                        say(&mut theirs, SessionWord::Ended { how: ProgramEnd::Signal(number) });
                    }
                }
                assert!(begun.elapsed() < PATIENCE);
            }
            heard
        });
        let gives = thread::spawn(move || {
            for _ in 0..3 {
                // Nobody hears it any more when it was given up.
                let _ = give.send(Order::Signal(SIGTERM));
                thread::sleep(REACTION + Duration::from_millis(200));
            }
        });
        let outcome =
            converse_within(ours, ask(), (SessionKind::Program, None), nothing(), orders, &mut |_| ());
        let heard = guest.join().expect("no panic");
        gives.join().expect("no panic");
        match outcome {
            Ok(how) => assert_eq!((answers, heard, how), (true, 3, ProgramEnd::Signal(SIGTERM))),
            Err(failed) => {
                assert_eq!((answers, heard, failed.code), (false, 1, 125));
                assert!(failed.reason.contains("did not answer"), "{}", failed.reason);
            }
        }
    }
}

/// The guest may wait long for somebody who takes it: it is to know when nobody wants it any more.
#[test]
fn a_connection_that_is_cut_off_before_anybody_took_it_is_closed_inside() {
    let (ours, mut theirs) = UnixStream::pair().expect("a pair");
    theirs.set_read_timeout(Some(PATIENCE)).expect("a deadline");
    let server = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let client = std::net::TcpStream::connect(server.local_addr().expect("an address")).expect("connected");
    let (taken, _) = server.accept().expect("a connection");
    let copy = || OwnedFd::from(taken.try_clone().expect("a copy"));
    let streams = Streams { input: copy(), output: copy(), error: nothing().error };
    let talks = thread::spawn(move || {
        let (_nobody, orders) = channel();
        converse(ours, Ask::Connect(7), SessionKind::Connection, streams, orders, &mut |_| ())
    });
    rustix::net::connect_unspec(&client).expect("reset");
    let (mut unpacker, mut chunk) = (Unpacker::default(), [0; 4096]);
    'heard: loop {
        let count = theirs.read(&mut chunk).expect("a word");
        assert!(count > 0, "it ended without a word");
        unpacker.push(chunk.get(..count).unwrap_or_default());
        while let Some(packet) = unpacker.next_packet().expect("packets") {
            if packet.content == SessionContent::Word(SessionWord::Close) {
                break 'heard;
            }
        }
    }
    drop(theirs);
    assert!(talks.join().expect("no panic").is_err());
}

#[test]
fn who_had_most_of_the_memory_that_ran_out_is_told() {
    let (ours, mut theirs) = UnixStream::pair().expect("a pair");
    let (_give, orders) = channel();
    let victim = Victim {
        name: "ta\x1bil".to_owned(),
        memory: Bytes::from_bytes(7 << 20),
        files: Bytes::from_bytes(0),
    };
    say(&mut theirs, SessionWord::Started);
    say(&mut theirs, SessionWord::MemoryRanOut { victim });
    say(&mut theirs, SessionWord::Ended { how: ProgramEnd::Signal(9) });
    let mut told = Vec::new();
    let outcome =
        converse(ours, ask(), SessionKind::Program, nothing(), orders, &mut |event| told.push(event));
    assert_eq!(outcome, Ok(ProgramEnd::Signal(9)));
    let [Event::Started, Event::MemoryRanOut(victim)] = &told[..] else { panic!("{told:?}") };
    assert!(!victim.name.contains('\x1b') && victim.memory.get() == 7 << 20, "{victim:?}");
}
