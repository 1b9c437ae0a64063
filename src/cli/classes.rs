//! `bulkhead classes`: list the shipped classes of work, print one to start from, or check a file.

use std::path::Path;

use super::args::ClassesArgs;
use super::ending::{Ending, OrStop, Verdict};
use super::{fit, json, output};
use model::classes::{ClassSet, shipped_texts};
use model::partition::is_name;
use units::names::UnknownName;
use verify::of_class;

/// Lists, prints or checks.
pub fn run(args: &ClassesArgs) -> Verdict {
    let text = match &args.name {
        None if args.json => json::pretty(&names()).or_bad_input()?,
        None => names().join("\n"),
        Some(name) => match &args.requirements {
            Some(whose) => requirements(name, whose).or_bad_input()?,
            None => named(name, args.json).or_bad_input()?,
        },
    };
    output::data(&text).or_bad_input()?;
    Ok(Ending::Done)
}

fn names() -> Vec<&'static str> {
    shipped_texts().iter().map(|(name, _)| *name).collect()
}

/// Conditions as requirements of a partition.
fn requirements(name: &str, whose: &str) -> anyhow::Result<String> {
    let Some((set, partition)) = whose.split_once('/').filter(|(set, name)| is_name(set) && is_name(name))
    else {
        anyhow::bail!("--requirements {whose}: wanted SET/PARTITION")
    };
    let shipped = shipped_texts().iter().find(|(known, _)| *known == name).map(|(_, text)| *text);
    let classes =
        shipped.map_or_else(|| fit::read(Path::new(name)), |text| Ok(ClassSet::from_toml(text)?))?;
    let [class] = classes.classes.as_slice() else {
        anyhow::bail!("{name} has {} classes: give a file with one", classes.classes.len())
    };
    let file = of_class::requirements(class, set, partition).map_err(|reason| anyhow::anyhow!(reason))?;
    Ok(toml::to_string(&file)?)
}

/// A shipped class as it was written; of a file, that it is good and what it holds.
fn named(name: &str, json: bool) -> anyhow::Result<String> {
    let shipped = shipped_texts().iter().find(|(known, _)| *known == name).map(|(_, text)| *text);
    let looks_like_file =
        name.contains('/') || Path::new(name).extension().is_some() || Path::new(name).exists();
    let set = match shipped {
        Some(text) => ClassSet::from_toml(text)?,
        None if looks_like_file => fit::read(Path::new(name))?,
        None => {
            anyhow::bail!("{}; or give the path of a TOML file", UnknownName::new("class", name, &names()))
        }
    };
    if json {
        return Ok(json::pretty(&set)?);
    }
    let conditions: usize = set.classes.iter().map(|class| class.conditions.len()).sum();
    Ok(shipped.map_or_else(
        || {
            format!(
                "{name}: good. {} ({}), {conditions} conditions.",
                if set.classes.len() == 1 {
                    "1 class".to_owned()
                } else {
                    format!("{} classes", set.classes.len())
                },
                set.names().join(", ")
            )
        },
        str::to_owned,
    ))
}
