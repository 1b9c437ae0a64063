//! This terminal: its size, and its raw mode while a program in a partition has it.

use std::io::{self, IsTerminal};
use std::sync::{Mutex, PoisonError};

use nix::sys::termios::{SetArg, Termios, cfmakeraw, tcgetattr, tcsetattr};

use model::partition::TerminalSize;

/// What a program gets when there is no terminal to ask.
const USUAL: TerminalSize = TerminalSize { rows: 24, columns: 80 };

/// Size of this terminal.
pub fn size() -> TerminalSize {
    terminal_size::terminal_size()
        .map_or(USUAL, |(width, height)| TerminalSize { rows: height.0, columns: width.0 })
}

/// A terminal whose every key goes to the program. Dropping it puts it back as it was.
#[derive(Debug, Default)]
pub struct RawTerminal {
    before: Mutex<Option<Termios>>,
}

impl RawTerminal {
    /// Switches standard input to raw mode where it is a terminal.
    pub fn enter(&self) {
        let input = io::stdin();
        if !input.is_terminal() {
            return;
        }
        let Ok(before) = tcgetattr(&input) else { return };
        let mut raw = before.clone();
        cfmakeraw(&mut raw);
        if tcsetattr(&input, SetArg::TCSANOW, &raw).is_ok() {
            *self.before.lock().unwrap_or_else(PoisonError::into_inner) = Some(before);
        }
    }

    /// Puts it back.
    pub fn leave(&self) {
        let before = self.before.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(before) = before {
            // A terminal that is gone needs nothing.
            let _ = tcsetattr(io::stdin(), SetArg::TCSANOW, &before);
        }
    }
}

impl Drop for RawTerminal {
    fn drop(&mut self) {
        self.leave();
    }
}
