//! A libfabric provider over Bulkhead's channels: Debian's unmodified Open MPI, and unmodified MPI programs, run between
//! partitions of one host at memory speed, and over TCP to other hosts.
//!
//! ```text
//!  MPI program ─► Open MPI (pml cm, mtl ofi) ─► libfabric ─► ffi ─► Engine ─► lane per rank ─► ring │ TCP
//!                                                              matching, completions
//! ```
//!
//! libfabric finds `libbulkhead-fi.so` in the folder that `FI_PROVIDER_PATH` names and calls its `fi_prov_ini`. Offered is
//! what MPI needs: reliable datagram endpoints with tagged messages, wildcards for source and tag, peek, claim, discard,
//! cancel; completion queues; address vectors. Everything else says "not implemented". The environment says who we are:
//! [`settings::Settings`].
//!
//! Progress is the program's affair: things move inside calls. What a call has left, a way to a rank or a send that is not all
//! on its way, goes on in the background where the program calls nothing (`ffi/background.rs`). Whoever finds nothing to do for
//! long yields its processor, then sleeps in short naps ([`idle`]).
//!
//! A peer is not trusted: what it writes is read once and bounded, a peer that breaks the protocol or dies ends its own
//! lane alone, and what was under way with it fails with an error.

// What a peer or a program hands over may never end this process: slices are asked, not indexed.
#![cfg_attr(not(test), deny(clippy::indexing_slicing, clippy::expect_used, clippy::panic))]

pub mod address;
pub mod engine;
pub mod fault;
pub mod ffi;
pub mod idle;
pub mod settings;
pub mod transport;
pub mod window;
pub mod wire;
