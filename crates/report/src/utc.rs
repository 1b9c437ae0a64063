//! Writes a moment as UTC without asking a clock or a time zone file.
//!
//! Days become dates by the proleptic Gregorian calendar: years are counted from March, so that the leap day is the
//! last day of a year, and 400 years are 146 097 days.

use units::Nanos;

const DAY_S: u64 = 86_400;
/// Days from 0000-03-01 to 1970-01-01.
const DAYS_TO_1970: u64 = 719_468;
const DAYS_PER_ERA: u64 = 146_097;

/// `2026-11-21 03:04:05 UTC`, from nanoseconds since 1970.
pub fn format_utc(since_1970: Nanos) -> String {
    let ((year, month, day), (hour, minute, second)) = moment(since_1970);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

/// `20261121-030405`, for names of files.
pub fn compact_utc(since_1970: Nanos) -> String {
    let ((year, month, day), (hour, minute, second)) = moment(since_1970);
    format!("{year:04}{month:02}{day:02}-{hour:02}{minute:02}{second:02}")
}

fn moment(since_1970: Nanos) -> ((u64, u64, u64), (u64, u64, u64)) {
    let seconds = since_1970.get() / 1_000_000_000;
    let second = seconds % DAY_S;
    (date_of(seconds / DAY_S), (second / 3600, second / 60 % 60, second % 60))
}

/// Year, month and day of a number of days since 1970.
fn date_of(days_since_1970: u64) -> (u64, u64, u64) {
    let days = days_since_1970 + DAYS_TO_1970;
    let (era, day_of_era) = (days / DAYS_PER_ERA, days % DAYS_PER_ERA);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / (DAYS_PER_ERA - 1)) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> String {
        format_utc(Nanos::from_nanos(seconds * 1_000_000_000))
    }

    #[test]
    fn known_moments_have_their_dates() {
        assert_eq!(at(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(at(951_782_400), "2000-02-29 00:00:00 UTC");
        assert_eq!(at(1_000_000_000), "2001-09-09 01:46:40 UTC");
        assert_eq!(at(4_107_542_399), "2100-02-28 23:59:59 UTC");
        assert_eq!(at(4_107_542_400), "2100-03-01 00:00:00 UTC");
    }

    #[test]
    fn every_day_follows_the_one_before() {
        let mut before = date_of(0);
        for day in 1..200_000 {
            let (year, month, day_of_month) = date_of(day);
            let next_day = (year, month) == (before.0, before.1) && day_of_month == before.2 + 1;
            let next_month = day_of_month == 1 && before.2 >= 28;
            assert!(next_day || next_month, "day {day}: {before:?} then {year}-{month}-{day_of_month}");
            before = (year, month, day_of_month);
        }
    }

    #[test]
    fn the_last_moment_there_is_has_a_date() {
        assert_eq!(format_utc(Nanos::from_nanos(u64::MAX)), "2554-07-21 23:34:33 UTC");
    }
}
