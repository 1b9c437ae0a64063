//! "Who took the time?" in words: the losses that are shared out, and their lines on a terminal.

use model::attribution::Attribution;
use model::results::{CellResult, RunResults};
use probes::ProbeKind;
use units::Nanos;

use super::terminal::{Style, heading};
use super::text::{paragraph, printable};

/// Sources named in a line.
const SOURCES_NAMED: usize = 4;
/// Longest sentence that is shown whole.
const SENTENCE_MOST: usize = 600;
/// What the user did not ask for is not missed: a terminal does not mention it.
const NOT_ASKED_FOR: &str = "tracing: not asked for";

/// A kind of loss that is shared out among sources.
#[derive(Debug, Clone, Copy)]
pub(super) struct Loss {
    /// The probe that sees it.
    pub probe: ProbeKind,
    /// What is asked.
    pub question: &'static str,
    /// What became of the time: `lost`.
    pub verb: &'static str,
    /// What is said where nothing was lost.
    pub nothing: &'static str,
    /// What counts, for who has not read the documentation.
    pub about: &'static str,
}

/// All of them.
pub(super) const LOSSES: [Loss; 3] = [
    Loss {
        probe: ProbeKind::Gap,
        question: "Who took the time that the gap probe lost?",
        verb: "lost",
        nothing: "lost nothing",
        about: "The gap probe loses time whenever it does not run. The instance's kernel counts what it can; each bar is all \
                the lost time of a platform, shared out. What nobody owns to is shown as such: inside a guest the host \
                may have taken it.",
    },
    Loss {
        probe: ProbeKind::Wakeup,
        question: "Who made wake-ups late?",
        verb: "late",
        nothing: "no wake-up came late",
        about: "A wake-up came late when it took three times as long as the quickest quarter of all; what lies beyond that \
                quarter's is shared out. The scheduler's counters are read beside the latest ones. An interrupt that came \
                in between is counted, but not for which wake-up: only one that keeps the timer's beat can be named.",
    },
    Loss {
        probe: ProbeKind::Disk,
        question: "What did operations of the disk wait for?",
        verb: "stalled",
        nothing: "no operation stalled",
        about: "An operation stalled when it took ten times as long as the quickest quarter of its phase; what lies beyond \
                that quarter's is shared out. The scheduler's counters are read beside the longest ones: they tell \
                waiting for the device from waiting for a CPU, and both from work.",
    },
];

impl Loss {
    /// Cells of this probe with what was shared out.
    pub(super) fn cells<'a>(
        &self,
        results: &'a RunResults,
    ) -> impl Iterator<Item = (&'a CellResult, &'a Attribution)> + use<'a> {
        let probe = self.probe;
        let of_probe = results.cells.iter().filter(move |cell| cell.cell.probe == probe);
        of_probe.filter_map(|cell| Some((cell, cell.attribution.as_ref()?)))
    }
}

/// Who took the time of each platform that was measured alone.
pub(super) fn attributions(out: &mut String, results: &RunResults, style: Style) {
    for loss in LOSSES {
        let alone: Vec<_> = loss.cells(results).filter(|(cell, _)| cell.cell.neighbour.is_none()).collect();
        if alone.is_empty() {
            continue;
        }
        heading(out, loss.question, style);
        for (cell, attribution) in alone {
            let text = format!("{}: {}", cell.cell.platform, line(&loss, attribution));
            out.push_str(&paragraph("  ", &printable(&text, SENTENCE_MOST), style.columns()));
            for reason in missed(attribution) {
                let text = printable(&unknown_words(reason), SENTENCE_MOST);
                out.push_str(&paragraph("    ", &text, style.columns()));
            }
        }
    }
}

/// `steal: no /proc/stat` in words.
pub(super) fn unknown_words(reason: &str) -> String {
    match reason.split_once(": ") {
        Some((what, why)) => format!("{what}: unknown, because {why}"),
        None => format!("unknown: {reason}"),
    }
}

/// What could not be asked, without what was not asked for; only where something was lost that may be its.
fn missed(attribution: &Attribution) -> impl Iterator<Item = &String> {
    let is_missed = attribution.lost_ns > Nanos::ZERO;
    let asked = |reason: &&String| !reason.starts_with(NOT_ASKED_FOR);
    attribution.unknown.iter().filter(asked).filter(move |_| is_missed)
}

fn line(loss: &Loss, attribution: &Attribution) -> String {
    if attribution.lost_ns == Nanos::ZERO {
        return loss.nothing.to_owned();
    }
    let share = |nanos: Nanos| format!("{:.0} %", nanos.as_f64() / attribution.lost_ns.as_f64() * 100.0);
    let named = attribution.sources.iter().filter(|source| source.share >= 0.005).take(SOURCES_NAMED);
    let mut parts: Vec<String> =
        named.map(|source| format!("{} {}", source.name, share(source.lost_ns))).collect();
    match attribution.sources.len() - parts.len() {
        0 => {}
        1 => parts.push("1 smaller source".to_owned()),
        more => parts.push(format!("{more} smaller sources")),
    }
    parts.push(format!("not attributed {}", share(attribution.unattributed_ns)));
    format!("{} {}: {}", attribution.lost_ns, loss.verb, parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::attribution::AttributedSource;

    #[test]
    fn what_was_lost_is_shared_out_in_a_line_and_what_was_hidden_is_said() {
        let ns = Nanos::from_nanos;
        let source = |name: &str, took: u64| AttributedSource {
            name: name.to_owned(),
            lost_ns: ns(took),
            share: took as f64 / 1e6,
            evidence: String::new(),
        };
        let told = Attribution {
            lost_ns: ns(1_000_000),
            sources: vec![source("timer tick", 700_000), source("steal", 1_000)],
            unattributed_ns: ns(299_000),
            unknown: vec![
                "tracing: not asked for (…)".to_owned(),
                "steal: /proc/stat: Permission denied".to_owned(),
            ],
        };
        let [_, wakeup, _] = LOSSES;
        assert_eq!(line(&wakeup, &told), "1 ms late: timer tick 70 %, 1 smaller source, not attributed 30 %");
        assert_eq!(missed(&told).collect::<Vec<_>>(), ["steal: /proc/stat: Permission denied"]);
        assert_eq!(line(&wakeup, &Attribution::default()), "no wake-up came late");
        assert_eq!(unknown_words("steal: no: really"), "steal: unknown, because no: really");
        let nothing = Attribution { lost_ns: Nanos::ZERO, ..told };
        assert_eq!(missed(&nothing).count(), 0);
    }
}
