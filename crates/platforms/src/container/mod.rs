//! Container: the agent as the only process of an OCI container that any runtime can make.

mod bundle;
mod carrier;
mod platform;
mod reach;
mod read_back;
pub(super) mod runtime;
mod seccomp;
mod sys_view;
mod walls;

pub use platform::Container;
pub use reach::ContainerReach;
