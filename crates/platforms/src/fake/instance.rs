//! The fake platform and its instances. They break as scripted, the way real ones do: what died or hangs is gone and
//! must be started again, and counts its measurements from 1 then.

use std::time::{Duration, Instant};

use crate::{Broken, Cancel, Instance, InstanceSpec, Platform};
use model::experiment::{FakeScript, PlatformSpec};
use model::journal::{Failure, FailureKind, PlatformState};
use probes::job::{Job, JobReply, ProbeReport};
use probes::pretend::{CPUS, Pretence, dose, report};
use units::facts::MachineFacts;
use units::outside::{ClockReading, ClockTransport, OutsideTime};
use units::{Bytes, Hertz, Nanos};

/// Longest sleep without a look at the cancel token.
const SLICE: Duration = Duration::from_millis(20);
/// What starting a fake instance is said to take.
const START_TIME: Nanos = Nanos::from_nanos(1_000_000);

/// The fake platform.
#[derive(Debug, Clone)]
pub struct Fake {
    spec: PlatformSpec,
    seed: u64,
}

impl Fake {
    /// A fake platform. Same settings and seed, same data.
    pub fn new(spec: &PlatformSpec, seed: u64) -> Self {
        Self { spec: spec.clone(), seed }
    }

    fn script(&self) -> FakeScript {
        self.spec.script.clone().unwrap_or_default()
    }

    fn facts(&self) -> MachineFacts {
        MachineFacts {
            architecture: "fake".to_owned(),
            cpu_model: Some("Fake CPU at 2 GHz".to_owned()),
            cpus: self.spec.cpus.unwrap_or(CPUS),
            memory_bytes: Some(Bytes::from_bytes(4 << 30)),
            last_level_cache_bytes: Some(Bytes::from_bytes(16 << 20)),
            system: Some("nothing is run".to_owned()),
            kernel: None,
            clock_source: Some("fake".to_owned()),
            hypervisor: None,
            counter_hz: Some(Hertz::from_hz(2_000_000_000)),
            nics: Vec::new(),
        }
    }
}

impl Platform for Fake {
    fn survey(&mut self, _cancel: &Cancel) -> PlatformState {
        let script = self.script();
        PlatformState {
            label: self.spec.label.clone(),
            kind: self.spec.kind,
            unavailable: None,
            properties: vec![
                ("nothing is run".to_owned(), "all figures are made up from the seed".to_owned()),
                ("slowdown".to_owned(), format!("{} %", script.slowdown_percent.unwrap_or(100))),
                ("noise".to_owned(), format!("{} %", script.noise_percent)),
            ],
            facts: None,
            start_ns: None,
        }
    }

    fn start(&mut self, spec: &InstanceSpec, cancel: &Cancel) -> Result<Box<dyn Instance>, Broken> {
        if cancel.is_cancelled() {
            return Err(Broken::Interrupted);
        }
        let script = self.script();
        let label = format!("{}/{}", self.spec.label, spec.number);
        if script.failures.iter().any(|failure| failure.at == 0) {
            let reason = format!("{label}: the script lets the start fail");
            return Err(Failure { kind: FailureKind::Start, reason, console: console() }.into());
        }
        let pretence = Pretence {
            seed: self.seed,
            label: self.spec.label.clone(),
            slowdown_percent: script.slowdown_percent.unwrap_or(100),
            noise_percent: script.noise_percent,
            cpus: self.spec.cpus.unwrap_or(CPUS),
        };
        Ok(Box::new(FakeInstance {
            label,
            pretence,
            script,
            facts: self.facts(),
            begun: None,
            is_started: false,
            measured: 0,
            gone: None,
        }))
    }
}

/// A measurement of one second by the host's clock, begun one microsecond later for each further instance; the instance
/// has measured `measured` times before, and what its time of day was set by then stays.
fn made_up_time(script: &FakeScript, rank: u32, measured: u32) -> OutsideTime {
    const SECOND: u64 = 1_000_000_000;
    let ahead = |host_ns: u64| host_ns.saturating_add_signed(i64::from(script.clock_ppm) * 1000);
    let during_ns = i64::from(script.clock_step_ms) * 1_000_000;
    let between_ns = i64::from(script.clock_step_between_ms) * 1_000_000;
    let set_before_ns = during_ns.saturating_add(between_ns).saturating_mul(i64::from(measured));
    let reading = |host_ns: u64, local_ns: u64, step_ns: i64| ClockReading {
        host_ns: Nanos::from_nanos(host_ns),
        monotonic_ns: Nanos::from_nanos(local_ns),
        raw_ns: Nanos::from_nanos(local_ns),
        realtime_ns: Nanos::from_nanos((1_700_000_000 * SECOND + local_ns).saturating_add_signed(step_ns)),
        round_trip_ns: Nanos::from_nanos(20_000),
        exchanges: 8,
    };
    let (before, after) = (1000 * SECOND, 1001 * SECOND);
    OutsideTime {
        transport: ClockTransport::Link,
        before: reading(before, before, set_before_ns),
        after: reading(after, ahead(after), set_before_ns.saturating_add(during_ns)),
        began_ns: Nanos::from_nanos(before + 1000 * u64::from(rank)),
        ended_ns: Nanos::from_nanos(ahead(after)),
    }
}

fn console() -> Vec<String> {
    vec!["fake console: nothing was run".to_owned()]
}

/// A fake instance.
struct FakeInstance {
    label: String,
    pretence: Pretence,
    script: FakeScript,
    facts: MachineFacts,
    begun: Option<Job>,
    /// Whether the job that was begun was told when to start.
    is_started: bool,
    measured: u32,
    gone: Option<Broken>,
}

impl FakeInstance {
    fn still_here(&self) -> Result<(), Broken> {
        self.gone.clone().map_or(Ok(()), Err)
    }

    fn fail(&mut self, kind: FailureKind, reason: &str) -> Broken {
        let reason = format!("{}: {reason}", self.label);
        let broken = Broken::Failed(Failure { kind, reason, console: console() });
        self.gone = Some(broken.clone());
        broken
    }

    /// Takes the scripted time.
    fn delay(&mut self, cancel: &Cancel) -> Result<(), Broken> {
        let until = Instant::now() + Duration::from_millis(self.script.delay_ms.into());
        loop {
            if cancel.is_cancelled() {
                self.gone = Some(Broken::Interrupted);
                return Err(Broken::Interrupted);
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            std::thread::sleep(left.min(SLICE));
        }
    }

    /// The scripted failure of the current measurement.
    fn scripted(&mut self) -> Result<Option<String>, Broken> {
        self.measured += 1;
        let failure = self.script.failures.iter().find(|failure| failure.at == self.measured);
        match failure.map(|failure| failure.kind) {
            None => Ok(None),
            Some(FailureKind::Refused) => Ok(Some("the script lets the probe refuse".to_owned())),
            Some(kind) => {
                let number = self.measured;
                Err(self.fail(kind, &format!("the script lets measurement {number} break")))
            }
        }
    }
}

impl Instance for FakeInstance {
    fn facts(&self) -> &MachineFacts {
        &self.facts
    }

    fn start_time(&self) -> Nanos {
        START_TIME
    }

    fn resume(&mut self) -> Result<(), Broken> {
        self.still_here()
    }

    fn pause(&mut self) -> Result<(), Broken> {
        self.still_here()
    }

    fn begin(&mut self, job: &Job, cancel: &Cancel) -> Result<(), Broken> {
        self.still_here()?;
        if cancel.is_cancelled() {
            return Err(Broken::Interrupted);
        }
        if let Some(running) = &self.begun {
            let reason = format!("job {} was to begin while job {} runs", job.id, running.id);
            return Err(self.fail(FailureKind::Refused, &reason));
        }
        self.begun = Some(job.clone());
        self.is_started = false;
        Ok(())
    }

    fn start_at(&mut self, _at: Nanos) -> Result<(), Broken> {
        self.still_here()?;
        if self.begun.as_ref().is_none_or(|job| job.part.is_none()) {
            return Err(self.fail(FailureKind::Refused, "a start was set, but no job waits for one"));
        }
        self.is_started = true;
        Ok(())
    }

    fn finish(&mut self, cancel: &Cancel) -> Result<JobReply, Broken> {
        self.still_here()?;
        let Some(job) = self.begun.take() else {
            return Err(self.fail(FailureKind::Refused, "no job was begun"));
        };
        let powerless = |kind| self.script.powerless.contains(&kind);
        let doses =
            job.loads.iter().map(|load| dose(load, self.pretence.cpus, powerless(load.kind))).collect();
        let Some(probe) = &job.probe else { return Ok(JobReply { report: None, doses }) };
        self.delay(cancel)?;
        if job.part.is_some() && !self.is_started {
            return Err(self.fail(FailureKind::Refused, "it was never told when to start"));
        }
        let rank = job.part.as_ref().map_or(0, |part| part.rank);
        let outside = made_up_time(&self.script, rank, self.measured);
        let report = match self.scripted()? {
            Some(refusal) => Err(refusal.into()),
            None => report(&self.pretence, probe, &job)
                .map(|report| ProbeReport { outside: Some(outside), ..report }),
        };
        Ok(JobReply { report: Some(report), doses })
    }

    fn end(&mut self) {
        if self.gone.is_none() {
            let _ = self.fail(FailureKind::Died, "the instance was ended");
        }
    }
}
