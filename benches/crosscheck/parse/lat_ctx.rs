//! lmbench's `lat_ctx`: `"size=0k ovr=0.35` and then a line `2 1.21`, microseconds of a switch between two processes.

/// Nanoseconds of a switch.
pub fn parse(text: &str) -> Result<f64, String> {
    let line = text.lines().rev().find_map(|line| line.trim().strip_prefix("2 "));
    let micros = line.and_then(|micros| micros.trim().parse::<f64>().ok()).filter(|micros| *micros > 0.0);
    micros.map(|micros| micros * 1000.0).ok_or_else(|| "lat_ctx printed no time of two processes".to_owned())
}
