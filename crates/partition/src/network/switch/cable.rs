//! Cables that are pulled out for a while, so that it can be seen what a set makes of it: the switch hangs up on a plug and does not dial
//! it again before the time is over. Whoever pulls says so again and again; when nobody does any more, the cable is in again.
//!
//! ```text
//!  pull ─► 7.pulled in the link's folder, PULL_SIGNAL ─► the switch takes the file away and hangs up on plug 7 ─► 2 s ─► dials again
//! ```

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use nix::sys::signal::Signal;

use super::core::PlugNumber;

/// Tells a switch to look whose cable is pulled out.
pub const PULL_SIGNAL: Signal = Signal::SIGUSR1;
/// How long a cable stays out after that.
pub const PULLED_FOR: Duration = Duration::from_secs(2);

/// The plug's name among the cables that are to be pulled.
fn file_name(number: PlugNumber) -> String {
    format!("{number}.pulled")
}

/// Says in the link's folder whose cable is pulled out; the switch is to be sent [`PULL_SIGNAL`] then.
///
/// # Errors
/// The file cannot be made.
pub fn pull(link: &Path, number: PlugNumber) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true).mode(0o600).open(link.join(file_name(number))).map(drop)
}

/// The switch's side: which cables are out, and until when, counted from when it began.
#[derive(Debug, Default)]
pub struct Pulled(BTreeMap<PlugNumber, Duration>);

impl Pulled {
    /// Whose cables are pulled out now; what says so goes.
    pub fn look(&mut self, link: &Path, now: Duration) -> Vec<PlugNumber> {
        let is_pulled = |number: &PlugNumber| fs::remove_file(link.join(file_name(*number))).is_ok();
        let pulled: Vec<PlugNumber> = (1..=PlugNumber::MAX).filter(is_pulled).collect();
        self.0.extend(pulled.iter().map(|number| (*number, now + PULLED_FOR)));
        pulled
    }

    /// Whether this one is out.
    pub fn is_out(&mut self, number: PlugNumber, now: Duration) -> bool {
        self.0.retain(|_, until| now < *until);
        self.0.contains_key(&number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cable_is_out_from_when_it_is_said_until_nobody_says_so_any_more() {
        let link = tempfile::tempdir().unwrap();
        let mut pulled = Pulled::default();
        let at = Duration::from_secs;
        assert!(pulled.look(link.path(), at(1)).is_empty());
        pull(link.path(), 7).unwrap();
        assert!(!pulled.is_out(7, at(1)), "the signal says when");
        assert_eq!(pulled.look(link.path(), at(1)), [7]);
        assert!(pulled.look(link.path(), at(2)).is_empty(), "once said, it is done");
        assert!(pulled.is_out(7, at(2)) && !pulled.is_out(6, at(2)));
        pull(link.path(), 7).unwrap();
        pull(link.path(), 7).unwrap();
        assert_eq!(pulled.look(link.path(), at(2)), [7]);
        assert!(pulled.is_out(7, at(3)) && !pulled.is_out(7, at(4)));
        assert_eq!(fs::read_dir(link.path()).unwrap().count(), 0);
    }
}
