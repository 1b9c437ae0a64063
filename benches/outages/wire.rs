//! What goes over the loopback interface between the client of `verify` and the port it asks, by the kernel's own times. A witness
//! that asks nothing itself: a server that has just started answers one client later than another, this one sees what either was told.

use std::collections::HashMap;
use std::io::IoSliceMut;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result};
use nix::sys::socket::{
    AddressFamily, ControlMessageOwned, LinkAddr, MsgFlags, SockFlag, SockProtocol, SockType, recvmsg,
    setsockopt, socket, sockopt,
};
use nix::sys::time::{TimeSpec, TimeVal};

use crate::prober::Asked;

/// What the kernel keeps for us while we do not run.
const ROOM: usize = 16 << 20;
/// Since Linux 2.2; a packet on loopback is seen as it leaves, too.
const OUTGOING: u8 = libc::PACKET_OUTGOING;

/// Listens until it is dropped.
pub struct Wire {
    shared: Arc<Shared>,
    reads: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    is_over: AtomicBool,
    talk: Mutex<Talk>,
}

impl Wire {
    /// Between `client`, whatever its port, and the port `to`.
    pub fn listen(client: Ipv4Addr, to: SocketAddrV4) -> Result<Self> {
        let door = socket(AddressFamily::Packet, SockType::Datagram, SockFlag::empty(), SockProtocol::EthAll)
            .context("listening to the loopback interface, which needs root")?;
        setsockopt(&door, sockopt::RcvBufForce, &ROOM)?;
        setsockopt(&door, sockopt::ReceiveTimestampns, &true)?;
        setsockopt(&door, sockopt::ReceiveTimeout, &TimeVal::new(0, 50_000))?;
        let shared = Arc::new(Shared::default());
        let fills = Arc::clone(&shared);
        let reads = std::thread::spawn(move || {
            let mut room = vec![0; 1 << 16];
            while !fills.is_over.load(Ordering::SeqCst) {
                let Some((at, length)) = next(&door, &mut room) else { continue };
                if let Some(segment) = Segment::read(&room[..length]) {
                    fills.talk.lock().expect("no thread has panicked").hear(client, to, at, &segment);
                }
            }
        });
        Ok(Self { shared, reads: Some(reads) })
    }

    /// What was asked so far, in order: lines, and connections, which are answered with the first line that comes over them.
    pub fn asked(&self) -> Vec<Asked> {
        self.shared.talk.lock().expect("no thread has panicked").asked.clone()
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::SeqCst);
        if let Some(reads) = self.reads.take() {
            let _ = reads.join();
        }
    }
}

/// The next packet that arrives: when, and how much of `room` it takes.
fn next(door: &OwnedFd, room: &mut [u8]) -> Option<(Duration, usize)> {
    let mut parts = [IoSliceMut::new(room)];
    let mut more = nix::cmsg_space!(TimeSpec);
    let message =
        recvmsg::<LinkAddr>(door.as_raw_fd(), &mut parts, Some(&mut more), MsgFlags::empty()).ok()?;
    if message.address?.as_ref().sll_pkttype == OUTGOING {
        return None;
    }
    let at = message.cmsgs().ok()?.find_map(|one| match one {
        ControlMessageOwned::ScmTimestampns(at) => Some(Duration::from(at)),
        _ => None,
    })?;
    Some((at, message.bytes))
}

/// A segment of TCP over IPv4.
struct Segment<'a> {
    from: SocketAddrV4,
    to: SocketAddrV4,
    /// The first of a connection.
    opens: bool,
    text: &'a [u8],
}

impl<'a> Segment<'a> {
    fn read(packet: &'a [u8]) -> Option<Self> {
        let head = usize::from(packet.first()? & 0xf) * 4;
        let whole = usize::from(u16::from_be_bytes([*packet.get(2)?, *packet.get(3)?]));
        if packet[0] >> 4 != 4 || *packet.get(9)? != 6 {
            return None;
        }
        let address = |at: usize| Some(Ipv4Addr::from(<[u8; 4]>::try_from(packet.get(at..at + 4)?).ok()?));
        let tcp = packet.get(head..whole)?;
        let port = |at: usize| Some(u16::from_be_bytes([*tcp.get(at)?, *tcp.get(at + 1)?]));
        let (syn, ack) = (tcp.get(13)? & 2 != 0, tcp.get(13)? & 16 != 0);
        Some(Self {
            from: SocketAddrV4::new(address(12)?, port(0)?),
            to: SocketAddrV4::new(address(16)?, port(2)?),
            opens: syn && !ack,
            text: tcp.get(usize::from(tcp.get(12)? >> 4) * 4..)?,
        })
    }
}

/// Who asked what over which connection.
#[derive(Default)]
struct Talk {
    asked: Vec<Asked>,
    /// By the client's port.
    connections: HashMap<u16, Connection>,
}

#[derive(Default)]
struct Connection {
    /// Numbers in `asked`, by the text of the line; the empty one is the connection itself.
    waiting: HashMap<Vec<u8>, usize>,
    /// Of lines that have not ended yet.
    questions: Vec<u8>,
    answers: Vec<u8>,
}

impl Talk {
    fn hear(&mut self, client: Ipv4Addr, to: SocketAddrV4, at: Duration, segment: &Segment) {
        if *segment.from.ip() == client && segment.to == to {
            let mut lines = Vec::new();
            if segment.opens {
                self.connections.insert(segment.from.port(), Connection::default());
                lines.push(Vec::new());
            }
            let connection = self.connections.entry(segment.from.port()).or_default();
            lines.extend(whole_lines(&mut connection.questions, segment.text));
            for line in lines {
                connection.waiting.insert(line, self.asked.len());
                self.asked.push(Asked { at, answered: None });
            }
        } else if segment.from == to && *segment.to.ip() == client {
            let Some(connection) = self.connections.get_mut(&segment.to.port()) else { return };
            for line in whole_lines(&mut connection.answers, segment.text) {
                for which in [line, Vec::new()] {
                    if let Some(number) = connection.waiting.remove(&which) {
                        self.asked[number].answered = Some(at);
                    }
                }
            }
        }
    }
}

/// The lines that end in `more`; what is left of it stays in `begun`.
fn whole_lines(begun: &mut Vec<u8>, more: &[u8]) -> Vec<Vec<u8>> {
    begun.extend_from_slice(more);
    let mut lines: Vec<Vec<u8>> = begun.split(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    *begun = lines.pop().unwrap_or_default();
    lines
}
