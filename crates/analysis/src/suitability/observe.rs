//! What was measured of a figure: each cell that counts, with the value that is held against a bound.

use std::collections::{BTreeMap, BTreeSet};

use model::classes::{Against, Beside, Held, MetricName, Missing};
use model::journal::{Cell, FailureKind, Neighbour};
use model::results::{CellResult, MetricResult, RunResults};
use units::Nanos;
use units::metric::{Answer, Better, Estimate, Unit};
use units::names::{LoadKind, nearest};
use units::scheduling::incomparable;

use super::super::exceedance;
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
    /// Rounds that it rests on.
    pub(super) rounds: u32,
    /// What it is compared with.
    pub(super) other: Option<Cell>,
    /// How long one more takes, nanoseconds, in all cells that it rests on.
    pub(super) round_ns: f64,
}

/// A share that was bounded in place of a quantile.
#[derive(Debug, Clone)]
pub(super) struct Beyond {
    /// Whether it is within what is allowed.
    pub(super) held: Held,
    /// The share that was seen.
    pub(super) value: f64,
    /// What is allowed.
    pub(super) allowed: f64,
    /// What can be said of it.
    pub(super) words: String,
    /// What may be, in words.
    pub(super) allowed_words: String,
    /// The deadline that would be met, nanoseconds.
    pub(super) met_ns: Option<f64>,
    /// How many times as much measuring decides it; none where it lies on what is allowed.
    pub(super) times: Option<f64>,
}

/// What was seen.
#[derive(Debug, Clone)]
pub(super) enum Seen {
    /// The value with its interval.
    Value(Estimate),
    /// No quantile, but how often it takes longer at most, or at least.
    Beyond(Beyond),
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

    /// How often it takes longer than a time in a cell, where these figures are quantiles of that: judged by at most `allowed`.
    pub(super) fn beyond(
        &self,
        cell: &Cell,
        ids: &[&str],
        time_ns: f64,
        allowed: f64,
    ) -> Option<Observation> {
        let result = self.results.cells.iter().find(|result| result.cell == *cell)?;
        let known = result.exceedance.as_ref()?;
        let is_one = ids.iter().any(|id| exceedance::share_of(known, id).is_some());
        if is_one { Self::longer(result, time_ns, allowed) } else { None }
    }

    /// How often one takes longer than its period, where a share of missed ones is asked for.
    pub(super) fn missed(&self, cell: &Cell, allowed: f64) -> Option<Observation> {
        let result = self.results.cells.iter().find(|result| result.cell == *cell)?;
        let period = result.exceedance.as_ref()?.period_ns;
        if period > Nanos::ZERO { Self::longer(result, period.as_f64(), allowed) } else { None }
    }

    fn longer(result: &CellResult, time_ns: f64, allowed: f64) -> Option<Observation> {
        let known = result.exceedance.as_ref().filter(|_| allowed > 0.0)?;
        let (above, below) = exceedance::beyond(known, time_ns);
        let is_met = above.is_some_and(|share| share.upper(known.confidence) <= allowed);
        let is_broken = below.is_some_and(|share| share.lower(known.confidence) > allowed);
        let share = above.or(below)?;
        let is_beyond = below.is_some_and(|share| share.value > allowed);
        let side = if is_beyond { below } else { above }?;
        let value = Beyond {
            held: match (is_met, is_broken) {
                (true, _) => Held::Yes,
                (_, true) => Held::No,
                _ => Held::Unclear,
            },
            value: side.value,
            allowed,
            words: exceedance::seen_words(known, time_ns, share, is_beyond),
            allowed_words: exceedance::allowed_words(known.of, allowed),
            met_ns: exceedance::within(known, allowed),
            times: side.decided_by(allowed, known.confidence, exceedance::MOST_TIMES),
        };
        Some(Observation {
            cell: result.cell.clone(),
            title: String::new(),
            unit: Some(Unit::Nanoseconds),
            value: Seen::Beyond(value),
            rounds: result.done,
            other: None,
            round_ns: time_of(Some(result)),
        })
    }

    /// The share beyond a figure of a cell that is a quantile.
    pub(super) fn allowed(&self, cell: &Cell, id: &str) -> Option<f64> {
        let result = self.results.cells.iter().find(|result| result.cell == *cell)?;
        exceedance::share_of(result.exceedance.as_ref()?, id)
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
        let other = self.other(&result.cell, against);
        let compared = self.results.cells.iter().find(|result| Some(&result.cell) == other.as_ref());
        Observation {
            cell: result.cell.clone(),
            title: found.map_or_else(String::new, |found| found.title.clone()),
            unit,
            value,
            rounds: found.map_or(0, |found| u32::try_from(found.samples.len()).unwrap_or(u32::MAX)),
            round_ns: time_of(Some(result)) + time_of(compared),
            other,
        }
    }

    /// What a cell is compared with.
    fn other(&self, cell: &Cell, against: Against) -> Option<Cell> {
        let baseline = self.results.experiment.baseline_label();
        match against {
            Against::Value => None,
            Against::Baseline if cell.platform == baseline => None,
            Against::Baseline => Some(Cell { platform: baseline.to_owned(), ..cell.clone() }),
            Against::FairShare if cell.neighbour.is_none() => Some(Cell { layout: None, ..cell.clone() }),
            Against::Undisturbed | Against::FairShare => Some(Cell { neighbour: None, ..cell.clone() }),
        }
    }

    fn held_against(
        &self,
        result: &CellResult,
        found: &MetricResult,
        against: Against,
    ) -> (Seen, Option<Unit>) {
        let cell = &result.cell;
        match (against, self.other(cell, against)) {
            (Against::Value, _) => (Seen::of(&found.estimate), Some(found.unit)),
            (_, None) => (Seen::Value(ONE), None),
            (Against::FairShare, Some(other)) => {
                (self.ratio(result, found, &other).of_fair_share(found.better, parties(cell)), None)
            }
            (_, Some(other)) => (self.ratio(result, found, &other), None),
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
        Seen::of(&compare(&pairs, this.better, result.confidence.unwrap_or(CONFIDENCE)).ratio)
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
            rounds: 0,
            other: None,
            round_ns: 0.0,
        }
    }
}

/// How long a measurement of a cell takes, nanoseconds.
fn time_of(result: Option<&CellResult>) -> f64 {
    result.and_then(|result| result.took_ns).map_or(0.0, Nanos::as_f64)
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
