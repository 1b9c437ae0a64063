//! Where text goes: data to stdout, everything else to stderr; colour only on a terminal that wants it.

use std::io::{self, IsTerminal, Write};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use report::terminal::Style;
use report::text::printable;

/// Most characters of a line that somebody has written, on a terminal.
const LONGEST_LINE: usize = 4000;

/// A progress bar where stderr is a terminal; its length and words are its owner's.
pub fn bar() -> Option<ProgressBar> {
    stderr_is_terminal().then(|| {
        let bar = ProgressBar::new(0);
        let style = ProgressStyle::with_template("{bar:24} {pos}/{len} {wide_msg}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "));
        bar.enable_steady_tick(Duration::from_millis(500));
        bar
    })
}

/// Prints data.
pub fn data(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    if !text.ends_with('\n') {
        stdout.write_all(b"\n")?;
    }
    stdout.flush()
}

/// Passes on what somebody has written. A terminal gets nothing that could move its cursor.
pub fn pass_on<W: Write + IsTerminal>(bytes: &[u8], to: &mut W) -> io::Result<()> {
    if to.is_terminal() {
        for line in String::from_utf8_lossy(bytes).lines() {
            writeln!(to, "{}", printable(line, LONGEST_LINE))?;
        }
    } else {
        to.write_all(bytes)?;
    }
    to.flush()
}

/// Tells the user something that is not data.
pub fn say(text: &str) {
    // A closed stderr is no reason to stop measuring.
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Prints an error with its causes, each once.
pub fn error(error: &anyhow::Error) {
    let mut text = String::from("bulkhead: ");
    let mut last = String::new();
    for cause in error.chain() {
        let words = cause.to_string();
        if last.contains(&words) {
            continue;
        }
        if !last.is_empty() {
            text.push_str(": ");
        }
        text.push_str(&words);
        last = words;
    }
    say(&text);
}

/// Style for tables on stdout: the terminal's width and colour if it is one, else 80 columns without colour.
pub fn stdout_style() -> Style {
    let terminal = io::stdout().is_terminal();
    Style { width: if terminal { columns() } else { 80 }, colour: terminal && colour_wanted() }
}

/// Whether stdout is a terminal that was told to know ASCII only: `LC_ALL`, `LC_CTYPE` or `LANG` (the first that is set)
/// names a character set other than UTF-8, or none. Without any of them UTF-8 is assumed, as terminals have it today.
pub fn stdout_is_ascii() -> bool {
    let set = |name| std::env::var(name).ok().filter(|value: &String| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set);
    io::stdout().is_terminal() && locale.is_some_and(|locale| !is_utf8(&locale))
}

fn is_utf8(locale: &str) -> bool {
    let locale = locale.to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

/// Whether stderr is a terminal on which a progress bar may be drawn.
pub fn stderr_is_terminal() -> bool {
    io::stderr().is_terminal()
}

fn colour_wanted() -> bool {
    let set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    !set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

fn columns() -> usize {
    terminal_size::terminal_size().map_or(80, |(width, _)| usize::from(width.0)).clamp(60, 120)
}
