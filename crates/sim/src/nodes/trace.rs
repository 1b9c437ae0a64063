//! A recorded trace of noise: when a node was interrupted, and for how long.
//!
//! ```text
//!  start_ns<TAB>duration_ns      lines, ascending; empty ones, those that begin with #, and these very words as the first
//!                                line are passed over
//!  length_ns<TAB>60000000000     optional, first: how long was recorded, with starts counted from its beginning
//! ```
//! How long the trace is decides how often its interruptions come when it goes round and round. Without a stated length
//! it begins with its first interruption and ends after the last one by as much as lies free between two of them on
//! average: n interruptions, n free stretches. Starts may then be of any clock. Interruptions that touch become one.

use std::fmt::Write as _;

use crate::time::Span;
use units::Reason;

/// Most interruptions of a trace.
pub const MOST_INTERRUPTIONS: usize = 4_000_000;
/// No moment of a trace lies later: some 36 years.
const LATEST: u64 = 1 << 60;

/// One interruption, counted from the beginning of the trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interruption {
    /// When it began.
    pub start: Span,
    /// How long it lasted.
    pub length: Span,
}

impl Interruption {
    /// When it was over.
    pub fn end(&self) -> Span {
        self.start + self.length
    }
}

/// A trace: interruptions that neither overlap nor touch, and some free time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoiseTrace {
    interruptions: Vec<Interruption>,
    length: Span,
}

impl NoiseTrace {
    /// Its interruptions, ascending.
    pub fn interruptions(&self) -> &[Interruption] {
        &self.interruptions
    }

    /// How long it is: then it begins again.
    pub const fn length(&self) -> Span {
        self.length
    }

    /// Time that its interruptions take.
    pub fn lost(&self) -> Span {
        self.interruptions.iter().fold(Span::ZERO, |sum, interruption| sum + interruption.length)
    }

    /// As a file that [`Self::parse`] reads as the same trace.
    pub fn text(&self) -> String {
        let mut text = format!("length_ns\t{}\n", self.length.nanos());
        for Interruption { start, length } in &self.interruptions {
            let _ = writeln!(text, "{}\t{}", start.nanos(), length.nanos());
        }
        text
    }

    /// From interruptions that ascend and do not overlap, within `length`.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn new(interruptions: Vec<Interruption>, length: Span) -> Result<Self, Reason> {
        if interruptions.len() > MOST_INTERRUPTIONS {
            return Err(format!("more than {MOST_INTERRUPTIONS} interruptions").into());
        }
        let mut kept: Vec<Interruption> = Vec::with_capacity(interruptions.len());
        for next in interruptions.into_iter().filter(|next| !next.length.is_zero()) {
            match kept.last_mut() {
                Some(last) if next.start < last.end() => {
                    return Err(
                        format!("an interruption begins at {} before the last one ends", next.start).into()
                    );
                }
                Some(last) if next.start == last.end() => last.length += next.length,
                _ => kept.push(next),
            }
        }
        if length.nanos() > LATEST {
            return Err(format!("{} ns are too long for a trace; allowed is {LATEST}", length.nanos()).into());
        }
        if kept.last().is_some_and(|last| last.end() > length) {
            return Err(format!("the last interruption ends after the trace, which is {length} long").into());
        }
        let trace = Self { interruptions: kept, length };
        if trace.lost() >= trace.length {
            return Err("the trace has no free time: nothing would ever be done".into());
        }
        Ok(trace)
    }

    /// Reads a trace.
    ///
    /// # Errors
    /// The first line that is wrong, with its number.
    pub fn parse(text: &str) -> Result<Self, Reason> {
        let mut interruptions: Vec<Interruption> = Vec::new();
        let mut stated = None;
        for (number, line) in (1..).zip(text.lines()) {
            let line = line.trim_end_matches('\r');
            let is_head = number == 1 && line == "start_ns\tduration_ns";
            if line.trim().is_empty() || line.starts_with('#') || is_head {
                continue;
            }
            let wrong = |problem: Reason| Reason::from(format!("line {number}: {problem}"));
            if let Some(length) = line.strip_prefix("length_ns\t") {
                if stated.is_some() || !interruptions.is_empty() {
                    return Err(wrong("length_ns stands once, before the interruptions".into()));
                }
                stated = Some(nanos(length).map_err(wrong)?);
                continue;
            }
            let next = interruption(line).map_err(wrong)?;
            if interruptions.last().is_some_and(|last| next.start < last.end()) {
                let problem =
                    format!("it begins at {} ns, before the one above has ended", next.start.nanos());
                return Err(wrong(problem.into()));
            }
            if interruptions.len() == MOST_INTERRUPTIONS {
                return Err(wrong(format!("more than {MOST_INTERRUPTIONS} interruptions").into()));
            }
            interruptions.push(next);
        }
        match stated {
            Some(length) => Self::new(interruptions, length),
            None => Self::of_unknown_length(interruptions),
        }
    }

    /// The rule for traces that do not say how long they are.
    fn of_unknown_length(mut interruptions: Vec<Interruption>) -> Result<Self, Reason> {
        let (Some(first), Some(last)) = (interruptions.first().copied(), interruptions.last().copied())
        else {
            return Err("there is no interruption and no length_ns".into());
        };
        let between = interruptions.len() as u64 - 1;
        let lost_before = interruptions.iter().map(|one| one.length).fold(Span::ZERO, |sum, one| sum + one);
        let free = (last.end() - first.start) - lost_before;
        let Some(mean) = free.nanos().checked_div(between) else {
            return Err("one interruption does not say how often it comes; wanted two, or length_ns".into());
        };
        for one in &mut interruptions {
            one.start = one.start - first.start;
        }
        Self::new(interruptions, last.end() - first.start + Span::from_nanos(mean))
    }
}

fn nanos(text: &str) -> Result<Span, Reason> {
    match text.trim().parse() {
        Ok(nanos) if nanos <= LATEST => Ok(Span::from_nanos(nanos)),
        Ok(nanos) => Err(format!("{nanos} ns is out of bounds; allowed is 0 to {LATEST}").into()),
        Err(_) => Err(format!("wanted whole nanoseconds, got {:?}", shortened(text)).into()),
    }
}

fn interruption(line: &str) -> Result<Interruption, Reason> {
    let Some((start, length)) = line.split_once('\t') else {
        return Err(format!("wanted start_ns, a tab and duration_ns, got {:?}", shortened(line)).into());
    };
    let (start, length) = (nanos(start)?, nanos(length)?);
    if length.is_zero() {
        return Err("an interruption of 0 ns is none".into());
    }
    Ok(Interruption { start, length })
}

fn shortened(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn spans(trace: &NoiseTrace) -> Vec<(u64, u64)> {
        trace.interruptions().iter().map(|one| (one.start.nanos(), one.length.nanos())).collect()
    }

    #[test]
    fn a_trace_without_a_length_ends_after_a_mean_free_stretch() {
        let trace = NoiseTrace::parse("# oslat\n1000\t10\n\n1100\t20\r\n1240\t20\n").unwrap();
        assert_eq!(spans(&trace), [(0, 10), (100, 20), (240, 20)]);
        // Free: 90 and 120 between, so 105 after.
        assert_eq!(trace.length(), Span::from_nanos(260 + 105));
    }

    #[test]
    fn a_stated_length_is_kept_and_what_touches_is_one() {
        let trace = NoiseTrace::parse("length_ns\t1000\n100\t10\n110\t5\n").unwrap();
        assert_eq!((spans(&trace), trace.length()), (vec![(100, 15)], Span::from_nanos(1000)));
        assert!(NoiseTrace::parse("length_ns\t1000\n").unwrap().interruptions().is_empty());
    }

    #[test]
    fn what_is_wrong_is_told_with_its_line() {
        let error = |text: &str| NoiseTrace::parse(text).unwrap_err();
        let headed = NoiseTrace::parse("start_ns\tduration_ns\nlength_ns\t100\n1\t2\n").unwrap();
        assert_eq!(headed.interruptions().len(), 1);
        assert_eq!(
            error("1\t2\n2 3\n"),
            "line 2: wanted start_ns, a tab and duration_ns, got \"2 3\"".into()
        );
        assert_eq!(
            error("1\t5\n\n3\t1\n"),
            "line 3: it begins at 3 ns, before the one above has ended".into()
        );
        assert_eq!(error("1\t0"), "line 1: an interruption of 0 ns is none".into());
        assert!(error("1\t-4").to_string().starts_with("line 1: wanted whole nanoseconds"));
        assert!(
            error("18446744073709551615\t1")
                .to_string()
                .starts_with("line 1: 18446744073709551615 ns is out of bounds")
        );
        assert!(error("1\t1\nlength_ns\t3").to_string().starts_with("line 2: length_ns stands once"));
        assert!(error("").to_string().contains("no interruption"));
        assert!(error("5\t1\n").to_string().contains("one interruption"));
        assert!(error("length_ns\t10\n0\t10").to_string().contains("no free time"));
        assert!(error("length_ns\t10\n5\t10").to_string().contains("ends after the trace"));
        assert!(error("0\t5\n5\t5").to_string().contains("no free time"));
    }

    proptest! {
        #[test]
        fn foreign_text_is_read_or_refused(text in "(([0-9]{1,22}|length_ns|x)?\t?[0-9]{0,22}\n){0,8}") {
            if let Ok(trace) = NoiseTrace::parse(&text) {
                prop_assert!(trace.lost() < trace.length());
                prop_assert_eq!(NoiseTrace::parse(&trace.text()), Ok(trace));
            }
        }
    }
}
