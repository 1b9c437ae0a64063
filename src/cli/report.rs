//! `bulkhead report DIR`: everything shown again, computed anew from the journal. A simulated scenario has none: its
//! results are the truth, and only its page is written anew.

use super::args::ReportArgs;
use super::ending::{Ending, OrStop, Verdict};
use super::{fit, measure, output, simulate};
use campaign;
use campaign::rundir::{REPORT_FILE, RunDir};
use report::page;

/// Rebuilds results.json and report.html from the journal and prints the summary.
pub fn run(args: &ReportArgs) -> Verdict {
    if let Some(results) = campaign::read_simulated(&args.dir).or_bad_input()? {
        if let Some(flag) = args.fit.first_given() {
            let error = anyhow::anyhow!(
                "{flag}: {} was simulated; only what was measured is held against classes",
                args.dir.display()
            );
            return Err(error).or_bad_input();
        }
        return simulate::report(&args.dir, &results, (args.json, args.full));
    }
    let classes = fit::resolve(&args.fit, Some(&args.dir)).or_bad_input()?;
    let rundir = RunDir::resume(&args.dir).or_bad_input()?;
    fit::keep(&args.fit, &rundir, &classes).or_bad_input()?;
    let results = campaign::conclude(&rundir, &classes).or_bad_input()?;
    rundir.publish(REPORT_FILE, page::html(&results).as_bytes()).or_bad_input()?;
    measure::show(&results, measure::Shown::of(args.json, args.full)).or_bad_input()?;
    output::say(&format!("bulkhead: {} written anew", args.dir.join(REPORT_FILE).display()));
    if !(args.full || args.json) {
        output::say("all of it: --full");
    }
    Ok(if fit::is_met(&args.fit, &results) { Ending::Done } else { Ending::NotMet })
}
