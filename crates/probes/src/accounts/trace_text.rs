//! Who ran for how long, from the text of the kernel's trace of one CPU. Pure.
//!
//! ```text
//!  probe-0-961 [001] d.h1.  2436.672738: local_timer_entry: vector=236      ┐ interrupt  ┐ the thread's time
//!  probe-0-961 [001] d.h1.  2436.672741: local_timer_exit: vector=236       ┘ 3 µs       │ is net of the
//!  probe-0-961 [001] ..s1.  2436.672742: softirq_entry: vec=1 [action=TIMER]   …          │ interrupts in it
//!  probe-0-961 [001] d..2.  2436.672750: sched_switch: prev_comm=… ==> next_comm=…       ┘
//! ```
//! Each source counts net: what interrupted it counts for who interrupted. That is how the kernel's osnoise tracer counts
//! (Documentation/trace/osnoise-tracer.rst); it is built on the same events. What a hypervisor takes in the middle of a
//! source counts for that source, here as there: the kernel of a guest cannot see it.

use std::collections::BTreeMap;

use super::table::tamed;
use units::accounts::{MOST_TRACED, TracedSource};
use units::{Hertz, Nanos, Ticks};

/// Interrupts within interrupts within soft interrupts: deeper is broken data.
pub(super) const MOST_NESTED: usize = 16;
/// Most sources that are told apart; the rest count as one.
pub(super) const MOST_SOURCES: usize = 1024;
/// Longest name of a source kept.
pub(super) const NAME_CHARS: usize = 64;

/// What a trace says.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Told {
    /// Sources, longest first, at most [`MOST_TRACED`].
    pub sources: Vec<TracedSource>,
    /// Events that did not fit into the kernel's buffer.
    pub lost_events: u64,
}

/// Something that runs.
#[derive(Debug)]
struct Running {
    name: String,
    /// None: its time is nobody's business, as that of the probe's own threads and of the idle loop.
    counts: bool,
    since_ns: u64,
    /// Time of what interrupted it.
    nested_ns: u64,
}

#[derive(Debug, Default)]
struct Reader {
    thread: Option<Running>,
    nested: Vec<Running>,
    found: BTreeMap<String, TracedSource>,
}

/// Reads a trace. Threads in `own` are not counted; `counter` is the rate of a trace clock that counts ticks.
pub fn read(text: &str, own: &[i32], counter: Option<Hertz>) -> Told {
    let mut reader = Reader::default();
    for event in text.lines().filter_map(|line| event(line, counter)) {
        reader.take(&event, own);
    }
    let mut sources: Vec<TracedSource> = reader.found.into_values().collect();
    sources.sort_by(|a, b| b.total_ns.cmp(&a.total_ns).then_with(|| a.name.cmp(&b.name)));
    sources.truncate(MOST_TRACED);
    Told { sources, lost_events: lost_events(text) }
}

/// `# entries-in-buffer/entries-written: 407/500   #P:2`
fn lost_events(text: &str) -> u64 {
    let line = text.lines().take(16).find_map(|line| line.split_once("entries-written:"));
    let counts = line.and_then(|(_, rest)| rest.split_ascii_whitespace().next()?.split_once('/'));
    let parsed = counts.and_then(|(kept, written)| Some((kept.parse().ok()?, written.parse().ok()?)));
    parsed.map_or(0, |(kept, written): (u64, u64)| written.saturating_sub(kept))
}

/// A line of the trace.
pub(super) struct Event<'a> {
    pub(super) at_ns: u64,
    pub(super) name: &'a str,
    pub(super) rest: &'a str,
}

/// A line: task, `[CPU]`, flags, time and colon, name and colon, the rest. None for anything else.
pub(super) fn event(line: &str, counter: Option<Hertz>) -> Option<Event<'_>> {
    if line.starts_with('#') {
        return None;
    }
    // A task's name may hold anything, but "] " behind a CPU's number comes only once before the time.
    let behind = line.split("] ").position(|part| {
        part.rsplit_once('[')
            .is_some_and(|(_, cpu)| !cpu.is_empty() && cpu.bytes().all(|b| b.is_ascii_digit()))
    })?;
    let (_, rest) = split_nth(line, behind)?;
    let (time, rest) = rest.split_once(": ")?;
    let time = time.split_ascii_whitespace().next_back()?;
    let (name, rest) = rest.split_once(':')?;
    Some(Event { at_ns: instant(time, counter)?, name: name.trim(), rest: rest.trim() })
}

/// Splits behind the n-th "] ".
fn split_nth(line: &str, nth: usize) -> Option<(&str, &str)> {
    let (at, mark) = line.match_indices("] ").nth(nth)?;
    line.split_at_checked(at + mark.len())
}

/// `2436.672738` seconds, or a number of ticks.
fn instant(time: &str, counter: Option<Hertz>) -> Option<u64> {
    let Some((seconds, fraction)) = time.split_once('.') else {
        return Some(Ticks::from_ticks(time.parse().ok()?).to_nanos(counter?).get());
    };
    let scale = 10u64.checked_pow(9u32.checked_sub(u32::try_from(fraction.len()).ok()?)?)?;
    let (seconds, fraction): (u64, u64) = (seconds.parse().ok()?, fraction.parse().ok()?);
    seconds.checked_mul(1_000_000_000)?.checked_add(fraction.checked_mul(scale)?)
}

impl Reader {
    fn take(&mut self, event: &Event<'_>, own: &[i32]) {
        if event.name == "sched_switch" {
            self.switch(event, own);
        } else if let Some(kind) = event.name.strip_suffix("_entry") {
            if self.nested.len() < MOST_NESTED {
                let name = source_name(kind, event.rest);
                self.nested.push(Running { name, counts: true, since_ns: event.at_ns, nested_ns: 0 });
            }
        } else if let Some(kind) = event.name.strip_suffix("_exit") {
            self.leave(kind, event);
        }
    }

    /// An exit without its entry began before the trace; what it was nested in is then unknown, too.
    fn leave(&mut self, kind: &str, event: &Event<'_>) {
        let Some(ended) = self.nested.pop() else { return };
        let same = source_name(kind, event.rest);
        // The exit of an interrupt does not repeat the name of its device.
        if !(ended.name == same || ended.name.starts_with(&format!("{same} "))) {
            self.nested.clear();
            return;
        }
        let gross = event.at_ns.saturating_sub(ended.since_ns);
        self.book(&ended, gross);
        if let Some(outer) = self.nested.last_mut().or(self.thread.as_mut()) {
            outer.nested_ns = outer.nested_ns.saturating_add(gross);
        }
    }

    fn switch(&mut self, event: &Event<'_>, own: &[i32]) {
        self.nested.clear();
        if let Some(ended) = self.thread.take() {
            self.book(&ended, event.at_ns.saturating_sub(ended.since_ns));
        }
        self.thread = next_thread(event.rest).map(|(name, thread)| Running {
            name: format!("thread {name}"),
            counts: thread != 0 && !own.contains(&thread),
            since_ns: event.at_ns,
            nested_ns: 0,
        });
    }

    fn book(&mut self, ended: &Running, gross_ns: u64) {
        if !ended.counts {
            return;
        }
        let net = Nanos::from_nanos(gross_ns.saturating_sub(ended.nested_ns));
        let known = self.found.contains_key(&ended.name) || self.found.len() < MOST_SOURCES;
        let name = if known { tamed(&ended.name, NAME_CHARS) } else { "others".to_owned() };
        let fresh =
            TracedSource { name: name.clone(), count: 0, total_ns: Nanos::ZERO, longest_ns: Nanos::ZERO };
        let source = self.found.entry(name).or_insert(fresh);
        source.count += 1;
        source.total_ns = source.total_ns.saturating_add(net);
        source.longest_ns = source.longest_ns.max(net);
    }
}

/// `irq 36 virtio1-req.0`, `softirq TIMER`, `local timer`.
pub(super) fn source_name(kind: &str, rest: &str) -> String {
    let value = |key: &str| {
        let (_, value) = rest.split_once(key)?;
        value.split(|c: char| c.is_whitespace() || c == ']').next()
    };
    let words = match kind {
        "irq_handler" => {
            let device = rest.split_once("name=").map_or("", |(_, name)| name);
            format!("irq {} {device}", value("irq=").unwrap_or("?"))
        }
        "softirq" => format!("softirq {}", value("action=").unwrap_or("?")),
        other => other.replace('_', " "),
    };
    tamed(words.trim(), NAME_CHARS)
}

/// Name and number of the thread that runs from now on. The name may hold anything but comes before the last number.
pub(super) fn next_thread(rest: &str) -> Option<(&str, i32)> {
    let (_, next) = rest.rsplit_once("==> next_comm=")?;
    let (name, numbers) = next.rsplit_once(" next_pid=")?;
    Some((name, numbers.split_ascii_whitespace().next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Recorded on Linux 6.18 (clock `mono`), shortened.
    const RECORDED: &str = "# tracer: nop
#
# entries-in-buffer/entries-written: 13/20   #P:2
#
#           TASK-PID     CPU#  |||||  TIMESTAMP  FUNCTION
          <idle>-0       [001] d.h1.  2436.000001: call_function_single_exit: vector=251
          <idle>-0       [001] d..2.  2436.000010: sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=probe-0 next_pid=961 next_prio=120
         probe-0-961     [001] d.h..  2436.000100: local_timer_entry: vector=236
         probe-0-961     [001] d.h..  2436.000103: local_timer_exit: vector=236
         probe-0-961     [001] ..s1.  2436.000104: softirq_entry: vec=1 [action=TIMER]
         probe-0-961     [001] d.H1.  2436.000105: irq_handler_entry: irq=36 name=virtio1-req.0
         probe-0-961     [001] d.H1.  2436.000109: irq_handler_exit: irq=36 ret=handled
         probe-0-961     [001] ..s1.  2436.000111: softirq_exit: vec=1 [action=TIMER]
         probe-0-961     [001] d..2.  2436.000200: sched_switch: prev_comm=probe-0 prev_pid=961 prev_prio=120 prev_state=R ==> next_comm=odd ] name ==> next_pid=77 next_prio=120
 odd ] name ==>-77      [001] d.h..  2436.000250: local_timer_entry: vector=236
 odd ] name ==>-77      [001] d.h..  2436.000260: local_timer_exit: vector=236
 odd ] name ==>-77      [001] d..2.  2436.000300: sched_switch: prev_comm=odd ] name ==> prev_pid=77 prev_prio=120 prev_state=S ==> next_comm=probe-0 next_pid=961 next_prio=120
";

    #[test]
    fn a_recorded_trace_is_read_net_of_what_is_nested() {
        let told = read(RECORDED, &[961], None);
        let found: Vec<(&str, u64, u64, u64)> = told
            .sources
            .iter()
            .map(|s| (s.name.as_str(), s.count, s.total_ns.get(), s.longest_ns.get()))
            .collect();
        assert_eq!(
            found,
            [
                ("thread odd ] name ==>", 1, 90_000, 90_000),
                ("local timer", 2, 13_000, 10_000),
                ("irq 36 virtio1-req.0", 1, 4_000, 4_000),
                ("softirq TIMER", 1, 3_000, 3_000),
            ]
        );
        assert_eq!(told.lost_events, 7);
    }

    #[test]
    fn ticks_are_turned_into_time_and_need_a_rate() {
        let text = "  x-1 [000] d.h.. 4000: local_timer_entry: vector=1\n  x-1 [000] d.h.. 10000: local_timer_exit: vector=1\n";
        let told = read(text, &[], Some(Hertz::from_hz(2_000_000_000)));
        assert_eq!(told.sources[0].total_ns, Nanos::from_nanos(3_000));
        assert_eq!(read(text, &[], None), Told::default());
    }

    #[test]
    fn broken_traces_are_survived() {
        let exits = " x-1 [000] d.h.. 1.5: local_timer_exit: vector=1\n";
        let mixed =
            " x-1 [000] d 1.0: softirq_entry: vec=1 [action=RCU]\n x-1 [000] d 2.0: local_timer_exit: v=1\n";
        let deep = " x-1 [000] d 1.0: softirq_entry: vec=1 [action=RCU]\n".repeat(999);
        for text in ["", "#\n", "nonsense", "[000] : :", "x [1] 9.9: a", exits, mixed, &deep] {
            assert_eq!(read(text, &[], None).sources, [], "{text}");
        }
        let names = |n: u32| {
            format!(
                " x-1 [000] d {n}.0: sched_switch: prev_comm=a prev_pid=1 ==> next_comm=t{n} next_pid={n} next_prio=1\n"
            )
        };
        let crowd: String = (1..3000).map(names).collect();
        let told = read(&crowd, &[], None);
        assert_eq!(told.sources.len(), MOST_TRACED);
        assert_eq!(
            (told.sources[0].name.as_str(), told.sources[0].count),
            ("others", 3000 - 2 - MOST_SOURCES as u64)
        );
    }
}
