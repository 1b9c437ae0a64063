//! What is recognisably on a block device: magic numbers of file systems, volume managers, partition tables, swap.
//!
//! Better one thing too many than one too few: a device with any of these is not written to unasked. Only reads.
//! Sources: the formats' own headers in the Linux kernel, and the list that `wipefs` of util-linux knows.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Where a magic number is.
#[derive(Debug, Clone, Copy)]
enum At {
    /// Bytes from the begin.
    Begin(u64),
    /// Bytes before the end, rounded down to a multiple of the second number.
    End(u64, u64),
}

struct Magic {
    name: &'static str,
    at: At,
    bytes: &'static [u8],
}

const fn magic(name: &'static str, at: u64, bytes: &'static [u8]) -> Magic {
    Magic { name, at: At::Begin(at), bytes }
}

const KNOWN: [Magic; 51] = [
    magic("an xfs file system", 0, b"XFSB"),
    magic("a btrfs file system", 0x10040, b"_BHRfS_M"),
    magic("an f2fs file system", 0x400, &[0x10, 0x20, 0xf5, 0xf2]),
    magic("a bcache device or bcachefs file system", 0x1018, &[0xc6, 0x85, 0x73, 0xf6]),
    magic("a FAT file system", 0x36, b"FAT12   "),
    magic("a FAT file system", 0x36, b"FAT16   "),
    magic("a FAT file system", 0x36, b"FAT     "),
    magic("a FAT file system", 0x52, b"FAT32   "),
    magic("an exFAT file system", 3, b"EXFAT   "),
    magic("an NTFS file system", 3, b"NTFS    "),
    magic("a ReFS file system", 3, b"ReFS\0\0\0\0"),
    magic("a BitLocker volume", 3, b"-FVE-FS-"),
    magic("an APFS container", 0x20, b"NXSB"),
    magic("an HFS+ file system", 0x400, b"H+\0\x04"),
    magic("an HFSX file system", 0x400, b"HX\0\x05"),
    magic("an HFS file system", 0x400, b"BD"),
    magic("a squashfs file system", 0, b"hsqs"),
    magic("an erofs file system", 0x400, &[0xe2, 0xe1, 0xf5, 0xe0]),
    magic("an ISO 9660 file system", 0x8001, b"CD001"),
    magic("a UDF file system", 0x8001, b"BEA01"),
    magic("a jfs file system", 0x8000, b"JFS1"),
    magic("a reiserfs file system", 0x10034, b"ReIsEr"),
    magic("a reiser4 file system", 0x10000, b"ReIsEr4"),
    magic("a nilfs2 file system", 0x406, &[0x34, 0x34, 0, 0]),
    magic("a gfs2 file system", 0x10000, &[0x01, 0x16, 0x19, 0x70]),
    magic("an ocfs2 file system", 0x1000, b"OCFSV2"),
    magic("an ocfs2 file system", 0x2000, b"OCFSV2"),
    magic("a VMFS volume", 0x10_0000, &[0x0d, 0xd0, 0x01, 0xc0]),
    magic("a VMFS volume", 0x20_0000, &[0x5e, 0xf1, 0xab, 0x2f]),
    magic("a Ceph object store", 0, b"bluestore block device"),
    magic("a VDO volume", 0, b"dmvdo001"),
    magic("a Stratis pool", 0x208, b"!Stra0tis\x86\xff\x02^\x41rh"),
    magic("an LVM1 physical volume", 0, b"HM\x01\0"),
    magic("an LVM2 physical volume", 0, b"LABELONE"),
    magic("an LVM2 physical volume", 0x200, b"LABELONE"),
    magic("an LVM2 physical volume", 0x400, b"LABELONE"),
    magic("an LVM2 physical volume", 0x600, b"LABELONE"),
    magic("a LUKS volume", 0, b"LUKS\xba\xbe"),
    magic("a LUKS2 volume", 0x4000, b"SKUL\xba\xbe"),
    magic("a member of a RAID (md 1.1)", 0, &[0xfc, 0x4e, 0x2b, 0xa9]),
    magic("a member of a RAID (md 1.2)", 0x1000, &[0xfc, 0x4e, 0x2b, 0xa9]),
    Magic {
        name: "a member of a RAID (md 1.0)",
        at: At::End(0x2000, 0x1000),
        bytes: &[0xfc, 0x4e, 0x2b, 0xa9],
    },
    Magic {
        name: "a member of a RAID (md 0.90)",
        at: At::End(0x1_0000, 0x1_0000),
        bytes: &[0xfc, 0x4e, 0x2b, 0xa9],
    },
    Magic { name: "a member of an Intel RAID", at: At::End(0x400, 0x200), bytes: b"Intel Raid ISM Cfg" },
    magic("a partition table (GPT)", 0x200, b"EFI PART"),
    magic("a partition table (GPT)", 0x1000, b"EFI PART"),
    Magic { name: "a partition table (GPT, its copy)", at: At::End(0x200, 0x200), bytes: b"EFI PART" },
    Magic { name: "a partition table (GPT, its copy)", at: At::End(0x1000, 0x1000), bytes: b"EFI PART" },
    magic("a partition table (Apple)", 0x200, b"PM\0\0"),
    magic("a partition table (Sun)", 508, &[0xda, 0xbe]),
    magic("a VxFS file system", 0x400, &[0xf5, 0xfc, 0x01, 0xa5]),
];

/// Swap areas have their mark at the end of their first page, whatever its size is.
const PAGES: [u64; 5] = [4096, 8192, 16384, 32768, 65536];
const SWAP_MARKS: [&[u8; 10]; 6] =
    [b"SWAPSPACE2", b"SWAP-SPACE", b"S1SUSPEND\0", b"S2SUSPEND\0", b"ULSUSPEND\0", b"LINHIB0001"];
/// Uberblocks of ZFS: an array from 128 KiB on, of 1 KiB each or more, in either byte order.
const ZFS_BEGIN: u64 = 128 << 10;
const ZFS_END: u64 = 256 << 10;
const ZFS_MARKS: [[u8; 8]; 2] = [0x00ba_b10c_u64.to_le_bytes(), 0x00ba_b10c_u64.to_be_bytes()];

/// Everything recognised on the first and last bytes of a device of `size` bytes, in words: `an ext4 file system`.
///
/// # Errors
/// It cannot be read: then nobody knows what is on it.
pub fn find(device: &File, size: u64) -> io::Result<Vec<String>> {
    let view = View { device, size };
    let mut found = Vec::new();
    let mut add = |name: &str| {
        if !found.iter().any(|known| known == name) {
            found.push(name.to_owned());
        }
    };
    for magic in &KNOWN {
        let at = match magic.at {
            At::Begin(at) => Some(at),
            At::End(before, grain) => size.checked_sub(before).map(|at| at / grain * grain),
        };
        if let Some(at) = at
            && view.bytes(at, magic.bytes.len())?.as_deref() == Some(magic.bytes)
        {
            add(magic.name);
        }
    }
    if view.is_ext()? {
        add("an ext2, ext3 or ext4 file system");
    }
    if view.is_boot_record()? {
        add("a partition table or boot record (MBR)");
    }
    if view.is_swap()? {
        add("a swap area");
    }
    if view.is_zfs()? {
        add("a ZFS pool");
    }
    Ok(found)
}

struct View<'a> {
    device: &'a File,
    size: u64,
}

impl View<'_> {
    /// None beyond the end.
    fn bytes(&self, at: u64, length: usize) -> io::Result<Option<Vec<u8>>> {
        if at.checked_add(length as u64).is_none_or(|end| end > self.size) {
            return Ok(None);
        }
        let mut bytes = vec![0; length];
        self.device.read_exact_at(&mut bytes, at)?;
        Ok(Some(bytes))
    }

    /// The mark has two bytes only, so block size and revision must make sense, too.
    fn is_ext(&self) -> io::Result<bool> {
        let Some(block) = self.bytes(0x400, 0x60)? else { return Ok(false) };
        let word = |at: usize| {
            let bytes: Option<[u8; 4]> = block.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
            bytes.map(u32::from_le_bytes)
        };
        let marked = block.get(0x38..0x3a) == Some(&[0x53, 0xef]);
        Ok(marked
            && word(0x18).is_some_and(|log| log <= 6)
            && word(0x4c).is_some_and(|revision| revision <= 1))
    }

    /// The mark has two bytes only: the four entries must look like entries, and either one is used or there is code.
    fn is_boot_record(&self) -> io::Result<bool> {
        let Some(sector) = self.bytes(0, 512)? else { return Ok(false) };
        let entries: Vec<&[u8]> = sector.get(446..510).unwrap_or_default().chunks(16).collect();
        let plausible = entries.iter().all(|entry| matches!(entry.first(), Some(0 | 0x80)));
        let used = entries.iter().any(|entry| entry.get(4).is_some_and(|kind| *kind != 0));
        let code = matches!(sector.first(), Some(0xeb | 0xe9 | 0x33 | 0xfa | 0xfc));
        Ok(sector.get(510..) == Some(&[0x55, 0xaa]) && (code || plausible && used))
    }

    fn is_swap(&self) -> io::Result<bool> {
        for page in PAGES {
            if let Some(mark) = self.bytes(page - 10, 10)?
                && SWAP_MARKS.iter().any(|known| known.as_slice() == mark)
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn is_zfs(&self) -> io::Result<bool> {
        let Some(array) = self.bytes(ZFS_BEGIN, usize::try_from(ZFS_END - ZFS_BEGIN).unwrap_or(0))? else {
            return Ok(false);
        };
        let starts = array.chunks(1024).filter_map(|block| block.get(..8));
        Ok(starts.into_iter().any(|begin| ZFS_MARKS.iter().any(|mark| mark == begin)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u64 = 4 << 20;

    fn with(bytes: &[(u64, &[u8])]) -> Vec<String> {
        let device = tempfile::tempfile().unwrap();
        device.set_len(SIZE).unwrap();
        for (at, bytes) in bytes {
            device.write_all_at(bytes, *at).unwrap();
        }
        find(&device, SIZE).unwrap()
    }

    #[test]
    fn an_empty_device_carries_nothing_and_a_tiny_one_does_not_break() {
        assert_eq!(with(&[]), Vec::<String>::new());
        for size in [0, 1, 511, 512, 4096, 70_000] {
            let device = tempfile::tempfile().unwrap();
            device.set_len(size).unwrap();
            assert_eq!(find(&device, size).unwrap(), Vec::<String>::new(), "{size}");
        }
    }

    #[test]
    fn every_known_mark_is_found_where_it_is() {
        for magic in &KNOWN {
            let at = match magic.at {
                At::Begin(at) => at,
                At::End(before, grain) => (SIZE - before) / grain * grain,
            };
            let found = with(&[(at, magic.bytes)]);
            assert!(found.iter().any(|name| name == magic.name), "{}: {found:?}", magic.name);
        }
        for page in PAGES {
            for mark in SWAP_MARKS {
                assert_eq!(with(&[(page - 10, mark)]), ["a swap area"]);
            }
        }
        assert_eq!(with(&[(ZFS_BEGIN + 32 * 1024, &ZFS_MARKS[0])]), ["a ZFS pool"]);
    }

    #[test]
    fn short_marks_need_more_than_themselves() {
        assert_eq!(
            with(&[(0x438, &[0x53, 0xef])]),
            ["an ext2, ext3 or ext4 file system"],
            "revision 0, 1 KiB"
        );
        assert_eq!(with(&[(0x438, &[0x53, 0xef]), (0x418, &[99])]), Vec::<String>::new());
        assert_eq!(with(&[(510, &[0x55, 0xaa])]), Vec::<String>::new(), "no entry, no code");
        let table: [(u64, &[u8]); 2] = [(510, &[0x55, 0xaa]), (450, &[0x83])];
        assert_eq!(with(&table), ["a partition table or boot record (MBR)"]);
        assert_eq!(with(&[(510, &[0x55, 0xaa]), (450, &[0x83]), (446, &[7])]), Vec::<String>::new());
        assert_eq!(with(&[(510, &[0x55, 0xaa]), (0, &[0xeb, 0x58, 0x90])]).len(), 1);
    }

    #[test]
    fn what_cannot_be_read_is_an_error() {
        let device = tempfile::tempfile().unwrap();
        device.set_len(100).unwrap();
        assert!(find(&device, SIZE).is_err());
    }

    /// Random data, as the disk probe leaves it, must not lock the device against the next run.
    #[test]
    fn what_the_disk_probe_writes_is_not_mistaken_for_anything() {
        use rand::{Rng, SeedableRng};
        for seed in 0..40 {
            let mut random = rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(seed);
            let mut bytes = vec![0; 4 << 20];
            random.fill_bytes(&mut bytes);
            assert_eq!(with(&[(0, &bytes)]), Vec::<String>::new(), "seed {seed}");
        }
    }
}
