//! From the raw detail of one measurement to its figures.
//!
//! The main metric comes first and is always a headline. Details come from guests that are not trusted: whatever they
//! hold, nothing panics, and what cannot be computed, or is not a finite number, is a reason instead of a figure.

mod disk;
mod entry;
mod gap;
mod jobs;
mod memory;
mod pairs;
mod peers;
mod share;
mod timing;
mod traps;
mod work;

use model::detail::Detail;
use model::facts::ClockFacts;
use model::metric::Metric;

/// All metrics of one measurement, the main one first. The clock's own cost is no metric: it is kept beside them.
pub fn metrics_of(detail: &Detail, _clock: &ClockFacts) -> Vec<Metric> {
    match detail {
        Detail::Gap(detail) => gap::metrics(detail),
        Detail::Fwq(detail) => work::fwq(detail),
        Detail::Cpu(detail) => work::cpu(detail),
        Detail::Syscall(detail) => work::syscall(detail),
        Detail::Fork(detail) => work::fork(detail),
        Detail::MemLatency(detail) => memory::latency(detail),
        Detail::MemBandwidth(detail) => memory::bandwidth(detail),
        Detail::Disk(detail) => disk::metrics(detail),
        Detail::Ftq(detail) => timing::ftq(detail),
        Detail::Wakeup(detail) => timing::wakeup(detail),
        Detail::Frames(detail) => timing::frames(detail),
        Detail::Exit(detail) => traps::exit(detail),
        Detail::Lock(detail) => traps::lock(detail),
        Detail::Pages(detail) => traps::pages(detail),
        Detail::Linpack(detail) => jobs::linpack(detail),
        Detail::Build(detail) => jobs::build(detail),
        Detail::Net(detail) => peers::net(detail),
        Detail::Mpi(detail) => peers::mpi(detail),
        Detail::Share(detail) => share::share(detail),
    }
}
