//! Measurements that several instances make at once: one set of metrics for all of them, how far apart they began, and
//! who got less than its share.
//!
//! ```text
//!  made together (net, mpi, share)   the first instance's outcome speaks for all; share needs everybody's, net that of
//!                                    each pair
//!  each for itself (all others)      per metric the median over the instances, and how far the worst is from the best
//! ```
//! Where instances measure each for itself, one that broke is left out, as long as half of them came through.
//! Fair share: of n instances each should get 1/n of what all got together (methodology: isolation). An instance that got
//! less than a quarter of that starves.

use super::host_memory::seen_from_host;
use super::outside::{began_on_host, skew};
use model::journal::{Measurement, Outcome, Skew};
use probes::detail::Detail;
use probes::job::ProbeReport;
use probes::probe::Definition;
use probes::{ProbeKind, metrics_of};
use units::metric::{Better, Figure, Metric, Unit};
use units::{Nanos, three_digits};

/// Who gets less than this part of its fair share starves.
const STARVES_BELOW: f64 = 0.25;
/// On one machine instances begin within this time, or it is said.
const TOGETHER: Nanos = Nanos::from_nanos(1_000_000);

/// Id of the metric that says how far the worst instance is from the best.
pub const MEMBER_SPREAD: &str = "member_spread_ratio";
/// Id of the metric that says how far apart the instances began.
pub const START_SKEW: &str = "start_skew_ns";

/// What these two are, of any probe.
pub const DEFINITIONS: &[Definition] = &[
    Definition {
        ids: MEMBER_SPREAD,
        words: "Main figure of the instance that did worst over that of the one that did best, of those that measured at once.",
    },
    Definition {
        ids: START_SKEW,
        words: "Time between the first instance's start and the last one's, on the host's clock.",
    },
];

/// Metrics of a measurement, whether one instance or several made it; none when it broke.
pub fn metrics_of_measurement(measurement: &Measurement) -> Option<Vec<Metric>> {
    let reports: Vec<&ProbeReport> = reports(measurement)?.into_iter().map(|(_, report)| report).collect();
    let first = reports.first()?;
    // The host looks at the first instance alone.
    let host = measurement.host.as_ref().filter(|_| report_of(&measurement.outcome).is_some());
    let Some(layout) = measurement.cell.layout else {
        let mut metrics = metrics_of(&first.detail, &first.clock);
        seen_from_host(&mut metrics, &first.detail, host);
        return Some(metrics);
    };
    let mut metrics = if measurement.cell.probe.is_made_together() {
        metrics_of(&whole_detail(measurement)?, &first.clock)
    } else {
        let all: Vec<Vec<Metric>> =
            reports.iter().map(|report| metrics_of(&report.detail, &report.clock)).collect();
        let mut metrics = medians(&all);
        metrics.extend(spread(&all));
        seen_from_host(&mut metrics, &first.detail, host);
        metrics
    };
    if layout.instances() > 1 {
        metrics.push(skew_metric(measurement.start_skew_ns));
    }
    Some(metrics)
}

/// Reports of all instances that came through, in order, each with its rank; none when the measurement broke.
fn reports(measurement: &Measurement) -> Option<Vec<(usize, &ProbeReport)>> {
    if measurement.broke().is_some() {
        return None;
    }
    let ranked = measurement.outcomes().enumerate();
    Some(ranked.filter_map(|(rank, outcome)| Some((rank, report_of(outcome)?))).collect())
}

fn report_of(outcome: &Outcome) -> Option<&ProbeReport> {
    match outcome {
        Outcome::Done(report) => Some(report),
        Outcome::Failed(_) => None,
    }
}

/// The raw outcome that stands for the measurement: the first instance's, with the others' for shares and those of the other
/// pairs for the network. None when the measurement broke.
pub fn whole_detail(measurement: &Measurement) -> Option<Detail> {
    let reports = reports(measurement)?;
    let ((_, first), others) = reports.split_first()?;
    let mut detail = first.detail.clone();
    if let Detail::Share(share) = &mut detail {
        share.others = others
            .iter()
            .filter_map(|(_, report)| match &report.detail {
                Detail::Share(other) => Some(other.clone()),
                _ => None,
            })
            .collect();
    }
    if let Detail::Net(net) = &mut detail {
        // The first of the others is the partner of the first instance; the last of an odd number has none.
        let pairs = others.get(1..).unwrap_or_default().chunks_exact(2);
        let of_first = pairs.filter_map(|pair| match &pair.first()?.1.detail {
            Detail::Net(other) => Some(other.clone()),
            _ => None,
        });
        net.others = of_first.collect();
    }
    Some(detail)
}

/// Per metric of the first instance the median over all; a reason when less than half of them have a figure.
fn medians(all: &[Vec<Metric>]) -> Vec<Metric> {
    let Some(first) = all.first() else { return Vec::new() };
    first
        .iter()
        .map(|metric| {
            let mut values = values(all, &metric.id);
            values.sort_by(f64::total_cmp);
            let figure = match (median(&values), &metric.figure) {
                (Some(value), _) if values.len() * 2 >= all.len() => Figure::Value(value),
                (_, Figure::Unsupported(reason)) => Figure::Unsupported(reason.clone()),
                _ => Figure::Unsupported("less than half of the instances have a figure".to_owned()),
            };
            Metric { figure, ..metric.clone() }
        })
        .collect()
}

fn values(all: &[Vec<Metric>], id: &str) -> Vec<f64> {
    all.iter().filter_map(|metrics| metrics.iter().find(|metric| metric.id == id)?.figure.value()).collect()
}

fn median(sorted: &[f64]) -> Option<f64> {
    let upper = *sorted.get(sorted.len() / 2)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    let lower = *sorted.get((sorted.len() / 2).checked_sub(1)?)?;
    Some(f64::midpoint(lower, upper))
}

/// The main metric's worst instance over its best, 1 when all are alike.
fn spread(all: &[Vec<Metric>]) -> Option<Metric> {
    let main = all.first()?.iter().find(|metric| metric.headline)?;
    let values = values(all, &main.id);
    let least = values.iter().copied().min_by(f64::total_cmp);
    let most = values.iter().copied().max_by(f64::total_cmp);
    let figure = match (least, most) {
        (Some(least), Some(most)) if least > 0.0 && values.len() > 1 => Figure::Value(most / least),
        (Some(_), Some(_)) if values.len() > 1 => {
            Figure::Unsupported("an instance's figure is 0: no ratio".to_owned())
        }
        _ => Figure::Unsupported("less than two instances have a figure".to_owned()),
    };
    Some(Metric {
        id: MEMBER_SPREAD.to_owned(),
        title: format!("{}, worst instance over best", main.title),
        unit: Unit::Count,
        better: Better::Lower,
        headline: false,
        figure,
    })
}

fn skew_metric(skew: Option<Skew>) -> Metric {
    let figure = skew.map_or_else(
        || Figure::Unsupported("the host's clock was not answered by every instance".to_owned()),
        |skew| Figure::Value(skew.skew_ns.as_f64()),
    );
    Metric {
        id: START_SKEW.to_owned(),
        title: "first start to last".to_owned(),
        unit: Unit::Nanoseconds,
        better: Better::Lower,
        headline: false,
        figure,
    }
}

/// How far apart the instances that came through began, on the host's clock; none when one of them does not know or there
/// is only one.
pub fn start_skew(outcomes: &[Outcome]) -> Option<Skew> {
    let reports: Vec<&ProbeReport> = outcomes.iter().filter_map(report_of).collect();
    if reports.len() < 2 {
        return None;
    }
    let began: Option<Vec<(f64, f64)>> =
        reports.iter().map(|report| began_on_host(report.outside.as_ref()?)).collect();
    let (skew_ns, error_ns) = skew(&began?)?;
    Some(Skew { skew_ns, error_ns })
}

/// What a reader must know of a joint measurement: instances that broke, that began apart, and that starved.
pub fn remarks(measurement: &Measurement) -> Vec<String> {
    let Some(layout) = measurement.cell.layout.filter(|layout| layout.instances() > 1) else {
        return Vec::new();
    };
    let Some(reports) = reports(measurement) else { return Vec::new() };
    let round = u64::from(measurement.round) + 1;
    let mut remarks: Vec<String> = measurement
        .broken_instances()
        .map(|(rank, _)| {
            format!(
                "round {round}: instance {} of {} broke; the figures are those of the {} that came through, which had less \
                 company from then on",
                rank + 1,
                layout.instances(),
                reports.len()
            )
        })
        .collect();
    match measurement.start_skew_ns {
        None if reports.len() < 2 => {}
        None => remarks.push(format!(
            "round {round}: how far apart the {} instances began is not known: one of them got no answer from the \
             host's clock",
            layout.instances()
        )),
        Some(Skew { skew_ns, error_ns }) if skew_ns > TOGETHER => remarks.push(format!(
            "round {round}: the {} instances began {skew_ns} ± {error_ns} apart, more than 1 ms",
            layout.instances()
        )),
        Some(_) => {}
    }
    for (rank, share) in starving(measurement.cell.probe, &reports) {
        let got = three_digits(share);
        remarks.push(format!(
            "round {round}: instance {} of {} starved: it got {got} of its fair share",
            rank + 1,
            layout.instances()
        ));
    }
    remarks
}

/// Instances that got less than a quarter of their fair share, with what they got of it. Only where the main metric is
/// a throughput, or the time of fixed work, which is one over it.
fn starving(probe: ProbeKind, reports: &[(usize, &ProbeReport)]) -> Vec<(usize, f64)> {
    if !probe.about().is_about_shares {
        return Vec::new();
    }
    let rate = |report: &ProbeReport| {
        let metrics = metrics_of(&report.detail, &report.clock);
        let main = metrics.iter().find(|metric| metric.headline)?;
        let value = main.figure.value().filter(|value| *value > 0.0)?;
        Some(if main.better == Better::Lower { 1.0 / value } else { value })
    };
    let rates: Vec<(usize, Option<f64>)> =
        reports.iter().map(|(rank, report)| (*rank, rate(report))).collect();
    let fair = rates.iter().filter_map(|(_, rate)| *rate).sum::<f64>() / rates.len().max(1) as f64;
    let shares = rates.into_iter().map(|(rank, rate)| (rank, rate.map(|rate| rate / fair)));
    shares.filter_map(|(rank, share)| Some((rank, share.filter(|share| *share < STARVES_BELOW)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::journal::{Cell, Failure, FailureKind};
    use probes::detail::{FwqDetail, NetDetail, NetDirection, NetPoint};
    use probes::params::{Exchange, Protocol};
    use units::Bytes;
    use units::facts::{ClockFacts, OwnCost};

    fn report(each_ns: u64) -> Outcome {
        let clock = ClockFacts { name: "tsc".to_owned(), read_ns: 1.0, resolution_ns: 1.0 };
        let cost =
            OwnCost { per_sample_ns: 0.0, cpu_time_ns: Nanos::ZERO, memory_bytes: Bytes::from_bytes(0) };
        let samples_ns = vec![Nanos::from_nanos(each_ns); 1000];
        let detail = Detail::Fwq(FwqDetail { iterations: 1, cpu: None, samples_ns });
        Outcome::Done(Box::new(ProbeReport::new(clock, cost, detail, Vec::new())))
    }

    fn measurement(samples: &[u64], skew_ns: Option<u64>) -> Measurement {
        let mut outcomes: Vec<Outcome> = samples.iter().map(|sample| report(*sample)).collect();
        let others = outcomes.split_off(1);
        let layout = format!("1x{}", samples.len()).parse().ok();
        Measurement {
            cell: Cell { probe: ProbeKind::Fwq, neighbour: None, platform: "p".to_owned(), layout },
            round: 4,
            started_unix_ns: Nanos::ZERO,
            duration_ns: Nanos::ZERO,
            doses: Vec::new(),
            outcome: outcomes.remove(0),
            others,
            start_skew_ns: skew_ns
                .map(|skew| Skew { skew_ns: Nanos::from_nanos(skew), error_ns: Nanos::from_nanos(9) }),
            host: None,
            instances: Vec::new(),
        }
    }

    fn value(metrics: &[Metric], id: &str) -> Option<f64> {
        metrics.iter().find(|metric| metric.id == id)?.figure.value()
    }

    #[test]
    fn every_pair_of_a_network_probe_is_kept() {
        let net = |size: u32| {
            let point = NetPoint::empty(Protocol::Tcp, Exchange::Stream, NetDirection::Out, size);
            let Outcome::Done(mut report) = report(1) else { panic!("it is done") };
            report.detail = Detail::Net(NetDetail { points: vec![point], others: Vec::new() });
            Outcome::Done(report)
        };
        let sizes = |ranks: u32| {
            let mut measurement = measurement(&[1], None);
            measurement.cell.probe = ProbeKind::Net;
            measurement.outcome = net(0);
            measurement.others = (1..ranks).map(net).collect();
            let Some(Detail::Net(whole)) = whole_detail(&measurement) else { panic!("a net detail") };
            let others = whole.others.iter().flat_map(|other| &other.points);
            whole.points.iter().chain(others).map(|point| point.message_bytes).collect::<Vec<u32>>()
        };
        assert_eq!([sizes(2), sizes(3), sizes(4), sizes(7)], [vec![0], vec![0], vec![0, 2], vec![0, 2, 4]]);
    }

    #[test]
    fn metrics_are_medians_over_the_instances_with_their_spread_and_skew() {
        let metrics = metrics_of_measurement(&measurement(&[1000, 4000, 2000], Some(700))).unwrap();
        let main = metrics.iter().find(|metric| metric.headline).unwrap();
        assert_eq!(main.figure.value(), Some(2000.0), "{main:?}");
        assert_eq!(value(&metrics, MEMBER_SPREAD), Some(4.0));
        assert_eq!(value(&metrics, START_SKEW), Some(700.0));
        let even = metrics_of_measurement(&measurement(&[1000, 3000], None)).unwrap();
        assert_eq!(value(&even, &main.id), Some(2000.0));
        assert_eq!(value(&even, START_SKEW), None);
        let one = metrics_of_measurement(&measurement(&[1000], None)).unwrap();
        assert!(value(&one, START_SKEW).is_none() && value(&one, MEMBER_SPREAD).is_none());
    }

    #[test]
    fn who_starves_and_who_began_late_is_named() {
        assert_eq!(remarks(&measurement(&[1000, 1100, 900], Some(1000))), Vec::<String>::new());
        let said = remarks(&measurement(&[1000, 1000, 9000], Some(1_000_001)));
        assert!(said[0].contains("round 5") && said[0].contains("began 1.00 ms ± 9 ns apart"), "{said:?}");
        assert!(said[1].contains("instance 3 of 3 starved: it got 0.158 of its fair share"), "{said:?}");
        let unknown = remarks(&measurement(&[1000, 1000], None));
        assert!(unknown[0].contains("not known"), "{unknown:?}");
    }

    #[test]
    fn who_measures_for_itself_takes_nobody_along_when_it_breaks() {
        let failure = Failure { kind: FailureKind::Died, reason: "gone".to_owned(), console: vec![] };
        let mut one = measurement(&[1000, 1000, 3000, 9000], Some(700));
        one.outcome = Outcome::Failed(failure.clone());
        let metrics = metrics_of_measurement(&one).unwrap();
        assert_eq!(metrics.iter().find(|metric| metric.headline).unwrap().figure.value(), Some(3000.0));
        assert_eq!(value(&metrics, MEMBER_SPREAD), Some(9.0));
        let said = remarks(&one);
        assert!(said[0].contains("instance 1 of 4 broke; the figures are those of the 3"), "{said:?}");
        assert!(said[1].contains("instance 4 of 4 starved"), "{said:?}");
        one.others[0] = Outcome::Failed(failure.clone());
        assert!(metrics_of_measurement(&one).is_some(), "half of them came through");
        one.others[1] = Outcome::Failed(failure.clone());
        assert_eq!((metrics_of_measurement(&one), remarks(&one)), (None, vec![]), "one of four is too few");
        // A load that did nothing is nobody's measurement, and those that need each other break together.
        let mut undisturbed = measurement(&[1000, 1000, 1000], None);
        undisturbed.outcome = Outcome::Failed(Failure { kind: FailureKind::Neighbour, ..failure.clone() });
        assert_eq!(metrics_of_measurement(&undisturbed), None);
        let mut needed = measurement(&[1000, 1000, 1000], None);
        needed.cell.probe = ProbeKind::Mpi;
        needed.others[1] = Outcome::Failed(failure);
        assert_eq!(needed.broke().map(|failure| failure.reason.as_str()), Some("gone"));
    }

    #[test]
    fn a_measurement_that_broke_has_no_metrics() {
        let mut broken = measurement(&[1000, 1000], None);
        let failure = Failure { kind: FailureKind::Died, reason: "gone".to_owned(), console: vec![] };
        broken.others[0] = Outcome::Failed(failure.clone());
        broken.outcome = Outcome::Failed(failure);
        assert_eq!((metrics_of_measurement(&broken), whole_detail(&broken)), (None, None));
        assert_eq!(remarks(&broken), Vec::<String>::new());
        let outcomes = [broken.outcome.clone(), report(1)];
        assert_eq!((start_skew(&outcomes), start_skew(&outcomes[1..])), (None, None));
    }
}
