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
use crate::scenario::catalogue::Kind;
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
        let ratio =
            |kind: &Kind, warm: f64, cold: f64| (cold > 0.0).then(|| figure("paging", "", kind, warm / cold));
        figures.extend(ratio(&TIMES, warm.time.as_f64(), cold.time.as_f64()));
        figures.extend(ratio(&HOST_TIMES, warm.host_time.as_f64(), cold.host_time.as_f64()));
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

const FAULTS: Kind = Kind("faults", "page faults", Unit::Count, Better::Lower);
const HOST_SHARE: Kind = Kind("host_share", "faults that reach the host", Unit::Share, Better::Lower);
const REMOTE_SHARE: Kind = Kind("remote_share", "pages used from another node", Unit::Share, Better::Lower);
const MOVED_SHARE: Kind = Kind("moved_share", "pages the host has moved", Unit::Share, Better::Neither);
const HOST_TIME: Kind =
    Kind("host_ns", "time in the host for faults, all workers", Unit::Nanoseconds, Better::Lower);
const TIME: Kind = Kind("time_ns", "time of the slowest worker", Unit::Nanoseconds, Better::Lower);
/// What the first run and the last one yield each.
pub(crate) const OF_A_RUN: [&Kind; 6] =
    [&FAULTS, &HOST_SHARE, &REMOTE_SHARE, &MOVED_SHARE, &HOST_TIME, &TIME];
const TIMES: Kind =
    Kind("warm_over_cold", "time of the last run, in times of the first", Unit::Count, Better::Lower);
const HOST_TIMES: Kind = Kind(
    "host_warm_over_cold",
    "time in the host for faults of the last run, in times of the first",
    Unit::Count,
    Better::Lower,
);
/// What both of them together yield.
pub(crate) const OF_BOTH: [&Kind; 2] = [&TIMES, &HOST_TIMES];

/// A figure of `whose`, whose title begins with these words.
fn figure(whose: &str, words: &str, Kind(id, title, unit, better): &Kind, value: f64) -> Figure {
    let title = format!("{words}{title}");
    Figure {
        id: format!("{whose}.{id}"),
        title,
        unit: *unit,
        better: *better,
        probe: ProbeKind::Pages,
        is_exact: None,
        value,
    }
}

fn figures(which: &str, words: &str, outcome: &Outcome, spec: &MemorySpec) -> Vec<Figure> {
    let (whose, words) = (format!("paging.{which}"), format!("{words}: "));
    let make = |kind: &Kind, value: f64| figure(&whose, &words, kind, value);
    let share = |part: u64, whole: u64| part as f64 / whole.max(1) as f64;
    let mut figures = vec![make(&FAULTS, outcome.faults as f64)];
    // Of no faults there is no share.
    if outcome.faults > 0 {
        figures.push(make(&HOST_SHARE, share(outcome.host_faults, outcome.faults)));
    }
    figures.push(make(&REMOTE_SHARE, outcome.remote_share()));
    if spec.migration {
        figures.push(make(&MOVED_SHARE, share(outcome.moved, outcome.pages)));
    }
    figures.push(make(&HOST_TIME, outcome.host_time.as_f64()));
    figures.push(make(&TIME, outcome.time.as_f64()));
    figures
}
