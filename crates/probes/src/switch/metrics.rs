//! Figures of the switch probe.

use stats::summary::median;
use units::metric::{Figure, Metric};

use super::detail::{KINDS, SwitchBetween, SwitchKind, SwitchPlace, SwitchThrough};
use crate::detail::{SwitchBatch, SwitchDetail};
use crate::figures::{figure, time};
use crate::probe::Definition;

/// What each figure is, and how it comes about.
pub(crate) const DEFINITIONS: &[Definition] = &[
    Definition {
        ids: "*_pass_ns",
        words: "One pass of the turn, its system calls included; median of the batches.",
    },
    Definition {
        ids: "*_ns",
        words: "One pass less the same calls where nobody waits: the switch alone; median of the batches.",
    },
];

const NOT_MEASURED: &str = "it was not measured";
const NOTHING_LEFT: &str = "the passes took no longer than the same calls where nobody waits";
/// The kinds that summaries are drawn from: what most programs do, on one CPU and on two.
const HEADLINES: usize = 4;

/// Of each kind what a switch costs without the calls, then what a pass costs with them.
pub(crate) fn metrics(detail: &SwitchDetail) -> Vec<Metric> {
    let without = KINDS.iter().enumerate().map(|(number, kind)| {
        let title = format!("switch between {}", words(*kind));
        time(&format!("{}_ns", id(*kind)), &title, number < HEADLINES, of(detail, *kind, net, NOTHING_LEFT))
    });
    let with = KINDS.iter().map(|kind| {
        let title = format!("switch and its calls, between {}", words(*kind));
        time(&format!("{}_pass_ns", id(*kind)), &title, false, of(detail, *kind, gross, NOT_MEASURED))
    });
    without.chain(with).collect()
}

fn of(detail: &SwitchDetail, kind: SwitchKind, each: fn(&SwitchBatch) -> f64, nothing: &str) -> Figure {
    let Some(point) = detail.points.iter().find(|point| point.kind() == kind) else {
        return Figure::Unsupported(NOT_MEASURED.to_owned());
    };
    if let Some(reason) = &point.unsupported {
        return Figure::Unsupported(reason.clone());
    }
    let all: Vec<f64> = point.batches.iter().map(each).collect();
    figure(median(&all).filter(|cost| *cost > 0.0), nothing)
}

fn gross(batch: &SwitchBatch) -> f64 {
    batch.elapsed_ns.as_f64() / batch.passes as f64
}

fn net(batch: &SwitchBatch) -> f64 {
    gross(batch) - batch.alone_ns.as_f64() / batch.passes as f64
}

fn id((between, through, place): SwitchKind) -> String {
    let between = match between {
        SwitchBetween::Processes => "process",
        SwitchBetween::Threads => "thread",
    };
    let through = match through {
        SwitchThrough::Pipe => "pipe",
        SwitchThrough::Futex => "futex",
    };
    let place = match place {
        SwitchPlace::SameCpu => "same_cpu",
        SwitchPlace::TwoCpus => "two_cpus",
    };
    format!("{between}_{through}_{place}")
}

fn words((between, through, place): SwitchKind) -> String {
    let between = match between {
        SwitchBetween::Processes => "processes",
        SwitchBetween::Threads => "threads",
    };
    let through = match through {
        SwitchThrough::Pipe => "a pipe",
        SwitchThrough::Futex => "a futex",
    };
    let place = match place {
        SwitchPlace::SameCpu => "on one CPU",
        SwitchPlace::TwoCpus => "on two",
    };
    format!("{between} {place}, through {through}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::detail::SwitchPoint;
    use units::Nanos;

    #[test]
    fn a_switch_is_what_a_pass_takes_more_than_its_calls() {
        let ns = Nanos::from_nanos;
        let batch = |elapsed| SwitchBatch { passes: 10, elapsed_ns: ns(elapsed), alone_ns: ns(4_000) };
        let (between, through, place) = KINDS[0];
        let mut point = SwitchPoint {
            between,
            through,
            place,
            unsupported: None,
            batches: vec![batch(20_000), batch(16_000), batch(90_000)],
        };
        let value = |point: &SwitchPoint, id: &str| {
            let metrics = metrics(&SwitchDetail { points: vec![point.clone()] });
            metrics.iter().find(|metric| metric.id == id).expect("listed").figure.clone()
        };
        assert_eq!(value(&point, "process_pipe_same_cpu_ns"), Figure::Value(1600.0));
        assert_eq!(value(&point, "process_pipe_same_cpu_pass_ns"), Figure::Value(2000.0));
        assert!(matches!(value(&point, "thread_futex_two_cpus_ns"), Figure::Unsupported(_)));
        point.batches = vec![batch(3_000)];
        assert_eq!(value(&point, "process_pipe_same_cpu_ns"), Figure::Unsupported(NOTHING_LEFT.to_owned()));
        point.batches.clear();
        point.unsupported = Some("no".to_owned());
        assert_eq!(value(&point, "process_pipe_same_cpu_ns"), Figure::Unsupported("no".to_owned()));
    }
}
