//! lmbench's `lat_ctx` beside the switch probe: two processes that hand a token through pipes, without a working set, on one CPU.
//! Both take off what the pipes cost without a switch.

use std::time::Duration;

use bulkhead::probes::detail::Detail;
use bulkhead::probes::metrics_of;
use bulkhead::probes::params::{ProbeSpec, SwitchParams};
use bulkhead::units::Millis;
use bulkhead::units::facts::ClockFacts;
use bulkhead::units::metric::Unit;

use super::another;
use crate::own;
use crate::parse::lat_ctx;
use crate::rounds::{Check, World};
use crate::table::Row;
use crate::tool::Tool;

/// It pins nothing itself.
const TASKSET: Tool = Tool { name: "taskset", package: "util-linux" };
const SAME: &str = "process_pipe_same_cpu_ns";

pub struct Switching;

impl Check for Switching {
    fn name(&self) -> &'static str {
        "switching"
    }

    fn rows(&self) -> Vec<Row> {
        vec![Row::within("switch between processes / lat_ctx", Unit::Nanoseconds, 0.15)]
    }

    fn theirs(&mut self, world: &World) -> Result<Vec<f64>, String> {
        let tool = bulkhead::cli::cache_folder().join("tools/bin/lat_ctx");
        if !tool.is_file() {
            return Err("lat_ctx is not there; ./setup.sh crosscheck fetches it".to_owned());
        }
        let last = bulkhead::probes::pin::allowed_cpus().last().copied().unwrap_or(0).to_string();
        let tool = tool.to_str().ok_or("the cache folder's name is no text")?;
        let arguments = ["-c", &last, tool, "-P", "1", "-s", "0", "-N", "5", "2"];
        let printed = TASKSET.run(&arguments, world.folder(), Duration::from_secs(120))?;
        Ok(vec![lat_ctx::parse(&printed)?])
    }

    fn ours(&mut self, world: &World) -> Result<Vec<f64>, String> {
        let params = SwitchParams { duration_ms: Millis::from_millis(500) };
        let detail = own::run(ProbeSpec::Switch(params), world.folder())?;
        if !matches!(detail, Detail::Switch(_)) {
            return Err(another(&detail));
        }
        let clock = ClockFacts { name: "monotonic".to_owned(), read_ns: 0.0, resolution_ns: 1.0 };
        let metrics = metrics_of(&detail, &clock);
        let same = metrics.iter().find(|metric| metric.id == SAME).and_then(|metric| metric.figure.value());
        same.map(|ns| vec![ns]).ok_or_else(|| format!("the switch probe has no {SAME}"))
    }
}
