//! Made-up outcomes of the pages probe, for the fake platform.

use units::histogram::DenseHistogram;
use units::{Bytes, Nanos};

use crate::detail::{PagesDetail, PagesPass};
use crate::params::PagesParams;
use crate::pretend::{Maker, SAMPLES};

const PAGE: Bytes = Bytes::from_bytes(4096);

pub(crate) fn pretend(maker: &mut Maker, params: &PagesParams) -> PagesDetail {
    let size_bytes = params.size_mib.to_bytes();
    let pages = size_bytes.get().div_ceil(PAGE.get());
    let mut start = 0;
    let mut passes = Vec::new();
    for number in 0..=params.warm_passes {
        let cold = number == 0 && maker.fresh;
        let pass = pass(maker, pages, if cold { 900.0 } else { 250.0 }, start);
        start += pass.elapsed_ns.get() + 1_000_000;
        passes.push(pass);
    }
    PagesDetail { page_bytes: PAGE, size_bytes, fresh: maker.fresh, own_node: Some(0), passes }
}

fn pass(maker: &mut Maker, pages: u64, native_ns: f64, start: u64) -> PagesPass {
    let mut touches = DenseHistogram::new();
    let (mut left, mut elapsed) = (pages, 0);
    while left > 0 {
        let some = (pages / SAMPLES).clamp(1, left);
        let touch = maker.nanos(native_ns);
        touches.record_many(touch, some);
        elapsed += touch * some;
        left -= some;
    }
    PagesPass {
        start_ns: Nanos::from_nanos(start),
        elapsed_ns: Nanos::from_nanos(elapsed),
        touch_ns: touches.to_histogram(),
        minor_faults: pages,
        nodes: vec![(0, pages)],
    }
}
