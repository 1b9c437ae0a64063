//! `bulkhead-skips FOLDER` prints what `make test` came to: `said`, `skips` and `broken` lie in the folder that
//! `tests/all.sh` made. Exit code 1 when something failed.

use std::path::Path;
use std::process::ExitCode;

mod summary;

#[expect(clippy::print_stdout, reason = "printing is what it is for")]
fn main() -> ExitCode {
    let Some(folder) = std::env::args_os().nth(1) else {
        println!("wanted: bulkhead-skips FOLDER, with said, skips and broken in it");
        return ExitCode::from(2);
    };
    // Programs print what they like: not all of it must be text.
    let read = |name| match std::fs::read(Path::new(&folder).join(name)) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) => Err(format!("cannot read {name} in {}: {error}", folder.display())),
    };
    match (read("said"), read("skips"), read("broken")) {
        (Ok(said), Ok(skips), Ok(broken)) => {
            let summary = summary::Summary::new(&said, &skips, &broken);
            print!("{}", summary.text());
            ExitCode::from(u8::from(!summary.failed.is_empty()))
        }
        (said, skips, broken) => {
            let problems: Vec<_> = [said, skips, broken].into_iter().filter_map(Result::err).collect();
            println!("{}", problems.join("\n"));
            ExitCode::from(2)
        }
    }
}
