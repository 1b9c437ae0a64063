//! Starts Open MPI's daemon in another partition, as `ssh` would: one half waits there for one command, the other one,
//! which `orterun` starts, brings it.
//!
//! ```text
//!  launch                                wait                              both inside partitions, at their own network
//!    │ ── token, length, command ──────►  │ another token: hung up, the next one is waited for
//!    │                                    │ listens no more; sh -c COMMAND
//!    │ ◄───────────── exit code ───────── │
//!    └─ hangs up before: the command's group is killed
//! ```
//! The command is Open MPI's own, a line for a shell (`orte/mca/plm/rsh`): that is what it hands to `ssh`, too.

use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener, TcpStream};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::{TOKEN, WAIT_AT};
use crate::together::OTHER_FAILED;
use platforms::spawn::{Bond, spawn};
use units::Reason;

/// Port of the partitions' own network at which commands are waited for.
const PORT: u16 = 7077;
/// Longest command.
const MOST_COMMAND_BYTES: u32 = 1 << 20;
/// Characters of a token.
pub const TOKEN_CHARS: usize = 32;
/// How long the other half is waited for: partitions boot one after the other where there are few CPUs. Whoever keeps the
/// partitions ends them when one does not boot.
const PATIENCE: Duration = Duration::from_secs(900);
/// How long one try to connect may take.
const TRY: Duration = Duration::from_secs(2);
/// Between two tries, and between two looks.
const LOOK: Duration = Duration::from_millis(20);
/// How long a whole command may take to come.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(10);
/// Most visitors that do not know the token.
const MOST_VISITORS: u32 = 1000;

/// Waits for one command, runs it to its end, tells how it ended. What the environment says is where and with which
/// token. The code is that of this process: 0 when a command was run, however it ended; Open MPI judges that.
pub fn wait() -> u8 {
    match try_wait() {
        Ok(()) => 0,
        Err(error) => {
            complain(&format!("waiting for Open MPI's daemon: {error}"));
            OTHER_FAILED
        }
    }
}

fn try_wait() -> Result<(), Reason> {
    let address: Ipv4Addr =
        variable(WAIT_AT)?.parse().map_err(|_| format!("{WAIT_AT} is no IPv4 address"))?;
    let token = variable(TOKEN)?;
    let door =
        TcpListener::bind(SocketAddrV4::new(address, PORT)).map_err(|error| format!("{address}: {error}"))?;
    let (mut visitor, command) = receive(&door, &token)?;
    drop(door);
    let code = run(&command, &visitor)?;
    if let Some(code) = code {
        // Nobody is left to tell when it has gone meanwhile.
        let _ = visitor.write_all(&[code]);
    }
    Ok(())
}

/// The first visitor who knows the token, and its command.
fn receive(door: &TcpListener, token: &str) -> Result<(TcpStream, OsString), Reason> {
    let said = |error: io::Error| error.to_string();
    door.set_nonblocking(true).map_err(said)?;
    let until = Instant::now() + PATIENCE;
    let mut visitors = 0;
    loop {
        match door.accept() {
            Ok((visitor, _)) => {
                if let Ok(command) = hear(&visitor, token) {
                    return Ok((visitor, command));
                }
                visitors += 1;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.to_string().into()),
        }
        if Instant::now() > until || visitors > MOST_VISITORS {
            return Err(format!("nobody with the right token came within {} s", PATIENCE.as_secs()).into());
        }
        std::thread::sleep(LOOK);
    }
}

fn hear(visitor: &TcpStream, token: &str) -> io::Result<OsString> {
    visitor.set_nonblocking(false)?;
    read_command(Within { stream: visitor, until: Instant::now() + COMMAND_TIMEOUT }, token)
}

/// Reads from a visitor until a moment, however slowly it speaks.
struct Within<'a> {
    stream: &'a TcpStream,
    until: Instant,
}

impl Read for Within<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        self.stream.read(buffer)
    }
}

/// The command of a visitor who knows the token.
///
/// # Errors
/// It does not know it, says too much, or hangs up before all has come.
pub fn read_command(mut visitor: impl Read, token: &str) -> io::Result<OsString> {
    let mut head = [0; TOKEN_CHARS + 4];
    visitor.read_exact(&mut head)?;
    let (said, length) = head.split_at(TOKEN_CHARS);
    if said != token.as_bytes() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let length = u32::from_le_bytes(length.try_into().unwrap_or_default());
    if length > MOST_COMMAND_BYTES {
        return Err(io::ErrorKind::InvalidData.into());
    }
    let mut command = Vec::new();
    visitor.take(length.into()).read_to_end(&mut command)?;
    if command.len() as u64 != u64::from(length) {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(OsString::from_vec(command))
}

/// Runs the command to its end; none when the visitor hung up before.
fn run(line: &OsStr, visitor: &TcpStream) -> Result<Option<u8>, Reason> {
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(line).stdin(Stdio::null());
    for name in [TOKEN, WAIT_AT] {
        command.env_remove(name);
    }
    visitor.set_nonblocking(true).map_err(|error| error.to_string())?;
    let mut child = spawn(command, Bond::DiesWithUs, None).map_err(|error| format!("/bin/sh: {error}"))?;
    loop {
        if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
            // 255 is what ssh says of a command that a signal ended.
            return Ok(Some(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(255)));
        }
        if has_hung_up(visitor) {
            end(&mut child);
            return Ok(None);
        }
        std::thread::sleep(LOOK);
    }
}

/// Nothing more is to come from it but its end.
fn has_hung_up(visitor: &TcpStream) -> bool {
    match visitor.peek(&mut [0]) {
        Ok(_) => true,
        Err(error) => !matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted),
    }
}

fn end(child: &mut Child) {
    // What it has started goes with the partition, which ends with this process.
    let _ = child.kill();
    let _ = child.wait();
}

/// Brings a command to the partition at `words[0]`, an address, and waits for its end; the code is the command's.
/// The words after it are pieces of a line for a shell, as `ssh` gets them.
pub fn launch(words: &[OsString]) -> u8 {
    match try_launch(words) {
        Ok(code) => code,
        Err(error) => {
            complain(&format!("starting Open MPI's daemon: {error}"));
            OTHER_FAILED
        }
    }
}

fn try_launch(words: &[OsString]) -> Result<u8, Reason> {
    let Some((host, line)) = words.split_first() else { return Err("no host was named".into()) };
    let address = host.to_str().and_then(|host| host.parse().ok());
    let address: Ipv4Addr = address.ok_or_else(|| format!("{} is no IPv4 address", host.display()))?;
    let token = variable(TOKEN)?;
    let line = line.join(OsStr::new(" "));
    let length = u32::try_from(line.len()).ok().filter(|length| *length <= MOST_COMMAND_BYTES);
    let length = length.ok_or_else(|| format!("a command of {} bytes is too long", line.len()))?;
    let broke = |error: io::Error| format!("{address}: {error}");
    let mut stream = connect(SocketAddrV4::new(address, PORT))?;
    let mut message = token.into_bytes();
    message.extend(length.to_le_bytes());
    message.extend(line.as_bytes());
    stream.write_all(&message).map_err(broke)?;
    let mut code = [0];
    stream.read_exact(&mut code).map_err(|_| format!("{address} hung up before its command had ended"))?;
    Ok(code[0])
}

fn connect(to: SocketAddrV4) -> Result<TcpStream, Reason> {
    let until = Instant::now() + PATIENCE;
    loop {
        match TcpStream::connect_timeout(&to.into(), TRY) {
            Ok(stream) => return Ok(stream),
            Err(error) if Instant::now() > until => return Err(format!("{to}: {error}").into()),
            Err(_) => std::thread::sleep(LOOK),
        }
    }
}

fn variable(name: &str) -> Result<String, Reason> {
    std::env::var(name).map_err(|_| format!("{name} is not set: bulkhead mpirun does that").into())
}

fn complain(text: &str) {
    // Nobody is left to tell when standard error is gone.
    let _ = writeln!(io::stderr().lock(), "bulkhead: {text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn send(door: &TcpListener, message: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(door.local_addr().unwrap()).unwrap();
        stream.write_all(message).unwrap();
        stream
    }

    fn message(token: &str, length: u32, line: &str) -> Vec<u8> {
        [token.as_bytes(), &length.to_le_bytes(), line.as_bytes()].concat()
    }

    #[test]
    fn only_who_knows_the_token_is_served() {
        let token = "a".repeat(TOKEN_CHARS);
        let door = TcpListener::bind("127.0.0.1:0").unwrap();
        let stranger = send(&door, &message(&"b".repeat(TOKEN_CHARS), 4, "true"));
        let liar = send(&door, &message(&token, u32::MAX, "true"));
        let cut = send(&door, &message(&token, 10, "true"));
        cut.shutdown(std::net::Shutdown::Write).unwrap();
        let friend = send(&door, &message(&token, 6, "exit 7"));
        let (visitor, line) = receive(&door, &token).unwrap();
        assert_eq!(line, "exit 7");
        assert_eq!(visitor.peer_addr().unwrap(), friend.local_addr().unwrap());
        assert_eq!(run(&line, &visitor), Ok(Some(7)));
        drop((stranger, liar, cut));
    }

    #[test]
    fn a_visitor_that_speaks_slowly_has_no_more_time() {
        let door = TcpListener::bind("127.0.0.1:0").unwrap();
        let _slow = send(&door, b"byte after byte");
        let (stream, _) = door.accept().unwrap();
        let mut within = Within { stream: &stream, until: Instant::now() + Duration::from_secs(60) };
        within.read_exact(&mut [0; 4]).unwrap();
        within.until = Instant::now();
        assert_eq!(
            within.read(&mut [0]).unwrap_err().kind(),
            io::ErrorKind::TimedOut,
            "though more has come"
        );
    }

    #[test]
    fn a_command_ends_with_whoever_brought_it() {
        let token = "a".repeat(TOKEN_CHARS);
        let door = TcpListener::bind("127.0.0.1:0").unwrap();
        let friend = send(&door, &message(&token, 12, "exec sleep 9"));
        let (visitor, line) = receive(&door, &token).unwrap();
        drop(friend);
        assert_eq!(run(&line, &visitor), Ok(None));
    }
}
