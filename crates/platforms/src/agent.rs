//! The agent's end of the link: takes jobs, runs them, answers. What a job is, its caller knows.
//!
//! ```text
//!            Hello                 Run                          Done
//!  start ──────────► idle ───────────────► job runs ─────────────────────► idle
//!                     │                     │  Running, AskClock, Heartbeat … ▲ Clock, Start, Stop
//!                  Bye│closed          closed│deadline
//!                     ▼                     ▼
//!                  return              exit the process
//! ```
//!
//! Probes measure interruptions, so the agent must not make any: between messages its link thread sleeps in `poll`,
//! for ever while idle, until the next heartbeat while a job runs. There is no other periodic wake-up.

use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Scope;
use std::time::{Duration, Instant};

use nix::poll::PollFlags;

use super::agent_stage::{Reply, Request, Teller, read_clocks};
use super::link::stream::{Heard, Sink, Source, wait};
use super::link::{Decoder, LinkError, TO_AGENT_LIMIT, TO_HOST_LIMIT, decode, encode};
use model::wire::{PROTOCOL_VERSION, ToAgent, ToHost};
use probes::check::{check_reply, tame};
use probes::job::{Job, JobReply};
use units::exchange::{Exchange, Moment};
use units::facts::MachineFacts;
use units::stage::Stage;

/// A job that passes its deadline ends by itself and says so; one that has not ended this long after hangs.
const LAST_WORDS: Duration = Duration::from_secs(2);
/// Time between two signs of life while a job runs.
pub const HEARTBEAT: Duration = Duration::from_secs(1);
/// Exit code of an agent that gives up in the middle of a job.
const GAVE_UP: i32 = 70;

/// How an agent runs a job: the job, the order to stop, and what to call when its loads are up.
pub type RunJob<'a> = dyn Fn(&Job, &AtomicBool, &mut dyn Stage) -> JobReply + Sync + 'a;

/// Serves one host until it says goodbye (`Ok`) or is gone. `read` and `write` may be two descriptors of one file.
/// A terminal must be in raw mode already.
///
/// When the host is gone, or the job passes its deadline, while a job runs, the whole process exits: a probe cannot be
/// stopped from outside, and nobody waits for it.
///
/// # Errors
/// When the host is gone while no job runs, sends what is no message, or the descriptors refuse to work.
pub fn serve(read: OwnedFd, write: OwnedFd, facts: MachineFacts, run: &RunJob<'_>) -> Result<(), LinkError> {
    let (stop, quickest_ns) = (AtomicBool::new(false), AtomicU64::new(0));
    let (events, inbox) = channel();
    let (wake, waker) = std::io::pipe().map_err(|error| LinkError::Broke(error.to_string()))?;
    let mut agent = Agent {
        source: Source::new(read)?,
        sink: Sink::new(write)?,
        decoder: Decoder::new(TO_AGENT_LIMIT),
        wake: Source::new(wake.into())?,
        inbox,
        current: None,
        questions: 0,
        stop: &stop,
    };
    std::thread::scope(|scope| {
        let hello = ToHost::Hello {
            protocol: PROTOCOL_VERSION,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            facts: Box::new(facts),
        };
        let starter = Starter { scope, run, events, waker: &waker, stop: &stop, quickest_ns: &quickest_ns };
        let outcome = agent.say(&hello).and_then(|()| agent.serve(&starter));
        if let (Err(error), Some(current)) = (&outcome, &agent.current) {
            give_up(&format!("job {} is given up: {error}", current.id));
        }
        outcome
    })
}

/// What the thread of a job tells the link thread.
enum Event {
    Request(Request),
    Done(Box<JobReply>),
}

/// What is needed to start the thread of a job.
struct Starter<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    run: &'env RunJob<'env>,
    events: Sender<Event>,
    waker: &'env std::io::PipeWriter,
    stop: &'env AtomicBool,
    /// See [`Teller`].
    quickest_ns: &'env AtomicU64,
}

impl Starter<'_, '_> {
    fn start(&self, job: Job, replies: Receiver<Reply>, deadline: Instant) -> Result<(), LinkError> {
        let (run, events, waker) = (self.run, self.events.clone(), self.waker);
        let (stop, quickest_ns) = (self.stop, self.quickest_ns);
        let tell = move |event: Event| {
            // The link thread outlives this one; a full wake-up pipe wakes it just as well.
            let _ = events.send(event);
            let _ = (&*waker).write(&[1]);
        };
        let body = move || {
            let request = |request| tell(Event::Request(request));
            let work = || run(&job, stop, &mut Teller::new(&request, replies, stop, deadline, quickest_ns));
            let reply =
                catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| refusal(&panic_text(&*panic)));
            tell(Event::Done(Box::new(reply)));
        };
        let spawned = std::thread::Builder::new().name("job".to_owned()).spawn_scoped(self.scope, body);
        spawned.map(drop).map_err(|error| LinkError::Broke(format!("no thread for the job: {error}")))
    }
}

/// The job that runs.
struct Current {
    id: u64,
    deadline: Instant,
    limit: Duration,
    next_heartbeat: Instant,
    /// To the job's thread.
    replies: Sender<Reply>,
    /// The question the host's clock has not answered yet, and when it was asked.
    asking: Option<(u64, Moment)>,
}

struct Agent<'a> {
    source: Source,
    sink: Sink,
    decoder: Decoder,
    wake: Source,
    inbox: Receiver<Event>,
    current: Option<Current>,
    /// Questions asked so far.
    questions: u64,
    stop: &'a AtomicBool,
}

impl Agent<'_> {
    fn serve(&mut self, starter: &Starter<'_, '_>) -> Result<(), LinkError> {
        loop {
            self.sink.write()?;
            self.sleep()?;
            self.hear_job()?;
            if self.hear_host(starter)? {
                return Ok(());
            }
            self.watch_clock()?;
        }
    }

    /// Sleeps until there is something to do.
    fn sleep(&self) -> Result<(), LinkError> {
        let now = Instant::now();
        let until = self.current.as_ref().map(|current| current.next_heartbeat.min(current.deadline));
        let mut wanted =
            vec![(self.source.as_fd(), PollFlags::POLLIN), (self.wake.as_fd(), PollFlags::POLLIN)];
        if !self.sink.is_drained() {
            wanted.push((self.sink.as_fd(), PollFlags::POLLOUT));
        }
        wait(&wanted, until.map(|until| until.saturating_duration_since(now)))
    }

    /// Hears what the thread of the job has to say.
    fn hear_job(&mut self) -> Result<(), LinkError> {
        self.wake.read()?;
        while let Ok(event) = self.inbox.try_recv() {
            let Some(id) = self.current.as_ref().map(|current| current.id) else { continue };
            match event {
                Event::Request(Request::Running) => self.say(&ToHost::Running { id })?,
                Event::Request(Request::Ask) => self.ask()?,
                Event::Done(reply) => {
                    let reply = *reply;
                    self.current = None;
                    self.answer(id, reply)?;
                }
            }
        }
        Ok(())
    }

    /// Asks the host's clock. The clocks here are read last before the question leaves.
    fn ask(&mut self) -> Result<(), LinkError> {
        self.questions += 1;
        let question = self.questions;
        let bytes = encode(&ToHost::AskClock { question }, TO_HOST_LIMIT)?;
        let asked = read_clocks();
        self.sink.queue(&bytes);
        self.sink.write()?;
        if let Some(current) = &mut self.current {
            current.asking = Some((question, asked));
        }
        Ok(())
    }

    /// Hands an answer of the host's clock to the job; late ones, and those nobody asked for, are dropped.
    fn hear_clock(&mut self, question: u64, received_ns: u64, sent_ns: u64, answered: Moment) {
        let Some(current) = &mut self.current else { return };
        let Some((_, asked)) = current.asking.take_if(|(asked, _)| *asked == question) else { return };
        // The job's thread may have stopped waiting.
        let _ = current.replies.send(Reply::Clock(Exchange { asked, received_ns, sent_ns, answered }));
    }

    /// Sends a reply, or why it cannot be sent.
    fn answer(&mut self, id: u64, reply: JobReply) -> Result<(), LinkError> {
        let mut reply = reply;
        if let Some(Err(reason)) = &mut reply.report {
            *reason = tame(&reason.to_string()).into();
        }
        if let Err(broken) = check_reply(&reply) {
            reply = refusal(&format!("the result breaks the rules of the link: {broken}"));
        }
        match self.say(&ToHost::Done { id, reply: Box::new(reply) }) {
            Err(error @ (LinkError::TooLong { .. } | LinkError::Unsendable(_))) => {
                let reply = Box::new(refusal(&format!("the result cannot be sent: {error}")));
                self.say(&ToHost::Done { id, reply })
            }
            outcome => outcome,
        }
    }

    /// Hears what the host has to say; true means goodbye.
    fn hear_host(&mut self, starter: &Starter<'_, '_>) -> Result<bool, LinkError> {
        let heard_at;
        match self.source.read()? {
            Heard::Nothing => return Ok(false),
            Heard::End => return Err(LinkError::Closed),
            Heard::Bytes(count) => {
                let is_asking = self.current.as_ref().is_some_and(|current| current.asking.is_some());
                heard_at = if is_asking { read_clocks() } else { Moment::default() };
                self.decoder.push(self.source.bytes(count));
            }
        }
        while let Some(frame) = self.decoder.next_frame()? {
            match decode(&frame)? {
                ToAgent::Bye if self.current.is_none() => return Ok(true),
                ToAgent::Bye => return Err(LinkError::Closed),
                ToAgent::Stop { id } => {
                    if self.current.as_ref().is_some_and(|current| current.id == id) {
                        self.stop.store(true, Ordering::SeqCst);
                    }
                }
                ToAgent::Run { job } => self.begin(*job, starter)?,
                ToAgent::Start { id, at_ns } => {
                    if let Some(current) = self.current.as_ref().filter(|current| current.id == id) {
                        let _ = current.replies.send(Reply::Start(at_ns));
                    }
                }
                ToAgent::Clock { question, received_ns, sent_ns } => {
                    self.hear_clock(question, received_ns.get(), sent_ns.get(), heard_at);
                }
            }
        }
        Ok(false)
    }

    fn begin(&mut self, job: Job, starter: &Starter<'_, '_>) -> Result<(), LinkError> {
        if let Some(current) = &self.current {
            return Err(LinkError::Garbage {
                wanted: format!("nothing new before the end of job {}", current.id),
                got: format!("job {}", job.id),
            });
        }
        self.stop.store(false, Ordering::SeqCst);
        let now = Instant::now();
        let limit = job.deadline_ms.to_duration();
        // A deadline beyond what the clock can say is as good as a year.
        let deadline = now
            .checked_add(limit.saturating_add(LAST_WORDS))
            .unwrap_or(now + Duration::from_secs(31_536_000));
        let (replies, heard) = channel();
        let next_heartbeat = now + HEARTBEAT;
        self.current = Some(Current { id: job.id, deadline, limit, next_heartbeat, replies, asking: None });
        starter.start(job, heard, deadline.checked_sub(LAST_WORDS).unwrap_or(deadline))
    }

    /// Gives up a job that passed its deadline, and gives a sign of life when one is due.
    fn watch_clock(&mut self) -> Result<(), LinkError> {
        let now = Instant::now();
        let Some(current) = &mut self.current else { return Ok(()) };
        if now >= current.deadline {
            give_up(&format!("job {} did not end within its {} ms", current.id, current.limit.as_millis()));
        }
        if now < current.next_heartbeat {
            return Ok(());
        }
        current.next_heartbeat = now + HEARTBEAT;
        let id = current.id;
        // When the last one could not be sent yet, another one would not help.
        if self.sink.is_drained() { self.say(&ToHost::Heartbeat { id }) } else { Ok(()) }
    }

    fn say(&mut self, message: &ToHost) -> Result<(), LinkError> {
        self.sink.queue(&encode(message, TO_HOST_LIMIT)?);
        self.sink.write()
    }
}

/// A reply that says why there is no result.
fn refusal(reason: &str) -> JobReply {
    JobReply { report: Some(Err(tame(reason).into())), doses: vec![] }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().map(str::to_owned);
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    format!("the job panicked: {}", text.unwrap_or_else(|| "without a message".to_owned()))
}

#[expect(clippy::exit, reason = "a thread that spins in a probe cannot be ended otherwise")]
fn give_up(message: &str) -> ! {
    // Whoever read the error output may be gone, too.
    let _ = writeln!(std::io::stderr(), "bulkhead agent: {message}");
    std::process::exit(GAVE_UP)
}
