//! The figure that a requirement is about in what one round saw, or why it has none.

use model::requirement::{CapacityMetric, CountedBy, OutageMetric, RequiredMetric, ResponseMetric};
use model::verification::{ClientCycles, Observed, Outage, Responses};
use stats::summary::histogram_quantile;
use units::{Nanos, Reason};

/// The metric's value in what was seen, or why it has none.
pub(super) fn value(metric: &RequiredMetric, seen: &Observed) -> Result<f64, Reason> {
    let value = match (metric, seen) {
        (_, Observed::Failed { reason }) => return Err(reason.clone()),
        (RequiredMetric::Probe(name), Observed::Measured { report }) => {
            if let Some(why) = report.detail.saw_nothing() {
                return Err(why.into());
            }
            let metrics = probes::metrics_of(&report.detail, &report.clock);
            let metric = metrics.into_iter().find(|one| one.id == name.id);
            let metric = metric.ok_or_else(|| format!("the probe has no figure {name} here"))?;
            match metric.figure {
                units::metric::Figure::Value(value) => value,
                units::metric::Figure::Unsupported(why) => return Err(why.into()),
            }
        }
        (metric, Observed::Looked { values, .. }) => match values.get(&metric.to_string()) {
            Some(Ok(value)) => *value,
            Some(Err(why)) => return Err(why.clone()),
            None => return Err(format!("{metric} was not looked at").into()),
        },
        (RequiredMetric::Command(counted), Observed::Commanded(done)) => match counted {
            CountedBy::ExitCode => f64::from(done.exit_code),
            CountedBy::Value if done.exit_code != 0 => {
                return Err(format!("it ended with {}", done.exit_code).into());
            }
            CountedBy::Value => done.value.ok_or("its last line is no number")?,
            CountedBy::Failures => match &done.tests {
                // What is not read may have failed, too; what is not there cannot make good what has.
                _ if done.unread.is_some() && done.tests.as_ref().is_none_or(|counts| counts.failed == 0) => {
                    return Err(done.unread.clone().unwrap_or_default().into());
                }
                None => return Err("it printed neither JUnit nor TAP".into()),
                Some(counts) if counts.all == counts.left_out => {
                    return Err(format!("not one test ran, {} were left out", counts.left_out).into());
                }
                // It broke after the tests that it still could print.
                Some(counts) if counts.failed == 0 && done.exit_code != 0 => {
                    return Err(format!("no test failed, but it ended with {}", done.exit_code).into());
                }
                Some(counts) => counts.failed as f64,
            },
        },
        (RequiredMetric::Response(wanted), Observed::Responses(seen)) => of_responses(*wanted, seen)?,
        (RequiredMetric::Capacity(CapacityMetric::AnswersPerSecond), Observed::Responses(seen)) => {
            if seen.clients.is_empty() {
                return Err("the journal does not say what each client had".into());
            }
            seen.clients.iter().map(ClientCycles::per_s).sum()
        }
        (RequiredMetric::Outage(wanted), Observed::Outage(outage)) => of_outage(*wanted, outage)?,
        _ => return Err("the journal holds another kind of test".into()),
    };
    if value.is_finite() { Ok(value) } else { Err("it is no finite number".into()) }
}

/// Why a look saw what it saw, where it said so.
pub(super) fn why<'a>(metric: &RequiredMetric, seen: &'a Observed) -> Option<&'a String> {
    let Observed::Looked { why, .. } = seen else { return None };
    why.get(&metric.to_string())
}

fn of_responses(metric: ResponseMetric, seen: &Responses) -> Result<f64, Reason> {
    Ok(match (metric, metric.quantile()) {
        (ResponseMetric::Missing, _) => seen.missing as f64,
        (_, Some(quantile)) => {
            histogram_quantile(&seen.response_ns, quantile).ok_or("no request was made")?
        }
        (_, None) => seen.response_ns.buckets().last().ok_or("no request was made")?.upper() as f64,
    })
}

/// What never came back is at least as long as was waited, and counts so. Where nobody outside noticed anything, nothing was gone.
fn of_outage(metric: OutageMetric, outage: &Outage) -> Result<f64, Reason> {
    let first = outage.first_missing_ns.map_or(0.0, Nanos::as_f64);
    let again = match outage.first_missing_ns {
        Some(_) => outage.answered_again_ns.unwrap_or(outage.waited_ns).as_f64(),
        None => 0.0,
    };
    Ok(match metric {
        OutageMetric::Duration => again,
        OutageMetric::Detection => first,
        OutageMetric::Switchover => (again - first).max(0.0),
        OutageMetric::Restoration => outage.restored_ns.unwrap_or(outage.waited_ns).as_f64(),
        OutageMetric::Lost => outage.lost as f64,
        OutageMetric::Doubled if outage.first_missing_ns.is_some() && outage.answered_again_ns.is_none() => {
            return Err("it was not answered again, so nobody knows what would have come twice".into());
        }
        OutageMetric::Doubled => outage.doubled.ok_or("this client cannot know what is doubled")? as f64,
    })
}
