//! An independent pointer chase in C, compiled here, beside the memory latency probe: the same sizes, from the first
//! cache to memory.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use bulkhead::probes::detail::Detail;
use bulkhead::probes::params::{MemLatencyParams, ProbeSpec};
use bulkhead::units::metric::Unit;
use bulkhead::units::{Bytes, Kibibytes, Mebibytes, Millis};

use super::another;
use crate::own;
use crate::parse::chase;
use crate::rounds::{Check, World};
use crate::table::Row;
use crate::tool::Tool;

const SOURCE: &str = include_str!("../chase.c");
const CC: Tool = Tool { name: "cc", package: "gcc" };
/// Sizes in KiB, and what they are called.
const SIZES: [(u64, &str); 4] = [(16, "16 KiB"), (256, "256 KiB"), (8192, "8 MiB"), (131_072, "128 MiB")];
/// Per size.
const MILLIS: u64 = 120;

#[derive(Default)]
pub struct Chase {
    program: Option<PathBuf>,
}

impl Chase {
    fn program(&mut self, world: &World) -> Result<PathBuf, String> {
        if let Some(program) = &self.program {
            return Ok(program.clone());
        }
        fs::write(world.folder().join("chase.c"), SOURCE).map_err(|error| format!("chase.c: {error}"))?;
        CC.run(&["-O2", "-Wall", "-o", "chase", "chase.c"], world.folder(), Duration::from_secs(60))?;
        Ok(self.program.insert(world.folder().join("chase")).clone())
    }
}

impl Check for Chase {
    fn name(&self) -> &'static str {
        "chase"
    }

    fn rows(&self) -> Vec<Row> {
        let row = |(_, name): (u64, &str)| {
            Row::within(&format!("pointer chase {name} / C reference"), Unit::Nanoseconds, 0.05)
        };
        SIZES.map(row).into()
    }

    fn theirs(&mut self, world: &World) -> Result<Vec<f64>, String> {
        let program = self.program(world)?;
        let sizes = SIZES.map(|(kib, _)| (kib * 1024).to_string());
        let seconds = (MILLIS as f64 / 1000.0).to_string();
        let output = std::process::Command::new(program)
            .arg(seconds)
            .args(&sizes)
            .output()
            .map_err(|error| format!("the reference chase: {error}"))?;
        let seen = chase::parse(&String::from_utf8_lossy(&output.stdout))?;
        if seen.len() == SIZES.len() {
            Ok(seen.into_iter().map(|(_, time)| time).collect())
        } else {
            Err(format!("the reference chase ended with {}", output.status))
        }
    }

    fn ours(&mut self, world: &World) -> Result<Vec<f64>, String> {
        let params = MemLatencyParams {
            min_size_kib: Kibibytes::from_kib(16),
            max_size_mib: Some(Mebibytes::from_mib(128)),
            stride_bytes: 64,
            duration_ms: Millis::from_millis(MILLIS),
            steps_per_octave: 1,
            ..MemLatencyParams::default()
        };
        let detail = match own::run(ProbeSpec::MemLatency(params), &world.scratch)? {
            Detail::MemLatency(detail) => detail,
            other => return Err(another(&other)),
        };
        SIZES
            .into_iter()
            .map(|(kib, name)| {
                let size = Bytes::from_bytes(kib * 1024);
                let point = detail.points.iter().find(|point| point.size_bytes == size);
                point
                    .map(|point| point.load_ns)
                    .ok_or_else(|| format!("there is not enough memory for {name}"))
            })
            .collect()
    }
}
