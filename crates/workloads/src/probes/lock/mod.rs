//! How long threads wait for a spinlock: what a hypervisor that takes the CPU from the holder of a lock costs all others.
//!
//! Source: Friebel and Biemueller 2008, *How to Deal with Lock Holder Preemption* (Xen, 16 virtual CPUs): nearly all
//! waits end within 2^16 cycles; a second hump at the hypervisor's time slice appears when the host is overcommitted,
//! and a lock that is first come, first served suffers most, since the next in line may not run either.
//!
//! ```text
//!  each thread:  free work ─► wait (timed) ─► held work ─► free work …     until the time is over
//! ```

mod bins;
mod probe;
mod spinlock;

pub use probe::measure;
