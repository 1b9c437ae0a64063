//! Keeps the books of one probe: a snapshot before it, one after it, and the tracer between them when asked for.

use super::snapshot::Snapshot;
use super::tracer::Tracer;
use crate::clock::Anchor;
use crate::detail::{Detail, Stretch};
use crate::error::WorkError;
use crate::job::ProbeReport;
use crate::pin::allowed_cpus;
use units::Reason;

/// The books of one probe, open. To be begun and ended on the thread that calls the probe.
#[derive(Debug)]
pub struct Watch {
    tracing: Result<(Tracer, Anchor), Reason>,
    before: Snapshot,
}

impl Watch {
    /// Opens the books; with `trace` the kernel's tracer runs from now on, where it may.
    pub fn begin(trace: bool) -> Self {
        let tracing = if trace {
            start_tracing()
        } else {
            Err("not asked for (trace = true in the experiment asks for it)".into())
        };
        let before = Snapshot::take();
        let tracing = tracing.and_then(|(tracer, anchor)| tracer.go().map(|()| (tracer, anchor)));
        Self { tracing, before }
    }

    /// Closes the books and adds them to the report of a probe that succeeded.
    ///
    /// # Errors
    /// Only the probe's own.
    pub fn end(self, outcome: Result<ProbeReport, WorkError>) -> Result<ProbeReport, WorkError> {
        let Self { tracing, before } = self;
        let halted = tracing.and_then(|(tracer, anchor)| tracer.halt().map(|()| (tracer, anchor)));
        let after = Snapshot::take();
        let mut report = outcome?;
        let mut accounts = after.accounts_since(&before);
        let told = halted.and_then(|(tracer, anchor)| {
            let late = latest_wakeups(&report.detail, tracer.cpu());
            tracer.read(after.own_threads(), anchor.rate_since().ok(), &late)
        });
        match told {
            Ok((told, late)) => {
                if told.lost_events > 0 {
                    accounts.unknown.push(format!(
                        "tracing: {} events did not fit into the kernel's buffer; measure for a shorter time",
                        told.lost_events
                    ));
                }
                accounts.traced = told.sources;
                accounts.traced_late = late;
            }
            Err(reason) => accounts.unknown.push(super::table::tamed(&format!("tracing: {reason}"), 400)),
        }
        report.accounts = Some(accounts);
        Ok(report)
    }
}

/// The latest wake-ups of the thread on this CPU, on `CLOCK_MONOTONIC`.
fn latest_wakeups(detail: &Detail, cpu: u32) -> Vec<Stretch> {
    let Detail::Wakeup(wakeup) = detail else { return Vec::new() };
    let here = wakeup.threads.iter().filter(|thread| thread.cpu == Some(cpu));
    here.filter_map(|thread| Some((thread, thread.began_ns?)))
        .flat_map(|(thread, began_ns)| {
            thread.worst.iter().map(move |late| Stretch {
                start_ns: began_ns.saturating_add(late.start_ns),
                length_ns: late.length_ns,
            })
        })
        .collect()
}

/// Probes that measure on one CPU pin themselves to the last one they may use.
fn start_tracing() -> Result<(Tracer, Anchor), Reason> {
    let cpu = allowed_cpus().last().and_then(|cpu| u32::try_from(*cpu).ok());
    let tracer = Tracer::prepare(cpu.ok_or("the kernel does not say which CPUs are allowed")?)?;
    Ok((tracer, Anchor::take().map_err(|error| error.to_string())?))
}
