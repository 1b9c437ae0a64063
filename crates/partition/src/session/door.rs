//! Where sessions come in: a socket in a private folder of the host, and TCP ports that lead to the program's.

use std::fs::{self, File};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;
use std::{io, thread};

use nix::poll::PollFlags;
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use nix::unistd::geteuid;
use rustix::net::connect_unspec;

use super::client::{SessionKind, converse};
use super::hub::{All, Hub};
use crate::run::Streams;
use model::partition::session::{Ask, MOST_CONNECTIONS};
use model::partition::{PortSpec, ProgramEnd};
use platforms::link::stream::{is_ready, wait};
use units::Reason;

/// Before the next attempt when nobody more can be let in.
const PAUSE: Duration = Duration::from_millis(100);

/// Lets sessions in at the socket `path`, whose folder is ours alone. One that is there, of an earlier start, is replaced.
///
/// # Errors
/// The socket cannot be made.
pub fn listen(hub: &Hub, path: &Path) -> io::Result<()> {
    let (_folder, short) = short(path)?;
    match fs::remove_file(&short) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&short)?;
    listener.set_nonblocking(true)?;
    hub.accept(move |all, wake| {
        until_alarmed(&listener, &wake, || {
            let (socket, _) = listener.accept()?;
            socket.set_nonblocking(false)?;
            if is_ours(&socket) { all.serve(socket) } else { Ok(()) }
        });
    })
}

/// Connects to the socket of a partition.
///
/// # Errors
/// Nobody listens there.
pub fn connect(path: &Path) -> io::Result<UnixStream> {
    let (_folder, short) = short(path)?;
    UnixStream::connect(short)
}

/// A socket's name has 107 bytes at most (unix(7)), wherever its folder lies: through the folder it is short.
fn short(path: &Path) -> io::Result<(File, PathBuf)> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(io::Error::other("the name of a socket was wanted"));
    };
    let folder = File::open(folder)?;
    let short = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())).join(name);
    Ok((folder, short))
}

fn is_ours(socket: &UnixStream) -> bool {
    getsockopt(socket, PeerCredentials).is_ok_and(|peer| peer.uid() == 0 || peer.uid() == geteuid().as_raw())
}

/// Listens at all ports before anything is made.
///
/// # Errors
/// Which of them cannot be had, why, and what to do.
pub fn bind_ports(ports: &[PortSpec]) -> Result<Vec<(PortSpec, TcpListener)>, Reason> {
    let bind = |port: &PortSpec| {
        let listener = TcpListener::bind(port.host).and_then(|listener| {
            listener.set_nonblocking(true)?;
            Ok(listener)
        });
        listener.map(|listener| (*port, listener)).map_err(|error| refused(port, &error))
    };
    ports.iter().map(bind).collect()
}

fn refused(port: &PortSpec, error: &io::Error) -> Reason {
    let host = port.host;
    let why = match error.kind() {
        io::ErrorKind::AddrInUse => {
            "somebody listens there already (ss -ltnp shows who): take another port".to_owned()
        }
        io::ErrorKind::PermissionDenied => format!(
            "ports below 1024 are not for everybody (net.ipv4.ip_unprivileged_port_start): take a higher one, such as {}",
            u32::from(host.port()) + 8000
        ),
        io::ErrorKind::AddrNotAvailable => {
            "this host has no such address (ip address shows which it has)".to_owned()
        }
        _ => error.to_string(),
    };
    format!("port {port}: {host} cannot be listened at: {why}").into()
}

impl Hub {
    /// Carries connections at these ports to those of the program.
    ///
    /// # Errors
    /// There can be no more threads or files.
    pub fn forward(&self, ports: Vec<(PortSpec, TcpListener)>) -> io::Result<()> {
        for (port, listener) in ports {
            let count = Arc::clone(&self.connections);
            self.accept(move |all, wake| {
                until_alarmed(&listener, &wake, || {
                    // Who is not let in waits in the listener's queue.
                    let carried = Carried::new(&count).ok_or(io::ErrorKind::QuotaExceeded)?;
                    carry(&all, listener.accept()?.0, port.inside, carried)
                });
            })?;
        }
        Ok(())
    }
}

/// A connection, counted until it ends.
struct Carried(Arc<AtomicUsize>);

impl Carried {
    /// None when there are as many as there may be.
    fn new(count: &Arc<AtomicUsize>) -> Option<Self> {
        let one_more = |count| (count < MOST_CONNECTIONS).then_some(count + 1);
        count.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_more).ok()?;
        Some(Self(Arc::clone(count)))
    }
}

impl Drop for Carried {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A connection from the host to the program. Who is refused inside finds it reset.
fn carry(all: &Arc<All>, connection: TcpStream, inside: u16, carried: Carried) -> io::Result<()> {
    connection.set_nonblocking(false)?;
    // Cut off unless it ends well, whatever becomes of us; who does not take bytes is looked at now and then.
    rustix::net::sockopt::set_socket_linger(&connection, Some(Duration::ZERO))?;
    connection.set_write_timeout(Some(PAUSE))?;
    // What is small is to arrive at once, as it would without us.
    connection.set_nodelay(true)?;
    let (ours, theirs) = UnixStream::pair()?;
    let copy = || connection.try_clone().map(std::os::fd::OwnedFd::from);
    let streams = Streams { input: copy()?, output: copy()?, error: File::open("/dev/null")?.into() };
    all.serve(theirs)?;
    thread::Builder::new()
        .name("connection".to_owned())
        .spawn(move || {
            let (_nobody, orders) = channel();
            match converse(ours, Ask::Connect(inside), SessionKind::Connection, streams, orders, &mut |_| ())
            {
                Ok(ProgramEnd::Exit(0)) => {
                    let _ = rustix::net::sockopt::set_socket_linger(&connection, None);
                    drop(connection.shutdown(std::net::Shutdown::Both));
                }
                // Cut off inside, or nobody is there: no clean end may be taken for all there was.
                _ => drop(connect_unspec(&connection)),
            }
            drop(carried);
        })
        .map(drop)
}

/// Lets in who comes, until the other end of `wake` is gone.
fn until_alarmed(listener: &impl AsFd, wake: &io::PipeReader, mut let_in: impl FnMut() -> io::Result<()>) {
    let readable = PollFlags::POLLIN;
    loop {
        let waited = wait(&[(listener.as_fd(), readable), (wake.as_fd(), readable)], None);
        if waited.is_err() || is_ready(&[(wake.as_fd(), readable)]) {
            return;
        }
        match let_in() {
            // Who was there is gone again.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(_) => thread::sleep(PAUSE),
            Ok(()) => {}
        }
    }
}
