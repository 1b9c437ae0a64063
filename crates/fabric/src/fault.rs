//! The provider's error. Its words go to whoever reads the ranks' output.

use std::fmt;

/// Why something cannot be done, or nothing more be said to a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// In words, for people.
    pub words: String,
    /// Whether the peer ended in good order: no complaint unless something was under way.
    pub orderly: bool,
}

impl Fault {
    /// A fault that is one.
    pub fn new(words: impl Into<String>) -> Self {
        Self { words: words.into(), orderly: false }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.words.fmt(f)
    }
}

impl From<String> for Fault {
    fn from(words: String) -> Self {
        Self::new(words)
    }
}

impl From<&str> for Fault {
    fn from(words: &str) -> Self {
        Self::new(words)
    }
}
