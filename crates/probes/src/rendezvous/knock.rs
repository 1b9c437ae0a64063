//! Knocking: connects to another instance's door, again and again until it is open.

use std::net::{SocketAddr, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use super::hello::{Hello, TOKEN_BYTES};
use super::patience::{LOOK, Patience};
use super::timed::{prepare, read_all, write_all};
use crate::error::WorkError;

/// Pause between two knocks at a door that is not open yet; it grows to [`LOOK`].
const FIRST_PAUSE: Duration = Duration::from_millis(2);
/// Longest that one try to connect takes: the kernel's own first repetition comes after a second.
const ONE_TRY: Duration = Duration::from_millis(1500);

/// Connects to `address` and says hello. `who` names whose door it is, for an error.
///
/// # Errors
/// Patience ran out; the text has the last reason.
pub fn knock(
    address: SocketAddr,
    hello: &Hello,
    patience: &Patience<'_>,
    who: &str,
) -> Result<TcpStream, WorkError> {
    let mut pause = FIRST_PAUSE;
    let mut last = "no try was made".to_owned();
    loop {
        patience.check(|| format!("{who} at {address}; the last try: {last}"))?;
        let began = Instant::now();
        match once(address, hello, patience, who) {
            Ok(stream) => return Ok(stream),
            Err(WorkError::Stopped) => return Err(WorkError::Stopped),
            Err(error) => last = error.to_string(),
        }
        // A try that took its time needs no further pause.
        thread::sleep(pause.saturating_sub(began.elapsed()).min(patience.nap()));
        pause = (pause * 2).min(LOOK);
    }
}

fn once(
    address: SocketAddr,
    hello: &Hello,
    patience: &Patience<'_>,
    who: &str,
) -> Result<TcpStream, WorkError> {
    let wait = ONE_TRY.min(patience.left()).max(Duration::from_millis(1));
    let stream = TcpStream::connect_timeout(&address, wait)
        .map_err(|error| WorkError::system(format!("connect to {address}"), error))?;
    prepare(&stream)?;
    stream.set_nodelay(true).map_err(|error| WorkError::system("set TCP_NODELAY", error))?;
    write_all(&stream, &hello.encode(), patience, who)?;
    let mut token = [0; TOKEN_BYTES];
    read_all(&stream, &mut token, patience, "the answer at the door")?;
    if token == hello.token() {
        Ok(stream)
    } else {
        Err(WorkError::Unfit(format!("something else than {who} answers at {address}")))
    }
}
