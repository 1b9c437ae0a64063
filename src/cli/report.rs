//! `bulkhead report DIR`: everything shown again, computed anew from the journal.

use super::args::ReportArgs;
use super::ending::{Ending, OrStop, Verdict};
use super::{measure, output};
use crate::campaign;

/// Rebuilds results.json and report.html from the journal and prints the summary.
pub fn run(args: &ReportArgs) -> Verdict {
    let rundir = campaign::rundir::RunDir::resume(&args.dir).or_bad_input()?;
    let results = campaign::conclude(&rundir).or_bad_input()?;
    measure::publish(&rundir, &results).or_bad_input()?;
    measure::show(&results, args.json).or_bad_input()?;
    output::say(&format!(
        "bulkhead: {} written anew",
        args.dir.join(campaign::rundir::REPORT_FILE).display()
    ));
    Ok(Ending::Done)
}
