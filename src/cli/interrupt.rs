//! Ctrl-C, SIGTERM and SIGHUP: the first asks for a clean end, a second one ends at once (the reaper cleans up then).

use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Context;

use super::output;
use platforms::Cancel;

/// Exit code of what Ctrl-C ended: 128 and the number of SIGINT.
const INTERRUPTED: i32 = 130;

/// For measuring: guests are ended, what is finished is kept.
pub fn token() -> anyhow::Result<Cancel> {
    token_saying("interrupted; ending guests, keeping what is finished (again: at once)")
}

/// Installs the handler, which says these words the first time, and returns the token it cancels.
pub fn token_saying(words: &'static str) -> anyhow::Result<Cancel> {
    let cancel = Cancel::new();
    let asked = AtomicBool::new(false);
    let handed = cancel.clone();
    #[expect(clippy::exit, reason = "who asks twice does not want to wait for anything")]
    ctrlc::set_handler(move || {
        if asked.swap(true, Ordering::SeqCst) {
            // Guests and containers are ended by the reaper; nothing of the journal is lost, its lines are on disk.
            std::process::exit(INTERRUPTED);
        }
        output::say(&format!("\nbulkhead: {words}"));
        handed.cancel();
    })
    .context("the handler for Ctrl-C cannot be installed")?;
    Ok(cancel)
}
