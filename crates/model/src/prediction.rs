//! How long a run was said to take, and how long it took.

use serde::{Deserialize, Serialize};

use units::Nanos;

/// How long the rest of a run will take, said before it is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Prediction {
    /// Time for what is certain to come: `repeat.min` rounds, starting the instances included.
    pub least_ns: Nanos,
    /// Time when nothing settles before `repeat.max` or the budget ends it.
    pub most_ns: Nanos,
    /// Measurements that are certain to come.
    pub measurements: u32,
    /// Of these, how many were made on this host before, so that it is known how long they take.
    pub known: u32,
}

/// One session of a run: from the first measurement of a start, or of a resume, to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SessionTime {
    /// What was predicted for it.
    pub predicted: Prediction,
    /// How long it took; none when it was killed.
    pub took_ns: Option<Nanos>,
    /// Whether all that was planned is measured at its end; none when it was killed, and of older programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub is_done: Option<bool>,
}

impl Prediction {
    /// How far it may be off: a quarter where four in five measurements were made here before, else by half.
    pub const fn error_percent(&self) -> u32 {
        if self.known * 5 >= self.measurements * 4 { 25 } else { 50 }
    }

    /// `about 14 min ± 25 %`, `8 min to 14 min ± 25 %`.
    pub fn as_sentence(&self) -> String {
        let (least, most) = (minutes(self.least_ns), minutes(self.most_ns));
        let span = if least == most { format!("about {least}") } else { format!("{least} to {most}") };
        let guess = if self.error_percent() > 25 {
            ": a guess, this host has not measured most of it yet"
        } else {
            ""
        };
        format!("{span} ± {} %{guess}", self.error_percent())
    }
}

/// `14 min`, below two minutes `95 s`, below ten seconds `2.8 s`, beyond two hours `3 h`.
pub fn minutes(time: Nanos) -> String {
    match time.as_secs_f64() {
        seconds if seconds < 9.95 => format!("{seconds:.1} s"),
        seconds if seconds < 120.0 => format!("{seconds:.0} s"),
        seconds if seconds < 7200.0 => format!("{:.0} min", seconds / 60.0),
        seconds => format!("{:.0} h", seconds / 3600.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prediction_reads_as_a_sentence() {
        let seconds = |seconds: u64| Nanos::from_nanos(seconds * 1_000_000_000);
        let known = Prediction { least_ns: seconds(840), most_ns: seconds(840), measurements: 10, known: 8 };
        assert_eq!(known.as_sentence(), "about 14 min ± 25 %");
        let guess = Prediction { least_ns: seconds(95), known: 7, ..known };
        assert!(guess.as_sentence().starts_with("95 s to 14 min ± 50 %: a guess"), "{}", guess.as_sentence());
    }
}
