//! `bulkhead measure --plan`: what would be measured, in which order, and for how long.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use anyhow::Context;

use super::args::MeasureArgs;
use super::ending::{Ending, OrStop, Verdict};
use super::measure::{DURATIONS_FILE, fresh_seed, platform_context};
use super::progress::{Progress, cell_text};
use super::{agent::counter_rate, interrupt, output, resolve};
use campaign::foresee::Sight;
use campaign::preview::{Preview, preview};
use model::experiment::Experiment;
use platforms::sweep::new_folder;
use platforms::{Cancel, facts, make};
use report::text::paragraph;
use units::metric::percent_up;

/// Width of what is said in sentences.
const COLUMNS: usize = 80;

/// Looks, plans, predicts, prints.
pub fn run(args: &MeasureArgs) -> Verdict {
    let cancel = interrupt::token().or_lacking()?;
    let seed = fresh_seed();
    let mut experiment = resolve::experiment(args, seed).or_bad_input()?;
    experiment.seed = Some(experiment.seed.unwrap_or(seed));
    let preview = look(&experiment, &cancel).or_lacking()?;
    if cancel.is_cancelled() {
        return Ok(Ending::Interrupted);
    }
    output::data(&words(&experiment, &preview)).or_lacking()?;
    Ok(Ending::Done)
}

fn look(experiment: &Experiment, cancel: &Cancel) -> anyhow::Result<Preview> {
    let work = new_folder("plan").context("no folder for what trying platforms leaves")?;
    let context = platform_context(work.path(), experiment.seed.unwrap_or_default(), false)?;
    let platforms =
        experiment.platforms.iter().map(|spec| (spec.clone(), make::make(spec, &context))).collect();
    let durations = context.cache.join(DURATIONS_FILE);
    let host = facts::collect(counter_rate());
    let mut progress = Progress::new();
    Ok(preview(experiment, platforms, &host, &durations, cancel, &mut |event| progress.on(event))?)
}

/// One line per measurement of the first round, then the sum.
fn words(experiment: &Experiment, preview: &Preview) -> String {
    let mut out = String::new();
    let repeat = experiment.repeat;
    let _ = writeln!(
        out,
        "experiment {}, seed {}: {} to {} rounds of each probe; the first ones, {} measurements:",
        experiment.name,
        experiment.seed.unwrap_or_default(),
        repeat.min,
        repeat.max,
        preview.first_round.len()
    );
    for (cell, duration, is_known) in &preview.first_round {
        let mark = if *is_known { " " } else { "~" };
        let _ = writeln!(out, "{mark}{:>8.2} s  {}", duration.as_secs_f64(), cell_text(cell));
    }
    if preview.first_round.iter().any(|(_, _, is_known)| !is_known) {
        let _ = writeln!(out, "~ not measured on this host before: a typical cost");
    }
    let _ =
        writeln!(out, "{} measurements, {}", preview.predicted.measurements, preview.predicted.as_sentence());
    out + &sight_words(experiment, &preview.sights)
}

/// Which differences the run will see, a line per platform; and what is not known yet, once.
fn sight_words(experiment: &Experiment, sights: &[Sight]) -> String {
    let mut out = String::new();
    let name = |sight: &Sight| sight.cell.probe_words();
    for platform in experiment.platforms.iter().map(|platform| platform.label.as_str()) {
        let here = sights.iter().filter(|sight| sight.cell.platform == platform);
        let known = here.filter_map(|sight| Some((name(sight), sight.detectable_percent?)));
        let known: Vec<String> =
            known.map(|(name, percent)| format!("{name} {}", percent_up(percent))).collect();
        if !known.is_empty() {
            out.push_str(&paragraph(&format!("  {platform}: "), &known.join(", "), COLUMNS));
        }
    }
    if !out.is_empty() {
        let head =
            "Differences that this run will probably see (90 % power), by how figures scattered here before:";
        out = format!("\n{}{out}", paragraph("", head, COLUMNS));
    }
    let unknown = sights.iter().filter(|sight| sight.detectable_percent.is_none());
    let unknown: BTreeSet<String> =
        unknown.map(|sight| format!("{} on {}", name(sight), sight.cell.platform)).collect();
    if !unknown.is_empty() {
        let all = unknown.len() == sights.len();
        let what =
            if all { "any of it".to_owned() } else { unknown.into_iter().collect::<Vec<_>>().join(", ") };
        let text = format!(
            "Which differences it will see is not known yet of {what}: a run of it teaches that, also a short one \
             (--budget-s 30); bulkhead doctor --power tries this host."
        );
        out.push('\n');
        out.push_str(&paragraph("", &text, COLUMNS));
    }
    out
}
