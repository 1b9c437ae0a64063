//! Text of a source file as tokens: names, numbers, quoted text and signs. Comments and blanks are none. Brackets must match.

use crate::error::WorkError;

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A name or a word of the language.
    Name,
    /// A number.
    Number,
    /// Text or a character in quotes.
    Quoted,
    /// Any other character.
    Sign,
}

/// A piece of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Token<'a> {
    /// What it is.
    pub kind: Kind,
    /// Where it begins, counted in bytes.
    pub at: usize,
    /// How many brackets are open there.
    pub depth: usize,
    /// The piece itself.
    pub text: &'a str,
}

/// All tokens of a file, in order.
///
/// # Errors
/// Which bracket or quote does not match, and in which line.
pub fn tokens(text: &str) -> Result<Vec<Token<'_>>, WorkError> {
    let (mut all, mut open, mut at) = (Vec::new(), Vec::new(), 0);
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        let wrong = |what: &str| {
            let line = text.as_bytes().iter().take(at).filter(|byte| **byte == b'\n').count() + 1;
            WorkError::Unfit(format!("the source is not well-formed: line {line}: {what}"))
        };
        let (kind, length) = first(rest).ok_or_else(|| wrong("a quote that nothing ends"))?;
        let piece = rest.get(..length).unwrap_or(rest);
        if let Some(kind) = kind {
            match piece {
                "(" | "[" | "{" => open.push(piece),
                ")" | "]" | "}" if open.pop() != Some(partner(piece)) => {
                    return Err(wrong(&format!("{piece} closes nothing")));
                }
                _ => {}
            }
            all.push(Token { kind, at, depth: open.len(), text: piece });
        }
        at += piece.len().max(1);
    }
    match open.pop() {
        Some(bracket) => Err(WorkError::Unfit(format!(
            "the source is not well-formed: {bracket} is not closed at its end"
        ))),
        None => Ok(all),
    }
}

fn partner(closing: &str) -> &'static str {
    match closing {
        ")" => "(",
        "]" => "[",
        _ => "{",
    }
}

/// What comes first, and how many bytes it takes: no kind is what lies between tokens.
fn first(rest: &str) -> Option<(Option<Kind>, usize)> {
    let while_is = |is: fn(char) -> bool| rest.find(|char| !is(char)).unwrap_or(rest.len());
    let is_of_name = |char: char| char.is_alphanumeric() || char == '_';
    let begin = rest.chars().next()?;
    Some(match begin {
        _ if rest.starts_with("//") => (None, rest.find('\n').unwrap_or(rest.len())),
        _ if begin.is_whitespace() => (None, while_is(char::is_whitespace)),
        _ if begin.is_ascii_digit() => (Some(Kind::Number), while_is(is_of_name)),
        _ if is_of_name(begin) => (Some(Kind::Name), while_is(is_of_name)),
        '"' => (Some(Kind::Quoted), quoted(rest, '"')?),
        // A lifetime has no second quote, right behind one character or an escape.
        '\'' => {
            let second = rest.chars().nth(1)?;
            if second == '\\' || rest.chars().nth(2) == Some('\'') {
                (Some(Kind::Quoted), quoted(rest, '\'')?)
            } else {
                (Some(Kind::Sign), 1)
            }
        }
        other => (Some(Kind::Sign), other.len_utf8()),
    })
}

/// Length of what stands between two quotes, with them.
fn quoted(rest: &str, quote: char) -> Option<usize> {
    let mut is_escaped = false;
    for (at, char) in rest.char_indices().skip(1) {
        match char {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            _ if char == quote => return Some(at + char.len_utf8()),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_where_a_compiler_would() {
        let text = "fn f<'a>(x1: &'a str) -> u8 { // } here\n g(\"a\\\"}\", '}', 0x1f, 'ä')\n}\n";
        let found: Vec<&str> = tokens(text).unwrap().into_iter().map(|token| token.text).collect();
        let wanted = "fn f < ' a > ( x1 : & ' a str ) - > u8 { g ( \"a\\\"}\" , '}' , 0x1f , 'ä' ) }";
        assert_eq!(found.join(" "), wanted);
        let kinds = |kind| tokens(text).unwrap().iter().filter(|token| token.kind == kind).count();
        assert_eq!([kinds(Kind::Quoted), kinds(Kind::Number)], [3, 1]);
    }

    #[test]
    fn what_does_not_match_is_told_with_its_line() {
        assert!(tokens("fn f() {\n ]\n").unwrap_err().to_string().contains("line 2: ] closes nothing"));
        assert!(tokens("fn f() {").unwrap_err().to_string().contains("{ is not closed"));
        assert!(tokens("a\nb \"c").unwrap_err().to_string().contains("line 2: a quote that nothing ends"));
        assert!(tokens("").unwrap().is_empty());
    }
}
