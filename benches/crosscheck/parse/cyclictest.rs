//! The histogram of `cyclictest -h US -q`, one thread: lines of latency in microseconds and count.

/// Latencies of the wake-ups that cyclictest counted.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Wakeups {
    /// Latency in microseconds, how often.
    pub counts: Vec<(u64, u64)>,
    /// Longer than the histogram reaches.
    pub overflows: u64,
    /// All of them.
    pub total: u64,
}

impl Wakeups {
    /// The latency in nanoseconds below which this share lies; the middle of its microsecond.
    pub fn quantile_ns(&self, share: f64) -> Option<f64> {
        let wanted = self.total as f64 * share;
        let mut seen = 0;
        let found = self.counts.iter().find(|(_, count)| {
            seen += count;
            seen as f64 >= wanted
        });
        found.filter(|_| self.total > 0).map(|(micros, _)| (*micros as f64 + 0.5) * 1000.0)
    }
}

/// Reads the histogram.
pub fn parse(text: &str) -> Result<Wakeups, String> {
    let mut wakeups = Wakeups::default();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let first = words.next().unwrap_or_default();
        if let (Ok(micros), Some(Ok(count))) = (first.parse(), words.next().map(str::parse)) {
            wakeups.counts.push((micros, count));
        }
        let number = |line: &str| line.rsplit(' ').next().and_then(|word| word.parse::<u64>().ok());
        if line.starts_with("# Total:") {
            wakeups.total = number(line).ok_or("cyclictest's total is no number")?;
        }
        if line.starts_with("# Histogram Overflows:") {
            wakeups.overflows = number(line).ok_or("cyclictest's overflows are no number")?;
        }
    }
    let counted: u64 = wakeups.counts.iter().map(|(_, count)| count).sum();
    if counted == 0 {
        return Err(format!("cyclictest printed no histogram: {}", text.lines().next().unwrap_or("nothing")));
    }
    // The total leaves out what overflowed.
    wakeups.total = counted + wakeups.overflows;
    Ok(wakeups)
}
