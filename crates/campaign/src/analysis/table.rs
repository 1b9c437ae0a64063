//! Measurements sorted by cell and round, each with its metrics: what every later step reads from.

use std::collections::{BTreeMap, BTreeSet};

use crate::history::main_metric;
use analysis::joint::metrics_of_measurement;
use model::journal::{Cell, Failure, Measurement, Outcome};
use probes::job::{PlacedDose, ProbeReport};
use units::Nanos;
use units::accounts::HostAccount;
use units::metric::{Figure, Metric};
use units::scheduling::Scheduling;

/// One measurement that was done.
pub(super) struct Round<'a> {
    pub(super) number: u32,
    pub(super) measurement: &'a Measurement,
    pub(super) report: &'a ProbeReport,
    pub(super) doses: &'a [PlacedDose],
    pub(super) host: Option<&'a HostAccount>,
    pub(super) metrics: Vec<Metric>,
}

impl Round<'_> {
    /// This round's value of a metric.
    pub(super) fn value(&self, id: &str) -> Option<f64> {
        self.metrics.iter().find(|metric| metric.id == id).and_then(|metric| metric.figure.value())
    }
}

/// All measurements of one cell.
#[derive(Default)]
pub(super) struct Row<'a> {
    /// Those that were done, ascending by round.
    pub(super) rounds: Vec<Round<'a>>,
    /// Those that broke.
    pub(super) failures: Vec<(u32, &'a Failure)>,
}

impl Row<'_> {
    /// Every metric of the cell once, in the order of their first round; its figure is the last round's reason when no
    /// round yielded a value.
    pub(super) fn metrics(&self) -> Vec<&Metric> {
        let mut all: Vec<&Metric> = Vec::new();
        for metric in self.rounds.iter().flat_map(|round| &round.metrics) {
            match all.iter_mut().find(|known| known.id == metric.id) {
                None => all.push(metric),
                Some(known) if matches!(known.figure, Figure::Unsupported(_)) => *known = metric,
                Some(_) => {}
            }
        }
        all
    }

    /// Every way in which the threads of the probe were scheduled, each once, in any instance.
    pub(super) fn scheduling(&self) -> Vec<Scheduling> {
        let outcomes = self.rounds.iter().flat_map(|round| round.measurement.outcomes());
        let ways = outcomes.filter_map(|outcome| match outcome {
            Outcome::Done(report) => report.detail.scheduling(),
            Outcome::Failed(_) => None,
        });
        ways.collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// How long a measurement that was done took on average.
    pub(super) fn mean_time(&self) -> Option<Nanos> {
        let count = u64::try_from(self.rounds.len()).ok().filter(|count| *count > 0)?;
        let times = self.rounds.iter().map(|round| round.measurement.duration_ns);
        Some(Nanos::from_nanos(times.fold(Nanos::ZERO, Nanos::saturating_add).get() / count))
    }

    /// `(round, value)` of a metric.
    pub(super) fn samples(&self, id: &str) -> Vec<(u32, f64)> {
        self.rounds.iter().filter_map(|round| Some((round.number, round.value(id)?))).collect()
    }

    /// The round whose main metric is the median, the lower one of two; the first round when none has a figure.
    pub(super) fn median_round(&self) -> Option<&Round<'_>> {
        let mut by_value: Vec<(f64, &Round<'_>)> = self
            .rounds
            .iter()
            .filter_map(|round| Some((main_metric(&round.metrics)?.figure.value()?, round)))
            .collect();
        by_value.sort_by(|a, b| a.0.total_cmp(&b.0));
        let middle = by_value.len().saturating_sub(1) / 2;
        by_value.get(middle).map(|(_, round)| *round).or_else(|| self.rounds.first())
    }
}

fn first_report(measurement: &Measurement) -> Option<(usize, &ProbeReport)> {
    measurement.outcomes().enumerate().find_map(|(rank, outcome)| match outcome {
        Outcome::Done(report) => Some((rank, report.as_ref())),
        Outcome::Failed(_) => None,
    })
}

/// Every cell that was measured at least once.
pub(super) struct Table<'a> {
    rows: BTreeMap<&'a Cell, Row<'a>>,
}

impl<'a> Table<'a> {
    pub(super) fn of(measurements: &'a [Measurement]) -> Self {
        let mut rows: BTreeMap<&Cell, Row<'a>> = BTreeMap::new();
        for measurement in measurements {
            let row = rows.entry(&measurement.cell).or_default();
            if let Some(failure) = measurement.broke() {
                row.failures.push((measurement.round, failure));
                continue;
            }
            // The first one that came through; the host looked at the first of all.
            let Some((rank, report)) = first_report(measurement) else { continue };
            row.rounds.push(Round {
                number: measurement.round,
                measurement,
                report,
                doses: &measurement.doses,
                host: measurement.host.as_ref().filter(|_| rank == 0),
                metrics: metrics_of_measurement(measurement).unwrap_or_default(),
            });
        }
        for row in rows.values_mut() {
            row.rounds.sort_by_key(|round| round.number);
            row.failures.sort_by_key(|(round, _)| *round);
        }
        Self { rows }
    }

    /// All that is known of a cell.
    pub(super) fn row(&self, cell: &Cell) -> Option<&Row<'a>> {
        self.rows.get(cell)
    }
}
