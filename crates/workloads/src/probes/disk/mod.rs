//! Disk probe: sequential write, then sequential read, per block size and mode; latency of each operation,
//! throughput over windows of 50 ms, 200 ms and 1 s, and the longest stalls; random reads; and whether partition and
//! file system lie on the blocks of the device. Source: Lourot's thesis, in which a misaligned partition halved
//! sequential writes.

pub mod layout;
pub mod phase;
pub mod probe;
pub mod random;
pub mod shifted;
pub mod trace;
