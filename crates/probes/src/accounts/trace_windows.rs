//! Who had the CPU within given windows of a trace: while the latest wake-ups were awaited, say. Pure.
//!
//! ```text
//!  trace     ── idle ──┬─ timer ─┬─ thread a ──────────┬─ probe ──
//!  window          └─────────── late ──────────────────────┘
//!  credited     idle   │  timer  │  thread a           │ the probe's own: nobody
//! ```

use std::collections::BTreeMap;

use super::table::tamed;
use super::trace_text::{Event, MOST_NESTED, MOST_SOURCES, NAME_CHARS, event, next_thread, source_name};
use units::accounts::{MOST_TRACED, TracedSource};
use units::{Hertz, Nanos};

/// Who runs when nobody does: a timer that fires late, or a CPU that sleeps deeply.
const NOBODY: &str = "idle CPU (the timer's interrupt had not come)";

/// A stretch of time on the clock of the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// Its begin.
    pub from_ns: u64,
    /// Its end.
    pub to_ns: u64,
}

/// Whoever has the CPU.
struct Occupant {
    name: String,
    /// The probe's own threads do not count.
    counts: bool,
}

struct Occupancy<'a> {
    windows: &'a [Window],
    since_ns: u64,
    thread: Option<Occupant>,
    nested: Vec<Occupant>,
    found: BTreeMap<String, TracedSource>,
}

/// Who had the CPU within these windows, longest first, at most [`MOST_TRACED`]. Threads in `own` are not counted.
pub fn within(text: &str, own: &[i32], counter: Option<Hertz>, windows: &[Window]) -> Vec<TracedSource> {
    let mut all =
        Occupancy { windows, since_ns: 0, thread: None, nested: Vec::new(), found: BTreeMap::new() };
    for event in text.lines().filter_map(|line| event(line, counter)) {
        all.credit(event.at_ns);
        all.since_ns = event.at_ns;
        all.take(&event, own);
    }
    let mut sources: Vec<TracedSource> = all.found.into_values().collect();
    sources.sort_by(|a, b| b.total_ns.cmp(&a.total_ns).then_with(|| a.name.cmp(&b.name)));
    sources.truncate(MOST_TRACED);
    sources
}

impl Occupancy<'_> {
    /// What lies in windows from the event before until this moment is whose who had the CPU.
    fn credit(&mut self, until_ns: u64) {
        let Some(who) = self.nested.last().or(self.thread.as_ref()).filter(|who| who.counts) else { return };
        for window in self.windows {
            let (from, to) = (window.from_ns.max(self.since_ns), window.to_ns.min(until_ns));
            let Some(took) = to.checked_sub(from).filter(|took| *took > 0) else { continue };
            let known = self.found.contains_key(&who.name) || self.found.len() < MOST_SOURCES;
            let name = if known { who.name.clone() } else { "others".to_owned() };
            let fresh =
                TracedSource { name: name.clone(), count: 0, total_ns: Nanos::ZERO, longest_ns: Nanos::ZERO };
            let source = self.found.entry(name).or_insert(fresh);
            source.count += 1;
            source.total_ns = source.total_ns.saturating_add(Nanos::from_nanos(took));
            source.longest_ns = source.longest_ns.max(Nanos::from_nanos(took));
        }
    }

    fn take(&mut self, event: &Event<'_>, own: &[i32]) {
        if event.name == "sched_switch" {
            self.nested.clear();
            self.thread = next_thread(event.rest).map(|(name, thread)| match thread {
                0 => Occupant { name: NOBODY.to_owned(), counts: true },
                _ => Occupant {
                    name: tamed(&format!("thread {name}"), NAME_CHARS),
                    counts: !own.contains(&thread),
                },
            });
        } else if let Some(kind) = event.name.strip_suffix("_entry") {
            if self.nested.len() < MOST_NESTED {
                self.nested.push(Occupant { name: source_name(kind, event.rest), counts: true });
            }
        } else if event.name.ends_with("_exit") {
            self.nested.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "\
          <idle>-0   [001] d..2. 1.000000: sched_switch: prev_comm=probe prev_pid=9 ==> next_comm=swapper/1 next_pid=0 next_prio=120
          <idle>-0   [001] d.h1. 1.000100: local_timer_entry: vector=236
          <idle>-0   [001] d.h1. 1.000110: local_timer_exit: vector=236
          <idle>-0   [001] d..2. 1.000120: sched_switch: prev_comm=swapper/1 prev_pid=0 ==> next_comm=thief next_pid=7 next_prio=50
             thief-7 [001] d.h1. 1.000200: irq_handler_entry: irq=36 name=virtio1
             thief-7 [001] d.h1. 1.000230: irq_handler_exit: irq=36 ret=handled
             thief-7 [001] d..2. 1.000300: sched_switch: prev_comm=thief prev_pid=7 ==> next_comm=probe next_pid=9 next_prio=20
             probe-9 [001] d..2. 1.000400: sched_switch: prev_comm=probe prev_pid=9 ==> next_comm=swapper/1 next_pid=0 next_prio=120
";

    fn took(windows: &[Window]) -> Vec<(String, u64)> {
        let found = within(TRACE, &[9], None, windows);
        found.into_iter().map(|source| (source.name, source.total_ns.get() / 1000)).collect()
    }

    #[test]
    fn only_what_lies_in_a_window_is_credited_and_to_who_was_on_top() {
        let us = |from: u64, to: u64| Window {
            from_ns: 1_000_000_000 + from * 1000,
            to_ns: 1_000_000_000 + to * 1000,
        };
        let named = |name: &str, took| (name.to_owned(), took);
        assert_eq!(took(&[]), []);
        assert_eq!(
            took(&[us(90, 310)]),
            [
                named("thread thief", 150),
                named("irq 36 virtio1", 30),
                named(NOBODY, 20),
                named("local timer", 10)
            ]
        );
        assert_eq!(
            took(&[us(210, 220), us(105, 108)]),
            [named("irq 36 virtio1", 10), named("local timer", 3)]
        );
        assert_eq!(took(&[us(310, 390)]), [], "the probe's own time");
    }

    #[test]
    fn broken_traces_and_windows_are_survived() {
        let backwards = Window { from_ns: u64::MAX, to_ns: 0 };
        let deep = " x-1 [000] d 1.0: softirq_entry: vec=1 [action=RCU]\n".repeat(999);
        for text in ["", "#\n", "[000] : :", TRACE, &deep] {
            assert_eq!(within(text, &[], None, &[backwards]), [], "{text}");
        }
        let all = Window { from_ns: 0, to_ns: u64::MAX };
        let exits = " x-1 [000] d 1.5: local_timer_exit: vector=1\n";
        assert_eq!(within(exits, &[], None, &[all]), []);
    }
}
