//! Disk probe: sequential write, then sequential read, per block size and mode; latency of each operation,
//! throughput over windows of 50 ms, 200 ms and 1 s, and the longest stalls. Source: Lourot's thesis.

pub mod phase;
pub mod probe;
pub mod trace;
