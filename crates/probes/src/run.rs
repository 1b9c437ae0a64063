//! Runs one job: loads up, probe, loads at rest, reply.
//!
//! ```text
//!  loads start ─► all have worked once ─► host's clock ─► running() ─► (start) ─► probe … done ─► host's clock ─┐
//!       │                                       │                                                              ▼
//!       │                                       └─► no probe: running(), until stop or deadline ─► loads rest ─► JobReply
//!       └─ one cannot ─► reply with the reason, running() is never called
//! ```

use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use crate::accounts::Watch;
use crate::bounds::Bounds;
use crate::context::Context;
use crate::error::WorkError;
use crate::job::{Dose, Job, JobReply, ProbeReport};
use crate::loads::resting::Resting;
use crate::loads::team::Team;
use crate::measure;
use crate::outside::Outside;
use crate::params::ProbeSpec;
use units::Reason;
use units::stage::Stage;

pub use crate::context::Surroundings;

/// How often a job without a probe looks whether it is to end.
const LOOK: Duration = Duration::from_millis(5);

/// Runs the job and returns when it is over. [`Stage::running`] is called once the loads work and the probe begins. Setting
/// `stop` ends a job without a probe normally and a job with one with the reason `stopped`.
///
/// A load that cannot begin or breaks off makes the job's report an error, also in a job without a probe, whose
/// report is none otherwise.
pub fn run_job(job: &Job, surroundings: &Surroundings, stop: &AtomicBool, stage: &mut dyn Stage) -> JobReply {
    run_job_after(&Resting::default(), job, surroundings, stop, stage)
}

/// The same with what rests since earlier jobs: loads go on instead of being started, and arrays are measured with again.
pub fn run_job_after(
    resting: &Resting,
    job: &Job,
    surroundings: &Surroundings,
    stop: &AtomicBool,
    stage: &mut dyn Stage,
) -> JobReply {
    let bounds = Bounds::starting_now(stop, job.deadline_ms);
    let mut teams = match start_loads(resting, job, surroundings, bounds) {
        Ok(teams) => teams,
        // Asked to end before all of it had begun: nothing is wrong with that where nothing is measured.
        Err(WorkError::Stopped) if job.probe.is_none() => {
            return JobReply { report: None, doses: Vec::new() };
        }
        Err(error) => return JobReply { report: Some(Err(error.to_string().into())), doses: Vec::new() },
    };
    let outcome = if let Some(spec) = &job.probe {
        let context = Context {
            surroundings,
            bounds,
            seed: job.seed,
            part: job.part.as_ref(),
            fresh: job.fresh,
            armed: &resting.arrays,
        };
        Some(probe(spec, job, &context, stage))
    } else {
        stage.running();
        wait(&teams, bounds).err().map(Err)
    };
    let failure = teams.iter().find_map(Team::failure);
    let doses: Vec<Dose> = teams.iter_mut().map(Team::rest).collect();
    for (spec, team) in job.loads.iter().zip(teams) {
        resting.keep(spec, team);
    }
    JobReply { report: report(outcome, failure), doses }
}

/// The probe between two looks at the host's clock, and at the moment the host says when several begin together.
fn probe(
    spec: &ProbeSpec,
    job: &Job,
    context: &Context<'_>,
    stage: &mut dyn Stage,
) -> Result<ProbeReport, WorkError> {
    let mut outside = Outside::prepare(job.clock, stage);
    // Counting begins before the common start, so that it delays nobody.
    let books = Watch::begin(job.trace);
    stage.running();
    if job.part.is_some() {
        outside.await_start(stage, context.bounds)?;
    }
    outside.begin();
    let outcome = measure(spec, context);
    outside.ended();
    let mut report = books.end(outcome)?;
    if let Some(why) = report.detail.saw_nothing() {
        return Err(WorkError::Unfit(why));
    }
    outside.end(stage, &mut report);
    Ok(report)
}

fn start_loads(
    resting: &Resting,
    job: &Job,
    surroundings: &Surroundings,
    bounds: Bounds<'_>,
) -> Result<Vec<Team>, WorkError> {
    let begin = |spec| match resting.take(spec) {
        Some(mut team) => {
            team.go_on();
            Ok(team)
        }
        None => Team::start(spec, surroundings.scratch.as_deref(), job.line.as_ref()),
    };
    let mut teams = job.loads.iter().map(begin).collect::<Result<Vec<Team>, WorkError>>()?;
    for team in &mut teams {
        team.wait_until_working(bounds)?;
    }
    Ok(teams)
}

/// Waits for the stop of a job without a probe; leaves early when a load breaks off.
fn wait(teams: &[Team], bounds: Bounds<'_>) -> Result<(), WorkError> {
    while teams.iter().all(|team| team.failure().is_none()) {
        match bounds.check() {
            Ok(()) => thread::sleep(LOOK),
            // One look only: the order may come at any time, and it is the usual end.
            Err(WorkError::Stopped) => return Ok(()),
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// A measurement beside a load that broke off was not made under that load: its report does not count.
fn report(
    outcome: Option<Result<ProbeReport, WorkError>>,
    failure: Option<String>,
) -> Option<Result<ProbeReport, Reason>> {
    match (outcome, failure) {
        (Some(Ok(_)) | None, Some(failure)) => Some(Err(failure.into())),
        (outcome, _) => outcome.map(|outcome| outcome.map_err(|error| error.to_string().into())),
    }
}
