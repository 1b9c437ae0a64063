//! Words in the languages of others, so that none of them can be taken for anything but a word.

/// For a POSIX shell: plain words as they are, all others in single quotes, where only the quote itself ends them.
pub fn shell(word: &str) -> String {
    if !word.is_empty() && word.bytes().all(|byte| is_plain(byte) || b"=,:@%+".contains(&byte)) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// For a command line in a unit (systemd.service(5), "Command lines"; `%` and `$` are doubled).
pub fn unit(word: &str) -> String {
    let mut quoted = String::new();
    for letter in word.chars() {
        match letter {
            '%' => quoted.push_str("%%"),
            '$' => quoted.push_str("$$"),
            '\\' => quoted.push_str(r"\\"),
            '"' => quoted.push_str("\\\""),
            '\n' => quoted.push_str("\\n"),
            other => quoted.push(other),
        }
    }
    let plain = !word.is_empty() && word.bytes().all(|byte| is_plain(byte) || b"=,:@%+$".contains(&byte));
    if plain { quoted } else { format!("\"{quoted}\"") }
}

/// For a path in a list of paths in a unit, where nothing is put in for `$`.
pub fn unit_path(path: &str) -> String {
    format!("\"{}\"", path.replace('%', "%%").replace('\\', r"\\").replace('"', "\\\""))
}

/// For the value of a setting in a unit, where only `%` means something.
pub fn unit_value(value: &str) -> String {
    value.replace('%', "%%")
}

/// For a comment: one line.
pub fn comment(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}

const fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'/')
}
