//! Address vectors: libfabric's numbers for the ranks.

#![expect(unsafe_code, reason = "called from C through pointers")]

use std::ffi::CString;
use std::sync::Arc;

use libc::{c_char, c_int, c_void, size_t};

use super::entry::{NOT_HERE, only_close};
use super::types::{FI_ADDR_UNSPEC, FI_CLASS_AV, FI_ETOOSMALL, fi_ops, fi_ops_av, fid, fid_av};
use super::{Shared, guard, say};
use crate::address::{ADDRESS, Address};
use crate::fault::Fault;

#[repr(C)]
struct Vector {
    head: fid_av,
    shared: Arc<Shared>,
}

static FID: fi_ops = only_close(close);
static OPS: fi_ops_av = fi_ops_av {
    size: size_of::<fi_ops_av>(),
    insert: Some(insert),
    insertsvc: NOT_HERE,
    insertsym: NOT_HERE,
    remove: Some(remove),
    lookup: Some(lookup),
    straddr: Some(straddr),
    av_set: NOT_HERE,
};

pub(super) fn open(shared: &Arc<Shared>, context: *mut c_void) -> *mut fid_av {
    let fid = fid { fclass: FI_CLASS_AV, context, ops: &raw const FID };
    let head = fid_av { fid, ops: &raw const OPS };
    Box::into_raw(Box::new(Vector { head, shared: Arc::clone(shared) })).cast()
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    guard(|| {
        // SAFETY: made in `open` and closed once.
        drop(unsafe { Box::from_raw(fid.cast::<Vector>()) });
        0
    })
}

/// # Safety
/// `vector` was made in `open` and not closed yet.
unsafe fn shared<'a>(vector: *mut fid_av) -> &'a Shared {
    // SAFETY: the caller's promise; the head comes first.
    let vector = unsafe { &*vector.cast::<Vector>() };
    &vector.shared
}

unsafe extern "C" fn insert(
    vector: *mut fid_av,
    addresses: *const c_void,
    count: size_t,
    numbers: *mut u64,
    _flags: u64,
    _context: *mut c_void,
) -> c_int {
    guard(|| {
        // SAFETY: libfabric's promise about its objects.
        let shared = unsafe { shared(vector) };
        let mut inserted = 0;
        for at in 0..count {
            // SAFETY: the caller passes `count` addresses of the size that `fi_getname` tells.
            let address = unsafe { addresses.cast::<[u8; ADDRESS]>().add(at) };
            // SAFETY: as above; bytes need no alignment.
            let address = unsafe { address.read() };
            let number = match accept(shared, &address) {
                Ok(number) => {
                    inserted += 1;
                    number
                }
                Err(why) => {
                    say(&format!("rank {}: an address is not taken: {why}", shared.settings.rank));
                    FI_ADDR_UNSPEC
                }
            };
            if !numbers.is_null() {
                // SAFETY: the caller passes room for `count` numbers, or none.
                let to = unsafe { numbers.add(at) };
                // SAFETY: as above.
                unsafe { to.write(number) };
            }
        }
        inserted
    })
}

fn accept(shared: &Shared, address: &[u8; ADDRESS]) -> Result<u64, Fault> {
    let address = Address::decode(address)?;
    let settings = &shared.settings;
    if address.run != settings.run {
        return Err("it belongs to another run; ranks of one run have the same BULKHEAD_FABRIC_RUN"
            .to_owned()
            .into());
    }
    if address.rank >= settings.size {
        return Err(format!("wanted a rank below {}, got {}", settings.size, address.rank).into());
    }
    let mut state = shared.lock();
    super::endpoint::meet(shared, &mut state, &address)?;
    state.ranks.push(Some(address.rank));
    Ok(state.ranks.len() as u64 - 1)
}

unsafe extern "C" fn remove(vector: *mut fid_av, numbers: *mut u64, count: size_t, _flags: u64) -> c_int {
    guard(|| {
        // SAFETY: libfabric's promise about its objects.
        let mut state = unsafe { shared(vector) }.lock();
        for at in 0..count {
            // SAFETY: the caller passes `count` numbers.
            let number = unsafe { numbers.add(at) };
            // SAFETY: as above.
            let number = unsafe { number.read() };
            let rank = usize::try_from(number).ok().and_then(|number| state.ranks.get_mut(number));
            if let Some(rank) = rank {
                *rank = None;
            }
        }
        0
    })
}

unsafe extern "C" fn lookup(
    vector: *mut fid_av,
    number: u64,
    place: *mut c_void,
    length: *mut size_t,
) -> c_int {
    guard(|| {
        // SAFETY: libfabric's promise about its objects.
        let shared = unsafe { shared(vector) };
        let state = shared.lock();
        let known =
            usize::try_from(number).ok().and_then(|number| state.ranks.get(number).copied().flatten());
        let Some(rank) = known else { return -libc::EINVAL };
        let settings = &shared.settings;
        let address = Address { rank, host: settings.host, run: settings.run, socket: None, token: [0; 16] };
        // SAFETY: the caller passes a place and its length.
        unsafe { give(&address.encode(), place, length) }
    })
}

/// Copies an address to a place of the length that stands in `length`, and puts the address's there.
///
/// # Safety
/// `length` can be read and written, `place` has so many bytes.
pub(super) unsafe fn give(address: &[u8; ADDRESS], place: *mut c_void, length: *mut size_t) -> c_int {
    // SAFETY: the caller's promise.
    let room = unsafe { length.replace(ADDRESS) };
    if !place.is_null() {
        // SAFETY: the caller's promise, and no more than there is room for.
        unsafe { std::ptr::copy_nonoverlapping(address.as_ptr(), place.cast(), room.min(ADDRESS)) };
    }
    if room < ADDRESS { -FI_ETOOSMALL } else { 0 }
}

unsafe extern "C" fn straddr(
    _vector: *mut fid_av,
    address: *const c_void,
    place: *mut c_char,
    length: *mut size_t,
) -> *const c_char {
    // SAFETY: the caller passes an address of ours.
    let address = unsafe { address.cast::<[u8; ADDRESS]>().read() };
    let text = match Address::decode(&address) {
        Ok(address) => format!("bulkhead://rank-{}", address.rank),
        Err(why) => why.words,
    };
    let text = CString::new(text).unwrap_or_default();
    let bytes = text.as_bytes_with_nul();
    // SAFETY: the caller passes a length.
    let room = unsafe { length.replace(bytes.len()) };
    if place.is_null() || room == 0 {
        return place;
    }
    // SAFETY: as many bytes as the caller says, the last of them zero.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr().cast(), place, room.min(bytes.len())) };
    // SAFETY: inside of the caller's place.
    let last = unsafe { place.add(room.min(bytes.len()) - 1) };
    // SAFETY: as above.
    unsafe { last.write(0) };
    place
}
