//! Shows what the runner tells: a bar on a terminal, a line now and then elsewhere. Everything goes to stderr.

use std::time::{Duration, Instant};

use indicatif::ProgressBar;

use super::output;
use campaign::decide::Decided;
use campaign::eta::Eta;
use campaign::event::{Event, Role};
use model::journal::{Cell, PlatformState};
use model::prediction::{self, Prediction};
use units::Nanos;

/// Elsewhere than on a terminal: at most one line per this time, besides what happens once.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// Consumer of the runner's events.
pub struct Progress {
    bar: Option<ProgressBar>,
    last_line: Instant,
    done: usize,
    /// `, 7 of 14 figures, 9 of 12 verdicts decided`.
    decided: String,
}

impl Progress {
    /// A bar when stderr is a terminal, lines otherwise.
    pub fn new() -> Self {
        let bar = output::bar();
        Self { bar, last_line: Instant::now(), done: 0, decided: String::new() }
    }

    /// Takes one event.
    pub fn on(&mut self, event: &Event) {
        match event {
            Event::Resumed { measurements, swept, lost } => {
                self.line(&format!("going on; {measurements} measurements are there already"));
                for thing in swept {
                    self.line(&format!("left behind by the run before: {thing}"));
                }
                for lost in lost {
                    self.line(&format!(
                        "line {} of the journal is lost and what it held is measured anew: {}",
                        lost.line, lost.reason
                    ));
                }
            }
            Event::PlatformSurveying { platform } => self.now(&format!("looking at {platform}")),
            Event::PlatformSurveyed { state } => self.line(&surveyed(state)),
            Event::BaselineReplaced { wanted, used, reason } => {
                self.line(&format!("baseline is {used}, because {wanted} is not available: {reason}"));
            }
            Event::PilotStarted { platform } => self.now(&format!("seeing how fast {platform} works")),
            Event::Predicted { predicted } => {
                let count = predicted.measurements;
                self.line(&format!("{count} measurements will take {}", predicted.as_sentence()));
            }
            Event::Took { predicted, took } => self.line(&took_words(predicted, *took)),
            Event::NotLearnt { reason } => {
                self.line(&format!("how long this took cannot be kept for the next prediction: {reason}"));
            }
            Event::InstanceStarting { platform, role } => {
                self.now(&format!("starting {platform}{}", role_text(*role)));
            }
            Event::MeasurementStarted { cell, index, planned_total, eta, .. } => {
                self.measuring(cell, *index, *planned_total, eta.as_ref());
            }
            Event::MeasurementFailed { cell, round, failure } => {
                self.line(&format!("FAILED {} in round {}: {}", cell_text(cell), round + 1, failure.reason));
                self.advance();
            }
            Event::InstanceBroke { cell, round, failure } => {
                self.line(&format!("BROKE {} in round {}: {}", cell_text(cell), round + 1, failure.reason));
            }
            Event::MeasurementDone { .. } => self.advance(),
            Event::Decided { figures, of_figures, verdicts } => {
                self.decided = decided_words(*figures, *of_figures, verdicts);
            }
            Event::Finished { stop } => self.finished(stop.as_sentence()),
            Event::InstanceStarted { .. } => {}
        }
    }

    fn measuring(&mut self, cell: &Cell, index: usize, total: usize, eta: Option<&Eta>) {
        self.done = index.saturating_sub(1);
        let left = format!("{}{}", time_left(eta), self.decided);
        match &self.bar {
            Some(bar) => {
                bar.set_length(total as u64);
                bar.set_position(self.done as u64);
                bar.set_message(format!("{}{left}", cell_text(cell)));
            }
            None if self.last_line.elapsed() >= LINE_EVERY => {
                self.line(&format!("{}/{total} {}{left}", self.done, cell_text(cell)));
            }
            None => {}
        }
    }

    fn advance(&mut self) {
        self.done += 1;
        if let Some(bar) = &self.bar {
            bar.set_position(self.done as u64);
        }
    }

    fn now(&self, text: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(text.to_owned());
        }
    }

    fn line(&mut self, text: &str) {
        self.last_line = Instant::now();
        match &self.bar {
            Some(bar) => bar.suspend(|| output::say(text)),
            None => output::say(text),
        }
    }

    fn finished(&mut self, why: &str) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        let done = self.done;
        self.line(&format!("measured {done} times: {why}"));
    }
}

/// `it took 14 min, predicted were 13 min`.
fn took_words(predicted: &Prediction, took: Duration) -> String {
    let took = prediction::minutes(Nanos::from_duration(took));
    let (least, most) = (prediction::minutes(predicted.least_ns), prediction::minutes(predicted.most_ns));
    let span = if least == most { least } else { format!("{least} to {most}") };
    format!("it took {took}, predicted were {span}")
}

/// `, 7 of 14 figures, 9 of 12 verdicts decided`.
fn decided_words(figures: usize, of_figures: usize, verdicts: &Decided) -> String {
    let Decided { verdicts, of } = verdicts;
    format!(", {figures} of {of_figures} figures, {verdicts} of {of} verdicts decided")
}

fn surveyed(state: &PlatformState) -> String {
    if let Some(reason) = &state.unavailable {
        return format!("{}: not available: {reason}", state.label);
    }
    let known =
        |key: &str| state.properties.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str());
    match (known("accelerator"), known("why"), known("runtime")) {
        (Some(accelerator), Some(why), _) => format!("{}: {accelerator}, because {why}", state.label),
        (_, _, Some(runtime)) => format!("{}: {runtime}", state.label),
        _ => format!("{}: available", state.label),
    }
}

fn role_text(role: Role) -> String {
    match role {
        Role::Measured => String::new(),
        Role::Member(rank) => format!(" (instance {} of a layout)", u64::from(rank) + 1),
        Role::Neighbour => " (neighbour)".to_owned(),
        Role::HostLoad => " (load on the host)".to_owned(),
    }
}

/// `net in 2x1 beside cpu (second) on vm`.
pub fn cell_text(cell: &Cell) -> String {
    let layout = cell.layout.map(|layout| format!(" in {layout}")).unwrap_or_default();
    let beside = cell.neighbour.map(|n| format!(" beside {} ({})", n.kind, n.place)).unwrap_or_default();
    format!("{}{layout}{beside} on {}", cell.probe, cell.platform)
}

fn time_left(eta: Option<&Eta>) -> String {
    let Some(eta) = eta.filter(|eta| !eta.at_most.is_zero()) else { return String::new() };
    let (least, most) = (minutes(eta.at_least), minutes(eta.at_most));
    if least == most { format!(", {most} left") } else { format!(", {least} to {most} left") }
}

/// `m:ss`.
fn minutes(duration: Duration) -> String {
    let seconds = duration.as_secs();
    format!("{}:{:02}", seconds / 60, seconds % 60)
}
