//! What an errand writes on another machine, here.
//!
//! ```text
//!  `up`, `down`, `ps`, `stop`, …   stderr ─► "HOST: line" as they come     stdout ─► kept, printed when it has ended
//!  `logs`                          both as they come, byte for byte; whole lines, harmless ones, to a terminal
//! ```

use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;

use super::LONGEST_LINE;
use crate::cli::output;
use model::experiment::SshSpec;
use platforms::Cancel;
use platforms::ssh::errand::{ErrandError, Lines, Taker, run_settled};
use report::text::printable;

/// Most bytes of what another machine prints that are kept.
const MOST_OUTPUT: usize = 64 << 20;

/// An errand for a program over there.
pub struct Call<'a> {
    /// The way there.
    pub ssh: &'a SshSpec,
    /// Its path there.
    pub program: &'a str,
    /// The errand.
    pub asked: &'a [u8],
    /// What is not wanted any more is undone there.
    pub cancel: &'a Cancel,
}

impl Call<'_> {
    fn run(&self, takers: [Taker<'_>; 2]) -> Result<i32, ErrandError> {
        run_settled(self.ssh, self.program, self.asked, takers, self.cancel)
    }
}

/// Tells what it says as it comes, and prints what it printed when it has ended.
pub fn kept_and_told(call: &Call<'_>, host: &str) -> io::Result<Result<i32, ErrandError>> {
    let (mut kept, mut lines) = (Vec::new(), Lines::default());
    let tell = |line: &str| output::say(&format!("{host}: {}", printable(line, LONGEST_LINE)));
    let mut keep = |piece: &[u8]| {
        let room = MOST_OUTPUT.saturating_sub(kept.len());
        kept.extend_from_slice(piece.get(..room).unwrap_or(piece));
        Ok(())
    };
    let mut hear = |piece: &[u8]| {
        lines.add(piece, tell);
        Ok(())
    };
    let told = call.run([&mut keep, &mut hear]);
    lines.end(tell);
    if told.is_ok() {
        show(&String::from_utf8_lossy(&kept))?;
    }
    Ok(told)
}

/// Passes both streams on as they come, as `logs` does here.
pub fn passed_on(call: &Call<'_>) -> io::Result<Result<i32, ErrandError>> {
    let failed = OnceLock::new();
    // Whoever cannot take it ends the errand, and is told why.
    let refused = |error: io::Error| {
        let kind = error.kind();
        let _ = failed.set(error);
        io::Error::from(kind)
    };
    let (mut out, mut err) = (Lines::default(), Lines::default());
    let mut printed = |piece: &[u8]| pass_on(&mut out, piece, &mut io::stdout().lock()).map_err(refused);
    let mut errors = |piece: &[u8]| pass_on(&mut err, piece, &mut io::stderr().lock()).map_err(refused);
    let told = call.run([&mut printed, &mut errors]);
    // Who cannot take the end of a line has been told above, or is gone.
    out.end(|line| drop(pass_on_line(line, &mut io::stdout().lock())));
    err.end(|line| drop(pass_on_line(line, &mut io::stderr().lock())));
    failed.into_inner().map_or(Ok(told), Err)
}

/// Bytes as they are, but whole lines to a terminal.
fn pass_on<W: Write + IsTerminal>(lines: &mut Lines, piece: &[u8], to: &mut W) -> io::Result<()> {
    if !to.is_terminal() {
        return output::pass_on(piece, to);
    }
    let mut passed = Ok(());
    lines.add(piece, |line| {
        if passed.is_ok() {
            passed = pass_on_line(line, to);
        }
    });
    passed
}

fn pass_on_line<W: Write + IsTerminal>(line: &str, to: &mut W) -> io::Result<()> {
    output::pass_on(format!("{line}\n").as_bytes(), to)
}

/// What was printed there, line by line: the machine is not trusted with the terminal.
fn show(text: &str) -> io::Result<()> {
    if text.is_empty() {
        return Ok(());
    }
    let lines: Vec<String> = text.lines().map(|line| printable(line, LONGEST_LINE)).collect();
    output::data(&lines.join("\n"))
}
