//! Unpacks what kernels and their modules are packed with, told by the first bytes: gzip, xz, zstd, lzma, lz4 (the
//! kernel's own "legacy" framing), or nothing at all.
//!
//! The bytes come from files that others made: the output is bounded, wrong input is an error, never a panic.
//! Formats: RFC 1952; the .xz file format 1.1.0; RFC 8878; the LZMA file format of the LZMA SDK;
//! `lz4_Frame_format.md`, section "Legacy frame".

use std::io::Read;

use flate2::read::GzDecoder;
use lzma_rust2::{LzmaReader, XzReader};
use ruzstd::decoding::StreamingDecoder;

/// Memory an lzma or xz dictionary may take, KiB; kernels use 32 to 128 MiB.
const MAX_DICTIONARY_KIB: u32 = 256 * 1024;
/// Window a zstd frame may ask for; kernels use up to 128 MiB.
const MAX_WINDOW_BYTES: u64 = 256 * 1024 * 1024;
/// Block size of lz4's legacy framing.
const LZ4_LEGACY_BLOCK: usize = 8 * 1024 * 1024;

/// How something is packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Packing {
    /// Not packed: it begins like an ELF file.
    Elf,
    /// gzip.
    Gzip,
    /// xz.
    Xz,
    /// Zstandard.
    Zstd,
    /// LZMA alone.
    Lzma,
    /// LZ4 in the legacy framing.
    Lz4Legacy,
}

impl Packing {
    /// Tells the packing from the first bytes; none when they are not known.
    pub fn of(bytes: &[u8]) -> Option<Self> {
        const MAGICS: [(&[u8], Packing); 6] = [
            (b"\x7fELF", Packing::Elf),
            (b"\x1f\x8b", Packing::Gzip),
            (b"\xfd7zXZ\0", Packing::Xz),
            (b"\x28\xb5\x2f\xfd", Packing::Zstd),
            (b"\x5d\0\0", Packing::Lzma),
            (b"\x02\x21\x4c\x18", Packing::Lz4Legacy),
        ];
        MAGICS.iter().find(|(magic, _)| bytes.starts_with(magic)).map(|(_, packing)| *packing)
    }

    /// Its name, for messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Elf => "plain ELF",
            Self::Gzip => "gzip",
            Self::Xz => "xz",
            Self::Zstd => "zstd",
            Self::Lzma => "lzma",
            Self::Lz4Legacy => "lz4",
        }
    }
}

/// Why something could not be unpacked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnpackError {
    /// The first bytes are not known.
    #[error("neither ELF, gzip, xz, zstd, lzma nor lz4: it begins with {0:02x?}")]
    Unknown(Vec<u8>),
    /// More came out than allowed.
    #[error("unpacks to more than {0} bytes")]
    TooLarge(usize),
    /// The packed data are damaged.
    #[error("damaged {packing} data: {message}")]
    Damaged {
        /// Name of the packing.
        packing: &'static str,
        /// What the decoder said.
        message: String,
    },
}

/// Unpacks `bytes` to at most `limit` bytes. What is not packed is copied.
pub fn unpack(bytes: &[u8], limit: usize) -> Result<Vec<u8>, UnpackError> {
    let packing = Packing::of(bytes)
        .ok_or_else(|| UnpackError::Unknown(bytes.get(..bytes.len().min(8)).unwrap_or_default().to_vec()))?;
    let damaged = |message: String| UnpackError::Damaged { packing: packing.as_str(), message };
    match packing {
        Packing::Elf => read_bounded(bytes, limit, packing),
        Packing::Gzip => read_bounded(GzDecoder::new(bytes), limit, packing),
        Packing::Xz => {
            read_bounded(XzReader::new_mem_limit(bytes, false, MAX_DICTIONARY_KIB), limit, packing)
        }
        Packing::Zstd => {
            let decoder = StreamingDecoder::new_with_max_window_size(bytes, MAX_WINDOW_BYTES)
                .map_err(|error| damaged(error.to_string()))?;
            read_bounded(decoder, limit, packing)
        }
        Packing::Lzma => {
            let reader = LzmaReader::new_mem_limit(bytes, MAX_DICTIONARY_KIB, None)
                .map_err(|error| damaged(error.to_string()))?;
            read_bounded(reader, limit, packing)
        }
        Packing::Lz4Legacy => lz4_legacy(bytes, limit),
    }
}

/// Reads to the end, but never more than `limit`.
fn read_bounded(reader: impl Read, limit: usize, packing: Packing) -> Result<Vec<u8>, UnpackError> {
    let mut out = Vec::new();
    reader
        .take(limit as u64 + 1)
        .read_to_end(&mut out)
        .map_err(|error| UnpackError::Damaged { packing: packing.as_str(), message: error.to_string() })?;
    if out.len() > limit { Err(UnpackError::TooLarge(limit)) } else { Ok(out) }
}

/// The legacy framing: magic, then blocks of `u32 packed size` and data, each unpacking to at most 8 MiB. The kernel's
/// build appends the unpacked size as four bytes, which end the blocks.
fn lz4_legacy(bytes: &[u8], limit: usize) -> Result<Vec<u8>, UnpackError> {
    let damaged = |message: &str| UnpackError::Damaged {
        packing: Packing::Lz4Legacy.as_str(),
        message: message.to_owned(),
    };
    let mut rest = bytes.get(4..).unwrap_or_default();
    let mut out = Vec::new();
    let mut block_out = vec![0; LZ4_LEGACY_BLOCK.min(limit.saturating_add(1))];
    while let Some((size, after)) = rest.split_first_chunk::<4>() {
        if after.is_empty() {
            break;
        }
        let size = u32::from_le_bytes(*size) as usize;
        let block = after.get(..size).ok_or_else(|| damaged("a block is cut off"))?;
        let unpacked = lz4_flex::block::decompress_into(block, &mut block_out)
            .map_err(|error| damaged(&error.to_string()))?;
        if out.len() + unpacked > limit {
            return Err(UnpackError::TooLarge(limit));
        }
        out.extend_from_slice(block_out.get(..unpacked).unwrap_or_default());
        rest = after.get(size..).unwrap_or_default();
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn sample() -> Vec<u8> {
        let mut data = b"\x7fELF".to_vec();
        data.extend((0..200_000_u32).flat_map(|i| (i / 7).to_le_bytes()));
        data
    }

    fn packed(packing: Packing, data: &[u8]) -> Vec<u8> {
        match packing {
            Packing::Elf => data.to_vec(),
            Packing::Gzip => {
                let mut writer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
                writer.write_all(data).unwrap();
                writer.finish().unwrap()
            }
            Packing::Zstd => {
                ruzstd::encoding::compress_to_vec(data, ruzstd::encoding::CompressionLevel::Fastest)
            }
            Packing::Lz4Legacy => {
                let mut out = b"\x02\x21\x4c\x18".to_vec();
                for block in data.chunks(LZ4_LEGACY_BLOCK) {
                    let block = lz4_flex::block::compress(block);
                    out.extend(u32::try_from(block.len()).unwrap().to_le_bytes());
                    out.extend(block);
                }
                out.extend(u32::try_from(data.len()).unwrap().to_le_bytes());
                out
            }
            Packing::Xz | Packing::Lzma => panic!("made by the test's own tool below"),
        }
    }

    #[test]
    fn what_was_packed_comes_back() {
        let data = sample();
        for packing in [Packing::Elf, Packing::Gzip, Packing::Zstd, Packing::Lz4Legacy] {
            let bytes = packed(packing, &data);
            assert_eq!(Packing::of(&bytes), Some(packing));
            assert_eq!(unpack(&bytes, data.len()).unwrap(), data, "{packing:?}");
        }
    }

    /// `printf '\177ELF bulkhead bulkhead bulkhead' | xz --x86 --lzma2`, and the same with `--format=lzma`.
    #[test]
    fn xz_with_the_x86_filter_and_lzma_come_back() {
        let data = b"\x7fELF bulkhead bulkhead bulkhead".to_vec();
        for bytes in [XZ_SAMPLE, LZMA_SAMPLE] {
            assert_eq!(unpack(bytes, 1024).unwrap(), data);
        }
    }

    #[test]
    fn more_than_allowed_and_cut_off_are_errors() {
        let data = sample();
        for packing in [Packing::Elf, Packing::Gzip, Packing::Zstd, Packing::Lz4Legacy] {
            let bytes = packed(packing, &data);
            assert_eq!(unpack(&bytes, data.len() - 1), Err(UnpackError::TooLarge(data.len() - 1)));
            if packing != Packing::Elf {
                let cut = unpack(&bytes[..bytes.len() / 2], data.len());
                assert!(
                    matches!(cut, Err(UnpackError::Damaged { .. })),
                    "{packing:?}: {:?}",
                    cut.map(|d| d.len())
                );
            }
        }
        assert!(matches!(unpack(b"hello, world", 100), Err(UnpackError::Unknown(_))));
        assert!(matches!(unpack(b"", 100), Err(UnpackError::Unknown(_))));
    }

    proptest::proptest! {
        #[test]
        fn damaged_input_never_panics(which in 0_usize..5, at in 0_usize..100_000, byte: u8, cut in 0_usize..100_000) {
            let small: Vec<u8> = sample().into_iter().take(20_000).collect();
            let mut bytes = match which {
                0 => packed(Packing::Gzip, &small),
                1 => packed(Packing::Zstd, &small),
                2 => packed(Packing::Lz4Legacy, &small),
                3 => XZ_SAMPLE.to_vec(),
                _ => LZMA_SAMPLE.to_vec(),
            };
            let at = at % bytes.len();
            bytes[at] = byte;
            bytes.truncate(1 + cut % bytes.len());
            if let Ok(out) = unpack(&bytes, 30_000) {
                assert!(out.len() <= 30_000);
            }
        }
    }

    const XZ_SAMPLE: &[u8] = &[
        0xfd, 0x37, 0x7a, 0x58, 0x5a, 0x00, 0x00, 0x01, 0x69, 0x22, 0xde, 0x36, 0x02, 0x01, 0x04, 0x00, 0x21,
        0x01, 0x10, 0x00, 0x8b, 0x21, 0x6f, 0x49, 0xe0, 0x00, 0x1e, 0x00, 0x14, 0x5d, 0x00, 0x3f, 0x91, 0x45,
        0x84, 0x69, 0x4d, 0x64, 0x1a, 0x6a, 0x0a, 0xc1, 0xd7, 0x71, 0x18, 0x73, 0x45, 0xbf, 0xfa, 0x00, 0x00,
        0x00, 0x76, 0x53, 0xbf, 0x4d, 0x00, 0x01, 0x2c, 0x1f, 0x70, 0xd3, 0xbf, 0x94, 0x90, 0x42, 0x99, 0x0d,
        0x01, 0x00, 0x00, 0x00, 0x00, 0x01, 0x59, 0x5a,
    ];
    const LZMA_SAMPLE: &[u8] = &[
        0x5d, 0x00, 0x00, 0x80, 0x00, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x00, 0x3f, 0x91, 0x45,
        0x84, 0x69, 0x4d, 0x64, 0x1a, 0x6a, 0x0a, 0xc1, 0xd7, 0x71, 0x18, 0x73, 0x45, 0xc5, 0xe8, 0xe0, 0xff,
        0xff, 0xfd, 0x35, 0xf0, 0x00,
    ];
}
