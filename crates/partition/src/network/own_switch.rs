//! The switch of a run that belongs to no set: this program in a process of its own, which dies with us.

use std::io;
use std::path::Path;
use std::process::{Child, Stdio};

use super::switch::SwitchOrder;
use crate::run::Surroundings;
use platforms::ledger::{Ledger, Thing, Ticket};
use platforms::spawn::ending;
use platforms::wall;

/// A running switch. Dropping it ends it.
pub struct OwnSwitch {
    child: Child,
    ledger: Ledger,
    ticket: Option<Ticket>,
}

impl OwnSwitch {
    /// Starts one for the plugs in `folder`. Plugs may come at any time later.
    ///
    /// # Errors
    /// When it cannot be started or written down.
    pub fn start(folder: &Path, prefix: [u8; 5], around: &Surroundings) -> io::Result<Self> {
        let order = SwitchOrder { folder: folder.to_owned(), prefix: Some(prefix), ..SwitchOrder::default() };
        let mut command = order.walled(&around.exe);
        // What it has to say goes to our standard error.
        command.stdin(Stdio::null());
        around.ledger.mark(&mut command);
        let child = wall::start(command)?;
        let thing = Thing::process(child.id());
        let mut switch = Self { child, ledger: around.ledger.clone(), ticket: None };
        switch.ticket = thing.map(|thing| around.ledger.record(thing)).transpose()?;
        Ok(switch)
    }

    /// In words, when it has ended.
    pub fn how_it_ended(&mut self) -> Option<String> {
        match self.child.try_wait() {
            Ok(status) => status.map(ending),
            Err(error) => Some(format!("cannot be waited for: {error}")),
        }
    }
}

impl Drop for OwnSwitch {
    fn drop(&mut self) {
        // Ended already, or its number is still its own: it has not been waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(ticket) = self.ticket.take() {
            self.ledger.undone(ticket);
        }
    }
}
