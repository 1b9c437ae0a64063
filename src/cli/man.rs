//! `bulkhead man`: man pages made from the same definitions as the help texts.

use std::fs;
use std::path::Path;

use anyhow::Context;
use clap::CommandFactory;
use clap_mangen::Man;

use super::args::{Arguments, ManArgs};
use super::ending::{Ending, OrStop, Verdict};
use super::output;

/// Prints the main page, or writes one page per verb.
pub fn run(args: &ManArgs) -> Verdict {
    match &args.out {
        Some(folder) => write_all(folder).or_bad_input()?,
        None => output::data(&String::from_utf8_lossy(&page(Arguments::command()).or_bad_input()?))
            .or_bad_input()?,
    }
    Ok(Ending::Done)
}

fn page(command: clap::Command) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    Man::new(command).render(&mut text)?;
    Ok(text)
}

fn write_all(folder: &Path) -> anyhow::Result<()> {
    let unwritable = || format!("man pages cannot be written to {}", folder.display());
    fs::create_dir_all(folder).with_context(unwritable)?;
    let main = Arguments::command();
    fs::write(folder.join("bulkhead.1"), page(main.clone())?).with_context(unwritable)?;
    for verb in main.get_subcommands() {
        let name = format!("bulkhead-{}", verb.get_name());
        let named = verb.clone().display_name(&name).bin_name(name.replacen('-', " ", 1));
        fs::write(folder.join(format!("{name}.1")), page(named)?).with_context(unwritable)?;
    }
    Ok(())
}
