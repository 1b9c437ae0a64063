//! Layers as they are packed: gzip or Zstandard, in as many pieces as there are, or not at all. Their first bytes say which.

use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

use crate::ImageError;

/// Bytes that are read at once.
pub const CHUNK: usize = 128 << 10;
/// Most bytes that Zstandard may look back: what its own program takes unasked.
const MOST_WINDOW: u64 = 128 << 20;
const GZIP: &[u8] = b"\x1f\x8b";
const ZSTD: &[u8] = b"\x28\xb5\x2f\xfd";
/// Zstandard's frames that hold nothing begin so, but for the lowest four bits.
const ZSTD_EMPTY: &[u8] = b"\x2a\x4d\x18";

/// What is in a packed layer.
///
/// # Errors
/// It cannot be read.
pub fn unpacked<'a>(packed: impl Read + 'a) -> Result<Box<dyn Read + 'a>, ImageError> {
    let mut packed = BufReader::with_capacity(CHUNK, packed);
    let first = packed.fill_buf().map_err(ImageError::io("a layer"))?;
    let is_zstd = first.starts_with(ZSTD)
        || (first.first().is_some_and(|byte| byte & 0xf0 == 0x50) && first.get(1..4) == Some(ZSTD_EMPTY));
    Ok(if first.starts_with(GZIP) {
        Box::new(MultiGzDecoder::new(packed))
    } else if is_zstd {
        Box::new(Frames { packed, decoder: FrameDecoder::new(), is_within: false })
    } else {
        Box::new(packed)
    })
}

/// Frames of Zstandard, one behind the other.
struct Frames<R: BufRead> {
    packed: R,
    decoder: FrameDecoder,
    is_within: bool,
}

impl<R: BufRead> Frames<R> {
    /// Begins the next frame that holds anything; false at the end.
    fn begin(&mut self) -> io::Result<bool> {
        self.decoder.set_max_window_size(MOST_WINDOW);
        while !self.packed.fill_buf()?.is_empty() {
            match self.decoder.reset(&mut self.packed) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    io::copy(&mut (&mut self.packed).take(length.into()), &mut io::sink())?;
                }
                Err(error) => return Err(io::Error::other(error)),
            }
        }
        Ok(false)
    }
}

impl<R: BufRead> Read for Frames<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        loop {
            if !self.is_within {
                if !self.begin()? {
                    return Ok(0);
                }
                self.is_within = true;
            }
            while self.decoder.can_collect() == 0 && !self.decoder.is_finished() {
                self.decoder
                    .decode_blocks(&mut self.packed, BlockDecodingStrategy::UptoBlocks(1))
                    .map_err(io::Error::other)?;
            }
            let got = self.decoder.read(buffer)?;
            if got > 0 {
                return Ok(got);
            }
            self.is_within = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use ruzstd::encoding::{CompressionLevel, compress_to_vec};

    use super::*;

    fn all(packed: &[u8]) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        unpacked(packed).map_err(io::Error::other)?.read_to_end(&mut bytes).map(|_| bytes)
    }

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).expect("memory");
        encoder.finish().expect("memory")
    }

    #[test]
    fn pieces_follow_each_other_and_empty_ones_are_skipped() {
        let (one, two) = (vec![7; 300_000], b"the end".to_vec());
        let both = [one.clone(), two.clone()].concat();
        assert_eq!(all(&both).expect("plain"), both);
        assert_eq!(all(&[gzip(&one), gzip(&two)].concat()).expect("gzip"), both);
        let zstd = |bytes: &[u8]| compress_to_vec(bytes, CompressionLevel::Fastest);
        let empty = b"\x5e\x2a\x4d\x18\x03\0\0\0abc".to_vec();
        let frames = [empty.clone(), zstd(&one), empty, zstd(&two)].concat();
        assert_eq!(all(&frames).expect("zstd"), both);
        assert_eq!(all(b"").expect("nothing"), b"");
    }

    #[test]
    fn what_is_cut_off_is_an_error() {
        let packed = gzip(&[7; 1000]);
        assert!(all(&packed[..packed.len() - 9]).is_err());
        let packed = compress_to_vec(&[7; 1000][..], CompressionLevel::Fastest);
        assert!(all(&packed[..packed.len() - 5]).is_err());
    }
}
