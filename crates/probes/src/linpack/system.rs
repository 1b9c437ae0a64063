//! The system of equations: random, from its seed, so that it can be made again to check the solution.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A random system A·x = b with all numbers in [−0.5, 0.5), as HPL's.
#[derive(Debug, Clone, Copy)]
pub struct System {
    /// Its order.
    pub n: usize,
    /// All of it follows from this.
    pub seed: u64,
}

impl System {
    /// Writes a column of A.
    pub fn column(self, number: usize, column: &mut [f64]) {
        self.numbers(number, column);
    }

    /// Writes b.
    pub fn right_side(self, side: &mut [f64]) {
        self.numbers(self.n, side);
    }

    fn numbers(self, number: usize, into: &mut [f64]) {
        // Every column has a seed of its own, so threads can make them in any order.
        let mixed = self.seed ^ (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut random = Xoshiro256PlusPlus::seed_from_u64(mixed);
        for value in into.iter_mut().take(self.n) {
            *value = random.random::<f64>() - 0.5;
        }
    }

    /// HPL's scaled residual: ‖A·x − b‖∞ / (ε (‖A‖∞ ‖x‖∞ + ‖b‖∞) n) with ε = 2⁻⁵³. Not a number when x is none.
    pub fn residual(self, x: &[f64]) -> f64 {
        let mut difference = vec![0.0; self.n];
        self.right_side(&mut difference);
        let side = largest(&difference);
        let (mut row_sums, mut column) = (vec![0.0; self.n], vec![0.0; self.n]);
        for (number, x) in x.iter().enumerate().take(self.n) {
            self.column(number, &mut column);
            for ((value, difference), sum) in column.iter().zip(&mut difference).zip(&mut row_sums) {
                *difference -= value * x;
                *sum += value.abs();
            }
        }
        let scale = f64::EPSILON / 2.0 * (largest(&row_sums) * largest(x) + side) * self.n as f64;
        largest(&difference) / scale
    }
}

/// Largest magnitude; not a number when any is.
fn largest(values: &[f64]) -> f64 {
    values.iter().fold(0.0, |most, value| if value.abs() <= most { most } else { value.abs() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_residual_tells_a_solution_from_a_guess() {
        let system = System { n: 2, seed: 3 };
        let (mut first, mut second, mut side) = (vec![0.0; 2], vec![0.0; 2], vec![0.0; 2]);
        system.column(0, &mut first);
        system.column(1, &mut second);
        system.right_side(&mut side);
        let determinant = first[0] * second[1] - second[0] * first[1];
        // Cramer's rule.
        let x = [
            (side[0] * second[1] - second[0] * side[1]) / determinant,
            (first[0] * side[1] - side[0] * first[1]) / determinant,
        ];
        assert!(system.residual(&x) < 16.0, "{}", system.residual(&x));
        assert!(system.residual(&[x[0] + 1e-9, x[1]]) > 16.0);
        assert!(system.residual(&[f64::NAN, 0.0]).is_nan());
        assert!(system.residual(&[0.0, f64::INFINITY]).is_nan());
    }
}
