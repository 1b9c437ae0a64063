//! Reads an x86 kernel image (bzImage) and takes the uncompressed kernel (an ELF file) out of it.
//!
//! Under an emulator most of a kernel's start is the kernel unpacking itself; unpacked once on the host it starts
//! through its PVH entry, which an ELF note names. Sources: the kernel's `Documentation/arch/x86/boot.rst` (fields of
//! the setup header) and `include/xen/interface/elfnote.h` (`XEN_ELFNOTE_PHYS32_ENTRY`).
//!
//! Pure and made for untrusted bytes: the output is bounded, damage is an error.

use object::Endianness;
use object::elf::{FileHeader64, NoteType, PT_NOTE};
use object::read::elf::{FileHeader, ProgramHeader};

use super::unpack::{UnpackError, unpack};

/// Largest uncompressed kernel that is accepted.
pub const MAX_KERNEL_BYTES: usize = 512 * 1024 * 1024;

/// Sectors of 512 bytes in the real-mode part, less the first.
const SETUP_SECTS: usize = 0x1f1;
/// `HdrS`.
const HEADER_MAGIC: usize = 0x202;
/// Version of the boot protocol.
const PROTOCOL: usize = 0x206;
/// Where the packed kernel begins, from the start of the protected-mode part.
const PAYLOAD_OFFSET: usize = 0x248;
/// Its length, the four bytes of unpacked size at its end included.
const PAYLOAD_LENGTH: usize = 0x24c;
/// First protocol with the payload fields.
const PROTOCOL_WITH_PAYLOAD: u16 = 0x0208;
/// Note type of the PVH entry.
const XEN_ELFNOTE_PHYS32_ENTRY: u32 = 18;

/// Why no uncompressed kernel came out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BzImageError {
    /// Neither a bzImage nor an ELF file.
    #[error("no kernel image: neither the magic HdrS at byte 0x202 nor an ELF header")]
    NoKernel,
    /// A field points outside the file.
    #[error("the kernel image is cut off or damaged: {0} lies outside the file")]
    Outside(&'static str),
    /// Older than the payload fields.
    #[error("boot protocol {0:#06x} is too old: 0x0208 (Linux 2.6.26) or later is needed")]
    TooOld(u16),
    /// The payload did not unpack.
    #[error("the kernel inside the image: {0}")]
    Payload(#[from] UnpackError),
}

/// Takes the uncompressed kernel out of `image`. An image that is an ELF file already is copied.
pub fn vmlinux(image: &[u8]) -> Result<Vec<u8>, BzImageError> {
    if image.starts_with(b"\x7fELF") {
        return Ok(unpack(image, MAX_KERNEL_BYTES)?);
    }
    Ok(unpack(payload(image)?, MAX_KERNEL_BYTES)?)
}

/// The packed kernel within a bzImage.
fn payload(image: &[u8]) -> Result<&[u8], BzImageError> {
    if image.get(HEADER_MAGIC..HEADER_MAGIC + 4) != Some(b"HdrS") {
        return Err(BzImageError::NoKernel);
    }
    let protocol = u16_at(image, PROTOCOL).ok_or(BzImageError::Outside("the protocol version"))?;
    if protocol < PROTOCOL_WITH_PAYLOAD {
        return Err(BzImageError::TooOld(protocol));
    }
    let sectors = match image.get(SETUP_SECTS) {
        // Zero means four, for the oldest loaders.
        Some(0) => 4,
        Some(sectors) => usize::from(*sectors),
        None => return Err(BzImageError::Outside("the number of setup sectors")),
    };
    let offset = u32_at(image, PAYLOAD_OFFSET).ok_or(BzImageError::Outside("the payload's offset"))?;
    let length = u32_at(image, PAYLOAD_LENGTH).ok_or(BzImageError::Outside("the payload's length"))?;
    let start =
        ((sectors + 1) * 512).checked_add(offset as usize).ok_or(BzImageError::Outside("the payload"))?;
    let end = start.checked_add(length as usize).ok_or(BzImageError::Outside("the payload"))?;
    let payload = image.get(start..end).ok_or(BzImageError::Outside("the payload"))?;
    // An xz stream must not be followed by anything; the decoders of the others do not look behind their end, and
    // lz4's framing tells its end from these bytes.
    if payload.starts_with(b"\xfd7zXZ\0") {
        return Ok(payload.get(..payload.len().saturating_sub(4)).unwrap_or_default());
    }
    Ok(payload)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// Whether an uncompressed kernel can be started through the PVH entry: it is a 64-bit ELF file that carries the note.
pub fn has_pvh_entry(vmlinux: &[u8]) -> bool {
    pvh_entry(vmlinux).unwrap_or(false)
}

fn pvh_entry(vmlinux: &[u8]) -> object::Result<bool> {
    let header = FileHeader64::<Endianness>::parse(vmlinux)?;
    let endian = header.endian()?;
    for segment in header.program_headers(endian, vmlinux)? {
        if segment.p_type(endian) != PT_NOTE {
            continue;
        }
        let Some(mut notes) = segment.notes(endian, vmlinux)? else { continue };
        while let Some(note) = notes.next()? {
            if note.name() == b"Xen" && note.n_type(endian) == NoteType(XEN_ELFNOTE_PHYS32_ENTRY) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// The smallest 64-bit ELF file with one note segment.
    fn elf(note_type: u32) -> Vec<u8> {
        let mut bytes = vec![0_u8; 64 + 56];
        bytes[..8].copy_from_slice(b"\x7fELF\x02\x01\x01\0");
        bytes[16] = 2;
        bytes[18] = 62;
        bytes[20] = 1;
        bytes[32] = 64;
        bytes[52] = 64;
        bytes[54] = 56;
        bytes[56] = 1;
        bytes[64] = 4;
        bytes[72..80].copy_from_slice(&120_u64.to_le_bytes());
        bytes[96..104].copy_from_slice(&24_u64.to_le_bytes());
        bytes[112] = 4;
        for word in [4_u32, 8, note_type] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(b"Xen\0");
        bytes.extend(0x0100_0000_u64.to_le_bytes());
        bytes
    }

    fn bzimage(kernel: &[u8]) -> Vec<u8> {
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(kernel).unwrap();
        let mut payload = packer.finish().unwrap();
        payload.extend(u32::try_from(kernel.len()).unwrap().to_le_bytes());
        let mut image = vec![0_u8; 2 * 512 + 16];
        image[SETUP_SECTS] = 1;
        image[HEADER_MAGIC..HEADER_MAGIC + 4].copy_from_slice(b"HdrS");
        image[PROTOCOL..PROTOCOL + 2].copy_from_slice(&0x020f_u16.to_le_bytes());
        image[PAYLOAD_OFFSET..PAYLOAD_OFFSET + 4].copy_from_slice(&16_u32.to_le_bytes());
        let length = u32::try_from(payload.len()).unwrap();
        image[PAYLOAD_LENGTH..PAYLOAD_LENGTH + 4].copy_from_slice(&length.to_le_bytes());
        image.extend(payload);
        image
    }

    #[test]
    fn the_kernel_comes_out_and_its_note_is_found() {
        let kernel = elf(XEN_ELFNOTE_PHYS32_ENTRY);
        let out = vmlinux(&bzimage(&kernel)).unwrap();
        assert_eq!(out, kernel);
        assert!(has_pvh_entry(&out));
        assert!(!has_pvh_entry(&elf(1)));
        assert_eq!(vmlinux(&kernel).unwrap(), kernel, "an ELF kernel stays what it is");
    }

    #[test]
    fn damage_is_named() {
        let image = bzimage(&elf(18));
        assert_eq!(vmlinux(b"MZ"), Err(BzImageError::NoKernel));
        assert_eq!(vmlinux(&image[..image.len() - 1]), Err(BzImageError::Outside("the payload")));
        assert_eq!(vmlinux(&image[..0x24e]), Err(BzImageError::Outside("the payload's length")));
        let mut old = image.clone();
        old[PROTOCOL..PROTOCOL + 2].copy_from_slice(&0x0207_u16.to_le_bytes());
        assert_eq!(vmlinux(&old), Err(BzImageError::TooOld(0x0207)));
        let mut far = image;
        far[PAYLOAD_OFFSET..PAYLOAD_OFFSET + 4].copy_from_slice(&u32::MAX.to_le_bytes());
        assert_eq!(vmlinux(&far), Err(BzImageError::Outside("the payload")));
    }

    proptest::proptest! {
        #[test]
        fn mutations_never_panic(changes in proptest::collection::vec((0_usize..2000, proptest::num::u8::ANY), 0..12), cut in 0_usize..2000) {
            let mut image = bzimage(&elf(18));
            let mut kernel = elf(18);
            for (at, byte) in changes {
                let (image_at, kernel_at) = (at % image.len(), at % kernel.len());
                image[image_at] = byte;
                kernel[kernel_at] = byte;
            }
            image.truncate(cut);
            kernel.truncate(cut);
            let _ = vmlinux(&image);
            let _ = has_pvh_entry(&kernel);
        }
    }
}
