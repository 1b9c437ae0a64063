//! Predictions against reality: plans for this host are brought up with real guests, and what their partitions get is measured.
//!
//! `cargo bench --bench plans [-- PLANS] [--seed N] [--run RUN]`: so many plans (30). Facts come from a run of this host, a fresh one of two
//! probes unless one is named; what is judged is measured afterwards.
//!
//! ```text
//!  measure cpu, wakeup ─► facts ─┐
//!  random system ────────────────┴─► plan ─► up ─► all work │ one works alone ─► CPU time of its virtual CPUs, lateness ─► down
//! ```
//! This program is what runs in the guests, too: `guest.rs`. Of each prediction it counts whether what was measured lies between its ends,
//! and of each need that is predicted to hold whether it does. A plan that could not be brought up is counted, not left out.

mod guest;
#[path = "../own_sets/mod.rs"]
mod own_sets;
#[path = "../verdict/mod.rs"]
mod verdict;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use bulkhead::model::partition::set::SetStatus;
use bulkhead::model::plan::{Plan, Predicted};
use own_sets::OwnSets;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use verdict::{Judge, Mark, say};

/// Plans unless said otherwise.
const PLANS: u64 = 30;
/// The mark for the share of measured values that lie between both ends.
const MARK: f64 = 0.9;
/// How long CPU times are looked at, once everybody does what he was told.
const LOOK: Duration = Duration::from_secs(5);
/// Until everybody does who has heard it.
const SETTLE: Duration = Duration::from_secs(1);
/// Generous: what takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(300);

fn main() -> ExitCode {
    if let Some(words) = guest::words() {
        return guest::run(&words);
    }
    verdict::ended("plans", run())
}

/// What was measured of what was predicted.
struct Seen {
    predicted: Predicted,
    while_what: &'static str,
    measured: f64,
}

impl Seen {
    fn is_between(&self) -> bool {
        (self.predicted.low as f64..=self.predicted.high as f64).contains(&self.measured)
    }

    /// Whether the need was predicted to hold, and does; none where nothing was promised.
    fn holds(&self) -> Option<bool> {
        let wanted = self.predicted.wanted? as f64;
        let is_promised = self.predicted.margin_percent()? >= 0.0;
        let is_less_better = self.predicted.unit.is_less_better();
        is_promised.then_some(if is_less_better { self.measured <= wanted } else { self.measured >= wanted })
    }
}

fn run() -> Result<Judge> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let after = |name: &str| words.iter().position(|word| word == name).and_then(|at| words.get(at + 1));
    let count = words.first().and_then(|word| word.parse().ok()).unwrap_or(PLANS);
    let seed: u64 = after("--seed").and_then(|word| word.parse().ok()).unwrap_or_else(rand::random);
    say(&format!("seed {seed}"));
    let bench = Bench { sets: OwnSets::of(env!("CARGO_BIN_EXE_bulkhead"))? };
    fs::create_dir(bench.path("tmp"))?;
    let facts = match after("--run") {
        Some(run) => PathBuf::from(run).canonicalize().with_context(|| format!("no run {run}"))?,
        None => bench.facts()?,
    };
    let (mut all, mut failed) = (Vec::new(), 0);
    for number in 0..count {
        match bench.plan(seed.wrapping_add(number), &facts) {
            Ok(got) => {
                for one in &got {
                    let Predicted { name, need, low, high, .. } = &one.predicted;
                    let measured = one.measured;
                    let is = if one.is_between() { "" } else { "  outside" };
                    say(&format!(
                        "plan {number}: {name} {need} {}: {low} … {high}, measured {measured:.0}{is}",
                        one.while_what
                    ));
                }
                all.extend(got);
            }
            Err(error) => {
                failed += 1;
                say(&format!("plan {number}: failed: {error:#}"));
            }
        }
    }
    Ok(judged(&all, count, failed))
}

fn judged(all: &[Seen], count: u64, failed: u64) -> Judge {
    let mut judge = Judge::default();
    judge.never("plans that could not be brought up and measured", failed, count);
    let share = |judge: &mut Judge, what: &str, is_meant: &dyn Fn(&Seen) -> bool| {
        let meant: Vec<&Seen> = all.iter().filter(|seen| is_meant(seen)).collect();
        let inside = meant.iter().filter(|seen| seen.is_between()).count();
        let [inside, of] = [inside, meant.len()].map(|number| u32::try_from(number).unwrap_or(u32::MAX));
        judge.share(what, inside, of, Mark::AtLeast(MARK));
    };
    share(&mut judge, "measured values between both ends of their predictions", &|_| true);
    let held: Vec<bool> = all.iter().filter_map(Seen::holds).collect();
    let broken = held.iter().filter(|holds| !**holds).count() as u64;
    judge.never("needs that were predicted to hold and did not", broken, held.len() as u64);
    for (need, while_what) in [("cpu", "while all work"), ("cpu", "alone"), ("deadline", "while all work")] {
        let meant = |seen: &Seen| seen.predicted.need == need && seen.while_what == while_what;
        let inside = all.iter().filter(|seen| meant(seen) && seen.is_between()).count();
        say(&format!(
            "of those, {need} {while_what}: {inside} of {}",
            all.iter().filter(|seen| meant(seen)).count()
        ));
    }
    judge
}

/// Folders of the bench, and the program it calls.
struct Bench {
    sets: OwnSets,
}

impl Bench {
    fn path(&self, name: &str) -> PathBuf {
        self.sets.path(name)
    }

    fn call(&self, words: &[&str]) -> Result<String> {
        self.sets.call(words, &[0])
    }

    /// What this host gives, measured now.
    fn facts(&self) -> Result<PathBuf> {
        say("facts: measuring wake-ups and CPUs, natively and on VMs");
        let out = self.path("facts");
        let words =
            ["measure", "native", "vm", "--probe", "cpu", "--probe", "wakeup", "--rounds", "5..8", "--out"];
        self.call(&[&words[..], &[out.to_str().context("a plain path")?]].concat())?;
        Ok(out)
    }

    /// One plan, from a random system to what its partitions got.
    fn plan(&self, seed: u64, facts: &Path) -> Result<Vec<Seen>> {
        let orders = self.path("orders");
        fs::create_dir_all(&orders)?;
        for file in fs::read_dir(&orders)? {
            fs::remove_file(file?.path())?;
        }
        let system = self.path("plant.toml");
        fs::write(&system, system_text(seed, facts, &orders)?)?;
        let out = self.path("planned");
        let _ = fs::remove_dir_all(&out);
        let [system, out] = [&system, &out].map(|path| path.to_str().unwrap_or_default());
        self.call(&["plan", system, "--out", out])?;
        let file = format!("{out}/plan.json");
        let plan: Plan = serde_json::from_slice(&fs::read(&file)?)?;
        // An `up` that fails leaves nothing.
        self.call(&["up", &file])?;
        let got = self.measured(&plan, &orders);
        self.call(&["down", "plant"])?;
        got
    }

    fn measured(&self, plan: &Plan, orders: &Path) -> Result<Vec<Seen>> {
        let set: SetStatus = self.set()?;
        let threads: Threads = set
            .partitions
            .iter()
            .map(|one| {
                let given = one.given.as_ref().with_context(|| format!("{} does not run", one.name))?;
                let threads = given.cpus.iter().map(|cpu| cpu.thread).collect();
                Ok((one.name.clone(), (one.pid.unwrap_or_default(), threads)))
            })
            .collect::<Result<_>>()?;
        let cpus_of =
            |name: &str| set.partitions.iter().find(|one| one.name == name).map_or(1, |one| one.cpus);
        let predicted = |need: &'static str| plan.predictions.iter().filter(move |one| one.need == need);
        let mut seen = Vec::new();
        let workers: Vec<&str> =
            predicted("cpu").filter(|one| one.wanted.is_some()).map(|one| one.name.as_str()).collect();
        order(orders, "all", &workers)?;
        let got = shares(&threads, LOOK)?;
        // Who has a CPU of his own does not ask for all of it here.
        for one in predicted("cpu").filter(|one| one.wanted.is_some()) {
            let measured = got[&one.name] / f64::from(cpus_of(&one.name));
            seen.push(Seen { predicted: one.clone(), while_what: "while all work", measured });
        }
        for one in predicted("deadline") {
            let response_us = guest::response_us(orders, &one.name, PATIENCE)?;
            seen.push(Seen { predicted: one.clone(), while_what: "while all work", measured: response_us });
        }
        if let Some(first) = predicted("cpu").find(|one| one.wanted.is_some()) {
            order(orders, &first.name, &workers)?;
            let measured = shares(&threads, LOOK)?[&first.name] / f64::from(cpus_of(&first.name));
            seen.push(Seen { predicted: first.clone(), while_what: "alone", measured });
        }
        Ok(seen)
    }

    fn set(&self) -> Result<SetStatus> {
        let sets: Vec<SetStatus> = serde_json::from_str(&self.call(&["ps", "--json"])?)?;
        sets.into_iter().find(|set| set.set == "plant").ok_or_else(|| anyhow!("the set is not there"))
    }
}

/// Tells all guests who works now, and waits until those who can work have heard it.
fn order(orders: &Path, who: &str, workers: &[&str]) -> Result<()> {
    let next = orders.join("next");
    fs::write(&next, who)?;
    fs::rename(next, orders.join(guest::NOW))?;
    let began = Instant::now();
    let has_heard =
        |name: &&str| fs::read_to_string(orders.join(guest::heard(name))).is_ok_and(|said| said == who);
    while !workers.iter().all(has_heard) {
        ensure!(began.elapsed() < PATIENCE, "not all guests heard {who:?} within {} s", PATIENCE.as_secs());
        sleep(Duration::from_millis(100));
    }
    sleep(SETTLE);
    Ok(())
}

/// QEMU's process, and the threads of its virtual CPUs, by partition.
type Threads = BTreeMap<String, (u32, Vec<u32>)>;

/// Thousandths of a CPU that the virtual CPUs of each have together.
fn shares(threads: &Threads, look: Duration) -> Result<BTreeMap<String, f64>> {
    let used = || -> Result<BTreeMap<String, f64>> {
        threads.iter().map(|(name, (pid, cpus))| Ok((name.clone(), cpu_ns(*pid, cpus)?))).collect()
    };
    let (began, before) = (Instant::now(), used()?);
    sleep(look);
    let (took, after) = (began.elapsed().as_nanos() as f64, used()?);
    Ok(after.into_iter().map(|(name, ns)| (name.clone(), 1000.0 * (ns - before[&name]) / took)).collect())
}

/// CPU time of these threads so far, ns.
fn cpu_ns(pid: u32, threads: &[u32]) -> Result<f64> {
    let mut sum = 0.0;
    for thread in threads {
        let file = format!("/proc/{pid}/task/{thread}/schedstat");
        let said = fs::read_to_string(&file).with_context(|| file.clone())?;
        sum += said.split_whitespace().next().and_then(|ns| ns.parse::<f64>().ok()).with_context(|| file)?;
    }
    Ok(sum)
}

/// A system for this host: perhaps one with a CPU of its own and a deadline, the others share what is left.
fn system_text(seed: u64, facts: &Path, orders: &Path) -> Result<String> {
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    let cpus = std::thread::available_parallelism()?.get() as u64;
    let exe = std::env::current_exe()?;
    let (exe, orders) = (exe.to_str().context("a plain path")?, orders.to_str().context("a plain path")?);
    let program = |name: &str, more: &str| {
        format!(
            "[partition.{name}]\nprogram = [{exe:?}, {:?}, {orders:?}, {name:?}{more}]\nrw = [{orders:?}]\nmemory_mib = 256\n",
            guest::WORD
        )
    };
    let run = facts.to_str().context("a plain path")?;
    let mut text = format!("[host.here]\nfrom = \"here\"\nreserve_memory_mib = 1024\nrun = {run:?}\n");
    let has_whole = cpus > 1 && random.random_bool(0.5);
    let pool = if has_whole { cpus - 1 } else { cpus };
    if has_whole {
        text += &program("plc", &format!(", \"{}\"", guest::RUNTIME_US));
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "cpus = 1\nneeds = {{ deadline = {{ period_us = {}, runtime_us = {}, within_us = 500000, miss_rate = {} }} }}",
            guest::PERIOD_US,
            guest::RUNTIME_US,
            1.0 / guest::ONE_MISSED_IN as f64
        );
    }
    // What is promised of the pool, in percent of a CPU, is all of it at most.
    let mut left = 100 * pool;
    for number in 0..random.random_range(2..=4u64) {
        let vcpus = random.random_range(1..=pool.min(2));
        let most = (left / vcpus).min(90);
        if most < 10 {
            break;
        }
        let percent = random.random_range(5..=most / 2 + 5).min(most);
        left -= percent * vcpus;
        text += &program(&format!("share{number}"), "");
        let _ = writeln!(text, "cpus = {vcpus}\nneeds = {{ cpu = \"shared\", share_percent = {percent} }}");
    }
    Ok(text)
}
