//! `bulkhead verify --watch`: repeats what is cheap, and tells once what is different. What is told is evidence, too.

use std::time::{Duration, Instant};

use anyhow::Context;
use serde::Serialize;

use super::{Asked, Workplace, concluded, evidence, now};
use crate::cli::ending::{Ending, OrStop, Verdict as Ends};
use crate::cli::output;
use model::verification::{Basis, RequirementVerdict, TestRound, TestSpec, VerifyLine};
use partition::set::root::state_root;
use platforms::Cancel;
use report::utc::format_utc;
use units::Nanos;
use verify::basis;
use verify::journal::VerifyJournal;
use verify::look::LookedAt;
use verify::watch::{Changed, CpuBudget, MOST_CPU, Standings, Watch, is_cheap};

/// A line of `--json`.
#[derive(Serialize)]
struct ChangedLine<'a> {
    requirement: &'a str,
    verdict: RequirementVerdict,
    since_unix_ns: Nanos,
    was: RequirementVerdict,
    was_until_unix_ns: Option<Nanos>,
    reason: &'a str,
}

/// What is known and told.
struct Record<'a> {
    asked: &'a Asked<'a>,
    journal: VerifyJournal,
    basis: Basis,
}

/// Watches until the user interrupts.
pub(super) fn run(asked: &Asked<'_>, cancel: &Cancel) -> Ends {
    let journal = VerifyJournal::open(asked.out).context("the journal cannot be opened").or_broke()?;
    evidence::sweep(asked.out).context("what a killed verification left cannot be removed").or_broke()?;
    let mut record = Record { asked, journal, basis: asked.today.clone() };
    let was = concluded(asked, asked.today, now()).or_broke()?;
    let (cheap, others): (Vec<TestSpec>, Vec<TestSpec>) = asked.tests().into_iter().partition(is_cheap);
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    output::say(&format!(
        "bulkhead: {} of {} tests of set {} again and again, {} s after each was done, with at most {} % of {cpus} CPUs; \
         what is different is told, and kept in {}",
        cheap.len(),
        cheap.len() + others.len(),
        asked.wanted.set,
        asked.args.every_s,
        MOST_CPU * 100.0,
        asked.out.display()
    ));
    for test in &others {
        output::say(&format!("  not repeated, it adds load or breaks something: {}", test.kind));
    }
    let work = Workplace::new(asked.out, asked.seed).or_lacking()?;
    let mut watch = Watch {
        tester: work.tester(asked, cancel),
        standings: Standings::of(&was.requirements),
        wanted: asked.only.clone(),
        every: Duration::from_secs(asked.args.every_s),
        budget: CpuBudget::new(u32::try_from(cpus).unwrap_or(u32::MAX)),
    };
    let began = Instant::now();
    let watched = watch.run(cheap, |rounds, changed| record.take(rounds, changed));
    let used = watch.budget.share(began.elapsed());
    drop(watch);
    work.leave();
    watched.or_broke()?;
    output::say(&format!(
        "bulkhead: watched for {} s with {:.2} % of the CPUs",
        began.elapsed().as_secs(),
        used * 100.0
    ));
    Ok(Ending::Interrupted)
}

impl Record<'_> {
    /// Keeps what was seen as evidence, and tells what is different.
    fn take(&mut self, rounds: &[TestRound], changed: &[Changed]) -> anyhow::Result<()> {
        let asked = self.asked;
        let began = rounds.first().map_or_else(now, |round| round.started_unix_ns);
        // A set that is gone cannot be looked at: what was known of it is what this rests on.
        if let Ok(looked) = LookedAt::now(&state_root(), &asked.wanted.set) {
            self.basis = basis::of(&looked, &asked.wanted.requirements, asked.folder, asked.out);
        }
        self.journal.append(&asked.header(began, &self.basis))?;
        for round in rounds {
            self.journal.append(&VerifyLine::Round(Box::new(round.clone())))?;
        }
        self.journal.append(&VerifyLine::End)?;
        let mut verification = concluded(asked, &self.basis, began)?;
        verification.took_ns = Nanos::from_nanos(now().get().saturating_sub(began.get()));
        evidence::write(asked.out, asked.wanted, &verification)?;
        for one in changed.iter().filter(|one| is_told(one)) {
            output::data(&if asked.args.json { line(one)? } else { sentence(one) })?;
        }
        Ok(())
    }
}

/// That something holds which nobody had seen before is no news.
fn is_told(changed: &Changed) -> bool {
    let is_seen = matches!(
        changed.was,
        RequirementVerdict::Pass | RequirementVerdict::Fail | RequirementVerdict::Undecided
    );
    is_seen || changed.is != RequirementVerdict::Pass
}

fn line(changed: &Changed) -> serde_json::Result<String> {
    serde_json::to_string(&ChangedLine {
        requirement: &changed.id,
        verdict: changed.is,
        since_unix_ns: changed.since_unix_ns,
        was: changed.was,
        was_until_unix_ns: changed.until_unix_ns,
        reason: &changed.reason,
    })
}

fn sentence(changed: &Changed) -> String {
    let is = match changed.is {
        RequirementVerdict::Pass => "holds again",
        RequirementVerdict::Fail if changed.was == RequirementVerdict::Pass => "does not hold any more",
        RequirementVerdict::Fail => "does not hold",
        _ => "cannot be told",
    };
    let until = changed.until_unix_ns.map(|until| {
        let was = match changed.was {
            RequirementVerdict::Pass => "it held",
            RequirementVerdict::Fail => "it did not",
            _ => "that could not be told",
        };
        format!("; last seen that {was}: {}", format_utc(until))
    });
    let (id, since) = (&changed.id, format_utc(changed.since_unix_ns));
    format!("{since}  {id} {is}: {}{}", changed.reason, until.unwrap_or_default())
}
