//! `stress-ng --stream 1`: bytes read and written per second.

/// Bytes per second, both ways together.
pub fn parse(text: &str) -> Result<f64, String> {
    let line = text.lines().find(|line| line.contains("memory rate:") && line.contains("MB read/sec"));
    let before = |line: &str, unit: &str| {
        let (head, _) = line.split_once(unit)?;
        head.split_whitespace().next_back()?.parse::<f64>().ok()
    };
    line.and_then(|line| Some((before(line, " MB read/sec")? + before(line, " MB write/sec")?) * 1e6))
        .ok_or_else(|| {
            let short =
                text.contains("too short").then_some("found its time too short to tell a memory rate");
            format!("stress-ng {}", short.unwrap_or("printed no memory rate"))
        })
}
