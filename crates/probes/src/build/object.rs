//! What the compile job's objects and images hold: functions defined and called by name, and packed content; a checksum over
//! all of it at the end.
//!
//! ```text
//!  count, (name, checksum)… │ count, name… │ packed content │ CRC-32      lengths and counts are 32 bits, little-endian
//! ```

use std::collections::BTreeMap;

use crate::error::WorkError;

/// One of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Object {
    /// Functions that are in it, each with the checksum of its text.
    pub defined: BTreeMap<String, u32>,
    /// Names of functions that are called in it, in order.
    pub called: Vec<String>,
    /// The rest.
    pub packed: Vec<u8>,
}

impl Object {
    /// As a file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        number(&mut bytes, self.defined.len());
        for (name, checksum) in &self.defined {
            piece(&mut bytes, name.as_bytes());
            bytes.extend(checksum.to_le_bytes());
        }
        number(&mut bytes, self.called.len());
        for name in &self.called {
            piece(&mut bytes, name.as_bytes());
        }
        piece(&mut bytes, &self.packed);
        let checksum = crc32fast::hash(&bytes);
        bytes.extend(checksum.to_le_bytes());
        bytes
    }

    /// Of a file.
    ///
    /// # Errors
    /// It is none, or broken.
    pub fn of_bytes(bytes: &[u8]) -> Result<Self, WorkError> {
        let broken = || WorkError::Unfit("it is no object, or broken".to_owned());
        let (content, checksum) = bytes.split_last_chunk::<4>().ok_or_else(broken)?;
        if crc32fast::hash(content) != u32::from_le_bytes(*checksum) {
            return Err(broken());
        }
        Self::read(&mut Reader { rest: content }).ok_or_else(broken)
    }

    fn read(reader: &mut Reader<'_>) -> Option<Self> {
        let count = reader.number()?;
        let defined = (0..count).map(|_| Some((reader.name()?, reader.number()?))).collect::<Option<_>>()?;
        let count = reader.number()?;
        let called = (0..count).map(|_| reader.name()).collect::<Option<_>>()?;
        let packed = reader.piece()?.to_vec();
        reader.rest.is_empty().then_some(Self { defined, called, packed })
    }
}

fn number(bytes: &mut Vec<u8>, number: usize) {
    bytes.extend(u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes());
}

fn piece(bytes: &mut Vec<u8>, piece: &[u8]) {
    number(bytes, piece.len());
    bytes.extend(piece);
}

/// Takes from the front.
struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn number(&mut self) -> Option<u32> {
        let (number, rest) = self.rest.split_first_chunk::<4>()?;
        self.rest = rest;
        Some(u32::from_le_bytes(*number))
    }

    fn piece(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.number()?).ok()?;
        let (piece, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        Some(piece)
    }

    fn name(&mut self) -> Option<String> {
        String::from_utf8(self.piece()?.to_vec()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_comes_back_whole_and_broken_ones_are_refused() {
        let object = Object {
            defined: [("f".to_owned(), 7), ("g".to_owned(), 8)].into(),
            called: vec!["h".to_owned()],
            packed: vec![1, 2, 3],
        };
        let bytes = object.to_bytes();
        assert_eq!(Object::of_bytes(&bytes).unwrap(), object);
        for at in 0..bytes.len() {
            let mut broken = bytes.clone();
            broken[at] ^= 1;
            assert!(Object::of_bytes(&broken).is_err());
            assert!(Object::of_bytes(&bytes[..at]).is_err());
        }
        // More than there is, with the right checksum.
        let mut long = 5_u32.to_le_bytes().to_vec();
        long.extend(crc32fast::hash(&long).to_le_bytes());
        assert!(Object::of_bytes(&long).unwrap_err().to_string().contains("broken"));
    }
}
