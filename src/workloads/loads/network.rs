//! The network load: UDP datagrams between two sockets of the instance over its loopback device. What counts is what
//! arrived; what was dropped on the way is not there.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};

use super::packets::{Sent, receive, send, wait};
use super::stressors::{Done, Stressor};
use crate::workloads::error::WorkError;
use crate::workloads::loopback;

/// Payload of a datagram: with its headers it fits into one Ethernet frame, so that it is what a real flood is made of.
const PAYLOAD: usize = 1400;
/// Datagrams sent before what arrived is fetched; they fit into a receive buffer of the usual 208 KiB.
const BURST: u32 = 64;

/// A flood, one thread.
pub struct Flooding {
    sender: UdpSocket,
    receiver: UdpSocket,
    datagram: [u8; PAYLOAD],
    arrived: [u8; PAYLOAD],
}

impl Flooding {
    /// Two sockets that only hear each other.
    ///
    /// # Errors
    /// The loopback device cannot be used.
    pub fn new() -> Result<Self, WorkError> {
        loopback::ensure_up()?;
        let pair = || -> io::Result<(UdpSocket, UdpSocket)> {
            let sender = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
            let receiver = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?;
            sender.connect(receiver.local_addr()?)?;
            receiver.connect(sender.local_addr()?)?;
            sender.set_nonblocking(true)?;
            receiver.set_nonblocking(true)?;
            Ok((sender, receiver))
        };
        let (sender, receiver) =
            pair().map_err(|error| WorkError::system("open two UDP sockets for the network load", error))?;
        Ok(Self { sender, receiver, datagram: [0x5a; PAYLOAD], arrived: [0; PAYLOAD] })
    }

    fn burst(&mut self) -> io::Result<Done> {
        for _ in 0..BURST {
            if send(&self.sender, &self.datagram)? != Sent::Gone {
                break;
            }
        }
        let mut done = Done::default();
        let [bytes, ..] = &mut done.parts;
        while let Some(length) = receive(&self.receiver, &mut self.arrived)? {
            done.whole += 1;
            *bytes += length as u64;
            if done.whole >= 4 * u64::from(BURST) {
                break;
            }
        }
        if done.whole == 0 {
            wait(&self.receiver)?;
        }
        Ok(done)
    }
}

impl Stressor for Flooding {
    fn round(&mut self) -> Result<Done, WorkError> {
        self.burst().map_err(|error| WorkError::system("send datagrams over the loopback device", error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_arrived_is_counted_in_packets_and_bytes() {
        let mut flooding = Flooding::new().unwrap();
        let mut packets = 0;
        let mut bytes = 0;
        for _ in 0..1000 {
            let done = flooding.round().unwrap();
            packets += done.whole;
            bytes += done.parts[0];
            if packets > 200 {
                break;
            }
        }
        assert!(packets > 200, "{packets}");
        assert_eq!(bytes, packets * PAYLOAD as u64);
    }

    #[test]
    fn strangers_do_not_count() {
        let mut flooding = Flooding::new().unwrap();
        let stranger = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let to = flooding.receiver.local_addr().unwrap();
        for _ in 0..20 {
            stranger.send_to(&[0; PAYLOAD], to).unwrap();
        }
        assert_eq!(receive(&flooding.receiver, &mut flooding.arrived).unwrap(), None);
    }
}
