//! Completion queues. Reading one moves everything.

#![expect(unsafe_code, reason = "called from C through pointers")]

use std::ptr;
use std::sync::Arc;

use libc::{c_char, c_int, c_void, size_t, ssize_t};

use super::entry::{NOT_HERE, only_close};
use super::types::{
    FI_ADDR_UNSPEC, FI_CLASS_CQ, FI_CQ_FORMAT_CONTEXT, FI_CQ_FORMAT_DATA, FI_CQ_FORMAT_MSG,
    FI_CQ_FORMAT_TAGGED, FI_EAVAIL, FI_WAIT_NONE, FI_WAIT_UNSPEC, fi_cq_attr, fi_cq_err_entry,
    fi_cq_tagged_entry, fi_ops, fi_ops_cq, fid, fid_cq,
};
use super::{Shared, guard, guard_size, size};
use crate::engine::completion::{Completion, Queue};

#[repr(C)]
pub(super) struct Cq {
    head: fid_cq,
    shared: Arc<Shared>,
    pub(super) number: usize,
    /// Bytes of an entry: the shorter formats are beginnings of the longest.
    entry: usize,
}

static FID: fi_ops = only_close(close);
static OPS: fi_ops_cq = fi_ops_cq {
    size: size_of::<fi_ops_cq>(),
    read: Some(read),
    readfrom: Some(readfrom),
    readerr: Some(readerr),
    sread: NOT_HERE,
    sreadfrom: NOT_HERE,
    signal: NOT_HERE,
    strerror: Some(strerror),
};

pub(super) fn open(
    shared: &Arc<Shared>,
    attributes: Option<&fi_cq_attr>,
    context: *mut c_void,
) -> Result<*mut fid_cq, c_int> {
    let (format, wait) = attributes.map_or((0, 0), |attributes| (attributes.format, attributes.wait_obj));
    let entry = match format {
        FI_CQ_FORMAT_CONTEXT => 8,
        FI_CQ_FORMAT_MSG => 24,
        FI_CQ_FORMAT_DATA => 40,
        0 | FI_CQ_FORMAT_TAGGED => size_of::<fi_cq_tagged_entry>(),
        _ => return Err(libc::EINVAL),
    };
    // Nothing here wakes anybody.
    if ![FI_WAIT_NONE, FI_WAIT_UNSPEC].contains(&wait) {
        return Err(libc::ENOSYS);
    }
    let fid = fid { fclass: FI_CLASS_CQ, context, ops: &raw const FID };
    let head = fid_cq { fid, ops: &raw const OPS };
    let number = shared.lock().engine.open_queue();
    Ok(Box::into_raw(Box::new(Cq { head, shared: Arc::clone(shared), number, entry })).cast())
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    guard(|| {
        // SAFETY: made in `open` and closed once.
        drop(unsafe { Box::from_raw(fid.cast::<Cq>()) });
        0
    })
}

fn entry(completion: &Completion) -> fi_cq_tagged_entry {
    fi_cq_tagged_entry {
        op_context: ptr::with_exposed_provenance_mut(completion.context),
        flags: completion.flags,
        len: completion.length,
        buf: ptr::with_exposed_provenance_mut(completion.buffer),
        data: completion.data,
        tag: completion.tag,
    }
}

unsafe extern "C" fn read(queue: *mut fid_cq, place: *mut c_void, count: size_t) -> ssize_t {
    // SAFETY: the caller's promises are passed on.
    unsafe { readfrom(queue, place, count, ptr::null_mut()) }
}

unsafe extern "C" fn readfrom(
    queue: *mut fid_cq,
    place: *mut c_void,
    count: size_t,
    sources: *mut u64,
) -> ssize_t {
    guard_size(|| {
        // SAFETY: made in `open` and not closed yet.
        let queue = unsafe { &*queue.cast::<Cq>() };
        let mut state = queue.shared.lock();
        state.calls = state.calls.wrapping_add(1);
        let moved = state.engine.progress();
        let mut given = 0;
        while given < count {
            let Some(completion) = state.engine.pop(queue.number) else { break };
            let entry = entry(&completion);
            // SAFETY: the caller passes room for `count` entries of the queue's format.
            let to = unsafe { place.cast::<u8>().add(given * queue.entry) };
            // SAFETY: as above; an entry of the format is a beginning of the longest.
            unsafe { ptr::copy_nonoverlapping((&raw const entry).cast::<u8>(), to, queue.entry) };
            if !sources.is_null() {
                let known = |source| state.ranks.iter().position(|rank| *rank == Some(source));
                let source = completion.source.and_then(known).map_or(FI_ADDR_UNSPEC, |at| at as u64);
                // SAFETY: the caller passes room for `count` addresses, or none.
                let to = unsafe { sources.add(given) };
                // SAFETY: as above.
                unsafe { to.write(source) };
            }
            given += 1;
        }
        if given > 0 || moved {
            state.idle.reset();
        }
        if given > 0 {
            return given.cast_signed();
        }
        if state.engine.queue(queue.number).is_some_and(|queue| queue.has_failed()) {
            return size(-FI_EAVAIL);
        }
        if !moved {
            let rest = state.idle.rest();
            drop(state);
            rest.take();
        }
        size(-libc::EAGAIN)
    })
}

unsafe extern "C" fn readerr(queue: *mut fid_cq, place: *mut fi_cq_err_entry, _flags: u64) -> ssize_t {
    guard_size(|| {
        // SAFETY: made in `open` and not closed yet.
        let queue = unsafe { &*queue.cast::<Cq>() };
        let mut state = queue.shared.lock();
        let failed = state.engine.queue(queue.number).and_then(Queue::pop_failed);
        let Some(failed) = failed else { return size(-libc::EAGAIN) };
        let fi_cq_tagged_entry { op_context, flags, len, buf, data, tag } = entry(&failed);
        // SAFETY: the caller passes room for an entry.
        let place = unsafe { &mut *place };
        (place.op_context, place.flags, place.len, place.buf) = (op_context, flags, len, buf);
        (place.data, place.tag, place.olen) = (data, tag, failed.overflow);
        (place.err, place.prov_errno) = (failed.error, failed.error);
        // Errors carry no more data; what the caller offered for it stays as it is.
        place.err_data_size = 0;
        1
    })
}

unsafe extern "C" fn strerror(
    _queue: *mut fid_cq,
    number: c_int,
    _data: *const c_void,
    place: *mut c_char,
    length: size_t,
) -> *const c_char {
    let text = match number {
        libc::ECONNABORTED => c"the peer is gone or broke the protocol",
        libc::ECANCELED => c"canceled",
        libc::ENOMSG => c"no such message",
        crate::engine::core::TRUNCATED => c"the message is longer than its receive",
        _ => c"no error of this provider",
    };
    if !place.is_null() && length > 0 {
        // SAFETY: the caller passes `length` bytes, and `strncpy` writes no more.
        unsafe { libc::strncpy(place, text.as_ptr(), length) };
        // SAFETY: the last of them.
        let last = unsafe { place.add(length - 1) };
        // SAFETY: as above.
        unsafe { last.write(0) };
    }
    text.as_ptr()
}
