//! A way between two members that does harm: it loses, doubles or changes what passes.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use bulkhead::probes::job::Peer;

use super::{Members, free_address};

/// What is done to what passes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Harm {
    /// Every so manieth datagram is lost.
    pub lose_every: Option<usize>,
    /// Every so manieth datagram comes twice.
    pub double_every: Option<usize>,
    /// The last byte of every datagram, and of every piece of a data connection, is changed.
    pub change: bool,
}

/// Two members with a proxy between them: the first sees the second at one end of it, the second the first at the other.
pub struct Between {
    pub first: Members,
    pub second: Members,
    over: Arc<AtomicBool>,
}

impl Drop for Between {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

impl Between {
    pub fn new(harm: Harm) -> Self {
        let members = Members::on_loopback(2);
        let [here, there] = [members.peers[0].address, members.peers[1].address];
        let (near, far) = (free_address(), free_address());
        let over = Arc::new(AtomicBool::new(false));
        let at = |address: SocketAddr| Peer { host: 0, address };
        let first = Members { peers: vec![at(here), at(near)], ..members.clone() };
        let second = Members { peers: vec![at(far), at(there)], ..members };
        let listener = TcpListener::bind(near).expect("free");
        listener.set_nonblocking(true).expect("possible");
        let flag = Arc::clone(&over);
        thread::spawn(move || accept(&listener, there, harm, &flag));
        let sockets = (connected(near, here), connected(far, there));
        for (from, to) in [(&sockets.0, &sockets.1), (&sockets.1, &sockets.0)] {
            let (from, to) = (from.try_clone().expect("possible"), to.try_clone().expect("possible"));
            let flag = Arc::clone(&over);
            thread::spawn(move || pass_datagrams(&from, &to, harm, &flag));
        }
        Self { first, second, over }
    }
}

fn connected(own: SocketAddr, other: SocketAddr) -> UdpSocket {
    let socket = UdpSocket::bind(own).expect("free");
    socket.connect(other).expect("possible");
    socket.set_read_timeout(Some(Duration::from_millis(50))).expect("possible");
    socket
}

fn accept(listener: &TcpListener, there: SocketAddr, harm: Harm, over: &AtomicBool) {
    let mut connections = 0;
    while !over.load(Ordering::Relaxed) {
        let Ok((near, _)) = listener.accept() else {
            thread::sleep(Duration::from_millis(2));
            continue;
        };
        // A door that is not open yet looks as it would without the proxy: the connection is closed.
        let Ok(far) = TcpStream::connect(there) else { continue };
        near.set_nonblocking(false).expect("possible");
        // The first connection is for control; who changes that is found out at once, which is not the point.
        let change = harm.change && connections > 0;
        connections += 1;
        for (mut from, mut to) in [(near.try_clone(), far.try_clone()), (far.try_clone(), near.try_clone())]
            .map(|(from, to)| (from.expect("possible"), to.expect("possible")))
        {
            thread::spawn(move || pass_stream(&mut from, &mut to, change));
        }
    }
}

fn pass_stream(from: &mut TcpStream, to: &mut TcpStream, change: bool) {
    let mut buffer = vec![0; 1 << 16];
    // What is said at the door passes unchanged.
    let mut passed = 0;
    loop {
        match from.read(&mut buffer) {
            Ok(0) | Err(_) => break,
            Ok(count) => {
                if change && passed >= 48 {
                    buffer[..count].iter_mut().for_each(|byte| *byte ^= 1);
                }
                passed += count;
                if to.write_all(&buffer[..count]).is_err() {
                    break;
                }
            }
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}

fn pass_datagrams(from: &UdpSocket, to: &UdpSocket, harm: Harm, over: &AtomicBool) {
    let mut buffer = vec![0; 1 << 16];
    let mut count = 0usize;
    while !over.load(Ordering::Relaxed) {
        match from.recv(&mut buffer) {
            Ok(length) => {
                count += 1;
                let every = |number: Option<usize>| number.is_some_and(|every| count.is_multiple_of(every));
                if every(harm.lose_every) {
                    continue;
                }
                if harm.change && length > 0 {
                    buffer[length - 1] ^= 1;
                }
                for _ in 0..=usize::from(every(harm.double_every)) {
                    // The other side may have gone: then there is nobody to harm.
                    let _ = to.send(&buffer[..length]);
                }
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {}
            Err(_) => thread::sleep(Duration::from_millis(1)),
        }
    }
}
