//! Conversations with guests that lie: each ends in time, with a reason, whatever is said.

use std::sync::mpsc::channel;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::*;

/// What a scripted guest has: its ends of the link and the ports.
struct Guest {
    link: UnixStream,
    ports: [UnixStream; 3],
}

impl Guest {
    fn say(&mut self, message: &FromGuest) {
        // The host may have given up on it.
        let _ = self.link.write_all(&encode(message, LONGEST_MESSAGE).expect("small"));
    }

    fn ready(&mut self) {
        self.say(&FromGuest::Ready { protocol: PROGRAM_PROTOCOL, cpus: 1, memory_bytes: 1, free_bytes: 1 });
    }

    fn started(&mut self) {
        self.ready();
        self.say(&FromGuest::Started);
    }

    fn output_ends(&mut self, stream: Stream, bytes: u64) {
        self.say(&FromGuest::OutputEnds { stream, bytes });
    }

    fn ended(&mut self, how: ProgramEnd) {
        self.say(&FromGuest::Ended { how });
    }
}

/// Talks to a scripted guest; how it ended, and what came out.
fn talk_to(
    script: impl FnOnce(Guest) -> Option<Guest>,
    deadline: Duration,
) -> (Result<ProgramEnd, Failed>, Vec<u8>) {
    let pair = || UnixStream::pair().expect("a pair");
    let ((link, their_link), input, output, error) = (pair(), pair(), pair(), pair());
    let guest = Guest { link: their_link, ports: [input.1, output.1, error.1] };
    let mut out = tempfile::tempfile().expect("a file");
    let nothing = || std::fs::File::options().read(true).write(true).open("/dev/null").expect("it is there");
    let streams = Streams {
        input: nothing().into(),
        output: out.try_clone().expect("a copy").into(),
        error: nothing().into(),
    };
    let mut tell = |_: Event| ();
    let beginning = Beginning {
        link,
        ports: [input.0, output.0, error.0],
        streams,
        channel: channel(),
        deadline: Instant::now() + deadline,
        boot: deadline,
        hub: None,
        tell: &mut tell,
    };
    let session = MainSession::new(beginning).expect("threads");
    let kept = script(guest);
    let outcome = session.until_the_end();
    drop(kept);
    let mut bytes = Vec::new();
    io::Seek::rewind(&mut out).expect("a file");
    out.read_to_end(&mut bytes).expect("a file");
    (outcome, bytes)
}

const SOON: Duration = Duration::from_millis(100);
const LATE: Duration = Duration::from_secs(60);

#[track_caller]
fn fails(script: impl FnOnce(Guest) -> Option<Guest>, part: &str) {
    let (outcome, _) = talk_to(script, SOON);
    let failed = outcome.expect_err("it lied");
    assert!(failed.reason.contains(part), "{}", failed.reason);
}

#[test]
fn an_honest_guest_is_heard_to_the_end() {
    let (outcome, bytes) = talk_to(
        |mut guest| {
            guest.started();
            guest.output_ends(Stream::Error, 0);
            guest.output_ends(Stream::Output, 6);
            guest.ended(ProgramEnd::Exit(7));
            // Later than everything that was said about them.
            std::thread::sleep(Duration::from_millis(50));
            guest.ports[1].write_all(b"hello\n").expect("room");
            Some(guest)
        },
        LATE,
    );
    assert_eq!(outcome, Ok(ProgramEnd::Exit(7)));
    assert_eq!(bytes, b"hello\n");
}

#[test]
fn silence_before_the_program_runs_ends_at_the_deadline() {
    fails(Some, "did not boot within 100 ms");
    fails(
        |mut guest| {
            guest.ready();
            Some(guest)
        },
        "did not start the program within 100 ms",
    );
}

#[test]
fn a_guest_that_goes_is_told() {
    fails(|_| None, "has ended");
    fails(
        |mut guest| {
            guest.started();
            None
        },
        "has ended",
    );
}

#[test]
fn refusals_have_a_code_of_ours_and_harmless_words() {
    for code in [0, 126, 127, 255] {
        let (outcome, _) = talk_to(
            |mut guest| {
                guest.ready();
                guest.say(&FromGuest::Refused { code, reason: "\x1b[2Jno".to_owned() });
                Some(guest)
            },
            LATE,
        );
        let failed = outcome.expect_err("refused");
        assert!((125..=127).contains(&failed.code) && !failed.reason.contains('\x1b'), "{failed:?}");
    }
}

#[test]
fn what_does_not_fit_is_not_believed() {
    let wrong: [fn(&mut Guest); 7] = [
        |guest| guest.say(&FromGuest::Ready { protocol: 99, cpus: 1, memory_bytes: 0, free_bytes: 0 }),
        |guest| guest.ended(ProgramEnd::Exit(0)),
        |guest| {
            guest.started();
            guest.ended(ProgramEnd::Exit(0));
        },
        |guest| {
            guest.started();
            guest.output_ends(Stream::Input, 1);
        },
        |guest| {
            guest.started();
            guest.output_ends(Stream::Output, 0);
            guest.output_ends(Stream::Output, 0);
        },
        |guest| {
            guest.started();
            guest.output_ends(Stream::Output, 0);
            guest.say(&FromGuest::Delivers);
        },
        |guest| guest.link.write_all(b"garbage, and more of it").expect("room"),
    ];
    for lie in wrong {
        let (outcome, _) = talk_to(
            |mut guest| {
                lie(&mut guest);
                Some(guest)
            },
            LATE,
        );
        let failed = outcome.expect_err("it lied");
        assert!(failed.code == 125 && !failed.reason.is_empty(), "{failed:?}");
    }
}

#[test]
fn more_bytes_than_announced_are_a_lie() {
    let (outcome, _) = talk_to(
        |mut guest| {
            guest.started();
            guest.ports[1].write_all(b"hello").expect("room");
            std::thread::sleep(Duration::from_millis(50));
            guest.output_ends(Stream::Output, 3);
            guest.output_ends(Stream::Error, 0);
            guest.ended(ProgramEnd::Exit(0));
            Some(guest)
        },
        LATE,
    );
    assert!(outcome.expect_err("it lied").reason.contains("announced 3 bytes"));
}

/// Any mix of true and false messages and raw bytes: never a panic, never a wait without an end.
#[test]
fn nothing_a_guest_says_hangs_us() {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(0x0B01_C4EA);
    for _ in 0..300 {
        let mut choices: Vec<u32> =
            (0..random.random_range(0..12)).map(|_| random.random_range(0..10)).collect();
        choices.insert(0, 0);
        let numbers: Vec<u64> =
            choices.iter().map(|_| random.random::<u64>() >> random.random_range(0..64)).collect();
        let begun = Instant::now();
        let script = |mut guest: Guest| {
            for (choice, number) in choices.iter().zip(numbers) {
                let small = u8::try_from(number & 0xff).expect("masked");
                match choice {
                    0 => guest.ready(),
                    1 => guest.say(&FromGuest::Started),
                    2 => guest.output_ends(Stream::Output, number),
                    3 => guest.output_ends(Stream::Error, 0),
                    4 => guest.ended(ProgramEnd::Signal(i32::from(small) - 100)),
                    5 => guest.say(&FromGuest::InputUnread),
                    6 => guest.say(&FromGuest::Passed { number: i32::from(small) }),
                    7 => guest.say(&FromGuest::Delivers),
                    8 => drop(guest.ports[1].write_all(&vec![small; usize::from(small)])),
                    _ => drop(guest.link.write_all(&number.to_le_bytes())),
                }
            }
            // It goes in the end, as every guest does; waiting for bytes that were announced has its own deadline.
            None
        };
        let _ = talk_to(script, SOON);
        assert!(begun.elapsed() < Duration::from_secs(10));
    }
}
