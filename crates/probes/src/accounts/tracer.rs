//! The kernel's tracer on the CPU of the probe: interrupts, soft interrupts and thread switches, in an instance of its
//! own, so that nobody else's tracing is touched.
//!
//! ```text
//!  prepare: remove what dead agents left ─► instances/bulkhead-PID-START, events on, tracing off
//!  go ─► probe ─► halt ─► read ─► remove (also when dropped)
//! ```
//! An agent that is killed cannot remove its instance: the next one that traces does, and so does the sweep of the run
//! directory (`platforms`), both also where tracefs is mounted nowhere. Until then a bounded buffer is left, and tracing on
//! one CPU.
//!
//! The osnoise and timerlat tracers are not used, though many kernels have them (Debian's, which our guests boot, too): they
//! compute the same from the same events, but their threads would take the CPU from the probe, and the switch that turns
//! those off is one for the whole machine.

use std::fs;
use std::path::{Path, PathBuf};

use super::files;
use super::trace_text::{self, Told};
use super::trace_windows::{self, Window};
use super::tracefs::Tracefs;
use crate::alarm::now_ns;
use crate::clock;
use crate::detail::Stretch;
use units::accounts::TracedSource;
use units::tracing::TracingInstance;
use units::{Hertz, Reason, Ticks};

/// Buffer of the traced CPU: some tens of thousands of events.
const BUFFER_KIB: &str = "4096";
/// Buffer of all others, which trace nothing.
const NO_BUFFER_KIB: &str = "4";
/// Longest trace that is read; the buffer as text is shorter.
const MOST_TEXT: u64 = 64 << 20;
/// Events that are there on every architecture, as folders below `events`.
const EVENTS: [&str; 5] = [
    "irq/irq_handler_entry",
    "irq/irq_handler_exit",
    "irq/softirq_entry",
    "irq/softirq_exit",
    "sched/sched_switch",
];
/// Folder of the events of the interrupts that have no handler of a driver: timer, function calls (x86).
const VECTORS: &str = "irq_vectors";
/// Most of those.
const MOST_VECTORS: usize = 64;

/// A tracing instance of ours. Dropping it removes it.
#[derive(Debug)]
pub struct Tracer {
    folder: PathBuf,
    cpu: u32,
    counts_ticks: bool,
    /// Outlives the instance, which is removed before this is dropped.
    _tracefs: Tracefs,
}

impl Tracer {
    /// Prepares tracing of one CPU, where tracefs is mounted or in a mount of our own. Tracing is still off.
    ///
    /// # Errors
    /// Why it is not possible.
    pub fn prepare(cpu: u32) -> Result<Self, Reason> {
        Self::prepare_in(Tracefs::open()?, cpu)
    }

    /// The same in this one.
    ///
    /// # Errors
    /// Why it is not possible.
    pub fn prepare_in(tracefs: Tracefs, cpu: u32) -> Result<Self, Reason> {
        let instances = tracefs.path().join("instances");
        remove_left_behind(&instances);
        let pid = std::process::id();
        let start_ticks = start_ticks(pid).ok_or("/proc does not say when this process started")?;
        let folder = instances.join(TracingInstance { pid, start_ticks }.to_string());
        fs::create_dir(&folder).map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
        // From here on it is removed when something goes wrong.
        let mut tracer = Self { folder, cpu, counts_ticks: false, _tracefs: tracefs };
        tracer.set_up()?;
        Ok(tracer)
    }

    fn set_up(&mut self) -> Result<(), Reason> {
        self.write("tracing_on", "0")?;
        self.write("buffer_size_kb", NO_BUFFER_KIB)?;
        self.write(&format!("per_cpu/cpu{}/buffer_size_kb", self.cpu), BUFFER_KIB)?;
        self.write("tracing_cpumask", &mask(self.cpu))?;
        // The counter itself is exact; the other clocks are printed in whole microseconds.
        self.counts_ticks = self.write("trace_clock", "x86-tsc").is_ok();
        if !self.counts_ticks {
            self.write("trace_clock", "mono")?;
        }
        for event in EVENTS {
            self.write(&format!("events/{event}/enable"), "1")?;
        }
        let vectors = fs::read_dir(self.folder.join("events").join(VECTORS)).into_iter().flatten().flatten();
        let names = vectors.filter_map(|entry| entry.file_name().into_string().ok());
        let paired = names.filter(|name| name.ends_with("_entry") || name.ends_with("_exit"));
        paired
            .take(MOST_VECTORS)
            .try_for_each(|name| self.write(&format!("events/{VECTORS}/{name}/enable"), "1"))
    }

    /// Begins.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn go(&self) -> Result<(), Reason> {
        self.write("tracing_on", "1")
    }

    /// Ends; nothing is read yet.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn halt(&self) -> Result<(), Reason> {
        self.write("tracing_on", "0")
    }

    /// The CPU that is traced.
    pub const fn cpu(&self) -> u32 {
        self.cpu
    }

    /// Reads what was traced, without the threads in `own`, and removes the instance. `late` are stretches on
    /// `CLOCK_MONOTONIC`; who had the CPU within them is told apart.
    ///
    /// # Errors
    /// The trace cannot be read.
    pub fn read(
        self,
        own: &[i32],
        counter: Option<Hertz>,
        late: &[Stretch],
    ) -> Result<(Told, Vec<TracedSource>), Reason> {
        let path = self.folder.join(format!("per_cpu/cpu{}/trace", self.cpu));
        let text = files::read_at_most(&path, MOST_TEXT)?;
        let counter = counter.filter(|_| self.counts_ticks);
        let windows = self.windows(counter, late).unwrap_or_default();
        Ok((trace_text::read(&text, own, counter), trace_windows::within(&text, own, counter, &windows)))
    }

    /// These stretches on the clock of the trace: both clocks are read now, and run alike for the length of a probe.
    fn windows(&self, counter: Option<Hertz>, late: &[Stretch]) -> Option<Vec<Window>> {
        let (ticks, now_ns) = (clock::ticks(), now_ns().ok()?);
        let trace_ns =
            if self.counts_ticks { Ticks::from_ticks(ticks).to_nanos(counter?).get() } else { now_ns };
        let on_trace = |at_ns: u64| trace_ns.saturating_sub(now_ns.saturating_sub(at_ns));
        let window = |stretch: &Stretch| Window {
            from_ns: on_trace(stretch.start_ns.get()),
            to_ns: on_trace(stretch.start_ns.saturating_add(stretch.length_ns).get()),
        };
        Some(late.iter().map(window).collect())
    }

    fn write(&self, file: &str, text: &str) -> Result<(), Reason> {
        files::set(&self.folder.join(file), text)
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        let _ = self.halt();
        // A folder of tracefs is removed with all that is in it.
        let _ = fs::remove_dir(&self.folder);
    }
}

/// Groups of 32 CPUs, highest first: CPU 33 is `2,00000000`.
fn mask(cpu: u32) -> String {
    format!("{:x}{}", 1u32 << (cpu % 32), ",00000000".repeat((cpu / 32) as usize))
}

/// Removes the instances of agents that are gone.
fn remove_left_behind(instances: &Path) {
    let names = fs::read_dir(instances)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok());
    for name in names {
        let gone =
            TracingInstance::parse(&name).is_some_and(|made| start_ticks(made.pid) != Some(made.start_ticks));
        if gone {
            let _ = files::set(&instances.join(&name).join("tracing_on"), "0");
            let _ = fs::remove_dir(instances.join(&name));
        }
    }
}

/// When a process started, field 22 of its `stat`; none when there is none.
fn start_ticks(pid: u32) -> Option<u64> {
    let stat = files::read(Path::new(&format!("/proc/{pid}/stat"))).ok()?;
    // The name in parentheses may contain anything; the fields behind the last one cannot.
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_are_groups_of_thirty_two() {
        assert_eq!([0, 5, 33, 64].map(mask), ["1", "20", "2,00000000", "1,00000000,00000000"]);
    }

    #[test]
    fn without_tracefs_the_reason_is_named_and_nothing_stays() {
        let folder = tempfile::tempdir().unwrap();
        assert!(
            Tracer::prepare_in(Tracefs::at(folder.path()), 0)
                .unwrap_err()
                .to_string()
                .contains("cannot make")
        );
        fs::create_dir(folder.path().join("instances")).unwrap();
        let refused = Tracer::prepare_in(Tracefs::at(folder.path()), 0).unwrap_err();
        assert!(refused.to_string().contains("tracing_on"), "{refused}");
        assert_eq!(fs::read_dir(folder.path().join("instances")).unwrap().count(), 0);
    }

    #[test]
    fn instances_of_the_dead_are_removed_and_others_stay() {
        let folder = tempfile::tempdir().unwrap();
        let living = TracingInstance { pid: 1, start_ticks: start_ticks(1).unwrap() };
        let dead = TracingInstance { pid: 1, start_ticks: living.start_ticks + 1 };
        let names = [living.to_string(), dead.to_string(), "rtla".to_owned()];
        for name in &names {
            fs::create_dir(folder.path().join(name)).unwrap();
        }
        remove_left_behind(folder.path());
        let there: Vec<bool> = names.iter().map(|name| folder.path().join(name).exists()).collect();
        assert_eq!(there, [true, false, true]);
    }
}
