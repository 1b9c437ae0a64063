//! The atomics that everything here is made of: the standard library's, or the model checker's with `--cfg loom`.
//!
//! All loads and stores are relaxed, order comes from fences. So a load is nothing but a load, which is allowed on
//! memory that is mapped read-only (the standard library promises that for relaxed loads up to pointer size only).

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering, fence};

/// What was loaded before is older than what is loaded or stored from here on.
pub(crate) fn acquire() {
    fence(Ordering::Acquire);
}

/// What was loaded or stored before is seen by whoever sees a store made from here on.
pub(crate) fn release() {
    fence(Ordering::Release);
}
