//! `bulkhead doctor`: is this host fit to be measured, and which platforms can be?

use std::fmt::Write as _;

use super::args::DoctorArgs;
use super::ending::{Ending, OrStop, Verdict};
use super::{interrupt, json, measure, output};
use model::experiment::{Accelerator, PlatformSpec};
use model::journal::PlatformState;
use model::preflight::{Check, CheckLevel, Preflight};
use platforms::sweep::new_folder;
use platforms::{host, make};
use units::names::PlatformKind;

/// Runs all checks and prints them. Missing platforms are shown, not an error: what is there can be measured.
pub fn run(args: &DoctorArgs) -> Verdict {
    if args.power {
        return super::power::run(args);
    }
    if let Some(file) = &args.host_file {
        return super::host_file::run(file, &args.runs_on_it);
    }
    let cancel = interrupt::token().or_lacking()?;
    let folder = std::env::current_dir().or_lacking()?;
    let mut preflight = host::preflight(&folder);
    let work = new_folder("doctor").or_lacking()?;
    let context = measure::platform_context(work.path(), 0, false).or_lacking()?;
    for spec in specs(args.no_trial) {
        let state = make::make(&spec, &context).survey(&cancel);
        preflight.checks.push(platform_check(&state));
        if cancel.is_cancelled() {
            return Ok(Ending::Interrupted);
        }
    }
    let text = if args.json { json::pretty(&preflight).or_bad_input()? } else { table(&preflight) };
    output::data(&text).or_bad_input()?;
    Ok(Ending::Done)
}

fn specs(no_trial: bool) -> Vec<PlatformSpec> {
    let kinds = [PlatformKind::Native, PlatformKind::Container, PlatformKind::Vm];
    let mut specs: Vec<PlatformSpec> = kinds.into_iter().map(PlatformSpec::of_kind).collect();
    for vm in specs.iter_mut().filter(|spec| no_trial && spec.kind == PlatformKind::Vm) {
        vm.accelerator = Accelerator::Tcg;
    }
    specs
}

fn platform_check(state: &PlatformState) -> Check {
    let properties: Vec<String> =
        state.properties.iter().map(|(key, value)| format!("{key}: {value}")).collect();
    Check {
        id: format!("platform {}", state.label),
        level: if state.unavailable.is_some() { CheckLevel::Missing } else { CheckLevel::Ok },
        found: if state.unavailable.is_some() { "not available".to_owned() } else { properties.join("; ") },
        advice: state.unavailable.clone().unwrap_or_default(),
    }
}

/// One check per line, advice below it, wrapped at 80 columns.
fn table(preflight: &Preflight) -> String {
    let mut text = String::new();
    let width = preflight.checks.iter().map(|check| check.id.chars().count()).max().unwrap_or(0);
    let indent = 9 + width + 2;
    for check in &preflight.checks {
        let level = match check.level {
            CheckLevel::Ok => "ok",
            CheckLevel::Note => "note",
            CheckLevel::Dirty => "DIRTY",
            CheckLevel::Missing => "MISSING",
        };
        let found = wrapped(&check.found, indent);
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{level:<8} {:<width$}  {found}", check.id);
        if !check.advice.is_empty() {
            let _ = writeln!(text, "{:indent$}-> {}", "", wrapped(&check.advice, indent + 3));
        }
    }
    text.push_str(closing(preflight));
    text
}

fn closing(preflight: &Preflight) -> &'static str {
    if preflight.dirty_reasons().is_empty() {
        "\nThis host is quiet enough to be measured.\n"
    } else {
        "\nA run made now would be marked dirty: it would show this host's other work, too.\n"
    }
}

/// Breaks text at blanks so that it ends before column 80 when it starts at column `indent`.
fn wrapped(text: &str, indent: usize) -> String {
    let room = 80usize.saturating_sub(indent).max(20);
    let mut lines: Vec<String> = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last().map_or(0, |line| line.chars().count());
        if line > 0 && line + 1 + word.chars().count() > room {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines.join(&format!("\n{:indent$}", ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_fits_eighty_columns_and_says_what_is_dirty() {
        let check = |id: &str, level, words: usize| Check {
            id: id.to_owned(),
            level,
            found: "word ".repeat(words),
            advice: "do this ".repeat(words),
        };
        let checks =
            vec![check("load", CheckLevel::Dirty, 30), check("platform container", CheckLevel::Ok, 3)];
        let text = table(&Preflight { checks });
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.contains("DIRTY") && text.contains("marked dirty"), "{text}");
    }
}
