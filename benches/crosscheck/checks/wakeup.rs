//! cyclictest beside the wake-up probe: one thread each on the same CPU, with the same priority and period, for the same
//! time. Both at once: the 99th percentile is what the machine's other work makes of it, which differs by a factor of four
//! from one run to the next, but not between two threads that wake in turn, each a few microseconds in a thousand. The
//! wake-ups that happened are compared; cyclictest leaves out the periods that passed meanwhile, the probe counts them.

use std::thread;
use std::time::Duration;

use bulkhead::probes::detail::Detail;
use bulkhead::probes::params::{ProbeSpec, WakeupParams};
use bulkhead::probes::pin::allowed_cpus;
use bulkhead::stats::summary::histogram_quantile;
use bulkhead::units::metric::Unit;
use bulkhead::units::{Micros, Millis};

use super::another;
use crate::own;
use crate::parse::cyclictest;
use crate::rounds::{Both, Check, World};
use crate::table::Row;
use crate::tool::Tool;

const CYCLICTEST: Tool = Tool { name: "cyclictest", package: "rt-tests" };
const PERIOD_US: u64 = 1000;
const SECONDS: u64 = 3;
/// cyclictest begins this much earlier, so that nobody's start is in the other's figures for long.
const AHEAD: Duration = Duration::from_millis(300);
const PRIORITY: u32 = 80;
/// Of the latencies, a row each: the typical one scatters least and shows what differs by itself.
const QUANTILES: [f64; 2] = [0.99, 0.5];

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
        vec![
            Row::within("wake-up latency, p99 / cyclictest", Unit::Nanoseconds, 0.1),
            Row::within("wake-up latency, p50 / cyclictest", Unit::Nanoseconds, 0.1),
        ]
    }

    /// Only where both cannot run at once.
    fn theirs(&mut self, _world: &World) -> Result<Vec<f64>, String> {
        Err("the kernel does not say which CPUs are allowed".to_owned())
    }

    fn ours(&mut self, world: &World) -> Result<Vec<f64>, String> {
        let params = WakeupParams {
            period_us: Micros::from_micros(PERIOD_US),
            duration_ms: Millis::from_millis(SECONDS * 1000),
            priority: PRIORITY,
            threads: 1,
        };
        let detail = match own::run(ProbeSpec::Wakeup(params), &world.scratch)? {
            Detail::Wakeup(detail) => detail,
            other => return Err(another(&other)),
        };
        if detail.priority != Some(PRIORITY) {
            return Err(format!("SCHED_FIFO {PRIORITY} was refused; run as root"));
        }
        let thread = detail.threads.first().ok_or("the wake-up probe had no thread")?;
        if thread.cpu != self.cpu {
            return Err(format!("the probe ran on CPU {:?}, cyclictest on {:?}", thread.cpu, self.cpu));
        }
        self.counted += thread.missed;
        let figures = QUANTILES.map(|share| histogram_quantile(&thread.service_ns, share));
        figures.into_iter().collect::<Option<Vec<f64>>>().ok_or_else(|| "no wake-up".to_owned())
    }

    fn at_once(&mut self, world: &World) -> Option<Both> {
        // Where the probe's first thread goes.
        let cpu = allowed_cpus().last().and_then(|cpu| u32::try_from(*cpu).ok())?;
        self.cpu = Some(cpu);
        Some(thread::scope(|scope| {
            let theirs = scope.spawn(|| cyclictest_on(cpu, world));
            thread::sleep(AHEAD);
            let ours = self.ours(world);
            let theirs = theirs.join().unwrap_or_else(|_| Err("reading cyclictest panicked".to_owned()))?;
            self.skipped += (SECONDS * 1_000_000 / PERIOD_US).saturating_sub(theirs.total);
            let figures = QUANTILES.map(|share| theirs.quantile_ns(share));
            let figures = figures.into_iter().collect::<Option<Vec<f64>>>();
            Ok((ours?, figures.ok_or("cyclictest counted nothing")?))
        }))
    }

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

fn cyclictest_on(cpu: u32, world: &World) -> Result<cyclictest::Wakeups, String> {
    let (cpu, priority) = (cpu.to_string(), PRIORITY.to_string());
    let (period, seconds) = (PERIOD_US.to_string(), SECONDS.to_string());
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
    cyclictest::parse(&CYCLICTEST.run(&arguments, world.folder(), Duration::from_secs(60))?)
}
