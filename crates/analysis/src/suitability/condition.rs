//! One condition: every observation that counts is held against the bound, and the worst decides.

use model::classes::{
    Against, Condition, ConditionResult, Deadline, Deciding, Held, Missing, TailMetric, Weight,
};
use units::metric::{Estimate, Unit};

use super::super::exceedance;
use super::observe::{Looked, Observation, Seen};
use super::open::open;
use super::wording;

/// A condition with what the class needs to know of it.
pub(super) struct Judged {
    pub(super) result: ConditionResult,
    /// The deadline that would be met, nanoseconds; only of a tail all of whose observations have a value.
    pub(super) deadline_met_ns: Option<f64>,
    /// Whether a share was judged, whose words say what is allowed.
    pub(super) is_share: bool,
    /// What to do where nothing was measured.
    pub(super) todo: Option<String>,
    /// What the experiment left out.
    pub(super) missing: Vec<Missing>,
}

impl Judged {
    pub(super) fn is_broken(&self) -> bool {
        self.result.held == Held::No
    }

    /// Whether the class is unsuited when it is broken.
    pub(super) fn decides(&self) -> bool {
        self.result.weight != Weight::Wanted
    }
}

/// A bound, and on which side of it is good.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bound {
    pub(super) limit: f64,
    pub(super) at_most: bool,
}

impl Bound {
    fn of(condition: &Condition) -> Self {
        match (condition.at_most, condition.at_least) {
            (Some(limit), _) => Self { limit, at_most: true },
            (None, limit) => Self { limit: limit.unwrap_or(0.0), at_most: false },
        }
    }

    const fn of_deadline(deadline: Deadline) -> Self {
        Self { limit: deadline.deadline_us.as_f64() * 1e3, at_most: true }
    }

    fn holds(self, estimate: &Estimate) -> Held {
        let (good, bad) = if self.at_most {
            (estimate.high <= self.limit, estimate.low > self.limit)
        } else {
            (estimate.low >= self.limit, estimate.high < self.limit)
        };
        match (good, bad) {
            (true, _) => Held::Yes,
            (_, true) => Held::No,
            _ => Held::Unclear,
        }
    }

    /// Whether a value lies on its good side.
    pub(super) fn is_good(self, value: f64) -> bool {
        if self.at_most { value <= self.limit } else { value >= self.limit }
    }

    /// How far beyond the bound, as a factor; below 1 on the good side.
    fn factor(self, value: f64) -> Option<f64> {
        let factor = if self.at_most { value / self.limit } else { self.limit / value };
        factor.is_finite().then_some(factor)
    }
}

/// An observation held against its bound.
struct Weighed {
    observation: Observation,
    metric: String,
    held: Held,
    factor: Option<f64>,
}

impl Weighed {
    fn of(observation: Observation, metric: &str, bound: Bound) -> Self {
        let (held, factor) = match &observation.value {
            Seen::Value(estimate) => (bound.holds(estimate), bound.factor(estimate.value)),
            Seen::Beyond(share) => (share.held, Some(share.value / share.allowed)),
            Seen::Perished(_) => (Held::No, None),
            Seen::Unsupported(_) => (Held::Unclear, None),
            Seen::Nothing { .. } => (Held::NotMeasured, None),
        };
        Self { observation, metric: metric.to_owned(), held, factor }
    }

    /// Worse first; an instance that perished is the worst.
    fn badness(&self) -> (u8, f64) {
        let rank = match self.held {
            Held::No => 3,
            Held::Unclear => 2,
            Held::NotMeasured => 1,
            Held::Yes => 0,
        };
        let perished = matches!(self.observation.value, Seen::Perished(_));
        (rank, if perished { f64::INFINITY } else { self.factor.unwrap_or(0.0) })
    }
}

/// Judges one condition.
pub(super) fn judged(looked: &Looked<'_>, condition: &Condition, deadline: Option<Deadline>) -> Judged {
    let (bound, weighed) = match (&condition.metric, deadline) {
        (Some(metric), _) => {
            let bound = Bound::of(condition);
            let observed = looked.observations(metric, condition.against, &condition.neighbours);
            let weighed = |seen| {
                let figure = Weighed::of(seen, &metric.id, bound);
                by_share(looked, condition, bound, &figure).unwrap_or(figure)
            };
            (bound, observed.into_iter().map(weighed).collect())
        }
        (None, Some(deadline)) => {
            let bound = Bound::of_deadline(deadline);
            (bound, tail(looked, condition, bound, deadline.miss_rate))
        }
        (None, None) => (Bound::of(condition), Vec::new()),
    };
    let is_tail = condition.metric.is_none();
    let deadline_met_ns = is_tail.then(|| deadline_met(&weighed)).flatten();
    let todo = worst(&weighed).and_then(|worst| match &worst.observation.value {
        Seen::Nothing { todo, .. } => Some(todo.clone()),
        Seen::Unsupported(reason) => Some(format!("measure longer or more rounds ({reason})")),
        _ => None,
    });
    let missing = weighed.iter().filter_map(|weighed| match &weighed.observation.value {
        Seen::Nothing { missing, .. } => *missing,
        _ => None,
    });
    let missing = missing.collect();
    let mut result = result(condition, deadline, bound, &weighed);
    // What is asked only of neighbours holds when there are none.
    if result.decided_by.is_none() && !looked.left_out.is_empty() {
        result.held = Held::Yes;
    }
    let is_share = worst(&weighed).is_some_and(|worst| matches!(worst.observation.value, Seen::Beyond(_)));
    Judged { result, deadline_met_ns, is_share, todo, missing }
}

/// The observation that decides.
fn worst(weighed: &[Weighed]) -> Option<&Weighed> {
    weighed.iter().max_by(|a, b| {
        let (a, b) = (a.badness(), b.badness());
        a.0.cmp(&b.0).then(a.1.total_cmp(&b.1))
    })
}

fn result(
    condition: &Condition,
    deadline: Option<Deadline>,
    bound: Bound,
    weighed: &[Weighed],
) -> ConditionResult {
    let broken = weighed.iter().filter(|weighed| weighed.held == Held::No);
    let broken_in = broken.map(|weighed| weighed.observation.cell.clone()).collect();
    let unit = weighed.iter().find_map(|weighed| weighed.observation.unit);
    let worst = worst(weighed);
    let undecided = weighed.iter().filter(|weighed| weighed.held == Held::Unclear);
    let open = undecided.filter_map(|weighed| open(&weighed.observation, bound)).collect();
    let miss_rate = deadline.filter(|_| condition.metric.is_none()).map(|deadline| deadline.miss_rate);
    let is_share = weighed.iter().any(|weighed| matches!(weighed.observation.value, Seen::Beyond(_)));
    let unit = match &condition.metric {
        // A tail is a time whatever was measured of it.
        None => Some(Unit::Nanoseconds),
        Some(_) if is_share => Some(Unit::Share),
        Some(_) => unit,
    };
    ConditionResult {
        title: condition.title.clone(),
        why: condition.why.clone(),
        requirement: condition.requirement,
        weight: condition.weight,
        held: worst.map_or(Held::NotMeasured, |worst| worst.held),
        measured: worst
            .map_or_else(String::new, |worst| wording::measured(&worst.observation, condition.against)),
        bound: wording::bound(bound, unit, condition.against, miss_rate),
        factor: worst.and_then(|worst| worst.factor),
        decided_by: worst
            .filter(|worst| !matches!(worst.observation.value, Seen::Nothing { .. }))
            .map(|worst| Deciding { cell: worst.observation.cell.clone(), metric: worst.metric.clone() }),
        open,
        broken_in,
    }
}

/// A quantile that has no interval, judged by the share beyond its bound. So is a share of missed ones, of all rounds together: rounds
/// have few, and that most of them have none is no proof that none are missed.
fn by_share(looked: &Looked<'_>, condition: &Condition, bound: Bound, figure: &Weighed) -> Option<Weighed> {
    let metric = condition.metric.as_ref().filter(|_| bound.at_most)?;
    if condition.against != Against::Value {
        return None;
    }
    match &figure.observation.value {
        Seen::Value(_) if metric.id == exceedance::MISSED => {
            let seen = looked.missed(&figure.observation.cell, bound.limit)?;
            return Some(Weighed::of(seen, &metric.id, bound));
        }
        Seen::Unsupported(_) => {}
        _ => return None,
    }
    let allowed = looked.allowed(&figure.observation.cell, &metric.id)?;
    let seen = looked.beyond(&figure.observation.cell, &[&metric.id], bound.limit, allowed)?;
    Some(Weighed::of(seen, &metric.id, bound))
}

/// Holds a tail against the deadline, cell by cell.
fn tail(looked: &Looked<'_>, condition: &Condition, bound: Bound, miss_rate: f64) -> Vec<Weighed> {
    let fitting = condition.tail.iter().position(|entry| entry.miss_rate <= miss_rate);
    let figures: Vec<(&TailMetric, Vec<Observation>)> = condition
        .tail
        .iter()
        .map(|entry| (entry, looked.observations(&entry.metric, Against::Value, &condition.neighbours)))
        .collect();
    // The cells are the same for all figures of one probe; a tail that mixes probes is looked at figure by figure.
    let cells = figures.first().map_or(0, |(_, first)| first.len());
    (0..cells)
        .filter_map(|cell| {
            let of_cell: Vec<Option<Weighed>> = figures
                .iter()
                .map(|(entry, all)| Some(Weighed::of(all.get(cell)?.clone(), &entry.metric.id, bound)))
                .collect();
            let first = figures.first().and_then(|(_, all)| all.get(cell));
            let ids: Vec<&str> = condition.tail.iter().map(|entry| entry.metric.id.as_str()).collect();
            let share = first.and_then(|first| looked.beyond(&first.cell, &ids, bound.limit, miss_rate));
            let named = fitting.and_then(|fitting| ids.get(fitting)).or_else(|| ids.last());
            let share = share.zip(named).map(|(seen, id)| Weighed::of(seen, id, bound));
            deciding(of_cell, share, &condition.tail, fitting)
        })
        .collect()
}

/// Quantiles of one distribution grow with the share they cover. So where the one that fits has no interval, a stricter one that
/// is short enough says yes and a looser one that is too long already says no; then the share of what takes longer than the
/// deadline decides, or says how far it is from that.
fn deciding(
    mut figures: Vec<Option<Weighed>>,
    share: Option<Weighed>,
    tail: &[TailMetric],
    fitting: Option<usize>,
) -> Option<Weighed> {
    let weighed = |index: usize| figures.get(index).and_then(Option::as_ref);
    let held = |index: usize| weighed(index).map(|weighed| weighed.held);
    let has_interval = |index: usize| {
        weighed(index).is_some_and(|weighed| matches!(weighed.observation.value, Seen::Value(_)))
    };
    let at = fitting.unwrap_or(tail.len());
    let chosen = if matches!(held(at), Some(Held::Yes | Held::No)) {
        at
    } else {
        // The longest ever seen is no quantile: that it is short proves nothing for a share.
        let stricter = (at + 1..tail.len())
            .filter(|index| tail.get(*index).is_some_and(|entry| entry.miss_rate > 0.0))
            .find(|index| held(*index) == Some(Held::Yes));
        let looser = (0..at).rev().find(|index| held(*index) == Some(Held::No));
        let decided = stricter.or(looser);
        if let Some(share) = share.filter(|_| decided.is_none() && !has_interval(at)) {
            return Some(share);
        }
        decided.unwrap_or(at.min(tail.len().saturating_sub(1)))
    };
    let mut weighed = figures.get_mut(chosen)?.take()?;
    // A looser figure that is short enough shows nothing about the share that is allowed.
    if fitting.is_none() && weighed.held == Held::Yes {
        weighed.held = Held::Unclear;
    }
    Some(weighed)
}

/// The longest of all observations' intervals; none when one has no value.
fn deadline_met(weighed: &[Weighed]) -> Option<f64> {
    let high = |weighed: &Weighed| match &weighed.observation.value {
        Seen::Value(estimate) => Some(estimate.high),
        Seen::Beyond(share) => share.met_ns,
        _ => None,
    };
    weighed.iter().map(high).collect::<Option<Vec<f64>>>()?.into_iter().reduce(f64::max)
}
