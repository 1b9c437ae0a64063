//! From the outcomes of the share probe to curves, time slices, the name of the policy and what it guarantees.

use std::collections::BTreeMap;

use super::policy::{Candidate, Named, name, predict, words};
use model::policy::{Guarantee, Hump, PolicyVerdict, SharePoint, SharingPolicy};
use probes::detail::ShareDetail;
use probes::share::metrics::{Observation, observations};
use stats::summary::median;
use units::histogram::Histogram;
use units::layout::Layout;
use units::metric::{Estimate, saturate};
use units::{Nanos, three_digits};

/// A hump holds at least this much of the time away.
const SMALLEST_HUMP: f64 = 0.08;
/// Humps shown.
const MOST_HUMPS: usize = 4;
/// Bins per doubling of the length, for humps.
const BINS_PER_OCTAVE: f64 = 4.0;

/// The rounds of one joint measurement as one long round, phase by phase: those in which as many instances went through
/// the same phases as in the fullest.
pub fn pooled(rounds: Vec<ShareDetail>) -> Option<ShareDetail> {
    let most = rounds.iter().map(|round| round.others.len()).max()?;
    let mut whole = rounds.into_iter().filter(|round| round.others.len() == most);
    let first = whole.next()?;
    Some(whole.fold(first, |sum, round| if is_like(&sum, &round) { add(sum, &round) } else { sum }))
}

/// Whether two rounds are of the same instances in the same phases.
fn is_like(one: &ShareDetail, two: &ShareDetail) -> bool {
    let steps = |detail: &ShareDetail| -> Vec<(u32, u32)> {
        detail.phases.iter().map(|phase| (phase.first_threads, phase.other_threads)).collect()
    };
    let is_same =
        (one.rank, one.ranks, one.cpus) == (two.rank, two.ranks, two.cpus) && steps(one) == steps(two);
    is_same
        && one.others.len() == two.others.len()
        && one.others.iter().zip(&two.others).all(|(one, two)| is_like(one, two))
}

fn add(mut sum: ShareDetail, round: &ShareDetail) -> ShareDetail {
    for (phase, more) in sum.phases.iter_mut().zip(&round.phases) {
        phase.elapsed_ns = phase.elapsed_ns.saturating_add(more.elapsed_ns);
        phase.cpu_time_ns = phase.cpu_time_ns.saturating_add(more.cpu_time_ns);
        phase.rounds = phase.rounds.saturating_add(more.rounds);
        phase.away_ticks = phase.away_ticks.merged(&more.away_ticks);
        phase.running_ticks = phase.running_ticks.merged(&more.running_ticks);
    }
    let others = std::mem::take(&mut sum.others);
    sum.others = others.into_iter().zip(&round.others).map(|(other, more)| add(other, more)).collect();
    sum
}

/// Names the policy of a platform from all its joint measurements, on a host with `host_cpus` CPUs.
///
/// All phases of all measurements are one heap for the name; the curve is their median, point by point. How many of the
/// measurements say the same by themselves is told beside the name.
pub fn verdict(platform: &str, measured: &[(Layout, &ShareDetail)], host_cpus: u32) -> PolicyVerdict {
    let rounds: Vec<(Layout, Vec<Observation>)> =
        measured.iter().map(|(layout, detail)| (*layout, observations(detail))).collect();
    let typical = typical(&rounds);
    let seen: Vec<Observation> = rounds.iter().flat_map(|(_, seen)| seen).copied().collect();
    let cpus = f64::from(host_cpus.max(1));
    let named = name(&seen, cpus);
    let votes = Votes::count(&rounds, named.candidate, cpus);
    let points = typical.iter().map(|(layout, seen)| SharePoint {
        layout: *layout,
        first_threads: seen.first_threads,
        other_threads: seen.other_threads,
        first_cpus: seen.first,
        other_cpus: seen.other,
        predicted_first_cpus: named.candidate.map(|candidate| predict(candidate, seen, cpus).0),
    });
    let instance_cpus = seen.iter().map(|seen| seen.cpus).max().unwrap_or(1);
    PolicyVerdict {
        platform: platform.to_owned(),
        policy: named.candidate.map(|candidate| candidate.policy),
        sentence: sentence(platform, &named, instance_cpus, &votes),
        parameter: parameter(&named),
        points: points.collect(),
        humps: humps(measured),
        guarantees: named.candidate.map(|c| guarantees(c, instance_cpus, cpus)).unwrap_or_default(),
        fits: named.fits,
        measurements: votes.all,
        agreeing: if named.candidate.is_some() { votes.agreeing } else { 0 },
    }
}

/// Observations of the same point in several measurements.
type Points = BTreeMap<(Layout, u32, u32), Vec<Observation>>;

fn points_of(rounds: &[(Layout, Vec<Observation>)]) -> Points {
    let mut points = Points::new();
    for (layout, seen) in rounds {
        for seen in seen {
            points.entry((*layout, seen.first_threads, seen.other_threads)).or_default().push(*seen);
        }
    }
    points
}

/// The median of every point over all measurements of its layout.
fn typical(rounds: &[(Layout, Vec<Observation>)]) -> Vec<(Layout, Observation)> {
    let middle_of = |group: &[Observation], pick: fn(&Observation) -> f64| {
        median(&group.iter().map(pick).collect::<Vec<_>>())
    };
    points_of(rounds)
        .iter()
        .filter_map(|((layout, _, _), group)| {
            let (first, other) = (middle_of(group, |o| o.first)?, middle_of(group, |o| o.other)?);
            Some((*layout, Observation { first, other, ..*group.first()? }))
        })
        .collect()
}

/// The parameter of the named policy with its interval.
fn parameter(named: &Named) -> Option<Estimate> {
    let (value, (low, high)) = (named.candidate?.parameter, named.interval?);
    Some(Estimate { value, low: low.min(value), high: high.max(value), confidence: 0.95 })
}

/// What each measurement says by itself.
struct Votes {
    all: u32,
    agreeing: u32,
}

impl Votes {
    fn count(rounds: &[(Layout, Vec<Observation>)], named: Option<Candidate>, cpus: f64) -> Self {
        let says_so = |seen: &[Observation]| {
            let policy = |candidate: Candidate| candidate.policy;
            named.is_some_and(|named| name(seen, cpus).candidate.map(policy) == Some(named.policy))
        };
        let count = |count: usize| u32::try_from(count).unwrap_or(u32::MAX);
        let agreeing = rounds.iter().filter(|(_, seen)| says_so(seen)).count();
        Self { all: count(rounds.len()), agreeing: count(agreeing) }
    }

    fn words(&self) -> String {
        match self.all {
            1 => "from a single measurement".to_owned(),
            all => format!("{} of {all} measurements say so by themselves", self.agreeing),
        }
    }
}

fn sentence(platform: &str, named: &Named, cpus: u32, votes: &Votes) -> String {
    let Some(candidate) = named.candidate else {
        let why = named.doubt.as_deref().unwrap_or("nothing was measured");
        return format!("How {platform} shares the CPUs cannot be said: {why}.");
    };
    let misfit = named.fits.first().map_or(0.0, |fit| fit.misfit_share * 100.0);
    let ends = |(low, high): (f64, f64)| format!(" [{} … {}]", three_digits(low), three_digits(high));
    let p = format!("{}{}", three_digits(candidate.parameter), named.interval.map(ends).unwrap_or_default());
    let how = match candidate.policy {
        SharingPolicy::EqualPerThread => {
            "per thread: whoever runs more threads gets more, up to one CPU each".to_owned()
        }
        SharingPolicy::EqualPerInstance => {
            "equally: each instance gets the same, as far as it needs it".to_owned()
        }
        SharingPolicy::ProportionalToNeed => {
            "per thread of the host, each virtual CPU being one: an instance \
             gets in proportion to the CPUs that it needs"
                .to_owned()
        }
        SharingPolicy::Weighted => {
            format!("by weight: the first instance weighs {p} times as much as another")
        }
        SharingPolicy::Capped => format!("with a cap: no instance gets more than {p} of its {cpus} CPUs"),
        SharingPolicy::Reserved => {
            format!("with a reservation: {p} CPUs are the first instance's when it needs them")
        }
    };
    let unseen = named.cap_unseen_above.map_or_else(String::new, |cpus| {
        format!(
            " Other work took so much that a cap above {} CPUs would not have been seen.",
            three_digits(cpus)
        )
    });
    format!(
        "{platform} shares the CPUs {how} ({}; off by {} % on average; {}).{unseen}",
        words(candidate.policy),
        three_digits(misfit),
        votes.words()
    )
}

/// What the policy gives an instance that needs 1 … all CPUs beside 1, 3, 5, 7 others that want all.
fn guarantees(candidate: Candidate, instance_cpus: u32, cpus: f64) -> Vec<Guarantee> {
    let needs: Vec<u32> = if instance_cpus <= 4 {
        (1..=instance_cpus).collect()
    } else {
        vec![1, instance_cpus / 2, instance_cpus]
    };
    let mut all = Vec::new();
    for instances in [2, 4, 6, 8] {
        for needed_cpus in &needs {
            let seen = Observation {
                instances,
                first_threads: *needed_cpus,
                other_threads: instance_cpus,
                cpus: instance_cpus,
                first: 0.0,
                other: 0.0,
            };
            let guaranteed_cpus = predict(candidate, &seen, cpus).0;
            all.push(Guarantee { instances, needed_cpus: *needed_cpus, guaranteed_cpus });
        }
    }
    all
}

/// Lengths of time slices: local maxima of the time away over its logarithm, in phases where both sides work.
fn humps(measured: &[(Layout, &ShareDetail)]) -> Vec<Hump> {
    let mut bins: BTreeMap<i32, (f64, f64)> = BTreeMap::new();
    for (_, detail) in measured {
        let hz = detail.counter_hz.as_f64().max(1.0);
        for phase in detail.phases.iter().filter(|p| p.first_threads > 0 && p.other_threads > 0) {
            add_to_bins(&mut bins, &phase.away_ticks, hz);
        }
    }
    let all: f64 = bins.values().map(|(time, _)| time).sum();
    let time_at = |bin: i32| bins.get(&bin).map_or(0.0, |(time, _)| *time);
    let mut found: Vec<Hump> = bins
        .iter()
        .filter(|(bin, (time, _))| {
            let around = [-2, -1, 1, 2].map(|step| time_at(**bin + step));
            around.iter().all(|near| near <= time)
        })
        .filter_map(|(bin, _)| {
            let near: Vec<&(f64, f64)> = (-1..=1).filter_map(|step| bins.get(&(bin + step))).collect();
            let (time, count) = near.iter().fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
            let share = time / all;
            (share >= SMALLEST_HUMP).then(|| Hump {
                length_ns: Nanos::from_nanos(saturate(time / count)),
                share_per_mille: u32::try_from(saturate(share * 1000.0)).unwrap_or(1000),
            })
        })
        .collect();
    found.sort_by_key(|hump| std::cmp::Reverse(hump.share_per_mille));
    found.truncate(MOST_HUMPS);
    found
}

/// Adds time and count of each stretch to its bin.
fn add_to_bins(bins: &mut BTreeMap<i32, (f64, f64)>, stretches: &Histogram, hz: f64) {
    for bucket in stretches.buckets().iter().filter(|bucket| bucket.count > 0) {
        let (count, time) = (bucket.count as f64, bucket.sum as f64 * 1e9 / hz);
        let position = ((time / count).max(1.0).log2() * BINS_PER_OCTAVE).floor();
        #[expect(clippy::cast_possible_truncation, reason = "at most 64 × 4 bins")]
        let entry = bins.entry(position as i32).or_insert((0.0, 0.0));
        entry.0 += time;
        entry.1 += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use probes::detail::SharePhase;
    use units::Hertz;

    fn detail(rank: u32, phases: Vec<(u32, u32, f64)>) -> ShareDetail {
        let phase = |(first_threads, other_threads, cpus): (u32, u32, f64)| SharePhase {
            first_threads,
            other_threads,
            elapsed_ns: Nanos::from_nanos(1_000_000_000),
            cpu_time_ns: Nanos::ZERO,
            rounds: 1,
            away_ticks: Histogram::from_values(vec![3_000_000; 40]),
            running_ticks: Histogram::from_values([saturate(cpus * 1e9)]),
        };
        ShareDetail {
            rank,
            ranks: 2,
            cpus: 2,
            counter_hz: Hertz::from_hz(1_000_000_000),
            phases: phases.into_iter().map(phase).collect(),
            others: Vec::new(),
        }
    }

    #[test]
    fn a_platform_that_shares_equally_is_named_with_its_slices_and_guarantees() {
        let mut first =
            detail(0, vec![(2, 0, 1.98), (1, 2, 0.98), (2, 2, 1.0), (4, 2, 0.99), (1, 4, 0.97), (4, 4, 1.0)]);
        first.others = vec![detail(
            1,
            vec![(2, 0, 0.0), (1, 2, 1.0), (2, 2, 0.98), (4, 2, 1.0), (1, 4, 1.0), (4, 4, 0.98)],
        )];
        let verdict = verdict("vm", &[(Layout::PAIR, &first)], 2);
        assert_eq!(verdict.policy, Some(SharingPolicy::EqualPerInstance), "{}", verdict.sentence);
        assert!(verdict.sentence.starts_with("vm shares the CPUs equally"), "{}", verdict.sentence);
        assert_eq!(verdict.humps.first().map(|hump| hump.length_ns.get()), Some(3_000_000));
        let four = verdict.guarantees.iter().find(|g| g.instances == 4 && g.needed_cpus == 2).unwrap();
        assert!((four.guaranteed_cpus - 0.5).abs() < 1e-9);
        assert_eq!(verdict.points.len(), 6);
        assert!(verdict.sentence.ends_with("; from a single measurement)."), "{}", verdict.sentence);
    }

    /// Two instances in phases of 1 + 2, 2 + 2 and 1 + 4 threads; the first gets `cpus` of two while it needs one.
    fn pair(cpus: f64) -> ShareDetail {
        let phases = |alone: f64| vec![(1, 2, alone), (2, 2, 1.0), (1, 4, alone), (3, 2, 1.0)];
        ShareDetail { others: vec![detail(1, phases(2.0 - cpus))], ..detail(0, phases(cpus)) }
    }

    #[test]
    fn a_name_says_how_many_measurements_say_it_by_themselves() {
        let (equal, need) = (pair(1.0), pair(2.0 / 3.0));
        let of = |rounds: &[&ShareDetail]| {
            let rounds: Vec<_> = rounds.iter().map(|round| (Layout::PAIR, *round)).collect();
            verdict("vm", &rounds, 2)
        };
        let most = of(&[&equal, &need, &equal, &equal, &equal, &equal]);
        assert_eq!(
            (most.policy, most.measurements, most.agreeing),
            (Some(SharingPolicy::EqualPerInstance), 6, 5),
            "{}",
            most.sentence
        );
        assert!(most.sentence.contains("5 of 6 measurements say so by themselves)."), "{}", most.sentence);
        let split = of(&[&equal, &need, &equal, &equal, &need]);
        assert_eq!(split.policy, None, "{}", split.sentence);
        assert!(split.sentence.contains("cannot be said"), "{}", split.sentence);
    }

    #[test]
    fn a_fitted_weight_comes_with_its_interval() {
        let phases =
            |first: f64| vec![(2, 0, 1.9), (1, 2, 0.98), (2, 2, first), (3, 2, first), (4, 4, first)];
        let round = |first: f64| {
            let other: Vec<_> = phases(2.0 - first)
                .into_iter()
                .map(|(one, two, got)| (one, two, if one == 1 { 0.99 } else { got }))
                .collect();
            ShareDetail { others: vec![detail(1, other)], ..detail(0, phases(first)) }
        };
        let rounds = [round(1.5), round(1.48), round(1.53), round(1.45)];
        let rounds: Vec<_> = rounds.iter().map(|round| (Layout::PAIR, round)).collect();
        let verdict = verdict("vm", &rounds, 2);
        let weight = verdict.parameter.expect(&verdict.sentence);
        assert!(weight.low < weight.high && (weight.low..=weight.high).contains(&3.0), "{weight:?}");
        assert!(verdict.sentence.contains(" … "), "{}", verdict.sentence);
    }

    #[test]
    fn rounds_are_pooled_where_the_same_instances_went_through_the_same_phases() {
        let round = |cpus: f64, with_other: bool| {
            let mut first = detail(0, vec![(1, 2, cpus), (2, 2, 1.0)]);
            first.others = if with_other { vec![detail(1, vec![(1, 2, 1.0), (2, 2, 1.0)])] } else { vec![] };
            first
        };
        let mut shorter = round(1.0, true);
        shorter.phases.pop();
        let all = pooled(vec![round(0.2, false), round(0.4, true), shorter, round(0.8, true)]).unwrap();
        assert_eq!(all.phases[0].elapsed_ns.get(), 2_000_000_000);
        assert_eq!(all.phases[0].away_ticks.count(), 80);
        let seen = observations(&all);
        assert_eq!(seen.len(), 2);
        assert!((seen[0].first - 0.6).abs() < 0.01 && (seen[0].other - 1.0).abs() < 0.01, "{seen:?}");
        assert_eq!(pooled(Vec::new()), None);
    }

    #[test]
    fn without_the_others_there_is_no_verdict() {
        let first = detail(0, vec![(1, 2, 0.98)]);
        assert!(observations(&first).is_empty());
        let verdict = verdict("vm", &[(Layout::PAIR, &first)], 2);
        assert_eq!(verdict.policy, None);
        assert!(verdict.sentence.contains("cannot be said"), "{}", verdict.sentence);
    }
}
