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

use crate::coherence::ON_THE_WAY;

/// Most that are remembered of a file besides the one that was looked up last.
const MOST: usize = 16;

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
    /// That of the name that was looked up last.
    until: Option<Instant>,
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
    pub fn is_present(&self) -> bool {
        self.until.is_some_and(is_to_come)
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

    /// The guest itself has given it another name: that is believed as long as the one before.
    pub fn rename(&mut self, from: &Name, was_present: bool) {
        if !was_present {
            let place = self.others.iter().position(|(name, _)| name == from);
            self.until = place.map(|place| self.others.remove(place).1);
        }
    }

    /// The guest itself has removed this name, which was not looked up last.
    pub fn remove(&mut self, lost: &Name) {
        self.others.retain(|(name, _)| name != lost);
    }

    /// The same of the one that was: another one takes its place.
    pub fn remove_present(&mut self) -> Option<Name> {
        let (name, until) = self.others.pop().unzip();
        self.until = until;
        name
    }

    /// The names besides the one that was looked up last; none where there were too many.
    pub fn others(&self) -> Option<Vec<Name>> {
        if self.too_many.is_some_and(is_to_come) {
            return None;
        }
        let believed = self.others.iter().filter(|(_, until)| is_to_come(*until));
        Some(believed.map(|(name, _)| name.clone()).collect())
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
        assert_eq!(believed.others(), Some(vec![name("log")]));
        // Looked up again, it is no other any more.
        looked_up(&mut believed, "log.1", "log");
        assert_eq!(believed.others(), Some(vec![name("log.1")]));
        believed.remove(&name("log.1"));
        assert_eq!(believed.others(), Some(Vec::new()));
        assert!(believed.is_present());
    }

    #[test]
    fn what_is_to_be_asked_for_each_time_is_not_believed() {
        let mut believed = Believed::default();
        believed.tell(Duration::ZERO);
        assert!(!believed.is_present());
        looked_up(&mut believed, "log", "log.1");
        assert_eq!(believed.others(), Some(Vec::new()));
    }

    #[test]
    fn a_removed_name_gives_way_to_the_one_before() {
        let mut believed = Believed::default();
        believed.tell(LONG);
        looked_up(&mut believed, "a", "b");
        assert_eq!(believed.remove_present(), Some(name("a")));
        assert!(believed.is_present());
        assert_eq!(believed.remove_present(), None);
        assert!(!believed.is_present());
    }

    #[test]
    fn a_name_that_the_guest_changes_stays_believed() {
        let mut believed = Believed::default();
        believed.tell(LONG);
        looked_up(&mut believed, "a", "b");
        believed.replace(Some(name("b")), &name("c"));
        believed.rename(&name("a"), false);
        assert!(believed.is_present());
        assert_eq!(believed.others(), Some(vec![name("b")]));
    }

    #[test]
    fn more_than_are_remembered_are_none_that_are_known() {
        let mut believed = Believed::default();
        believed.tell(LONG);
        for number in 0..=MOST {
            looked_up(&mut believed, &format!("{number}"), &format!("{}", number + 1));
        }
        assert_eq!(believed.others(), None);
    }
}
