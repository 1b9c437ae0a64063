//! The comparisons, one file per tool.

mod cache;
mod chase;
mod companion;
mod disk;
mod disk_cost;
mod hpcc;
#[path = "../../../tests/mpi_fixture/hpcc_input.rs"]
mod hpcc_input;
mod network;
mod oslat;
mod stream;
mod switching;
mod wakeup;

use crate::rounds::Check;

/// All of them, in the order of the table.
pub fn all() -> Vec<Box<dyn Check>> {
    vec![
        Box::new(disk::Disk),
        Box::new(disk_cost::DiskCost::default()),
        Box::new(hpcc::Suite::default()),
        Box::new(stream::Stream),
        Box::new(chase::Chase::default()),
        Box::new(network::Stream),
        Box::new(network::Questions),
        Box::new(wakeup::Wakeup::default()),
        Box::new(oslat::Oslat),
        Box::new(switching::Switching),
    ]
}

/// The detail is that of another probe: a mistake in this bench.
fn another(detail: &bulkhead::probes::detail::Detail) -> String {
    format!("a detail of the probe {} came back", detail.kind())
}
