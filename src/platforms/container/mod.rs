//! Container: the agent as the only process of an OCI container that any runtime can make.

mod bundle;
mod carrier;
mod platform;
pub(super) mod runtime;

pub use platform::Container;
