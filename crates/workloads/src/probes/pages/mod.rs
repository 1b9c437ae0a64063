//! First touch of memory: what a page costs when nobody has used it yet, and on which memory node it lies.
//!
//! Source: Ibrahim 2012: in a guest that has just been started nearly every first touch reaches the hypervisor; later
//! the guest's kernel hands out pages that it already has.
//!
//! ```text
//!  map ─► touch each page once, each timed ─► nodes ─► unmap      first pass: cold when the instance is fresh
//!   ▲                                                    │        further passes: warm
//!   └────────────────────────────────────────────────────┘
//! ```

mod nodes;
mod probe;

pub use probe::measure;
