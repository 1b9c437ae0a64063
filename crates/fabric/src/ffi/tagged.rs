//! Tagged messages.

#![expect(unsafe_code, reason = "called from C through pointers")]

use std::sync::atomic::Ordering;

use libc::{c_int, c_void, iovec, size_t, ssize_t};

use super::endpoint::{Endpoint, of};
use super::types::{
    FI_ADDR_UNSPEC, FI_CLAIM, FI_COMPLETION, FI_DISCARD, FI_EBADFLAGS, FI_INJECT, FI_PEEK, FI_REMOTE_CQ_DATA,
    fi_msg_tagged, fi_ops_tagged, fid_ep,
};
use super::{State, guard_size, size};
use crate::engine::core::{Load, Outgoing, Receive};
use crate::engine::matching::Wanted;
use crate::engine::{Look, Refusal};
use crate::window::{Source, Target};
use crate::wire::{MOST_EAGER, MOST_MESSAGE};

pub(super) static OPS: fi_ops_tagged = fi_ops_tagged {
    size: size_of::<fi_ops_tagged>(),
    recv: Some(recv),
    recvv: Some(recvv),
    recvmsg: Some(recvmsg),
    send: Some(send),
    sendv: Some(sendv),
    sendmsg: Some(sendmsg),
    inject: Some(inject),
    senddata: Some(senddata),
    injectdata: Some(injectdata),
};

fn refused(refusal: Refusal) -> ssize_t {
    size(match refusal {
        Refusal::Again => -libc::EAGAIN,
        Refusal::Gone => -libc::ECONNABORTED,
        Refusal::Unknown => -libc::ENOENT,
    })
}

fn rank(state: &State, number: u64) -> Option<u32> {
    state.ranks.get(usize::try_from(number).ok()?).copied().flatten()
}

/// A send in the program's words.
struct Asked {
    buffer: *const c_void,
    length: usize,
    to: u64,
    tag: u64,
    data: Option<u64>,
    context: *mut c_void,
    /// Whether it may complete, and its flags.
    completes: bool,
    flags: u64,
}

fn submit(endpoint: &Endpoint, asked: &Asked) -> ssize_t {
    let inject = asked.flags & FI_INJECT != 0;
    if asked.length as u64 > MOST_MESSAGE || (inject && asked.length > MOST_EAGER) {
        return size(-libc::EMSGSIZE);
    }
    let wants = !endpoint.selective.load(Ordering::Relaxed) || asked.flags & FI_COMPLETION != 0;
    let context = (asked.completes && wants).then(|| asked.context.expose_provenance());
    // SAFETY: the program lends the memory until the send completes; where it does so only for this call, the engine
    // copies what it keeps.
    let source = unsafe { Source::new(asked.buffer.cast(), asked.length) };
    let outgoing = Outgoing { load: Load::User(source), tag: asked.tag, data: asked.data, context, inject };
    let mut state = endpoint.shared.lock();
    let Some(peer) = rank(&state, asked.to) else { return size(-libc::EINVAL) };
    let sent = state.engine.send(peer, outgoing);
    endpoint.shared.after_send(&mut state, peer);
    sent.map_or_else(refused, |()| 0)
}

unsafe extern "C" fn send(
    endpoint: *mut fid_ep,
    buffer: *const c_void,
    length: size_t,
    _description: *mut c_void,
    to: u64,
    tag: u64,
    context: *mut c_void,
) -> ssize_t {
    guard_size(|| {
        // SAFETY: libfabric's promise about its objects.
        let endpoint = unsafe { of(endpoint) };
        let flags = endpoint.send_flags.load(Ordering::Relaxed);
        submit(endpoint, &Asked { buffer, length, to, tag, data: None, context, completes: true, flags })
    })
}

unsafe extern "C" fn senddata(
    endpoint: *mut fid_ep,
    buffer: *const c_void,
    length: size_t,
    _description: *mut c_void,
    data: u64,
    to: u64,
    tag: u64,
    context: *mut c_void,
) -> ssize_t {
    guard_size(|| {
        // SAFETY: libfabric's promise about its objects.
        let endpoint = unsafe { of(endpoint) };
        let flags = endpoint.send_flags.load(Ordering::Relaxed);
        submit(
            endpoint,
            &Asked { buffer, length, to, tag, data: Some(data), context, completes: true, flags },
        )
    })
}

unsafe extern "C" fn inject(
    endpoint: *mut fid_ep,
    buffer: *const c_void,
    length: size_t,
    to: u64,
    tag: u64,
) -> ssize_t {
    guard_size(|| {
        // SAFETY: libfabric's promise about its objects.
        let endpoint = unsafe { of(endpoint) };
        let (data, context, completes, flags) = (None, std::ptr::null_mut(), false, FI_INJECT);
        submit(endpoint, &Asked { buffer, length, to, tag, data, context, completes, flags })
    })
}

unsafe extern "C" fn injectdata(
    endpoint: *mut fid_ep,
    buffer: *const c_void,
    length: size_t,
    data: u64,
    to: u64,
    tag: u64,
) -> ssize_t {
    guard_size(|| {
        // SAFETY: libfabric's promise about its objects.
        let endpoint = unsafe { of(endpoint) };
        let (data, context, completes, flags) = (Some(data), std::ptr::null_mut(), false, FI_INJECT);
        submit(endpoint, &Asked { buffer, length, to, tag, data, context, completes, flags })
    })
}

/// The only part of a message that may have one or none.
///
/// # Safety
/// `parts` are `count` parts that can be read.
unsafe fn only_part(parts: *const iovec, count: size_t) -> Option<(*mut c_void, size_t)> {
    match count {
        0 => Some((std::ptr::null_mut(), 0)),
        // SAFETY: the caller's promise.
        1 => unsafe { parts.as_ref() }.map(|part| (part.iov_base, part.iov_len)),
        _ => None,
    }
}

unsafe extern "C" fn sendv(
    endpoint: *mut fid_ep,
    parts: *const iovec,
    _descriptions: *mut *mut c_void,
    count: size_t,
    to: u64,
    tag: u64,
    context: *mut c_void,
) -> ssize_t {
    guard_size(|| {
        // SAFETY: the program passes `count` parts.
        let Some((buffer, length)) = (unsafe { only_part(parts, count) }) else { return size(-libc::EINVAL) };
        // SAFETY: the caller's promises are passed on.
        unsafe { send(endpoint, buffer, length, std::ptr::null_mut(), to, tag, context) }
    })
}

unsafe extern "C" fn sendmsg(endpoint: *mut fid_ep, message: *const fi_msg_tagged, flags: u64) -> ssize_t {
    guard_size(|| {
        // SAFETY: libfabric's promise about its objects.
        let endpoint = unsafe { of(endpoint) };
        // SAFETY: the program passes a message.
        let message = unsafe { &*message };
        // SAFETY: with as many parts as it says.
        let part = unsafe { only_part(message.msg_iov, message.iov_count) };
        let Some((buffer, length)) = part else { return size(-libc::EINVAL) };
        let data = (flags & FI_REMOTE_CQ_DATA != 0).then_some(message.data);
        let (to, tag, context) = (message.addr, message.tag, message.context);
        submit(endpoint, &Asked { buffer, length, to, tag, data, context, completes: true, flags })
    })
}

/// The label that a receive asks for; none if the source is unknown.
fn wanted(state: &State, source: u64, tag: u64, ignore: u64) -> Result<Wanted, c_int> {
    if source == FI_ADDR_UNSPEC {
        return Ok(Wanted { source: None, tag, ignore });
    }
    rank(state, source).map(|rank| Wanted { source: Some(rank), tag, ignore }).ok_or(libc::EINVAL)
}

/// The program lends memory for a receive.
fn receive_into(buffer: *mut c_void, length: size_t, context: *mut c_void) -> Receive {
    // SAFETY: the program lends the memory until the receive completes.
    let target = unsafe { Target::new(buffer.cast(), length) };
    Receive { target, context: context.expose_provenance() }
}

unsafe extern "C" fn recv(
    endpoint: *mut fid_ep,
    buffer: *mut c_void,
    length: size_t,
    _description: *mut c_void,
    source: u64,
    tag: u64,
    ignore: u64,
    context: *mut c_void,
) -> ssize_t {
    guard_size(|| {
        // SAFETY: libfabric's promise about its objects.
        let mut state = unsafe { of(endpoint) }.shared.lock();
        match wanted(&state, source, tag, ignore) {
            Ok(wanted) => {
                state.engine.receive(wanted, receive_into(buffer, length, context));
                0
            }
            Err(error) => size(-error),
        }
    })
}

unsafe extern "C" fn recvv(
    endpoint: *mut fid_ep,
    parts: *const iovec,
    _descriptions: *mut *mut c_void,
    count: size_t,
    source: u64,
    tag: u64,
    ignore: u64,
    context: *mut c_void,
) -> ssize_t {
    guard_size(|| {
        // SAFETY: the program passes `count` parts.
        let Some((buffer, length)) = (unsafe { only_part(parts, count) }) else { return size(-libc::EINVAL) };
        // SAFETY: the caller's promises are passed on.
        unsafe { recv(endpoint, buffer, length, std::ptr::null_mut(), source, tag, ignore, context) }
    })
}

unsafe extern "C" fn recvmsg(endpoint: *mut fid_ep, message: *const fi_msg_tagged, flags: u64) -> ssize_t {
    guard_size(|| {
        // SAFETY: libfabric's promise about its objects.
        let endpoint = unsafe { of(endpoint) };
        // SAFETY: the program passes a message.
        let message = unsafe { &*message };
        // SAFETY: with as many parts as it says.
        let part = unsafe { only_part(message.msg_iov, message.iov_count) };
        let context = message.context.expose_provenance();
        let (peek, claim, discard) = (flags & FI_PEEK != 0, flags & FI_CLAIM != 0, flags & FI_DISCARD != 0);
        let mut state = endpoint.shared.lock();
        let wanted = match wanted(&state, message.addr, message.tag, message.ignore) {
            Ok(wanted) => wanted,
            Err(error) => return size(-error),
        };
        let look = match (claim, discard) {
            (true, true) if peek => return size(-FI_EBADFLAGS),
            (false, false) => Look::Only,
            (false, true) => Look::Discard,
            (true, _) => Look::Claim,
        };
        if peek {
            state.engine.look(&wanted, context, look);
            return 0;
        }
        let receive = match part {
            _ if discard => None,
            Some((buffer, length)) => Some(receive_into(buffer, length, message.context)),
            None => return size(-libc::EINVAL),
        };
        match (claim, receive) {
            (true, receive) => state.engine.claim(context, receive).map_or_else(refused, |()| 0),
            (false, Some(receive)) => {
                state.engine.receive(wanted, receive);
                0
            }
            (false, None) => size(-FI_EBADFLAGS),
        }
    })
}
