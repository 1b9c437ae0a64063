//! cyclictest beside the wake-up probe: one thread on the same CPU, with the same priority and period, for the same time.
//! The wake-ups that happened are compared; cyclictest leaves out the periods that passed meanwhile, the probe counts them.
//!
//! cyclictest's own main thread wakes on the measured CPU every 10 ms, which makes its figures better than a lone sleeper's
//! (4 µs of 28 at the median where this was found out), so here the probe has a companion, too.

use std::time::Duration;

use bulkhead::model::detail::Detail;
use bulkhead::model::metric::Unit;
use bulkhead::model::params::{ProbeSpec, WakeupParams};
use bulkhead::model::units::{Micros, Millis};
use bulkhead::stats::summary::histogram_quantile;
use bulkhead::workloads::pin::{allowed_cpus, pin_to_last_cpu};

use super::another;
use super::companion::Companion;
use crate::own;
use crate::parse::cyclictest;
use crate::rounds::{Check, World};
use crate::table::Row;
use crate::tool::Tool;

const CYCLICTEST: Tool = Tool { name: "cyclictest", package: "rt-tests" };
const PERIOD_US: u64 = 1000;
const SECONDS: u64 = 2;
const PRIORITY: u32 = 80;

#[derive(Default)]
pub struct Wakeup {
    /// Periods that passed without a wake-up of their own, over all rounds: theirs, which they do not mention, and ours.
    skipped: u64,
    counted: u64,
    /// Where the probe ran; cyclictest is sent there.
    cpu: Option<u32>,
}

impl Check for Wakeup {
    fn name(&self) -> &'static str {
        "cyclictest"
    }

    fn rows(&self) -> Vec<Row> {
        vec![Row::within("wake-up latency, p99 / cyclictest", Unit::Nanoseconds, 0.1)]
    }

    fn theirs(&mut self, world: &World) -> Result<Vec<f64>, String> {
        let last = allowed_cpus().last().and_then(|cpu| u32::try_from(*cpu).ok());
        let cpu = self.cpu.or(last).ok_or("no CPU is allowed")?.to_string();
        let (period, seconds) = (PERIOD_US.to_string(), SECONDS.to_string());
        let priority = PRIORITY.to_string();
        let arguments = [
            "--quiet",
            "--mlockall",
            // It would keep CPUs from sleeping, which the probe does not.
            "--default-system",
            "-h",
            "100000",
            "-t",
            "1",
            "-a",
            &cpu,
            "-p",
            &priority,
            "-i",
            &period,
            "-D",
            &seconds,
        ];
        let printed = CYCLICTEST.run(&arguments, world.folder(), Duration::from_secs(60))?;
        let seen = cyclictest::parse(&printed)?;
        self.skipped += (SECONDS * 1_000_000 / PERIOD_US).saturating_sub(seen.total);
        seen.quantile_ns(0.99).map(|p99| vec![p99]).ok_or_else(|| "cyclictest counted nothing".to_owned())
    }

    fn ours(&mut self, world: &World) -> Result<Vec<f64>, String> {
        let params = WakeupParams {
            period_us: Micros::from_micros(PERIOD_US),
            duration_ms: Millis::from_millis(SECONDS * 1000),
            priority: PRIORITY,
            threads: 1,
        };
        let companion = Companion::start(|| {
            pin_to_last_cpu();
        });
        let outcome = own::run(ProbeSpec::Wakeup(params), &world.scratch);
        drop(companion);
        let detail = match outcome? {
            Detail::Wakeup(detail) => detail,
            other => return Err(another(&other)),
        };
        if detail.priority != Some(PRIORITY) {
            return Err(format!("SCHED_FIFO {PRIORITY} was refused; run as root"));
        }
        let thread = detail.threads.first().ok_or("the wake-up probe had no thread")?;
        self.cpu = thread.cpu;
        self.counted += thread.missed;
        histogram_quantile(&thread.service_ns, 0.99)
            .map(|p99| vec![p99])
            .ok_or_else(|| "no wake-up".to_owned())
    }

    /// The 99th percentile depends on where the due times lie between the kernel's own ticks, which is different each time.
    fn pairs_per_round(&self) -> u32 {
        4
    }

    fn remarks(&self) -> Vec<String> {
        vec![format!(
            "periods that passed without a wake-up: cyclictest left out {}, the probe counted {}",
            self.skipped, self.counted
        )]
    }
}
