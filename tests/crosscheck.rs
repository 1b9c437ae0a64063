//! What `make crosscheck` makes of the tools' output, read from recorded samples, and of pairs of figures.

#[path = "../benches/crosscheck/parse/mod.rs"]
mod parse;
#[path = "../benches/crosscheck/table.rs"]
mod table;
use crate::verdict;

use bulkhead::units::metric::Unit;
use table::{Failed, Row};
use verdict::Verdict;

macro_rules! sample {
    ($name:literal) => {
        include_str!(concat!("../benches/crosscheck/samples/", $name))
    };
}

fn close(got: f64, wanted: f64) -> bool {
    (got / wanted - 1.0).abs() < 1e-6
}

#[test]
fn fio_is_read() {
    let phases = parse::fio::parse(sample!("fio.json")).expect("a sample");
    let [phase] = phases.as_slice() else { panic!("{phases:?}") };
    // 64 MiB in 1024 blocks in 185 ms; 17.4 % of 184 ms on the CPU.
    assert!(close(phase.bytes_per_s, 67_108_864.0 / 0.185), "{phase:?}");
    assert!(close(phase.operations_per_s, 1024.0 / 0.185), "{phase:?}");
    assert!(close(phase.cpu_ns_per_operation, 0.173_913_05 * 184e6 / 1024.0), "{phase:?}");
    let warned = format!("note: both iodepth >= 1\n{}", sample!("fio.json"));
    assert!(parse::fio::parse(&warned).is_ok());
    let failed = sample!("fio.json").replace("\"error\": 0", "\"error\": 28");
    assert!(parse::fio::parse(&failed).unwrap_err().contains("error 28"));
    assert!(parse::fio::parse("fio: unknown option").is_err());
}

#[test]
fn lat_ctx_is_read() {
    assert!(close(parse::lat_ctx::parse(sample!("lat_ctx.txt")).expect("a sample"), 1010.0));
    assert!(parse::lat_ctx::parse("\"size=0k ovr=1.95\n").unwrap_err().contains("no time of two processes"));
}

#[test]
fn hpcc_is_read() {
    let seen = parse::hpcc::parse(sample!("hpcc.txt")).expect("a sample");
    assert_eq!((seen.n, seen.array_bytes), (4000, 5_333_333 * 8));
    assert!(close(seen.hpl_per_s, (2.0 / 3.0 * 64e9 + 1.5 * 16e6) / 2.12918), "{seen:?}");
    // The suite prints it with four digits itself.
    assert!((seen.hpl_per_s / 2.005e10 - 1.0).abs() < 1e-3, "{seen:?}");
    assert!(close(seen.copy_bytes_per_s, 36.5191e9), "{seen:?}");
    let failed = sample!("hpcc.txt").replace("Success=1", "Success=0");
    assert!(parse::hpcc::parse(&failed).unwrap_err().contains("failed"));
    assert!(parse::hpcc::parse("Success=1").unwrap_err().contains("HPL_N"));
}

#[test]
fn the_blas_that_was_mapped_is_named_and_the_reference_is_known_as_such() {
    let line = |file: &str| {
        format!("7f0000000000-7f0000001000 r-xp 00000000 fe:00 1234    /usr/lib/x86_64-linux-gnu/{file}\n")
    };
    let seen = parse::blas::parse(
        &(line("libc.so.6")
            + &line("openblas-pthread/libblas.so.3")
            + &line("openblas-pthread/libopenblasp-r0.3.21.so")),
    );
    let seen = seen.expect("a BLAS");
    assert!(seen.name.contains("OpenBLAS") && seen.name.contains("0.3.21") && !seen.is_reference, "{seen:?}");
    // Debian's alternative where nothing else is installed.
    let seen = parse::blas::parse(&line("blas/libblas.so.3.11.0")).expect("a BLAS");
    assert!(seen.is_reference && seen.name.contains("reference"), "{seen:?}");
    assert_eq!(parse::blas::parse(&line("libc.so.6")), None);
}

#[test]
fn iperf3_and_sockperf_are_read() {
    let bytes = parse::iperf3::parse(sample!("iperf3.json")).expect("a sample");
    assert!(close(bytes, 9_425_557_747.512_55 / 8.0), "{bytes}");
    let refused = r#"{"start":{},"end":{},"error":"unable to connect to server: Connection refused"}"#;
    assert!(parse::iperf3::parse(refused).unwrap_err().contains("Connection refused"));
    // It prints half a round trip: 5.813 µs.
    let round_trip = parse::sockperf::parse(sample!("sockperf.txt")).expect("a sample");
    assert!(close(round_trip, 11_626.0), "{round_trip}");
    let error = "sockperf: ERROR: Can`t connect socket (errno=111 Connection refused)";
    assert!(parse::sockperf::parse(error).unwrap_err().contains("Connection refused"));
}

#[test]
fn cyclictest_is_read() {
    let seen = parse::cyclictest::parse(sample!("cyclictest.txt")).expect("a sample");
    assert_eq!((seen.total, seen.overflows), (1000, 0));
    let p99 = seen.quantile_ns(0.99).expect("there are samples");
    assert!((20_000.0..55_000.0).contains(&p99), "{p99}");
    let text =
        "# Histogram\n000010 000097\n000020 000001\n# Total: 000000098\n# Histogram Overflows: 00002\n";
    let seen = parse::cyclictest::parse(text).expect("a histogram");
    assert_eq!((seen.total, seen.overflows), (100, 2));
    assert_eq!(seen.quantile_ns(0.97), Some(10_500.0));
    assert_eq!(seen.quantile_ns(0.98), Some(20_500.0));
    assert_eq!(seen.quantile_ns(0.99), None, "it lies beyond the histogram");
    assert!(parse::cyclictest::parse("unable to change scheduling policy!").is_err());
}

#[test]
fn oslat_stress_ng_and_the_reference_chase_are_read() {
    let oslat = parse::oslat::parse(sample!("oslat.txt")).expect("a sample");
    assert!((47.0..48.0).contains(&oslat), "{oslat}");
    assert!(parse::oslat::parse("oslat V 2.40").is_err());
    let rate = parse::stress_ng::parse(sample!("stress-ng.txt")).expect("a sample");
    assert!(close(rate, (1480.03 + 986.69) * 1e6), "{rate}");
    let short = "stress-ng: info:  [1] stream: run duration too short to determine memory rate";
    assert!(parse::stress_ng::parse(short).unwrap_err().contains("too short"));
    let chase = parse::chase::parse("16384 1.0123\n134217728 98.5\n");
    assert_eq!(chase, Ok(vec![(16_384, 1.0123), (134_217_728, 98.5)]));
    assert!(parse::chase::parse("16384 nan").is_err());
}

fn judged(mark: &Row, ratios: &[f64]) -> Verdict {
    let pairs: Vec<(f64, f64)> = ratios.iter().map(|ratio| (*ratio, 1.0)).collect();
    let (text, verdict) = table::row(mark, &pairs, &Failed::default());
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    verdict
}

#[test]
fn an_interval_is_held_against_its_mark() {
    let within = Row::within("disk write 64 KiB direct / fio", Unit::BytesPerSecond, 0.03);
    assert_eq!(judged(&within, &[1.0, 1.01, 0.99, 1.0, 1.005, 0.995]), Verdict::Met);
    assert_eq!(judged(&within, &[1.2, 1.21, 1.19, 1.2, 1.205, 1.195]), Verdict::Missed);
    assert_eq!(judged(&within, &[1.0, 1.3, 0.7, 1.0, 1.2, 0.8]), Verdict::NotDecided);
    assert_eq!(judged(&within, &[1.1, 1.4, 0.8, 1.1, 1.3, 0.9]), Verdict::NotDecided, "noise");
    assert_eq!(judged(&within, &[1.0]), Verdict::NotDecided);
    let least = Row::at_least("linear equations / HPL", Unit::PerSecond, 0.8);
    assert_eq!(judged(&least, &[1.5, 1.6, 1.55, 1.5]), Verdict::Met);
    assert_eq!(judged(&least, &[0.5, 0.51, 0.49, 0.5]), Verdict::Missed);
    let most = Row::at_most("own CPU per read / fio", Unit::Nanoseconds, 0.6);
    assert_eq!(judged(&most, &[0.1, 0.11, 0.1, 0.09]), Verdict::Met);
    // A difference may be below zero, which is no reason to have no ratio.
    assert_eq!(judged(&most, &[0.3, -0.05, 0.2, 0.0, 0.25, 0.1]), Verdict::Met);
    assert_eq!(judged(&most, &[1.3, -0.05, 1.2, 1.1, 1.25, 1.1, 1.2, 1.3]), Verdict::Missed);
}

#[test]
fn the_table_fits_into_eighty_columns_and_says_what_went_wrong() {
    assert!(table::head().lines().all(|line| line.chars().count() <= 80), "{}", table::head());
    let row = Row::within("wake-up latency, p99 / cyclictest", Unit::Nanoseconds, 0.1);
    let reason = "cyclictest is not installed here; package rt-tests. ".repeat(3);
    let failed = Failed { pairs: 1, last: Some(reason) };
    let (text, verdict) = table::row(&row, &[], &failed);
    assert_eq!(verdict, Verdict::NotDecided);
    assert!(text.contains("n/a") && text.contains("package rt-tests"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn pairs_that_failed_are_counted_and_more_than_one_of_them_decide_nothing() {
    let row = Row::at_least("TCP stream / iperf3", Unit::BytesPerSecond, 0.97);
    let pairs: Vec<(f64, f64)> = [1.3, 1.31, 1.29, 1.3, 1.3].map(|ours| (ours, 1.0)).to_vec();
    let with = |failed: u32| {
        let last = (failed > 0).then(|| "iperf3 ended with 1".to_owned());
        table::row(&row, &pairs, &Failed { pairs: failed, last })
    };
    let (text, verdict) = with(0);
    assert!(verdict == Verdict::Met && !text.contains("failed"), "{text}");
    let (text, verdict) = with(1);
    assert!(verdict == Verdict::Met && text.contains("1 of 6 pairs failed; the last one: iperf3"), "{text}");
    let (text, verdict) = with(2);
    assert_eq!(verdict, Verdict::NotDecided, "{text}");
    assert!(text.contains("2 of 7 pairs failed") && text.contains("too many"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}
