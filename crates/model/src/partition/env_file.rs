//! A file of variables: `NAME=VALUE`, one in a line, taken as it stands; empty lines and those that begin with `#` are left out.

use super::program::Word;
use units::Reason;

/// Largest file of variables, in bytes.
pub const MOST_ENV_FILE_BYTES: u64 = 1 << 20;

/// Reads such a file; of a name that is there twice, the last one counts.
///
/// # Errors
/// The first line that is wrong, by its number, and what was wanted. What stands in it is not repeated: it may be secret.
pub fn read_env_file(bytes: &[u8]) -> Result<Vec<(Word, Word)>, Reason> {
    if bytes.len() as u64 > MOST_ENV_FILE_BYTES {
        return Err(
            format!("more than {MOST_ENV_FILE_BYTES} bytes are too many for a file of variables").into()
        );
    }
    // Some editors begin a file of text with this mark.
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let mut variables: Vec<(Word, Word)> = Vec::new();
    for (line, number) in bytes.split(|byte| *byte == b'\n').zip(1_u32..) {
        let line = line.strip_suffix(b"\r").unwrap_or(line).trim_ascii_start();
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        let at = line.iter().position(|byte| *byte == b'=').filter(|at| *at > 0 && !line.contains(&0));
        let at = at.ok_or_else(|| format!("line {number}: wanted NAME=VALUE"))?;
        let (name, value) = line.split_at(at);
        if name.iter().any(u8::is_ascii_whitespace) {
            return Err(format!(
                "line {number}: the name of a variable holds no spaces (no export, no quotes)"
            )
            .into());
        }
        variables.retain(|(known, _)| known != name);
        variables.push((name.to_vec(), value.get(1..).unwrap_or_default().to_vec()));
    }
    Ok(variables)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_taken_as_they_stand() {
        let read = read_env_file(b"# a remark\n\nA=1\r\nB=x=\"y\" # z\n  C=\nA=2").expect("variables");
        let wanted: [(&[u8], &[u8]); 3] = [(b"B", b"x=\"y\" # z"), (b"C", b""), (b"A", b"2")];
        let wanted = wanted.map(|(name, value)| (name.to_vec(), value.to_vec()));
        assert_eq!(read, wanted);
        // Regression: the mark became part of the first name.
        assert_eq!(read_env_file(b"\xef\xbb\xbfA=1"), Ok(vec![(b"A".to_vec(), b"1".to_vec())]));
        for (text, part) in [
            ("A=1\nB", "line 2: wanted NAME=VALUE"),
            ("=x", "line 1"),
            ("A=\0", "line 1"),
            ("export A=secret", "no spaces"),
        ] {
            let problem = read_env_file(text.as_bytes()).expect_err(text);
            assert!(
                problem.to_string().contains(part) && !problem.to_string().contains("secret"),
                "{text}: {problem}"
            );
        }
    }
}
