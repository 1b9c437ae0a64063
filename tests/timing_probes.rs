//! The probes ftq, wakeup and frames on this machine: what they report holds together, and a stall of known length is in
//! the figures whole. Nothing is compared with the clock but by whoever took the time.

#![expect(unsafe_code, reason = "a thread's scheduling policy has no safe interface")]

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use bulkhead::probes::alarm::now_ns;
use bulkhead::probes::check::check_report;
use bulkhead::probes::detail::{Detail, FramesDetail, WakeupDetail};
use bulkhead::probes::job::{Job, ProbeReport};
use bulkhead::probes::params::{FramesParams, FtqParams, ProbeSpec, WakeupParams};
use bulkhead::probes::pin::pin_to_last_cpu;
use bulkhead::probes::run::{Surroundings, run_job};
use bulkhead::units::histogram::Histogram;
use bulkhead::units::{Micros, Millis};
use skips::{Need, skip};

fn report(probe: ProbeSpec) -> ProbeReport {
    outcome(probe, &mut || {}).expect("it was measured")
}

/// What a probe answers; `running` is called when it begins.
fn outcome(probe: ProbeSpec, running: &mut dyn FnMut()) -> Result<ProbeReport, String> {
    let job = Job { id: 1, probe: Some(probe), deadline_ms: Millis::from_millis(120_000), ..Job::default() };
    let surroundings = Surroundings { scratch: None, exe: PathBuf::from("/bin/true") };
    let reply = run_job(&job, &surroundings, &AtomicBool::new(false), &mut || running());
    let report = reply.report.expect("there was a probe")?;
    assert_eq!(check_report(&report), Ok(()));
    assert!(report.cost.per_sample_ns > 0.0 && report.cost.memory_bytes.get() > 0, "{:?}", report.cost);
    assert!(report.cost.cpu_time_ns.get() > 0, "{:?}", report.cost);
    Ok(report)
}

#[test]
fn ftq_fills_every_quantum_of_its_grid() {
    // A machine may be busy with other work for longer than a short probe looks; then it looks longer. Before: 200 ms alone,
    // 40 of 4000 quanta; the same 40 are a smaller share of more.
    for duration_ms in [200, 1000, 5000, 25_000] {
        let params =
            FtqParams { quantum_us: Micros::from_micros(50), duration_ms: Millis::from_millis(duration_ms) };
        let report = match outcome(ProbeSpec::Ftq(params), &mut || {}) {
            Ok(report) => report,
            Err(reason) => {
                assert_eq!(reason, "no work was done in any quantum");
                continue;
            }
        };
        let Detail::Ftq(ftq) = report.detail else { panic!("not a ftq detail") };
        assert_eq!(ftq.work.len() as u64, 20 * duration_ms);
        assert!((49_900..=50_100).contains(&ftq.quantum_ns.get()), "{}", ftq.quantum_ns);
        if ftq.work.iter().filter(|rounds| **rounds > 0).count() > 40 {
            return;
        }
    }
    panic!("the thread got the CPU for less than 40 quanta of 500 000");
}

fn wakeups(params: &WakeupParams) -> (WakeupDetail, Vec<String>) {
    let report = report(ProbeSpec::Wakeup(params.clone()));
    let Detail::Wakeup(wakeup) = report.detail else { panic!("not a wakeup detail") };
    (wakeup, report.notes)
}

#[test]
fn every_activation_of_every_thread_has_a_response() {
    let params = WakeupParams {
        period_us: Micros::from_micros(500),
        duration_ms: Millis::from_millis(200),
        priority: 0,
        threads: 3,
    };
    let (wakeup, _) = wakeups(&params);
    assert_eq!((wakeup.threads.len(), wakeup.priority), (3, None));
    for thread in &wakeup.threads {
        assert_eq!((thread.due, thread.response_ns.count()), (400, 400));
        assert_eq!(thread.service_ns.count() + thread.missed, 400);
        let longest = thread.worst.first().map(|worst| worst.length_ns.get());
        assert!(
            over(&thread.response_ns, longest.unwrap_or(0)) == 0,
            "no response is longer than the latest wake-up"
        );
    }
}

/// Values above `limit`, as far as the buckets tell.
fn over(histogram: &Histogram, limit: u64) -> u64 {
    histogram.buckets().iter().filter(|bucket| bucket.lower() > limit).map(|bucket| bucket.count).sum()
}

fn become_fifo(priority: i32) -> Result<(), std::io::Error> {
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: 0 is the calling thread, and the parameters outlive the call, which only reads them.
    let outcome = unsafe { libc::sched_setscheduler(0, libc::SCHED_FIFO, &raw const parameters) };
    if outcome == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// Takes the probe's CPU for about 100 ms; says how long it really was there, or why it may not.
/// Begins when `probe` says that the probe has, however long that took to come about.
fn hog(probe: &Receiver<()>) -> Result<u64, String> {
    pin_to_last_cpu();
    if let Err(error) = become_fifo(90) {
        return Err(format!("real-time priority is refused here: {error}"));
    }
    probe.recv().expect("the probe begins");
    std::thread::sleep(Duration::from_millis(400));
    let begin = now_ns().expect("there is a clock");
    while now_ns().expect("there is a clock") < begin + 100_000_000 {}
    Ok(now_ns().expect("there is a clock") - begin)
}

#[test]
fn a_stall_of_a_hundred_periods_is_a_hundred_late_responses_and_one_late_wake_up() {
    let (begins, probe) = channel();
    let hog = std::thread::spawn(move || hog(&probe));
    // Twice as long as before (1000 ms): a busy machine may be late with the hog, which must still end before the probe.
    let params = WakeupParams { duration_ms: Millis::from_millis(2000), ..WakeupParams::default() };
    // Where it may not have real-time priority the hog is gone before.
    let mut running = || {
        let _ = begins.send(());
    };
    let report = outcome(ProbeSpec::Wakeup(params), &mut running).expect("it was measured");
    let Detail::Wakeup(wakeup) = report.detail else { panic!("not a wakeup detail") };
    let notes = report.notes;
    let taken = match hog.join().expect("the hog did not panic") {
        Ok(taken) => taken,
        Err(reason) => return skip(Need::Realtime, reason),
    };
    assert_eq!(wakeup.priority, Some(80), "{notes:?}");
    let [thread] = wakeup.threads.as_slice() else { panic!("one thread") };
    assert_eq!(thread.due, 2000);
    let periods = taken / wakeup.period_ns.get();
    assert!(thread.missed >= periods - 2, "{} missed, {periods} periods were taken", thread.missed);
    assert!(
        thread.worst[0].length_ns.get() > taken - 2 * wakeup.period_ns.get(),
        "{}",
        thread.worst[0].length_ns
    );
    // Those that came due in the first half of the stall waited for more than the other half.
    let (responses, services) = (over(&thread.response_ns, taken / 2), over(&thread.service_ns, taken / 2));
    assert!(responses >= periods / 2 - 3, "{responses} responses longer than half of {periods} periods");
    // Other stalls may come on top, but each is one wake-up and many responses.
    assert!(services >= 1 && services * 20 < responses, "{services} wake-ups, {responses} responses");
}

fn frames(params: FramesParams) -> FramesDetail {
    let Detail::Frames(frames) = report(ProbeSpec::Frames(params)).detail else {
        panic!("not a frames detail")
    };
    frames
}

#[test]
fn frames_that_take_longer_than_their_time_are_missed() {
    let light = frames(FramesParams { rate_hz: 200, iterations: 1000, frames: 40 });
    assert_eq!(light.frame_ns.len() as u64 + light.missed, 40);
    assert_eq!(light.numbers().count(), light.frame_ns.len());
    let shortest = light.work_ns.iter().map(|work| work.get()).min().expect("a frame was made").max(1);
    // So much work that not even the fastest frame fits into three periods.
    let period = light.period_ns.get();
    let iterations = (1000 * period * 4 / shortest).clamp(1_000_000, 1_000_000_000);
    let heavy = frames(FramesParams { rate_hz: 200, iterations, frames: 40 });
    assert_eq!(heavy.frame_ns.len() as u64 + heavy.missed, 40);
    let slow = heavy.work_ns.iter().filter(|work| work.get() > period).count();
    assert!(slow == 0 || heavy.missed > 0, "{slow} frames took longer than a period, none was missed");
    assert!(heavy.missed >= 10, "{} of 40 missed with work of {:?}", heavy.missed, heavy.work_ns.first());
}

#[test]
fn a_deadline_ends_each_of_them_with_a_reason() {
    let long = [
        ProbeSpec::Ftq(FtqParams {
            quantum_us: Micros::from_micros(1000),
            duration_ms: Millis::from_millis(60_000),
        }),
        ProbeSpec::Wakeup(WakeupParams {
            duration_ms: Millis::from_millis(60_000),
            ..WakeupParams::default()
        }),
        ProbeSpec::Frames(FramesParams { frames: 100_000, ..FramesParams::default() }),
    ];
    for probe in long {
        let job = Job { probe: Some(probe), deadline_ms: Millis::from_millis(150), ..Job::default() };
        let surroundings = Surroundings { scratch: None, exe: PathBuf::from("/bin/true") };
        let reply = run_job(&job, &surroundings, &AtomicBool::new(false), &mut || {});
        let reason = reply.report.expect("there was a probe").expect_err("it cannot have been done");
        assert!(reason.to_string().contains("deadline of 150 ms"), "{reason}");
    }
}
