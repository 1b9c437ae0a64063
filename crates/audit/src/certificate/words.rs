//! A certificate's lines, word by word: numbers, literals, names. Whatever stands there, it is told and not believed.

use std::io::BufRead;
use std::str::{FromStr, Split};

use units::Reason;

/// Longest line, in bytes.
pub(super) const LONGEST_LINE: usize = 1 << 24;
/// Highest number of a variable.
pub(super) const HIGHEST_VARIABLE: u32 = 10_000_000;

/// A variable or its negative: twice the variable's place, and one more for the negative.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Lit(pub u32);

impl Lit {
    /// A variable, by its place.
    pub const fn of(variable: u32) -> Self {
        Self(variable << 1)
    }

    /// What is true when this is false.
    #[must_use]
    pub const fn negated(self) -> Self {
        Self(self.0 ^ 1)
    }

    /// The variable's place.
    pub const fn variable(self) -> usize {
        (self.0 >> 1) as usize
    }

    /// Whether it is the negative.
    pub const fn is_negative(self) -> bool {
        self.0 & 1 == 1
    }

    /// Its own place in lists by literal.
    pub const fn place(self) -> usize {
        self.0 as usize
    }
}

/// Places of the variables that occurred, in the order in which they did: tables by place are as long as the text makes them.
#[derive(Debug, Default)]
pub(super) struct Variables {
    /// By number: one more than the place, 0 for one that did not occur.
    places: Vec<u32>,
    count: u32,
}

impl Variables {
    /// How many occurred.
    pub const fn count(&self) -> usize {
        self.count as usize
    }

    /// The place of a variable, a new one where it is new.
    pub fn place(&mut self, number: u32) -> u32 {
        let index = number as usize;
        if self.places.len() <= index {
            self.places.resize(index + 1, 0);
        }
        let count = &mut self.count;
        let Some(place) = self.places.get_mut(index) else { return 0 };
        if *place == 0 {
            *count += 1;
            *place = *count;
        }
        *place - 1
    }

    /// The place of one that occurred.
    pub fn known(&self, number: u32) -> Option<u32> {
        self.places.get(number as usize)?.checked_sub(1)
    }
}

/// The words of a line that were not yet read.
#[derive(Debug, Clone)]
pub(super) struct Words<'a>(Split<'a, char>);

impl<'a> Words<'a> {
    /// Of a line without its end.
    pub fn of(line: &'a str) -> Self {
        Self(line.split(' '))
    }

    /// The next word, which must be there.
    pub fn word(&mut self, what: &str) -> Result<&'a str, Reason> {
        let word = self.0.next().ok_or_else(|| format!("wanted {what}, and the line has ended"))?;
        if word.is_empty() {
            return Err(format!("wanted {what} after a single blank, got none").into());
        }
        Ok(word)
    }

    /// The next word as a number, which must be there.
    pub fn number<T: FromStr>(&mut self, what: &str) -> Result<T, Reason> {
        let word = self.word(what)?;
        number(word).ok_or_else(|| {
            format!("wanted {what}, a number that is not beyond belief, got \"{word}\"").into()
        })
    }

    /// The next word as a variable's number.
    pub fn variable(&mut self) -> Result<u32, Reason> {
        let number: u32 = self.number("a variable")?;
        in_range(i64::from(number))?;
        Ok(number)
    }

    /// The next word as a variable's number, with a minus for its negative.
    pub fn literal(&mut self) -> Result<i64, Reason> {
        let number: i64 = self.number("a literal")?;
        in_range(number)?;
        Ok(number)
    }

    /// Whether no word is left.
    pub fn is_at_end(&self) -> bool {
        self.0.clone().next().is_none()
    }

    /// Nothing more may stand there.
    pub fn end(&self) -> Result<(), Reason> {
        match self.0.clone().next() {
            None => Ok(()),
            Some(word) => Err(format!("the line should have ended before \"{word}\"").into()),
        }
    }
}

/// A number without a plus, as numbers are written.
fn number<T: FromStr>(word: &str) -> Option<T> {
    let digits = word.strip_prefix('-').unwrap_or(word);
    let is_plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    word.parse().ok().filter(|_| is_plain)
}

fn in_range(number: i64) -> Result<(), Reason> {
    if (1..=u64::from(HIGHEST_VARIABLE)).contains(&number.unsigned_abs()) {
        return Ok(());
    }
    Err(format!("variables are 1 to {HIGHEST_VARIABLE}, got {number}").into())
}

/// Reads a line without its end into `line`; false when there is none.
///
/// # Errors
/// It is too long, or cannot be read.
pub(super) fn read_line(from: &mut impl BufRead, line: &mut Vec<u8>) -> Result<bool, Reason> {
    line.clear();
    loop {
        let there = match from.fill_buf() {
            Ok(there) => there,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(format!("it cannot be read: {error}").into()),
        };
        if there.is_empty() {
            return Ok(!line.is_empty());
        }
        let end = there.iter().position(|byte| *byte == b'\n');
        let part = there.get(..end.unwrap_or(there.len())).unwrap_or(there);
        if line.len() + part.len() > LONGEST_LINE {
            return Err(format!("lines have at most {LONGEST_LINE} bytes").into());
        }
        line.extend_from_slice(part);
        let used = part.len() + usize::from(end.is_some());
        from.consume(used);
        if end.is_some() {
            return Ok(true);
        }
    }
}
