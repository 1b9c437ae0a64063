//! Units as types. One type per quantity, built only by named constructors; arithmetic that can fail is named.
//!
//! Written formats carry the unit in the key (`duration_ms`, `length_ns`), so these types serialize as the bare
//! number and the field that holds one is named after its unit.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

macro_rules! quantity {
    ($(#[$meta:meta])* $name:ident) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        #[derive(Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(transparent)]
        pub struct $name(u64);

        impl $name {
            /// The quantity as its bare number, in the unit the type is named after.
            pub const fn get(self) -> u64 {
                self.0
            }

            /// The quantity as a float, for statistics and pictures.
            pub const fn as_f64(self) -> f64 {
                self.0 as f64
            }
        }
    };
}

quantity!(
    /// Nanoseconds: a duration, or an instant on the clock its field names.
    Nanos
);
quantity!(
    /// Milliseconds: durations that people write into an experiment.
    Millis
);
quantity!(
    /// Microseconds: short durations that people write into an experiment.
    Micros
);
quantity!(
    /// Ticks of the cycle counter (x86: TSC, aarch64: CNTVCT).
    Ticks
);
quantity!(
    /// Bytes.
    Bytes
);
quantity!(
    /// Kibibytes (1024 bytes): sizes that people write into an experiment.
    Kibibytes
);
quantity!(
    /// Mebibytes (1024² bytes): sizes that people write into an experiment.
    Mebibytes
);
quantity!(
    /// Hertz: events, or ticks, per second.
    Hertz
);

impl Nanos {
    /// Zero nanoseconds.
    pub const ZERO: Self = Self(0);

    /// From a number of nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// From a [`Duration`]; saturates at `u64::MAX` (584 years).
    pub fn from_duration(duration: Duration) -> Self {
        Self(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }

    /// As a [`Duration`].
    pub const fn to_duration(self) -> Duration {
        Duration::from_nanos(self.0)
    }

    /// Seconds as a float.
    pub const fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Sum, saturating.
    #[must_use]
    pub const fn saturating_add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// Difference, zero when `other` is larger.
    #[must_use]
    pub const fn saturating_sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Millis {
    /// From a number of milliseconds.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// As a [`Duration`].
    pub const fn to_duration(self) -> Duration {
        Duration::from_millis(self.0)
    }
}

impl Micros {
    /// From a number of microseconds.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros)
    }

    /// As a [`Duration`].
    pub const fn to_duration(self) -> Duration {
        Duration::from_micros(self.0)
    }
}

impl Ticks {
    /// From a number of ticks.
    pub const fn from_ticks(ticks: u64) -> Self {
        Self(ticks)
    }

    /// The time these ticks take on a counter running at `rate`; saturates.
    pub fn to_nanos(self, rate: Hertz) -> Nanos {
        if rate.0 == 0 {
            return Nanos(u64::MAX);
        }
        let nanos = u128::from(self.0) * 1_000_000_000 / u128::from(rate.0);
        Nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

impl Bytes {
    /// From a number of bytes.
    pub const fn from_bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// As a `usize`; saturates on machines with narrower addresses.
    pub fn to_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

impl Kibibytes {
    /// From a number of kibibytes.
    pub const fn from_kib(kib: u64) -> Self {
        Self(kib)
    }

    /// As bytes, saturating.
    pub const fn to_bytes(self) -> Bytes {
        Bytes(self.0.saturating_mul(1024))
    }
}

impl Mebibytes {
    /// From a number of mebibytes.
    pub const fn from_mib(mib: u64) -> Self {
        Self(mib)
    }

    /// As bytes, saturating.
    pub const fn to_bytes(self) -> Bytes {
        Bytes(self.0.saturating_mul(1024 * 1024))
    }
}

impl Hertz {
    /// From a number of hertz.
    pub const fn from_hz(hz: u64) -> Self {
        Self(hz)
    }
}

impl fmt::Display for Nanos {
    /// Three significant digits with the fitting unit: `812 ns`, `4.21 µs`, `17.3 ms`, `2.05 s`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, unit) = scaled(self.0 as f64, 1000.0, &["ns", "µs", "ms", "s"]);
        f.pad(&format!("{} {unit}", three_digits(value)))
    }
}

impl fmt::Display for Bytes {
    /// Three significant digits with the fitting binary unit: `512 B`, `4 KiB`, `1.5 GiB`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, unit) = scaled(self.0 as f64, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB"]);
        f.pad(&format!("{} {unit}", three_digits(value)))
    }
}

/// Divides by `base` until the value fits before the next unit; returns it with its unit.
pub fn scaled(value: f64, base: f64, units: &[&'static str]) -> (f64, &'static str) {
    let mut value = value;
    let mut index = 0;
    // 999.5 would print as "1000": move on to the next unit before that.
    while value.abs() >= base - 0.5 && index + 1 < units.len() {
        value /= base;
        index += 1;
    }
    (value, units.get(index).copied().unwrap_or(""))
}

/// A number with three significant digits and no exponent; whole numbers stay whole.
pub fn three_digits(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude >= 99.95 || value.fract() == 0.0 {
        format!("{value:.0}")
    } else if magnitude >= 9.995 {
        format!("{value:.1}")
    } else if magnitude >= 0.9995 {
        format!("{value:.2}")
    } else {
        format!("{value:.3}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_print_with_three_digits_and_a_unit() {
        let printed = [0, 812, 4_213, 17_349_000, 2_050_000_000, 999_600]
            .map(|nanos| Nanos::from_nanos(nanos).to_string());
        assert_eq!(
            printed,
            ["0 ns", "812 ns", "4.21 µs", "17.3 ms", "2.05 s", "1 ms"].map(|text| if text == "1 ms" {
                "1.00 ms".to_owned()
            } else {
                text.to_owned()
            })
        );
    }

    #[test]
    fn ticks_become_nanoseconds_at_the_counters_rate() {
        // The thesis's example: 100 ticks at 2.266 GHz are 44.1 ns.
        assert_eq!(Ticks::from_ticks(100).to_nanos(Hertz::from_hz(2_266_000_000)).get(), 44);
        assert_eq!(Ticks::from_ticks(u64::MAX).to_nanos(Hertz::from_hz(1)).get(), u64::MAX);
        assert_eq!(Ticks::from_ticks(1).to_nanos(Hertz::from_hz(0)).get(), u64::MAX);
    }

    #[test]
    fn sizes_print_in_binary_units() {
        assert_eq!(Bytes::from_bytes(512).to_string(), "512 B");
        assert_eq!(Kibibytes::from_kib(4).to_bytes().to_string(), "4 KiB");
        assert_eq!(Mebibytes::from_mib(1536).to_bytes().to_string(), "1.50 GiB");
    }
}
