//! Sentences that a page says once. Reasons and remarks come by the hundred and differ in numbers only: those that are alike
//! become one, with the smallest and the largest number, `(4.5 … 59.3)`, and a list of whom it is said.

use maud::{Markup, html};

use super::anchor;
use super::parts::bounded;

/// Sentences that are kept; whatever comes after them is said to be one of many.
const MOST: usize = 200;
const REST: &str = "one of many other reasons, which results.json has";

/// A word of a sentence, or a number with its unit.
#[derive(Debug, Clone, PartialEq)]
enum Word {
    /// Stays as it is.
    Text(String),
    /// Smallest and largest, each with its text, and what stands around them.
    Number { before: String, least: (f64, String), most: (f64, String), after: String },
}

/// Units that may follow a number, and how many of the smallest of its kind they are.
const UNITS: [(&str, f64); 11] = [
    ("ns", 1.0),
    ("µs", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("%", 1.0),
    ("×", 1.0),
    ("B", 1.0),
    ("KiB", 1024.0),
    ("MiB", 1_048_576.0),
    ("GiB", 1_073_741_824.0),
    ("Hz", 1.0),
];

impl Word {
    /// The words of a sentence; a number takes its unit with it.
    fn all(text: &str) -> Vec<Self> {
        let mut words: Vec<Self> = Vec::new();
        for word in text.split_whitespace() {
            let core = word.trim_end_matches([',', ';', ':', ')', '.']);
            let unit = UNITS.iter().find(|(unit, _)| *unit == core);
            match (words.last_mut(), unit) {
                (Some(Self::Number { least, most, after, .. }), Some((_, factor))) if after.is_empty() => {
                    for end in [least, most] {
                        end.0 *= factor;
                        end.1 = format!("{} {core}", end.1);
                    }
                    word.get(core.len()..).unwrap_or_default().clone_into(after);
                }
                _ => words.push(Self::of(word)),
            }
        }
        words
    }

    fn of(word: &str) -> Self {
        let inner = word.trim_start_matches(['(', '[', '+']);
        let number = inner.trim_end_matches([',', ';', ':', ')', ']', '.']);
        let begins_so = number.starts_with(|c: char| c.is_ascii_digit() || c == '-');
        match number.parse::<f64>() {
            Ok(value) if begins_so && value.is_finite() => Self::Number {
                before: word.get(..word.len() - inner.len()).unwrap_or_default().to_owned(),
                least: (value, number.to_owned()),
                most: (value, number.to_owned()),
                after: inner.get(number.len()..).unwrap_or_default().to_owned(),
            },
            _ => Self::Text(word.to_owned()),
        }
    }

    fn are_alike(a: &[Self], b: &[Self]) -> bool {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.is_alike(b))
    }

    /// Whether they say the same but for a number.
    fn is_alike(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Text(a), Self::Text(b)) => a == b,
            (
                Self::Number { before: a, after: b, least, .. },
                Self::Number { before: c, after: d, least: other, .. },
            ) => a == c && b == d && unit_of(&least.1).1 == unit_of(&other.1).1,
            _ => false,
        }
    }

    fn take_in(&mut self, other: Self) {
        if let (Self::Number { least, most, .. }, Self::Number { least: low, most: high, .. }) = (self, other)
        {
            if low.0 < least.0 {
                *least = low;
            }
            if high.0 > most.0 {
                *most = high;
            }
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Number { before, least, most, after } if least.0.total_cmp(&most.0).is_eq() => {
                format!("{before}{}{after}", least.1)
            }
            Self::Number { before, least, most, after } => {
                let (low, unit) = least.1.rsplit_once(' ').unwrap_or((&least.1, ""));
                let low = if most.1.ends_with(&format!(" {unit}")) { low } else { &least.1 };
                format!("{before}({low} … {}){after}", most.1)
            }
        }
    }
}

/// The number of a text and the kind of its unit.
fn unit_of(text: &str) -> (&str, &'static str) {
    match text.rsplit_once(' ') {
        Some((number, "ns" | "µs" | "ms" | "s")) => (number, "time"),
        Some((number, "B" | "KiB" | "MiB" | "GiB")) => (number, "size"),
        Some((number, "%")) => (number, "share"),
        Some((number, "×")) => (number, "ratio"),
        Some((number, "Hz")) => (number, "frequency"),
        _ => (text, ""),
    }
}

/// A sentence, and of whom it is said.
#[derive(Debug, Clone)]
struct Note {
    words: Vec<Word>,
    of: Vec<Place>,
}

/// Of whom a sentence is said: a platform, and what it is beside, empty when it is alone.
pub(super) type Place = (String, String);

/// `vm, container (alone, cpu@second); vm (disk@second)`: neighbours with the same platforms stand together.
fn places(of: &[Place]) -> String {
    let mut by_platforms: Vec<(Vec<&str>, Vec<&str>)> = Vec::new();
    let mut neighbours: Vec<&str> = of.iter().map(|place| place.1.as_str()).collect();
    neighbours.dedup();
    for beside in neighbours {
        let platforms: Vec<&str> =
            of.iter().filter(|place| place.1 == beside).map(|place| place.0.as_str()).collect();
        match by_platforms.iter_mut().find(|(known, _)| *known == platforms) {
            Some((_, neighbours)) if neighbours.contains(&beside) => {}
            Some((_, neighbours)) => neighbours.push(beside),
            None => by_platforms.push((platforms, vec![beside])),
        }
    }
    let words = |(platforms, neighbours): &(Vec<&str>, Vec<&str>)| {
        let platforms = platforms.join(", ");
        match neighbours.as_slice() {
            [""] => platforms,
            all => {
                let all: Vec<&str> =
                    all.iter().map(|beside| if beside.is_empty() { "alone" } else { beside }).collect();
                format!("{platforms} ({})", all.join(", "))
            }
        }
    };
    by_platforms.iter().map(words).collect::<Vec<_>>().join("; ")
}

/// Sentences in the order in which they came, each once.
#[derive(Debug, Clone)]
pub(super) struct Notes {
    /// What its places begin with.
    name: String,
    all: Vec<Note>,
}

impl Notes {
    /// None yet; `name` tells the places of these from those of others.
    pub(super) fn new(name: &str) -> Self {
        Self { name: anchor::slug(name), all: Vec::new() }
    }

    /// Whether nothing was said.
    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Says a sentence, of somebody or nobody; its number.
    pub(super) fn say(&mut self, text: &str, of: Option<Place>) -> usize {
        let mut words = Word::all(&bounded(text));
        let is_said = self.all.iter().any(|note| Word::are_alike(&note.words, &words));
        if !is_said && self.all.len() + 1 >= MOST {
            words = Word::all(REST);
        }
        let alike = |note: &Note| Word::are_alike(&note.words, &words);
        let position = self.all.iter().position(alike).unwrap_or_else(|| {
            self.all.push(Note { words: words.clone(), of: Vec::new() });
            self.all.len() - 1
        });
        if let Some(note) = self.all.get_mut(position) {
            note.words.iter_mut().zip(words).for_each(|(word, other)| word.take_in(other));
            note.of.extend(of.filter(|of| !note.of.contains(of)));
        }
        position + 1
    }

    /// The mark of a sentence, which leads to it.
    pub(super) fn refer(&mut self, text: &str) -> Markup {
        let number = self.say(text, None);
        html! { a.note href=(format!("#n-{}-{number}", self.name)) { (number) } }
    }

    /// Whether two sentences are one here.
    pub(super) fn are_alike(a: &str, b: &str) -> bool {
        Word::are_alike(&Word::all(&bounded(a)), &Word::all(&bounded(b)))
    }

    /// All sentences; nothing when there are none.
    pub(super) fn list(&self) -> Markup {
        self.first(usize::MAX)
    }

    /// The first sentences, and how many more there are.
    pub(super) fn first(&self, most: usize) -> Markup {
        html! {
            @if !self.all.is_empty() {
                ol.notes {
                    @for (note, number) in self.all.iter().zip(1u32..).take(most) {
                        li id=(format!("n-{}-{number}", self.name)) {
                            (note.words.iter().map(Word::text).collect::<Vec<_>>().join(" "))
                            @if !note.of.is_empty() { span.soft { " – " (places(&note.of)) } }
                        }
                    }
                    @if self.all.len() > most { li.soft { "and " (self.all.len() - most) " like it; results.json has all" } }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(notes: &Notes) -> Vec<String> {
        let text = |note: &Note| note.words.iter().map(Word::text).collect::<Vec<_>>().join(" ");
        notes.all.iter().map(text).collect()
    }

    #[test]
    fn what_differs_in_numbers_is_said_once() {
        let mut notes = Notes::new("x");
        let of = |platform: &str, beside: &str| Some((platform.to_owned(), beside.to_owned()));
        notes.say("random reads cover the 4.69 MiB that were written in time", of("vm", ""));
        notes.say("random reads cover the 512 KiB that were written in time", of("vm", ""));
        notes.say("random reads cover the 14.8 MiB that were written in time", of("container", ""));
        notes.say("random reads cover the 7 MiB that were written in time", of("vm", "cpu@second"));
        notes.say("random reads cover all of it", of("native", ""));
        assert_eq!(
            texts(&notes),
            [
                "random reads cover the (512 KiB … 14.8 MiB) that were written in time",
                "random reads cover all of it"
            ]
        );
        assert_eq!(places(&notes.all[0].of), "vm, container; vm (cpu@second)");
        let all = ["", "cpu@second"]
            .iter()
            .flat_map(|beside| ["native", "vm"].map(|label| (label.to_owned(), (*beside).to_owned())));
        assert_eq!(places(&all.collect::<Vec<_>>()), "native, vm (alone, cpu@second)");
    }

    #[test]
    fn units_of_one_kind_are_compared_and_those_of_another_are_not() {
        let mut notes = Notes::new("x");
        for text in [
            "waited (233 µs, CPU 1)",
            "waited (1.9 ms, CPU 1)",
            "waited (12 %, CPU 1)",
            "waited (7 µs, CPU 1)",
        ] {
            notes.say(text, None);
        }
        assert_eq!(texts(&notes), ["waited ((7 µs … 1.9 ms), CPU 1)", "waited (12 %, CPU 1)"]);
        assert_eq!(notes.say("of 5 rounds; at least 3", None), 3);
        assert_eq!(notes.say("of 9 rounds; at least 3", None), 3);
        assert!(texts(&notes)[2].starts_with("of (5 … 9) rounds"));
    }

    #[test]
    fn a_file_full_of_reasons_does_not_fill_the_page() {
        let mut notes = Notes::new("x");
        for number in 0..1000 {
            notes.say(&format!("reason{number}"), None);
        }
        assert_eq!(
            (notes.all.len(), notes.say("reason5", None), notes.say("another", None)),
            (MOST, 6, MOST)
        );
        assert_eq!(texts(&notes)[MOST - 1], REST);
    }

    #[test]
    fn what_is_no_number_stays_as_it_is() {
        let mut notes = Notes::new("x");
        for text in ["bound_95 of -", "SCHED_FIFO 1e999 NaN inf", "  <b> "] {
            notes.say(text, None);
        }
        assert_eq!(texts(&notes), ["bound_95 of -", "SCHED_FIFO 1e999 NaN inf", "<b>"]);
        assert!(notes.list().into_string().contains("&lt;b&gt;"));
    }
}
