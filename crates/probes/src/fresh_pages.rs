//! Memory that nobody has touched yet, page by page: an anonymous mapping without huge pages, which node each page lies
//! on, and which node the calling thread runs on.

#![expect(
    unsafe_code,
    reason = "mappings, the first store into a page, and two system calls that have no wrapper"
)]

use std::ffi::{c_int, c_void};
use std::num::NonZeroUsize;
use std::ptr::{self, NonNull};

use nix::errno::Errno;
use nix::sys::mman::{MapFlags, MmapAdvise, ProtFlags, madvise, mmap_anonymous, munmap};
use nix::unistd::{SysconfVar, sysconf};

use crate::error::WorkError;
use units::Bytes;

/// Pages per question which nodes they lie on.
const PAGES_PER_QUESTION: usize = 1024;

/// Size of a page of this kernel.
pub fn page_bytes() -> Bytes {
    let told = sysconf(SysconfVar::PAGE_SIZE).ok().flatten().and_then(|size| u64::try_from(size).ok());
    Bytes::from_bytes(told.filter(|size| size.is_power_of_two()).unwrap_or(4096))
}

/// A mapping whose pages are not there until they are touched. Dropping it gives them back to the kernel.
#[derive(Debug)]
pub struct FreshPages {
    first: NonNull<c_void>,
    page: usize,
    pages: usize,
}

impl FreshPages {
    /// Maps `size`, rounded up to whole pages.
    ///
    /// # Errors
    /// The kernel does not give that much address space.
    pub fn map(size: Bytes) -> Result<Self, WorkError> {
        let page = page_bytes().to_usize();
        let pages = size.to_usize().div_ceil(page).max(1);
        let wanted = || format!("map {size} of fresh pages");
        let length = pages
            .checked_mul(page)
            .and_then(NonZeroUsize::new)
            .ok_or_else(|| WorkError::system(wanted(), std::io::ErrorKind::OutOfMemory))?;
        // SAFETY: a fresh anonymous private mapping at an address of the kernel's choice overlaps nothing.
        let first = unsafe {
            mmap_anonymous(None, length, ProtFlags::PROT_READ | ProtFlags::PROT_WRITE, MapFlags::MAP_PRIVATE)
        }
        .map_err(|errno| WorkError::system(wanted(), errno))?;
        let fresh = Self { first, page, pages };
        // SAFETY: advice on our own mapping changes no contents. A kernel without huge pages refuses, and gives none.
        let _ = unsafe { madvise(first, length.get(), MmapAdvise::MADV_NOHUGEPAGE) };
        Ok(fresh)
    }

    /// How many pages it has.
    pub const fn pages(&self) -> usize {
        self.pages
    }

    /// Size of each.
    pub const fn page_bytes(&self) -> usize {
        self.page
    }

    /// Stores one byte into a page; pages beyond the last one are left alone.
    #[inline]
    pub fn touch(&mut self, page: usize) {
        if page < self.pages {
            // SAFETY: the page lies inside of our mapping.
            let at = unsafe { self.first.byte_add(page * self.page) };
            // SAFETY: the mapping is writable, and `&mut self` makes this the only access.
            unsafe { at.cast::<u8>().write_volatile(1) };
        }
    }

    /// Address of the first page, as the kernel's tables name it.
    pub fn address(&self) -> usize {
        self.first.as_ptr().addr()
    }

    /// The node of each page that is there, by `move_pages(2)`, which without a list of targets moves nothing.
    ///
    /// # Errors
    /// The kernel has no such call, or a container forbids it.
    pub fn nodes(&self) -> Result<Vec<u32>, Errno> {
        let mut nodes = Vec::with_capacity(self.pages);
        for begin in (0..self.pages).step_by(PAGES_PER_QUESTION) {
            let end = self.pages.min(begin + PAGES_PER_QUESTION);
            let addresses: Vec<*mut c_void> =
                (begin..end).map(|page| self.first.as_ptr().wrapping_byte_add(page * self.page)).collect();
            let mut answers: Vec<c_int> = vec![-1; addresses.len()];
            // SAFETY: both lists have as many entries as the call is told; the kernel reads the first and writes the second.
            let outcome = unsafe {
                libc::syscall(
                    libc::SYS_move_pages,
                    0,
                    addresses.len(),
                    addresses.as_ptr(),
                    ptr::null::<c_int>(),
                    answers.as_mut_ptr(),
                    0,
                )
            };
            Errno::result(outcome)?;
            // Negative: why nothing is known of this page.
            nodes.extend(answers.into_iter().filter_map(|node| u32::try_from(node).ok()));
        }
        Ok(nodes)
    }
}

impl Drop for FreshPages {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, whole, and nobody can borrow from it any more.
        let _ = unsafe { munmap(self.first, self.pages * self.page) };
    }
}

/// The node of the CPU the calling thread runs on; none when the kernel does not say.
pub fn own_node() -> Option<u32> {
    let (mut cpu, mut node) = (0_u32, 0_u32);
    // SAFETY: the kernel writes two numbers to where it is told; the third argument has had no use since Linux 2.6.24.
    let outcome =
        unsafe { libc::syscall(libc::SYS_getcpu, &raw mut cpu, &raw mut node, ptr::null_mut::<c_void>()) };
    (outcome == 0).then_some(node)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_whole_and_each_is_touched_alone() {
        let page = page_bytes().get();
        let mut fresh = FreshPages::map(Bytes::from_bytes(3 * page + 1)).unwrap();
        assert_eq!(fresh.pages(), 4);
        fresh.touch(2);
        fresh.touch(4);
        match fresh.nodes() {
            Ok(nodes) => assert_eq!(nodes.len(), 1, "only one page is there: {nodes:?}"),
            Err(errno) => assert!(matches!(errno, Errno::ENOSYS | Errno::EPERM), "{errno}"),
        }
        assert_eq!(fresh.address() as u64 % page, 0);
    }

    #[test]
    fn more_than_the_address_space_is_refused_in_words() {
        let error = FreshPages::map(Bytes::from_bytes(u64::MAX - 5)).unwrap_err().to_string();
        assert!(error.starts_with("could not map"), "{error}");
    }
}
