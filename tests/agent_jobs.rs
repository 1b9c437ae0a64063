//! The agent's end with jobs that go wrong, in this process: whatever a job does, the host gets an answer.

use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bulkhead::model::wire::{ToAgent, ToHost};
use bulkhead::platforms::Cancel;
use bulkhead::platforms::agent::serve;
use bulkhead::platforms::link::{HostEnd, LinkError};
use bulkhead::probes::check::check_report;
use bulkhead::probes::detail::{Detail, RateDetail, RatePoint};
use bulkhead::probes::job::{Dose, Job, JobReply, LoadSpec, ProbeReport};
use bulkhead::units::facts::{ClockFacts, MachineFacts, OwnCost};
use bulkhead::units::histogram::Histogram;
use bulkhead::units::names::LoadKind;
use bulkhead::units::stage::Stage;
use bulkhead::units::{Bytes, Millis, Nanos};

/// Generous: what takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(30);

struct Host(HostEnd);

impl Host {
    fn say(&mut self, message: &ToAgent) {
        self.0.send(message, Instant::now() + PATIENCE, &Cancel::new()).expect("the agent listens");
    }

    fn hear(&mut self) -> ToHost {
        self.0.receive(Instant::now() + PATIENCE, &Cancel::new()).expect("the agent answers")
    }

    fn answer_to(&mut self, job: Job) -> JobReply {
        let wanted = job.id;
        self.say(&ToAgent::Run { job: Box::new(job) });
        loop {
            match self.hear() {
                ToHost::Done { id, reply } if id == wanted => return *reply,
                ToHost::Running { .. } | ToHost::Heartbeat { .. } => {}
                other => panic!("{other:?}"),
            }
        }
    }
}

/// Lets `talk` be the host of an agent whose jobs are run by `run`.
fn with_agent(
    run: impl Fn(&Job, &AtomicBool, &mut dyn Stage) -> JobReply + Sync + Send,
    talk: impl FnOnce(&mut Host),
) -> Result<(), LinkError> {
    let (host, agent) = UnixStream::pair().expect("a socket pair");
    let second = |stream: &UnixStream| stream.try_clone().expect("a second descriptor");
    let (agent_read, agent_write) = (second(&agent).into(), agent.into());
    std::thread::scope(|scope| {
        let served = scope.spawn(move || serve(agent_read, agent_write, MachineFacts::default(), &run));
        let mut host = Host(HostEnd::new(second(&host).into(), host.into()));
        assert!(matches!(host.hear(), ToHost::Hello { .. }));
        talk(&mut host);
        drop(host);
        served.join().expect("the agent does not panic")
    })
}

fn job(id: u64) -> Job {
    Job {
        id,
        probe: None,
        loads: vec![],
        seed: 1,
        deadline_ms: Millis::from_millis(600_000),
        ..Job::default()
    }
}

fn empty() -> JobReply {
    JobReply { report: None, doses: vec![] }
}

#[test]
fn a_panic_is_an_answer_and_the_agent_goes_on() {
    let run = |job: &Job, _: &AtomicBool, _: &mut dyn Stage| {
        assert!(job.id != 1, "out of luck\u{1b}");
        empty()
    };
    let outcome = with_agent(run, |host| {
        let reason = host.answer_to(job(1)).report.expect("a reason").expect_err("it panicked");
        assert_eq!(reason, "the job panicked: out of luck ".into());
        assert_eq!(host.answer_to(job(2)), empty());
        host.say(&ToAgent::Bye);
    });
    assert_eq!(outcome, Ok(()));
}

#[test]
fn a_number_that_is_not_finite_does_not_break_the_link() {
    let run = |job: &Job, _: &AtomicBool, _: &mut dyn Stage| {
        let dose = |load: &LoadSpec| Dose {
            kind: load.kind,
            threads: 1,
            elapsed_ns: Nanos::ZERO,
            rate_per_s: 1.0 / 0.0,
            unit: "rounds".to_owned(),
            cpu_time_ns: Nanos::ZERO,
            way: None,
            interrupts_per_s: None,
            soft_interrupts_per_s: None,
            parts: Vec::new(),
        };
        JobReply { report: None, doses: job.loads.iter().map(dose).collect() }
    };
    let outcome = with_agent(run, |host| {
        let loads = vec![LoadSpec { kind: LoadKind::Cpu, threads: None }];
        let reason =
            host.answer_to(Job { loads, ..job(1) }).report.expect("a reason").expect_err("no number");
        assert!(reason.to_string().contains("rate_per_s = inf"), "{reason}");
        assert_eq!(host.answer_to(job(2)), empty());
    });
    assert_eq!(outcome, Err(LinkError::Closed), "the host left without goodbye");
}

#[test]
fn a_long_reason_is_cut_to_what_the_link_allows() {
    let run = |_: &Job, _: &AtomicBool, _: &mut dyn Stage| JobReply {
        report: Some(Err("why\n".repeat(1_000_000).into())),
        doses: vec![],
    };
    let outcome = with_agent(run, |host| {
        let reason = host.answer_to(job(1)).report.expect("a reason").expect_err("refused");
        assert!(
            reason.to_string().starts_with("why why") && reason.to_string().len() < 5000,
            "{}",
            reason.to_string().len()
        );
        host.say(&ToAgent::Bye);
    });
    assert_eq!(outcome, Ok(()));
}

#[test]
fn a_job_without_a_probe_beats_until_it_is_stopped() {
    let run = |_: &Job, stop: &AtomicBool, stage: &mut dyn Stage| {
        stage.running();
        while !stop.load(Ordering::SeqCst) {
            std::thread::yield_now();
        }
        empty()
    };
    let outcome = with_agent(run, |host| {
        for id in 1..=2 {
            host.say(&ToAgent::Run { job: Box::new(job(id)) });
            assert_eq!(host.hear(), ToHost::Running { id });
            assert_eq!(host.hear(), ToHost::Heartbeat { id });
            // Another job's stop is not ours.
            host.say(&ToAgent::Stop { id: id + 7 });
            assert_eq!(host.hear(), ToHost::Heartbeat { id });
            host.say(&ToAgent::Stop { id });
            assert!(matches!(host.hear(), ToHost::Done { id: done, .. } if done == id));
        }
        host.say(&ToAgent::Bye);
    });
    assert_eq!(outcome, Ok(()));
}

/// Under load `fork` reported zero operations in 8 of 8 windows, as a rate.
#[test]
fn a_rate_of_zero_does_not_leave_the_agent_and_is_not_believed_of_one() {
    let nothing = ProbeReport::new(
        ClockFacts { name: "tsc".to_owned(), read_ns: 20.0, resolution_ns: 1.0 },
        OwnCost { per_sample_ns: 1.0, cpu_time_ns: Nanos::ZERO, memory_bytes: Bytes::from_bytes(1) },
        Detail::Fork(RateDetail {
            points: vec![RatePoint {
                threads: 1,
                operations: vec![0; 8],
                elapsed_ns: vec![Nanos::from_nanos(10_000_000); 8],
            }],
            latency_ns: Histogram::default(),
        }),
        Vec::new(),
    );
    let wanted = "no process ended in 8 of 8 windows with 1 threads";
    let refused = check_report(&nothing).expect_err("the host refuses it");
    assert!(refused.to_string().contains(wanted), "{refused}");
    let run = |_: &Job, _: &AtomicBool, _: &mut dyn Stage| JobReply {
        report: Some(Ok(nothing.clone())),
        doses: vec![],
    };
    let outcome = with_agent(run, |host| {
        let reason = host.answer_to(job(1)).report.expect("a probe").expect_err("nothing was seen");
        assert!(reason.to_string().contains(wanted), "{reason}");
        host.say(&ToAgent::Bye);
    });
    assert_eq!(outcome, Ok(()));
}
