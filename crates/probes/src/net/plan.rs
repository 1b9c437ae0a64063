//! Which exchanges are made, in which order: both instances make the same list from the same parameters.

use crate::detail::{NetDirection, NetPoint};
use crate::params::{Exchange, NetParams, Protocol};

/// Most that one UDP datagram carries over IPv4: 65535 bytes less the headers of IP and UDP.
pub const LARGEST_DATAGRAM: u32 = 65_507;

/// One exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Phase {
    /// Its place in the list.
    pub number: u32,
    /// Transport protocol.
    pub protocol: Protocol,
    /// Stream, or question and answer.
    pub exchange: Exchange,
    /// As seen from the first instance.
    pub direction: NetDirection,
    /// Size of a message.
    pub message_bytes: u32,
}

/// What one of the two does in a phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Sends a stream.
    Send,
    /// Receives it.
    Receive,
    /// Asks and waits for the answer.
    Ask,
    /// Answers.
    Answer,
}

/// All phases; what is written twice in the parameters is made once.
pub fn phases(params: &NetParams) -> Vec<Phase> {
    let mut all: Vec<Phase> = Vec::new();
    for protocol in &params.protocols {
        for exchange in &params.exchanges {
            let directions: &[NetDirection] = match exchange {
                Exchange::Stream => &[NetDirection::Out, NetDirection::In],
                Exchange::RequestResponse => &[NetDirection::Both],
            };
            for message_bytes in &params.message_bytes {
                for direction in directions {
                    let phase = Phase {
                        number: u32::try_from(all.len()).unwrap_or(u32::MAX),
                        protocol: *protocol,
                        exchange: *exchange,
                        direction: *direction,
                        message_bytes: *message_bytes,
                    };
                    if !all.iter().any(|known| (Phase { number: phase.number, ..*known }) == phase) {
                        all.push(phase);
                    }
                }
            }
        }
    }
    all
}

impl Phase {
    /// Size of a message, as a length.
    pub const fn size(&self) -> usize {
        self.message_bytes as usize
    }

    /// What the first instance does, or the second.
    pub const fn role(&self, first: bool) -> Role {
        match (self.direction, first) {
            (NetDirection::Out, true) | (NetDirection::In, false) => Role::Send,
            (NetDirection::In, true) | (NetDirection::Out, false) => Role::Receive,
            (NetDirection::Both, true) => Role::Ask,
            (NetDirection::Both, false) => Role::Answer,
        }
    }

    /// Why it cannot be made at all.
    pub fn unsupported(&self) -> Option<String> {
        (self.protocol == Protocol::Udp && self.message_bytes > LARGEST_DATAGRAM).then(|| {
            format!("a UDP datagram carries at most {LARGEST_DATAGRAM} bytes, not {}", self.message_bytes)
        })
    }

    /// Its point without any figures.
    pub fn point(&self) -> NetPoint {
        NetPoint::empty(self.protocol, self.exchange, self.direction, self.message_bytes)
    }

    /// In words, for errors: `tcp stream out, messages of 1024 bytes`.
    pub fn words(&self) -> String {
        let protocol = match self.protocol {
            Protocol::Tcp => "tcp",
            Protocol::Udp => "udp",
        };
        let kind = match self.direction {
            NetDirection::Out => "stream out",
            NetDirection::In => "stream in",
            NetDirection::Both => "request-response",
        };
        format!("{protocol} {kind}, messages of {} bytes", self.message_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_combination_is_there_once() {
        let params = NetParams { message_bytes: vec![1, 65_507, 65_508, 1], ..NetParams::default() };
        let all = phases(&params);
        assert_eq!(all.len(), 2 * 3 * 3);
        assert!(all.iter().zip(0..).all(|(phase, number)| phase.number == number));
        let left_out = all.iter().filter(|phase| phase.unsupported().is_some());
        assert!(left_out.clone().all(|p| p.protocol == Protocol::Udp && p.message_bytes == 65_508));
        assert_eq!(left_out.count(), 3);
    }

    #[test]
    fn the_two_play_opposite_roles() {
        for phase in phases(&NetParams::default()) {
            let opposite = match phase.role(true) {
                Role::Send => Role::Receive,
                Role::Receive => Role::Send,
                Role::Ask => Role::Answer,
                Role::Answer => Role::Ask,
            };
            assert_eq!(phase.role(false), opposite);
        }
    }
}
