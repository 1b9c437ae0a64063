//! The address of an endpoint, 64 bytes: what `fi_getname` gives and Open MPI carries to the other ranks.

use std::net::Ipv4Addr;

use crate::fault::Fault;

/// Bytes of an address.
pub const ADDRESS: usize = 64;

const MARK: [u8; 8] = *b"bulkhdfi";
const VERSION: u32 = crate::wire::VERSION;

/// Where a rank can be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Address {
    /// Its rank.
    pub rank: u32,
    /// Hash of its host's identity: ranks of the same host share memory.
    pub host: u64,
    /// Hash of the run's identity.
    pub run: u64,
    /// Where it listens for ranks of other hosts, if it does.
    pub socket: Option<(Ipv4Addr, u16)>,
    /// What who connects there has to show.
    pub token: [u8; 16],
}

impl Address {
    /// The 64 bytes: mark, version, rank, host, run, IPv4 address, port, token.
    pub fn encode(&self) -> [u8; ADDRESS] {
        let (ip, port) = self.socket.unwrap_or((Ipv4Addr::UNSPECIFIED, 0));
        let fields = [
            &MARK[..],
            &VERSION.to_le_bytes(),
            &self.rank.to_le_bytes(),
            &self.host.to_le_bytes(),
            &self.run.to_le_bytes(),
            &ip.octets(),
            &port.to_le_bytes(),
            &[0; 2],
            &self.token,
        ];
        let mut bytes = [0; ADDRESS];
        for (to, from) in bytes.iter_mut().zip(fields.into_iter().flatten()) {
            *to = *from;
        }
        bytes
    }

    /// Reads an address.
    ///
    /// # Errors
    /// Says what is wrong with it.
    pub fn decode(bytes: &[u8; ADDRESS]) -> Result<Self, Fault> {
        fn part<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
            bytes.get(at..).and_then(|rest| rest.first_chunk()).copied().unwrap_or([0; N])
        }
        if part::<8>(bytes, 0) != MARK {
            return Err("wanted an address of this provider, got something else".to_owned().into());
        }
        let version = u32::from_le_bytes(part(bytes, 8));
        if version != VERSION {
            return Err(format!("wanted version {VERSION} of the provider, got {version}").into());
        }
        let port = u16::from_le_bytes(part(bytes, 36));
        Ok(Self {
            rank: u32::from_le_bytes(part(bytes, 12)),
            host: u64::from_le_bytes(part(bytes, 16)),
            run: u64::from_le_bytes(part(bytes, 24)),
            socket: (port != 0).then(|| (Ipv4Addr::from(part::<4>(bytes, 32)), port)),
            token: part(bytes, 40),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_comes_back_as_it_was_and_noise_is_refused() {
        let address = Address {
            rank: 3,
            host: 0x0123_4567_89ab_cdef,
            run: 42,
            socket: Some((Ipv4Addr::new(10, 1, 2, 3), 40000)),
            token: *b"0123456789abcdef",
        };
        assert_eq!(Address::decode(&address.encode()), Ok(address));
        let silent = Address { socket: None, ..address };
        assert_eq!(Address::decode(&silent.encode()), Ok(silent));
        let mut other = address.encode();
        other[8] = 99;
        assert!(Address::decode(&other).expect_err("another version").to_string().contains("99"));
        assert!(Address::decode(&[7; ADDRESS]).is_err());
    }
}
