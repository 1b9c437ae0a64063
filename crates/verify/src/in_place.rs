//! Probes where they count: in a partition that runs, beside its own program, or on the host; and loads that are added beside.
//!
//! ```text
//!  bulkhead exec --in SET/NAME --user root -- /proc/1/exe agent ══ link ══► the agent of measurements, in the partition's tree
//!     its standard streams are the link; it ends with us, however we end
//! ```
//! An agent stays from round to round: an idle one sleeps and takes nothing. A partition of its own for a probe does not: each round has a new
//! one, so that what a boot decides counts as one round's.

pub mod between;
mod probe_partition;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use campaign::demand;
use model::experiment::PlatformSpec;
use model::journal::{Failure, FailureKind};
use model::requirement::{DeclaredLoad, ON_HOST, RequiredLoad, Subject};
use model::verification::Observed;
use partition::set::root::state_root;
use platforms::instance::AgentInstance;
use platforms::native::ProcessCarrier;
use platforms::process::Process;
use platforms::{Broken, Cancel, Instance, InstanceSpec, PlatformContext, host, make};
use probes::job::{Dose, Job, JobReply, LoadSpec};
use probes::params::ProbeSpec;
use units::facts::MachineFacts;
use units::names::PlatformKind;
use units::{Millis, Reason};

use crate::failure::Armed;
use crate::look::LookedAt;

/// Until an agent in a partition answers, on an idle host.
const START_WITHIN: Duration = Duration::from_secs(60);
/// How long a partition that was made for a probe may take to be gone.
const CLEARED_WITHIN: Duration = Duration::from_secs(5);
/// How much more silence is allowed of an agent in a guest, which may be translated.
const PATIENCE: u32 = 3;
/// A probe takes at most this part of a partition's memory: the rest is its program's.
const MEMORY_PART: u64 = 4;
/// What a load without a probe may outlast it by.
const LOAD_GRACE: Duration = Duration::from_secs(60);
/// Where the probe `disk` works in a partition unless said otherwise.
const USUAL_FOLDER: &str = "/tmp";

/// An agent's place: whom it is in, for what folder, and as the how-manieth there.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Seat {
    /// None is the host.
    partition: Option<String>,
    /// Whether it is in a partition of its own, placed as that one.
    is_apart: bool,
    folder: String,
    number: u32,
}

/// Where is measured.
#[derive(Debug, Clone, Copy)]
pub struct At<'a> {
    /// A partition, or the host.
    pub subject: &'a Subject,
    /// Folder of the partition for the files of the probe `disk`.
    pub folder: Option<&'a str>,
    /// Whether the partition's program stands still meanwhile.
    pub paused: bool,
    /// Whether it is in a partition of its own, placed as the subject.
    pub is_apart: bool,
}

/// How strong loads were, each with its place.
pub type Doses = Vec<(String, Dose)>;

/// Agents that are there.
pub struct Agents<'a> {
    set: &'a str,
    context: &'a PlatformContext,
    /// Folder for the files of those on the host.
    scratch: PathBuf,
    cancel: &'a Cancel,
    there: BTreeMap<Seat, Box<dyn Instance>>,
    jobs: u64,
}

impl<'a> Agents<'a> {
    /// None yet.
    pub fn new(set: &'a str, context: &'a PlatformContext, scratch: PathBuf, cancel: &'a Cancel) -> Self {
        Self { set, context, scratch, cancel, there: BTreeMap::new(), jobs: 0 }
    }

    /// Measures once.
    ///
    /// # Errors
    /// It broke, or the user interrupted.
    pub fn measure(
        &mut self,
        at: &At<'_>,
        probe: &ProbeSpec,
        load: &RequiredLoad,
        seed: u64,
    ) -> Result<(Observed, Doses), Broken> {
        let folder = at.folder.unwrap_or(USUAL_FOLDER).to_owned();
        let seat = Seat { partition: partition_of(at.subject), is_apart: at.is_apart, folder, number: 0 };
        let (same, others): (Vec<&DeclaredLoad>, Vec<&DeclaredLoad>) =
            load.declared().iter().partition(|load| seat.has(load));
        let longest = |facts: &MachineFacts| stretched(demand::deadline(probe, facts)).to_duration();
        // What boots does so before anything stands still.
        self.at(&seat)?;
        let paused = at.paused.then(|| self.pause(&seat)).transpose()?;
        let mut begun = self.begin_loads(&seat, &others, &longest, seed)?;
        let specs: Vec<LoadSpec> = same.iter().map(|load| load.spec()).collect();
        let reply = self.probe(&seat, probe, &specs, seed);
        if at.is_apart {
            self.there.remove(&seat);
        }
        let doses = self.end_loads(&mut begun);
        let went_on = paused.map_or(Ok(()), Armed::end);
        let (reply, doses) = (reply?, doses?);
        went_on.map_err(|reason| broken(&reason))?;
        let within = same.iter().map(ToString::to_string).zip(reply.doses);
        let outcome = match reply.report {
            Some(Ok(report)) => Observed::Measured { report: Box::new(report) },
            Some(Err(reason)) => Observed::Failed { reason },
            None => Observed::Failed { reason: "the agent sent no report".into() },
        };
        Ok((outcome, within.chain(doses).collect()))
    }

    /// Does something else beside loads, which takes at most so long.
    ///
    /// # Errors
    /// A load broke, or the user interrupted.
    pub fn beside(
        &mut self,
        subject: &Subject,
        load: &RequiredLoad,
        limit: Duration,
        seed: u64,
        work: impl FnOnce() -> Result<Observed, Broken>,
    ) -> Result<(Observed, Doses), Broken> {
        let folder = USUAL_FOLDER.to_owned();
        let seat = Seat { partition: partition_of(subject), is_apart: false, folder, number: 0 };
        let loads: Vec<&DeclaredLoad> = load.declared().iter().collect();
        let mut begun = self.begin_loads(&seat, &loads, &|_| limit, seed)?;
        let outcome = work();
        let doses = self.end_loads(&mut begun);
        Ok((outcome?, doses?))
    }

    fn pause(&self, seat: &Seat) -> Result<Armed, Broken> {
        let label = format!("{}/{}", self.set, seat.partition.as_deref().unwrap_or_default());
        Armed::pause(&self.context.exe, &label).map_err(|reason| broken(&reason))
    }

    fn probe(
        &mut self,
        seat: &Seat,
        probe: &ProbeSpec,
        same: &[LoadSpec],
        seed: u64,
    ) -> Result<JobReply, Broken> {
        let id = self.next_job();
        let cancel = self.cancel;
        let instance = self.at(seat)?;
        let facts = instance.facts().clone();
        let (wanted, there) = (probe.memory(&facts), facts.memory_bytes.unwrap_or_default());
        if seat.partition.is_some() && !seat.is_apart && wanted.get() > there.get() / MEMORY_PART {
            let reason = Reason::from(format!(
                "the probe fills {wanted} of the partition's {there}, of which its program is to keep three quarters: set a \
                 smaller size in params"
            ));
            return Ok(JobReply { report: Some(Err(reason)), doses: Vec::new() });
        }
        let deadline_ms = stretched(demand::deadline(probe, &facts));
        let job =
            Job { id, probe: Some(probe.clone()), loads: same.to_vec(), seed, deadline_ms, ..Job::default() };
        let done = instance.begin(&job, cancel).and_then(|()| instance.finish(cancel));
        if done.is_err() {
            self.there.remove(seat);
        }
        done
    }

    /// Begins loads, each with an agent of its own.
    fn begin_loads(
        &mut self,
        measured: &Seat,
        loads: &[&DeclaredLoad],
        longest: &dyn Fn(&MachineFacts) -> Duration,
        seed: u64,
    ) -> Result<Vec<(String, Seat)>, Broken> {
        let mut begun = Vec::new();
        for (number, load) in (1..).zip(loads) {
            let partition = place_of(load, measured.partition.as_ref());
            let seat = Seat { partition, is_apart: false, folder: USUAL_FOLDER.to_owned(), number };
            let (id, cancel) = (self.next_job(), self.cancel);
            let started = self.at(&seat).and_then(|instance| {
                let longest = longest(instance.facts()) + LOAD_GRACE;
                let deadline_ms = Millis::from_millis(u64::try_from(longest.as_millis()).unwrap_or(u64::MAX));
                let job = Job { id, loads: vec![load.spec()], seed, deadline_ms, ..Job::default() };
                instance.begin(&job, cancel)
            });
            match started {
                Ok(()) => begun.push((load.to_string(), seat)),
                Err(broken) => {
                    self.there.remove(&seat);
                    // That it could not be begun is what is told.
                    let _ = self.end_loads(&mut begun);
                    return Err(broken);
                }
            }
        }
        Ok(begun)
    }

    /// Ends them; how strong each was.
    fn end_loads(&mut self, begun: &mut Vec<(String, Seat)>) -> Result<Doses, Broken> {
        let (mut doses, mut broke) = (Doses::new(), None);
        for (name, seat) in begun.drain(..) {
            let Some(instance) = self.there.get_mut(&seat) else { continue };
            match instance.finish(self.cancel) {
                Ok(reply) => doses.extend(reply.doses.into_iter().map(|dose| (name.clone(), dose))),
                Err(broken) => {
                    self.there.remove(&seat);
                    broke = Some(broken);
                }
            }
        }
        broke.map_or(Ok(doses), Err)
    }

    const fn next_job(&mut self) -> u64 {
        self.jobs += 1;
        self.jobs
    }

    /// Ends all agents of a partition: it is about to be made to fail.
    pub fn leave(&mut self) {
        self.there.clear();
    }

    fn at(&mut self, seat: &Seat) -> Result<&mut Box<dyn Instance>, Broken> {
        if !self.there.contains_key(seat) {
            let instance = match &seat.partition {
                Some(partition) => self.for_partition(partition, seat)?,
                None => self.on_host(seat)?,
            };
            self.there.insert(seat.clone(), instance);
        }
        self.there.get_mut(seat).ok_or(Broken::Interrupted)
    }

    fn on_host(&self, seat: &Seat) -> Result<Box<dyn Instance>, Broken> {
        let mut native = make::make(&PlatformSpec::of_kind(PlatformKind::Native), self.context);
        let spec =
            InstanceSpec { number: seat.number, scratch: self.scratch.clone(), ..InstanceSpec::default() };
        native.start(&spec, self.cancel)
    }

    /// In the partition, or in one of its own that is placed as it is.
    fn for_partition(&self, partition: &str, seat: &Seat) -> Result<Box<dyn Instance>, Broken> {
        let label = format!("{}/{partition}", self.set);
        let started = Instant::now();
        let mut command = Command::new(&self.context.exe);
        let mut within = START_WITHIN;
        if seat.is_apart {
            let unit = LookedAt::now(&state_root(), self.set).and_then(|looked| looked.running(partition));
            let unit = unit.map_err(|reason| broken(&reason))?;
            within +=
                unit.tools.boot_deadline_s.map_or(START_WITHIN, |limit| Duration::from_secs(limit.into()));
            command.args(probe_partition::arguments(&self.context.exe, &unit, &seat.folder));
        } else {
            command.args(["exec", "--in", &label, "--user", "root", "--workdir", "/", "--"]);
            command.args(["/proc/1/exe", "agent", "--link", "stdio", "--scratch", &seat.folder]);
        }
        let (process, link) =
            Process::start("the agent in the partition", command, None, &self.context.ledger)
                .map_err(|error| broken(&format!("{label}: no agent could be started: {error}").into()))?;
        let carrier = ProcessCarrier::new(process);
        let carrier = if seat.is_apart { carrier.with_grace(CLEARED_WITHIN) } else { carrier };
        let carrier = Box::new(carrier);
        let within = within.mul_f64(host::crowding());
        let instance = AgentInstance::attach(&label, link, carrier, started, within, self.cancel)?;
        Ok(Box::new(instance.with_patience(PATIENCE)))
    }
}

/// It could not be begun.
fn broken(reason: &Reason) -> Broken {
    Broken::Failed(Failure { kind: FailureKind::Start, reason: reason.to_string(), console: Vec::new() })
}

/// On a host that is busy everything takes longer.
fn stretched(deadline: Millis) -> Millis {
    let longer = deadline.to_duration().mul_f64(host::crowding());
    Millis::from_millis(u64::try_from(longer.as_millis()).unwrap_or(u64::MAX))
}

/// What broke, with its last words.
pub fn failed(failure: &Failure) -> Observed {
    let last = failure.console.last().map(|line| format!(" (it said: {line})")).unwrap_or_default();
    Observed::Failed { reason: format!("{}{last}", failure.reason).into() }
}

impl Seat {
    /// Whether a load runs with the probe that has this seat; one that names a partition runs in that, not in one placed as it is.
    fn has(&self, load: &DeclaredLoad) -> bool {
        let same = place_of(load, self.partition.as_ref()) == self.partition;
        if self.is_apart { load.place.is_none() } else { same }
    }
}

/// Where a load runs: in this partition, or on the host if none.
fn place_of(load: &DeclaredLoad, measured: Option<&String>) -> Option<String> {
    match &load.place {
        None => measured.cloned(),
        Some(place) => Some(place.clone()).filter(|place| place != ON_HOST),
    }
}

fn partition_of(subject: &Subject) -> Option<String> {
    match subject {
        Subject::Partition(name) => Some(name.clone()),
        Subject::Pair(_) | Subject::Network(_) | Subject::Host | Subject::Set => None,
    }
}
