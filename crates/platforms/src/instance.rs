//! The one [`Instance`] over a carrier: attaches to an agent, gives it jobs, notices every way in which it can break.
//!
//! ```text
//!             Hello              begin: Run … Running            finish: … Done
//!  attach ───────────► idle ──────────────────────────► busy ──────────────────► idle
//!    │                   │ pause/resume                  │
//!    │                   ▼                               │ silence  → Hung     end of stream → Died
//!    │ exit, silence → Start                             │ no frame → Garbage  cancelled     → Interrupted
//!    └──────────────────────────► gone ◄─────────────────┘
//! ```
//! Whatever leads to `gone` ends the carrier at once.

use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};

pub use super::allowances::{Allowances, DEADLINE_GRACE, SILENCE_ALLOWED, STOP_GRACE};
use super::link::{HostEnd, LinkError};
use super::{Broken, Cancel, Carrier, Instance};
use model::journal::{Failure, FailureKind};
use model::wire::{PROTOCOL_VERSION, ToAgent, ToHost};
use probes::ProbeKind;
use probes::job::{Job, JobReply};
use units::facts::MachineFacts;
use units::names::LoadKind;
use units::{Bytes, Nanos, Reason};

/// Most questions for the clock that one job may ask; an honest one asks some tens.
pub const MOST_QUESTIONS: u32 = 256;
/// How long an agent may take to end by itself after goodbye.
const GOODBYE_GRACE: Duration = Duration::from_secs(2);
/// How often the carrier is asked whether it is still there while nothing is heard.
const CARRIER_CHECK: Duration = Duration::from_millis(300);
/// Until the carrier's end is noticed after its link broke.
const OBITUARY_GRACE: Duration = Duration::from_secs(1);

/// An agent behind a carrier.
pub struct AgentInstance {
    label: String,
    link: HostEnd,
    carrier: Box<dyn Carrier>,
    facts: MachineFacts,
    start_time: Nanos,
    allowed: Allowances,
    state: State,
}

enum State {
    Idle,
    Paused,
    Busy(Box<Busy>),
    Gone(Broken),
}

/// What is known of the job that runs.
struct Busy {
    id: u64,
    probe: Option<ProbeKind>,
    loads: Vec<LoadKind>,
    limit: Duration,
    begun: Instant,
    /// A reply that came before the loads were up: the job refused.
    early: Option<JobReply>,
    /// Questions for the clock so far.
    questions: u32,
}

impl AgentInstance {
    /// Waits until the agent behind `link` introduces itself, at most until `start_deadline` after `started`.
    ///
    /// A carrier that ends or stays silent is [`FailureKind::Start`], so is another protocol version; bytes that are
    /// no message are [`FailureKind::Garbage`]. In each case the carrier has been ended when this returns.
    ///
    /// # Errors
    /// [`Broken::Failed`] as said above, [`Broken::Interrupted`] when cancelled.
    pub fn attach(
        label: &str,
        link: HostEnd,
        carrier: Box<dyn Carrier>,
        started: Instant,
        start_deadline: Duration,
        cancel: &Cancel,
    ) -> Result<Self, Broken> {
        let mut instance = Self {
            label: label.to_owned(),
            link,
            carrier,
            facts: MachineFacts::default(),
            start_time: Nanos::ZERO,
            allowed: Allowances::default(),
            state: State::Idle,
        };
        match instance.hear(started + start_deadline, cancel) {
            Ok(ToHost::Hello { protocol: PROTOCOL_VERSION, facts, .. }) => {
                instance.start_time = Nanos::from_duration(started.elapsed());
                instance.facts = *facts;
                Ok(instance)
            }
            Ok(ToHost::Hello { protocol, version, .. }) => Err(instance.fail(
                FailureKind::Start,
                &format!(
                    "protocol version {PROTOCOL_VERSION} was wanted, the agent (bulkhead {version}) speaks \
                     {protocol}: use the same bulkhead on both ends"
                ),
            )),
            Ok(other) => Err(instance.unexpected("the agent's introduction", &other)),
            Err(LinkError::Cancelled) => Err(instance.interrupted()),
            Err(error @ LinkError::Version { .. }) => {
                Err(instance.fail(FailureKind::Start, &error.to_string()))
            }
            Err(error @ (LinkError::Garbage { .. } | LinkError::TooLong { .. })) => {
                Err(instance.fail(FailureKind::Garbage, &format!("while it started: {error}")))
            }
            Err(LinkError::Deadline) => {
                let reason = format!(
                    "its agent did not answer within {} of its start",
                    Nanos::from_duration(start_deadline)
                );
                Err(instance.fail(FailureKind::Start, &reason))
            }
            Err(error) => {
                let how = instance.obituary();
                Err(instance.fail(FailureKind::Start, &format!("{how} before its agent answered ({error})")))
            }
        }
    }

    /// Stretches every allowance for silence by `factor`, for carriers that are slow themselves (a translated VM: 3).
    #[must_use]
    pub fn with_patience(mut self, factor: u32) -> Self {
        self.allowed = self.allowed.stretched(factor);
        self
    }

    /// Replaces every allowance for silence.
    #[must_use]
    pub fn with_allowances(mut self, allowed: Allowances) -> Self {
        self.allowed = allowed;
        self
    }

    /// The next message. While nothing comes, looks whether the carrier still lives: its end does not always close
    /// the link.
    fn hear(&mut self, deadline: Instant, cancel: &Cancel) -> Result<ToHost, LinkError> {
        loop {
            let slice = deadline.min(Instant::now() + CARRIER_CHECK);
            match self.link.receive(slice, cancel) {
                Err(LinkError::Deadline) if slice < deadline => {
                    if self.carrier.how_it_ended().is_some() {
                        // What it said last may still be on its way.
                        let last = self.link.receive(Instant::now() + Duration::from_millis(1), cancel);
                        return last.map_err(|error| match error {
                            LinkError::Deadline => LinkError::Closed,
                            other => other,
                        });
                    }
                }
                outcome => return outcome,
            }
        }
    }

    /// The next message of job `id`, before `deadline` and without a longer silence than allowed. Questions for the
    /// clock are answered on the way.
    fn hear_of_job(&mut self, id: u64, deadline: Instant, cancel: &Cancel) -> Result<ToHost, Broken> {
        loop {
            let silence_ends = Instant::now() + self.allowed.silence;
            match self.hear(deadline.min(silence_ends), cancel) {
                Ok(ToHost::AskClock { question }) => {
                    let received_ns = monotonic_now();
                    if Instant::now() >= deadline {
                        return Err(self.late(id));
                    }
                    self.answer_clock(id, question, received_ns, deadline, cancel)?;
                }
                Ok(
                    message @ (ToHost::Running { id: got }
                    | ToHost::Heartbeat { id: got }
                    | ToHost::Done { id: got, .. }),
                ) if got == id => {
                    // Signs of life do not buy time: who sends nothing else is late, too.
                    let is_late = matches!(message, ToHost::Heartbeat { .. }) && Instant::now() >= deadline;
                    return if is_late { Err(self.late(id)) } else { Ok(message) };
                }
                Ok(other) => return Err(self.unexpected(&format!("news of job {id}"), &other)),
                Err(LinkError::Deadline) if deadline <= silence_ends => return Err(self.late(id)),
                Err(LinkError::Deadline) => {
                    let silence = Nanos::from_duration(self.allowed.silence);
                    let reason = format!("no sign of life for {silence} during job {id}");
                    return Err(self.fail(FailureKind::Hung, &reason));
                }
                Err(error) => return Err(self.broke(&error)),
            }
        }
    }

    /// Says what the host's clock says; an agent that asks without end is not believed.
    fn answer_clock(
        &mut self,
        id: u64,
        question: u64,
        received_ns: Nanos,
        deadline: Instant,
        cancel: &Cancel,
    ) -> Result<(), Broken> {
        if let State::Busy(busy) = &mut self.state {
            busy.questions += 1;
            if busy.questions > MOST_QUESTIONS {
                let reason = format!(
                    "job {id} asked for the clock more than {MOST_QUESTIONS} times, where some tens are usual"
                );
                return Err(self.fail(FailureKind::Garbage, &reason));
            }
        }
        let answer = ToAgent::Clock { question, received_ns, sent_ns: monotonic_now() };
        let until = deadline.min(Instant::now() + self.allowed.silence);
        self.link.send(&answer, until, cancel).map_err(|error| self.broke(&error))
    }

    fn late(&mut self, id: u64) -> Broken {
        self.fail(FailureKind::Hung, &format!("job {id} did not end within its deadline"))
    }

    /// What a broken link in the middle of a job means.
    fn broke(&mut self, error: &LinkError) -> Broken {
        let late = matches!(&self.state, State::Busy(busy) if busy.begun.elapsed() >= busy.limit);
        match error {
            LinkError::Cancelled => self.interrupted(),
            LinkError::Deadline => self.fail(FailureKind::Hung, "it did not take a message in time"),
            LinkError::Garbage { .. } | LinkError::TooLong { .. } | LinkError::Version { .. } => {
                self.fail(FailureKind::Garbage, &error.to_string())
            }
            LinkError::Unsendable(_) => self.fail(FailureKind::Refused, &error.to_string()),
            LinkError::Closed | LinkError::Broke(_) => {
                let how = self.obituary();
                let (kind, when) = if late {
                    (FailureKind::Hung, "when the job had passed its deadline")
                } else {
                    (FailureKind::Died, "without being asked to")
                };
                self.fail(kind, &format!("{how} {when} ({error})"))
            }
        }
    }

    /// How the carrier ended; waits a little, because its link closes before it can be reaped.
    fn obituary(&mut self) -> String {
        let until = Instant::now() + OBITUARY_GRACE;
        loop {
            if let Some(how) = self.carrier.how_it_ended() {
                return how;
            }
            if Instant::now() >= until {
                return "the agent left".to_owned();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn unexpected(&mut self, wanted: &str, got: &ToHost) -> Broken {
        let got = match got {
            ToHost::Hello { .. } => "an introduction".to_owned(),
            ToHost::Running { id } => format!("the start of job {id}"),
            ToHost::AskClock { question } => format!("question {question} for the clock"),
            ToHost::Heartbeat { id } => format!("a sign of life of job {id}"),
            ToHost::Done { id, .. } => format!("the reply to job {id}"),
        };
        self.fail(FailureKind::Garbage, &format!("{wanted} was wanted, got {got}"))
    }

    /// Records what broke and ends the carrier. The console is read after the end, so that it has the last words.
    fn fail(&mut self, kind: FailureKind, reason: &str) -> Broken {
        self.carrier.end();
        let reason = format!("{}: {reason}", self.label);
        let broken = Broken::Failed(Failure { kind, reason, console: self.carrier.console_tail() });
        self.state = State::Gone(broken.clone());
        broken
    }

    fn interrupted(&mut self) -> Broken {
        self.carrier.end();
        self.state = State::Gone(Broken::Interrupted);
        Broken::Interrupted
    }

    fn pausing_failed(&mut self, what: &str, why: &str) -> Broken {
        match self.carrier.how_it_ended() {
            Some(how) => self.fail(FailureKind::Died, &format!("{how}, noticed when it was to be {what}")),
            None => self.fail(FailureKind::Hung, &format!("it could not be {what}: {why}")),
        }
    }

    /// Waits for the reply; heartbeats push the allowance for silence on.
    fn await_reply(&mut self, id: u64, deadline: Instant, cancel: &Cancel) -> Result<JobReply, Broken> {
        loop {
            match self.hear_of_job(id, deadline, cancel)? {
                ToHost::Done { reply, .. } => return Ok(*reply),
                ToHost::Heartbeat { .. } => {}
                other => return Err(self.unexpected(&format!("the reply to job {id}"), &other)),
            }
        }
    }

    fn check_reply(&mut self, busy: &Busy, reply: &JobReply) -> Result<(), Broken> {
        let got = match &reply.report {
            Some(Ok(report)) => Some(report.detail.kind()),
            Some(Err(_)) => return Ok(()),
            None => None,
        };
        if got != busy.probe {
            let name = |kind: Option<ProbeKind>| kind.map_or("no report", ProbeKind::as_str);
            let reason = format!("the reply of probe {} carries {}", name(busy.probe), name(got));
            return Err(self.fail(FailureKind::Garbage, &reason));
        }
        let doses: Vec<LoadKind> = reply.doses.iter().map(|dose| dose.kind).collect();
        if doses != busy.loads {
            let reason = format!("doses of the loads {:?} were wanted, got {doses:?}", busy.loads);
            return Err(self.fail(FailureKind::Garbage, &reason));
        }
        Ok(())
    }
}

impl Instance for AgentInstance {
    fn facts(&self) -> &MachineFacts {
        &self.facts
    }

    fn start_time(&self) -> Nanos {
        self.start_time
    }

    fn resume(&mut self) -> Result<(), Broken> {
        match &self.state {
            State::Idle | State::Busy(_) => Ok(()),
            State::Gone(broken) => Err(broken.clone()),
            State::Paused => match self.carrier.resume() {
                Ok(()) => {
                    self.state = State::Idle;
                    Ok(())
                }
                Err(why) => Err(self.pausing_failed("resumed", &why.to_string())),
            },
        }
    }

    fn pause(&mut self) -> Result<(), Broken> {
        match &self.state {
            State::Paused => Ok(()),
            State::Gone(broken) => Err(broken.clone()),
            State::Busy(busy) => {
                let reason = format!("it was to be paused while job {} runs", busy.id);
                Err(self.fail(FailureKind::Refused, &reason))
            }
            State::Idle => match self.carrier.pause() {
                Ok(()) => {
                    self.state = State::Paused;
                    Ok(())
                }
                Err(why) => Err(self.pausing_failed("paused", &why.to_string())),
            },
        }
    }

    fn begin(&mut self, job: &Job, cancel: &Cancel) -> Result<(), Broken> {
        self.resume()?;
        if let State::Busy(busy) = &self.state {
            let reason = format!("job {} was to begin while job {} runs", job.id, busy.id);
            return Err(self.fail(FailureKind::Refused, &reason));
        }
        let begun = Instant::now();
        let run = ToAgent::Run { job: Box::new(job.clone()) };
        self.state = State::Busy(Box::new(Busy {
            id: job.id,
            probe: job.probe.as_ref().map(probes::params::ProbeSpec::kind),
            loads: job.loads.iter().map(|load| load.kind).collect(),
            limit: job.deadline_ms.to_duration(),
            begun,
            early: None,
            questions: 0,
        }));
        self.link.send(&run, begun + self.allowed.silence, cancel).map_err(|error| self.broke(&error))?;
        let deadline = begun + job.deadline_ms.to_duration() + self.allowed.after_deadline;
        loop {
            match self.hear_of_job(job.id, deadline, cancel)? {
                ToHost::Done { reply, .. } => {
                    if let State::Busy(busy) = &mut self.state {
                        busy.early = Some(*reply);
                    }
                    return Ok(());
                }
                ToHost::Heartbeat { .. } => {}
                _ => return Ok(()),
            }
        }
    }

    fn start_at(&mut self, at: Nanos) -> Result<(), Broken> {
        let id = match &self.state {
            State::Gone(broken) => return Err(broken.clone()),
            State::Idle | State::Paused => {
                return Err(self.fail(FailureKind::Refused, "a start was set, but no job was begun"));
            }
            // It has replied already; nothing is left that could begin.
            State::Busy(busy) if busy.early.is_some() => return Ok(()),
            State::Busy(busy) => busy.id,
        };
        let deadline = Instant::now() + self.allowed.silence;
        let start = ToAgent::Start { id, at_ns: at };
        self.link.send(&start, deadline, &Cancel::new()).map_err(|error| self.broke(&error))
    }

    fn processes(&self) -> Vec<u32> {
        match self.state {
            State::Gone(_) => Vec::new(),
            _ => self.carrier.processes(),
        }
    }

    fn memory_by_node(&mut self) -> Option<Result<Vec<(u32, Bytes)>, Reason>> {
        match self.state {
            State::Gone(_) => None,
            _ => self.carrier.memory_by_node(),
        }
    }

    fn finish(&mut self, cancel: &Cancel) -> Result<JobReply, Broken> {
        let (id, early, deadline, has_probe) = match &mut self.state {
            State::Gone(broken) => return Err(broken.clone()),
            State::Idle | State::Paused => {
                return Err(self.fail(FailureKind::Refused, "no job was begun"));
            }
            State::Busy(busy) => {
                let deadline = busy.begun + busy.limit + self.allowed.after_deadline;
                (busy.id, busy.early.take(), deadline, busy.probe.is_some())
            }
        };
        let reply = if let Some(reply) = early {
            reply
        } else if has_probe {
            self.await_reply(id, deadline, cancel)?
        } else {
            let deadline = Instant::now() + self.allowed.after_stop;
            self.link.send(&ToAgent::Stop { id }, deadline, cancel).map_err(|error| self.broke(&error))?;
            self.await_reply(id, deadline, cancel)?
        };
        if let State::Busy(busy) = std::mem::replace(&mut self.state, State::Idle) {
            self.check_reply(&busy, &reply)?;
        }
        Ok(reply)
    }

    fn end(&mut self) {
        if matches!(self.state, State::Idle) {
            let deadline = Instant::now() + GOODBYE_GRACE;
            // Whether it heard or not, the carrier is ended below.
            if self.link.send(&ToAgent::Bye, deadline, &Cancel::new()).is_ok() {
                let _ = self.hear(deadline, &Cancel::new());
            }
        }
        self.carrier.end();
        if !matches!(self.state, State::Gone(_)) {
            let reason = format!("{}: the instance was ended", self.label);
            self.state =
                State::Gone(Broken::Failed(Failure { kind: FailureKind::Died, reason, console: vec![] }));
        }
    }
}

/// The host's `CLOCK_MONOTONIC`, as agents are told it.
pub fn monotonic_now() -> Nanos {
    clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Nanos::ZERO, |time| Nanos::from_duration(time.into()))
}

impl Drop for AgentInstance {
    fn drop(&mut self) {
        self.end();
    }
}
