//! What platforms are held against: shipped classes, those of the run directory, those of the command line.
//!
//! ```text
//!  shipped ─► DIR/classes.toml (what an earlier call asked for) ─► --classes FILE ─► --deadline, --miss-rate
//! ```

use std::path::Path;

use anyhow::{Context, anyhow, bail};

use super::args::FitArgs;
use super::{file, output};
use campaign::rundir::{CLASSES_FILE, RunDir};
use model::classes::{ClassSet, MAX_FILE_BYTES, shipped};
use model::results::RunResults;
use units::Micros;
use units::names::UnknownName;

/// The classes to hold a run against; `dir` is an existing run's directory.
pub fn resolve(args: &FitArgs, dir: Option<&Path>) -> anyhow::Result<ClassSet> {
    let mut set = shipped().context("shipped classes")?;
    if let Some(kept) = dir.map(|dir| dir.join(CLASSES_FILE)).filter(|file| file.is_file()) {
        set = set.extended_by(read(&kept)?);
    }
    if let Some(file) = &args.classes {
        set = set.extended_by(read(file)?);
    }
    change_deadlines(&mut set, args)?;
    set.check()?;
    for name in &args.require {
        if !set.names().contains(&name.as_str()) {
            return Err(UnknownName::new("class", name, &set.names())).context("--require");
        }
    }
    Ok(set)
}

/// Reads a file of classes.
pub fn read(path: &Path) -> anyhow::Result<ClassSet> {
    let text = file::read("classes ", path, MAX_FILE_BYTES)?;
    ClassSet::from_toml(&text).with_context(|| format!("classes {} cannot be used", path.display()))
}

fn change_deadlines(set: &mut ClassSet, args: &FitArgs) -> anyhow::Result<()> {
    let deadline = args.deadline.as_deref().map(parse_time).transpose()?;
    let given = deadline.is_some() || args.miss_rate.is_some();
    let mut with_deadline = set.classes.iter_mut().filter_map(|class| class.deadline.as_mut()).peekable();
    if given && with_deadline.peek().is_none() {
        bail!("--deadline and --miss-rate: no class has a deadline");
    }
    for own in with_deadline {
        own.deadline_us = deadline.unwrap_or(own.deadline_us);
        own.miss_rate = args.miss_rate.unwrap_or(own.miss_rate);
    }
    Ok(())
}

/// `5ms`, `250us`, `1.5s`.
fn parse_time(text: &str) -> anyhow::Result<Micros> {
    let wrong = || anyhow!("--deadline {text}: wanted a time from 1us to 3600s such as 5ms, 250us or 1.5s");
    let digits = text.trim_end_matches(|letter: char| letter.is_alphabetic());
    let scale = match text.get(digits.len()..) {
        Some("us" | "µs") => 1.0,
        Some("ms") => 1e3,
        Some("s") => 1e6,
        _ => return Err(wrong()),
    };
    let micros = digits.trim().parse::<f64>().map_err(|_| wrong())? * scale;
    if !(1.0..=3.6e9).contains(&micros) {
        return Err(wrong());
    }
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "between 1 and 3.6e9")]
    let whole = micros.round() as u64;
    Ok(Micros::from_micros(whole))
}

/// Keeps the classes beside the run when the command line asked for others, so that they hold the next time, too.
pub fn keep(args: &FitArgs, rundir: &RunDir, set: &ClassSet) -> anyhow::Result<()> {
    if args.classes.is_some() || args.deadline.is_some() || args.miss_rate.is_some() {
        rundir.publish(CLASSES_FILE, set.to_toml()?.as_bytes())?;
    }
    Ok(())
}

/// Whether every platform that was measured is fit for the classes that are required; says which is not, and why.
pub fn is_met(args: &FitArgs, results: &RunResults) -> bool {
    let mut met = true;
    for name in &args.require {
        let verdicts: Vec<_> = results.classes.iter().filter(|verdict| verdict.class == *name).collect();
        if verdicts.is_empty() {
            output::say(&format!("bulkhead: --require {name}: no platform was measured"));
            met = false;
        }
        for verdict in verdicts.into_iter().filter(|verdict| !verdict.level.is_met()) {
            output::say(&format!("bulkhead: --require {name}: {}", verdict.sentence));
            met = false;
        }
    }
    met
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_carry_their_unit() {
        for (text, micros) in [("5ms", 5000), ("250us", 250), ("1.5s", 1_500_000), ("0.25ms", 250)] {
            assert_eq!(parse_time(text).unwrap().get(), micros, "{text}");
        }
        for bad in ["5", "ms", "", "-5ms", "5 minutes", "0us", "1e9s", "nanms", "5ns"] {
            let error = parse_time(bad).unwrap_err().to_string();
            assert!(error.contains("wanted a time"), "{bad}: {error}");
        }
    }

    #[test]
    fn deadline_and_miss_rate_change_the_classes_that_have_one() {
        let args = FitArgs { deadline: Some("2ms".to_owned()), miss_rate: Some(1e-4), ..FitArgs::default() };
        let set = resolve(&args, None).unwrap();
        let deadline = set.classes[0].deadline.unwrap();
        assert_eq!((deadline.deadline_us.get(), deadline.miss_rate), (2000, 1e-4));
        for (args, part) in [
            (FitArgs { miss_rate: Some(2.0), ..FitArgs::default() }, "out of bounds"),
            (FitArgs { miss_rate: Some(f64::NAN), ..FitArgs::default() }, "out of bounds"),
            (
                FitArgs { require: vec!["realtime".to_owned()], ..FitArgs::default() },
                "did you mean \"real-time\"?",
            ),
            (FitArgs { classes: Some("/no/such.toml".into()), ..FitArgs::default() }, "cannot be read"),
        ] {
            let error = format!("{:#}", resolve(&args, None).unwrap_err());
            assert!(error.contains(part), "{error}");
        }
    }
}
