//! Discrete Fourier transform of a power-of-two number of values: radix 2, decimation in time. Source: Cooley and Tukey
//! 1965. Checked in the tests against the definition. One transform per measurement is wanted, of at most 2^21 values,
//! so speed beyond that of the plain algorithm would serve nobody.

use std::f64::consts::TAU;

/// A complex number: real and imaginary part.
pub(super) type Complex = (f64, f64);

/// Transforms in place: `X[k] = Σ x[n] e^(−2πi k n / N)`. The number of values must be a power of two; any other
/// number is left alone.
pub(super) fn transform(values: &mut [Complex]) {
    let count = values.len();
    if !count.is_power_of_two() || count < 2 {
        return;
    }
    reverse_bits(values);
    let turns: Vec<Complex> = (0..count / 2)
        .map(|index| {
            let (sine, cosine) = (TAU * index as f64 / count as f64).sin_cos();
            (cosine, -sine)
        })
        .collect();
    let mut half = 1;
    while half < count {
        let stride = count / (2 * half);
        for block in values.chunks_exact_mut(2 * half) {
            let (low, high) = block.split_at_mut(half);
            for ((a, b), turn) in low.iter_mut().zip(high).zip(turns.iter().step_by(stride)) {
                let turned = (b.0 * turn.0 - b.1 * turn.1, b.0 * turn.1 + b.1 * turn.0);
                *b = (a.0 - turned.0, a.1 - turned.1);
                *a = (a.0 + turned.0, a.1 + turned.1);
            }
        }
        half *= 2;
    }
}

/// Puts every value where its index, read backwards in binary, says.
fn reverse_bits(values: &mut [Complex]) {
    let shift = usize::BITS - values.len().trailing_zeros();
    for index in 0..values.len() {
        let other = index.reverse_bits() >> shift;
        if other > index {
            values.swap(index, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn by_definition(values: &[Complex]) -> Vec<Complex> {
        let count = values.len();
        let at = |k: usize| {
            values.iter().enumerate().fold((0.0, 0.0), |sum, (n, value)| {
                let (sine, cosine) = (TAU * ((k * n) % count) as f64 / count as f64).sin_cos();
                (sum.0 + value.0 * cosine + value.1 * sine, sum.1 + value.1 * cosine - value.0 * sine)
            })
        };
        (0..count).map(at).collect()
    }

    proptest! {
        #[test]
        fn it_is_what_the_definition_says(power in 0u32..8, seed in prop::collection::vec((-1e3f64..1e3, -1e3f64..1e3), 128)) {
            let mut values = seed;
            values.truncate(1 << power);
            let wanted = by_definition(&values);
            transform(&mut values);
            for (got, wanted) in values.iter().zip(&wanted) {
                prop_assert!((got.0 - wanted.0).hypot(got.1 - wanted.1) < 1e-7, "{got:?} {wanted:?}");
            }
        }
    }
}
