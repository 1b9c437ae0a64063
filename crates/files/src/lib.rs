//! Files of a host, shown to a guest over virtio-fs: as they are natively, and nothing that gives rights comes out.
//!
//! ```text
//!  guest's kernel ─ virtio queue ─► `vhost` ─ bytes ─► `Files::handle` ─ system calls ─► the trees
//!                                                        │ nodes     what the guest knows
//!                                                        │ believed  by which names it may have come there
//!                                                        │ notion    owners and set-ID bits that stay among guests
//!                                                        │ retries   what was just looked up is what is opened
//!                                                        │ stamp     by what a change of a file is seen
//!                                                        │ handles   what is open, and what its cache may keep
//!                                                        │ streams   long files, which the host's cache need not keep
//!                                                        │ locks     the host's own
//!                                                        │ waits     who waits for one, and takes that back
//!                                                        │ written   its own writing, which stays in its cache
//!                                                        │ watch     who else has opened that
//!                                                        │ claims    files that are memory: one kernel at a time
//!                                                        │ fullness  a disk that is to seem full
//!                                                        │ clock     what time it is here, for the guest's own
//!                                                        └ coherence what a lock means to the guest's cache
//! ```
//! One process serves one guest: it ends with it. The trees lie in one folder as `0`, `1`, …; who may reach what on the host is
//! said by whoever starts the process. A request is answered at once by one thread, so requests keep their order; those
//! that wait (locks of others, a disk that is to have everything) are handed out as jobs.

mod attributes;
mod believed;
mod claims;
pub mod clock;
mod coherence;
mod directories;
mod fullness;
mod handles;
mod locks;
mod message;
mod names;
mod nodes;
mod notion;
mod ranges;
mod retries;
mod server;
mod stamp;
mod streams;
mod vhost;
pub mod waits;
mod watch;
pub mod written;
mod xattrs;

pub use fullness::Fullness;
pub use notion::keep;
pub use server::{Answer, Files, Job, Tree};
pub use vhost::serve;
