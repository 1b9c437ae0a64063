//! Noise traces from what `measure` has recorded, or `simulate`.
//!
//! **A simulated host** keeps who ran where from its beginning. What lies between two stretches of a virtual CPU is an
//! interruption: somebody else ran, or it was being switched. One that had nothing to do looks the same, so the trace is that
//! of a virtual CPU that always works.
//!
//! **fwq** keeps every quantum: what one took longer than the shortest is an interruption, put at a random place within
//! it. The trace is as long as all quanta together, so the time lost is exact.
//!
//! **gap** keeps the worst gaps with their moments and all others in a histogram per batch of equal time. A gap is an
//! interruption when it is longer than a microsecond and than ten typical (median) gaps; it took as much as it is longer
//! than a typical one. The worst come at their moments. The others come, within their batch, as renewals: their free
//! stretches are those of uniformly random moments (a Poisson process of the batch's count), their order is random, and
//! each is as long as the mean of its histogram bucket, which is less than 0.8 % wide. Rates that change from batch to batch
//! are kept, the distances within a batch are not.

use super::trace::{Interruption, MOST_INTERRUPTIONS, NoiseTrace};
use crate::random::Stream;
use crate::time::Span;
use model::simulation::{StretchMode, TimeLine};
use probes::detail::{Detail, FwqDetail, GapDetail, Stretch};
use units::histogram::Histogram;
use units::{Hertz, Reason, Ticks};

/// Shorter gaps are no interruptions.
const SHORTEST: Span = Span::from_nanos(1000);
/// Nor are those below so many typical ones.
const TYPICAL: u64 = 10;
/// Virtual CPUs that are listed where a wrong one was asked for.
const LISTED: usize = 12;
/// Streams of this file begin with this number.
const RECORDED: u64 = 5;

impl NoiseTrace {
    /// From the outcome of a probe that sees interruptions; `seed` places those whose moment was not recorded.
    ///
    /// # Errors
    /// Why there is no trace in it.
    pub fn of_detail(detail: &Detail, seed: u64) -> Result<Self, Reason> {
        match detail {
            Detail::Gap(gap) => Self::of_gap(gap, seed),
            Detail::Fwq(fwq) => Self::of_fwq(fwq, seed),
            other => Err(format!("{} records no interruptions; wanted gap or fwq", other.kind()).into()),
        }
    }

    /// From the time line of a simulated host: the times in which a virtual CPU, the first unless one is named (`A.0`), did
    /// not run, from its first stretch to its last.
    ///
    /// # Errors
    /// There is no such virtual CPU, it hardly ran, or there is no trace in it.
    pub fn of_time_line(line: &TimeLine, vcpu: Option<&str>) -> Result<Self, Reason> {
        let number = match vcpu {
            None => Some(0),
            Some(name) => line.vcpus.iter().position(|known| known == name),
        };
        let Some(number) = number.and_then(|number| u32::try_from(number).ok()) else {
            let known: Vec<&str> = line.vcpus.iter().take(LISTED).map(String::as_str).collect();
            return Err(format!(
                "there is no virtual CPU \"{}\"; there are {}",
                vcpu.unwrap_or_default(),
                known.join(", ")
            )
            .into());
        };
        let ran = line.stretches.iter().filter(|one| one.vcpu == number && one.mode != StretchMode::Switch);
        let mut ran: Vec<(Span, Span)> = ran.map(|one| (one.start_ns.into(), one.length_ns.into())).collect();
        ran.sort_unstable();
        let Some((begin, _)) = ran.first().copied() else {
            return Err("that virtual CPU never ran in the part of its time line that is kept".into());
        };
        let (mut end, mut all) = (begin, Vec::new());
        for (start, length) in ran {
            if start > end {
                all.push(Interruption { start: end - begin, length: start - end });
            }
            end = end.max(start + length);
        }
        Self::new(all, end - begin)
    }

    /// From quanta of fixed work.
    ///
    /// # Errors
    /// Why there is no trace in them.
    pub fn of_fwq(detail: &FwqDetail, seed: u64) -> Result<Self, Reason> {
        let samples: Vec<Span> = detail.samples_ns.iter().map(|sample| Span::from(*sample)).collect();
        let Some(least) = samples.iter().min().copied() else {
            return Err("the fwq probe has no samples".into());
        };
        let mut stream = Stream::new(seed, &[RECORDED, 0]);
        let (mut at, mut all) = (Span::ZERO, Vec::new());
        for sample in samples {
            let start = at + Span::from_nanos(stream.below(least.nanos().saturating_add(1)));
            if sample > least {
                all.push(Interruption { start, length: sample - least });
            }
            at += sample;
        }
        Self::new(all, at)
    }

    /// From gaps.
    ///
    /// # Errors
    /// Why there is no trace in them.
    pub fn of_gap(detail: &GapDetail, seed: u64) -> Result<Self, Reason> {
        let whole = Span::from(detail.observed_ns);
        let count = detail.batches.len() as u64;
        let typical = median(&Histogram::merge_all(&detail.batches));
        let Some(typical) = typical.map(|ticks| Span::from(ticks.to_nanos(detail.counter_hz))) else {
            return Err("the gap probe has no gaps".into());
        };
        if whole.is_zero() || detail.counter_hz.get() == 0 {
            return Err("the gap probe observed no time".into());
        }
        let edge = |batch: u64| {
            let nanos = u128::from(whole.nanos()) * u128::from(batch) / u128::from(count);
            Span::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
        };
        let least = SHORTEST.max(Span::from_nanos(typical.nanos().saturating_mul(TYPICAL)));
        let mut all = Vec::new();
        let mut worst = detail.worst.clone();
        worst.sort_by_key(|stretch| stretch.start_ns);
        for (number, histogram) in (0..).zip(&detail.batches) {
            let batch = Batch { begin: edge(number), end: edge(number + 1), typical };
            let mut lengths = Lengths::of(histogram, detail.counter_hz, least);
            let timed: Vec<Interruption> = worst
                .iter()
                .filter(|stretch| batch.holds(stretch) && lengths.remove(Span::from(stretch.length_ns)))
                .map(|stretch| Interruption {
                    start: stretch.start_ns.into(),
                    length: Span::from(stretch.length_ns) - typical,
                })
                .collect();
            if lengths.count().saturating_add(all.len() as u64) > MOST_INTERRUPTIONS as u64 {
                return Err(format!("there are more than {MOST_INTERRUPTIONS} interruptions").into());
            }
            let mut stream = Stream::new(seed, &[RECORDED, 1, number]);
            batch.place(&lengths, &timed, &mut stream, &mut all);
        }
        // The last ones may have been pushed beyond the end by what came before them.
        let end = all.last().map_or(whole, |last: &Interruption| last.end().max(whole));
        Self::new(all, end)
    }
}

/// The smallest value of the bucket with the middle value.
fn median(histogram: &Histogram) -> Option<Ticks> {
    let mut before = 0_u64;
    let half = histogram.count().div_ceil(2);
    histogram.buckets().iter().find_map(|bucket| {
        before = before.saturating_add(bucket.count);
        (before >= half).then(|| Ticks::from_ticks(bucket.lower()))
    })
}

/// Gaps of a batch that are interruptions: how often each length, ascending.
struct Lengths(Vec<(Span, u64)>);

impl Lengths {
    fn of(histogram: &Histogram, rate: Hertz, least: Span) -> Self {
        let all = histogram.buckets().iter().filter_map(|bucket| {
            let mean = Ticks::from_ticks(bucket.sum.checked_div(bucket.count)?);
            Some((Span::from(mean.to_nanos(rate)), bucket.count))
        });
        Self(all.filter(|(length, _)| *length >= least).collect())
    }

    fn count(&self) -> u64 {
        self.0.iter().map(|(_, count)| *count).fold(0, u64::saturating_add)
    }

    /// Takes one of about this length out, if there is one: a bucket is no wider than that.
    fn remove(&mut self, length: Span) -> bool {
        let off = |other: Span| other.nanos().abs_diff(length.nanos());
        let nearest = self.0.iter_mut().filter(|(_, count)| *count > 0).min_by_key(|(other, _)| off(*other));
        match nearest {
            Some((other, count)) if off(*other) <= length.nanos() / 100 + 2 => {
                *count -= 1;
                true
            }
            _ => false,
        }
    }
}

/// A stretch of the observed time.
struct Batch {
    begin: Span,
    end: Span,
    typical: Span,
}

impl Batch {
    fn holds(&self, stretch: &Stretch) -> bool {
        (self.begin..self.end).contains(&Span::from(stretch.start_ns))
    }

    /// Puts the timed ones at their moments and the others between them.
    fn place(
        &self,
        lengths: &Lengths,
        timed: &[Interruption],
        stream: &mut Stream,
        all: &mut Vec<Interruption>,
    ) {
        let untimed =
            lengths.0.iter().flat_map(|(length, count)| (0..*count).map(|_| *length - self.typical));
        let untimed: Vec<Span> = untimed.collect();
        let each = untimed.iter().copied().chain(timed.iter().map(|one| one.length));
        let lost = each.fold(Span::ZERO, |sum, length| sum + length);
        let free = (self.end - self.begin) - lost;
        // Each at a random place of the free time.
        let mut untimed: Vec<(Span, Span)> = untimed
            .into_iter()
            .map(|length| (Span::from_nanos(stream.below(free.nanos())), length))
            .collect();
        untimed.sort_unstable();
        let mut at = all.last().map_or(self.begin, |last| last.end().max(self.begin));
        let (mut untimed, mut timed) = (untimed.into_iter().peekable(), timed.iter().peekable());
        let mut before = Span::ZERO;
        loop {
            let next = untimed.peek().map(|(place, length)| (at.max(self.begin + *place + before), *length));
            // What would run into a timed one comes after it.
            let fixed =
                timed.next_if(|fixed| next.is_none_or(|(start, length)| start + length > fixed.start));
            let (start, length) = match (fixed, next) {
                (Some(fixed), _) => (at.max(fixed.start), fixed.length),
                (None, Some(next)) => {
                    untimed.next();
                    next
                }
                (None, None) => break,
            };
            all.push(Interruption { start, length });
            before += length;
            at = start + length;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use units::Nanos;

    fn nanos(value: u64) -> Nanos {
        Nanos::from_nanos(value)
    }

    #[test]
    fn quanta_lose_what_they_took_beyond_the_shortest() {
        let samples = [100, 130, 100, 101, 250].map(nanos).to_vec();
        let detail = FwqDetail { iterations: 1, cpu: None, samples_ns: samples };
        let trace = NoiseTrace::of_detail(&Detail::Fwq(detail), 3).unwrap();
        assert_eq!((trace.lost().nanos(), trace.length().nanos()), (30 + 1 + 150, 681));
        let of = |one: &Interruption, from, to| one.start.nanos() >= from && one.end().nanos() <= to;
        let all = trace.interruptions();
        assert!(of(&all[0], 100, 230) && of(&all[1], 330, 431) && of(&all[2], 431, 681), "{all:?}");
        assert!(NoiseTrace::of_fwq(&FwqDetail { iterations: 1, cpu: None, samples_ns: vec![] }, 3).is_err());
        // What a guest sends may be anything.
        let forged = FwqDetail { iterations: 1, cpu: None, samples_ns: vec![nanos(u64::MAX); 3] };
        assert!(NoiseTrace::of_fwq(&forged, 3).unwrap_err().to_string().contains("too long"));
    }

    /// Two batches of 1 ms at 2 GHz: the first has typical gaps of 50 ns and three of some µs, the second is quiet but
    /// for one long gap whose moment is known.
    fn gaps() -> GapDetail {
        let batch = |long: &[u64]| {
            Histogram::from_values(std::iter::repeat_n(100, 500).chain(long.iter().map(|ns| ns * 2)))
        };
        GapDetail {
            counter_hz: Hertz::from_hz(2_000_000_000),
            observed_ns: nanos(2_000_000),
            cpu: None,
            batches: vec![batch(&[2_000, 3_000, 900, 64_000]), batch(&[300_000])],
            worst: vec![
                Stretch { start_ns: nanos(1_500_000), length_ns: nanos(300_000) },
                Stretch { start_ns: nanos(400_000), length_ns: nanos(64_000) },
            ],
        }
    }

    #[test]
    fn gaps_come_at_their_moments_or_in_their_batch() {
        for seed in 0..200 {
            let trace = NoiseTrace::of_detail(&Detail::Gap(gaps()), seed).unwrap();
            assert_eq!(trace.length().nanos(), 2_000_000);
            // 900 ns is too short to count; each took 50 ns less than its gap.
            assert_eq!(trace.lost().nanos(), 2_000 + 3_000 + 64_000 + 300_000 - 4 * 50);
            let at = |start: u64| trace.interruptions().iter().find(|one| one.start.nanos() == start);
            assert_eq!(at(1_500_000).map(|one| one.length.nanos()), Some(299_950));
            let in_first = trace.interruptions().iter().filter(|one| one.end().nanos() <= 1_000_000);
            assert_eq!(in_first.map(|one| one.length.nanos()).sum::<u64>(), 2_000 + 3_000 + 64_000 - 150);
        }
        let all = |seed| NoiseTrace::of_gap(&gaps(), seed).unwrap();
        assert!(all(1) == all(1) && all(1) != all(2));
    }

    #[test]
    fn what_kept_a_virtual_cpu_away_is_the_noise_of_a_simulated_host() {
        use model::simulation::TimeStretch;
        let stretch = |vcpu, start, length, mode| TimeStretch {
            cpu: 0,
            vcpu,
            start_ns: nanos(start),
            length_ns: nanos(length),
            mode,
        };
        let line = TimeLine {
            cpus: 1,
            vcpus: vec!["A.0".to_owned(), "B.0".to_owned()],
            stretches: vec![
                stretch(0, 100, 50, StretchMode::User),
                stretch(1, 150, 200, StretchMode::User),
                stretch(0, 350, 10, StretchMode::Switch),
                stretch(0, 360, 40, StretchMode::Kernel),
                stretch(0, 400, 100, StretchMode::User),
            ],
            left_out: 0,
        };
        let trace = NoiseTrace::of_time_line(&line, None).unwrap();
        assert_eq!((trace.lost().nanos(), trace.length().nanos()), (210, 400));
        assert_eq!(trace, NoiseTrace::of_time_line(&line, Some("A.0")).unwrap());
        let refused = NoiseTrace::of_time_line(&line, Some("C.0")).unwrap_err().to_string();
        assert!(refused.contains("A.0, B.0"), "{refused}");
    }

    #[test]
    fn other_probes_and_nothing_have_no_trace() {
        let ftq = probes::detail::FtqDetail { quantum_ns: nanos(1000), cpu: None, work: vec![1] };
        assert!(
            NoiseTrace::of_detail(&Detail::Ftq(ftq), 1)
                .unwrap_err()
                .to_string()
                .contains("ftq records no interruptions")
        );
        let empty = GapDetail { batches: vec![], ..gaps() };
        assert!(NoiseTrace::of_gap(&empty, 1).unwrap_err().to_string().contains("no gaps"));
        let quiet = GapDetail { batches: vec![Histogram::from_values([100; 9])], worst: vec![], ..gaps() };
        assert!(NoiseTrace::of_gap(&quiet, 1).unwrap().interruptions().is_empty());
        // What a guest claims may not fit into the time it claims: then no time is free.
        let forged = GapDetail { observed_ns: nanos(1000), ..gaps() };
        assert!(NoiseTrace::of_gap(&forged, 1).unwrap_err().to_string().contains("no free time"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn what_a_guest_sends_is_a_trace_or_refused(
            hz: u32, bits in 0u32..64, observed: u64, batches in prop::collection::vec(prop::collection::vec(0u64..1 << 45, 0..9), 0..4),
            worst in prop::collection::vec((any::<u64>(), any::<u64>()), 0..9), seed: u64,
        ) {
            let observed = observed >> bits;
            let known = batches.iter().flatten().map(|gap| (gap % observed.max(1), *gap));
            let worst = known.clone().take(3).chain(worst.iter().map(|(start, length)| (start >> bits, *length)));
            let worst = worst.map(|(start, length)| Stretch { start_ns: nanos(start), length_ns: nanos(length) });
            let detail = GapDetail {
                counter_hz: Hertz::from_hz(u64::from(hz)),
                observed_ns: nanos(observed),
                cpu: None,
                worst: worst.collect(),
                batches: batches.into_iter().map(Histogram::from_values).collect(),
            };
            if let Ok(trace) = NoiseTrace::of_gap(&detail, seed) {
                prop_assert!(trace.lost() < trace.length());
            }
        }
    }
}
