//! Made-up runs for the tests of verdicts: cells whose figures are known, without a journal.

use model::exceedance::{Exceedance, ExceedancePoint, Quantile};
use model::experiment::Experiment;
use model::journal::{Cell, Failure, FailureKind, Neighbour, PlatformState};
use model::preflight::Preflight;
use model::results::{CellResult, FailedMeasurement, MetricResult, RunResults};
use probes::ProbeKind;
use probes::probe::Whole;
use units::Nanos;
use units::facts::MachineFacts;
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
        at_most: None,
        against_alone: None,
        against_undisturbed: against,
    };
    match run.cells.iter_mut().find(|result| result.cell == *cell) {
        Some(result) => result.metrics.push(metric),
        None => run.cells.push(CellResult { done: 9, metrics: vec![metric], ..CellResult::unmeasured(cell) }),
    }
}

/// Says that in a cell this share of so many draws was later than 10 ms, and how long a measurement took.
pub(crate) fn with_late(run: &mut RunResults, cell: &Cell, share: f64, draws: u64) {
    let point = |at_ms: u64, share: f64| ExceedancePoint {
        longer_than_ns: Nanos::from_nanos(at_ms * 1_000_000),
        share,
        draw_ns: Nanos::from_nanos(10_000_000),
        is_from_scatter: false,
    };
    let known = Exceedance {
        of: Whole::Activations,
        period_ns: Nanos::from_nanos(10_000_000),
        observed_ns: Nanos::from_nanos(draws * 10_000_000),
        longest_ns: Nanos::from_nanos(2_000_000),
        confidence: 0.95,
        draw_per_time: 1.0,
        quantiles: vec![Quantile { metric: "bound_99_9_ns".to_owned(), beyond_share: 0.001 }],
        points: vec![point(1, share), point(10, share), point(20, 0.0)],
    };
    if let Some(result) = run.cells.iter_mut().find(|result| result.cell == *cell) {
        result.exceedance = Some(known);
        result.took_ns = Some(Nanos::from_nanos(1_000_000_000));
    }
}

/// Adds a cell all of whose measurements broke.
pub(crate) fn broken(run: &mut RunResults, cell: &Cell, kind: FailureKind) {
    run.cells.push(CellResult { failed: 9, ..CellResult::unmeasured(cell) });
    let failure = Failure { kind, reason: "the reason".to_owned(), console: Vec::new() };
    run.failures.push(FailedMeasurement { cell: cell.clone(), round: 0, failure });
}
