//! A writer for XML that cannot write what is not well-formed: elements close themselves, texts and values are escaped.

use std::fmt::Write;

/// XML being written.
#[derive(Debug, Default)]
pub struct Xml {
    text: String,
    depth: usize,
}

impl Xml {
    /// A comment. XML knows no way to write two hyphens in one.
    pub fn comment(&mut self, text: &str) {
        let text = text.replace("--", "- -").replace(['\n', '\r'], " ");
        let text = text.trim_end_matches('-');
        self.line(&format!("<!-- {text} -->"));
    }

    /// An element without content.
    pub fn empty(&mut self, name: &str, attributes: &[(&str, &str)]) {
        let line = format!("<{name}{}/>", written(attributes));
        self.line(&line);
    }

    /// An element with text.
    pub fn text(&mut self, name: &str, attributes: &[(&str, &str)], text: &str) {
        let line = format!("<{name}{}>{}</{name}>", written(attributes), escaped(text));
        self.line(&line);
    }

    /// An element with elements, which `inside` writes.
    pub fn element<E>(
        &mut self,
        name: &str,
        attributes: &[(&str, &str)],
        inside: impl FnOnce(&mut Self) -> Result<(), E>,
    ) -> Result<(), E> {
        let line = format!("<{name}{}>", written(attributes));
        self.line(&line);
        self.depth += 1;
        let outcome = inside(self);
        self.depth -= 1;
        self.line(&format!("</{name}>"));
        outcome
    }

    /// What was written.
    pub fn finish(self) -> String {
        self.text
    }

    fn line(&mut self, line: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{:1$}{line}", "", self.depth * 2);
    }
}

fn written(attributes: &[(&str, &str)]) -> String {
    attributes.iter().fold(String::new(), |mut out, (name, value)| {
        // Writing to a string cannot fail.
        let _ = write!(out, " {name}='{}'", escaped(value));
        out
    })
}

/// Text without markup. Characters that no XML document may hold are replaced.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '\'' => out.push_str("&apos;"),
            '"' => out.push_str("&quot;"),
            '\n' => out.push_str("&#10;"),
            '\t' => out.push_str("&#9;"),
            '\u{0}'..='\u{1f}' | '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            other => out.push(other),
        }
    }
    out
}
