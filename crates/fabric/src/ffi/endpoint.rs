//! The endpoint object: bound, enabled, named, closed. What it sends and receives is in `tagged`.

#![expect(unsafe_code, reason = "called from C through pointers")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use libc::{c_int, c_void, size_t, ssize_t};

use super::entry::{NOT_HERE, only_close};
use super::queue::Cq;
use super::refusal::NO_SPAWN;
use super::types::{
    FI_CLASS_AV, FI_CLASS_CQ, FI_CLASS_EP, FI_ENABLE, FI_EOPBADSTATE, FI_RECV, FI_SELECTIVE_COMPLETION,
    FI_SEND, fi_ops, fi_ops_cm, fi_ops_ep, fi_ops_msg, fi_ops_rma, fid, fid_ep,
};
use super::{Shared, State, background, guard, guard_size, say, size, tagged, vector};
use crate::address::Address;
use crate::engine::Engine;
use crate::fault::Fault;
use crate::settings::Settings;
use crate::transport::Transport;
use crate::transport::ring::{Ring, own_section};
use crate::transport::tcp::{Hub, Tcp};

/// How long what was injected may take to be sent when an endpoint is closed.
const CLOSE_WITHIN: Duration = Duration::from_secs(5);

#[repr(C)]
pub(super) struct Endpoint {
    head: fid_ep,
    pub(super) shared: Arc<Shared>,
    /// Flags of sends that bring none.
    pub(super) send_flags: AtomicU64,
    /// Whether only those sends complete whose flags ask for it.
    pub(super) selective: AtomicBool,
    enabled: AtomicBool,
}

static FID: fi_ops = fi_ops { bind: Some(bind), control: Some(control), ..only_close(close) };
static OPS: fi_ops_ep = fi_ops_ep {
    size: size_of::<fi_ops_ep>(),
    cancel: Some(cancel),
    getopt: NOT_HERE,
    setopt: NOT_HERE,
    tx_ctx: NOT_HERE,
    rx_ctx: NOT_HERE,
    rx_size_left: NOT_HERE,
    tx_size_left: NOT_HERE,
};
static NAMES: fi_ops_cm = fi_ops_cm {
    size: size_of::<fi_ops_cm>(),
    setname: NOT_HERE,
    getname: Some(getname),
    getpeer: NOT_HERE,
    connect: NOT_HERE,
    listen: NOT_HERE,
    accept: NOT_HERE,
    reject: NOT_HERE,
    shutdown: NOT_HERE,
    join: NOT_HERE,
};
static MESSAGES: fi_ops_msg = fi_ops_msg { size: size_of::<fi_ops_msg>(), all: [NOT_HERE; 9] };
static REMOTE: fi_ops_rma = fi_ops_rma { size: size_of::<fi_ops_rma>(), all: [NOT_HERE; 9] };

pub(super) fn open(
    shared: &Arc<Shared>,
    send_flags: u64,
    _receive_flags: u64,
    context: *mut c_void,
) -> *mut fid_ep {
    let fid = fid { fclass: FI_CLASS_EP, context, ops: &raw const FID };
    let head = fid_ep {
        fid,
        ops: &raw const OPS,
        cm: &raw const NAMES,
        msg: &raw const MESSAGES,
        rma: &raw const REMOTE,
        tagged: &raw const tagged::OPS,
        atomic: std::ptr::null(),
        collective: std::ptr::null(),
    };
    let endpoint = Endpoint {
        head,
        shared: Arc::clone(shared),
        send_flags: AtomicU64::new(send_flags),
        selective: AtomicBool::new(false),
        enabled: AtomicBool::new(false),
    };
    Box::into_raw(Box::new(endpoint)).cast()
}

/// # Safety
/// `endpoint` was made in `open` and not closed yet.
pub(super) unsafe fn of<'a>(endpoint: *mut fid_ep) -> &'a Endpoint {
    // SAFETY: the caller's promise; the head comes first.
    unsafe { &*endpoint.cast::<Endpoint>() }
}

unsafe extern "C" fn close(fid: *mut fid) -> c_int {
    guard(|| {
        // SAFETY: made in `open` and closed once.
        let endpoint = unsafe { Box::from_raw(fid.cast::<Endpoint>()) };
        if endpoint.enabled.load(Ordering::Relaxed) {
            let settings = &endpoint.shared.settings;
            let mut state = endpoint.shared.lock();
            state.engine.drain(CLOSE_WITHIN);
            state.engine.attach(settings.rank, settings.run, Vec::new());
            (state.section, state.address, state.hub) = (None, None, None);
            state.met.clear();
            endpoint.shared.wake(&mut state);
            let thread = state.thread.take();
            drop(state);
            // It sees that there is no section any more; a thread that only calls the engine does not panic.
            let _ended = thread.map(JoinHandle::join);
            endpoint.shared.debug(|| "closed".to_owned());
        }
        0
    })
}

unsafe extern "C" fn bind(fid: *mut fid, other: *mut fid, flags: u64) -> c_int {
    guard(|| {
        // SAFETY: made in `open` and not closed yet; the head comes first, and the fid in it.
        let endpoint = unsafe { of(fid.cast()) };
        // SAFETY: every object begins with a fid.
        let class = unsafe { (*other).fclass };
        match class {
            FI_CLASS_AV => 0,
            FI_CLASS_CQ => {
                // SAFETY: an object of this class was made in `queue::open`, if it is ours at all.
                let queue = unsafe { &*other.cast::<Cq>() };
                let (sends, receives) = (flags & FI_SEND != 0, flags & FI_RECV != 0);
                endpoint.shared.lock().engine.bind(queue.number, sends, receives);
                if sends {
                    endpoint.selective.store(flags & FI_SELECTIVE_COMPLETION != 0, Ordering::Relaxed);
                }
                0
            }
            _ => -libc::ENOSYS,
        }
    })
}

unsafe extern "C" fn control(fid: *mut fid, command: c_int, _argument: *mut c_void) -> c_int {
    guard(|| {
        // SAFETY: made in `open` and not closed yet.
        let endpoint = unsafe { of(fid.cast()) };
        if command != FI_ENABLE {
            return -libc::ENOSYS;
        }
        match enable(&endpoint.shared) {
            Ok(()) => {
                endpoint.enabled.store(true, Ordering::Relaxed);
                0
            }
            Err(why) => {
                say(&format!("rank {}: {why}", endpoint.shared.settings.rank));
                -libc::EIO
            }
        }
    })
}

/// Makes our section and begins to look for the others of this host.
fn enable(shared: &Arc<Shared>) -> Result<(), Fault> {
    let settings = &shared.settings;
    if settings.is_child {
        // The memory of its number belongs to a rank that was there before.
        return Err(format!("started by another rank: {NO_SPAWN}").into());
    }
    let mut state = shared.lock();
    if state.section.is_some() {
        return Err("an endpoint is enabled already; a rank has one".to_owned().into());
    }
    let section = own_section(settings)?;
    let ways = (0..settings.size).map(|rank| -> Option<Box<dyn Transport>> {
        let other = rank != settings.rank;
        other.then(|| Box::new(Ring::new(&section, &settings.sections, rank)) as Box<dyn Transport>)
    });
    state.engine.attach(settings.rank, settings.run, ways.collect());
    shared.debug(|| format!("attached to {}", section.memory().name()));
    state.section = Some(section);
    state.address = Some(base_address(shared));
    if let Some(at) = settings.address {
        let (hub, address) = Hub::open(at, base_address(shared))?;
        shared.debug(|| format!("listens at {:?}", address.socket));
        (state.hub, state.address) = (Some(hub), Some(address));
    }
    let thread = background::start(shared);
    state.thread = Some(thread.map_err(|error| format!("a thread cannot be started: {error}"))?);
    Ok(())
}

/// Our address as far as it is known before anything listens.
fn base_address(shared: &Shared) -> Address {
    let Settings { rank, host, run, .. } = shared.settings;
    Address { rank, host, run, socket: None, token: [0; 16] }
}

/// What has to be known about a rank before it can be spoken to.
pub(super) fn meet(shared: &Shared, state: &mut State, address: &Address) -> Result<(), Fault> {
    let (rank, run) = (address.rank, shared.settings.run);
    if address.host == shared.settings.host || state.met.contains(&rank) {
        return Ok(());
    }
    let nowhere =
        |who: &str| format!("{who} listens nowhere for other hosts; set BULKHEAD_FABRIC_ADDRESS there");
    let (Some(hub), Some(own)) = (&state.hub, state.address) else {
        return Err(nowhere("this rank").into());
    };
    if address.socket.is_none() {
        return Err(nowhere(&format!("rank {rank}")).into());
    }
    let way = Box::new(Tcp::new(hub, own, *address));
    state.engine.reroute(rank, run, way);
    state.met.push(rank);
    shared.debug(|| format!("speaks TCP with rank {rank} at {:?}", address.socket));
    Ok(())
}

unsafe extern "C" fn getname(fid: *mut fid, place: *mut c_void, length: *mut size_t) -> c_int {
    guard(|| {
        // SAFETY: made in `open` and not closed yet.
        let shared = &unsafe { of(fid.cast()) }.shared;
        let Some(address) = shared.lock().address else { return -FI_EOPBADSTATE };
        // SAFETY: the caller passes a place and its length.
        unsafe { vector::give(&address.encode(), place, length) }
    })
}

unsafe extern "C" fn cancel(fid: *mut fid, context: *mut c_void) -> ssize_t {
    guard_size(|| {
        // SAFETY: made in `open` and not closed yet.
        let mut state = unsafe { of(fid.cast()) }.shared.lock();
        let engine: &mut Engine = &mut state.engine;
        engine.cancel(context.expose_provenance()).map_or(size(-libc::ENOENT), |()| 0)
    })
}
