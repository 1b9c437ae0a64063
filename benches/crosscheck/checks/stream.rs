//! stress-ng's variant of STREAM beside the memory probe's copy, on arrays of four times the last-level cache. stress-ng counts
//! reads and writes of copy, scale, add and triad together, and warns itself that it is no STREAM; the best of it and of
//! hpcc's STREAM is what the memory probe is measured by.

use std::time::Duration;

use bulkhead::units::metric::Unit;

use super::cache;
use super::hpcc::copy;
use crate::parse::stress_ng;
use crate::rounds::{Check, World};
use crate::table::Row;
use crate::tool::Tool;

const STRESS_NG: Tool = Tool { name: "stress-ng", package: "stress-ng" };

pub struct Stream;

impl Check for Stream {
    fn name(&self) -> &'static str {
        "stream"
    }

    fn rows(&self) -> Vec<Row> {
        vec![Row::at_least("memory copy / stress-ng --stream", Unit::BytesPerSecond, 0.97)]
    }

    fn theirs(&mut self, world: &World) -> Result<Vec<f64>, String> {
        // Its three arrays are four times the cache each. In less than five seconds it tells nothing.
        let cache = cache::last_level_bytes()?.to_string();
        let arguments = [
            "--stream",
            "1",
            "--stream-l3-size",
            &cache,
            "--stream-madvise",
            "hugepage",
            "-t",
            "6",
            "--metrics",
        ];
        let printed = STRESS_NG.run(&arguments, world.folder(), Duration::from_secs(120))?;
        Ok(vec![stress_ng::parse(&printed)?])
    }

    fn ours(&mut self, world: &World) -> Result<Vec<f64>, String> {
        let copied = 2 * cache::BEYOND * cache::last_level_bytes()?;
        Ok(vec![copy(world, copied.div_ceil(1 << 20))?])
    }
}
