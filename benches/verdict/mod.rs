//! The one judge of every figure that the documentation states, for benches and for the tests that state figures.
//!
//! | what the interval says | word | exit code |
//! | --- | --- | --- |
//! | all of it keeps the mark | met | 0 |
//! | all of it misses the mark | missed | 1 |
//! | some of it keeps the mark, some does not; or there is none | not decided | 4 |
//!
//! One line per figure, which begins with `figure: ` and ends with the word, and a closing line. A missed figure decides
//! the code; else one that is not decided does; no figure at all is not decided. What an interval is:
//!
//! * of ratios or times from rounds: that of their median (`bulkhead::stats::interval`), or of paired figures
//!   (`bulkhead::stats::pairs`), at 95 %. Below three rounds there is none, whatever the two happen to be;
//! * of a share (so many of so many, by chance): Clopper and Pearson (1934), exact;
//! * of a promise that is broken by a single failure: none; the line says up to which rate failures could have gone unseen;
//! * of what is the same each time (a count of bytes, a simulation with a seed): the value itself.
#![allow(dead_code, reason = "each bench uses its part")]

use std::fmt;
use std::io::Write;
use std::process::ExitCode;

use bulkhead::stats::interval::{self as intervals, median_interval};
use bulkhead::stats::summary::median;
use bulkhead::units::metric::Answer;

/// Confidence of all intervals.
pub const CONFIDENCE: f64 = 0.95;
/// Rate of failures that may go unseen where none is promised: 59 trials without one.
pub const MOST_UNSEEN: f64 = 0.05;
/// So many rounds, pairs or runs may bring nothing before a figure decides nothing: one, as tools stumble; two have a cause,
/// and those that are left are those that it spared.
pub const FEW_FAILED: usize = 1;
/// Rounds below which there is no interval.
const FEWEST: usize = 3;
/// With what the line of a judged figure begins.
pub const FIGURE: &str = "figure: ";

/// Where a figure is to be.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Mark {
    /// At most so much.
    AtMost(f64),
    /// At least so much.
    AtLeast(f64),
    /// Between these.
    Within(f64, f64),
}

impl Mark {
    /// What an interval says about it.
    pub fn judge(self, (low, high): (f64, f64)) -> Verdict {
        let (least, most) = match self {
            Self::AtMost(most) => (f64::NEG_INFINITY, most),
            Self::AtLeast(least) => (least, f64::INFINITY),
            Self::Within(least, most) => (least, most),
        };
        // Written so that what is not a number decides nothing.
        if low >= least && high <= most {
            Verdict::Met
        } else if high < least || low > most {
            Verdict::Missed
        } else {
            Verdict::NotDecided
        }
    }
}

impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(most) => write!(f, "≤ {most}"),
            Self::AtLeast(least) => write!(f, "≥ {least}"),
            Self::Within(least, most) => write!(f, "{least} … {most}"),
        }
    }
}

/// What became of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// All of the interval keeps the mark.
    Met,
    /// All of the interval misses it.
    Missed,
    /// The interval does not say.
    NotDecided,
}

impl Verdict {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Met, Self::Missed, Self::NotDecided];

    /// In a word or two.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::Missed => "missed",
            Self::NotDecided => "not decided",
        }
    }

    /// What a printed line says, if it is that of a figure.
    pub fn of_line(line: &str) -> Option<Self> {
        let rest = line.trim_end().strip_prefix(FIGURE)?;
        Self::ALL.into_iter().find(|verdict| rest.ends_with(&format!(": {}", verdict.word())))
    }
}

/// Collects verdicts.
#[derive(Debug, Default)]
pub struct Judge {
    seen: Vec<Verdict>,
}

impl Judge {
    /// The median of what rounds have brought, ratios or times, and its interval.
    pub fn rounds(&mut self, what: &str, values: &[f64], mark: Mark) -> Verdict {
        let span = interval(values);
        self.tell(&format!("{what}: {}", described(values)), mark, span)
    }

    /// The same where some rounds have brought nothing: their number is said, and more than [`FEW_FAILED`] decide nothing.
    pub fn rounds_without(&mut self, what: &str, values: &[f64], missing: usize, mark: Mark) -> Verdict {
        let span = interval_without(values, missing);
        self.tell(&format!("{what}: {}{}", described(values), without(missing)), mark, span)
    }

    /// An estimate with its interval from elsewhere; `rounds` is what it was made of.
    pub fn answer(&mut self, what: &str, answer: &Answer, rounds: usize, mark: Mark) -> Verdict {
        match answer {
            Answer::Estimate(estimate) if rounds >= FEWEST => {
                let span = (estimate.low, estimate.high);
                let text = numbers(estimate.value, span);
                self.tell(&format!("{what}: {text}, {rounds} rounds"), mark, Some(span))
            }
            Answer::Estimate(estimate) => {
                let value = digits(estimate.value);
                self.tell(&format!("{what}: {value}, {rounds} rounds: no interval"), mark, None)
            }
            Answer::Unsupported(why) => self.tell(&format!("{what}: no interval: {why}"), mark, None),
        }
    }

    /// So many of so many, each as chance would have it.
    pub fn share(&mut self, what: &str, hits: u32, of: u32, mark: Mark) -> Verdict {
        let (low, high) = share_interval(hits, of);
        let text = format!("{what}: {hits} of {of} [{low:.4} … {high:.4}]");
        self.tell(&text, mark, (of > 0).then_some((low, high)))
    }

    /// A promise that a single failure breaks.
    pub fn never(&mut self, what: &str, failures: u64, of: u64) -> Verdict {
        self.never_without(what, failures, of, 0)
    }

    /// The same where some trials, not among `of`, say nothing: more than [`FEW_FAILED`] of them and no failure decide nothing.
    pub fn never_without(&mut self, what: &str, failures: u64, of: u64, missing: usize) -> Verdict {
        let unseen = unseen(of);
        let unseen = match failures {
            0 if of > 0 => format!("; up to {} % could go unseen", digits(unseen * 100.0)),
            _ => String::new(),
        };
        let span = never(failures, of).filter(|_| failures > 0 || missing <= FEW_FAILED);
        let text = format!("{what}: {failures} of {of}{unseen}{}", without(missing));
        self.tell(&text, Mark::AtMost(0.0), span)
    }

    /// What is the same each time.
    pub fn exact(&mut self, what: &str, value: f64, mark: Mark) -> Verdict {
        self.tell(&format!("{what}: {}, the same each time", digits(value)), mark, Some((value, value)))
    }

    /// A figure that was not taken.
    pub fn not_taken(&mut self, what: &str, why: &str) -> Verdict {
        self.tell(&format!("{what}: not taken, {why}"), Mark::Within(f64::NAN, f64::NAN), None)
    }

    /// A verdict that was printed elsewhere.
    pub fn heard(&mut self, verdict: Verdict) {
        self.seen.push(verdict);
    }

    fn tell(&mut self, text: &str, mark: Mark, span: Option<(f64, f64)>) -> Verdict {
        let verdict = span.map_or(Verdict::NotDecided, |span| mark.judge(span));
        let mark = match mark {
            Mark::Within(least, _) if least.is_nan() => String::new(),
            mark => format!("; mark {mark}"),
        };
        say(&format!("{FIGURE}{text}{mark}: {}", verdict.word()));
        self.seen.push(verdict);
        verdict
    }

    /// How many were judged so.
    pub fn count(&self, wanted: Verdict) -> usize {
        self.seen.iter().filter(|verdict| **verdict == wanted).count()
    }

    /// What all of them together are.
    pub fn all(&self) -> Verdict {
        let any = |wanted| self.count(wanted) > 0;
        if any(Verdict::Missed) {
            Verdict::Missed
        } else if any(Verdict::NotDecided) || self.seen.is_empty() {
            Verdict::NotDecided
        } else {
            Verdict::Met
        }
    }

    /// 0, 1 or 4.
    pub fn code(&self) -> u8 {
        match self.all() {
            Verdict::Met => 0,
            Verdict::Missed => 1,
            Verdict::NotDecided => 4,
        }
    }

    /// Prints the closing line and gives the exit code.
    pub fn close(&self) -> ExitCode {
        let [met, missed, open] = Verdict::ALL.map(|verdict| self.count(verdict));
        let all = self.seen.len();
        say(&format!(
            "verdict: {}; {all} figures, {met} met, {missed} missed, {open} not decided (exit code {})",
            self.all().word(),
            self.code()
        ));
        ExitCode::from(self.code())
    }
}

/// What a bench ends with: its judge's code, or 3 with the reason why nothing could be measured.
pub fn ended(name: &str, outcome: anyhow::Result<Judge>) -> ExitCode {
    match outcome {
        Ok(judge) => judge.close(),
        Err(error) => {
            say(&format!("{name}: {error:#}"));
            ExitCode::from(3)
        }
    }
}

/// Prints a line.
pub fn say(line: &str) {
    // Nobody is left to tell when standard output is gone.
    let _ = writeln!(std::io::stdout(), "{line}");
}

/// A figure without a mark, for the reader.
pub fn show(what: &str, values: &[f64]) {
    say(&format!("{what}: {}", described(values)));
}

/// The interval of the median of what rounds have brought; none below three of them.
pub fn interval(values: &[f64]) -> Option<(f64, f64)> {
    if values.len() < FEWEST {
        return None;
    }
    median_interval(values, CONFIDENCE, 0).estimate().map(|estimate| (estimate.low, estimate.high))
}

/// The same where so many rounds more have brought nothing: none when these are more than [`FEW_FAILED`].
pub fn interval_without(values: &[f64], missing: usize) -> Option<(f64, f64)> {
    interval(values).filter(|_| missing <= FEW_FAILED)
}

/// Median, interval and rounds in words. Two rounds have a smaller and a larger value, which is no interval.
pub fn described(values: &[f64]) -> String {
    let rounds = values.len();
    let (Some(median), plural) = (median(values), if rounds == 1 { "" } else { "s" }) else {
        return "no rounds".to_owned();
    };
    match interval(values) {
        Some(span) => format!("{}, {rounds} rounds", numbers(median, span)),
        None if rounds < FEWEST => {
            let each: Vec<String> = values.iter().map(|value| digits(*value)).collect();
            format!("{} ({rounds} round{plural}: no interval)", each.join(" and "))
        }
        None => format!("{} ({rounds} rounds scatter too widely for an interval)", digits(median)),
    }
}

/// In words, how many are missing from a figure.
fn without(missing: usize) -> String {
    match missing {
        0 => String::new(),
        _ if missing <= FEW_FAILED => format!("; {missing} more brought nothing"),
        _ => format!("; {missing} more brought nothing, too many to decide anything"),
    }
}

fn numbers(value: f64, (low, high): (f64, f64)) -> String {
    format!("{} [{} … {}]", digits(value), digits(low), digits(high))
}

/// Three significant digits; from 100 on, the whole number.
fn digits(value: f64) -> String {
    if value == 0.0 || !value.is_finite() {
        return format!("{value}");
    }
    #[expect(clippy::cast_possible_truncation, reason = "an order of magnitude")]
    let order = value.abs().log10().floor() as i32;
    let decimals = usize::try_from(2 - order).unwrap_or(0);
    format!("{value:.decimals$}")
}

/// The rate of failures that can go unseen in so many trials: all of them without one has a chance of 5 % then, 1 - 0.05^(1/n).
pub fn unseen(of: u64) -> f64 {
    1.0 - ((1.0 - CONFIDENCE).ln() / of.max(1) as f64).exp()
}

/// What trials say of a promise that a single failure breaks, as failures: few trials without one say nothing.
pub fn never(failures: u64, of: u64) -> Option<(f64, f64)> {
    let says = failures > 0 || unseen(of) <= MOST_UNSEEN;
    (of > 0 && says).then_some((failures as f64, failures as f64))
}

/// The exact interval of a share; see `stats::interval`.
pub fn share_interval(hits: u32, of: u32) -> (f64, f64) {
    intervals::share_interval(hits, of, CONFIDENCE)
}
