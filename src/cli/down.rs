//! `bulkhead down`: ends a set and leaves nothing of it.

use std::path::Path;

use anyhow::{anyhow, bail};

use super::args::DownArgs;
use super::ending::{Ending, OrStop, Verdict};
use super::remote::{self, Errand};
use super::{output, plan, up};
use partition::set::down::{DownError, Gone, down};
use partition::set::root::state_root;
use partition::set::status;
use partition::set::up::shown;
use units::names::nearest;

/// Ends it, saying what is ended.
pub fn run(args: &DownArgs) -> Verdict {
    let root = state_root();
    let planned = plan::chosen_of(args.set.as_deref(), args.on.as_deref()).or_bad_input()?;
    if let Some((plan, chosen)) = &planned
        && let Some(destination) = &chosen.destination
    {
        let errand = Errand::Down { set: chosen.plan.system.clone() };
        return remote::run(chosen, destination, &errand, plan);
    }
    let named = planned.as_ref().map(|(_, chosen)| chosen.plan.system.as_str()).or(args.set.as_deref());
    end(&chosen(&root, named).or_bad_input()?)
}

/// Ends the set of that name, saying what is ended.
pub fn end(name: &str) -> Verdict {
    let told = down(&state_root(), name, &mut |gone| {
        if let Gone::Cleared(folder) = gone {
            output::say(&format!("{}: ended", shown(&folder)));
        }
    });
    match told {
        Ok(()) => {
            output::say(&format!("{name} is down"));
            Ok(Ending::Done)
        }
        Err(error @ DownError::Left(_)) => Err(error).or_broke(),
        Err(error) => Err(error).or_bad_input(),
    }
}

/// The set that is meant: a name, a file, or the only one there is.
fn chosen(root: &Path, named: Option<&str>) -> anyhow::Result<String> {
    let there = status::names(root);
    let Some(named) = named else {
        return match there.as_slice() {
            [only] => Ok(only.clone()),
            [] => Err(anyhow!("no set is up")),
            several => Err(anyhow!("several sets are up, name one: {}", several.join(", "))),
        };
    };
    if there.iter().any(|name| name == named) {
        return Ok(named.to_owned());
    }
    let path = Path::new(named);
    if path.is_file() {
        let set = up::parse(path, &up::read(path)?)?;
        if !there.contains(&set.name) {
            bail!("set \"{}\" of {named} is not up", set.name);
        }
        return Ok(set.name);
    }
    let known: Vec<&str> = there.iter().map(String::as_str).collect();
    let hint = nearest(named, &known).map(|name| format!("; did you mean \"{name}\"?")).unwrap_or_default();
    bail!("no set \"{named}\" is up, and there is no such file{hint}")
}
