//! The network load: UDP datagrams out of the instance, to a port of its host that drops them; where there is no way out,
//! between two sockets of the instance over its loopback device.
//!
//! On the way out what counts is what was sent, as far as the interface's own counter confirms it (`team`); over loopback
//! it is what arrived.

use std::io;
use std::net::{Ipv4Addr, UdpSocket};

use super::outlet::{LOOPBACK, Outlet};
use super::packets::{Sent, receive, send, wait, wait_for_room};
use super::stressors::{Done, Stressor};
use crate::error::WorkError;
use crate::loopback;

/// Payload of a datagram: with its headers it fits into one Ethernet frame, so that it is what a real flood is made of.
const PAYLOAD: usize = 1400;
/// Datagrams sent before what arrived is fetched; they fit into a receive buffer of the usual 208 KiB.
const BURST: u32 = 64;

/// A flood, one thread.
pub struct Flooding {
    sender: UdpSocket,
    /// Who counts what arrives; none when it leaves the instance.
    receiver: Option<UdpSocket>,
    way: String,
    datagram: [u8; PAYLOAD],
    arrived: [u8; PAYLOAD],
}

impl Flooding {
    /// On this way out, or over loopback.
    ///
    /// # Errors
    /// The way, or the loopback device, cannot be used.
    pub fn new(outlet: Option<&Outlet>) -> Result<Self, WorkError> {
        outlet.map_or_else(Self::over_loopback, Self::out)
    }

    fn out(outlet: &Outlet) -> Result<Self, WorkError> {
        let open = || -> io::Result<UdpSocket> {
            let sender = UdpSocket::bind((outlet.own(), 0))?;
            sender.connect(outlet.sink())?;
            sender.set_nonblocking(true)?;
            Ok(sender)
        };
        let sender = open().map_err(|error| {
            WorkError::system(format!("open a UDP socket to {} for the network load", outlet.sink()), error)
        })?;
        Ok(Self::of(sender, None, outlet.words()))
    }

    const fn of(sender: UdpSocket, receiver: Option<UdpSocket>, way: String) -> Self {
        Self { sender, receiver, way, datagram: [0x5a; PAYLOAD], arrived: [0; PAYLOAD] }
    }

    /// Two sockets that only hear each other.
    fn over_loopback() -> Result<Self, WorkError> {
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
        Ok(Self::of(sender, Some(receiver), LOOPBACK.to_owned()))
    }

    fn burst(&mut self) -> io::Result<Done> {
        let mut done = Done::default();
        let [bytes, ..] = &mut done.parts;
        let mut sent = 0;
        while sent < BURST && send(&self.sender, &self.datagram)? == Sent::Gone {
            sent += 1;
        }
        let Some(receiver) = &self.receiver else {
            if sent == 0 {
                wait_for_room(&self.sender)?;
            }
            done.whole = sent.into();
            *bytes = done.whole * PAYLOAD as u64;
            return Ok(done);
        };
        while let Some(length) = receive(receiver, &mut self.arrived)? {
            done.whole += 1;
            *bytes += length as u64;
            if done.whole >= 4 * u64::from(BURST) {
                break;
            }
        }
        if done.whole == 0 {
            wait(receiver)?;
        }
        Ok(done)
    }
}

impl Stressor for Flooding {
    fn round(&mut self) -> Result<Done, WorkError> {
        self.burst().map_err(|error| WorkError::system(format!("send datagrams ({})", self.way), error))
    }

    fn way(&self) -> Option<String> {
        Some(self.way.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use super::*;
    use crate::job::Line;

    #[test]
    fn what_arrived_is_counted_in_packets_and_bytes() {
        let mut flooding = Flooding::new(None).unwrap();
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
        let mut flooding = Flooding::new(None).unwrap();
        let stranger = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let receiver = flooding.receiver.take().unwrap();
        let to = receiver.local_addr().unwrap();
        for _ in 0..20 {
            stranger.send_to(&[0; PAYLOAD], to).unwrap();
        }
        assert_eq!(receive(&receiver, &mut flooding.arrived).unwrap(), None);
    }

    #[test]
    fn on_the_way_out_what_was_sent_is_counted_and_the_interface_confirms_it() {
        loopback::ensure_up().unwrap();
        let sink = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let SocketAddr::V4(address) = sink.local_addr().unwrap() else { panic!("it is an IPv4 one") };
        let line = Line { sink: address, way: "a way".to_owned(), has_card: false };
        let outlet = Outlet::find(&line).unwrap();
        let before = outlet.sent().unwrap();
        let mut flooding = Flooding::new(Some(&outlet)).unwrap();
        let done = (0..10)
            .map(|_| flooding.round().unwrap())
            .fold((0, 0), |(packets, bytes), done| (packets + done.whole, bytes + done.parts[0]));
        assert_eq!(done, (10 * u64::from(BURST), 10 * u64::from(BURST) * PAYLOAD as u64));
        assert!(outlet.sent().unwrap() - before >= done.0);
        assert_eq!(flooding.way().unwrap(), "a way (lo)");
    }
}
