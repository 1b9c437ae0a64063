//! A worker of a channel bench: this program as a process on the host, or as the program of a partition. It does what
//! lines on its standard input say, answers with lines on its standard output, and ends with its input.
//!
//! ```text
//!  order ─► sections are taken ─► a thread on its CPU: lead or follow over a way, or copy ─► answer
//!                                        └── Pair: the second process follows
//! ```

mod copy;
mod exchange;
mod flag;
mod mapping;
mod pair;
mod way;

use std::io::{self, BufReader, Write};
use std::path::Path;
use std::time::Duration;

use nix::sched::{CpuSet, sched_setaffinity};
use nix::unistd::Pid;

use self::exchange::Exchange;
use self::flag::Flag;
use self::pair::Pair;
pub use self::way::RING_BYTES;
use self::way::{Sections, Tcp, Way};
use super::lines::{line_of, read_line};
use model::channel_worker::{
    LONGEST_BYTES, LONGEST_REASON, MappingOrder, MappingTimes, Seen, SeriesOrder, Through, WorkerAnswer,
    WorkerOrder, WorkerWay,
};
use units::Reason;

/// The first word of a worker's command line.
pub const VERB: &str = "channel-worker";
/// Longest patience that is granted, in milliseconds.
const MOST_PATIENCE_MS: u64 = 120_000;

/// Size of a section for the ring it holds.
pub fn section_bytes() -> u64 {
    Sections::bytes()
}

/// What a worker keeps from one order to the next.
#[derive(Default)]
struct Worker {
    sections: Sections,
    pair: Option<Pair>,
}

/// Does what standard input says until it ends.
///
/// # Errors
/// When input or output break.
pub fn serve() -> Result<(), Reason> {
    let failed = |error: io::Error| format!("channel-worker: {error}");
    let (mut input, mut output) = (BufReader::new(io::stdin().lock()), io::stdout().lock());
    let mut worker = Worker::default();
    while let Some(line) = read_line(&mut input).map_err(failed)? {
        let order: WorkerOrder = serde_json::from_slice(&line)
            .map_err(|error| format!("channel-worker: wanted an order, got something else: {error}"))?;
        let answer = match order {
            WorkerOrder::Bye => break,
            WorkerOrder::Series(order) => match worker.series(&order) {
                Ok(seen) => WorkerAnswer::Outcome { number: order.number, seen },
                Err(reason) => refusal(order.number, &reason.to_string()),
            },
            WorkerOrder::Mapping(order) => match mapped(&order) {
                Ok(repeats) => WorkerAnswer::Mappings { number: order.number, repeats },
                Err(reason) => refusal(order.number, &reason.to_string()),
            },
        };
        output.write_all(&line_of(&answer)?).and_then(|()| output.flush()).map_err(failed)?;
    }
    Ok(())
}

fn refusal(number: u64, reason: &str) -> WorkerAnswer {
    WorkerAnswer::Failed { number, reason: reason.chars().take(LONGEST_REASON).collect() }
}

fn mapped(order: &MappingOrder) -> Result<Vec<MappingTimes>, Reason> {
    on_cpu(order.cpu, || mapping::measure(order))
}

impl Worker {
    fn series(&mut self, order: &SeriesOrder) -> Result<Seen, Reason> {
        if order.bytes == 0 || order.bytes > LONGEST_BYTES {
            return Err(format!("wanted messages of 1 to {LONGEST_BYTES} bytes, got {}", order.bytes).into());
        }
        let bytes = usize::try_from(order.bytes).map_err(|error| error.to_string())?;
        let patience = Duration::from_millis(order.patience_ms.min(MOST_PATIENCE_MS));
        match &order.way {
            WorkerWay::Copy => on_cpu(order.cpu, || Ok(copy::copy(bytes, order.limits))),
            WorkerWay::Tcp { address } => on_cpu(order.cpu, || {
                let connected = if order.leads { Tcp::connect } else { Tcp::listen };
                exchange(&mut connected(address, patience)?, bytes, order)
            }),
            WorkerWay::Shared { through, own, peer } => self.shared(*through, (own, peer), bytes, order),
            WorkerWay::Pair(through) => self.paired(*through, bytes, order),
        }
    }

    /// Sections are taken before the thread is held to its CPU: their hearts beat on any.
    fn shared(
        &mut self,
        through: Through,
        (own, peer): (&Path, &Path),
        bytes: usize,
        order: &SeriesOrder,
    ) -> Result<Seen, Reason> {
        let patience = Duration::from_millis(order.patience_ms.min(MOST_PATIENCE_MS));
        if through == Through::Flag {
            // Nothing else of ours may write there.
            self.sections.end(own);
            return on_cpu(order.cpu, || {
                exchange(&mut Flag::over(own, peer, order.number, patience)?, bytes, order)
            });
        }
        self.sections.take(own, order.leads)?;
        let sections = &self.sections;
        on_cpu(order.cpu, || exchange(&mut sections.connect(own, peer, order.leads, patience)?, bytes, order))
    }

    fn paired(&mut self, through: Through, bytes: usize, order: &SeriesOrder) -> Result<Seen, Reason> {
        let mut pair = match self.pair.take() {
            Some(pair) => pair,
            None => Pair::start()?,
        };
        pair.begin(through, order)?;
        let (own, peer) = pair.paths();
        let seen = self.shared(through, (&own, &peer), bytes, order);
        let followed = pair.end();
        if seen.is_err() || followed.is_err() {
            // One that broke is not kept: the next series starts another one, with new sections.
            self.sections.end(&own);
        }
        match (seen, followed) {
            (Ok(seen), Ok(())) => {
                self.pair = Some(pair);
                Ok(seen)
            }
            (Err(led), Ok(())) => Err(led),
            (Ok(_), Err(followed)) => Err(followed),
            (Err(led), Err(followed)) => Err(format!("{led}; the other side: {followed}").into()),
        }
    }
}

fn exchange(way: &mut dyn Way, bytes: usize, order: &SeriesOrder) -> Result<Seen, Reason> {
    let mut exchange = Exchange::new(way, bytes);
    if order.leads { exchange.lead(order.limits) } else { exchange.follow().map(|()| Seen::default()) }
}

/// Does something in a thread that keeps to a CPU.
fn on_cpu<T: Send>(cpu: Option<u32>, work: impl FnOnce() -> Result<T, Reason> + Send) -> Result<T, Reason> {
    let pinned = move || {
        if let Some(cpu) = cpu {
            let mut set = CpuSet::new();
            set.set(cpu as usize)
                .and_then(|()| sched_setaffinity(Pid::from_raw(0), &set))
                .map_err(|error| format!("keeping to CPU {cpu}: {error}"))?;
        }
        work()
    };
    std::thread::scope(|scope| {
        scope.spawn(pinned).join().unwrap_or_else(|_| Err("the thread that measures broke".into()))
    })
}
