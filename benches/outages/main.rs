//! Outages that are made in a set of real guests: is what `verify` says of them so, and does nothing stay broken, not by `kill -9` either?
//!
//! ```text
//!  client of verify  ┬─► port of the host ─► web ─► UDP over a doubled network ─► db
//!  prober of its own ┘ └ wire: what verify's client asked and was told, as the kernel saw it
//! ```
//! Both ask every 8 ms, by code of their own. What verify wrote of a failure is held against what was on the wire between its client and
//! the port, and against what the prober saw: the first answer after which none is missing. Two clients are not told the same at the
//! same time: a server that has just started serves one after the other. A line that finds no way is lost, so nobody has to catch up with
//! what was asked meanwhile.
//!
//! `cargo bench --bench outages -- [OF EACH [KIND …]]`: so many of each kind of failure (default 20: three quarters of an hour).
//! `cargo bench --bench outages -- kill [MOMENTS] [--seed N]`: `kill -9` of verify at so many moments (default 100), of all kinds.
//!
//! Marks: farther than 10 ms from the wire's, and from the prober's: none; what does not run as before: none.

#[path = "../own_sets/mod.rs"]
mod own_sets;
mod prober;
#[path = "../verdict/mod.rs"]
mod verdict;
mod wire;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use bulkhead::model::partition::set::{Phase, SetStatus};
use bulkhead::model::verification::{Observed, Outage, TestRound, Verification, VerifyLine};
use bulkhead::units::Nanos;
use own_sets::OwnSets;
use prober::{Asked, Prober};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use verdict::{Judge, say};
use wire::Wire;

/// Who says what an outage was, and what verify says less that, ms, or why that is not known.
type Held = (&'static str, Result<f64, String>);

/// Failures that are made, in this order: a partition that has just started talks over link 0, and where that is gone, over the other one
/// until it is gone in turn.
const KINDS: [&str; 10] = [
    "host",
    "qemu.db",
    "program.web",
    "disk.db",
    "clock.clock",
    "partition.db",
    "cable.near.0@db",
    "program.db",
    "switch.near.0",
    "link.near.1",
];
/// When an answer is late.
const WITHIN: Duration = Duration::from_millis(200);
/// How far an outage may be from what it was.
const FAR: Duration = Duration::from_millis(10);
/// Made in one run of verify.
const IN_A_RUN: u64 = 3;
/// A hang must not hang the bench.
const PATIENCE: Duration = Duration::from_secs(180);
/// Answers in a row after which the service is there.
const STEADY: usize = 20;

/// Sends each line on and its answer back; waits for nothing.
const WEB: &str = "
import select, socket
db = (socket.gethostbyname('db'), 9001)
beyond = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
beyond.setblocking(False)
door = socket.create_server(('', 9000), backlog=128)
poll = select.epoll()
poll.register(beyond, select.EPOLLIN)
poll.register(door, select.EPOLLIN)
visitors = {}
rest = {}
def leave(number):
    rest.pop(number, None)
    visitors.pop(number).close()
while True:
    for number, _ in poll.poll():
        if number == door.fileno():
            visitor, _ = door.accept()
            visitor.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            visitors[visitor.fileno()] = visitor
            poll.register(visitor, select.EPOLLIN)
        elif number == beyond.fileno():
            try:
                text = beyond.recv(200)
                to, text = text.split(b' ', 1)
                if int(to) in visitors:
                    visitors[int(to)].sendall(text)
            except OSError:
                pass
        else:
            try:
                text = visitors[number].recv(4000)
            except OSError:
                text = b''
            if not text:
                leave(number)
                continue
            *lines, rest[number] = (rest.get(number, b'') + text).split(b'\\n')
            for line in lines:
                try:
                    beyond.sendto(b'%d %s\\n' % (number, line), db)
                except OSError:
                    pass
";

const DB: &str = "
import socket
door = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
door.bind(('', 9001))
while True:
    text, sender = door.recvfrom(100)
    try:
        door.sendto(text, sender)
    except OSError:
        pass
";

const SET: &str = r#"
[network.near]
links = 2

[partition.db]
program = ["/usr/bin/python3", "FOLDER/db.py"]
ro = ["FOLDER/db.py"]
rw = ["FOLDER/data"]
networks = ["near"]
restart = "on-failure"

[partition.web]
program = ["/usr/bin/python3", "FOLDER/web.py"]
ro = ["FOLDER/web.py"]
networks = ["near"]
ports = ["PORT:9000"]
restart = "on-failure"

[partition.clock]
program = ["FOLDER/chronyd", "100000"]
ro = ["FOLDER/chronyd"]
"#;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    verdict::ended("outages", run(&words))
}

fn run(words: &[String]) -> Result<Judge> {
    let number = |word: Option<&String>, usual: u64| word.map_or(Ok(usual), |word| word.parse());
    let is_kill = words.first().is_some_and(|word| word == "kill");
    let mut rest = words.iter().skip(usize::from(is_kill)).take_while(|word| *word != "--seed");
    let count = number(rest.next(), if is_kill { 100 } else { 20 })?;
    let seed = number(words.iter().skip_while(|word| *word != "--seed").nth(1), 2026)?;
    let kinds: Vec<&str> = rest.map(String::as_str).collect();
    ensure!(kinds.iter().all(|kind| KINDS.contains(kind)), "{kinds:?}: wanted some of {KINDS:?}");
    let bench = Bench::start()?;
    let outcome = if is_kill {
        bench.kills(count, seed)
    } else {
        bench.outages(count, if kinds.is_empty() { &KINDS } else { &kinds })
    };
    bench.sets.call(&["down", "plant"], &[0])?;
    outcome
}

struct Bench {
    sets: OwnSets,
    at: SocketAddrV4,
}

impl Bench {
    fn start() -> Result<Self> {
        let sets = OwnSets::of(env!("CARGO_BIN_EXE_bulkhead"))?;
        let folder = sets.path("");
        let folder = folder.to_str().context("a folder's name")?.trim_end_matches('/');
        std::fs::write(sets.path("web.py"), WEB)?;
        std::fs::write(sets.path("db.py"), DB)?;
        std::fs::create_dir(sets.path("data"))?;
        std::fs::copy("/bin/sleep", sets.path("chronyd"))?;
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let set = SET.replace("FOLDER", folder).replace("PORT", &port.to_string());
        std::fs::write(sets.path("plant.toml"), set)?;
        let bench = Self { sets, at: SocketAddrV4::new(Ipv4Addr::LOCALHOST, port) };
        bench.sets.call(&["up", "plant.toml"], &[0])?;
        Ok(bench)
    }

    fn requirements(&self, kinds: &[&str]) -> String {
        let one = |(number, kind): (usize, &&str)| {
            format!(
                "[requirement.R{number}]\ntext = \"{kind}\"\nmetric = \"outage.duration_ns\"\nat_most = \"1 min\"\n\
                 failure = \"{kind}\"\nclient = {{ kind = \"echo\", at = \"{}\", period_ms = 8, answer_within_ms = {} }}\n",
                self.at,
                WITHIN.as_millis()
            )
        };
        let all: String = kinds.iter().enumerate().map(one).collect();
        format!("set = \"plant\"\n{all}")
    }

    fn words(kind: &str) -> Result<[String; 7]> {
        let number = KINDS.iter().position(|known| *known == kind).context("a kind")?;
        let id = format!("R{number}");
        Ok(["verify", "requirements.toml", "--out", "evidence", "--failures", "--only", &id]
            .map(str::to_owned))
    }

    /// Kinds take turns, so that what has failed has run well for a while before it fails again.
    fn outages(&self, of_each: u64, kinds: &[&str]) -> Result<Judge> {
        std::fs::write(self.sets.path("requirements.toml"), self.requirements(kinds))?;
        let mut seen: BTreeMap<(&str, String), (Vec<f64>, usize)> = BTreeMap::new();
        for _ in 0..of_each.div_ceil(IN_A_RUN) {
            for (kind, held) in self.each_three_times()? {
                for (witness, outcome) in held {
                    let (differences, failed) = seen.entry((witness, kind.clone())).or_default();
                    match outcome {
                        Ok(difference) => differences.push(difference),
                        Err(why) => {
                            say(&format!("{kind}, {witness}: {why}"));
                            *failed += 1;
                        }
                    }
                }
            }
        }
        let mut judge = Judge::default();
        let mut of_all: BTreeMap<&str, (u64, usize, usize)> = BTreeMap::new();
        for ((witness, kind), (differences, failed)) in &seen {
            let far = differences.iter().filter(|ms| ms.abs() > FAR.as_secs_f64() * 1e3).count() as u64;
            let what = format!("outages of {kind} that verify says more than 10 ms other than the {witness}");
            judge.never_without(&what, far, differences.len() as u64, *failed);
            verdict::show(&format!("{kind}: verify's less the {witness}'s, ms"), differences);
            let all = of_all.entry(witness).or_default();
            *all = (all.0 + far, all.1 + differences.len(), all.2 + failed);
        }
        for (witness, (far, all, failed)) in of_all {
            let what = format!("all outages that verify says more than 10 ms other than the {witness}");
            judge.never_without(&what, far, all as u64, failed);
        }
        Ok(judge)
    }

    /// Of each kind, what was held against verify's outages.
    fn each_three_times(&self) -> Result<Vec<(String, [Held; 2])>> {
        let wire = Wire::listen(Ipv4Addr::LOCALHOST, self.at)?;
        let prober = Prober::start(self.at.into());
        let begun = Nanos::from_duration(prober::now());
        self.sets.call(&["verify", "requirements.toml", "--out", "evidence", "--failures"], &[0, 1, 4])?;
        let witnesses = [("wire", wire.asked()), ("prober", prober.asked())];
        let text = std::fs::read(self.sets.path("evidence").join("verify.json"))?;
        let told: Verification = serde_json::from_slice(&text)?;
        let kinds: BTreeMap<String, String> =
            told.requirements.into_iter().filter_map(|one| Some((one.test?, one.requirement.text))).collect();
        let held = |round: TestRound| {
            let kind = kinds.get(&round.test).cloned().unwrap_or_default();
            let held = witnesses.each_ref().map(|(witness, asked)| {
                let outcome = match &round.seen {
                    Observed::Outage(outage) => difference(&kind, witness, outage, asked),
                    Observed::Failed { reason } => Err(reason.to_string()),
                    _ => Err("no outage".to_owned()),
                };
                (*witness, outcome)
            });
            (kind, held)
        };
        Ok(self.rounds(begun)?.into_iter().map(held).collect())
    }

    /// What the journal says of failures since then.
    fn rounds(&self, since: Nanos) -> Result<Vec<TestRound>> {
        let journal = std::fs::read_to_string(self.sets.path("evidence").join("journal.jsonl"))?;
        let lines: Vec<VerifyLine> =
            journal.lines().map(serde_json::from_str).collect::<Result<_, _>>().context("the journal")?;
        let rounds = lines.into_iter().filter_map(|line| match line {
            VerifyLine::Round(round) if round.started_unix_ns >= since => Some(*round),
            _ => None,
        });
        Ok(rounds.collect())
    }

    fn kills(&self, moments: u64, seed: u64) -> Result<Judge> {
        say(&format!("seed {seed}"));
        std::fs::write(self.sets.path("requirements.toml"), self.requirements(&KINDS))?;
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let (mut broken, mut cut) = (0, 0);
        for moment in 1..=moments {
            let kind = KINDS[random.random_range(0..KINDS.len())];
            let words = Self::words(kind)?;
            let words = words.each_ref().map(String::as_str);
            let mut verify = self.sets.command(&words).spawn()?;
            let after = Duration::from_millis(random.random_range(0..12_000));
            let until = Instant::now() + after;
            while verify.try_wait()?.is_none() && Instant::now() < until {
                std::thread::sleep(Duration::from_millis(1));
            }
            cut += u64::from(verify.try_wait()?.is_none());
            let _ = verify.kill();
            verify.wait()?;
            let outcome = self.is_as_before();
            let told = outcome
                .as_ref()
                .map_or_else(ToString::to_string, |took| format!("as before {took:.1?} later"));
            say(&format!("{moment} of {moments}: {kind}, killed after {after:.1?}: {told}"));
            broken += u64::from(outcome.is_err());
            if outcome.is_err() {
                self.sets.call(&["down", "plant"], &[0])?;
                self.sets.call(&["up", "plant.toml"], &[0])?;
            }
        }
        say(&format!("{cut} of {moments} had not ended by themselves"));
        let mut judge = Judge::default();
        judge.never(
            "moments of kill -9 of verify after which the system does not run as before",
            broken,
            moments,
        );
        Ok(judge)
    }

    /// Until all parts run, the service answers, and nothing of verify is there any more.
    fn is_as_before(&self) -> Result<Duration> {
        let begun = Instant::now();
        let mut why = self.what_is_other()?;
        while let Some(other) = &why {
            if begun.elapsed() > PATIENCE {
                bail!("after {PATIENCE:?} {other}");
            }
            std::thread::sleep(Duration::from_millis(200));
            why = self.what_is_other()?;
        }
        Ok(begun.elapsed())
    }

    fn what_is_other(&self) -> Result<Option<String>> {
        let told = self.sets.call(&["ps", "plant", "--json"], &[0])?;
        let sets: Vec<SetStatus> = serde_json::from_str(&told)?;
        let set = sets.into_iter().next().context("the set is gone")?;
        if let Some(one) = set.partitions.iter().find(|one| one.phase != Phase::Running) {
            return Ok(Some(format!("{} is {}", one.name, one.phase.word())));
        }
        for switch in &set.switches {
            let stat = switch
                .pid
                .map(|pid| std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default());
            let state = stat.as_deref().and_then(|stat| stat.rsplit_once(") ")?.1.chars().next());
            if !matches!(state, Some('S' | 'R')) {
                return Ok(Some(format!("{} is in state {state:?}", switch.name)));
            }
        }
        if let Some(words) = self.left()? {
            return Ok(Some(format!("still runs: {words}")));
        }
        let carriers =
            "cat /sys/class/net/*/carrier; cat /proc/[0-9]*/status | grep -E 'State:.*(stop|trac)' || true";
        for name in ["plant/db", "plant/web", "plant/clock"] {
            let output =
                self.sets.command(&["exec", "--in", name, "--", "/bin/sh", "-c", carriers]).output()?;
            let said = String::from_utf8_lossy(&output.stdout);
            if !output.status.success() || said.lines().any(|line| line == "0" || line.starts_with("State")) {
                return Ok(Some(format!("in {name}: {said:?}")));
            }
        }
        let room = ["exec", "--in", "plant/db", "--", "/bin/sh", "-c", "echo x > \"$0\"/x"];
        let data = self.sets.path("data");
        let output = self.sets.command(&room).arg(data).output()?;
        if !output.status.success() {
            return Ok(Some(format!("db cannot write: {}", String::from_utf8_lossy(&output.stderr).trim())));
        }
        let prober = Prober::start(self.at.into());
        std::thread::sleep(Duration::from_secs(1));
        let answered = prober.asked().iter().filter(|one| one.answered.is_some()).count();
        Ok((answered < STEADY).then(|| format!("{answered} answers in a second")))
    }

    /// A process that makes failures or mends them, of these sets: others may verify theirs.
    fn left(&self) -> Result<Option<String>> {
        let state = format!("BULKHEAD_STATE={}", self.sets.path("state").display());
        for entry in std::fs::read_dir("/proc")?.flatten() {
            let read = |name: &str| std::fs::read(entry.path().join(name)).unwrap_or_default();
            let (words, variables) = (read("cmdline"), read("environ"));
            let words: Vec<&[u8]> = words.split(|byte| *byte == 0).collect();
            let is_one = words.iter().skip(1).any(|word| matches!(*word, b"verify" | b"mend" | b"fail"));
            let is_ours = variables.split(|byte| *byte == 0).any(|one| one == state.as_bytes());
            if is_one && is_ours {
                let shown: Vec<_> = words.into_iter().map(String::from_utf8_lossy).collect();
                return Ok(Some(shown.join(" ")));
            }
        }
        Ok(None)
    }
}

/// What verify says less what the witness saw, ms.
fn difference(kind: &str, witness: &str, outage: &Outage, asked: &[Asked]) -> Result<f64, String> {
    let failed = outage.failed_unix_ns.ok_or("no moment")?.to_duration();
    let window = failed.saturating_sub(WITHIN)..=failed + outage.waited_ns.to_duration();
    let of_it: Vec<&Asked> = asked.iter().filter(|one| window.contains(&one.at)).collect();
    let in_time = |one: &Asked| one.answered.is_some_and(|at| at.saturating_sub(one.at) <= WITHIN);
    // What was asked at the end may be answered later.
    let known = of_it.partition_point(|one| one.at + WITHIN < *window.end());
    let truth = match of_it[..known].iter().rposition(|one| !in_time(one)) {
        None => Duration::ZERO,
        Some(last) => {
            let again = of_it[last + 1..].iter().filter_map(|one| one.answered).min();
            again.ok_or("nobody was answered again")?.saturating_sub(failed)
        }
    };
    let said = match (outage.first_missing_ns, outage.answered_again_ns) {
        (None, _) => Duration::ZERO,
        (Some(_), Some(again)) => again.to_duration(),
        (Some(_), None) => return Err("it did not come back".to_owned()),
    };
    let ms = |time: Duration| time.as_secs_f64() * 1e3;
    let first = of_it
        .iter()
        .find(|one| one.at >= failed && !in_time(one))
        .map(|one| one.at.as_secs_f64() - failed.as_secs_f64());
    let first = first.map_or_else(
        || "none missing".to_owned(),
        |first| format!("first missing {:.1} ms after it failed", first * 1e3),
    );
    // Of an answer that takes about as long as answers may, two who look do not say the same of whether it was late.
    let took = of_it.iter().filter_map(|one| Some(one.answered?.saturating_sub(one.at)));
    let verge = took.min_by_key(|took| took.abs_diff(WITHIN));
    let verge = verge.map_or_else(String::new, |took| format!(", nearest to late {:.2} ms", ms(took)));
    say(&format!("{kind}: verify {:.1} ms, {witness} {:.1} ms, {first}{verge}", ms(said), ms(truth)));
    Ok(ms(said) - ms(truth))
}
