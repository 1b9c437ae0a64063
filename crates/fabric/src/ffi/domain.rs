//! The domain object: endpoints, queues and address vectors are opened in it, and all of them share one engine.

#![expect(unsafe_code, reason = "called from C through pointers")]

use std::sync::Arc;

use libc::{c_int, c_void};

use super::entry::{NOT_HERE, only_close};
use super::types::{
    FI_CLASS_DOMAIN, fi_av_attr, fi_cq_attr, fi_info, fi_ops, fi_ops_domain, fi_ops_mr, fid, fid_av, fid_cq,
    fid_domain, fid_ep,
};
use super::{Shared, endpoint, guard, queue, vector};
use crate::settings::Settings;

#[repr(C)]
struct Domain {
    head: fid_domain,
    shared: Arc<Shared>,
}

static FID: fi_ops = only_close(close);
static OPS: fi_ops_domain = fi_ops_domain {
    size: size_of::<fi_ops_domain>(),
    av_open: Some(av_open),
    cq_open: Some(cq_open),
    endpoint: Some(open_endpoint),
    scalable_ep: NOT_HERE,
    cntr_open: NOT_HERE,
    poll_open: NOT_HERE,
    stx_ctx: NOT_HERE,
    srx_ctx: NOT_HERE,
    query_atomic: NOT_HERE,
    query_collective: NOT_HERE,
    endpoint2: NOT_HERE,
};
static MEMORY: fi_ops_mr =
    fi_ops_mr { size: size_of::<fi_ops_mr>(), reg: NOT_HERE, regv: NOT_HERE, regattr: NOT_HERE };

/// Opens a domain.
pub(super) fn open(settings: &Settings, context: *mut c_void) -> *mut fid_domain {
    let fid = fid { fclass: FI_CLASS_DOMAIN, context, ops: &raw const FID };
    let head = fid_domain { fid, ops: &raw const OPS, mr: &raw const MEMORY };
    let shared = Arc::new(Shared::new(settings.clone()));
    Box::into_raw(Box::new(Domain { head, shared })).cast()
}

/// # Safety
/// `domain` was made in `open` and not closed yet.
unsafe fn shared<'a>(domain: *mut fid_domain) -> &'a Arc<Shared> {
    // SAFETY: the caller's promise; the head comes first.
    let domain = unsafe { &*domain.cast::<Domain>() };
    &domain.shared
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    guard(|| {
        // SAFETY: made in `open` and closed once.
        drop(unsafe { Box::from_raw(fid.cast::<Domain>()) });
        0
    })
}

unsafe extern "C" fn av_open(
    domain: *mut fid_domain,
    _attributes: *mut fi_av_attr,
    made: *mut *mut fid_av,
    context: *mut c_void,
) -> c_int {
    guard(|| {
        // SAFETY: libfabric's promise about its objects.
        let shared = unsafe { shared(domain) };
        // SAFETY: the caller passes a place for the object.
        unsafe { made.write(vector::open(shared, context)) };
        0
    })
}

unsafe extern "C" fn cq_open(
    domain: *mut fid_domain,
    attributes: *mut fi_cq_attr,
    made: *mut *mut fid_cq,
    context: *mut c_void,
) -> c_int {
    guard(|| {
        // SAFETY: libfabric's promise about its objects.
        let shared = unsafe { shared(domain) };
        // SAFETY: attributes are valid for the call, or none.
        let attributes = unsafe { attributes.as_ref() };
        match queue::open(shared, attributes, context) {
            Ok(queue) => {
                // SAFETY: the caller passes a place for the object.
                unsafe { made.write(queue) };
                0
            }
            Err(error) => -error,
        }
    })
}

unsafe extern "C" fn open_endpoint(
    domain: *mut fid_domain,
    info: *mut fi_info,
    made: *mut *mut fid_ep,
    context: *mut c_void,
) -> c_int {
    guard(|| {
        // SAFETY: libfabric's promise about its objects.
        let shared = unsafe { shared(domain) };
        // SAFETY: the info is valid for the call, or none.
        let sending = unsafe { info.as_ref() };
        // SAFETY: its attributes are valid, or none.
        let sending = sending.and_then(|info| unsafe { info.tx_attr.as_ref() });
        let flags = sending.map_or(0, |sending| sending.op_flags);
        // SAFETY: as above.
        let receiving = unsafe { info.as_ref() };
        // SAFETY: as above.
        let receiving = receiving.and_then(|info| unsafe { info.rx_attr.as_ref() });
        let receive_flags = receiving.map_or(0, |receiving| receiving.op_flags);
        // SAFETY: the caller passes a place for the object.
        unsafe { made.write(endpoint::open(shared, flags, receive_flags, context)) };
        0
    })
}
