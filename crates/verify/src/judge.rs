//! From what a test saw to whether a requirement holds. Pure: the same rounds give the same verdict, also offline.
//!
//! ```text
//!  rounds ─► looks at 6, 9, 14, 21, … of them, each surer than the one before (stats::looks) ─► the first that decides counts
//!
//!    at most L:   interval ≤ L pass      L in it: undecided, more rounds      interval > L fail
//!    worst seen:  one beyond L: fail     none in the least rounds: pass, and that says nothing of what was not seen
//! ```
//! Rounds of a capacity that are less than half as long as the longest do not count, and are told.
//! Quantiles are those of all values of all rounds together where a probe keeps them ([`stats::tail`]), else medians of the rounds'
//! figures ([`stats::interval`]).

use std::collections::BTreeSet;
use std::time::Duration;

use model::requirement::{Comparator, CountedBy, OutageMetric, RequiredMetric, Requirement};
use model::verification::{Judged, Observed, RequirementVerdict, TestRound};
use stats::interval::median_interval;
use stats::looks::confidence_at;
use stats::tail::pooled_quantile;
use units::Nanos;
use units::histogram::Histogram;
use units::metric::{Answer, Estimate, Unit};

/// Rounds before the first look at an interval.
pub const FIRST_LOOK: u32 = 6;
/// Rounds after which the worst that was seen counts.
pub const LEAST_OF_WORST: u32 = 10;
/// Failures that are made before the longest outage counts.
pub const LEAST_OUTAGES: u32 = 3;

/// The round after which is looked the next time, after one at `rounds`.
pub const fn next_look(rounds: u32) -> u32 {
    if rounds < FIRST_LOOK { FIRST_LOOK } else { rounds.saturating_add(rounds.div_ceil(2)) }
}

/// Different words about what was put back that a reason has.
const MOST_WORDS: usize = 3;

/// How often something is seen until it counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// It is what it is.
    Once,
    /// An interval of the rounds.
    Interval,
    /// The worst of at least so many rounds.
    Worst(u32),
}

/// Judges a requirement by the rounds of its test, in their order.
pub fn judge(requirement: &Requirement, rounds: &[&TestRound]) -> Judged {
    let (Some(metric), Some((comparator, limit))) = (&requirement.metric, requirement.limit()) else {
        return nothing("it has no metric");
    };
    // A program prints its number in the unit in which its limit is written.
    let printed = matches!(metric, RequiredMetric::Command(CountedBy::Value));
    let factor = if printed { limit.factor() } else { 1.0 };
    let held = Held { metric, comparator, limit: limit.value, unit: limit.unit, factor };
    if rounds.is_empty() {
        return nothing(match metric {
            RequiredMetric::Outage(_) => "failures are made with --failures alone",
            _ if requirement.paused => "programs are paused with --failures alone",
            _ => "nothing was done to see",
        });
    }
    match way(metric, comparator) {
        Way::Once => held.once(rounds),
        Way::Worst(least) => held.worst(rounds, least),
        Way::Interval => {
            let budget = Nanos::from_duration(Duration::from_secs(u64::from(requirement.budget_s)));
            held.sequential(rounds, requirement.confidence, budget)
        }
    }
}

/// Whether a requirement may be taken as decided after so many rounds: where there is an interval only at looks, each of which costs.
pub fn may_decide(requirement: &Requirement, rounds: u32) -> bool {
    let mut look = FIRST_LOOK;
    while look < rounds {
        look = next_look(look);
    }
    way_of(requirement) != Some(Way::Interval) || look == rounds
}

/// Whether one look says all that there is to say.
pub fn is_seen_at_once(requirement: &Requirement) -> bool {
    matches!(way_of(requirement), Some(Way::Once | Way::Worst(1)))
}

fn way_of(requirement: &Requirement) -> Option<Way> {
    let (comparator, _) = requirement.limit()?;
    requirement.metric.as_ref().map(|metric| way(metric, comparator))
}

fn way(metric: &RequiredMetric, comparator: Comparator) -> Way {
    match metric {
        RequiredMetric::Outage(_) => Way::Worst(LEAST_OUTAGES),
        // Each time counts: a test that fails now and then has failed, and what is to be exactly so is so each time.
        RequiredMetric::Command(CountedBy::Failures | CountedBy::ExitCode) => Way::Worst(1),
        RequiredMetric::Command(CountedBy::Value) if comparator == Comparator::Exactly => {
            Way::Worst(LEAST_OF_WORST)
        }
        RequiredMetric::Probe(name) if is_extreme(&name.id) || comparator == Comparator::Exactly => {
            Way::Worst(LEAST_OF_WORST)
        }
        RequiredMetric::Response(metric) if metric.quantile().is_none() => Way::Worst(LEAST_OF_WORST),
        RequiredMetric::Probe(_)
        | RequiredMetric::Command(CountedBy::Value)
        | RequiredMetric::Response(_)
        | RequiredMetric::Capacity(_) => Way::Interval,
        _ => Way::Once,
    }
}

/// Whether a figure is the largest or smallest of what was seen: no number of rounds gives it an interval.
fn is_extreme(id: &str) -> bool {
    let words: Vec<&str> = id.split('_').collect();
    words.iter().any(|word| matches!(*word, "max" | "min" | "longest" | "worst"))
}

struct Held<'a> {
    metric: &'a RequiredMetric,
    comparator: Comparator,
    limit: f64,
    unit: Unit,
    factor: f64,
}

impl Held<'_> {
    fn is_kept_by(&self, value: f64) -> bool {
        match self.comparator {
            Comparator::AtMost => value <= self.limit,
            Comparator::AtLeast => value >= self.limit,
            Comparator::Exactly => (value - self.limit).abs() < 1e-9,
        }
    }

    /// How far a value is from the limit, percent of that; none from a limit of zero.
    fn margin(&self, value: f64) -> Option<f64> {
        let room = match self.comparator {
            Comparator::AtMost => self.limit - value,
            Comparator::AtLeast => value - self.limit,
            Comparator::Exactly => return None,
        };
        (self.limit > 0.0).then(|| room / self.limit * 100.0)
    }

    fn text(&self, value: f64) -> String {
        self.unit.format(value)
    }

    /// Values of the rounds that have one, how many have none, and the last reason why.
    fn values(&self, rounds: &[&TestRound]) -> (Vec<f64>, u32, Option<String>) {
        let (mut values, mut failed, mut why) = (Vec::new(), 0, None);
        let longest = longest_of(rounds.iter().copied());
        for round in rounds {
            // A round that ended before there was a pause says what the server can between pauses.
            if cycles_of(round).is_some_and(|over| over * 2 < longest) {
                continue;
            }
            match values::value(self.metric, &round.seen).map(|value| value * self.factor) {
                Ok(value) if value < 0.0 && self.unit != Unit::Count => {
                    failed += 1;
                    why = Some(format!("{value} is less than nothing, and of this there is none"));
                }
                Ok(value) => values.push(value),
                Err(reason) => {
                    failed += 1;
                    why = Some(reason.to_string());
                }
            }
        }
        (values, failed, why)
    }

    /// The last look counts.
    fn once(&self, rounds: &[&TestRound]) -> Judged {
        let (values, failed, why) = self.values(rounds);
        let Some(value) = values.last().copied() else { return without_values(failed, why) };
        let holds = self.is_kept_by(value);
        let why = rounds.last().and_then(|last| values::why(self.metric, &last.seen));
        let why = why.filter(|_| !holds).map_or_else(String::new, |why| format!(": {why}"));
        let reason = format!("it is {}{why}", self.text(value));
        Judged {
            verdict: if holds { RequirementVerdict::Pass } else { RequirementVerdict::Fail },
            value: Some(value),
            margin_percent: self.margin(value),
            rounds: 1,
            failed_rounds: failed,
            ..nothing(&reason)
        }
    }

    fn of_the_worst(&self, count: u32, worst: f64) -> String {
        let of_outage = matches!(
            self.metric,
            RequiredMetric::Outage(
                OutageMetric::Duration | OutageMetric::Detection | OutageMetric::Switchover
            )
        );
        if of_outage && worst == 0.0 {
            return format!(
                "the client missed no answer in {count} failures: something took over sooner than answers are late (answer_within_ms), \
                 what failed was not on its way, or it is missed later than verify waited"
            );
        }
        if count == 1 {
            return format!("it is {}", self.text(worst));
        }
        format!("the worst of {count} rounds is {}; what was not seen may be worse", self.text(worst))
    }

    /// Whether an outage lasted as long as it was waited for, or for ever.
    fn has_no_end(&self, seen: &Observed) -> bool {
        let (RequiredMetric::Outage(metric), Observed::Outage(outage)) = (self.metric, seen) else {
            return false;
        };
        match metric {
            OutageMetric::Duration | OutageMetric::Switchover | OutageMetric::Lost => {
                outage.first_missing_ns.is_some() && outage.answered_again_ns.is_none()
            }
            OutageMetric::Restoration => outage.restored_ns.is_none(),
            OutageMetric::Detection | OutageMetric::Doubled => false,
        }
    }

    /// Names of the tests that failed in the first round in which one did.
    fn failed_tests(&self, rounds: &[&TestRound]) -> String {
        let counts = rounds.iter().filter_map(|round| match (self.metric, &round.seen) {
            (RequiredMetric::Command(CountedBy::Failures), Observed::Commanded(done)) => done.tests.as_ref(),
            _ => None,
        });
        let names = counts.map(|counts| &counts.first_failed).find(|names| !names.is_empty());
        names.into_iter().flatten().flat_map(|name| ["; ", name]).collect()
    }

    /// What was put back where not all parts ran again by themselves, each in words once.
    fn undone(&self, rounds: &[&TestRound]) -> String {
        let words = rounds.iter().filter_map(|round| match (&self.metric, &round.seen) {
            (RequiredMetric::Outage(_), Observed::Outage(outage)) if outage.restored_ns.is_none() => {
                Some(outage.undone.as_str())
            }
            _ => None,
        });
        let words: BTreeSet<&str> = words.filter(|words| !words.is_empty()).collect();
        words.into_iter().take(MOST_WORDS).flat_map(|words| ["; ", words]).collect()
    }

    fn worst(&self, rounds: &[&TestRound], least: u32) -> Judged {
        let (values, failed, why) = self.values(rounds);
        let endless = rounds.iter().filter(|round| self.has_no_end(&round.seen)).count();
        let of = |a: f64, b: f64| match self.comparator {
            Comparator::AtMost => a.max(b),
            Comparator::AtLeast => a.min(b),
            Comparator::Exactly => {
                if self.is_kept_by(a) {
                    b
                } else {
                    a
                }
            }
        };
        let Some(worst) = values.iter().copied().reduce(of) else { return without_values(failed, why) };
        let count = u32::try_from(values.len()).unwrap_or(u32::MAX);
        let shown = self.text(worst);
        let (verdict, reason) = if endless > 0 && self.comparator == Comparator::AtMost {
            let what = if matches!(self.metric, RequiredMetric::Outage(OutageMetric::Restoration)) {
                "not all parts ran again by themselves"
            } else {
                "it was not over by itself"
            };
            (RequirementVerdict::Fail, format!("{what} in {endless} of {}", rounds_words(count)))
        } else if !self.is_kept_by(worst) {
            let names = self.failed_tests(rounds);
            let what =
                if count == 1 { "it".to_owned() } else { format!("the worst of {}", rounds_words(count)) };
            (RequirementVerdict::Fail, format!("{what} is {shown}{names}"))
        } else if failed > 0 {
            let why = why.unwrap_or_default();
            (
                RequirementVerdict::Undecided,
                format!("{failed} of {} rounds failed, the last: {why}", rounds.len()),
            )
        } else if count < least {
            (
                RequirementVerdict::Undecided,
                format!("the worst of {} is {shown}; {least} rounds are needed", rounds_words(count)),
            )
        } else {
            (RequirementVerdict::Pass, self.of_the_worst(count, worst))
        };
        let reason = format!("{reason}{}", self.undone(rounds));
        let ends = values
            .iter()
            .copied()
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
        Judged {
            verdict,
            value: Some(worst),
            low: Some(ends.0),
            high: Some(ends.1),
            margin_percent: self.margin(worst),
            rounds: count,
            failed_rounds: failed,
            ..nothing(&reason)
        }
    }

    /// Look by look; the first that decides counts, whatever came after. Between looks nobody looks, but when the time is over: whoever
    /// interrupts may have seen what would come.
    fn sequential(&self, rounds: &[&TestRound], confidence: f64, budget: Nanos) -> Judged {
        let all = u32::try_from(rounds.len()).unwrap_or(u32::MAX);
        let spent = rounds.iter().fold(Nanos::ZERO, |sum, round| sum.saturating_add(round.took_ns));
        let is_spent = spent >= budget;
        let (mut at, mut look) = (FIRST_LOOK, 1);
        let mut judged = None;
        while at <= all || is_spent {
            let last = at.min(all);
            let prefix = rounds.get(..last as usize).unwrap_or(rounds);
            let mut one = self.look(prefix, confidence_at(confidence, look));
            one.reason.push_str(&shorter(last, &one));
            let is_decided = matches!(one.verdict, RequirementVerdict::Pass | RequirementVerdict::Fail);
            judged = Some(one);
            if is_decided || last == all {
                break;
            }
            (at, look) = (next_look(at), look + 1);
        }
        judged.unwrap_or_else(|| {
            let (values, failed, why) = self.values(rounds);
            if values.is_empty() {
                return without_values(failed, why);
            }
            let reason = format!("{} before the first look, which is after {FIRST_LOOK}", rounds_words(all));
            let reason = why.map_or(reason.clone(), |why| format!("{reason}; the last that failed: {why}"));
            Judged {
                verdict: RequirementVerdict::Undecided,
                value: stats::summary::median(&values),
                rounds: u32::try_from(values.len()).unwrap_or(u32::MAX),
                failed_rounds: failed,
                ..nothing(&reason)
            }
        })
    }

    fn look(&self, rounds: &[&TestRound], confidence: f64) -> Judged {
        let (values, failed, why) = self.values(rounds);
        let pooled = self.pooled(rounds, confidence);
        if values.is_empty() && pooled.is_none() {
            return without_values(failed, why);
        }
        let answer = match pooled {
            Some(Answer::Estimate(estimate)) => Answer::Estimate(estimate),
            // Of the few requests of a round no quantile of their own is to be had.
            Some(other) if matches!(self.metric, RequiredMetric::Response(_)) => other,
            other if values.len() < 3 => other.unwrap_or_else(|| few(values.len())),
            _ => median_interval(&values, confidence, 0),
        };
        let count = u32::try_from(values.len()).unwrap_or(u32::MAX);
        let estimate = match answer {
            Answer::Estimate(estimate) => estimate,
            Answer::Unsupported(reason) => {
                return Judged {
                    verdict: RequirementVerdict::Undecided,
                    value: stats::summary::median(&values),
                    rounds: count,
                    failed_rounds: failed,
                    ..nothing(&reason)
                };
            }
        };
        self.decide(&estimate, (count, failed))
    }

    /// The quantile of all values together, where the probe keeps them.
    fn pooled(&self, rounds: &[&TestRound], confidence: f64) -> Option<Answer> {
        let tails = rounds.iter().filter_map(|round| match (self.metric, &round.seen) {
            (RequiredMetric::Probe(name), Observed::Measured { report }) => report.detail.tail(&name.id),
            (RequiredMetric::Response(metric), Observed::Responses(seen)) => {
                metric.quantile().map(|quantile| (seen.response_ns.clone(), quantile))
            }
            _ => None,
        });
        let (histograms, quantiles): (Vec<Histogram>, Vec<f64>) = tails.unzip();
        Some(pooled_quantile(&histograms, *quantiles.first()?, confidence))
    }

    fn decide(&self, estimate: &Estimate, (count, failed): (u32, u32)) -> Judged {
        let (low, high) = (estimate.low, estimate.high);
        let both = [low, high].map(|end| self.is_kept_by(end));
        let verdict = match both {
            // What fails as often as not may fail just when it is bad.
            _ if failed >= count => RequirementVerdict::Undecided,
            [true, true] => RequirementVerdict::Pass,
            [false, false] => RequirementVerdict::Fail,
            _ => RequirementVerdict::Undecided,
        };
        let safe_end = if self.comparator == Comparator::AtLeast { low } else { high };
        let interval = format!("{} [{} … {}]", self.text(estimate.value), self.text(low), self.text(high));
        let reason = match verdict {
            RequirementVerdict::Undecided if failed >= count => {
                format!("{failed} of {} rounds failed", count + failed)
            }
            RequirementVerdict::Undecided => {
                format!("{interval} holds the limit after {}", rounds_words(count))
            }
            _ if failed > 0 => format!("{interval} after {count} rounds; {failed} more failed"),
            _ => format!("{interval} after {count} rounds"),
        };
        Judged {
            verdict,
            value: Some(estimate.value),
            low: Some(low),
            high: Some(high),
            confidence: Some(estimate.confidence),
            margin_percent: self.margin(safe_end),
            rounds: count,
            failed_rounds: failed,
            reason,
        }
    }
}

/// How long the cycles were that a round of a capacity counted.
fn cycles_of(round: &TestRound) -> Option<Duration> {
    let Observed::Responses(seen) = &round.seen else { return None };
    seen.clients.first().map(|cycles| cycles.over_ns.to_duration())
}

/// The longest of those: as long as later rounds are, so that all see as much.
pub fn longest_of<'a>(rounds: impl IntoIterator<Item = &'a TestRound>) -> Duration {
    rounds.into_iter().filter_map(cycles_of).max().unwrap_or_default()
}

fn without_values(failed: u32, why: Option<String>) -> Judged {
    let why = why.unwrap_or_else(|| "nothing was seen".to_owned());
    Judged { verdict: RequirementVerdict::Undecided, failed_rounds: failed, ..nothing(&why) }
}

fn few(values: usize) -> Answer {
    Answer::Unsupported(format!("{values} rounds; at least 3 are needed"))
}

fn nothing(reason: &str) -> Judged {
    Judged {
        verdict: RequirementVerdict::NotRun,
        value: None,
        low: None,
        high: None,
        confidence: None,
        margin_percent: None,
        rounds: 0,
        failed_rounds: 0,
        reason: reason.to_owned(),
    }
}

/// Rounds that did not count because another one had to be longer.
fn shorter(rounds: u32, judged: &Judged) -> String {
    match rounds.saturating_sub(judged.rounds).saturating_sub(judged.failed_rounds) {
        0 => String::new(),
        count => format!("; {} less than half as long as the longest left out", rounds_words(count)),
    }
}

fn rounds_words(count: u32) -> String {
    if count == 1 { "1 round".to_owned() } else { format!("{count} rounds") }
}

#[cfg(test)]
mod tests;
mod values;
