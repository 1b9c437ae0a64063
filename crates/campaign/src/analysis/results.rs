//! Puts the parts together: cells with estimates and comparisons, failures, dirtiness, verdicts.

use super::attribution::{attribution, sides};
use super::clocks::{clocks, spans};
use super::comparisons::{CONFIDENCE, Comparer};
use super::detail::{detail, doses, gaps, median_rate, notes};
use super::policies::policies;
use super::table::{Row, Table};
use super::verdicts::verdicts;
use crate::decide::confidence_of;
use crate::history::History;
use crate::journal::Contents;
use crate::plan::{Next, Plan};
use crate::predict::plan_of;
use crate::seed::Seed;
use crate::survey::{baseline, measured};
use analysis::exceedance;
use analysis::isolation::matrices;
use model::SCHEMA_VERSION;
use model::exceedance::Exceedance;
use model::experiment::Experiment;
use model::journal::{Cell, Header, Measurement};
use model::results::{CellResult, FailedMeasurement, MetricResult, RunResults, made_up};
use probes::probe::Lengths;
use stats::bound::bound_interval;
use stats::interval::median_interval;
use stats::tail::pooled_quantile;
use units::Hertz;
use units::accounts::HostAccount;
use units::histogram::Histogram;
use units::metric::{Answer, Estimate, Figure, Metric};
use units::names::PlatformKind;

/// Everything the journal says; none when it was cut off before its header.
pub fn analyse(experiment: &Experiment, contents: &Contents) -> Option<RunResults> {
    let header = contents.headers.first()?;
    let states = contents.platforms.clone().unwrap_or_default();
    let labels = measured(&states);
    let used_baseline =
        baseline(experiment, &states).unwrap_or_else(|| experiment.baseline_label().to_owned());
    let table = Table::of(&contents.measurements);
    let wanted: Vec<Cell> =
        experiment.cells().into_iter().filter(|cell| labels.contains(&cell.platform)).collect();
    let seed = experiment.seed.unwrap_or_default();
    let comparer = Comparer::new(&table, &wanted, &used_baseline, &states);
    let cells: Vec<CellResult> = wanted
        .iter()
        .map(|cell| {
            let confidence = confidence_of(&contents.looks, cell, CONFIDENCE);
            cell_result(cell, table.row(cell), &comparer, seed, confidence)
        })
        .collect();
    let history = History::of(&contents.measurements)
        .with_lost_lines(!contents.lost.is_empty())
        .with_looks(&contents.looks);
    let plan = plan_of(experiment, &header.host, &states, &used_baseline);
    // Machines reached by ssh have CPUs of their own.
    let host_cpus = |label: &str| {
        let state = states.iter().find(|state| state.label == label);
        let facts =
            state.filter(|state| state.kind == PlatformKind::Ssh).and_then(|state| state.facts.as_ref());
        facts.map_or(header.host.cpus, |facts| facts.cpus)
    };
    let mut results = RunResults {
        schema_version: SCHEMA_VERSION,
        bulkhead_version: header.bulkhead_version.clone(),
        experiment: Experiment { baseline: Some(used_baseline), ..experiment.clone() },
        started_unix_ns: header.started_unix_ns,
        measured_ns: history.spent(),
        complete: !labels.is_empty() && is_complete(&plan, &history, contents),
        host: header.host.clone(),
        preflight: header.preflight.clone(),
        dirty: dirty(&contents.headers),
        sessions: contents.sessions.clone(),
        lost: contents.lost.clone(),
        clocks: clocks(&states, &contents.measurements),
        platforms: states.clone(),
        made_up: made_up(&states),
        verdicts: Vec::new(),
        policies: policies(&labels, &contents.measurements, &host_cpus),
        failures: failures(&wanted, &contents.measurements),
        cells,
        isolation: Vec::new(),
        classes: Vec::new(),
        simulation: None,
    };
    results.verdicts = verdicts(experiment.baseline_label(), &results);
    results.isolation = matrices(&results);
    Some(results)
}

/// Whether all that was planned is measured: as its last session says, or as the plan does where that was killed or lines are
/// lost. Older programs did not say it, and planned otherwise.
fn is_complete(plan: &Plan, history: &History, contents: &Contents) -> bool {
    let said =
        contents.sessions.last().filter(|session| contents.lost.is_empty() && session.took_ns.is_some());
    let said = said.is_some_and(|session| session.is_done.unwrap_or_else(|| plan.has_the_least(history)));
    said || matches!(plan.next(history), Next::Done(_))
}

/// Reasons of every session; a host that changed between two sessions is one, too.
fn dirty(headers: &[Header]) -> Vec<String> {
    let mut reasons: Vec<String> = Vec::new();
    let mut add = |reason: String| {
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    };
    let first_host = headers.first().map(|header| &header.host);
    for (session, header) in headers.iter().enumerate() {
        for reason in header.preflight.dirty_reasons() {
            add(if session == 0 { reason } else { format!("{reason} (after resume {session})") });
        }
        let is_other = |first: &units::facts::MachineFacts| {
            first.cpu_model != header.host.cpu_model
                || first.kernel != header.host.kernel
                || first.cpus != header.host.cpus
        };
        if first_host.is_some_and(is_other) {
            add(format!("the host had another CPU, kernel or number of CPUs after resume {session}"));
        }
    }
    reasons
}

/// In the order in which they broke.
fn failures(cells: &[Cell], measurements: &[Measurement]) -> Vec<FailedMeasurement> {
    let wanted = measurements.iter().filter(|measurement| cells.contains(&measurement.cell));
    let broken = wanted.flat_map(|measurement| {
        let instances = measurement.broken_instances().map(|(_, failure)| failure);
        let all: Vec<_> = measurement.broke().map_or_else(|| instances.collect(), |failure| vec![failure]);
        all.into_iter().map(|failure| FailedMeasurement {
            cell: measurement.cell.clone(),
            round: measurement.round,
            failure: failure.clone(),
        })
    });
    broken.collect()
}

fn cell_result(
    cell: &Cell,
    row: Option<&Row<'_>>,
    comparer: &Comparer<'_>,
    seed: u64,
    confidence: f64,
) -> CellResult {
    let Some(row) = row else { return CellResult::unmeasured(cell) };
    let seed = Seed::of_run(seed).with_text("estimate").with_group(cell).with_text(&cell.platform);
    let mut notes = notes(row);
    let exceedance = exceedance_of(cell, row, confidence);
    let of_metric = |metric: &Metric| {
        let estimate = missed(exceedance.as_ref(), row, metric).unwrap_or_else(|| {
            estimate(cell, row, metric, (seed.with_text(&metric.id).get(), confidence), &mut notes)
        });
        let known = exceedance.as_ref().filter(|_| estimate.estimate().is_none());
        let words = known.and_then(|known| exceedance::in_words(known, &metric.id));
        MetricResult {
            id: metric.id.clone(),
            title: metric.title.clone(),
            unit: metric.unit,
            better: metric.better,
            headline: metric.headline,
            samples: row.samples(&metric.id),
            estimate: words.map_or(estimate, Answer::Unsupported),
            at_most: known.and_then(|known| exceedance::at_most(known, &metric.id)),
            against_baseline: comparer.against_baseline(cell, metric),
            against_undisturbed: comparer.against_undisturbed(cell, metric),
            against_alone: comparer.against_alone(cell, metric),
        }
    };
    let metrics = row.metrics().into_iter().map(of_metric).collect();
    let typical = row.median_round();
    CellResult {
        cell: cell.clone(),
        done: count(row.rounds.len()),
        failed: count(row.failures.len()),
        metrics,
        detail: detail(row),
        exceedance,
        confidence: (confidence != CONFIDENCE).then_some(confidence),
        took_ns: row.mean_time(),
        clock: typical.map(|round| round.report.clock.clone()),
        cost: typical.map(|round| round.report.cost.clone()),
        doses: doses(row),
        outside: spans(row),
        attribution: attribution(row),
        sides: sides(row),
        host: typical.and_then(|round| round.host).and_then(of_memory),
        scheduling: row.scheduling(),
        notes,
    }
}

/// A share of missed ones, of all rounds together; none for other metrics.
fn missed(known: Option<&Exceedance>, row: &Row<'_>, metric: &Metric) -> Option<Answer> {
    let known = known.filter(|_| metric.id == exceedance::MISSED)?;
    let values: Vec<f64> = row.samples(&metric.id).into_iter().map(|(_, value)| value).collect();
    let mean = (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)?;
    exceedance::missed(known, mean).map(Answer::Estimate)
}

/// How often things took longer, in the rounds of one instance.
fn exceedance_of(cell: &Cell, row: &Row<'_>, confidence: f64) -> Option<Exceedance> {
    let lengths = row.rounds.iter().filter(|_| cell.layout.is_none());
    let rounds: Vec<Lengths> = lengths.filter_map(|round| round.report.detail.lengths()).collect();
    exceedance::of_rounds(&rounds, confidence)
}

/// The host's account where it tells of memory, without its slices.
fn of_memory(host: &HostAccount) -> Option<HostAccount> {
    host.memory.is_some().then(|| HostAccount { slices: Vec::new(), ..host.clone() })
}

fn count(length: usize) -> u32 {
    u32::try_from(length).unwrap_or(u32::MAX)
}

/// The typical value with its interval. That of a bound comes from the pooled batches of all rounds; where too few of
/// them hold the time that decides it (a neighbour's few long slices, say), from the rounds' own bounds, with a note. A
/// quantile that no round is long enough for comes from the values of all rounds. That of several instances at once comes
/// from the rounds' medians over the instances.
fn estimate(
    cell: &Cell,
    row: &Row<'_>,
    metric: &Metric,
    (seed, confidence): (u64, f64),
    notes: &mut Vec<String>,
) -> Answer {
    let values: Vec<f64> = row.samples(&metric.id).into_iter().map(|(_, value)| value).collect();
    if let Some(share) = share_of_bound(&metric.id).filter(|_| cell.layout.is_none()) {
        let gaps = gaps(row);
        let batches: Vec<Histogram> = gaps.iter().flat_map(|gap| gap.batches.iter().cloned()).collect();
        let rate = median_rate(&gaps);
        return match bound_interval(&batches, share, confidence, seed) {
            Answer::Estimate(ticks) => Answer::Estimate(to_nanos(&ticks, rate)),
            Answer::Unsupported(reason) => match median_interval(&values, confidence, seed) {
                Answer::Estimate(median) => {
                    notes.push(format!("{}: median of the rounds' own bounds, because {reason}", metric.id));
                    Answer::Estimate(median)
                }
                Answer::Unsupported(_) => Answer::Unsupported(reason),
            },
        };
    }
    match (&metric.figure, values.is_empty()) {
        (Figure::Unsupported(reason), true) => of_all_rounds(cell, row, &metric.id, confidence)
            .unwrap_or_else(|| Answer::Unsupported(reason.clone())),
        _ => median_interval(&values, confidence, seed),
    }
}

/// A quantile of the values of all rounds of one instance; none for metrics that are none.
fn of_all_rounds(cell: &Cell, row: &Row<'_>, id: &str, confidence: f64) -> Option<Answer> {
    let tails = row.rounds.iter().filter_map(|round| round.report.detail.tail(id));
    let (rounds, quantiles): (Vec<Histogram>, Vec<f64>) = tails.unzip();
    let q = quantiles.first().filter(|_| cell.layout.is_none())?;
    Some(pooled_quantile(&rounds, *q, confidence))
}

/// `bound_99_9_ns` is the bound of a share of 0.999.
fn share_of_bound(id: &str) -> Option<f64> {
    let percent = id.strip_prefix("bound_")?.strip_suffix("_ns")?;
    let (whole, decimals) = percent.split_once('_').unwrap_or((percent, ""));
    let is_number =
        whole.len() == 2 && whole.bytes().chain(decimals.bytes()).all(|byte| byte.is_ascii_digit());
    is_number.then(|| format!("0.{whole}{decimals}").parse().ok()).flatten()
}

fn to_nanos(ticks: &Estimate, rate: Hertz) -> Estimate {
    let scale = 1e9 / rate.as_f64().max(f64::MIN_POSITIVE);
    Estimate {
        value: ticks.value * scale,
        low: ticks.low * scale,
        high: ticks.high * scale,
        confidence: ticks.confidence,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_is_read_off_a_bounds_name() {
        assert_eq!(share_of_bound("bound_95_ns"), Some(0.95));
        assert_eq!(share_of_bound("bound_99_9_ns"), Some(0.999));
        assert_eq!(share_of_bound("bound_100_ns"), None);
        assert_eq!(share_of_bound("boundary_95_ns"), None);
        assert_eq!(share_of_bound("bound_x_ns"), None);
    }
}
