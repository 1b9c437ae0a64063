//! Messages of FUSE as bytes: what a guest's kernel asks, and how it is answered (`include/uapi/linux/fuse.h`, protocol 7.36).
//!
//! ```text
//!  request: length, opcode, unique, node, uid, gid, pid, – │ fields of the opcode │ names or data
//!  answer:  length, -errno, unique                         │ fields of the opcode │ data
//! ```
//! Everything in a request is the guest's: each field is taken with its bounds, and what is missing is EINVAL.

use rustix::io::Errno;

/// What an operation gives back.
pub type Result<T> = std::result::Result<T, Errno>;

/// Bytes of a request before the fields of its opcode.
pub const HEADER_BYTES: usize = 40;
/// Bytes of an answer before its fields.
pub const ANSWER_HEADER_BYTES: usize = 16;
/// Most data in one request or answer.
pub const MOST_DATA: usize = 1 << 20;
/// Longest name.
pub const LONGEST_NAME: usize = 255;

/// Opcodes, named as in `fuse.h`.
pub mod opcode {
    pub const LOOKUP: u32 = 1;
    pub const FORGET: u32 = 2;
    pub const GETATTR: u32 = 3;
    pub const SETATTR: u32 = 4;
    pub const READLINK: u32 = 5;
    pub const SYMLINK: u32 = 6;
    pub const MKNOD: u32 = 8;
    pub const MKDIR: u32 = 9;
    pub const UNLINK: u32 = 10;
    pub const RMDIR: u32 = 11;
    pub const RENAME: u32 = 12;
    pub const LINK: u32 = 13;
    pub const OPEN: u32 = 14;
    pub const READ: u32 = 15;
    pub const WRITE: u32 = 16;
    pub const STATFS: u32 = 17;
    pub const RELEASE: u32 = 18;
    pub const FSYNC: u32 = 20;
    pub const SETXATTR: u32 = 21;
    pub const GETXATTR: u32 = 22;
    pub const LISTXATTR: u32 = 23;
    pub const REMOVEXATTR: u32 = 24;
    pub const FLUSH: u32 = 25;
    pub const INIT: u32 = 26;
    pub const OPENDIR: u32 = 27;
    pub const READDIR: u32 = 28;
    pub const RELEASEDIR: u32 = 29;
    pub const FSYNCDIR: u32 = 30;
    pub const GETLK: u32 = 31;
    pub const SETLK: u32 = 32;
    pub const SETLKW: u32 = 33;
    pub const CREATE: u32 = 35;
    pub const INTERRUPT: u32 = 36;
    pub const DESTROY: u32 = 38;
    pub const BATCH_FORGET: u32 = 42;
    pub const FALLOCATE: u32 = 43;
    pub const READDIRPLUS: u32 = 44;
    pub const RENAME2: u32 = 45;
    pub const LSEEK: u32 = 46;
    pub const COPY_FILE_RANGE: u32 = 47;
    pub const SYNCFS: u32 = 50;
}

/// The header of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Bytes of the whole request.
    pub length: u32,
    /// What is asked.
    pub opcode: u32,
    /// By which the answer is known.
    pub unique: u64,
    /// On what.
    pub node: u64,
    /// Who asks, in the guest.
    pub user: u32,
    /// Its group there.
    pub group: u32,
    /// Its process there.
    pub process: u32,
}

impl Header {
    /// Reads it; none when the bytes hold no request.
    pub fn read(request: &[u8]) -> Option<Self> {
        let mut fields = Fields(request.get(..HEADER_BYTES)?);
        let read = |fields: &mut Fields<'_>| -> Result<Self> {
            let (length, opcode, unique, node) =
                (fields.number()?, fields.number()?, fields.long()?, fields.long()?);
            Ok(Self {
                length,
                opcode,
                unique,
                node,
                user: fields.number()?,
                group: fields.number()?,
                process: fields.number()?,
            })
        };
        read(&mut fields).ok()
    }
}

/// Fields of a request that are still to be read.
#[derive(Debug, Clone, Copy)]
pub struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (first, rest) = self.0.split_first_chunk::<N>().ok_or(Errno::INVAL)?;
        self.0 = rest;
        Ok(*first)
    }

    /// 32 bits.
    pub fn number(&mut self) -> Result<u32> {
        self.take().map(u32::from_le_bytes)
    }

    /// 64 bits.
    pub fn long(&mut self) -> Result<u64> {
        self.take().map(u64::from_le_bytes)
    }

    /// Leaves out so many bytes.
    pub fn skip(&mut self, bytes: usize) -> Result<()> {
        self.0 = self.0.get(bytes..).ok_or(Errno::INVAL)?;
        Ok(())
    }

    /// Bytes up to a zero, which goes with them.
    pub fn text(&mut self) -> Result<&'a [u8]> {
        let end = self.0.iter().position(|byte| *byte == 0).ok_or(Errno::INVAL)?;
        let (text, rest) = self.0.split_at(end);
        self.0 = rest.get(1..).unwrap_or_default();
        Ok(text)
    }

    /// The name of something in a folder: one step, and not one that leads out.
    pub fn name(&mut self) -> Result<&'a [u8]> {
        let name = self.text()?;
        match name {
            b"" | b"." | b".." => Err(Errno::INVAL),
            name if name.contains(&b'/') => Err(Errno::INVAL),
            name if name.len() > LONGEST_NAME => Err(Errno::NAMETOOLONG),
            name => Ok(name),
        }
    }

    /// So many bytes.
    pub fn bytes(&mut self, count: usize) -> Result<&'a [u8]> {
        let (first, rest) = self.0.split_at_checked(count).ok_or(Errno::INVAL)?;
        self.0 = rest;
        Ok(first)
    }
}

/// Fields of an answer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Body(pub Vec<u8>);

impl Body {
    /// Adds 16 bits.
    pub fn short(&mut self, value: u16) -> &mut Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    /// Adds 32 bits.
    pub fn number(&mut self, value: u32) -> &mut Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    /// Adds 64 bits.
    pub fn long(&mut self, value: u64) -> &mut Self {
        self.0.extend(value.to_le_bytes());
        self
    }

    /// Adds so many zeros.
    pub fn zeros(&mut self, count: usize) -> &mut Self {
        self.0.resize(self.0.len() + count, 0);
        self
    }

    /// Takes it out.
    pub fn done(&mut self) -> Self {
        std::mem::take(self)
    }
}

/// The whole answer to request `unique`.
pub fn answer(unique: u64, result: Result<Body>) -> Vec<u8> {
    let (error, body) = match result {
        Ok(body) => (0, body.0),
        Err(error) => (-error.raw_os_error(), Vec::new()),
    };
    let length = u32::try_from(ANSWER_HEADER_BYTES + body.len()).unwrap_or(u32::MAX);
    let mut bytes = Vec::with_capacity(ANSWER_HEADER_BYTES + body.len());
    bytes.extend(length.to_le_bytes());
    bytes.extend(error.to_le_bytes());
    bytes.extend(unique.to_le_bytes());
    bytes.extend(body);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_nowhere_else() {
        let name = |bytes: &'static [u8]| Fields(bytes).name();
        assert_eq!(name(b"a\0rest"), Ok(b"a".as_slice()));
        for bad in [b"\0".as_slice(), b".\0", b"..\0", b"a/b\0", b"/\0", b"unended"] {
            assert_eq!(name(bad), Err(Errno::INVAL), "{bad:?}");
        }
        let long = [vec![b'x'; 256], vec![0]].concat();
        assert_eq!(Fields(&long).name(), Err(Errno::NAMETOOLONG));
    }

    #[test]
    fn what_is_cut_short_is_refused() {
        let mut fields = Fields(&[1, 0, 0, 0, 2]);
        assert_eq!(fields.number(), Ok(1));
        assert_eq!(
            (fields.long(), fields.number(), fields.skip(2)),
            (Err(Errno::INVAL), Err(Errno::INVAL), Err(Errno::INVAL))
        );
        assert_eq!(Header::read(&[0; 39]), None);
    }
}
