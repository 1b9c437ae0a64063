//! Figures and pictures of the network and message-passing probes: the right ones come out of known details, no detail
//! however broken upsets them, and the page shows them in a real browser.

use crate::browser;

use browser::cdp::start_or_skip;
use browser::sample;
use bulkhead::model::experiment::LayoutEntry;
use bulkhead::model::journal::Cell;
use bulkhead::model::results::{CellResult, RunResults};
use bulkhead::probes::detail::{Detail, MpiDetail, MpiPattern, MpiPoint, NetDetail, NetDirection, NetPoint};
use bulkhead::probes::params::{Exchange, Protocol};
use bulkhead::probes::{ProbeKind, metrics_of};
use bulkhead::report::page;
use bulkhead::units::facts::ClockFacts;
use bulkhead::units::histogram::Histogram;
use bulkhead::units::layout::Layout;
use bulkhead::units::metric::{Figure, Metric};
use bulkhead::units::{Bytes, Nanos};
use proptest::collection::vec;
use proptest::prelude::*;

fn point(protocol: Protocol, direction: NetDirection, message_bytes: u32) -> NetPoint {
    let both = direction == NetDirection::Both;
    NetPoint {
        protocol,
        exchange: if both { Exchange::RequestResponse } else { Exchange::Stream },
        direction,
        message_bytes,
        unsupported: None,
        elapsed_ns: Nanos::from_nanos(1_000_000_000),
        sent: 2000,
        arrived: 1900,
        bytes: Bytes::from_bytes(1900 * u64::from(message_bytes)),
        round_trip_ns: if both { Histogram::from_values(100..2000) } else { Histogram::default() },
        first_cpu_ns: Nanos::from_nanos(600_000_000),
        second_cpu_ns: Nanos::from_nanos(350_000_000),
        first_system_ns: None,
        second_system_ns: None,
        span: None,
        first_host_ns: None,
        second_host_ns: None,
    }
}

/// The outcome of one pair.
fn pair(points: Vec<NetPoint>) -> NetDetail {
    NetDetail { points, others: vec![] }
}

fn figures(detail: &Detail) -> Vec<Metric> {
    let clock = ClockFacts { name: "tsc".to_owned(), read_ns: 18.4, resolution_ns: 1.0 };
    metrics_of(detail, &clock)
}

fn value(metrics: &[Metric], id: &str) -> f64 {
    let found = metrics.iter().find(|metric| metric.id == id);
    found.unwrap_or_else(|| panic!("no {id}")).figure.value().unwrap_or_else(|| panic!("{id} has no value"))
}

#[test]
fn net_streams_count_at_the_largest_message_and_round_trips_at_the_smallest() {
    use NetDirection::{Both, In, Out};
    let mut points = Vec::new();
    for size in [1, 1000, 100_000] {
        for direction in [Out, In, Both] {
            points.push(point(Protocol::Tcp, direction, size));
            let udp = point(Protocol::Udp, direction, size);
            let beyond = (size > 65_507).then(|| "too long".to_owned());
            points.push(NetPoint { unsupported: beyond, ..udp });
        }
    }
    points.iter_mut().filter(|p| p.direction == Both && p.message_bytes > 1).for_each(|p| {
        p.round_trip_ns = Histogram::from_values([7; 2000]);
    });
    points[0].first_system_ns = Some(Nanos::from_nanos(9));
    let metrics = figures(&Detail::Net(pair(points)));
    assert_eq!(metrics[0].id, "tcp_stream_out_bytes_per_s");
    assert!(metrics[0].headline);
    let near = |id: &str, wanted: f64| {
        let got = value(&metrics, id);
        assert!((got / wanted - 1.0).abs() < 0.01, "{id}: {got} instead of {wanted}");
    };
    near("tcp_stream_out_bytes_per_s", 190e6);
    near("tcp_stream_in_bytes_per_s", 190e6);
    near("udp_stream_out_bytes_per_s", 1.9e6);
    near("udp_stream_in_lost_share", 0.05);
    near("udp_round_trip_lost_share", 0.05);
    near("tcp_round_trip_p50_ns", 1049.5);
    near("udp_round_trip_p99_ns", 1980.0);
    near("tcp_round_trip_max_ns", 1999.0);
    near("tcp_stream_out_cpu_ns_per_byte", 5.0);
    assert!(!metrics.iter().any(|metric| metric.id.contains("system")), "one side alone says nothing");
}

#[test]
fn the_main_figure_is_one_that_was_measured() {
    let only_round_trips = pair(vec![point(Protocol::Tcp, NetDirection::Both, 8)]);
    assert_eq!(figures(&Detail::Net(only_round_trips))[0].id, "tcp_round_trip_p50_ns");
    let beyond = NetPoint {
        unsupported: Some("too \u{7}long".to_owned()),
        ..point(Protocol::Udp, NetDirection::Out, 65_508)
    };
    let detail = pair(vec![beyond.clone(), point(Protocol::Udp, NetDirection::Both, 8)]);
    assert_eq!(figures(&Detail::Net(detail))[0].id, "udp_round_trip_p50_ns");
    let metrics = figures(&Detail::Net(pair(vec![beyond])));
    assert_eq!(metrics[0].figure, Figure::Unsupported("too long".to_owned()));
    let metrics = figures(&Detail::Net(pair(vec![])));
    assert_eq!(metrics.len(), 1);
    assert!(metrics[0].figure.value().is_none() && metrics[0].headline);
}

fn round(pattern: MpiPattern, message_bytes: u32, nanos: u64) -> MpiPoint {
    MpiPoint {
        pattern,
        message_bytes,
        iterations: 2000,
        elapsed_ns: Nanos::from_nanos(2000 * nanos),
        iteration_ns: Histogram::from_values((0..2000).map(|_| nanos)),
    }
}

fn mpi_detail(slow: u64) -> MpiDetail {
    let points = vec![
        round(MpiPattern::PingPong, 1, 4000 * slow),
        round(MpiPattern::PingPong, 1_000_000, 400_000 * slow),
        round(MpiPattern::AllToAll, 1, 9000 * slow),
        round(MpiPattern::AllToAll, 1_000_000, 900_000 * slow),
    ];
    MpiDetail { ranks: 4, ranks_per_instance: 2, points }
}

#[test]
fn ping_pong_is_given_as_half_the_round_trip() {
    let metrics = figures(&Detail::Mpi(mpi_detail(1)));
    assert_eq!(metrics[0].id, "ping_pong_half_p50_ns");
    assert!(metrics[0].title.contains("half the round trip") && metrics[0].headline);
    for (id, wanted) in [
        ("ping_pong_half_p50_ns", 2000.0),
        ("ping_pong_half_p99_ns", 2000.0),
        ("ping_pong_bytes_per_s", 5e9),
        ("all_to_all_p50_ns", 9000.0),
        ("all_to_all_largest_p99_ns", 900_000.0),
    ] {
        let got = value(&metrics, id);
        assert!((got / wanted - 1.0).abs() < 0.01, "{id}: {got} instead of {wanted}");
    }
    let nothing = MpiDetail { points: vec![], ..mpi_detail(1) };
    assert!(figures(&Detail::Mpi(nothing)).iter().all(|metric| metric.figure.value().is_none()));
}

#[test]
fn every_pair_has_figures_and_all_of_them_together_too() {
    let of = |bytes: u64, trip: u64, host: Option<u64>| {
        let stream = NetPoint {
            bytes: Bytes::from_bytes(bytes),
            first_host_ns: host.map(Nanos::from_nanos),
            second_host_ns: host.map(Nanos::from_nanos),
            ..point(Protocol::Tcp, NetDirection::Out, 1000)
        };
        let trips = Histogram::from_values(std::iter::repeat_n(trip, 1900));
        let both = NetPoint { round_trip_ns: trips, ..point(Protocol::Tcp, NetDirection::Both, 8) };
        pair(vec![stream, both])
    };
    let detail =
        NetDetail { others: vec![of(2000, 50, None), of(3000, 10, Some(9000))], ..of(1000, 20, Some(500)) };
    let metrics = figures(&Detail::Net(detail));
    let rates = ["tcp", "pair2_tcp", "pair3_tcp", "all_pairs_tcp"]
        .map(|pair| value(&metrics, &format!("{pair}_stream_out_bytes_per_s")));
    for (rate, wanted) in rates.into_iter().zip([1000.0, 2000.0, 3000.0, 6000.0]) {
        assert!((rate - wanted).abs() < 1e-6, "{rates:?}");
    }
    let trip = value(&metrics, "slowest_pair_tcp_round_trip_p50_ns");
    assert!((trip / 50.0 - 1.0).abs() < 0.02, "{trip}");
    let per_byte =
        ["tcp", "pair3_tcp"].map(|pair| value(&metrics, &format!("{pair}_stream_out_host_ns_per_byte")));
    assert!((per_byte[0] - 1.0).abs() < 1e-9 && (per_byte[1] - 6.0).abs() < 1e-9, "{per_byte:?}");
    assert!(!metrics.iter().any(|metric| metric.id == "pair2_tcp_stream_out_host_ns_per_byte"), "not known");
    assert!(metrics.iter().all(|metric| !metric.headline || !metric.id.contains("pair")));
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![Just(0u64), Just(1), Just(u64::MAX), any::<u64>(), 1u64..100_000]
}

fn histogram() -> impl Strategy<Value = Histogram> {
    vec((any::<u16>(), number(), number()), 0..12).prop_map(|buckets| {
        serde_json::from_value(serde_json::json!(buckets)).expect("triples of numbers are a histogram")
    })
}

prop_compose! {
    fn any_point()(
        udp: bool,
        direction in prop_oneof![Just(NetDirection::Out), Just(NetDirection::In), Just(NetDirection::Both)],
        stream: bool,
        message_bytes: u32,
        reason in prop::option::of(".{0,300}"),
        numbers in vec(number(), 7),
        system in prop::option::of(number()),
        round_trip_ns in histogram(),
    ) -> NetPoint {
        NetPoint {
            protocol: if udp { Protocol::Udp } else { Protocol::Tcp },
            exchange: if stream { Exchange::Stream } else { Exchange::RequestResponse },
            direction,
            message_bytes,
            unsupported: reason,
            elapsed_ns: Nanos::from_nanos(numbers[0]),
            sent: numbers[1],
            arrived: numbers[2],
            bytes: Bytes::from_bytes(numbers[3]),
            round_trip_ns,
            first_cpu_ns: Nanos::from_nanos(numbers[4]),
            second_cpu_ns: Nanos::from_nanos(numbers[5]),
            first_system_ns: system.map(Nanos::from_nanos),
            second_system_ns: system.map(|_| Nanos::from_nanos(numbers[6])),
            span: None,
            first_host_ns: system.map(|_| Nanos::from_nanos(numbers[6])),
            second_host_ns: system.map(Nanos::from_nanos),
        }
    }
}

prop_compose! {
    fn any_round()(
        ping: bool,
        message_bytes: u32,
        iterations in number(),
        elapsed in number(),
        iteration_ns in histogram(),
    ) -> MpiPoint {
        MpiPoint {
            pattern: if ping { MpiPattern::PingPong } else { MpiPattern::AllToAll },
            message_bytes,
            iterations,
            elapsed_ns: Nanos::from_nanos(elapsed),
            iteration_ns,
        }
    }
}

fn all_finite(metrics: &[Metric]) {
    assert!(metrics.first().is_some_and(|metric| metric.headline));
    assert!(metrics.iter().all(|metric| metric.figure.value().is_none_or(f64::is_finite)));
    let mut ids: Vec<&str> = metrics.iter().map(|metric| metric.id.as_str()).collect();
    ids.sort_unstable();
    assert!(ids.windows(2).all(|pair| pair[0] != pair[1]), "{ids:?}");
}

proptest! {
    // Each case writes a whole page.
    #![proptest_config(ProptestConfig::with_cases(40))]
    #[test]
    fn no_detail_makes_a_panic_or_a_figure_that_is_none(
        points in vec(any_point(), 0..8),
        others in vec(vec(any_point(), 0..3), 0..3),
        rounds in vec(any_round(), 0..8),
    ) {
        let net = Detail::Net(NetDetail { points, others: others.into_iter().map(pair).collect() });
        let mpi = Detail::Mpi(MpiDetail { ranks: 2, ranks_per_instance: 1, points: rounds });
        let html = page::html(&run(|probe, _, _| if probe == ProbeKind::Net { net.clone() } else { mpi.clone() }));
        assert!(!html.contains("NaN"));
        all_finite(&figures(&net));
        all_finite(&figures(&mpi));
    }
}

/// The sample run with both probes in two layouts.
fn run(detail: impl Fn(ProbeKind, Layout, u64) -> Detail) -> RunResults {
    let mut run = sample::rich();
    let layouts = [Layout::PAIR, Layout::new(2, 1).unwrap()];
    run.experiment.layouts = layouts.iter().map(|size| LayoutEntry { size: *size, probes: None }).collect();
    let template = run.cells[0].clone();
    for probe in [ProbeKind::Net, ProbeKind::Mpi] {
        for layout in layouts {
            for (slow, platform) in (1..).zip(sample::PLATFORMS) {
                let cell =
                    Cell { probe, neighbour: None, platform: platform.to_owned(), layout: Some(layout) };
                let detail = Some(detail(probe, layout, slow));
                run.cells.push(CellResult { cell, detail, metrics: vec![], ..template.clone() });
            }
        }
    }
    run
}

fn realistic(probe: ProbeKind, layout: Layout, slow: u64) -> Detail {
    let slow = slow * u64::from(layout.hosts());
    if probe == ProbeKind::Mpi {
        return Detail::Mpi(mpi_detail(slow));
    }
    let mut points = Vec::new();
    for protocol in [Protocol::Tcp, Protocol::Udp] {
        for size in [1u32, 64, 1024, 65_507, 1 << 20] {
            for direction in [NetDirection::Out, NetDirection::In, NetDirection::Both] {
                let base = point(protocol, direction, size);
                let beyond = protocol == Protocol::Udp && size > 65_507;
                let trip = (20_000 + u64::from(size)) * slow;
                points.push(NetPoint {
                    unsupported: beyond.then(|| "a UDP datagram carries at most 65507 bytes".to_owned()),
                    bytes: Bytes::from_bytes(
                        u64::from(size) * 2_000_000_000 / (400 + u64::from(size) / 5) / slow,
                    ),
                    round_trip_ns: match direction {
                        NetDirection::Both => {
                            Histogram::from_values((0..1900).map(|i| trip + i * i / 9 * slow))
                        }
                        _ => Histogram::default(),
                    },
                    ..base
                });
            }
        }
    }
    Detail::Net(NetDetail { points: points.clone(), others: vec![pair(points)] })
}

#[test]
fn the_page_draws_each_layout_and_says_where_the_instances_are() {
    let html = page::html(&run(realistic));
    for text in [
        "Layout 1x2",
        "Layout 2x1",
        "All instances are on one host.",
        "Each instance is on a host of its own",
        "a UDP datagram carries at most 65507 bytes",
        "half the round trip",
        "native, pair 2",
        "pictures show the first pair",
    ] {
        assert!(html.contains(text), "{text}");
    }
    let Some(mut browser) = start_or_skip() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.html");
    std::fs::write(&file, &html).unwrap();
    browser.show_as(375, 700, "light", "screen");
    browser.open(&file);
    browser.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)");
    assert_eq!(browser.evaluate("document.documentElement.scrollWidth"), 375);
    assert_eq!(browser.complaints(), Vec::<String>::new());
    let shapes = |section: &str| {
        format!(
            "JSON.stringify([...document.querySelectorAll('#{section} .drawing svg')].map(svg => \
             svg.querySelectorAll('polyline,circle,polygon,path').length))"
        )
    };
    // Three pictures per protocol and layout; three per layout.
    for (section, pictures) in [("net", 12), ("mpi", 6)] {
        let counts: Vec<u64> =
            serde_json::from_str(browser.evaluate(&shapes(section)).as_str().unwrap()).unwrap();
        assert_eq!(counts.len(), pictures, "{section}");
        assert!(counts.iter().all(|count| *count > 5), "{section}: {counts:?}");
    }
    if let Ok(folder) = std::env::var("PEERS_PAGE") {
        std::fs::write(std::path::Path::new(&folder).join("peers.html"), &html).unwrap();
    }
}
