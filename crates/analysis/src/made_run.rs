//! Made-up runs for the tests of verdicts: cells whose figures are known, without a journal.

use model::experiment::Experiment;
use model::journal::{Cell, Failure, FailureKind, Neighbour, PlatformState};
use model::preflight::Preflight;
use model::results::{CellResult, FailedMeasurement, MetricResult, RunResults};
use probes::ProbeKind;
use probes::detail::{Detail, WakeupDetail, WakeupThread};
use units::Nanos;
use units::facts::MachineFacts;
use units::histogram::Histogram;
use units::metric::{Better, Unit};
use units::names::{LoadKind, LoadPlace, PlatformKind};

use stats::interval::median_interval;
use stats::pairs::compare;

/// The neighbour of most tests.
pub(crate) const CPU: Neighbour = Neighbour { kind: LoadKind::Cpu, place: LoadPlace::Second };
/// Another one.
pub(crate) const DISK: Neighbour = Neighbour { kind: LoadKind::Disk, place: LoadPlace::Second };

/// A run of `native` (the baseline) and `vm` without a cell.
pub(crate) fn run() -> RunResults {
    let platform = |label: &str, kind: PlatformKind| PlatformState {
        label: label.to_owned(),
        kind,
        unavailable: None,
        properties: Vec::new(),
        facts: None,
        start_ns: None,
    };
    let text = "[[platform]]\nlabel = \"native\"\nkind = \"native\"\n[[platform]]\nlabel = \"vm\"\nkind = \"vm\"\n\
                [probe.gap]\n";
    RunResults {
        schema_version: model::SCHEMA_VERSION,
        bulkhead_version: String::new(),
        experiment: Experiment::from_toml(text).unwrap(),
        started_unix_ns: Nanos::ZERO,
        measured_ns: Nanos::ZERO,
        complete: true,
        host: MachineFacts::default(),
        preflight: Preflight { checks: Vec::new() },
        dirty: Vec::new(),
        platforms: vec![platform("native", PlatformKind::Native), platform("vm", PlatformKind::Vm)],
        sessions: Vec::new(),
        lost: Vec::new(),
        clocks: Vec::new(),
        policies: Vec::new(),
        made_up: Vec::new(),
        verdicts: Vec::new(),
        cells: Vec::new(),
        failures: Vec::new(),
        isolation: Vec::new(),
        classes: Vec::new(),
        simulation: None,
    }
}

pub(crate) fn cell(platform: &str, probe: ProbeKind, neighbour: Option<Neighbour>) -> Cell {
    Cell { probe, neighbour, platform: platform.to_owned(), layout: None }
}

/// Adds a figure of this typical value, ± 1 % over nine rounds, to a cell of the run. A cell that is disturbed is
/// compared with the undisturbed one, which must be there already.
pub(crate) fn measured(run: &mut RunResults, cell: &Cell, id: &str, value: f64) {
    let samples: Vec<(u32, f64)> =
        (0..9).map(|round| (round, value * (0.99 + 0.0025 * f64::from((round * 4) % 9)))).collect();
    let better = if id.ends_with("_per_s") { Better::Higher } else { Better::Lower };
    let quiet = Cell { neighbour: None, ..cell.clone() };
    let against = cell.neighbour.and_then(|_| {
        let quiet = run.cells.iter().find(|result| result.cell == quiet)?;
        let other = quiet.metrics.iter().find(|metric| metric.id == id)?;
        let pairs: Vec<(f64, f64)> =
            samples.iter().zip(&other.samples).map(|(this, other)| (this.1, other.1)).collect();
        Some(compare(&pairs, better, 0.95))
    });
    let values: Vec<f64> = samples.iter().map(|(_, value)| *value).collect();
    let metric = MetricResult {
        id: id.to_owned(),
        title: format!("title of {id}"),
        unit: match id {
            _ if id.ends_with("_ns") => Unit::Nanoseconds,
            _ if id.ends_with("bytes_per_s") => Unit::BytesPerSecond,
            _ if id.ends_with("_share") => Unit::Share,
            _ => Unit::Count,
        },
        better,
        headline: true,
        samples,
        estimate: median_interval(&values, 0.95, 0),
        against_baseline: None,
        against_alone: None,
        against_undisturbed: against,
    };
    match run.cells.iter_mut().find(|result| result.cell == *cell) {
        Some(result) => result.metrics.push(metric),
        None => run.cells.push(CellResult { done: 9, metrics: vec![metric], ..CellResult::unmeasured(cell) }),
    }
}

/// Says how often the wake-ups of a cell were due in each round.
pub(crate) fn with_activations(run: &mut RunResults, cell: &Cell, due: u64) {
    let thread = WakeupThread {
        cpu: None,
        began_ns: None,
        due,
        missed: 0,
        service_ns: Histogram::default(),
        response_ns: Histogram::default(),
        worst: Vec::new(),
        witnessed: Vec::new(),
    };
    let detail =
        WakeupDetail { period_ns: Nanos::from_nanos(1_000_000), priority: None, threads: vec![thread] };
    if let Some(result) = run.cells.iter_mut().find(|result| result.cell == *cell) {
        result.detail = Some(Detail::Wakeup(detail));
    }
}

/// Adds a cell all of whose measurements broke.
pub(crate) fn broken(run: &mut RunResults, cell: &Cell, kind: FailureKind) {
    run.cells.push(CellResult { failed: 9, ..CellResult::unmeasured(cell) });
    let failure = Failure { kind, reason: "the reason".to_owned(), console: Vec::new() };
    run.failures.push(FailedMeasurement { cell: cell.clone(), round: 0, failure });
}
