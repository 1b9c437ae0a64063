//! The probes that several instances make together over a network, made here by threads over loopback: every exchange and
//! size, both directions, and what goes wrong between partners.

use crate::peers_fixture;

use bulkhead::campaign::read_results;
use bulkhead::probes::detail::{Detail, MpiDetail, MpiPattern, NetDetail, NetDirection, NetPoint};
use bulkhead::probes::job::ProbeReport;
use bulkhead::probes::params::{Exchange, MpiParams, NetParams, ProbeSpec, Protocol};
use bulkhead::units::{Millis, Nanos};
use peers_fixture::{Members, report_of};
use skips::{Need, skip};

fn net(message_bytes: &[u32], duration_ms: u64) -> NetParams {
    NetParams {
        message_bytes: message_bytes.to_vec(),
        duration_ms: Millis::from_millis(duration_ms),
        ..NetParams::default()
    }
}

fn detail(outcome: &Result<ProbeReport, String>) -> &NetDetail {
    match outcome {
        Ok(ProbeReport { detail: Detail::Net(detail), .. }) => detail,
        other => panic!("no net detail: {:?}", other.as_ref().map(|_| ())),
    }
}

fn check_point(point: &NetPoint) {
    let name =
        format!("{:?} {:?} {:?} {}", point.protocol, point.exchange, point.direction, point.message_bytes);
    assert_eq!(point.unsupported, None, "{name}");
    assert!(point.sent > 0 && point.elapsed_ns.get() > 0, "{name}");
    assert!(point.first_cpu_ns.get() > 0 && point.second_cpu_ns.get() > 0, "{name}");
    assert!(point.round_trip_ns.is_well_formed(), "{name}");
    match point.exchange {
        Exchange::Stream => assert!(point.round_trip_ns.is_empty(), "{name}"),
        Exchange::RequestResponse => {
            assert_eq!(point.round_trip_ns.count(), point.arrived, "{name}");
            assert_eq!(point.bytes.get(), point.arrived * u64::from(point.message_bytes), "{name}");
        }
    }
    if point.protocol == Protocol::Tcp {
        assert!(point.arrived > 0 || u64::from(point.message_bytes) > point.bytes.get(), "{name}");
        assert!(point.bytes.get() > 0, "{name}");
        assert_eq!(point.arrived, point.bytes.get() / u64::from(point.message_bytes), "{name}");
    } else {
        assert!(point.arrived <= point.sent, "{name}");
    }
}

#[test]
fn every_exchange_and_size_is_measured_in_both_directions() {
    let sizes = [1, 3, 1000, 65_507, 65_508, 32 << 20];
    let members = Members::on_loopback(2);
    let outcomes = members.run(&ProbeSpec::Net(net(&sizes, 10)));
    let first = detail(&outcomes[0]);
    assert_eq!(detail(&outcomes[1]).points, vec![], "the second has nothing to report");
    assert_eq!(first.points.len(), 2 * 3 * sizes.len());
    for point in &first.points {
        if point.protocol == Protocol::Udp && point.message_bytes > 65_507 {
            assert!(point.unsupported.as_ref().is_some_and(|reason| reason.contains("65507")));
            assert_eq!((point.sent, point.arrived), (0, 0));
        } else {
            check_point(point);
        }
    }
    let directions: Vec<NetDirection> = first.points.iter().take(2).map(|point| point.direction).collect();
    assert_eq!(directions, [NetDirection::Out, NetDirection::In]);
    report_of(&outcomes[0]);
}

fn mpi_detail(outcome: &Result<ProbeReport, String>) -> &MpiDetail {
    match &report_of(outcome).detail {
        Detail::Mpi(detail) => detail,
        other => panic!("not a mpi detail but {}", other.kind()),
    }
}

fn check_mpi(instances: usize, each: u32, sizes: &[u32]) {
    let name = format!("{instances} instances, {each} ranks each");
    let params = MpiParams {
        message_bytes: sizes.to_vec(),
        duration_ms: Millis::from_millis(10),
        ranks_per_instance: each,
    };
    let outcomes = Members::on_loopback(instances).run(&ProbeSpec::Mpi(params));
    for other in outcomes.iter().skip(1) {
        assert_eq!(mpi_detail(other).points, vec![], "{name}");
    }
    let first = mpi_detail(&outcomes[0]);
    assert_eq!(first.ranks, u32::try_from(instances).expect("few") * each, "{name}");
    let kinds: Vec<(MpiPattern, u32)> =
        first.points.iter().map(|point| (point.pattern, point.message_bytes)).collect();
    let expected: Vec<(MpiPattern, u32)> = [MpiPattern::PingPong, MpiPattern::AllToAll]
        .into_iter()
        .flat_map(|pattern| sizes.iter().map(move |size| (pattern, *size)))
        .collect();
    assert_eq!(kinds, expected, "{name}");
    for point in &first.points {
        let what = format!("{name}: {:?} {}", point.pattern, point.message_bytes);
        assert!(point.iterations > 0 && point.iteration_ns.count() == point.iterations, "{what}");
        assert!(point.elapsed_ns >= Nanos::from_nanos(10_000_000), "{what}");
        assert!(point.iteration_ns.sum() <= point.elapsed_ns.get().into(), "{what}");
    }
}

#[test]
fn messages_pass_inside_one_instance() {
    check_mpi(1, 2, &[1, 32 << 20]);
    check_mpi(1, 5, &[7, 40_000]);
}

#[test]
fn messages_pass_between_instances() {
    check_mpi(2, 1, &[1, 32 << 20]);
    check_mpi(8, 1, &[1, 1000]);
}

#[test]
fn messages_pass_inside_and_between_instances_at_once() {
    check_mpi(2, 2, &[8, 100_000]);
    check_mpi(3, 3, &[8, 1000]);
}

#[test]
fn with_more_than_two_instances_pairs_measure_at_once_and_one_left_over_rests() {
    let outcomes = Members::on_loopback(5).run(&ProbeSpec::Net(net(&[100], 20)));
    let counts: Vec<usize> = outcomes.iter().map(|outcome| detail(outcome).points.len()).collect();
    assert_eq!(counts, [6, 0, 6, 0, 0]);
    detail(&outcomes[2]).points.iter().for_each(check_point);
    let notes = |rank: usize| report_of(&outcomes[rank]).notes.join("; ");
    assert!(notes(0).contains("2 pairs of instances"), "{}", notes(0));
    assert!(notes(4).contains("has no partner"), "{}", notes(4));
}

const FOUR: &str = r#"
name = "pairs"
seed = 3

[repeat]
min = 1
max = 1
budget_s = 60

[[platform]]
label = "native"
kind = "native"

[probe.net]
protocols = ["tcp"]
message_bytes = [1000]
duration_ms = 400

[[layout]]
size = "1x4"
"#;

#[test]
fn a_run_has_every_pair_and_what_the_host_counted_meanwhile() {
    if !nix::unistd::geteuid().is_root() {
        return skip(Need::Root, "a network between instances needs root");
    }
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("pairs.toml");
    std::fs::write(&file, FOUR).expect("written");
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_bulkhead"))
        .args(["measure", "--json", "--out", "run", "--experiment"])
        .arg(&file)
        .current_dir(folder.path())
        .output()
        .expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let results = read_results(&folder.path().join("run/results.json")).expect(&said);
    let [cell] = results.cells.as_slice() else { panic!("one cell: {said}") };
    let Some(Detail::Net(net)) = &cell.detail else { panic!("a net detail: {:?}", results.failures) };
    let [second] = net.others.as_slice() else { panic!("{} other pairs", net.others.len()) };
    let points: Vec<&NetPoint> = net.points.iter().chain(&second.points).collect();
    for point in &points {
        check_point(point);
    }
    assert_eq!(points.len(), 6);
    let told: Vec<Nanos> = points
        .iter()
        .filter_map(|point| Some(point.first_host_ns?.saturating_add(point.second_host_ns?)))
        .collect();
    // On a host so busy that the looks come late it is not known, but hardly for every exchange.
    assert!(!told.is_empty() && told.iter().all(|time| *time > Nanos::ZERO), "{told:?}");
    let has = |id: &str| cell.metrics.iter().any(|metric| metric.id == id);
    assert!(has("pair2_tcp_stream_out_bytes_per_s") && has("all_pairs_tcp_stream_out_bytes_per_s"));
    assert!(has("slowest_pair_tcp_round_trip_p50_ns"));
}
