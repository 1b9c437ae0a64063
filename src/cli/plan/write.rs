//! A plan's folder: plan.json, a set per host, plan.html. Each file is written whole or not at all.

use std::fs;
use std::io::Write as _;
use std::path::Path;

use anyhow::{Context, bail};

use crate::cli::json;
use model::plan::Plan;
use model::system::{KnownHost, System};

/// The plan's own file.
const PLAN: &str = "plan.json";
/// The same to look at.
const PAGE: &str = "plan.html";

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
    // Sets of hosts that an earlier plan used, and this one does not.
    for entry in fs::read_dir(out).with_context(|| format!("{} cannot be read", out.display()))? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if name.strip_suffix(".set.toml").is_some_and(|host| !sets.contains_key(host)) {
            fs::remove_file(out.join(&name)).with_context(|| format!("{name} cannot be removed"))?;
        }
    }
    for (host, set) in &sets {
        let head = format!(
            "# What runs on {host}, as planned; {PLAN} beside it says why. Written by bulkhead plan.\n"
        );
        let text = toml::to_string(set).context("a set cannot be written as TOML")?;
        whole(&out.join(format!("{host}.set.toml")), &format!("{head}{text}"))?;
    }
    whole(&out.join(PAGE), &report::plan_page::html(system, hosts, plan))?;
    whole(&out.join(PLAN), &json::pretty(plan)?)
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

fn whole(path: &Path, text: &str) -> anyhow::Result<()> {
    let context = || format!("{} cannot be written", path.display());
    let folder = path.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(folder).with_context(context)?;
    file.write_all(text.as_bytes()).with_context(context)?;
    file.as_file().sync_all().with_context(context)?;
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    file.as_file().set_permissions(mode).with_context(context)?;
    file.persist(path).map_err(|error| error.error).with_context(context)?;
    Ok(())
}
