//! Digests: what a blob must be, and whether it was.

use std::fmt::{self, Write as _};
use std::fs::File;
use std::io::{self, Read};

use serde::{Deserialize, Deserializer};
use sha2::{Digest as _, Sha256};

use crate::{ImageError, shown};

/// How digests begin; the specification has others, which nobody uses.
const ALGORITHM: &str = "sha256:";
/// Digits of a digest.
const DIGITS: usize = 64;

/// A SHA-256, by its 64 digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest(String);

impl Digest {
    /// Reads `sha256:…`.
    ///
    /// # Errors
    /// It is another algorithm's, or none.
    pub fn parse(text: &str) -> Result<Self, ImageError> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        match text.strip_prefix(ALGORITHM) {
            Some(digits) if digits.len() == DIGITS && digits.bytes().all(is_digit) => {
                Ok(Self(digits.to_owned()))
            }
            _ => Err(ImageError::Malformed(format!(
                "wanted {ALGORITHM} and {DIGITS} digits, got {}",
                shown(text.as_bytes())
            ))),
        }
    }

    /// That of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(digits(&Sha256::digest(bytes)))
    }

    /// Its digits, a name for files.
    pub fn digits(&self) -> &str {
        &self.0
    }

    /// Its first digits, as people are shown them.
    pub fn short(&self) -> &str {
        self.0.get(..12).unwrap_or(&self.0)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{ALGORITHM}{}", self.0)
    }
}

impl<'de> Deserialize<'de> for Digest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::parse(&String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

fn digits(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Something that is read, and counted in its digest as it is.
pub struct Hashed<R> {
    inner: R,
    so_far: Sha256,
}

impl<R: Read> Hashed<R> {
    /// Begins here.
    pub fn new(inner: R) -> Self {
        Self { inner, so_far: Sha256::new() }
    }

    /// That of all that was read.
    pub fn digest(self) -> Digest {
        Digest(digits(&self.so_far.finalize()))
    }
}

impl<R: Read> Read for Hashed<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.inner.read(buffer)?;
        self.so_far.update(buffer.get(..got).unwrap_or_default());
        Ok(got)
    }
}

/// A blob that is read, and must be what its digest says.
pub struct Blob {
    file: Hashed<File>,
    wanted: Digest,
}

impl Blob {
    /// Begins at its beginning.
    pub fn new(file: File, wanted: Digest) -> Self {
        Self { file: Hashed::new(file), wanted }
    }

    /// Reads what is left, and tells whether it is the blob that was wanted.
    ///
    /// # Errors
    /// It is not, or cannot be read.
    pub fn verify(mut self) -> Result<(), ImageError> {
        let wanted = self.wanted;
        io::copy(&mut self.file, &mut io::sink()).map_err(ImageError::io(format!("blob {wanted}")))?;
        let got = self.file.digest();
        if got == wanted {
            return Ok(());
        }
        Err(ImageError::Malformed(format!(
            "a blob of the layout is damaged: {wanted} was wanted, its content has {got}; fetch the image anew"
        )))
    }
}

impl Read for Blob {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.file.read(buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_plain_names() {
        let empty = "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(Digest::parse(empty).unwrap().to_string(), empty);
        assert_eq!(Digest::of(b"").to_string(), empty);
        let bad = ["", "sha256:", "sha512:00", "sha256:../../../etc", &empty.to_uppercase(), &empty[..70]];
        assert!(bad.into_iter().all(|text| Digest::parse(text).is_err()));
        assert!(Digest::parse("sha256:\u{1b}[2J").is_err_and(|error| !error.to_string().contains('\u{1b}')));
    }
}
