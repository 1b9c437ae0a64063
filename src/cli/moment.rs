//! Times as people type them: `5ms`, `1.5s`, `250us`, to the nanosecond.

use units::Nanos;

const UNITS: [(&str, u32); 5] = [("ns", 0), ("us", 3), ("µs", 3), ("ms", 6), ("s", 9)];

/// Reads a time.
///
/// # Errors
/// In words what was wanted, when it is no number with a unit, longer than 584 years or finer than a nanosecond.
pub fn parse(text: &str) -> Result<Nanos, String> {
    let text = text.trim();
    let wanted =
        || format!("\"{text}\" is no time; wanted is a number with a unit (ns, us, ms, s): 5ms or 1.5s");
    let unit = UNITS.into_iter().find(|(unit, _)| {
        text.strip_suffix(unit)
            .is_some_and(|number| number.trim_end().ends_with(|c: char| c.is_ascii_digit()))
    });
    let (unit, exponent) = unit.ok_or_else(wanted)?;
    let number = text.strip_suffix(unit).unwrap_or_default().trim_end();
    let (whole, part) = number.split_once('.').unwrap_or((number, "0"));
    let is_digits = |digits: &str| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if !is_digits(whole) || !is_digits(part) {
        return Err(wanted());
    }
    let digits = part.trim_end_matches('0');
    let places = u32::try_from(digits.len()).unwrap_or(u32::MAX);
    if places > exponent {
        return Err(format!("\"{text}\" is finer than a nanosecond"));
    }
    let scaled = |digits: &str, exponent: u32| {
        let number = if digits.is_empty() { Some(0) } else { digits.parse::<u64>().ok() };
        number.and_then(|number| number.checked_mul(10u64.pow(exponent)))
    };
    let nanos = scaled(whole, exponent).zip(scaled(digits, exponent - places));
    let nanos = nanos.and_then(|(whole, part)| whole.checked_add(part));
    nanos.map(Nanos::from_nanos).ok_or_else(|| format!("\"{text}\" is too long: allowed are 584 years"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_to_the_nanosecond() {
        for (text, nanos) in [
            ("5ms", 5_000_000),
            (" 1.5 s ", 1_500_000_000),
            ("0.000000001s", 1),
            ("250us", 250_000),
            ("2.50µs", 2_500),
            ("7ns", 7),
            ("0s", 0),
            ("18446744073709551615ns", u64::MAX),
        ] {
            assert_eq!(parse(text), Ok(Nanos::from_nanos(nanos)), "{text}");
        }
        for wrong in [
            "",
            "5",
            "ms",
            "-5ms",
            "5 m",
            "1e3ms",
            ".5s",
            "5.s",
            "0.5ns",
            "5.0001us",
            "1,5s",
            "٣s",
            "18446744074s",
        ] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }
}
