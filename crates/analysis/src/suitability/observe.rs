//! What was measured of a figure: each cell that counts, with the value that is held against a bound.

use std::collections::{BTreeMap, BTreeSet};

use model::classes::{Against, Beside, MetricName, Missing};
use model::journal::{Cell, FailureKind, Neighbour};
use model::results::{CellResult, MetricResult, RunResults};
use probes::detail::Detail;
use units::metric::{Answer, Better, Estimate, Unit};
use units::names::{LoadKind, nearest};
use units::scheduling::incomparable;

use super::super::fair_share::{fair_share, parties};
use stats::pairs::compare;

/// Confidence of the ratios.
const CONFIDENCE: f64 = 0.95;

/// What is looked at.
pub(super) struct Looked<'a> {
    pub(super) results: &'a RunResults,
    pub(super) platform: &'a str,
    /// Neighbours that are taken as not measured.
    pub(super) left_out: BTreeSet<Neighbour>,
}

/// A figure in one cell.
#[derive(Debug, Clone)]
pub(super) struct Observation {
    pub(super) cell: Cell,
    /// What the figure says; empty when the cell yielded none.
    pub(super) title: String,
    /// Unit of the value; none for a ratio.
    pub(super) unit: Option<Unit>,
    pub(super) value: Seen,
}

/// What was seen.
#[derive(Debug, Clone)]
pub(super) enum Seen {
    /// The value with its interval.
    Value(Estimate),
    /// Of so many activations none took longer than this, nanoseconds.
    Never {
        /// The longest.
        longest: f64,
        /// Of how many.
        of: u64,
    },
    /// The data supports none; why.
    Unsupported(String),
    /// Every measurement broke, because the instance died or hung.
    Perished(String),
    /// Nothing was measured.
    Nothing {
        /// Why.
        why: String,
        /// What to do about it.
        todo: String,
        /// What the experiment left out; none when it was tried.
        missing: Option<Missing>,
    },
}

impl Looked<'_> {
    /// Every cell that counts for a figure. Where nothing was measured, one says why; empty only when all that was
    /// measured is left out.
    pub(super) fn observations(
        &self,
        metric: &MetricName,
        against: Against,
        beside: &Beside,
    ) -> Vec<Observation> {
        let mut all: Vec<Observation> = self
            .results
            .cells
            .iter()
            .filter(|result| self.is_meant(&result.cell, metric, against, beside))
            .map(|result| self.observe(result, metric, against))
            .collect();
        let disturbed = |observation: &Observation| {
            observation.cell.layout.is_some()
                || observation.cell.neighbour.is_some_and(|neighbour| neighbour.kind != LoadKind::Idle)
        };
        let lacks_neighbours = *beside != Beside::Alone && !all.iter().any(disturbed);
        if self.left_out.is_empty() && (all.is_empty() || lacks_neighbours) {
            all.push(self.nothing(metric, beside, all.is_empty()));
        }
        all
    }

    /// The longest of all activations of a cell and their number, if the cell says both. `metric` is the longest of each
    /// round.
    pub(super) fn longest_of_all(&self, cell: &Cell, metric: &MetricName) -> Option<(f64, u64)> {
        let result = self.results.cells.iter().find(|result| result.cell == *cell)?;
        let found = result.metrics.iter().find(|found| found.id == metric.id)?;
        let every_round = found.samples.len() == usize::try_from(result.done).ok()?;
        let longest = found.samples.iter().map(|(_, value)| *value).reduce(f64::max)?;
        let of = activations(result.detail.as_ref()?)?.saturating_mul(u64::from(result.done));
        (every_round && longest.is_finite()).then_some((longest, of))
    }

    fn is_meant(&self, cell: &Cell, metric: &MetricName, against: Against, beside: &Beside) -> bool {
        if cell.platform != self.platform || cell.probe != metric.probe {
            return false;
        }
        match cell.neighbour {
            Some(neighbour) => beside.counts(neighbour) && !self.left_out.contains(&neighbour),
            // Several instances of a platform are each other's neighbours.
            None if against == Against::FairShare => cell.layout.is_some() && !cell.probe.is_made_together(),
            None => against != Against::Undisturbed,
        }
    }

    fn observe(&self, result: &CellResult, metric: &MetricName, against: Against) -> Observation {
        let found = result.metrics.iter().find(|found| found.id == metric.id);
        let (value, unit) = match found {
            None => (self.missing(result, metric), None),
            Some(found) => self.held_against(result, found, against),
        };
        Observation {
            cell: result.cell.clone(),
            title: found.map_or_else(String::new, |found| found.title.clone()),
            unit,
            value,
        }
    }

    fn held_against(
        &self,
        result: &CellResult,
        found: &MetricResult,
        against: Against,
    ) -> (Seen, Option<Unit>) {
        let baseline = self.results.experiment.baseline_label();
        let cell = &result.cell;
        match against {
            Against::Value => (Seen::of(&found.estimate), Some(found.unit)),
            Against::Baseline if cell.platform == baseline => (Seen::Value(ONE), None),
            Against::Baseline => {
                let other = Cell { platform: baseline.to_owned(), ..cell.clone() };
                (self.ratio(result, found, &other), None)
            }
            Against::Undisturbed => {
                (self.ratio(result, found, &Cell { neighbour: None, ..cell.clone() }), None)
            }
            Against::FairShare => {
                let parties = parties(cell);
                let other = match cell.neighbour {
                    Some(_) => Cell { neighbour: None, ..cell.clone() },
                    None => Cell { layout: None, ..cell.clone() },
                };
                (self.ratio(result, found, &other).of_fair_share(found.better, parties), None)
            }
        }
    }

    /// This figure over the same in another cell, from the rounds in which both were measured.
    fn ratio(&self, result: &CellResult, this: &MetricResult, other: &Cell) -> Seen {
        let other = self.results.cells.iter().find(|result| result.cell == *other);
        let why = other.and_then(|other| incomparable(&result.scheduled(), &other.scheduled()));
        if let Some(why) = why {
            let probe = result.cell.probe;
            let todo = format!(
                "measure both with the same right to real-time priority (CAP_SYS_NICE or an rtprio limit), or with \
                 priority = 0 in [probe.{probe}]"
            );
            return Seen::Nothing { why: format!("{probe}: {why}"), todo, missing: None };
        }
        let Some(other) = other.and_then(|result| result.metrics.iter().find(|metric| metric.id == this.id))
        else {
            return Seen::Unsupported("what it is compared with was not measured".to_owned());
        };
        let others: BTreeMap<u32, f64> = other.samples.iter().copied().collect();
        let pairs: Vec<(f64, f64)> =
            this.samples.iter().filter_map(|(round, value)| Some((*value, *others.get(round)?))).collect();
        Seen::of(&compare(&pairs, this.better, CONFIDENCE).ratio)
    }

    /// Why a cell yielded no such figure.
    fn missing(&self, result: &CellResult, metric: &MetricName) -> Seen {
        if result.done > 0 {
            let known: Vec<&str> = result.metrics.iter().map(|known| known.id.as_str()).collect();
            let hint = nearest(&metric.id, &known);
            let hint = hint.map_or_else(String::new, |name| format!("; did you mean \"{name}\"?"));
            return Seen::Nothing {
                why: format!("{} yields no figure \"{}\"", metric.probe, metric.id),
                todo: format!("name a figure that it yields in the file of classes{hint}"),
                missing: None,
            };
        }
        let failed = self.results.failures.iter().find(|failed| failed.cell == result.cell);
        match failed.map(|failed| &failed.failure) {
            Some(failure) if matches!(failure.kind, FailureKind::Died | FailureKind::Hung) => {
                Seen::Perished(failure.reason.clone())
            }
            Some(failure) => Seen::Nothing {
                why: format!("every measurement of {} broke: {}", metric.probe, failure.reason),
                todo: "mend what broke and measure again".to_owned(),
                missing: None,
            },
            None => Seen::Nothing {
                why: format!("{} is not measured yet", metric.probe),
                todo: "go on with --resume".to_owned(),
                missing: None,
            },
        }
    }

    /// Says what to add to the experiment.
    fn nothing(&self, metric: &MetricName, beside: &Beside, at_all: bool) -> Observation {
        let probe = metric.probe;
        let in_experiment = self.results.cells.iter().any(|cell| cell.cell.probe == probe);
        let missing = Some(Missing { probe, beside_neighbours: in_experiment });
        let (why, todo) = if at_all && !in_experiment {
            (format!("{probe} was not measured"), format!("add [probe.{probe}] to the experiment"))
        } else {
            let whom = match beside {
                Beside::Named(_) => format!("beside none of: {beside}"),
                _ => "beside no neighbour".to_owned(),
            };
            (format!("{probe} was measured {whom}"), "add a [[load]] for it to the experiment".to_owned())
        };
        Observation {
            cell: Cell { probe, neighbour: None, platform: self.platform.to_owned(), layout: None },
            title: String::new(),
            unit: None,
            value: Seen::Nothing { why, todo, missing },
        }
    }
}

/// How often something was due in one round, where a probe counts that.
fn activations(detail: &Detail) -> Option<u64> {
    match detail {
        Detail::Wakeup(detail) => {
            Some(detail.threads.iter().fold(0u64, |sum, thread| sum.saturating_add(thread.due)))
        }
        Detail::Frames(detail) => Some((detail.frame_ns.len() as u64).saturating_add(detail.missed)),
        _ => None,
    }
}

/// What the baseline is of itself.
const ONE: Estimate = Estimate { value: 1.0, low: 1.0, high: 1.0, confidence: 1.0 };

impl Seen {
    fn of(answer: &Answer) -> Self {
        match answer {
            Answer::Unsupported(reason) => Self::Unsupported(reason.clone()),
            Answer::Estimate(estimate) if estimate.is_sound() => Self::Value(*estimate),
            Answer::Estimate(_) => Self::Unsupported("the figure is not a sound number".to_owned()),
        }
    }

    /// A ratio to the undisturbed as a multiple of the fair share 1/n.
    fn of_fair_share(self, better: Better, parties: u32) -> Self {
        let Self::Value(ratio) = self else { return self };
        Self::Value(fair_share(&ratio, better, parties))
    }
}
