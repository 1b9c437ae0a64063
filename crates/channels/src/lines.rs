//! Lines of JSON between the host of a bench and its workers, bounded in both directions.

use std::io::{self, BufRead, Read};

use serde::Serialize;

use model::channel_worker::LONGEST_LINE;
use units::Reason;

/// A value as a line.
///
/// # Errors
/// When it has what JSON does not know.
pub fn line_of(value: &impl Serialize) -> Result<Vec<u8>, Reason> {
    let mut line = serde_json::to_vec(value).map_err(|error| error.to_string())?;
    line.push(b'\n');
    Ok(line)
}

/// The next line without its end; none at the end of all lines.
///
/// # Errors
/// When it cannot be read, or is too long.
pub fn read_line(from: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    from.take(LONGEST_LINE as u64 + 1).read_until(b'\n', &mut line)?;
    match line.last() {
        None => Ok(None),
        Some(b'\n') => {
            line.pop();
            Ok(Some(line))
        }
        Some(_) if line.len() > LONGEST_LINE => {
            Err(io::Error::other(format!("wanted a line of at most {LONGEST_LINE} bytes, got a longer one")))
        }
        Some(_) => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_whole_and_bounded() {
        let mut text: &[u8] = b"one\n\nthr";
        assert_eq!(read_line(&mut text).unwrap(), Some(b"one".to_vec()));
        assert_eq!(read_line(&mut text).unwrap(), Some(Vec::new()));
        assert!(read_line(&mut text).is_err());
        assert_eq!(read_line(&mut text).unwrap(), None);
        let long = vec![b'x'; LONGEST_LINE + 2];
        assert!(read_line(&mut long.as_slice()).is_err());
    }
}
