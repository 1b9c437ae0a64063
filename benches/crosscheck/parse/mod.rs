//! What the tools print, read into figures. Pure: text in, figures or the reason out; tests read recorded samples
//! (`tests/crosscheck.rs`).

pub mod blas;
pub mod chase;
pub mod cyclictest;
pub mod fio;
pub mod hpcc;
pub mod iperf3;
pub mod lat_ctx;
pub mod oslat;
pub mod sockperf;
pub mod stress_ng;
