//! Two-level paging: why a program is slower in a guest that has run it before.
//!
//! ```text
//!  worker touches ─► guest hands out a page of its pool ─┬─ host has given it memory before: the guest filters the fault
//!                                                        └─ never touched, or translation dropped: the host sees it
//!  end of run: processes free their pages into the guest's pool; the host does not learn of it and takes nothing back
//! ```
//! Source: Ibrahim, Hofmeyr, Iancu, *The Case for Partitioning Virtual Machines on Manycore Architectures* (2012), §III
//! (how pages are mapped) and §VI–VII (cold and warm guests). The guest knows of no nodes, so a page that it hands out anew
//! may lie on another worker's node: locality leaks. The host places a page on the node of the virtual CPU (each pinned)
//! that first touches it and cannot correct it later, because it sees no fault of it.
//!
//! Workers touch their pages in turn, one page each, and free them in the same order. The time of a run is that of its
//! slowest worker: faults, computation, and misses at the cost of where the page lies.

mod pools;
mod run;
#[cfg(test)]
mod tests;

use run::{Host, Outcome};

use crate::brake::Brake;
use crate::scenario::{Figure, Replication};
use crate::time::Span;
use model::scenario::{LimitSpec, MemorySpec};
use probes::ProbeKind;
use units::metric::{Better, Unit};

/// Runs all workers as often as the scenario says, at most until a run after which a limit is passed or the brake is pulled.
/// It was checked. An event is a page.
pub fn run(spec: &MemorySpec, seed: u64, limits: &LimitSpec, brake: &Brake) -> Replication {
    let mut host = Host::new(spec, seed);
    let cold = host.run(0);
    let (mut events, mut simulated) = (cold.pages, cold.time);
    let (mut warm, mut trouble) = (None, None);
    let mut interrupted = false;
    for number in 1..spec.runs {
        interrupted = brake.is_pulled();
        let why =
            if interrupted { Some("interrupted".to_owned()) } else { passed(limits, events, simulated) };
        if let Some(why) = why {
            trouble = Some(format!("{why} after {number} of {} runs", spec.runs));
            break;
        }
        let outcome = host.run(number);
        events = events.saturating_add(outcome.pages);
        simulated += outcome.time;
        warm = Some(outcome);
    }
    let mut figures = figures("cold", "first run", &cold, spec);
    if let Some(warm) = &warm {
        figures.extend(self::figures("warm", "last run", warm, spec));
        let ratio = |id: &str, title: &str, warm: f64, cold: f64| {
            let value = warm / cold;
            (cold > 0.0).then(|| figure(id, title.to_owned(), Unit::Count, Better::Lower, value))
        };
        let times = "time of the last run, in times of the first";
        figures.extend(ratio("warm_over_cold", times, warm.time.as_f64(), cold.time.as_f64()));
        let host = "time in the host for faults of the last run, in times of the first";
        figures.extend(ratio("host_warm_over_cold", host, warm.host_time.as_f64(), cold.host_time.as_f64()));
    }
    Replication { figures, trouble, interrupted, events, ..Replication::default() }
}

/// Which limit is passed, if one is.
fn passed(limits: &LimitSpec, events: u64, simulated: Span) -> Option<String> {
    if simulated > Span::from_secs(limits.simulated_s) {
        Some(format!("more than {} s of simulated time (limits.simulated_s) were over", limits.simulated_s))
    } else if events > limits.events {
        Some(format!("more than {} pages (limits.events) were handled", limits.events))
    } else {
        None
    }
}

fn figure(id: &str, title: String, unit: Unit, better: Better, value: f64) -> Figure {
    Figure { id: format!("paging.{id}"), title, unit, better, probe: ProbeKind::Pages, value }
}

fn figures(which: &str, words: &str, outcome: &Outcome, spec: &MemorySpec) -> Vec<Figure> {
    let make = |id: &str, title: &str, unit, better, value| {
        figure(&format!("{which}.{id}"), format!("{words}: {title}"), unit, better, value)
    };
    let share = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
    let mut figures = vec![make("faults", "page faults", Unit::Count, Better::Lower, outcome.faults as f64)];
    // Of no faults there is no share.
    if outcome.faults > 0 {
        let value = share(outcome.host_faults, outcome.faults);
        figures.push(make("host_share", "faults that reach the host", Unit::Share, Better::Lower, value));
    }
    let remote = outcome.remote_share();
    figures.push(make("remote_share", "pages used from another node", Unit::Share, Better::Lower, remote));
    if spec.migration {
        let value = share(outcome.moved, outcome.pages);
        figures.push(make("moved_share", "pages the host has moved", Unit::Share, Better::Neither, value));
    }
    let nanos = Unit::Nanoseconds;
    let host = outcome.host_time.as_f64();
    figures.push(make("host_ns", "time in the host for faults, all workers", nanos, Better::Lower, host));
    figures.push(make("time_ns", "time of the slowest worker", nanos, Better::Lower, outcome.time.as_f64()));
    figures
}
