//! `oslat`: it counts each iteration in one of its buckets of whole microseconds; their sum over its duration is its
//! cost per iteration.

/// Nanoseconds per iteration.
pub fn parse(text: &str) -> Result<f64, String> {
    let value = |line: &str| {
        line.split_once("):").and_then(|(_, rest)| rest.split_whitespace().next()?.parse::<f64>().ok())
    };
    let is_bucket = |line: &&str| line.trim_start().starts_with(|first: char| first.is_ascii_digit());
    let iterations: f64 = text.lines().filter(is_bucket).filter_map(value).sum();
    let seconds = text
        .lines()
        .find_map(|line| {
            line.trim().strip_prefix("Duration:")?.split_whitespace().next()?.parse::<f64>().ok()
        })
        .filter(|_| iterations > 0.0)
        .ok_or_else(|| {
            format!("oslat printed no histogram: {}", text.lines().next().unwrap_or("nothing at all"))
        })?;
    Ok(seconds * 1e9 / iterations)
}
