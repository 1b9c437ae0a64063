//! A plan's folder: plan.json, a set per host, plan.html. Each file is written whole or not at all.

use std::fs;
use std::path::Path;

use anyhow::{Context, bail};

use crate::cli::{file, json};
use model::partition::is_name;
use model::plan::{Plan, PlannedHost};
use model::system::{KnownHost, System};

/// The plan's own file.
const PLAN: &str = "plan.json";
/// The same to look at.
const PAGE: &str = "plan.html";

/// Who may do what with these files.
const MODE: u32 = 0o644;

/// Whether the folder can be written: it is not there, or empty, or an earlier plan's.
pub(super) fn is_free(out: &Path) -> anyhow::Result<()> {
    let Ok(mut entries) = fs::read_dir(out) else {
        if out.exists() {
            bail!("{} is there and no folder: --out names another one", out.display());
        }
        return Ok(());
    };
    if entries.next().is_none() || out.join(PLAN).is_file() {
        return Ok(());
    }
    bail!("{} is there and holds no plan: --out names another folder", out.display())
}

/// Writes all of it.
pub(super) fn all(out: &Path, system: &System, hosts: &[KnownHost], plan: &Plan) -> anyhow::Result<()> {
    fs::create_dir_all(out).with_context(|| format!("{} cannot be made", out.display()))?;
    let (sets, _) = plan::sets(system, plan);
    // Sets of hosts that the plan before this one used, and this one does not: by their names, not by what that plan says of files.
    let before = super::plan_of(&out.join(PLAN)).map(|plan| plan.hosts).unwrap_or_default();
    let unused = |host: &&PlannedHost| is_name(&host.name) && !sets.contains_key(&host.name);
    for host in before.iter().filter(unused) {
        let path = out.join(format!("{}.set.toml", host.name));
        if path.is_file() {
            fs::remove_file(&path).with_context(|| format!("{} cannot be removed", path.display()))?;
        }
    }
    for (host, set) in &sets {
        let head = format!(
            "# What runs on {host}; {PLAN} beside it has the whole plan. Written by bulkhead plan.\n"
        );
        let text = toml::to_string(set).context("a set cannot be written as TOML")?;
        file::write(&out.join(format!("{host}.set.toml")), format!("{head}{text}").as_bytes(), MODE)?;
    }
    file::write(&out.join(PAGE), report::plan_page::html(system, hosts, plan).as_bytes(), MODE)?;
    file::write(&out.join(PLAN), json::pretty(plan)?.as_bytes(), MODE)
}

/// What was written, in words.
pub(super) fn files(out: &Path, plan: &Plan) -> String {
    let sets: Vec<&str> = plan.hosts.iter().filter_map(|host| host.set_file.as_deref()).collect();
    let sets = match sets.as_slice() {
        [] => String::new(),
        [one] => format!(", {one}"),
        several if several.len() > 4 => format!(", {} sets", several.len()),
        several => format!(", {}", several.join(", ")),
    };
    format!("{}/{PLAN}, {PAGE}{sets}", out.display())
}
