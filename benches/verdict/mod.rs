//! What benches say of ratios that were measured side by side: their median and range, and the mark.

use std::io::Write;

/// The side of a mark on which ratios are to be.
#[derive(Debug, Clone, Copy)]
pub enum Mark {
    /// At most so much.
    AtMost(f64),
    /// At least so much.
    AtLeast(f64),
}

/// Says the median of ratios with their range, and whether it is on the right side of its mark, if it has one.
pub fn verdict(what: &str, ratios: &mut [f64], mark: Option<Mark>) -> bool {
    ratios.sort_by(f64::total_cmp);
    let (low, high) =
        (ratios.first().copied().unwrap_or(f64::NAN), ratios.last().copied().unwrap_or(f64::NAN));
    let middle = ratios.len() / 2;
    let median = match (ratios.get(middle.wrapping_sub(1)), ratios.get(middle)) {
        (Some(below), Some(above)) if ratios.len().is_multiple_of(2) => f64::midpoint(*below, *above),
        (_, Some(value)) => *value,
        _ => f64::NAN,
    };
    let (is_met, wanted) = match mark {
        None => (true, None),
        Some(Mark::AtMost(most)) => (median <= most, Some(format!("at most {most}"))),
        Some(Mark::AtLeast(least)) => (median >= least, Some(format!("at least {least}"))),
    };
    let word = if is_met { "met" } else { "missed" };
    let judged = wanted.map(|wanted| format!("; mark {wanted}: {word}")).unwrap_or_default();
    let rounds = ratios.len();
    // Nobody is left to tell when standard output is gone.
    let _ = writeln!(
        std::io::stdout(),
        "{what}: ratio {median:.3} [{low:.3} … {high:.3}] over {rounds} rounds{judged}"
    );
    is_met
}
