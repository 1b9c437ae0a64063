//! What is offered: the answer to `fi_getinfo`.

#![expect(unsafe_code, reason = "libfabric frees the answer with free(), and its hints are pointers")]

use std::ffi::CStr;

use libc::{c_char, c_int};

use super::types::{
    FI_AV_MAP, FI_AV_TABLE, FI_COMPLETION, FI_DIRECTED_RECV, FI_EP_RDM, FI_INJECT, FI_INJECT_COMPLETE,
    FI_LOCAL_COMM, FI_ORDER_SAS, FI_PROGRESS_MANUAL, FI_PROV_SPECIFIC, FI_RECV, FI_REMOTE_COMM,
    FI_RM_ENABLED, FI_SEND, FI_SOURCE, FI_TAGGED, FI_THREAD_SAFE, FI_TRANSMIT_COMPLETE, fi_domain_attr,
    fi_ep_attr, fi_fabric_attr, fi_info, fi_rx_attr, fi_tx_attr,
};
use crate::fault::Fault;
use crate::wire::{MOST_EAGER, MOST_MESSAGE};

const BOTH_CAPS: u64 = FI_TAGGED | FI_LOCAL_COMM | FI_REMOTE_COMM;
const SEND_CAPS: u64 = BOTH_CAPS | FI_SEND;
const RECEIVE_CAPS: u64 = BOTH_CAPS | FI_RECV | FI_DIRECTED_RECV | FI_SOURCE;
const CAPS: u64 = SEND_CAPS | RECEIVE_CAPS;
const SEND_FLAGS: u64 = FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE;
const NAME: &CStr = c"bulkhead";
/// The number of this provider's form of addresses and of its protocol.
const FORMAT: u32 = FI_PROV_SPECIFIC | 0x00b1_0c00;
/// Operations that may be posted: as many as memory holds.
const MANY: usize = 1 << 16;

/// Whether the hints can be met.
///
/// # Errors
/// Names what cannot.
pub(super) fn check(hints: Option<&fi_info>) -> Result<(), Fault> {
    let Some(hints) = hints else { return Ok(()) };
    let subset = |what: &str, asked: u64, offered: u64| {
        if asked & !offered == 0 {
            return Ok(());
        }
        Err(format!("{what}: wanted {offered:#x} or less, got {asked:#x}"))
    };
    subset("capabilities", hints.caps, CAPS)?;
    // SAFETY: libfabric's hints point to valid attributes or to nothing; they live as long as the hints.
    let endpoint = unsafe { hints.ep_attr.as_ref() };
    // SAFETY: as above.
    let sending = unsafe { hints.tx_attr.as_ref() };
    // SAFETY: as above.
    let receiving = unsafe { hints.rx_attr.as_ref() };
    // SAFETY: as above.
    let domain = unsafe { hints.domain_attr.as_ref() };
    // SAFETY: as above.
    let fabric = unsafe { hints.fabric_attr.as_ref() };
    if let Some(endpoint) = endpoint {
        if ![0, FI_EP_RDM].contains(&endpoint.type_) {
            return Err(format!("type of endpoint: wanted {FI_EP_RDM}, got {}", endpoint.type_).into());
        }
        if ![0, FORMAT].contains(&endpoint.protocol) || endpoint.max_msg_size as u64 > MOST_MESSAGE {
            return Err("another protocol, or longer messages".to_owned().into());
        }
    }
    if let Some(sending) = sending {
        subset("capabilities of sending", sending.caps, SEND_CAPS)?;
        subset("flags of sending", sending.op_flags, SEND_FLAGS)?;
        subset("order of sending", sending.msg_order, FI_ORDER_SAS)?;
        if sending.inject_size > MOST_EAGER || sending.iov_limit > 1 {
            return Err("longer injected messages, or several parts".to_owned().into());
        }
    }
    if let Some(receiving) = receiving {
        subset("capabilities of receiving", receiving.caps, RECEIVE_CAPS)?;
        subset("flags of receiving", receiving.op_flags, FI_COMPLETION)?;
        subset("order of receiving", receiving.msg_order, FI_ORDER_SAS)?;
        if receiving.iov_limit > 1 {
            return Err("several parts".to_owned().into());
        }
    }
    if let Some(domain) = domain {
        if ![0, FI_PROGRESS_MANUAL].contains(&domain.data_progress) {
            return Err(format!(
                "progress: wanted manual ({FI_PROGRESS_MANUAL}), got {}",
                domain.data_progress
            )
            .into());
        }
        if domain.cq_data_size > size_of::<u64>() {
            return Err(
                format!("data of completions: wanted at most 8 bytes, got {}", domain.cq_data_size).into()
            );
        }
        name("domain", domain.name)?;
    }
    fabric.map_or(Ok(()), |fabric| name("fabric", fabric.name))
}

fn name(what: &str, asked: *const c_char) -> Result<(), Fault> {
    if asked.is_null() {
        return Ok(());
    }
    // SAFETY: libfabric's names end with a zero byte.
    let asked = unsafe { CStr::from_ptr(asked) };
    if asked == NAME { Ok(()) } else { Err(format!("{what}: wanted {NAME:?}, got {asked:?}").into()) }
}

/// Zeroed memory that libfabric will free.
fn zeroed<T>() -> Option<&'static mut T> {
    // SAFETY: any size may be asked for.
    let memory = unsafe { libc::calloc(1, size_of::<T>()) }.cast::<T>();
    // SAFETY: null, or memory of our own for one `T`, aligned for everything; the attributes are numbers and pointers,
    // for which zero is a value.
    unsafe { memory.as_mut() }
}

fn copy(name: &CStr) -> *mut c_char {
    // SAFETY: a string that ends with a zero byte.
    unsafe { libc::strdup(name.as_ptr()) }
}

/// The answer: one way, with the hints' choices where there is one. None if memory is short.
pub(super) fn answer(hints: Option<&fi_info>) -> Option<*mut fi_info> {
    // SAFETY: as in `check`.
    let asked_domain = hints.and_then(|hints| unsafe { hints.domain_attr.as_ref() });
    // SAFETY: as in `check`.
    let asked_endpoint = hints.and_then(|hints| unsafe { hints.ep_attr.as_ref() });
    // SAFETY: as in `check`.
    let asked_sending = hints.and_then(|hints| unsafe { hints.tx_attr.as_ref() });
    // SAFETY: as in `check`.
    let asked_receiving = hints.and_then(|hints| unsafe { hints.rx_attr.as_ref() });
    let caps = hints.map(|hints| hints.caps).filter(|caps| *caps != 0).unwrap_or(CAPS);
    let caps = if caps & (FI_SEND | FI_RECV) == 0 { caps | FI_SEND | FI_RECV } else { caps };
    let info = zeroed::<fi_info>()?;
    let sending = zeroed::<fi_tx_attr>()?;
    sending.caps = caps & SEND_CAPS;
    sending.op_flags = asked_sending.map_or(0, |asked| asked.op_flags);
    sending.msg_order = FI_ORDER_SAS;
    sending.inject_size = MOST_EAGER;
    sending.size = MANY;
    sending.iov_limit = 1;
    let receiving = zeroed::<fi_rx_attr>()?;
    receiving.caps = caps & RECEIVE_CAPS;
    receiving.op_flags = asked_receiving.map_or(0, |asked| asked.op_flags);
    receiving.msg_order = FI_ORDER_SAS;
    receiving.total_buffered_recv = MANY;
    receiving.size = MANY;
    receiving.iov_limit = 1;
    let endpoint = zeroed::<fi_ep_attr>()?;
    endpoint.type_ = FI_EP_RDM;
    endpoint.protocol = FORMAT;
    endpoint.protocol_version = crate::wire::VERSION;
    endpoint.max_msg_size = usize::try_from(MOST_MESSAGE).unwrap_or(usize::MAX);
    endpoint.mem_tag_format = asked_endpoint
        .map(|asked| asked.mem_tag_format)
        .filter(|format| *format != 0)
        .unwrap_or(u64::MAX >> 1);
    endpoint.tx_ctx_cnt = 1;
    endpoint.rx_ctx_cnt = 1;
    let fabric = zeroed::<fi_fabric_attr>()?;
    fabric.name = copy(NAME);
    info.caps = caps;
    info.addr_format = FORMAT;
    info.tx_attr = sending;
    info.rx_attr = receiving;
    info.ep_attr = endpoint;
    info.domain_attr = domain(asked_domain, caps)?;
    info.fabric_attr = fabric;
    Some(info)
}

fn domain(asked: Option<&fi_domain_attr>, caps: u64) -> Option<*mut fi_domain_attr> {
    let domain = zeroed::<fi_domain_attr>()?;
    let vector = asked.map_or(0, |asked| asked.av_type);
    domain.name = copy(NAME);
    domain.threading =
        asked.map(|asked| asked.threading).filter(|asked| *asked != 0).unwrap_or(FI_THREAD_SAFE);
    domain.control_progress = FI_PROGRESS_MANUAL;
    domain.data_progress = FI_PROGRESS_MANUAL;
    domain.resource_mgmt = FI_RM_ENABLED;
    domain.av_type = if vector == FI_AV_MAP as c_int { FI_AV_MAP } else { FI_AV_TABLE };
    domain.cq_data_size = size_of::<u64>();
    domain.cq_cnt = MANY;
    domain.ep_cnt = 1;
    domain.tx_ctx_cnt = 1;
    domain.rx_ctx_cnt = 1;
    domain.max_ep_tx_ctx = 1;
    domain.max_ep_rx_ctx = 1;
    domain.caps = caps & (FI_LOCAL_COMM | FI_REMOTE_COMM);
    Some(domain)
}
