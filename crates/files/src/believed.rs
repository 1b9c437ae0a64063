//! Names that the guest's kernel believes of a file without asking.
//!
//! It asks for a node, and does not say by which of the node's names it has come there. So what it does by name is done only where all
//! names lead there that it may believe:
//!
//! ```text
//!  LOOKUP log   ──► node 7            believed for a second
//!                       the host: mv log log.1
//!  LOOKUP log.1 ──► node 7            believed as well
//!  OPEN 7       ──► ESTALE            log leads elsewhere; its kernel asks for the name anew
//! ```

use std::time::{Duration, Instant};

use rustix::io::Errno;

use crate::coherence::ON_THE_WAY;
use crate::message::Result;

/// Most that are remembered of a file besides the one that was looked up last.
const MOST: usize = 16;
/// With so many the next one is to be asked for each time. More come only from renames: the guest's kernel goes on believing what it
/// has renamed.
const ENOUGH: usize = 4;

/// A name in a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Name {
    /// The folder's node.
    pub parent: u64,
    /// The name there.
    pub name: Vec<u8>,
}

/// Until when which names are believed.
#[derive(Debug, Default)]
pub struct Believed {
    /// That of the name that was looked up last, which its node has.
    until: Option<Instant>,
    /// Those that were looked up before, oldest first.
    others: Vec<(Name, Instant)>,
    /// There were more of them than are remembered, until then.
    too_many: Option<Instant>,
}

impl Believed {
    /// The guest is told of the name that was looked up last, for so long.
    pub fn tell(&mut self, validity: Duration) {
        self.until = (!validity.is_zero()).then(|| Instant::now() + validity + ON_THE_WAY);
    }

    /// Whether the name that was looked up last is believed.
    pub fn has_last(&self) -> bool {
        self.until.is_some_and(is_to_come)
    }

    /// Whether any name is believed.
    pub fn has_any(&self) -> bool {
        self.has_last() || self.others.iter().any(|(_, until)| is_to_come(*until))
    }

    /// Whether no further name should be believed.
    pub fn has_enough(&self) -> bool {
        self.others.iter().filter(|(_, until)| is_to_come(*until)).count() >= ENOUGH
    }

    /// Another name was looked up last; this one was it before.
    pub fn replace(&mut self, before: Option<Name>, now: &Name) {
        self.others.retain(|(name, until)| name != now && is_to_come(*until));
        let Some((before, until)) = before.zip(self.until.take().filter(|until| is_to_come(*until))) else {
            return;
        };
        if self.others.len() == MOST {
            self.too_many = self.too_many.max(Some(self.others.remove(0).1));
        }
        self.others.push((before, until));
    }

    /// The guest itself has taken away this name, which was not looked up last.
    pub fn remove(&mut self, lost: &Name) {
        self.others.retain(|(name, _)| name != lost);
    }

    /// The same of the one that was: another one takes its place.
    pub fn remove_last(&mut self) -> Option<Name> {
        let (name, until) = self.others.pop().unzip();
        self.until = until;
        name
    }

    /// The names besides the one that was looked up last.
    ///
    /// # Errors
    /// ESTALE where there were more than are remembered: at that the guest's kernel looks up the one that it means.
    pub fn others(&self) -> Result<Vec<Name>> {
        if self.too_many.is_some_and(is_to_come) {
            return Err(Errno::STALE);
        }
        let believed = self.others.iter().filter(|(_, until)| is_to_come(*until));
        Ok(believed.map(|(name, _)| name.clone()).collect())
    }
}

fn is_to_come(until: Instant) -> bool {
    until > Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(3600);

    fn name(text: &str) -> Name {
        Name { parent: 2, name: text.into() }
    }

    fn looked_up(believed: &mut Believed, before: &str, now: &str) {
        believed.replace(Some(name(before)), &name(now));
        believed.tell(LONG);
    }

    #[test]
    fn what_was_told_is_believed_beside_what_is_told_next() {
        let mut believed = Believed::default();
        believed.tell(LONG);
        looked_up(&mut believed, "log", "log.1");
        assert_eq!(believed.others(), Ok(vec![name("log")]));
        // Looked up again, it is no other any more.
        looked_up(&mut believed, "log.1", "log");
        assert_eq!(believed.others(), Ok(vec![name("log.1")]));
        believed.remove(&name("log.1"));
        assert_eq!(believed.others(), Ok(Vec::new()));
        assert!(believed.has_last());
    }

    #[test]
    fn what_is_to_be_asked_for_each_time_is_not_believed() {
        let mut believed = Believed::default();
        believed.tell(Duration::ZERO);
        assert!(!believed.has_last());
        looked_up(&mut believed, "log", "log.1");
        assert_eq!(believed.others(), Ok(Vec::new()));
    }

    #[test]
    fn a_removed_name_gives_way_to_the_one_before() {
        let mut believed = Believed::default();
        believed.tell(LONG);
        looked_up(&mut believed, "a", "b");
        assert_eq!(believed.remove_last(), Some(name("a")));
        assert!(believed.has_last());
        assert_eq!(believed.remove_last(), None);
        assert!(!believed.has_last());
    }

    #[test]
    fn enough_are_enough_until_one_is_gone() {
        let mut believed = Believed::default();
        believed.tell(LONG);
        for number in 0..ENOUGH {
            assert!(!believed.has_enough());
            looked_up(&mut believed, &format!("{number}"), &format!("{}", number + 1));
        }
        assert!(believed.has_enough());
        believed.remove(&name("0"));
        assert!(!believed.has_enough());
    }

    #[test]
    fn more_than_are_remembered_are_none_that_are_known() {
        let mut believed = Believed::default();
        believed.tell(LONG);
        for number in 0..=MOST {
            looked_up(&mut believed, &format!("{number}"), &format!("{}", number + 1));
        }
        assert_eq!(believed.others(), Err(Errno::STALE));
    }
}
