//! oslat beside the gap probe: time per iteration of the loop that looks for gaps, on the same CPU. The shorter it is,
//! the shorter the gaps that can be seen. `cargo bench --bench gap_cost` looks closer.

use std::time::Duration;

use bulkhead::probes::detail::Detail;
use bulkhead::probes::params::{GapParams, ProbeSpec};
use bulkhead::probes::pin::allowed_cpus;
use bulkhead::units::Millis;
use bulkhead::units::histogram::Histogram;
use bulkhead::units::metric::Unit;

use super::another;
use crate::own;
use crate::parse::oslat;
use crate::rounds::{Check, World};
use crate::table::Row;
use crate::tool::Tool;

pub const OSLAT: Tool = Tool { name: "oslat", package: "rt-tests" };

pub struct Oslat;

impl Check for Oslat {
    fn name(&self) -> &'static str {
        "oslat"
    }

    fn rows(&self) -> Vec<Row> {
        vec![Row::at_most("gap loop, one iteration / oslat", Unit::Nanoseconds, 0.65)]
    }

    fn theirs(&mut self, world: &World) -> Result<Vec<f64>, String> {
        let cpu = allowed_cpus().last().copied().ok_or("no CPU is allowed")?.to_string();
        let printed = OSLAT.run(&["--cpu-list", &cpu, "-D", "1"], world.folder(), Duration::from_secs(60))?;
        Ok(vec![oslat::parse(&printed)?])
    }

    fn ours(&mut self, world: &World) -> Result<Vec<f64>, String> {
        let params = GapParams { duration_ms: Millis::from_millis(1000), ..GapParams::default() };
        match own::run(ProbeSpec::Gap(params), &world.scratch)? {
            Detail::Gap(detail) => {
                let gaps: u64 = detail.batches.iter().map(Histogram::count).sum();
                Ok(vec![detail.observed_ns.as_f64() / gaps.max(1) as f64])
            }
            other => Err(another(&other)),
        }
    }
}
