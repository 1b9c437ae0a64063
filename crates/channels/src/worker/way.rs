//! Ways a message can go, each behind the same two calls: a ring in shared memory, or TCP.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use channel::{Endpoint, Layout, Memory, PeerSection, Section};
use units::Reason;

/// Bytes of a ring, in each direction: the same for every way that is a ring.
pub const RING_BYTES: u64 = 1 << 20;
/// The worker that leads writes as this one.
const LEADER: u32 = 1;
/// The worker that follows.
const FOLLOWER: u32 = 2;
/// How long a wait for a message spins: each worker has a CPU of its own.
const SPIN: Duration = Duration::from_micros(200);
/// How long the other side's heart may stand still: longer than usual, since both spin on a host that may be busy.
const GONE_AFTER: Duration = Duration::from_secs(5);
/// Between two tries to reach who has to listen first.
const AGAIN: Duration = Duration::from_millis(20);
/// What is read of a socket at once.
const READ_BYTES: usize = 256 * 1024;

/// Sends and receives whole messages of a size that both sides know.
pub trait Way {
    /// Whether messages can follow each other without an answer.
    fn streams(&self) -> bool {
        true
    }

    /// Sends one.
    ///
    /// # Errors
    /// When the other side is gone, or does not take it in time.
    fn send(&mut self, message: &[u8]) -> Result<(), Reason>;

    /// Waits for one that fills the buffer.
    ///
    /// # Errors
    /// When the other side is gone, sends nothing in time, or something of another size.
    fn receive(&mut self, message: &mut [u8]) -> Result<(), Reason>;
}

/// Sections that this process writes, kept from one series to the next.
#[derive(Default)]
pub struct Sections(BTreeMap<PathBuf, Section>);

impl Sections {
    /// Size of a section that holds the one ring it takes.
    pub fn bytes() -> u64 {
        layout(true).bytes().max(layout(false).bytes())
    }

    /// Takes the section at `own` over, unless it is ours already.
    ///
    /// # Errors
    /// When it is not there, too small, or another process writes it.
    pub fn take(&mut self, own: &Path, leads: bool) -> Result<(), Reason> {
        if self.0.get(own).is_some_and(|section| section.writer() == number(leads)) {
            return Ok(());
        }
        self.0.remove(own);
        let section =
            Section::create_in(open(own, true)?, &layout(leads)).map_err(|error| error.to_string())?;
        self.0.insert(own.to_owned(), section);
        Ok(())
    }

    /// Ends the section at `own`: the next one at this path is another one.
    pub fn end(&mut self, own: &Path) {
        self.0.remove(own);
    }

    /// A link through two sections of which the first was taken.
    ///
    /// # Errors
    /// When the other side does not come, or the sections cannot be used.
    pub fn connect(&self, own: &Path, peer: &Path, leads: bool, patience: Duration) -> Result<Ring, Reason> {
        let section = self.0.get(own).ok_or_else(|| format!("{} was not taken", own.display()))?;
        let view = PeerSection::new(open(peer, false)?).map_err(|error| error.to_string())?;
        let mut endpoint = Endpoint::connect(section, number(!leads), &view, patience)
            .map_err(|error| format!("connecting: {error}"))?;
        endpoint.set_spin(SPIN);
        endpoint.set_gone_after(GONE_AFTER);
        Ok(Ring { endpoint, patience })
    }
}

const fn number(leads: bool) -> u32 {
    if leads { LEADER } else { FOLLOWER }
}

fn layout(leads: bool) -> Layout {
    Layout::new(number(leads)).ring(number(!leads), RING_BYTES)
}

/// Maps a file, a PCI resource behind a link, or another process's nameless memory.
pub fn open(path: &Path, writable: bool) -> Result<Memory, Reason> {
    let file = File::options().read(true).write(writable).open(path);
    let file = file.map_err(|error| format!("opening {}: {error}", path.display()))?;
    Memory::from_file(file, &path.display().to_string(), writable).map_err(|error| error.to_string().into())
}

/// A ring each way.
pub struct Ring {
    endpoint: Endpoint,
    patience: Duration,
}

impl Way for Ring {
    fn send(&mut self, message: &[u8]) -> Result<(), Reason> {
        self.endpoint.send(message, self.patience).map_err(|error| error.to_string().into())
    }

    fn receive(&mut self, message: &mut [u8]) -> Result<(), Reason> {
        let wanted = message.len();
        match self.endpoint.receive(message, self.patience) {
            Ok(got) if got == wanted => Ok(()),
            Ok(got) => Err(format!("wanted a message of {wanted} bytes, got one of {got}").into()),
            Err(error) => Err(error.to_string().into()),
        }
    }
}

/// A connection.
pub struct Tcp {
    writer: TcpStream,
    reader: BufReader<TcpStream>,
}

impl Tcp {
    /// Waits for one visitor at the address.
    ///
    /// # Errors
    /// When the address is not this machine's, or nobody comes in time.
    pub fn listen(address: &str, patience: Duration) -> Result<Self, Reason> {
        let failed = |error: std::io::Error| Reason::from(format!("listening at {address}: {error}"));
        let listener = TcpListener::bind(parsed(address)?).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let until = Instant::now() + patience;
        loop {
            match listener.accept() {
                Ok((stream, _)) => return Self::over(stream, patience).map_err(failed),
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock && Instant::now() < until => {
                    std::thread::sleep(AGAIN / 10);
                }
                Err(error) => return Err(failed(error)),
            }
        }
    }

    /// Tries until somebody listens at the address.
    ///
    /// # Errors
    /// When nobody does in time.
    pub fn connect(address: &str, patience: Duration) -> Result<Self, Reason> {
        let (to, until) = (parsed(address)?, Instant::now() + patience);
        loop {
            match TcpStream::connect_timeout(&to, patience) {
                Ok(stream) => return Self::over(stream, patience).map_err(|error| error.to_string().into()),
                Err(_) if Instant::now() < until => std::thread::sleep(AGAIN),
                Err(error) => return Err(format!("connecting to {address}: {error}").into()),
            }
        }
    }

    fn over(stream: TcpStream, patience: Duration) -> std::io::Result<Self> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(patience))?;
        stream.set_write_timeout(Some(patience))?;
        Ok(Self { reader: BufReader::with_capacity(READ_BYTES, stream.try_clone()?), writer: stream })
    }
}

fn parsed(address: &str) -> Result<SocketAddr, Reason> {
    address.parse().map_err(|_| format!("wanted an address such as 10.77.1.2:7000, got \"{address}\"").into())
}

impl Way for Tcp {
    fn send(&mut self, message: &[u8]) -> Result<(), Reason> {
        self.writer.write_all(message).map_err(|error| format!("sending over TCP: {error}").into())
    }

    fn receive(&mut self, message: &mut [u8]) -> Result<(), Reason> {
        self.reader.read_exact(message).map_err(|error| format!("receiving over TCP: {error}").into())
    }
}
