//! Whether a measurement saw anything at all. One that did not is a failure with a reason and never a rate of zero: a
//! probe that a busy machine kept from its CPU says nothing of the machine. Asked by the agent before it answers, and by
//! the host of what it is sent.

use super::{Detail, DiskDetail, NetDetail, RateDetail, RatePoint};
use crate::units::Nanos;

impl Detail {
    /// Why this measurement saw nothing; none when it saw something.
    pub fn saw_nothing(&self) -> Option<String> {
        let because = |is_nothing: bool, what: &str| is_nothing.then(|| what.to_owned());
        match self {
            Self::Gap(gap) => {
                because(gap.batches.iter().all(super::super::histogram::Histogram::is_empty), "no gap")
            }
            Self::Fwq(fwq) => because(no_time(&fwq.samples_ns), "no fixed work was timed"),
            Self::Ftq(ftq) => {
                because(ftq.work.iter().all(|work| *work == 0), "no work was done in any quantum")
            }
            Self::Wakeup(wakeup) => because(
                wakeup.threads.is_empty() || wakeup.threads.iter().any(|thread| thread.due == 0),
                "no activation came due on one of the CPUs",
            ),
            Self::Frames(frames) => because(frames.frame_ns.is_empty(), "no frame was finished"),
            Self::Cpu(cpu) => because(
                cpu.points.is_empty() || cpu.points.iter().any(|point| no_time(&point.elapsed_ns)),
                "the work was timed with none, or not all, of the numbers of threads",
            ),
            Self::Syscall(rate) => rates(rate, "system call"),
            Self::Fork(rate) => rates(rate, "process"),
            Self::Exit(exit) => {
                because(exit.trap_ticks.is_empty() || exit.empty_ticks.is_empty(), "no instruction was timed")
            }
            Self::Lock(lock) => because(
                lock.points.is_empty() || lock.points.iter().any(|point| point.turns.iter().all(|n| *n == 0)),
                "nobody got one of the locks",
            ),
            Self::Linpack(linpack) => because(no_time(&linpack.elapsed_ns), "no system was solved"),
            Self::Build(build) => {
                because(build.files == 0 || build.wall_ns.get() == 0, "no file was compiled")
            }
            Self::MemLatency(memory) => because(
                memory.points.is_empty() || memory.points.iter().any(|point| point.load_ns <= 0.0),
                "no load was timed at one of the sizes",
            ),
            Self::MemBandwidth(memory) => because(
                memory.points.is_empty() || memory.points.iter().any(|point| point.bytes_per_s <= 0.0),
                "no byte was moved at one of the sizes",
            ),
            Self::Pages(pages) => {
                because(pages.passes.iter().all(|pass| pass.touch_ns.is_empty()), "no page was touched")
            }
            Self::Disk(disk) => phases(disk),
            Self::Net(net) => because(is_deaf(net), "nothing arrived in any exchange"),
            // Only one of those that pass messages has the times.
            Self::Mpi(mpi) => because(
                !mpi.points.is_empty() && mpi.points.iter().all(|point| point.iterations == 0),
                "no message was exchanged",
            ),
            Self::Share(share) => {
                because(share.phases.iter().all(|phase| phase.rounds == 0), "no round of work was done")
            }
        }
    }
}

fn no_time(times: &[Nanos]) -> bool {
    times.iter().all(|time| time.get() == 0)
}

/// A number of threads with which no operation ended in any window.
fn rates(rate: &RateDetail, what: &str) -> Option<String> {
    if rate.points.is_empty() {
        return Some(format!("no {what} was counted with any number of threads"));
    }
    let point = rate.points.iter().find(|point| is_idle(point))?;
    let windows = point.operations.len();
    Some(format!(
        "no {what} ended in {windows} of {windows} windows with {} threads: the machine is too busy for windows so \
         short, give the probe more time (duration_ms)",
        point.threads
    ))
}

fn is_idle(point: &RatePoint) -> bool {
    point.operations.iter().all(|count| *count == 0)
}

/// A phase that could be measured and moved nothing; or none that could.
fn phases(disk: &DiskDetail) -> Option<String> {
    let mut measured = disk.phases.iter().filter(|phase| phase.unsupported.is_none()).peekable();
    if measured.peek().is_none() {
        let why = disk.phases.iter().find_map(|phase| phase.unsupported.as_deref());
        return Some(format!("no phase could be measured: {}", why.unwrap_or("there was none")));
    }
    let idle = measured.find(|phase| phase.bytes.get() == 0 || phase.latency_ns.is_empty())?;
    Some(format!("no block was moved in {:?} {:?}: give the probe more time", idle.mode, idle.direction))
}

/// Whether it heard nothing where it could have.
fn is_deaf(net: &NetDetail) -> bool {
    let mut tried = net.points.iter().filter(|point| point.unsupported.is_none()).peekable();
    tried.peek().is_some() && tried.all(|point| point.arrived == 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detail::{CpuDetail, CpuPoint, FtqDetail, FwqDetail, GapDetail, WakeupDetail};
    use crate::histogram::Histogram;
    use crate::units::Hertz;

    fn rate(operations: &[u64]) -> RateDetail {
        let point = |threads, operations: &[u64]| RatePoint {
            threads,
            operations: operations.to_vec(),
            elapsed_ns: vec![Nanos::from_nanos(1); operations.len()],
        };
        RateDetail {
            points: vec![point(1, &[3; 8]), point(2, operations)],
            latency_ns: Histogram::from_values([5; 24]),
        }
    }

    #[test]
    fn zero_operations_in_8_of_8_windows_are_no_rate() {
        let why = Detail::Fork(rate(&[0; 8])).saw_nothing().unwrap();
        assert!(why.starts_with("no process ended in 8 of 8 windows with 2 threads"), "{why}");
        assert_eq!(Detail::Fork(rate(&[0, 0, 0, 0, 0, 0, 0, 1])).saw_nothing(), None);
        assert!(Detail::Syscall(rate(&[])).saw_nothing().is_some());
        assert!(Detail::Syscall(RateDetail { points: vec![], ..rate(&[1]) }).saw_nothing().is_some());
    }

    #[test]
    fn every_kind_without_a_sample_says_so() {
        let gap = GapDetail {
            counter_hz: Hertz::from_hz(1),
            observed_ns: Nanos::from_nanos(1),
            cpu: None,
            batches: vec![Histogram::default(); 4],
            worst: vec![],
        };
        let cpu = CpuDetail {
            iterations: 1,
            cpus: 1,
            points: vec![CpuPoint { threads: 1, elapsed_ns: vec![Nanos::ZERO] }],
        };
        let empty = [
            Detail::Gap(gap),
            Detail::Fwq(FwqDetail { iterations: 1, cpu: None, samples_ns: vec![] }),
            Detail::Ftq(FtqDetail { quantum_ns: Nanos::from_nanos(1), cpu: None, work: vec![0; 9] }),
            Detail::Wakeup(WakeupDetail { period_ns: Nanos::from_nanos(1), priority: None, threads: vec![] }),
            Detail::Cpu(cpu),
            Detail::Disk(DiskDetail { target: String::new(), phases: vec![], alignment: None }),
        ];
        for detail in empty {
            assert!(detail.saw_nothing().is_some(), "{detail:?}");
        }
        assert_eq!(Detail::Net(NetDetail::default()).saw_nothing(), None, "the one who answers has no times");
    }
}
