//! What is said at the door: 40 bytes there, 8 bytes back.

use std::fmt;

/// Length of a [`Hello`] on the wire.
pub const HELLO_BYTES: usize = 40;
/// Length of the answer.
pub const TOKEN_BYTES: usize = 8;

const MAGIC: [u8; 8] = *b"BULKHEAD";
/// Raised when the probes' own protocols change.
const VERSION: u32 = 1;

/// What only the members of one job know: made from its seed and its parameters.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HelloWord(u64);

impl fmt::Debug for HelloWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Word(…)")
    }
}

impl HelloWord {
    /// From the seed of the job and whatever else must be the same at every member, as text.
    pub fn new(seed: u64, agreed: &str) -> Self {
        // FNV-1a, then mixed: the same on every machine and in every version, which the standard hasher is not.
        let hash = agreed.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
        });
        Self(mix(seed ^ mix(hash)))
    }

    /// A number for a purpose, from which the word cannot be read by accident.
    pub const fn derive(self, purpose: u64) -> u64 {
        mix(self.0 ^ mix(purpose.wrapping_add(0x5851_f42d_4c95_7f2d)))
    }
}

/// The finalizer of splitmix64 (Steele, Lea, Flood 2014): every bit of the input changes half of the output's.
pub const fn mix(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Who knocks, at whose door, and what for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello {
    /// The word of the job.
    pub word: HelloWord,
    /// Who comes.
    pub from: u32,
    /// Who is meant.
    pub to: u32,
    /// What the connection is for; each probe numbers its own.
    pub channel: u64,
}

impl Hello {
    /// As it goes over the wire, all numbers little-endian.
    pub fn encode(&self) -> [u8; HELLO_BYTES] {
        let mut bytes = [0; HELLO_BYTES];
        let fields: [&[u8]; 6] = [
            &MAGIC,
            &VERSION.to_le_bytes(),
            &self.from.to_le_bytes(),
            &self.to.to_le_bytes(),
            &self.channel.to_le_bytes(),
            &self.word.0.to_le_bytes(),
        ];
        let all = fields.iter().flat_map(|field| field.iter());
        bytes.iter_mut().zip(all).for_each(|(slot, byte)| *slot = *byte);
        bytes
    }

    /// Reads it; none when it is something else.
    pub fn decode(bytes: &[u8; HELLO_BYTES]) -> Option<Self> {
        let (magic, rest) = bytes.split_first_chunk::<8>()?;
        let (version, rest) = rest.split_first_chunk::<4>()?;
        let (from, rest) = rest.split_first_chunk::<4>()?;
        let (to, rest) = rest.split_first_chunk::<4>()?;
        let (channel, rest) = rest.split_first_chunk::<8>()?;
        let (word, _) = rest.split_first_chunk::<8>()?;
        let known = *magic == MAGIC && u32::from_le_bytes(*version) == VERSION;
        known.then(|| Self {
            word: HelloWord(u64::from_le_bytes(*word)),
            from: u32::from_le_bytes(*from),
            to: u32::from_le_bytes(*to),
            channel: u64::from_le_bytes(*channel),
        })
    }

    /// What the door answers: it shows that the door belongs to the same job.
    pub fn token(&self) -> [u8; TOKEN_BYTES] {
        self.word.derive(mix(self.channel) ^ (u64::from(self.from) << 32) ^ u64::from(self.to)).to_le_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hello_comes_back_and_one_of_another_job_differs() {
        let hello = Hello { word: HelloWord::new(7, "net"), from: 3, to: 1, channel: u64::MAX - 1 };
        assert_eq!(Hello::decode(&hello.encode()), Some(hello));
        assert_ne!(HelloWord::new(7, "net"), HelloWord::new(8, "net"));
        assert_ne!(HelloWord::new(7, "net"), HelloWord::new(7, "mpi"));
        let other = Hello { channel: 0, ..hello };
        assert_ne!(hello.token(), other.token());
    }

    #[test]
    fn no_single_changed_bit_passes_for_the_same_hello() {
        let hello = Hello { word: HelloWord::new(1, ""), from: 0, to: 1, channel: 2 };
        let bytes = hello.encode();
        for bit in 0..36 * 8 {
            let mut changed = bytes;
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(Hello::decode(&changed), Some(hello), "bit {bit}");
        }
    }
}
