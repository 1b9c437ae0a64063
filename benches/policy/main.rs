//! Is the policy named by which CPUs are shared? Instances with settings that are known share this machine, in random
//! order; what was measured goes to the classifier without the settings, and what it says is scored.
//!
//! ```text
//!  seed ─► order of the settings ─► two real instances ─► measurements ─► a name, or "cannot be said" ─► table, marks
//!                    └───────────────────────── what was set ────────────────────────────────────────────┘
//! ```
//! Nothing is left out or made again: a run that other work on this machine disturbed counts as it came out.
//!
//! `cargo bench --bench policy -- [processes] [machines] [--runs N] [--seed S] [--save FILE] [--from FILE]`: N runs of
//! each setting; measurements can be saved, and scored again. Exit code: 0 when every mark is met by the whole interval,
//! 1 when one is missed by the whole interval, 4 when that is not decided, 3 when nothing could be measured.

#[path = "../../tests/share_fixture/mod.rs"]
mod share_fixture;

mod score;
mod set;
#[path = "../verdict/mod.rs"]
mod verdict;

use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use bulkhead::analysis::shares;
use bulkhead::probes::detail::ShareDetail;
use bulkhead::probes::params::ShareParams;
use bulkhead::units::layout::Layout;
use rand::SeedableRng as _;
use rand::seq::SliceRandom as _;
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};

use score::Run;
use set::{Grant, Kind};
use verdict::{Judge, say};

/// Runs of each setting unless said otherwise.
const RUNS: usize = 8;

/// What a run brought, as it is saved.
#[derive(Serialize, Deserialize)]
struct Record {
    kind: String,
    set: String,
    /// What others left of the CPUs just before, as a share; none where nobody looked.
    left: Option<f64>,
    cpus: u32,
    rounds: Vec<ShareDetail>,
}

#[derive(Default)]
struct Wanted {
    kinds: Vec<Kind>,
    runs: Option<usize>,
    seed: Option<u64>,
    save: Option<String>,
    from: Option<String>,
}

fn wanted() -> Result<Wanted> {
    let mut wanted = Wanted::default();
    let mut rest = std::env::args().skip(1);
    while let Some(word) = rest.next() {
        let mut value = || rest.next().with_context(|| format!("{word} wants a value"));
        match word.as_str() {
            "--runs" => wanted.runs = Some(value()?.parse().context("--runs wants a number")?),
            "--seed" => wanted.seed = Some(value()?.parse().context("--seed wants a number")?),
            "--save" => wanted.save = Some(value()?),
            "--from" => wanted.from = Some(value()?),
            // `cargo bench` adds it.
            "--bench" => {}
            word => {
                let kind = Kind::ALL.into_iter().find(|kind| kind.word() == word);
                wanted.kinds.push(kind.with_context(|| format!("{word}: processes or machines?"))?);
            }
        }
    }
    if wanted.kinds.is_empty() {
        wanted.kinds.extend(Kind::ALL);
    }
    Ok(wanted)
}

fn main() -> ExitCode {
    verdict::ended("policy", wanted().and_then(|wanted| run(&wanted)))
}

fn run(wanted: &Wanted) -> Result<Judge> {
    let runs = match &wanted.from {
        Some(file) => saved(file, &wanted.kinds)?,
        None => measured(wanted)?,
    };
    let mut judge = Judge::default();
    for kind in &wanted.kinds {
        let of_kind: Vec<&Run> = runs.iter().filter(|run| run.kind == *kind).collect();
        if of_kind.is_empty() {
            bail!("{}: no run was measured", kind.word());
        }
        say("");
        score::score(*kind, &of_kind, &mut judge);
    }
    say("promised before, with rounds that others disturbed thrown away: 20 of 20 right, for each setting");
    Ok(judge)
}

/// Looks at measurements as a run of `bulkhead measure` would; what was set is only kept beside it.
fn looked_at(record: &Record) -> Result<Run> {
    let kind = Kind::ALL.into_iter().find(|kind| kind.word() == record.kind);
    let grant = Grant::ALL.into_iter().find(|grant| grant.label() == record.set);
    let rounds: Vec<_> = record.rounds.iter().map(|round| (Layout::PAIR, round)).collect();
    Ok(Run {
        kind: kind.with_context(|| format!("{}: no kind of instances", record.kind))?,
        grant: grant.with_context(|| format!("{}: no setting", record.set))?,
        left: record.left,
        said: shares::verdict("the platform", &rounds, record.cpus),
    })
}

fn saved(file: &str, kinds: &[Kind]) -> Result<Vec<Run>> {
    let text = std::fs::read_to_string(file).with_context(|| format!("{file} cannot be read"))?;
    let mut runs = Vec::new();
    for line in text.lines() {
        let run = looked_at(&serde_json::from_str(line)?)?;
        if kinds.contains(&run.kind) {
            tell(&run);
            runs.push(run);
        }
    }
    Ok(runs)
}

fn measured(wanted: &Wanted) -> Result<Vec<Run>> {
    let clock = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let (seed, each) = (wanted.seed.unwrap_or(clock), wanted.runs.unwrap_or(RUNS));
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut order: Vec<(Kind, Grant)> = Vec::new();
    for kind in &wanted.kinds {
        if let Some(reason) = share_fixture::unavailable(&Grant::Plain.spec(*kind))? {
            bail!("{}: {reason}", kind.word());
        }
        order.extend(Grant::ALL.iter().cycle().take(each * Grant::ALL.len()).map(|grant| (*kind, *grant)));
    }
    order.shuffle(&mut random);
    say(&format!(
        "seed {seed}: {} runs, {each} of each setting, on {} CPUs",
        order.len(),
        share_fixture::cpus()
    ));
    let mut runs = Vec::new();
    for (number, (kind, grant)) in order.iter().enumerate() {
        let left = Some(left_by_others()?);
        let rounds = share_fixture::rounds(&grant.spec(*kind), kind.rounds(), &ShareParams::default())
            .with_context(|| format!("run {}: {} {}", number + 1, kind.word(), grant.label()))?;
        let cpus = share_fixture::cpus();
        let record = Record { kind: kind.word().to_owned(), set: grant.label(), left, cpus, rounds };
        if let Some(file) = &wanted.save {
            let mut file = std::fs::OpenOptions::new().create(true).append(true).open(file)?;
            writeln!(file, "{}", serde_json::to_string(&record)?)?;
        }
        let run = looked_at(&record)?;
        tell(&run);
        runs.push(run);
    }
    Ok(runs)
}

fn tell(run: &Run) {
    let left = run.left.map_or_else(String::new, |left| format!(" ({:.0} % left)", left * 100.0));
    say(&format!("{} {}{left}: {}", run.kind.word(), run.grant.label(), run.said.sentence));
}

/// What others leave of this machine: the CPU time that a spinning thread per CPU gets, as a share of all. Said beside
/// the score, and nothing else is done with it.
fn left_by_others() -> Result<f64> {
    let spin = || -> Result<f64> {
        let began = Instant::now();
        let clock = nix::time::ClockId::CLOCK_THREAD_CPUTIME_ID;
        let cpu = || nix::time::clock_gettime(clock).map(Duration::from);
        let before = cpu()?;
        while began.elapsed() < Duration::from_millis(200) {
            std::hint::spin_loop();
        }
        Ok(cpu()?.saturating_sub(before).as_secs_f64() / began.elapsed().as_secs_f64())
    };
    let shares: Vec<Result<f64>> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..share_fixture::cpus()).map(|_| scope.spawn(spin)).collect();
        threads.into_iter().filter_map(|thread| thread.join().ok()).collect()
    });
    let shares = shares.into_iter().collect::<Result<Vec<f64>>>()?;
    Ok(shares.iter().sum::<f64>() / shares.len().max(1) as f64)
}
