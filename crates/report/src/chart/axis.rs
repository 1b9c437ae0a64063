//! An axis: what it shows, from where to where, with ticks at numbers people like.
//!
//! Pictures are drawn on plain coordinates; a logarithmic axis places a value at its logarithm. Only finite values
//! (above zero on a logarithmic axis) have a place, so nothing a guest sends can upset the drawing.

use units::metric::Unit;
use units::scaled;

use super::super::figures::value_text;

/// How values are spread along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Equal distances for equal differences, from zero.
    FromZero,
    /// Equal distances for equal differences.
    Linear,
    /// Equal distances for equal ratios.
    Log,
}

/// Values that are further apart than this are spread by their ratios: two decades.
const WIDE: f64 = 100.0;

impl Scale {
    /// Logarithmic for values above zero that span more than two decades, `otherwise` for others.
    pub fn wide_or(otherwise: Self, values: impl IntoIterator<Item = f64>) -> Self {
        let ends = |(low, high): (f64, f64), value: f64| (low.min(value), high.max(value));
        let finite = values.into_iter().filter(|value| value.is_finite());
        let (low, high) = finite.fold((f64::INFINITY, f64::NEG_INFINITY), ends);
        if low > 0.0 && high > low * WIDE { Self::Log } else { otherwise }
    }
}

/// What the numbers along an axis are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quantity {
    /// Of this unit.
    Of(Unit),
    /// Multiples of a baseline.
    Ratio,
}

/// An axis that encloses its values.
#[derive(Debug, Clone, PartialEq)]
pub struct Axis {
    scale: Scale,
    quantity: Quantity,
    /// What it says beside the numbers.
    pub caption: String,
    low: f64,
    high: f64,
}

impl Axis {
    /// The axis that encloses these values with a little room; none when no value has a place on it.
    pub fn enclosing(
        scale: Scale,
        quantity: Quantity,
        caption: &str,
        values: impl IntoIterator<Item = f64>,
    ) -> Option<Self> {
        let places = values.into_iter().filter_map(|value| place(scale, value));
        let (mut low, mut high) =
            places.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), at| (low.min(at), high.max(at)));
        if low > high {
            return None;
        }
        if scale == Scale::FromZero {
            low = low.min(0.0);
            high = high.max(0.0);
        }
        let least = if scale == Scale::Log { 0.08 } else { (high.abs() * 0.02).max(1e-9) };
        let room = ((high - low) * 0.04).max(least);
        low -= if scale == Scale::FromZero && low >= 0.0 { 0.0 } else { room };
        high += room;
        (low.is_finite() && high.is_finite() && high - low > 0.0).then(|| Self {
            scale,
            quantity,
            caption: caption.to_owned(),
            low,
            high,
        })
    }

    /// Where a value is drawn; none when it has no place.
    pub fn place(&self, value: f64) -> Option<f64> {
        place(self.scale, value).filter(|at| *at >= self.low && *at <= self.high)
    }

    /// Where a value is drawn, moved to the nearest end of the axis when it lies beyond; and whether it was moved.
    pub fn place_or_end(&self, value: f64) -> Option<(f64, bool)> {
        let beyond = value <= 0.0 && self.scale == Scale::Log;
        let at = if beyond { self.low } else { place(self.scale, value)? };
        let inside = at.clamp(self.low, self.high);
        Some((inside, beyond || (at - inside).abs() > 0.0))
    }

    /// The ends, as places.
    pub const fn ends(&self) -> (f64, f64) {
        (self.low, self.high)
    }

    /// Places of the ticks, at most about `most`.
    pub fn ticks(&self, most: usize) -> Vec<f64> {
        let most = most.max(2);
        if self.scale != Scale::Log {
            return self.linear_ticks(most);
        }
        if matches!(self.quantity, Quantity::Of(Unit::Bytes | Unit::BytesPerSecond)) {
            let octave = std::f64::consts::LOG10_2;
            return multiples(self.low, self.high, octave * step_of((self.high - self.low) / octave, most));
        }
        let span = self.high - self.low;
        if span >= 1.6 {
            return multiples(self.low, self.high, step_of(span, most));
        }
        let (low, high) = (10f64.powf(self.low), 10f64.powf(self.high));
        // Even steps crowd towards the upper end of a logarithmic axis: what is too near to the one before goes.
        let mut kept: Vec<f64> = Vec::new();
        for at in even_ticks(low, high, most).into_iter().filter_map(|value| place(Scale::Log, value)) {
            if kept.last().is_none_or(|last| at - last >= span / (most as f64 + 1.0)) {
                kept.push(at);
            }
        }
        kept
    }

    fn linear_ticks(&self, most: usize) -> Vec<f64> {
        match self.quantity {
            // Round numbers of the unit that the labels use.
            Quantity::Of(Unit::Bytes | Unit::BytesPerSecond) => {
                let mut unit = 1.0;
                while self.high / unit >= 1024.0 && unit < 1e15 {
                    unit *= 1024.0;
                }
                even_ticks(self.low / unit, self.high / unit, most).into_iter().map(|at| at * unit).collect()
            }
            Quantity::Of(Unit::Count) => even_ticks(self.low, self.high, most.min(whole_steps(self))),
            _ => even_ticks(self.low, self.high, most),
        }
    }

    /// The number that stands at a tick.
    pub fn label(&self, at: f64) -> String {
        let value = if self.scale == Scale::Log { 10f64.powf(at) } else { at };
        let value = short(value);
        match self.quantity {
            Quantity::Ratio => format!("{value} ×"),
            Quantity::Of(Unit::Share) => format!("{} %", short(value * 100.0)),
            Quantity::Of(unit @ Unit::PerSecond) if value >= 1e7 => value_text(unit, value),
            Quantity::Of(Unit::Count | Unit::PerSecond) => thousands(value),
            Quantity::Of(Unit::Nanoseconds) => metric_label(value, 1000.0, &["ns", "µs", "ms", "s"]),
            Quantity::Of(Unit::Hertz) => metric_label(value, 1000.0, &["Hz", "kHz", "MHz"]),
            Quantity::Of(Unit::Bytes) => {
                metric_label(value.round(), 1024.0, &["B", "KiB", "MiB", "GiB", "TiB"])
            }
            Quantity::Of(unit @ Unit::BytesPerSecond) => value_text(unit, value),
        }
    }
}

/// So many whole numbers lie between the ends; at least one.
fn whole_steps(axis: &Axis) -> usize {
    usize::try_from(units::metric::saturate((axis.high - axis.low).floor())).unwrap_or(usize::MAX).max(1)
}

fn place(scale: Scale, value: f64) -> Option<f64> {
    // Beyond 1e18 nothing that is measured here makes sense, and the picture's coordinates would lose precision.
    let bounded = value.is_finite() && value.abs() < 1e19;
    match scale {
        Scale::Log => (bounded && value > 1e-19).then(|| value.log10()),
        Scale::Linear | Scale::FromZero => bounded.then_some(value),
    }
}

/// The smallest of 1, 2, 3, 5, 10 … that cuts `span` into at most `most` parts.
fn step_of(span: f64, most: usize) -> f64 {
    [1.0, 2.0, 3.0, 5.0, 10.0].into_iter().find(|step| span / step <= most as f64).unwrap_or(20.0)
}

fn multiples(low: f64, high: f64, step: f64) -> Vec<f64> {
    let first = (low / step - 1e-9).ceil();
    (0..64).map(|index| (first + f64::from(index)) * step).take_while(|at| *at <= high + 1e-9).collect()
}

fn even_ticks(low: f64, high: f64, most: usize) -> Vec<f64> {
    let rough = (high - low) / most as f64;
    let power = 10f64.powf(rough.log10().floor());
    let step = [1.0, 2.0, 5.0, 10.0].map(|factor| factor * power);
    multiples(low, high, step.into_iter().find(|step| *step >= rough).unwrap_or(power * 10.0))
}

/// Rounded to what a tick needs, so that 0.30000000000000004 prints as 0.3.
fn short(value: f64) -> f64 {
    format!("{value:.3e}").parse().unwrap_or(value)
}

fn thousands(value: f64) -> String {
    let (value, letter) = scaled(value, 1000.0, &["", " k", " M", " G", " T"]);
    format!("{}{letter}", short(value))
}

fn metric_label(value: f64, base: f64, units: &[&'static str]) -> String {
    let (value, unit) = scaled(value, base, units);
    format!("{} {unit}", short(value))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn labels(scale: Scale, quantity: Quantity, values: &[f64]) -> Vec<String> {
        let axis = Axis::enclosing(scale, quantity, "", values.iter().copied()).unwrap();
        axis.ticks(6).into_iter().map(|at| axis.label(at)).collect()
    }

    #[test]
    fn ticks_are_numbers_people_like() {
        let ns = Quantity::Of(Unit::Nanoseconds);
        assert_eq!(labels(Scale::Log, ns, &[10.0, 1e5]), ["10 ns", "100 ns", "1 µs", "10 µs", "100 µs"]);
        assert_eq!(
            labels(Scale::FromZero, Quantity::Of(Unit::Count), &[4000.0]),
            ["0", "1 k", "2 k", "3 k", "4 k"]
        );
        assert_eq!(labels(Scale::Log, Quantity::Ratio, &[0.9, 2.1]), ["1 ×", "1.5 ×", "2 ×", "2.5 ×"]);
        assert_eq!(
            labels(Scale::Log, Quantity::Of(Unit::Share), &[1e-4, 1.0]),
            ["0.01 %", "0.1 %", "1 %", "10 %", "100 %"]
        );
        assert_eq!(
            labels(Scale::Log, Quantity::Of(Unit::Bytes), &[4096.0, 65536.0]),
            ["4 KiB", "8 KiB", "16 KiB", "32 KiB", "64 KiB"]
        );
    }

    #[test]
    fn what_spans_more_than_two_decades_is_logarithmic() {
        let scale = |values: &[f64]| Scale::wide_or(Scale::FromZero, values.iter().copied());
        assert_eq!(scale(&[1.0, 101.0]), Scale::Log);
        assert_eq!(scale(&[1.0, f64::INFINITY, 101.0]), Scale::Log);
        for values in [&[1.0, 100.0][..], &[0.0, 1e9], &[-1.0, 1e9], &[f64::NAN], &[]] {
            assert_eq!(scale(values), Scale::FromZero, "{values:?}");
        }
    }

    #[test]
    fn without_a_value_there_is_no_axis() {
        assert_eq!(
            Axis::enclosing(Scale::Log, Quantity::Ratio, "", [0.0, -1.0, f64::NAN, f64::INFINITY]),
            None
        );
    }

    proptest! {
        #[test]
        fn any_values_give_a_sane_axis(values in prop::collection::vec(any::<f64>(), 0..20), log: bool) {
            let scale = if log { Scale::Log } else { Scale::Linear };
            if let Some(axis) = Axis::enclosing(scale, Quantity::Of(Unit::Bytes), "", values.iter().copied()) {
                let (low, high) = axis.ends();
                prop_assert!(low < high);
                prop_assert!(axis.ticks(6).len() <= 64);
            }
        }
    }
}
