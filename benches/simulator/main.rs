//! Speed of the simulator beside `SimPy`, `SimGrid` and nexosim: the same work, one after the other in random order, round after
//! round, on one core; then events per second and ratios with their scatter.
//!
//! ```text
//!   timers      N entities, each sleeps for a random time and does so again        queue, entities with books of their own
//!   sharing     32 CPU-bound entities on 16 CPUs, turn by turn, accounts kept      the whole machine
//!   policies    the same by each policy                                            ours alone
//!   memory      a host with 1 000 000 virtual CPUs                                 ours alone, what the process took
//!   barriers    N nodes with noise, each message by itself, or the slowest alone   ours alone, with its memory
//! ```
//! The peers are installed on demand into the build folder (`SimPy` by pip, nexosim by cargo; `SimGrid` is a package), each used
//! as its manual says is quickest; one that cannot be had is named with the reason.
//!
//! ```text
//!   make bench-simulator ARGS="--rounds 3"
//! ```

#![expect(clippy::print_stdout, reason = "a bench reports on standard output")]

mod own;
mod peers;

use std::path::PathBuf;
use std::process::ExitCode;

use bulkhead::sim::host::Machine;

/// Enough for a median and its scatter.
const ROUNDS: usize = 5;
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
            Self::Timers(entities) => format!("timers, {entities} entities"),
            Self::Sharing => "sharing, 32 on 16 CPUs".to_owned(),
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

/// Events per second of everybody in every round, by name; `None` is ours.
fn compare(work: Work, peers: &[peers::Peer], rounds: usize) {
    println!("\n{}", work.title());
    let mut speeds: Vec<(String, Vec<f64>)> = vec![("ours".to_owned(), Vec::new())];
    speeds.extend(peers.iter().map(|peer| (peer.name.to_owned(), Vec::new())));
    let mut reasons = Vec::new();
    for round in 0..rounds {
        for turn in 0..speeds.len() {
            // Another first one in each round.
            let who = (turn + round) % speeds.len();
            let speed = match who.checked_sub(1).and_then(|peer| peers.get(peer)) {
                None => Ok(own::events_per_second(work)),
                Some(peer) => peer.events_per_second(work),
            };
            match speed {
                Ok(speed) => speeds[who].1.push(speed),
                Err(reason) => reasons.push(format!("  {}: {reason}", speeds[who].0)),
            }
        }
    }
    let ours = median(&mut speeds[0].1.clone());
    for (name, values) in &mut speeds {
        if values.is_empty() {
            continue;
        }
        let middle = median(values);
        println!(
            "  {name:<10} {:>9.3} M events/s  ({:.3} … {:.3})  ours is {:.1} × as fast",
            middle / 1e6,
            values[0] / 1e6,
            values[values.len() - 1] / 1e6,
            ours / middle
        );
    }
    reasons.dedup();
    for reason in &reasons {
        println!("{reason}");
    }
}

/// Barriers of a bulk-synchronous program, which no peer has at this size.
fn barriers(nodes: u32, by_messages: bool, rounds: usize) {
    let (how, what) =
        if by_messages { ("dissemination", "messages") } else { ("as the maximum", "nodes' steps") };
    println!("\nbarriers {how}, {nodes} nodes with noise");
    let all: Vec<(f64, Option<u64>)> = (0..rounds).map(|_| own::barriers(nodes, by_messages)).collect();
    let mut speeds: Vec<f64> = all.iter().map(|(speed, _)| *speed).collect();
    let middle = median(&mut speeds);
    let memory = all.iter().filter_map(|(_, bytes)| *bytes).max();
    let memory = memory.map_or("unknown".to_owned(), |bytes| format!("{:.2} GB", bytes as f64 / 1e9));
    println!(
        "  {:<10} {:>9.3} M {what}/s  ({:.3} … {:.3}), {memory} of memory at most",
        "ours",
        middle / 1e6,
        speeds[0] / 1e6,
        speeds[speeds.len() - 1] / 1e6
    );
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

/// What a virtual CPU takes of this process' memory on a host that has a million.
fn memory() {
    let (bytes, state) = (own::bytes_per_vcpu(), Machine::BYTES_PER_VCPU);
    let bytes = bytes.map_or("unknown".to_owned(), |bytes| format!("{bytes:.0} bytes"));
    println!(
        "\nmemory per virtual CPU of 1 000 000, from the file to the figures: {bytes}; its state and books: {state}"
    );
}

fn main() -> ExitCode {
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("simulator-peers");
    let peers = peers::all(&folder);
    let rounds = rounds();
    println!("{rounds} rounds, one core each; medians and extremes");
    for entities in ENTITIES {
        compare(Work::Timers(entities), &peers, rounds);
    }
    compare(Work::Sharing, &peers, rounds);
    policies(rounds);
    barriers(1_000_000, true, rounds);
    barriers(10_000_000, false, rounds);
    memory();
    ExitCode::SUCCESS
}
