//! What one round of the gap loop costs, against bare back-to-back reads of the counter and against `oslat`.
//!
//! Run with `cargo bench --bench gap_cost`. Everything is interleaved on one CPU in one run; ratios are compared,
//! never figures of different runs. The promises:
//!
//! | promise | limit |
//! | --- | --- |
//! | gap loop / bare reads | ≤ 1.15 |
//! | gap loop / oslat's iteration | ≤ 0.65 |
//! | smallest single gap that stands out | ≤ 100 ns |

#![expect(clippy::print_stdout, reason = "a bench reports on standard output")]

#[path = "crosscheck/parse/oslat.rs"]
mod oslat;
mod verdict;

use std::process::{Command, ExitCode};
use std::sync::atomic::AtomicBool;

use bulkhead::probes::bounds::Bounds;
use bulkhead::probes::clock::{Anchor, ticks};
use bulkhead::probes::gap::observe::observe;
use bulkhead::probes::gap::pace::ByTime;
use bulkhead::probes::gap::record::{Record, short_tables};
use bulkhead::probes::pin::{allowed_cpus, pin_to_last_cpu};
use bulkhead::units::histogram::Histogram;
use bulkhead::units::{Hertz, Millis};
use verdict::{Judge, Mark};

/// Many short rounds: most of them fall between two disturbances.
const ROUNDS: usize = 2001;
const READS: u64 = 20_000;
/// Enough for an interval by order statistics.
const OSLAT_ROUNDS: usize = 7;
const OSLAT_SECONDS: u64 = 3;

fn main() -> ExitCode {
    // In a thread of its own: what is started later must not inherit the pin.
    let own = std::thread::spawn(against_bare_reads).join();
    let Ok(Some(own)) = own else {
        println!("the cycle counter cannot be used as a clock here");
        return ExitCode::from(3);
    };
    let mut judge = Judge::default();
    judge.rounds("gap loop / bare reads", &own.ratios, Mark::AtMost(1.15));
    judge.rounds("smallest single gap that stands out, ns", &own.floors_ns, Mark::AtMost(100.0));
    let what = "gap loop / oslat iteration";
    match against_oslat() {
        Ok(ratios) => judge.rounds(what, &ratios, Mark::AtMost(0.65)),
        Err(reason) => judge.not_taken(what, &reason),
    };
    judge.close()
}

struct Own {
    ratios: Vec<f64>,
    floors_ns: Vec<f64>,
}

/// Ticks per read of the best loop there can be: reads, and nothing kept.
#[inline(never)]
fn bare() -> f64 {
    let first = ticks();
    let mut last = first;
    for _ in 0..READS {
        last = ticks();
    }
    (last - first) as f64 / READS as f64
}

/// One run of the probe's loop: ticks per read, and its distribution.
fn gap_loop(span_ticks: u64, rate: Hertz) -> (f64, Histogram) {
    let stop = AtomicBool::new(false);
    let bounds = Bounds::starting_now(&stop, Millis::from_millis(600_000));
    let (mut short, mut record) = (short_tables(1), Record::new(1));
    let observed = observe(ByTime::new(span_ticks, rate, bounds), &mut short, &mut record);
    let all = Histogram::merge_all(&record.histograms(&short));
    ((observed.last - observed.first) as f64 / all.count() as f64, all)
}

fn against_bare_reads() -> Option<Own> {
    pin_to_last_cpu();
    let rate = Anchor::take().and_then(|anchor| anchor.rate_since()).ok()?;
    let (mut bares, mut loops, mut own) = (Vec::new(), Vec::new(), Own { ratios: vec![], floors_ns: vec![] });
    for _ in 0..ROUNDS {
        let before = bare();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some 1e8 ticks")]
        let span = (before * READS as f64) as u64;
        let (cost, gaps) = gap_loop(span, rate);
        // The same stretch of noise before and after the loop.
        let around = f64::midpoint(before, bare());
        own.ratios.push(cost / around);
        own.floors_ns.push(quantile(&gaps, 0.999) * 1e9 / rate.as_f64());
        bares.push(around * 1e9 / rate.as_f64());
        loops.push(cost * 1e9 / rate.as_f64());
    }
    bares.sort_by(f64::total_cmp);
    loops.sort_by(f64::total_cmp);
    println!(
        "bare read {:.2} ns, gap loop {:.2} ns per read (medians)",
        bares[ROUNDS / 2],
        loops[ROUNDS / 2]
    );
    Some(own)
}

/// A gap longer than all but one in a thousand of the undisturbed ones stands out.
fn quantile(gaps: &Histogram, share: f64) -> f64 {
    let wanted = gaps.count() as f64 * share;
    let mut seen = 0;
    let found = gaps.buckets().iter().find(|bucket| {
        seen += bucket.count;
        seen as f64 >= wanted
    });
    found.map_or(f64::NAN, |bucket| bucket.upper() as f64)
}

/// Time per iteration of our loop over oslat's, taken in turns on the same CPU.
fn against_oslat() -> Result<Vec<f64>, String> {
    let cpu = allowed_cpus().last().copied().ok_or("no CPU is allowed")?;
    let mut ratios = Vec::new();
    for _ in 0..OSLAT_ROUNDS {
        let oslat_ns = oslat_iteration_ns(cpu)?;
        let own = std::thread::spawn(|| {
            pin_to_last_cpu();
            let rate = Anchor::take().and_then(|anchor| anchor.rate_since()).ok()?;
            let (cost, _) = gap_loop(rate.get() * OSLAT_SECONDS, rate);
            Some(cost * 1e9 / rate.as_f64())
        });
        let own_ns = own.join().ok().flatten().ok_or("the cycle counter cannot be used")?;
        println!("gap loop {own_ns:.2} ns, oslat {oslat_ns:.2} ns per iteration, CPU {cpu}");
        ratios.push(own_ns / oslat_ns);
    }
    Ok(ratios)
}

fn oslat_iteration_ns(cpu: usize) -> Result<f64, String> {
    let run = Command::new("oslat")
        .args(["--cpu-list", &cpu.to_string(), "-D", &OSLAT_SECONDS.to_string()])
        .output()
        .map_err(|error| format!("oslat does not run ({error}); it is in the package rt-tests"))?;
    oslat::parse(&String::from_utf8_lossy(&run.stdout))
}
