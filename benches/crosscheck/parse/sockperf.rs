//! `sockperf ping-pong`: its percentiles, which are of half a round trip.

/// The median round trip in nanoseconds.
pub fn parse(text: &str) -> Result<f64, String> {
    let median = text.lines().find_map(|line| {
        let (_, value) = line.split_once("percentile 50.000 =")?;
        value.trim().parse::<f64>().ok()
    });
    median.map(|micros| micros * 2.0 * 1000.0).ok_or_else(|| {
        let said = text.lines().find(|line| line.contains("ERROR")).unwrap_or("nothing about an error");
        format!("sockperf printed no percentiles, but {said}")
    })
}
