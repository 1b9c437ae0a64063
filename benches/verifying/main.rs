//! Does a verification find what is missed, and nothing where nothing is?
//!
//! A set with one real guest is verified again and again. Of numbers whose truth is known (a command that prints them: spread by a
//! fifth, one in ten doubled or halved) one holds its limit by 10 %, one misses it by 10 %, one is the limit. Of a system call in the
//! guest limits lie 10 % on either side of what one verification just before has seen: on a shared machine it takes another time an hour
//! later, and then the limits would be wrong, not the verdicts.
//!
//! `cargo bench --bench verifying -- [RUNS] [--seed N] [--busy]`: so many runs (default 20, most of a minute each); `--busy` beside other work.
//! `cargo bench --bench verifying -- watch [WATCHES] [--busy]`: what a watch takes, so many (default 6) of two minutes each.
//!
//! Marks: what is missed by 10 % fails in 9 of 10 runs; of all that is decided at most 1 in 20 differs from what most runs say; what lies
//! on its limit is decided in 1 of 20 at most; a watch takes 1 % of the CPUs at most.

#[path = "../busy/mod.rs"]
mod busy;
#[path = "../own_sets/mod.rs"]
mod own_sets;
#[path = "../verdict/mod.rs"]
mod verdict;
mod watching;

use std::collections::BTreeMap;
use std::f64::consts::TAU;
use std::process::ExitCode;

use anyhow::{Context, Result};
use bulkhead::model::verification::{RequirementResult, RequirementVerdict, Verification};
use busy::Busy;
use own_sets::OwnSets;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use verdict::{Judge, Mark, say};

/// The word by which this program knows that it is the command that is asked.
const WORD: &str = "print-a-number";
/// How far numbers are spread, of their logarithm.
const SPREAD: f64 = 0.2;
/// Share of those that are disturbed.
const DISTURBED: f64 = 0.1;
/// Limit of the numbers.
const LIMIT: f64 = 100.0;
/// By how much limits are kept or missed.
const MARGIN: f64 = 1.1;

const SET: &str = r#"
[partition.a]
program = ["/bin/sleep", "100000"]
"#;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [word, centre, seed, count] = &words[..]
        && word == WORD
    {
        let Ok(number) = number(centre, seed, count) else { return ExitCode::FAILURE };
        say(&number.to_string());
        return ExitCode::SUCCESS;
    }
    verdict::ended("verifying", run(&words))
}

/// The next number of a row that its seed and the file that counts decide. Its median is the centre.
fn number(centre: &str, seed: &str, count: &str) -> Result<f64> {
    let (centre, seed): (f64, u64) = (centre.parse()?, seed.parse()?);
    let at: u64 = std::fs::read_to_string(count).unwrap_or_default().trim().parse().unwrap_or(0);
    std::fs::write(count, (at + 1).to_string())?;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed.wrapping_mul(1_000_003).wrapping_add(at));
    let mut uniform = || random.random_range(f64::MIN_POSITIVE..1.0);
    // Box and Muller (1958).
    let normal = (-2.0 * uniform().ln()).sqrt() * (TAU * uniform()).cos();
    let disturbed = match uniform() {
        share if share < DISTURBED / 2.0 => 2.0,
        share if share < DISTURBED => 0.5,
        _ => 1.0,
    };
    Ok(centre * (SPREAD * normal).exp() * disturbed)
}

/// What came of each requirement, and its value.
type Told = BTreeMap<String, (RequirementVerdict, Option<f64>)>;

/// Verifies these; what came of each.
fn verify(sets: &OwnSets, requirements: &str, seed: u64) -> Result<Told> {
    std::fs::write(sets.path("requirements.toml"), format!("set = \"plant\"\n{requirements}"))?;
    let seed = seed.to_string();
    sets.call(&["verify", "requirements.toml", "--out", "evidence", "--seed", &seed], &[0, 1, 4])?;
    let text = std::fs::read(sets.path("evidence").join("verify.json"))?;
    let told: Verification = serde_json::from_slice(&text)?;
    let of = |one: RequirementResult| (one.id, (one.verdict, one.direct.and_then(|judged| judged.value)));
    Ok(told.requirements.into_iter().map(of).collect())
}

fn run(words: &[String]) -> Result<Judge> {
    let is_there = |wanted: &str| words.iter().any(|word| word == wanted);
    let after = |name: &str| words.iter().skip_while(|word| *word != name).nth(1);
    let seed: u64 = after("--seed").map_or(Ok(2026), |word| word.parse())?;
    let named = words.iter().take_while(|word| !word.starts_with("--"));
    let runs = named.into_iter().find_map(|word| word.parse().ok());
    let sets = OwnSets::of(env!("CARGO_BIN_EXE_bulkhead"))?;
    std::fs::write(sets.path("plant.toml"), SET)?;
    sets.call(&["up", "plant.toml"], &[0])?;
    let busy = is_there("--busy").then(Busy::start);
    let beside = if busy.is_some() { ", beside other work" } else { "" };
    say(&format!("seed {seed}"));
    let outcome = if is_there("watch") {
        watching::shares(&sets, runs.unwrap_or(6), beside)
    } else {
        repeat(&sets, runs.unwrap_or(20), seed, beside)
    };
    drop(busy);
    sets.call(&["down", "plant"], &[0])?;
    outcome
}

fn repeat(sets: &OwnSets, runs: u32, seed: u64, beside: &str) -> Result<Judge> {
    let mut verdicts: BTreeMap<String, Vec<RequirementVerdict>> = BTreeMap::new();
    for run in 1..=u64::from(runs) {
        let seed = seed.wrapping_add(run);
        let pilot = verify(sets, &syscall("pilot", "at_most = \"1 s\""), seed)?;
        let call_ns =
            pilot.get("pilot").and_then(|(_, value)| *value).context("a system call was not measured")?;
        let told = verify(sets, &requirements(sets, call_ns, seed)?, seed)?;
        let words: Vec<String> =
            told.iter().map(|(id, (verdict, _))| format!("{id} {}", verdict.as_str())).collect();
        say(&format!("run {run} of {runs}: a call takes {call_ns:.0} ns; {}", words.join(", ")));
        for (id, (verdict, _)) in told {
            verdicts.entry(id).or_default().push(verdict);
        }
    }
    let mut judge = Judge::default();
    let count = |id: &str, wanted: RequirementVerdict| {
        let all = verdicts.get(id).map_or(&[][..], Vec::as_slice);
        u32::try_from(all.iter().filter(|one| **one == wanted).count()).unwrap_or(u32::MAX)
    };
    for (id, what) in [("number.missed", "a number whose truth is known"), ("call.missed", "a system call")] {
        let failed = count(id, RequirementVerdict::Fail);
        judge.share(
            &format!("{what} that misses its limit by 10 % fails{beside}"),
            failed,
            runs,
            Mark::AtLeast(0.9),
        );
    }
    let decided = |id: &str| count(id, RequirementVerdict::Pass) + count(id, RequirementVerdict::Fail);
    judge.share(
        &format!("what lies on its limit is decided{beside}"),
        decided("number.on"),
        runs,
        Mark::AtMost(0.05),
    );
    let (mut all, mut other) = (0, 0);
    for id in verdicts.keys().filter(|id| *id != "number.on") {
        all += decided(id);
        other += count(id, RequirementVerdict::Pass).min(count(id, RequirementVerdict::Fail));
    }
    judge.share(
        &format!("decided verdicts that differ from what most runs say{beside}"),
        other,
        all,
        Mark::AtMost(0.05),
    );
    Ok(judge)
}

fn syscall(id: &str, limit: &str) -> String {
    format!(
        "[requirement.\"{id}\"]\ntext = \"A system call is quick.\"\npartition = \"a\"\nmetric = \"syscall.call_ns\"\n\
         {limit}\nload = \"as-is\"\n"
    )
}

fn requirements(sets: &OwnSets, call_ns: f64, seed: u64) -> Result<String> {
    let myself = std::env::current_exe()?;
    let mut text = syscall("call.held", &format!("at_most = \"{:.1} ns\"", call_ns * MARGIN));
    text += &syscall("call.missed", &format!("at_most = \"{:.1} ns\"", call_ns / MARGIN));
    for (id, centre, budget_s) in
        [("held", LIMIT / MARGIN, 20), ("missed", LIMIT * MARGIN, 20), ("on", LIMIT, 5)]
    {
        let count = sets.path(&format!("count.{id}.{seed}"));
        let command = [
            &myself.display().to_string(),
            WORD,
            &centre.to_string(),
            &seed.to_string(),
            &count.display().to_string(),
        ]
        .map(|word| format!("{word:?}"));
        let one = format!(
            "[requirement.\"number.{id}\"]\ntext = \"A number is small.\"\nmetric = \"command\"\nat_most = {LIMIT:.1}\n\
             command = [{}]\nload = \"as-is\"\nbudget_s = {budget_s}\n",
            command.join(", ")
        );
        text.push_str(&one);
    }
    Ok(text)
}
