//! Which message goes to which receive, as MPI demands: messages of one sender in the order they were sent, receives in
//! the order they were posted, wildcards for sender and tag.
//!
//! Pure: what a receive and a message are besides their labels is the caller's affair.

use std::collections::VecDeque;

/// What a receive asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    /// From whom; anybody if none.
    pub source: Option<u32>,
    /// The tag.
    pub tag: u64,
    /// Bits of the tag that do not matter.
    pub ignore: u64,
}

/// What a message carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Label {
    /// From whom.
    pub source: u32,
    /// The tag.
    pub tag: u64,
}

impl Wanted {
    fn fits(&self, label: &Label) -> bool {
        (self.tag ^ label.tag) & !self.ignore == 0 && self.source.is_none_or(|source| source == label.source)
    }
}

/// Entries in order, with holes: taking one out of the middle moves nothing.
#[derive(Debug)]
struct Line<T> {
    entries: VecDeque<Option<T>>,
    filled: usize,
}

impl<T> Line<T> {
    fn new() -> Self {
        Self { entries: VecDeque::new(), filled: 0 }
    }

    fn push(&mut self, entry: T) {
        self.entries.push_back(Some(entry));
        self.filled += 1;
    }

    fn position(&self, fits: impl Fn(&T) -> bool) -> Option<usize> {
        if self.filled == 0 {
            return None;
        }
        self.entries.iter().position(|entry| entry.as_ref().is_some_and(&fits))
    }

    fn find(&self, fits: impl Fn(&T) -> bool) -> Option<&T> {
        self.entries.get(self.position(fits)?)?.as_ref()
    }

    fn take(&mut self, fits: impl Fn(&T) -> bool) -> Option<T> {
        // Mostly it is the first one, and alone.
        if self.filled == 0 {
            return None;
        }
        if self.entries.len() == 1
            && self.entries.front().is_some_and(|entry| entry.as_ref().is_some_and(&fits))
        {
            self.filled = 0;
            return self.entries.pop_front().flatten();
        }
        let at = self.position(fits)?;
        let taken = self.entries.get_mut(at)?.take();
        self.filled -= usize::from(taken.is_some());
        while self.entries.front().is_some_and(Option::is_none) {
            self.entries.pop_front();
        }
        while self.entries.back().is_some_and(Option::is_none) {
            self.entries.pop_back();
        }
        if self.entries.len() > 64 && self.filled * 2 < self.entries.len() {
            self.entries.retain(Option::is_some);
        }
        taken
    }

    fn take_all(&mut self, fits: impl Fn(&T) -> bool) -> Vec<T> {
        let mut taken = Vec::new();
        while let Some(entry) = self.take(&fits) {
            taken.push(entry);
        }
        taken
    }
}

/// Posted receives `R` and messages `M` that came before their receive.
#[derive(Debug)]
pub struct Matcher<R, M> {
    posted: Line<(Wanted, R)>,
    arrived: Line<(Label, M)>,
    /// By the name that its receive will have.
    claimed: Vec<(usize, Label, M)>,
}

impl<R, M> Default for Matcher<R, M> {
    fn default() -> Self {
        Self { posted: Line::new(), arrived: Line::new(), claimed: Vec::new() }
    }
}

impl<R, M> Matcher<R, M> {
    /// The receive that a message goes to, if one is posted. Else the message is to be given to [`Matcher::keep`].
    pub fn arrive(&mut self, label: &Label) -> Option<R> {
        self.posted.take(|(wanted, _)| wanted.fits(label)).map(|(_, receive)| receive)
    }

    /// Keeps a message for which no receive is posted.
    pub fn keep(&mut self, label: Label, message: M) {
        self.arrived.push((label, message));
    }

    /// The message that a receive gets, if one is there. Else the receive is to be given to [`Matcher::post`].
    pub fn take(&mut self, wanted: &Wanted) -> Option<(Label, M)> {
        self.arrived.take(|(label, _)| wanted.fits(label))
    }

    /// Posts a receive for which no message is there.
    pub fn post(&mut self, wanted: Wanted, receive: R) {
        self.posted.push((wanted, receive));
    }

    /// The message that a receive would get.
    pub fn peek(&self, wanted: &Wanted) -> Option<(&Label, &M)> {
        self.arrived.find(|(label, _)| wanted.fits(label)).map(|(label, message)| (label, message))
    }

    /// Puts the message that a receive would get aside, for the receive called `name` alone.
    pub fn claim(&mut self, wanted: &Wanted, name: usize) -> bool {
        let taken = self.take(wanted);
        let found = taken.is_some();
        self.claimed.extend(taken.map(|(label, message)| (name, label, message)));
        found
    }

    /// The message that was put aside under this name.
    pub fn claimed(&mut self, name: usize) -> Option<(Label, M)> {
        let at = self.claimed.iter().position(|(other, _, _)| *other == name)?;
        let (_, label, message) = self.claimed.swap_remove(at);
        Some((label, message))
    }

    /// Takes back the first posted receive that `is_it`.
    pub fn cancel(&mut self, is_it: impl Fn(&R) -> bool) -> Option<R> {
        self.posted.take(|(_, receive)| is_it(receive)).map(|(_, receive)| receive)
    }

    /// Takes back all posted receives that only `source` could fill.
    pub fn abandon(&mut self, source: u32) -> Vec<R> {
        let gone = self.posted.take_all(|(wanted, _)| wanted.source == Some(source));
        gone.into_iter().map(|(_, receive)| receive).collect()
    }

    /// Takes back all posted receives.
    pub fn abandon_all(&mut self) -> Vec<R> {
        self.posted.take_all(|_| true).into_iter().map(|(_, receive)| receive).collect()
    }

    /// Number of receives posted, and of messages that wait for one.
    pub fn waiting(&self) -> (usize, usize) {
        (self.posted.filled, self.arrived.filled + self.claimed.len())
    }
}
