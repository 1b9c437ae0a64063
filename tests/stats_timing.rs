//! Figures of ftq, wakeup and frames: the right ones come out of good details, and no detail, however broken, makes a
//! panic or a figure that is not a finite number.

use std::collections::BTreeSet;

use bulkhead::probes::detail::{Detail, FramesDetail, FtqDetail, Stretch, WakeupDetail, WakeupThread};
use bulkhead::probes::metrics_of;
use bulkhead::units::Nanos;
use bulkhead::units::facts::ClockFacts;
use bulkhead::units::histogram::Histogram;
use bulkhead::units::metric::{Figure, Metric};
use proptest::collection::vec;
use proptest::prelude::*;

fn metrics(detail: &Detail) -> Vec<Metric> {
    metrics_of(detail, &ClockFacts { name: "tsc".to_owned(), read_ns: 18.4, resolution_ns: 1.0 })
}

fn figure<'a>(metrics: &'a [Metric], id: &str) -> &'a Figure {
    &metrics.iter().find(|metric| metric.id == id).unwrap_or_else(|| panic!("no {id}")).figure
}

fn near(metrics: &[Metric], id: &str, want: f64, within: f64) {
    let got = figure(metrics, id).value().unwrap_or_else(|| panic!("{id}: {:?}", figure(metrics, id)));
    assert!((got - want).abs() <= within * want.abs(), "{id}: {got} instead of {want}");
}

fn nanos(times: &[u64]) -> Vec<Nanos> {
    times.iter().copied().map(Nanos::from_nanos).collect()
}

fn quanta(work: Vec<u32>) -> Detail {
    Detail::Ftq(FtqDetail { quantum_ns: Nanos::from_nanos(100_000), cpu: Some(0), work })
}

#[test]
fn ftq_says_what_is_missing_and_how_often() {
    // Every fortieth quantum (250 Hz) loses a quarter; one is lost whole.
    let mut work: Vec<u32> = (0..8000).map(|index| if index % 40 == 7 { 3000 } else { 4000 }).collect();
    work[4001] = 0;
    let metrics = metrics(&quanta(work));
    assert!(metrics[0].headline && metrics[0].id == "noise_share");
    near(&metrics, "noise_share", 0.25 / 40.0 + 1.0 / 8000.0, 1e-6);
    near(&metrics, "worst_quantum_share", 1.0, 1e-9);
    near(&metrics, "periodic_hz", 250.0, 1e-4);
    near(&metrics, "periodic_share", 0.25 / 40.0, 0.02);
}

#[test]
fn ftq_without_a_beat_says_so() {
    let even = metrics(&quanta(vec![4000; 1000]));
    near(&even, "noise_share", 0.0, 0.0);
    let Figure::Unsupported(reason) = figure(&even, "periodic_hz") else { panic!("{even:?}") };
    assert!(reason.starts_with("nothing periodic stands out of the noise between "), "{reason}");
    let idle = metrics(&quanta(vec![0; 1000]));
    assert!(idle.iter().all(|metric| matches!(metric.figure, Figure::Unsupported(_))), "{idle:?}");
}

#[test]
fn wakeup_counts_what_a_stall_covers() {
    let service: Vec<u64> = (0..989).map(|index| 5_000 + index).chain([10_500_000]).collect();
    let response = service.iter().copied().chain((1..=10).map(|passed| 10_500_000 - passed * 1_000_000));
    let thread = WakeupThread {
        cpu: Some(1),
        began_ns: None,
        due: 1000,
        missed: 10,
        response_ns: Histogram::from_values(response),
        service_ns: Histogram::from_values(service),
        worst: vec![Stretch { start_ns: Nanos::from_nanos(1), length_ns: Nanos::from_nanos(10_500_000) }],
        witnessed: vec![],
    };
    let detail =
        WakeupDetail { period_ns: Nanos::from_nanos(1_000_000), priority: None, threads: vec![thread] };
    let metrics = metrics(&Detail::Wakeup(detail));
    assert!(metrics[0].headline && metrics[0].id == "response_p99_ns");
    near(&metrics, "missed_share", 0.01, 1e-9);
    near(&metrics, "response_max_ns", 10_500_000.0, 1e-9);
    // 11 of 1000 waited for more than 0.5 ms, so the 99 % quantile is among them; of the 990 wake-ups only one did.
    near(&metrics, "response_p99_ns", 500_000.0, 0.01);
    assert!(matches!(figure(&metrics, "service_p99_ns"), Figure::Unsupported(_)), "990 wake-ups are too few");
    near(&metrics, "service_p50_ns", 5_495.0, 0.01);
    assert!(matches!(figure(&metrics, "response_p99_9_ns"), Figure::Unsupported(_)));
}

#[test]
fn frames_waits_for_those_that_were_missed_too() {
    let mut frame = vec![4_000_000; 190];
    // Done 100.5 periods of 10 ms late: nine more due times were left after that.
    frame.push(95_000_000);
    let detail = FramesDetail {
        period_ns: Nanos::from_nanos(10_000_000),
        iterations: 1,
        work_ns: nanos(&vec![3_000_000; 191]),
        frame_ns: nanos(&frame),
        missed: 9,
    };
    let metrics = metrics(&Detail::Frames(detail));
    assert!(metrics[0].headline && metrics[0].id == "frame_p95_ns");
    near(&metrics, "missed_share", 9.0 / 200.0, 1e-9);
    near(&metrics, "frame_p95_ns", 4_000_000.0, 0.3);
    near(&metrics, "frame_max_ns", 95_000_000.0, 1e-9);
    near(&metrics, "work_p50_ns", 3_000_000.0, 1e-9);
    assert!(matches!(figure(&metrics, "frame_p99_ns"), Figure::Unsupported(_)), "1000 are needed");
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0u64), Just(1), Just(u64::MAX), any::<u64>(), 1u64..100_000]
}

fn times() -> impl Strategy<Value = Vec<Nanos>> {
    vec(number().prop_map(Nanos::from_nanos), 0..12)
}

fn histogram() -> impl Strategy<Value = Histogram> {
    vec((any::<u16>(), number(), number()), 0..12).prop_map(|buckets| {
        serde_json::from_value(serde_json::json!(buckets)).expect("triples of numbers are a histogram")
    })
}

fn anything() -> impl Strategy<Value = Detail> {
    let work = vec(prop_oneof![Just(0u32), Just(u32::MAX), any::<u32>(), 1000u32..1010], 0..300);
    let ftq = (number(), work).prop_map(|(length, work)| {
        Detail::Ftq(FtqDetail { quantum_ns: Nanos::from_nanos(length), cpu: None, work })
    });
    let thread = (number(), number(), histogram(), histogram(), times()).prop_map(
        |(due, missed, service_ns, response_ns, worst)| WakeupThread {
            cpu: None,
            began_ns: None,
            due,
            missed,
            service_ns,
            response_ns,
            worst: worst.into_iter().map(|time| Stretch { start_ns: time, length_ns: time }).collect(),
            witnessed: vec![],
        },
    );
    let wakeup = (number(), vec(thread, 0..4)).prop_map(|(period, threads)| {
        Detail::Wakeup(WakeupDetail { period_ns: Nanos::from_nanos(period), priority: None, threads })
    });
    let frames = (number(), times(), times(), number()).prop_map(|(period, frame_ns, work_ns, missed)| {
        Detail::Frames(FramesDetail {
            period_ns: Nanos::from_nanos(period),
            iterations: 1,
            frame_ns,
            work_ns,
            missed,
        })
    });
    prop_oneof![ftq, wakeup, frames]
}

proptest! {
    #[test]
    fn no_detail_upsets_the_figures(detail in anything()) {
        let metrics = metrics(&detail);
        let ids: BTreeSet<&str> = metrics.iter().map(|metric| metric.id.as_str()).collect();
        prop_assert_eq!(ids.len(), metrics.len());
        prop_assert!(metrics[0].headline);
        prop_assert!(metrics.iter().filter_map(|metric| metric.figure.value()).all(f64::is_finite));
    }
}
