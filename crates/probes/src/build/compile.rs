//! From the text of a source file to an object file, by what compilers do to text whatever they know of its language: cut it
//! into tokens, hash names, sort, pack. It has no machine code to make; what it shares with a compiler is the kind of work,
//! branches on bytes and pointers through some megabytes of memory fresh from the kernel.
//!
//! ```text
//!  text ─► tokens, brackets matched ─► names, hashed: defined and called ─► contexts, sorted ─► packed ─► object
//! ```
//! Sorting takes most of the time. The suffixes of the text are put in order, which is the Burrows-Wheeler transform
//! (Burrows and Wheeler, A Block-sorting Lossless Data Compression Algorithm, SRC report 124, 1994).

use std::collections::{BTreeMap, HashMap};
use std::io::Write;

use flate2::Compression;
use flate2::write::DeflateEncoder;

use super::object::Object;
use super::tokens::{Kind, Token, tokens};
use crate::error::WorkError;

/// Suffixes that agree for longer count as equal: repeated text would make sorting quadratic.
const CONTEXT: usize = 256;

/// Compiles a source file.
///
/// # Errors
/// Where and why it is not well-formed.
pub fn compile(text: &str) -> Result<Vec<u8>, WorkError> {
    let tokens = tokens(text)?;
    let places = places(&tokens);
    let contexts = contexts(text.as_bytes());
    let (defined, called) = roles(text, &tokens, &places);
    let packed = pack(text.as_bytes(), &contexts)?;
    Ok(Object { defined, called, packed }.to_bytes())
}

/// Where each name stands, by number of token.
fn places<'a>(tokens: &[Token<'a>]) -> HashMap<&'a str, Vec<usize>> {
    let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
    for (number, token) in tokens.iter().enumerate().filter(|(_, token)| token.kind == Kind::Name) {
        places.entry(token.text).or_default().push(number);
    }
    places
}

/// Functions defined, with a checksum of the text from there to the end of the block, and names that are called.
fn roles(
    text: &str,
    tokens: &[Token<'_>],
    places: &HashMap<&str, Vec<usize>>,
) -> (BTreeMap<String, u32>, Vec<String>) {
    let at = |number: usize| tokens.get(number).map_or("", |token| token.text);
    let (mut defined, mut called) = (BTreeMap::new(), Vec::new());
    for (name, numbers) in places {
        for number in numbers {
            if number.checked_sub(1).is_some_and(|before| at(before) == "fn") {
                let depth = tokens.get(*number).map_or(0, |token| token.depth);
                let rest = tokens.get(*number..).unwrap_or_default();
                let end = rest.iter().find(|token| token.text == "}" && token.depth == depth);
                let range =
                    rest.first().map_or(0, |token| token.at)..end.map_or(text.len(), |token| token.at);
                let body = text.get(range).unwrap_or_default();
                defined.insert((*name).to_owned(), crc32fast::hash(body.as_bytes()));
            } else if at(number + 1) == "(" && called.last().is_none_or(|last| last != name) {
                called.push((*name).to_owned());
            }
        }
    }
    called.sort_unstable();
    (defined, called)
}

/// Numbers of all suffixes of the text, in the order of what they begin with.
fn contexts(text: &[u8]) -> Vec<usize> {
    let begin = |at: &usize| text.get(*at..(at + CONTEXT).min(text.len())).unwrap_or_default();
    let mut order: Vec<usize> = (0..text.len()).collect();
    order.sort_by(|left, right| begin(left).cmp(begin(right)));
    order
}

/// The characters before the suffixes in their order, where equal ones stand together, packed.
fn pack(text: &[u8], contexts: &[usize]) -> Result<Vec<u8>, WorkError> {
    let before = |at: &usize| at.checked_sub(1).or_else(|| text.len().checked_sub(1));
    let column: Vec<u8> =
        contexts.iter().filter_map(|at| before(at).and_then(|at| text.get(at)).copied()).collect();
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::best());
    let packed = encoder.write_all(&column).and_then(|()| encoder.finish());
    packed.map_err(|error| WorkError::system("pack", error))
}
