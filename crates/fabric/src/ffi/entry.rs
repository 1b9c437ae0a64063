//! The symbol that libfabric looks for, and the fabric object.

#![expect(unsafe_code, reason = "called from C through pointers")]

use std::cell::UnsafeCell;
use std::ptr;

use libc::{c_char, c_int, c_void, ssize_t};

use super::types::{
    FI_CLASS_FABRIC, FI_VERSION_1_17, Unused, fi_context, fi_fabric_attr, fi_info, fi_ops, fi_ops_fabric,
    fi_provider, fid, fid_fabric,
};
use super::{domain, guard, info, say};
use crate::settings::Settings;

/// For everything that is not offered.
pub(crate) unsafe extern "C" fn not_here() -> ssize_t {
    -(libc::ENOSYS as ssize_t)
}

/// The same in a table.
pub(crate) const NOT_HERE: Unused = Some(not_here);

unsafe extern "C" fn no_bind(_: *mut fid, _: *mut fid, _: u64) -> c_int {
    -libc::ENOSYS
}

unsafe extern "C" fn no_control(_: *mut fid, _: c_int, _: *mut c_void) -> c_int {
    -libc::ENOSYS
}

unsafe extern "C" fn no_ops(
    _: *mut fid,
    _: *const c_char,
    _: u64,
    _: *mut *mut c_void,
    _: *mut c_void,
) -> c_int {
    -libc::ENOSYS
}

/// The operations of an object that can only be closed.
pub(crate) const fn only_close(close: unsafe extern "C" fn(*mut fid) -> c_int) -> fi_ops {
    fi_ops {
        size: size_of::<fi_ops>(),
        close: Some(close),
        bind: Some(no_bind),
        control: Some(no_control),
        ops_open: Some(no_ops),
        tostr: NOT_HERE,
        ops_set: NOT_HERE,
    }
}

/// libfabric writes its own notes into the provider.
#[repr(transparent)]
struct Provider(UnsafeCell<fi_provider>);

// SAFETY: only libfabric uses it, from its own initialisation.
unsafe impl Sync for Provider {}

static PROVIDER: Provider = Provider(UnsafeCell::new(fi_provider {
    version: 1,
    fi_version: FI_VERSION_1_17,
    context: fi_context { internal: [ptr::null_mut(); 4] },
    name: c"bulkhead".as_ptr(),
    getinfo: Some(getinfo),
    fabric: Some(fabric),
    cleanup: Some(cleanup),
}));

/// Called by libfabric when it has loaded the library.
// SAFETY: libfabric asks for this name and no other library here has it.
#[unsafe(no_mangle)]
pub extern "C" fn fi_prov_ini() -> *mut fi_provider {
    PROVIDER.0.get()
}

unsafe extern "C" fn cleanup() {}

/// The environment's settings; says why there are none where that was asked for.
fn settings() -> Option<Settings> {
    let get = |name: &str| std::env::var(name).ok();
    match Settings::read(get) {
        Ok(settings) => Some(settings),
        Err(why) => {
            if get("BULKHEAD_FABRIC_DEBUG").is_some_and(|value| value == "1") {
                say(&why.to_string());
            }
            None
        }
    }
}

unsafe extern "C" fn getinfo(
    _version: u32,
    _node: *const c_char,
    _service: *const c_char,
    _flags: u64,
    hints: *const fi_info,
    found: *mut *mut fi_info,
) -> c_int {
    guard(|| {
        let Some(settings) = settings() else { return -libc::ENODATA };
        // SAFETY: libfabric passes hints that are valid for the call, or none.
        let hints = unsafe { hints.as_ref() };
        if let Err(why) = info::check(hints) {
            if settings.debug {
                say(&format!("rank {}: not offered: {why}", settings.rank));
            }
            return -libc::ENODATA;
        }
        let Some(answer) = info::answer(hints) else { return -libc::ENOMEM };
        // SAFETY: libfabric passes a place for the answer.
        unsafe { found.write(answer) };
        0
    })
}

/// A fabric object: nothing but the way to domains.
#[repr(C)]
struct Fabric {
    head: fid_fabric,
    settings: Settings,
}

static FABRIC_FID: fi_ops = only_close(close);
static FABRIC_OPS: fi_ops_fabric = fi_ops_fabric {
    size: size_of::<fi_ops_fabric>(),
    domain: Some(open_domain),
    passive_ep: NOT_HERE,
    eq_open: NOT_HERE,
    wait_open: NOT_HERE,
    trywait: NOT_HERE,
    domain2: NOT_HERE,
};

unsafe extern "C" fn fabric(
    _attributes: *mut fi_fabric_attr,
    made: *mut *mut fid_fabric,
    context: *mut c_void,
) -> c_int {
    guard(|| {
        let Some(settings) = settings() else { return -libc::ENODATA };
        let fid = fid { fclass: FI_CLASS_FABRIC, context, ops: &raw const FABRIC_FID };
        let head = fid_fabric { fid, ops: &raw const FABRIC_OPS, api_version: FI_VERSION_1_17 };
        let fabric = Box::into_raw(Box::new(Fabric { head, settings }));
        // SAFETY: the caller passes a place for the object, whose head comes first.
        unsafe { made.write(fabric.cast()) };
        0
    })
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    guard(|| {
        // SAFETY: made in `fabric` and closed once.
        drop(unsafe { Box::from_raw(fid.cast::<Fabric>()) });
        0
    })
}

unsafe extern "C" fn open_domain(
    fabric: *mut fid_fabric,
    _info: *mut fi_info,
    made: *mut *mut super::types::fid_domain,
    context: *mut c_void,
) -> c_int {
    guard(|| {
        // SAFETY: made in `fabric` and not closed yet.
        let fabric = unsafe { &*fabric.cast::<Fabric>() };
        let domain = domain::open(&fabric.settings, context);
        // SAFETY: the caller passes a place for the object.
        unsafe { made.write(domain) };
        0
    })
}
