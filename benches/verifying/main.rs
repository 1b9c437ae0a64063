//! Does a verification find what is missed, and nothing where nothing is?
//!
//! A set with one real guest is verified again and again. Of numbers whose truth is known (a command that prints them: spread by a
//! fifth, one in ten doubled or halved) one holds its limit by 10 %, one misses it by 10 %, one is the limit. Of a system call in the
//! guest, and of a server there that waits 80 ms before each answer, limits lie 10 % on either side of what one verification just before
//! has seen: on a shared machine they take another time an hour later, and then the limits would be wrong, not the verdicts. A system
//! call takes half or twice as long a minute later as well where somebody has or leaves the other thread of its core: its truth is known
//! where another verification just after sees the same, within a twentieth, and how many of those there are is said.
//!
//! `cargo bench --bench verifying -- [RUNS] [--seed N] [--busy]`: so many runs (default 20, one to two minutes each); `--busy` beside other work.
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
use std::net::{Ipv4Addr, TcpListener};
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
/// How far a system call may be from what it was for its truth to be known.
const SAME: f64 = 1.05;

/// Answers each line 80 ms after it came.
const SERVER: &str = "
import asyncio
async def serve(reader, writer):
    while line := await reader.readline():
        asyncio.get_running_loop().call_later(.08, writer.write, line)
async def main():
    async with await asyncio.start_server(serve, '', 7000) as server:
        await server.serve_forever()
asyncio.run(main())
";

const SET: &str = r#"
[partition.a]
program = ["/usr/bin/python3", "SERVER"]
ro = ["SERVER"]
ports = ["PORT:7000"]
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

/// Writes the set's file and the server's; the port of the host.
fn write_set(sets: &OwnSets) -> Result<u16> {
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
    let server = sets.path("server.py");
    std::fs::write(&server, SERVER)?;
    let text = SET.replace("SERVER", &server.display().to_string()).replace("PORT", &port.to_string());
    std::fs::write(sets.path("plant.toml"), text)?;
    Ok(port)
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
    let port = write_set(&sets)?;
    sets.call(&["up", "plant.toml"], &[0])?;
    let busy = is_there("--busy").then(Busy::start);
    let beside = if busy.is_some() { ", beside other work" } else { "" };
    say(&format!("seed {seed}"));
    let outcome = if is_there("watch") {
        watching::shares(&sets, runs.unwrap_or(6), beside)
    } else {
        repeat(&sets, port, runs.unwrap_or(20), seed, beside)
    };
    drop(busy);
    sets.call(&["down", "plant"], &[0])?;
    outcome
}

/// What takes how long in the guest, ns, as one verification saw it.
struct Pilot {
    call_ns: f64,
    answer_ns: f64,
}

impl Pilot {
    fn of(sets: &OwnSets, port: u16, seed: u64) -> Result<Self> {
        let limit = "at_most = \"1 s\"";
        let told = verify(sets, &(syscall("call", limit) + &answer("answer", port, limit)), seed)?;
        let value = |id: &str| {
            let value = told.get(id).and_then(|(_, value)| *value);
            value.with_context(|| format!("no {id} was measured"))
        };
        Ok(Self { call_ns: value("call")?, answer_ns: value("answer")? })
    }
}

/// Verdicts of one requirement: of all runs, and of those in which its truth was known.
#[derive(Default)]
struct Seen {
    verdicts: Vec<RequirementVerdict>,
    where_known: Vec<RequirementVerdict>,
}

fn count(of: &[RequirementVerdict], wanted: RequirementVerdict) -> u32 {
    u32::try_from(of.iter().filter(|one| **one == wanted).count()).unwrap_or(u32::MAX)
}

fn decided(of: &[RequirementVerdict]) -> u32 {
    count(of, RequirementVerdict::Pass) + count(of, RequirementVerdict::Fail)
}

fn repeat(sets: &OwnSets, port: u16, runs: u32, seed: u64, beside: &str) -> Result<Judge> {
    let mut all: BTreeMap<String, Seen> = BTreeMap::new();
    let mut before = Pilot::of(sets, port, seed)?;
    for run in 1..=u64::from(runs) {
        let seed = seed.wrapping_add(run);
        let told = verify(sets, &requirements(sets, &before, port, seed)?, seed)?;
        let after = Pilot::of(sets, port, seed)?;
        let change = (after.call_ns / before.call_ns).max(before.call_ns / after.call_ns);
        let words: Vec<String> =
            told.iter().map(|(id, (verdict, _))| format!("{id} {}", verdict.as_str())).collect();
        say(&format!(
            "run {run} of {runs}: a call took {:.0} ns, then {:.0}, an answer {:.1} ms; {}",
            before.call_ns,
            after.call_ns,
            before.answer_ns / 1e6,
            words.join(", ")
        ));
        for (id, (verdict, _)) in told {
            let is_known = !id.starts_with("call.") || change <= SAME;
            let own = all.entry(id).or_default();
            own.verdicts.push(verdict);
            own.where_known.extend(is_known.then_some(verdict));
        }
        before = after;
    }
    Ok(judged(&all, runs, beside))
}

fn judged(all: &BTreeMap<String, Seen>, runs: u32, beside: &str) -> Judge {
    let mut judge = Judge::default();
    let of = |id: &str| all.get(id).map_or(&[][..], |own| &own.verdicts);
    let known = |id: &str| all.get(id).map_or(&[][..], |own| &own.where_known);
    for (id, what) in [
        ("number.missed", "a number whose truth is known"),
        ("answer.missed", "an answer of a server in a guest that waits 80 ms"),
        ("call.missed", "a system call in a guest"),
    ] {
        let what = format!("{what} that misses its limit by 10 % fails{beside}");
        judge.share(&what, count(of(id), RequirementVerdict::Fail), runs, Mark::AtLeast(0.9));
    }
    let same = known("call.missed");
    let what = format!(
        "the same system call in those of {runs} runs before and after which it took the same, within a twentieth{beside}"
    );
    let of_same = u32::try_from(same.len()).unwrap_or(u32::MAX);
    judge.share(&what, count(same, RequirementVerdict::Fail), of_same, Mark::AtLeast(0.9));
    let what = format!("what lies on its limit is decided{beside}");
    judge.share(&what, decided(of("number.on")), runs, Mark::AtMost(0.05));
    let ids = || all.keys().filter(|id| *id != "number.on");
    let fewer = |of: &[RequirementVerdict]| {
        count(of, RequirementVerdict::Pass).min(count(of, RequirementVerdict::Fail))
    };
    let what = format!("decided verdicts that differ from what most runs say{beside}");
    let sum = |one: &dyn Fn(&str) -> u32| ids().map(|id| one(id)).sum();
    judge.share(&what, sum(&|id| fewer(of(id))), sum(&|id| decided(of(id))), Mark::AtMost(0.05));
    let what = format!("the same of those whose truth was known{beside}");
    judge.share(&what, sum(&|id| fewer(known(id))), sum(&|id| decided(known(id))), Mark::AtMost(0.05));
    judge
}

fn syscall(id: &str, limit: &str) -> String {
    format!(
        "[requirement.\"{id}\"]\ntext = \"A system call is quick.\"\npartition = \"a\"\nmetric = \"syscall.call_ns\"\n\
         {limit}\nload = \"as-is\"\n"
    )
}

fn answer(id: &str, port: u16, limit: &str) -> String {
    format!(
        "[requirement.\"{id}\"]\ntext = \"An answer is quick.\"\nmetric = \"response.p50_ns\"\n{limit}\nload = \"as-is\"\n\
         client = {{ kind = \"echo\", at = \"127.0.0.1:{port}\", period_ms = 50, answer_within_ms = 2000 }}\n"
    )
}

fn requirements(sets: &OwnSets, took: &Pilot, port: u16, seed: u64) -> Result<String> {
    let myself = std::env::current_exe()?;
    let limit = |ns: f64| format!("at_most = \"{ns:.1} ns\"");
    let mut text = syscall("call.held", &limit(took.call_ns * MARGIN));
    text += &syscall("call.missed", &limit(took.call_ns / MARGIN));
    text += &answer("answer.held", port, &limit(took.answer_ns * MARGIN));
    text += &answer("answer.missed", port, &limit(took.answer_ns / MARGIN));
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
