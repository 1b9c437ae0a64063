//! The reference chase's lines: size in bytes, nanoseconds per load.

/// Reads all lines.
pub fn parse(text: &str) -> Result<Vec<(u64, f64)>, String> {
    text.lines()
        .map(|line| {
            let mut words = line.split_whitespace();
            let size = words.next().and_then(|word| word.parse().ok());
            let time = words.next().and_then(|word| word.parse::<f64>().ok()).filter(|time| *time > 0.0);
            size.zip(time).ok_or_else(|| format!("the reference chase printed \"{line}\""))
        })
        .collect()
}
