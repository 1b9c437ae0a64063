//! What a lane does about messages that carry no payload: greetings, announcements, invitations, credit.

use super::{Lane, MOST_ANNOUNCED};
use crate::engine::core::{Arrived, Body, Core};
use crate::engine::matching::Label;
use crate::fault::Fault;
use crate::wire::{Message, VERSION};

impl Lane {
    /// Does what a message without payload says.
    pub(super) fn obey(&mut self, core: &mut Core, message: Message) -> Result<(), Fault> {
        match message {
            Message::Hello { run, rank, version } => {
                let wanted = (self.hello.run, self.rank, VERSION);
                if self.greeted || (run, rank, version) != wanted {
                    let got = (run, rank, version);
                    let words = format!("wanted one hello of run, rank, version {wanted:?}, got {got:?}");
                    return Err(Fault::new(words));
                }
                self.greeted = true;
                Ok(())
            }
            Message::Announce { tag, data, length, id } => {
                let label = Label { source: self.rank, tag };
                let body = Body::Announced { id, length };
                if let Some(receive) = core.matcher.arrive(&label) {
                    return self.invite(core, receive, label, data, (id, body.length()));
                }
                self.announced += 1;
                if self.announced > MOST_ANNOUNCED {
                    return Err(Fault::new(format!("more than {MOST_ANNOUNCED} messages announced")));
                }
                core.matcher.keep(label, Arrived { data, body });
                Ok(())
            }
            Message::Invite { id, to, accepted } => {
                let wrong =
                    || Fault::new(format!("an invitation to a message ({id}) that was not announced"));
                let sending = core.sends.get_mut(&id).filter(|at| at.peer == self.rank).ok_or_else(wrong)?;
                let accepted = usize::try_from(accepted).unwrap_or(usize::MAX);
                if sending.invited.is_some() || accepted > sending.outgoing.load.bytes().len() {
                    return Err(wrong());
                }
                sending.invited = Some((to, accepted));
                if accepted > 0 {
                    self.streams.push_back(id);
                    return self.flush(core).map(|_| ());
                }
                if let Some(sending) = core.sends.remove(&id) {
                    core.sent(&sending.outgoing, 0);
                }
                Ok(())
            }
            Message::Credit { returned } => {
                if returned < self.eager_returned || returned > self.eager_sent {
                    let (sent, before) = (self.eager_sent, self.eager_returned);
                    return Err(Fault::new(format!("wanted {before} to {sent} bytes back, got {returned}")));
                }
                self.eager_returned = returned;
                Ok(())
            }
            Message::Eager { .. } | Message::Piece { .. } => Ok(()),
        }
    }
}
