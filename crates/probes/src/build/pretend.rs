//! Made-up outcomes of the build probe, for the fake platform.

use units::{Bytes, Nanos};

use crate::detail::BuildDetail;
use crate::params::BuildParams;
use crate::pretend::Maker;

/// Time to compile a function.
const FUNCTION_NS: f64 = 200_000.0;

/// Time to start a compiler.
const START_NS: f64 = 1_000_000.0;

/// Of ten nanoseconds a compiler spends one in the kernel.
const KERNEL: u64 = 10;

pub(crate) fn pretend(maker: &mut Maker, params: &BuildParams) -> BuildDetail {
    let jobs = params.jobs.unwrap_or(maker.cpus).clamp(1, params.files.max(1));
    let native = START_NS + FUNCTION_NS * f64::from(params.functions);
    // More compilers than CPUs take turns.
    let turns = f64::from(jobs.max(maker.cpus)) / f64::from(maker.cpus.max(1));
    let file_ns: Vec<Nanos> =
        (0..params.files).map(|_| Nanos::from_nanos(maker.nanos(native * turns))).collect();
    let all: u64 = file_ns.iter().map(|time| time.get()).sum();
    let link_ns = maker.nanos(START_NS * f64::from(params.files) / 10.0);
    let busy = units::metric::saturate(all as f64 / turns) + link_ns;
    let functions = u64::from(params.files) * u64::from(params.functions);
    BuildDetail {
        files: params.files,
        functions: params.functions,
        source_bytes: Bytes::from_bytes(functions * 700),
        object_bytes: Bytes::from_bytes(functions * 290),
        image_bytes: Bytes::from_bytes(functions * 260),
        image_crc32: 0x1234_5678,
        jobs,
        wall_ns: Nanos::from_nanos(all / u64::from(jobs) + link_ns),
        link_ns: Nanos::from_nanos(link_ns),
        user_ns: Nanos::from_nanos(busy - busy / KERNEL),
        system_ns: Nanos::from_nanos(busy / KERNEL),
        file_ns,
    }
}
