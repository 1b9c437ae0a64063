//! Speed of the simulator beside `SimPy`, `SimGrid` and nexosim: the same work (as many entities, cores and events), one after
//! the other, round after round, on one core; then events per second, and ratios of the same round with their interval.
//!
//! ```text
//!   timers      N entities, each sleeps for a random time and does so again:       queue, entities with books of their own
//!               1 000 000 times in all
//!   sharing     32 CPU-bound tasks on 16 cores in turns of 1 ms, 400 000 in all    the whole machine, accounts kept
//!   policies    the same by each policy                                            ours alone
//!   scale       100 000 virtual CPUs on 1024 CPUs, one second;      ours alone, policy by policy ("scale eevdf")
//!               what an event costs from 100 on
//!   memory      a host with 1 000 000 virtual CPUs                                 ours alone, processes of their own
//!   barriers    N nodes with noise, each message by itself, or the slowest alone   ours alone, with its memory
//! ```
//! The peers are installed on demand into the build folder (`SimPy` by pip, nexosim by cargo; `SimGrid` is a package), each used
//! as its manual says is quickest; one that cannot be had is named with the reason.
//!
//! ```text
//!   make bench-simulator ARGS="--rounds 3 sharing memory"     some of it, fewer rounds
//! ```

#![expect(clippy::print_stdout, reason = "a bench reports on standard output")]

mod own;
mod peers;
#[path = "../verdict/mod.rs"]
mod verdict;

use std::path::PathBuf;
use std::process::ExitCode;

use bulkhead::sim::host::Machine;
use peers::{SIMGRID, SLEEPS};
use verdict::{Judge, Mark, show};

/// Enough for a median and its scatter.
const ROUNDS: usize = 5;
/// Events of the timers together.
pub const TIMER_EVENTS: u64 = 1_000_000;
/// Tasks that share cores.
pub const TASKS: u32 = 32;
/// Turns of all tasks together: 25 s on 16 cores.
pub const TURNS: u64 = 400_000;
/// Entities of the timers.
const ENTITIES: [u32; 3] = [100, 10_000, 1_000_000];

/// Work to be done: what, and how many entities.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Work {
    /// So many timers.
    Timers(u32),
    /// 32 tasks on 16 CPUs.
    Sharing,
}

impl Work {
    fn title(self) -> String {
        match self {
            Self::Timers(entities) => format!("timers, {entities} entities, {TIMER_EVENTS} events"),
            Self::Sharing => format!("sharing, {TASKS} on 16 cores, {TURNS} turns of 1 ms"),
        }
    }
}

fn rounds() -> usize {
    let mut words = std::env::args().skip_while(|word| word != "--rounds").skip(1);
    words.next().and_then(|rounds| rounds.parse().ok()).unwrap_or(ROUNDS).clamp(1, 100)
}

fn median(values: &mut [f64]) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// Events per second of everybody in every round; ours first. Ratios come from pairs of the same round.
fn compare(work: Work, peers: &[peers::Peer], rounds: usize, judge: &mut Judge) {
    println!("\n{}", work.title());
    let peers: Vec<&peers::Peer> = peers.iter().filter(|peer| peer.does(work)).collect();
    let mut reasons: Vec<Option<String>> = vec![None; peers.len()];
    let mut speeds: Vec<Vec<Option<f64>>> = vec![Vec::new(); peers.len() + 1];
    for round in 0..rounds {
        for turn in 0..=peers.len() {
            // Another first one in each round.
            let who = (turn + round) % (peers.len() + 1);
            let speed = match who.checked_sub(1) {
                None => Some(own::events_per_second(work)),
                Some(peer) => match peers[peer].events_per_second(work) {
                    Ok(speed) => Some(speed),
                    Err(reason) => {
                        reasons[peer] = Some(reason);
                        None
                    }
                },
            };
            speeds[who].push(speed);
        }
    }
    let millions =
        |speeds: &[Option<f64>]| -> Vec<f64> { speeds.iter().flatten().map(|speed| speed / 1e6).collect() };
    show("  ours, M events/s", &millions(&speeds[0]));
    for ((peer, theirs), reason) in peers.iter().zip(&speeds[1..]).zip(&reasons) {
        let pairs = speeds[0].iter().zip(theirs);
        let ratios: Vec<f64> = pairs.filter_map(|(ours, theirs)| Some((*ours)? / (*theirs)?)).collect();
        let what = format!("sharing: turns per second, ours / {}", peer.name);
        let is_marked = work == Work::Sharing && [SIMGRID, SLEEPS].contains(&peer.name);
        match reason {
            Some(reason) if is_marked => drop(judge.not_taken(&what, reason)),
            Some(reason) => println!("  {}: {reason}", peer.name),
            None => {
                show(&format!("  {}, M events/s", peer.name), &millions(theirs));
                if is_marked {
                    judge.rounds(&what, &ratios, Mark::AtLeast(10.0));
                } else {
                    show(&format!("  ours / {}", peer.name), &ratios);
                }
            }
        }
    }
}

/// Barriers of a bulk-synchronous program, which no peer has at this size.
fn barriers(rounds: usize, judge: &mut Judge) {
    let speeds = |nodes, by_messages| -> Vec<f64> {
        (0..rounds).map(|_| own::barriers(nodes, by_messages) / 1e6).collect()
    };
    println!("\nbarriers of nodes with noise");
    let what = "barriers of 1 000 000 nodes by messages, M messages/s";
    judge.rounds(what, &speeds(1_000_000, true), Mark::AtLeast(3.0));
    show("  10 000 000 nodes, as the maximum, M steps of nodes/s", &speeds(10_000_000, false));
    let memory: Vec<f64> =
        (0..rounds).filter_map(|_| Some(own::bytes_of_barriers(1_000_000)? / 1e9)).collect();
    let what = "memory of the 1 000 000 nodes, a process of its own, GB";
    judge.rounds(what, &memory, Mark::AtMost(4.0));
}

/// The same 32 on 16 CPUs by each policy. One event may bring on many virtual CPUs, so these are counted as well.
fn policies(rounds: usize) {
    println!("\nsharing by policy, 32 on 16 CPUs");
    for (name, policy) in own::POLICIES {
        let all: Vec<(f64, f64)> = (0..rounds).map(|_| own::sharing(policy)).collect();
        let events = median(&mut all.iter().map(|(events, _)| *events).collect::<Vec<f64>>());
        let dispatches = median(&mut all.iter().map(|(_, dispatches)| *dispatches).collect::<Vec<f64>>());
        println!("  {name:<14} {:>7.3} M events/s {:>9.3} M dispatches/s", events / 1e6, dispatches / 1e6);
    }
}

/// Sizes whose cost per event is compared: virtual CPUs, CPUs, as many for each.
const SIZES: [(u32, u32); 4] = [(100, 1), (1_000, 10), (10_000, 102), (100_000, 1024)];

/// By which power of the number of virtual CPUs the cost of an event grows: the slope of a straight line through logarithms.
fn growth(costs: &[f64]) -> f64 {
    let points = SIZES.iter().zip(costs).map(|((vcpus, _), cost)| (f64::from(*vcpus).ln(), cost.ln()));
    let points: Vec<(f64, f64)> = points.collect();
    let count = points.len() as f64;
    let (x, y) = points.iter().fold((0.0, 0.0), |(x, y), (dx, dy)| (x + dx / count, y + dy / count));
    let sums = points.iter().fold((0.0, 0.0), |(xy, xx), point| {
        (xy + (point.0 - x) * (point.1 - y), xx + (point.0 - x) * (point.0 - x))
    });
    sums.0 / sums.1
}

/// How long the largest hosts take, and how the cost of an event grows on the way there; VMs of 100 virtual CPUs.
fn scale(policy: &str, rounds: usize, judge: &mut Judge) {
    println!("\nscale, {policy}");
    let seconds: Vec<f64> = (0..rounds).map(|_| own::seconds_of(policy, 1024, 100_000, 100)).collect();
    let what = format!("{policy}: 100 000 virtual CPUs on 1024 CPUs, CPU seconds for one");
    judge.rounds(&what, &seconds, Mark::AtMost(60.0));
    let costs = |(vcpus, cpus): &(u32, u32)| own::cost_per_event(policy, *cpus, *vcpus, 100);
    let costs: Vec<Vec<f64>> = (0..rounds).map(|_| SIZES.iter().map(costs).collect()).collect();
    for ((vcpus, cpus), at) in SIZES.iter().zip(0..) {
        let of: Vec<f64> = costs.iter().filter_map(|round| round.get(at).copied()).collect();
        show(&format!("  {vcpus} on {cpus}, ns per event"), &of);
    }
    let exponents: Vec<f64> = costs.iter().map(|round| growth(round)).collect();
    let what = format!("{policy}: growth of an event's cost with virtual CPUs, 100 to 100 000, exponent");
    judge.rounds(&what, &exponents, Mark::AtMost(0.15));
}

/// What a virtual CPU takes on a host that has a million, from the file to the figures.
fn memory(rounds: usize, judge: &mut Judge) {
    println!("\nmemory; the state and books of a virtual CPU alone: {} bytes", Machine::BYTES_PER_VCPU);
    let bytes: Vec<f64> = (0..rounds).filter_map(|_| own::bytes_per_vcpu()).collect();
    let what = "bytes per virtual CPU of 1 000 000, processes of their own";
    judge.rounds(what, &bytes, Mark::AtMost(200.0));
}

fn main() -> ExitCode {
    if own::is_child() {
        return ExitCode::SUCCESS;
    }
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("simulator-peers");
    let peers = peers::all(&folder);
    let rounds = rounds();
    let mut judge = Judge::default();
    println!("{rounds} rounds, one core each");
    let words: Vec<String> = std::env::args().collect();
    let named = |part: &str| words.iter().any(|word| word == part);
    let all = !["timers", "sharing", "policies", "scale", "barriers", "memory"].into_iter().any(named);
    for entities in ENTITIES.into_iter().filter(|_| all || named("timers")) {
        compare(Work::Timers(entities), &peers, rounds, &mut judge);
    }
    if all || named("sharing") {
        compare(Work::Sharing, &peers, rounds, &mut judge);
    }
    if all || named("policies") {
        policies(rounds);
    }
    if all || named("scale") {
        let any = own::AT_SCALE.into_iter().any(named);
        own::AT_SCALE
            .into_iter()
            .filter(|name| !any || named(name))
            .for_each(|name| scale(name, rounds, &mut judge));
    }
    if all || named("barriers") {
        barriers(rounds, &mut judge);
    }
    if all || named("memory") {
        memory(rounds, &mut judge);
    }
    judge.close()
}
