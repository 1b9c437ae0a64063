//! `bulkhead volume`: folders by name that partitions write and that last.

use anyhow::anyhow;

use super::args::{VolumeArgs, VolumeVerb};
use super::ending::{Ending, OrStop, Verdict};
use super::output;
use partition::volume::{Listed, list, remove, root};
use report::text::{Paint, TextCell, TextTable, printable};

/// Lists or removes volumes.
pub fn run(args: &VolumeArgs) -> Verdict {
    let root = root().map_err(|problem| anyhow!(problem)).or_lacking()?;
    match &args.verb {
        VolumeVerb::Ls { json } => {
            let all = list(&root).or_bad_input()?;
            let text = if *json { as_json(&all).or_lacking()? } else { words(&all) };
            output::data(&text).or_lacking()?;
        }
        VolumeVerb::Rm { names } => {
            let mut left = Vec::new();
            for name in names {
                // One that stays keeps no other.
                left.extend(remove(&root, name).err().map(|problem| problem.to_string()));
            }
            if !left.is_empty() {
                return Err(anyhow!(left.join("\n"))).or_bad_input();
            }
        }
    }
    Ok(Ending::Done)
}

fn as_json(all: &[Listed]) -> serde_json::Result<String> {
    let shown = |one: &Listed| serde_json::json!({ "name": one.name, "folder": one.path.join("files"), "in_use": one.is_used });
    serde_json::to_string_pretty(&all.iter().map(shown).collect::<Vec<_>>())
}

fn words(all: &[Listed]) -> String {
    if all.is_empty() {
        return "there are no volumes\n".to_owned();
    }
    let style = output::stdout_style();
    let cell = |text: String, paint| TextCell { text, paint };
    let mut table = TextTable::default();
    table.rows.push(["volume", "in use", "folder"].map(|title| cell(title.to_owned(), Paint::Bold)).to_vec());
    table.rows.extend(all.iter().map(|one| {
        let used = if one.is_used { "yes" } else { "no" };
        let path = printable(&one.path.join("files").display().to_string(), 400);
        vec![cell(one.name.clone(), Paint::None), cell(used.to_owned(), Paint::None), cell(path, Paint::None)]
    }));
    table.render(style.width, style.colour)
}
