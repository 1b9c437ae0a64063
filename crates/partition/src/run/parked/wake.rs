//! What is said to a guest that waits to be told what it is, and heard of it, before the main session begins.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::super::Failed;
use super::super::main_session::PATIENCE;
use model::partition::{FromGuest, LONGEST_MESSAGE};
use platforms::Cancel;
use platforms::link::{Decoder, decode, encode};
use platforms::vm::guest::{GuestConfig, LONGEST_WAKE, SEED_BYTES, Secret, Wake};
use units::Reason;

/// How often it is looked whether all of this is wanted any more.
const LOOK: Duration = Duration::from_millis(50);

/// What was heard.
#[derive(Debug, PartialEq, Eq)]
pub enum Heard {
    /// A message.
    Said(FromGuest),
    /// Nothing in time.
    Late,
    /// Nothing more will be: the guest has ended.
    GuestEnded,
    /// Nothing more is to be: it is not believed, or not wanted any more.
    Ended(String),
}

/// Waits for one message; what comes after it stays where it is.
pub fn hear(link: &mut UnixStream, until: Instant, cancel: &Cancel) -> Heard {
    if let Err(error) = link.set_read_timeout(Some(LOOK)) {
        return Heard::Ended(format!("the link: {error}"));
    }
    let heard = one_message(link, until, cancel);
    match link.set_read_timeout(None) {
        Ok(()) => heard,
        Err(error) => Heard::Ended(format!("the link: {error}")),
    }
}

fn one_message(link: &mut UnixStream, until: Instant, cancel: &Cancel) -> Heard {
    let mut decoder = Decoder::new(LONGEST_MESSAGE);
    // These messages are a few bytes long.
    let mut byte = [0];
    while !cancel.is_cancelled() {
        match link.read(&mut byte) {
            Ok(0) => return Heard::GuestEnded,
            Ok(_) => decoder.push(&byte),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                if Instant::now() >= until {
                    return Heard::Late;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionReset => return Heard::GuestEnded,
            Err(error) => return Heard::Ended(format!("the link: {error}")),
        }
        let message = decoder.next_frame().and_then(|frame| frame.map(|frame| decode(&frame)).transpose());
        match message {
            Ok(None) => {}
            Ok(Some(message)) => return Heard::Said(message),
            Err(error) => return Heard::Ended(format!("the guest's init is not believed: {error}")),
        }
    }
    Heard::Ended("interrupted".to_owned())
}

/// Tells a guest what it is, what time it is, and random bytes that nobody else is given.
///
/// # Errors
/// There is too much to be said, no randomness to be had, or the guest takes nothing.
pub fn say(link: &mut UnixStream, config: GuestConfig) -> Result<(), Reason> {
    let failed = |error: io::Error| format!("waking a guest: {error}");
    let mut seed = vec![0; SEED_BYTES];
    File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut seed)).map_err(failed)?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let unix_time_ns = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
    let wake = Wake { config, unix_time_ns, seed: Secret(seed) };
    let frame = encode(&wake, LONGEST_WAKE).map_err(|error| format!("waking a guest: {error}"))?;
    link.set_write_timeout(Some(PATIENCE)).map_err(failed)?;
    link.write_all(&frame).map_err(|error| {
        match error.kind() {
            io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset => Failed::guest_ended().reason,
            _ => failed(error),
        }
        .into()
    })
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(60)
    }

    #[test]
    fn one_message_is_heard_and_what_follows_is_left() {
        let (mut ours, mut theirs) = UnixStream::pair().unwrap();
        let frames =
            [FromGuest::Awake, FromGuest::Started].map(|said| encode(&said, LONGEST_MESSAGE).unwrap());
        theirs.write_all(&frames.concat()).unwrap();
        assert_eq!(hear(&mut ours, soon(), &Cancel::new()), Heard::Said(FromGuest::Awake));
        drop(theirs);
        let mut rest = Vec::new();
        ours.read_to_end(&mut rest).unwrap();
        assert_eq!(rest, frames[1]);
    }

    #[test]
    fn silence_an_end_garbage_and_an_interruption_are_told_apart() {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        assert_eq!(hear(&mut ours, Instant::now(), &Cancel::new()), Heard::Late);
        let cancel = Cancel::new();
        cancel.cancel();
        assert_eq!(hear(&mut ours, soon(), &cancel), Heard::Ended("interrupted".to_owned()));
        drop(theirs);
        assert_eq!(hear(&mut ours, soon(), &Cancel::new()), Heard::GuestEnded);
        let (mut ours, mut theirs) = UnixStream::pair().unwrap();
        theirs.write_all(b"login: ").unwrap();
        assert!(
            matches!(hear(&mut ours, soon(), &Cancel::new()), Heard::Ended(why) if why.contains("not believed"))
        );
    }

    #[test]
    fn two_guests_are_told_different_random_bytes_and_the_time() {
        let told = || {
            let (mut ours, mut theirs) = UnixStream::pair().unwrap();
            let reader = thread::spawn(move || {
                let mut bytes = Vec::new();
                theirs.read_to_end(&mut bytes).unwrap();
                let mut decoder = Decoder::new(LONGEST_WAKE);
                decoder.push(&bytes);
                decode::<Wake>(&decoder.next_frame().unwrap().unwrap()).unwrap()
            });
            say(&mut ours, GuestConfig::default()).unwrap();
            drop(ours);
            reader.join().unwrap()
        };
        let (one, other) = (told(), told());
        assert_eq!(one.seed.0.len(), SEED_BYTES);
        assert_ne!(one.seed, other.seed);
        assert!(one.unix_time_ns <= other.unix_time_ns && one.unix_time_ns > 1_700_000_000_000_000_000);
    }
}
